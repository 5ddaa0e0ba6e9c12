//! The queue's place in the log of events, and what it leaves to the table.

use std::{collections::hash_map, num::NonZeroUsize};

use dikala_entities::{Millis, WebhookId};

use super::{Destination, EndpointQueue};
use crate::{
    events::sequences::LogPlace,
    webhooks::scheduler::effects::{CursorReading, QueuedDelivery, Refill, RefillMark, Refilled},
};

/// A delivery that was not attempted after this time gets a row, in milliseconds.
pub(super) const UNWRITTEN_MS: i64 = 1_000;
/// Minimum time between two writes of rows alone, in milliseconds.
const ROWS_EVERY_MS: i64 = 200;

impl<E> EndpointQueue<E> {
    /// Takes note of the cursor, which this node has, or does not have.
    pub(in crate::webhooks::scheduler) fn read_cursor(&mut self, reading: Option<CursorReading>) {
        let Some(reading) = reading else {
            self.forget();
            (self.stored, self.handled) = (None, None);
            self.unwritten.clear();
            return;
        };
        if self.stored.replace(reading.stored).is_none() {
            let assumed = self.handled.is_none_or(|handled| {
                handled.sequence - self.unwritten.len() as i64 == reading.stored.sequence
            });
            self.seen = self.seen.max(reading.end.sequence);
            if !assumed || reading.has_pending {
                self.forget();
                self.handled = None;
                self.rows_left |= reading.has_pending;
            }
            self.handled.get_or_insert(reading.stored);
        } else if reading.is_announced_elsewhere {
            self.seen = self.seen.max(reading.end.sequence);
        } else {
            // Events that this node commits are on their way here.
            self.seen = self.seen.max(self.end_before);
        }
        self.end_before = reading.end.sequence;
    }

    /// Takes note of the newest sequence number, which another node announced.
    pub(in crate::webhooks::scheduler) fn announced_elsewhere(&mut self, sequence: i64) {
        self.seen = self.seen.max(sequence);
    }

    /// Every event up to here has a row of its delivery. None if this node does not have the cursor.
    pub(in crate::webhooks::scheduler) fn cursor(&self) -> Option<LogPlace> {
        self.stored?;
        let unwritten = self.unwritten.first_key_value();
        let before = unwritten.map(|(sequence, (position, _))| {
            let place = LogPlace {
                sequence: *sequence,
                position: *position,
            };
            place.before()
        });
        // Deliveries that were forgotten may come before those that are under way.
        before.into_iter().chain(self.handled).min()
    }

    /// The cursor, if it is not stored as it is.
    pub(in crate::webhooks::scheduler) fn moved_cursor(&self) -> Option<LogPlace> {
        self.cursor().filter(|cursor| self.stored != Some(*cursor))
    }

    pub(in crate::webhooks::scheduler) fn cursor_stored(&mut self, place: LogPlace) {
        if let Some(stored) = &mut self.stored {
            *stored = place;
        }
    }

    /// Accepts a delivery that was just committed, or leaves it to the table and returns false. While the table is read, one
    /// that does not follow is kept until the result is there.
    pub(in crate::webhooks::scheduler) fn offer(
        &mut self,
        item: QueuedDelivery,
        room: bool,
        now: Millis,
    ) -> bool {
        let id = item.dispatch.delivery;
        let Some(place) = item.dispatch.place else {
            return false;
        };
        let is_handled = self
            .handled
            .is_some_and(|handled| handled.sequence >= place.sequence);
        if is_handled || self.known.contains_key(&id) {
            return true;
        }
        let handled = self.handled.unwrap_or(place.before());
        let in_order = !self.is_behind() && handled.sequence + 1 == place.sequence;
        let may_come = match self.target {
            Destination::Ready(_) => self.stored.is_some(),
            Destination::Unknown => {
                self.stored.is_some() || self.known.len() == self.unwritten.len()
            }
            _ => false,
        };
        let room = room && self.room() > self.offered_meanwhile.len();
        if self.refilling && may_come && room && !in_order {
            self.offered_meanwhile.push_back(item);
            return true;
        }
        self.seen = self.seen.max(place.sequence);
        if !(in_order && may_come && room) {
            return false;
        }
        self.handled = Some(place);
        self.unwritten.insert(place.sequence, (place.position, now));
        self.known.insert(id, Some(place.sequence));
        self.deliveries.push_back(item);
        self.used_at = now;
        true
    }

