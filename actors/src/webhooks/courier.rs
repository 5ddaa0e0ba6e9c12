//! Carries out the scheduler's decisions on one thread. Attempts, reads and records are tasks that report their
//! results here.
//!
//! No method awaits while the scheduler is borrowed.

mod recording;

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    panic::AssertUnwindSafe,
    rc::Rc,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use dikala_entities::{Millis, TenantId, WebhookId, webhook};
use futures_util::FutureExt;
use sea_orm::DbErr;
use tokio::sync::Notify;

use super::{
    WebhookDeps, WebhooksConfig,
    attempt::{AttemptRecord, AttemptTimes, Endpoint, EndpointVersion, spans},
    recorder::Recorder,
    retry::{AttemptVerdict, Schedule},
    scheduler::{
        CursorReading, Destination, EndpointQueue, QueueLimits, QueuedDelivery, Refill, Scheduler,
        SchedulerEffect, SchedulerLimits,
    },
    stats::Stats,
    store::{
        cursors::{self, NO_NODE},
        pending::{self, StoredRefill},
    },
    webhook_status::{LastAnswers, WebhookStatus},
};
use crate::{
    events::outbox::Dispatch,
    nodes::notices::Topic,
    outbound::{Exchange, Permission},
};

/// Pause after an error of the database.
pub(super) const AGAIN: Duration = Duration::from_millis(500);

/// The dispatcher without its mailbox.
#[derive(Debug)]
pub(super) struct Courier {
    pub(super) deps: WebhookDeps,
    /// The id of the node that owns the deliveries here.
    pub(super) node: Arc<str>,
    pub(super) stats: Arc<Stats>,
    pub(super) scheduler: RefCell<Scheduler<Endpoint>>,
    /// Notified when a delivery in the table may be due.
    pub(super) woken: Notify,
    /// Notified when a recovery may have been requested.
    pub(super) recovery_requested: Notify,
    /// Notified when an attempt was recorded or the courier was abandoned.
    pub(super) changed: Notify,
    recorder: Recorder,
    last_answers: RefCell<LastAnswers>,
    schedule: Schedule,
    /// Timeout of one whole exchange.
    pub(super) timeout: Duration,
    /// Connections per endpoint.
    connections: usize,
    /// Replaced by another courier: results of running tasks are ignored.
    dead: Cell<bool>,
    /// True if starting more attempts is already scheduled.
    going_on: Cell<bool>,
}

impl Courier {
    pub(super) fn new(deps: WebhookDeps, config: &WebhooksConfig, stats: Arc<Stats>) -> Rc<Self> {
        let connections = config.endpoint_concurrency.max(1);
        let (node, member) = (deps.node.id(), deps.node.clone());
        let sender = Arc::clone(&node);
        let permission = Permission::only_while(move || member.acts_as(&sender));
        let deps = WebhookDeps {
            outbound: deps.outbound.permitted(permission),
            ..deps
        };
        let limits = SchedulerLimits {
            in_flight: config.max_in_flight,
            queue: QueueLimits {
                concurrency: connections,
                has_others: false,
            },
        };
        Rc::new(Self {
            node,
            deps,
            stats,
            scheduler: RefCell::new(Scheduler::new(limits)),
            woken: Notify::new(),
            recovery_requested: Notify::new(),
            changed: Notify::new(),
            recorder: Recorder::new(),
            last_answers: RefCell::default(),
            schedule: Schedule::from_seconds(&config.retry_schedule_seconds),
            timeout: config.timeout,
            connections,
            dead: Cell::new(false),
            going_on: Cell::new(false),
        })
    }

    pub(super) fn now(&self) -> Millis {
        self.deps.clock.now()
    }

    pub(super) fn is_dead(&self) -> bool {
        self.dead.get()
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.scheduler.borrow().is_stopping()
    }

    /// True if this node still owns its deliveries, so that no other sends them. After its lease nothing begins; the
    /// poller checks again every second.
    pub(super) fn may_act(&self) -> bool {
        self.deps.node.acts_as(&self.node)
    }

    /// Stops it for good: results of running tasks are ignored.
    pub(super) fn abandon(&self) {
        self.dead.set(true);
        self.recorder.close();
        self.scheduler.borrow_mut().stop();
        self.wake();
        self.changed.notify_waiters();
    }

    /// Wakes the poller and recovery.
    pub(super) fn wake(&self) {
        self.woken.notify_one();
        self.recovery_requested.notify_one();
    }

