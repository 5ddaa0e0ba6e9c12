//! One endpoint's queue: deliveries that wait in memory, that are in progress, and that must be read from the table.
//!
//! A delivery comes fresh from its commit ([`EndpointQueue::offer`]) or from the table ([`EndpointQueue::refilled`]). Two rules
//! keep the order of a call's first attempts. A fresh one is accepted only if its sequence number follows the last one.
//! Once a delivery was left to the table, all newer ones are left there too and come back in order.
//!
//! Fresh deliveries have no row until their attempt is recorded. `handled` is the place in the log up to which each has a
//! row or is in memory; the [cursor](EndpointQueue::cursor) is the place up to which each has a row.

mod log;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    rc::Rc,
};

use dikala_entities::{CallId, DeliveryId, EventKind, Millis, TenantId};

use super::effects::{QueueLimits, QueuedDelivery};
use crate::{
    events::sequences::LogPlace,
    runtime::circuit::{Admits, Circuit},
    webhooks::{retry::AttemptVerdict, stats::QueueState, webhook_status::QueueReading},
};

/// Deliveries waiting in memory per endpoint; the rest waits in the table.
const WAITING_MAX: usize = 512;
/// A queue with a backlog reads the table again when at most this many wait.
const READ_AGAIN_AT: usize = 16;
/// The first pause of a circuit, in milliseconds.
const FIRST_PAUSE_MS: i64 = 1_000;
/// Deliveries in memory are read again after this time.
const BELIEVED_MS: i64 = 30_000;
/// The same among other nodes: a call erased at another node must not be sent by this one.
const BELIEVED_AMONG_OTHERS_MS: i64 = 250;

/// The state of the queue's webhook.
#[derive(Debug)]
pub(in crate::webhooks) enum Destination<E> {
    /// Not read yet.
    Unknown,
    Ready(Rc<E>),
    /// Another node delivers to it, including what is pending here.
    Elsewhere,
    /// Disabled: pending deliveries stay pending until it is enabled.
    Disabled,
    /// Paused by an operator: pending deliveries stay pending.
    Paused,
    /// The secret cannot be decrypted: the service is at fault, so nothing is sent and nothing is lost.
    Sealed,
    /// Deleted: pending deliveries are closed.
    Deleted,
}

#[derive(Debug)]
pub(in crate::webhooks) struct EndpointQueue<E> {
    pub(super) tenant: TenantId,
    pub(in crate::webhooks) target: Destination<E>,
    /// The endpoint before the webhook changed.
    before: Option<Rc<E>>,
    pub(super) circuit: Circuit,
    /// True if the queue is in the scheduler's round.
    pub(super) in_round: bool,
    pub(super) refilling: bool,
    /// True while other nodes are told that they may deliver. Until then nothing begins.
    pub(super) releasing: bool,
    /// The endpoint answered 410, which the table does not show yet.
    pub(in crate::webhooks) closing: bool,
    used_at: Millis,
    deliveries: VecDeque<QueuedDelivery>,
    /// Deliveries that were offered while the table is read. The result says whether they follow it.
    offered_meanwhile: VecDeque<QueuedDelivery>,
    /// All deliveries in memory: waiting, in progress, or ended but not recorded. Fresh ones with their sequence number.
    known: HashMap<DeliveryId, Option<i64>>,
    first_attempts: HashSet<CallId>,
    in_flight: usize,
    /// The kind of the last event that the endpoint refused. It may take others.
    refused: Option<EventKind>,
    /// Deliveries whose attempts cannot be recorded. They stay in `known`.
    aside: usize,
    /// The stored cursor, if this node has it.
    stored: Option<LogPlace>,
    /// Each event up to here has a row of its delivery, or is in memory. Later ones may be in memory, too: those that were
    /// under way when others were forgotten. Before the cursor is read, it is assumed that all events before the first one
    /// offered have rows.
    handled: Option<LogPlace>,
    /// Deliveries in memory without a row, with their positions and when they came.
    unwritten: BTreeMap<i64, (i64, Millis)>,
    /// The highest sequence number that was seen.
    seen: i64,
    /// The newest sequence number when the cursor was last read.
    end_before: i64,
    /// Rows of deliveries that are not in memory are pending.
    rows_left: bool,
    /// How often deliveries in memory were forgotten.
    forgotten: u64,
    /// The last time at which rows were written without reading any.
    rows_asked_at: Option<Millis>,
    /// Deliveries that were recorded while the table is read, which may still show them as pending.
    recorded_meanwhile: HashSet<DeliveryId>,
    held_until: Option<Millis>,
}

