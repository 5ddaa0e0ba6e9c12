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
    ActiveValue::Set,
    ColumnTrait, Condition, ConnectionTrait, DbBackend, DbErr, EntityTrait, QueryFilter,
    QueryOrder, QuerySelect, QueryTrait, Select, Statement,
    sea_query::{BinOper, Expr, ExprTrait},
};

use super::{courier::Courier, store::results::lock_deliveries};

/// Deliveries that one transaction makes pending.
pub(super) const RECOVERY_BATCH: u64 = 500;
/// Minimum pause between two batches, and never shorter than the last batch took, so that other writes get through.
const PAUSE: Duration = Duration::from_millis(50);
/// Poll interval.
const LOOK: Duration = Duration::from_secs(1);

/// Works off recoveries while the courier works. Open recoveries take turns, one batch each.
pub(super) async fn run(courier: Rc<Courier>) {
    let mut last = None;
    let mut works = true;
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
                // A long outage is logged once.
                if works {
                    tracing::warn!(%error, "could not recover failed deliveries; trying again until it works");
                }
                works = false;
                tokio::time::sleep(LOOK).await;
                continue;
            }
        }
        works = true;
    }
}

/// The number of deliveries left in a recovery, with those of erased calls, which are not sent: they are found by rows, which
/// takes seconds for a million.
pub async fn count(db: &impl ConnectionTrait, recovery: &recovery::Model) -> Result<u64, DbErr> {
    let mut left = created_within(recovery).count(db).await?;
    if recovery.after < before_all(recovery) {
        left += given_up_within(recovery).count(db).await?;
    }
    Ok(left)
}

/// The greatest id of a delivery created before the period. An id begins with the time of its creation.
fn before_all(recovery: &recovery::Model) -> DeliveryId {
    DeliveryId::derived(recovery.since.plus_ms(-1), u128::MAX)
}

/// Failed deliveries in the order of an index.
#[derive(Debug)]
pub(super) struct IndexedDeliveries {
    select: Select<delivery::Entity>,
    index: &'static str,
}

impl IndexedDeliveries {
    async fn count(&self, db: &impl ConnectionTrait) -> Result<u64, DbErr> {
        let counted = self.select.clone().select_only();
        let mut counted = counted.expr_as(Expr::cust("COUNT(*)"), "left_over");
        QueryTrait::query(&mut counted).clear_order_by();
        let statement = self.told(counted.build(db.get_database_backend()));
        let row = db.query_one_raw(statement).await?;
        let left: i64 = row.map_or(Ok(0), |row| row.try_get("", "left_over"))?;
        Ok(left.unsigned_abs())
    }

    async fn first(&self, db: &impl ConnectionTrait, most: u64) -> Result<Vec<DeliveryId>, DbErr> {
        let rows = db
            .query_all_raw(self.page(most, db.get_database_backend()))
            .await?;
        rows.iter().map(|row| row.try_get("", "id")).collect()
    }

    pub(super) fn page(&self, most: u64, backend: DbBackend) -> Statement {
        let page = self.select.clone().filter(Expr::cust(NOT_ERASED));
        self.told(page.limit(most).build(backend))
    }

    /// Names the index on SQLite, which has no statistics and could choose another one.
    fn told(&self, mut statement: Statement) -> Statement {
        const FROM: &str = "FROM \"deliveries\"";
        if statement.db_backend == DbBackend::Sqlite {
            let named = format!("{FROM} INDEXED BY {}", self.index);
            statement.sql = statement.sql.replacen(FROM, &named, 1);
        }
        statement
    }
}

/// Events of erased calls are not sent again.
const NOT_ERASED: &str =
    "NOT EXISTS (SELECT 1 FROM erasures e WHERE e.call_id = deliveries.call_id)";

/// Failed deliveries of the webhook. Tests are not repeated.
fn failed(recovery: &recovery::Model) -> Select<delivery::Entity> {
    delivery::Entity::find()
        .select_only()
        .column(delivery::Column::Id)
        .filter(delivery::Column::WebhookId.eq(recovery.webhook_id))
        // Literal, as in the partial index.
        .filter(Expr::cust("status = 'failed' AND NOT is_test"))
}

/// Deliveries that were created in the period, after the cursor, by their ids.
pub(super) fn created_within(recovery: &recovery::Model) -> IndexedDeliveries {
    let after = Ord::max(recovery.after, before_all(recovery));
    let select = failed(recovery)
        .filter(delivery::Column::Id.gt(after))
        .filter(delivery::Column::Id.lt(DeliveryId::first_at(recovery.until)))
        .filter(delivery::Column::CompletedAt.lte(recovery.asked_at))
        .order_by_asc(delivery::Column::Id);
    IndexedDeliveries {
        select,
        index: "deliveries_webhook_status",
    }
}

/// Deliveries that were created earlier and given up in the period, by the time of their failure.
pub(super) fn given_up_within(recovery: &recovery::Model) -> IndexedDeliveries {
    let until = Ord::min(recovery.until, recovery.asked_at.plus_ms(1));
    // In a form that no index is used for: PostgreSQL could read all earlier failures.
    let id = Expr::col((delivery::Entity, delivery::Column::Id));
    let id = id.binary(BinOper::Custom("||"), Expr::cust("''"));
    let select = failed(recovery)
        .filter(delivery::Column::CompletedAt.gte(recovery.since))
        .filter(delivery::Column::CompletedAt.lt(until))
        .filter(id.lte(before_all(recovery)))
        .order_by_asc(delivery::Column::CompletedAt)
        .order_by_asc(delivery::Column::Id);
    IndexedDeliveries {
        select,
        index: "deliveries_failed",
    }
}

/// The next batch: first the deliveries created before the period, then the others. The former leave the selection
/// once they are pending, so they need no cursor.
async fn next_batch(
    db: &impl ConnectionTrait,
    recovery: &recovery::Model,
) -> Result<Vec<DeliveryId>, DbErr> {
    let mut ids = Vec::new();
    if recovery.after < before_all(recovery) {
        ids = given_up_within(recovery).first(db, RECOVERY_BATCH).await?;
    }
    let room = RECOVERY_BATCH.saturating_sub(length(&ids));
    if room > 0 {
        ids.extend(created_within(recovery).first(db, room).await?);
    }
    Ok(ids)
}

fn length(ids: &[DeliveryId]) -> u64 {
    u64::try_from(ids.len()).unwrap_or(u64::MAX)
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
    let ids = next_batch(store.reader(), &recovery).await?;
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
    let full = length(ids) == RECOVERY_BATCH;
    let changed = match ids.last() {
        Some(last) if full => {
            let is_later = *last > before_all(recovery);
            let after = if is_later { *last } else { recovery.after };
            recovery::Entity::update_many()
                .col_expr(recovery::Column::After, Expr::value(after))
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
        .filter(Expr::cust(NOT_ERASED))
        .exec(txn)
        .await
        .map(drop)
}
