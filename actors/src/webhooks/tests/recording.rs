//! An attempt that cannot be recorded delays only its own endpoint.

use sea_orm::ConnectionTrait;

use super::*;

impl World {
    /// Makes the database refuse attempts of a tenant.
    async fn refuses_attempts_of(&self, tenant: TenantId) {
        let refuses = format!(
            "CREATE TRIGGER refuses BEFORE INSERT ON delivery_attempts WHEN NEW.tenant_id = '{tenant}' \
             BEGIN SELECT RAISE(ABORT, 'not this one'); END"
        );
        let db = self.store.writer();
        db.execute_unprepared(&refuses).await.expect("a trigger");
    }
}

#[actix::test]
async fn an_attempt_that_cannot_be_recorded_stops_no_other() {
    let world = World::new().await;
    let (good, bad) = (
        TenantServer::scripted(|_| ok()),
        TenantServer::scripted(|_| ok()),
    );
    let strange = TenantId::new(world.clock.now());
    world.webhook(strange, bad.outbound_url("/")).await;
    world.webhook(world.tenant, good.outbound_url("/")).await;
    world.refuses_attempts_of(strange).await;
    let handle = world.start(patient());
    let calls = world.calls(40);
    // In one batch with others or in one of its own.
    let strange_ids = world.announce(&handle, strange, &calls[..3]).await;
    let ids = world.announce(&handle, world.tenant, &calls).await;
    bad.wait_for_total(3).await;
    for id in &ids {
        world.succeeded(*id).await;
    }
    // They no longer count as unrecorded, and this process does not send them again.
    condition("end of it", || handle.stats().unrecorded == 0).await;
    handle.wake();
    for id in world.announce(&handle, world.tenant, &calls[..1]).await {
        world.succeeded(id).await;
    }
    assert_eq!(bad.all().len(), 3, "each once");
    for id in strange_ids {
        let row = world.until(id, "has a row", |_| true).await;
        assert_eq!((row.status, row.attempts), (DeliveryStatus::Pending, 0));
    }
}

/// Another session has locked a failing webhook's row, as an operator's open transaction would.
#[actix::test]
async fn a_locked_webhook_delays_its_own_attempts_only() {
    let Some((keep, store)) = dikala_testkit::postgres().await else {
        return;
    };
    let world = World::with_store(keep, store);
    let (good, bad) = (
        TenantServer::scripted(|_| ok()),
        TenantServer::scripted(|_| ServerAnswer::with(500, "", b"")),
    );
    let other = TenantId::new(world.clock.now());
    let locked = world.webhook(other, bad.outbound_url("/")).await.id;
    world.webhook(world.tenant, good.outbound_url("/")).await;
    let busy = world.store.begin().await.expect("begins");
    for sql in [
        "SET LOCAL idle_in_transaction_session_timeout = 0",
        &format!("SELECT 1 FROM webhooks WHERE id = '{locked}' FOR UPDATE"),
    ] {
        busy.execute_unprepared(sql).await.expect("is locked");
    }
    let handle = world.start(patient());
    let calls = world.calls(40);
    let waiting = world.announce(&handle, other, &calls[..1]).await;
    let ids = world.announce(&handle, world.tenant, &calls).await;
    bad.wait_for_total(1).await;
    for id in &ids {
        world.succeeded(*id).await;
    }
    assert_eq!(
        world
            .until(waiting[0], "has a row", |_| true)
            .await
            .attempts,
        0
    );
    busy.rollback().await.expect("is free again");
    dikala_testkit::eventually("the attempt to be recorded", async || {
        (world.delivery(waiting[0]).await.attempts > 0).then_some(())
    })
    .await;
    assert_eq!(bad.all().len(), 1, "it was not sent again");
}
