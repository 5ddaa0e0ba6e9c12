//! The overview and the pages of actors, as JSON and in the console: figures agree with events, and problems are
//! described.

use futures_util::StreamExt;

use super::{console::signed_in, *};
use crate::support::{
    scrape::Scrape,
    visitor::{VisitedPage, Visitor},
};

/// A figure of the overview.
#[track_caller]
fn figure(overview: &Value, name: &str) -> Value {
    let figures = overview["figures"].as_array().unwrap();
    let found = figures.iter().find(|figure| figure["name"] == name);
    found
        .unwrap_or_else(|| panic!("no {name} in {overview}"))
        .clone()
}

/// Waits until a problem is shown.
async fn problem(api: &Rest, code: &str) -> Value {
    eventually(code, async || {
        let overview = api.get("/overview").await.expect(200);
        let problems = overview["problems"].as_array().unwrap().iter();
        problems
            .clone()
            .find(|problem| problem["code"] == code)
            .cloned()
    })
    .await
}

#[actix_web::test]
async fn figures_agree_with_what_happened() {
    let world = world!(Postgres, guarded());
    let (tenant, api) = (&world.tenant, with(&world.server, READ));
    let first = api.get("/overview").await.expect(200);
    assert_eq!(
        (&first["node"], &first["historyStepSeconds"]),
        (&json!("main"), &json!(10))
    );
    let names: Vec<&str> = first["figures"]
        .as_array()
        .unwrap()
        .iter()
        .map(|figure| figure["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "calls_now",
            "calls_per_second",
            "answered_share",
            "ack_p50",
            "ack_p99",
            "deliveries_per_second",
            "oldest_due",
            "batch_items",
            "commit_p50",
            "commit_p99"
        ]
    );
    assert_eq!(figure(&first, "calls_now")["value"], 0);
    assert_eq!(figure(&first, "ack_p99")["limit"], 1_000);
    let bridge = tenant.bridge(Socket).await;
    let running = bridge.talk(&tenant.did).await;
    let overview = eventually("a call now", async || {
        let overview = api.get("/overview").await.expect(200);
        (figure(&overview, "calls_now")["value"] == 1).then_some(overview)
    })
    .await;
    assert_eq!(
        figure(&overview, "calls_now")["history"]
            .as_array()
            .unwrap()
            .len(),
        60
    );
    let share = eventually("the share of calls that were answered", async || {
        // Three of four ended calls in one window had a conversation.
        for n in 0..4 {
            let call = match n {
                3 => bridge.ring(&tenant.did).await,
                _ => bridge.talk(&tenant.did).await,
            };
            match n {
                3 => drop(bridge.ok("call.hangup", abandoned(&call)).await),
                _ => bridge.hang_up(&call).await,
            }
        }
        let all_told = api.get("/overview").await.expect(200);
        let measured = [
            "answered_share",
            "ack_p50",
            "ack_p99",
            "batch_items",
            "commit_p99",
            "deliveries_per_second",
        ];
        let is_told = measured
            .iter()
            .all(|name| figure(&all_told, name)["value"].as_f64() > Some(0.0));
        let share = figure(&all_told, "answered_share")["value"].as_f64()?;
        // A call that the caller abandoned was not answered.
        (is_told && share < 100.0).then_some(share)
    })
    .await;
    assert!(share > 0.0, "{share}");
    eventually("one call again", async || {
        let overview = api.get("/overview").await.expect(200);
        (figure(&overview, "calls_now")["value"] == 1).then_some(())
    })
    .await;
    let metrics =
        Rest::new(&world.server.operator).with("authorization", &format!("Bearer {READ}"));
    let scrape = Scrape::read(metrics.get("/metrics").await.text);
    let active = scrape.value("dikala_calls_active", &[("status", "answered")]);
    assert_eq!(active, 1.0);

    // The page shows the same.
    let browser = signed_in(&world.server, READ).await;
    browser.open("/").await.assert_shows("Calls now 1");
    eventually("nothing wrong", async || {
        let page = browser.open("/").await.text();
        page.contains("Nothing. Calls, minutes and webhooks flow.")
            .then_some(())
    })
    .await;
    bridge.hang_up(&running).await;
}

fn abandoned(call: &str) -> Value {
    json!({"callId": call, "reason": "normal", "initiator": "caller"})
}

