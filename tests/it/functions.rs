//! The AI's results of a tenant's functions.

use std::{sync::Arc, time::Instant};

use actix_web::rt;
use dikala_testkit::free_port;
use tokio::sync::Semaphore;

use crate::support::{deaf::DeafListener, prelude::*, tenant::text};

#[actix_web::test]
async fn functions_have_their_outcomes() {
    let world = world!(
        Sqlite,
        WorldSetup::new().set("functions.timeout_seconds", 3)
    );
    let (tenant, receiver) = (&world.tenant, &world.receiver);
    let big = json!({"x": "y".repeat(65 << 10)});
    for (name, answer) in [
        (
            "fine",
            ServerAnswer::Json(json!({"status": "on its way", "days": 2})),
        ),
        ("error_500", ServerAnswer::Status(500)),
        (
            "redirect",
            ServerAnswer::Full(302, "location", "/fine".to_owned(), vec![]),
        ),
        (
            "not_json",
            ServerAnswer::Full(200, "content-type", "text/html".to_owned(), b"<p>".to_vec()),
        ),
        ("an_array", ServerAnswer::Json(json!([1]))),
        (
            "not_utf8",
            ServerAnswer::Full(200, "x-a", "b".to_owned(), vec![b'{', 0xff, b'}']),
        ),
        ("too_big", ServerAnswer::Json(big)),
        ("endless", ServerAnswer::EndlessBody),
        ("ten_gigabytes", ServerAnswer::TenGigabytes),
        ("bomb", ServerAnswer::GzipBomb),
        ("hangs", ServerAnswer::Hang),
        ("drips_head", ServerAnswer::DripHead),
        ("drips_body", ServerAnswer::DripBody),
        ("resets", ServerAnswer::Reset),
        (
            "early_hints",
            ServerAnswer::Raw(
                b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 32\r\n\r\n\
                  {\"status\":\"on its way\",\"days\":2}",
            ),
        ),
        (
            "until_closed",
            ServerAnswer::Raw(b"HTTP/1.1 200 OK\r\n\r\n{\"status\":\"on its way\",\"days\":2}"),
        ),
        (
            "switches",
            ServerAnswer::Raw(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n"),
        ),
        (
            "bad_header",
            ServerAnswer::Raw(b"HTTP/1.1 200 OK\r\nbad\0name: \xff\r\n\r\n{}"),
        ),
        (
            "half",
            ServerAnswer::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{\"a\":1"),
        ),
    ] {
        let path = format!("/{name}");
        receiver.answer(&path, [answer]);
        tenant
            .create_function(name, "POST", &receiver.url(&path))
            .await;
    }
    let (full, silent) = (DeafListener::full(), DeafListener::silent());
    for (name, endpoint) in [
        ("nobody", format!("http://127.0.0.1:{}/", free_port())),
        ("never_accepts", format!("http://{}/", full.address)),
        ("stalls_tls", format!("https://{}/", silent.address)),
    ] {
        tenant.create_function(name, "POST", &endpoint).await;
    }
    tenant
        .create_function("off", "POST", &receiver.url("/off"))
        .await;
    let agent = tenant
        .api
        .get(&format!("/agents/{}", tenant.agent))
        .await
        .expect(200);
    let mut enabled = agent["toolsEnabled"].clone();
    enabled.as_array_mut().unwrap().retain(|name| name != "off");
    tenant.change_agent(json!({"toolsEnabled": enabled})).await;

    let bridge = tenant.bridge(Socket).await;
    let id = bridge.talk(&tenant.did).await;
    let fits = json!({"orderId": "A-1"});
    let invoke = |name: &str, parameters: &Value| {
        let invocation = format!("inv-{name}-{parameters}");
        let message = json!({
            "callId": id, "invocationId": &invocation[..invocation.len().min(64)], "name": name,
            "parameters": parameters,
        });
        bridge.message("call.function", message)
    };
    for (name, parameters, outcome) in [
        ("fine", &fits, "ok"),
        ("error_500", &fits, "http_status"),
        ("redirect", &fits, "http_status"),
        ("not_json", &fits, "invalid_response"),
        ("an_array", &fits, "invalid_response"),
        ("not_utf8", &fits, "invalid_response"),
        ("too_big", &fits, "too_large"),
        ("endless", &fits, "too_large"),
        ("ten_gigabytes", &fits, "too_large"),
        ("bomb", &fits, "too_large invalid_response timeout"),
        ("hangs", &fits, "timeout"),
        ("drips_head", &fits, "timeout"),
        ("drips_body", &fits, "timeout too_large"),
        ("resets", &fits, "connection"),
        ("early_hints", &fits, "ok"),
        ("until_closed", &fits, "ok"),
        ("switches", &fits, "invalid_response"),
        ("bad_header", &fits, "invalid_response connection"),
        ("half", &fits, "invalid_response connection"),
        ("nobody", &fits, "connection"),
        ("never_accepts", &fits, "timeout"),
        ("stalls_tls", &fits, "timeout"),
        ("off", &fits, "disabled"),
        ("no_such", &fits, "unknown_function"),
        ("fine", &json!({"orderId": 7}), "invalid_arguments"),
        ("fine", &json!({}), "invalid_arguments"),
    ] {
        let began = Instant::now();
        let reply = bridge.send(&invoke(name, parameters)).await;
        let took = began.elapsed();
        assert!(took < Duration::from_secs(15), "{name} took {took:?}");
        assert_eq!(
            reply["ok"], true,
            "a failing function is no protocol error: {reply}"
        );
        let got = &reply["outcome"];
        if outcome == "ok" {
            let result = json!({"status": "on its way", "days": 2});
            assert_eq!(*got, json!({"status": "ok", "result": result}));
        } else {
            assert_eq!(got["status"], "error", "{name}: {got}");
            assert!(
                outcome.contains(&text(got, "code")),
                "{name} is {outcome}: {got}"
            );
            assert!(got["message"].is_string(), "{name}: {got}");
        }
    }
    assert!(receiver.received("/off").is_empty() && receiver.received("/fine").len() == 1);

    let signed = &receiver.received("/fine")[0];
    let secret = text(
        &world
            .server
            .cli(&["function-secret", "show", "--tenant", &tenant.id]),
        "secret",
    );
    signed.assert_signed(&secret);
    assert_eq!(signed.method, "POST");
    let body = json!({"callId": id, "functionName": "fine", "parameters": fits});
    assert_eq!(signed.json(), body);

    bridge.hang_up(&id).await;
    world.event("call.ended", &id).await;
    functions_are_announced(&world, &id);
    let late = json!({
        "callId": id, "invocationId": "late", "name": "fine", "parameters": fits,
    });
    let error = bridge.refused("call.function", late).await;
    assert_eq!(
        error["code"], "invalid_transition",
        "the call is over: {error}"
    );
}

fn functions_are_announced(world: &TestWorld, id: &str) {
    let events = world.receiver.events("/hook", SECRET);
    let called: Vec<_> = events
        .iter()
        .filter(|e| e.kind == "function.called")
        .collect();
    assert!(
        called.len() >= 14,
        "one for each invocation that was tried: {}",
        called.len()
    );
    let of = |name: &str| {
        called
            .iter()
            .find(|e| e.data["functionName"] == name)
            .unwrap()
    };
    let fine = &of("fine").data;
    assert_eq!(
        (&fine["callId"], &fine["parameters"]),
        (&json!(id), &json!({"orderId": "A-1"}))
    );
    assert_eq!(fine["result"], json!({"status": "on its way", "days": 2}));
    assert_eq!(of("hangs").data["result"]["error"]["code"], "timeout");
    assert!(of("hangs").data["result"]["error"]["message"].is_string());
}

#[actix_web::test]
async fn a_function_goes_out_with_its_method() {
    let world = world!(Sqlite);
    let (tenant, receiver) = (&world.tenant, &world.receiver);
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
        receiver.answer(&format!("/{method}"), [ServerAnswer::Json(json!({}))]);
        let endpoint = receiver.url(&format!("/{method}"));
        tenant
            .create_function(&format!("by_{method}"), method, &endpoint)
            .await;
    }
    let bridge = tenant.bridge(Http).await;
    let id = bridge.talk(&tenant.did).await;
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
        let parameters = json!({"orderId": "a b&c", "more": {"n": 1}});
        let message = json!({
            "callId": id, "invocationId": method, "name": format!("by_{method}"), "parameters": parameters,
        });
        let reply = bridge.ok("call.function", message).await;
        assert_eq!(reply["outcome"], json!({"status": "ok", "result": {}}));
        let [request] = &receiver.received(&format!("/{method}"))[..] else {
            panic!("one request")
        };
        assert_eq!(request.method, method);
        assert_eq!(request.json()["parameters"], parameters);
        let query = request.query.as_deref().unwrap_or_default();
        let order = ["orderId=a+b%26c", "orderId=a%20b%26c"]
            .iter()
            .any(|pair| query.contains(pair));
        assert_eq!(order, method == "GET", "{query}");
    }
}

