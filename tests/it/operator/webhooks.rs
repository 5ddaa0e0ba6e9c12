//! Tenants' endpoints: failures, pausing, and sending again.

use super::*;
use crate::support::{scrape::Scrape, tenant::text};

#[rstest]
#[actix_web::test]
async fn a_paused_webhook_gets_nothing_and_loses_nothing(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let (tenant, api) = (&world.tenant, client(&world.server));
    let url = world.receiver.url("/paused");
    let hook = tenant.subscribe(&url, &["call.started"], SECRET).await;
    let bridge = tenant.bridge(Http).await;
    bridge.ring(&tenant.did).await;
    world.receiver.wait_for("/paused", 1).await;

    let path = format!("/webhooks/{hook}");
    let paused = api
        .post(&format!("{path}/pause"), json!({}))
        .await
        .expect(200);
    assert!(
        paused["pausedAt"].is_string() && paused["isActive"] == true,
        "{paused}"
    );
    let again = api
        .post(&format!("{path}/pause"), json!({}))
        .await
        .expect(200);
    assert_eq!(again, paused);
    let of = async |state: &str| {
        let listed = api
            .get(&format!("/webhooks?state={state}"))
            .await
            .expect(200);
        ids(&listed["webhooks"])
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(of("paused").await, std::slice::from_ref(&hook));
    // The tenant sees the reason, and that it is no fault of the tenant's.
    let seen = tenant.api.get(&path).await.expect(200);
    assert_eq!(seen["isActive"], true);
    let why = text(&seen, "disabledReason");
    assert!(
        why.contains("operator") && why.contains("none is lost"),
        "{why}"
    );

    // The dispatcher may have read the webhook before the pause, and attempts in flight are finished. From its next
    // read on nothing is sent, while another endpoint gets the same events.
    let calls = [
        bridge.ring(&tenant.did).await,
        bridge.ring(&tenant.did).await,
        bridge.ring(&tenant.did).await,
    ];
    for call in &calls {
        world.event("call.started", call).await;
    }
    let waiting = format!("/deliveries?status=pending&webhookId={hook}");
    let first = eventually("deliveries to wait", async || {
        let listed = api.get(&waiting).await.expect(200);
        let listed = listed["deliveries"].as_array().unwrap();
        (listed.len() == 3).then(|| listed[0].clone())
    })
    .await;
    assert_eq!(first["attemptCount"], 0);
    assert_eq!(world.receiver.received("/paused").len(), 1);
    // Not even a restart resumes them.
    let resumed = format!("{path}/resume");
    let resumed = api.post(&resumed, json!({})).await.expect(200);
    assert_eq!(resumed["pausedAt"], Value::Null);
    let came = world.receiver.wait_for("/paused", 4).await;
    let told: Vec<String> = came[1..]
        .iter()
        .map(|came| {
            came.event(SECRET).data["callId"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    assert_eq!(told, calls, "in their order");
    assert!(
        came[1..]
            .iter()
            .all(|came| came.header("x-service-attempt") == "1")
    );
    assert_eq!(
        tenant.api.get(&path).await.expect(200)["disabledReason"],
        Value::Null
    );
    for call in &calls {
        bridge.hang_up(call).await;
    }
}

#[rstest]
#[actix_web::test]
async fn a_pause_outlasts_a_start(#[values(Sqlite, Postgres)] store: StoreKind) {
    let mut world = world!(store);
    let url = world.receiver.url("/paused");
    let hook = world
        .tenant
        .subscribe(&url, &["call.started"], SECRET)
        .await;
    let api = client(&world.server);
    let path = format!("/webhooks/{hook}");
    api.post(&format!("{path}/pause"), json!({}))
        .await
        .expect(200);
    let bridge = world.tenant.bridge(Http).await;
    let before = bridge.ring(&world.tenant.did).await;
    world.event("call.started", &before).await;
    world.server.kill9();
    world.server.restart();
    let bridge = world.tenant.bridge(Http).await;
    let after = bridge.ring(&world.tenant.did).await;
    world.event("call.started", &after).await;
    assert_eq!(world.receiver.received("/paused").len(), 0);
    let api = client(&world.server);
    api.post(&format!("{path}/resume"), json!({}))
        .await
        .expect(200);
    world.receiver.wait_for("/paused", 2).await;
    for call in [before, after] {
        bridge.hang_up(&call).await;
    }
}

#[rstest]
#[actix_web::test]
async fn failing_and_disabled_webhooks_are_listed_and_their_deliveries_sent_again(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let setup = WorldSetup::new().set("webhooks.retry_schedule_seconds", "3600");
    let world = world!(store, setup);
    let (tenant, api) = (&world.tenant, client(&world.server));
    let other = world.another_tenant(10).await;
    let subscribe = async |path: &str, answers: Vec<ServerAnswer>| {
        world.receiver.answer(path, answers);
        tenant
            .subscribe(&world.receiver.url(path), &["call.started"], SECRET)
            .await
    };
    let failing = subscribe(
        "/fails",
        vec![ServerAnswer::Status(500), ServerAnswer::Status(204)],
    )
    .await;
    let gone = subscribe(
        "/gone",
        vec![ServerAnswer::Status(410), ServerAnswer::Status(204)],
    )
    .await;
    let fine = other
        .subscribe(&world.receiver.url("/fine"), &["call.started"], SECRET)
        .await;
    let bridge = tenant.bridge(Http).await;
    let call = bridge.ring(&tenant.did).await;
    let list = async |query: &str, key: &str| {
        let listed = api.get(query).await.expect(200);
        ids(&listed[key])
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    eventually("both to be known", async || {
        let failing = list("/webhooks?state=failing", "webhooks").await == [failing.clone()];
        let disabled = list("/webhooks?state=disabled", "webhooks").await == [gone.clone()];
        (failing && disabled).then_some(())
    })
    .await;
    let of_other = format!("/webhooks?tenantId={}", other.id);
    assert_eq!(list(&of_other, "webhooks").await, [fine]);
    assert_eq!(list("/webhooks", "webhooks").await.len(), 4);

    // The failed delivery waits for its retry; the operator resends it at once.
    let of_failing = format!("/deliveries?webhookId={failing}");
    let delivery = list(&of_failing, "deliveries").await.remove(0);
    assert_eq!(
        list("/deliveries?status=failed", "deliveries").await.len(),
        1
    );
    let sent = api
        .post(&format!("/deliveries/{delivery}/resend"), json!({}))
        .await;
    assert_eq!(sent.expect(202)["status"], "pending");
    world.receiver.wait_for("/fails", 2).await;
    eventually("it to be delivered", async || {
        let done = list(&format!("{of_failing}&status=succeeded"), "deliveries").await;
        (done == [delivery.clone()]).then_some(())
    })
    .await;

    let path = format!("/webhooks/{gone}");
    let on = json!({"isActive": true});
    tenant.api.patch(&path, on).await.expect(200);
    let since = json!({"since": Moment::ago(600).text()});
    let recovered = api
        .post(&format!("{path}/recover"), since)
        .await
        .expect(202);
    assert_eq!(recovered["deliveries"], 1);
    let came = world.receiver.wait_for("/gone", 2).await;
    assert_eq!(came[1].body, came[0].body);
    let refused = api
        .post(&format!("{path}/recover"), json!({}))
        .await
        .expect(422);
    assert_eq!(refused["error"]["fields"][0]["field"], "since");
    bridge.hang_up(&call).await;
}

/// Deliveries held back for a failing endpoint are not the service's fault, so no alert about late deliveries
/// fires.
#[rstest]
#[actix_web::test]
async fn what_a_dead_endpoint_is_spared_is_not_told_as_late(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let setup = WorldSetup::new().set("webhooks.retry_schedule_seconds", "3600");
    let world = world!(store, setup);
    let (tenant, api) = (&world.tenant, client(&world.server));
    world
        .receiver
        .answer("/dead", vec![ServerAnswer::Status(500); 100]);
    let events = ["call.started", "call.answered", "call.ended"];
    let url = world.receiver.url("/dead");
    let dead = tenant.subscribe(&url, &events, SECRET).await;
    let bridge = tenant.bridge(Http).await;
    for _ in 0..6 {
        let call = bridge.talk(&tenant.did).await;
        bridge.hang_up(&call).await;
    }
    let over = std::time::Instant::now();
    let waiting = format!("/deliveries?status=pending&webhookId={dead}");
    let open = [("state", "open")];
    eventually("deliveries to wait for the next probe", async || {
        let listed = api.get(&waiting).await.expect(200);
        let listed = listed["deliveries"].as_array().unwrap();
        let spared = listed.iter().any(|of| of["attemptCount"] == 0);
        let scrape = Scrape::of(&world.server.operator).await;
        let is_open = scrape.value("dikala_webhook_lanes", &open) == 1.0;
        (spared && is_open && over.elapsed() > Duration::from_secs(4)).then_some(())
    })
    .await;
    let scrape = Scrape::of(&world.server.operator).await;
    assert_eq!(scrape.value("dikala_webhook_oldest_due_seconds", &[]), 0.0);
}