#[actix_web::test]
async fn a_failing_webhook_is_told_with_its_tenant_and_goes_when_it_works() {
    let world = world!(Postgres, guarded());
    let (tenant, api) = (&world.tenant, with(&world.server, READ));
    world
        .receiver
        .answer("/broken", [ServerAnswer::Status(500)]);
    let webhook = tenant
        .subscribe(&world.receiver.url("/broken"), &["call.started"], SECRET)
        .await;
    let browser = signed_in(&world.server, READ).await;
    let bridge = tenant.bridge(Socket).await;
    bridge.ring(&tenant.did).await;
    let told = problem(&api, "webhook_failing").await;
    assert_eq!(
        (&told["tenantId"], &told["target"]),
        (&json!(tenant.id), &json!(webhook))
    );
    assert_eq!(told["severity"], "warning");
    let name = api
        .get(&format!("/tenants/{}", tenant.id))
        .await
        .expect(200)["name"]
        .clone();
    let name = name.as_str().unwrap();
    assert!(told["summary"].as_str().unwrap().contains(name), "{told}");
    let page = browser.open("/").await;
    page.assert_shows(told["summary"].as_str().unwrap());
    page.assert_shows(told["action"].as_str().unwrap());
    let indonesian = browser.with("accept-language", "id");
    let page = indonesian.open("/").await;
    page.assert_shows(&format!("Webhook {webhook} milik {name} gagal terus."));
    page.assert_shows("Peristiwa tidak sampai ke tenant");
    assert!(!page.html.contains("lang=\"en\""), "{}", page.html);

    tenant.api.delete(&format!("/webhooks/{webhook}")).await;
    eventually("all is well", async || {
        let overview = api.get("/overview").await.expect(200);
        (overview["status"] == "ok" && overview["problems"] == json!([])).then_some(())
    })
    .await;
}

#[actix_web::test]
async fn an_endpoint_that_hangs_and_a_tenant_that_floods_are_told() {
    let world = world!(Sqlite, guarded());
    let (tenant, api) = (&world.tenant, with(&world.server, READ));
    world.receiver.answer("/silent", [ServerAnswer::Hang]);
    let webhook = tenant
        .subscribe(&world.receiver.url("/silent"), &["call.started"], SECRET)
        .await;
    api.get("/overview").await.expect(200);
    let bridge = tenant.bridge(Socket).await;
    bridge.ring(&tenant.did).await;
    world.receiver.wait_for("/silent", 1).await;
    let told = problem(&api, "endpoint_hangs").await;
    assert_eq!(
        (&told["tenantId"], &told["target"]),
        (&json!(tenant.id), &json!(webhook))
    );
    let overview = api.get("/overview").await.expect(200).to_string();
    assert!(
        !overview.contains("webhook_failing"),
        "before its time is over"
    );

    let (path, limited) = (format!("/tenants/{}", tenant.id), json!({"rateLimit": 1}));
    let full = with(&world.server, FULL);
    full.patch(&path, limited).await.expect(200);
    for _ in 0..60 {
        tenant.api.get("/credits").await;
    }
    let told = problem(&api, "tenant_floods").await;
    assert_eq!(told["tenantId"], json!(tenant.id));
}

/// The console works while the database is away, and says so.
#[actix_web::test]
async fn the_console_answers_while_the_database_is_away() {
    let world = world!(Postgres, guarded());
    let database = world.server.installation.store.database().unwrap();
    database.go_away();
    let browser = Visitor::new(&world.server.operator);
    let page = browser
        .fill("/sign-in", "/sign-in", &[("token", FULL)])
        .await;
    assert_eq!((page.status, page.path.as_str()), (200, "/"));
    let page: VisitedPage = eventually("that the database is away", async || {
        let page = browser.open("/").await;
        page.text()
            .contains("The database does not answer.")
            .then_some(page)
    })
    .await;
    page.assert_shows("Check that it runs, can be reached,");
    // Every page tells how many critical problems there are.
    let nodes = browser.open("/nodes").await;
    assert!(nodes.html.contains("<title>(1) Nodes"), "{}", nodes.html);
    nodes.assert_shows("1 critical problem");
    let api = with(&world.server, READ);
    let told = problem(&api, "not_ready").await;
    assert_eq!(
        (&told["severity"], &told["target"]),
        (&json!("critical"), &json!("store"))
    );
    database.come_back();
}

#[actix_web::test]
async fn a_calls_actor_tells_what_it_is_about() {
    let world = world!(Postgres, guarded());
    let (tenant, api) = (&world.tenant, with(&world.server, READ));
    let bridge = tenant.bridge(Socket).await;
    let ringing = bridge.ring(&tenant.did).await;
    let talking = bridge.talk(&tenant.did).await;
    let calls = api.get("/actors/call").await.expect(200);
    assert_eq!(
        (&calls["instances"], &calls["mailboxCapacity"]),
        (&json!(2), &json!(16))
    );
    let busiest = calls["busiest"].as_array().unwrap();
    assert_eq!(busiest.len(), 2);
    let of = |call: &str| {
        let found = busiest.iter().find(|instance| instance["id"] == call);
        found
            .unwrap_or_else(|| panic!("no {call} in {calls}"))
            .clone()
    };
    assert_eq!(
        (
            &of(&ringing)["call"]["status"],
            &of(&talking)["call"]["status"]
        ),
        (&json!("ringing"), &json!("answered"))
    );
    let talk = of(&talking);
    assert!(talk["call"]["grantedMinutes"].as_i64() >= Some(1), "{talk}");
    let deadline = Moment::parse(&talk["call"]["nextDeadline"]);
    assert!(deadline.ms_since(Moment::now()) > 0, "{talk}");
    let messages = talk["lastMessages"].as_array().unwrap();
    assert!(
        messages.iter().any(|came| came["message"] == "Tell"),
        "{talk}"
    );
    assert_eq!(
        (&talk["doing"], talk["handled"].as_u64() > Some(0)),
        (&Value::Null, true)
    );

    let browser = signed_in(&world.server, READ).await;
    let page = browser.open("/actors/call").await;
    assert!(page.html.contains(&talking), "the whole id can be had");
    for words in [
        &*format!("…{}", &talking[talking.len() - 6..]),
        "min granted",
        "looks at the clock in",
        "waits for messages",
    ] {
        page.assert_shows(words);
    }
    let all = browser.open("/actors").await;
    for words in ["credit_ledger", "webhook_dispatcher", "core-0", "calls-1"] {
        all.assert_shows(words);
    }
    assert!(all.links().contains(&"/actors/credit_ledger".to_owned()));
    let ledger = browser.open("/actors/credit_ledger").await;
    ledger.assert_shows("Post");
    api.get("/actors/nothing").await.expect(404);
    // An ended call leaves the list with its actor.
    bridge.hang_up(&ringing).await;
    bridge.hang_up(&talking).await;
    eventually("no call in memory", async || {
        let calls = api.get("/actors/call").await.expect(200);
        calls["busiest"]
            .as_array()
            .unwrap()
            .is_empty()
            .then_some(())
    })
    .await;
}

