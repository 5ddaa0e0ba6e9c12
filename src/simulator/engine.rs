//! Many simulated calls over one connection: timers and counters. Pure: the caller supplies the connection and the time since
//! the start.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use dikala_entities::Millis;
use dikala_protocol::{
    CallReport, IncomingCall, InvocationOutcome, MessageType,
    client::{MessageExchange, ReplyDelay, ServiceEvent, ServiceReply},
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::{Map, Value};

use super::{
    call::{CallEnd, Incident, Reaction, SimulatedCall},
    scenario::{CallScenario, CallScript},
    tally::{Latencies, MeasuredLatencies, Totals},
};

/// Maximum delay of call starts that is caught up with the configured rate.
const LAG_MAX: Duration = Duration::from_millis(100);

/// The bridge without its socket.
#[derive(Debug)]
pub struct SimulatedCalls {
    scenario: CallScenario,
    /// The wall clock at the start.
    begun_at: Millis,
    rng: StdRng,
    /// Makes this run's ids unique among all runs.
    run: String,
    exchange: MessageExchange,
    calls: HashMap<u64, SimulatedCall>,
    /// Calls to wake up, by time; the second number makes the key unique.
    timers: BTreeMap<(Duration, u64), u64>,
    numbered: u64,
    next_start: Duration,
    was_lost: bool,
    /// The first heartbeat, which says that this bridge has no calls, is still to be sent.
    forgets: bool,
    stopping: bool,
    totals: Totals,
    /// Reported turns.
    turns: u64,
    latencies: Latencies,
    service_latencies: Latencies,
    function_latencies: Latencies,
}

impl SimulatedCalls {
    /// A bridge without calls. Equal seeds draw equal calls.
    pub fn new(scenario: CallScenario, seed: u64, begun_at: Millis) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let run = format!("{:012x}", rng.random::<u64>() >> 16);
        Self {
            forgets: scenario.forgets_earlier_calls,
            scenario,
            begun_at,
            rng,
            exchange: MessageExchange::new(run.clone()),
            run,
            calls: HashMap::new(),
            timers: BTreeMap::new(),
            numbered: 0,
            next_start: Duration::ZERO,
            was_lost: false,
            stopping: false,
            totals: Totals::default(),
            turns: 0,
            latencies: Latencies::default(),
            service_latencies: Latencies::default(),
            function_latencies: Latencies::default(),
        }
    }

    /// The connection is open: all unacknowledged messages are sent again, oldest first.
    pub fn connected(&mut self) {
        self.exchange.connected();
        self.totals.reconnects += u64::from(self.was_lost);
    }

    /// The connection is lost. Messages in flight may have arrived.
    pub fn disconnected(&mut self) {
        self.exchange.disconnected();
        self.was_lost = true;
    }

    /// Places no more calls and hangs up the active ones.
    pub fn stop(&mut self, now: Duration) {
        self.stopping = true;
        let calls: Vec<u64> = self.calls.keys().copied().collect();
        for number in calls {
            self.tell(number, Incident::Stop, now);
        }
    }

    /// Handles everything due by now.
    pub fn advance(&mut self, now: Duration) {
        while let Some(entry) = self.timers.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let number = entry.remove();
            self.tell(number, Incident::Wake, now);
        }
        while self.may_start() && self.next_start <= now {
            self.start_call(now);
        }
    }

    /// The next time at which [`advance`](Self::advance) has something to do.
    pub fn wakes_at(&self) -> Option<Duration> {
        let timer = self.timers.first_key_value().map(|((due, _), _)| *due);
        let start = self.may_start().then_some(self.next_start);
        let resend = self.exchange.wakes_at();
        timer.into_iter().chain(start).chain(resend).min()
    }

    /// The next message to send.
    pub fn next_message(&mut self, now: Duration) -> Option<String> {
        if self.forgets && self.exchange.is_connected() {
            self.forgets = false;
            return Some(self.exchange.heartbeat(None));
        }
        self.exchange.next(now)
    }

    /// Handles a frame from the service. Unknown frames are ignored.
    pub fn on_text(&mut self, text: &str, now: Duration) {
        for (number, event) in self.exchange.on_frame(text, now) {
            match event {
                ServiceEvent::Reply(reply, delay) => {
                    self.count_reply(&reply, delay);
                    self.tell(number, Incident::Reply(reply), now);
                }
                ServiceEvent::Command(command) => {
                    self.totals.commands += 1;
                    self.tell(number, Incident::Command(command), now);
                }
                // The only heartbeat of this bridge lists no calls.
                ServiceEvent::Over => {}
            }
        }
    }

    /// True if a message sent before `limit` is unacknowledged, which means a dead connection.
    pub fn waits_since_before(&self, limit: Duration) -> bool {
        self.exchange.waits_since_before(limit)
    }

    /// True if all calls to be placed have ended.
    pub fn is_done(&self) -> bool {
        let placed_all = self
            .scenario
            .calls
            .is_some_and(|calls| self.totals.calls >= calls);
        self.calls.is_empty() && (placed_all || self.stopping)
    }

    pub fn totals(&self) -> Totals {
        let counters = self.exchange.counters();
        let mut totals = self.totals.clone();
        totals.messages = counters.messages - self.turns;
        totals.resent = counters.resent;
        totals.errors += counters.busy + counters.unavailable;
        totals.count_reasons("busy", counters.busy);
        totals.count_reasons("unavailable", counters.unavailable);
        totals
    }

    /// The totals, including unfinished calls, and the latencies.
    pub fn finish(self) -> (Totals, MeasuredLatencies) {
        let totals = Totals {
            unfinished: self.calls.len() as u64,
            ..self.totals()
        };
        let measured = MeasuredLatencies {
            all: self.latencies,
            service: self.service_latencies,
            functions: self.function_latencies,
        };
        (totals, measured)
    }

    fn may_start(&self) -> bool {
        self.exchange.is_connected()
            && !self.stopping
            && self.calls.len() < self.scenario.concurrency
            && self
                .scenario
                .calls
                .is_none_or(|calls| self.totals.calls < calls)
    }

    fn start_call(&mut self, now: Duration) {
        let number = self.totals.calls;
        self.totals.calls += 1;
        self.next_start =
            (self.next_start + self.scenario.interval).max(now.saturating_sub(LAG_MAX));
        let script = self.draw_script();
        let caller = format!("+62812{:08}", self.rng.random_range(0..100_000_000_u32));
        let did =
            &self.scenario.dids[usize::try_from(number).unwrap_or(0) % self.scenario.dids.len()];
        let bridge_call_id = format!("sim-{}-{number}", self.run);
        let incoming = IncomingCall {
            bridge_call_id: bridge_call_id.clone(),
            called: did.clone().into(),
            caller_number: caller.parse().expect("a caller is any short text"),
            channel: None,
            draft: None,
            metadata: Some(Map::from_iter([(
                "simulated".to_owned(),
                Value::Bool(true),
            )])),
            at: None,
            trace: None,
        };
        self.calls
            .insert(number, SimulatedCall::new(script, bridge_call_id));
        self.exchange.open(number, incoming, now);
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

    fn count_reply(&mut self, reply: &ServiceReply, delay: ReplyDelay) {
        let totals = &mut self.totals;
        match reply {
            ServiceReply::Declined { code, .. } => {
                totals.errors += 1;
                return totals.count_reasons(code, 1);
            }
            ServiceReply::Refused { reason } => totals.count_reasons(reason.as_str(), 1),
            // Nobody waits for it, and the call may be over before it comes.
            ServiceReply::Done(MessageType::Turn) => return,
            ServiceReply::Done(kind) => {
                totals.answered += u64::from(*kind == MessageType::Answered);
            }
            ServiceReply::Outcome { outcome, .. } => {
                let failed = matches!(outcome, InvocationOutcome::Error { .. });
                totals.functions_called += 1;
                totals.functions_failed += u64::from(failed);
            }
            ServiceReply::Taken { .. } => {}
        }
        totals.acknowledgements += 1;
        if matches!(reply, ServiceReply::Outcome { .. }) {
            return self.function_latencies.record(delay.since_posted);
        }
        self.latencies.record(delay.since_posted);
        self.service_latencies.record(delay.since_sent);
    }

    /// Passes an input to a call and carries out the reaction. Ended calls get none.
    fn tell(&mut self, number: u64, heard: Incident, now: Duration) {
        let Some(call) = self.calls.get_mut(&number) else {
            return;
        };
        let elapsed = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
        match call.on(heard, self.begun_at.plus_ms(elapsed)) {
            None => {}
            Some(Reaction::Say(report)) => self.say(number, report, now),
            Some(Reaction::Turn {
                turn,
                wake_after_ms,
            }) => {
                self.wake(number, wake_after_ms, now);
                self.turns += 1;
                self.say(number, CallReport::Turn { turn }, now);
            }
            Some(Reaction::WakeAfterMs(ms)) => self.wake(number, ms, now),
            Some(Reaction::Over(outcome)) => self.end(number, &outcome),
        }
    }

    fn wake(&mut self, number: u64, after_ms: u64, now: Duration) {
        self.numbered += 1;
        let due = now + Duration::from_millis(after_ms);
        self.timers.insert((due, self.numbered), number);
    }

    fn say(&mut self, number: u64, report: CallReport, now: Duration) {
        let posted = self.exchange.post(number, report, None, now);
        if let Some(reply) = posted {
            self.count_reply(&reply, ReplyDelay::default());
            self.tell(number, Incident::Reply(reply), now);
        }
    }

    fn end(&mut self, number: u64, outcome: &CallEnd) {
        self.calls.remove(&number);
        self.exchange.forget(number);
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
}
