//! Sweeps.

use dikala_actors::clock::ManualClock;
use dikala_entities::{
    DeliveryId, DeliveryStatus, EventId, EventKind, OutboundUrl, TenantId, UrlPolicy, WebhookId,
    attempt, delivery, event, webhook,
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
    let schema = store.for_schema().await.unwrap();
    dikala_migration::migrate(&schema).await.unwrap();
    put(&store, 1, DeliveryStatus::Succeeded, true).await;
    put(&store, 40, DeliveryStatus::Failed, true).await;
    put(&store, 100, DeliveryStatus::Failed, true).await;
    put(&store, 100, DeliveryStatus::Pending, true).await;
    put(&store, 101, DeliveryStatus::Pending, false).await;
    let clock: SharedClock = Arc::new(ManualClock::new(NOW));
    let retention = Retention {
        attempts_days: 30,
        events_days: 90,
        calls_days: 0,
        transcripts_days: 0,
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
    assert_eq!(
        sweep(&store, &clock, &retention).await.unwrap(),
        0,
        "again is harmless"
    );
}

/// Many readers keep SQLite's log from being begun anew; when they are gone it is emptied, and nobody waits for that.
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
    let row = "INSERT INTO idempotency_keys (tenant_id, key, fingerprint, body, created_at) \
               VALUES ('ten_1', $1, '', $2, 1)";
    for n in 0..100 {
        let values = [n.to_string().into(), "x".repeat(100_000).into()];
        let insert = statement(&store, row, values);
        store.writer().execute_raw(insert).await.unwrap();
    }
    let grown = log();
    assert!(grown > 8_000_000, "{grown}");
    assert_eq!(store.checkpoint().await, Ok(None), "somebody still reads");
    reading.rollback().await.unwrap();
    // A writer is not waited for either.
    let writing = store.begin().await.unwrap();
    assert_eq!(store.checkpoint().await, Ok(None), "somebody writes");
    writing.commit().await.unwrap();
    assert_eq!(store.checkpoint().await, Ok(Some(grown)));
    assert_eq!(log(), 0);
    assert_eq!(store.checkpoint().await, Ok(None), "there is nothing to do");
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
