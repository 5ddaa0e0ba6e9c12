//! Old rows: one node removes them for all.

use super::Nodes;
use crate::support::prelude::*;

/// Writes a row that is over, and waits until it is removed.
async fn swept(nodes: &Nodes) {
    let store = nodes.a.server.installation.store.shared();
    store
        .execute("INSERT INTO operator_sign_outs (session_hash, ends_at) VALUES ('old', 1)")
        .await;
    eventually("the row to be removed", async || {
        let left = nodes.rows::<1>("SELECT session_hash FROM operator_sign_outs");
        left.await.is_empty().then_some(())
    })
    .await;
}

const REPORT: &str = "removed old rows";

async fn reports_it(server: &Server) {
    eventually("the node to report it", async || {
        server.log().contains(REPORT).then_some(())
    })
    .await;
}

#[actix_web::test]
async fn the_oldest_node_removes_old_rows_until_it_stops() {
    let setup = WorldSetup::new().set("retention.sweep_seconds", 1);
    let Some(mut nodes) = Nodes::start(setup).await else {
        return;
    };
    swept(&nodes).await;
    reports_it(&nodes.a.server).await;
    assert!(!nodes.b.log().contains(REPORT));
    assert_eq!(nodes.a.server.terminate().await, 0);
    swept(&nodes).await;
    reports_it(&nodes.b).await;
}
