//! The bridges that are here now: their sockets, their signs of life and the commands that wait for them.

use std::{collections::VecDeque, sync::Arc};

use dashmap::DashMap;
use dikala_entities::{
    BridgeId, CallId, CommandId, HangupReason, Millis, PhoneNumber, Store, bridge,
    store::{Kind, json_rows, json_statement},
};
use sea_orm::{ColumnTrait, ConnectionTrait, DbErr, EntityTrait, QueryFilter, QuerySelect};
use serde::Serialize;
use tokio::sync::{Notify, watch};

use crate::{call::Sign, clock::SharedClock};

/// Commands that wait for a bridge. Past that the oldest is dropped: a hang-up is carried out by the engine anyway, a warning
/// is soon out of date.
const WAITING_MAX: usize = 10_000;
/// Sockets of one bridge. One more takes the place of the oldest, which may be long dead.
const SOCKETS_MAX: usize = 8;

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

/// An open socket of a bridge.
#[derive(Clone, Debug)]
pub struct Socket {
    bridge: BridgeId,
    number: u64,
    /// There may be a command to take.
    wake: Arc<Notify>,
    dismissal: Arc<watch::Sender<Option<Dismissal>>>,
}

/// Why a socket is closed from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dismissal {
    /// The bridge's token is not in force any more.
    Revoked,
    /// The bridge opened more sockets than it may have.
    Replaced,
}

