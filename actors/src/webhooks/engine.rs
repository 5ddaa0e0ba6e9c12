//! The dispatcher's working state, on one thread: lanes, turns, what is under way. The actor in front of it only passes
//! messages on; attempts, reads and records are tasks that come back here when they end.
//!
//! Nothing here waits with the state borrowed: every method takes it, changes it, and lets go.

use std::{
    cell::RefCell,
    collections::{BTreeSet, HashMap, VecDeque},
    panic::AssertUnwindSafe,
    rc::Rc,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use dikala_entities::{DeliveryId, Millis, TenantId, WebhookId};
use futures_util::FutureExt;
use tokio::sync::{Notify, oneshot};

use super::{
    Services, WebhooksConfig,
    attempt::{Attempted, Endpoint},
    lane::{Item, Lane, Limits, Target},
    results::Done,
    retry::{JITTER_PERMILLE_MAX, Schedule, Verdict},
    stats::Stats,
};
use crate::{
    gather::Gather,
    outbox::{DELIVERY_LEASE_MS, Dispatch},
    shares::fair,
};

/// Deliveries that wait in memory, over all lanes.
pub(super) const WAITING_MAX: usize = 16_384;
/// Attempts in one write.
const RECORD_BATCH: usize = 256;
/// Attempts that are over and not yet in the table; no new ones begin while there are more, so a database that is away stops the work.
const UNRECORDED_MAX: usize = 2_048;
/// Attempts begun in one go; a tenant's burst of them would hold up everybody's messages for milliseconds.
const BURST: usize = 8;
/// How long a lane rests after an attempt could not be made through a fault of our own, in milliseconds.
const REST_MS: i64 = 1_000;
/// What the lease must still hold beyond the longest exchange when an attempt begins, in milliseconds.
const LEASE_MARGIN_MS: i64 = 5_000;

/// The dispatcher without its mailbox.
#[derive(Debug)]
pub(super) struct Engine {
    pub(super) services: Services,
    pub(super) settings: Settings,
    pub(super) stats: Arc<Stats>,
    pub(super) state: RefCell<State>,
    /// Something may be due in the table.
    pub(super) woken: Notify,
    /// A recovery may have been asked for.
    pub(super) asked: Notify,
    /// An attempt was recorded, or the engine was abandoned.
    pub(super) changed: Notify,
}

#[derive(Debug)]
pub(super) struct Settings {
    schedule: Schedule,
    pub(super) timeout: Duration,
    pub(super) connections: usize,
    limits: Limits,
    max_in_flight: usize,
    tenant_max_in_flight: usize,
    /// How long a delivery that was read from the table belongs to this node.
    pub(super) lease_ms: i64,
}

impl Settings {
    /// How many attempts a tenant may have under way before he begins no more: a quarter of all; and while more than half are
    /// under way, a part of the other half that leaves as much for one tenant who has none yet.
    fn share(&self, in_flight: usize, tenants: usize) -> usize {
        fair(
            self.max_in_flight,
            self.tenant_max_in_flight,
            in_flight,
            tenants,
        )
    }
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) lanes: HashMap<WebhookId, Lane>,
    /// Lanes that may have something to begin, in the order of their turns.
    round: VecDeque<WebhookId>,
    /// Lanes of tenants that use their whole share, until an attempt of theirs ends.
    parked: HashMap<TenantId, Vec<WebhookId>>,
    by_tenant: HashMap<TenantId, usize>,
    pub(super) in_flight: usize,
    pub(super) waiting: usize,
    pub(super) results: Gather<Finished>,
    /// Attempts that are over and not yet in the table.
    pub(super) unrecorded: usize,
    /// Webhooks to read.
    pub(super) to_load: BTreeSet<WebhookId>,
    pub(super) loading: bool,
    /// Lanes to read deliveries for.
    pub(super) to_claim: VecDeque<WebhookId>,
    pub(super) claims: usize,
    /// Whether more attempts are about to begin.
    pumping: bool,
    /// Test deliveries under way.
    pub(super) tests: HashMap<TenantId, usize>,
    /// The first moment at which something will be due that nothing else announces.
    pub(super) next_due: Option<Millis>,
    pub(super) stopping: bool,
    /// Given up for another engine: what ends now ends unheard.
    pub(super) dead: bool,
    started_at: Millis,
}

/// An attempt that is over, on its way to the table.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) done: Done,
    /// Who waits for it to be recorded.
    pub(super) recorded: Option<oneshot::Sender<()>>,
}

