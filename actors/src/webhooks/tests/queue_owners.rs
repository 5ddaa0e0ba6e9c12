//! An endpoint queue belongs to one node, and changes hands only if that node is gone or gives it up.

use std::collections::HashSet;

use sea_orm::ConnectionTrait;

use super::{super::store::queue_owners, *};
use crate::webhooks::give_back;

async fn has(store: &Store, node: &str, webhooks: &[WebhookId]) -> HashSet<WebhookId> {
    queue_owners::take(store, node, webhooks)
        .await
        .expect("asks")
}

#[actix::test]
async fn a_lane_is_one_nodes() {
    for (_keep, store) in dikala_testkit::both().await {
        let now = SystemClock.now();
        let webhooks: Vec<WebhookId> = (0..3).map(|_| WebhookId::new(now)).collect();
        let all: HashSet<WebhookId> = webhooks.iter().copied().collect();
        let nodes = "INSERT INTO nodes (id, name, address, process, version, started_at, lease_until, calls, bridges) \
                     VALUES ('a', '', '', '', '', 0, 0, 0, 0), ('b', '', '', '', '', 0, 0, 0, 0)";
        let db = store.writer();
        db.execute_unprepared(nodes).await.expect("two nodes");
        assert_eq!(has(&store, "nobody", &webhooks).await, HashSet::new());
        assert_eq!(has(&store, "a", &webhooks[..2]).await.len(), 2);
        let left: HashSet<WebhookId> = [webhooks[2]].into();
        assert_eq!(has(&store, "b", &webhooks).await, left);
        assert_eq!(has(&store, "a", &webhooks).await.len(), 2);
        // A node cannot give up another's queue.
        queue_owners::give_up(&store, "b", &webhooks[..2])
            .await
            .expect("asks");
        assert_eq!(has(&store, "b", &webhooks).await, left);
        queue_owners::give_up(&store, "a", &webhooks[..1])
            .await
            .expect("asks");
        assert_eq!(has(&store, "b", &webhooks).await.len(), 2);
        // A node that was ended has nothing, whichever node reads first.
        db.execute_unprepared("DELETE FROM nodes WHERE id = 'a'")
            .await
            .expect("is ended");
        assert_eq!(has(&store, "b", &webhooks).await, all);
        assert_eq!(has(&store, "a", &webhooks).await, HashSet::new());
        give_back(db, "b").await.expect("lets go");
        assert_eq!(taken(&store).await, 0);
    }
}

/// Events of a call that moved: the other node's event waits for one that is on its way here from its commit.
#[actix::test]
async fn an_event_from_elsewhere_waits_for_the_one_before_it() {
    for (keep, store) in dikala_testkit::both().await {
        let world = World::with_store(keep, store);
        let url = TenantServer::scripted(|_| ok()).outbound_url("/");
        let hook = world.webhook(world.tenant, url).await.id;
        let calls = world.calls(2);
        let mut ids = Vec::new();
        for (call, node) in [(0, "a"), (0, "b"), (1, "b")] {
            let committed = world.commit_as(world.tenant, &calls[call..=call], node);
            ids.push(committed.await[0].delivery);
        }
        let [coming, waits, free] = ids[..] else {
            panic!("three deliveries");
        };
        let soon = world.clock.now().plus_ms(5);
        let claims = async |known: &[DeliveryId], now| {
            let txn = world.store.begin().await.expect("begins");
            let claim = Refill {
                webhook: hook,
                limit: 64,
                known: known.to_vec(),
                left_behind: None,
            };
            let claiming = pending::claim_statement(world.store.backend(), &claim, "a", now);
            let rows = txn.query_all_raw(claiming.expect("a statement")).await;
            txn.rollback().await.expect("is as before");
            let id = |row: &sea_orm::QueryResult| row.try_get("", "id").expect("an id");
            let rows = rows.expect("claims");
            rows.iter().map(id).collect::<HashSet<DeliveryId>>()
        };
        assert_eq!(claims(&[], soon).await, HashSet::from([free]));
        let both = HashSet::from([waits, free]);
        assert_eq!(claims(&[coming], soon).await, both, "it came");
        let later = soon.plus_ms(pending::ON_ITS_WAY_MS);
        let all = HashSet::from([coming, waits, free]);
        assert_eq!(claims(&[], later).await, all, "it got lost on its way");
    }
}

/// The node that received the request makes a test. Once that node is gone, the owner of the queue makes it.
#[actix::test]
async fn a_test_of_a_node_that_is_gone_is_made_by_another() {
    for (keep, store) in dikala_testkit::both().await {
        let world = World::with_store(keep, store);
        let url = TenantServer::scripted(|_| ok()).outbound_url("/");
        let hook = world.webhook(world.tenant, url).await.id;
        let event = dikala_entities::event::Model {
            is_test: true,
            ..rows::event(world.tenant, world.clock.now())
        };
        let test = delivery::Model {
            lease_owner: Some("b".to_owned()),
            next_attempt_at: Some(event.occurred_at),
            ..rows::delivery(&event, hook)
        };
        let db = world.store.writer();
        rows::insert(db, event).await;
        rows::insert(db, test.clone()).await;
        let node = "INSERT INTO nodes (id, name, address, process, version, started_at, lease_until, calls, bridges) \
                    VALUES ('b', '', '', '', '', 0, 0, 0, 0)";
        db.execute_unprepared(node).await.expect("a node");
        let due = async || {
            let due = pending::due(&world.store, "a", world.clock.now()).await;
            due.expect("asks")[0].at
        };
        assert_eq!((due().await, world.claims("a", hook).await), (None, vec![]));
        db.execute_unprepared("DELETE FROM nodes")
            .await
            .expect("is ended");
        assert!(due().await.is_some());
        assert_eq!(world.claims("a", hook).await, [test.id]);
    }
}

/// Pending deliveries of disabled and paused webhooks are not read until the webhook is delivered to again.
#[actix::test]
async fn webhooks_that_are_disabled_or_paused_are_not_due() {
    for (keep, store) in dikala_testkit::both().await {
        let world = World::with_store(keep, store);
        let url = || TenantServer::scripted(|_| ok()).outbound_url("/");
        let mut hooks = Vec::new();
        for _ in 0..3 {
            hooks.push(world.webhook(world.tenant, url()).await.id);
        }
        world.commit_as(world.tenant, &world.calls(2), "b").await;
        let db = world.store.writer();
        for (set, hook) in [("is_active = false", hooks[0]), ("paused_at = 1", hooks[1])] {
            let sql = format!("UPDATE webhooks SET {set} WHERE id = '{hook}'");
            db.execute_unprepared(&sql).await.expect("is changed");
        }
        let due = pending::due(&world.store, "a", world.clock.now()).await;
        let due: Vec<WebhookId> = due.expect("asks").iter().map(|due| due.webhook).collect();
        assert_eq!(due, [hooks[2]]);
    }
}

async fn taken(store: &Store) -> usize {
    let all = sea_orm::Statement::from_string(store.backend(), "SELECT node FROM webhook_lanes");
    store
        .reader()
        .query_all_raw(all)
        .await
        .expect("answers")
        .len()
}
