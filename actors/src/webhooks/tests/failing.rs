//! Endpoints that fail, hang, disappear or are deleted.

use tokio::sync::Semaphore;

use super::*;
use crate::webhooks::stats::QueueState;

#[actix::test]
async fn retry_after_moves_the_next_attempt() {
    let world = World::new().await;
    let handle = world.start(patient());
    for status in [429, 503] {
        let tenant = TenantId::new(world.clock.now());
        let receiver =
            TenantServer::scripted(move |_| ServerAnswer::with(status, "retry-after: 20\r\n", b""));
        world.webhook(tenant, receiver.outbound_url("/")).await;
        let ids = world.announce(&handle, tenant, &world.calls(1)).await;
        let row = world.attempted(ids[0]).await;
        let attempt = world.attempts(ids[0]).await.remove(0);
        let ended_at = attempt.started_at.plus_ms(attempt.duration_ms);
        let wait_ms = row.next_attempt_at.expect("pending").since(ended_at);
        assert!((19_900..=25_000).contains(&wait_ms), "{wait_ms} ms");
    }
}

#[actix::test]
async fn a_failed_delivery_is_tried_again_with_the_same_bytes_until_the_schedule_ends() {
    let world = World::new().await;
    let receiver = TenantServer::scripted(|_| ServerAnswer::with(500, "", b""));
    let hook = world
        .webhook(world.tenant, receiver.outbound_url("/"))
        .await;
    let handle = world.start(retrying(&[0, 1, 0, 0, 0, 0]));
    let ids = world.announce(&handle, world.tenant, &world.calls(1)).await;
    let row = world
        .until(ids[0], "fails", |row| row.status == DeliveryStatus::Failed)
        .await;
    assert_eq!((row.attempts, row.next_attempt_at), (7, None));
    let seen = receiver.all();
    let numbers: Vec<&str> = seen
        .iter()
        .map(|s| s.headers["x-service-attempt"].as_str())
        .collect();
    assert_eq!(numbers, ["1", "2", "3", "4", "5", "6", "7"]);
    assert!(
        seen.iter()
            .all(|s| s.body == seen[0].body && delivery_of(s) == ids[0].to_string())
    );
    assert_eq!(world.attempts(ids[0]).await.len(), 7);
    let hook = world.webhook_row(hook.id).await;
    assert_eq!((hook.failed_in_row, hook.is_active), (1, true));
    assert!(hook.failing_since.is_some());
}

#[actix::test]
async fn a_success_ends_a_row_of_failures() {
    let world = World::new().await;
    let came = AtomicUsize::new(0);
    let receiver = TenantServer::scripted(move |_| {
        if came.fetch_add(1, Ordering::SeqCst) < 2 {
            ServerAnswer::with(500, "", b"")
        } else {
            ok()
        }
    });
    let hook = world
        .webhook(world.tenant, receiver.outbound_url("/"))
        .await;
    let handle = world.start(retrying(&[0, 0, 0]));
    let ids = world.announce(&handle, world.tenant, &world.calls(1)).await;
    assert_eq!(world.succeeded(ids[0]).await.attempts, 3);
    let hook = world.webhook_row(hook.id).await;
    assert_eq!((hook.failed_in_row, hook.failing_since), (0, None));
}

