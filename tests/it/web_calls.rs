//! Calls from browsers: with a token over a WebSocket, and through bridges that may report them.

use awc::ws::CloseCode;

use crate::{
    dashboard::{owner, owner_by},
    support::{
        prelude::*,
        tenant::text,
        visitor::{HtmlForm, Visitor},
        web_call::TestBrowser,
    },
    telephony::with_a_function,
};

/// A server whose own bridge answers with the test voice, and an agent with a function.
async fn world(store: StoreKind) -> Option<TestWorld> {
    let mut installation = Installation::migrated(store)?;
    installation.answer_with_the_test_voice();
    let world = TestWorld::on(installation, WorldSetup::new().minutes(50)).await;
    with_a_function(&world).await;
    Some(world)
}

/// The socket of a new token.
async fn token(world: &TestWorld, fields: Value) -> String {
    let path = format!("/agents/{}/web-calls", world.tenant.agent);
    let made = world.tenant.api.post(&path, fields).await.expect(201);
    let (token, url) = (text(&made, "token"), text(&made, "url"));
    assert!(token.starts_with("wct_") && url.ends_with(&format!("/web/v1/call?token={token}")));
    assert!(url.starts_with("ws://"), "{url}");
    url
}

async fn call(world: &TestWorld, fields: Value) -> TestBrowser {
    let url = token(world, fields).await;
    TestBrowser::open(&url).await.expect("a socket")
}

#[rstest]
#[actix_web::test]
async fn a_browser_talks_to_an_agent_as_a_telephone_does(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let Some(world) = world(store).await else {
        return;
    };
    let browser = call(&world, json!({})).await;
    let id = browser.ready().await;
    browser.press("427#");
    let (reason, code) = browser.ended().await;
    assert_eq!((reason, code), (json!("normal"), Some(CloseCode::Normal)));

    let order = world.receiver.wait_for("/order", 1).await;
    let asked: Value = serde_json::from_slice(&order[0].body).unwrap();
    assert!(asked.to_string().contains("\"427\""), "{asked}");
    assert!(browser.speech_ms() > 1_000, "{}", browser.speech_ms());
    let messages = browser.messages();
    let of = |kind: &str| -> Vec<&Value> {
        let all = messages.iter();
        all.filter(|it| it["type"] == kind).collect()
    };
    // A customer's page does not get what functions are asked and answer.
    let function =
        |status: &str| json!({"type": "function", "name": "check_order", "status": status});
    assert_eq!(of("function"), [&function("running"), &function("ok")]);
    let is_over = |it: &&&Value| it["final"] == true && it["n"].is_u64();
    let turns = of("turn");
    let over: Vec<String> = turns
        .iter()
        .filter(is_over)
        .map(|it| text(it, "text"))
        .collect();
    assert!(
        over.len() >= 2 && over.last().unwrap().contains("Goodbye"),
        "{over:?}"
    );
    assert!(turns.iter().any(|it| it["final"] == false), "{turns:?}");

    let call = world.tenant.call_over(&id).await;
    let fields = [
        ("channel", json!("web")),
        ("direction", json!("inbound")),
        ("callerNumber", json!("web")),
        ("calleeNumber", json!("web")),
        ("phoneNumberId", Value::Null),
        ("agentId", json!(world.tenant.agent)),
        ("agentVersion", json!(3)),
        ("draft", json!(false)),
        ("status", json!("ended")),
    ];
    for (field, expected) in fields {
        assert_eq!(call[field], expected, "{field} of {call}");
    }
    assert_eq!(world.tenant.billed(&id).await, Some(1));
    let started = world.event("call.started", &id).await;
    let data = &started.data;
    assert_eq!(
        (&data["phoneNumberId"], &data["did"]),
        (&Value::Null, &json!("web"))
    );
    let ended = world.event("call.ended", &id).await;
    assert_eq!(ended.data["calleeNumber"], "web");
    let listed = world.tenant.api.get("/calls?channel=web").await.expect(200);
    assert_eq!(listed["calls"].as_array().unwrap().len(), 1);
    world.assert_ledger_is_exact();
}

