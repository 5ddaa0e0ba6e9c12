//! Which delivery is attempted next, and what has to be read for that. Pure: what happened comes in with the time, and what is
//! to be done comes out of [`Scheduler::effects`]; whoever does it says here how it went.
//!
//! Each webhook has a [`Lane`]. Lanes take turns, one attempt each; a tenant has a share of all attempts ([`slots`]).

mod by_hand;
mod effects;
mod idle;
mod lane;
mod slots;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    rc::Rc,
};

use dikala_entities::{DeliveryId, Millis, TenantId, WebhookId};

use self::slots::Slots;
pub(super) use self::{
    effects::{Counts, DueWebhook, Effect, Left, Refill, SchedulerLimits},
    lane::{Destination, Item, Lane, LaneLimits},
};
use super::{
    lanes::LaneReading,
    retry::Verdict,
    stats::{LaneState, Lanes},
};
use crate::events::outbox::Dispatch;

/// Deliveries that wait in memory, over all lanes.
const WAITING_MAX: usize = 16_384;
/// Attempts that are over and not yet in the table; no new ones begin while there are more, so a database that is away stops the work.
pub(super) const UNRECORDED_MAX: usize = 2_048;
/// Attempts begun in one go; a tenant's burst of them would hold up everybody's messages for milliseconds.
const BURST: usize = 8;
/// Reads of deliveries at the same time.
const CLAIMS_MAX: usize = 4;
/// Webhooks read by one query.
const LOAD_BATCH: usize = 500;
/// How long a lane rests after an attempt could not be made through a fault of our own, in milliseconds.
const REST_MS: i64 = 1_000;

#[derive(Debug)]
pub(super) struct Scheduler<E> {
    limits: SchedulerLimits,
    lanes: BTreeMap<WebhookId, Lane<E>>,
    /// Lanes that may have something to begin, in the order of their turns.
    round: VecDeque<WebhookId>,
    slots: Slots,
    waiting: usize,
    /// Attempts that are over and not yet in the table.
    unrecorded: usize,
    /// Webhooks to read.
    to_load: BTreeSet<WebhookId>,
    loading: bool,
    /// Lanes that have had nothing to do for long: other nodes may have them.
    to_release: Vec<WebhookId>,
    /// Lanes to read deliveries for.
    to_claim: VecDeque<WebhookId>,
    claims: usize,
    /// Whether the table is to be looked at before it is time to.
    look: bool,
    /// The first moment at which something will be due that nothing else announces.
    next_due: Option<Millis>,
    stopping: bool,
    started_at: Millis,
}

impl<E> Scheduler<E> {
    pub(super) fn new(limits: SchedulerLimits, started_at: Millis) -> Self {
        Self {
            limits,
            lanes: BTreeMap::new(),
            round: VecDeque::new(),
            slots: Slots::new(limits.in_flight),
            waiting: 0,
            unrecorded: 0,
            to_load: BTreeSet::new(),
            loading: false,
            to_release: Vec::new(),
            to_claim: VecDeque::new(),
            claims: 0,
            look: false,
            next_due: None,
            stopping: false,
            started_at,
        }
    }

    /// Whether other nodes may change what is read here.
    pub(super) fn among_others(&mut self, has_others: bool) {
        self.limits.lane.has_others = has_others;
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping
    }

    /// What is to be done now. Each is under way from here on.
    pub(super) fn effects(&mut self, now: Millis) -> Vec<Effect<E>> {
        let mut effects = Vec::new();
        if std::mem::take(&mut self.look) {
            effects.push(Effect::Look);
        }
        if !self.to_release.is_empty() {
            effects.push(Effect::Release(std::mem::take(&mut self.to_release)));
        }
        effects.extend(self.next_load().map(Effect::Load));
        let mut begun = 0;
        while begun < BURST
            && let Some((endpoint, item)) = self.next_attempt(now)
        {
            effects.push(Effect::Attempt(endpoint, item));
            begun += 1;
        }
        if begun == BURST {
            effects.push(Effect::GoOn);
        }
        while let Some(claim) = self.next_claim(now) {
            effects.push(Effect::Refill(claim));
        }
        effects
    }

