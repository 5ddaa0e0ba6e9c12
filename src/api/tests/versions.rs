//! Versions of agents over HTTP.

use dikala_actors::{
    calls::versions::{self, KEPT_MAX},
    runtime::clock::Clock,
};
use dikala_entities::{AgentId, CallId, CallStatus, agent, agent_setting, agent_version};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, EntityTrait, PaginatorTrait};
use serde_json::{Value, json};

use super::prelude::*;
use super::seed::write_call;
use crate::{api::context::ApiSettings, operations::AgentLimits};

/// The numbers of the stored versions.
async fn kept(world: &ApiWorld, agent: &str) -> Vec<i64> {
    let list = world
        .done(
            "agents.versions",
            &format!("/agents/{agent}/versions"),
            None,
        )
        .await
        .json();
    let versions = list["versions"].as_array().expect("a list");
    let number = |version: &Value| version["agentVersion"].as_i64().expect("a number");
    versions.iter().map(number).collect()
}

/// Writes a call that began with that version.
async fn call_with(world: &ApiWorld, agent: AgentId, version: i64) -> CallId {
    let now = world.clock.now();
    let mut row = world.ours.call(CallId::new(now), CallStatus::Ended, now);
    row.settings = None;
    row.agent_id = Some(agent);
    row.agent_version = Some(version);
    write_call(world.store(), row.clone()).await;
    row.id
}

#[rstest]
#[actix_web::test]
async fn a_change_of_an_agent_or_its_functions_is_the_next_version(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let path = format!("/agents/{}", world.ours.agent);
    // Created before agents had versions.
    assert_eq!(world.get(&path).await.json()["agentVersion"], 1);
    let changed = world
        .patch(&path, json!({"systemPrompt": "Be short."}))
        .await;
    assert_eq!(changed.json()["agentVersion"], 2);
    // An unchanged value, and fields that calls do not use, make no version.
    for same in [
        json!({"systemPrompt": "Be short."}),
        json!({"isActive": false}),
        json!({"agentVersion": 9}),
    ] {
        assert_eq!(world.patch(&path, same).await.json()["agentVersion"], 2);
    }
    let function =
        json!({"name": "book", "description": "Books", "endpoint": "https://example.com/book"});
    let functions = format!("{path}/functions");
    assert_eq!(world.post(&functions, function).await.status, 201);
    assert_eq!(world.get(&path).await.json()["agentVersion"], 3);
    let book = format!("{functions}/book");
    let described = world
        .patch(&book, json!({"description": "Books a table"}))
        .await;
    assert_eq!(described.status, 200);
    assert_eq!(world.delete(&format!("{functions}/book")).await.status, 204);
    assert_eq!(world.get(&path).await.json()["agentVersion"], 5);

    assert_eq!(
        kept(&world, &world.ours.agent.to_string()).await,
        [1, 2, 3, 4, 5]
    );
    let version = async |number: &str| world.get(&format!("{path}/versions/{number}")).await;
    let first = world
        .done("agents.version", &format!("{path}/versions/1"), None)
        .await
        .json();
    assert_eq!(
        (&first["systemPrompt"], &first["functions"][0]["name"]),
        (&json!("Be kind."), &json!("check_stock"))
    );
    assert_eq!(first["toolsEnabled"], json!(["end_call", "check_stock"]));
    let third = version("3").await.json();
    assert_eq!(
        third["functions"][1]["endpoint"],
        "https://example.com/book"
    );
    assert_eq!(
        third["toolsEnabled"],
        json!(["end_call", "check_stock", "book"])
    );
    assert_eq!(
        version("4").await.json()["functions"][1]["description"],
        "Books a table"
    );
    for nothing in ["0", "6", "-1", "01", "one", "99999999999999999999"] {
        assert_eq!(
            version(nothing).await.code(),
            "agent_not_found",
            "{nothing}"
        );
    }
    let theirs = format!("/agents/{}/versions", world.theirs.agent);
    assert_eq!(world.get(&theirs).await.code(), "agent_not_found");
    assert_eq!(
        world.get(&format!("{theirs}/1")).await.code(),
        "agent_not_found"
    );
}

