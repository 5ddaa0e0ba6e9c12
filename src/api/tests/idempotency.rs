//! `Idempotency-Key` over HTTP.

use actix_web::http::Method;
use dikala_actors::runtime::clock::Clock;
use dikala_entities::{IdempotencyScope, Millis, NodeId, TenantId, agent, idempotency, node};
use dikala_testkit::rows;
use futures_util::future::join_all;
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, IntoActiveModel, PaginatorTrait, QueryFilter,
    sea_query::Expr,
};
use serde_json::{Value, json};

use super::prelude::*;
use super::world::{ApiReply, is_success};
use crate::http::idempotency::{LARGE_BYTES_MAX, sweep};

async fn post(world: &ApiWorld, api_key: &str, path: &str, key: &str, body: &Value) -> ApiReply {
    let headers = [
        ("x-api-key", api_key),
        ("content-type", "application/json"),
        ("idempotency-key", key),
    ];
    let path = format!("/api/v1{path}");
    world
        .send(
            &Method::POST,
            &path,
            &headers,
            body.to_string().into_bytes(),
        )
        .await
}

async fn ours(world: &ApiWorld, path: &str, key: &str, body: &Value) -> ApiReply {
    post(world, &world.ours.key, path, key, body).await
}

async fn agents(world: &ApiWorld) -> u64 {
    let ours = agent::Entity::find().filter(agent::Column::TenantId.eq(world.ours.tenant));
    ours.count(world.store().reader()).await.expect("counts") - 1
}

fn sample() -> Value {
    json!({"name": "A", "systemPrompt": "B"})
}

#[rstest]
#[actix_web::test]
async fn a_repeat_gets_the_same_answer_and_has_no_effect(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let first = ours(&world, "/agents", "k 1", &sample()).await;
    assert_eq!(
        (first.status, first.header("idempotent-replayed")),
        (201, "")
    );
    let again = ours(&world, "/agents", "k 1", &sample()).await;
    assert_eq!(
        (again.status, again.header("idempotent-replayed")),
        (201, "true")
    );
    assert_eq!(
        (&again.text, again.header("location")),
        (&first.text, first.header("location"))
    );
    assert_eq!(again.header("content-type"), "application/json");
    assert_ne!(again.header("x-ratelimit-limit"), "");
    assert_eq!(agents(&world).await, 1);

    let other = ours(
        &world,
        "/agents",
        "k 1",
        &json!({"name": "A", "systemPrompt": "C"}),
    )
    .await;
    assert_eq!(
        (other.status, other.code()),
        (422, "idempotency_key_reused".into())
    );
    let elsewhere = ours(&world, "/webhooks", "k 1", &sample()).await;
    assert_eq!(elsewhere.code(), "idempotency_key_reused");
    let theirs = post(&world, &world.theirs.key, "/agents", "k 1", &sample()).await;
    assert_eq!(
        (theirs.status, theirs.header("idempotent-replayed")),
        (201, "")
    );
}

#[rstest]
#[actix_web::test]
async fn twenty_four_at_once_have_the_effect_of_one(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let body = sample();
    let replies = join_all((0..24).map(|_| ours(&world, "/agents", "k", &body))).await;
    for reply in &replies {
        let fine = is_success(reply.status) || reply.code() == "idempotency_in_progress";
        assert!(fine, "{reply:?}");
    }
    let fresh = replies
        .iter()
        .filter(|r| r.status == 201 && r.header("idempotent-replayed").is_empty())
        .count();
    assert_eq!((fresh, agents(&world).await), (1, 1));
}