impl Socket {
    /// Completes when the socket is to be closed.
    pub async fn dismissed(&self) -> Dismissal {
        let mut dismissal = self.dismissal.subscribe();
        let said = dismissal.wait_for(Option::is_some).await.map(|said| *said);
        match said {
            Ok(Some(dismissal)) => dismissal,
            // The sender lives in this socket.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    fn dismiss(&self, dismissal: Dismissal) {
        self.dismissal.send_replace(Some(dismissal));
    }
}

#[derive(Debug, Default)]
struct Presence {
    /// Oldest first; commands go to the newest.
    sockets: Vec<Socket>,
    last_sign: Millis,
    /// When the newest socket began.
    connected_at: Millis,
    /// The last sign before the bridge came back: what it does not hold any more was lost then.
    sign_before_return: Millis,
    stored_sign: Millis,
    waiting: VecDeque<Command>,
}

impl Presence {
    fn wake_newest(&self) {
        if let Some(newest) = self.sockets.last() {
            newest.wake.notify_one();
        }
    }
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
            // No sign of life lies in the future; the wall clock may have been set back meanwhile.
            if let Some(seen) = bridge.last_seen_at.map(|seen| seen.min(self.clock.now())) {
                let mut presence = self.present.entry(bridge.id).or_default();
                presence.last_sign = presence.last_sign.max(seen);
                presence.sign_before_return = presence.last_sign;
                presence.stored_sign = seen;
            }
        }
        Ok(())
    }

    /// A socket of the bridge is open; commands that waited are for it to take.
    pub fn connected(&self, bridge: BridgeId) -> Socket {
        let number = &self.next_socket;
        let socket = Socket {
            bridge,
            number: number.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
            wake: Arc::new(Notify::new()),
            dismissal: Arc::new(watch::Sender::new(None)),
        };
        let mut presence = self.present.entry(bridge).or_default();
        // An older socket that is still listed may be long dead: its last frame is all that is known of it.
        presence.sign_before_return = presence.last_sign;
        presence.connected_at = self.clock.now();
        presence.last_sign = presence.connected_at;
        if presence.sockets.len() >= SOCKETS_MAX {
            presence.sockets.remove(0).dismiss(Dismissal::Replaced);
        }
        presence.sockets.push(socket.clone());
        socket
    }

    /// Closes the sockets of bridges whose token was revoked.
    pub async fn dismiss_revoked(&self, store: &Store) -> Result<(), DbErr> {
        let here: Vec<BridgeId> = self
            .present
            .iter()
            .filter(|presence| !presence.sockets.is_empty())
            .map(|presence| *presence.key())
            .collect();
        if here.is_empty() {
            return Ok(());
        }
        let revoked: Vec<BridgeId> = bridge::Entity::find()
            .filter(bridge::Column::Id.is_in(here))
            .filter(bridge::Column::RevokedAt.is_not_null())
            .select_only()
            .column(bridge::Column::Id)
            .into_tuple()
            .all(store.reader())
            .await?;
        for bridge in revoked {
            if let Some(mut presence) = self.present.get_mut(&bridge) {
                presence.last_sign = self.clock.now();
                for socket in presence.sockets.drain(..) {
                    socket.dismiss(Dismissal::Revoked);
                }
            }
        }
        Ok(())
    }

    /// A frame came in over a socket, or a heartbeat over HTTP.
    pub fn seen(&self, bridge: BridgeId) {
        let mut presence = self.present.entry(bridge).or_default();
        if presence.sockets.is_empty() {
            presence.sign_before_return = presence.last_sign;
        }
        presence.last_sign = self.clock.now();
    }

    /// A socket is gone; its commands are for the next newest. `silent` where nobody closed it: then the last frame was the
    /// last sign, not this moment.
    pub fn disconnected(&self, socket: &Socket, silent: bool) {
        if let Some(mut presence) = self.present.get_mut(&socket.bridge) {
            presence.sockets.retain(|s| s.number != socket.number);
            presence.wake_newest();
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

    /// Makes a command, for the bridge's newest socket or its next visit.
    pub fn command(&self, bridge: BridgeId, call: CallId, kind: CommandKind) {
        let command = Command {
            id: CommandId::new(self.clock.now()),
            call,
            kind,
        };
        self.send(bridge, command);
    }

    /// The same with a command that has its id already.
    pub fn send(&self, bridge: BridgeId, command: Command) {
        let mut presence = self.present.entry(bridge).or_default();
        if presence.waiting.len() >= WAITING_MAX {
            presence.waiting.pop_front();
        }
        presence.waiting.push_back(command);
        presence.wake_newest();
    }

    /// Waits for the next command that this socket has to write; a bridge's newest socket takes them all.
    pub async fn next_command(&self, socket: &Socket) -> Command {
        loop {
            if let Some(command) = self.take_command(socket) {
                return command;
            }
            socket.wake.notified().await;
        }
    }

    /// A command that was taken and could not be written is the next one again.
    pub fn put_back(&self, socket: &Socket, command: Command) {
        let mut presence = self.present.entry(socket.bridge).or_default();
        presence.waiting.push_front(command);
        presence.wake_newest();
    }

    fn take_command(&self, socket: &Socket) -> Option<Command> {
        let mut presence = self.present.get_mut(&socket.bridge)?;
        let newest = presence.sockets.last()?.number;
        (newest == socket.number)
            .then(|| presence.waiting.pop_front())
            .flatten()
    }

    /// Takes up to `most` commands that wait for a bridge without a socket; for the HTTP transport.
    pub fn take_commands(&self, bridge: BridgeId, most: usize) -> Vec<Command> {
        let presence = self.present.get_mut(&bridge);
        let absent = presence.filter(|presence| presence.sockets.is_empty());
        absent.map_or_else(Vec::new, |mut presence| {
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

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::clock::{Clock, SystemClock};

    fn bridges() -> (Bridges, BridgeId) {
        let bridge = BridgeId::new(SystemClock.now());
        (Bridges::new(Arc::new(SystemClock)), bridge)
    }

    fn send(bridges: &Bridges, bridge: BridgeId, count: usize) -> Vec<CommandId> {
        let commands: Vec<Command> = (0..count)
            .map(|_| Command {
                id: CommandId::new(SystemClock.now()),
                call: CallId::new(SystemClock.now()),
                kind: CommandKind::Hangup {
                    reason: HangupReason::Requested,
                },
            })
            .collect();
        let ids = commands.iter().map(|command| command.id).collect();
        for command in commands {
            bridges.send(bridge, command);
        }
        ids
    }

    /// What a socket can take without waiting.
    fn take(bridges: &Bridges, socket: &Socket) -> Vec<CommandId> {
        std::iter::from_fn(|| bridges.next_command(socket).now_or_never())
            .map(|command| command.id)
            .collect()
    }

    #[test]
    fn a_burst_reaches_the_socket_whole_and_in_order() {
        let (bridges, bridge) = bridges();
        let socket = bridges.connected(bridge);
        let sent = send(&bridges, bridge, 5_000);
        assert_eq!(take(&bridges, &socket), sent);
    }

    #[test]
    fn a_bridge_keeps_its_newest_sockets() {
        let (bridges, bridge) = bridges();
        let sockets: Vec<Socket> = (0..SOCKETS_MAX + 2)
            .map(|_| bridges.connected(bridge))
            .collect();
        for (number, socket) in sockets.iter().enumerate() {
            let dismissed = (number < 2).then_some(Dismissal::Replaced);
            assert_eq!(socket.dismissed().now_or_never(), dismissed);
        }
    }

    #[test]
    fn commands_are_for_the_newest_socket_and_without_one_for_the_next_answer() {
        let (bridges, bridge) = bridges();
        let (old, new) = (bridges.connected(bridge), bridges.connected(bridge));
        let sent = send(&bridges, bridge, 3);
        assert!(take(&bridges, &old).is_empty());
        assert!(bridges.take_commands(bridge, 100).is_empty());
        bridges.disconnected(&new, false);
        assert_eq!(take(&bridges, &old), sent);
        bridges.disconnected(&old, false);
        let sent = send(&bridges, bridge, 3);
        let taken = bridges.take_commands(bridge, 2);
        assert_eq!((taken[0].id, taken[1].id), (sent[0], sent[1]));
        assert_eq!(take(&bridges, &bridges.connected(bridge)), sent[2..]);
    }
}
