//! The data of the console's pages as JSON: functions, routes, lanes, oldest holds.

use dikala_testkit::free_port;

use super::{console::signed_in, *};
use crate::support::tenant::text;

/// The rows with this value in a field.
fn with_field<'v>(list: &'v Value, field: &str, wanted: &str) -> Vec<&'v Value> {
    let rows = list.as_array().unwrap().iter();
    rows.filter(|row| row[field] == wanted).collect()
}

#[actix_web::test]
async fn functions_are_told_by_tenant_agent_and_name() {
    let world = world!(Sqlite, guarded());
    let (tenant, api) = (&world.tenant, with(&world.server, READ));
    world
        .receiver
        .answer("/hush-hush", [ServerAnswer::Status(500)]);
    let failing = world.receiver.url("/hush-hush");
    let stock = ServerAnswer::Json(json!({"stock": 3}));
    world.receiver.answer("/works", [stock]);
    tenant.create_function("fails", "POST", &failing).await;
    let works = world.receiver.url("/works");
    tenant.create_function("works", "POST", &works).await;
    assert_eq!(
        api.get("/functions").await.expect(200)["functions"],
        json!([])
    );

    let bridge = tenant.bridge(Http).await;
    let call = bridge.talk(&tenant.did).await;
    for (n, name) in ["works", "fails", "works"].iter().enumerate() {
        let fields = json!({"callId": call, "invocationId": format!("i{n}"), "name": name, "parameters": {"orderId": "A-1"}});
        bridge.ok("call.function", fields).await;
    }
    let shown = api.get("/functions?sort=errors").await.expect(200);
    let shown = &shown["functions"];
    let [first, second] = &shown.as_array().unwrap()[..] else {
        panic!("{shown}");
    };
    for (of, name, calls, failed) in [(first, "fails", 1, 1), (second, "works", 2, 0)] {
        assert_eq!(of["name"], name);
        assert_eq!(
            [&of["calls"], &of["failed"]],
            [&json!(calls), &json!(failed)]
        );
        assert_eq!(of["lastMinute"], calls);
        assert_eq!(of["failedInLastMinute"], failed);
        assert_eq!(of["tenantId"], tenant.id);
        assert_eq!(of["agentId"], tenant.agent);
        assert_eq!(of["circuit"]["state"], "closed");
        let [half, most] = ["p50", "p99"].map(|part| of["timesUs"][part].as_u64().unwrap());
        assert!(half <= most, "{of}");
    }
    assert_eq!(first["lastFault"], "http_status");
    assert!(first["lastFaultAt"].is_string() && second["lastFault"].is_null());
    // Addresses may contain tokens.
    assert!(!shown.to_string().contains("hush-hush"), "{shown}");

    let count = async |query: &str| {
        let found = api.get(&format!("/functions?{query}")).await.expect(200);
        found["functions"].as_array().unwrap().len()
    };
    let other = world.another_tenant(10).await;
    assert_eq!(count(&format!("tenantId={}", tenant.id)).await, 2);
    assert_eq!(count(&format!("tenantId={}", other.id)).await, 0);
    assert_eq!(
        count(&format!("agentId={}&name=works", tenant.agent)).await,
        1
    );
    assert_eq!(count("limit=1&offset=1").await, 1);
    let wrong = api.get("/functions?sort=best").await.expect(422);
    assert_eq!(wrong["error"]["fields"][0]["code"], "not_allowed");
    bridge.hang_up(&call).await;
}