#[rstest]
#[actix_web::test]
async fn an_invocation_runs_once_and_holds_up_nothing(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(
        store,
        WorldSetup::new().set("functions.timeout_seconds", 20)
    );
    let (tenant, receiver) = (&world.tenant, &world.receiver);
    let permits = Arc::new(Semaphore::new(0));
    let slow = ServerAnswer::Json(json!({})).when(&permits);
    receiver.answer("/slow", [slow]);
    tenant
        .create_function("slow", "POST", &receiver.url("/slow"))
        .await;
    let bridge = tenant.bridge(Socket).await;
    let id = bridge.talk(&tenant.did).await;
    let invoke = json!({
        "callId": id, "invocationId": "one", "name": "slow", "parameters": {"orderId": "1"},
    });
    let first = bridge.message("call.function", invoke.clone());
    let waiting = bridge.begin(&first);
    receiver.wait_for("/slow", 1).await;
    // While the invocation waits: a repetition of it, and the rest of the call's life.
    let repeated = bridge.begin(&bridge.message("call.function", invoke.clone()));
    bridge
        .ok(
            "call.transcript",
            json!({"callId": id, "summary": "Meanwhile."}),
        )
        .await;
    assert!(
        !bridge.reply_order().contains(&text(&first, "id")),
        "the function still waits"
    );
    permits.add_permits(1);
    let (reply, repeat) = (waiting.reply().await, repeated.reply().await);
    assert_eq!(reply["outcome"], json!({"status": "ok", "result": {}}));
    assert_eq!(repeat["outcome"], reply["outcome"]);
    let late = bridge.ok("call.function", invoke).await;
    assert_eq!(late["outcome"], reply["outcome"]);
    assert_eq!(
        receiver.received("/slow").len(),
        1,
        "the endpoint was asked once"
    );
    bridge.hang_up(&id).await;
    let kinds = world.kinds(&id, "call.ended").await;
    assert_eq!(
        kinds
            .iter()
            .filter(|kind| *kind == "function.called")
            .count(),
        1,
        "{kinds:?}"
    );
}

