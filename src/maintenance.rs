//! What grows is swept: old attempts, finished deliveries, events and idempotency keys, in small batches, so that nobody waits.

use std::{sync::Arc, time::Duration};

use dikala_actors::clock::SharedClock;
use dikala_entities::{Millis, Store};
use sea_orm::{ConnectionTrait, DbErr, Statement, Value};

use crate::{config::Retention, middleware::sweep_idempotency_keys};

const EVERY: Duration = Duration::from_secs(600);
/// Rows that one statement removes.
const BATCH: u64 = 500;
/// Between two batches: others write in the meantime.
const PAUSE: Duration = Duration::from_millis(50);
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// Sweeps every ten minutes, for as long as the process runs.
pub async fn run(store: Store, clock: SharedClock, retention: Retention) {
    loop {
        tokio::time::sleep(EVERY).await;
        match sweep(&store, &clock, &retention).await {
            Ok(0) => {}
            Ok(removed) => tracing::info!(removed, "old rows were removed"),
            Err(error) => {
                tracing::warn!(%error, "old rows were not removed; the next sweep tries again")
            }
        }
    }
}

/// Removes what is older than its time. Returns how many rows went.
pub async fn sweep(
    store: &Store,
    clock: &SharedClock,
    retention: &Retention,
) -> Result<u64, DbErr> {
    let now = Arc::clone(clock).now();
    let attempts = now.plus_ms(-retention.attempts_days.saturating_mul(DAY_MS));
    let events = now.plus_ms(-retention.events_days.saturating_mul(DAY_MS));
    let mut removed = sweep_idempotency_keys(store, now).await?;
    removed += crate::brief::sweep(store, now).await?;
    removed += remove(
        store,
        "DELETE FROM delivery_attempts WHERE (delivery_id, number) IN \
         (SELECT delivery_id, number FROM delivery_attempts WHERE started_at < $1 LIMIT 500)",
        attempts,
    )
    .await?;
    // An event goes with its deliveries, once none of them will be tried again. At a webhook that is switched off or was
    // deleted none will.
    let old = "SELECT e.id FROM events e WHERE e.id < $1 AND NOT EXISTS \
               (SELECT 1 FROM deliveries d JOIN webhooks w ON w.id = d.webhook_id \
                WHERE d.event_id = e.id AND d.status = 'pending' AND w.is_active) LIMIT 500";
    let oldest_kept = first_id(events);
    loop {
        let txn = store.begin().await?;
        let ids = txn
            .query_all_raw(statement(store, old, oldest_kept.clone()))
            .await?;
        if ids.is_empty() {
            return Ok(removed);
        }
        let ids: Vec<String> = ids
            .iter()
            .map(|row| row.try_get("", "id"))
            .collect::<Result<_, _>>()?;
        removed += remove_events(&txn, ids).await?;
        txn.commit().await?;
        tokio::time::sleep(PAUSE).await;
    }
}

async fn remove_events(txn: &sea_orm::DatabaseTransaction, ids: Vec<String>) -> Result<u64, DbErr> {
    use dikala_entities::{attempt, delivery, event};
    use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QuerySelect};
    let deliveries: Vec<dikala_entities::DeliveryId> = delivery::Entity::find()
        .filter(delivery::Column::EventId.is_in(ids.clone()))
        .select_only()
        .column(delivery::Column::Id)
        .into_tuple()
        .all(txn)
        .await?;
    for chunk in deliveries.chunks(usize::try_from(BATCH).unwrap_or(usize::MAX)) {
        let of_chunk = || chunk.iter().copied();
        attempt::Entity::delete_many()
            .filter(attempt::Column::DeliveryId.is_in(of_chunk()))
            .exec(txn)
            .await?;
        delivery::Entity::delete_many()
            .filter(delivery::Column::Id.is_in(of_chunk()))
            .exec(txn)
            .await?;
    }
    let removed = event::Entity::delete_many()
        .filter(event::Column::Id.is_in(ids))
        .exec(txn)
        .await?;
    Ok(removed.rows_affected)
}