#[rstest]
#[actix_web::test]
async fn what_is_kept_and_what_is_not(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    // Validation errors are not stored: the corrected request may use the key.
    assert_eq!(
        ours(&world, "/agents", "a", &json!({"name": "A"}))
            .await
            .status,
        422
    );
    assert_eq!(ours(&world, "/agents", "a", &sample()).await.status, 201);
    // Errors that depend on the state are stored.
    let missing = format!("/agents/{}/functions", super::world::nobody());
    let first = ours(&world, &missing, "b", &json!({})).await;
    let again = ours(&world, &missing, "b", &json!({})).await;
    assert_eq!(
        (
            first.status,
            again.status,
            again.header("idempotent-replayed")
        ),
        (404, 404, "true")
    );
    assert_eq!(first.text, again.text);
    // Actions outside the store are stored too.
    let (bridge, call) = world.talk().await;
    let hangup = format!("/calls/{call}/hangup");
    let first = ours(&world, &hangup, "c", &json!({})).await;
    let again = ours(&world, &hangup, "c", &json!({})).await;
    assert_eq!(
        (first.status, again.status, &first.text),
        (202, 202, &again.text)
    );
    assert_eq!(again.header("idempotent-replayed"), "true");
    assert_eq!(world.commands(bridge).len(), 1);
    world.obey(bridge, call).await;
    assert_eq!(
        ours(&world, &hangup, "d", &json!({})).await.code(),
        "call_not_active"
    );
    // Refusals before the handler are not stored.
    let headers = [
        ("x-api-key", world.ours.key.as_str()),
        ("content-type", "text/plain"),
        ("idempotency-key", "e"),
    ];
    assert_eq!(
        world
            .send(&Method::POST, "/api/v1/agents", &headers, b"{}".to_vec())
            .await
            .status,
        415
    );
    assert_eq!(ours(&world, "/agents", "e", &sample()).await.status, 201);
}

#[rstest]
#[actix_web::test]
async fn keys_that_are_none(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    for (key, code) in [
        ("", "required"),
        ("ä", "invalid_format"),
        (&"x".repeat(256), "too_long"),
    ] {
        let reply = ours(&world, "/agents", key, &sample()).await;
        assert_eq!(
            (reply.status, reply.fields()),
            (422, vec![format!("Idempotency-Key {code}")])
        );
    }
    assert_eq!(
        ours(&world, "/agents", &"x".repeat(255), &sample())
            .await
            .status,
        201
    );
}

#[rstest]
#[actix_web::test]
async fn keys_expire_after_a_day_and_claims_of_the_dead_after_a_minute(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    assert_eq!(ours(&world, "/agents", "k", &sample()).await.status, 201);
    let dead = idempotency::Model {
        scope: IdempotencyScope::Tenant(world.ours.tenant),
        key: "dead".into(),
        fingerprint: "of another process".into(),
        status: None,
        body: None,
        location: None,
        created_at: world.clock.now(),
        size: 0,
        is_brief: false,
        node: String::new(),
        call_id: None,
    };
    rows::insert(world.store().writer(), dead).await;
    assert_eq!(ours(&world, "/agents", "dead", &sample()).await.status, 422);
    world.clock.advance_ms(60_000);
    assert_eq!(ours(&world, "/agents", "dead", &sample()).await.status, 201);
    world.clock.advance_ms(24 * 3_600_000 - 60_001);
    assert_eq!(
        ours(&world, "/agents", "k", &sample())
            .await
            .header("idempotent-replayed"),
        "true"
    );
    world.clock.advance_ms(1);
    assert_eq!(
        ours(&world, "/agents", "k", &sample())
            .await
            .header("idempotent-replayed"),
        ""
    );
    assert_eq!(agents(&world).await, 3);
}