#[rstest]
#[actix_web::test]
async fn a_function_tells_how_it_did(#[values(Sqlite, Postgres)] store: StoreKind) {
    let mut world = world!(
        store,
        WorldSetup::new().set("functions.timeout_seconds", 30)
    );
    let (tenant, receiver) = (&world.tenant, &world.receiver);
    let slow = [100, 300, 600, 1_200].map(|ms| ServerAnswer::Slow(Duration::from_millis(ms)));
    let answers = slow.into_iter().chain([ServerAnswer::Status(500)]);
    receiver.answer("/stock", answers);
    let url = receiver.url("/stock");
    tenant.create_function("stock", "POST", &url).await;
    let functions = format!("/agents/{}/functions", tenant.agent);
    let bridge = tenant.bridge(Socket).await;
    let id = bridge.talk(&tenant.did).await;
    let invoke = async |invocation: &str, name: &str, parameters: Value| {
        let message = json!({
            "callId": id, "invocationId": invocation, "name": name, "parameters": parameters,
        });
        let reply = bridge.ok("call.function", message).await;
        text(&reply["outcome"], "status")
    };
    let fits = json!({"orderId": "1"});
    // One after the other, so that each gets its own answer. Every second one is a repetition, which calls no
    // endpoint.
    for n in 0..8 {
        let outcome = invoke(&format!("fits-{}", n / 2), "stock", fits.clone()).await;
        assert_eq!(outcome, "ok");
    }
    assert_eq!(invoke("fails", "stock", fits.clone()).await, "error");
    assert_eq!(invoke("fits not", "stock", json!({})).await, "error");
    assert_eq!(invoke("unknown", "stick", fits.clone()).await, "error");
    let tried = tenant
        .api
        .post(
            &format!("{functions}/stock/test"),
            json!({"parameters": fits}),
        )
        .await;
    assert_eq!(tried.status, 200);

    let stats = tenant
        .api
        .get(&format!("{functions}/stock/stats"))
        .await
        .expect(200);
    assert_eq!(
        json!([stats["name"], stats["calls"], stats["failures"]]),
        json!(["stock", 6, 2])
    );
    let [from, to] = ["from", "to"].map(|field| Moment::parse(&stats[field]));
    assert_eq!(from.plus(24 * 60 * 60), to);
    let latency = ["p50", "p95", "p99", "max"].map(|p| stats["latencyMs"][p].as_i64().unwrap());
    assert!(latency.is_sorted(), "{stats}");
    // Three of the five requests took at least 300, 600 and 1,200 ms.
    assert!(latency[0] >= 300 && latency[1] >= 1_200, "{stats}");

    // A function keeps its statistics after a restart and under a new name; another agent's function of that name
    // is a different one.
    world.server.kill9();
    bridge.cut();
    world.server.restart();
    let tenant = &world.tenant;
    let renamed = tenant
        .api
        .patch(&format!("{functions}/stock"), json!({"name": "shelf"}))
        .await;
    assert_eq!(renamed.status, 200);
    let missing = tenant.api.get(&format!("{functions}/stock/stats")).await;
    let error = missing.expect(404);
    assert_eq!(error["error"]["code"], "function_not_found");
    let path = format!("{functions}/shelf/stats");
    let later = tenant.api.get(&path).await.expect(200);
    assert_eq!(later["name"], "shelf");
    for field in ["calls", "failures", "latencyMs"] {
        assert_eq!(later[field], stats[field]);
    }
    let other = tenant.create_agent(json!({})).await;
    let functions = format!("/agents/{other}/functions");
    let another = json!({"name": "shelf", "description": "Looks.", "endpoint": url});
    tenant.api.post(&functions, another).await.expect(201);
    let none = tenant
        .api
        .get(&format!("{functions}/shelf/stats"))
        .await
        .expect(200);
    let nothing = json!({"p50": null, "p95": null, "p99": null, "max": null});
    assert_eq!(
        json!([none["calls"], none["latencyMs"]]),
        json!([0, nothing])
    );
}

