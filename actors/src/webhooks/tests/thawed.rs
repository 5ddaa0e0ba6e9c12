//! A node that continues after others took its deliveries, and one that was paused during an attempt.

use std::collections::HashSet;

use sea_orm::ConnectionTrait;
use tokio::sync::Semaphore;

use super::*;
use crate::{
    nodes::NodeIdentity,
    outbound::{ErrorKind, testing::SlowNames},
    webhooks::{
        attempt::AttemptRecord,
        give_back,
        retry::AttemptVerdict,
        store::{cursors, results::record},
    },
};

/// Two nodes; every event goes to the tenant's webhook.
async fn two_nodes() -> Option<World> {
    let (keep, store) = dikala_testkit::postgres().await?;
    let nodes = "INSERT INTO nodes (id, name, address, process, version, started_at, lease_until, calls, bridges) \
                 VALUES ('a', '', '', '', '', 0, 0, 0, 0), ('b', '', '', '', '', 0, 0, 0, 0)";
    store.writer().execute_unprepared(nodes).await.expect("two");
    Some(World::with_store(keep, store))
}

/// The same with a webhook and its receiver.
async fn two_nodes_and_a_webhook() -> Option<(World, TenantServer, webhook::Model)> {
    let world = two_nodes().await?;
    let receiver = TenantServer::scripted(|_| ok());
    let url = receiver.outbound_url("/");
    let hook = world.webhook(world.tenant, url).await;
    Some((world, receiver, hook))
}

impl World {
    /// True if `node` has the queue.
    async fn takes(&self, node: &str, webhook: WebhookId) -> bool {
        let taken = cursors::take(&self.store, (node, node), &[webhook]).await;
        !taken.expect("asks").is_empty()
    }

    async fn ends(&self, node: &str) {
        let db = self.store.writer();
        let end = format!("DELETE FROM nodes WHERE id = '{node}'");
        db.execute_unprepared(&end).await.expect("is ended");
        give_back(db, node).await.expect("is free");
    }

    /// The delivery, its webhook, and its number of attempts in the log and in the statistics.
    async fn written(
        &self,
        id: DeliveryId,
        hook: WebhookId,
    ) -> (Option<delivery::Model>, webhook::Model, usize, i64) {
        let row = delivery::Entity::find_by_id(id);
        let row = row.one(self.store.reader()).await.expect("read");
        let hook = self.webhook_row(hook).await;
        let stats = dikala_entities::webhook_stat::Entity::find()
            .all(self.store.reader())
            .await
            .expect("read");
        let counted = stats.iter().map(|stat| stat.attempts).sum();
        (row, hook, self.attempts(id).await.len(), counted)
    }
}

/// The first attempt of a delivery.
fn attempt_of(
    dispatch: &outbox::Dispatch,
    hook: &webhook::Model,
    verdict: AttemptVerdict,
) -> AttemptRecord {
    let is_delivered = verdict == AttemptVerdict::Delivered;
    AttemptRecord {
        delivery: dispatch.delivery,
        webhook: dispatch.webhook,
        tenant: dispatch.tenant,
        event: dispatch.event,
        call: dispatch.call,
        kind: dispatch.kind,
        webhook_updated_at: hook.updated_at,
        number: 1,
        is_test: dispatch.is_test,
        is_beside_queue: false,
        started_at: dispatch.delivery.time(),
        ended_at: dispatch.delivery.time().plus_ms(16_000),
        duration_ms: 16_000,
        status_code: is_delivered.then_some(200),
        error_kind: (!is_delivered).then_some(ErrorKind::Timeout),
        response: Vec::new(),
        verdict,
    }
}

