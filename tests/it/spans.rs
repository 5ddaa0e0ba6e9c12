//! Spans from the ring to the last delivery, as a collector receives them.

use std::collections::BTreeSet;

use crate::support::{
    deaf::DeafListener,
    otlp::{CollectedSpan, PATH, spans, wait_for_spans},
    prelude::*,
    scrape::Scrape,
    world::HOOK,
};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

fn named() -> String {
    format!("00-{TRACE}-{PARENT}-01")
}

/// The settings of a server with a collector.
fn traced(collector: &TenantServer) -> WorldSetup {
    WorldSetup::new()
        .set("telemetry.otlp_endpoint", collector.url(""))
        .set("webhooks.retry_schedule_seconds", vec!["1"; 60].join(","))
}

/// Trace and span ids of the request.
#[track_caller]
fn sent_as(request: &ReceivedRequest) -> (String, String) {
    let sent = request.header("traceparent");
    let parts: Vec<&str> = sent.split('-').collect();
    let ["00", trace, span, "01"] = parts[..] else {
        panic!("{sent}");
    };
    (trace.to_owned(), span.to_owned())
}

fn of<'a>(spans: &'a [CollectedSpan], name: &str) -> Vec<&'a CollectedSpan> {
    spans.iter().filter(|span| span.name == name).collect()
}

#[track_caller]
fn one<'a>(spans: &'a [CollectedSpan], name: &str) -> &'a CollectedSpan {
    let found = of(spans, name);
    assert_eq!(found.len(), 1, "{name} in {spans:#?}");
    found[0]
}

/// True if all spans of a call of [`story`] have arrived.
fn is_whole(spans: &[CollectedSpan], call: &str) -> bool {
    let of_call = |span: &&CollectedSpan| {
        span.attributes.get("dikala.call.id").map(String::as_str) == Some(call)
    };
    let delivered = |span: &&CollectedSpan| {
        span.name == "webhook" && span.attribute("dikala.delivery.outcome") == "delivered"
    };
    let delivered = spans.iter().filter(of_call).filter(delivered).count();
    // call.started, call.answered, function.called, call.ended
    delivered == 4 && spans.iter().filter(of_call).any(|span| span.name == "call")
}

/// A call whose deliveries fail at first; the process is killed during the call.
#[rstest]
#[actix_web::test]
async fn one_trace_leads_from_the_ring_to_the_last_delivery_also_through_a_kill(
    #[values(Sqlite, Postgres)] store: StoreKind,
    #[values(true, false)] is_named: bool,
) {
    let collector = TenantServer::start();
    let mut world = world!(store, traced(&collector));
    let endpoint = world.receiver.url("/function");
    let (tenant, receiver) = (&world.tenant, &world.receiver);
    tenant
        .create_function("find_order", "POST", &endpoint)
        .await;
    receiver.answer("/function", [ServerAnswer::Json(json!({"stock": 3}))]);
    receiver.answer(HOOK, [ServerAnswer::Status(503)]);
    let bridge = tenant.bridge(Socket).await;
    let mut incoming =
        json!({"did": tenant.did, "callerNumber": "+628123", "bridgeCallId": "traced"});
    if is_named {
        incoming["traceparent"] = json!(named());
    }
    let taken = bridge.ok("call.incoming", incoming).await;
    let call = taken["callId"].as_str().unwrap().to_owned();
    bridge.ok("call.answered", json!({"callId": call})).await;
    let invoke = json!({"callId": call, "name": "find_order", "parameters": {"orderId": "7"}, "invocationId": "i1"});
    bridge.ok("call.function", invoke).await;
    receiver.wait_for(HOOK, 2).await;
    let before = [
        "call.incoming",
        "call.answered",
        "call.function",
        "function",
        "webhook",
    ];
    wait_for_spans(&collector, "what happened so far", |spans| {
        before.iter().all(|name| !of(spans, name).is_empty())
    })
    .await;

    world.server.kill9();
    bridge.cut();
    world.receiver.answer(HOOK, [ServerAnswer::Status(204)]);
    world.server.restart();
    let bridge = world.tenant.bridge(Http).await;
    bridge.hang_up(&call).await;
    world.event("call.ended", &call).await;
    let all = wait_for_spans(&collector, "the whole call", |spans| is_whole(spans, &call)).await;
    judge(&all, &call, is_named, &world.receiver);
}

