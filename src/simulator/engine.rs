//! Many simulated calls over one connection: unacknowledged messages, timers and counters. Pure: the caller
//! supplies the connection and the time, in microseconds since the start.

use std::collections::{BTreeMap, HashMap, VecDeque};

use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};

use super::{
    call::{CallEnd, Incident, MessageKind, Reaction, Say, SimulatedCall},
    messages,
    scenario::{CallScenario, CallScript},
    tally::{Latencies, MeasuredLatencies, Totals},
};

/// Unacknowledged messages on the connection; further ones wait in the queue. The service answers `busy` only at a
/// higher number.
const IN_FLIGHT_MAX: usize = 4_000;
/// Maximum delay of call starts that is caught up with the configured rate.
const LAG_US_MAX: i64 = 100_000;
/// First backoff after `busy` or `unavailable`; each further one doubles.
const REST_US_FIRST: i64 = 100_000;
const REST_DOUBLINGS_MAX: u32 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delivery {
    Queued,
    InFlight {
        since_us: i64,
    },
    /// Waiting for its retry.
    Resting,
}

#[derive(Debug)]
struct Message {
    /// `None` for the heartbeat.
    call: Option<(u64, MessageKind)>,
    text: String,
    made_us: i64,
    sent: u32,
    delivery: Delivery,
}

#[derive(Debug)]
struct PlacedCall {
    call: SimulatedCall,
    /// The call's id, once the service has assigned one.
    id: Option<String>,
}

#[derive(Clone, Copy, Debug)]
enum Timer {
    Call(u64),
    Resend(u64),
}

/// The bridge without its socket.
#[derive(Debug)]
pub struct SimulatedCalls {
    scenario: CallScenario,
    rng: StdRng,
    /// Makes this run's ids unique among all runs.
    run: String,
    calls: HashMap<u64, PlacedCall>,
    by_id: HashMap<String, u64>,
    messages: BTreeMap<u64, Message>,
    queue: VecDeque<u64>,
    in_flight: usize,
    timers: BTreeMap<(i64, u64), Timer>,
    numbered: u64,
    next_start_us: i64,
    connected: bool,
    was_lost: bool,
    stopping: bool,
    totals: Totals,
    latencies: Latencies,
    service_latencies: Latencies,
    function_latencies: Latencies,
}

impl SimulatedCalls {
    /// A bridge without calls. Equal seeds draw equal calls.
    pub fn new(scenario: CallScenario, seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let run = format!("{:012x}", rng.random::<u64>() >> 16);
        let mut engine = Self {
            scenario,
            rng,
            run,
            calls: HashMap::new(),
            by_id: HashMap::new(),
            messages: BTreeMap::new(),
            queue: VecDeque::new(),
            in_flight: 0,
            timers: BTreeMap::new(),
            numbered: 0,
            next_start_us: 0,
            connected: false,
            was_lost: false,
            stopping: false,
            totals: Totals::default(),
            latencies: Latencies::default(),
            service_latencies: Latencies::default(),
            function_latencies: Latencies::default(),
        };
        if engine.scenario.forgets_earlier_calls {
            let seq = engine.number();
            let text =
                json!({"id": engine.message_id(seq), "type": "heartbeat", "activeCalls": []})
                    .to_string();
            engine.enqueue(seq, None, text, 0);
        }
        engine
    }

    /// The connection is open: all unacknowledged messages are sent again, oldest first.
    pub fn connected(&mut self) {
        self.connected = true;
        self.totals.reconnects += u64::from(self.was_lost);
    }

    /// The connection is lost. Messages in flight may have arrived.
    pub fn disconnected(&mut self) {
        self.connected = false;
        self.in_flight = 0;
        self.queue = self.messages.keys().copied().collect();
        self.messages
            .values_mut()
            .for_each(|message| message.delivery = Delivery::Queued);
        self.was_lost = true;
    }

    /// Places no more calls and hangs up the active ones.
    pub fn stop(&mut self, now_us: i64) {
        self.stopping = true;
        let calls: Vec<u64> = self.calls.keys().copied().collect();
        for number in calls {
            self.tell(number, Incident::Stop, now_us);
        }
    }

