//! Overload: it is reported early, and light users are served beside heavy ones.

use crate::support::{bridge::PendingReply, prelude::*};

/// More calls than a bridge may have pending for one tenant.
const FLOOD: usize = 12_000;

/// Maximum time of a reply behind a flood, on a busy machine.
const PATIENT: Duration = Duration::from_secs(180);

fn is_taken(reply: &Value) -> bool {
    reply["ok"] == true
}

fn is_busy(reply: &Value) -> bool {
    reply["error"]["code"] == "busy"
}

/// Many concurrent calls to a number.
fn flood(bridge: &TestBridge, did: &str) -> Vec<(Value, PendingReply)> {
    let ring = |n: usize| {
        let fields = json!({"bridgeCallId": format!("flood-{n}"), "did": did, "callerNumber": "+6281234567890"});
        let message = bridge.message("call.incoming", fields);
        let pending = bridge.begin(&message);
        (message, pending)
    };
    (0..FLOOD).map(ring).collect()
}

/// Another tenant's call during the flood, from ring to hang-up.
async fn call_beside(bridge: &TestBridge, did: &str) {
    let ask = async |kind: &str, fields: Value| {
        let message = bridge.message(kind, fields);
        let reply = bridge.begin(&message).reply_within(PATIENT).await;
        let reply = reply.expect("a reply in time");
        assert!(is_taken(&reply), "{kind}: {reply}");
        reply
    };
    let incoming = json!({
        "bridgeCallId": format!("beside-{}", rand::random::<u64>()), "did": did, "callerNumber": "+6281234567890",
    });
    let call = ask("call.incoming", incoming).await["callId"].clone();
    for kind in ["call.answered", "call.hangup"] {
        ask(kind, json!({"callId": call})).await;
    }
}

/// Makes both numbers known to the service by a first call each.
async fn introduce(bridge: &TestBridge, dids: [&str; 2]) {
    for did in dids {
        let call = bridge.talk(did).await;
        bridge.hang_up(&call).await;
    }
}

#[rstest]
#[actix_web::test]
async fn calls_of_one_tenant_that_flood_a_socket_keep_nobody_behind_them_waiting(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store, WorldSetup::new().minutes(100_000));
    let (greedy, other) = (&world.tenant, world.another_tenant(1_000).await);
    let bridge = greedy.bridge(Socket).await;
    introduce(&bridge, [&greedy.did, &other.did]).await;
    let waiting = flood(&bridge, &greedy.did);
    call_beside(&bridge, &other.did).await;
    let (taken, busy) = (bridge.replies(is_taken), bridge.replies(is_busy));
    println!("{taken} taken and {busy} refused before the other tenant's call was over");
    assert!(taken < FLOOD / 2, "{taken} calls were taken before");
    assert!(busy > 0, "nobody was told that there is too much to do");
    // A refused message had no effect and can be sent again.
    let (mut refused, mut known) = (None, 0);
    for (message, pending) in waiting {
        let reply = pending.reply_within(PATIENT).await.unwrap();
        if is_busy(&reply) {
            refused = Some(message);
            break;
        }
        known += 1;
    }
    let refused = refused.unwrap();
    println!("the first of those that were refused came after {known}");
    eventually("the refused call is taken", async || {
        let reply = bridge.send(&refused).await;
        assert!(is_taken(&reply) || is_busy(&reply), "{reply}");
        is_taken(&reply).then_some(())
    })
    .await;
    world.assert_ledger_is_exact();
}

#[rstest]
#[actix_web::test]
async fn calls_that_flood_one_bridge_keep_those_of_another_not_waiting(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store, WorldSetup::new().minutes(100_000));
    let tenant = &world.tenant;
    let created = world.server.cli(&["bridge", "create", "--name", "greedy"]);
    let token = created["token"].as_str().unwrap();
    let greedy = TestBridge::open(&world.server.http, token, Socket).await;
    let quiet = [tenant.bridge(Socket).await, tenant.bridge(Http).await];
    introduce(&greedy, [&tenant.did, &tenant.did]).await;
    let _waiting = flood(&greedy, &tenant.did);
    for bridge in &quiet {
        call_beside(bridge, &tenant.did).await;
    }
    let taken = greedy.replies(is_taken);
    println!("{taken} taken before the others' calls were over");
    assert!(taken < FLOOD / 2, "{taken} calls were taken before");
}