    /// Accepts committed deliveries. Those without room are read from the tables later.
    pub(super) fn deliver(self: &Rc<Self>, dispatches: Vec<Dispatch>) {
        let now = self.now();
        let left = self.scheduler.borrow_mut().deliver(dispatches, now);
        self.stats.left_in_table.fetch_add(left.all, Relaxed);
        if left.for_others {
            self.tell_others();
        }
        self.go_on();
    }

    /// Tells other nodes that they may have something to deliver.
    pub(super) fn tell_others(&self) {
        self.deps.node.notices().tell(Topic::Deliveries);
    }

    /// Call this after a webhook or its deliveries changed. Both are read again before anything else is sent to it, here and
    /// at other nodes.
    pub(super) fn refresh(self: &Rc<Self>, webhook: WebhookId) {
        self.deps.node.notices().tell_changed(webhook);
        self.suspect(webhook);
        self.wake();
    }

    /// Reads webhooks again that other nodes changed, while the dispatcher works.
    pub(super) async fn hear_changes(self: Rc<Self>) {
        let notices = self.deps.node.notices().clone();
        while !self.is_stopping() {
            tokio::select! {
                webhooks = notices.changed_webhooks() => {
                    webhooks.into_iter().for_each(|webhook| self.suspect(webhook));
                }
                // It was abandoned, maybe.
                () = self.changed.notified() => {}
            }
        }
    }

    fn suspect(self: &Rc<Self>, webhook: WebhookId) {
        if self.scheduler.borrow_mut().suspect(webhook) {
            self.go_on();
        }
    }

    /// Carries out what the scheduler wants now.
    pub(super) fn go_on(self: &Rc<Self>) {
        if self.is_dead() || !self.may_act() {
            return;
        }
        let has_others = self.deps.node.has_others();
        let effects = {
            let mut scheduler = self.scheduler.borrow_mut();
            scheduler.among_others(has_others);
            scheduler.effects(self.now())
        };
        for effect in effects {
            match effect {
                SchedulerEffect::Attempt(endpoint, item) => self.attempt(endpoint, item),
                SchedulerEffect::Load(ids) => self.load(ids),
                SchedulerEffect::Refill(refill) => self.refill(refill),
                SchedulerEffect::Release(ids) => self.release(ids),
                SchedulerEffect::Look => self.woken.notify_one(),
                SchedulerEffect::GoOn => self.go_on_later(),
            }
        }
        self.gauge();
    }

    /// Does so later, after other waiting tasks.
    fn go_on_later(self: &Rc<Self>) {
        if self.going_on.replace(true) {
            return;
        }
        let courier = Rc::clone(self);
        actix_rt::spawn(async move {
            tokio::task::yield_now().await;
            courier.going_on.set(false);
            courier.go_on();
        });
    }

    fn attempt(self: &Rc<Self>, endpoint: Rc<Endpoint>, item: QueuedDelivery) {
        let courier = Rc::clone(self);
        actix_rt::spawn(async move {
            let attempt = courier.make(&endpoint, &item.dispatch);
            // After a panic the queue's slot must still be returned.
            let record = AssertUnwindSafe(attempt).catch_unwind().await.ok();
            courier.attempted(item, record);
        });
    }