/// Checks that all spans are in one trace below their causes, and that requests carry the span of their sending.
fn judge(all: &[CollectedSpan], call: &str, is_named: bool, receiver: &TenantServer) {
    let root = one(all, "call");
    let (trace, parent) = if is_named {
        (TRACE, PARENT)
    } else {
        (&*root.trace, "")
    };
    assert_eq!((&*root.trace, &*root.parent), (trace, parent));
    assert_eq!(root.attribute("dikala.call.id"), call);
    assert_eq!(root.attribute("dikala.call.status"), "ended");
    let ours: Vec<CollectedSpan> = all
        .iter()
        .filter(|span| span.trace == trace)
        .cloned()
        .collect();
    let ids: BTreeSet<&str> = ours.iter().map(|span| &*span.id).collect();
    assert_eq!(ids.len(), ours.len(), "each has a number of its own");
    for span in &ours {
        let is_below = span.id == root.id || ids.contains(&*span.parent);
        assert!(is_below, "{span:?} hangs below nothing");
    }
    for message in [
        "call.incoming",
        "call.answered",
        "call.function",
        "call.hangup",
    ] {
        let message = one(&ours, message);
        assert_eq!(
            (&message.parent, message.kind),
            (&root.id, 2),
            "{message:?}"
        );
        let booked = of(&ours, "ledger");
        let booked = booked.iter().filter(|span| span.parent == message.id);
        assert!(booked.count() >= 1, "{message:?} was committed");
    }
    let function = one(&ours, "function");
    assert_eq!(function.parent, one(&ours, "call.function").id);
    let asked = receiver.received("/function");
    assert_eq!(sent_as(&asked[0]), (trace.to_owned(), function.id.clone()));
    let attempts = of(&ours, "webhook");
    assert!(
        attempts
            .iter()
            .all(|span| span.parent == root.id && span.kind == 3)
    );
    let numbers: BTreeSet<&str> = attempts
        .iter()
        .map(|span| span.attribute("dikala.delivery.attempt"))
        .collect();
    assert!(
        numbers.contains("1") && numbers.contains("2"),
        "{numbers:?}"
    );
    let failed = attempts.iter().find(|span| span.error.is_some()).unwrap();
    assert_eq!(failed.attribute("http.response.status_code"), "503");
    for span in attempts {
        let mut sent = receiver.received(HOOK).into_iter();
        let sent = sent.find(|request| sent_as(request).1 == span.id).unwrap();
        assert_eq!(sent_as(&sent).0, trace);
        assert_eq!(sent.delivery(), Some(span.attribute("dikala.delivery.id")));
        let number = span.attribute("dikala.delivery.attempt");
        assert_eq!(sent.header("x-service-attempt"), number);
    }
}

/// A request's span is below its client's, and the deliveries that it causes are below the request.
#[actix_web::test]
async fn a_request_hangs_below_its_client_and_its_deliveries_below_it() {
    let collector = TenantServer::start();
    let world = world!(Sqlite, traced(&collector));
    let api = Rest::new(&format!("{}/api/v1", world.server.http))
        .with("x-api-key", &world.tenant.key)
        .with("x-request-id", "traced")
        .with("traceparent", &named());
    let webhooks = api.get("/webhooks").await.expect(200);
    let webhook = webhooks["webhooks"][0]["id"].as_str().unwrap();
    api.post(&format!("/webhooks/{webhook}/test"), json!({}))
        .await;
    let all = wait_for_spans(&collector, "the sample", |spans| {
        !of(spans, "webhook").is_empty() && of(spans, "POST /api/v1/webhooks/{id}/test").len() == 1
    })
    .await;
    let request = one(&all, "POST /api/v1/webhooks/{id}/test");
    assert_eq!((&*request.trace, &*request.parent), (TRACE, PARENT));
    assert_eq!(request.attribute("dikala.request.id"), "traced");
    assert_eq!(request.attribute("dikala.tenant.id"), world.tenant.id);
    assert_eq!(request.attribute("http.response.status_code"), "200");
    let sample = one(&all, "webhook");
    assert_eq!(
        (&sample.trace, &sample.parent),
        (&request.trace, &request.id)
    );
    let sent = world.receiver.received(HOOK);
    assert_eq!(sent_as(&sent[0]), (TRACE.to_owned(), sample.id.clone()));
    // A request without a trace starts one. Health and metrics requests are not traced.
    let operator = Rest::new(&world.server.operator);
    for path in ["/metrics", "/health/ready", "/operator/v1/tenants"] {
        operator.get(path).await;
    }
    let all = wait_for_spans(&collector, "a request without a trace", |spans| {
        !of(spans, "GET /operator/v1/tenants").is_empty()
    })
    .await;
    let own = one(&all, "GET /operator/v1/tenants");
    assert_eq!(own.parent, "");
    assert_ne!(own.trace, TRACE);
    let asked = all
        .iter()
        .filter(|span| span.name.contains("/health/") || span.name.contains("/metrics"));
    assert_eq!(asked.count(), 0);
}

