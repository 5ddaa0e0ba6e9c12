//! The scheduler's effects, completed in any order, without a table, endpoints or a clock.

use std::{collections::BTreeMap, num::NonZeroUsize};

use dikala_entities::{CallId, DeliveryId, EventId, EventKind};
use proptest::prelude::*;

use super::*;
use crate::events::sequences::LogPlace;

const NOW: Millis = Millis::from_i64(1_768_447_800_000);
const LIMITS: SchedulerLimits = SchedulerLimits {
    in_flight: 32,
    queue: QueueLimits {
        concurrency: 4,
        has_others: false,
    },
};

/// The log of a webhook's events.
#[derive(Default)]
struct Log {
    announced: Vec<Dispatch>,
}

impl Log {
    fn announce(&mut self, webhook: WebhookId, tenant: TenantId, call: Option<CallId>) -> Dispatch {
        let event = EventId::new(NOW);
        let sequence = self.announced.len() as i64 + 1;
        let dispatch = Dispatch {
            delivery: DeliveryId::of(NOW, sequence, event, webhook),
            webhook,
            tenant,
            event,
            kind: EventKind::CallStarted,
            call,
            body: "{}".into(),
            attempts: 0,
            is_test: false,
            trace: None,
            place: Some(LogPlace {
                sequence,
                position: sequence * 2,
            }),
        };
        self.announced.push(dispatch.clone());
        dispatch
    }

    fn end(&self) -> LogPlace {
        let last = self.announced.last().and_then(|last| last.place);
        last.unwrap_or_default()
    }
}

fn scheduler() -> Scheduler<()> {
    Scheduler::new(LIMITS)
}

/// Offers `count` new deliveries to a webhook.
fn deliver(
    scheduler: &mut Scheduler<()>,
    (webhook, log): (WebhookId, &mut Log),
    tenant: TenantId,
    count: usize,
) {
    let dispatches = (0..count)
        .map(|_| log.announce(webhook, tenant, None))
        .collect();
    assert_eq!(scheduler.deliver(dispatches, NOW).all, 0);
}

/// Has webhooks read that had no events before.
fn load(scheduler: &mut Scheduler<()>, ids: &[WebhookId]) {
    let cursors = ids.iter().map(|id| (*id, CursorReading::default()));
    scheduler.loaded(ids, &cursors.collect(), NOW, ready);
}

fn ready(_: WebhookId, _: &EndpointQueue<()>) -> Destination<()> {
    Destination::Ready(Rc::new(()))
}

/// The webhooks of the attempts among effects.
fn attempts(effects: &[SchedulerEffect<()>]) -> Vec<WebhookId> {
    let of = |effect: &SchedulerEffect<()>| match effect {
        SchedulerEffect::Attempt(_, item) => Some(item.dispatch.webhook),
        _ => None,
    };
    effects.iter().filter_map(of).collect()
}

#[test]
fn queues_take_turns_and_begin_a_few_at_once() {
    let (mut scheduler, tenant) = (scheduler(), TenantId::new(NOW));
    let (one, other) = (WebhookId::new(NOW), WebhookId::new(NOW));
    deliver(&mut scheduler, (one, &mut Log::default()), tenant, 9);
    deliver(&mut scheduler, (other, &mut Log::default()), tenant, 9);
    let effects = scheduler.effects(NOW);
    assert!(matches!(&effects[..], [SchedulerEffect::Load(ids)] if *ids == [one, other]));
    load(&mut scheduler, &[one, other]);
    let effects = scheduler.effects(NOW);
    assert!(matches!(effects[0], SchedulerEffect::Look));
    assert_eq!(
        attempts(&effects),
        [one, other, one, other, one, other, one, other]
    );
    assert!(matches!(effects.last(), Some(SchedulerEffect::GoOn)));
    // Both endpoints are at their limit.
    assert!(scheduler.effects(NOW).is_empty());
}

#[test]
fn an_answer_about_a_webhook_that_changed_meanwhile_is_not_believed() {
    let (mut scheduler, tenant, webhook) = (scheduler(), TenantId::new(NOW), WebhookId::new(NOW));
    deliver(&mut scheduler, (webhook, &mut Log::default()), tenant, 1);
    assert_eq!(scheduler.effects(NOW).len(), 1);
    assert!(scheduler.suspect(webhook));
    assert!(scheduler.effects(NOW).is_empty(), "one read at a time");
    load(&mut scheduler, &[webhook]);
    let effects = scheduler.effects(NOW);
    assert!(matches!(&effects[..], [SchedulerEffect::Load(ids)] if *ids == [webhook]));
}

