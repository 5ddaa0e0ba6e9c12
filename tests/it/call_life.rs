//! The life of a call, from the first ring to its cost.

use actix_web::rt;

use crate::support::{prelude::*, tenant::text};

fn names(events: &[&str]) -> Vec<String> {
    events.iter().map(|&event| event.to_owned()).collect()
}

#[rstest]
#[actix_web::test]
async fn a_call_runs_from_ring_to_invoice(
    #[values(Sqlite, Postgres)] store: StoreKind,
    #[values(Socket, Http)] transport: BridgeTransport,
) {
    let world = shared_world!(store, WorldSetup::new().minutes(100));
    let tenant = &world.tenant;
    let bridge = tenant.bridge(transport).await;
    let rang = Moment::ago(400);
    let (answered, ended) = (rang.plus(7), rang.plus(7 + 125));

    let reply = bridge
        .ok(
            "call.incoming",
            json!({
                "bridgeCallId": "sip-1", "did": tenant.did, "callerNumber": "+6281111111111",
                "at": rang.text(), "metadata": {"campaign": {"id": 7}},
            }),
        )
        .await;
    assert_eq!(reply["action"], "answer");
    assert_eq!(
        reply["agent"],
        json!({
            "id": tenant.agent, "name": "Sari", "systemPrompt": "Answer kindly.", "voiceId": null,
            "voiceProvider": null, "voiceName": null, "greetingText": null, "language": "id",
            "timeZone": "Asia/Jakarta", "maxCallDurationMinutes": 10, "escalationNumber": null,
            "conversation": {
                "reminderAfterSeconds": 10, "endAfterSilenceSeconds": 45, "fillers": "words",
                "interruptions": "fast", "maskKeys": false,
            },
            "tools": ["end_call"], "functions": [],
        })
    );
    let names = ["businessName", "numberLabel"].map(|name| &reply[name]);
    assert_eq!(json!(names), json!(["Toko", "Main"]));
    let id = text(&reply, "callId");
    assert!(id.starts_with("call_") && id.len() == 31, "{id}");
    let ringing = json!({
        "id": id, "phoneNumberId": tenant.number, "agentId": tenant.agent, "agentVersion": 1,
        "callerNumber": "+6281111111111", "calleeNumber": tenant.did, "channel": "phone",
        "direction": "inbound", "status": "ringing", "startedAt": rang.text(), "answeredAt": null, "joinedAt": null, "endedAt": null,
        "durationSeconds": null, "talkTimeSeconds": null, "hangupReason": null,
        "hangupInitiator": null, "transcriptSummary": null, "aiCostIdr": null, "voiceProvider": null,
        "draft": false, "turnLatencyMs": null, "stalls": null, "interruptions": null,
        "metadata": {"campaign": {"id": 7}},
    });
    assert_eq!(tenant.call(&id).await, ringing);
    // A hold does not lower the balance.
    assert_eq!(tenant.credits().await, (100, 100, 0));

    bridge
        .ok(
            "call.answered",
            json!({"callId": id, "at": answered.text()}),
        )
        .await;
    let mut expected = ringing;
    expected["status"] = json!("answered");
    expected["answeredAt"] = json!(answered.text());
    assert_eq!(tenant.call(&id).await, expected);

    let turns = json!([
        {"role": "agent", "text": "Halo!", "at": answered.text()},
        {"role": "caller", "text": "Pesanan saya di mana?"},
        {"role": "agent", "text": "Sebentar,", "latencyMs": 640, "interrupted": true},
        {"role": "agent", "text": "Besok.", "latencyMs": 1_210},
    ]);
    let transcript = json!({"callId": id, "summary": "Asked for an order.", "turns": turns});
    bridge.ok("call.transcript", transcript).await;
    let hangup = json!({
        "callId": id, "at": ended.text(), "initiator": "agent", "aiCostIdr": 950,
        "voiceProvider": "openai", "stalls": 2, "interruptions": 1,
    });
    bridge.ok("call.hangup", hangup).await;
    for (field, value) in [
        ("status", json!("ended")),
        ("endedAt", json!(ended.text())),
        ("durationSeconds", json!(132)),
        ("talkTimeSeconds", json!(125)),
        ("hangupReason", json!("normal")),
        ("hangupInitiator", json!("agent")),
        ("transcriptSummary", json!("Asked for an order.")),
        ("aiCostIdr", json!(950)),
        ("voiceProvider", json!("openai")),
        ("turnLatencyMs", json!({"p50": 640, "p95": 1_210})),
        ("stalls", json!(2)),
        ("interruptions", json!(1)),
    ] {
        expected[field] = value;
    }
    assert_eq!(tenant.call(&id).await, expected);
    let page = tenant.api.get("/calls").await.expect(200);
    assert_eq!(
        page,
        json!({"calls": [expected], "limit": 50, "offset": 0, "hasMore": false})
    );

    // 125 seconds are three minutes.
    assert_eq!(tenant.credits().await, (97, 100, 3));
    let transactions = tenant.transactions().await;
    assert_eq!(transactions.len(), 2, "{transactions:?}");
    let seen = ["type", "minutes", "balanceAfterMinutes", "callId"].map(|f| &transactions[0][f]);
    assert_eq!(json!(seen), json!(["usage", -3, 97, id]));
    let seen = [
        "type",
        "minutes",
        "balanceAfterMinutes",
        "callId",
        "reference",
    ];
    let seen = seen.map(|f| &transactions[1][f]);
    assert_eq!(json!(seen), json!(["purchase", 100, 100, null, "initial"]));

    let said = tenant.api.get(&format!("/calls/{id}/transcript")).await;
    assert_eq!(said.expect(200)["turns"], turns);
    announced_in_order(&world, &id, &expected).await;
    voice_is_counted_once(&world, &bridge, &id).await;
    world.assert_ledger_is_exact();
}

