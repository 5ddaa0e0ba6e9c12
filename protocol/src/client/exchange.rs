//! State of the exchange with the service: which message is sent next, which call a reply is for, which calls are held. Pure.
//!
//! A message is kept until its reply, and sent again under the same id after every loss of the socket. Messages of one call are
//! sent one at a time, except functions. Otherwise, if `call.answered` were refused as `unavailable` and the hang-up behind it
//! accepted, the call would end as unanswered.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    time::Duration,
};

use dikala_entities::{CallId, CommandId, HangupReason, Millis, PhoneNumber};

use super::{
    events::{
        ReplyBody, ReplyDelay, ServiceEvent, ServiceFrame, ServiceReply, declined_here,
        ended_calls, interpret, read,
    },
    posted::{OpenedCall, PostedMessage},
};
use crate::{
    command::Command,
    message::{BridgeMessage, CallReport, Heartbeat, MessageContent, MessageType},
    reply::ErrorCode,
};

/// Messages of all calls that may be under way; the service answers `busy` only at a higher number.
const IN_FLIGHT_MAX: usize = 4_000;
/// Backoff of a message that was `busy`.
const RETRY_FIRST: Duration = Duration::from_millis(250);
const RETRY_MAX: Duration = Duration::from_secs(5);
/// Commands of a call that are remembered, to recognise repeats.
const COMMANDS_REMEMBERED: usize = 32;
/// Finished calls that are remembered, to recognise one that comes again.
const CALLS_REMEMBERED: usize = 1_000;

/// A call, until its last message is acknowledged.
pub type CallKey = u64;

/// All times are since any fixed moment of the caller's monotonic clock.
#[derive(Debug, Default)]
pub struct MessageExchange {
    /// Prefix of all message ids, unique to this start of the bridge.
    prefix: String,
    last: u64,
    calls: HashMap<CallKey, HeldCall>,
    by_id: HashMap<CallId, CallKey>,
    /// The service's ids of finished calls.
    over: VecDeque<CallId>,
    /// Messages by number, hence in the order in which they were posted.
    pending: BTreeMap<u64, Pending>,
    /// Numbers of the messages to send now.
    ready: BTreeSet<u64>,
    /// Numbers of the messages to send at that time.
    postponed: BTreeSet<(Duration, u64)>,
    in_flight: usize,
    is_connected: bool,
    counters: ExchangeCounters,
}

/// Counts since the start; heartbeats are not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExchangeCounters {
    /// Posted messages.
    pub messages: u64,
    /// Repeats of messages.
    pub resent: u64,
    /// Replies that asked for a later repeat.
    pub busy: u64,
    pub unavailable: u64,
}

#[derive(Debug, Default)]
struct HeldCall {
    id: Option<CallId>,
    /// Called numbers to try if the service does not know the reported one.
    other_dids: VecDeque<PhoneNumber>,
    /// Numbers of its unacknowledged messages.
    queue: VecDeque<u64>,
    /// The call's task is gone.
    is_detached: bool,
    end: End,
    commands: VecDeque<CommandId>,
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
    message: PostedMessage,
    posted_at: Duration,
    sent_at: Duration,
    state: State,
    /// While it is postponed.
    retry_at: Duration,
    refusals: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Not sent, or refused for now: the service has not handled it.
    Waiting,
    /// Sent over the current socket.
    Sent,
    /// Sent over a socket that is gone; to be sent again.
    Again,
}

impl MessageExchange {
    pub fn new(prefix: String) -> Self {
        Self {
            prefix,
            ..Self::default()
        }
    }

    /// Adds a call that has come in, and queues its `call.incoming`.
    pub fn open(&mut self, call: CallKey, opened: impl Into<OpenedCall>, now: Duration) {
        let OpenedCall {
            incoming,
            other_dids,
        } = opened.into();
        let held = HeldCall {
            other_dids: other_dids.into(),
            ..HeldCall::default()
        };
        self.calls.insert(call, held);
        self.queue(call, PostedMessage::Incoming(incoming), now);
    }

    /// Queues a message of a call; `at` is when its cause happened. A message that cannot be sent at all is declined at once.
    pub fn post(
        &mut self,
        call: CallKey,
        report: CallReport,
        at: Option<Millis>,
        now: Duration,
    ) -> Option<ServiceReply> {
        let held = self.calls.get(&call)?;
        if held.end != End::None && report.kind() != MessageType::Transcript {
            return None;
        }
        self.queue(call, PostedMessage::Report(report, at), now)
    }

