//! The state of one bridge: its sockets, its last sign of life, and its waiting commands. Callers pass the time, and for signs
//! of life the time that they prove.
//!
//! A sign of life is a frame from a socket, or a heartbeat over HTTP. An open socket alone is not one: the service pings it
//! every five seconds, and the pong is.

use std::collections::{BTreeSet, VecDeque};

use dikala_entities::{CommandId, Millis};
use dikala_protocol::Command;

use super::socket::{BridgeSocket, Dismissal};

/// Waiting commands per bridge. Beyond that the oldest is dropped: the service ends calls without the bridge too, and warnings
/// soon expire.
const WAITING_MAX: usize = 10_000;
/// Remembered ids of commands that the newest socket has.
const DELIVERED_MAX: usize = 1_000;
/// Commands written to sockets and unconfirmed. Beyond that the oldest counts as confirmed.
const WRITTEN_MAX: usize = 1_000;
/// Sockets per bridge. One more replaces the oldest, which may be dead.
pub(super) const SOCKETS_MAX: usize = 8;

#[derive(Debug, Default)]
pub(super) struct Presence {
    /// Oldest first; commands go to the newest.
    sockets: Vec<BridgeSocket>,
    last_seen: Millis,
    /// The time of the newest socket's first sign of life.
    connected_at: Millis,
    /// The last sign of life before the bridge came back. Calls that it no longer holds were lost then.
    seen_before_return: Millis,
    /// The last sign of life in the table.
    stored: Millis,
    /// When messages waited unread for the last time.
    unread_at: Millis,
    waiting: VecDeque<Command>,
    remote: RemotePresence,
    /// The newest socket published in the table; `None`: published that there is none here.
    published: Option<u64>,
    /// Commands read from the table that are still there.
    from_table: BTreeSet<CommandId>,
    /// Those of `from_table` that the bridge received.
    handed_over: Vec<CommandId>,
    /// Set after commands were given over HTTP: some may still be in the table.
    has_given: bool,
    /// Unconfirmed commands with the number of their socket, oldest first.
    written: VecDeque<(u64, Command)>,
    /// Commands that the socket `delivered_to` has.
    delivered: BTreeSet<CommandId>,
    delivered_to: Option<u64>,
}

/// A bridge's state at other nodes, as read from the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RemotePresence {
    /// Its newest socket is at another node that has not been ended.
    pub(super) is_connected: bool,
    /// The node is not late with its lease, so it takes commands.
    pub(super) takes_commands: bool,
    pub(super) last_seen: Millis,
}

impl Presence {
    /// Restores the last sign of life that an earlier run stored.
    pub(super) fn recover(&mut self, seen: Millis) {
        self.remote.last_seen = seen;
        self.seen_before_return = seen;
        self.stored = seen;
    }

    pub(super) fn sockets(&self) -> usize {
        self.sockets.len()
    }

    pub(super) fn is_connected(&self) -> bool {
        !self.sockets.is_empty()
    }

    /// Applies the state at other nodes.
    pub(super) fn set_remote(&mut self, remote: RemotePresence, has_node: bool) {
        if !has_node && self.is_connected() {
            // The newest socket was at a node that is gone, so one of these is the newest now.
            self.published = None;
        }
        self.remote = remote;
        self.wake_newest();
    }

    /// Another node has the newest socket: waiting commands go there.
    pub(super) fn mark_superseded(&mut self) {
        self.remote.is_connected = true;
        self.remote.takes_commands = true;
    }

    pub(super) fn is_remote(&self) -> bool {
        self.remote.is_connected
    }

    /// True if commands can go to a socket, here or elsewhere.
    pub(super) fn has_socket_for_commands(&self) -> bool {
        self.is_connected() || self.remote.takes_commands
    }

    /// No other node can have the bridge.
    pub(super) fn alone(&mut self) {
        self.remote.is_connected = false;
        self.remote.takes_commands = false;
        self.wake_newest();
    }

    /// The fact to publish: whether the newest socket is here. `None` if it is published already.
    pub(super) fn unpublished(&self) -> Option<bool> {
        let newest = self.newest();
        match (newest, self.published) {
            (Some(newest), Some(published)) if newest <= published => None,
            (None, None) => None,
            (newest, _) => Some(newest.is_some()),
        }
    }

