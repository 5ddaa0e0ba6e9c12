//! Deliveries over HTTP.

use std::{cell::Cell, sync::Arc};

use actix_web::http::Method;
use dikala_actors::runtime::clock::Clock;
use dikala_entities::{DeliveryStatus, Millis, recovery, webhook};
use dikala_testkit::{ServerAnswer, eventually};
use sea_orm::{EntityTrait, QueryOrder};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::prelude::*;
use super::world::write_delivery;
use crate::http::route::BASE;

async fn hook(world: &ApiWorld) -> webhook::Model {
    let webhook = webhook::Entity::find_by_id(world.ours.webhook)
        .one(world.store().reader())
        .await;
    webhook.expect("reads").expect("a row")
}

#[rstest]
#[actix_web::test]
async fn deliveries_are_listed_and_shown_with_their_attempts(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let webhook = hook(&world).await;
    world.clock.advance_ms(1);
    let newer = write_delivery(
        world.store(),
        &webhook,
        world.clock.now(),
        DeliveryStatus::Pending,
    )
    .await;
    let path = format!("/webhooks/{}/deliveries", webhook.id);
    let all = world.done("webhooks.deliveries", &path, None).await.json();
    let ids: Vec<&Value> = all["deliveries"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|d| &d["id"])
        .collect();
    assert_eq!(ids, [&json!(newer), &json!(world.ours.delivery)]);
    let failed = world
        .get(&format!("{path}?status=failed&limit=1"))
        .await
        .json();
    assert_eq!(
        (&failed["deliveries"][0]["id"], &failed["hasMore"]),
        (&json!(world.ours.delivery), &json!(false))
    );
    assert_eq!(
        world
            .get(&format!("{path}?status=done&page=1"))
            .await
            .fields(),
        ["status not_allowed", "page unknown_field"]
    );

    let shown = world
        .done(
            "deliveries.get",
            &format!("/deliveries/{}", world.ours.delivery),
            None,
        )
        .await
        .json();
    assert_eq!(
        shown["payload"]["data"],
        json!({"balanceMinutes": 3, "threshold": 30})
    );
    let attempt = json!({"number": 1, "startedAt": "2026-01-15T03:30:00.000Z", "durationMs": 12, "statusCode": 500, "error": null, "response": "\u{fffd}x\u{0}"});
    assert_eq!(shown["attempts"], json!([attempt]));
}

#[rstest]
#[actix_web::test]
async fn a_delivery_is_sent_again(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let path = format!("/deliveries/{}/resend", world.ours.delivery);
    world.at_the_customers().await;
    let taken = Arc::new(Semaphore::new(0));
    let answer = ServerAnswer::Status(200).when(&taken);
    world.customer.answer("/hook", [answer]);
    world.clock.advance_ms(5_000);
    let resent = world.done("deliveries.resend", &path, None).await.json();
    assert_eq!(
        (&resent["status"], &resent["completedAt"]),
        (&json!("pending"), &Value::Null)
    );
    assert_eq!(resent["nextAttemptAt"], "2026-01-15T03:30:05.000Z");
    world.customer.wait_for("/hook", 1).await;
    // A second resend, while the first is under way.
    world.clock.advance_ms(5_000);
    let again = world
        .done("deliveries.resend", &path, Some(json!({})))
        .await
        .json();
    assert_eq!(again["nextAttemptAt"], "2026-01-15T03:30:05.000Z");
    taken.add_permits(1);
    let shown = format!("/deliveries/{}", world.ours.delivery);
    eventually("the delivery to be taken", async || {
        let delivery = world.get(&shown).await.json();
        (delivery["status"] == "succeeded").then_some(())
    })
    .await;
    assert_eq!(world.customer.received("/hook").len(), 1);
    assert_eq!(
        world
            .delete(&format!("/webhooks/{}", world.ours.webhook))
            .await
            .status,
        204
    );
    let gone = world.post(&path, json!({})).await;
    assert_eq!(
        (gone.status, gone.code()),
        (404, "webhook_not_found".into())
    );
}