    /// Takes committed deliveries. Returns what found no room here and was left to the table.
    pub(super) fn deliver(&mut self, dispatches: Vec<Dispatch>, now: Millis) -> Left {
        let mut left = Left::default();
        for dispatch in dispatches {
            let webhook = dispatch.webhook;
            let created = created(dispatch.delivery);
            // What was committed before this scheduler began is read from the table.
            let ours = created >= self.started_at && !self.stopping;
            let item = Item {
                read_at: now,
                created,
                dispatch,
            };
            let room = ours && self.waiting < WAITING_MAX;
            let lane = self.lane(webhook, item.dispatch.tenant, now);
            if lane.offer(item, room, now) {
                self.waiting += 1;
                self.take_turn(webhook);
            } else {
                left.all += 1;
                left.for_others |= !lane.may_be_ours();
                self.want(webhook, now);
            }
        }
        left
    }

    /// An attempt is over, and is on its way to the table.
    pub(super) fn attempted(&mut self, item: &Item, verdict: Verdict, now: Millis) {
        let webhook = item.dispatch.webhook;
        if let Some(lane) = self.lanes.get_mut(&webhook) {
            lane.attempted(item, verdict, now);
            let looks_at = lane.looks_at();
            self.due(looks_at);
        }
        if let Verdict::Retry { at } = verdict {
            self.due(Some(at));
        }
        self.slot_free(webhook, item.dispatch.tenant);
    }

    /// An attempt could not be made through a fault of our own: the delivery waits.
    pub(super) fn not_made(&mut self, item: Item, now: Millis) {
        let (webhook, tenant) = (item.dispatch.webhook, item.dispatch.tenant);
        let until = now.plus_ms(REST_MS);
        if let Some(lane) = self.lanes.get_mut(&webhook) {
            lane.not_made(item, until, now);
        }
        self.due(Some(until));
        self.slot_free(webhook, tenant);
    }

    /// An attempt is to be recorded.
    pub(super) fn recording(&mut self) {
        self.unrecorded += 1;
    }

    /// An attempt stands in the table.
    pub(super) fn recorded(&mut self, webhook: WebhookId, delivery: DeliveryId, verdict: Verdict) {
        self.unrecorded = self.unrecorded.saturating_sub(1);
        if let Some(lane) = self.lanes.get_mut(&webhook) {
            lane.recorded(delivery);
            lane.closing &= verdict != Verdict::Gone;
        }
        if let Verdict::Retry { at } = verdict {
            self.due(Some(at));
        }
    }

    /// An attempt cannot be recorded. Its delivery stays known, so this process does not send it again. It takes room of its lane
    /// only: with too many such deliveries that lane rests, and no other.
    pub(super) fn set_aside(&mut self, webhook: WebhookId) {
        self.unrecorded = self.unrecorded.saturating_sub(1);
        if let Some(lane) = self.lanes.get_mut(&webhook) {
            lane.set_aside();
        }
    }

    /// A webhook was disabled for its failures.
    pub(super) fn disabled(&mut self, webhook: WebhookId) {
        if let Some(lane) = self.lanes.get_mut(&webhook) {
            lane.disable();
        }
    }

    /// A delivery is made beside the queues: the table does not give it out too.
    pub(super) fn reserve(
        &mut self,
        webhook: WebhookId,
        tenant: TenantId,
        delivery: DeliveryId,
        now: Millis,
    ) {
        self.lane(webhook, tenant, now).reserve(delivery);
    }

    /// A delivery that was [reserved](Self::reserve) will not be made.
    pub(super) fn release(&mut self, webhook: WebhookId, delivery: DeliveryId) {
        if let Some(lane) = self.lanes.get_mut(&webhook) {
            lane.recorded(delivery);
        }
    }

    /// A webhook was changed: nothing goes to it, and what waits for it is left to the table, until it is read again. Whether
    /// anything is known of it.
    pub(super) fn suspect(&mut self, webhook: WebhookId) -> bool {
        let Some(lane) = self.lanes.get_mut(&webhook) else {
            return false;
        };
        lane.suspect();
        lane.forget();
        self.to_load.insert(webhook);
        true
    }