/// The page is updated by one stream, which ends with the session.
#[actix_web::test]
async fn a_stream_tells_what_changes_until_somebody_signs_out() {
    let world = world!(Sqlite, guarded());
    let browser = signed_in(&world.server, READ).await;
    let page = browser.open("/").await;
    assert!(
        page.html.contains("data-live=\"/live?of=overview\""),
        "{}",
        page.html
    );
    let cookies: Vec<String> = browser
        .cookies()
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let request = awc::Client::builder().disable_timeout().finish();
    let request = request
        .get(format!(
            "{}/live?of=overview&after=0",
            world.server.operator
        ))
        .insert_header(("cookie", cookies.join("; ")));
    let mut stream = request.send().await.unwrap();
    assert_eq!(
        stream.headers().get("content-type").unwrap(),
        "text/event-stream"
    );
    let mut seen = String::new();
    let bridge = world.tenant.bridge(Socket).await;
    bridge.talk(&world.tenant.did).await;
    while !seen.contains("Calls now</h3><p class=\"value\">1<") {
        let chunk = stream.next().await.unwrap().unwrap();
        seen.push_str(&String::from_utf8_lossy(&chunk));
    }
    assert!(
        seen.contains("event: part\ndata: <div id=\"part\">"),
        "{seen}"
    );
    let form = page.form("/sign-out");
    browser
        .submit(&form)
        .await
        .assert_shows("You are signed out.");
    while let Some(chunk) = stream.next().await {
        if chunk.is_err() {
            break;
        }
    }
    let gone = browser.fetch("/live?of=overview").await;
    assert_eq!(gone.status, 303);
    let other = signed_in(&world.server, READ).await;
    let nobodys = format!("/live?of=call&id={}", nobody("call"));
    for nothing in ["/live?of=nothing", "/live?of=call&id=x", &nobodys] {
        assert_eq!(other.fetch(nothing).await.status, 404, "{nothing}");
    }
}

#[actix_web::test]
async fn the_first_look_shows_what_happened_before() {
    let world = world!(Sqlite, guarded());
    let bridge = world.tenant.bridge(Socket).await;
    let call = bridge.talk(&world.tenant.did).await;
    // Nobody looks while the call lasts, for as long as a sample takes.
    let began = std::time::Instant::now();
    eventually("two seconds", async || {
        (began.elapsed().as_secs() >= 2).then_some(())
    })
    .await;
    bridge.hang_up(&call).await;
    let api = with(&world.server, READ);
    let first = api.get("/overview").await.expect(200);
    let now = figure(&first, "calls_now");
    assert_eq!(now["max"], 1, "{now}");
    let history = now["history"].as_array().unwrap();
    assert!(history.contains(&json!(1)), "{now}");
    let day = api.get("/overview?period=24h").await.expect(200);
    assert_eq!(day["historyStepSeconds"], 60);
    assert_eq!(
        figure(&day, "calls_now")["history"]
            .as_array()
            .unwrap()
            .len(),
        1_440
    );
    api.get("/overview?period=1h").await.expect(422);

    let browser = signed_in(&world.server, READ).await;
    let page = browser.open("/").await;
    page.assert_shows("min 0, max 1");
    page.assert_shows("10 min ago now");
    page.assert_shows("Node main started with version");
    page.assert_bound("/assets/");
    assert!(page.links().contains(&"/?period=24h".to_owned()));
    let page = browser.open("/?period=24h").await;
    page.assert_shows("The last 24 hours");
    page.assert_shows("24 h ago now");
    page.assert_bound("/assets/");
    assert!(
        page.html.contains("of=overview&amp;period=24h"),
        "{}",
        page.html
    );
}
