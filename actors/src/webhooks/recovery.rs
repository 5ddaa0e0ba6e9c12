//! Recoveries: what failed in a time becomes pending again. A recovery is a row; one task works the rows off in small
//! batches, each in one transaction with the step of the row's cursor, so a restart goes on where the last commit was.
//!
//! A batch is looked for before its transaction begins: what a recovery means had failed when it was asked for, and the
//! cursor says whether somebody else was quicker.

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
/// Between two batches at least, and at least as long as the last one took: others write in the meantime.
const PAUSE: Duration = Duration::from_millis(50);
/// The table is looked at this often, whatever is known.
const LOOK: Duration = Duration::from_secs(1);

/// Works off recoveries for as long as the courier works: all that are open take turns, a batch each.
pub(super) async fn run(courier: Rc<Courier>) {
    let mut last = None;
    while !courier.is_stopping() {
        let began = Instant::now();
        match work(&courier.parts.store, last, courier.now()).await {
            Ok(Some(worked)) => {
                last = Some(worked);
                courier.woken.notify_one();
                tokio::time::sleep(began.elapsed().max(PAUSE)).await;
            }
            Ok(None) => {
                let asked = courier.asked.notified();
                let _ = tokio::time::timeout(LOOK, asked).await;
            }
            Err(error) => {
                tracing::warn!(%error, "failed deliveries could not be recovered; trying again");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

/// How many deliveries a recovery still means.
pub async fn count(db: &impl ConnectionTrait, recovery: &recovery::Model) -> Result<u64, DbErr> {
    failed(recovery).count(db).await
}

/// The ids of the deliveries that a recovery still means. Tests are not sent again.
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

/// Does one batch of the recovery whose turn is after `last`, and names it; none where no recovery is open.
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
    // Otherwise another node did this batch, or the webhook was deleted: dropped, the transaction is rolled back.
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

/// Moves the cursor over a batch, or removes the row after the last one. False if the row is not as it was read.
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

/// Makes those pending that are still as they were found: one that was sent again on its own meanwhile is left alone.
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
            lease_owner: Set(None),
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
