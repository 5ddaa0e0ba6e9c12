//! Webhooks that change, at another node or during an attempt.

use tokio::sync::Semaphore;

use super::*;

impl World {
    /// Changes the address without telling any node.
    async fn moves(&self, webhook: WebhookId, url: OutboundUrl) {
        let row = self.webhook_row(webhook).await;
        let later = row.updated_at.plus_ms(1);
        let mut row = row.into_active_model();
        row.url = Set(url);
        row.updated_at = Set(later);
        row.update(self.store.writer()).await.expect("moves");
    }
}

#[actix::test]
async fn a_change_at_another_node_counts_before_the_next_poll() {
    // The clock stands still, so nothing is polled.
    let (world, _clock) = World::with_manual_clock().await;
    let receiver = TenantServer::scripted(|_| ok());
    let hook = world
        .webhook(world.tenant, receiver.outbound_url("/old"))
        .await;
    let node = Membership::outside(NODE);
    let notices = node.notices().clone();
    let handle = world.start_as(node, patient(), local_outbound());
    // The first ones have the tables read, which would find the change, too.
    for count in 1..4 {
        world.announce(&handle, world.tenant, &world.calls(1)).await;
        receiver.wait_for("/old", count).await;
    }

    world.moves(hook.id, receiver.outbound_url("/new")).await;
    notices.heard(&format!("node-b  {}", hook.id), NODE);
    let began = Instant::now();
    while receiver.received("/new").is_empty() {
        assert!(began.elapsed() < PATIENCE, "nothing came");
        world.announce(&handle, world.tenant, &world.calls(1)).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[actix::test]
async fn what_an_earlier_address_does_not_want_goes_to_the_present_one() {
    let world = World::new().await;
    let gate = Arc::new(Semaphore::new(0));
    let closed = Arc::clone(&gate);
    let receiver = TenantServer::scripted(move |seen| match seen.path.as_str() {
        "/old" => {
            let gone = ServerAnswer::with(410, "", b"gone");
            ServerAnswer::When(Arc::clone(&closed), Box::new(gone))
        }
        _ => ok(),
    });
    let hook = world
        .webhook(world.tenant, receiver.outbound_url("/old"))
        .await;
    let handle = world.start(retrying(&[0; 6]));
    let ids = world.announce(&handle, world.tenant, &world.calls(1)).await;
    receiver.wait_for("/old", 1).await;
    world.moves(hook.id, receiver.outbound_url("/new")).await;
    handle.refresh(hook.id);
    gate.add_permits(1);
    let delivered = world.succeeded(ids[0]).await;
    assert_eq!(delivered.attempts, 2);
    assert_eq!(receiver.received("/new").len(), 1);
    assert!(world.webhook_row(hook.id).await.is_active);

    // An address that has not changed is disabled.
    let receiver = TenantServer::scripted(|_| ServerAnswer::with(410, "", b"gone"));
    world.moves(hook.id, receiver.outbound_url("/gone")).await;
    handle.refresh(hook.id);
    let ids = world.announce(&handle, world.tenant, &world.calls(1)).await;
    world
        .until(ids[0], "fails", |row| row.status == DeliveryStatus::Failed)
        .await;
    assert!(!world.webhook_row(hook.id).await.is_active);
}