    pub(super) fn newest(&self) -> Option<u64> {
        self.sockets.last().map(|socket| socket.number)
    }

    /// The time at which the newest socket was opened.
    pub(super) fn newest_since(&self) -> Option<Millis> {
        self.sockets.last().map(|socket| socket.opened_at)
    }

    /// The table has this now. If another node's socket is newer, the next read of the table shows it.
    pub(super) fn published(&mut self, newest: Option<u64>) {
        self.published = newest;
        if newest.is_some() {
            self.alone();
        }
    }

    pub(super) fn connected(&mut self, socket: BridgeSocket, sign_at: Millis) {
        self.seen_before_return = self.last_seen();
        self.connected_at = sign_at;
        self.was_there(sign_at);
        // A bridge that opens another socket may not have received what was written to the previous one.
        self.send_again(|_| true);
        if self.sockets.len() >= SOCKETS_MAX {
            self.sockets.remove(0).dismiss(Dismissal::Replaced);
        }
        self.sockets.push(socket);
    }

    /// Its commands go to the next newest socket.
    pub(super) fn disconnected(&mut self, socket: &BridgeSocket) {
        self.sockets.retain(|other| other.number != socket.number);
        self.send_again(|number| number == socket.number);
        self.wake_newest();
    }

    pub(super) fn close_all(&mut self) {
        for socket in self.sockets.drain(..) {
            socket.dismiss(Dismissal::Lost);
        }
    }

    pub(super) fn revoked(&mut self) {
        for socket in self.sockets.drain(..) {
            socket.dismiss(Dismissal::Revoked);
        }
    }

    pub(super) fn seen(&mut self, sign_at: Millis) {
        if !self.is_connected() {
            self.seen_before_return = self.last_seen();
        }
        self.was_there(sign_at);
    }

    pub(super) fn not_read(&mut self, now: Millis) {
        self.unread_at = now;
    }

    pub(super) fn unread_ms_since(&self, at: Millis) -> i64 {
        self.unread_at.since(at).max(0)
    }

    fn was_there(&mut self, at: Millis) {
        self.last_seen = self.last_seen.max(at);
    }

    /// The last sign of life at any node.
    pub(super) fn last_seen(&self) -> Millis {
        self.last_seen.max(self.remote.last_seen)
    }

    /// The last sign of life of a call that the bridge no longer holds and whose own last message came at `seen_at`.
    pub(super) fn last_seen_of_lost(&self, seen_at: Millis) -> Millis {
        if self.is_connected() && seen_at >= self.connected_at {
            self.last_seen
        } else {
            self.seen_before_return
        }
    }

    pub(super) fn listed(&mut self) {
        self.connected_at = Millis::MIN;
    }

    /// The last sign of life, unless the table has it.
    pub(super) fn unstored(&self) -> Option<Millis> {
        (self.last_seen > self.stored).then_some(self.last_seen)
    }

    pub(super) fn stored(&mut self, seen: Millis) {
        self.stored = seen;
    }

    /// Ignores a command that the newest socket has already.
    pub(super) fn send(&mut self, command: Command) {
        let goes_again = self.waiting.iter().take(WRITTEN_MAX);
        let mut goes_again = goes_again.map(|waiting| waiting.id);
        if self.has_been_told(command.id) || goes_again.any(|id| id == command.id) {
            return;
        }
        if self.waiting.len() >= WAITING_MAX {
            self.waiting.pop_front();
        }
        self.waiting.push_back(command);
        self.wake_newest();
    }

    pub(super) fn put_back(&mut self, command: Command) {
        self.waiting.push_front(command);
        self.wake_newest();
    }

    /// The next command, if this is the newest socket at any node.
    pub(super) fn take(&mut self, socket: &BridgeSocket) -> Option<Command> {
        if self.remote.takes_commands {
            return None;
        }
        let newest = self.sockets.last()?.number;
        (newest == socket.number)
            .then(|| self.waiting.pop_front())
            .flatten()
    }

    /// Up to `most` commands, if no socket can take them.
    pub(super) fn take_without_socket(&mut self, most: usize) -> Vec<Command> {
        if self.has_socket_for_commands() {
            return Vec::new();
        }
        let count = self.waiting.len().min(most);
        self.waiting.drain(..count).collect()
    }

