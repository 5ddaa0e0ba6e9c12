//! What is known of one bridge: its sockets, when it was last seen, and what waits for it. Takes the time from who asks, and for signs
//! of life the moment for which they count.

use std::collections::{BTreeSet, VecDeque};

use dikala_entities::{CommandId, Millis};

use super::{
    commands::Command,
    socket::{Dismissal, Socket, SocketEnd},
};

/// Commands that wait for a bridge. Past that the oldest is dropped: a hang-up is carried out by the engine anyway, a warning
/// is soon out of date.
const WAITING_MAX: usize = 10_000;
/// Commands of which it is remembered that a socket has them.
const TOLD_MAX: usize = 1_000;
/// Commands that were written to sockets and not confirmed. Past that the oldest is taken for confirmed.
const WRITTEN_MAX: usize = 1_000;
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
    /// The last socket was dropped as silent, and the table says still that the bridge was there until then.
    fell_silent: bool,
    waiting: VecDeque<Command>,
    /// What is known of it at other nodes.
    elsewhere: Elsewhere,
    /// The newest socket that other nodes were told of; none: that there is none here.
    published: Option<u64>,
    /// Commands that were read from the table, until they are taken from there.
    from_table: BTreeSet<CommandId>,
    /// Those of them that the bridge has.
    handed_over: Vec<CommandId>,
    /// Commands were given with answers over HTTP, and may be in the table still.
    has_given: bool,
    /// Commands that were written to a socket, by its number, and that the bridge has not said it has. Oldest first.
    written: VecDeque<(u64, Command)>,
    /// Commands that the newest socket has, and which that is.
    told: BTreeSet<CommandId>,
    told_to: Option<u64>,
}

/// What is to be written down of a bridge's signs of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sign {
    pub(super) seen: Millis,
    /// When something was last heard.
    pub(super) frame: Millis,
    /// That it was there later than that is taken back.
    pub(super) fell_silent: bool,
}

/// What other nodes know of a bridge, as the table had it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Elsewhere {
    /// Its newest socket is at another node that lives.
    pub(super) is_connected: bool,
    /// That node takes commands for it: it is not late with its lease.
    pub(super) takes_commands: bool,
    pub(super) last_seen: Millis,
    /// A socket that is open there may be long dead: the last that was heard of it.
    pub(super) last_frame: Millis,
}

impl Presence {
    /// An earlier run saw the bridge last at that time, as the table says.
    pub(super) fn recover(&mut self, seen: Millis) {
        self.elsewhere.last_seen = seen;
        self.elsewhere.last_frame = seen;
        self.seen_before_return = seen;
        self.stored = seen;
    }

    pub(super) fn sockets(&self) -> usize {
        self.sockets.len()
    }

    pub(super) fn is_connected(&self) -> bool {
        !self.sockets.is_empty()
    }

    /// What the table says of other nodes.
    pub(super) fn found(&mut self, elsewhere: Elsewhere, has_node: bool) {
        if !has_node && self.is_connected() {
            // The newest socket of all was at another node, and is gone: one of these is the newest now.
            self.published = None;
        }
        self.elsewhere = elsewhere;
        self.wake_newest();
    }

    /// Another node says that it has the newest socket: what waits goes there.
    pub(super) fn is_superseded(&mut self) {
        self.elsewhere.is_connected = true;
        self.elsewhere.takes_commands = true;
    }

    /// Whether its newest socket is at another node.
    pub(super) fn is_elsewhere(&self) -> bool {
        self.elsewhere.is_connected
    }

    /// Whether commands go to a socket, here or elsewhere.
    pub(super) fn has_socket_for_commands(&self) -> bool {
        self.is_connected() || self.elsewhere.takes_commands
    }

    /// Nobody else can have it.
    pub(super) fn alone(&mut self) {
        self.elsewhere.is_connected = false;
        self.elsewhere.takes_commands = false;
        self.wake_newest();
    }

    /// What other nodes are to be told: whether the newest socket of all is here now. None where they know.
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

    /// Since when the newest socket has been open.
    pub(super) fn newest_since(&self) -> Option<Millis> {
        self.sockets.last().map(|socket| socket.opened_at)
    }

    /// Other nodes can know. Where the newest of all was opened later at one of them, it is read that it is there.
    pub(super) fn published(&mut self, newest: Option<u64>) {
        self.published = newest;
        if newest.is_some() {
            self.alone();
        }
    }

    pub(super) fn connected(&mut self, socket: Socket, sign_at: Millis) {
        self.seen_before_return = self.seen_so_far();
        self.connected_at = sign_at;
        self.was_there(sign_at);
        self.fell_silent = false;
        // Whoever opens another socket may not have got what was written to the one before.
        self.send_again(|_| true);
        if self.sockets.len() >= SOCKETS_MAX {
            self.sockets.remove(0).dismiss(Dismissal::Replaced);
        }
        self.sockets.push(socket);
    }

    /// Its commands are for the next newest socket.
    pub(super) fn disconnected(&mut self, socket: &Socket, end: SocketEnd, sign_at: Millis) {
        self.sockets.retain(|other| other.number != socket.number);
        self.send_again(|number| number == socket.number);
        self.wake_newest();
        match end {
            SocketEnd::Closed => self.was_there(sign_at),
            SocketEnd::Silent if !self.is_connected() => {
                self.fell_silent = true;
                self.elsewhere.last_seen = self.elsewhere.last_frame;
            }
            SocketEnd::Silent | SocketEnd::Unnoticed => {}
        }
    }

    pub(super) fn send_away(&mut self) {
        for socket in self.sockets.drain(..) {
            socket.dismiss(Dismissal::Lost);
        }
    }

