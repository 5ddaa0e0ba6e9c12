//! The courier of a simulation: carries out what the real scheduler decides, on deliveries in memory and towards a receiver that
//! fails now and then. What follows from an attempt is decided by the real schedule.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    rc::Rc,
    sync::Arc,
};

use dikala_entities::{CallId, DeliveryId, EventId, Millis, WebhookId};
use futures_util::future::{FutureExt, select};
use tokio::sync::Notify;

use super::{
    retry::{Schedule, Verdict},
    scheduler::{
        Destination, DueWebhook, Effect, Item, LaneLimits, Refill, Scheduler, SchedulerLimits,
    },
    store::pending::ON_ITS_WAY_MS,
};
use crate::{
    events::outbox::{DELIVERY_LEASE_MS, Dispatch},
    nodes::Membership,
    outbound::{ErrorKind, Exchange, Failure},
    runtime::{
        clock::Clock,
        simulated::{
            chance::Chance,
            clock::NodeClock,
            tables::{DeliveryRow, DeliveryState, Flaw, Tables},
            tasks::Tasks,
            wire::{Away, Wire},
        },
    },
};

/// For one whole exchange.
const TIMEOUT_MS: i64 = 15_000;
const LOOK_MS: i64 = 1_000;
const AGAIN_MS: i64 = 500;
/// So many attempts that none is the last while faults last.
const WAITS_SECONDS: [i64; 40] = [5; 40];

/// An attempt as the tenant's server saw it.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) delivery: DeliveryId,
    pub(crate) webhook: WebhookId,
    pub(crate) event: EventId,
    pub(crate) call: Option<CallId>,
    /// 1 for the first attempt.
    pub(crate) number: i64,
    pub(crate) is_taken: bool,
}

/// The tenants' servers.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) received: Vec<Received>,
    /// How often of a thousand times they answer with a fault.
    pub(crate) fails_permille: i64,
    pub(crate) chance: Chance,
}

impl Receiver {
    fn post(&mut self, dispatch: &Dispatch) -> Exchange {
        let is_taken = !self.chance.happens(self.fails_permille);
        self.received.push(Received {
            delivery: dispatch.delivery,
            webhook: dispatch.webhook,
            event: dispatch.event,
            call: dispatch.call,
            number: dispatch.attempts + 1,
            is_taken,
        });
        Exchange {
            status: if is_taken { 200 } else { 500 },
            retry_after: None,
            body: Vec::new(),
            truncated: false,
        }
    }
}

/// What a courier works with.
#[derive(Clone, Debug)]
pub(crate) struct Office {
    pub(crate) member: Membership,
    pub(crate) wire: Wire<Tables>,
    pub(crate) outside: Wire<Receiver>,
    pub(crate) clock: Arc<NodeClock>,
    pub(crate) tasks: Tasks,
}

#[derive(Debug)]
pub(crate) struct Courier {
    office: Office,
    node: Arc<str>,
    scheduler: RefCell<Scheduler<()>>,
    schedule: Schedule,
    woken: Notify,
    dead: Cell<bool>,
}

impl Courier {
    /// Begins to deliver what the node commits, and what it finds.
    pub(crate) fn start(office: Office) -> Rc<Self> {
        let limits = SchedulerLimits {
            in_flight: 64,
            lane: LaneLimits {
                concurrency: 4,
                lease_ms_min: TIMEOUT_MS + 5_000,
            },
            lease_ms: DELIVERY_LEASE_MS,
        };
        let courier = Rc::new(Self {
            node: office.member.id(),
            scheduler: RefCell::new(Scheduler::new(limits, office.clock.now())),
            schedule: Schedule::from_seconds(&WAITS_SECONDS),
            woken: Notify::new(),
            dead: Cell::new(false),
            office,
        });
        courier.office.tasks.spawn(Rc::clone(&courier).poll());
        courier
    }

    /// Takes no part any more.
    pub(crate) fn abandon(&self) {
        self.dead.set(true);
        self.scheduler.borrow_mut().stop();
        self.woken.notify_one();
    }

    pub(crate) fn deliver(self: &Rc<Self>, dispatches: Vec<Dispatch>) {
        let now = self.now();
        self.scheduler.borrow_mut().deliver(dispatches, now);
        self.go_on();
    }