#[actix::test]
async fn a_node_that_was_followed_records_nothing_and_takes_nothing() {
    let Some((world, _receiver, hook)) = two_nodes_and_a_webhook().await else {
        return;
    };
    let committed = world.commit_as(world.tenant, &world.calls(3), "a").await;
    let ids: Vec<DeliveryId> = committed.iter().map(|it| it.delivery).collect();
    assert!(world.takes("a", hook.id).await);
    world.ends("a").await;
    assert!(world.takes("b", hook.id).await);
    assert_eq!(world.refills("a", hook.id).await, []);
    let late = AttemptVerdict::Retry {
        at: ids[0].time().plus_ms(5_000),
    };
    // Node B has written the delivery's row, or only has the cursor.
    for is_read in [false, true] {
        if is_read {
            assert_eq!(world.refills("b", hook.id).await, ids);
        }
        let before = world.written(ids[0], hook.id).await;
        for verdict in [
            late,
            AttemptVerdict::GivenUp,
            AttemptVerdict::Gone,
            AttemptVerdict::Delivered,
        ] {
            let stale = attempt_of(&committed[0], &hook, verdict);
            let recorded = record(&world.store, "a", &[stale]).await.expect("asks");
            assert!(recorded.refused.contains(&ids[0]) && recorded.disabled.is_empty());
            let now = world.written(ids[0], hook.id).await;
            assert_eq!(now, before, "{verdict:?}");
        }
    }
    let attempts = committed.iter().map(|it| attempt_of(it, &hook, late));
    let mut batch: Vec<AttemptRecord> = attempts.collect();
    let recorded = record(&world.store, "b", &batch[..2]).await.expect("asks");
    assert!(recorded.refused.is_empty());
    for id in &ids[..2] {
        let (row, hook, logged, counted) = world.written(*id, hook.id).await;
        assert_eq!((row.map(|row| row.attempts), logged), (Some(1), 1));
        assert_eq!((hook.failing_since.is_some(), counted), (true, 2));
    }
    // If the answer to the commit was lost and it is written again, it counts once.
    let known = world.written(ids[0], hook.id).await;
    let recorded = record(&world.store, "b", &batch).await.expect("asks");
    assert!(recorded.refused.is_empty(), "{recorded:?}");
    assert_eq!(world.written(ids[0], hook.id).await.0, known.0);
    assert_eq!(world.written(ids[2], hook.id).await.3, 3);
    // Another node's record of this attempt counts as another attempt.
    batch[0].started_at = batch[0].started_at.plus_ms(1);
    let recorded = record(&world.store, "b", &batch).await.expect("asks");
    assert_eq!(recorded.refused, HashSet::from([ids[0]]));
    assert_eq!(world.written(ids[0], hook.id).await.3, 3);
}

/// A test is made where it is requested, whichever node has the queue.
#[actix::test]
async fn a_test_is_recorded_beside_the_cursor() {
    let Some((world, _receiver, hook)) = two_nodes_and_a_webhook().await else {
        return;
    };
    assert!(world.takes("b", hook.id).await);
    let dispatch = world.commit_as(world.tenant, &world.calls(1), "a").await;
    for is_test in [false, true] {
        let test = outbox::Dispatch {
            is_test,
            ..dispatch[0].clone()
        };
        let made = [attempt_of(&test, &hook, AttemptVerdict::Delivered)];
        let recorded = record(&world.store, "a", &made).await.expect("asks");
        assert_eq!(recorded.refused.is_empty(), is_test);
    }
    let row = world.delivery(dispatch[0].delivery).await;
    assert_eq!((row.attempts, row.is_test), (1, true));
}

/// The whole dispatcher: it neither writes nor keeps a delivery whose record was refused.
#[actix::test]
async fn what_is_refused_is_forgotten() {
    let Some(world) = two_nodes().await else {
        return;
    };
    let answered = Arc::new(Semaphore::new(0));
    let answer = ServerAnswer::with(500, "", b"too late").when(&answered);
    let receiver = TenantServer::scripted(move |_| answer.clone());
    let hook = world
        .webhook(world.tenant, receiver.outbound_url("/"))
        .await;
    let identity = NodeIdentity {
        name: Arc::from("a"),
        address: String::new(),
        version: "",
        knows_step: i64::MAX,
    };
    let node = Membership::join(&world.store, identity, Arc::clone(&world.clock)).await;
    let node = node.expect("is a node");
    let id = node.id();
    let deps = WebhookDeps {
        store: world.store.clone(),
        clock: Arc::clone(&world.clock),
        vault: world.vault.clone(),
        outbound: local_outbound(),
        node,
        traces: Traces::default(),
    };
    let handle = start(&Arbiter::current(), deps, WebhooksConfig::default());
    let dispatches = world.commit_as(world.tenant, &world.calls(1), &id).await;
    let delivery = dispatches[0].delivery;
    let committed = dispatches[0].clone();
    assert!(handle.recipient().try_send(Deliver(dispatches)).is_ok());
    receiver.wait_for_total(1).await;
    world.ends(&id).await;
    assert!(world.takes("b", hook.id).await);
    assert_eq!(world.refills("b", hook.id).await, [delivery]);
    let before = world.written(delivery, hook.id).await;
    answered.add_permits(1);
    let is_forgotten = || {
        let stats = handle.stats();
        stats.retried == 1 && (stats.in_flight, stats.unrecorded) == (0, 0)
    };
    condition("end of it", is_forgotten).await;
    assert_eq!(world.written(delivery, hook.id).await, before);
    // Node B's own result of the same attempt counts.
    let delivered = attempt_of(&committed, &hook, AttemptVerdict::Delivered);
    let recorded = record(&world.store, "b", &[delivered]).await;
    assert!(recorded.expect("asks").refused.is_empty());
    let row = world.delivery(delivery).await;
    assert_eq!(
        (row.status, row.attempts),
        (DeliveryStatus::Succeeded, 1),
        "B's"
    );
}