    /// The table was looked at, and all webhooks are to be `reread`. Returns the webhooks that were deleted with deliveries pending.
    pub(super) fn looked(
        &mut self,
        due: Vec<DueWebhook>,
        reread: bool,
        now: Millis,
    ) -> Vec<WebhookId> {
        self.sweep(now);
        // Between two counts only additions are followed, so the figure errs upwards.
        self.waiting = self.lanes.values().map(Lane::waiting).sum();
        let mut deleted = Vec::new();
        for due in due {
            match due.tenant {
                Some(tenant) => self.expect(due.webhook, tenant, due.at, now),
                None => deleted.push(due.webhook),
            }
        }
        if reread {
            self.to_load.extend(self.lanes.keys().copied());
        }
        deleted
    }

    /// The moment at which to look again, which is forgotten by that.
    pub(super) fn take_next_due(&mut self) -> Option<Millis> {
        self.next_due.take()
    }

    /// Webhooks were read; `aim` says at what each lane is aimed now.
    pub(super) fn loaded(
        &mut self,
        ids: &[WebhookId],
        now: Millis,
        mut aim: impl FnMut(WebhookId, &Lane<E>) -> Destination<E>,
    ) {
        self.loading = false;
        for id in ids {
            // Changed again while it was being read: this answer is old.
            if self.to_load.contains(id) {
                continue;
            }
            if let Some(lane) = self.lanes.get_mut(id).filter(|lane| !lane.releasing) {
                let was_ready = lane.is_ready();
                let target = aim(*id, lane);
                lane.aim(target);
                self.look |= lane.is_ready() && !was_ready;
                self.take_turn(*id);
                self.want(*id, now);
            }
        }
    }

    /// Webhooks could not be read.
    pub(super) fn not_loaded(&mut self, ids: Vec<WebhookId>) {
        self.loading = false;
        self.to_load.extend(ids);
    }

    /// Deliveries were read; `lost` of those that were due have no event any more.
    pub(super) fn claimed(
        &mut self,
        claim: &Refill,
        mut items: Vec<Item>,
        lost: usize,
        now: Millis,
    ) {
        // However long that took: what is read again and again would never be sent.
        items.iter_mut().for_each(|item| item.read_at = now);
        self.claims = self.claims.saturating_sub(1);
        let Some(lane) = self.lanes.get_mut(&claim.webhook) else {
            return;
        };
        lane.claiming = false;
        let complete = items.len() + lost < claim.limit;
        self.waiting = self.waiting.saturating_add(items.len());
        let newest = items.iter().map(|item| item.dispatch.delivery).max();
        lane.claimed(items, claim.left_behind, complete);
        if let (false, Some(newest)) = (complete, newest) {
            lane.more_in_table(newest);
        }
        if !lane.is_ready() || self.stopping {
            lane.forget();
        }
        self.take_turn(claim.webhook);
        self.want(claim.webhook, now);
    }

    /// Deliveries could not be read.
    pub(super) fn not_claimed(&mut self, claim: &Refill) {
        self.claims = self.claims.saturating_sub(1);
        if let Some(lane) = self.lanes.get_mut(&claim.webhook) {
            lane.claiming = false;
        }
    }

    pub(super) fn counts(&self) -> Counts {
        Counts {
            in_flight: self.slots.in_flight(),
            unrecorded: self.unrecorded,
        }
    }

    /// Whether nothing is expected of this node: a webhook's endpoint keeps failing and is only probed, or another node delivers.
    pub(super) fn spares(&self, webhook: WebhookId) -> bool {
        let lane = self.lanes.get(&webhook);
        lane.is_some_and(|lane| matches!(lane.state(), LaneState::Open | LaneState::Elsewhere))
    }

    /// A webhook's lane, where it has one.
    pub(super) fn lane_reading(&self, webhook: WebhookId) -> Option<LaneReading> {
        self.lanes.get(&webhook).map(Lane::reading)
    }

    /// Lanes by state. Goes through all of them.
    pub(super) fn lanes(&self) -> Lanes {
        let mut lanes = Lanes::default();
        for lane in self.lanes.values() {
            lanes[lane.state() as usize] += 1;
        }
        lanes
    }

