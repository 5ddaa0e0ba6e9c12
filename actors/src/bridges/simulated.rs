//! Replaces the bridges' tables in a simulation. The real presence decides.

use dikala_entities::{BridgeId, CommandId, Millis};
use dikala_protocol::Command;

use super::{
    BridgeSocket, Bridges,
    remote_nodes::{PUNCTUAL_MS, RemoteBridgeRow},
};
use crate::runtime::simulated::{
    tables::Tables,
    wire::{NoAnswer, SimulatedNetwork},
};

impl Bridges {
    /// Replaces [`store_last_seen`](Self::store_last_seen).
    pub(crate) async fn store_signs(
        &self,
        wire: &SimulatedNetwork<Tables>,
    ) -> Result<(), NoAnswer> {
        let signs = self.unstored();
        if signs.is_empty() {
            return Ok(());
        }
        let written = signs.clone();
        wire.ask("signs", move |tables, _| {
            for (bridge, seen) in written {
                let row = tables.bridges.entry(bridge).or_default();
                row.last_seen = row.last_seen.max(seen);
            }
        })
        .await?;
        self.stored(signs);
        Ok(())
    }

    /// Replaces [`recover`](Self::recover).
    pub(crate) async fn recover_signs(
        &self,
        wire: &SimulatedNetwork<Tables>,
    ) -> Result<(), NoAnswer> {
        let rows = wire
            .ask("bridges", |tables, _| tables.bridges.clone())
            .await?;
        for (bridge, row) in rows {
            let seen = row.last_seen.min(self.clock.now());
            self.present.entry(bridge).or_default().recover(seen);
        }
        Ok(())
    }

    /// Replaces [`read_remote_bridges`](Self::read_remote_bridges).
    pub(crate) async fn look_for(
        &self,
        wire: &SimulatedNetwork<Tables>,
        me: &str,
    ) -> Result<(), NoAnswer> {
        let rows = wire
            .ask("bridges", |tables, now| {
                let read =
                    |(id, row): (&BridgeId, &crate::runtime::simulated::tables::BridgeRow)| {
                        RemoteBridgeRow {
                            id: *id,
                            last_seen_at: Some(row.last_seen),
                            node: row.node.clone(),
                            is_alive: row
                                .node
                                .as_ref()
                                .is_some_and(|node| tables.nodes.contains_key(node)),
                            is_punctual: row
                                .node
                                .as_ref()
                                .and_then(|node| tables.nodes.get(node))
                                .is_some_and(|until| *until > now + PUNCTUAL_MS),
                        }
                    };
                tables
                    .bridges
                    .iter()
                    .map(read)
                    .collect::<Vec<RemoteBridgeRow>>()
            })
            .await?;
        rows.into_iter().for_each(|row| self.heard(row, me));
        Ok(())
    }

    /// Replaces [`publish`](Self::publish).
    pub(crate) async fn publish_to(
        &self,
        wire: &SimulatedNetwork<Tables>,
        me: &str,
    ) -> Result<(), NoAnswer> {
        let changed: Vec<(BridgeId, Option<u64>, Millis)> = self
            .present
            .iter()
            .filter(|presence| presence.unpublished().is_some())
            .map(|presence| {
                let since = presence.newest_since().unwrap_or(Millis::MIN);
                (*presence.key(), presence.newest(), since)
            })
            .collect();
        if changed.is_empty() {
            return Ok(());
        }
        let (written, me) = (changed.clone(), me.to_owned());
        wire.ask("publish", move |tables, _| {
            for (bridge, newest, since) in written {
                let row = tables.bridges.entry(bridge).or_default();
                let lives = |node: &String| *node != me && tables.nodes.contains_key(node);
                let is_elsewhere = row.node.as_ref().is_some_and(lives);
                if newest.is_some() {
                    if !is_elsewhere || row.connected_at <= since {
                        row.node = Some(me.clone());
                        row.connected_at = since;
                    }
                } else if row.node.as_ref() == Some(&me) {
                    row.node = None;
                }
            }
        })
        .await?;
        for (bridge, newest, _) in changed {
            if let Some(mut presence) = self.present.get_mut(&bridge) {
                presence.published(newest);
            }
        }
        Ok(())
    }

    /// Replaces [`send_to_remote_nodes`](Self::send_to_remote_nodes) and [`receive`](Self::receive).
    pub(crate) async fn exchange(&self, wire: &SimulatedNetwork<Tables>) -> Result<(), NoAnswer> {
        let mut away: Vec<(BridgeId, Vec<Command>)> = Vec::new();
        let mut done: Vec<(BridgeId, Vec<CommandId>)> = Vec::new();
        let mut here = Vec::new();
        for mut presence in self.present.iter_mut() {
            away.push((*presence.key(), presence.take_for_remote()));
            done.push((*presence.key(), presence.take_handed_over()));
            if presence.is_newest_here() {
                here.push(*presence.key());
            }
        }
        away.retain(|(_, commands)| !commands.is_empty());
        done.retain(|(_, commands)| !commands.is_empty());
        if away.is_empty() && done.is_empty() && here.is_empty() {
            return Ok(());
        }
        let (sent, removed) = (away.clone(), done.clone());
        let found = wire.ask("commands", move |tables, _| {
            exchange(tables, &sent, &removed, &here)
        });
        match found.await {
            Ok(found) => {
                for (bridge, ids) in done {
                    self.present.entry(bridge).or_default().removed(&ids);
                }
                for (bridge, command) in found {
                    let mut presence = self.present.entry(bridge).or_default();
                    presence.send_from_table(command);
                }
                Ok(())
            }
            Err(NoAnswer) => {
                for (bridge, commands) in away {
                    self.present.entry(bridge).or_default().take_back(commands);
                }
                for (bridge, ids) in done {
                    let mut presence = self.present.entry(bridge).or_default();
                    ids.into_iter().for_each(|id| presence.handed_over(id));
                }
                Err(NoAnswer)
            }
        }
    }

    /// Takes the commands that a socket must write now, and records them as received.
    pub(crate) fn take_all(&self, socket: &BridgeSocket) -> Vec<Command> {
        let taken: Vec<Command> = std::iter::from_fn(|| self.take_command(socket)).collect();
        for command in &taken {
            let mut presence = self.present.entry(socket.bridge).or_default();
            presence.handed_over(command.id);
        }
        taken
    }
}

fn exchange(
    tables: &mut Tables,
    sent: &[(BridgeId, Vec<Command>)],
    removed: &[(BridgeId, Vec<CommandId>)],
    here: &[BridgeId],
) -> Vec<(BridgeId, Command)> {
    let read = |json: &String| serde_json::from_str::<Command>(json).expect("a command");
    for (bridge, commands) in sent {
        let row = tables.bridges.entry(*bridge).or_default();
        for command in commands {
            if row
                .commands
                .iter()
                .all(|known| read(known).id != command.id)
            {
                let json = serde_json::to_string(command).expect("plain");
                row.commands.push(json);
            }
        }
    }
    for (bridge, ids) in removed {
        let row = tables.bridges.entry(*bridge).or_default();
        row.commands.retain(|known| !ids.contains(&read(known).id));
    }
    let mut found = Vec::new();
    for bridge in here {
        let row = tables.bridges.entry(*bridge).or_default();
        found.extend(row.commands.iter().map(|json| (*bridge, read(json))));
    }
    found
}