#[test]
fn nothing_begins_while_too_much_is_not_recorded() {
    let (mut scheduler, tenant, webhook) = (scheduler(), TenantId::new(NOW), WebhookId::new(NOW));
    deliver(&mut scheduler, (webhook, &mut Log::default()), tenant, 1);
    scheduler.effects(NOW);
    load(&mut scheduler, &[webhook]);
    for _ in 0..UNRECORDED_MAX {
        scheduler.recording();
    }
    assert_eq!(attempts(&scheduler.effects(NOW)), []);
    let verdict = AttemptVerdict::Delivered;
    scheduler.recorded(webhook, DeliveryId::new(NOW), verdict);
    assert_eq!(attempts(&scheduler.effects(NOW)), [webhook]);
}

#[test]
fn a_queue_with_many_attempts_that_cannot_be_recorded_rests_alone() {
    let (mut scheduler, tenant) = (scheduler(), TenantId::new(NOW));
    let (one, other) = (WebhookId::new(NOW), WebhookId::new(NOW));
    let (mut log, mut others) = (Log::default(), Log::default());
    deliver(&mut scheduler, (one, &mut log), tenant, 1);
    deliver(&mut scheduler, (other, &mut others), tenant, 1);
    scheduler.effects(NOW);
    load(&mut scheduler, &[one, other]);
    assert_eq!(attempts(&scheduler.effects(NOW)), [one, other]);
    for _ in 0..UNRECORDED_MAX {
        scheduler.recording();
        scheduler.set_aside(one);
    }
    let left = scheduler.deliver(vec![log.announce(one, tenant, None)], NOW);
    assert_eq!(left.all, 1);
    deliver(&mut scheduler, (other, &mut others), tenant, 1);
    let effects = scheduler.effects(NOW);
    assert_eq!(attempts(&effects), [other]);
    let reads = |effect: &SchedulerEffect<()>| matches!(effect, SchedulerEffect::Refill(refill) if refill.most.is_some());
    assert!(!effects.iter().any(reads), "nor is it read for");
}

#[test]
fn after_the_stop_nothing_begins() {
    let (mut scheduler, tenant, webhook) = (scheduler(), TenantId::new(NOW), WebhookId::new(NOW));
    let mut log = Log::default();
    deliver(&mut scheduler, (webhook, &mut log), tenant, 1);
    scheduler.effects(NOW);
    load(&mut scheduler, &[webhook]);
    scheduler.stop();
    assert_eq!(attempts(&scheduler.effects(NOW)), []);
    let late = vec![log.announce(webhook, tenant, None)];
    let left = scheduler.deliver(late, NOW);
    assert_eq!(
        (left.all, left.for_others),
        (1, false),
        "it is left to the table"
    );
}

/// A row of a delivery.
#[derive(Clone)]
struct Row {
    dispatch: Dispatch,
    /// None once it is over.
    due: Option<Millis>,
}

/// The scheduler with tables and simulated endpoints.
struct Play {
    scheduler: Scheduler<()>,
    now: Millis,
    logs: BTreeMap<WebhookId, Log>,
    rows: BTreeMap<DeliveryId, Row>,
    cursors: BTreeMap<WebhookId, LogPlace>,
    sequences: BTreeMap<DeliveryId, i64>,
    under_way: BTreeMap<DeliveryId, QueuedDelivery>,
    open: Vec<SchedulerEffect<()>>,
    made: BTreeMap<DeliveryId, i64>,
    /// The newest event of each call of which a first attempt was made.
    first_attempts: BTreeMap<(WebhookId, CallId), i64>,
}

impl Play {
    fn new() -> Self {
        Self {
            scheduler: scheduler(),
            now: NOW,
            logs: BTreeMap::new(),
            rows: BTreeMap::new(),
            cursors: BTreeMap::new(),
            sequences: BTreeMap::new(),
            under_way: BTreeMap::new(),
            open: Vec::new(),
            made: BTreeMap::new(),
            first_attempts: BTreeMap::new(),
        }
    }

    fn commit(&mut self, webhook: WebhookId, tenant: TenantId, call: CallId, is_announced: bool) {
        let log = self.logs.entry(webhook).or_default();
        let dispatch = log.announce(webhook, tenant, Some(call));
        let sequence = log.announced.len() as i64;
        self.sequences.insert(dispatch.delivery, sequence);
        if is_announced {
            self.scheduler.deliver(vec![dispatch], self.now);
        }
    }

    /// The node ends with all that is in memory, and starts again.
    fn crash(&mut self) {
        self.scheduler = scheduler();
        self.open.clear();
        self.under_way.clear();
    }

