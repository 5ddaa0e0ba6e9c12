//! Edge cases of the bridge protocol: invalid tokens, invalid messages, order, repetitions.

use awc::ws::{CloseCode, Message};

use crate::support::{
    bridge::{BridgeSocketEnd, post_raw},
    prelude::*,
    tenant::text,
};

#[actix_web::test]
async fn only_a_bridges_token_opens_the_door() {
    let world = shared_world!(Sqlite);
    let base = &world.server.http;
    let created = world.server.cli(&["bridge", "create", "--name", "old"]);
    let revoked = text(&created, "token");
    TestBridge::open(base, &revoked, Http)
        .await
        .ok("heartbeat", json!({}))
        .await;
    world
        .server
        .cli(&["bridge", "revoke", &text(&created, "id")]);
    let heartbeat = json!({"messages": [{"id": "1", "type": "heartbeat"}]});
    eventually("the revoked token to be refused", async || {
        let answer = post_raw(base, Some(&format!("Bearer {revoked}")), heartbeat.clone()).await;
        (answer.status == 401).then_some(())
    })
    .await;

    let good = &world.tenant.token;
    let other = if good.ends_with('x') { 'y' } else { 'x' };
    let mistyped = format!("{}{other}", &good[..good.len() - 1]);
    for authorization in [
        None,
        Some(String::new()),
        Some("Bearer".to_owned()),
        Some(format!("Basic {good}")),
        Some(format!("Bearer {}", world.tenant.key)),
        Some(format!("Bearer {mistyped}")),
        Some(format!("Bearer {good}{good}")),
        Some(format!("Bearer {revoked}")),
    ] {
        let answer = post_raw(base, authorization.as_deref(), heartbeat.clone()).await;
        assert_eq!(answer.status, 401, "{authorization:?}");
        assert!(answer.body["error"]["code"].is_string(), "{}", answer.text);
    }
    for token in [None, Some(&*mistyped), Some(&revoked), Some("dkb_")] {
        let refused = TestBridge::socket(base, token).await.map(drop).unwrap_err();
        assert_eq!(refused.as_u16(), 401, "{token:?}");
    }
    assert!(TestBridge::socket(base, Some(good)).await.is_ok());
}

