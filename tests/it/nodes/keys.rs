//! Rotates `secrets.key` node by node, while both nodes call functions and deliver webhooks.

use base64::{Engine, engine::general_purpose::STANDARD};

use super::Nodes;
use crate::support::{prelude::*, world::HOOK};

fn make_key() -> String {
    STANDARD.encode(rand::random::<[u8; 32]>())
}

impl Nodes {
    /// Restarts A, then B, each with these keys. After each restart, `sealed` has that node seal a secret again.
    async fn start_again_with(&mut self, key: &str, old_keys: Option<&str>) {
        for is_a in [true, false] {
            let node = if is_a {
                &mut self.a.server
            } else {
                &mut self.b
            };
            node.installation.set("secrets.key", key);
            match old_keys {
                Some(keys) => node.installation.set("secrets.old_keys", keys),
                None => node.installation.unset("secrets.old_keys"),
            }
            assert_eq!(node.terminate().await, 0);
            node.restart();
            self.seal_at(is_a).await;
            self.both_work().await;
        }
    }

    /// Has this node seal the secrets of functions and of a webhook.
    async fn seal_at(&self, is_a: bool) {
        let (node, tenant) = (if is_a { &self.a.server } else { &self.b }, &self.a.tenant);
        node.cli(&["function-secret", "rotate", "--tenant", &tenant.id]);
        let api = Rest::new(&format!("{}/api/v1", node.http)).with("x-api-key", &tenant.key);
        let webhooks = api.get("/webhooks").await.expect(200);
        let webhook = webhooks["webhooks"][0]["id"].as_str().unwrap().to_owned();
        let path = format!("/webhooks/{webhook}/rotate-secret");
        api.post(&path, json!({"secret": SECRET})).await.expect(200);
    }

    /// A call at each node invokes a function, and its events are delivered.
    async fn both_work(&self) {
        let (tenant, receiver) = (&self.a.tenant, &self.a.receiver);
        for node in [&*self.a.server, &self.b] {
            let bridge = TestBridge::open(&node.http, &tenant.token, Socket).await;
            let call = bridge.talk(&tenant.did).await;
            let done = bridge
                .ok(
                    "call.function",
                    json!({"callId": call, "invocationId": "1", "name": "find_order", "parameters": {"orderId": "7"}}),
                )
                .await;
            assert_eq!(done["outcome"]["status"], "ok", "{done}");
            bridge.hang_up(&call).await;
            receiver
                .wait_for_event(HOOK, SECRET, "call.ended", &call)
                .await;
        }
    }
}

/// The order of docs/operating.md.
#[actix_web::test]
async fn a_key_that_changes_node_by_node_fails_no_function_and_no_webhook() {
    let (old, new) = (make_key(), make_key());
    let setup = WorldSetup::new().set("secrets.key", &old);
    let Some(mut nodes) = Nodes::start(setup).await else {
        return;
    };
    let endpoint = nodes.a.receiver.url("/find");
    let found = ServerAnswer::Json(json!({"found": true}));
    nodes.a.receiver.answer("/find", [found]);
    nodes
        .a
        .tenant
        .create_function("find_order", "POST", &endpoint)
        .await;
    nodes
        .a
        .tenant
        .change_agent(json!({"toolsEnabled": ["find_order"]}))
        .await;
    nodes.both_work().await;
    nodes.start_again_with(&old, Some(&new)).await;
    nodes.start_again_with(&new, Some(&old)).await;
    let rotated = nodes.a.server.cli(&["secrets", "rotate"]);
    assert!(rotated.is_object(), "{rotated}");
    nodes.start_again_with(&new, None).await;
    nodes.a.assert_ledger_is_exact();
}