/// An unsampled trace is propagated but not exported.
#[actix_web::test]
async fn who_does_not_record_his_trace_is_not_told_of() {
    let collector = TenantServer::start();
    let world = world!(Sqlite, traced(&collector));
    let bridge = world.tenant.bridge(Socket).await;
    let unrecorded = named().replace("-01", "-00");
    let incoming = json!({
        "did": world.tenant.did, "callerNumber": "+628123", "bridgeCallId": "quiet", "traceparent": unrecorded,
    });
    bridge.ok("call.incoming", incoming).await;
    let sent = world.receiver.wait_for(HOOK, 1).await;
    let sent = sent[0].header("traceparent").to_owned();
    assert!(
        sent.starts_with(&format!("00-{TRACE}-")) && sent.ends_with("-00"),
        "{sent}"
    );
    // A sampled call comes after it, in the same queue.
    let told = bridge.talk(&world.tenant.did).await;
    bridge.hang_up(&told).await;
    let all = wait_for_spans(&collector, "the other call", |spans| {
        !of(spans, "call").is_empty()
    })
    .await;
    assert!(all.iter().all(|span| span.trace != TRACE), "{all:?}");
}

/// A hanging, missing or refusing collector does not delay calls, and delays a stop only briefly.
#[rstest]
#[case::hangs(Some(DeafListener::silent()))]
#[case::takes_no_connection(Some(DeafListener::full()))]
#[case::is_not_there(None)]
#[actix_web::test]
async fn a_collector_that_is_away_costs_nothing(#[case] deaf: Option<DeafListener>) {
    let address = match &deaf {
        Some(deaf) => deaf.address.to_string(),
        None => format!("127.0.0.1:{}", dikala_testkit::free_port()),
    };
    let setup = WorldSetup::new().set("telemetry.otlp_endpoint", format!("http://{address}"));
    let mut world = world!(Sqlite, setup);
    let bridge = world.tenant.bridge(Socket).await;
    for _ in 0..20 {
        let call = bridge.talk(&world.tenant.did).await;
        bridge.hang_up(&call).await;
        world.event("call.ended", &call).await;
        assert_eq!(world.tenant.billed(&call).await, Some(1));
    }
    if deaf.is_none() {
        let log = eventually("the outage to be told", async || {
            let log = world.server.log();
            log.contains("does not accept spans").then_some(log)
        })
        .await;
        let told = log.matches("does not accept spans").count();
        assert_eq!(told, 1, "once, not each time");
    }
    let scrape = Scrape::of(&world.server.operator).await;
    assert_eq!(
        scrape.value("dikala_spans_total", &[("outcome", "exported")]),
        0.0
    );
    let public = world.server.rest();
    public.get("/health/ready").await.expect(200);
    drop(bridge);
    assert_eq!(world.server.terminate().await, 0);
}

/// Queued spans are sent at a stop.
#[actix_web::test]
async fn the_last_spans_are_sent_at_a_stop() {
    let collector = TenantServer::start();
    let mut world = world!(Sqlite, traced(&collector));
    let bridge = world.tenant.bridge(Http).await;
    let call = bridge.talk(&world.tenant.did).await;
    bridge.hang_up(&call).await;
    world.event("call.ended", &call).await;
    assert_eq!(world.server.terminate().await, 0);
    let all = spans(&collector);
    assert_eq!(one(&all, "call").attribute("dikala.call.id"), call);
    assert_eq!(of(&all, "call.hangup").len(), 1);
    assert!(!collector.received(PATH).is_empty());
}