    /// Handles everything due by now.
    pub fn advance(&mut self, now_us: i64) {
        while let Some(entry) = self.timers.first_entry() {
            if entry.key().0 > now_us {
                break;
            }
            match entry.remove() {
                Timer::Call(number) => self.tell(number, Incident::Wake, now_us),
                Timer::Resend(seq) => self.requeue(seq),
            }
        }
        while self.may_start() && self.next_start_us <= now_us {
            self.start_call(now_us);
        }
    }

    /// The next time at which [`advance`](Self::advance) has something to do.
    pub fn next_wake_us(&self) -> Option<i64> {
        let timer = self.timers.first_key_value().map(|((due, _), _)| *due);
        let start = self.may_start().then_some(self.next_start_us);
        timer.into_iter().chain(start).min()
    }

    /// The next message to send, if there is one and fewer than [`IN_FLIGHT_MAX`] are in flight.
    pub fn next_message(&mut self, now_us: i64) -> Option<String> {
        while self.connected && self.in_flight < IN_FLIGHT_MAX {
            let seq = self.queue.pop_front()?;
            let Some(message) = self.messages.get_mut(&seq) else {
                continue;
            };
            message.delivery = Delivery::InFlight { since_us: now_us };
            self.in_flight += 1;
            self.totals.resent += u64::from(message.sent > 0);
            message.sent += 1;
            return Some(message.text.clone());
        }
        None
    }

    /// Handles a frame from the service. Unknown frames are ignored.
    pub fn on_text(&mut self, text: &[u8], now_us: i64) {
        let Ok(frame) = serde_json::from_slice::<Value>(text) else {
            return;
        };
        if let Some(command) = frame["command"].as_str() {
            self.on_command(command, &frame, now_us);
        } else if let Some(seq) = frame["replyTo"]
            .as_str()
            .and_then(|id| self.numbered_message(id))
        {
            self.on_reply(seq, &frame, now_us);
        }
    }

    /// True if all calls to be placed have ended.
    pub fn is_done(&self) -> bool {
        let placed_all = self
            .scenario
            .calls
            .is_some_and(|calls| self.totals.calls >= calls);
        self.calls.is_empty() && (placed_all || self.stopping)
    }

    /// True if a message sent before `limit_us` is unacknowledged, which means a dead connection.
    pub fn waits_since_before(&self, limit_us: i64) -> bool {
        let waits = |message: &Message| matches!(message.delivery, Delivery::InFlight { since_us } if since_us < limit_us);
        self.messages.values().any(waits)
    }

    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The totals, including unfinished calls, and the latencies.
    pub fn finish(mut self) -> (Totals, MeasuredLatencies) {
        self.totals.unfinished = self.calls.len() as u64;
        let measured = MeasuredLatencies {
            all: self.latencies,
            service: self.service_latencies,
            functions: self.function_latencies,
        };
        (self.totals, measured)
    }

    fn may_start(&self) -> bool {
        self.connected
            && !self.stopping
            && self.calls.len() < self.scenario.concurrency
            && self
                .scenario
                .calls
                .is_none_or(|calls| self.totals.calls < calls)
    }

    fn start_call(&mut self, now_us: i64) {
        let number = self.totals.calls;
        self.totals.calls += 1;
        self.next_start_us =
            (self.next_start_us + self.scenario.interval_us).max(now_us - LAG_US_MAX);
        let script = self.draw_script();
        let caller = format!("+62812{:08}", self.rng.random_range(0..100_000_000_u32));
        let did =
            &self.scenario.dids[usize::try_from(number).unwrap_or(0) % self.scenario.dids.len()];
        let seq = self.numbered + 1;
        let text = messages::incoming(
            &self.message_id(seq),
            &format!("sim-{}-{number}", self.run),
            did,
            &caller,
        );
        self.numbered = seq;
        self.calls.insert(
            number,
            PlacedCall {
                call: SimulatedCall::new(script),
                id: None,
            },
        );
        self.enqueue(seq, Some((number, MessageKind::Incoming)), text, now_us);
    }

