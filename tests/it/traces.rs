//! A trace begun by a bridge or a tenant continues to functions and webhooks, and appears in the log.

use crate::support::{bridge::post_raw, prelude::*, world::HOOK};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const OTHER: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "00f067aa0ba902b7";

fn traceparent(trace: &str) -> String {
    format!("00-{trace}-{PARENT}-01")
}

/// The trace of a request; each request has its own span id.
#[track_caller]
fn trace_of(request: &ReceivedRequest) -> Option<String> {
    let sent = request.headers.get("traceparent")?;
    let parts: Vec<&str> = sent.split('-').collect();
    let [version, trace, parent, flags] = parts[..] else {
        panic!("{sent}");
    };
    assert_eq!((version, parent.len(), flags), ("00", 16, "01"), "{sent}");
    assert_ne!(parent, PARENT);
    Some(trace.to_owned())
}

/// The log lines with this message about a call or a request.
fn lines(world: &TestWorld, message: &str, field: &str, id: &str) -> Vec<Value> {
    let log = world.server.log();
    let lines = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines
        .filter(|line| line["message"] == message && line[field] == id)
        .collect()
}

#[rstest]
#[actix_web::test]
async fn the_trace_of_a_call_reaches_its_functions_and_webhooks_also_after_a_kill(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let setup = WorldSetup::new().set("webhooks.retry_schedule_seconds", "1,1,1,1,1,1");
    let mut world = world!(store, setup);
    let tenant = &world.tenant;
    let endpoint = world.receiver.url("/function");
    tenant
        .create_function("find_order", "POST", &endpoint)
        .await;
    world
        .receiver
        .answer("/function", [ServerAnswer::Json(json!({"stock": 3}))]);
    // All first attempts fail, so that later ones, after the kill, come from the table.
    world.receiver.answer(HOOK, [ServerAnswer::Status(503)]);
    let bridge = tenant.bridge(Socket).await;
    let incoming = json!({
        "did": tenant.did, "callerNumber": "+628123", "bridgeCallId": "traced", "traceparent": traceparent(TRACE),
    });
    let call = bridge.ok("call.incoming", incoming).await["callId"]
        .as_str()
        .unwrap()
        .to_owned();
    bridge.ok("call.answered", json!({"callId": call})).await;
    let invoke = |id: &str, trace: Value| json!({"callId": call, "name": "find_order", "parameters": {"orderId": "7"}, "invocationId": id, "traceparent": trace});
    bridge.ok("call.function", invoke("i1", Value::Null)).await;
    bridge
        .ok("call.function", invoke("i2", json!(traceparent(OTHER))))
        .await;
    let called = world.receiver.wait_for("/function", 2).await;
    let traces: Vec<_> = called.iter().map(trace_of).collect();
    assert_eq!(traces, [Some(TRACE.to_owned()), Some(OTHER.to_owned())]);
    world.receiver.wait_for(HOOK, 2).await;

    world.server.kill9();
    bridge.cut();
    let before = world.receiver.received(HOOK).len();
    world.receiver.answer(HOOK, [ServerAnswer::Status(204)]);
    world.server.restart();
    let bridge = world.tenant.bridge(Socket).await;
    bridge.hang_up(&call).await;
    world.event("call.ended", &call).await;
    let received = world.receiver.wait_for(HOOK, before + 3).await;
    for request in &received {
        assert_eq!(trace_of(request).as_deref(), Some(TRACE), "{request:?}");
    }
    for message in ["call taken", "call answered", "call over"] {
        let lines = lines(&world, message, "call", &call);
        let found: Vec<&Value> = lines.iter().map(|line| &line["trace_id"]).collect();
        assert_eq!(found, [TRACE], "{message}");
    }
}

#[actix_web::test]
async fn a_request_hands_its_trace_on() {
    let world = world!(Postgres);
    let tenant = &world.tenant;
    let api = Rest::new(&format!("{}/api/v1", world.server.http))
        .with("x-api-key", &tenant.key)
        .with("x-request-id", "traced")
        .with("traceparent", &traceparent(TRACE));
    let webhooks = api.get("/webhooks").await.expect(200);
    let webhook = webhooks["webhooks"][0]["id"].as_str().unwrap();
    api.post(&format!("/webhooks/{webhook}/test"), json!({}))
        .await;
    let sample = world.receiver.wait_for(HOOK, 1).await;
    assert_eq!(trace_of(&sample[0]).as_deref(), Some(TRACE));
    let lines = lines(&world, "request", "request_id", "traced");
    assert!(lines.len() >= 2);
    assert!(lines.iter().all(|line| line["trace_id"] == TRACE));
}

/// Over HTTP the request's trace applies to its messages without a trace. An invalid trace is ignored.
#[rstest]
#[case::of_the_request(json!(null), Some(TRACE))]
#[case::of_the_message(json!(format!("00-{OTHER}-{PARENT}-01")), Some(OTHER))]
#[case::no_text(json!(7), Some(TRACE))]
#[case::not_valid(json!("00-0-0-0"), Some(TRACE))]
#[actix_web::test]
async fn a_message_over_http_is_part_of_a_trace(
    #[case] named: Value,
    #[case] expected: Option<&str>,
) {
    let world = world!(Sqlite);
    let tenant = &world.tenant;
    let bearer = format!("Bearer {}", tenant.token);
    let message = json!({
        "id": "1", "type": "call.incoming", "did": tenant.did, "callerNumber": "+628123", "bridgeCallId": "traced", "traceparent": named,
    });
    let bridge = Rest::new(&world.server.http)
        .with("authorization", &bearer)
        .with("traceparent", &traceparent(TRACE));
    let answer = bridge
        .post("/bridge/v1/messages", json!({"messages": [message]}))
        .await
        .expect(200);
    assert_eq!(answer["replies"][0]["ok"], true, "{answer}");
    let started = world.receiver.wait_for(HOOK, 1).await;
    assert_eq!(trace_of(&started[0]).as_deref(), expected);
}

/// A request without a trace starts none: tenants' own tracing stays theirs.
#[actix_web::test]
async fn without_a_trace_none_is_sent() {
    let world = world!(Sqlite);
    let tenant = &world.tenant;
    let message = json!({
        "id": "1", "type": "call.incoming", "did": tenant.did, "callerNumber": "+628123", "bridgeCallId": "plain",
    });
    let bearer = format!("Bearer {}", tenant.token);
    let answer = post_raw(
        &world.server.http,
        Some(&bearer),
        json!({"messages": [message]}),
    )
    .await;
    answer.expect(200);
    let started = world.receiver.wait_for(HOOK, 1).await;
    assert_eq!(trace_of(&started[0]), None);
}