    fn look(&mut self) {
        self.store_cursors();
        for (webhook, log) in &self.logs {
            let cursor = self.cursors.get(webhook).copied().unwrap_or_default();
            if !self.scheduler.has(*webhook) && cursor.sequence < log.end().sequence {
                let tenant = log.announced[0].tenant;
                self.scheduler.found(*webhook, tenant, self.now);
            }
        }
        let mut due: BTreeMap<WebhookId, DueWebhook> = BTreeMap::new();
        for Row { dispatch, due: at } in self.rows.values() {
            let Some(at) = at else { continue };
            let first = due.entry(dispatch.webhook).or_insert(DueWebhook {
                webhook: dispatch.webhook,
                tenant: Some(dispatch.tenant),
                at: Some(*at),
            });
            first.at = first.at.min(Some(*at));
        }
        let deleted = self
            .scheduler
            .looked(due.into_values().collect(), true, self.now);
        assert_eq!(deleted, []);
    }

    fn store_cursors(&mut self) {
        let moved = self.scheduler.moved_cursors();
        for (webhook, place) in &moved {
            self.store_cursor(*webhook, *place);
        }
        self.scheduler.cursors_stored(&moved);
    }

    /// A crash would lose what is before the cursor and has no row.
    fn store_cursor(&mut self, webhook: WebhookId, place: LogPlace) {
        let log = &self.logs[&webhook];
        let before = log.announced.iter().take(place.sequence as usize);
        for dispatch in before {
            assert!(
                self.rows.contains_key(&dispatch.delivery),
                "the cursor skips {:?}",
                dispatch.place
            );
        }
        self.cursors.insert(webhook, place);
    }

    fn go_on(&mut self) {
        for effect in self.scheduler.effects(self.now) {
            if let SchedulerEffect::Attempt(_, item) = &effect {
                self.begins(item);
            }
            self.open.push(effect);
        }
    }

    fn begins(&mut self, item: &QueuedDelivery) {
        let Dispatch {
            delivery, webhook, ..
        } = item.dispatch;
        let row = self.rows.get(&delivery);
        assert!(
            row.is_none_or(|row| row.due.is_some()),
            "made after its end"
        );
        let twice = self.under_way.insert(delivery, item.clone());
        assert!(twice.is_none(), "under way twice");
        let here = |other: &&QueuedDelivery| other.dispatch.webhook == webhook;
        let here = self.under_way.values().filter(here).count();
        assert!(here <= LIMITS.queue.concurrency);
        let his = |other: &&QueuedDelivery| other.dispatch.tenant == item.dispatch.tenant;
        let his = self.under_way.values().filter(his).count();
        assert!(his <= LIMITS.in_flight.div_ceil(4));
        let sequence = self.sequences[&delivery];
        if let (0, Some(call)) = (item.dispatch.attempts, item.dispatch.call) {
            let last = self.first_attempts.entry((webhook, call)).or_insert(0);
            assert!(*last <= sequence, "{sequence} comes after {last}");
            *last = sequence;
        }
    }

    /// Completes one of the open effects, as a failure if `fails`.
    fn finish(&mut self, which: usize, fails: bool) {
        if self.open.is_empty() {
            return;
        }
        let now = self.now;
        match self.open.swap_remove(which % self.open.len()) {
            SchedulerEffect::Load(ids) if fails => self.scheduler.not_loaded(ids),
            SchedulerEffect::Load(ids) => {
                let read = ids.iter().map(|id| (*id, self.read_cursor(*id)));
                let read: HashMap<WebhookId, CursorReading> = read.collect();
                self.scheduler.loaded(&ids, &read, now, ready);
            }
            SchedulerEffect::Refill(refill) if fails => self.scheduler.not_refilled(&refill),
            SchedulerEffect::Refill(refill) => {
                let refilled = self.refill(&refill);
                self.scheduler.refilled(&refill, refilled, now);
            }
            SchedulerEffect::Attempt(_, item) if fails => {
                self.under_way.remove(&item.dispatch.delivery);
                self.scheduler.not_made(item, now);
            }
            SchedulerEffect::Attempt(_, item) => self.made(&item),
            SchedulerEffect::Release(ids) => self.scheduler.released(ids, now),
            SchedulerEffect::Look => self.look(),
            SchedulerEffect::GoOn => {}
        }
    }

    fn read_cursor(&self, webhook: WebhookId) -> CursorReading {
        let pending = |row: &Row| row.dispatch.webhook == webhook && row.due.is_some();
        CursorReading {
            stored: self.cursors.get(&webhook).copied().unwrap_or_default(),
            end: self.logs.get(&webhook).map(Log::end).unwrap_or_default(),
            is_announced_elsewhere: self.now.as_i64() % 3 == 0,
            has_pending: self.rows.values().any(pending),
        }
    }

