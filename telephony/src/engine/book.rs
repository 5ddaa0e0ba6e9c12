//! What is under way between bridge and engine: which message is sent next, whom a reply is for, which calls are held. Pure.
//!
//! A message is kept until it is replied to, and sent again by the same id after every loss of the socket. Of one call, each
//! message but a function waits for the reply to the one before: were an answer refused for a moment (`unavailable`) and the
//! hang-up behind it taken, the call would end as one that nobody answered.

use std::collections::{BTreeMap, HashMap, VecDeque};

use dikala_entities::{HangupReason, Millis};

use super::messages::{
    Body, Command, Frame, MESSAGE_BYTES_MAX, Message, Reply, Told, heartbeat, read, repeated,
    understood,
};

/// Messages of one call that may be under way: functions that are waited for, and its few own.
const MESSAGES_OF_A_CALL_MAX: usize = 64;
/// The waits before a message that was `busy` is sent again.
const RETRY_MS_FIRST: u64 = 250;
const RETRY_MS_MAX: u64 = 5_000;
/// Commands of a call that are remembered, to know a repeat.
const COMMANDS_REMEMBERED: usize = 32;
/// Calls that are remembered once nothing is to be said of them any more, to know one that comes again.
const CALLS_REMEMBERED: usize = 1_000;

/// A call, for as long as anything is to be said of it.
pub(super) type Key = u64;

#[derive(Debug, Default)]
pub(super) struct Book {
    /// What every id of a message begins with: no other start of a bridge has it.
    prefix: String,
    last: u64,
    calls: HashMap<Key, Held>,
    by_id: HashMap<String, Key>,
    /// The ids of those of which nothing is to be said any more.
    over: VecDeque<String>,
    /// By their numbers, and so in the order in which they were posted.
    pending: BTreeMap<u64, Pending>,
    is_connected: bool,
}

#[derive(Debug, Default)]
struct Held {
    id: Option<String>,
    /// Its messages without a reply.
    queue: VecDeque<u64>,
    /// Whether somebody still listens.
    is_detached: bool,
    end: End,
    commands: VecDeque<String>,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum End {
    #[default]
    None,
    Posted,
    /// The engine knows that the call is over.
    Acknowledged,
}

#[derive(Debug)]
struct Pending {
    call: Key,
    message: Message,
    at: Millis,
    state: State,
    refusals: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// To be sent, not before this time.
    From(u64),
    /// Perhaps it has arrived.
    Sent,
    /// It was sent over a socket that is gone.
    Again,
}

impl Book {
    pub(super) fn new(prefix: String) -> Self {
        Self {
            prefix,
            ..Self::default()
        }
    }

    pub(super) fn open(&mut self, call: Key) {
        self.calls.insert(call, Held::default());
    }

    /// Takes a message of a call. What cannot be sent at all is answered at once.
    pub(super) fn post(&mut self, call: Key, message: Message, at: Millis) -> Option<Reply> {
        let held = self.calls.get_mut(&call)?;
        if held.end != End::None && !matches!(message, Message::Transcript { .. }) {
            return None;
        }
        let declined = |code: &str, words: &str| {
            let body = Body::Error {
                code: code.to_owned(),
                words: words.to_owned(),
            };
            understood(&message, body).0
        };
        // The call's own messages are few; it is functions that can be too many.
        if !message.is_in_order() && held.queue.len() >= MESSAGES_OF_A_CALL_MAX {
            return declined("busy", "Too many functions of this call are under way.");
        }
        if message.encode(&self.prefix, held.id.as_deref(), at).len() + 128 > MESSAGE_BYTES_MAX {
            return declined("too_large", "A message has at most 256 KiB.");
        }
        if message.is_final() {
            held.end = End::Posted;
            if self.is_unheard_of(call) {
                self.forget(call);
                return None;
            }
        }
        self.last += 1;
        let held = self.calls.get_mut(&call)?;
        held.queue.push_back(self.last);
        let pending = Pending {
            call,
            message,
            at,
            state: State::From(0),
            refusals: 0,
        };
        self.pending.insert(self.last, pending);
        None
    }