impl Settings {
    fn new(config: &WebhooksConfig) -> Self {
        let timeout_ms = i64::try_from(config.timeout.as_millis()).unwrap_or(i64::MAX / 4);
        let connections = config.endpoint_concurrency.max(1);
        let max_in_flight = config.max_in_flight.max(1);
        Self {
            schedule: Schedule::from_seconds(&config.retry_schedule_seconds),
            timeout: config.timeout,
            connections,
            limits: Limits {
                concurrency: connections,
                lease_ms_min: timeout_ms + LEASE_MARGIN_MS,
            },
            max_in_flight,
            tenant_max_in_flight: max_in_flight.div_ceil(4),
            lease_ms: DELIVERY_LEASE_MS.max(timeout_ms * 4),
        }
    }
}

impl Engine {
    pub(super) fn new(services: Services, config: &WebhooksConfig, stats: Arc<Stats>) -> Rc<Self> {
        let started_at = services.clock.now();
        Rc::new(Self {
            settings: Settings::new(config),
            services,
            stats,
            state: RefCell::new(State::new(started_at)),
            woken: Notify::new(),
            asked: Notify::new(),
            changed: Notify::new(),
        })
    }

    pub(super) fn now(&self) -> Millis {
        self.services.clock.now()
    }

    /// Takes no part any more: tasks under way end unheard.
    pub(super) fn abandon(&self) {
        let mut state = self.state.borrow_mut();
        state.dead = true;
        state.stopping = true;
        drop(state);
        self.woken.notify_one();
        self.asked.notify_one();
        self.changed.notify_waiters();
    }

    /// Something may be due in the table, or asked for there.
    pub(super) fn wake(&self) {
        self.woken.notify_one();
        self.asked.notify_one();
    }

    /// Takes committed deliveries; what finds no room is left to the table.
    pub(super) fn deliver(self: &Rc<Self>, dispatches: Vec<Dispatch>) {
        let now = self.now();
        let left = self.state.borrow_mut().deliver(dispatches, now);
        self.stats.left_in_table.fetch_add(left, Relaxed);
        self.load();
        self.pump();
    }

    /// Begins attempts as long as there are turns and permits.
    pub(super) fn pump(self: &Rc<Self>) {
        let now = self.now();
        let mut begun = 0;
        while begun < BURST {
            let next = self.state.borrow_mut().next(&self.settings, now);
            let Some((endpoint, item)) = next else {
                break;
            };
            self.begin(endpoint, item);
            begun += 1;
        }
        if begun == BURST {
            self.pump_later();
        }
        self.claim();
        self.gauge();
    }

    /// Lets what came in between have its turn, then goes on.
    fn pump_later(self: &Rc<Self>) {
        if std::mem::replace(&mut self.state.borrow_mut().pumping, true) {
            return;
        }
        let engine = Rc::clone(self);
        actix_rt::spawn(async move {
            tokio::task::yield_now().await;
            engine.state.borrow_mut().pumping = false;
            engine.pump();
        });
    }

    fn begin(self: &Rc<Self>, endpoint: Rc<Endpoint>, item: Item) {
        let engine = Rc::clone(self);
        actix_rt::spawn(async move {
            let started_at = engine.now();
            let timeout = engine.settings.timeout;
            let signed_at = engine.services.clock.on_the_wall(started_at);
            let attempt = endpoint.attempt(&item.dispatch, started_at, signed_at, timeout);
            // A panic in here must not leave the lane with a slot taken for ever.
            let attempted = AssertUnwindSafe(attempt).catch_unwind().await.ok();
            engine.ended(item, attempted);
        });
    }

    fn ended(self: &Rc<Self>, item: Item, attempted: Option<Attempted>) {
        let now = self.now();
        if self.state.borrow().dead {
            return;
        }
        match attempted.filter(|attempted| !attempted.is_our_fault()) {
            None => {
                self.stats.own_faults.fetch_add(1, Relaxed);
                self.state.borrow_mut().not_made(item, now);
            }
            Some(attempted) => {
                let verdict = self.verdict(&item.dispatch, &attempted, now);
                self.count(&item, &attempted, verdict, now);
                self.state.borrow_mut().ended(&item, verdict, now);
                self.finish(done(&item.dispatch, attempted, verdict, now), None);
            }
        }
        self.changed.notify_waiters();
        self.pump();
    }

    /// What becomes of a delivery after an attempt; a test has one only.
    pub(super) fn verdict(
        &self,
        dispatch: &Dispatch,
        attempted: &Attempted,
        now: Millis,
    ) -> Verdict {
        let jitter = rand::random_range(0..=JITTER_PERMILLE_MAX);
        let number = dispatch.attempts.saturating_add(1);
        let ended = attempted.ended();
        let verdict = self.settings.schedule.verdict(number, &ended, now, jitter);
        match verdict {
            Verdict::Retry { .. } | Verdict::Gone if dispatch.is_test => Verdict::GivenUp,
            verdict => verdict,
        }
    }

