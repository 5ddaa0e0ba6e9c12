//! The statements of a simulation's courier, on tables in memory.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    num::NonZeroUsize,
};

use dikala_entities::{DeliveryId, Millis, TenantId, WebhookId};

use crate::{
    events::{
        outbox::{AHEAD_MS_MAX, Dispatch},
        sequences::LogPlace,
    },
    runtime::simulated::tables::{CursorRow, DeliveryRow, DeliveryState, Flaw, Tables},
    webhooks::{
        retry::AttemptVerdict,
        scheduler::{CursorReading, DueWebhook, QueuedDelivery, Refill},
    },
};

/// Rows that one refill writes.
const PAGE: usize = 8;

/// A cursor as it was read: its owner, if there is a row, and true if that is another living node.
pub(super) type FoundCursor = (WebhookId, Option<Option<String>>, bool, CursorReading);

pub(super) fn read(tables: &Tables, node: &str, ids: &[WebhookId]) -> Vec<FoundCursor> {
    let read = |id: &WebhookId| {
        let row = tables.cursors.get(id);
        let owner = row.map(|row| row.node.clone());
        let is_anothers = owner
            .iter()
            .flatten()
            .any(|owner| owner != node && tables.nodes.contains_key(owner));
        let position = tables
            .positions
            .values()
            .find(|position| position.sequences.contains_key(id));
        let stored = row.map(|row| row.place).unwrap_or_default();
        let end = position.map_or(stored, |position| position.sequences[id]);
        let mut rows = tables.deliveries.values();
        let reading = CursorReading {
            stored,
            end,
            is_announced_elsewhere: position.is_some_and(|position| position.node != node),
            has_pending: rows.any(|row| row.webhook == *id && row.state == DeliveryState::Pending),
        };
        (*id, owner, is_anothers, reading)
    };
    ids.iter().map(read).collect()
}

/// Takes cursors that had no owner, or a dead one, as they were read.
pub(super) fn take(
    tables: &mut Tables,
    node: &str,
    found: &[FoundCursor],
) -> HashMap<WebhookId, CursorReading> {
    let mut mine = HashMap::new();
    let is_node = tables.nodes.contains_key(node);
    for (id, owner, is_anothers, reading) in found {
        let now = tables.cursors.get(id).map(|row| row.node.clone());
        let is_mine = match owner {
            Some(Some(owner)) if owner == node => true,
            _ if *is_anothers => false,
            _ => is_node && now == *owner,
        };
        if is_mine {
            let new = CursorRow {
                node: None,
                place: LogPlace::default(),
            };
            tables.cursors.entry(*id).or_insert(new).node = Some(node.to_owned());
        }
        if is_mine || tables.has(Flaw::CursorsIgnored) {
            mine.insert(*id, *reading);
        }
    }
    mine
}

fn has(tables: &Tables, node: &str, webhook: WebhookId) -> bool {
    let row = tables.cursors.get(&webhook);
    let is_owner = row.is_some_and(|row| row.node.as_deref() == Some(node));
    is_owner || tables.has(Flaw::CursorsIgnored)
}

/// As [`cursors::store`](super::store::cursors::store).
pub(super) fn store(tables: &mut Tables, node: &str, cursors: &[(WebhookId, LogPlace)]) {
    for (webhook, place) in cursors {
        if has(tables, node, *webhook) {
            let skips = i64::from(tables.has(Flaw::CursorsSkip));
            let cursor = tables.cursors.get_mut(webhook);
            if let Some(row) = cursor.filter(|row| row.place.sequence <= place.sequence) {
                row.place = LogPlace {
                    sequence: place.sequence + skips,
                    position: place.position + skips,
                };
            }
        }
    }
}

/// As [`pending::due`](super::store::pending::due).
pub(super) fn due(tables: &Tables) -> Vec<DueWebhook> {
    let mut first: BTreeMap<WebhookId, DueWebhook> = BTreeMap::new();
    let rows = tables.deliveries.values();
    for row in rows.filter(|row| row.state == DeliveryState::Pending) {
        let due = first.entry(row.webhook).or_insert(DueWebhook {
            webhook: row.webhook,
            tenant: Some(row.tenant),
            at: Some(row.next_attempt_at),
        });
        due.at = due.at.min(Some(row.next_attempt_at));
    }
    first.into_values().collect()
}

/// The newest sequence numbers of tenants for which another node announced last.
pub(super) fn announced_elsewhere(tables: &Tables, node: &str) -> Vec<(WebhookId, i64)> {
    let positions = tables.positions.values();
    let others = positions.filter(|position| position.node != node);
    let sequences = others.flat_map(|position| &position.sequences);
    sequences
        .map(|(webhook, place)| (*webhook, place.sequence))
        .collect()
}

/// Webhooks that this node has without a queue, or that have something to deliver and no living owner.
pub(super) fn behind(tables: &Tables, node: &str) -> BTreeSet<(WebhookId, TenantId)> {
    let mut behind = BTreeSet::new();
    for (tenant, position) in &tables.positions {
        let ids: Vec<WebhookId> = position.sequences.keys().copied().collect();
        for (webhook, _, is_anothers, reading) in read(tables, node, &ids) {
            let is_mine = tables
                .cursors
                .get(&webhook)
                .is_some_and(|row| row.node.as_deref() == Some(node));
            if is_mine || !is_anothers && reading.stored.sequence < reading.end.sequence {
                behind.insert((webhook, *tenant));
            }
        }
    }
    behind
}