#[actix::test]
async fn a_410_disables_and_enabling_again_resumes() {
    let world = World::new().await;
    let gone = Arc::new(AtomicBool::new(true));
    let now_gone = Arc::clone(&gone);
    let receiver = TenantServer::scripted(move |_| {
        if now_gone.load(Ordering::SeqCst) {
            ServerAnswer::with(410, "", b"")
        } else {
            ok()
        }
    });
    let hook = world
        .webhook(world.tenant, receiver.outbound_url("/"))
        .await;
    let handle = world.start(WebhooksConfig {
        endpoint_concurrency: 1,
        ..patient()
    });
    let ids = world.announce(&handle, world.tenant, &world.calls(3)).await;
    let row = world
        .until(ids[0], "fails", |row| row.status == DeliveryStatus::Failed)
        .await;
    assert_eq!(row.attempts, 1);
    let disabled = world.webhook_row(hook.id).await;
    assert!(!disabled.is_active);
    assert_eq!(
        disabled.disabled_reason.as_deref(),
        Some(retry::REASON_GONE)
    );
    world
        .until(ids[1], "waits", |row| row.status == DeliveryStatus::Pending)
        .await;
    assert_eq!(receiver.all().len(), 1);

    gone.store(false, Ordering::SeqCst);
    let mut enabled = disabled.into_active_model();
    enabled.is_active = Set(true);
    enabled.disabled_reason = Set(None);
    enabled.update(world.store.writer()).await.expect("enabled");
    handle.refresh(hook.id);
    for id in &ids[1..] {
        world.succeeded(*id).await;
    }
}

#[actix::test]
async fn a_tenant_whose_endpoint_hangs_delays_nobody_else() {
    let world = World::new().await;
    let hanging = TenantServer::scripted(|_| ServerAnswer::Hang);
    let healthy = TenantServer::scripted(|_| ok());
    let (bad, good) = (TenantId::new(world.clock.now()), world.tenant);
    for n in 0..20 {
        world
            .webhook(bad, hanging.outbound_url(&format!("/{n}")))
            .await;
    }
    world.webhook(good, healthy.outbound_url("/")).await;
    let handle = world.start(WebhooksConfig {
        timeout: Duration::from_secs(600),
        ..patient()
    });
    let hung = world.announce(&handle, bad, &world.calls(40)).await;
    assert_eq!(hung.len(), 800);
    // Exactly a quarter of all slots.
    hanging.wait_for_total(64).await;
    for _ in 0..10 {
        let ids = world.announce(&handle, good, &world.calls(2)).await;
        for id in ids {
            world.succeeded(id).await;
        }
    }
    assert_eq!(handle.stats().in_flight, 64);
    assert_eq!(hanging.all().len(), 64);
}

#[actix::test]
async fn an_endpoint_that_keeps_failing_is_probed_and_then_gets_everything() {
    let world = World::new().await;
    let broken = Arc::new(AtomicBool::new(true));
    let now_broken = Arc::clone(&broken);
    let receiver = TenantServer::scripted(move |_| {
        if now_broken.load(Ordering::SeqCst) {
            ServerAnswer::with(500, "", b"")
        } else {
            ok()
        }
    });
    world
        .webhook(world.tenant, receiver.outbound_url("/"))
        .await;
    let handle = world.start(retrying(&[2, 2, 2, 2]));
    let ids = world
        .announce(&handle, world.tenant, &world.calls(60))
        .await;
    let opened = || {
        handle.wake();
        let stats = handle.stats();
        stats.queues[QueueState::Open as usize] == 1 && stats.in_flight == 0
    };
    condition("circuit to open", opened).await;
    // Eight were in progress when it opened, and some probes may have followed; without the circuit it would be all
    // sixty.
    let burnt = receiver.all().len();
    assert!(burnt < 30, "{burnt} attempts");
    broken.store(false, Ordering::SeqCst);
    for id in &ids {
        assert!(world.succeeded(*id).await.attempts <= 3);
    }
    assert_eq!(handle.stats().failed, 0);
}

#[actix::test]
async fn a_deleted_webhook_gets_nothing_more_and_its_deliveries_are_closed() {
    let world = World::new().await;
    let receiver = TenantServer::scripted(|_| ServerAnswer::with(500, "", b""));
    let hook = world
        .webhook(world.tenant, receiver.outbound_url("/"))
        .await;
    let handle = world.start(retrying(&[60; 6]));
    let ids = world.announce(&handle, world.tenant, &world.calls(1)).await;
    world.attempted(ids[0]).await;
    webhook::Entity::delete_by_id(hook.id)
        .exec(world.store.writer())
        .await
        .expect("deleted");
    handle.refresh(hook.id);
    let row = world
        .until(ids[0], "is closed", |row| {
            row.status == DeliveryStatus::Failed
        })
        .await;
    assert_eq!(row.attempts, 1);
    assert_eq!(receiver.all().len(), 1);
}