    pub(super) fn revoked(&mut self, sign_at: Millis) {
        self.was_there(sign_at);
        for socket in self.sockets.drain(..) {
            socket.dismiss(Dismissal::Revoked);
        }
    }

    pub(super) fn seen(&mut self, sign_at: Millis) {
        if !self.is_connected() {
            self.seen_before_return = self.seen_so_far();
        }
        self.was_there(sign_at);
        self.fell_silent = false;
    }

    fn was_there(&mut self, at: Millis) {
        self.last_seen = self.last_seen.max(at);
    }

    /// The last sign of life before this one. A socket that is still listed may be long dead: its last frame is all that is known
    /// of it.
    fn seen_so_far(&self) -> Millis {
        let is_listed = self.is_connected() || self.elsewhere.is_connected;
        let elsewhere = match is_listed {
            true => self.elsewhere.last_frame,
            false => self.elsewhere.last_seen,
        };
        self.last_seen.max(elsewhere)
    }

    /// An open socket is a sign of life at every moment, wherever it is.
    pub(super) fn last_seen(&self, sign_at: Millis) -> Millis {
        let known = self.last_seen.max(self.elsewhere.last_seen);
        if self.is_connected() || self.elsewhere.is_connected {
            known.max(sign_at)
        } else {
            known
        }
    }

    fn last_seen_here(&self, sign_at: Millis) -> Millis {
        if self.is_connected() {
            self.last_seen.max(sign_at)
        } else {
            self.last_seen
        }
    }

    /// The last sign of life of a call that the bridge does not hold any more, whose own last message came at `seen_at`.
    pub(super) fn last_seen_of_lost(&self, seen_at: Millis, sign_at: Millis) -> Millis {
        if self.is_connected() && seen_at >= self.connected_at {
            sign_at
        } else {
            self.seen_before_return
        }
    }

    pub(super) fn listed(&mut self) {
        self.connected_at = Millis::MIN;
    }

    /// The last sign of life, where the table does not have it yet.
    pub(super) fn unstored(&self, sign_at: Millis) -> Option<Sign> {
        let seen = self.last_seen_here(sign_at);
        (seen > self.stored || self.fell_silent).then_some(Sign {
            seen,
            frame: self.last_seen,
            fell_silent: self.fell_silent,
        })
    }

    pub(super) fn stored(&mut self, sign: Sign) {
        self.stored = sign.seen;
        if sign.fell_silent && self.last_seen == sign.seen {
            self.fell_silent = false;
        }
    }

    /// What the newest socket has already is not sent again.
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

    /// The next command, if this is the newest socket of all.
    pub(super) fn take(&mut self, socket: &Socket) -> Option<Command> {
        if self.elsewhere.takes_commands {
            return None;
        }
        let newest = self.sockets.last()?.number;
        (newest == socket.number)
            .then(|| self.waiting.pop_front())
            .flatten()
    }

    /// Up to `most` commands, if there is no socket to take them.
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

    /// Commands that go by way of the table, as the bridge's newest socket is not here, and is nowhere or at another node. What
    /// came from there is there still.
    pub(super) fn take_for_elsewhere(&mut self) -> Vec<Command> {
        if self.is_newest_here() {
            return Vec::new();
        }
        self.send_again(|_| true);
        let from_table = std::mem::take(&mut self.from_table);
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain(|command| !from_table.contains(&command.id));
        waiting.into()
    }

    /// Whether there are such.
    pub(super) fn has_for_elsewhere(&self) -> bool {
        !self.waiting.is_empty() && !self.is_newest_here()
    }

    /// Those could not be written to the table.
    pub(super) fn take_back(&mut self, commands: Vec<Command>) {
        for command in commands.into_iter().rev() {
            self.put_back(command);
        }
    }

    /// Whether commands from the table are for a socket that is here.
    pub(super) fn is_newest_here(&self) -> bool {
        self.is_connected() && !self.elsewhere.takes_commands
    }

    /// A command that another node wrote into the table; once.
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
        self.is_connected() && self.told_to == self.newest() && self.told.contains(&command)
    }

    /// A command was written to a socket. Whether the bridge has it, it says with what it answers to a ping that came after that.
    pub(super) fn written(&mut self, socket: &Socket, command: Command) {
        self.told(command.id);
        if self.written.len() >= WRITTEN_MAX
            && let Some((_, oldest)) = self.written.pop_front()
        {
            self.handed_over(oldest.id);
        }
        self.written.push_back((socket.number, command));
    }

    /// The bridge has what was written to that socket, up to a command.
    pub(super) fn confirmed(&mut self, socket: &Socket, command: CommandId) {
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

    /// What was written to sockets and is not confirmed is next again, in its order.
    fn send_again(&mut self, of: impl Fn(u64) -> bool) {
        let (again, stays): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut self.written)
            .into_iter()
            .partition(|(number, _)| of(*number));
        self.written = stays;
        for (_, command) in again.into_iter().rev() {
            self.told.remove(&command.id);
            self.waiting.push_front(command);
        }
    }

    /// The bridge has it.
    pub(super) fn handed_over(&mut self, command: CommandId) {
        self.told(command);
        if self.from_table.contains(&command) {
            self.handed_over.push(command);
        }
    }

    fn told(&mut self, command: CommandId) {
        if self.told_to != self.newest() {
            self.told_to = self.newest();
            self.told.clear();
        }
        if self.told.len() >= TOLD_MAX {
            self.told.pop_first();
        }
        self.told.insert(command);
    }

    /// What the bridge has of the commands in the table.
    pub(super) fn take_handed_over(&mut self) -> Vec<CommandId> {
        std::mem::take(&mut self.handed_over)
    }

    /// Those are out of the table.
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