    fn now(&self) -> Millis {
        self.office.clock.now()
    }

    fn may_act(&self) -> bool {
        self.office.member.is(&self.node) && self.office.member.acts()
    }

    fn go_on(self: &Rc<Self>) {
        if self.dead.get() || !self.may_act() {
            return;
        }
        let effects = self.scheduler.borrow_mut().effects(self.now());
        for effect in effects {
            let this = Rc::clone(self);
            match effect {
                Effect::Attempt(_, item) => self.office.tasks.spawn(this.attempt(item)),
                Effect::Load(ids) => self.office.tasks.spawn(this.load(ids)),
                Effect::Refill(refill) => self.office.tasks.spawn(this.claim(refill)),
                Effect::Look => self.woken.notify_one(),
                Effect::GoOn => self.office.tasks.spawn(async move { this.go_on() }),
            }
        }
    }

    async fn attempt(self: Rc<Self>, item: Item) {
        let dispatch = item.dispatch.clone();
        let post = move |receiver: &mut Receiver, _| receiver.post(&dispatch);
        let answer = self.office.outside.ask("post", post).await;
        let answer = answer.map_err(|Away| Failure::without_answer(ErrorKind::Timeout));
        if self.dead.get() {
            return;
        }
        let number = item.dispatch.attempts + 1;
        let now = self.now();
        let verdict = self.schedule.verdict(number, &answer, now, 0);
        self.scheduler.borrow_mut().attempted(&item, verdict, now);
        self.scheduler.borrow_mut().recording();
        self.go_on();
        // Written however long that takes.
        let (delivery, webhook) = (item.dispatch.delivery, item.dispatch.webhook);
        let written = move |tables: &mut Tables, _| record(tables, delivery, number, verdict);
        while self.office.wire.ask("record", written).await.is_err() {
            self.office.clock.sleep_ms(AGAIN_MS).await;
            if self.dead.get() {
                return;
            }
        }
        self.scheduler
            .borrow_mut()
            .recorded(webhook, delivery, verdict);
        self.go_on();
    }

    async fn load(self: Rc<Self>, ids: Vec<WebhookId>) {
        // All of them are there and stay as they are.
        match self.office.wire.ask("webhooks", |_, _| ()).await {
            Ok(()) => {
                let mut scheduler = self.scheduler.borrow_mut();
                scheduler.loaded(&ids, self.now(), |_, _| Destination::Ready(Rc::new(())));
            }
            Err(Away) => {
                self.office.clock.sleep_ms(AGAIN_MS).await;
                self.scheduler.borrow_mut().not_loaded(ids);
            }
        }
        self.go_on();
    }

    async fn claim(self: Rc<Self>, refill: Refill) {
        let (asked, node, now) = (refill.clone(), Arc::clone(&self.node), self.now());
        let read = move |tables: &mut Tables, _| claim(tables, &asked, &node, now);
        match self.office.wire.ask("claim", read).await {
            Ok(items) => {
                let mut scheduler = self.scheduler.borrow_mut();
                scheduler.claimed(&refill, items, 0, self.now());
            }
            Err(Away) => {
                self.office.clock.sleep_ms(AGAIN_MS).await;
                self.scheduler.borrow_mut().not_claimed(&refill);
            }
        }
        self.go_on();
    }

    async fn poll(self: Rc<Self>) {
        while !self.dead.get() {
            if !self.may_act() {
                self.office.clock.sleep_ms(AGAIN_MS).await;
                continue;
            }
            let (node, now) = (Arc::clone(&self.node), self.now());
            let look = move |tables: &mut Tables, _| due(tables, &node, now);
            if let Ok(found) = self.office.wire.ask("due", look).await {
                self.scheduler.borrow_mut().looked(found, now);
                self.go_on();
            }
            let now = self.now();
            let next = self.scheduler.borrow_mut().take_next_due();
            let next = next.unwrap_or(Millis::MAX).min(now.plus_ms(LOOK_MS));
            let sleep = self.office.clock.sleep_until(next.max(now.plus_ms(1)));
            select(sleep, self.woken.notified().boxed_local()).await;
        }
    }
}