#[actix::test]
async fn a_secret_that_does_not_open_burns_no_attempt() {
    let world = World::new().await;
    let receiver = TenantServer::scripted(|_| ok());
    let hook = world
        .webhook(world.tenant, receiver.outbound_url("/"))
        .await;
    let sealed = hook.secret.clone();
    let mut broken = hook.clone().into_active_model();
    broken.secret = Set("AAAA".to_owned());
    broken.update(world.store.writer()).await.expect("broken");
    let handle = world.start(patient());
    let ids = world.announce(&handle, world.tenant, &world.calls(2)).await;
    let sealed_off = || handle.stats().queues[QueueState::Sealed as usize] > 0;
    condition("queue without a secret", sealed_off).await;
    let mut mended = world.webhook_row(hook.id).await.into_active_model();
    mended.secret = Set(sealed);
    mended.update(world.store.writer()).await.expect("mended");
    handle.refresh(hook.id);
    for id in ids {
        assert_eq!(world.succeeded(id).await.attempts, 1);
    }
}

#[actix::test]
async fn ten_failed_deliveries_over_five_days_disable_with_the_reason_in_the_record() {
    let (world, clock) = World::with_manual_clock().await;
    let receiver = TenantServer::scripted(|_| ServerAnswer::with(500, "", b""));
    let hook = world
        .webhook(world.tenant, receiver.outbound_url("/"))
        .await;
    let handle = world.start(retrying(&[]));
    for n in 1..=10 {
        assert!(
            world.webhook_row(hook.id).await.is_active,
            "after {}",
            n - 1
        );
        let ids = world.announce(&handle, world.tenant, &world.calls(1)).await;
        let failed = |row: &delivery::Model| row.status == DeliveryStatus::Failed;
        world.until(ids[0], "fails", failed).await;
        clock.advance_ms(14 * 60 * 60 * 1_000);
    }
    let disabled = world.webhook_row(hook.id).await;
    assert_eq!((disabled.is_active, disabled.failed_in_row), (false, 10));
    assert_eq!(
        disabled.disabled_reason.as_deref(),
        Some(retry::REASON_FAILING)
    );
    // No more deliveries are created for it.
    assert_eq!(world.commit(world.tenant, &world.calls(1)).await, []);
    assert_eq!(receiver.all().len(), 10);
}

#[actix::test]
async fn a_late_410_tells_of_the_address_that_it_came_from() {
    // All within one millisecond.
    let (world, clock) = World::with_manual_clock().await;
    let gone = Arc::new(Semaphore::new(0));
    let answer = ServerAnswer::with(410, "", b"").when(&gone);
    let old = TenantServer::scripted(move |_| answer.clone());
    let new = TenantServer::scripted(|_| ok());
    let hook = world.webhook(world.tenant, old.outbound_url("/")).await;
    let handle = world.start(patient());
    let ids = world.announce(&handle, world.tenant, &world.calls(1)).await;
    old.wait_for_total(1).await;
    let mut moved = hook.clone();
    moved.url = new.outbound_url("/");
    moved.changed(world.clock.now());
    let moved = moved.into_active_model().reset_all();
    moved.update(world.store.writer()).await.expect("moved");
    handle.refresh(hook.id);
    gone.add_permits(1);
    world.attempted(ids[0]).await;
    let row = world.webhook_row(hook.id).await;
    assert_eq!((row.is_active, row.disabled_reason), (true, None));
    let ids = world.announce(&handle, world.tenant, &world.calls(1)).await;
    // After the backoff and the next poll.
    dikala_testkit::eventually("success", async || {
        clock.advance_ms(100);
        let row = delivery::Entity::find_by_id(ids[0]);
        let row = row.one(world.store.reader()).await.expect("read")?;
        (row.status == DeliveryStatus::Succeeded).then_some(())
    })
    .await;
}