/// Asserts the statistics of the only call, also after a second transcript.
async fn voice_is_counted_once(world: &TestWorld, bridge: &TestBridge, id: &str) {
    let turns = json!([{"role": "agent", "text": "Besok.", "latencyMs": 90}]);
    let again = json!({"callId": id, "summary": "Asked for an order.", "turns": turns});
    bridge.ok("call.transcript", again).await;
    let call = world.tenant.call(id).await;
    assert_eq!(call["turnLatencyMs"], json!({"p50": 90, "p95": 90}));
    let stats = world.tenant.api.get("/calls/stats").await.expect(200);
    let figures = ["turnLatencyMs", "stalls", "interruptions"].map(|name| &stats["total"][name]);
    // Latencies are rounded up to the limits of their classes.
    assert_eq!(json!(figures), json!([{"p50": 700, "p95": 1_500}, 2, 1]));
}

/// Asserts that all events of the ended call arrived in order with their payloads. The receiver checks the
/// signatures.
async fn announced_in_order(world: &TestWorld, id: &str, call: &Value) {
    let kinds = world.kinds(id, "call.ended").await;
    let order = [
        "call.started",
        "call.answered",
        "call.transcript",
        "call.ended",
    ];
    assert_eq!(kinds, names(&order));

    let started = world.event("call.started", id).await;
    assert_eq!(started.timestamp, text(call, "startedAt"));
    for (payload, of_call) in [
        ("callId", "id"),
        ("phoneNumberId", "phoneNumberId"),
        ("callerNumber", "callerNumber"),
        ("did", "calleeNumber"),
    ] {
        assert_eq!(started.data[payload], call[of_call], "{payload}");
    }
    let answered = world.event("call.answered", id).await;
    assert_eq!(answered.data["agentId"], call["agentId"]);
    Moment::parse(&answered.data["startedAt"]);
    let transcript = world.event("call.transcript", id).await;
    assert_eq!(
        transcript.data["transcriptSummary"],
        call["transcriptSummary"]
    );
    let ended = world.event("call.ended", id).await;
    assert_eq!(ended.timestamp, text(call, "endedAt"));
    for field in [
        "phoneNumberId",
        "callerNumber",
        "calleeNumber",
        "durationSeconds",
        "talkTimeSeconds",
        "hangupReason",
        "hangupInitiator",
        "transcriptSummary",
        "aiCostIdr",
        "voiceProvider",
    ] {
        assert_eq!(ended.data[field], call[field], "{field}");
    }
}