impl<E> EndpointQueue<E> {
    pub(super) fn new(tenant: TenantId, now: Millis) -> Self {
        Self {
            tenant,
            target: Destination::Unknown,
            before: None,
            circuit: Circuit::new(FIRST_PAUSE_MS),
            in_round: false,
            refilling: false,
            releasing: false,
            closing: false,
            used_at: now,
            deliveries: VecDeque::new(),
            offered_meanwhile: VecDeque::new(),
            known: HashMap::new(),
            first_attempts: HashSet::new(),
            in_flight: 0,
            refused: None,
            aside: 0,
            stored: None,
            handled: None,
            unwritten: BTreeMap::new(),
            seen: 0,
            end_before: 0,
            rows_left: false,
            forgotten: 0,
            rows_asked_at: None,
            recorded_meanwhile: HashSet::new(),
            held_until: None,
        }
    }

    /// Handles a change of the webhook: nothing begins until it is read again.
    pub(super) fn suspect(&mut self) {
        self.before = self.endpoint();
        self.target = Destination::Unknown;
    }

    /// The present or last endpoint of the queue.
    pub(in crate::webhooks) fn endpoint(&self) -> Option<Rc<E>> {
        match &self.target {
            Destination::Ready(endpoint) => Some(Rc::clone(endpoint)),
            _ => self.before.clone(),
        }
    }

    /// False if another node delivers to the webhook.
    pub(super) fn may_be_ours(&self) -> bool {
        !matches!(self.target, Destination::Elsewhere)
    }

    pub(super) fn is_ready(&self) -> bool {
        matches!(self.target, Destination::Ready(_))
    }

    pub(super) fn state(&self) -> QueueState {
        match &self.target {
            Destination::Ready(_) if self.circuit.is_open() => QueueState::Open,
            Destination::Ready(_) => QueueState::Closed,
            Destination::Disabled | Destination::Deleted => QueueState::Disabled,
            Destination::Paused => QueueState::Paused,
            Destination::Sealed => QueueState::Sealed,
            Destination::Elsewhere => QueueState::Elsewhere,
            Destination::Unknown => QueueState::Unread,
        }
    }

    pub(super) fn reading(&self) -> QueueReading {
        QueueReading {
            state: self.state(),
            waiting: self.deliveries.len(),
            in_flight: self.in_flight,
            probe_at: self.circuit.probe_at(),
        }
    }

    /// Sets the destination. If it cannot receive deliveries, those that wait are left to the table.
    pub(super) fn aim(&mut self, target: Destination<E>) {
        match &target {
            Destination::Ready(_) | Destination::Unknown => {}
            Destination::Disabled | Destination::Paused | Destination::Elsewhere => {
                self.circuit = Circuit::new(FIRST_PAUSE_MS);
                self.forget();
            }
            Destination::Sealed | Destination::Deleted => self.forget(),
        }
        self.target = target;
    }

    /// Sends nothing more to the endpoint.
    pub(super) fn disable(&mut self) {
        self.target = Destination::Disabled;
        self.forget();
    }

    /// The number of deliveries to read from the table now.
    pub(super) fn wanted(&self, now: Millis) -> usize {
        let ready = self.is_ready() && !self.refilling;
        if !ready || self.held_until.is_some_and(|until| now < until) {
            return 0;
        }
        match self.circuit.admits(now) {
            Admits::All => self.room(),
            Admits::One => usize::from(self.deliveries.is_empty()).min(self.room()),
            Admits::None => 0,
        }
    }

    /// The number of further deliveries that may wait in memory.
    fn room(&self) -> usize {
        WAITING_MAX.saturating_sub(self.deliveries.len() + self.aside)
    }

    /// True if so few wait that reading more is worthwhile.
    pub(super) fn has_room(&self) -> bool {
        self.deliveries.len() <= READ_AGAIN_AT
    }

    /// True if the table holds more and there is room for it.
    pub(super) fn should_read(&self, now: Millis) -> bool {
        self.is_behind() && self.has_room() && self.wanted(now) > 0
    }

