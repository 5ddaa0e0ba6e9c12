//! The metrics of docs/metrics.md: names that Prometheus expects, few series, and true values.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use crate::support::{
    prelude::*,
    scrape::{Scrape, ScrapedMetric},
    tenant::Tenant,
};

/// Endings of names, before `_total` and `_info`: Prometheus units, or the counted things.
const UNITS: &[&str] = &[
    "seconds",
    "bytes",
    "ratio",
    "mos",
    "instances",
    "messages",
    "restarts",
    "messages_lost",
    "calls",
    "calls_active",
    "sessions",
    "items",
    "differences",
    "attempts",
    "lanes",
    "requests",
    "connections",
    "fds",
    "build",
    "spans",
    "endpoints",
    "up",
    "trunks",
    "refused",
    "packets",
    "ticks",
    "interruptions",
    "reconnections",
    "voices",
    "idr",
    "settings",
];
/// Names without a unit.
const OTHER_UNITS: &[&str] = &[
    "ms", "us", "milli", "micro", "minutes", "hours", "kb", "mb", "percent",
];
/// Number of series of a server that did a little of everything; more would mean an unbounded label.
const SERIES_MAX: usize = 4_000;

/// Exposed only if mails, or spans, are sent.
const SENT: [&str; 2] = ["dikala_mails_total", "dikala_spans_total"];
/// Exposed only if `serve` runs the telephony bridge; tested in tests/it/telephony.
const TELEPHONY: [&str; 2] = ["dikala_telephony_", "dikala_voice_"];

/// A row of docs/metrics.md: type and labels.
pub type DocumentedMetrics = BTreeMap<String, (String, Vec<String>)>;

pub fn documented() -> DocumentedMetrics {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/metrics.md");
    let text = fs::read_to_string(path).unwrap();
    let named = |cell: &str| -> Vec<String> {
        let parts = cell.split('`').skip(1).step_by(2);
        parts.map(str::to_owned).collect()
    };
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let name = named(cells[1]).remove(0);
        (name, (cells[2].to_owned(), named(cells[3])))
    })
    .collect()
}

/// A call with a function and webhooks, successful and failed requests, and invalid messages.
async fn everything(world: &TestWorld, tenant: &Tenant, round: usize) -> String {
    let endpoint = world.receiver.url("/function");
    let name = format!("find_{round}");
    tenant.create_function(&name, "POST", &endpoint).await;
    let bridge = tenant.bridge(Socket).await;
    let call = bridge.talk(&tenant.did).await;
    let invocation =
        json!({"callId": call, "name": name, "parameters": {"orderId": "7"}, "invocationId": "i1"});
    bridge.ok("call.function", invocation).await;
    bridge.refused("call.dance", json!({"callId": call})).await;
    bridge.hang_up(&call).await;
    let public = world.server.rest();
    for path in ["/nothing", "/api/v1/nothing", "/dashboard/nothing"] {
        public.get(&format!("{path}/{round}/{call}")).await;
    }
    let made_up = awc::http::Method::from_bytes(format!("DANCE{round}").as_bytes()).unwrap();
    public.send(made_up, "/openapi.json", None).await;
    tenant.api.get(&format!("/calls/{call}")).await.expect(200);
    tenant
        .api
        .get(&format!("/calls/call_{round}"))
        .await
        .expect(404);
    call
}

#[actix_web::test]
async fn every_metric_is_documented_and_named_as_prometheus_wants_it() {
    let world = world!(Sqlite);
    world
        .receiver
        .answer("/function", [ServerAnswer::Json(json!({"stock": 3}))]);
    let call = everything(&world, &world.tenant, 0).await;
    world.event("call.ended", &call).await;
    let scrape = Scrape::of(&world.server.operator).await;
    let mut documented = documented();
    // OpenMetrics names a counter without `_total`, and names must stay unique without it.
    let families: BTreeSet<&str> = documented
        .keys()
        .map(|name| name.trim_end_matches("_total").trim_end_matches("_info"))
        .collect();
    assert_eq!(families.len(), documented.len());
    documented.retain(|name, _| {
        let is_optional =
            SENT.contains(&&**name) || TELEPHONY.iter().any(|prefix| name.starts_with(prefix));
        scrape.metrics.contains_key(name) || !is_optional
    });
    let served: Vec<&String> = scrape.metrics.keys().collect();
    assert_eq!(served, documented.keys().collect::<Vec<_>>());
    for (name, metric) in &scrape.metrics {
        assert_as_documented(name, metric, &documented);
    }
}

