//! Tests of the sweeps.

mod reads;

use dikala_actors::runtime::clock::ManualClock;
use dikala_entities::{
    AttemptOutcome, AuditAction, DeliveryStatus, EventId, TenantId, WebhookId, attempt, audit,
    delivery, event, webhook_stat,
};
use dikala_testkit::rows;
use sea_orm::{EntityTrait, PaginatorTrait};

use super::*;
use crate::audit::{AuditChange, ChangeOrigin};

const NOW: Millis = Millis::from_i64(1_800_000_000_000);

async fn put_webhook(store: &Store, id: WebhookId, is_active: bool) {
    let mut webhook = rows::webhook(id, TenantId::new(NOW), &[], NOW);
    webhook.is_active = is_active;
    rows::insert(store.writer(), webhook).await;
}

/// Writes an event with a delivery to a webhook.
async fn put(store: &Store, age_days: i64, status: DeliveryStatus, is_active: bool) {
    // `first_at`, because new ids never go back in time.
    let at = NOW.plus_ms(-age_days * DAY_MS - i64::from(status == DeliveryStatus::Pending));
    let webhook = WebhookId::new(at);
    put_webhook(store, webhook, is_active).await;
    let event = event::Model {
        id: EventId::first_at(at),
        ..rows::event(TenantId::new(at), at)
    };
    let row = delivery::Model {
        status,
        attempts: 1,
        ..rows::delivery(&event, webhook)
    };
    let attempt = rows::attempt(&row);
    let db = store.writer();
    rows::insert(db, event).await;
    rows::insert(db, row).await;
    rows::insert(db, attempt).await;
}

/// Writes an audit entry and a row of webhook statistics.
async fn record(store: &Store, at: Millis) {
    let change = AuditChange::new(AuditAction::TenantUpdate, TenantId::new(at));
    let by = ChangeOrigin::cli("main");
    by.write(store.writer(), None, change, at).await.unwrap();
    let figure = webhook_stat::Model {
        webhook_id: WebhookId::new(at),
        hour: webhook_stat::hour_of(at),
        outcome: AttemptOutcome::Delivered,
        up_to_ms: 7,
        attempts: 1,
    };
    rows::insert(store.writer(), figure).await;
}

#[actix_web::test]
async fn what_is_old_goes_and_what_still_waits_stays() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::connect(&format!("sqlite://{}/x.db", folder.path().display()))
        .await
        .unwrap();
    let schema = store.for_schema().await.unwrap();
    dikala_migration::migrate(&schema).await.unwrap();
    put(&store, 1, DeliveryStatus::Succeeded, true).await;
    put(&store, 40, DeliveryStatus::Failed, true).await;
    put(&store, 100, DeliveryStatus::Failed, true).await;
    put(&store, 100, DeliveryStatus::Pending, true).await;
    put(&store, 101, DeliveryStatus::Pending, false).await;
    for age_days in [31, 60] {
        let at = NOW.plus_ms(-age_days * DAY_MS);
        record(&store, at).await;
    }
    let clock: SharedClock = Arc::new(ManualClock::new(NOW));
    let retention = Retention {
        attempts_days: 30,
        events_days: 90,
        calls_days: 0,
        transcripts_days: 0,
        audit_days: 50,
        sweep_seconds: 600,
    };
    assert!(sweep(&store, &clock, &retention).await.unwrap() > 0);
    let db = store.reader();
    let left = (
        event::Entity::find().count(db).await.unwrap(),
        delivery::Entity::find().count(db).await.unwrap(),
        attempt::Entity::find().count(db).await.unwrap(),
    );
    assert_eq!(left, (3, 3, 1));
    let left = (
        audit::Entity::find().count(db).await.unwrap(),
        webhook_stat::Entity::find().count(db).await.unwrap(),
    );
    assert_eq!(left, (1, 0));
    assert_eq!(
        sweep(&store, &clock, &retention).await.unwrap(),
        0,
        "again is harmless"
    );
}

/// Readers prevent SQLite's log from restarting. Once they are gone it is emptied, without waiting for anybody.
#[actix_web::test]
async fn a_log_that_grew_is_emptied_in_a_quiet_moment() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    let store = Store::connect(&format!("sqlite://{}", path.display()))
        .await
        .unwrap();
    let schema = store.for_schema().await.unwrap();
    dikala_migration::migrate(&schema).await.unwrap();
    let log = || {
        std::fs::metadata(folder.path().join("x.db-wal"))
            .unwrap()
            .len()
    };
    let reading = store.begin_snapshot().await.unwrap();
    reading
        .query_all_raw(statement(&store, "SELECT id FROM calls", []))
        .await
        .unwrap();
    let row = "INSERT INTO idempotency_keys (scope, key, fingerprint, body, created_at) \
               VALUES ('ten_1', $1, '', $2, 1)";
    for n in 0..100 {
        let values = [n.to_string().into(), "x".repeat(100_000).into()];
        let insert = statement(&store, row, values);
        store.writer().execute_raw(insert).await.unwrap();
    }
    let grown = log();
    assert!(grown > 8_000_000, "{grown}");
    assert_eq!(store.empty_log().await, Ok(None), "somebody still reads");
    reading.rollback().await.unwrap();
    // A writer is not waited for either.
    let writing = store.begin().await.unwrap();
    let write = statement(&store, "UPDATE idempotency_keys SET created_at = 2", []);
    writing.execute_raw(write).await.unwrap();
    assert_eq!(store.empty_log().await, Ok(None), "somebody writes");
    writing.commit().await.unwrap();
    let grown = log();
    assert_eq!(store.empty_log().await, Ok(Some(grown)));
    assert_eq!(log(), 0);
    assert_eq!(store.empty_log().await, Ok(None), "there is nothing to do");
    assert_eq!(
        ids::<String>(
            store.reader(),
            statement(&store, "SELECT key FROM idempotency_keys", [])
        )
        .await
        .unwrap()
        .len(),
        100
    );
}

/// An event stays if a resend is requested at the moment of its removal.
#[actix_web::test]
async fn an_event_that_is_sent_again_at_that_moment_stays() {
    let Some((_keep, store)) = dikala_testkit::postgres().await else {
        return;
    };
    put(&store, 100, DeliveryStatus::Failed, true).await;
    let again = store.begin().await.unwrap();
    let resend = "UPDATE deliveries SET status = 'pending'";
    again.execute_unprepared(resend).await.unwrap();
    let sweep = sweep_events(&store, NOW, SweptEvents::Any);
    let commit = async {
        let waits = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        while store
            .reader()
            .query_one_raw(statement(&store, waits, []))
            .await
            .unwrap()
            .is_none()
        {
            tokio::task::yield_now().await;
        }
        again.commit().await.unwrap();
    };
    let (removed, ()) = tokio::join!(sweep, commit);
    assert_eq!(removed.unwrap(), 0);
    let left = delivery::Entity::find()
        .count(store.reader())
        .await
        .unwrap();
    assert_eq!(left, 1);
}
