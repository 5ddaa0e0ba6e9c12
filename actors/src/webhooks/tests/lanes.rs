//! A lane is one node's, and changes hands only where that node is no more, or lets go of it.

use std::collections::HashSet;

use sea_orm::ConnectionTrait;

use super::{super::store::lanes, *};
use crate::webhooks::give_back;

async fn has(store: &Store, node: &str, webhooks: &[WebhookId]) -> HashSet<WebhookId> {
    lanes::take(store, node, webhooks).await.expect("asks")
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
        // Nobody gives up what is another's.
        lanes::give_up(&store, "b", &webhooks[..2])
            .await
            .expect("asks");
        assert_eq!(has(&store, "b", &webhooks).await, left);
        lanes::give_up(&store, "a", &webhooks[..1])
            .await
            .expect("asks");
        assert_eq!(has(&store, "b", &webhooks).await.len(), 2);
        // A node that was ended has nothing any more, whoever looks first.
        db.execute_unprepared("DELETE FROM nodes WHERE id = 'a'")
            .await
            .expect("is ended");
        assert_eq!(has(&store, "b", &webhooks).await, all);
        assert_eq!(has(&store, "a", &webhooks).await, HashSet::new());
        give_back(db, "b").await.expect("lets go");
        assert_eq!(taken(&store).await, 0);
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