#[rstest]
#[actix_web::test]
async fn a_call_names_its_version_which_stays_as_long_as_the_call(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let agent = world.ours.agent;
    let path = format!("/agents/{agent}");
    world.patch(&path, json!({"systemPrompt": "v2"})).await;
    let call = call_with(&world, agent, 2).await;
    let shown = world.get(&format!("/calls/{call}")).await.json();
    assert_eq!(shown["agentVersion"], 2);
    // From before agents had versions.
    let old = world
        .get(&format!("/calls/{}", world.ours.ended))
        .await
        .json();
    assert_eq!(old["agentVersion"], Value::Null);
    for n in 3..40 {
        world.clock.advance_ms(60_000);
        let changed = world
            .patch(&path, json!({"systemPrompt": format!("v{n}")}))
            .await;
        assert_eq!(changed.json()["agentVersion"], n);
    }
    // The newest versions, and the one that a call names: the number does not grow with the changes.
    let mut expected = vec![2];
    expected.extend(40 - KEPT_MAX..40);
    assert_eq!(kept(&world, &agent.to_string()).await, expected);
    assert_eq!(
        world.get(&format!("{path}/versions/2")).await.json()["systemPrompt"],
        "v2"
    );
}

/// The number of stored settings.
async fn stored(world: &ApiWorld) -> u64 {
    let count = agent_setting::Entity::find().count(world.store().reader());
    count.await.expect("counts")
}

#[rstest]
#[actix_web::test]
async fn what_an_agent_was_and_is_again_is_stored_once(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let path = format!("/agents/{}", world.ours.agent);
    let change = async |prompt: &str| {
        let changed = world.patch(&path, json!({"systemPrompt": prompt})).await;
        changed.json()["agentVersion"].as_i64().expect("a number")
    };
    for n in 1..=6 {
        assert_eq!(change("A").await, 2 * n);
        assert_eq!(change("B").await, 2 * n + 1);
    }
    // The first settings, A and B.
    assert_eq!(stored(&world).await, 3);
    let list = world.get(&format!("{path}/versions")).await.json();
    let prompts: Vec<&str> = list["versions"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|version| version["systemPrompt"].as_str().expect("a text"))
        .collect();
    assert_eq!(prompts, [vec!["Be kind."], ["A", "B"].repeat(6)].concat());
    // Settings are kept as long as a version names them.
    world.clock.advance_ms(6 * 60_000);
    let swept = versions::sweep(world.store(), world.clock.now()).await;
    assert_eq!(swept, Ok(4));
    assert_eq!(stored(&world).await, 2);
    let fourth = world.get(&format!("{path}/versions/4")).await.json();
    assert_eq!(fourth["systemPrompt"], "A");
}

/// Limits of 100,000 bytes per tenant and 30,000 bytes per agent, which few changes reach.
fn narrow() -> ApiSettings {
    ApiSettings {
        agents: AgentLimits {
            enterprise_configuration_bytes: 100_000,
            ..AgentLimits::default()
        },
        ..ApiSettings::default()
    }
}

fn heavy(n: i64) -> Value {
    json!({"systemPrompt": format!("{n:05}").repeat(6_000)})
}

/// A tenant changes its largest agent as fast as it may.
#[rstest]
#[actix_web::test]
async fn what_is_kept_of_a_tenants_versions_is_bounded(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store, narrow());
    let path = format!("/agents/{}", world.ours.agent);
    let mut taken = 0;
    let refused = loop {
        let reply = world.patch(&path, heavy(taken)).await;
        if reply.status != 200 {
            break reply;
        }
        taken += 1;
    };
    // Twelve times the limit of the configuration.
    assert_eq!(taken, 39);
    assert_eq!((refused.status, &*refused.code()), (429, "rate_limited"));
    assert!(refused.text.contains("1200000"), "{}", refused.text);
    assert_eq!(refused.header("retry-after"), "300");
    // The refused change left nothing, and an unchanged value is accepted.
    assert_eq!(world.get(&path).await.json()["agentVersion"], taken + 1);
    assert_eq!(world.patch(&path, heavy(taken - 1)).await.status, 200);
    // Versions that calls name count for nobody.
    for version in 2..=20 {
        call_with(&world, world.ours.agent, version).await;
    }
    for n in taken..taken + 19 {
        assert_eq!(world.patch(&path, heavy(n)).await.status, 200, "{n}");
    }
    assert_eq!(world.patch(&path, heavy(taken + 19)).await.status, 429);
    // After the time in `retry-after`, a change is accepted.
    world.clock.advance_ms(300_001);
    assert_eq!(world.patch(&path, heavy(taken + 19)).await.status, 200);
}

