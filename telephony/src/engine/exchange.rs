//! State of the exchange with the service: which message is sent next, which call a reply is for, which calls are held. Pure.
//!
//! A message is kept until its reply, and sent again under the same id after every loss of the socket. Messages of one call are
//! sent one at a time, except functions. Otherwise, if `call.answered` were refused as `unavailable` and the hang-up behind it
//! accepted, the call would end as unanswered.

use std::collections::{BTreeMap, HashMap, VecDeque};

use dikala_entities::{HangupReason, Millis};

use super::messages::{
    MESSAGE_BYTES_MAX, OutgoingMessage, ReplyBody, ServiceCommand, ServiceEvent, ServiceFrame,
    ServiceReply, heartbeat, interpret, read, repeat_declined,
};

/// Messages of one call that may be under way: its functions, and a few of its own.
const MESSAGES_OF_A_CALL_MAX: usize = 64;
/// Backoff of a message that was `busy`.
const RETRY_MS_FIRST: u64 = 250;
const RETRY_MS_MAX: u64 = 5_000;
/// Commands of a call that are remembered, to recognise repeats.
const COMMANDS_REMEMBERED: usize = 32;
/// Finished calls that are remembered, to recognise one that comes again.
const CALLS_REMEMBERED: usize = 1_000;

/// A call, until its last message is acknowledged.
pub(super) type CallKey = u64;

#[derive(Debug, Default)]
pub(super) struct MessageExchange {
    /// Prefix of all message ids, unique to this start of the bridge.
    prefix: String,
    last: u64,
    calls: HashMap<CallKey, HeldCall>,
    by_id: HashMap<String, CallKey>,
    /// The service's ids of finished calls.
    over: VecDeque<String>,
    /// Messages by number, hence in the order in which they were posted.
    pending: BTreeMap<u64, Pending>,
    is_connected: bool,
}

#[derive(Debug, Default)]
struct HeldCall {
    id: Option<String>,
    /// Numbers of its unacknowledged messages.
    queue: VecDeque<u64>,
    /// The call's task is gone.
    is_detached: bool,
    end: End,
    commands: VecDeque<String>,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum End {
    #[default]
    None,
    Posted,
    /// The service knows that the call is over.
    Acknowledged,
}

#[derive(Debug)]
struct Pending {
    call: CallKey,
    message: OutgoingMessage,
    at: Millis,
    state: State,
    refusals: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// To be sent, but not before this time.
    From(u64),
    /// Sent over the current socket.
    Sent,
    /// Sent over a socket that is gone; to be sent again.
    Again,
}

impl MessageExchange {
    pub(super) fn new(prefix: String) -> Self {
        Self {
            prefix,
            ..Self::default()
        }
    }

    pub(super) fn open(&mut self, call: CallKey) {
        self.calls.insert(call, HeldCall::default());
    }