/// When a pending delivery may be read by a node that is not making it, as far as leases go.
fn is_free(row: &DeliveryRow, node: &str, now: Millis) -> bool {
    let is_ours = row.lease_owner.as_deref() == Some(node);
    row.lease_until <= now || (is_ours && row.next_attempt_at <= now.plus_ms(-ON_ITS_WAY_MS))
}

/// As [`pending::due`](super::store::pending::due).
pub(super) fn due(tables: &Tables, node: &str, now: Millis) -> Vec<DueWebhook> {
    let pending = || {
        let rows = tables.deliveries.values();
        rows.filter(|row| row.state == DeliveryState::Pending)
    };
    let webhooks: BTreeSet<_> = pending().map(|row| (row.webhook, row.tenant)).collect();
    let due = |(webhook, tenant)| {
        let free = pending().filter(|row| row.webhook == webhook && is_free(row, node, now));
        DueWebhook {
            webhook,
            tenant: Some(tenant),
            is_active: true,
            at: free.map(|row| row.next_attempt_at).min(),
        }
    };
    webhooks.into_iter().map(due).collect()
}

/// As [`pending::claim`](super::store::pending::claim).
pub(super) fn claim(tables: &mut Tables, refill: &Refill, node: &str, now: Millis) -> Vec<Item> {
    let ignores_leases = tables.has(Flaw::LeasedTaken);
    let may_take = |id: DeliveryId, row: &DeliveryRow| {
        let left_behind =
            row.lease_owner.as_deref() == Some(node) && Some(id) <= refill.left_behind;
        row.webhook == refill.webhook
            && row.state == DeliveryState::Pending
            && row.next_attempt_at <= now
            && (is_free(row, node, now) || left_behind || ignores_leases)
            && !refill.known.contains(&id)
    };
    let mut picked: Vec<(Millis, DeliveryId)> = tables
        .deliveries
        .iter()
        .filter(|(id, row)| may_take(**id, row))
        .map(|(id, row)| (row.next_attempt_at, *id))
        .collect();
    picked.sort_unstable();
    picked.truncate(refill.limit);
    let mut items = Vec::new();
    for (_, id) in picked {
        let Some(row) = tables.deliveries.get_mut(&id) else {
            continue;
        };
        row.lease_owner = Some(node.to_owned());
        row.lease_until = refill.lease_until;
        items.push(Item {
            dispatch: Dispatch {
                delivery: id,
                webhook: row.webhook,
                tenant: row.tenant,
                event: row.event,
                kind: row.kind,
                call: row.call,
                body: "".into(),
                attempts: row.attempts,
                is_test: false,
                trace: None,
            },
            lease_until: refill.lease_until,
            created: row.created,
        });
    }
    items
}

/// As [`results::record`](super::store::results::record) does it for one delivery.
pub(super) fn record(tables: &mut Tables, delivery: DeliveryId, number: i64, verdict: Verdict) {
    let blindly = tables.has(Flaw::RecordedBlindly);
    let Some(row) = tables.deliveries.get_mut(&delivery) else {
        return;
    };
    let is_next = row.state == DeliveryState::Pending && row.attempts == number - 1;
    if !(is_next || blindly) {
        return;
    }
    if row.state == DeliveryState::Succeeded && verdict != Verdict::Delivered {
        let breach = format!("{delivery} was delivered, and is not any more");
        tables.breaches.push(breach);
    }
    row.attempts = number;
    row.lease_owner = None;
    row.lease_until = Millis::MIN;
    match verdict {
        Verdict::Delivered => row.state = DeliveryState::Succeeded,
        Verdict::Retry { at } => {
            row.state = DeliveryState::Pending;
            row.next_attempt_at = at;
        }
        Verdict::GivenUp | Verdict::Gone => row.state = DeliveryState::Failed,
    }
}

/// As [`pending::give_back`](super::store::pending::give_back).
pub(crate) fn give_back(tables: &mut Tables, node: &str) {
    for row in tables.deliveries.values_mut() {
        let is_held = row.lease_owner.as_deref() == Some(node);
        if row.state == DeliveryState::Pending && is_held {
            row.lease_owner = None;
            row.lease_until = Millis::MIN;
        }
    }
}
