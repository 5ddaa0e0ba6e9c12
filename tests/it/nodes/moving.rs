//! Calls whose messages come to several nodes in turn, faster than the nodes look at what others own.

use super::*;

/// Finds the former owner's memory of the call out of date.
#[actix_web::test]
async fn a_former_owner_contradicts_nothing_that_another_node_has_acknowledged() {
    let Some(nodes) = Nodes::start(WorldSetup::new().minutes(50)).await else {
        return;
    };
    let (tenant, receiver) = (&nodes.a.tenant, &nodes.a.receiver);
    receiver.answer("/f", [ServerAnswer::Json(json!({"days": 2}))]);
    let url = receiver.url("/f");
    tenant.create_function("checkOrder", "POST", &url).await;
    let a = tenant.bridge(Http).await;
    let b = nodes.bridge_at_b(tenant, Http).await;
    let invoke = |call: &str| json!({"callId": call, "invocationId": "one", "name": "checkOrder", "parameters": {"orderId": "1"}});
    for _ in 0..3 {
        let call = a.ring(&tenant.did).await;
        b.ok("call.answered", json!({"callId": call})).await;
        let done = a.ok("call.function", invoke(&call)).await;
        assert_eq!(done["outcome"]["result"], json!({"days": 2}), "{done}");
        b.hang_up(&call).await;
        let call = a.ring(&tenant.did).await;
        b.ok("call.answered", json!({"callId": call})).await;
        let joined = json!({"callId": call, "to": "+6281234567890"});
        a.ok("call.transferred", joined).await;
        b.hang_up(&call).await;
        // The hold has another owner, and the status is the same.
        let call = a.talk(&tenant.did).await;
        b.ok("call.transcript", json!({"callId": call, "summary": "s"}))
            .await;
        a.ok("call.function", invoke(&call)).await;
        // A contradiction is one wherever the call is.
        b.hang_up(&call).await;
        let late = a.ask("call.answered", json!({"callId": call})).await;
        assert_eq!(late["error"]["code"], "invalid_transition", "{late}");
        assert_eq!(late["error"]["status"], "ended", "{late}");
        let ringing = a.ring(&tenant.did).await;
        let early = a.ask("call.function", invoke(&ringing)).await;
        assert_eq!(early["error"]["code"], "invalid_transition", "{early}");
        a.hang_up(&ringing).await;
    }
    nodes.a.assert_ledger_is_exact();
}
