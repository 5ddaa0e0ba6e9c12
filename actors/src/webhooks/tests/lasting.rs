//! Order, restarts, lost announcements and draining.

use tokio::sync::Semaphore;

use super::*;

#[actix::test]
async fn the_first_attempts_of_one_call_go_in_order_and_calls_do_not_wait_for_each_other() {
    let world = World::new().await;
    let running: Mutex<HashMap<String, usize>> = Mutex::default();
    let most = Arc::new(AtomicUsize::new(0));
    let seen_most = Arc::clone(&most);
    let receiver = TenantServer::scripted(move |seen| {
        let body: serde_json::Value = serde_json::from_slice(&seen.body).expect("JSON");
        let call = body["data"]["callId"].as_str().expect("an id").to_owned();
        let mut running = running.lock().expect("no test panics with it");
        *running.entry(call).or_insert(0) += 1;
        seen_most.fetch_max(running.len(), Ordering::SeqCst);
        let wait = 3 + (seen.body.len() as u64 * 7 + running.len() as u64) % 5;
        ServerAnswer::Status(200).after(Duration::from_millis(wait))
    });
    world
        .webhook(world.tenant, receiver.outbound_url("/"))
        .await;
    let handle = world.start(patient());
    let calls = world.calls(5);
    // More than a queue holds in memory, so that some come back from the table.
    let order: Vec<CallId> = (0..300).map(|n| calls[n % calls.len()]).collect();
    let mut ids = Vec::new();
    for part in order.chunks(30) {
        ids.extend(world.announce(&handle, world.tenant, part).await);
    }
    for id in &ids {
        world.succeeded(*id).await;
    }
    let seen = receiver.all();
    assert_eq!(seen.len(), ids.len(), "each once");
    let mut by_call: HashMap<usize, Vec<String>> = HashMap::new();
    for request in &seen {
        let n = ids
            .iter()
            .position(|id| id.to_string() == delivery_of(request))
            .expect("one of ours");
        by_call
            .entry(n % calls.len())
            .or_default()
            .push(delivery_of(request));
    }
    for deliveries in by_call.values() {
        assert!(deliveries.is_sorted(), "out of order");
    }
    assert!(
        most.load(Ordering::SeqCst) > 1,
        "calls waited for each other"
    );
}

#[actix::test]
async fn what_was_pending_when_the_node_stopped_goes_on_at_the_next_start() {
    let world = World::new().await;
    let receiver = TenantServer::scripted(|_| ok());
    world
        .webhook(world.tenant, receiver.outbound_url("/"))
        .await;
    let own = world.commit(world.tenant, &world.calls(150)).await;
    let foreign = world
        .commit_as(world.tenant, &world.calls(1), "node-b")
        .await;
    let _handle = world.start(patient());
    for dispatch in own.iter().chain(&foreign) {
        world.succeeded(dispatch.delivery).await;
    }
    assert_eq!(receiver.all().len(), own.len() + 1, "each once");
}

#[actix::test]
async fn an_announcement_that_was_lost_costs_time_only() {
    let world = World::new().await;
    let receiver = TenantServer::scripted(|_| ok());
    world
        .webhook(world.tenant, receiver.outbound_url("/"))
        .await;
    let handle = world.start(patient());
    assert!(handle.is_alive().await);
    let lost = world.commit(world.tenant, &world.calls(1)).await;
    world.succeeded(lost[0].delivery).await;
}

#[actix::test]
async fn a_drain_waits_for_what_is_under_way_and_gives_the_rest_back() {
    let world = World::new().await;
    let answers = Arc::new(Semaphore::new(0));
    let permits = Arc::clone(&answers);
    let receiver = TenantServer::scripted(move |_| ServerAnswer::Status(200).when(&permits));
    world
        .webhook(world.tenant, receiver.outbound_url("/"))
        .await;
    let handle = world.start(WebhooksConfig {
        endpoint_concurrency: 2,
        ..patient()
    });
    let ids = world.announce(&handle, world.tenant, &world.calls(6)).await;
    receiver.wait_for_total(2).await;
    // The answers come after the drain was requested.
    let drain = handle.drain(PATIENCE);
    tokio::join!(drain, async { answers.add_permits(2) });
    for id in &ids[..2] {
        assert_eq!(world.delivery(*id).await.status, DeliveryStatus::Succeeded);
    }
    let webhook = world.delivery(ids[0]).await.webhook_id;
    assert_eq!(world.refills(NO_NODE, webhook).await, ids[2..]);
    for id in &ids[2..] {
        let row = world.delivery(*id).await;
        assert_eq!((row.status, row.attempts), (DeliveryStatus::Pending, 0));
    }
    assert_eq!(receiver.all().len(), 2);
    assert!(matches!(
        handle
            .test(
                world
                    .webhook(world.tenant, receiver.outbound_url("/"))
                    .await,
                None,
            )
            .await,
        Err(crate::webhooks::TestError::Busy)
    ));
}

#[actix::test]
async fn a_dispatcher_that_panicked_comes_back_from_the_table() {
    let world = World::new().await;
    let receiver = TenantServer::scripted(|_| ok());
    world
        .webhook(world.tenant, receiver.outbound_url("/"))
        .await;
    let handle = world.start(patient());
    let calls = world.calls(1);
    let before = world.announce(&handle, world.tenant, &calls).await;
    world.succeeded(before[0]).await;
    let lost = world.commit(world.tenant, &calls).await;
    let broken = handle.dispatcher.send(crate::webhooks::dispatcher::Break);
    assert!(broken.await.is_err());
    world.succeeded(lost[0].delivery).await;
    let after = world.announce(&handle, world.tenant, &calls).await;
    world.succeeded(after[0]).await;
    assert!(handle.is_alive().await);
}

#[actix::test]
async fn an_endpoint_that_gets_nothing_keeps_no_connection() {
    let (world, clock) = World::with_manual_clock().await;
    let receiver = TenantServer::scripted(|_| ok());
    world
        .webhook(world.tenant, receiver.outbound_url("/"))
        .await;
    let handle = world.start(patient());
    let ids = world.announce(&handle, world.tenant, &world.calls(1)).await;
    world.succeeded(ids[0]).await;
    let queues = || {
        handle.wake();
        handle.stats().queues.iter().sum::<i64>()
    };
    let kept = || (receiver.open(), queues()) == (1, 1);
    condition("connection that is kept", kept).await;
    // The queue may learn of its last result after the row shows it, so the idle minute may begin a little later.
    let gone = || {
        clock.advance_ms(60_000);
        (receiver.open(), queues()) == (0, 0)
    };
    condition("end of the queue", gone).await;
}
