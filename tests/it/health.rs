//! What a load balancer, a scraper and an outage see.

use crate::support::{prelude::*, wait::within};

#[rstest]
#[actix_web::test]
async fn health_and_metrics_tell_how_it_is(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let public = world.server.rest();
    for path in ["/health/live", "/health/ready"] {
        public.get(path).await.expect(200);
    }
    assert_eq!(
        public.get("/metrics").await.status,
        404,
        "metrics are for operators"
    );
    let bridge = world.tenant.bridge(Socket).await;
    let call = bridge.talk(&world.tenant.did).await;
    world.event("call.answered", &call).await;

    let operator = Rest::new(&world.server.operator);
    let answer = operator.get("/metrics").await;
    assert_eq!(answer.status, 200);
    let text = answer.text.to_lowercase();
    assert!(text.contains("# type") && text.contains("# help"), "{text}");
    for series in [
        "call",
        "answered",
        "webhook",
        "ledger",
        "actor",
        "depth",
        "handled",
        "dikala_clock_stepped_milliseconds{} 0",
    ] {
        assert!(text.contains(series), "nothing about {series} in\n{text}");
    }
    for secret in [&world.tenant.key, &world.tenant.token, SECRET] {
        assert!(!answer.text.contains(secret));
    }
    bridge.hang_up(&call).await;
}

#[rstest]
#[actix_web::test]
async fn a_database_that_is_away_is_unavailable_and_comes_back() {
    let world = world!(Postgres);
    let tenant = &world.tenant;
    let public = world.server.rest();
    let bridge = tenant.bridge(Http).await;
    let call = bridge.talk(&tenant.did).await;
    let database = world.server.installation.store.database().unwrap();
    database.go_away();
    let answer = eventually("not ready", async || {
        let answer = public.get("/health/ready").await;
        (answer.status == 503).then_some(answer)
    })
    .await;
    drop(answer);
    public.get("/health/live").await.expect(200);
    let answer = tenant.api.get("/agents").await;
    assert!(answer.header("retry-after").is_some(), "{answer:?}");
    assert_eq!(answer.expect(503)["error"]["code"], "unavailable");
    let wrong = "dkl_0000000000000000000000000000000000000";
    let stranger = Rest::new(&format!("{}/api/v1", world.server.http)).with("x-api-key", wrong);
    stranger.get("/agents").await.expect(401);

    database.come_back();
    let patience = Duration::from_secs(120);
    within(patience, "ready again", async || {
        (public.get("/health/ready").await.status == 200).then_some(())
    })
    .await;
    within(patience, "the call to be answered for", async || {
        let hangup = bridge.ask("call.hangup", json!({"callId": call})).await;
        (hangup["ok"] == true).then_some(())
    })
    .await;
    assert_eq!(tenant.billed(&call).await, Some(1));
    world.event("call.ended", &call).await;
    world.assert_ledger_is_exact();
}
