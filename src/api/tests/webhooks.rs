//! Webhooks over HTTP.

use dikala_actors::runtime::clock::Clock;
use dikala_entities::{SecretPlace, WebhookId, webhook};
use futures_util::future::join_all;
use sea_orm::{ActiveModelTrait, ActiveValue::Set, EntityTrait, IntoActiveModel};
use serde_json::{Value, json};

use super::prelude::*;
use super::world::WEBHOOK_SECRET;

fn sample() -> Value {
    json!({"url": "HTTPS://Example.com:443/a/../hooks", "events": ["call.ended", "credits.low"], "secret": "s3cret-s3cret"})
}

async fn row(world: &ApiWorld, id: &str) -> webhook::Model {
    let id: WebhookId = id.parse().expect("an id");
    webhook::Entity::find_by_id(id)
        .one(world.store().reader())
        .await
        .expect("reads")
        .expect("a row")
}

#[rstest]
#[actix_web::test]
async fn a_webhook_is_made_without_showing_its_secret(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let made = world
        .done("webhooks.create", "/webhooks", Some(sample()))
        .await;
    assert_eq!(
        made.header("location"),
        format!("/api/v1/webhooks/{}", made.id())
    );
    let expected = json!({
        "id": made.id(), "url": "https://example.com/hooks", "events": ["call.ended", "credits.low"], "isActive": true,
        "secretHint": "cret", "disabledReason": null, "createdAt": "2026-01-15T03:30:00.000Z", "updatedAt": "2026-01-15T03:30:00.000Z"
    });
    assert_eq!(made.json(), expected);
    let path = format!("/webhooks/{}", made.id());
    assert_eq!(
        world.done("webhooks.get", &path, None).await.json(),
        expected
    );
    let stored = row(&world, &made.id()).await;
    let secret = world
        .services
        .vault
        .open(SecretPlace::WebhookSecret, stored.id, &stored.secret)
        .expect("opens");
    assert_eq!(secret.expose(), "s3cret-s3cret");
    let list = world.done("webhooks.list", "/webhooks", None).await;
    assert_eq!(list.json()["webhooks"].as_array().map(Vec::len), Some(2));
    assert!(!list.text.contains("s3cret-"));
    world.done("webhooks.delete", &path, None).await;
    assert_eq!(world.delete(&path).await.code(), "webhook_not_found");
}

#[rstest]
#[actix_web::test]
async fn what_cannot_be_a_webhook(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let wrong = json!({"url": "http://example.com", "events": ["call.end", "call.ended", "call.ended"], "secret": "short", "isActive": true});
    let reply = world.post("/webhooks", wrong).await;
    assert_eq!(
        reply.fields(),
        [
            "url insecure_url",
            "events[0] not_allowed",
            "events[2] duplicate",
            "secret too_short",
            "isActive unknown_field"
        ]
    );
    assert_eq!(
        world.post("/webhooks", json!({})).await.fields(),
        ["url required", "events required", "secret required"]
    );
    let mut body = sample();
    for (url, code) in [
        ("https://user@example.com/", "url invalid_format"),
        ("https://example.com/#x", "url invalid_format"),
        ("example.com", "url invalid_format"),
        ("https://a..example.com/", "url invalid_format"),
        ("https://a;b.example.com/", "url invalid_format"),
        ("https://127.0.0.1/", "url blocked_address"),
        ("https://2130706433/", "url blocked_address"),
        ("https://localhost/", "url blocked_address"),
    ] {
        body["url"] = json!(url);
        let reply = world.post("/webhooks", body.clone()).await;
        assert_eq!(
            (reply.status, reply.fields()),
            (422, vec![code.to_owned()]),
            "{url}"
        );
    }
    let wrong = json!({"url": "https://127.0.0.1/", "events": [], "secret": "short", "evnts": 1});
    assert_eq!(
        world.post("/webhooks", wrong).await.fields(),
        [
            "url blocked_address",
            "events too_short",
            "secret too_short",
            "evnts unknown_field"
        ]
    );
    let path = format!("/webhooks/{}", world.ours.webhook);
    let wrong = json!({"url": "https://127.0.0.1/", "isActive": "yes"});
    assert_eq!(
        world.patch(&path, wrong).await.fields(),
        ["url blocked_address", "isActive invalid_type"]
    );
    body["url"] = json!(format!("https://example.com/{}", "a".repeat(2_048)));
    body["events"] = json!([]);
    body["secret"] = json!("x".repeat(257));
    assert_eq!(
        world.post("/webhooks", body).await.fields(),
        ["url too_long", "events too_short", "secret too_long"]
    );
}

