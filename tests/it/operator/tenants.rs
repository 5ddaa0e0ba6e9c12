//! Tenants and their keys: changes take effect at once, by command line and over HTTP.

use super::*;
use crate::support::tenant::text;

#[rstest]
#[actix_web::test]
async fn a_tenant_is_the_same_over_http_and_on_the_command_line(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let Some(server) = empty(store) else {
        return;
    };
    let api = client(&server);
    let made = api
        .post(
            "/tenants",
            json!({"name": " Kopi Senja ", "plan": "business", "rateLimit": 500}),
        )
        .await;
    let location = made.header("location").unwrap().to_owned();
    let made = made.expect(201);
    let id = text(&made, "id");
    assert_eq!(location, format!("{BASE}/tenants/{id}"));
    assert_eq!(server.cli(&["tenant", "show", &id]), made);
    let expected = json!({
        "id": id, "name": "Kopi Senja", "plan": "business", "rateLimit": 500, "lowCreditThreshold": 30,
        "maxConcurrentCalls": null, "balanceMinutes": 0, "suspendedAt": null,
        "createdAt": made["createdAt"], "updatedAt": made["updatedAt"],
    });
    assert_eq!(made, expected);

    // A missing field stays, null resets, and a response can be sent back.
    let mut whole = api.get(&format!("/tenants/{id}")).await.expect(200);
    whole["maxConcurrentCalls"] = json!(7);
    whole["rateLimit"] = Value::Null;
    whole["lowCreditThreshold"] = json!(5);
    let path = format!("/tenants/{id}");
    let changed = api.patch(&path, whole).await.expect(200);
    assert_eq!(changed["rateLimit"], Value::Null);
    assert_eq!(changed["maxConcurrentCalls"], 7);
    assert_eq!(changed["plan"], "business");
    let changed = api
        .patch(&path, json!({"lowCreditThreshold": null}))
        .await
        .expect(200);
    assert_eq!(changed["lowCreditThreshold"], 30);
    assert_eq!(server.cli(&["tenant", "show", &id]), changed);
    let refused = api.patch(&path, json!({"name": null})).await.expect(422);
    assert_eq!(refused["error"]["fields"][0]["code"], "required");
    let refused = api
        .patch(&path, json!({"suspendedAt": made["createdAt"]}))
        .await
        .expect(422);
    let fault = &refused["error"]["fields"][0];
    assert_eq!(
        (&fault["field"], &fault["code"]),
        (&json!("suspendedAt"), &json!("not_allowed"))
    );
    assert_eq!(api.get(&path).await.expect(200), changed);
}

#[rstest]
#[actix_web::test]
async fn tenants_are_paged_and_found_by_name_or_id(#[values(Sqlite, Postgres)] store: StoreKind) {
    let Some(server) = empty(store) else {
        return;
    };
    let api = client(&server);
    let mut made = Vec::new();
    for name in ["Toko 100%", "Kopi Senja", "kopi_hitam", "Café Åsa"] {
        let tenant = api
            .post("/tenants", json!({"name": name}))
            .await
            .expect(201);
        made.push(text(&tenant, "id"));
    }
    let page = api.get("/tenants?limit=3").await.expect(200);
    assert_eq!(ids(&page["tenants"]), made[..3]);
    assert_eq!(
        (&page["limit"], &page["offset"], &page["hasMore"]),
        (&json!(3), &json!(0), &json!(true))
    );
    let page = api.get("/tenants?limit=3&offset=3").await.expect(200);
    assert_eq!(
        (ids(&page["tenants"]), &page["hasMore"]),
        (vec![&*made[3]], &json!(false))
    );
    let listed = server.cli(&["tenant", "list"]);
    assert_eq!(ids(&listed["tenants"]), made);
    for (wanted, found) in [
        ("KOPI", vec![1, 2]),
        ("senja", vec![1]),
        // Wildcards are literal.
        ("%25", vec![0]),
        ("_", vec![2]),
        ("%C3%85sa", vec![3]),
        ("nobody", vec![]),
        // An empty search box.
        ("", vec![0, 1, 2, 3]),
        ("%20", vec![0, 1, 2, 3]),
        (&*made[2], vec![2]),
    ] {
        let page = api.get(&format!("/tenants?q={wanted}")).await.expect(200);
        let found: Vec<&str> = found.iter().map(|n: &usize| &*made[*n]).collect();
        assert_eq!(ids(&page["tenants"]), found, "{wanted}");
    }
}

