//! The scheduler's effects, completed in any order, without a table, endpoints or a clock.

use std::collections::BTreeMap;

use dikala_entities::{EventId, EventKind};
use proptest::prelude::*;

use super::*;

const NOW: Millis = Millis::from_i64(1_768_447_800_000);
const LIMITS: SchedulerLimits = SchedulerLimits {
    in_flight: 32,
    queue: QueueLimits {
        concurrency: 4,
        has_others: false,
    },
};

fn dispatch(webhook: WebhookId, tenant: TenantId) -> Dispatch {
    Dispatch {
        delivery: DeliveryId::new(NOW),
        webhook,
        tenant,
        event: EventId::new(NOW),
        kind: EventKind::CallStarted,
        call: None,
        body: "{}".into(),
        attempts: 0,
        is_test: false,
        trace: None,
        has_moved: false,
    }
}

fn scheduler() -> Scheduler<()> {
    Scheduler::new(LIMITS, NOW)
}

/// Offers `count` deliveries to a webhook.
fn deliver(scheduler: &mut Scheduler<()>, webhook: WebhookId, tenant: TenantId, count: usize) {
    let dispatches = (0..count).map(|_| dispatch(webhook, tenant)).collect();
    assert_eq!(scheduler.deliver(dispatches, NOW).all, 0);
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
fn lanes_take_turns_and_begin_a_few_at_once() {
    let (mut scheduler, tenant) = (scheduler(), TenantId::new(NOW));
    let (one, other) = (WebhookId::new(NOW), WebhookId::new(NOW));
    deliver(&mut scheduler, one, tenant, 9);
    deliver(&mut scheduler, other, tenant, 9);
    let effects = scheduler.effects(NOW);
    assert!(matches!(&effects[..], [SchedulerEffect::Load(ids)] if *ids == [one, other]));
    scheduler.loaded(&[one, other], NOW, ready);
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
    deliver(&mut scheduler, webhook, tenant, 1);
    assert_eq!(scheduler.effects(NOW).len(), 1);
    assert!(scheduler.suspect(webhook));
    assert!(scheduler.effects(NOW).is_empty(), "one read at a time");
    scheduler.loaded(&[webhook], NOW, ready);
    let effects = scheduler.effects(NOW);
    assert!(matches!(&effects[..], [SchedulerEffect::Load(ids)] if *ids == [webhook]));
}

#[test]
fn nothing_begins_while_too_much_is_not_recorded() {
    let (mut scheduler, tenant, webhook) = (scheduler(), TenantId::new(NOW), WebhookId::new(NOW));
    deliver(&mut scheduler, webhook, tenant, 1);
    scheduler.effects(NOW);
    scheduler.loaded(&[webhook], NOW, ready);
    for _ in 0..UNRECORDED_MAX {
        scheduler.recording();
    }
    assert_eq!(attempts(&scheduler.effects(NOW)), []);
    let verdict = AttemptVerdict::Delivered;
    scheduler.recorded(webhook, DeliveryId::new(NOW), verdict);
    assert_eq!(attempts(&scheduler.effects(NOW)), [webhook]);
}

#[test]
fn a_lane_with_many_attempts_that_cannot_be_recorded_rests_alone() {
    let (mut scheduler, tenant) = (scheduler(), TenantId::new(NOW));
    let (one, other) = (WebhookId::new(NOW), WebhookId::new(NOW));
    for webhook in [one, other] {
        deliver(&mut scheduler, webhook, tenant, 1);
    }
    scheduler.effects(NOW);
    scheduler.loaded(&[one, other], NOW, ready);
    assert_eq!(attempts(&scheduler.effects(NOW)), [one, other]);
    for _ in 0..UNRECORDED_MAX {
        scheduler.recording();
        scheduler.set_aside(one);
    }
    let left = scheduler.deliver(vec![dispatch(one, tenant)], NOW);
    assert_eq!(left.all, 1);
    deliver(&mut scheduler, other, tenant, 1);
    let effects = scheduler.effects(NOW);
    assert_eq!(attempts(&effects), [other]);
    let reads = |effect: &SchedulerEffect<()>| matches!(effect, SchedulerEffect::Refill(_));
    assert!(!effects.iter().any(reads), "nor is it read for");
}

#[test]
fn who_stops_begins_nothing() {
    let (mut scheduler, tenant, webhook) = (scheduler(), TenantId::new(NOW), WebhookId::new(NOW));
    deliver(&mut scheduler, webhook, tenant, 1);
    scheduler.effects(NOW);
    scheduler.loaded(&[webhook], NOW, ready);
    scheduler.stop();
    assert_eq!(attempts(&scheduler.effects(NOW)), []);
    let late = vec![dispatch(webhook, tenant)];
    let left = scheduler.deliver(late, NOW);
    assert_eq!(
        (left.all, left.for_others),
        (1, false),
        "it is left to the table"
    );
}

/// The scheduler with a table and simulated endpoints.
struct Play {
    scheduler: Scheduler<()>,
    now: Millis,
    /// Pending deliveries with their due times.
    table: BTreeMap<DeliveryId, (Dispatch, Millis)>,
    under_way: BTreeMap<DeliveryId, QueuedDelivery>,
    open: Vec<SchedulerEffect<()>>,
    made: BTreeMap<DeliveryId, i64>,
}

impl Play {
    fn new() -> Self {
        Self {
            scheduler: scheduler(),
            now: NOW,
            table: BTreeMap::new(),
            under_way: BTreeMap::new(),
            open: Vec::new(),
            made: BTreeMap::new(),
        }
    }

    fn commit(&mut self, webhook: WebhookId, tenant: TenantId, announced: bool) {
        let dispatch = dispatch(webhook, tenant);
        let pending = (dispatch.clone(), self.now);
        self.table.insert(dispatch.delivery, pending);
        if announced {
            self.scheduler.deliver(vec![dispatch], self.now);
        }
    }

    fn look(&mut self) {
        let mut due: BTreeMap<WebhookId, DueWebhook> = BTreeMap::new();
        for (dispatch, at) in self.table.values() {
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

    fn go_on(&mut self) {
        for effect in self.scheduler.effects(self.now) {
            if let SchedulerEffect::Attempt(_, item) = &effect {
                let delivery = item.dispatch.delivery;
                assert!(self.table.contains_key(&delivery), "made after its end");
                let twice = self.under_way.insert(delivery, item.clone());
                assert!(twice.is_none(), "under way twice");
                let here =
                    |other: &&QueuedDelivery| other.dispatch.webhook == item.dispatch.webhook;
                let here = self.under_way.values().filter(here).count();
                assert!(here <= LIMITS.queue.concurrency);
                let his = |other: &&QueuedDelivery| other.dispatch.tenant == item.dispatch.tenant;
                let his = self.under_way.values().filter(his).count();
                assert!(his <= LIMITS.in_flight.div_ceil(4));
            }
            self.open.push(effect);
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
            SchedulerEffect::Load(ids) => self.scheduler.loaded(&ids, now, ready),
            SchedulerEffect::Refill(claim) if fails => self.scheduler.not_claimed(&claim),
            SchedulerEffect::Refill(claim) => {
                let items = self.read(&claim);
                self.scheduler.claimed(&claim, items, 0, now);
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

    fn read(&self, claim: &Refill) -> Vec<QueuedDelivery> {
        let free = self.table.values().filter(|(dispatch, at)| {
            dispatch.webhook == claim.webhook
                && *at <= self.now
                && !claim.known.contains(&dispatch.delivery)
        });
        free.take(claim.limit)
            .map(|(dispatch, _)| QueuedDelivery {
                dispatch: dispatch.clone(),
                read_at: self.now,
                created: NOW,
            })
            .collect()
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
        if let Some((pending, due)) = self.table.get_mut(&delivery).filter(|_| again) {
            pending.attempts += 1;
            *due = at;
        } else {
            self.table.remove(&delivery);
        }
        self.scheduler
            .recorded(item.dispatch.webhook, delivery, verdict);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is announced or lost, and however reads and attempts end: no delivery is in progress twice, limits
    /// hold, and in the end all is delivered.
    #[test]
    fn everything_is_delivered_in_the_end(
        steps in proptest::collection::vec((0_u8..8, any::<u8>(), any::<bool>()), 1..300),
    ) {
        let mut play = Play::new();
        let tenants: Vec<TenantId> = (0..3).map(|_| TenantId::new(NOW)).collect();
        let webhooks: Vec<WebhookId> = (0..9).map(|_| WebhookId::new(NOW)).collect();
        for (step, which, flag) in steps {
            let which = usize::from(which);
            let webhook = which % webhooks.len();
            match step {
                0..=2 => play.commit(webhooks[webhook], tenants[webhook % 3], flag),
                3 => play.look(),
                4 if flag => drop(play.scheduler.suspect(webhooks[webhook])),
                4 => play.now = play.now.plus_ms(100),
                _ => play.finish(which, step == 5 && flag),
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
            if play.table.is_empty() {
                break;
            }
        }
        prop_assert!(play.table.is_empty(), "{} are left", play.table.len());
        let counts = play.scheduler.counts();
        prop_assert_eq!((counts.in_flight, counts.unrecorded), (0, 0));
    }
}