    fn count(&self, item: &Item, attempted: &Attempted, verdict: Verdict, now: Millis) {
        let counter = match verdict {
            Verdict::Delivered => &self.stats.succeeded,
            Verdict::Retry { .. } => &self.stats.retried,
            Verdict::GivenUp | Verdict::Gone => &self.stats.failed,
        };
        counter.fetch_add(1, Relaxed);
        let took_ms = u64::try_from(attempted.duration_ms).unwrap_or(0);
        self.stats.exchange.observe_ms(took_ms);
        if verdict == Verdict::Delivered && item.dispatch.attempts == 0 {
            let since = u64::try_from(now.since(item.created)).unwrap_or(0);
            self.stats.latency.observe_ms(since);
        }
    }

    /// Hands an attempt to the recorder.
    pub(super) fn finish(self: &Rc<Self>, done: Done, recorded: Option<oneshot::Sender<()>>) {
        let mut state = self.state.borrow_mut();
        state.unrecorded += 1;
        let pushed = state.results.push(Finished { done, recorded });
        // No attempt begins beyond `UNRECORDED_MAX`, and the queue has room for those under way then. Were it full
        // nevertheless, the delivery's lease would run out and it would be sent again.
        if pushed.is_err() {
            state.unrecorded -= 1;
        }
        drop(state);
        self.record();
    }

    fn gauge(&self) {
        let state = self.state.borrow();
        let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        self.stats.in_flight.store(count(state.in_flight), Relaxed);
        self.stats
            .unrecorded
            .store(count(state.unrecorded), Relaxed);
        self.stats.lanes.store(count(state.lanes.len()), Relaxed);
    }
}

impl State {
    fn new(started_at: Millis) -> Self {
        Self {
            lanes: HashMap::new(),
            round: VecDeque::new(),
            parked: HashMap::new(),
            by_tenant: HashMap::new(),
            in_flight: 0,
            waiting: 0,
            results: Gather::new(RECORD_BATCH, UNRECORDED_MAX * 4),
            unrecorded: 0,
            to_load: BTreeSet::new(),
            loading: false,
            to_claim: VecDeque::new(),
            claims: 0,
            pumping: false,
            tests: HashMap::new(),
            next_due: None,
            stopping: false,
            dead: false,
            started_at,
        }
    }

    /// The lane of a webhook; a new one asks for its webhook to be read.
    pub(super) fn lane(&mut self, webhook: WebhookId, tenant: TenantId, now: Millis) -> &mut Lane {
        if !self.lanes.contains_key(&webhook) {
            self.to_load.insert(webhook);
        }
        self.lanes
            .entry(webhook)
            .or_insert_with(|| Lane::new(tenant, now))
    }

    /// Counts what waits in memory. Between two counts only additions are followed, so the figure errs upwards.
    pub(super) fn count_waiting(&mut self) {
        self.waiting = self.lanes.values().map(Lane::waiting).sum();
    }

    /// Returns how many were left to the table.
    fn deliver(&mut self, dispatches: Vec<Dispatch>, now: Millis) -> u64 {
        let mut left = 0;
        for dispatch in dispatches {
            let webhook = dispatch.webhook;
            let created = created(dispatch.delivery);
            // What was committed before this engine began is read from the table, where its lease was released.
            let ours = created >= self.started_at && !self.stopping;
            let item = Item {
                lease_until: created.plus_ms(DELIVERY_LEASE_MS),
                created,
                dispatch,
            };
            let room = ours && self.waiting < WAITING_MAX;
            let lane = self.lane(webhook, item.dispatch.tenant, now);
            if lane.offer(item, room, now) {
                self.waiting += 1;
                self.take_turn(webhook);
            } else {
                left += 1;
            }
        }
        left
    }

    /// Puts a lane into the round.
    pub(super) fn take_turn(&mut self, webhook: WebhookId) {
        if let Some(lane) = self.lanes.get_mut(&webhook)
            && !lane.in_round
        {
            lane.in_round = true;
            self.round.push_back(webhook);
        }
    }

    /// The next attempt that may begin: lanes take turns, one attempt each.
    fn next(&mut self, settings: &Settings, now: Millis) -> Option<(Rc<Endpoint>, Item)> {
        let full = self.in_flight >= settings.max_in_flight || self.unrecorded >= UNRECORDED_MAX;
        if full || self.stopping {
            return None;
        }
        while let Some(webhook) = self.round.pop_front() {
            let Some(lane) = self.lanes.get_mut(&webhook) else {
                continue;
            };
            let share = settings.share(self.in_flight, self.by_tenant.len());
            let running = self.by_tenant.entry(lane.tenant).or_insert(0);
            if *running >= share {
                self.parked.entry(lane.tenant).or_default().push(webhook);
                continue;
            }
            let Some(begun) = lane.take(settings.limits, now) else {
                lane.in_round = false;
                if *running == 0 {
                    let tenant = lane.tenant;
                    self.by_tenant.remove(&tenant);
                }
                self.want(webhook, now);
                continue;
            };
            *running += 1;
            self.in_flight += 1;
            self.round.push_back(webhook);
            self.want(webhook, now);
            return Some(begun);
        }
        None
    }

