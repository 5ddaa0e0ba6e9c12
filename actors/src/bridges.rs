//! The bridges that are here now: their sockets, their signs of life and the commands that wait for them.

use std::collections::VecDeque;

use dashmap::DashMap;
use dikala_entities::{
    BridgeId, CallId, CommandId, HangupReason, Millis, PhoneNumber, Store, bridge,
    store::{Kind, json_rows, json_statement},
};
use sea_orm::{ConnectionTrait, DbErr, EntityTrait};
use serde::Serialize;
use tokio::sync::mpsc;

use crate::{call::Sign, clock::SharedClock};

/// Commands that wait for a bridge without a socket. Past that the oldest is dropped: a hang-up is carried out by the engine
/// anyway, a warning is soon out of date.
const WAITING_MAX: usize = 10_000;

/// What a bridge is told to do with a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Command {
    pub id: CommandId,
    #[serde(flatten)]
    pub kind: CommandKind,
    #[serde(rename = "callId")]
    pub call: CallId,
}

/// The kinds of command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "command", rename_all = "lowercase")]
pub enum CommandKind {
    /// End the call and confirm with that reason.
    Hangup { reason: HangupReason },
    /// Let the agent say goodbye.
    #[serde(rename_all = "camelCase")]
    Warn {
        reason: HangupReason,
        seconds_left: i64,
    },
    /// Connect the caller to a person.
    Transfer { to: PhoneNumber },
}

/// Names a socket of a bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketId(u64);

#[derive(Debug, Default)]
struct Presence {
    /// Oldest first; commands go to the newest.
    sockets: Vec<(SocketId, mpsc::Sender<Command>)>,
    last_sign: Millis,
    /// When the present sockets began.
    connected_at: Millis,
    /// The last sign before the bridge came back: what it does not hold any more was lost then.
    sign_before_return: Millis,
    stored_sign: Millis,
    waiting: VecDeque<Command>,
}

/// All bridges, by id.
#[derive(Debug)]
pub struct Bridges {
    present: DashMap<BridgeId, Presence>,
    next_socket: std::sync::atomic::AtomicU64,
    clock: SharedClock,
}

impl Bridges {
    /// Nobody is here yet.
    pub fn new(clock: SharedClock) -> Self {
        Self {
            present: DashMap::new(),
            next_socket: 0.into(),
            clock,
        }
    }

    /// Reads when each bridge was last seen by an earlier run.
    pub async fn recover(&self, store: &Store) -> Result<(), DbErr> {
        for bridge in bridge::Entity::find().all(store.reader()).await? {
            if let Some(seen) = bridge.last_seen_at {
                let mut presence = self.present.entry(bridge.id).or_default();
                presence.last_sign = presence.last_sign.max(seen);
                presence.sign_before_return = presence.last_sign;
                presence.stored_sign = seen;
            }
        }
        Ok(())
    }

    /// A socket of the bridge is open; commands that waited are sent to it.
    pub fn connected(&self, bridge: BridgeId, commands: mpsc::Sender<Command>) -> SocketId {
        let socket = SocketId(
            self.next_socket
                .fetch_add(1, std::sync::atomic::Ordering::Relaxed),
        );
        let mut presence = self.present.entry(bridge).or_default();
        if presence.sockets.is_empty() {
            presence.sign_before_return = presence.last_sign;
            presence.connected_at = self.clock.now();
        }
        presence.last_sign = self.clock.now();
        while let Some(command) = presence.waiting.pop_front() {
            if let Err(refused) = commands.try_send(command) {
                presence.waiting.push_front(refused.into_inner());
                break;
            }
        }
        presence.sockets.push((socket, commands));
        socket
    }

    /// A frame came in over a socket, or a heartbeat over HTTP.
    pub fn seen(&self, bridge: BridgeId) {
        let mut presence = self.present.entry(bridge).or_default();
        if presence.sockets.is_empty() {
            presence.sign_before_return = presence.last_sign;
        }
        presence.last_sign = self.clock.now();
    }

    /// A socket is gone. `silent` where nobody closed it: then the last frame was the last sign, not this moment.
    pub fn disconnected(&self, bridge: BridgeId, socket: SocketId, silent: bool) {
        if let Some(mut presence) = self.present.get_mut(&bridge) {
            presence.sockets.retain(|(id, _)| *id != socket);
            if !silent {
                presence.last_sign = self.clock.now();
            }
        }
    }

