//! A node pauses with attempts in flight, and other nodes take over.

use std::sync::Arc;

use dikala_testkit::within;
use tokio::sync::Semaphore;

use super::{Nodes, TAKEN_WITHIN, id_of, is_back};
use crate::support::prelude::*;

/// The paused node may not record the result of its attempt when it resumes: the new owner's attempt counts.
#[actix_web::test]
async fn an_attempt_that_another_node_makes_again_is_recorded_by_that() {
    let setup = WorldSetup::new().set("webhooks.retry_schedule_seconds", "1");
    let Some(nodes) = Nodes::start(setup).await else {
        return;
    };
    let (tenant, receiver) = (&nodes.a.tenant, &nodes.a.receiver);
    let before = id_of(&nodes.a.server).await;
    let [first, second] = [(); 2].map(|()| Arc::new(Semaphore::new(0)));
    let answers = [
        ServerAnswer::with(500, "", b"too late").when(&first),
        ServerAnswer::with(200, "", b"in time").when(&second),
        ServerAnswer::with(200, "", b"once more"),
    ];
    receiver.answer("/slow", answers);
    let url = receiver.url("/slow");
    let webhook = tenant.subscribe(&url, &["call.started"], SECRET).await;
    nodes.deliver_at_a(&webhook).await;
    let bridge = tenant.bridge(Socket).await;
    bridge.ring(&tenant.did).await;
    receiver.wait_for("/slow", 1).await;
    // Otherwise A might still be busy with those when it resumes.
    let others = format!(
        "SELECT status FROM deliveries WHERE status = 'succeeded' AND webhook_id <> '{webhook}'"
    );
    eventually("what went elsewhere to be recorded", async || {
        (!nodes.rows::<1>(&others).await.is_empty()).then_some(())
    })
    .await;
    nodes.a.server.freeze();
    // A finds this answer when it resumes.
    first.add_permits(1);
    within(TAKEN_WITHIN, "B to send it again", async || {
        (receiver.received("/slow").len() == 2).then_some(())
    })
    .await;
    nodes.a.server.thaw();
    is_back(&nodes.a.server, &before).await;
    second.add_permits(1);
    let recorded = format!(
        "SELECT d.status, CAST(d.attempts AS TEXT), CAST(a.number AS TEXT), CAST(a.status_code AS TEXT), \
            CAST(w.failing_since IS NULL AS TEXT) \
         FROM deliveries d JOIN delivery_attempts a ON a.delivery_id = d.id JOIN webhooks w ON w.id = d.webhook_id \
         WHERE w.id = '{webhook}'"
    );
    let recorded = eventually("an attempt to be recorded", async || {
        let rows = nodes.rows::<5>(&recorded).await;
        (!rows.is_empty()).then_some(rows)
    })
    .await;
    assert_eq!(recorded, [["succeeded", "1", "1", "200", "true"]]);
    assert_eq!(receiver.received("/slow").len(), 2);
}