    /// Queues a message of a call. A message that cannot be sent at all is declined at once.
    pub(super) fn post(
        &mut self,
        call: CallKey,
        message: OutgoingMessage,
        at: Millis,
    ) -> Option<ServiceReply> {
        let held = self.calls.get_mut(&call)?;
        if held.end != End::None && !matches!(message, OutgoingMessage::Transcript { .. }) {
            return None;
        }
        let declined = |code: &str, words: &str| {
            let body = ReplyBody::Error {
                code: code.to_owned(),
                words: words.to_owned(),
            };
            interpret(&message, body).0
        };
        // A call's own messages are few; only functions can be too many.
        if !message.is_in_order() && held.queue.len() >= MESSAGES_OF_A_CALL_MAX {
            return declined("busy", "Too many functions of this call are under way.");
        }
        if message.encode(&self.prefix, held.id.as_deref(), at).len() + 128 > MESSAGE_BYTES_MAX {
            return declined("too_large", "A message has at most 256 KiB.");
        }
        if message.is_final() {
            held.end = End::Posted;
            if self.was_never_sent(call) {
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

    /// No message of this call was ever sent, so the service cannot know it.
    fn was_never_sent(&self, call: CallKey) -> bool {
        let Some(held) = self.calls.get(&call) else {
            return true;
        };
        let untold = |no: &u64| {
            let state = self.pending.get(no).map(|pending| pending.state);
            matches!(state, Some(State::From(_)))
        };
        held.id.is_none() && held.queue.iter().all(untold)
    }

    /// The call's task is gone. A call that is not over is reported as failed.
    pub(super) fn close(&mut self, call: CallKey, at: Millis) {
        let failed = OutgoingMessage::Failed {
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

    /// The next message to write.
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

    /// When [`Self::next`] will have a message that is not due yet.
    pub(super) fn wakes_at(&self, now_ms: u64) -> Option<u64> {
        let times = self.pending.values().filter_map(|pending| {
            let State::From(at) = pending.state else {
                return None;
            };
            (at > now_ms).then_some(at)
        });
        times.min().filter(|_| self.is_connected)
    }

    /// The heartbeat, which lists all held calls.
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

    /// Handles a frame of the service. Returns what each call is to be told.
    pub(super) fn on_frame(&mut self, text: &str, now_ms: u64) -> Vec<(CallKey, ServiceEvent)> {
        match read(text) {
            Some(ServiceFrame::Reply { to, body }) => {
                let no = to
                    .strip_prefix(&self.prefix)
                    .and_then(|rest| rest.strip_prefix('-')?.parse().ok());
                no.map_or_else(Vec::new, |no| self.on_reply(no, body, now_ms))
            }
            Some(ServiceFrame::Command { id, call, command }) => {
                let event = self.on_command(id, &call, command);
                event.into_iter().collect()
            }
            None => Vec::new(),
        }
    }

    fn on_reply(&mut self, no: u64, body: ReplyBody, now_ms: u64) -> Vec<(CallKey, ServiceEvent)> {
        let Some(pending) = self.pending.get_mut(&no) else {
            // The reply to a heartbeat, or a second reply.
            return self.ended(&body);
        };
        if body.is_for_now() {
            let wait = RETRY_MS_FIRST << pending.refusals.min(8);
            pending.refusals += 1;
            // Jitter, so that messages are not all repeated at the same moment.
            let spread = no.wrapping_mul(7_919) % RETRY_MS_FIRST;
            pending.state = State::From(now_ms + wait.min(RETRY_MS_MAX) + spread);
            return Vec::new();
        }
        let Some(pending) = self.pending.remove(&no) else {
            return Vec::new();
        };
        let key = pending.call;
        let (mut reply, mut id) = interpret(&pending.message, body);
        if id.as_ref().is_some_and(|id| self.has_seen(id)) {
            // To the service a repeat is the same call, so messages of this one would be attributed to the other.
            (reply, id) = (Some(repeat_declined()), None);
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
            // The service did not accept the call: nothing more is sent about it.
            self.forget(key);
        } else {
            self.tidy(key);
        }
        let event = reply.filter(|_| is_listening).map(ServiceEvent::Reply);
        event.map(|event| (key, event)).into_iter().collect()
    }

    /// The service's id belongs to another call of this bridge, present or past.
    fn has_seen(&self, id: &String) -> bool {
        self.by_id.contains_key(id) || self.over.contains(id)
    }

    /// The calls that a heartbeat's reply reports as over.
    fn ended(&self, body: &ReplyBody) -> Vec<(CallKey, ServiceEvent)> {
        let ReplyBody::Ok(fields) = body else {
            return Vec::new();
        };
        let ended = fields.get("ended").and_then(|ended| ended.as_array());
        let ids = ended.into_iter().flatten().filter_map(|id| id.as_str());
        ids.filter_map(|id| {
            let key = self.by_id.get(id)?;
            let held = self.calls.get(key)?;
            (held.end == End::None && !held.is_detached).then_some((*key, ServiceEvent::Over))
        })
        .collect()
    }

    fn on_command(
        &mut self,
        id: String,
        call: &str,
        command: ServiceCommand,
    ) -> Option<(CallKey, ServiceEvent)> {
        let key = *self.by_id.get(call)?;
        let held = self.calls.get_mut(&key)?;
        if held.is_detached || held.commands.contains(&id) {
            return None;
        }
        if held.commands.len() == COMMANDS_REMEMBERED {
            held.commands.pop_front();
        }
        held.commands.push_back(id);
        Some((key, ServiceEvent::Command(command)))
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.pending.is_empty()
    }

    fn tidy(&mut self, call: CallKey) {
        let held = self.calls.get(&call);
        if held.is_some_and(|held| held.is_detached && held.queue.is_empty()) {
            self.forget(call);
        }
    }

    fn forget(&mut self, call: CallKey) {
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
