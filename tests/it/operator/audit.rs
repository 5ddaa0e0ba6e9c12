//! Audit entries of operators and of the command line.

use super::*;
use crate::support::tenant::text;

#[rstest]
#[actix_web::test]
async fn every_change_over_http_leaves_who_what_and_from_where(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let Some(server) = empty(store) else {
        return;
    };
    let api = client(&server).with("x-request-id", "ticket-7");
    let tenant = api
        .post("/tenants", json!({"name": "Toko"}))
        .await
        .expect(201);
    let tenant = text(&tenant, "id");
    let of = format!("/tenants/{tenant}");
    let made =
        async |path: String, body: Value| text(&api.post(&path, body).await.expect(201), "id");
    let key = made(format!("{of}/keys"), json!({"name": "production"})).await;
    let user = made(format!("{of}/users"), json!({"email": "sari@example.com"})).await;
    let new = json!({"tenantId": tenant, "did": "+622150001111", "label": "Line"});
    let number = made("/numbers".to_owned(), new).await;
    let bridge = made("/bridges".to_owned(), json!({"name": "sip"})).await;
    let books = format!("{of}/credits/transactions");
    let booked = made(books.clone(), json!({"minutes": 5})).await;
    let invoice = json!({"minutes": 6, "reference": "inv-1"});
    let invoiced = made(books, invoice).await;
    api.patch(&of, json!({"rateLimit": 9})).await.expect(200);
    api.patch(&format!("/numbers/{number}"), json!({"label": "Main"}))
        .await
        .expect(200);
    for what in ["suspend", "resume"] {
        api.post(&format!("{of}/{what}"), json!({}))
            .await
            .expect(200);
    }
    api.post(&format!("/users/{user}/login-link"), json!({}))
        .await
        .expect(201);
    for path in [
        format!("/keys/{key}"),
        format!("/users/{user}"),
        format!("/numbers/{number}"),
        format!("/bridges/{bridge}"),
    ] {
        assert_eq!(api.delete(&path).await.status, 204, "{path}");
    }
    // Refused requests, and those that change nothing, leave no entry.
    api.patch(&of, json!({"rateLimit": 9})).await.expect(200);
    api.post("/tenants", json!({"name": ""})).await.expect(422);
    let page = api.get("/audit").await.expect(200);
    let entries = page["entries"].as_array().unwrap();
    let told: Vec<String> = entries
        .iter()
        .rev()
        .map(|entry| {
            let text = |name: &str| entry[name].as_str().unwrap();
            format!("{} {} {}", text("action"), text("target"), text("detail"))
                .trim_end()
                .to_owned()
        })
        .collect();
    let expected = [
        format!("tenant.create {tenant} Toko"),
        format!("key.create {key} production"),
        format!("user.create {user} sari, owner"),
        format!("number.create {number} Line"),
        format!("bridge.create {bridge} sip"),
        format!("credit.add {tenant} 5 purchase, {booked}"),
        format!("credit.add {tenant} 6 purchase, reference inv-1, {invoiced}"),
        format!("tenant.update {tenant} rateLimit"),
        format!("number.update {number} label"),
        format!("tenant.suspend {tenant}"),
        format!("tenant.resume {tenant}"),
        format!("user.link {user} sari"),
        format!("key.revoke {key} production"),
        format!("user.remove {user} sari"),
        format!("number.delete {number} Main"),
        format!("bridge.revoke {bridge} sip"),
    ];
    assert_eq!(told, expected);
    for entry in entries {
        assert_eq!(entry["actor"], "operator", "{entry}");
        assert_eq!(entry["address"], "127.0.0.1", "{entry}");
        assert_eq!(entry["requestId"], "ticket-7", "{entry}");
        assert_eq!(entry["node"], "main", "{entry}");
        let of_service = text(entry, "target").starts_with("br_");
        let owner = if of_service {
            Value::Null
        } else {
            json!(tenant)
        };
        assert_eq!(entry["tenantId"], owner, "{entry}");
    }
}

#[rstest]
#[actix_web::test]
async fn the_audit_is_filtered_by_whose_who_what_and_when(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let Some(server) = empty(store) else {
        return;
    };
    let api = client(&server);
    let by_cli = text(&server.cli(&["tenant", "create", "--name", "One"]), "id");
    let by_http = text(
        &api.post("/tenants", json!({"name": "Two"}))
            .await
            .expect(201),
        "id",
    );
    let person = server.cli(&[
        "user",
        "create",
        "--tenant",
        &by_http,
        "--email",
        "a@example.com",
    ]);
    let list = async |query: &str| {
        let page = api.get(&format!("/audit{query}")).await.expect(200);
        let entries = page["entries"].as_array().unwrap().clone();
        let told = |entry: &Value| format!("{} {}", text(entry, "actor"), text(entry, "target"));
        entries.iter().map(told).collect::<Vec<_>>()
    };
    let (first, second) = (format!("cli {by_cli}"), format!("operator {by_http}"));
    let third = format!("cli {}", text(&person, "id"));
    assert_eq!(list("").await, [&*third, &second, &first]);
    assert_eq!(list("?limit=1&offset=1").await, [&*second]);
    assert_eq!(list(&format!("?tenantId={by_cli}")).await, [&*first]);
    assert_eq!(
        list(&format!("?tenantId={by_http}&actor=cli")).await,
        [&*third]
    );
    assert_eq!(list("?actor=operator").await, [&*second]);
    assert_eq!(list("?action=user.create").await, [&*third]);
    assert_eq!(list("?actor=cli&action=tenant.create").await, [&*first]);
    assert_eq!(
        list(&format!("?actor={}", nobody("key"))).await,
        Vec::<String>::new()
    );
    let page = api.get("/audit").await.expect(200);
    let at = text(&page["entries"][0], "at");
    assert_eq!(list(&format!("?from={at}")).await.first(), Some(&third));
    assert!(!list(&format!("?to={at}")).await.contains(&third));
    assert_eq!(list("?from=2999-01-01").await, Vec::<String>::new());
    // The log cannot be changed.
    for answer in [
        api.delete("/audit").await,
        api.post("/audit", json!({})).await,
        api.patch("/audit", json!({})).await,
    ] {
        answer.expect(405);
    }
}