#[rstest]
#[actix_web::test]
async fn a_patch_changes_and_enables_again(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let id = world.ours.webhook;
    let failing = webhook::ActiveModel {
        id: Set(id),
        is_active: Set(false),
        disabled_reason: Set(Some("410".into())),
        failed_in_row: Set(10),
        failing_since: Set(Some(world.clock.now())),
        ..Default::default()
    };
    failing
        .update(world.store().writer())
        .await
        .expect("changes");
    let path = format!("/webhooks/{id}");
    let seen = world.get(&path).await.json();
    assert_eq!(
        (&seen["isActive"], &seen["disabledReason"]),
        (&json!(false), &json!("410"))
    );
    // A client may send back what it read; that changes nothing.
    assert_eq!(
        world
            .done("webhooks.update", &path, Some(seen.clone()))
            .await
            .json(),
        seen
    );
    let on = world
        .done(
            "webhooks.update",
            &path,
            Some(json!({"isActive": true, "events": ["call.started"]})),
        )
        .await
        .json();
    assert_eq!(
        (&on["isActive"], &on["disabledReason"], &on["events"]),
        (&json!(true), &Value::Null, &json!(["call.started"]))
    );
    let stored = row(&world, &id.to_string()).await;
    assert_eq!((stored.failed_in_row, stored.failing_since), (0, None));
    let reply = world
        .patch(&path, json!({"url": null, "events": null, "secret": "x"}))
        .await;
    assert_eq!(
        reply.fields(),
        ["url required", "events required", "secret unknown_field"]
    );
    assert_eq!(
        world
            .patch(&path, json!({"url": "https://10.0.0.1/"}))
            .await
            .fields(),
        ["url blocked_address"]
    );
}

/// While two releases serve side by side, the newer one may store a kind that the older one cannot read.
#[rstest]
#[actix_web::test]
async fn a_kind_of_a_later_release_survives_a_patch(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let made = world.post("/webhooks", sample()).await;
    let path = format!("/webhooks/{}", made.id());
    let mut later = row(&world, &made.id()).await.into_active_model();
    let events = r#"["call.ended","call.invented"]"#;
    later.events = Set(events.to_owned());
    later.update(world.store().writer()).await.expect("updates");
    let shown = world.get(&path).await.json();
    assert_eq!(shown["events"], json!(["call.ended"]));
    let changed = world.patch(&path, json!({"isActive": false})).await;
    assert_eq!(changed.status, 200, "{}", changed.text);
    assert_eq!(row(&world, &made.id()).await.events, events);
}

#[rstest]
#[actix_web::test]
async fn a_rotation_keeps_the_old_secret_for_a_day(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let made = world.post("/webhooks", sample()).await;
    let path = format!("/webhooks/{}/rotate-secret", made.id());
    assert_eq!(
        world.post(&path, json!({})).await.fields(),
        ["secret required"]
    );
    let rotated = world
        .done(
            "webhooks.rotateSecret",
            &path,
            Some(json!({"secret": "another-secret-1"})),
        )
        .await
        .json();
    assert_eq!(rotated["secretHint"], "et-1");
    let after = row(&world, &made.id()).await;
    assert_eq!(
        after.previous_secret_until,
        Some(world.clock.now().plus_seconds(86_400))
    );
    let vault = &world.services.vault;
    assert_eq!(
        vault
            .open(SecretPlace::WebhookSecret, after.id, &after.secret)
            .expect("opens")
            .expose(),
        "another-secret-1"
    );
    assert_eq!(
        vault
            .open(
                SecretPlace::PreviousWebhookSecret,
                after.id,
                after.previous_secret.as_deref().expect("is kept")
            )
            .expect("opens")
            .expose(),
        "s3cret-s3cret"
    );
    // Repeated, as after a lost answer, it changes nothing.
    let again = world.post(&path, json!({"secret": "another-secret-1"}));
    assert_eq!(again.await.json()["secretHint"], "et-1");
    let repeated = row(&world, &made.id()).await;
    assert_eq!(repeated.previous_secret, after.previous_secret);
    assert_eq!(repeated.secret, after.secret);
}

#[rstest]
#[actix_web::test]
async fn twenty_and_no_more_even_at_once(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let replies = join_all((0..30).map(|_| world.post("/webhooks", sample()))).await;
    let made = replies.iter().filter(|reply| reply.status == 201).count();
    assert_eq!(made, 19, "one was there before");
    let refused = replies
        .iter()
        .find(|reply| reply.status != 201)
        .expect("refused");
    assert_eq!(
        (refused.status, refused.code()),
        (409, "webhook_limit_reached".into())
    );
}

#[rstest]
#[actix_web::test]
async fn a_test_answers_with_the_delivery_and_its_attempt(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let path = format!("/webhooks/{}/test", world.ours.webhook);
    world.at_the_customers().await;
    let tested = world.done("webhooks.test", &path, None).await.json();
    assert_eq!(
        (&tested["status"], &tested["attempts"][0]["statusCode"]),
        (&json!("succeeded"), &json!(200))
    );
    let sample = world.customer.all().remove(0);
    assert_eq!(sample.event(WEBHOOK_SECRET).kind, "credits.low");
    assert_eq!(
        world
            .post(&path, json!({"event": "call.ended"}))
            .await
            .fields(),
        ["event unknown_field"]
    );
}
