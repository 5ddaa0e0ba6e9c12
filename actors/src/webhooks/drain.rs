//! Draining: waits for attempts in progress and gives back deliveries that were not begun.

use std::{rc::Rc, time::Duration};

use super::{courier::Courier, store::cursors, test_delivery::Tests};

/// Begins nothing more, waits at most `limit` for attempts in progress, and gives back the rest. Another node may
/// deliver to an endpoint once no attempt to it is in progress.
pub(super) async fn drain(courier: Rc<Courier>, tests: Tests, limit: Duration) {
    courier.scheduler.borrow_mut().stop();
    courier.woken.notify_one();
    let idle = idle(&courier, &tests);
    if tokio::time::timeout(limit, idle).await.is_err() {
        let counts = courier.scheduler.borrow().counts();
        tracing::warn!(
            in_flight = counts.in_flight,
            unrecorded = counts.unrecorded,
            "attempts in progress did not end in time; they are repeated after the next start"
        );
    }
    courier.abandon();
    let (store, node) = (&courier.deps.store, &courier.node);
    if let Err(error) = cursors::give_back(store.writer(), node).await {
        tracing::warn!(%error, "could not release the cursors of endpoints; other nodes take them over when this node's lease expires");
    }
    courier.tell_others();
}

async fn idle(courier: &Courier, tests: &Tests) {
    loop {
        let changed = courier.changed.notified();
        give_up_ended(courier).await;
        let counts = courier.scheduler.borrow().counts();
        if counts.in_flight == 0 && counts.unrecorded == 0 && tests.are_over() {
            return;
        }
        changed.await;
    }
}

async fn give_up_ended(courier: &Courier) {
    let ended = courier.scheduler.borrow_mut().take_ended();
    let (store, node) = (&courier.deps.store, &courier.deps.node);
    if ended.is_empty() || !node.has_lease() {
        return;
    }
    match cursors::give_up(store, &courier.node, &ended, false).await {
        Ok(()) => courier.tell_others(),
        Err(error) => {
            tracing::warn!(%error, "could not release the cursors of idle endpoints; other nodes take them over when this node's lease expires");
        }
    }
}