/// Invalid messages, and the error codes of which one must be answered. `$call` stands for an active call, `$did`
/// for its number.
fn wrong_messages() -> Vec<(&'static str, Value, &'static str)> {
    let long = |length: usize| "x".repeat(length);
    let incoming = |changes: Value| {
        let mut message = json!({"bridgeCallId": "b", "did": "$did", "callerNumber": "+6281"});
        message
            .as_object_mut()
            .unwrap()
            .extend(changes.as_object().unwrap().clone());
        message
    };
    let call = |changes: Value| {
        let mut message = json!({"callId": "$call"});
        message
            .as_object_mut()
            .unwrap()
            .extend(changes.as_object().unwrap().clone());
        message
    };
    let turns = vec![json!({"role": "agent", "text": "a"}); 2_001];
    let of_nobody = "call_01k9zzzzzzzzzzzzzzzzzzzzzz";
    vec![
        ("call.imagined", json!({}), "unknown_type"),
        ("call.incoming", json!({}), "invalid_message"),
        (
            "call.incoming",
            incoming(json!({"did": "+1999999999"})),
            "unknown_number",
        ),
        (
            "call.incoming",
            incoming(json!({"did": "0811"})),
            "invalid_message unknown_number",
        ),
        (
            "call.incoming",
            incoming(json!({"did": 62811})),
            "invalid_message",
        ),
        (
            "call.incoming",
            incoming(json!({"bridgeCallId": ""})),
            "invalid_message",
        ),
        (
            "call.incoming",
            incoming(json!({"bridgeCallId": long(129)})),
            "invalid_message",
        ),
        (
            "call.incoming",
            incoming(json!({"callerNumber": ""})),
            "invalid_message",
        ),
        (
            "call.incoming",
            incoming(json!({"callerNumber": long(65)})),
            "invalid_message",
        ),
        (
            "call.incoming",
            incoming(json!({"callerNumber": "a\u{0}b"})),
            "invalid_message",
        ),
        (
            "call.incoming",
            incoming(json!({"metadata": []})),
            "invalid_message",
        ),
        (
            "call.incoming",
            incoming(json!({"metadata": {"x": long(17 << 10)}})),
            "invalid_message too_large",
        ),
        (
            "call.incoming",
            incoming(json!({"at": "yesterday"})),
            "invalid_message",
        ),
        (
            "call.incoming",
            incoming(json!({"at": 1_700_000_000})),
            "invalid_message",
        ),
        ("call.answered", json!({}), "invalid_message"),
        ("call.answered", json!({"callId": 7}), "invalid_message"),
        (
            "call.answered",
            json!({"callId": of_nobody}),
            "unknown_call",
        ),
        (
            "call.answered",
            json!({"callId": "nonsense"}),
            "unknown_call invalid_message",
        ),
        (
            "call.hangup",
            call(json!({"reason": "bored"})),
            "invalid_message",
        ),
        (
            "call.hangup",
            call(json!({"initiator": "tenant"})),
            "invalid_message",
        ),
        (
            "call.hangup",
            call(json!({"aiCostIdr": -1})),
            "invalid_message",
        ),
        (
            "call.hangup",
            call(json!({"aiCostIdr": 1.5})),
            "invalid_message",
        ),
        (
            "call.hangup",
            call(json!({"aiCostIdr": "5"})),
            "invalid_message",
        ),
        (
            "call.failed",
            call(json!({"detail": long(501)})),
            "invalid_message too_large",
        ),
        ("call.transcript", call(json!({})), "invalid_message"),
        (
            "call.transcript",
            call(json!({"summary": long(16_001)})),
            "invalid_message too_large",
        ),
        (
            "call.transcript",
            call(json!({"summary": "", "turns": turns})),
            "invalid_message too_large",
        ),
        (
            "call.transcript",
            call(json!({"summary": "a", "turns": [{"role": "robot", "text": "b"}]})),
            "invalid_message",
        ),
        (
            "call.function",
            call(json!({"invocationId": long(65), "name": "f", "parameters": {}})),
            "invalid_message",
        ),
        (
            "call.function",
            call(json!({"invocationId": "i", "name": "f", "parameters": [1]})),
            "invalid_message",
        ),
        (
            "heartbeat",
            json!({"activeCalls": "all"}),
            "invalid_message",
        ),
        ("heartbeat", json!({"activeCalls": [1]}), "invalid_message"),
    ]
}

#[rstest]
#[actix_web::test]
async fn a_wrong_message_is_named_and_does_nothing(
    #[values(Socket, Http)] transport: BridgeTransport,
) {
    let world = shared_world!(Sqlite);
    let tenant = &world.tenant;
    let bridge = tenant.bridge(transport).await;
    let live = bridge.talk(&tenant.did).await;
    let before = tenant.call(&live).await;
    for (kind, mut fields, codes) in wrong_messages() {
        for (place, value) in [("callId", &live), ("did", &tenant.did)] {
            if fields[place] == "$call" || fields[place] == "$did" {
                fields[place] = json!(value);
            }
        }
        if let Value::Object(fields) = &mut fields {
            fields.retain(|_, value| !value.is_null());
        }
        let error = bridge.refused(kind, fields).await;
        let code = text(&error, "code");
        assert!(
            codes.split(' ').any(|one| one == code),
            "{kind} is {codes}: {error}"
        );
    }
    assert_eq!(tenant.call(&live).await, before);
    assert_eq!(tenant.calls().await.len(), 1);
    bridge.hang_up(&live).await;
}

