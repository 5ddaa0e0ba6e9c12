//! Removes short-lived rows: tests and samples, which a tenant can make at its request rate, and versions of deleted
//! agents.

use std::time::Instant;

use dikala_actors::{calls::versions, webhooks::lock_deliveries};
use dikala_entities::{
    DeliveryId, DeliveryStatus, EventId, Millis, Store, attempt, delivery, event,
};
use sea_orm::{ColumnTrait, DbErr, EntityTrait, QueryFilter};

use super::{ids, rest, statement};

/// Lifetime of a test's delivery and its attempt, in milliseconds.
pub const TEST_KEPT_MS: i64 = 60 * 60 * 1_000;
/// Lifetime of the event of a test or sample, in milliseconds.
pub const SAMPLE_KEPT_MS: i64 = 24 * 60 * 60 * 1_000;

/// Removes expired rows in small batches. Returns their number.
pub async fn sweep(store: &Store, now: Millis) -> Result<u64, DbErr> {
    let versions = versions::sweep(store, now).await?;
    let deliveries = remove_deliveries(store, now.plus_ms(-TEST_KEPT_MS)).await?;
    let events = remove_events(store, now.plus_ms(-SAMPLE_KEPT_MS)).await?;
    Ok(versions + deliveries + events)
}

/// A delivery that is being resent stays until it is finished.
async fn remove_deliveries(store: &Store, older_than: Millis) -> Result<u64, DbErr> {
    let find = "SELECT id FROM deliveries WHERE is_test AND created_at < $1 AND status <> 'pending' \
                ORDER BY created_at, id LIMIT 500";
    let mut removed = 0;
    loop {
        let began = Instant::now();
        let old = statement(store, find, [older_than.as_i64().into()]);
        let found: Vec<DeliveryId> = ids(store.reader(), old).await?;
        if found.is_empty() {
            return Ok(removed);
        }
        let txn = store.begin().await?;
        lock_deliveries(&txn, &found).await?;
        let gone = delivery::Entity::delete_many()
            .filter(delivery::Column::Id.is_in(found.iter().copied()))
            .filter(delivery::Column::Status.ne(DeliveryStatus::Pending))
            .exec(&txn)
            .await?;
        // A delivery that is being resent continues with its next attempt number.
        let attempts = attempt::Entity::delete_many()
            .filter(attempt::Column::DeliveryId.is_in(found))
            .exec(&txn)
            .await?;
        txn.commit().await?;
        removed += gone.rows_affected + attempts.rows_affected;
        rest(began).await;
    }
}

async fn remove_events(store: &Store, older_than: Millis) -> Result<u64, DbErr> {
    let find = "SELECT e.id FROM events e WHERE e.is_test AND e.occurred_at < $1 \
                AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.event_id = e.id) LIMIT 500";
    let mut removed = 0;
    loop {
        let began = Instant::now();
        let old = statement(store, find, [older_than.as_i64().into()]);
        let found: Vec<EventId> = ids(store.reader(), old).await?;
        if found.is_empty() {
            return Ok(removed);
        }
        let gone = event::Entity::delete_many()
            .filter(event::Column::Id.is_in(found))
            .exec(store.writer())
            .await?;
        removed += gone.rows_affected;
        rest(began).await;
    }
}

#[cfg(test)]
mod tests {
    use dikala_entities::{DeliveryStatus, TenantId, WebhookId, attempt, delivery, event};
    use dikala_testkit::rows;
    use sea_orm::{EntityTrait, PaginatorTrait};

    use super::*;

    const NOW: Millis = Millis::from_i64(1_800_000_000_000);

    async fn put(store: &Store, at: Millis, is_test: bool, status: Option<DeliveryStatus>) {
        let event = event::Model {
            is_test,
            ..rows::event(TenantId::new(at), at)
        };
        let db = store.writer();
        rows::insert(db, event.clone()).await;
        let Some(status) = status else { return };
        let delivery = delivery::Model {
            status,
            attempts: 1,
            ..rows::delivery(&event, WebhookId::new(at))
        };
        let attempt = attempt::Model {
            response: vec![b'x'; 16 * 1024],
            ..rows::attempt(&delivery)
        };
        rows::insert(db, delivery).await;
        rows::insert(db, attempt).await;
    }

    async fn left(store: &Store) -> (u64, u64, u64) {
        let db = store.reader();
        (
            event::Entity::find().count(db).await.expect("counts"),
            delivery::Entity::find().count(db).await.expect("counts"),
            attempt::Entity::find().count(db).await.expect("counts"),
        )
    }

    #[actix_web::test]
    async fn tests_and_samples_do_not_pile_up() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::connect(&format!("sqlite://{}/x.db", folder.path().display()))
            .await
            .expect("a store");
        let schema = store.for_schema().await.expect("a connection");
        dikala_migration::migrate(&schema).await.expect("migrates");
        for n in 0..600 {
            put(
                &store,
                NOW.plus_ms(n),
                true,
                Some(DeliveryStatus::Succeeded),
            )
            .await;
        }
        put(&store, NOW, true, Some(DeliveryStatus::Pending)).await;
        put(&store, NOW, true, None).await;
        put(&store, NOW, false, Some(DeliveryStatus::Succeeded)).await;
        assert_eq!(sweep(&store, NOW.plus_ms(TEST_KEPT_MS)).await, Ok(0));
        assert_eq!(left(&store).await, (603, 602, 602));
        let hour = NOW.plus_ms(TEST_KEPT_MS + 600);
        assert_eq!(sweep(&store, hour).await, Ok(1_200));
        // Deliveries that are being resent stay, and so do those of real events.
        assert_eq!(left(&store).await, (603, 2, 2));
        let day = NOW.plus_ms(SAMPLE_KEPT_MS + 600);
        assert_eq!(sweep(&store, day).await, Ok(601));
        assert_eq!(left(&store).await, (2, 2, 2));
    }
}
