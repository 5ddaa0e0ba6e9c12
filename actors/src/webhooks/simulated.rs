//! The courier of a simulation. It carries out the real scheduler's decisions, with deliveries in memory and a
//! receiver that sometimes fails. The real schedule decides the consequences.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    ops::RangeInclusive,
    rc::Rc,
    sync::Arc,
};

use dikala_entities::{CallId, DeliveryId, EventId, Millis, WebhookId};
use futures_util::future::{FutureExt, select};
use tokio::sync::Notify;

use super::{
    poller::{LOOK_MS, REREAD_MS},
    retry::{AttemptVerdict, Schedule},
    scheduler::{
        Destination, DueWebhook, QueueLimits, QueuedDelivery, Refill, Scheduler, SchedulerEffect,
        SchedulerLimits,
    },
    store::pending::ON_ITS_WAY_MS,
};
use crate::{
    events::outbox::Dispatch,
    nodes::Membership,
    outbound::{ErrorKind, Exchange, Failure},
    runtime::{
        clock::Clock,
        simulated::{
            chance::Chance,
            clock::NodeClock,
            tables::{DeliveryRow, DeliveryState, Flaw, Tables},
            tasks::Tasks,
            wire::{NoAnswer, SimulatedNetwork},
        },
    },
};

const AGAIN_MS: i64 = 500;
/// So many attempts that none is the last during the faults.
const WAITS_SECONDS: [i64; 40] = [5; 40];

/// An attempt as the tenant's server received it.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedAttempt {
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
pub(crate) struct SimulatedReceiver {
    pub(crate) received: Vec<ReceivedAttempt>,
    /// The probability of an error answer, in thousandths.
    pub(crate) fails_permille: i64,
    pub(crate) chance: Chance,
}

