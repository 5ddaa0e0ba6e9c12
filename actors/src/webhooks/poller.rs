//! Polls the table for due deliveries: regularly, when one becomes due, and after a wake-up.

use std::{rc::Rc, time::Duration};

use dikala_entities::Millis;
use sea_orm::DbErr;

use super::{
    courier::{AGAIN, Courier},
    store::{cursors, pending},
};
use crate::{events::outbox::AHEAD_MS_MAX, nodes::notices::Topic};

/// Poll interval; every poll reads webhooks again.
pub(super) const LOOK_MS: i64 = 1_000;
/// Poll interval while other nodes commit deliveries for this one and their notices cannot be received.
pub(super) const LOOK_UNHEARD_MS: i64 = 250;
/// Minimum pause between two polls caused by notices of other nodes.
const LOOKS_APART: Duration = Duration::from_millis(50);
/// After a poll, the poller rests this many times as long as the poll took, up to [`REST_MAX_MS`]. So polling takes a
/// fifth of the time at most, however many webhooks have pending deliveries.
const REST: i64 = 4;
const REST_MAX_MS: i64 = 2_000;
/// Interval of reading webhooks again, if the table is polled more often.
pub(super) const REREAD_MS: i64 = 500;

/// Polls the table while the courier works.
pub(super) async fn run(courier: Rc<Courier>) {
    let notices = courier.deps.node.notices();
    // True if webhooks may have changed since they were read.
    let mut is_told = false;
    let mut reread_at = Millis::MIN;
    let mut since = Millis::from_i64(0);
    while !courier.is_stopping() {
        if !courier.may_act() {
            tokio::time::sleep(AGAIN).await;
            continue;
        }
        let has_others = courier.deps.node.has_others();
        let began = courier.now();
        let reread = !has_others || began.since(reread_at) >= REREAD_MS;
        if reread {
            (reread_at, is_told) = (began, false);
        }
        if let Err(error) = look(&courier, reread, &mut since).await {
            tracing::warn!(%error, "could not read due deliveries; trying again");
            courier.scheduler.borrow_mut().suspect_all();
        }
        let now = courier.now();
        let next = courier.scheduler.borrow_mut().take_next_due();
        let rest = (now.since(began) * REST).clamp(1, REST_MAX_MS);
        let every = if has_others && !notices.listens() {
            LOOK_UNHEARD_MS
        } else if is_told {
            REREAD_MS
        } else {
            LOOK_MS
        };
        let told = async {
            tokio::time::sleep(LOOKS_APART.max(Duration::from_millis(rest.unsigned_abs()))).await;
            notices.told(Topic::Deliveries).await;
        };
        let next = next.unwrap_or(Millis::MAX).min(now.plus_ms(every));
        let sleep = courier.deps.clock.sleep_until(next.max(now.plus_ms(rest)));
        tokio::select! {
            () = sleep => {}
            () = courier.woken.notified() => {}
            () = told => is_told = true,
        }
    }
}

/// Polls the tables once. `since` is the time from which other nodes' events are read.
async fn look(courier: &Rc<Courier>, reread: bool, since: &mut Millis) -> Result<(), DbErr> {
    let now = courier.now();
    let store = &courier.deps.store;
    store_cursors(courier).await?;
    notice_others(courier, *since).await?;
    *since = now.plus_ms(-AHEAD_MS_MAX);
    let due = pending::due(store).await?;
    let deleted = {
        let mut scheduler = courier.scheduler.borrow_mut();
        // Deliveries held back by an open circuit are not late through our fault.
        let ours = due.iter().filter(|due| !scheduler.spares(due.webhook));
        let due_since = ours.filter_map(|due| due.at).min();
        let due_since = due_since.filter(|at| *at <= now);
        let deleted = scheduler.looked(due, reread, now);
        courier.stats.looked(due_since, scheduler.queues());
        deleted
    };
    courier.go_on();
    for webhook in deleted {
        pending::close_deleted(store, webhook, now).await?;
    }
    Ok(())
}

/// Notes which own webhooks have events of other nodes.
async fn notice_others(courier: &Rc<Courier>, since: Millis) -> Result<(), DbErr> {
    if !courier.deps.node.has_others() {
        return Ok(());
    }
    let store = &courier.deps.store;
    let announced = cursors::announced_elsewhere(store, &courier.node, since).await?;
    let newest = announced.into_iter().flat_map(|(_, sequences)| sequences);
    let newest = newest.map(|(webhook, place)| (webhook, place.sequence));
    let mut scheduler = courier.scheduler.borrow_mut();
    scheduler.announced_elsewhere(newest, courier.now());
    Ok(())
}

async fn store_cursors(courier: &Rc<Courier>) -> Result<(), DbErr> {
    let moved = courier.scheduler.borrow().moved_cursors();
    if moved.is_empty() {
        return Ok(());
    }
    cursors::store(&courier.deps.store, courier.cursor_owner(), &moved).await?;
    courier.scheduler.borrow_mut().cursors_stored(&moved);
    Ok(())
}