/// The ten newest versions of every agent are kept while there is room.
#[rstest]
#[actix_web::test]
async fn earlier_versions_of_an_agent_make_room_for_its_next(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store, narrow());
    let mut number = 0;
    for n in 0.. {
        let draft = json!({"name": format!("A{n}"), "systemPrompt": "light"});
        let path = format!("/agents/{}", world.post("/agents", draft).await.id());
        let mut change = async || {
            number += 1;
            world.patch(&path, heavy(number)).await
        };
        let mut full = false;
        for _ in 0..10 {
            full = full || change().await.status == 429;
        }
        world.clock.advance_ms(300_001);
        if full {
            assert_eq!(n, 4);
            for _ in 0..2 {
                assert_eq!(change().await.status, 200);
            }
            return;
        }
        let light = json!({"systemPrompt": "light again"});
        assert_eq!(world.patch(&path, light).await.status, 200);
    }
}

/// An opening call has read its version but is not written yet, so versions stay for a time, however many changes
/// follow.
#[rstest]
#[actix_web::test]
async fn a_version_that_a_call_may_be_taking_stays(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let agent = world.ours.agent.to_string();
    let path = format!("/agents/{agent}");
    let change = async |n: i64| {
        let reply = world.patch(&path, json!({"systemPrompt": format!("v{n}")}));
        assert_eq!(reply.await.json()["agentVersion"], n);
    };
    for n in 2..=40 {
        change(n).await;
    }
    let all: Vec<i64> = (1..=40).collect();
    let sweep = async || versions::sweep(world.store(), world.clock.now()).await;
    assert_eq!(sweep().await, Ok(0));
    assert_eq!(kept(&world, &agent).await, all);
    // After that time, versions that a call names stay; the next change or the sweep removes the others.
    call_with(&world, world.ours.agent, 7).await;
    world.clock.advance_ms(6 * 60_000);
    change(41).await;
    let newest: Vec<i64> = (42 - KEPT_MAX..=41).collect();
    assert_eq!(kept(&world, &agent).await, [vec![7], newest].concat());
    for n in 42..=60 {
        change(n).await;
    }
    world.clock.advance_ms(6 * 60_000);
    // With the settings that only they named.
    assert_eq!(sweep().await, Ok(22));
    let newest: Vec<i64> = (61 - KEPT_MAX..=60).collect();
    assert_eq!(kept(&world, &agent).await, [vec![7], newest].concat());
    assert_eq!(sweep().await, Ok(0));
}

#[rstest]
#[actix_web::test]
async fn versions_of_a_deleted_agent_stay_for_its_calls_only(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let made = world
        .post("/agents", json!({"name": "A", "systemPrompt": "v1"}))
        .await;
    let agent: AgentId = made.id().parse().expect("an id");
    let path = format!("/agents/{agent}");
    world.patch(&path, json!({"systemPrompt": "v2"})).await;
    call_with(&world, agent, 1).await;
    assert_eq!(world.delete(&path).await.status, 204);
    assert_eq!(world.get(&path).await.code(), "agent_not_found");
    assert_eq!(kept(&world, &agent.to_string()).await, [1]);
    // A call may be taking the agent at this moment, so its versions stay a little longer.
    let ours = format!("/agents/{}", world.ours.agent);
    world.patch(&ours, json!({"systemPrompt": "v2"})).await;
    assert_eq!(world.delete(&ours).await.status, 204);
    let count = || agent_version::Entity::find().count(world.store().reader());
    assert_eq!(count().await, Ok(4));
    assert_eq!(
        versions::sweep(world.store(), world.clock.now()).await,
        Ok(0)
    );
    world.clock.advance_ms(10 * 60_000);
    assert_eq!(
        versions::sweep(world.store(), world.clock.now()).await,
        Ok(6)
    );
    assert_eq!((count().await, stored(&world).await), (Ok(1), 1));
    assert_eq!(
        world.get(&format!("{ours}/versions")).await.code(),
        "agent_not_found"
    );
}