impl SimulatedReceiver {
    fn post(&mut self, dispatch: &Dispatch) -> Exchange {
        let is_taken = !self.chance.happens(self.fails_permille);
        self.received.push(ReceivedAttempt {
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

/// The services that a courier uses.
#[derive(Clone, Debug)]
pub(crate) struct CourierServices {
    pub(crate) member: Membership,
    pub(crate) wire: SimulatedNetwork<Tables>,
    pub(crate) outside: SimulatedNetwork<SimulatedReceiver>,
    pub(crate) clock: Arc<NodeClock>,
    pub(crate) tasks: Tasks,
}

#[derive(Debug)]
pub(crate) struct SimulatedCourier {
    office: CourierServices,
    node: Arc<str>,
    scheduler: RefCell<Scheduler<()>>,
    schedule: Schedule,
    woken: Notify,
    dead: Cell<bool>,
}

impl SimulatedCourier {
    /// Starts delivering what the node commits and what it finds in the table.
    pub(crate) fn start(office: CourierServices) -> Rc<Self> {
        let limits = SchedulerLimits {
            in_flight: 64,
            queue: QueueLimits {
                concurrency: 4,
                has_others: false,
            },
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

    /// Stops it for good.
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
                SchedulerEffect::Attempt(_, item) => self.office.tasks.spawn(this.attempt(item)),
                SchedulerEffect::Load(ids) => self.office.tasks.spawn(this.load(ids)),
                SchedulerEffect::Refill(refill) => self.office.tasks.spawn(this.claim(refill)),
                SchedulerEffect::Release(ids) => self.office.tasks.spawn(this.release(ids)),
                SchedulerEffect::Look => self.woken.notify_one(),
                SchedulerEffect::GoOn => self.office.tasks.spawn(async move { this.go_on() }),
            }
        }
    }

    async fn attempt(self: Rc<Self>, item: QueuedDelivery) {
        let dispatch = item.dispatch.clone();
        let post = move |receiver: &mut SimulatedReceiver, _| receiver.post(&dispatch);
        let answer = self.office.outside.ask("post", post).await;
        let answer = answer.map_err(|NoAnswer| Failure::without_answer(ErrorKind::Timeout));
        if self.dead.get() {
            return;
        }
        let number = item.dispatch.attempts + 1;
        let now = self.now();
        let verdict = self.schedule.verdict(number, &answer, now, 0);
        self.scheduler.borrow_mut().attempted(&item, verdict, now);
        self.scheduler.borrow_mut().recording();
        self.go_on();
        // Retried until it is written.
        let (delivery, webhook) = (item.dispatch.delivery, item.dispatch.webhook);
        let node = Arc::clone(&self.node);
        let written =
            move |tables: &mut Tables, _| record(tables, &node, delivery, number, verdict);
        while self
            .office
            .wire
            .ask("record", written.clone())
            .await
            .is_err()
        {
            self.office.clock.sleep_ms(AGAIN_MS).await;
            if self.dead.get() || !self.office.member.is(&self.node) {
                return;
            }
        }
        self.scheduler
            .borrow_mut()
            .recorded(webhook, delivery, verdict);
        self.go_on();
    }

    async fn load(self: Rc<Self>, ids: Vec<WebhookId>) {
        match self.take(&ids).await {
            Ok(ours) => {
                let aim = |id: WebhookId, _: &_| match ours.contains(&id) {
                    true => Destination::Ready(Rc::new(())),
                    false => Destination::Elsewhere,
                };
                let now = self.now();
                self.scheduler.borrow_mut().loaded(&ids, now, aim);
            }
            Err(NoAnswer) => {
                self.office.clock.sleep_ms(AGAIN_MS).await;
                self.scheduler.borrow_mut().not_loaded(ids);
            }
        }
        self.go_on();
    }

    /// As [`queue_owners::take`](super::store::queue_owners::take), in two statements.
    async fn take(&self, ids: &[WebhookId]) -> Result<BTreeSet<WebhookId>, NoAnswer> {
        let (asked, node) = (ids.to_vec(), Arc::clone(&self.node));
        let held = move |tables: &mut Tables, _| held(tables, &asked);
        let held = self.office.wire.ask("lanes", held).await?;
        let take = move |tables: &mut Tables, _| take(tables, &node, &held);
        self.office.wire.ask("take lanes", take).await
    }

    async fn release(self: Rc<Self>, ids: Vec<WebhookId>) {
        let (given_up, node) = (ids.clone(), Arc::clone(&self.node));
        let give_up = move |tables: &mut Tables, _| {
            tables
                .queue_owners
                .retain(|id, holder| !(given_up.contains(id) && **holder == *node));
        };
        let _ = self.office.wire.ask("give up lanes", give_up).await;
        self.scheduler.borrow_mut().released(ids, self.now());
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
            Err(NoAnswer) => {
                self.office.clock.sleep_ms(AGAIN_MS).await;
                self.scheduler.borrow_mut().not_claimed(&refill);
            }
        }
        self.go_on();
    }

    async fn poll(self: Rc<Self>) {
        let mut reread_at = Millis::MIN;
        while !self.dead.get() {
            if !self.may_act() {
                self.office.clock.sleep_ms(AGAIN_MS).await;
                continue;
            }
            let has_others = self.office.member.has_others();
            let (node, began) = (Arc::clone(&self.node), self.now());
            let reread = !has_others || began.since(reread_at) >= REREAD_MS;
            if reread {
                reread_at = began;
            }
            let look = move |tables: &mut Tables, _| due(tables, &node, began);
            if let Ok(found) = self.office.wire.ask("due", look).await {
                self.scheduler.borrow_mut().looked(found, reread, began);
                self.go_on();
            }
            let now = self.now();
            let next = self.scheduler.borrow_mut().take_next_due();
            // Notices between nodes do not exist here, so polling has to do.
            let next = next.unwrap_or(Millis::MAX).min(now.plus_ms(LOOK_MS));
            let sleep = self.office.clock.sleep_until(next.max(now.plus_ms(1)));
            select(sleep, self.woken.notified().boxed_local()).await;
        }
    }
}

/// The owner of each queue, and whether that node is alive.
fn held(tables: &Tables, ids: &[WebhookId]) -> Vec<(WebhookId, Option<(String, bool)>)> {
    let read = |id: &WebhookId| {
        let holder = tables.queue_owners.get(id);
        let lives = |node: &String| (node.clone(), tables.nodes.contains_key(node));
        (*id, holder.map(lives))
    };
    ids.iter().map(read).collect()
}

/// Takes queues that had no owner, or a dead one, as they were read.
fn take(
    tables: &mut Tables,
    node: &str,
    held: &[(WebhookId, Option<(String, bool)>)],
) -> BTreeSet<WebhookId> {
    let mut mine = BTreeSet::new();
    let is_node = tables.nodes.contains_key(node);
    for (id, was) in held {
        let is = tables.queue_owners.get(id);
        let is_mine = match was {
            Some((holder, _)) if holder == node => true,
            Some((_, true)) => false,
            Some((holder, false)) => is_node && is == Some(holder),
            None => is_node && is.is_none(),
        };
        if is_mine {
            tables.queue_owners.insert(*id, node.to_owned());
        }
        if is_mine || tables.has(Flaw::QueueOwnersIgnored) {
            mine.insert(*id);
        }
    }
    mine
}

/// As [`pending::due`](super::store::pending::due).
pub(super) fn due(tables: &Tables, node: &str, now: Millis) -> Vec<DueWebhook> {
    let pending = || {
        let rows = tables.deliveries.values();
        rows.filter(|row| row.state == DeliveryState::Pending)
    };
    let before = now.plus_ms(-ON_ITS_WAY_MS);
    let is_free = |row: &&DeliveryRow| {
        row.lease_owner.as_deref() != Some(node) || row.next_attempt_at <= before
    };
    let webhooks: BTreeSet<_> = pending().map(|row| (row.webhook, row.tenant)).collect();
    let due = |(webhook, tenant)| {
        let free = pending()
            .filter(|row| row.webhook == webhook)
            .filter(is_free);
        DueWebhook {
            webhook,
            tenant: Some(tenant),
            at: free.map(|row| row.next_attempt_at).min(),
        }
    };
    webhooks.into_iter().map(due).collect()
}

/// True if a delivery committed by another node must wait for an earlier one of this node, which is on its way to
/// memory.
fn waits(
    tables: &Tables,
    refill: &Refill,
    node: &str,
    lately: RangeInclusive<Millis>,
    id: DeliveryId,
) -> bool {
    let Some(DeliveryRow { call, .. }) = tables.deliveries.get(&id) else {
        return false;
    };
    tables.deliveries.range(..id).any(|(other, row)| {
        row.webhook == refill.webhook
            && row.state == DeliveryState::Pending
            && lately.contains(&row.next_attempt_at)
            && row.lease_owner.as_deref() == Some(node)
            && row.attempts == 0
            && call.is_some()
            && row.call == *call
            && refill.left_behind.is_none_or(|seen| *other > seen)
            && !refill.known.contains(other)
    })
}

/// As [`pending::claim`](super::store::pending::claim).
pub(super) fn claim(
    tables: &mut Tables,
    refill: &Refill,
    node: &str,
    now: Millis,
) -> Vec<QueuedDelivery> {
    let before = now.plus_ms(-ON_ITS_WAY_MS);
    let is_free = |id: DeliveryId, row: &DeliveryRow| match row.lease_owner.as_deref() {
        None => true,
        Some(owner) if owner == node => {
            row.next_attempt_at <= before || Some(id) <= refill.left_behind
        }
        Some(_) => {
            row.next_attempt_at <= before
                || !waits(tables, refill, node, before.plus_ms(1)..=now, id)
        }
    };
    let may_take = |id: DeliveryId, row: &DeliveryRow| {
        row.webhook == refill.webhook
            && row.state == DeliveryState::Pending
            && row.next_attempt_at <= now
            && is_free(id, row)
            && !refill.known.contains(&id)
    };
    let queue = tables.queue_owners.get(&refill.webhook);
    if queue.is_some_and(|holder| holder != node) {
        return Vec::new();
    }
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
        items.push(QueuedDelivery {
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
                has_moved: false,
            },
            read_at: now,
            created: row.created,
        });
    }
    items
}