/// Asserts a metric's type, labels, unit and name.
pub fn assert_as_documented(name: &str, metric: &ScrapedMetric, documented: &DocumentedMetrics) {
    let (kind, labels) = &documented[name];
    let shown = if kind == "info" { "gauge" } else { kind };
    assert_eq!(metric.kind, shown, "{name}");
    assert!(!metric.help.is_empty(), "{name}");
    assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
    assert_eq!(kind == "info", name.ends_with("_info"), "{name}");
    let base = name.trim_end_matches("_total").trim_end_matches("_info");
    assert!(
        UNITS.iter().any(|unit| base.ends_with(&format!("_{unit}"))),
        "{name}"
    );
    assert!(
        !base.split('_').any(|part| OTHER_UNITS.contains(&part)),
        "{name}"
    );
    assert!(!metric.series.is_empty(), "nothing of {name}");
    for series in &metric.series {
        let found = series.labels.keys().filter(|label| *label != "le");
        let mut wanted: Vec<&String> = labels.iter().collect();
        wanted.sort();
        assert_eq!(found.collect::<Vec<_>>(), wanted, "{name}");
        assert!(series.value.is_finite(), "{series:?}");
    }
}

#[actix_web::test]
async fn series_do_not_grow_with_tenants_calls_and_paths() {
    let world = world!(Sqlite);
    let other = world.another_tenant(100).await;
    world
        .receiver
        .answer("/function", [ServerAnswer::Json(json!({"stock": 3}))]);
    let first = everything(&world, &world.tenant, 0).await;
    world.event("call.ended", &first).await;
    // Traces and background work of a first call appear with the next one at the latest.
    everything(&world, &world.tenant, 1).await;
    Scrape::of(&world.server.operator).await;
    let before = Scrape::of(&world.server.operator).await;
    assert!(
        before.names().len() < SERIES_MAX,
        "{}",
        before.names().len()
    );
    let mut calls = vec![first];
    for round in 2..5 {
        calls.push(everything(&world, &other, round).await);
    }
    let after = Scrape::of(&world.server.operator).await;
    let about_requests = |name: &&String| name.contains("http") || name.contains("calls");
    let (before, after_names) = (before.names(), after.names());
    let new: Vec<&String> = after_names
        .difference(&before)
        .filter(about_requests)
        .collect();
    assert!(new.is_empty(), "{new:#?}");
    assert!(after_names.len() < SERIES_MAX);
    for private in [
        &world.tenant.key,
        &world.tenant.token,
        &world.tenant.did,
        &other.did,
        &other.agent,
        SECRET,
        "DANCE",
        "ten_",
    ] {
        assert!(!after.text.contains(private), "{private}");
    }
    assert!(calls.iter().all(|call| !after.text.contains(call)));
}