    /// True if the table has deliveries that are not in memory.
    pub(in crate::webhooks::scheduler) fn is_behind(&self) -> bool {
        self.rows_left || self.is_unread()
    }

    /// True if the log has events that are not in memory and may have no row.
    pub(super) fn is_unread(&self) -> bool {
        let handled = self.handled.map(|handled| handled.sequence);
        handled.is_some_and(|handled| handled < self.seen)
    }

    /// True if deliveries without a row have waited for long.
    pub(in crate::webhooks::scheduler) fn must_write(&self, now: Millis) -> bool {
        let first = self.unwritten.first_key_value();
        let waits = first.is_some_and(|(_, (_, came_at))| now.since(*came_at) >= UNWRITTEN_MS);
        let rests = self
            .rows_asked_at
            .is_some_and(|at| now.since(at) < ROWS_EVERY_MS);
        self.stored.is_some() && !self.refilling && !rests && (waits || self.is_unread())
    }

    /// The rows to write and read for this queue. None if this node does not have its cursor.
    pub(in crate::webhooks::scheduler) fn refill(
        &self,
        webhook: WebhookId,
        most: Option<NonZeroUsize>,
    ) -> Option<Refill> {
        Some(Refill {
            webhook,
            tenant: self.tenant,
            most,
            known: self.known().collect(),
            from: self.cursor()?,
            mark: self.mark(most.is_some()),
        })
    }

    /// Notes that rows are written without reading any.
    pub(in crate::webhooks::scheduler) fn asked_for_rows(&mut self, now: Millis) {
        self.refilling = true;
        self.rows_asked_at = Some(now);
    }

    /// The queue's present state.
    pub(in crate::webhooks::scheduler) fn mark(&self, reads: bool) -> RefillMark {
        RefillMark {
            reads,
            seen: self.seen,
            forgotten: self.forgotten,
        }
    }

    /// Accepts deliveries from the table, and notes which ones have rows. `mark` is what the queue knew at the time of the
    /// query.
    pub(in crate::webhooks::scheduler) fn refilled(
        &mut self,
        mut refilled: Refilled,
        mark: RefillMark,
    ) {
        let written = refilled.written;
        let is_stale = self.forgotten != mark.forgotten;
        if is_stale {
            // Forgotten deliveries were not read, and come before those that were.
            refilled.items.clear();
        }
        self.refilling = false;
        let recorded = std::mem::take(&mut self.recorded_meanwhile);
        for item in refilled.items {
            if recorded.contains(&item.dispatch.delivery) {
                continue;
            }
            if let hash_map::Entry::Vacant(entry) = self.known.entry(item.dispatch.delivery) {
                entry.insert(None);
                self.deliveries.push_back(item);
            }
        }
        let is_new = self.handled < Some(written);
        self.handled = self.handled.max(Some(written));
        self.unwritten = self.unwritten.split_off(&(written.sequence + 1));
        // An event that was seen before the query and is not in the log does not exist.
        if refilled.is_log_end && self.seen == mark.seen {
            let handled = self.handled.map(|handled| handled.sequence);
            self.seen = handled.unwrap_or(self.seen);
        }
        self.rows_left = match mark.reads {
            true => !refilled.is_complete || is_stale,
            false => self.rows_left || is_stale || is_new,
        };
        self.offer_again();
    }

    /// Handles a failed read of the table.
    pub(in crate::webhooks::scheduler) fn not_refilled(&mut self) {
        self.refilling = false;
        self.recorded_meanwhile.clear();
        self.offer_again();
    }

    /// Accepts what was offered while the table was read, or leaves it to the table.
    fn offer_again(&mut self) {
        for item in std::mem::take(&mut self.offered_meanwhile) {
            let came_at = item.read_at;
            self.offer(item, true, came_at);
        }
    }

    /// Leaves all waiting deliveries to the table.
    pub(in crate::webhooks::scheduler) fn forget(&mut self) {
        for item in std::mem::take(&mut self.offered_meanwhile) {
            let sequence = item.dispatch.place.map(|place| place.sequence);
            self.seen = self.seen.max(sequence.unwrap_or(0));
        }
        for item in std::mem::take(&mut self.deliveries) {
            let sequence = self.known.remove(&item.dispatch.delivery).flatten();
            let unwritten = sequence.and_then(|sequence| self.unwritten.remove(&sequence));
            match item.dispatch.place.filter(|_| unwritten.is_some()) {
                Some(place) => self.handled = self.handled.min(Some(place.before())),
                None => self.rows_left = true,
            }
            self.forgotten += 1;
        }
    }
}