/// A claim names its node. While that node is in the table, repeats wait; otherwise the next repeat takes the claim.
#[rstest]
#[actix_web::test]
async fn a_claim_of_a_node_that_is_no_more_is_taken_at_once(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let living = node::Model {
        id: NodeId::new(world.clock.now()),
        name: "b".into(),
        address: String::new(),
        process: String::new(),
        version: String::new(),
        started_at: world.clock.now(),
        lease_until: world.clock.now(),
        calls: 0,
        bridges: 0,
        ahead_ms: 0,
    };
    let there = living.id.to_string();
    rows::insert(world.store().writer(), living).await;
    assert_eq!(ours(&world, "/agents", "k", &sample()).await.status, 201);
    let claimed_by = async |node: &str| {
        let all = idempotency::Entity::update_many()
            .col_expr(idempotency::Column::Status, Expr::value(None::<i64>))
            .col_expr(idempotency::Column::Node, Expr::value(node));
        all.exec(world.store().writer()).await.expect("changes");
    };
    claimed_by(&there).await;
    let reply = ours(&world, "/agents", "k", &sample()).await;
    assert_eq!(
        (reply.status, reply.code()),
        (409, "idempotency_in_progress".into())
    );
    claimed_by("node_that_is_gone").await;
    let other = json!({"name": "Z", "systemPrompt": "B"});
    let reply = ours(&world, "/agents", "k", &other).await;
    assert_eq!(
        (reply.status, reply.code()),
        (422, "idempotency_key_reused".into())
    );
    let made = ours(&world, "/agents", "k", &sample()).await;
    assert_eq!((made.status, made.header("idempotent-replayed")), (201, ""));
    let again = ours(&world, "/agents", "k", &sample()).await;
    assert_eq!(again.header("idempotent-replayed"), "true");
    assert_eq!(again.text, made.text);
}

#[rstest]
#[actix_web::test]
async fn a_claim_that_runs_is_answered_in_progress(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let first = ours(&world, "/agents", "k", &sample()).await;
    assert_eq!(first.status, 201);
    let all = idempotency::Entity::update_many()
        .col_expr(idempotency::Column::Status, Expr::value(None::<i64>));
    all.exec(world.store().writer()).await.expect("changes");
    let reply = ours(&world, "/agents", "k", &sample()).await;
    assert_eq!(
        (reply.status, reply.code()),
        (409, "idempotency_in_progress".into())
    );
}

#[rstest]
#[actix_web::test]
async fn the_sweep_takes_the_old_and_leaves_the_rest(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let now = world.clock.now();
    let row = |i: i64, created_at: Millis| idempotency::Model {
        scope: IdempotencyScope::Tenant(TenantId::new(now)),
        key: i.to_string(),
        fingerprint: String::new(),
        status: Some(201),
        body: Some("{}".into()),
        location: None,
        created_at,
        size: 0,
        is_brief: false,
        node: String::new(),
        call_id: None,
    };
    let rows = (0..700)
        .map(|i| row(i, now.plus_ms(-86_400_000)))
        .chain([row(0, now.plus_ms(-86_399_999))]);
    let rows = rows.map(IntoActiveModel::into_active_model);
    idempotency::Entity::insert_many(rows)
        .exec_without_returning(world.store().writer())
        .await
        .expect("inserts");
    assert_eq!(sweep(world.store(), now).await, Ok(700));
    assert_eq!(sweep(world.store(), now).await, Ok(0));
    assert_eq!(
        idempotency::Entity::find()
            .count(world.store().reader())
            .await,
        Ok(1)
    );
}

/// Bytes of one tenant's stored answers.
async fn kept_bytes(world: &ApiWorld) -> i64 {
    let rows = idempotency::Entity::find()
        .all(world.store().reader())
        .await
        .expect("reads");
    let bytes = rows
        .iter()
        .map(|row| row.body.as_ref().map_or(0, String::len))
        .sum::<usize>();
    i64::try_from(bytes).expect("fits")
}