/// As [`results::record`](super::store::results::record), for one delivery.
pub(super) fn record(
    tables: &mut Tables,
    node: &str,
    delivery: DeliveryId,
    number: i64,
    verdict: AttemptVerdict,
) {
    let blindly = tables.has(Flaw::RecordedBlindly);
    let Some(row) = tables.deliveries.get_mut(&delivery) else {
        return;
    };
    let is_next = row.state == DeliveryState::Pending && row.attempts == number - 1;
    let holders = [
        row.lease_owner.as_ref(),
        tables.queue_owners.get(&row.webhook),
    ];
    let is_anothers = holders.into_iter().flatten().any(|holder| holder != node);
    if !(blindly || is_next && !is_anothers) {
        return;
    }
    if is_anothers {
        let breach = format!("{node} recorded an attempt of {delivery}, which is another's");
        tables.breaches.push(breach);
    }
    if row.state == DeliveryState::Succeeded && verdict != AttemptVerdict::Delivered {
        let breach = format!("{delivery} was delivered, and is not any more");
        tables.breaches.push(breach);
    }
    row.attempts = number;
    row.lease_owner = None;
    match verdict {
        AttemptVerdict::Delivered => row.state = DeliveryState::Succeeded,
        AttemptVerdict::Retry { at } => {
            row.state = DeliveryState::Pending;
            row.next_attempt_at = at;
        }
        AttemptVerdict::GivenUp | AttemptVerdict::Gone => row.state = DeliveryState::Failed,
    }
}

/// As [`queue_owners::give_back`](super::store::queue_owners::give_back).
pub(crate) fn give_back(tables: &mut Tables, node: &str) {
    let Tables {
        queue_owners,
        nodes,
        ..
    } = tables;
    queue_owners.retain(|_, holder| holder != node && nodes.contains_key(holder));
}
