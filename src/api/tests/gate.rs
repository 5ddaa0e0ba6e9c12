//! Keys, limits and tenant isolation on every route.

use actix_web::http::Method;
use dikala_actors::runtime::clock::Clock;
use dikala_entities::{API_KEY_SCHEME, Plan, api_key, tenant};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, EntityTrait};

use super::prelude::*;
use super::world::{ApiReply, assert_described, nobody};
use crate::{
    api::context::ApiSettings,
    http::{route::BASE, settings::HttpSettings},
    openapi::ApiRoute,
    routes::ROUTES,
};

/// The route's path with this id and the name of our agent's function.
fn path(route: &ApiRoute, id: &str) -> String {
    format!(
        "{BASE}{}",
        route
            .path
            .replace("{id}", id)
            .replace("{name}", "check_stock")
    )
}

fn without_request_id(reply: &ApiReply) -> String {
    let id = reply.header("x-request-id");
    assert!(!id.is_empty());
    reply.text.replace(id, "")
}

#[rstest]
#[actix_web::test]
async fn every_route_wants_a_key(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    for route in ROUTES {
        let path = path(route, &world.ours.agent.to_string());
        let reply = world.send(route.method, &path, &[], Vec::new()).await;
        assert_eq!(
            (reply.status, reply.code()),
            (401, "missing_api_key".into()),
            "{}",
            route.id
        );
        assert_described(route, &reply);
        assert_eq!(
            reply.json()["error"]["requestId"],
            reply.header("x-request-id")
        );
        assert_eq!(reply.header("content-type"), "application/json");
        assert_eq!(reply.header("cache-control"), "no-store");
        assert_eq!(reply.header("x-ratelimit-limit"), "");
    }
}

#[rstest]
#[actix_web::test]
async fn what_is_anothers_is_not_there_byte_for_byte(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let theirs = |route: &ApiRoute| match route.tag() {
        "phoneNumbers" => world.theirs.number.to_string(),
        "calls" => world.theirs.running.to_string(),
        "webhooks" => world.theirs.webhook.to_string(),
        "deliveries" => world.theirs.delivery.to_string(),
        "widgets" => world.theirs.widget.to_string(),
        _ => world.theirs.agent.to_string(),
    };
    for route in ROUTES.iter().filter(|route| route.path.contains("{id}")) {
        let prefix = theirs(route)
            .split('_')
            .next()
            .expect("a prefix")
            .to_owned();
        let unknown = format!("{prefix}_{}", &nobody().to_string()[6..]);
        let ids = [
            theirs(route),
            unknown,
            "nonsense".into(),
            "%00".into(),
            theirs(route).to_uppercase(),
            "..".into(),
        ];
        let mut first = None;
        for id in ids {
            let key = [
                ("x-api-key", world.ours.key.as_str()),
                ("content-type", "application/json"),
            ];
            let reply = world
                .send(route.method, &path(route, &id), &key, b"{}".to_vec())
                .await;
            if id == ".." {
                assert_eq!(reply.status, 404, "{}", route.id);
                continue;
            }
            assert_described(route, &reply);
            assert_eq!(reply.status, 404, "{} {id}: {reply:?}", route.id);
            assert_eq!(reply.header("x-ratelimit-limit"), "100000");
            let answer = without_request_id(&reply);
            assert_eq!(
                first.get_or_insert(answer.clone()),
                &answer,
                "{} {id}",
                route.id
            );
        }
    }
}

#[rstest]
#[actix_web::test]
async fn unknown_functions_are_not_there(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    for name in ["nothing", "%00", "a%2Fb", "%ff", "..%2f.."] {
        let path = format!("/agents/{}/functions/{name}", world.ours.agent);
        let reply = world.delete(&path).await;
        assert_eq!(
            (reply.status, reply.code()),
            (404, "function_not_found".into()),
            "{name}"
        );
    }
}

#[rstest]
#[actix_web::test]
async fn keys_are_told_apart(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let ask = async |headers: &[(&str, &str)]| {
        let reply = world
            .send(&Method::GET, "/api/v1/credits", headers, Vec::new())
            .await;
        (reply.status, reply.code())
    };
    let unknown = API_KEY_SCHEME.generate();
    let key = world.ours.key.as_str();
    let mut typo = key.to_owned();
    typo.replace_range(10..11, if key.as_bytes()[10] == b'a' { "b" } else { "a" });
    assert_eq!(ask(&[("x-api-key", key)]).await.0, 200);
    for wrong in [
        "",
        "dkl_",
        "Bearer x",
        unknown.expose(),
        &typo,
        &format!("{key} ").repeat(2),
    ] {
        assert_eq!(
            ask(&[("x-api-key", wrong)]).await,
            (401, "invalid_api_key".into()),
            "{wrong:?}"
        );
    }
    assert_eq!(
        ask(&[("x-api-key", key), ("x-api-key", key)]).await,
        (401, "invalid_api_key".into())
    );
    assert_eq!(
        ask(&[("authorization", key)]).await,
        (401, "missing_api_key".into())
    );
}

