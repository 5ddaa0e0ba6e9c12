//! A full disk: writes are refused with an error, and everything acknowledged before, during and after stays.

use std::collections::HashMap;

use futures_util::future::join_all;

use dikala_testkit::within;

use crate::support::{
    prelude::*,
    rest::RestResponse,
    tenant::{Tenant, text},
};

/// Time until the service works again once there is space.
const WORKS_WITHIN: Duration = Duration::from_secs(15);
/// Smaller than the database is already, so that nothing can be written.
const FULL: u64 = 16 << 10;

/// Space for a few pages: too little for an agent with a long prompt, enough for a small commit.
const NEARLY_FULL: u64 = 24 << 10;
/// After this many writes the disk must be full.
const WRITES: usize = 100;

/// Acknowledged agents: id and name.
#[derive(Default)]
struct AcknowledgedAgents(HashMap<String, String>);

impl AcknowledgedAgents {
    /// Writes agents concurrently and records the acknowledged ones; returns the other answers.
    async fn write(&mut self, tenant: &Tenant, what: &str, count: usize) -> Vec<RestResponse> {
        let write = async |number: usize| {
            let name = format!("{what} {number}");
            let agent = json!({"name": name, "systemPrompt": "Answer kindly.".repeat(200)});
            (name, tenant.api.post("/agents", agent).await)
        };
        let mut refused = Vec::new();
        for (name, answer) in join_all((0..count).map(write)).await {
            if answer.status == 201 {
                self.0.insert(text(&answer.body, "id"), name);
            } else {
                refused.push(answer);
            }
        }
        refused
    }

    async fn are_there(&self, tenant: &Tenant) {
        for (id, name) in &self.0 {
            let agent = tenant.api.get(&format!("/agents/{id}")).await.expect(200);
            assert_eq!(agent["name"], **name);
        }
    }
}

#[actix_web::test]
async fn what_is_acknowledged_around_a_full_disk_is_there_after_a_kill() {
    let mut world = world!(Sqlite);
    let mut acknowledged = AcknowledgedAgents::default();
    let public = world.server.rest();
    let bridge = world.tenant.bridge(Socket).await;
    let before = bridge.talk(&world.tenant.did).await;
    assert!(
        acknowledged
            .write(&world.tenant, "before", 20)
            .await
            .is_empty()
    );

    for round in ["first", "second"] {
        world.server.limit_files(Some(FULL));
        for _ in 0..4 {
            for answer in acknowledged.write(&world.tenant, round, 8).await {
                assert!(answer.header("retry-after").is_some(), "{answer:?}");
                assert_eq!(answer.expect(503)["error"]["code"], "unavailable");
            }
        }
        eventually("not ready", async || {
            let answer = public.get("/health/ready").await;
            let down = answer.status == 503 && answer.body["checks"]["store"] == false;
            down.then_some(())
        })
        .await;
        public.get("/health/live").await.expect(200);
        let call = json!({"did": world.tenant.did, "callerNumber": "+6281", "bridgeCallId": round});
        let refused = bridge.refused("call.incoming", call).await;
        assert_eq!(refused["code"], "unavailable", "{refused}");

        world.server.limit_files(None);
        within(WORKS_WITHIN, "writes, reads and readiness", async || {
            let refused = acknowledged.write(&world.tenant, "again", 1).await;
            let ready = public.get("/health/ready").await.status == 200;
            (ready && refused.is_empty()).then_some(())
        })
        .await;
        let refused = acknowledged.write(&world.tenant, "after", 20).await;
        assert!(refused.is_empty(), "{refused:?}");
    }
    let after = bridge.talk(&world.tenant.did).await;

    world.server.kill9();
    bridge.cut();
    world.server.restart();
    assert!(acknowledged.0.len() > 60);
    acknowledged.are_there(&world.tenant).await;
    let bridge = world.tenant.bridge(Http).await;
    for call in [&before, &after] {
        assert_eq!(world.tenant.call(call).await["status"], "answered");
        bridge.hang_up(call).await;
        assert_eq!(world.tenant.billed(call).await, Some(1));
    }
    world.assert_ledger_is_exact();
}

/// A refused write leaves space for a small one, which does not restore readiness.
#[actix_web::test]
async fn readiness_ends_with_the_first_write_that_a_full_disk_refuses() {
    let world = world!(Sqlite);
    let public = world.server.rest();
    let log = world
        .server
        .installation
        .folder
        .path()
        .join("dikala.db-wal");
    let long = json!({"name": "long", "systemPrompt": "p".repeat(32_000)});
    for _ in 0..3 {
        let present = std::fs::metadata(&log).unwrap().len();
        public.get("/health/ready").await.expect(200);
        world.server.limit_files(Some(present + NEARLY_FULL));
        let mut writes = 0;
        while world.tenant.api.post("/agents", long.clone()).await.status == 201 {
            writes += 1;
            assert!(writes < WRITES, "the log has room for everything");
        }
        let answer = public.get("/health/ready").await.expect(503);
        assert_eq!(answer["checks"]["store"], false, "{answer}");
        let problem = answer["problems"][0].as_str().unwrap();
        assert!(problem.contains("takes no writes"), "{answer}");
        world.server.limit_files(None);
        within(WORKS_WITHIN, "readiness", async || {
            (public.get("/health/ready").await.status == 200).then_some(())
        })
        .await;
    }
}
