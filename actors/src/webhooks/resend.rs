//! Resending a delivery by hand: one attempt now, past the circuit, whose outcome is awaited.
//!
//! If another node has the endpoint queue, that node may make the attempt first. If it does not, because its circuit is open or
//! its queue is full, this node puts the delivery off for the time of the attempt and makes it.

use std::{rc::Rc, sync::Arc, time::Duration};

use dikala_entities::{
    DeliveryId, DeliveryStatus, Millis, TraceParent, WebhookId, delivery, event, webhook,
};
use sea_orm::{ColumnTrait, DbErr, EntityTrait, QueryFilter, sea_query::Expr};
use tokio::sync::oneshot;

use super::{
    TestError,
    attempt::{AttemptRecord, Endpoint},
    courier::Courier,
    retry::AttemptVerdict,
    test_delivery::Tests,
};
use crate::events::outbox::{AHEAD_MS_MAX, Dispatch};

/// Time to wait for an attempt in progress, beyond the timeout of an exchange.
const RECORDED_WITHIN: Duration = Duration::from_secs(5);
/// Time that the node with the endpoint queue has for the attempt.
const OTHERS_FIRST: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The outcome of resending a delivery by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResendOutcome {
    /// An attempt was made after the request and is recorded.
    Made,
    /// The delivery waits in its queue: the webhook is off or paused.
    Waits,
}

/// Makes the next attempt of a due delivery and waits until it is recorded.
pub(super) async fn send(
    courier: Rc<Courier>,
    tests: Tests,
    (webhook, delivery, attempts): (WebhookId, DeliveryId, i64),
    trace: Option<TraceParent>,
) -> Result<ResendOutcome, TestError> {
    let (rows, ours) = courier.read(&[webhook]).await?;
    let taken = rows.iter().filter(|row| ours.contains_key(&row.id));
    let taken: Vec<_> = taken.map(|row| (row.id, row.tenant_id)).collect();
    courier.found(&taken);
    let is_sent_to = |row: &webhook::Model| row.is_active && row.paused_at.is_none();
    let row = rows.into_iter().next().filter(is_sent_to);
    let Some(row) = row.filter(|_| courier.may_act()) else {
        courier.wake();
        courier.tell_others();
        return Ok(ResendOutcome::Waits);
    };
    let is_ours = ours.contains_key(&webhook);
    if !is_ours {
        courier.wake();
        courier.tell_others();
        if made_elsewhere(&courier, delivery, attempts).await? {
            return Ok(ResendOutcome::Made);
        }
    }
    let seat = tests.seat(row.tenant_id, &courier)?;
    let (tenant, now) = (row.tenant_id, courier.now());
    let is_free = !is_ours
        || courier
            .scheduler
            .borrow_mut()
            .pull(webhook, tenant, delivery, now);
    if !is_free {
        return Ok(under_way(&courier, webhook, delivery).await);
    }
    let prepared = prepare(&courier, row, (delivery, attempts, is_ours), trace).await;
    let (endpoint, what) = match prepared {
        Ok(Ok(prepared)) => prepared,
        Ok(Err(instead)) => {
            courier.scheduler.borrow_mut().release(webhook, delivery);
            courier.wake();
            return Ok(instead);
        }
        Err(error) => {
            courier.scheduler.borrow_mut().release(webhook, delivery);
            courier.wake();
            return Err(error);
        }
    };
    let attempting = courier.clone();
    // Spawned, so the attempt is recorded even if the caller goes away.
    let task = actix_rt::spawn(async move {
        let outcome = attempt(&attempting, &endpoint, &what, !is_ours).await;
        drop(seat);
        outcome
    });
    task.await.map_err(|_| {
        // The attempt panicked: the queue may send the delivery again.
        courier.scheduler.borrow_mut().release(webhook, delivery);
        courier.wake();
        TestError::Busy
    })
}

async fn attempt(
    courier: &Rc<Courier>,
    endpoint: &Endpoint,
    (dispatch, created): &(Dispatch, Millis),
    is_beside_queue: bool,
) -> ResendOutcome {
    let record = AttemptRecord {
        is_beside_queue,
        ..courier.make(endpoint, dispatch).await
    };
    if record.is_our_fault(courier.timeout) {
        let mut scheduler = courier.scheduler.borrow_mut();
        scheduler.release(dispatch.webhook, dispatch.delivery);
        drop(scheduler);
        courier.wake();
        return ResendOutcome::Waits;
    }
    if record.verdict == AttemptVerdict::Delivered {
        let mut scheduler = courier.scheduler.borrow_mut();
        scheduler.answers_again(dispatch.webhook);
    }
    let (recorded, waiting) = oneshot::channel();
    courier.note(&record, *created);
    courier.record(record, Some(recorded));
    courier.go_on();
    // An error means that the courier is gone; the row has the outcome.
    let _ = waiting.await;
    ResendOutcome::Made
}