    /// Asks for a lane's deliveries in the table, if it has some there and room for them.
    pub(super) fn want(&mut self, webhook: WebhookId, now: Millis) {
        let wants = self
            .lanes
            .get(&webhook)
            .is_some_and(|lane| lane.should_read(now));
        if wants && !self.to_claim.contains(&webhook) {
            self.to_claim.push_back(webhook);
        }
    }

    fn slot_free(&mut self, webhook: WebhookId, tenant: TenantId) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if let Some(running) = self.by_tenant.get_mut(&tenant) {
            *running = running.saturating_sub(1);
            if *running == 0 {
                self.by_tenant.remove(&tenant);
            }
        }
        for parked in self.parked.remove(&tenant).unwrap_or_default() {
            self.round.push_back(parked);
        }
        self.take_turn(webhook);
    }

    fn ended(&mut self, item: &Item, verdict: Verdict, now: Millis) {
        let webhook = item.dispatch.webhook;
        if let Some(lane) = self.lanes.get_mut(&webhook) {
            lane.ended(item, now);
            match verdict {
                Verdict::Delivered => lane.circuit.succeeded(),
                Verdict::Retry { at } => lane.circuit.failed(now, Some(at.since(now))),
                Verdict::GivenUp => lane.circuit.failed(now, None),
                Verdict::Gone => {
                    lane.circuit.failed(now, None);
                    lane.closing = true;
                    lane.target = Target::Disabled;
                    lane.forget();
                }
            }
            let looks_at = lane.looks_at();
            self.due(looks_at);
        }
        if let Verdict::Retry { at } = verdict {
            self.due(Some(at));
        }
        self.slot_free(webhook, item.dispatch.tenant);
    }

    fn not_made(&mut self, item: Item, now: Millis) {
        let (webhook, tenant) = (item.dispatch.webhook, item.dispatch.tenant);
        let until = now.plus_ms(REST_MS);
        if let Some(lane) = self.lanes.get_mut(&webhook) {
            lane.not_made(item, until, now);
        }
        self.due(Some(until));
        self.slot_free(webhook, tenant);
    }

    /// Remembers that something will be due.
    pub(super) fn due(&mut self, at: Option<Millis>) {
        self.next_due = match (self.next_due, at) {
            (Some(known), Some(at)) => Some(known.min(at)),
            (known, at) => known.or(at),
        };
    }
}

/// When a delivery was made: an id begins with its milliseconds.
pub(super) fn created(delivery: DeliveryId) -> Millis {
    Millis::from_i64(i64::try_from(delivery.as_u128() >> 80).unwrap_or(i64::MAX))
}

/// An attempt as it goes into the table.
pub(super) fn done(
    dispatch: &Dispatch,
    attempted: Attempted,
    verdict: Verdict,
    now: Millis,
) -> Done {
    let (status_code, error_kind, response) = match attempted.result {
        Ok(answer) => (Some(answer.status), None, answer.body),
        Err(failure) => (failure.status, Some(failure.kind.as_str()), failure.body),
    };
    Done {
        delivery: dispatch.delivery,
        webhook: dispatch.webhook,
        tenant: dispatch.tenant,
        number: dispatch.attempts.saturating_add(1),
        is_test: dispatch.is_test,
        started_at: attempted.started_at,
        ended_at: now,
        duration_ms: attempted.duration_ms,
        status_code,
        error_kind,
        response,
        verdict,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However many tenants take all they can get, one who has nothing under way finds room.
    #[test]
    fn no_number_of_busy_tenants_takes_everything() {
        let settings = Settings::new(&WebhooksConfig::default());
        assert_eq!(settings.share(0, 0), 64);
        assert_eq!(settings.share(128, 3), 64);
        for busy in 1..100 {
            let mut running = vec![0; busy];
            loop {
                let in_flight: usize = running.iter().sum();
                let share = settings.share(in_flight, busy);
                let Some(hungry) = running.iter_mut().find(|count| **count < share) else {
                    break;
                };
                *hungry += 1;
            }
            let in_flight: usize = running.iter().sum();
            assert!(
                in_flight < settings.max_in_flight,
                "{busy} tenants took all"
            );
        }
    }
}