    fn queue(
        &mut self,
        call: CallKey,
        message: PostedMessage,
        now: Duration,
    ) -> Option<ServiceReply> {
        let held = self.calls.get_mut(&call)?;
        if held.queue.len() >= message.queued_max() {
            let words = "Too many messages of this call are under way.";
            return Some(declined_here(message.named(), "busy", words));
        }
        if message.is_too_large() {
            let words = "A message has at most 256 KiB.";
            return Some(declined_here(message.named(), "too_large", words));
        }
        if message.is_final() {
            held.end = End::Posted;
            if self.was_never_sent(call) {
                self.forget(call);
                return None;
            }
        }
        self.last += 1;
        self.counters.messages += 1;
        let held = self.calls.get_mut(&call)?;
        held.queue.push_back(self.last);
        let pending = Pending {
            call,
            message,
            posted_at: now,
            sent_at: now,
            state: State::Waiting,
            retry_at: now,
            refusals: 0,
        };
        self.pending.insert(self.last, pending);
        self.promote(call);
        None
    }

    /// No message of this call was ever sent, so the service cannot know it.
    fn was_never_sent(&self, call: CallKey) -> bool {
        let Some(held) = self.calls.get(&call) else {
            return true;
        };
        let untold = |no: &u64| {
            self.pending
                .get(no)
                .is_some_and(|it| it.state == State::Waiting)
        };
        held.id.is_none() && held.queue.iter().all(untold)
    }

    /// Makes the messages ready whose turn it is: those up to the first that the others wait for.
    fn promote(&mut self, call: CallKey) {
        let Some(held) = self.calls.get(&call) else {
            return;
        };
        for no in &held.queue {
            let Some(pending) = self.pending.get(no) else {
                continue;
            };
            if pending.state != State::Sent && pending.refusals == 0 {
                self.ready.insert(*no);
            }
            if pending.message.is_in_order() {
                return;
            }
        }
    }

    /// The call's task is gone. A call that is not over is reported as failed.
    pub fn close(&mut self, call: CallKey, at: Millis, now: Duration) {
        let failed =
            CallReport::failed(HangupReason::BridgeError, "The bridge let go of the call.");
        self.post(call, failed, Some(at), now);
        if let Some(held) = self.calls.get_mut(&call) {
            held.is_detached = true;
        }
        self.tidy(call);
    }

    pub fn connected(&mut self) {
        self.is_connected = true;
    }

    pub fn is_connected(&self) -> bool {
        self.is_connected
    }

    pub fn disconnected(&mut self) {
        self.is_connected = false;
        self.in_flight = 0;
        for (no, pending) in &mut self.pending {
            if pending.state == State::Sent {
                pending.state = State::Again;
                self.ready.insert(*no);
            }
        }
    }

    /// The next message to write.
    pub fn next(&mut self, now: Duration) -> Option<String> {
        while let Some((at, no)) = self.postponed.first().copied()
            && at <= now
        {
            self.postponed.pop_first();
            self.ready.insert(no);
        }
        if !self.is_connected || self.in_flight >= IN_FLIGHT_MAX {
            return None;
        }
        let no = self.ready.pop_first()?;
        let id = self.id_of(no);
        let pending = self.pending.get_mut(&no)?;
        let call = self.calls.get(&pending.call)?.id;
        let text = pending.message.encode(id, call)?;
        let is_repeat = pending.refusals > 0 || pending.state == State::Again;
        self.counters.resent += u64::from(is_repeat);
        pending.state = State::Sent;
        pending.sent_at = now;
        self.in_flight += 1;
        Some(text)
    }

    /// When [`Self::next`] will have a message that is not due yet.
    pub fn wakes_at(&self) -> Option<Duration> {
        let first = self.postponed.first().map(|(at, _)| *at);
        first.filter(|_| self.is_connected)
    }

    /// The heartbeat, which lists all held calls.
    pub fn heartbeat(&mut self, at: Option<Millis>) -> String {
        self.last += 1;
        let held = self.calls.values();
        let mut calls: Vec<CallId> = held
            .filter(|held| held.end != End::Acknowledged)
            .filter_map(|held| held.id)
            .collect();
        calls.sort_unstable();
        let heartbeat = Heartbeat {
            active: Some(calls),
            at,
        };
        let id = self.id_of(self.last);
        let content = MessageContent::Heartbeat(heartbeat);
        BridgeMessage { id, content }.to_text()
    }

    fn id_of(&self, no: u64) -> String {
        format!("{}-{no}", self.prefix)
    }

    /// Handles a frame of the service. Returns what each call is to be told.
    pub fn on_frame(&mut self, text: &str, now: Duration) -> Vec<(CallKey, ServiceEvent)> {
        match read(text) {
            Some(ServiceFrame::Reply { to, body }) => {
                let no = to
                    .strip_prefix(&self.prefix)
                    .and_then(|rest| rest.strip_prefix('-')?.parse().ok());
                no.map_or_else(Vec::new, |no| self.on_reply(no, body, now))
            }
            Some(ServiceFrame::Command(command)) => self.on_command(command).into_iter().collect(),
            None => Vec::new(),
        }
    }

