//! Recoveries make deliveries that failed in a given period pending again. A recovery is a row. One task works the
//! rows off in small batches. Each transaction also moves the row's cursor, so a restart goes on after the last
//! commit.
//!
//! A batch is selected before its transaction begins: its deliveries had failed before the request, and the cursor
//! shows if another node was faster.

use std::{
    rc::Rc,
    time::{Duration, Instant},
};

use dikala_entities::{
    DeliveryId, DeliveryStatus, Millis, RecoveryId, Store, delivery, recovery, store::Transaction,
};
use sea_orm::{
    ActiveValue::Set, ColumnTrait, Condition, ConnectionTrait, DbErr, EntityTrait, PaginatorTrait,
    QueryFilter, QueryOrder, QuerySelect, Select, sea_query::Expr,
};

use super::{
    courier::{AGAIN, Courier},
    store::results::lock_deliveries,
};

/// Deliveries that one transaction makes pending.
pub(super) const RECOVERY_BATCH: u64 = 500;
/// Minimum pause between two batches, and never shorter than the last batch took, so that other writes get through.
const PAUSE: Duration = Duration::from_millis(50);
/// Poll interval.
const LOOK: Duration = Duration::from_secs(1);

/// Works off recoveries while the courier works. Open recoveries take turns, one batch each.
pub(super) async fn run(courier: Rc<Courier>) {
    let mut last = None;
    while !courier.is_stopping() {
        let began = Instant::now();
        match work(&courier.deps.store, last, courier.now()).await {
            Ok(Some(worked)) => {
                last = Some(worked);
                courier.woken.notify_one();
                tokio::time::sleep(began.elapsed().max(PAUSE)).await;
            }
            Ok(None) => {
                let requested = courier.recovery_requested.notified();
                let _ = tokio::time::timeout(LOOK, requested).await;
            }
            Err(error) => {
                tracing::warn!(%error, "could not recover failed deliveries; trying again");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

/// The number of deliveries left in a recovery.
pub async fn count(db: &impl ConnectionTrait, recovery: &recovery::Model) -> Result<u64, DbErr> {
    failed(recovery).count(db).await
}

/// The ids of the deliveries left in a recovery. Tests are not repeated.
fn failed(recovery: &recovery::Model) -> Select<delivery::Entity> {
    let within = |column: delivery::Column| {
        Condition::all()
            .add(column.gte(recovery.since))
            .add(column.lt(recovery.until))
    };
    delivery::Entity::find()
        .select_only()
        .column(delivery::Column::Id)
        .filter(delivery::Column::WebhookId.eq(recovery.webhook_id))
        .filter(delivery::Column::Status.eq(DeliveryStatus::Failed))
        .filter(delivery::Column::Id.gt(recovery.after))
        .filter(delivery::Column::IsTest.eq(false))
        .filter(delivery::Column::CompletedAt.lte(recovery.asked_at))
        .filter(
            Condition::any()
                .add(within(delivery::Column::CreatedAt))
                .add(within(delivery::Column::CompletedAt)),
        )
}

/// Works off one batch of the recovery that follows `last`, and returns its id. None if no recovery is open.
pub(super) async fn work(
    store: &Store,
    last: Option<RecoveryId>,
    now: Millis,
) -> Result<Option<RecoveryId>, DbErr> {
    let Some(recovery) = next(store, last).await? else {
        return Ok(None);
    };
    let ids: Vec<DeliveryId> = failed(&recovery)
        .order_by_asc(delivery::Column::Id)
        .limit(RECOVERY_BATCH)
        .into_tuple()
        .all(store.reader())
        .await?;
    let txn = store.begin().await?;
    // Otherwise another node did this batch or the webhook was deleted, and dropping the transaction rolls it back.
    if step(&txn, &recovery, &ids).await? {
        send_again(&txn, &recovery, ids, now).await?;
        txn.commit().await?;
    }
    Ok(Some(recovery.id))
}

async fn next(store: &Store, last: Option<RecoveryId>) -> Result<Option<recovery::Model>, DbErr> {
    let oldest = || recovery::Entity::find().order_by_asc(recovery::Column::Id);
    if let Some(last) = last {
        let later = oldest().filter(recovery::Column::Id.gt(last));
        if let Some(later) = later.one(store.reader()).await? {
            return Ok(Some(later));
        }
    }
    oldest().one(store.reader()).await
}

/// Moves the cursor over a batch, or removes the row after the last one. False if the row has changed.
pub(super) async fn step(
    txn: &Transaction,
    recovery: &recovery::Model,
    ids: &[DeliveryId],
) -> Result<bool, DbErr> {
    let as_read = Condition::all()
        .add(recovery::Column::Id.eq(recovery.id))
        .add(recovery::Column::After.eq(recovery.after));
    let full = u64::try_from(ids.len()).is_ok_and(|ids| ids == RECOVERY_BATCH);
    let changed = match ids.last() {
        Some(last) if full => {
            recovery::Entity::update_many()
                .col_expr(recovery::Column::After, Expr::value(*last))
                .filter(as_read)
                .exec(txn)
                .await?
                .rows_affected
        }
        _ => {
            recovery::Entity::delete_many()
                .filter(as_read)
                .exec(txn)
                .await?
                .rows_affected
        }
    };
    Ok(changed == 1)
}

/// Makes deliveries pending that have not changed. One that was resent by hand meanwhile is left alone.
pub(super) async fn send_again(
    txn: &Transaction,
    recovery: &recovery::Model,
    ids: Vec<DeliveryId>,
    now: Millis,
) -> Result<(), DbErr> {
    if ids.is_empty() {
        return Ok(());
    }
    lock_deliveries(txn, &ids).await?;
    delivery::Entity::update_many()
        .set(delivery::ActiveModel {
            status: Set(DeliveryStatus::Pending),
            next_attempt_at: Set(Some(now)),
            completed_at: Set(None),
            ..Default::default()
        })
        .filter(delivery::Column::Id.is_in(ids))
        .filter(delivery::Column::Status.eq(DeliveryStatus::Failed))
        .filter(delivery::Column::CompletedAt.lte(recovery.asked_at))
        .exec(txn)
        .await
        .map(drop)
}