#[actix_web::test]
async fn settings_are_tried_without_being_saved() {
    let Some(world) = world(Sqlite).await else {
        return;
    };
    let tenant = &world.tenant;
    let path = format!("/agents/{}", tenant.agent);
    let before = tenant.api.get(&path).await.expect(200);
    // An agent that takes no calls yet is tried, too, also as it is.
    tenant.change_agent(json!({"isActive": false})).await;
    let as_it_is = call(&world, json!({"draft": {"isActive": false}})).await;
    let id = as_it_is.ready().await;
    as_it_is.send(&json!({"type": "hangup"}));
    assert_eq!(as_it_is.ended().await.0, "normal");
    assert_eq!(tenant.call_over(&id).await["draft"], json!(true));
    let saved = call(&world, json!({})).await;
    assert_eq!(saved.ended().await.0, "agent_inactive");
    let draft = json!({"language": "id", "toolsEnabled": []});
    let fields = json!({"callerNumber": "+6281234567890", "draft": draft});
    let browser = call(&world, fields).await;
    let id = browser.ready().await;
    browser
        .hears("the greeting", |it| {
            it["type"] == "turn"
                && it["text"]
                    .as_str()
                    .is_some_and(|it| it.contains("suara uji"))
        })
        .await;
    browser.send(&json!({"type": "hangup"}));
    let (reason, _) = browser.ended().await;
    assert_eq!(reason, "normal");
    let over = tenant.call_over(&id).await;
    assert_eq!(
        (&over["agentVersion"], &over["draft"]),
        (&Value::Null, &json!(true))
    );
    assert_eq!(over["callerNumber"], "+6281234567890");
    assert_eq!(over["hangupInitiator"], "caller");
    let after = tenant.api.get(&path).await.expect(200);
    assert_eq!(after["language"], before["language"]);
    let page = format!("/calls/{id}");
    tenant.api.delete(&page).await.expect(204);
    assert_eq!(tenant.call(&id).await["draft"], json!(true));
}

#[actix_web::test]
async fn a_token_is_good_once_and_only_for_ones_own_agents() {
    let Some(world) = world(Sqlite).await else {
        return;
    };
    let tenant = &world.tenant;
    let url = token(&world, json!({})).await;
    let first = TestBrowser::open(&url).await.expect("a socket");
    let refused = async |url: &str| TestBrowser::open(url).await.err().map(|it| it.as_u16());
    assert_eq!(refused(&url).await, Some(401));
    let (base, good) = url.split_once('=').unwrap();
    for wrong in [
        "",
        "wct_",
        "dkl_x",
        &good[..39],
        &good.replace("wct_", "dkb_"),
    ] {
        assert_eq!(
            refused(&format!("{base}={wrong}")).await,
            Some(401),
            "{wrong}"
        );
    }
    first.send(&json!({"type": "hangup"}));
    first.ended().await;

    let other = world.another_tenant(5).await;
    let path = format!("/agents/{}/web-calls", tenant.agent);
    let error = other.api.post(&path, json!({})).await.expect(404);
    assert_eq!(error["error"]["code"], "agent_not_found");
    for (fields, field) in [
        (json!({"callerNumber": "0812"}), "callerNumber"),
        (json!({"draft": []}), "draft"),
        (json!({"draft": {"voiceId": "bass"}}), "draft.voiceId"),
        (
            json!({"draft": {"toolsEnabled": ["dance"]}}),
            "draft.toolsEnabled[0]",
        ),
        (json!({"draft": {"colour": 1}}), "draft.colour"),
        (json!({"agentId": "x"}), "agentId"),
    ] {
        let error = tenant.api.post(&path, fields).await.expect(422);
        assert_eq!(error["error"]["fields"][0]["field"], field, "{error}");
    }
}

#[rstest]
#[actix_web::test]
async fn a_token_ends_with_its_maker(#[values(Sqlite, Postgres)] store: StoreKind) {
    let Some(world) = world(store).await else {
        return;
    };
    let (server, tenant) = (&world.server, &world.tenant);
    let refused = async |url: &str| TestBrowser::open(url).await.err().map(|it| it.as_u16());
    // A member, in the dashboard. Another member's token stays good.
    let (person, other) = (
        owner(&world).await,
        owner_by(&world, "other@example.com").await,
    );
    let (of_person, of_other) = (
        talk(&world, &person.browser).await,
        talk(&world, &other.browser).await,
    );
    server.cli(&["user", "remove", &person.id]);
    assert_eq!(refused(&of_person).await, Some(401));
    let still = TestBrowser::open(&of_other).await.expect("a socket");
    still.send(&json!({"type": "hangup"}));
    still.ended().await;
    // A program, by an API key.
    let url = token(&world, json!({})).await;
    let keys = server.cli(&["key", "list", "--tenant", &tenant.id]);
    server.cli(&["key", "revoke", &text(&keys["keys"][0], "id")]);
    assert_eq!(refused(&url).await, Some(401));
}