// The outcome at the endpoint is unknown then, and it may have been an order.
#[rstest]
#[actix_web::test]
async fn a_function_that_a_crash_interrupts_is_called_once(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let mut world = world!(store);
    world.receiver.answer("/slow", [ServerAnswer::Hang]);
    let url = world.receiver.url("/slow");
    world.tenant.create_function("slow", "POST", &url).await;
    let bridge = world.tenant.bridge(Socket).await;
    let id = bridge.talk(&world.tenant.did).await;
    let fields = json!({"callId": id, "invocationId": "once", "name": "slow", "parameters": {"orderId": "1"}});
    bridge.begin(&bridge.message("call.function", fields.clone()));
    world.receiver.wait_for("/slow", 1).await;
    world.server.kill9();
    bridge.cut();
    world.server.restart();
    let bridge = world.tenant.bridge(Socket).await;
    for _ in 0..2 {
        let message = bridge.message("call.function", fields.clone());
        let told = eventually("the outcome", async || {
            let reply = bridge.send(&message).await;
            (reply["ok"] == true).then_some(reply)
        })
        .await;
        let outcome = &told["outcome"];
        assert_eq!(
            json!([outcome["status"], outcome["code"]]),
            json!(["error", "connection"])
        );
        let words = outcome["message"].as_str().unwrap();
        assert!(words.contains("not asked again"), "{words}");
    }
    bridge.hang_up(&id).await;
    let called = world.kinds(&id, "call.ended").await;
    let called = called.iter().filter(|kind| *kind == "function.called");
    assert_eq!(called.count(), 1);
    assert_eq!(world.receiver.received("/slow").len(), 1);
}