#[rstest]
#[actix_web::test]
async fn a_suspension_and_a_revoked_key_count_at_once(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let (tenant, api) = (&world.tenant, client(&world.server));
    let other = world.another_tenant(10).await;
    tenant.api.get("/credits").await.expect(200);
    let path = format!("/tenants/{}", tenant.id);
    let suspended = api
        .post(&format!("{path}/suspend"), json!({}))
        .await
        .expect(200);
    assert!(suspended["suspendedAt"].is_string(), "{suspended}");
    let refused = tenant.api.get("/credits").await.expect(403);
    assert_eq!(refused["error"]["code"], "tenant_suspended");
    let again = api
        .post(&format!("{path}/suspend"), json!({}))
        .await
        .expect(200);
    assert_eq!(again, suspended);
    // Calls of a suspended tenant are refused; others are not affected.
    let bridge = tenant.bridge(Http).await;
    let call = bridge.incoming(&tenant.did, None).await;
    assert_eq!(call["action"], "reject", "{call}");
    other.api.get("/credits").await.expect(200);
    api.post(&format!("{path}/resume"), json!({}))
        .await
        .expect(200);
    tenant.api.get("/credits").await.expect(200);

    let made = api
        .post(&format!("{path}/keys"), json!({"name": "second"}))
        .await;
    let found = made_at(&world.server, &made).await;
    let made = made.expect(201);
    let mut shown = made.clone();
    shown.as_object_mut().unwrap().remove("key");
    assert_eq!(found, shown);
    let key = text(&made, "key");
    let second = Rest::new(&format!("{}/api/v1", world.server.http)).with("x-api-key", &key);
    second.get("/credits").await.expect(200);
    let listed = api.get(&format!("{path}/keys")).await;
    assert!(!listed.text.contains(&key), "{}", listed.text);
    let listed = listed.expect(200);
    assert_eq!(listed["keys"].as_array().unwrap().len(), 2);
    let of_other = api
        .get(&format!("/tenants/{}/keys", other.id))
        .await
        .expect(200);
    assert!(!ids(&of_other["keys"]).contains(&&*text(&made, "id")));
    let at = format!("/keys/{}", text(&made, "id"));
    assert_eq!(api.delete(&at).await.status, 204);
    let refused = second.get("/credits").await.expect(401);
    assert_eq!(refused["error"]["code"], "revoked_api_key");
    api.delete(&at).await.expect(404);
    tenant.api.get("/credits").await.expect(200);
}

#[rstest]
#[actix_web::test]
async fn a_limit_that_is_changed_counts_for_the_next_request_and_call(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let (tenant, api) = (&world.tenant, client(&world.server));
    let path = format!("/tenants/{}", tenant.id);
    let changed = json!({"rateLimit": 77_000, "maxConcurrentCalls": 1});
    api.patch(&path, changed).await.expect(200);
    let answer = tenant.api.get("/credits").await;
    assert_eq!(answer.header("x-ratelimit-limit"), Some("77000"));
    let bridge = tenant.bridge(Http).await;
    let first = bridge.talk(&tenant.did).await;
    let second = bridge.incoming(&tenant.did, None).await;
    assert_eq!(second["action"], "reject", "{second}");
    api.patch(&path, json!({"maxConcurrentCalls": null}))
        .await
        .expect(200);
    let second = bridge.talk(&tenant.did).await;
    bridge.hang_up(&first).await;
    bridge.hang_up(&second).await;
}