    pub(super) fn known(&self) -> impl Iterator<Item = DeliveryId> + '_ {
        self.known.keys().copied()
    }

    /// Reserves a delivery for an attempt outside the queue, so that it does not come from the table too.
    pub(super) fn reserve(&mut self, id: DeliveryId) {
        self.known.insert(id, None);
    }

    /// Does the same for a delivery that may wait in the queue, and removes it there. False if it is in progress.
    pub(super) fn pull(&mut self, id: DeliveryId) -> bool {
        let waits = |item: &QueuedDelivery| item.dispatch.delivery == id;
        match self.deliveries.iter().position(waits) {
            Some(place) => self.deliveries.remove(place).is_some(),
            None if self.known.contains_key(&id) => false,
            None => self.known.insert(id, None).is_none(),
        }
    }

    /// The next delivery whose attempt may begin now.
    pub(super) fn take(
        &mut self,
        limits: QueueLimits,
        now: Millis,
    ) -> Option<(Rc<E>, QueuedDelivery)> {
        let Destination::Ready(endpoint) = &self.target else {
            return None;
        };
        let endpoint = Rc::clone(endpoint);
        let held = self.held_until.is_some_and(|until| now < until);
        if held || self.in_flight >= limits.concurrency {
            return None;
        }
        if self.circuit.admits(now) == Admits::None {
            return None;
        }
        let next = self.next_place()?;
        let believed_ms = match limits.has_others {
            true => BELIEVED_AMONG_OTHERS_MS,
            false => BELIEVED_MS,
        };
        if now.since(self.deliveries.get(next)?.read_at) > believed_ms {
            // Its call may have been erased meanwhile, so the table is read again, in order.
            self.forget();
            return None;
        }
        let item = self.deliveries.remove(next)?;
        if let (0, Some(call)) = (item.dispatch.attempts, item.dispatch.call) {
            self.first_attempts.insert(call);
        }
        self.in_flight += 1;
        self.circuit.begun();
        self.used_at = now;
        Some((endpoint, item))
    }

    /// The place of the next delivery. An endpoint that keeps failing is probed with another kind of event than it refused last, if
    /// no earlier event of that call waits.
    fn next_place(&self) -> Option<usize> {
        let mut waiting_calls = HashSet::new();
        let mut first = None;
        for (place, item) in self.deliveries.iter().enumerate() {
            let call = item.dispatch.call.filter(|_| item.dispatch.attempts == 0);
            let is_next = call.is_none_or(|call| waiting_calls.insert(call));
            if !is_next || !self.may_begin(item) {
                continue;
            }
            if !self.circuit.is_open() || self.refused != Some(item.dispatch.kind) {
                return Some(place);
            }
            first = first.or(Some(place));
        }
        first
    }

    /// An event of a call waits for the first attempt of the previous one. Retries neither wait nor block.
    fn may_begin(&self, item: &QueuedDelivery) -> bool {
        match (item.dispatch.attempts, item.dispatch.call) {
            (0, Some(call)) => !self.first_attempts.contains(&call),
            _ => true,
        }
    }

    /// Handles a finished attempt. The delivery stays known until [`recorded`](Self::recorded).
    pub(super) fn attempted(
        &mut self,
        item: &QueuedDelivery,
        verdict: AttemptVerdict,
        now: Millis,
    ) {
        self.ended(item, now);
        self.refused = match verdict {
            AttemptVerdict::Delivered => None,
            _ => Some(item.dispatch.kind),
        };
        match verdict {
            AttemptVerdict::Delivered => self.circuit.succeeded(),
            AttemptVerdict::Retry { at } => self.circuit.failed(now, Some(at.since(now))),
            AttemptVerdict::GivenUp => self.circuit.failed(now, None),
            AttemptVerdict::Gone => {
                self.circuit.failed(now, None);
                self.closing = true;
                self.disable();
            }
        }
    }

    fn ended(&mut self, item: &QueuedDelivery, now: Millis) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if let (0, Some(call)) = (item.dispatch.attempts, item.dispatch.call) {
            self.first_attempts.remove(&call);
        }
        self.used_at = now;
    }

    /// Handles an attempt that was not made: the delivery returns to the front, and the queue rests until
    /// `held_until`.
    pub(super) fn not_made(&mut self, item: QueuedDelivery, held_until: Millis, now: Millis) {
        self.ended(&item, now);
        self.circuit.not_made();
        self.deliveries.push_front(item);
        self.held_until = Some(held_until);
    }

    pub(super) fn recorded(&mut self, id: DeliveryId) {
        if let Some(Some(sequence)) = self.known.remove(&id) {
            self.unwritten.remove(&sequence);
        }
        if self.refilling {
            self.recorded_meanwhile.insert(id);
        }
    }

    /// Handles an attempt that cannot be recorded: its delivery stays in `known` and takes room.
    pub(super) fn set_aside(&mut self) {
        self.aside += 1;
    }

    pub(super) fn no_longer_aside(&mut self) {
        self.aside = self.aside.saturating_sub(1);
    }

    /// True if nothing is in progress or waits to be recorded.
    pub(super) fn is_at_rest(&self) -> bool {
        self.known.is_empty() && !self.refilling
    }

    pub(in crate::webhooks) fn waiting(&self) -> usize {
        self.deliveries.len()
    }

    /// The next time at which the queue needs a look without another cause.
    pub(super) fn looks_at(&self) -> Option<Millis> {
        let wants = !self.deliveries.is_empty() || self.is_behind();
        let probe = self.circuit.probe_at();
        let times = [probe, self.held_until];
        times.into_iter().flatten().max().filter(|_| wants)
    }

    /// True if it had nothing to do for `idle_ms`.
    pub(super) fn is_idle(&self, idle_ms: i64, now: Millis) -> bool {
        self.known.is_empty()
            && (self.stored.is_none() || !self.is_unread())
            && !self.refilling
            && !self.in_round
            && !self.releasing
            && self.circuit.probe_at().is_none_or(|at| now >= at)
            && now.since(self.used_at) >= idle_ms
    }
}