    /// Whether the engine cannot know of this call.
    fn is_unheard_of(&self, call: Key) -> bool {
        let Some(held) = self.calls.get(&call) else {
            return true;
        };
        let untold = |no: &u64| {
            let state = self.pending.get(no).map(|pending| pending.state);
            matches!(state, Some(State::From(_)))
        };
        held.id.is_none() && held.queue.iter().all(untold)
    }

    /// Nobody listens for this call any more. One that is not over is reported as broken.
    pub(super) fn close(&mut self, call: Key, at: Millis) {
        let failed = Message::Failed {
            reason: HangupReason::BridgeError,
            detail: "The bridge let go of the call.".to_owned(),
        };
        self.post(call, failed, at);
        if let Some(held) = self.calls.get_mut(&call) {
            held.is_detached = true;
        }
        self.tidy(call);
    }

    pub(super) fn connected(&mut self) {
        self.is_connected = true;
    }

    pub(super) fn disconnected(&mut self) {
        self.is_connected = false;
        for pending in self.pending.values_mut() {
            if pending.state == State::Sent {
                pending.state = State::Again;
            }
        }
    }

    /// The next message to write, if there is one.
    pub(super) fn next(&mut self, now_ms: u64) -> Option<String> {
        if !self.is_connected {
            return None;
        }
        let due = |pending: &Pending| match pending.state {
            State::From(at) => at <= now_ms,
            State::Again => true,
            State::Sent => false,
        };
        let mut pending = self.pending.iter();
        let (no, _) = pending.find(|(no, pending)| due(pending) && self.is_turn_of(**no))?;
        let no = *no;
        let id = self.id_of(no);
        let pending = self.pending.get_mut(&no)?;
        pending.state = State::Sent;
        let call = self.calls.get(&pending.call)?.id.as_deref();
        Some(pending.message.encode(&id, call, pending.at))
    }

    fn is_turn_of(&self, no: u64) -> bool {
        let of = |no: &u64| self.pending.get(no);
        let Some(held) = of(&no).and_then(|pending| self.calls.get(&pending.call)) else {
            return false;
        };
        let mut before = held.queue.iter().take_while(|earlier| **earlier < no);
        !before.any(|earlier| of(earlier).is_some_and(|earlier| earlier.message.is_in_order()))
    }

    /// When [`Self::next`] will have something that it has not now, if nothing else happens.
    pub(super) fn wakes_at(&self, now_ms: u64) -> Option<u64> {
        let times = self.pending.values().filter_map(|pending| {
            let State::From(at) = pending.state else {
                return None;
            };
            (at > now_ms).then_some(at)
        });
        times.min().filter(|_| self.is_connected)
    }

    /// All calls that are held, as the engine wants to hear of them.
    pub(super) fn heartbeat(&mut self, at: Millis) -> String {
        self.last += 1;
        let held = self.calls.values();
        let mut calls: Vec<&str> = held
            .filter(|held| held.end != End::Acknowledged)
            .filter_map(|held| held.id.as_deref())
            .collect();
        calls.sort_unstable();
        heartbeat(&self.id_of(self.last), &calls, at)
    }

    fn id_of(&self, no: u64) -> String {
        format!("{}-{no}", self.prefix)
    }

    /// Takes a frame of the engine: who is to hear what of it.
    pub(super) fn on_frame(&mut self, text: &str, now_ms: u64) -> Vec<(Key, Told)> {
        match read(text) {
            Some(Frame::Reply { to, body }) => {
                let no = to
                    .strip_prefix(&self.prefix)
                    .and_then(|rest| rest.strip_prefix('-')?.parse().ok());
                no.map_or_else(Vec::new, |no| self.on_reply(no, body, now_ms))
            }
            Some(Frame::Command { id, call, command }) => {
                let told = self.on_command(id, &call, command);
                told.into_iter().collect()
            }
            None => Vec::new(),
        }
    }