#[rstest]
#[actix_web::test]
async fn a_time_is_recovered(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    world.nothing_is_sent().await;
    let webhook = hook(&world).await;
    for _ in 0..3 {
        world.clock.advance_ms(60_000);
        write_delivery(
            world.store(),
            &webhook,
            world.clock.now(),
            DeliveryStatus::Failed,
        )
        .await;
        write_delivery(
            world.store(),
            &webhook,
            world.clock.now(),
            DeliveryStatus::Succeeded,
        )
        .await;
    }
    let path = format!("/webhooks/{}/recover", webhook.id);
    let wrong = json!({"since": "2026-01-15T04:00:00Z", "until": "2026-01-15T04:00:00Z", "to": 1});
    assert_eq!(
        world.post(&path, wrong).await.fields(),
        ["until too_small", "to unknown_field"]
    );
    assert_eq!(
        world.post(&path, json!({"until": 5})).await.fields(),
        ["since required", "until invalid_type"]
    );
    let some = json!({"since": "2026-01-15T03:31:00Z", "until": "2026-01-15T03:33:00Z"});
    let some = world
        .done("webhooks.recover", &path, Some(some))
        .await
        .json();
    assert_eq!(some, json!({"deliveries": 2}));
    let rest = world
        .done(
            "webhooks.recover",
            &path,
            Some(json!({"since": "2026-01-15"})),
        )
        .await
        .json();
    // The first two have not begun.
    assert_eq!(rest, json!({"deliveries": 4}));
    let asked: Vec<(Millis, Millis)> = recoveries(&world)
        .await
        .into_iter()
        .map(|recovery| (recovery.since, recovery.until))
        .collect();
    let at = |text: &str| Millis::parse_rfc3339(text).expect("a time");
    let now = world.clock.now();
    assert_eq!(
        asked,
        [
            (at("2026-01-15T03:31:00Z"), at("2026-01-15T03:33:00Z")),
            (at("2026-01-15T00:00:00Z"), now.plus_ms(1))
        ]
    );
}

/// The stored recoveries, oldest first.
async fn recoveries(world: &ApiWorld) -> Vec<recovery::Model> {
    recovery::Entity::find()
        .order_by_asc(recovery::Column::Id)
        .all(world.store().reader())
        .await
        .expect("reads")
}

#[rstest]
#[actix_web::test]
async fn a_recovery_is_asked_for_once_under_one_key(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    world.nothing_is_sent().await;
    let path = format!("{BASE}/webhooks/{}/recover", world.ours.webhook);
    let headers = [
        ("x-api-key", world.ours.key.as_str()),
        ("content-type", "application/json"),
        ("idempotency-key", "again"),
    ];
    for replayed in ["", "true"] {
        let body = br#"{"since": "2026-01-15"}"#.to_vec();
        let reply = world.send(&Method::POST, &path, &headers, body).await;
        assert_eq!(
            (reply.status, reply.json()),
            (202, json!({"deliveries": 1}))
        );
        assert_eq!(reply.header("idempotent-replayed"), replayed);
    }
    assert_eq!(recoveries(&world).await.len(), 1);
}

#[rstest]
#[actix_web::test]
async fn recoveries_do_not_pile_up(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    world.nothing_is_sent().await;
    let path = format!("/webhooks/{}/recover", world.ours.webhook);
    let all = json!({"since": "2026-01-15"});
    let nothing = json!({"since": "2026-01-16"});
    for _ in 0..10 {
        let asked = world.post(&path, all.clone()).await;
        assert_eq!(asked.json(), json!({"deliveries": 1}));
        // Without failures there is nothing to do.
        let none = world.post(&path, nothing.clone()).await;
        assert_eq!(none.json(), json!({"deliveries": 0}));
    }
    let refused = world.post(&path, all).await;
    assert_eq!(
        (refused.status, refused.code()),
        (429, "rate_limited".into())
    );
    assert_eq!(refused.header("retry-after"), "5");
    assert_eq!(recoveries(&world).await.len(), 10);
    world
        .delete(&format!("/webhooks/{}", world.ours.webhook))
        .await;
    assert_eq!(recoveries(&world).await, []);
}

#[rstest]
#[actix_web::test]
async fn a_recovery_takes_turns_with_the_reads_of_its_tenant(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    /// Simultaneous reads of a tenant.
    const READS: usize = 3;
    let world = world!(store);
    world.nothing_is_sent().await;
    let gate = &world.services.http.gate;
    let mut reads = Vec::new();
    for _ in 0..READS {
        reads.push(gate.read(world.ours.tenant).await.expect("a turn"));
    }
    let path = format!("/webhooks/{}/recover", world.ours.webhook);
    let is_answered = Cell::new(false);
    let recover = async {
        let reply = world.post(&path, json!({"since": "2026-01-15"})).await;
        is_answered.set(true);
        reply.json()
    };
    let others = async {
        let theirs = [("x-api-key", world.theirs.key.as_str())];
        let calls = format!("{BASE}/calls");
        for _ in 0..20 {
            let reply = world.send(&Method::GET, &calls, &theirs, Vec::new()).await;
            assert_eq!(reply.status, 200);
        }
        assert!(!is_answered.get(), "it did not wait");
        drop(reads);
    };
    let (recovered, ()) = tokio::join!(recover, others);
    assert_eq!(recovered, json!({"deliveries": 1}));
}