#[rstest]
#[actix_web::test]
async fn large_answers_are_bounded_in_all_and_nothing_is_carried_out_twice(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let path = format!("/agents/{}/functions/check_stock/test", world.ours.agent);
    world.at_the_customers().await;
    // The size of a function's largest result.
    let large = json!({"parameters": {"a": "x".repeat(60_000)}});
    let made = ours(
        &world,
        "/agents",
        "made",
        &json!({"name": "A", "systemPrompt": "s".repeat(5_000)}),
    )
    .await;
    assert_eq!(made.status, 201);
    let small = ours(&world, "/agents", "small", &sample()).await;
    assert_eq!(small.status, 201);
    for n in 0..300 {
        world.clock.advance_ms(1);
        assert_eq!(
            ours(&world, &path, &format!("t{n}"), &large).await.status,
            200
        );
    }
    assert!(
        kept_bytes(&world).await <= LARGE_BYTES_MAX + 4_096,
        "{}",
        kept_bytes(&world).await
    );
    // The newest answers are kept whole, the oldest only as keys.
    let again = ours(&world, &path, "t299", &large).await;
    assert_eq!(
        (again.status, again.header("idempotent-replayed")),
        (200, "true")
    );
    let before = agents(&world).await;
    let gone = ours(
        &world,
        "/agents",
        "made",
        &json!({"name": "A", "systemPrompt": "s".repeat(5_000)}),
    )
    .await;
    assert_eq!(
        (gone.status, gone.code()),
        (422, "idempotency_key_reused".into())
    );
    assert!(gone.text.contains("no longer kept"), "{}", gone.text);
    assert_eq!(
        ours(&world, "/agents", "small", &sample()).await.text,
        small.text
    );
    assert_eq!(agents(&world).await, before);
}

/// A plan that PostgreSQL made with few answers would sum all of them again for each, which takes minutes.
#[rstest]
#[actix_web::test]
async fn as_many_large_answers_as_there_can_be_are_cut(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let (count, size) = (8_200, 2_049);
    assert!(count * size > LARGE_BYTES_MAX);
    let before = world.clock.now().plus_ms(-count);
    let fill = format!(
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < {count}) \
         INSERT INTO idempotency_keys (scope, key, fingerprint, status, created_at, size, body) \
         SELECT '{}', 'k' || i, '', 200, {} + i, {size}, '' FROM n",
        world.ours.tenant,
        before.as_i64(),
    );
    let large = json!({"name": "A", "systemPrompt": "s".repeat(5_000)});
    for n in 0..20 {
        let planned = ours(&world, "/agents", &format!("planned{n}"), &large).await;
        assert_eq!(planned.status, 201);
    }
    let writer = world.store().writer();
    writer.execute_unprepared(&fill).await.expect("writes");
    let made = ours(&world, "/agents", "made", &large).await;
    assert_eq!(made.status, 201);
    let rows = idempotency::Entity::find()
        .filter(idempotency::Column::Size.gt(0))
        .all(world.store().reader())
        .await
        .expect("reads");
    let kept: i64 = rows.iter().map(|row| row.size).sum();
    assert!(kept <= LARGE_BYTES_MAX, "{kept}");
    assert!(kept > LARGE_BYTES_MAX - 10_000, "{kept}");
    // The newest are kept.
    assert!(rows.iter().any(|row| row.key == format!("k{}", count - 1)));
}

#[rstest]
#[actix_web::test]
async fn the_answer_of_a_test_is_kept_briefly(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let path = format!("/agents/{}/functions/check_stock/test", world.ours.agent);
    world.at_the_customers().await;
    let body = json!({"parameters": {"a": 1}});
    let replayed = async || {
        ours(&world, &path, "t", &body)
            .await
            .header("idempotent-replayed")
            == "true"
    };
    assert!(!replayed().await);
    assert_eq!(ours(&world, "/agents", "k", &sample()).await.status, 201);
    world.clock.advance_ms(10 * 60_000 - 1);
    assert!(replayed().await);
    world.clock.advance_ms(1);
    assert_eq!(sweep(world.store(), world.clock.now()).await, Ok(1));
    assert!(!replayed().await);
    assert_eq!(
        ours(&world, "/agents", "k", &sample())
            .await
            .header("idempotent-replayed"),
        "true"
    );
}