    /// The last sign of life. An open socket is one at every moment.
    pub fn sign(&self, bridge: BridgeId) -> Sign {
        let at = self.present.get(&bridge).map_or(Millis::MIN, |presence| {
            if presence.sockets.is_empty() {
                presence.last_sign
            } else {
                self.clock.now()
            }
        });
        Sign { at }
    }

    /// The last sign of life of a call that the bridge, here now, does not hold any more. `seen_at` is the call's own last
    /// message: where that came over the present connection the call was lost just now, else before the bridge came back.
    pub fn sign_of_lost(&self, bridge: BridgeId, seen_at: Millis) -> Sign {
        let at = self.present.get(&bridge).map_or(Millis::MIN, |presence| {
            let here = !presence.sockets.is_empty() && seen_at >= presence.connected_at;
            if here {
                self.clock.now()
            } else {
                presence.sign_before_return
            }
        });
        Sign { at }
    }

    /// The bridge listed what it holds: every call that it did not lose was held at this moment.
    pub fn listed(&self, bridge: BridgeId) {
        if let Some(mut presence) = self.present.get_mut(&bridge) {
            presence.connected_at = Millis::MIN;
        }
    }

    /// Sends a command to the bridge's newest socket, or keeps it for the bridge's next visit.
    pub fn command(&self, bridge: BridgeId, call: CallId, kind: CommandKind) {
        let command = Command {
            id: CommandId::new(self.clock.now()),
            call,
            kind,
        };
        self.send(bridge, command);
    }

    /// The same with a command that has its id already.
    pub fn send(&self, bridge: BridgeId, mut command: Command) {
        let mut presence = self.present.entry(bridge).or_default();
        for (_, socket) in presence.sockets.iter().rev() {
            match socket.try_send(command) {
                Ok(()) => return,
                Err(refused) => command = refused.into_inner(),
            }
        }
        if presence.waiting.len() >= WAITING_MAX {
            presence.waiting.pop_front();
        }
        presence.waiting.push_back(command);
    }

    /// Takes up to `most` commands that wait; for the HTTP transport.
    pub fn take_commands(&self, bridge: BridgeId, most: usize) -> Vec<Command> {
        self.present
            .get_mut(&bridge)
            .map_or_else(Vec::new, |mut presence| {
                let count = presence.waiting.len().min(most);
                presence.waiting.drain(..count).collect()
            })
    }

    /// Bridges with an open socket now.
    pub fn connected_count(&self) -> usize {
        self.present
            .iter()
            .filter(|presence| !presence.sockets.is_empty())
            .count()
    }

    /// Writes down the signs of life that changed since the last time, so that calls are billed rightly after a crash.
    pub async fn store_signs(&self, store: &Store) -> Result<(), DbErr> {
        #[derive(Serialize)]
        struct Row {
            id: BridgeId,
            seen: i64,
        }
        let rows: Vec<Row> = self
            .present
            .iter()
            .map(|presence| {
                (
                    *presence.key(),
                    self.current(&presence),
                    presence.stored_sign,
                )
            })
            .filter(|(_, seen, stored)| seen > stored)
            .map(|(id, seen, _)| Row {
                id,
                seen: seen.as_i64(),
            })
            .collect();
        if rows.is_empty() {
            return Ok(());
        }
        let backend = store.backend();
        let source = json_rows(backend, &[("id", Kind::Text), ("seen", Kind::BigInt)]);
        let sql = format!(
            "UPDATE bridges SET last_seen_at = rows.seen FROM {source} WHERE bridges.id = rows.id"
        );
        store
            .writer()
            .execute_raw(json_statement(backend, sql, &rows)?)
            .await?;
        for row in rows {
            if let Some(mut presence) = self.present.get_mut(&row.id) {
                presence.stored_sign = Millis::from_i64(row.seen);
            }
        }
        Ok(())
    }

    fn current(&self, presence: &Presence) -> Millis {
        if presence.sockets.is_empty() {
            presence.last_sign
        } else {
            self.clock.now()
        }
    }
}
