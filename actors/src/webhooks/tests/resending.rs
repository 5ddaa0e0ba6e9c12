//! Resending a delivery by hand.

use tokio::sync::Semaphore;

use super::*;
use crate::webhooks::{ResendOutcome, stats::QueueState};

/// Makes a delivery due now, as the API does.
async fn make_due(world: &World, id: DeliveryId) {
    let mut row = world.delivery(id).await.into_active_model();
    row.status = Set(DeliveryStatus::Pending);
    row.next_attempt_at = Set(Some(world.clock.now()));
    row.completed_at = Set(None);
    row.update(world.store.writer()).await.expect("due");
}

#[actix::test]
async fn what_is_sent_again_by_hand_goes_out_once_at_once_although_the_circuit_is_open() {
    let world = World::new().await;
    let broken = Arc::new(AtomicBool::new(true));
    let now_broken = Arc::clone(&broken);
    let receiver = TenantServer::scripted(move |_| match now_broken.load(Ordering::SeqCst) {
        true => ServerAnswer::with(500, "", b"still broken"),
        false => ok(),
    });
    let hook = world
        .webhook(world.tenant, receiver.outbound_url("/"))
        .await;
    // An hour between attempts, so only a resend by hand makes another.
    let handle = world.start(retrying(&[3_600; 6]));
    let ids = world
        .announce(&handle, world.tenant, &world.calls(10))
        .await;
    let opened = || {
        handle.wake();
        let stats = handle.stats();
        stats.queues[QueueState::Open as usize] == 1 && stats.in_flight == 0
    };
    condition("circuit to open", opened).await;
    let id = ids[0];
    world.attempted(id).await;
    let sent = || {
        let of_it = receiver.all().into_iter();
        of_it
            .filter(|seen| delivery_of(seen) == id.to_string())
            .count()
    };
    assert_eq!(sent(), 1);

    for (attempts, is_broken) in [(2, true), (3, true), (4, false)] {
        broken.store(is_broken, Ordering::SeqCst);
        make_due(&world, id).await;
        let resent = handle
            .resend(hook.id, id, attempts - 1, None)
            .await
            .expect("made");
        assert_eq!(resent, ResendOutcome::Made);
        let row = world.delivery(id).await;
        assert_eq!(row.attempts, attempts);
        assert_eq!(row.status == DeliveryStatus::Succeeded, !is_broken);
        assert_eq!(sent(), usize::try_from(attempts).expect("few"));
    }
    // The endpoint answers again, so the other deliveries go out without a probe.
    for other in &ids[1..] {
        make_due(&world, *other).await;
    }
    handle.wake();
    for other in &ids[1..] {
        world.succeeded(*other).await;
    }
    assert_eq!(sent(), 4);
}

#[actix::test]
async fn what_is_under_way_is_not_sent_twice_by_hand() {
    let world = World::new().await;
    let gate = Arc::new(Semaphore::new(0));
    let closed = Arc::clone(&gate);
    let receiver =
        TenantServer::scripted(move |_| ServerAnswer::When(Arc::clone(&closed), Box::new(ok())));
    let hook = world
        .webhook(world.tenant, receiver.outbound_url("/"))
        .await;
    let handle = world.start(retrying(&[3_600; 6]));
    let ids = world.announce(&handle, world.tenant, &world.calls(1)).await;
    receiver.wait_for_total(1).await;
    world.until(ids[0], "has a row", |_| true).await;
    make_due(&world, ids[0]).await;
    let open = async {
        // Sent after the two requests, and answered after they were handled.
        for _ in 0..20 {
            handle.statuses(vec![hook.id]).await.expect("is there");
        }
        gate.add_permits(1);
    };
    let (one, two, ()) = tokio::join!(
        handle.resend(hook.id, ids[0], 0, None),
        handle.resend(hook.id, ids[0], 0, None),
        open
    );
    let made = (one.expect("made"), two.expect("made"));
    assert_eq!(made, (ResendOutcome::Made, ResendOutcome::Made));
    assert_eq!(world.delivery(ids[0]).await.attempts, 1);
    assert_eq!(receiver.all().len(), 1);
}

#[actix::test]
async fn what_a_webhook_that_is_switched_off_is_sent_again_waits() {
    let world = World::new().await;
    let receiver = TenantServer::scripted(|_| ok());
    let hook = world
        .webhook(world.tenant, receiver.outbound_url("/"))
        .await;
    let handle = world.start(patient());
    let ids = world.announce(&handle, world.tenant, &world.calls(1)).await;
    world.succeeded(ids[0]).await;
    let mut off = hook.clone().into_active_model();
    off.is_active = Set(false);
    off.update(world.store.writer())
        .await
        .expect("switched off");
    handle.refresh(hook.id);
    make_due(&world, ids[0]).await;
    let resent = handle
        .resend(hook.id, ids[0], 1, None)
        .await
        .expect("asked");
    assert_eq!(resent, ResendOutcome::Waits);
    assert_eq!(receiver.all().len(), 1);
}
