//! The bridges that are connected: their sockets, their last signs of life, and the commands that wait for them.

mod pauses;
mod polls;
mod presence;
mod remote_nodes;
mod signs;
#[cfg(test)]
pub(crate) mod simulated;
mod socket;

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

use dashmap::DashMap;
use dikala_entities::{BridgeId, CallId, CommandId, Millis, Store, bridge};
use dikala_protocol::{Command, CommandKind};
use sea_orm::{ColumnTrait, DbErr, EntityTrait, QueryFilter, QuerySelect};
use tokio::sync::Notify;

use self::{
    pauses::{CHECK_EVERY_MS, PauseDetector},
    presence::Presence,
};
pub use self::{
    polls::Poll,
    remote_nodes::forget_commands,
    socket::{BridgeSocket, Dismissal},
};
use crate::runtime::{
    clock::SharedClock,
    histogram::{ANSWER_US, Distribution, Histogram},
};

#[derive(Debug)]
pub struct Bridges {
    present: DashMap<BridgeId, Presence>,
    next_socket: AtomicU64,
    /// Time from reading a message to writing its answer, by type.
    acknowledged: DashMap<&'static str, Histogram>,
    clock: SharedClock,
    pauses: Mutex<PauseDetector>,
    /// Notified when commands wait that another node must send.
    leaving: Notify,
}

impl Bridges {
    pub fn new(clock: SharedClock) -> Self {
        Self {
            present: DashMap::new(),
            next_socket: 0.into(),
            acknowledged: DashMap::new(),
            clock,
            pauses: Mutex::default(),
            leaving: Notify::new(),
        }
    }

    /// Detects pauses of this process while it is polled.
    pub async fn attend(&self) {
        loop {
            let now = self.clock.now();
            self.pauses().check(now);
            self.clock.sleep_until(now.plus_ms(CHECK_EVERY_MS)).await;
        }
    }

    fn pauses(&self) -> MutexGuard<'_, PauseDetector> {
        self.pauses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time to record for a sign of life read now. Right after a pause of this process, that is the time before the pause.
    pub fn sign_at(&self) -> Millis {
        self.pauses().sign_at(self.clock.now())
    }

    /// True right after a pause: what is read now may have waited for this process.
    pub fn is_settling(&self) -> bool {
        let (mut pauses, now) = (self.pauses(), self.clock.now());
        pauses.sign_at(now);
        pauses.is_settling(now)
    }

    /// Milliseconds since `at` in which this process may not have heard a bridge.
    pub fn unheard_ms_since(&self, at: Millis) -> i64 {
        let mut pauses = self.pauses();
        pauses.sign_at(self.clock.now());
        pauses.unheard_ms_since(at)
    }

    /// Registers a new socket of the bridge. It takes the commands that wait.
    pub fn connected(&self, bridge: BridgeId) -> BridgeSocket {
        let now = self.clock.now();
        let socket = BridgeSocket::new(bridge, self.next_socket.fetch_add(1, Relaxed), now);
        let mut presence = self.present.entry(bridge).or_default();
        presence.connected(socket.clone(), self.sign_at());
        socket
    }