#[rstest]
#[actix_web::test]
async fn the_api_shows_what_a_call_announced(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = shared_world!(store);
    let bridge = world.tenant.bridge(Http).await;
    let call = bridge.talk(&world.tenant.did).await;
    let turns = json!([{"role": "tool", "text": "{}"}, {"role": "caller", "text": "Ya"}]);
    bridge
        .ok(
            "call.transcript",
            json!({"callId": call, "summary": "Short.", "turns": turns}),
        )
        .await;
    bridge.hang_up(&call).await;

    world.event("call.ended", &call).await;
    let shown = world
        .tenant
        .api
        .get(&format!("/calls/{call}/events"))
        .await
        .expect(200);
    let delivered = world.receiver.events("/hook", SECRET);
    assert_eq!(shown["events"].as_array().unwrap().len(), delivered.len());
    for (shown, delivered) in shown["events"].as_array().unwrap().iter().zip(&delivered) {
        let ReceivedEvent {
            id,
            kind,
            timestamp,
            data,
        } = delivered;
        assert_eq!(
            *shown,
            json!({"id": id, "event": kind, "timestamp": timestamp, "data": data})
        );
    }
    let transcript = world
        .tenant
        .api
        .get(&format!("/calls/{call}/transcript"))
        .await
        .expect(200);
    assert_eq!(
        (&transcript["callId"], &transcript["summary"]),
        (&json!(call), &json!("Short."))
    );
    let said: Vec<_> = transcript["turns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|turn| &turn["text"])
        .collect();
    assert_eq!(json!(said), json!(["{}", "Ya"]));
}

#[rstest]
#[actix_web::test]
async fn repeated_and_late_messages_change_nothing(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = shared_world!(store);
    let tenant = &world.tenant;
    let socket = tenant.bridge(Socket).await;
    let http = tenant.bridge(Http).await;
    let rang = Moment::ago(300);
    let incoming = json!({
        "bridgeCallId": "x", "did": tenant.did, "callerNumber": "+6281", "at": rang.text(),
    });
    let message = socket.message("call.incoming", incoming.clone());
    let reply = socket.send(&message).await;
    let id = text(&reply, "callId");
    assert_eq!(
        http.send(&message).await,
        reply,
        "sent twice, on another transport"
    );
    let again = http.ok("call.incoming", incoming).await;
    assert_eq!(again["callId"], id, "the bridge's own id is the call");

    let at = |seconds: i64| json!({"callId": id, "at": rang.plus(seconds).text()});
    for seconds in [10, 20, 5] {
        socket.ok("call.answered", at(seconds)).await;
    }
    assert_eq!(tenant.call(&id).await["answeredAt"], rang.plus(10).text());
    for seconds in [100, 200, 50] {
        socket.ok("call.hangup", at(seconds)).await;
    }
    http.ok("call.failed", at(250)).await;
    let over = tenant.call(&id).await;
    assert_eq!(
        (&over["status"], &over["talkTimeSeconds"]),
        (&json!("ended"), &json!(90))
    );

    let error = socket.refused("call.answered", at(260)).await;
    assert_eq!(
        (&error["code"], &error["status"]),
        (&json!("invalid_transition"), &json!("ended"))
    );

    // A transcript may come after the call's end, and is announced then.
    let transcript = json!({"callId": id, "summary": "Late."});
    socket.ok("call.transcript", transcript).await;
    assert_eq!(tenant.call(&id).await["transcriptSummary"], "Late.");
    let order = [
        "call.started",
        "call.answered",
        "call.ended",
        "call.transcript",
    ];
    assert_eq!(world.kinds(&id, "call.transcript").await, names(&order));
    assert_eq!(tenant.billed(&id).await, Some(2));
    assert_eq!(tenant.calls().await.len(), 1);
    world.assert_ledger_is_exact();
}

#[rstest]
#[actix_web::test]
async fn the_time_of_the_bridge_is_honoured_within_reason(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = shared_world!(store);
    let tenant = &world.tenant;
    let bridge = tenant.bridge(Http).await;

    // A time in the future counts as the current time.
    let before = Moment::now();
    let id = bridge.ring_at(&tenant.did, Some(before.plus(3_600))).await;
    let started = Moment::parse(&tenant.call(&id).await["startedAt"]);
    assert!(before <= started && started <= Moment::now());
    bridge.hang_up_at(&id, Moment::now().plus(86_400)).await;
    assert!(Moment::parse(&tenant.call(&id).await["endedAt"]) <= Moment::now());

    // A time before the last change counts as that change's time; any UTC offset is accepted.
    let rang = Moment::ago(100);
    let id = bridge.ring_at(&tenant.did, Some(rang)).await;
    bridge
        .ok(
            "call.answered",
            json!({"callId": id, "at": rang.plus(-50).text()}),
        )
        .await;
    assert_eq!(tenant.call(&id).await["answeredAt"], rang.text());
    bridge
        .ok(
            "call.hangup",
            json!({"callId": id, "at": "2001-01-01T07:00:00+07:00"}),
        )
        .await;
    let call = tenant.call(&id).await;
    assert_eq!(
        (&call["endedAt"], &call["talkTimeSeconds"]),
        (&json!(rang.text()), &json!(0))
    );
    assert_eq!(
        tenant.billed(&id).await,
        Some(1),
        "an answered call costs at least one minute"
    );
}

#[rstest]
#[actix_web::test]
async fn the_tenant_ends_and_transfers_live_calls(
    #[values(Sqlite, Postgres)] store: StoreKind,
    #[values(Socket, Http)] transport: BridgeTransport,
) {
    let world = shared_world!(store);
    let tenant = &world.tenant;
    tenant
        .change_agent(json!({"escalationNumber": "+6289999999999"}))
        .await;
    let bridge = tenant.bridge(transport).await;

    let id = bridge.talk(&tenant.did).await;
    tenant
        .api
        .post(&format!("/calls/{id}/hangup"), json!({}))
        .await
        .expect(202);
    let command = bridge.command("hangup", &id).await;
    assert!(text(&command, "id").starts_with("cmd_"));
    assert_eq!(command["reason"], "requested");
    bridge
        .ok(
            "call.hangup",
            json!({"callId": id, "reason": "requested", "initiator": "bridge"}),
        )
        .await;
    let call = tenant.call(&id).await;
    let seen = [
        &call["status"],
        &call["hangupReason"],
        &call["hangupInitiator"],
    ];
    assert_eq!(seen, ["ended", "requested", "tenant"]);

    for (body, to) in [
        (json!({}), "+6289999999999"),
        (json!({"to": "+62877777"}), "+62877777"),
    ] {
        let id = bridge.talk(&tenant.did).await;
        tenant
            .api
            .post(&format!("/calls/{id}/transfer"), body)
            .await
            .expect(202);
        assert_eq!(bridge.command("transfer", &id).await["to"], to);
        bridge
            .ok(
                "call.hangup",
                json!({"callId": id, "reason": "transferred"}),
            )
            .await;
        let call = tenant.call(&id).await;
        assert_eq!(
            [&call["status"], &call["hangupReason"]],
            ["ended", "transferred"]
        );
        let late = tenant
            .api
            .post(&format!("/calls/{id}/hangup"), json!({}))
            .await
            .expect(409);
        assert_eq!(late["error"]["code"], "call_not_active");
    }
}

#[rstest]
#[actix_web::test]
async fn the_agent_of_a_call_is_the_one_it_began_with(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = shared_world!(store);
    let tenant = &world.tenant;
    tenant
        .change_agent(json!({
            "voiceId": "Kore", "greetingText": "Selamat pagi", "language": "en-GB",
            "maxCallDurationMinutes": 3, "escalationNumber": "+628770000", "toolsEnabled": ["transfer_to_human"],
        }))
        .await;
    tenant
        .create_function("lookUp", "GET", &world.receiver.url("/f"))
        .await;
    let bridge = tenant.bridge(Socket).await;
    let reply = bridge.incoming(&tenant.did, None).await;
    let agent = &reply["agent"];
    let seen = [
        "voiceId",
        "greetingText",
        "language",
        "maxCallDurationMinutes",
        "escalationNumber",
    ];
    let seen = seen.map(|field| &agent[field]);
    assert_eq!(
        json!(seen),
        json!(["Kore", "Selamat pagi", "en-GB", 3, "+628770000"])
    );
    assert_eq!(agent["tools"], json!(["transfer_to_human"]));
    let [function] = &agent["functions"].as_array().unwrap()[..] else {
        panic!("{agent}")
    };
    assert_eq!(
        function.as_object().unwrap().len(),
        3,
        "no endpoint leaves: {function}"
    );
    assert_eq!(
        [&function["name"], &function["description"]],
        ["lookUp", "Looks an order up."]
    );
    assert_eq!(function["parameters"]["required"], json!(["orderId"]));

    let id = text(&reply, "callId");
    tenant
        .api
        .delete(&format!("/agents/{}", tenant.agent))
        .await
        .expect(204);
    bridge.ok("call.answered", json!({"callId": id})).await;
    bridge.hang_up(&id).await;
    assert_eq!(tenant.call(&id).await["agentId"], tenant.agent);
    assert_eq!(
        bridge.incoming(&tenant.did, None).await["reason"],
        "no_agent"
    );
}

/// Opening a call takes several database reads; concurrent changes of its agent create new versions.
#[rstest]
#[actix_web::test]
async fn calls_that_come_in_while_their_agent_is_changed_keep_what_they_began_with(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    const CLIENTS: usize = 12;
    const CALLS: usize = 20;
    let setup = WorldSetup::new()
        .minutes(1_000)
        .set("plans.starter.requests_per_minute", 100_000)
        .set("plans.business.requests_per_minute", 100_000)
        .set("plans.enterprise.requests_per_minute", 100_000);
    let mut world = world!(store, setup);
    let bridge = world.tenant.bridge(Socket).await;
    let path = format!("/agents/{}", world.tenant.agent);
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (api, path) = (world.tenant.api.clone(), path.clone());
            rt::spawn(async move {
                for n in 0.. {
                    let prompt = json!({"systemPrompt": format!("{client} {n}")});
                    api.patch(&path, prompt).await.expect(200);
                }
            })
        })
        .collect();
    let mut calls = Vec::new();
    for n in 0..CALLS {
        let incoming = json!({
            "bridgeCallId": format!("changed-{n}"), "did": world.tenant.did, "callerNumber": "+6281234567890",
        });
        let reply = bridge.ok("call.incoming", incoming.clone()).await;
        calls.push((incoming, reply["agent"].clone()));
    }
    for client in clients {
        client.abort();
    }
    for (incoming, agent) in &calls {
        let again = bridge.ok("call.incoming", incoming.clone()).await;
        assert_eq!(again["agent"], *agent);
    }
    world.server.kill9();
    world.server.restart();
    let bridge = world.tenant.bridge(Socket).await;
    for (incoming, agent) in &calls {
        let again = bridge.ok("call.incoming", incoming.clone()).await;
        assert_eq!(again["agent"], *agent);
    }
}
