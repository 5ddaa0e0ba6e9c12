//! A cursor belongs to one node, and changes hands only if that node is gone or gives it up.

use std::collections::HashSet;

use sea_orm::ConnectionTrait;

use super::{super::store::cursors, *};
use crate::webhooks::give_back;

async fn has(store: &Store, node: &str, webhooks: &[WebhookId]) -> HashSet<WebhookId> {
    let taken = cursors::take(store, (node, node), webhooks).await;
    taken.expect("asks").into_keys().collect()
}

#[actix::test]
async fn a_cursor_is_one_nodes() {
    for (keep, store) in dikala_testkit::both().await {
        let world = World::with_store(keep, store.clone());
        let url = || TenantServer::scripted(|_| ok()).outbound_url("/");
        let mut webhooks = Vec::new();
        for _ in 0..3 {
            webhooks.push(world.webhook(world.tenant, url()).await.id);
        }
        let all: HashSet<WebhookId> = webhooks.iter().copied().collect();
        let db = store.writer();
        nodes(&store).await;
        assert_eq!(has(&store, "nobody", &webhooks).await, HashSet::new());
        assert_eq!(has(&store, "a", &webhooks[..2]).await.len(), 2);
        let left: HashSet<WebhookId> = [webhooks[2]].into();
        assert_eq!(has(&store, "b", &webhooks).await, left);
        assert_eq!(has(&store, "a", &webhooks).await.len(), 2);
        // A node cannot give up another's cursor.
        cursors::give_up(&store, "b", &webhooks[..2], true)
            .await
            .expect("asks");
        assert_eq!(has(&store, "b", &webhooks).await, left);
        cursors::give_up(&store, "a", &webhooks[..1], true)
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

/// The node that takes a cursor finds in the log what has no row, and writes the rows once.
#[actix::test]
async fn rows_are_written_from_the_log_by_the_node_with_the_cursor() {
    for (keep, store) in dikala_testkit::both().await {
        let world = World::with_store(keep, store);
        let url = TenantServer::scripted(|_| ok()).outbound_url("/");
        let hook = world.webhook(world.tenant, url).await.id;
        nodes(&world.store).await;
        let mut committed = Vec::new();
        for node in ["a", "b", ""] {
            committed.extend(world.commit_as(world.tenant, &world.calls(2), node).await);
        }
        let ids: Vec<DeliveryId> = committed.iter().map(|it| it.delivery).collect();
        let places: Vec<i64> = committed
            .iter()
            .filter_map(|it| Some(it.place?.sequence))
            .collect();
        assert_eq!(places, [1, 2, 3, 4, 5, 6]);
        assert_eq!(world.refills("a", hook).await, [], "it has no cursor");
        let taken = cursors::take(&world.store, ("a", "a"), &[hook])
            .await
            .expect("asks");
        let last = LogPlace {
            sequence: 6,
            position: 6,
        };
        assert_eq!(taken[&hook].end, last);
        assert_eq!(world.refills("a", hook).await, ids);
        assert_eq!(world.refills("a", hook).await, ids, "rows are written once");
        let taken = cursors::take(&world.store, ("a", "a"), &[hook])
            .await
            .expect("asks");
        assert_eq!(
            (taken[&hook].stored, taken[&hook].has_pending),
            (last, true)
        );
        assert_eq!(world.refills("b", hook).await, []);
    }
}

/// The announcing process delivers nothing, or ended.
#[actix::test]
async fn events_that_no_node_delivers_are_found() {
    for (keep, store) in dikala_testkit::both().await {
        let world = World::with_store(keep, store);
        let url = TenantServer::scripted(|_| ok()).outbound_url("/");
        let hook = world.webhook(world.tenant, url).await.id;
        nodes(&world.store).await;
        let found = async |since: Millis| {
            let announced = cursors::announced(&world.store, "a", since, None)
                .await
                .expect("asks");
            let ids: Vec<WebhookId> = announced
                .into_iter()
                .flat_map(|(_, webhooks)| webhooks.into_keys())
                .collect();
            cursors::behind(&world.store, ("a", "a"), &ids)
                .await
                .expect("asks")
        };
        let long_ago = Millis::from_i64(0);
        assert_eq!(found(long_ago).await, []);
        for (node, is_found) in [("b", false), ("", true), ("gone", true), ("a", true)] {
            world.commit_as(world.tenant, &world.calls(1), node).await;
            let expected = if is_found { vec![hook] } else { vec![] };
            assert_eq!(found(long_ago).await, expected, "announced by {node:?}");
        }
        assert_eq!(found(world.clock.now().plus_ms(60_000)).await, []);
        // A living node has it.
        assert_eq!(
            cursors::take(&world.store, ("b", "b"), &[hook])
                .await
                .expect("asks")
                .len(),
            1
        );
        assert_eq!(found(long_ago).await, []);
        give_back(world.store.writer(), "b").await.expect("lets go");
        assert_eq!(found(long_ago).await, [hook]);
        let free = cursors::free(&world.store).await.expect("asks");
        assert_eq!(free, [(hook, world.tenant)]);
        assert_eq!(cursors::owned(&world.store, "b").await.expect("asks"), []);
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
        nodes(&world.store).await;
        for hook in &hooks {
            assert_eq!(
                cursors::take(&world.store, ("a", "a"), &[*hook])
                    .await
                    .expect("asks")
                    .len(),
                1
            );
            assert_eq!(world.refills("a", *hook).await.len(), 2);
        }
        let db = world.store.writer();
        for (set, hook) in [("is_active = false", hooks[0]), ("paused_at = 1", hooks[1])] {
            let sql = format!("UPDATE webhooks SET {set} WHERE id = '{hook}'");
            db.execute_unprepared(&sql).await.expect("is changed");
        }
        let due = pending::due(&world.store).await;
        let due: Vec<WebhookId> = due.expect("asks").iter().map(|due| due.webhook).collect();
        assert_eq!(due, [hooks[2]]);
    }
}

async fn nodes(store: &Store) {
    let nodes = "INSERT INTO nodes (id, name, address, process, version, started_at, lease_until, calls, bridges) \
                 VALUES ('a', '', '', '', '', 0, 0, 0, 0), ('b', '', '', '', '', 0, 0, 0, 0)";
    store
        .writer()
        .execute_unprepared(nodes)
        .await
        .expect("two nodes");
}

async fn taken(store: &Store) -> usize {
    let all = "SELECT node FROM webhook_cursors WHERE node IS NOT NULL";
    let all = sea_orm::Statement::from_string(store.backend(), all);
    store
        .reader()
        .query_all_raw(all)
        .await
        .expect("answers")
        .len()
}