    fn on_reply(&mut self, no: u64, body: Body, now_ms: u64) -> Vec<(Key, Told)> {
        let Some(pending) = self.pending.get_mut(&no) else {
            // Not a message of a call: a heartbeat, or a second reply.
            return self.ended(&body);
        };
        if body.is_for_now() {
            let wait = RETRY_MS_FIRST << pending.refusals.min(8);
            pending.refusals += 1;
            // Not all at the same moment.
            let spread = no.wrapping_mul(7_919) % RETRY_MS_FIRST;
            pending.state = State::From(now_ms + wait.min(RETRY_MS_MAX) + spread);
            return Vec::new();
        }
        let Some(pending) = self.pending.remove(&no) else {
            return Vec::new();
        };
        let key = pending.call;
        let (mut reply, mut id) = understood(&pending.message, body);
        if id.as_ref().is_some_and(|id| self.has_seen(id)) {
            // A repeat is the same call to the engine, and what was said of this one would be said of the other.
            (reply, id) = (Some(repeated()), None);
        }
        let Some(held) = self.calls.get_mut(&key) else {
            return Vec::new();
        };
        held.queue.retain(|queued| *queued != no);
        if let Some(id) = id {
            held.id = Some(id.clone());
            self.by_id.insert(id, key);
        }
        if pending.message.is_final() {
            held.end = End::Acknowledged;
        }
        let is_listening = !held.is_detached;
        if held.id.is_none() {
            // It was not taken: there is nothing more to say of it.
            self.forget(key);
        } else {
            self.tidy(key);
        }
        let told = reply.filter(|_| is_listening).map(Told::Reply);
        told.map(|told| (key, told)).into_iter().collect()
    }

    /// Whether the engine's call is another one of ours, or was.
    fn has_seen(&self, id: &String) -> bool {
        self.by_id.contains_key(id) || self.over.contains(id)
    }

    /// The calls of a heartbeat's reply that are over at the engine.
    fn ended(&self, body: &Body) -> Vec<(Key, Told)> {
        let Body::Ok(fields) = body else {
            return Vec::new();
        };
        let ended = fields.get("ended").and_then(|ended| ended.as_array());
        let ids = ended.into_iter().flatten().filter_map(|id| id.as_str());
        ids.filter_map(|id| {
            let key = self.by_id.get(id)?;
            let held = self.calls.get(key)?;
            (held.end == End::None && !held.is_detached).then_some((*key, Told::Over))
        })
        .collect()
    }

    fn on_command(&mut self, id: String, call: &str, command: Command) -> Option<(Key, Told)> {
        let key = *self.by_id.get(call)?;
        let held = self.calls.get_mut(&key)?;
        if held.is_detached || held.commands.contains(&id) {
            return None;
        }
        if held.commands.len() == COMMANDS_REMEMBERED {
            held.commands.pop_front();
        }
        held.commands.push_back(id);
        Some((key, Told::Command(command)))
    }

    /// Nothing is under way.
    pub(super) fn is_quiet(&self) -> bool {
        self.pending.is_empty()
    }

    fn tidy(&mut self, call: Key) {
        let held = self.calls.get(&call);
        if held.is_some_and(|held| held.is_detached && held.queue.is_empty()) {
            self.forget(call);
        }
    }

    fn forget(&mut self, call: Key) {
        let Some(held) = self.calls.remove(&call) else {
            return;
        };
        if let Some(id) = held.id {
            self.by_id.remove(&id);
            if self.over.len() == CALLS_REMEMBERED {
                self.over.pop_front();
            }
            self.over.push_back(id);
        }
        for no in held.queue {
            self.pending.remove(&no);
        }
    }
}

#[cfg(test)]
mod tests;