/// In the API, and on both pages of the console.
#[actix_web::test]
async fn handlers_that_answer_with_an_error_are_counted() {
    let world = world!(Sqlite, guarded());
    let (tenant, api) = (&world.tenant, with(&world.server, READ));
    let answers = [
        ServerAnswer::Status(500),
        ServerAnswer::Json(json!({"stock": 3})),
    ];
    world.receiver.answer("/moody", answers);
    let url = world.receiver.url("/moody");
    tenant.create_function("moody", "POST", &url).await;
    let bridge = tenant.bridge(Http).await;
    let call = bridge.talk(&tenant.did).await;
    for n in 0..2 {
        let fields = json!({"callId": call, "invocationId": format!("i{n}"), "name": "moody", "parameters": {"orderId": "A-1"}});
        bridge.ok("call.function", fields).await;
    }
    let invoker = api.get("/actors/function_invoker").await.expect(200);
    let [permitted] = &with_field(&invoker["messages"], "message", "Permitted")[..] else {
        panic!("{invoker}");
    };
    let counted = |of: &Value| (of["handled"].as_i64(), of["errors"].as_i64());
    assert_eq!(counted(permitted), (Some(2), Some(1)), "{invoker}");
    assert_eq!(invoker["errors"], 1);
    let all = api.get("/actors").await.expect(200);
    let [listed] = &with_field(&all["actors"], "type", "function_invoker")[..] else {
        panic!("{all}");
    };
    assert_eq!(listed["errors"], 1);
    for actor in all["actors"].as_array().unwrap() {
        let [now, highest] = ["mailbox", "mailboxHighest"].map(|key| actor[key].as_i64());
        assert!(Some(0) <= now && now <= highest, "{actor}");
    }
    let browser = signed_in(&world.server, READ).await;
    let listed = browser.open("/actors").await;
    let row = listed
        .html
        .split("<tr")
        .find(|row| row.contains("/actors/function_invoker"));
    assert!(
        row.is_some_and(|row| row.contains("data-column=\"Errors\">1<")),
        "{row:?}"
    );
    let page = browser.open("/actors/function_invoker").await;
    assert!(
        page.html.contains("<dt>Errors</dt><dd>1</dd>"),
        "{}",
        page.html
    );
    bridge.hang_up(&call).await;
}

/// After five consecutive calls without an answer the sixth is not sent, and the function is listed first.
#[actix_web::test]
async fn a_function_that_is_left_alone_comes_first() {
    let world = world!(Sqlite, guarded());
    let (tenant, api) = (&world.tenant, with(&world.server, READ));
    // A port at which nothing listens.
    let nobody = format!("http://127.0.0.1:{}/nobody", free_port());
    tenant.create_function("nobody", "POST", &nobody).await;
    let bridge = tenant.bridge(Http).await;
    let call = bridge.talk(&tenant.did).await;
    for n in 0..6 {
        let fields = json!({"callId": call, "invocationId": format!("i{n}"), "name": "nobody", "parameters": {"orderId": "A-1"}});
        bridge.ok("call.function", fields).await;
    }
    let shown = api.get("/functions").await.expect(200);
    let first = &shown["functions"][0];
    assert_eq!(first["circuit"]["state"], "open", "{shown}");
    assert!(first["circuit"]["retryAt"].is_string());
    assert_eq!([&first["calls"], &first["failed"]], [6, 6]);
    assert_eq!(first["lastFault"], "circuit_open");
    bridge.hang_up(&call).await;
}

#[actix_web::test]
async fn routes_are_told_by_how_often_and_how_they_were_asked_for() {
    let world = world!(Sqlite, guarded());
    let (tenant, api) = (&world.tenant, with(&world.server, READ));
    for _ in 0..3 {
        tenant.api.get("/agents").await.expect(200);
    }
    let nowhere = nobody("agent");
    tenant
        .api
        .get(&format!("/agents/{nowhere}"))
        .await
        .expect(404);
    let shown = api.get("/http?limit=100").await.expect(200);
    let of = |route: &str| {
        let found = with_field(&shown["routes"], "route", route);
        let found = found.into_iter().find(|row| row["method"] == "GET");
        found
            .unwrap_or_else(|| panic!("no {route} in {shown}"))
            .clone()
    };
    let agents = of("/api/v1/agents");
    assert_eq!(
        (agents["requests"].as_i64(), agents["lastMinute"].as_i64()),
        (Some(3), Some(3))
    );
    let one = of("/api/v1/agents/{id}");
    assert_eq!(
        (&one["clientErrors"], &one["serverErrors"]),
        (&json!(1), &json!(0))
    );
    assert!(one["timesUs"]["p99"].as_u64() > Some(0), "{one}");
    assert!(!shown.to_string().contains(&nowhere), "a path is in it");
    // The pages contain the same routes, each once.
    let mut seen = Vec::new();
    for offset in (0..).step_by(2) {
        let page = api
            .get(&format!("/http?limit=2&offset={offset}&sort=p99"))
            .await
            .expect(200);
        seen.extend(
            page["routes"]
                .as_array()
                .unwrap()
                .iter()
                .map(|row| format!("{} {}", row["method"], row["route"])),
        );
        if page["hasMore"] == false {
            break;
        }
    }
    assert!(seen.len() >= shown["routes"].as_array().unwrap().len());
}