/// The socket of a token that *Talk to it* makes.
async fn talk(world: &TestWorld, browser: &Visitor) -> String {
    let agent = format!("/dashboard/agents/{}", world.tenant.agent);
    let form = browser.open(&agent).await.form(&agent);
    let made = browser
        .post(&HtmlForm {
            action: format!("{agent}/talk"),
            ..form
        })
        .await;
    assert_eq!(made.status, 200, "{}", made.html);
    let made: Value = serde_json::from_str(&made.html).unwrap();
    let base = world.server.http.replace("http://", "ws://");
    format!("{base}/web/v1/call?token={}", text(&made, "token"))
}

#[actix_web::test]
async fn who_sends_what_is_no_call_is_disconnected_and_others_are_not() {
    let Some(world) = world(Sqlite).await else {
        return;
    };
    let friend = call(&world, json!({})).await;
    friend.ready().await;
    let huge = call(&world, json!({})).await;
    huge.send_bytes(vec![0; 10 << 20]);
    let odd = call(&world, json!({})).await;
    odd.ready().await;
    odd.send_bytes(vec![0; 641]);
    let fast = call(&world, json!({})).await;
    fast.ready().await;
    for _ in 0..10 {
        fast.send_bytes(vec![0; 60_000]);
    }
    let chatty = call(&world, json!({})).await;
    chatty.ready().await;
    for _ in 0..3_000 {
        chatty.send(&json!({"type": "played", "ms": 1}));
    }
    let silent = call(&world, json!({})).await;
    let id = silent.ready().await;
    silent.fall_mute();
    assert_eq!(huge.ended().await.1, Some(CloseCode::Size));
    assert_eq!(odd.ended().await.1, Some(CloseCode::Unsupported));
    for browser in [fast, chatty] {
        let (reason, code) = browser.ended().await;
        assert_eq!(
            (reason, code),
            (json!("bridge_error"), Some(CloseCode::Policy))
        );
    }
    let (reason, code) = silent.ended().await;
    assert_eq!(
        (reason, code),
        (json!("media_lost"), Some(CloseCode::Normal))
    );
    assert_eq!(
        world.tenant.call_over(&id).await["hangupReason"],
        "media_lost"
    );
    // Nonsense is ignored.
    for nonsense in [
        json!({"type": "dance"}),
        json!([]),
        json!({"type": "key", "key": "no"}),
    ] {
        friend.send(&nonsense);
    }
    friend.press("1#");
    assert_eq!(friend.ended().await.0, "normal");
    world.assert_ledger_is_exact();
}

#[actix_web::test]
async fn a_tenant_without_minutes_is_told_so() {
    let Some(world) = world(Sqlite).await else {
        return;
    };
    let balance = world.tenant.credits().await.0;
    let operator = world.server.operator_api();
    let path = format!("/tenants/{}/credits/transactions", world.tenant.id);
    let booking = json!({"minutes": -balance, "type": "adjustment", "reference": "empty"});
    operator.post(&path, booking).await.expect(201);
    let browser = call(&world, json!({})).await;
    let (reason, _) = browser.ended().await;
    assert_eq!(reason, "insufficient_credits");
    assert_eq!(world.tenant.calls().await[0]["status"], "failed");
}

/// The operator decides which bridges may report such calls.
#[actix_web::test]
async fn a_bridge_that_is_marked_reports_calls_to_agents() {
    let world = shared_world!(Sqlite, WorldSetup::new().minutes(10));
    let tenant = &world.tenant;
    let incoming = |id: &str| json!({"bridgeCallId": id, "agentId": tenant.agent, "callerNumber": "web", "channel": "web"});
    let plain = tenant.bridge(Socket).await;
    let refused = plain.ask("call.incoming", incoming("w-1")).await;
    assert_eq!(refused["error"]["code"], "not_allowed", "{refused}");
    let made = world
        .server
        .cli(&["bridge", "create", "--name", "web", "--web"]);
    assert_eq!(made["web"], true, "{made}");
    let bridge = TestBridge::open(&world.server.http, &text(&made, "token"), Socket).await;
    let taken = bridge.ok("call.incoming", incoming("w-1")).await;
    assert_eq!(taken["action"], "answer", "{taken}");
    assert_eq!(taken["agent"]["id"], json!(tenant.agent));
    // Repeated, it is the same call.
    let again = bridge.ok("call.incoming", incoming("w-1")).await;
    assert_eq!(again["callId"], taken["callId"]);
    let mut unknown = incoming("w-2");
    unknown["agentId"] = json!("agent_01k9zv3m8rj2q4w6y8a0c2e4g6");
    let refused = bridge.ask("call.incoming", unknown).await;
    assert_eq!(refused["error"]["code"], "unknown_agent", "{refused}");
    let mut both = incoming("w-3");
    both["did"] = json!(tenant.did);
    let refused = bridge.ask("call.incoming", both).await;
    assert_eq!(refused["error"]["code"], "invalid_message", "{refused}");
    let id = text(&taken, "callId");
    bridge.ok("call.answered", json!({"callId": id})).await;
    bridge.hang_up(&id).await;
    assert_eq!(tenant.call_over(&id).await["channel"], "web");
    assert_eq!(tenant.billed(&id).await, Some(1));
}

