//! Functions over HTTP.

use dikala_actors::runtime::clock::Clock;
use dikala_entities::{FunctionId, function, invocation};
use dikala_testkit::rows;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use serde_json::{Value, json};

use super::prelude::*;
use super::world::FUNCTION_SECRET;

fn sample(name: &str) -> Value {
    json!({"name": name, "description": " Says the price. ", "endpoint": "https://example.com/price"})
}

#[rstest]
#[actix_web::test]
async fn a_function_is_made_enabled_changed_and_deleted(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let agent = format!("/agents/{}", world.ours.agent);
    let tools = async || world.get(&agent).await.json()["toolsEnabled"].clone();
    let path = format!("{agent}/functions");
    let made = world
        .done("functions.create", &path, Some(sample("price")))
        .await;
    assert_eq!(made.header("location"), format!("/api/v1{path}/price"));
    let expected = json!({
        "id": made.id(), "agentId": world.ours.agent, "name": "price", "description": "Says the price.",
        "endpoint": "https://example.com/price", "method": "POST",
        "parameters": {"type": "object", "properties": {}, "required": []},
        "createdAt": "2026-01-15T03:30:00.000Z", "updatedAt": "2026-01-15T03:30:00.000Z"
    });
    assert_eq!(made.json(), expected);
    assert_eq!(tools().await, json!(["end_call", "check_stock", "price"]));
    let list = world.done("functions.list", &path, None).await.json();
    assert_eq!(list["functions"][1], expected);

    let one = format!("{path}/price");
    assert_eq!(
        world
            .done("functions.update", &one, Some(expected.clone()))
            .await
            .json(),
        expected
    );
    let changed = world
        .done(
            "functions.update",
            &one,
            Some(json!({"name": "cost", "method": "GET"})),
        )
        .await
        .json();
    assert_eq!(
        (&changed["name"], &changed["method"]),
        (&json!("cost"), &json!("GET"))
    );
    assert_eq!(tools().await, json!(["end_call", "check_stock", "cost"]));
    let renamed = format!("{path}/cost");
    let back = world
        .done("functions.update", &renamed, Some(json!({"method": null})))
        .await
        .json();
    assert_eq!(back["method"], "POST");
    world.at_the_customers().await;
    let tested = world
        .done(
            "functions.test",
            &format!("{path}/check_stock/test"),
            Some(json!({"parameters": {"sku": 1}})),
        )
        .await
        .json();
    assert_eq!(
        tested,
        json!({"status": "ok", "result": {"echo": {"sku": 1}}})
    );
    let asked = world.customer.all().remove(0);
    assert_eq!(asked.header("x-service-test"), "true");
    asked.assert_signed(FUNCTION_SECRET);
    assert_eq!(
        world
            .post(&format!("{renamed}/test"), json!({"parameters": []}))
            .await
            .fields(),
        ["parameters invalid_type"]
    );

    let stats = world
        .done("functions.stats", &format!("{renamed}/stats"), None)
        .await
        .json();
    let none = json!({"p50": null, "p95": null, "p99": null, "max": null});
    assert_eq!(
        stats,
        json!({
            "name": "cost", "from": "2026-01-14T03:30:00.000Z", "to": "2026-01-15T03:30:00.000Z",
            "calls": 0, "failures": 0, "latencyMs": none, "circuit": {"state": "closed", "retryAt": null}
        })
    );

    world.done("functions.delete", &renamed, None).await;
    assert_eq!(
        world.get(&format!("{renamed}/stats")).await.code(),
        "function_not_found"
    );
    assert_eq!(tools().await, json!(["end_call", "check_stock"]));
    assert_eq!(world.delete(&renamed).await.code(), "function_not_found");
}

#[rstest]
#[actix_web::test]
async fn names_are_unique_in_the_agent(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let path = format!("/agents/{}/functions", world.ours.agent);
    let taken = world.post(&path, sample("check_stock")).await;
    assert_eq!(
        (taken.status, taken.code()),
        (409, "function_exists".into())
    );
    world.post(&path, sample("price")).await;
    let taken = world
        .patch(&format!("{path}/price"), json!({"name": "check_stock"}))
        .await;
    assert_eq!(taken.code(), "function_exists");
    for (name, code) in [
        (json!(""), "required"),
        (json!("1st"), "invalid_format"),
        (json!("a b"), "invalid_format"),
        (json!("harga é"), "invalid_format"),
        (json!("x".repeat(65)), "too_long"),
        (json!("end_call"), "not_allowed"),
        (json!(null), "required"),
        (json!(["a"]), "invalid_type"),
    ] {
        let mut body = sample("x");
        body["name"] = name.clone();
        assert_eq!(
            world.post(&path, body).await.fields(),
            [format!("name {code}")],
            "{name}"
        );
    }
}

