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
        let row = world.delivery(id).await;
        assert_eq!((row.status, row.attempts), (DeliveryStatus::Pending, 0));
    }
}