/// As [`settings_are_tried_without_being_saved`], by a bridge of one's own.
#[rstest]
#[actix_web::test]
async fn a_bridge_that_is_marked_tries_settings(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = shared_world!(store, WorldSetup::new().minutes(10));
    let tenant = &world.tenant;
    let incoming = |id: &str, draft: Value| json!({"bridgeCallId": id, "agentId": tenant.agent, "callerNumber": "web", "channel": "web", "draft": draft});
    let prompt = json!({"systemPrompt": "You sell bread."});
    let plain = tenant.bridge(Socket).await;
    let refused = plain
        .ask("call.incoming", incoming("d-1", prompt.clone()))
        .await;
    assert_eq!(refused["error"]["code"], "not_allowed", "{refused}");
    let made = world
        .server
        .cli(&["bridge", "create", "--name", "drafts", "--web"]);
    let bridge = TestBridge::open(&world.server.http, &text(&made, "token"), Socket).await;
    for (draft, words) in [
        (json!([]), "draft"),
        (json!({"voiceId": "bass"}), "draft.voiceId"),
        (json!({"colour": 1}), "draft.colour"),
    ] {
        let refused = bridge.ask("call.incoming", incoming("d-2", draft)).await;
        assert_eq!(refused["error"]["code"], "invalid_message", "{refused}");
        assert!(
            text(&refused["error"], "message").contains(words),
            "{refused}"
        );
    }
    let many: serde_json::Map<String, Value> =
        (0..5_000).map(|n| (format!("f{n}"), json!(1))).collect();
    let refused = bridge.ask("call.incoming", incoming("d-2", many.into()));
    assert!(refused.await.to_string().len() < 8_000);
    let mut phone = incoming("d-3", prompt.clone());
    phone["channel"] = json!("phone");
    let refused = bridge.ask("call.incoming", phone).await;
    assert_eq!(refused["error"]["code"], "invalid_message", "{refused}");
    let mut unknown = incoming("d-4", prompt.clone());
    unknown["agentId"] = json!("agent_01k9zv3m8rj2q4w6y8a0c2e4g6");
    let refused = bridge.ask("call.incoming", unknown).await;
    assert_eq!(refused["error"]["code"], "unknown_agent", "{refused}");
    // Nothing of that made a call. A draft that changes nothing is none.
    let same = bridge.ok("call.incoming", incoming("d-2", json!({}))).await;
    assert_eq!(tenant.call(&text(&same, "callId")).await["draft"], false);
    tenant.change_agent(json!({"isActive": false})).await;
    let taken = bridge.ok("call.incoming", incoming("d-1", prompt)).await;
    assert_eq!(taken["agent"]["systemPrompt"], "You sell bread.", "{taken}");
    let id = text(&taken, "callId");
    let again = bridge.ok("call.incoming", incoming("d-1", json!({}))).await;
    assert_eq!(again["agent"]["systemPrompt"], "You sell bread.", "{again}");
    assert_eq!(again["callId"], taken["callId"]);
    // Also if the draft no longer fits the agent.
    let again = incoming("d-1", json!({"voiceId": "bass"}));
    let again = bridge.ok("call.incoming", again).await;
    assert_eq!(again["callId"], taken["callId"]);
    bridge.ok("call.answered", json!({"callId": id})).await;
    bridge.hang_up(&id).await;
    let over = tenant.call_over(&id).await;
    assert_eq!(
        (&over["draft"], &over["agentVersion"]),
        (&json!(true), &Value::Null)
    );
    let saved = tenant.api.get(&format!("/agents/{}", tenant.agent)).await;
    assert_ne!(saved.expect(200)["systemPrompt"], "You sell bread.");
}