#[rstest]
#[actix_web::test]
async fn webhooks_tell_what_is_due_and_what_was_answered_last(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let setup = guarded().set("webhooks.retry_schedule_seconds", "3600");
    let world = world!(store, setup);
    let (tenant, api) = (&world.tenant, with(&world.server, FULL));
    world
        .receiver
        .answer("/dead", vec![ServerAnswer::Status(503); 100]);
    let events = ["call.started", "call.answered", "call.ended"];
    let dead = tenant
        .subscribe(&world.receiver.url("/dead"), &events, SECRET)
        .await;
    let quiet = tenant
        .subscribe(&world.receiver.url("/quiet"), &["credits.low"], SECRET)
        .await;
    let bridge = tenant.bridge(Http).await;
    for _ in 0..6 {
        let call = bridge.talk(&tenant.did).await;
        bridge.hang_up(&call).await;
    }
    let of = async |id: &str| {
        let listed = api.get("/webhooks").await.expect(200);
        let found = with_field(&listed["webhooks"], "id", id);
        found[0].clone()
    };
    let shown = eventually("the circuit to open", async || {
        let shown = of(&dead).await;
        (shown["lane"]["state"] == "open" && shown["due"].as_i64() > Some(0)).then_some(shown)
    })
    .await;
    assert!(shown["oldestDueAt"].is_string(), "{shown}");
    assert!(shown["lane"]["inFlight"].is_u64() && shown["lane"]["waiting"].is_u64());
    let last = &shown["lastAnswer"];
    assert_eq!(
        (&last["statusCode"], &last["error"]),
        (&json!(503), &Value::Null)
    );
    assert!(
        last["at"].is_string() && last["durationMs"].is_i64(),
        "{last}"
    );

    let never = of(&quiet).await;
    for nothing in ["lane", "lastAnswer", "oldestDueAt"] {
        assert_eq!(never[nothing], Value::Null, "{never}");
    }
    assert_eq!(never["due"], 0);
    // A paused lane says so, and still shows what is due.
    api.post(&format!("/webhooks/{dead}/pause"), json!({}))
        .await
        .expect(200);
    let paused = eventually("the lane to stand still", async || {
        let shown = of(&dead).await;
        let lane = &shown["lane"];
        (lane.is_null() || lane["state"] == "paused").then_some(shown)
    })
    .await;
    assert!(paused["due"].as_i64() > Some(0) && paused["pausedAt"].is_string());
}

#[rstest]
#[actix_web::test]
async fn the_ledger_tells_its_oldest_holds(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store, guarded());
    let (tenant, api) = (&world.tenant, with(&world.server, READ));
    let bridge = tenant.bridge(Http).await;
    let calls = [
        bridge.talk(&tenant.did).await,
        bridge.talk(&tenant.did).await,
    ];
    let ledger = api.get("/ledger").await.expect(200);
    let holds = ledger["oldestHolds"].as_array().unwrap();
    let told: Vec<String> = holds.iter().map(|hold| text(hold, "callId")).collect();
    assert_eq!(told, calls);
    assert_eq!(holds[0]["tenantId"], tenant.id);
    assert_eq!(
        [&ledger["openHolds"], &ledger["differences"]],
        [&json!(2), &json!(0)]
    );
    for call in &calls {
        bridge.hang_up(call).await;
    }
    let ledger = api.get("/ledger").await.expect(200);
    assert_eq!(ledger["oldestHolds"], json!([]));
}