    fn draw_script(&mut self) -> CallScript {
        let (ring, talk) = (self.scenario.ring_ms, self.scenario.talk_ms);
        let shows = self.scenario.shows_first && self.totals.calls == 1;
        let drawn = CallScript {
            ring_ms: self.rng.random_range(ring.0..=ring.1.max(ring.0)),
            talk_ms: self.rng.random_range(talk.0..=talk.1.max(talk.0)),
            abandons: self.rng.random_range(0..1_000) < self.scenario.abandon_per_mille,
            asks: self.rng.random_range(0..1_000) < self.scenario.functions_per_mille,
            agent_ends: self.rng.random_range(0..3) == 0,
            choice: self.rng.random_range(0..1_000),
        };
        CallScript {
            abandons: drawn.abandons && !shows,
            asks: drawn.asks || shows,
            ..drawn
        }
    }

    fn on_command(&mut self, command: &str, frame: &Value, now_us: i64) {
        let Some(number) = frame["callId"]
            .as_str()
            .and_then(|id| self.by_id.get(id))
            .copied()
        else {
            return;
        };
        self.totals.commands += 1;
        let reason = frame["reason"]
            .as_str()
            .and_then(|reason| reason.parse().ok());
        match (command, reason) {
            ("hangup", Some(reason)) => self.tell(number, Incident::HangUpCommand(reason), now_us),
            ("transfer", _) => self.tell(number, Incident::TransferCommand, now_us),
            // A warning lets an agent say goodbye; this one has nothing to say.
            _ => {}
        }
    }

    fn on_reply(&mut self, seq: u64, reply: &Value, now_us: i64) {
        let Some(message) = self.messages.get_mut(&seq) else {
            return;
        };
        if matches!(message.delivery, Delivery::InFlight { .. }) {
            self.in_flight -= 1;
        }
        let code = reply["error"]["code"].as_str().unwrap_or_default();
        let ok = reply["ok"] == true;
        if matches!(code, "busy" | "unavailable") {
            message.delivery = Delivery::Resting;
            let rest_us = REST_US_FIRST << (message.sent - 1).min(REST_DOUBLINGS_MAX);
            self.totals.errors += 1;
            self.totals.count_reason(code);
            return self.set_timer(now_us + rest_us, Timer::Resend(seq));
        }
        let Some(message) = self.messages.remove(&seq) else {
            return;
        };
        let Some((number, kind)) = message.call else {
            return;
        };
        self.count_reply(kind, ok, code, &message, now_us);
        let heard = self.understand(number, kind, ok, code, reply);
        self.tell(number, heard, now_us);
    }

    fn count_reply(
        &mut self,
        kind: MessageKind,
        ok: bool,
        code: &str,
        message: &Message,
        now_us: i64,
    ) {
        if !ok {
            self.totals.errors += 1;
            self.totals.count_reason(code);
            return;
        }
        self.totals.acknowledgements += 1;
        let since = |then_us: i64| u64::try_from(now_us - then_us).unwrap_or(0);
        if kind == MessageKind::Function {
            return self.function_latencies.record(since(message.made_us));
        }
        self.latencies.record(since(message.made_us));
        if let Delivery::InFlight { since_us } = message.delivery {
            self.service_latencies.record(since(since_us));
        }
    }

    fn understand(
        &mut self,
        number: u64,
        kind: MessageKind,
        ok: bool,
        code: &str,
        reply: &Value,
    ) -> Incident {
        let is_over = matches!(
            reply["error"]["status"].as_str(),
            Some("ended" | "dropped" | "failed")
        );
        match kind {
            _ if !ok && code == "invalid_transition" && is_over => Incident::TooLate(kind),
            _ if !ok => Incident::Error {
                to: kind,
                code: code.to_owned(),
            },
            MessageKind::Incoming => self.understand_incoming(number, reply),
            MessageKind::Answered => {
                self.totals.answered += 1;
                Incident::Acknowledged(kind)
            }
            MessageKind::Function => {
                self.totals.functions_called += 1;
                self.totals.functions_failed += u64::from(reply["outcome"]["status"] != "ok");
                Incident::Acknowledged(kind)
            }
            MessageKind::Transcript | MessageKind::HangUp => Incident::Acknowledged(kind),
        }
    }