    /// Writes up to three rows, and reads.
    fn refill(&mut self, refill: &Refill) -> Refilled {
        let log = self.logs.entry(refill.webhook).or_default();
        let from = usize::try_from(refill.from.sequence).unwrap_or(0);
        let page: Vec<Dispatch> = log.announced.iter().skip(from).take(3).cloned().collect();
        let end = log.end();
        let written = page
            .last()
            .and_then(|last| last.place)
            .unwrap_or(refill.from);
        for dispatch in page {
            let row = Row {
                due: Some(NOW),
                dispatch: Dispatch {
                    place: None,
                    ..dispatch
                },
            };
            self.rows.entry(row.dispatch.delivery).or_insert(row);
        }
        self.store_cursor(refill.webhook, written);
        let is_free = |row: &&Row| {
            row.dispatch.webhook == refill.webhook
                && row.due.is_some_and(|at| at <= self.now)
                && !refill.known.contains(&row.dispatch.delivery)
        };
        let mut free: Vec<&Row> = self.rows.values().filter(is_free).collect();
        free.sort_by_key(|row| (row.due, row.dispatch.delivery));
        let items: Vec<QueuedDelivery> = free
            .into_iter()
            .take(refill.most.map_or(0, NonZeroUsize::get))
            .map(|row| QueuedDelivery {
                dispatch: row.dispatch.clone(),
                read_at: self.now,
                created: NOW,
            })
            .collect();
        let is_log_end = written.sequence >= end.sequence;
        Refilled {
            written,
            is_log_end,
            is_complete: is_log_end && refill.most.is_some_and(|most| items.len() < most.get()),
            items,
        }
    }

    /// Every fourth attempt must be repeated.
    fn made(&mut self, item: &QueuedDelivery) {
        let delivery = item.dispatch.delivery;
        self.under_way.remove(&delivery);
        let number = self.made.entry(delivery).or_insert(0);
        *number += 1;
        assert_eq!(*number, item.dispatch.attempts + 1, "as the table says");
        let again = *number == 1 && delivery.as_u128().is_multiple_of(4);
        let at = self.now.plus_ms(1_500);
        let verdict = if again {
            AttemptVerdict::Retry { at }
        } else {
            AttemptVerdict::Delivered
        };
        self.scheduler.attempted(item, verdict, self.now);
        self.scheduler.recording();
        let row = Row {
            due: again.then_some(at),
            dispatch: Dispatch {
                attempts: *number,
                place: None,
                ..item.dispatch.clone()
            },
        };
        self.rows.insert(delivery, row);
        self.scheduler
            .recorded(item.dispatch.webhook, delivery, verdict);
    }

    fn is_done(&self) -> bool {
        let announced = self.logs.values().flat_map(|log| &log.announced);
        let is_over = |dispatch: &Dispatch| {
            let row = self.rows.get(&dispatch.delivery);
            row.is_some_and(|row| row.due.is_none())
        };
        announced.into_iter().all(is_over)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever is announced or lost, however reads and attempts end, and wherever the node crashes: no delivery is in
    /// progress twice, the order of each call's events and all limits hold, no cursor skips an event without a row, and in
    /// the end all is delivered.
    #[test]
    fn everything_is_delivered_in_the_end(
        steps in proptest::collection::vec((0_u8..10, any::<u8>(), any::<bool>()), 1..300),
    ) {
        let mut play = Play::new();
        let tenants: Vec<TenantId> = (0..3).map(|_| TenantId::new(NOW)).collect();
        let webhooks: Vec<WebhookId> = (0..6).map(|_| WebhookId::new(NOW)).collect();
        let calls: Vec<CallId> = (0..3).map(|_| CallId::new(NOW)).collect();
        for (step, which, flag) in steps {
            let which = usize::from(which);
            let webhook = which % webhooks.len();
            match step {
                0..=3 => play.commit(webhooks[webhook], tenants[webhook % 3], calls[which / 6 % 3], flag || step > 0),
                4 => play.look(),
                5 if flag => drop(play.scheduler.suspect(webhooks[webhook])),
                5 => play.now = play.now.plus_ms(400),
                6 if which < 16 => play.crash(),
                6 if which < 32 => play.scheduler.suspect_all(),
                _ => play.finish(which, step == 7 && flag),
            }
            play.go_on();
        }
        for _ in 0..200 {
            play.now = play.now.plus_ms(500);
            play.look();
            play.go_on();
            while !play.open.is_empty() {
                play.finish(0, false);
                play.go_on();
            }
            if play.is_done() {
                break;
            }
        }
        prop_assert!(play.is_done(), "something is left");
        let counts = play.scheduler.counts();
        prop_assert_eq!((counts.in_flight, counts.unrecorded), (0, 0));
    }
}