    pub(super) fn has_given(&self) -> bool {
        self.has_given
    }

    pub(super) fn set_given(&mut self, given: bool) {
        self.has_given = given;
    }

    /// Takes the commands to be stored in the table, if the bridge's newest socket is not here. Commands read from the table
    /// are still there and are left out.
    pub(super) fn take_for_remote(&mut self) -> Vec<Command> {
        if self.is_newest_here() {
            return Vec::new();
        }
        self.send_again(|_| true);
        let from_table = std::mem::take(&mut self.from_table);
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain(|command| !from_table.contains(&command.id));
        waiting.into()
    }

    pub(super) fn has_for_remote(&self) -> bool {
        !self.waiting.is_empty() && !self.is_newest_here()
    }

    /// Puts back commands that could not be stored.
    pub(super) fn take_back(&mut self, commands: Vec<Command>) {
        for command in commands.into_iter().rev() {
            self.put_back(command);
        }
    }

    /// True if commands from the table go to a socket that is here.
    pub(super) fn is_newest_here(&self) -> bool {
        self.is_connected() && !self.remote.takes_commands
    }

    /// Queues a command that another node stored; a repeat is ignored.
    pub(super) fn send_from_table(&mut self, command: Command) {
        if self.has_been_told(command.id) {
            self.from_table.insert(command.id);
            if self
                .written
                .iter()
                .all(|(_, written)| written.id != command.id)
            {
                self.handed_over(command.id);
            }
        } else if self.from_table.insert(command.id) {
            self.send(command);
        }
    }

    fn has_been_told(&self, command: CommandId) -> bool {
        self.is_connected()
            && self.delivered_to == self.newest()
            && self.delivered.contains(&command)
    }

    /// Records a command written to a socket. The pong to a later ping confirms it.
    pub(super) fn written(&mut self, socket: &BridgeSocket, command: Command) {
        self.note_delivered(command.id);
        if self.written.len() >= WRITTEN_MAX
            && let Some((_, oldest)) = self.written.pop_front()
        {
            self.handed_over(oldest.id);
        }
        self.written.push_back((socket.number, command));
    }

    /// The bridge received what was written to this socket, up to a command.
    pub(super) fn confirmed(&mut self, socket: &BridgeSocket, command: CommandId) {
        let here =
            |(number, written): &(u64, Command)| *number == socket.number && written.id == command;
        let Some(last) = self.written.iter().position(here) else {
            return;
        };
        let (has, has_not): (Vec<_>, Vec<_>) = std::mem::take(&mut self.written)
            .into_iter()
            .enumerate()
            .partition(|(at, (number, _))| *at <= last && *number == socket.number);
        self.written = has_not.into_iter().map(|(_, written)| written).collect();
        for (_, (_, command)) in has {
            self.handed_over(command.id);
        }
    }

    /// Queues unconfirmed commands again, in their order.
    fn send_again(&mut self, of: impl Fn(u64) -> bool) {
        let (again, stays): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut self.written)
            .into_iter()
            .partition(|(number, _)| of(*number));
        self.written = stays;
        for (_, command) in again.into_iter().rev() {
            self.delivered.remove(&command.id);
            self.waiting.push_front(command);
        }
    }

    /// Records that the bridge received the command.
    pub(super) fn handed_over(&mut self, command: CommandId) {
        self.note_delivered(command);
        if self.from_table.contains(&command) {
            self.handed_over.push(command);
        }
    }

    fn note_delivered(&mut self, command: CommandId) {
        if self.delivered_to != self.newest() {
            self.delivered_to = self.newest();
            self.delivered.clear();
        }
        if self.delivered.len() >= DELIVERED_MAX {
            self.delivered.pop_first();
        }
        self.delivered.insert(command);
    }

    /// Takes the ids of commands in the table that the bridge received.
    pub(super) fn take_handed_over(&mut self) -> Vec<CommandId> {
        std::mem::take(&mut self.handed_over)
    }

    /// These commands were deleted from the table.
    pub(super) fn removed(&mut self, commands: &[CommandId]) {
        for command in commands {
            self.from_table.remove(command);
        }
    }

    fn wake_newest(&self) {
        if let Some(newest) = self.sockets.last() {
            newest.wake.notify_one();
        }
    }
}