#[rstest]
#[actix_web::test]
async fn a_revoked_key_and_a_suspended_tenant_are_out(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    assert_eq!(world.get("/credits").await.status, 200);
    let suspend = async |at| {
        let row = tenant::ActiveModel {
            id: Set(world.ours.tenant),
            suspended_at: Set(at),
            ..Default::default()
        };
        row.update(world.store().writer()).await.expect("changes");
        world.services.http.gate.forget_keys();
        world.get("/credits").await
    };
    let reply = suspend(Some(world.clock.now())).await;
    assert_eq!(
        (reply.status, reply.code()),
        (403, "tenant_suspended".into())
    );
    assert_eq!(reply.header("x-ratelimit-limit"), "100000");
    assert_eq!(suspend(None).await.status, 200);
    let row = api_key::ActiveModel {
        id: Set(world.ours.key_id),
        revoked_at: Set(Some(world.clock.now())),
        ..Default::default()
    };
    row.update(world.store().writer()).await.expect("changes");
    // Revoked by another process, without a notice to this one.
    world.clock.advance_ms(20);
    let reply = world.get("/credits").await;
    assert_eq!(
        (reply.status, reply.code()),
        (401, "revoked_api_key".into())
    );
}

#[rstest]
#[actix_web::test]
async fn the_last_use_is_noted_once_a_minute(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let noted = async || {
        let key = api_key::Entity::find_by_id(world.ours.key_id)
            .one(world.store().reader())
            .await;
        key.expect("reads").expect("a key").last_used_at
    };
    let until = async |expected| {
        while noted().await != Some(expected) {
            tokio::task::yield_now().await;
        }
    };
    let first = world.clock.now();
    world.get("/credits").await;
    until(first).await;
    world.clock.advance_ms(59_000);
    world.get("/credits").await;
    world.clock.advance_ms(1_000);
    world.get("/credits").await;
    until(first.plus_ms(60_000)).await;
}

#[rstest]
#[actix_web::test]
async fn plans_limit_requests_and_say_so(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let set = async |plan, own| {
        let row = tenant::ActiveModel {
            id: Set(world.ours.tenant),
            plan: Set(plan),
            rate_limit: Set(own),
            ..Default::default()
        };
        row.update(world.store().writer()).await.expect("changes");
        world.services.http.gate.forget_keys();
        world.clock.advance_ms(60_000);
        world
            .get("/credits")
            .await
            .header("x-ratelimit-limit")
            .to_owned()
    };
    assert_eq!(set(Plan::Business, None).await, "300");
    assert_eq!(set(Plan::Enterprise, None).await, "1000");
    assert_eq!(set(Plan::Starter, None).await, "60");
    assert_eq!(set(Plan::Business, Some(3)).await, "3");
    let reset = (world.clock.now().as_i64() + 60_000) / 1_000;
    world.clock.advance_ms(500);
    for remaining in ["1", "0"] {
        let reply = world.get("/nothing").await;
        assert_eq!(
            (reply.status, reply.header("x-ratelimit-remaining")),
            (404, remaining)
        );
        assert_eq!(reply.header("x-ratelimit-reset"), reset.to_string());
    }
    let reply = world.get("/credits").await;
    assert_eq!((reply.status, reply.code()), (429, "rate_limited".into()));
    assert_eq!(
        (
            reply.header("retry-after"),
            reply.header("x-ratelimit-remaining")
        ),
        ("60", "0")
    );
    world.clock.advance_ms(59_500);
    assert_eq!(world.get("/credits").await.status, 200);
}

#[rstest]
#[actix_web::test]
async fn the_unknown_are_limited_by_address(#[values(Sqlite, Postgres)] store: StoreKind) {
    let settings = ApiSettings {
        http: HttpSettings {
            unauthenticated_per_minute: 2,
            ..HttpSettings::default()
        },
        ..ApiSettings::default()
    };
    let world = world!(store, settings);
    let ask = async || {
        world
            .send(&Method::GET, "/api/v1/credits", &[], Vec::new())
            .await
    };
    assert_eq!(ask().await.status, 401);
    assert_eq!(ask().await.status, 401);
    let reply = ask().await;
    assert_eq!((reply.status, reply.header("retry-after")), (429, "60"));
    assert_eq!(
        world.get("/credits").await.status,
        200,
        "a valid key is not affected"
    );
    world.clock.advance_ms(60_000);
    assert_eq!(ask().await.status, 401);
}

#[rstest]
#[actix_web::test]
async fn a_database_that_is_away_is_503(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    world.store().close().await;
    let reply = world.get("/credits").await;
    assert_eq!((reply.status, reply.code()), (503, "unavailable".into()));
    assert_ne!(reply.header("retry-after"), "");
}