    /// The lane of a webhook; a new one asks for its webhook to be read.
    fn lane(&mut self, webhook: WebhookId, tenant: TenantId, now: Millis) -> &mut Lane<E> {
        self.lanes.entry(webhook).or_insert_with(|| {
            self.to_load.insert(webhook);
            Lane::new(tenant, now)
        })
    }

    /// Puts a lane into the round.
    fn take_turn(&mut self, webhook: WebhookId) {
        if let Some(lane) = self.lanes.get_mut(&webhook)
            && !lane.in_round
        {
            lane.in_round = true;
            self.round.push_back(webhook);
        }
    }

    /// The next attempt that may begin: lanes take turns, one attempt each.
    fn next_attempt(&mut self, now: Millis) -> Option<(Rc<E>, Item)> {
        if self.slots.is_full() || self.unrecorded >= UNRECORDED_MAX || self.stopping {
            return None;
        }
        while let Some(webhook) = self.round.pop_front() {
            let Some(lane) = self.lanes.get_mut(&webhook) else {
                continue;
            };
            if !self.slots.may_begin(lane.tenant) {
                self.slots.park(lane.tenant, webhook);
                continue;
            }
            let begun = lane.take(self.limits.lane, now);
            if begun.is_some() {
                self.slots.begin(lane.tenant);
                self.round.push_back(webhook);
            } else {
                lane.in_round = false;
            }
            self.want(webhook, now);
            if begun.is_some() {
                return begun;
            }
        }
        None
    }

    fn next_load(&mut self) -> Option<Vec<WebhookId>> {
        if self.loading || self.stopping || self.to_load.is_empty() {
            return None;
        }
        self.loading = true;
        let mut ids = Vec::new();
        while ids.len() < LOAD_BATCH
            && let Some(id) = self.to_load.pop_first()
        {
            ids.push(id);
        }
        Some(ids)
    }

    fn next_claim(&mut self, now: Millis) -> Option<Refill> {
        if self.claims >= CLAIMS_MAX || self.stopping || self.waiting >= WAITING_MAX {
            return None;
        }
        while let Some(webhook) = self.to_claim.pop_front() {
            let Some(lane) = self.lanes.get_mut(&webhook) else {
                continue;
            };
            let limit = lane.wanted(now);
            if limit == 0 {
                continue;
            }
            lane.claiming = true;
            self.claims += 1;
            return Some(Refill {
                webhook,
                limit,
                known: lane.known().collect(),
                left_behind: lane.left_behind(),
            });
        }
        None
    }

    /// A webhook has something due, now or later.
    fn expect(&mut self, webhook: WebhookId, tenant: TenantId, at: Option<Millis>, now: Millis) {
        let Some(at) = at else {
            return;
        };
        if at > now {
            self.due(Some(at));
            return;
        }
        let lane = self.lane(webhook, tenant, now);
        // A lane with enough in memory is not read for: what is due is most likely just that.
        let wanted = lane.has_room() && lane.wanted(now) > 0;
        if wanted && !self.to_claim.contains(&webhook) {
            self.to_claim.push_back(webhook);
        }
    }

    /// Asks for a lane's deliveries in the table, if it has some there and room for them.
    fn want(&mut self, webhook: WebhookId, now: Millis) {
        let wants = self
            .lanes
            .get(&webhook)
            .is_some_and(|lane| lane.should_read(now));
        if wants && !self.to_claim.contains(&webhook) {
            self.to_claim.push_back(webhook);
        }
    }

    fn slot_free(&mut self, webhook: WebhookId, tenant: TenantId) {
        self.round.extend(self.slots.end(tenant));
        self.take_turn(webhook);
    }

    /// Remembers that something will be due.
    fn due(&mut self, at: Option<Millis>) {
        self.next_due = match (self.next_due, at) {
            (Some(known), Some(at)) => Some(known.min(at)),
            (known, at) => known.or(at),
        };
    }
}

/// When a delivery was made: an id begins with its milliseconds.
fn created(delivery: DeliveryId) -> Millis {
    Millis::from_i64(i64::try_from(delivery.as_u128() >> 80).unwrap_or(i64::MAX))
}