/// Writes a page of rows, with the cursor. Returns the place up to which all events have rows, and true at the end of the
/// log. None if another node has the cursor.
pub(super) fn write_rows(
    tables: &mut Tables,
    refill: &Refill,
    node: &str,
) -> Option<(LogPlace, bool)> {
    let of_it = tables.events.iter().filter_map(|event| {
        let sequence = *event.subscribers.get(&refill.webhook)?;
        let place = LogPlace {
            sequence,
            position: event.position,
        };
        (place.position > refill.from.position).then_some((place, event))
    });
    let mut page: Vec<_> = of_it.map(|(place, event)| (place, event.clone())).collect();
    page.sort_by_key(|(place, _)| *place);
    let is_log_end = page.len() <= PAGE;
    page.truncate(PAGE);
    let Some((written, _)) = page.last() else {
        return Some((refill.from, true));
    };
    let written = *written;
    if !has(tables, node, refill.webhook) {
        return None;
    }
    for (place, event) in page {
        let id = DeliveryId::of(event.announced_at, place.sequence, event.id, refill.webhook);
        tables.deliveries.entry(id).or_insert(DeliveryRow {
            webhook: refill.webhook,
            tenant: event.tenant,
            event: event.id,
            kind: event.kind,
            call: event.call,
            state: DeliveryState::Pending,
            attempts: 0,
            next_attempt_at: event.announced_at,
            created: event.announced_at,
        });
    }
    let cursor = tables.cursors.get_mut(&refill.webhook);
    cursor.into_iter().for_each(|row| row.place = written);
    Some((written, is_log_end))
}

/// Due deliveries with rows.
pub(super) fn due_rows(
    tables: &Tables,
    refill: &Refill,
    node: &str,
    now: Millis,
) -> Vec<QueuedDelivery> {
    if !has(tables, node, refill.webhook) {
        return Vec::new();
    }
    let is_due = |id: DeliveryId, row: &DeliveryRow| {
        row.webhook == refill.webhook
            && row.state == DeliveryState::Pending
            && row.next_attempt_at <= now.plus_ms(AHEAD_MS_MAX)
            && (row.next_attempt_at <= now || row.attempts == 0)
            && !refill.known.contains(&id)
    };
    let mut picked: Vec<(&DeliveryId, &DeliveryRow)> = tables
        .deliveries
        .iter()
        .filter(|(id, row)| is_due(**id, row))
        .collect();
    picked.sort_unstable_by_key(|(id, row)| (row.next_attempt_at, **id));
    picked.truncate(refill.most.map_or(0, NonZeroUsize::get));
    let item = |(id, row): (&DeliveryId, &DeliveryRow)| QueuedDelivery {
        dispatch: Dispatch {
            delivery: *id,
            webhook: row.webhook,
            tenant: row.tenant,
            event: row.event,
            kind: row.kind,
            call: row.call,
            body: "".into(),
            attempts: row.attempts,
            is_test: false,
            trace: None,
            place: None,
        },
        read_at: now,
        created: row.created,
    };
    picked.into_iter().map(item).collect()
}

/// As [`results::record`](super::store::results::record), for one delivery.
pub(super) fn record(
    tables: &mut Tables,
    node: &str,
    dispatch: &Dispatch,
    verdict: AttemptVerdict,
) {
    let (delivery, number) = (dispatch.delivery, dispatch.attempts + 1);
    let blindly = tables.has(Flaw::RecordedBlindly);
    let row = tables.deliveries.get(&delivery);
    let is_next = row.map_or(number == 1, |row| row.attempts == number - 1);
    let is_anothers = !has(tables, node, dispatch.webhook);
    if !(blindly || is_next && !is_anothers) {
        return;
    }
    if is_anothers {
        let breach = format!("{node} recorded an attempt of {delivery}, which is another's");
        tables.breaches.push(breach);
    }
    let created = delivery.time();
    let row = tables.deliveries.entry(delivery).or_insert(DeliveryRow {
        webhook: dispatch.webhook,
        tenant: dispatch.tenant,
        event: dispatch.event,
        kind: dispatch.kind,
        call: dispatch.call,
        state: DeliveryState::Pending,
        attempts: 0,
        next_attempt_at: created,
        created,
    });
    if row.state == DeliveryState::Succeeded && verdict != AttemptVerdict::Delivered {
        let breach = format!("{delivery} was delivered, and is not any more");
        tables.breaches.push(breach);
    }
    row.attempts = number;
    match verdict {
        AttemptVerdict::Delivered => row.state = DeliveryState::Succeeded,
        AttemptVerdict::Retry { at } => {
            row.state = DeliveryState::Pending;
            row.next_attempt_at = at;
        }
        AttemptVerdict::GivenUp | AttemptVerdict::Gone => row.state = DeliveryState::Failed,
    }
}

/// As [`cursors::give_back`](super::store::cursors::give_back).
pub(crate) fn give_back(tables: &mut Tables, node: &str) {
    let Tables { cursors, nodes, .. } = tables;
    for row in cursors.values_mut() {
        let owner = row.node.as_deref().filter(|owner| !owner.is_empty());
        if owner.is_some_and(|owner| owner == node || !nodes.contains_key(owner)) {
            row.node = None;
        }
    }
}
