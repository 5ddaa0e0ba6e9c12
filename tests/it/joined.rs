//! Callers who are joined to a person: the call goes on, and what the service tells of it.

use crate::support::{prelude::*, tenant::text};

#[rstest]
#[actix_web::test]
async fn a_joined_call_goes_on_and_costs_until_a_side_leaves(
    #[values(Sqlite, Postgres)] store: StoreKind,
    #[values(Socket, Http)] transport: BridgeTransport,
) {
    let world = shared_world!(store, WorldSetup::new().minutes(100));
    let tenant = &world.tenant;
    let bridge = tenant.bridge(transport).await;
    let began = Moment::ago(400);
    let (joined, ended) = (began.plus(20), began.plus(305));
    let id = bridge.talk_since(&tenant.did, began).await;
    assert_eq!(tenant.call(&id).await["joinedAt"], Value::Null);
    let path = format!("/calls/{id}/transfer");
    let to = json!({"to": "+6281100000"});
    tenant.api.post(&path, to.clone()).await.expect(202);
    bridge.command("transfer", &id).await;

    let message = json!({"callId": id, "to": "+6281100000", "at": joined.text()});
    bridge.ok("call.transferred", message.clone()).await;
    let call = tenant.call(&id).await;
    assert_eq!(call["status"], "answered");
    assert_eq!(call["joinedAt"], joined.text());
    // A repeat changes nothing, and a joined caller is transferred no more.
    let late = json!({"callId": id, "to": "+6281100000"});
    bridge.ok("call.transferred", late).await;
    assert_eq!(tenant.call(&id).await["joinedAt"], joined.text());
    let again = tenant.api.post(&path, to).await.expect(422);
    assert!(
        again.to_string().contains("connected to a person"),
        "{again}"
    );

    let hangup = json!({"callId": id, "reason": "transferred", "at": ended.text()});
    bridge.ok("call.hangup", hangup).await;
    let call = tenant.call(&id).await;
    let seen = ["status", "hangupReason", "hangupInitiator", "joinedAt"].map(|f| &call[f]);
    assert_eq!(
        json!(seen),
        json!(["ended", "transferred", "caller", joined.text()])
    );
    assert_eq!(call["talkTimeSeconds"], 305);
    assert_eq!(tenant.billed(&id).await, Some(6));
    bridge.ok("call.transferred", message).await;
}

/// The AI has left, so its cost is known although the bridge is lost later.
#[actix_web::test]
async fn the_cost_until_the_joining_counts_unless_the_end_has_another() {
    let world = shared_world!(Sqlite, WorldSetup::new().minutes(100));
    let tenant = &world.tenant;
    let bridge = tenant.bridge(Http).await;
    let joined = async || {
        let id = bridge.talk(&tenant.did).await;
        let message = json!({"callId": id, "to": "+6281100000", "aiCostIdr": 427});
        bridge.ok("call.transferred", message).await;
        id
    };
    let (ended, lost) = (joined().await, joined().await);
    let hangup = json!({"callId": ended, "reason": "transferred", "aiCostIdr": 450});
    bridge.ok("call.hangup", hangup).await;
    bridge.ok("heartbeat", json!({"activeCalls": []})).await;
    for (id, reason, cost) in [(ended, "transferred", 450), (lost, "bridge_lost", 427)] {
        let over = tenant.call_over(&id).await;
        assert_eq!(over["hangupReason"], reason, "{over}");
        assert_eq!(over["aiCostIdr"], cost, "{over}");
    }
}

#[actix_web::test]
async fn only_an_answered_call_can_be_joined() {
    let world = shared_world!(Sqlite, WorldSetup::new());
    let tenant = &world.tenant;
    let bridge = tenant.bridge(Http).await;
    let id = bridge.ring(&tenant.did).await;
    let message = json!({"callId": id, "to": "+6281100000"});
    let refused = bridge.refused("call.transferred", message.clone()).await;
    assert_eq!(
        (&refused["code"], &refused["status"]),
        (&json!("invalid_transition"), &json!("ringing"))
    );
    bridge.ok("call.answered", json!({"callId": id})).await;
    let short = json!({"callId": id, "to": "0811"});
    assert_eq!(
        bridge.refused("call.transferred", short).await["code"],
        "invalid_message"
    );
    bridge.hang_up(&id).await;
    let refused = bridge.refused("call.transferred", message).await;
    assert_eq!(refused["status"], "ended");
    assert_eq!(tenant.call(&id).await["joinedAt"], Value::Null);
}

/// Another node, and a new start, must not cut a joined call at the agent's longest duration.
#[actix_web::test]
async fn a_joined_call_stays_so_over_a_crash() {
    let mut world = world!(Postgres, WorldSetup::new().minutes(100));
    let bridge = world.tenant.bridge(Http).await;
    // The agent's longest duration is ten minutes.
    let id = bridge.talk_since(&world.tenant.did, Moment::ago(595)).await;
    let message = json!({"callId": id, "to": "+6281100000"});
    bridge.ok("call.transferred", message).await;
    world.server.kill9();
    world.server.restart();
    let bridge = world.tenant.bridge(Http).await;
    let listed = json!({"activeCalls": [id]});
    eventually("the ten minutes to pass", async || {
        bridge.ok("heartbeat", listed.clone()).await;
        let call = world.tenant.call(&id).await;
        assert_eq!(call["status"], "answered", "{call}");
        let minutes = Moment::ago(602).text();
        (text(&call, "answeredAt") < minutes).then_some(())
    })
    .await;
    bridge
        .ok(
            "call.hangup",
            json!({"callId": id, "reason": "transferred"}),
        )
        .await;
    let call = world.tenant.call_over(&id).await;
    assert_eq!(call["hangupReason"], "transferred");
    assert_eq!(world.tenant.billed(&id).await, Some(11));
}

#[rstest]
#[actix_web::test]
async fn calls_are_found_by_their_channel(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = shared_world!(store, WorldSetup::new().minutes(100));
    let tenant = &world.tenant;
    let bridge = tenant.bridge(Http).await;
    let phone = bridge.talk(&tenant.did).await;
    let over = bridge.talk(&tenant.did).await;
    bridge.hang_up(&over).await;
    let incoming = |channel: &str| json!({"bridgeCallId": channel, "did": tenant.did, "callerNumber": "budi", "channel": channel});
    let reply = bridge.ok("call.incoming", incoming("whatsapp")).await;
    let whatsapp = text(&reply, "callId");
    let refused = bridge.refused("call.incoming", incoming("fax")).await;
    assert_eq!(refused["code"], "invalid_message");
    assert_eq!(tenant.call(&whatsapp).await["channel"], "whatsapp");
    let found = async |query: &str| {
        let page = tenant.api.get(&format!("/calls?{query}")).await.expect(200);
        let calls = page["calls"].as_array().unwrap().clone();
        calls
            .iter()
            .map(|call| text(call, "id"))
            .collect::<Vec<_>>()
    };
    assert_eq!(found("channel=whatsapp").await, [whatsapp]);
    assert_eq!(found("channel=phone").await, [over.clone(), phone.clone()]);
    assert_eq!(found("channel=phone&status=ended").await, [over]);
    assert_eq!(found("channel=phone&status=answered").await, [phone]);
    let wrong = tenant.api.get("/calls?channel=fax").await.expect(422);
    assert!(wrong.to_string().contains("phone, whatsapp"), "{wrong}");
}
