//! The transcript of an ended call, sent to two nodes at once.

use super::{Nodes, id_of};
use crate::support::prelude::*;

/// The summary stays the same, so transcripts differ in their turns only.
#[actix_web::test]
async fn a_transcript_that_is_told_to_two_nodes_at_once_is_announced_once() {
    const ROUNDS: usize = 20;
    let Some(nodes) = Nodes::start(WorldSetup::new()).await else {
        return;
    };
    let tenant = &nodes.a.tenant;
    let a = tenant.bridge(Http).await;
    let b = nodes.bridge_at_b(tenant, Http).await;
    assert_ne!(id_of(&nodes.a.server).await, id_of(&nodes.b).await);
    let call = a.talk(&tenant.did).await;
    a.hang_up(&call).await;
    for round in 1..=ROUNDS {
        let turns = json!([{"role": "caller", "text": format!("So far {round}.")}]);
        let told = json!({"callId": call, "summary": "An order.", "turns": turns});
        let message = a.message("call.transcript", told);
        let [at_a, at_b] = [a.begin(&message), b.begin(&message)];
        for reply in [at_a.reply().await, at_b.reply().await] {
            assert_eq!(reply["ok"], true, "round {round}: {reply}");
        }
        let announced =
            format!("SELECT id FROM events WHERE call_id = '{call}' AND kind = 'call.transcript'");
        let announced = nodes.rows::<1>(&announced).await;
        assert_eq!(announced.len(), round, "of so many rounds");
    }
}