#[rstest]
#[actix_web::test]
async fn an_agent_with_its_functions_is_not_heavier_than_256_kib(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let made = world
        .post(
            "/agents",
            json!({"name": "A", "systemPrompt": "あ".repeat(32_000)}),
        )
        .await;
    assert_eq!(made.status, 201, "{made:?}");
    let functions = format!("/agents/{}/functions", made.id());
    let heavy = |n: usize| {
        let parameters = json!({"type": "object", "description": "d".repeat(16_000)});
        json!({"name": format!("f{n}"), "description": "d", "endpoint": "https://example.com/", "parameters": parameters})
    };
    let mut replies = Vec::new();
    for n in 0..12 {
        replies.push(world.post(&functions, heavy(n)).await);
    }
    let (taken, refused): (Vec<_>, Vec<_>) = replies.iter().partition(|reply| reply.status == 201);
    assert_eq!(
        (taken.len(), refused[0].fields()),
        (10, vec!["parameters too_large".to_owned()])
    );
    assert!(refused[0].text.contains("262144"), "{}", refused[0].text);
    // A refused change leaves nothing, and a change that makes an agent lighter is never refused.
    let path = format!("/agents/{}", made.id());
    assert_eq!(world.get(&path).await.json()["agentVersion"], 11);
    assert_eq!(
        world
            .patch(&path, json!({"greetingText": "g".repeat(900)}))
            .await
            .status,
        200
    );
    let heavier = agent::ActiveModel {
        id: Set(made.id().parse().expect("an id")),
        system_prompt: Set("x".repeat(200_000)),
        version: Set(0),
        ..Default::default()
    };
    agent_version::Entity::delete_many()
        .exec(world.store().writer())
        .await
        .expect("deletes");
    heavier
        .update(world.store().writer())
        .await
        .expect("changes");
    assert_eq!(
        world
            .patch(&path, json!({"greetingText": null}))
            .await
            .status,
        200
    );
    assert_eq!(
        world
            .patch(&path, json!({"greetingText": "Selamat pagi"}))
            .await
            .fields(),
        ["greetingText too_large"]
    );
}

#[rstest]
#[actix_web::test]
async fn all_agents_of_a_tenant_have_their_bound(#[values(Sqlite, Postgres)] store: StoreKind) {
    let settings = ApiSettings {
        agents: AgentLimits {
            enterprise_configuration_bytes: 300_000,
            ..AgentLimits::default()
        },
        ..ApiSettings::default()
    };
    let world = world!(store, settings);
    let draft = |prompt: usize| json!({"name": "A", "systemPrompt": "s".repeat(prompt)});
    let mut made = Vec::new();
    loop {
        let reply = world.post("/agents", draft(30_000)).await;
        if reply.status != 201 {
            assert_eq!(reply.fields(), ["systemPrompt too_large"]);
            assert!(reply.text.contains("300000"), "{}", reply.text);
            break;
        }
        made.push(reply.id());
    }
    assert_eq!(made.len(), 9);
    assert_eq!(
        world.delete(&format!("/agents/{}", made[0])).await.status,
        204
    );
    assert_eq!(world.post("/agents", draft(30_000)).await.status, 201);
    // Each tenant's weight counts on its own.
    let key = world.theirs.key.as_str();
    let headers = [("x-api-key", key), ("content-type", "application/json")];
    let body = draft(30_000).to_string().into_bytes();
    let theirs = world.send(
        &actix_web::http::Method::POST,
        "/api/v1/agents",
        &headers,
        body,
    );
    assert_eq!(theirs.await.status, 201);
}