// Another node may write the outcome and release its claim between this node's look for the outcome and its claim.
#[actix_web::test]
async fn an_outcome_that_is_written_while_the_claim_is_waited_for_is_told() {
    let world = world!(Postgres);
    let (tenant, receiver) = (&world.tenant, &world.receiver);
    let url = receiver.url("/fine");
    tenant.create_function("fine", "POST", &url).await;
    let bridge = tenant.bridge(Socket).await;
    let id = bridge.talk(&tenant.did).await;
    let store = &world.server.installation.store;
    let (other, tenant_id) = (store.shared(), tenant.id.clone());
    let row = format!(
        "INSERT INTO invocations (call_id, invocation_id, tenant_id, function_name, outcome, duration_ms, created_at) \
         VALUES ('{id}', 'once', '{tenant_id}', 'fine', '{{\"status\":\"ok\",\"result\":1}}', 5, 5)"
    );
    let asks = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' \
                AND query LIKE 'INSERT INTO invocation_claims%'";
    let meanwhile = rt::spawn(async move {
        let script = format!(
            "BEGIN; LOCK TABLE invocation_claims IN ACCESS EXCLUSIVE MODE; {row}; \
             DO $$ BEGIN WHILE NOT EXISTS ({asks}) LOOP \
             PERFORM pg_sleep(0.01); PERFORM pg_stat_clear_snapshot(); END LOOP; END $$; COMMIT"
        );
        other.execute(&script).await;
    });
    let locks = "pg_locks JOIN pg_stat_activity USING (pid) WHERE mode = 'AccessExclusiveLock' AND granted \
                 AND relation = 'invocation_claims'::regclass AND datname = current_database()";
    eventually("the claims to be locked", async || {
        (store.count(locks).await > 0).then_some(())
    })
    .await;
    let fields = json!({"callId": id, "invocationId": "once", "name": "fine", "parameters": {"orderId": "1"}});
    let told = bridge.send(&bridge.message("call.function", fields)).await;
    assert_eq!(told["outcome"], json!({"status": "ok", "result": 1}));
    meanwhile.await.unwrap();
    bridge.hang_up(&id).await;
    assert_eq!(receiver.received("/fine").len(), 0);
}

#[rstest]
#[actix_web::test]
async fn an_outcome_that_could_not_be_written_is_kept_and_not_asked_for_again() {
    let world = world!(Postgres);
    let (tenant, receiver) = (&world.tenant, &world.receiver);
    let permits = Arc::new(Semaphore::new(0));
    let slow = ServerAnswer::Json(json!({})).when(&permits);
    receiver.answer("/slow", [slow]);
    tenant
        .create_function("slow", "POST", &receiver.url("/slow"))
        .await;
    let bridge = tenant.bridge(Socket).await;
    let id = bridge.talk(&tenant.did).await;
    let fields = json!({"callId": id, "invocationId": "once", "name": "slow", "parameters": {"orderId": "1"}});
    let invocation = bridge.message("call.function", fields);
    let waiting = bridge.begin(&invocation);
    receiver.wait_for("/slow", 1).await;
    let database = world.server.installation.store.database().unwrap();
    database.go_away();
    permits.add_permits(1);
    let refused = waiting.reply().await;
    assert_eq!(refused["error"]["code"], "unavailable", "{refused}");
    database.come_back();
    let repeated = eventually("the outcome", async || {
        let reply = bridge.send(&invocation).await;
        (reply["ok"] == true).then_some(reply)
    })
    .await;
    assert!(repeated["outcome"]["status"].is_string(), "{repeated}");
    bridge.hang_up(&id).await;
    let called = world.kinds(&id, "call.ended").await;
    let called = called.iter().filter(|kind| *kind == "function.called");
    assert_eq!(called.count(), 1);
    assert_eq!(receiver.received("/slow").len(), 1);
}

