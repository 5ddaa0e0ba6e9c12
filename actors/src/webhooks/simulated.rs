//! The courier of a simulation. It carries out the real scheduler's decisions, with deliveries in memory and a
//! receiver that sometimes fails. The real schedule decides the consequences.

pub(crate) mod tables;

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::Rc,
    sync::Arc,
};

use dikala_entities::{CallId, DeliveryId, EventId, Millis, WebhookId};
use futures_util::future::{FutureExt, select};
use tokio::sync::Notify;

use self::tables::{
    announced_elsewhere, behind, due, due_rows, read, record, store, take, write_rows,
};
use super::{
    poller::{LOOK_MS, REREAD_MS},
    retry::Schedule,
    scheduler::{
        CursorReading, Destination, QueueLimits, QueuedDelivery, Refill, Refilled, Scheduler,
        SchedulerEffect, SchedulerLimits,
    },
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
            tables::Tables,
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
            cut: false,
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
            scheduler: RefCell::new(Scheduler::new(limits)),
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
                SchedulerEffect::Refill(refill) => {
                    self.office.tasks.spawn(this.refill_queue(refill))
                }
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
        let now = self.now();
        let number = item.dispatch.attempts + 1;
        let verdict = self.schedule.verdict(number, &answer, now, 0);
        self.scheduler.borrow_mut().attempted(&item, verdict, now);
        self.scheduler.borrow_mut().recording();
        self.go_on();
        // Retried until it is written.
        let (delivery, webhook) = (item.dispatch.delivery, item.dispatch.webhook);
        let (node, dispatch) = (Arc::clone(&self.node), item.dispatch);
        let written = move |tables: &mut Tables, _| record(tables, &node, &dispatch, verdict);
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
                let aim = |id: WebhookId, _: &_| match ours.contains_key(&id) {
                    true => Destination::Ready(Rc::new(())),
                    false => Destination::Elsewhere,
                };
                let now = self.now();
                self.scheduler.borrow_mut().loaded(&ids, &ours, now, aim);
            }
            Err(NoAnswer) => {
                self.office.clock.sleep_ms(AGAIN_MS).await;
                self.scheduler.borrow_mut().not_loaded(ids);
            }
        }
        self.go_on();
    }

    /// As [`cursors::take`](super::store::cursors::take), in two statements.
    async fn take(&self, ids: &[WebhookId]) -> Result<HashMap<WebhookId, CursorReading>, NoAnswer> {
        let (asked, node) = (ids.to_vec(), Arc::clone(&self.node));
        let me = Arc::clone(&node);
        let read = move |tables: &mut Tables, _| read(tables, &me, &asked);
        let found = self.office.wire.ask("cursors", read).await?;
        let take = move |tables: &mut Tables, _| take(tables, &node, &found);
        self.office.wire.ask("take cursors", take).await
    }

    async fn release(self: Rc<Self>, ids: Vec<WebhookId>) {
        let (given_up, node) = (ids.clone(), Arc::clone(&self.node));
        let give_up = move |tables: &mut Tables, _| {
            for id in &given_up {
                let cursor = tables.cursors.get_mut(id);
                let ours = cursor.filter(|cursor| cursor.node.as_deref() == Some(&*node));
                ours.into_iter()
                    .for_each(|cursor| cursor.node = Some(String::new()));
            }
        };
        let _ = self.office.wire.ask("give up cursors", give_up).await;
        self.scheduler.borrow_mut().released(ids, self.now());
        self.go_on();
    }

    async fn refill_queue(self: Rc<Self>, refill: Refill) {
        match self.refill(&refill).await {
            Ok(Some(refilled)) => {
                let mut scheduler = self.scheduler.borrow_mut();
                scheduler.refilled(&refill, refilled, self.now());
            }
            Ok(None) => {
                let mut scheduler = self.scheduler.borrow_mut();
                scheduler.not_refilled(&refill);
                scheduler.suspect(refill.webhook);
            }
            Err(NoAnswer) => {
                self.office.clock.sleep_ms(AGAIN_MS).await;
                self.scheduler.borrow_mut().not_refilled(&refill);
            }
        }
        self.go_on();
    }

    /// As [`pending::refill`](super::store::pending::refill).
    async fn refill(&self, refill: &Refill) -> Result<Option<Refilled>, NoAnswer> {
        let (asked, node) = (refill.clone(), Arc::clone(&self.node));
        let write = move |tables: &mut Tables, _| write_rows(tables, &asked, &node);
        let Some((written, is_log_end)) = self.office.wire.ask("write rows", write).await? else {
            return Ok(None);
        };
        let (asked, node, now) = (refill.clone(), Arc::clone(&self.node), self.now());
        let read = move |tables: &mut Tables, _| due_rows(tables, &asked, &node, now);
        let items = self.office.wire.ask("refill", read).await?;
        Ok(Some(Refilled {
            written,
            is_log_end,
            is_complete: is_log_end && refill.most.is_some_and(|most| items.len() < most.get()),
            items,
        }))
    }

    async fn store_cursors(&self) {
        let moved = self.scheduler.borrow().moved_cursors();
        let (cursors, node) = (moved.clone(), Arc::clone(&self.node));
        let store = move |tables: &mut Tables, _| store(tables, &node, &cursors);
        if !moved.is_empty() && self.office.wire.ask("store cursors", store).await.is_ok() {
            self.scheduler.borrow_mut().cursors_stored(&moved);
        }
    }

    async fn poll(self: Rc<Self>) {
        let mut reread_at = Millis::MIN;
        while !self.dead.get() {
            if !self.may_act() {
                self.office.clock.sleep_ms(AGAIN_MS).await;
                continue;
            }
            let has_others = self.office.member.has_others();
            self.store_cursors().await;
            let (node, began) = (Arc::clone(&self.node), self.now());
            let reread = !has_others || began.since(reread_at) >= REREAD_MS;
            if reread {
                reread_at = began;
            }
            let look = move |tables: &mut Tables, _| {
                (
                    due(tables),
                    behind(tables, &node),
                    announced_elsewhere(tables, &node),
                )
            };
            match self.office.wire.ask("due", look).await {
                Ok((due, behind, newest)) => {
                    let mut scheduler = self.scheduler.borrow_mut();
                    scheduler.announced_elsewhere(newest, began);
                    for (webhook, tenant) in behind {
                        scheduler.found(webhook, tenant, began);
                    }
                    scheduler.looked(due, reread, began);
                    drop(scheduler);
                    self.go_on();
                }
                Err(NoAnswer) => self.scheduler.borrow_mut().suspect_all(),
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