async fn remove(store: &Store, sql: &str, older_than: Millis) -> Result<u64, DbErr> {
    let mut removed = 0;
    loop {
        let txn = store.begin().await?;
        let result = txn
            .execute_raw(statement(store, sql, older_than.as_i64()))
            .await?;
        txn.commit().await?;
        removed += result.rows_affected();
        if result.rows_affected() < BATCH {
            return Ok(removed);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn statement(store: &Store, sql: &str, value: impl Into<Value>) -> Statement {
    Statement::from_sql_and_values(store.backend(), sql, [value.into()])
}

/// The smallest id that an event made at `at` can have: ids sort by the time of their making.
fn first_id(at: Millis) -> String {
    dikala_entities::EventId::first_at(at).to_string()
}

#[cfg(test)]
mod tests {
    use dikala_actors::clock::ManualClock;
    use dikala_entities::{
        DeliveryId, DeliveryStatus, EventId, EventKind, OutboundUrl, TenantId, UrlPolicy,
        WebhookId, attempt, delivery, event, webhook,
    };
    use sea_orm::{EntityTrait, IntoActiveModel, PaginatorTrait};

    use super::*;

    const NOW: Millis = Millis::from_i64(1_800_000_000_000);

    async fn put_webhook(store: &Store, id: WebhookId, is_active: bool) {
        let url = OutboundUrl::parse("https://example.com/", UrlPolicy { allow_http: false });
        let webhook = webhook::Model {
            id,
            tenant_id: TenantId::new(NOW),
            url: url.unwrap(),
            events: "[]".into(),
            secret: String::new(),
            secret_hint: String::new(),
            previous_secret: None,
            previous_secret_until: None,
            is_active,
            disabled_reason: None,
            failed_in_row: 0,
            failing_since: None,
            created_at: NOW,
            updated_at: NOW,
        };
        webhook::Entity::insert(webhook.into_active_model())
            .exec_without_returning(store.writer())
            .await
            .unwrap();
    }

    /// An event with a delivery to a webhook that is active or not.
    async fn put(store: &Store, age_days: i64, status: DeliveryStatus, is_active: bool) {
        // An id of its own time: ids that are made anew never go back in time.
        let at = NOW.plus_ms(-age_days * DAY_MS - i64::from(status == DeliveryStatus::Pending));
        let (tenant, id, delivery) = (
            TenantId::new(at),
            EventId::first_at(at),
            DeliveryId::new(at),
        );
        let webhook = WebhookId::new(at);
        put_webhook(store, webhook, is_active).await;
        let kind = EventKind::CreditsLow;
        let event = event::Model {
            id,
            tenant_id: tenant,
            call_id: None,
            kind,
            occurred_at: at,
            body: "{}".into(),
            position: None,
            is_test: false,
        };
        let row = delivery::Model {
            id: delivery,
            tenant_id: tenant,
            webhook_id: webhook,
            event_id: id,
            call_id: None,
            kind,
            status,
            attempts: 1,
            next_attempt_at: None,
            lease_owner: None,
            lease_until: at,
            is_test: false,
            created_at: at,
            completed_at: None,
        };
        let attempt = attempt::Model {
            delivery_id: delivery,
            number: 1,
            tenant_id: tenant,
            started_at: at,
            duration_ms: 1,
            status_code: Some(500),
            error_kind: None,
            response: Vec::new(),
        };
        let db = store.writer();
        event::Entity::insert(event.into_active_model())
            .exec_without_returning(db)
            .await
            .unwrap();
        delivery::Entity::insert(row.into_active_model())
            .exec_without_returning(db)
            .await
            .unwrap();
        attempt::Entity::insert(attempt.into_active_model())
            .exec_without_returning(db)
            .await
            .unwrap();
    }

    #[actix_web::test]
    async fn what_is_old_goes_and_what_still_waits_stays() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::connect(&format!("sqlite://{}/x.db", folder.path().display()))
            .await
            .unwrap();
        dikala_migration::migrate(store.writer()).await.unwrap();
        put(&store, 1, DeliveryStatus::Succeeded, true).await;
        put(&store, 40, DeliveryStatus::Failed, true).await;
        put(&store, 100, DeliveryStatus::Failed, true).await;
        put(&store, 100, DeliveryStatus::Pending, true).await;
        put(&store, 101, DeliveryStatus::Pending, false).await;
        let clock: SharedClock = Arc::new(ManualClock::new(NOW));
        let retention = Retention {
            attempts_days: 30,
            events_days: 90,
        };
        assert!(sweep(&store, &clock, &retention).await.unwrap() > 0);
        let db = store.reader();
        let left = (
            event::Entity::find().count(db).await.unwrap(),
            delivery::Entity::find().count(db).await.unwrap(),
            attempt::Entity::find().count(db).await.unwrap(),
        );
        assert_eq!(left, (3, 3, 1));
        assert_eq!(
            sweep(&store, &clock, &retention).await.unwrap(),
            0,
            "again is harmless"
        );
    }
}
