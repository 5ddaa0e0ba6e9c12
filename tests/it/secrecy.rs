//! Planted values: tenants' secrets and people's words occur in no log line of any level, no metric, no span, no
//! audit entry, and no answer to operators.

use std::collections::HashMap;

use dikala_testkit::eventually;

use crate::support::{
    otlp::{self, spans},
    prelude::*,
    tenant::text,
    visitor::Visitor,
    world::HOOK,
};

const TOKEN: &str = "planted-operators-full-token";
const READ_TOKEN: &str = "planted-operators-read-token";
const PASSWORD: &str = "planted-password-of-sari";
const PROMPT: &str = "planted prompt: answer as Sari";
const SUMMARY: &str = "planted summary of what was said";
const SAID: &str = "planted words of the caller";
const ARGUMENT: &str = "planted-argument";
const RESULT: &str = "planted-result";
const METADATA: &str = "planted-metadata";
const CALLER: &str = "+6281357924680";
const TRANSFER: &str = "+6281475310864";
/// Prefix of the bridge's own call ids.
const IN_AN_ID: &str = "+6281592637480";
/// Masked for operators on pages only: API answers contain them, for searches by number or bridge call id.
const NUMBERS: [&str; 3] = [CALLER, TRANSFER, IN_AN_ID];

/// Planted values with their descriptions.
type PlantedValues = Vec<(&'static str, String)>;

/// The text to search for: without its ends, in case it is cut or quoted, and without a number's prefix.
fn inner(value: &str) -> &str {
    value
        .strip_prefix("+62")
        .or_else(|| value.get(4..value.len().saturating_sub(4)))
        .unwrap_or(value)
}

#[track_caller]
fn assert_clean(place: &str, planted: &PlantedValues, text: &str) {
    for (what, value) in planted {
        if let Some(line) = text.lines().find(|line| line.contains(inner(value))) {
            let line: String = line.chars().take(600).collect();
            panic!("{what} is in {place}: {line}");
        }
    }
}

/// Does everything that a tenant can do with planted values; returns the values.
async fn do_everything(world: &TestWorld, operator: &Rest) -> PlantedValues {
    let tenant = &world.tenant;
    let sari = world.server.cli(&[
        "user",
        "create",
        "--tenant",
        &tenant.id,
        "--email",
        "sari@example.com",
    ]);
    let url = text(&sari, "url");
    let browser = Visitor::new(&world.server.http);
    let page = browser.open(&url).await;
    let link = page
        .forms()
        .into_iter()
        .find(|form| form.method == "post")
        .unwrap();
    let page = browser.submit(&link).await;
    let form = page.form("/dashboard/password").set("password", PASSWORD);
    browser.submit(&form).await;
    for password in [PASSWORD, "planted-password-of-nobody"] {
        let again = browser.another();
        let page = again.open("/dashboard/sign-in").await;
        let form = page.form("/dashboard/sign-in");
        let form = form.set("email", "sari@example.com");
        again.post(&form.set("password", password)).await;
        again.open("/dashboard").await;
    }
    let cookies: Vec<String> = browser.cookies().into_values().collect();

    tenant.change_agent(json!({"systemPrompt": PROMPT})).await;
    tenant
        .api
        .post("/agents", json!({"systemPrompt": PROMPT, "nmae": 1}))
        .await
        .expect(422);
    let endpoint = world.receiver.url("/function");
    tenant
        .create_function("find_order", "POST", &endpoint)
        .await;
    let function_secret = world
        .server
        .cli(&["function-secret", "show", "--tenant", &tenant.id]);
    world
        .receiver
        .answer("/function", [ServerAnswer::Json(json!({"told": RESULT}))]);
    for transport in [Socket, Http] {
        let bridge = tenant.bridge(transport).await;
        let incoming = json!({
            "did": tenant.did, "callerNumber": CALLER, "bridgeCallId": format!("{IN_AN_ID}-{transport:?}"), "metadata": {"name": METADATA},
        });
        let call = text(&bridge.ok("call.incoming", incoming).await, "callId");
        bridge.ok("call.answered", json!({"callId": call})).await;
        let invoke = json!({"callId": call, "name": "find_order", "parameters": {"orderId": ARGUMENT}, "invocationId": "i1"});
        bridge.ok("call.function", invoke).await;
        let wrong = json!({"callId": call, "name": "find_order", "parameters": {"nothing": ARGUMENT}, "invocationId": "i2"});
        bridge.ok("call.function", wrong).await;
        tenant
            .api
            .post(&format!("/calls/{call}/transfer"), json!({"to": TRANSFER}))
            .await;
        let turn =
            json!({"n": 1, "role": "caller", "text": SAID, "at": "2026-01-15T03:30:05.000Z"});
        bridge
            .ok("call.turn", json!({"callId": call, "turn": turn}))
            .await;
        bridge
            .refused("call.turn", json!({"callId": call, "turn": SAID}))
            .await;
        let turns = json!([{"role": "caller", "text": SAID}]);
        bridge
            .ok(
                "call.transcript",
                json!({"callId": call, "summary": SUMMARY, "turns": turns}),
            )
            .await;
        // Invalid messages are not logged, either.
        bridge
            .refused(
                "call.transcript",
                json!({"callId": call, "summary": 7, "turns": SAID}),
            )
            .await;
        bridge
            .refused(
                "call.incoming",
                json!({"did": CALLER, "callerNumber": CALLER, "bridgeCallId": "x"}),
            )
            .await;
        bridge.hang_up(&call).await;
        world.event("call.ended", &call).await;
    }
    world.receiver.answer(HOOK, [ServerAnswer::Status(410)]);
    let bridge = tenant.bridge(Http).await;
    bridge.ring(&tenant.did).await;
    let wrong = Rest::new(&world.server.http)
        .with("x-api-key", "dkl_planted000000000000000000000000000000");
    wrong.get("/api/v1/agents").await.expect(401);
    let key = tenant
        .api
        .get(&format!(
            "/calls?callerNumber={}",
            CALLER.replace('+', "%2B")
        ))
        .await;
    key.expect(200);
    eventually("the webhook to be disabled", async || {
        let webhooks = operator.get("/webhooks?state=disabled").await.expect(200);
        (!webhooks["webhooks"].as_array().unwrap().is_empty()).then_some(())
    })
    .await;
    let settings = &world.server.installation.settings;
    let master = settings
        .iter()
        .find(|(name, _)| name == "DIKALA_SECRETS__KEY")
        .unwrap();
    let secret = text(&function_secret, "secret");
    let link = url.rsplit('/').next().unwrap().to_owned();
    let named = [
        ("key", &*tenant.key),
        ("the bridge's token", &tenant.token),
        ("webhook secret", SECRET),
        ("function secret", &secret),
        ("secrets.key", &master.1),
        ("operator.token", TOKEN),
        ("operator.read_token", READ_TOKEN),
        ("password", PASSWORD),
        ("wrong password", "planted-password-of-nobody"),
        ("wrong key", "dkl_planted000000000000000000000000000000"),
        ("log-in link", &link),
        ("prompt", PROMPT),
        ("summary", SUMMARY),
        ("words", SAID),
        ("argument", ARGUMENT),
        ("result", RESULT),
        ("metadata", METADATA),
        ("caller", CALLER),
        ("transfer", TRANSFER),
        ("bridge's id", IN_AN_ID),
    ];
    let named = named
        .into_iter()
        .map(|(what, value)| (what, value.to_owned()));
    // Short cookie values are no secrets.
    let cookies = cookies.into_iter().filter(|value| value.len() > 16);
    let cookies = cookies.map(|value| ("cookie", value));
    named.chain(cookies).collect()
}

/// The things of a list, collected from all tenants if only tenants have it.
async fn listed(operator: &Rest, list: &str) -> Vec<Value> {
    let of_tenants = match list {
        "/keys" | "/users" => list,
        "/transactions" => "/credits/transactions",
        _ => return rows(operator, list).await,
    };
    let mut all = Vec::new();
    for tenant in rows(operator, "/tenants").await {
        let id = tenant["id"].as_str().unwrap();
        all.extend(rows(operator, &format!("/tenants/{id}{of_tenants}")).await);
    }
    assert!(!all.is_empty(), "{list}");
    all
}

async fn rows(operator: &Rest, list: &str) -> Vec<Value> {
    let page = operator.get(list).await.expect(200);
    let rows = page.as_object().unwrap().values().find_map(Value::as_array);
    rows.unwrap().clone()
}

/// The answers of every GET in the operators' API, with every known id.
async fn answers(operator: &Rest, root: &Rest) -> Vec<(String, String)> {
    let document = root.get("/operator/openapi.json").await.expect(200);
    let paths = document["paths"].as_object().unwrap();
    let mut answers = Vec::new();
    for (path, item) in paths {
        if item.get("get").is_none() {
            continue;
        }
        let path = path.strip_prefix("/operator/v1").unwrap();
        let Some((list, rest)) = path.split_once("/{") else {
            answers.push((path.to_owned(), operator.get(path).await.text));
            continue;
        };
        let rest = rest.split_once('}').unwrap().1;
        for row in listed(operator, list).await {
            let id = row.get("id").or(row.get("type")).and_then(Value::as_str);
            let Some(id) = id else { continue };
            let path = format!("{list}/{id}{rest}");
            let answer = operator.get(&path).await;
            // No call here came over SIP.
            let expected = if path.ends_with("/sip") { 404 } else { 200 };
            assert_eq!(answer.status, expected, "{path}: {}", answer.text);
            answers.push((path, answer.text));
        }
    }
    assert!(answers.len() > 20, "{answers:?}");
    answers
}

#[rstest]
#[actix_web::test]
async fn what_was_planted_is_nowhere(
    #[values(Sqlite, Postgres)] store: StoreKind,
    #[values("json", "text")] format: &str,
) {
    let collector = TenantServer::start();
    let setup = WorldSetup::new()
        .set("log.format", format)
        .set("log.level", "trace,sqlx::query=trace")
        .set("operator.token", TOKEN)
        .set("operator.read_token", READ_TOKEN)
        .set("telemetry.otlp_endpoint", collector.url(""));
    let mut world = world!(store, setup);
    let bearer = format!("Bearer {TOKEN}");
    let root = Rest::new(&world.server.operator).with("authorization", &bearer);
    let operator =
        Rest::new(&format!("{}/operator/v1", world.server.operator)).with("authorization", &bearer);
    let planted = do_everything(&world, &operator).await;
    let others: PlantedValues = planted
        .iter()
        .filter(|(_, value)| !NUMBERS.contains(&value.as_str()))
        .cloned()
        .collect();

    for accept in ["text/plain", "application/openmetrics-text"] {
        let metrics = root.clone().with("accept", accept).get("/metrics").await;
        assert_eq!(metrics.status, 200);
        assert_clean("a metric", &planted, &metrics.text);
        let did = world.tenant.did.trim_start_matches('+');
        for id in [&*world.tenant.id, did] {
            assert!(!metrics.text.contains(id), "{id} is in a label");
        }
    }
    assert_clean(
        "/health/ready",
        &planted,
        &root.get("/health/ready").await.text,
    );
    for (path, answer) in answers(&operator, &root).await {
        let hidden = match path.starts_with("/calls") {
            true => &others,
            false => &planted,
        };
        assert_clean(&path, hidden, &answer);
    }
    assert_eq!(world.server.terminate().await, 0);

    let log = world.server.log();
    assert_clean("the log", &planted, &log);
    assert_clean("the log", &vec![("did", world.tenant.did.clone())], &log);
    judge_lines(&log, format);
    let told = spans(&collector);
    assert!(told.len() > 20, "{told:?}");
    for span in &told {
        assert_clean("a span", &planted, &format!("{span:?}"));
        assert_clean(
            "a span",
            &vec![("did", world.tenant.did.clone())],
            &format!("{span:?}"),
        );
    }
    for request in collector.received(otlp::PATH) {
        assert_clean(
            "what was sent",
            &planted,
            &String::from_utf8_lossy(&request.body),
        );
    }
}

/// The request id in a log line.
fn request_of(line: &str, format: &str) -> Option<String> {
    match format {
        "json" => {
            let line: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
            line["request_id"].as_str().map(str::to_owned)
        }
        // The last one is the line's own; earlier ones belong to its span.
        _ => {
            let (_, named) = line.rsplit_once("request_id=")?;
            let id = named.split([' ', '}']).next()?;
            Some(id.trim_matches('"').to_owned())
        }
    }
}

/// Checks that each request and each step of a call has a log line with both ids. A step names its request: the
/// message's over HTTP, or the socket's.
fn judge_lines(log: &str, format: &str) {
    let mut requests = HashMap::new();
    for line in log.lines() {
        let is_request = match format {
            "json" => line.contains("\"message\":\"request\""),
            _ => line.contains("request method="),
        };
        if is_request {
            let id = request_of(line, format).unwrap_or_else(|| panic!("no id in {line}"));
            requests.insert(id, line);
        }
    }
    assert!(requests.len() >= 20, "{requests:?} in {log}");
    let about = |message: &str| log.lines().filter(|line| line.contains(message)).count();
    for step in ["call taken", "call answered", "call over"] {
        assert!(about(step) >= 2, "{step} in {log}");
    }
    let steps = ["call taken", "call answered", "call over"];
    for line in log
        .lines()
        .filter(|line| steps.iter().any(|step| line.contains(step)))
    {
        assert!(line.contains("call_") && line.contains("ten_"), "{line}");
        let request = request_of(line, format).unwrap_or_else(|| panic!("no request in {line}"));
        let route = requests.get(&request);
        assert!(
            route.is_some_and(|line| line.contains("/bridge/v1/")),
            "{line}: {route:?}"
        );
    }
}