#[actix_web::test]
async fn a_frame_that_cannot_be_answered_closes_its_socket_only() {
    let world = shared_world!(Sqlite);
    let tenant = &world.tenant;
    let calm = tenant.bridge(Socket).await;
    let call = calm.talk(&tenant.did).await;
    let text = |text: &str| Message::Text(text.to_owned().into());
    let big = json!({"type": "heartbeat", "x": "y".repeat(300 << 10)}).to_string();
    let huge = json!({"id": "1", "type": "heartbeat", "x": "y".repeat(2 << 20)}).to_string();
    for (frame, code) in [
        (text("hello"), CloseCode::Policy),
        (text(""), CloseCode::Policy),
        (text("[]"), CloseCode::Policy),
        (text("null"), CloseCode::Policy),
        (text(r#"{"type":"heartbeat"}"#), CloseCode::Policy),
        (text(r#"{"id":7,"type":"heartbeat"}"#), CloseCode::Policy),
        (text(&"[".repeat(100_000)), CloseCode::Policy),
        (
            Message::Binary(vec![0, 159, 146, 150].into()),
            CloseCode::Policy,
        ),
        (text(&big), CloseCode::Size),
        (text(&huge), CloseCode::Size),
    ] {
        let wild = tenant.bridge(Socket).await;
        wild.ok("heartbeat", json!({})).await;
        wild.frame(frame);
        assert_eq!(wild.closed().await, BridgeSocketEnd(Some(code)));
    }
    // A message with a readable id is answered, and its socket stays open.
    calm.frame(text(r#"{"id":"readable"}"#));
    let reply = calm
        .stray_reply(|reply| reply["replyTo"] == "readable")
        .await;
    assert_eq!(reply["error"]["code"], "invalid_message", "{reply}");
    let large = json!({"id": "large", "type": "heartbeat", "x": "y".repeat(300 << 10)}).to_string();
    calm.frame(text(&large));
    let reply = calm.stray_reply(|reply| reply["replyTo"] == "large").await;
    assert_eq!(reply["error"]["code"], "too_large", "{reply}");
    calm.hang_up(&call).await;
}

#[actix_web::test]
async fn a_post_has_one_to_a_hundred_messages() {
    let world = shared_world!(Sqlite);
    let token = format!("Bearer {}", world.tenant.token);
    let heartbeats = |count: usize| -> Vec<_> {
        (0..count)
            .map(|i| json!({"id": i.to_string(), "type": "heartbeat"}))
            .collect()
    };
    for (body, fits) in [
        (json!({"messages": heartbeats(1)}), true),
        (json!({"messages": heartbeats(100)}), true),
        (json!({"messages": heartbeats(101)}), false),
        (json!({"messages": []}), false),
        (json!({"messages": {}}), false),
        (json!({}), false),
        (json!([]), false),
        (
            json!({"messages": [{"id": "1", "type": "heartbeat", "x": "y".repeat(300 << 10)}]}),
            false,
        ),
    ] {
        let answer = post_raw(&world.server.http, Some(&token), body.clone()).await;
        let shown = body.to_string();
        let shown = &shown[..shown.len().min(60)];
        assert_eq!(answer.status == 200, fits, "{shown}: {}", answer.text);
        assert!(answer.status < 500, "{shown}: {}", answer.text);
        if fits {
            let replies = answer.body["replies"].as_array().unwrap();
            assert_eq!(replies.len(), body["messages"].as_array().unwrap().len());
            assert!(answer.body["commands"].is_array());
        }
    }
}

#[rstest]
#[actix_web::test]
async fn replies_come_in_the_order_of_the_messages(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = shared_world!(store);
    let tenant = &world.tenant;
    let receiver = &world.receiver;
    receiver.answer("/slow", [ServerAnswer::Slow(Duration::from_millis(700))]);
    tenant
        .create_function("slow", "POST", &receiver.url("/slow"))
        .await;
    let (http, socket) = (tenant.bridge(Http).await, tenant.bridge(Socket).await);
    let (one, other) = (http.ring(&tenant.did).await, http.ring(&tenant.did).await);
    let of = |call: &str| json!({"callId": call});
    let batch = [
        http.message("call.answered", of(&one)),
        http.message("heartbeat", json!({})),
        http.message("call.answered", of(&other)),
        http.message(
            "call.function",
            json!({"callId": one, "invocationId": "1", "name": "slow", "parameters": {"orderId": ""}}),
        ),
        http.message("call.imagined", json!({})),
        http.message("call.hangup", of(&other)),
        http.message("call.answered", of(&other)),
    ];
    let answer = http.post(&batch).await;
    let replies = answer["replies"].as_array().unwrap();
    for (message, reply) in batch.iter().zip(replies) {
        assert_eq!(message["id"], reply["replyTo"]);
    }
    let oks: Vec<_> = replies.iter().map(|reply| reply["ok"] == true).collect();
    assert_eq!(
        oks,
        [true, true, true, true, false, true, false],
        "{answer}"
    );
    assert_eq!(tenant.call(&one).await["status"], "answered");

    // Pipelined messages are answered in order per call, invalid ones included.
    let mut calls = Vec::new();
    for _ in 0..10 {
        calls.push(socket.ring(&tenant.did).await);
    }
    let mut sent: Vec<Vec<String>> = vec![Vec::new(); calls.len()];
    let mut waiting = Vec::new();
    for (kind, good) in [
        ("call.answered", true),
        ("call.transcript", false),
        ("call.answered", true),
        ("call.imagined", false),
        ("call.hangup", true),
    ] {
        for (call, sent) in calls.iter().zip(&mut sent) {
            let message = socket.message(kind, of(call));
            sent.push(text(&message, "id"));
            waiting.push((good, socket.begin(&message)));
        }
    }
    let twice = json!({"bridgeCallId": "twice", "did": tenant.did, "callerNumber": "+6281"});
    let half = json!({"bridgeCallId": "twice"});
    let opening = [(true, twice), (false, half)].map(|(good, fields)| {
        let message = socket.message("call.incoming", fields);
        waiting.push((good, socket.begin(&message)));
        text(&message, "id")
    });
    sent.push(opening.to_vec());
    for (good, reply) in waiting {
        assert_eq!(reply.reply().await["ok"], good);
    }
    let order = socket.reply_order();
    for sent in sent {
        let came: Vec<_> = order.iter().filter(|id| sent.contains(id)).collect();
        assert_eq!(came, sent.iter().collect::<Vec<_>>());
    }
}

#[rstest]
#[actix_web::test]
async fn a_bridge_touches_only_its_own_calls(
    #[values(Sqlite, Postgres)] store: StoreKind,
    #[values(Socket, Http)] transport: BridgeTransport,
) {
    let world = shared_world!(store);
    let tenant = &world.tenant;
    let mine = tenant.bridge(transport).await;
    let token = text(
        &world.server.cli(&["bridge", "create", "--name", "other"]),
        "token",
    );
    let stranger = TestBridge::open(&world.server.http, &token, transport).await;
    let id = mine.ring(&tenant.did).await;
    let before = tenant.call(&id).await;
    for (kind, fields) in [
        ("call.answered", json!({"callId": id})),
        ("call.transcript", json!({"callId": id, "summary": "x"})),
        ("call.hangup", json!({"callId": id})),
        ("call.failed", json!({"callId": id})),
        (
            "call.function",
            json!({"callId": id, "invocationId": "i", "name": "f", "parameters": {}}),
        ),
    ] {
        assert_eq!(
            stranger.refused(kind, fields).await["code"],
            "unknown_call",
            "{kind}"
        );
    }
    stranger.ok("heartbeat", json!({"activeCalls": []})).await;
    assert_eq!(tenant.call(&id).await, before);
    // Bridge call ids are scoped to their bridge.
    let incoming = json!({"bridgeCallId": "same", "did": tenant.did, "callerNumber": "+6281"});
    let ours = mine.ok("call.incoming", incoming.clone()).await;
    let theirs = stranger.ok("call.incoming", incoming).await;
    assert_ne!(ours["callId"], theirs["callId"]);
}

#[rstest]
#[actix_web::test]
async fn a_hundred_pipelined_calls_are_a_hundred_calls(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = shared_world!(store);
    let tenant = &world.tenant;
    let bridge = tenant.bridge(Socket).await;
    let incoming: Vec<_> = (0..100)
        .map(|i| {
            let fields = json!({
                "bridgeCallId": format!("p{i}"), "did": tenant.did, "callerNumber": "+6281",
            });
            bridge.message("call.incoming", fields)
        })
        .collect();
    // Each message is sent twice at once; both get the same reply.
    let waiting: Vec<_> = incoming
        .iter()
        .map(|message| bridge.begin(message))
        .collect();
    let other = tenant.bridge(Http).await;
    let repeated = other.post(&incoming).await;
    let mut calls = Vec::new();
    for (waiting, repeat) in waiting
        .into_iter()
        .zip(repeated["replies"].as_array().unwrap())
    {
        let reply = waiting.reply().await;
        assert_eq!(reply, *repeat);
        calls.push(text(&reply, "callId"));
    }
    assert_eq!(tenant.calls().await.len(), 100);
    let reply = bridge.ok("heartbeat", json!({"activeCalls": []})).await;
    assert_eq!(reply["ended"], json!([]));
    for id in &calls {
        assert_eq!(tenant.call_over(id).await["hangupReason"], "bridge_lost");
    }
    assert_eq!(tenant.credits().await, (1_000, 1_000, 0));
    world.assert_ledger_is_exact();
}
