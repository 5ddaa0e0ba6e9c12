//! What is known of one bridge: its sockets, when it was last seen, and what waits for it. Takes the time from who asks.

use std::collections::VecDeque;

use dikala_entities::Millis;

use super::{
    commands::Command,
    socket::{Dismissal, Socket},
};

/// Commands that wait for a bridge. Past that the oldest is dropped: a hang-up is carried out by the engine anyway, a warning
/// is soon out of date.
const WAITING_MAX: usize = 10_000;
/// Sockets of one bridge. One more takes the place of the oldest, which may be long dead.
pub(super) const SOCKETS_MAX: usize = 8;

/// The last moment at which a bridge is known to have been there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastSeen {
    pub at: Millis,
}

#[derive(Debug, Default)]
pub(super) struct Presence {
    /// Oldest first; commands go to the newest.
    sockets: Vec<Socket>,
    last_seen: Millis,
    /// When the newest socket began.
    connected_at: Millis,
    /// The last sign of life before the bridge came back: what it does not hold any more was lost then.
    seen_before_return: Millis,
    /// What the table says.
    stored: Millis,
    waiting: VecDeque<Command>,
}

impl Presence {
    /// An earlier run saw the bridge last at that time, as the table says.
    pub(super) fn recover(&mut self, seen: Millis) {
        self.last_seen = self.last_seen.max(seen);
        self.seen_before_return = self.last_seen;
        self.stored = seen;
    }

    pub(super) fn sockets(&self) -> usize {
        self.sockets.len()
    }

    pub(super) fn is_connected(&self) -> bool {
        !self.sockets.is_empty()
    }

    pub(super) fn connected(&mut self, socket: Socket, now: Millis) {
        // An older socket that is still listed may be long dead: its last frame is all that is known of it.
        self.seen_before_return = self.last_seen;
        self.connected_at = now;
        self.last_seen = now;
        if self.sockets.len() >= SOCKETS_MAX {
            self.sockets.remove(0).dismiss(Dismissal::Replaced);
        }
        self.sockets.push(socket);
    }

    /// Its commands are for the next newest socket. Nobody closed it where it is `silent`.
    pub(super) fn disconnected(&mut self, socket: &Socket, silent: bool, now: Millis) {
        self.sockets.retain(|other| other.number != socket.number);
        self.wake_newest();
        if !silent {
            self.last_seen = now;
        }
    }

    pub(super) fn revoked(&mut self, now: Millis) {
        self.last_seen = now;
        for socket in self.sockets.drain(..) {
            socket.dismiss(Dismissal::Revoked);
        }
    }

    pub(super) fn seen(&mut self, now: Millis) {
        if !self.is_connected() {
            self.seen_before_return = self.last_seen;
        }
        self.last_seen = now;
    }

    /// An open socket is a sign of life at every moment.
    pub(super) fn last_seen(&self, now: Millis) -> Millis {
        if self.is_connected() {
            now
        } else {
            self.last_seen
        }
    }

    /// The last sign of life of a call that the bridge does not hold any more, whose own last message came at `seen_at`.
    pub(super) fn last_seen_of_lost(&self, seen_at: Millis, now: Millis) -> Millis {
        if self.is_connected() && seen_at >= self.connected_at {
            now
        } else {
            self.seen_before_return
        }
    }

    pub(super) fn listed(&mut self) {
        self.connected_at = Millis::MIN;
    }

    /// The last sign of life, where the table does not have it yet.
    pub(super) fn unstored(&self, now: Millis) -> Option<Millis> {
        let seen = self.last_seen(now);
        (seen > self.stored).then_some(seen)
    }

    pub(super) fn stored(&mut self, seen: Millis) {
        self.stored = seen;
    }

    pub(super) fn send(&mut self, command: Command) {
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

    /// The next command, if this is the newest socket.
    pub(super) fn take(&mut self, socket: &Socket) -> Option<Command> {
        let newest = self.sockets.last()?.number;
        (newest == socket.number)
            .then(|| self.waiting.pop_front())
            .flatten()
    }

    /// Up to `most` commands, if there is no socket to take them.
    pub(super) fn take_without_socket(&mut self, most: usize) -> Vec<Command> {
        if self.is_connected() {
            return Vec::new();
        }
        let count = self.waiting.len().min(most);
        self.waiting.drain(..count).collect()
    }

    fn wake_newest(&self) {
        if let Some(newest) = self.sockets.last() {
            newest.wake.notify_one();
        }
    }
}