#[actix::test]
async fn tests_of_one_tenant_leave_room_for_anothers() {
    let world = World::new().await;
    let hanging = TenantServer::scripted(|_| ServerAnswer::Hang);
    let fine = TenantServer::scripted(|_| ok());
    let other = TenantId::new(world.clock.now());
    let (bad, good) = (
        world.webhook(world.tenant, hanging.outbound_url("/")).await,
        world.webhook(other, fine.outbound_url("/")).await,
    );
    let handle = world.start(patient());
    let tests: Vec<_> = (0..20)
        .map(|_| {
            let (handle, bad) = (handle.clone(), bad.clone());
            actix_rt::spawn(async move { handle.test(bad, None).await })
        })
        .collect();
    hanging.wait_for_total(4).await;
    let refused = || tests.iter().filter(|test| test.is_finished()).count() == 16;
    condition("refusal of all but four", refused).await;
    let sent = handle.test(good, None).await.expect("there is room");
    world.succeeded(sent).await;
    assert_eq!(hanging.all().len(), 4);
}

#[actix::test]
async fn silent_name_servers_of_one_tenant_delay_no_other() {
    let names = SlowNames::start();
    let world = World::new().await;
    let receiver = TenantServer::scripted(|_| ok());
    for n in 0..192 {
        let url = SlowNames::url(&receiver, &format!("hang{n}"));
        world.webhook(world.tenant, url).await;
    }
    let other = TenantId::new(world.clock.now());
    let url = SlowNames::url(&receiver, "quick");
    world.webhook(other, url).await;
    let handle = world.start_with(patient(), names.outbound.clone());
    world.announce(&handle, world.tenant, &world.calls(1)).await;
    names.wait_for(32).await;
    for id in world.announce(&handle, other, &world.calls(10)).await {
        let row = world.succeeded(id).await;
        assert_eq!(row.attempts, 1);
    }
    assert_eq!(names.hanging.load(Ordering::SeqCst), 32);
    handle.drain(Duration::ZERO).await;
}

/// A receiver that sends 103 first, the real answer a moment later, and sometimes everything twice.
#[actix::test]
async fn an_answer_is_booked_for_the_delivery_that_it_belongs_to() {
    let world = World::new().await;
    let receiver = TenantServer::scripted(|seen| {
        let body: serde_json::Value = serde_json::from_slice(&seen.body).expect("JSON");
        let n = body["data"]["callerNumber"].as_str().expect("a text");
        let n: u64 = n.parse().expect("a number");
        let status = if n.is_multiple_of(2) { 200 } else { 500 };
        let answer = format!(
            "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 {status} X\r\ncontent-length: 2\r\n\r\n{:02}",
            n % 100
        );
        let answer = answer.repeat(if n.is_multiple_of(5) { 2 } else { 1 });
        ServerAnswer::Bytes(answer.into_bytes()).after(Duration::from_millis(n % 4))
    });
    world
        .webhook(world.tenant, receiver.outbound_url("/"))
        .await;
    let handle = world.start(retrying(&[1_000]));
    let ids = world
        .announce(&handle, world.tenant, &world.calls(60))
        .await;
    for (n, id) in ids.into_iter().enumerate() {
        world.attempted(id).await;
        let attempts = world.attempts(id).await;
        let status = if n.is_multiple_of(2) { 200 } else { 500 };
        assert_eq!(attempts[0].status_code, Some(status), "{n}");
        assert_eq!(attempts[0].response, format!("{n:02}").into_bytes());
    }
}