    /// Closes the sockets of bridges whose token was revoked.
    pub async fn dismiss_revoked(&self, store: &Store) -> Result<(), DbErr> {
        let here: Vec<BridgeId> = self
            .present
            .iter()
            .filter(|presence| presence.is_connected())
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
                presence.revoked();
            }
        }
        Ok(())
    }

    /// Closes all sockets when this node lost its lease, so that bridges reconnect to another node.
    pub fn close_all(&self) {
        for mut presence in self.present.iter_mut() {
            presence.close_all();
        }
    }

    /// Records a frame from a socket, or a heartbeat over HTTP.
    pub fn seen(&self, bridge: BridgeId) {
        let mut presence = self.present.entry(bridge).or_default();
        presence.seen(self.sign_at());
    }

    /// Records that messages of the bridge wait unread, because too many are under way: its silence proves nothing.
    pub fn not_read(&self, bridge: BridgeId) {
        let mut presence = self.present.entry(bridge).or_default();
        presence.not_read(self.clock.now());
    }

    /// Milliseconds after `at` until which messages of the bridge waited unread.
    pub fn unread_ms_since(&self, bridge: BridgeId, at: Millis) -> i64 {
        let presence = self.present.get(&bridge);
        presence.map_or(0, |presence| presence.unread_ms_since(at))
    }

    /// Removes a socket; its commands go to the bridge's next newest one.
    pub fn disconnected(&self, socket: &BridgeSocket) {
        if let Some(mut presence) = self.present.get_mut(&socket.bridge) {
            presence.disconnected(socket);
            self.hurry(&presence);
        }
    }

    /// The last sign of life; [`Millis::MIN`] if there never was one.
    pub fn last_seen(&self, bridge: BridgeId) -> Millis {
        let presence = self.present.get(&bridge);
        presence.map_or(Millis::MIN, |presence| presence.last_seen())
    }

    /// The last sign of life of a call that a connected bridge no longer holds. `seen_at` is the call's own last message. If it
    /// came over the present connection, the call was lost just now; else before the bridge came back.
    pub fn last_seen_of_lost(&self, bridge: BridgeId, seen_at: Millis) -> Millis {
        let presence = self.present.get(&bridge);
        presence.map_or(Millis::MIN, |presence| presence.last_seen_of_lost(seen_at))
    }

    /// The bridge listed its calls: from now on, a call that it does not hold was lost just now.
    pub fn listed(&self, bridge: BridgeId) {
        if let Some(mut presence) = self.present.get_mut(&bridge) {
            presence.listed();
        }
    }

    /// Queues a new command for the bridge's newest socket or its next request.
    pub fn command(&self, bridge: BridgeId, call: CallId, kind: CommandKind) {
        let command = Command {
            id: CommandId::new(self.clock.now()),
            call,
            kind,
        };
        self.send(bridge, command);
    }

    /// Like [`Self::command`], for a command that has an id already.
    pub fn send(&self, bridge: BridgeId, command: Command) {
        let mut presence = self.present.entry(bridge).or_default();
        presence.send(command);
        self.hurry(&presence);
    }

    /// Completes when commands wait that another node must send.
    pub async fn leaving(&self) {
        self.leaving.notified().await;
    }

    fn hurry(&self, presence: &Presence) {
        if presence.has_for_remote() {
            self.leaving.notify_one();
        }
    }

    /// Waits for the next command that this socket must write. A bridge's newest socket gets them all.
    pub async fn next_command(&self, socket: &BridgeSocket) -> Command {
        loop {
            if let Some(command) = self.take_command(socket) {
                return command;
            }
            socket.wake.notified().await;
        }
    }

    fn take_command(&self, socket: &BridgeSocket) -> Option<Command> {
        self.present.get_mut(&socket.bridge)?.take(socket)
    }

    /// A command was written to a socket. It is delivered when the bridge [confirmed](Self::confirmed) it.
    pub fn written(&self, socket: &BridgeSocket, command: Command) {
        if let Some(mut presence) = self.present.get_mut(&socket.bridge) {
            presence.written(socket, command);
        }
    }

    /// The bridge received everything written to a socket up to this command.
    pub fn confirmed(&self, socket: &BridgeSocket, command: CommandId) {
        if let Some(mut presence) = self.present.get_mut(&socket.bridge) {
            presence.confirmed(socket, command);
        }
    }

    /// Puts a command that could not be written back at the head of the queue.
    pub fn put_back(&self, socket: &BridgeSocket, command: Command) {
        let mut presence = self.present.entry(socket.bridge).or_default();
        presence.put_back(command);
        self.hurry(&presence);
    }

    /// Takes up to `most` commands for the HTTP transport, if the bridge has no socket.
    pub fn take_commands(&self, bridge: BridgeId, most: usize) -> Vec<Command> {
        let presence = self.present.get_mut(&bridge);
        presence.map_or_else(Vec::new, |mut presence| presence.take_without_socket(most))
    }

    /// True if the bridge has an open socket, here or at another node.
    pub fn is_connected(&self, bridge: BridgeId) -> bool {
        let presence = self.present.get(&bridge);
        presence.is_some_and(|presence| presence.is_connected() || presence.is_remote())
    }

    /// Bridges with an open socket at this node.
    pub fn connected_count(&self) -> usize {
        self.present
            .iter()
            .filter(|presence| presence.is_connected())
            .count()
    }

    /// Records that the answer to a message was written. `read_at` is when the message was read.
    pub fn acknowledged(&self, kind: &'static str, read_at: Instant) {
        let times = self.acknowledged.entry(kind);
        times
            .or_insert_with(|| Histogram::new(ANSWER_US))
            .observe_since(read_at);
    }

    /// Time from reading a message to writing its answer, in microseconds, by type.
    pub fn acknowledgements(&self) -> BTreeMap<&'static str, Distribution> {
        let times = self.acknowledged.iter();
        times.map(|times| (*times.key(), times.reading())).collect()
    }

    /// The newest sign of life of any bridge; `None` if there never was one.
    pub fn newest_sign(&self) -> Option<Millis> {
        let signs = self.present.iter().map(|bridge| bridge.last_seen());
        signs.max().filter(|at| *at > Millis::MIN)
    }

    /// Open sockets of all bridges at this node.
    pub fn sockets(&self) -> usize {
        let present = self.present.iter();
        present.map(|presence| presence.sockets()).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use dikala_entities::HangupReason;
    use futures_util::FutureExt;

    use super::{
        presence::{RemotePresence, SOCKETS_MAX},
        *,
    };
    use crate::runtime::clock::{Clock, SystemClock};

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

    /// The commands that a socket can take without waiting.
    fn take(bridges: &Bridges, socket: &BridgeSocket) -> Vec<CommandId> {
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
    fn a_socket_is_told_once_and_its_successor_again() {
        let (bridges, bridge) = bridges();
        let command = Command {
            id: CommandId::new(SystemClock.now()),
            call: CallId::new(SystemClock.now()),
            kind: CommandKind::Hangup {
                reason: HangupReason::Requested,
            },
        };
        let first = bridges.connected(bridge);
        bridges.send(bridge, command.clone());
        assert_eq!(take(&bridges, &first), [command.id]);
        bridges.written(&first, command.clone());
        bridges.send(bridge, command.clone());
        assert!(take(&bridges, &first).is_empty());
        let second = bridges.connected(bridge);
        bridges.send(bridge, command.clone());
        assert_eq!(take(&bridges, &second), [command.id]);
    }

    /// Unconfirmed commands are sent again to the socket that replaces a dead one, here or elsewhere. Confirmed ones are not.
    #[test]
    fn unconfirmed_commands_of_a_dead_socket_are_sent_again() {
        let (bridges, bridge) = bridges();
        let first = bridges.connected(bridge);
        let ids = send(&bridges, bridge, 5);
        for _ in 0..4 {
            let command = bridges.next_command(&first).now_or_never();
            bridges.written(&first, command.expect("there are five"));
        }
        bridges.confirmed(&first, ids[1]);
        let second = bridges.connected(bridge);
        assert_eq!(take(&bridges, &second), ids[2..]);
        // A late confirmation from the old socket has no effect.
        bridges.confirmed(&first, ids[3]);
        let [command] = &send_and_take(&bridges, &second)[..] else {
            panic!("one was sent");
        };
        bridges.written(&second, command.clone());
        bridges.disconnected(&second);
        bridges.disconnected(&first);
        let mut presence = bridges.present.get_mut(&bridge).expect("is known");
        let goes = presence.take_for_remote();
        assert_eq!(goes.len(), 1);
        assert!(goes.contains(command));
    }

    fn send_and_take(bridges: &Bridges, socket: &BridgeSocket) -> Vec<Command> {
        send(bridges, socket.bridge(), 1);
        bridges
            .next_command(socket)
            .now_or_never()
            .into_iter()
            .collect()
    }

    #[test]
    fn a_bridge_at_another_node_lives_and_its_commands_go_there() {
        let (bridges, bridge) = bridges();
        let old = bridges.connected(bridge);
        let long_ago = SystemClock.now().plus_ms(-60_000);
        let remote = |is_connected| RemotePresence {
            is_connected,
            takes_commands: is_connected,
            last_seen: long_ago,
        };
        let found = |is_connected, has_node| {
            let mut presence = bridges.present.get_mut(&bridge).expect("is known");
            presence.set_remote(remote(is_connected), has_node);
            presence.take_for_remote().len()
        };
        send(&bridges, bridge, 2);
        assert_eq!(found(false, true), 0, "the newest socket is here");
        assert_eq!(found(true, true), 2);
        bridges.disconnected(&old);
        assert!(bridges.is_connected(bridge), "it has a socket there");
        send(&bridges, bridge, 1);
        assert_eq!(found(false, false), 1, "it may come back anywhere");
    }

    #[test]
    fn a_bridge_keeps_its_newest_sockets() {
        let (bridges, bridge) = bridges();
        let sockets: Vec<BridgeSocket> = (0..SOCKETS_MAX + 2)
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
        bridges.disconnected(&new);
        assert_eq!(take(&bridges, &old), sent);
        bridges.disconnected(&old);
        let sent = send(&bridges, bridge, 3);
        let taken = bridges.take_commands(bridge, 2);
        assert_eq!((taken[0].id, taken[1].id), (sent[0], sent[1]));
        assert_eq!(take(&bridges, &bridges.connected(bridge)), sent[2..]);
    }
}