    /// Makes the next attempt of a delivery.
    pub(super) async fn make(&self, endpoint: &Endpoint, dispatch: &Dispatch) -> AttemptRecord {
        let (started_at, began) = (self.now(), Instant::now());
        let signed_at = self.deps.clock.on_the_wall(started_at);
        let _under_way = self.stats.begins(dispatch);
        let span = spans::attempt(&self.deps.traces, dispatch);
        let trace = spans::traceparent(span.as_ref(), dispatch);
        let result = endpoint
            .send(dispatch, trace.as_deref(), signed_at, self.timeout)
            .await;
        let times = AttemptTimes {
            started_at,
            ended_at: self.now(),
            duration_ms: i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX),
        };
        let version = EndpointVersion {
            updated_at: endpoint.webhook_updated_at(),
            is_current: !result.as_ref().is_ok_and(Exchange::is_gone)
                || self.is_current(endpoint, dispatch.webhook).await,
        };
        let record = AttemptRecord::new(dispatch, version, &self.schedule, times, result);
        spans::attempted(span, dispatch, &record);
        record
    }

    /// False if the webhook was changed since its endpoint was read, or if that cannot be told.
    async fn is_current(&self, endpoint: &Endpoint, webhook: WebhookId) -> bool {
        match pending::webhooks(&self.deps.store, &[webhook]).await {
            Ok(rows) => rows.iter().all(|row| endpoint.is_current(row)),
            Err(error) => {
                tracing::debug!(%error, "could not check whether a webhook was changed");
                false
            }
        }
    }

    fn attempted(self: &Rc<Self>, item: QueuedDelivery, record: Option<AttemptRecord>) {
        if self.is_dead() {
            return;
        }
        match record.filter(|record| !record.is_our_fault(self.timeout)) {
            None => {
                self.stats.own_faults.fetch_add(1, Relaxed);
                let now = self.now();
                self.scheduler.borrow_mut().not_made(item, now);
            }
            Some(record) => {
                self.note(&record, item.created);
                let mut scheduler = self.scheduler.borrow_mut();
                scheduler.attempted(&item, record.verdict, record.ended_at);
                drop(scheduler);
                self.record(record, None);
            }
        }
        self.changed.notify_waiters();
        self.go_on();
    }

    /// Counts an attempt and keeps the endpoint's answer.
    pub(super) fn note(&self, record: &AttemptRecord, created: Millis) {
        self.last_answers.borrow_mut().note(record);
        let counter = match record.verdict {
            AttemptVerdict::Delivered => &self.stats.succeeded,
            AttemptVerdict::Retry { .. } => &self.stats.retried,
            AttemptVerdict::GivenUp | AttemptVerdict::Gone => &self.stats.failed,
        };
        counter.fetch_add(1, Relaxed);
        let us = |ms: i64| u64::try_from(ms).unwrap_or(0).saturating_mul(1_000);
        self.stats.attempts.observe(us(record.duration_ms));
        if record.verdict == AttemptVerdict::Delivered {
            let since = record.ended_at.since(created);
            self.stats.end_to_end.observe(us(since));
        }
    }

    fn load(self: &Rc<Self>, ids: Vec<WebhookId>) {
        let courier = Rc::clone(self);
        actix_rt::spawn(async move {
            match courier.read(&ids).await {
                Ok((rows, cursors)) => courier.loaded(&ids, rows, &cursors),
                Err(error) => {
                    tracing::warn!(%error, "could not read webhooks; trying again");
                    tokio::time::sleep(AGAIN).await;
                    courier.scheduler.borrow_mut().not_loaded(ids);
                }
            }
            courier.go_on();
        });
    }

    /// The owner of this node's cursors.
    pub(super) fn cursor_owner(&self) -> &str {
        match self.deps.node.has_lease() {
            true => &self.node,
            false => NO_NODE,
        }
    }

    /// This node as the owner of cursors and as an announcer of events.
    pub(super) fn names(&self) -> (&str, &str) {
        (self.cursor_owner(), &self.node)
    }

    /// Reads webhooks, and the cursors of those that this node delivers to. It takes those that no node has.
    pub(super) async fn read(
        &self,
        ids: &[WebhookId],
    ) -> Result<(Vec<webhook::Model>, HashMap<WebhookId, CursorReading>), DbErr> {
        let store = &self.deps.store;
        let rows = pending::webhooks(store, ids).await?;
        let existing: Vec<WebhookId> = rows.iter().map(|row| row.id).collect();
        let cursors = cursors::take(store, self.names(), &existing).await?;
        Ok((rows, cursors))
    }

    /// Has webhooks looked at that may have something to deliver here.
    pub(super) fn found(self: &Rc<Self>, webhooks: &[(WebhookId, TenantId)]) {
        let now = self.now();
        let mut scheduler = self.scheduler.borrow_mut();
        for (webhook, tenant) in webhooks {
            scheduler.found(*webhook, *tenant, now);
        }
        drop(scheduler);
        if !webhooks.is_empty() {
            self.go_on();
        }
    }

    fn release(self: &Rc<Self>, ids: Vec<WebhookId>) {
        let courier = Rc::clone(self);
        actix_rt::spawn(async move {
            let (store, node) = (&courier.deps.store, &courier.deps.node);
            if node.has_lease() {
                match cursors::give_up(store, &courier.node, &ids, true).await {
                    Ok(()) => courier.tell_others(),
                    Err(error) => {
                        tracing::debug!(%error, "could not release the cursors of idle endpoints; this node keeps them");
                    }
                }
            }
            let now = courier.now();
            courier.scheduler.borrow_mut().released(ids, now);
            courier.go_on();
        });
    }

    fn loaded(
        &self,
        ids: &[WebhookId],
        rows: Vec<webhook::Model>,
        cursors: &HashMap<WebhookId, CursorReading>,
    ) {
        let mut rows: HashMap<WebhookId, webhook::Model> =
            rows.into_iter().map(|row| (row.id, row)).collect();
        let now = self.now();
        let aim = |id: WebhookId, queue: &EndpointQueue<Endpoint>| {
            self.aim(queue, rows.remove(&id), cursors.contains_key(&id))
        };
        self.scheduler.borrow_mut().loaded(ids, cursors, now, aim);
    }

    /// The destination of a queue, given its webhook's row.
    fn aim(
        &self,
        queue: &EndpointQueue<Endpoint>,
        row: Option<webhook::Model>,
        is_ours: bool,
    ) -> Destination<Endpoint> {
        let Some(row) = row else {
            return Destination::Deleted;
        };
        if !row.is_active || queue.closing {
            return Destination::Disabled;
        }
        if row.paused_at.is_some() {
            return Destination::Paused;
        }
        if !is_ours {
            if queue.waiting() > 0 {
                self.tell_others();
            }
            return Destination::Elsewhere;
        }
        let before = queue.endpoint();
        if let Some(before) = &before
            && before.is_current(&row)
        {
            return Destination::Ready(Rc::clone(before));
        }
        let (id, deps) = (row.id, &self.deps);
        let (vault, outbound) = (&deps.vault, &deps.outbound);
        match Endpoint::new(row, vault, outbound, self.connections, before.as_deref()) {
            Ok(endpoint) => Destination::Ready(Rc::new(endpoint)),
            Err(error) => {
                if !matches!(queue.target, Destination::Sealed) {
                    tracing::error!(webhook = %id, %error, "could not open a webhook's secret with secrets.key; its deliveries wait");
                }
                Destination::Sealed
            }
        }
    }

    fn refill(self: &Rc<Self>, refill: Refill) {
        let (courier, now) = (Rc::clone(self), self.now());
        actix_rt::spawn(async move {
            let store = &courier.deps.store;
            let read = pending::refill(store, &refill, courier.cursor_owner(), now);
            // After a panic the queue must still be readable.
            let read = AssertUnwindSafe(read).catch_unwind().await;
            let read = read.unwrap_or_else(|_| Err(DbErr::Custom("a read panicked".to_owned())));
            if read.is_err() {
                tokio::time::sleep(AGAIN).await;
            }
            courier.refilled(&refill, read).await;
        });
    }

    async fn refilled(self: &Rc<Self>, refill: &Refill, read: Result<Option<StoredRefill>, DbErr>) {
        let now = self.now();
        let lost = match read {
            Ok(Some(stored)) => {
                let mut scheduler = self.scheduler.borrow_mut();
                scheduler.refilled(refill, stored.refilled, now);
                stored.lost
            }
            Ok(None) => {
                let mut scheduler = self.scheduler.borrow_mut();
                scheduler.not_refilled(refill);
                scheduler.suspect(refill.webhook);
                Vec::new()
            }
            Err(error) => {
                tracing::warn!(%error, "could not read deliveries; trying again");
                self.scheduler.borrow_mut().not_refilled(refill);
                Vec::new()
            }
        };
        self.go_on();
        if !lost.is_empty()
            && let Err(error) = pending::close_lost(&self.deps.store, &lost, now).await
        {
            tracing::warn!(%error, "could not close deliveries whose event is missing");
        }
    }

    /// The status of webhooks, including those without any activity.
    pub(super) fn statuses(&self, webhooks: &[WebhookId]) -> HashMap<WebhookId, WebhookStatus> {
        let (scheduler, last_answers) = (self.scheduler.borrow(), self.last_answers.borrow());
        let standing = |id: &WebhookId| WebhookStatus {
            queue: scheduler.queue_reading(*id),
            last_answer: last_answers.of(*id),
        };
        webhooks.iter().map(|id| (*id, standing(id))).collect()
    }

    fn gauge(&self) {
        let counts = self.scheduler.borrow().counts();
        let shown = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        self.stats.in_flight.store(shown(counts.in_flight), Relaxed);
        self.stats
            .unrecorded
            .store(shown(counts.unrecorded), Relaxed);
    }
}