#[rstest]
#[actix_web::test]
async fn all_that_is_wrong_with_a_function(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let path = format!("/agents/{}/functions", world.ours.agent);
    let wrong = json!({
        "name": "x", "description": "d".repeat(1_001), "endpoint": "ftp://example.com", "method": "get", "agentId": "ignored",
        "parameters": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a", "b"]}, "params": {}
    });
    let reply = world.post(&path, wrong).await;
    assert_eq!(
        reply.fields(),
        [
            "description too_long",
            "endpoint insecure_url",
            "method not_allowed",
            "parameters.required[1] not_allowed",
            "params unknown_field"
        ]
    );
    let mut blocked = sample("x");
    blocked["endpoint"] = json!("https://192.168.0.1/");
    assert_eq!(
        world.post(&path, blocked).await.fields(),
        ["endpoint blocked_address"]
    );
    let mut blocked = sample("x");
    blocked["endpoint"] = json!("https://192.168.0.1/");
    blocked["method"] = json!("TRACE");
    assert_eq!(
        world.post(&path, blocked).await.fields(),
        ["endpoint blocked_address", "method not_allowed"]
    );
}

/// Writes a call of a function, `ms_ago` milliseconds ago.
async fn write_call(world: &ApiWorld, function: FunctionId, ms_ago: i64, duration_ms: i64) {
    let row = invocation::Model {
        call_id: world.ours.running,
        invocation_id: format!("{function} {ms_ago}"),
        tenant_id: world.ours.tenant,
        function_name: "whatever it was called".into(),
        outcome: "{}".into(),
        duration_ms,
        created_at: world.clock.now().plus_ms(-ms_ago),
        function_id: Some(function),
        fault: None,
    };
    rows::insert(world.store().writer(), row).await;
}

#[rstest]
#[actix_web::test]
async fn figures_are_of_the_last_day_and_of_a_thousand_calls(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    const DAY_MS: i64 = 86_400_000;
    let world = world!(store);
    let ours = function::Entity::find()
        .filter(function::Column::AgentId.eq(world.ours.agent))
        .one(world.store().reader())
        .await;
    let ours = ours.expect("reads").expect("a row").id;
    write_call(&world, ours, DAY_MS + 1, 9_000).await;
    write_call(&world, ours, DAY_MS, 40).await;
    write_call(&world, FunctionId::new(world.clock.now()), 1, 9_000).await;
    let path = format!("/agents/{}/functions/check_stock/stats", world.ours.agent);
    let stats = async || world.done("functions.stats", &path, None).await.json();
    let few = stats().await;
    assert_eq!(
        (&few["calls"], &few["latencyMs"]["max"]),
        (&json!(1), &json!(40))
    );
    assert_eq!(few["from"], "2026-01-14T03:30:00.000Z");
    for ms_ago in 1..=1_000 {
        write_call(&world, ours, ms_ago, ms_ago).await;
    }
    let many = stats().await;
    assert_eq!(
        (&many["calls"], &many["failures"]),
        (&json!(1_000), &json!(0))
    );
    assert_eq!(many["from"], "2026-01-15T03:29:59.000Z");
    assert_eq!(
        many["latencyMs"],
        json!({"p50": 500, "p95": 950, "p99": 990, "max": 1_000})
    );
}

/// A general validator needed gigabytes, or ran forever, on each of these.
#[rstest]
#[actix_web::test]
async fn schemas_that_could_hurt_are_refused_by_name(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let path = format!("/agents/{}/functions", world.ours.agent);
    let many: Vec<Value> = (0..600).map(|_| json!({"type": "string"})).collect();
    let property = |schema: Value| json!({"type": "object", "properties": {"a": schema}});
    let nested = json!({"unevaluatedProperties": {"unevaluatedProperties": {}}});
    for (parameters, wrong) in [
        (
            property(json!({"items": {"allOf": many}})),
            ".properties.a.items.allOf too_large",
        ),
        (
            property(json!({"$ref": "#/%24defs/a"})),
            ".properties.a.$ref invalid_format",
        ),
        (
            json!({"type": "object", "id": "http://x/", "properties": {"a": {"$ref": "#"}}}),
            ".id unknown_field",
        ),
        (
            property(nested),
            ".properties.a.unevaluatedProperties unknown_field",
        ),
    ] {
        let mut function = sample("f");
        function["parameters"] = parameters;
        let reply = world.post(&path, function).await;
        assert_eq!(reply.status, 422, "{reply:?}");
        assert_eq!(reply.fields()[0], format!("parameters{wrong}"));
    }
}