    fn understand_incoming(&mut self, number: u64, reply: &Value) -> Incident {
        if reply["action"] != "answer" {
            let reason = reply["reason"].as_str().unwrap_or("none given").to_owned();
            self.totals.count_reason(&reason);
            return Incident::Rejected { reason };
        }
        if let (Some(id), Some(placed)) = (reply["callId"].as_str(), self.calls.get_mut(&number)) {
            placed.id = Some(id.to_owned());
            self.by_id.insert(id.to_owned(), number);
        }
        Incident::Taken {
            functions: reply["agent"]["functions"]
                .as_array()
                .cloned()
                .unwrap_or_default(),
        }
    }

    /// Passes an input to a call and carries out the reaction. Ended calls get none.
    fn tell(&mut self, number: u64, heard: Incident, now_us: i64) {
        let Some(placed) = self.calls.get_mut(&number) else {
            return;
        };
        match placed.call.on(heard) {
            None => {}
            Some(Reaction::Say(say)) => self.say(number, &say, now_us),
            Some(Reaction::WakeAfterMs(ms)) => {
                let wait_us = i64::try_from(ms.saturating_mul(1_000)).unwrap_or(i64::MAX / 2);
                self.set_timer(now_us + wait_us, Timer::Call(number));
            }
            Some(Reaction::Over(outcome)) => self.end(number, &outcome),
        }
    }

    fn say(&mut self, number: u64, say: &Say, now_us: i64) {
        let Some(call_id) = self.calls.get(&number).and_then(|placed| placed.id.clone()) else {
            return;
        };
        let seq = self.number();
        let id = self.message_id(seq);
        let text = messages::about_call(&id, &call_id, &id, say);
        self.enqueue(seq, Some((number, say.kind())), text, now_us);
    }

    fn end(&mut self, number: u64, outcome: &CallEnd) {
        if let Some(id) = self.calls.remove(&number).and_then(|placed| placed.id) {
            self.by_id.remove(&id);
        }
        let count = match outcome {
            CallEnd::HungUp => None,
            CallEnd::Abandoned => Some(&mut self.totals.abandoned),
            CallEnd::Refused(_) => Some(&mut self.totals.refused),
            CallEnd::EndedByEngine => Some(&mut self.totals.ended_by_engine),
            CallEnd::Failed(_) => Some(&mut self.totals.failed),
        };
        if let Some(count) = count {
            *count += 1;
        }
        self.totals.ended += u64::from(!matches!(outcome, CallEnd::Failed(_)));
    }

    fn enqueue(&mut self, seq: u64, call: Option<(u64, MessageKind)>, text: String, made_us: i64) {
        self.totals.messages += 1;
        self.messages.insert(
            seq,
            Message {
                call,
                text,
                made_us,
                sent: 0,
                delivery: Delivery::Queued,
            },
        );
        self.queue.push_back(seq);
    }

    fn requeue(&mut self, seq: u64) {
        if let Some(message) = self
            .messages
            .get_mut(&seq)
            .filter(|message| message.delivery == Delivery::Resting)
        {
            message.delivery = Delivery::Queued;
            self.queue.push_back(seq);
        }
    }

    fn set_timer(&mut self, due_us: i64, timer: Timer) {
        let number = self.number();
        self.timers.insert((due_us, number), timer);
    }

    fn number(&mut self) -> u64 {
        self.numbered += 1;
        self.numbered
    }

    fn message_id(&self, seq: u64) -> String {
        format!("{}-{seq}", self.run)
    }

    fn numbered_message(&self, id: &str) -> Option<u64> {
        id.strip_prefix(self.run.as_str())?
            .strip_prefix('-')?
            .parse()
            .ok()
    }
}