#[actix_web::test]
async fn what_happens_is_counted() {
    let world = world!(Sqlite);
    let tenant = &world.tenant;
    world
        .receiver
        .answer("/function", [ServerAnswer::Json(json!({"stock": 3}))]);
    let bridge = tenant.bridge(Socket).await;
    let (ringing, talking) = (
        bridge.ring(&tenant.did).await,
        bridge.talk(&tenant.did).await,
    );
    let scrape = Scrape::of(&world.server.operator).await;
    assert_eq!(
        scrape.value("dikala_calls_active", &[("status", "ringing")]),
        1.0
    );
    assert_eq!(
        scrape.value("dikala_calls_active", &[("status", "answered")]),
        1.0
    );
    assert_eq!(
        scrape.value("dikala_actor_instances", &[("actor", "call")]),
        2.0
    );
    assert_eq!(scrape.value("dikala_bridge_sessions", &[]), 1.0);
    let incoming = [("type", "call.incoming")];
    assert_eq!(
        scrape.value("dikala_bridge_ack_seconds_count", &incoming),
        2.0
    );
    assert!(scrape.value("dikala_bridge_ack_seconds_sum", &incoming) < 60.0);
    let items = [("writer", "credit_ledger")];
    assert!(scrape.value("dikala_batch_items_sum", &items) >= 3.0);
    assert!(scrape.value("dikala_batch_commit_seconds_count", &items) >= 1.0);
    let asked = [("route", "/metrics"), ("status", "200"), ("method", "GET")];
    let before = scrape.find("dikala_http_requests_total", &asked);

    bridge.hang_up(&talking).await;
    bridge
        .ok(
            "call.hangup",
            json!({"callId": ringing, "reason": "abandoned", "initiator": "caller"}),
        )
        .await;
    world.event("call.ended", &ringing).await;
    let stranger = json!({"did": "+6299", "callerNumber": "+6281", "bridgeCallId": "none"});
    bridge.refused("call.incoming", stranger).await;
    eventually("the deliveries to be counted", async || {
        let scrape = Scrape::of(&world.server.operator).await;
        let delivered = scrape.value("dikala_webhook_attempts_total", &[("outcome", "succeeded")]);
        let recorded = [("writer", "webhook_recorder")];
        let recorded = scrape.value("dikala_batch_items_sum", &recorded);
        (delivered == 5.0 && recorded == 5.0).then_some(())
    })
    .await;
    let scrape = Scrape::of(&world.server.operator).await;
    for status in ["ringing", "answered"] {
        assert_eq!(
            scrape.value("dikala_calls_active", &[("status", status)]),
            0.0
        );
    }
    let ended = [("status", "ended"), ("reason", "normal")];
    assert_eq!(scrape.value("dikala_calls_total", &ended), 1.0);
    let dropped = [("status", "dropped"), ("reason", "abandoned")];
    assert_eq!(scrape.value("dikala_calls_total", &dropped), 1.0);
    assert_eq!(
        scrape.value("dikala_webhook_end_to_end_seconds_count", &[]),
        5.0
    );
    assert!(scrape.value("dikala_webhook_lanes", &[("state", "closed")]) <= 1.0);
    assert!(scrape.find("dikala_http_requests_total", &asked) > before);
    assert_eq!(scrape.value("dikala_ledger_differences", &[]), 0.0);
    assert!(scrape.value("process_resident_memory_bytes", &[]) > 1e6);
    for arbiter in [
        "core-0",
        "webhooks-0",
        "calls-1",
        "functions-1",
        "http-1",
        "operators-0",
    ] {
        assert!(scrape.value("dikala_arbiter_lag_seconds", &[("arbiter", arbiter)]) < 30.0);
    }
}

/// Something changed the ledger's tables directly: the next check detects it.
#[actix_web::test]
async fn books_that_do_not_add_up_are_shown() {
    let mut world = world!(Sqlite);
    let bridge = world.tenant.bridge(Http).await;
    bridge.ring(&world.tenant.did).await;
    world.server.kill9();
    let forged = "UPDATE credit_holds SET held = held + 1";
    world.server.installation.store.execute(forged).await;
    world.server.restart();
    eventually("a difference", async || {
        let scrape = Scrape::of(&world.server.operator).await;
        (scrape.value("dikala_ledger_differences", &[]) > 0.0).then_some(())
    })
    .await;
    assert!(world.server.log().contains("the books do not add up"));
}

/// The store is gone, and the metrics are still served, in the requested format.
#[rstest]
#[actix_web::test]
async fn they_answer_while_the_database_is_away() {
    let world = world!(Postgres);
    let bridge = world.tenant.bridge(Http).await;
    bridge.talk(&world.tenant.did).await;
    world
        .server
        .installation
        .store
        .database()
        .unwrap()
        .go_away();
    let operator = Rest::new(&world.server.operator);
    eventually("the database to be missed", async || {
        (operator.get("/health/ready").await.status == 503).then_some(())
    })
    .await;
    let scrape = Scrape::of(&world.server.operator).await;
    assert_eq!(
        scrape.value("dikala_calls_active", &[("status", "answered")]),
        1.0
    );
    let wanted = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3";
    let open = Rest::new(&world.server.operator)
        .with("accept", wanted)
        .get("/metrics")
        .await;
    assert_eq!(open.status, 200);
    let kind = open.header("content-type").unwrap();
    assert!(
        kind.starts_with("application/openmetrics-text; version=1.0.0"),
        "{kind}"
    );
    assert!(open.text.ends_with("\n# EOF\n"), "{}", open.text);
    assert!(
        open.text.contains("# TYPE dikala_calls counter\n"),
        "{}",
        open.text
    );
    world
        .server
        .installation
        .store
        .database()
        .unwrap()
        .come_back();
}