/// Callers that wait for tests learn that they failed when the process becomes another node.
#[actix::test]
async fn nobody_waits_for_tests_of_a_node_that_is_no_more() {
    let world = World::new().await;
    let answered = Arc::new(Semaphore::new(0));
    let answer = ok().when(&answered);
    let receiver = TenantServer::scripted(move |_| answer.clone());
    let hook = world
        .webhook(world.tenant, receiver.outbound_url("/"))
        .await;
    let handle = world.start(WebhooksConfig::default());
    let tests: Vec<_> = (0..3)
        .map(|_| {
            let (handle, hook) = (handle.clone(), hook.clone());
            actix_rt::spawn(async move { handle.test(hook, None).await })
        })
        .collect();
    receiver.wait_for_total(3).await;
    handle.begin_anew().await;
    answered.add_permits(3);
    for test in tests {
        let over = tokio::time::timeout(Duration::from_secs(20), test).await;
        let over = over.expect("is told").expect("is over");
        assert!(matches!(over, Err(TestError::Busy)), "{over:?}");
    }
}

#[actix::test]
async fn standing_still_uses_up_no_attempt() {
    let world = World::new().await;
    let is_first = AtomicBool::new(true);
    let receiver = TenantServer::scripted(move |_| match is_first.swap(false, Ordering::SeqCst) {
        true => ServerAnswer::Hang,
        false => ok(),
    });
    let hook = world
        .webhook(world.tenant, receiver.outbound_url("/"))
        .await;
    let handle = world.start(WebhooksConfig {
        timeout: Duration::from_millis(500),
        ..patient()
    });
    let ids = world.announce(&handle, world.tenant, &world.calls(1)).await;
    receiver.wait_for_total(1).await;
    // This is the dispatcher's thread: blocking it has the effect of a paused process.
    std::thread::sleep(Duration::from_millis(5_600));
    let row = world.succeeded(ids[0]).await;
    assert_eq!((row.attempts, receiver.all().len()), (1, 2));
    assert_eq!(world.attempts(ids[0]).await[0].status_code, Some(200));
    assert_eq!((handle.stats().own_faults, handle.stats().retried), (1, 0));
    assert_eq!(world.webhook_row(hook.id).await, hook);
}

/// Another node took the delivery while the attempt was connecting: nothing is sent on the connection.
#[actix::test]
async fn an_attempt_that_is_connected_when_it_is_anothers_is_not_sent() {
    let world = World::new().await;
    let receiver = TenantServer::scripted(|_| ok());
    let names = SlowNames::start();
    let hook = world
        .webhook(world.tenant, SlowNames::url(&receiver, "hang"))
        .await;
    let identity = NodeIdentity {
        name: Arc::from("a"),
        address: String::new(),
        version: "",
        knows_step: i64::MAX,
    };
    let node = Membership::join(&world.store, identity, Arc::clone(&world.clock)).await;
    let node = node.expect("is a node");
    let deps = WebhookDeps {
        store: world.store.clone(),
        clock: Arc::clone(&world.clock),
        vault: world.vault.clone(),
        outbound: names.outbound.clone(),
        node: node.clone(),
        traces: Traces::default(),
    };
    let handle = start(&Arbiter::current(), deps, WebhooksConfig::default());
    let dispatches = world
        .commit_as(world.tenant, &world.calls(1), &node.id())
        .await;
    let delivery = dispatches[0].delivery;
    assert!(handle.recipient().try_send(Deliver(dispatches)).is_ok());
    names.wait_for(1).await;
    let before = world.written(delivery, hook.id).await;
    node.leave(&world.store).await.expect("is gone");
    drop(names);
    condition("the end of it", || handle.stats().own_faults == 1).await;
    assert!(receiver.all().is_empty());
    assert_eq!(world.written(delivery, hook.id).await, before);
}