#[actix_web::test]
async fn an_endpoint_that_keeps_hanging_is_left_alone() {
    let world = world!(
        Sqlite,
        WorldSetup::new().set("functions.timeout_seconds", 5)
    );
    let (tenant, receiver) = (&world.tenant, &world.receiver);
    let functions = format!("/agents/{}/functions", tenant.agent);
    for name in ["hangs", "fine"] {
        let url = receiver.url(&format!("/{name}"));
        tenant.create_function(name, "POST", &url).await;
        receiver.answer(&format!("/{name}"), [ServerAnswer::Json(json!({}))]);
    }
    receiver.answer("/hangs", [ServerAnswer::Hang]);
    let bridge = tenant.bridge(Socket).await;
    let id = bridge.talk(&tenant.did).await;
    let fits = json!({"orderId": "1"});
    let invoke = |invocation: String, name: &str| {
        let message =
            json!({"callId": id, "invocationId": invocation, "name": name, "parameters": fits});
        bridge.message("call.function", message)
    };
    let circuit = async || {
        let path = format!("{functions}/hangs/stats");
        tenant.api.get(&path).await.expect(200)["circuit"].clone()
    };
    let closed = json!({"state": "closed", "retryAt": null});
    assert_eq!(circuit().await, closed);

    let messages: Vec<_> = (0..5)
        .map(|n| invoke(format!("hangs-{n}"), "hangs"))
        .collect();
    let waiting: Vec<_> = messages
        .iter()
        .map(|message| bridge.begin(message))
        .collect();
    for waiting in waiting {
        let outcome = waiting.reply().await["outcome"].clone();
        assert_eq!(outcome["code"], "timeout", "{outcome}");
    }
    for n in 5..15 {
        let reply = bridge.send(&invoke(format!("hangs-{n}"), "hangs")).await;
        assert_eq!(reply["outcome"]["code"], "circuit_open", "{reply}");
    }
    let open = circuit().await;
    assert_eq!(open["state"], "open");
    Moment::parse(&open["retryAt"]);
    let reply = bridge.send(&invoke("fine".to_owned(), "fine")).await;
    assert_eq!(reply["outcome"]["status"], "ok", "{reply}");

    // Repaired: a test calls the endpoint despite the open circuit, and closes it.
    receiver.answer("/hangs", [ServerAnswer::Json(json!({}))]);
    let path = format!("{functions}/hangs/test");
    let tested = tenant.api.post(&path, json!({"parameters": fits})).await;
    assert_eq!(tested.expect(200)["status"], "ok");
    assert_eq!(circuit().await, closed);
    let reply = bridge.send(&invoke("again".to_owned(), "hangs")).await;
    assert_eq!(reply["outcome"]["status"], "ok", "{reply}");
}

/// Accepted JSON can be read again from any store; JSON that is nested deeper is refused.
#[rstest]
#[actix_web::test]
async fn deep_json_breaks_no_repeat(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let (tenant, receiver) = (&world.tenant, &world.receiver);
    let nested = |levels: usize| {
        let text = format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let cases = [
        (64, None),
        (65, Some("invalid_response")),
        (126, Some("invalid_response")),
    ];
    for (levels, _) in cases {
        let path = format!("/deep_{levels}");
        receiver.answer(&path, [ServerAnswer::Json(nested(levels))]);
        tenant
            .create_function(&path[1..], "POST", &receiver.url(&path))
            .await;
    }
    let bridge = tenant.bridge(Socket).await;
    let id = bridge.talk(&tenant.did).await;
    for (levels, code) in cases {
        let name = format!("deep_{levels}");
        let invocation = json!({
            "callId": id, "invocationId": name, "name": name, "parameters": {"orderId": "1"},
        });
        let first = bridge.ok("call.function", invocation.clone()).await;
        assert_eq!(first["outcome"]["code"].as_str(), code, "{levels}");
        let again = bridge.ok("call.function", invocation).await;
        assert_eq!(again["outcome"], first["outcome"]);
        assert_eq!(receiver.received(&format!("/{name}")).len(), 1);
    }
    let deep = json!({"callId": id, "invocationId": "x", "name": "x", "parameters": nested(65)});
    let error = bridge.refused("call.function", deep).await;
    assert_eq!(error["code"], "invalid_message", "{error}");
    bridge.hang_up(&id).await;
    let events = tenant
        .api
        .get(&format!("/calls/{id}/events"))
        .await
        .expect(200);
    let events = events["events"].as_array().unwrap();
    let called = events
        .iter()
        .filter(|event| event["event"] == "function.called");
    assert!(
        called
            .into_iter()
            .all(|event| event["data"]["functionName"].is_string())
    );
}