    fn on_reply(
        &mut self,
        no: u64,
        body: ReplyBody,
        now: Duration,
    ) -> Vec<(CallKey, ServiceEvent)> {
        if !self.pending.contains_key(&no) {
            // The reply to a heartbeat, or a second reply.
            return self.ended(body);
        }
        if let ReplyBody::Error(error) = &body
            && let Some(code) = error.for_now()
        {
            self.postpone(no, code, now);
            return Vec::new();
        }
        let Some(pending) = self.take(no) else {
            return Vec::new();
        };
        let key = pending.call;
        if let Some(next) = self.with_next_did(&pending, &body) {
            self.queue(key, next, now);
            return Vec::new();
        }
        let (mut reply, mut id) = interpret(pending.message.named(), body);
        if pending.message.kind() != MessageType::Incoming {
            id = None;
        }
        if id.is_some_and(|id| self.has_seen(id)) {
            // To the service a repeat is the same call, so messages of this one would be attributed to the other.
            let words = "The call has been here before.";
            (reply, id) = (
                declined_here(pending.message.named(), "repeated", words),
                None,
            );
        }
        let Some(held) = self.calls.get_mut(&key) else {
            return Vec::new();
        };
        if let Some(id) = id {
            held.id = Some(id);
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
            self.promote(key);
            self.tidy(key);
        }
        let delay = ReplyDelay {
            since_posted: now.saturating_sub(pending.posted_at),
            since_sent: now.saturating_sub(pending.sent_at),
        };
        let event = is_listening.then_some((key, ServiceEvent::Reply(reply, delay)));
        event.into_iter().collect()
    }

    /// The call with the next called number, if nobody has this one. A caller who has hung up needs none.
    fn with_next_did(&mut self, pending: &Pending, body: &ReplyBody) -> Option<PostedMessage> {
        let held = self.calls.get_mut(&pending.call)?;
        if !body.is_error(ErrorCode::UnknownNumber) || held.end != End::None {
            return None;
        }
        pending.message.with_did(held.other_dids.pop_front()?)
    }

    /// The service refused a message for now: it is sent again later.
    fn postpone(&mut self, no: u64, code: ErrorCode, now: Duration) {
        let Some(pending) = self.pending.get_mut(&no) else {
            return;
        };
        if pending.state != State::Sent {
            return;
        }
        match code {
            ErrorCode::Busy => self.counters.busy += 1,
            _ => self.counters.unavailable += 1,
        }
        let wait = RETRY_FIRST * (1 << pending.refusals.min(8));
        pending.refusals += 1;
        pending.state = State::Waiting;
        self.in_flight -= 1;
        // Jitter, so that messages are not all repeated at the same moment.
        let spread = Duration::from_millis(no.wrapping_mul(7_919) % 250);
        pending.retry_at = now + wait.min(RETRY_MAX) + spread;
        self.postponed.insert((pending.retry_at, no));
    }

    /// Removes a message that is answered.
    fn take(&mut self, no: u64) -> Option<Pending> {
        let pending = self.pending.remove(&no)?;
        if pending.state == State::Sent {
            self.in_flight -= 1;
        }
        self.ready.remove(&no);
        self.postponed.remove(&(pending.retry_at, no));
        if let Some(held) = self.calls.get_mut(&pending.call) {
            held.queue.retain(|queued| *queued != no);
        }
        Some(pending)
    }

    /// The service's id belongs to another call of this bridge, present or past.
    fn has_seen(&self, id: CallId) -> bool {
        self.by_id.contains_key(&id) || self.over.contains(&id)
    }

    /// The calls that a heartbeat's reply reports as over.
    fn ended(&self, body: ReplyBody) -> Vec<(CallKey, ServiceEvent)> {
        let running = |id: &CallId| {
            let key = self.by_id.get(id)?;
            let held = self.calls.get(key)?;
            (held.end == End::None && !held.is_detached).then_some((*key, ServiceEvent::Over))
        };
        ended_calls(body).iter().filter_map(running).collect()
    }

    fn on_command(&mut self, command: Command) -> Option<(CallKey, ServiceEvent)> {
        let key = *self.by_id.get(&command.call)?;
        let held = self.calls.get_mut(&key)?;
        if held.is_detached || held.commands.contains(&command.id) {
            return None;
        }
        if held.commands.len() == COMMANDS_REMEMBERED {
            held.commands.pop_front();
        }
        held.commands.push_back(command.id);
        Some((key, ServiceEvent::Command(command.kind)))
    }

    pub fn counters(&self) -> ExchangeCounters {
        self.counters
    }

    /// A message that was sent before `limit` is unacknowledged.
    pub fn waits_since_before(&self, limit: Duration) -> bool {
        let waits = |pending: &Pending| pending.state == State::Sent && pending.sent_at < limit;
        self.pending.values().any(waits)
    }

    /// Every message is acknowledged.
    pub fn is_quiet(&self) -> bool {
        self.pending.is_empty()
    }

    fn tidy(&mut self, call: CallKey) {
        let held = self.calls.get(&call);
        if held.is_some_and(|held| held.is_detached && held.queue.is_empty()) {
            self.forget(call);
        }
    }

    /// Drops a call that is over, with its messages.
    pub fn forget(&mut self, call: CallKey) {
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
            self.take(no);
        }
    }
}

#[cfg(test)]
mod tests;
