//! A node pauses while it connects for a delivery or function, and another node makes or abandons it meanwhile.

use dikala_testkit::within;

use super::{Nodes, TAKEN_WITHIN, id_of, is_back};
use crate::support::{late::LateServer, prelude::*};

/// The connections are established during the pause. After it, nothing may be written on them.
#[actix_web::test]
async fn what_was_not_sent_before_is_not_sent_after_another_has_taken_it() {
    let setup = WorldSetup::new().set("functions.timeout_seconds", 30);
    let Some(nodes) = Nodes::start(setup).await else {
        return;
    };
    let tenant = &nodes.a.tenant;
    let before = id_of(&nodes.a.server).await;
    let (mut hook, mut endpoint) = (LateServer::closed(), LateServer::closed());
    let webhook = tenant
        .subscribe(&hook.url(), &["call.answered"], SECRET)
        .await;
    nodes.deliver_at_a(&webhook).await;
    tenant
        .create_function("checkOrder", "POST", &endpoint.url())
        .await;
    let at_a = tenant.bridge(Socket).await;
    let call = at_a.talk(&tenant.did).await;
    let invoke = |bridge: &TestBridge| {
        let fields = json!({"callId": call, "invocationId": "one", "name": "checkOrder", "parameters": {"orderId": "1"}});
        bridge.begin(&bridge.message("call.function", fields))
    };
    let unanswered = invoke(&at_a);
    hook.asked_for().await;
    endpoint.asked_for().await;
    nodes.a.server.freeze();
    hook.open();
    endpoint.open();
    eventually("A's connections to be made", async || {
        (hook.silent() > 0 && endpoint.silent() > 0).then_some(())
    })
    .await;
    let delivered = format!(
        "SELECT CAST(attempts AS TEXT) FROM deliveries WHERE webhook_id = '{webhook}' AND status = 'succeeded'"
    );
    within(TAKEN_WITHIN, "B to deliver", async || {
        let rows = nodes.rows::<1>(&delivered).await;
        (rows == [["1"]]).then_some(())
    })
    .await;
    nodes.taken_by_b(&call).await;
    let at_b = nodes.bridge_at_b(tenant, Socket).await;
    let told = invoke(&at_b).reply().await;
    assert_eq!(told["outcome"]["code"], "connection", "{told}");
    nodes.a.server.thaw();
    let over = "A's connections to be over";
    eventually(over, async || {
        (hook.silent() + endpoint.silent() == 0).then_some(())
    })
    .await;
    is_back(&nodes.a.server, &before).await;
    assert_eq!(hook.came().matches("webhook-id:").count(), 1);
    assert_eq!(endpoint.came(), "");
    assert_eq!(nodes.rows::<1>(&delivered).await, [["1"]]);
    drop(unanswered);
    at_b.hang_up(&call).await;
    let called: Vec<_> = nodes.a.kinds(&call, "call.ended").await;
    assert_eq!(
        called
            .iter()
            .filter(|kind| *kind == "function.called")
            .count(),
        1,
        "{called:?}"
    );
    nodes.a.assert_ledger_is_exact();
}
