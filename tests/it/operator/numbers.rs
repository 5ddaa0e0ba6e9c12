//! Numbers and bridges over HTTP.

use awc::ws::CloseCode;

use super::*;
use crate::support::{
    bridge::BridgeSocketEnd,
    tenant::{fresh_did, text},
};

#[rstest]
#[actix_web::test]
async fn a_number_belongs_to_one_tenant_until_it_is_moved(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let (tenant, api) = (&world.tenant, client(&world.server));
    let other = world.another_tenant(10).await;
    let did = fresh_did();
    let new = json!({"tenantId": tenant.id, "did": did, "label": " Second "});
    let made = api.post("/numbers", new.clone()).await;
    assert_eq!(made_at(&world.server, &made).await, made.body);
    let made = made.expect(201);
    let path = &format!("/numbers/{}", text(&made, "id"));
    let told = ["did", "displayNumber", "label"].map(|field| &made[field]);
    assert_eq!(json!(told), json!([did, did, "Second"]));
    // A response can be sent back; changes of read-only fields are refused.
    api.patch(path, made.clone()).await.expect(200);
    let others = json!({"did": fresh_did(), "displayNumber": null, "agentId": tenant.agent});
    let refused = api.patch(path, others).await.expect(422);
    let faults = refused["error"]["fields"].as_array().unwrap();
    let told = faults.iter().map(|fault| [&fault["field"], &fault["code"]]);
    let told: Vec<_> = told.collect();
    assert_eq!(
        json!(told),
        json!([
            ["did", "not_allowed"],
            ["displayNumber", "not_allowed"],
            ["agentId", "not_allowed"]
        ])
    );
    assert!(text(&faults[0], "message").contains("cannot be changed"));
    assert_eq!(api.get(path).await.expect(200), made);
    let taken = json!({"tenantId": other.id, "did": did, "label": "Mine"});
    let refused = api.post("/numbers", taken).await.expect(409);
    assert_eq!(refused["error"]["code"], "phone_number_exists");
    let refused = api.post(
        "/numbers",
        json!({"tenantId": nobody("ten"), "did": "1", "label": ""}),
    );
    let refused = refused.await.expect(422);
    let fields = refused["error"]["fields"].as_array().unwrap();
    let told: Vec<&str> = fields
        .iter()
        .map(|fault| fault["field"].as_str().unwrap())
        .collect();
    assert_eq!(told, ["did", "label"]);
    let stranger = json!({"tenantId": nobody("ten"), "did": fresh_did(), "label": "x"});
    let refused = api.post("/numbers", stranger).await.expect(422);
    assert_eq!(refused["error"]["fields"][0]["code"], "not_found");

    // A moved number belongs to its new tenant, without the old agent; calls reach the new owner at once.
    tenant.assign(&tenant.agent).await;
    let agent = json!({"agentId": tenant.agent});
    let assign = format!("/phone-numbers/{}/assign-agent", text(&made, "id"));
    tenant.api.post(&assign, agent).await.expect(200);
    let moved = api
        .patch(path, json!({"tenantId": other.id}))
        .await
        .expect(200);
    assert_eq!(
        (&moved["tenantId"], &moved["agentId"]),
        (&json!(other.id), &Value::Null)
    );
    tenant
        .api
        .get(&format!("/phone-numbers/{}", text(&made, "id")))
        .await
        .expect(404);
    // Both tenants see the move.
    for of in [&tenant.id, &other.id] {
        let path = format!("/audit?tenantId={of}&action=number.update");
        let page = api.get(&path).await.expect(200);
        let entry = &page["entries"][0];
        assert_eq!(
            (&entry["target"], &entry["detail"]),
            (&made["id"], &json!("tenantId")),
            "{page}"
        );
    }
    let agent = json!({"agentId": other.agent});
    other.api.post(&assign, agent).await.expect(200);
    let bridge = tenant.bridge(Http).await;
    let call = bridge.talk(&did).await;
    assert_eq!(other.call(&call).await["agentId"], other.agent);
    bridge.hang_up(&call).await;
    for (of, count) in [(&tenant.id, 1), (&other.id, 2)] {
        let listed = api
            .get(&format!("/numbers?tenantId={of}"))
            .await
            .expect(200);
        assert_eq!(
            listed["numbers"].as_array().unwrap().len(),
            count,
            "{listed}"
        );
    }
    let refused = api
        .patch(path, json!({"tenantId": nobody("ten")}))
        .await
        .expect(422);
    assert_eq!(refused["error"]["fields"][0]["field"], "tenantId");

    // An inactive number refuses calls; a removed one can be assigned again.
    api.patch(path, json!({"isActive": false}))
        .await
        .expect(200);
    assert_eq!(bridge.incoming(&did, None).await["action"], "reject");
    assert_eq!(api.delete(path).await.status, 204);
    api.delete(path).await.expect(404);
    api.post("/numbers", new).await.expect(201);
}

#[rstest]
#[actix_web::test]
async fn a_bridge_is_seen_with_its_calls_and_shut_out_within_a_second(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let (tenant, api) = (&world.tenant, client(&world.server));
    let made = api.post("/bridges", json!({"name": "sip-2"})).await;
    let found = made_at(&world.server, &made).await;
    let made = made.expect(201);
    let (id, token) = (text(&made, "id"), text(&made, "token"));
    let of = async |id: &str| {
        let listed = api.get("/bridges").await;
        assert!(!listed.text.contains(&token), "{}", listed.text);
        let listed = listed.expect(200);
        let bridges = listed["bridges"].as_array().unwrap().clone();
        bridges
            .into_iter()
            .find(|bridge| bridge["id"] == id)
            .unwrap()
    };
    let before = of(&id).await;
    assert_eq!(
        (&before["connected"], &before["calls"]),
        (&json!(false), &json!(0))
    );
    assert_eq!(before["lastSeenAt"], Value::Null);
    let mut listed = made.clone();
    listed.as_object_mut().unwrap().remove("token");
    assert_eq!(listed, before, "it is made as it is listed");
    assert_eq!(found, before);
    let bridge = TestBridge::open(&world.server.http, &token, Socket).await;
    let call = bridge.talk(&tenant.did).await;
    let now = of(&id).await;
    assert_eq!(
        (&now["connected"], &now["calls"]),
        (&json!(true), &json!(1))
    );
    assert!(now["lastSeenAt"].is_string(), "{now}");
    bridge.hang_up(&call).await;
    assert_eq!(of(&id).await["calls"], 0);

    let since = std::time::Instant::now();
    assert_eq!(api.delete(&format!("/bridges/{id}")).await.status, 204);
    assert_eq!(
        bridge.closed().await,
        BridgeSocketEnd(Some(CloseCode::Policy))
    );
    assert!(
        since.elapsed() < Duration::from_secs(10),
        "{:?}",
        since.elapsed()
    );
    assert!(
        TestBridge::socket(&world.server.http, Some(&token))
            .await
            .is_err()
    );
    api.delete(&format!("/bridges/{id}")).await.expect(404);
    assert!(of(&id).await["revokedAt"].is_string());
}