/// Waits for an attempt by the node that has the endpoint queue. False if it makes none.
async fn made_elsewhere(
    courier: &Courier,
    delivery: DeliveryId,
    attempts: i64,
) -> Result<bool, DbErr> {
    let made = async {
        loop {
            let row = delivery::Entity::find_by_id(delivery)
                .one(courier.deps.store.reader())
                .await?;
            if row.is_none_or(|row| row.attempts > attempts) {
                return Ok(());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    match tokio::time::timeout(OTHERS_FIRST, made).await {
        Ok(made) => made.map(|()| true),
        Err(_) => Ok(false),
    }
}

/// Waits for the attempt in progress.
async fn under_way(
    courier: &Rc<Courier>,
    webhook: WebhookId,
    delivery: DeliveryId,
) -> ResendOutcome {
    let ended = async {
        loop {
            let changed = courier.changed.notified();
            if !courier.scheduler.borrow().knows(webhook, delivery) || courier.is_dead() {
                return;
            }
            changed.await;
        }
    };
    match tokio::time::timeout(courier.timeout + RECORDED_WITHIN, ended).await {
        Ok(()) => ResendOutcome::Made,
        Err(_) => ResendOutcome::Waits,
    }
}

/// The input of an attempt, or the outcome if none is made.
type Prepared = Result<(Endpoint, (Dispatch, Millis)), ResendOutcome>;

/// Reads the delivery, and keeps the node with the queue from taking it.
async fn prepare(
    courier: &Courier,
    webhook: webhook::Model,
    resent: (DeliveryId, i64, bool),
    trace: Option<TraceParent>,
) -> Result<Prepared, TestError> {
    let (row, event) = match hold(courier, resent).await? {
        Ok(held) => held,
        Err(instead) => return Ok(Err(instead)),
    };
    let endpoint = Endpoint::new(
        webhook,
        &courier.deps.vault,
        &courier.deps.outbound,
        1,
        None,
    )?;
    let dispatch = Dispatch {
        delivery: row.id,
        webhook: row.webhook_id,
        tenant: row.tenant_id,
        event: event.id,
        kind: row.kind,
        call: row.call_id,
        body: Arc::from(event.body),
        attempts: row.attempts,
        is_test: row.is_test,
        trace,
        place: None,
    };
    Ok(Ok((endpoint, (dispatch, row.created_at))))
}

/// The delivery with its event; otherwise the outcome without an attempt here.
async fn hold(
    courier: &Courier,
    (delivery, attempts, is_ours): (DeliveryId, i64, bool),
) -> Result<Result<(delivery::Model, event::Model), ResendOutcome>, DbErr> {
    let store = &courier.deps.store;
    if !is_ours {
        // The node with the queue takes what is due. It takes this one too if nothing is recorded by then.
        let limit = courier.timeout + RECORDED_WITHIN * 2;
        let limit_ms = i64::try_from(limit.as_millis()).unwrap_or(i64::MAX);
        // First attempts may be read this long before they are due.
        let limit_ms = limit_ms.saturating_add(AHEAD_MS_MAX);
        delivery::Entity::update_many()
            .col_expr(
                delivery::Column::NextAttemptAt,
                Expr::value(courier.now().plus_ms(limit_ms)),
            )
            .filter(delivery::Column::Id.eq(delivery))
            .filter(delivery::Column::Status.eq(DeliveryStatus::Pending))
            .filter(delivery::Column::Attempts.eq(attempts))
            .exec(store.writer())
            .await?;
    }
    let row = delivery::Entity::find_by_id(delivery)
        .one(store.writer())
        .await?;
    let row = match row {
        Some(row) if row.attempts > attempts => return Ok(Err(ResendOutcome::Made)),
        Some(row) if row.status == DeliveryStatus::Pending => row,
        _ => return Ok(Err(ResendOutcome::Waits)),
    };
    let event = event::Entity::find_by_id(row.event_id)
        .one(store.writer())
        .await?;
    Ok(event.map(|event| (row, event)).ok_or(ResendOutcome::Waits))
}
