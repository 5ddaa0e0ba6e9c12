//! Operators' `Idempotency-Key`: one effect, the same answer, and no stored secret.

use sea_orm::{ConnectionTrait, Database, Statement};

use super::*;
use crate::support::tenant::text;

#[rstest]
#[actix_web::test]
async fn the_same_request_twice_is_one_and_what_it_showed_is_stored_sealed(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let Some(server) = empty(store) else {
        return;
    };
    let api = client(&server).with("idempotency-key", "order-1");
    let tenant = api
        .post("/tenants", json!({"name": "Toko"}))
        .await
        .expect(201);
    let again = api.post("/tenants", json!({"name": "Toko"})).await;
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.expect(201), tenant);
    let reused = api
        .post("/tenants", json!({"name": "Warung"}))
        .await
        .expect(422);
    assert_eq!(reused["error"]["code"], "idempotency_key_reused");
    assert_eq!(
        ids(&client(&server).get("/tenants").await.expect(200)["tenants"]).len(),
        1
    );

    let api = client(&server).with("idempotency-key", "key-1");
    let path = format!("/tenants/{}/keys", text(&tenant, "id"));
    let made = api
        .post(&path, json!({"name": "production"}))
        .await
        .expect(201);
    let again = api.post(&path, json!({"name": "production"})).await;
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.expect(201), made);
    let db = Database::connect(&server.installation.store.url)
        .await
        .unwrap();
    let sql = "SELECT body FROM idempotency_keys WHERE key = 'key-1'";
    let statement = Statement::from_string(db.get_database_backend(), sql);
    let row = db.query_one_raw(statement).await.unwrap().unwrap();
    let body: String = row.try_get("", "body").unwrap();
    db.close().await.unwrap();
    assert!(
        !body.is_empty() && !body.contains(&text(&made, "key")),
        "{body}"
    );

    // A tenant with the same key is not affected.
    let theirs = Rest::new(&format!("{}/api/v1", server.http))
        .with("x-api-key", &text(&made, "key"))
        .with("idempotency-key", "key-1");
    let agent = json!({"name": "Sari", "systemPrompt": "Answer kindly."});
    theirs.post("/agents", agent).await.expect(201);
}
