//! Common properties of every route in the description.

use awc::http::Method;

use super::*;

/// Every operation of the description: method, path below the base, operation id.
pub(super) async fn operations(server: &Server) -> Vec<(Method, String, String)> {
    let document = Rest::new(&server.operator)
        .with("authorization", &format!("Bearer {READ}"))
        .get("/operator/openapi.json")
        .await
        .expect(200);
    let paths = document["paths"].as_object().unwrap();
    let mut operations = Vec::new();
    for (path, item) in paths {
        let path = path.strip_prefix(BASE).unwrap();
        for (method, operation) in item.as_object().unwrap() {
            let method = method.to_uppercase().parse().unwrap();
            let id = operation["operationId"].as_str().unwrap().to_owned();
            operations.push((method, path.to_owned(), id));
        }
    }
    operations
}

/// A path with an unknown id, and the expected error code.
fn unknown(path: &str) -> (String, &'static str) {
    let (prefix, code) = match path.split('/').nth(1).unwrap() {
        "tenants" => ("ten", "tenant_not_found"),
        "keys" => ("key", "key_not_found"),
        "users" => ("user", "user_not_found"),
        "numbers" => ("pn", "phone_number_not_found"),
        "bridges" => ("br", "bridge_not_found"),
        "calls" => ("call", "call_not_found"),
        "webhooks" => ("wh", "webhook_not_found"),
        "deliveries" => ("dlv", "delivery_not_found"),
        "transactions" => ("txn", "transaction_not_found"),
        "actors" => ("", "actor_not_found"),
        other => panic!("nothing is known of {other}"),
    };
    let path = path.replace("{id}", &nobody(prefix));
    (path.replace("{type}", "nonsense"), code)
}

fn is_of_one(path: &str) -> bool {
    path.contains('{')
}

#[actix_web::test]
async fn every_route_asks_for_a_token_and_the_read_token_only_reads() {
    let world = world!(Sqlite, guarded());
    let server = &world.server;
    let operations = operations(server).await;
    assert!(operations.len() > 35, "{operations:?}");
    let (none, wrong) = (client(server), with(server, "not-one-of-the-tokens"));
    let (read, full) = (with(server, READ), with(server, FULL));
    for (method, path, id) in operations {
        let path = match is_of_one(&path) {
            true => unknown(&path).0,
            false => path,
        };
        let refused = none.send(method.clone(), &path, None).await.expect(401);
        assert_eq!(refused["error"]["code"], "missing_operator_token", "{id}");
        let refused = wrong.send(method.clone(), &path, None).await.expect(401);
        assert_eq!(refused["error"]["code"], "invalid_operator_token", "{id}");
        let answer = read.send(method.clone(), &path, None).await;
        if method == Method::GET {
            assert!([200, 404].contains(&answer.status), "{id}: {answer:?}");
            assert_eq!(answer.header("cache-control"), Some("no-store"), "{id}");
            let same = full.send(method, &path, None).await;
            assert_eq!(same.status, answer.status, "{id}");
        } else {
            let refused = answer.expect(403);
            assert_eq!(refused["error"]["code"], "read_only_token", "{id}");
            let answer = full.send(method, &path, None).await;
            assert!(![401, 403].contains(&answer.status), "{id}: {answer:?}");
        }
    }
}

#[actix_web::test]
async fn what_is_not_there_is_not_found_whatever_else_is_said() {
    let Some(server) = empty(Sqlite) else {
        return;
    };
    let api = client(&server);
    for (method, path, id) in operations(&server).await {
        if !is_of_one(&path) {
            continue;
        }
        let (unknown, code) = unknown(&path);
        let malformed = path.replace("{id}", "nonsense").replace("{type}", "%00");
        for path in [unknown, malformed] {
            let body = (method != Method::GET).then(|| json!({"nonsense": true}));
            let answer = api.send(method.clone(), &path, body).await.expect(404);
            assert_eq!(answer["error"]["code"], code, "{id} {path}");
        }
    }
    let nothing = api.get("/nonsense").await.expect(404);
    assert_eq!(nothing["error"]["code"], "route_not_found");
    let other = api.delete("/tenants").await;
    assert_eq!(other.header("allow"), Some("GET, POST"));
    assert_eq!(other.expect(405)["error"]["code"], "method_not_allowed");
}

#[actix_web::test]
async fn bodies_and_queries_are_taken_as_strictly_as_the_tenants() {
    let Some(server) = empty(Sqlite) else {
        return;
    };
    let api = client(&server);
    let code = |answer: Value| answer["error"]["code"].as_str().unwrap().to_owned();
    let field = |answer: Value| {
        let fields = answer["error"]["fields"].as_array().unwrap().clone();
        let told = fields.iter().map(|fault| {
            let text = |name: &str| fault[name].as_str().unwrap();
            format!("{} {}", text("field"), text("code"))
        });
        told.collect::<Vec<_>>().join(", ")
    };
    let wrong = json!({"nmae": "Kopi", "plan": "gold", "rateLimit": 0, "lowCreditThreshold": -1});
    let answer = api.post("/tenants", wrong).await.expect(422);
    assert_eq!(
        field(answer),
        "name required, plan not_allowed, rateLimit too_small, lowCreditThreshold too_small, nmae unknown_field"
    );
    for (path, body) in [
        ("/tenants", json!({"name": "a\u{5}b"})),
        ("/bridges", json!({"name": "a\u{5}b"})),
    ] {
        let answer = api.post(path, body).await.expect(422);
        assert_eq!(field(answer), "name invalid_format", "{path}");
    }
    for (path, told) in [
        ("/tenants?limit=0", "limit too_small"),
        ("/tenants?limit=101", "limit too_large"),
        ("/tenants?p=x", "p unknown_field"),
        ("/nodes?limit=1", "limit unknown_field"),
        ("/calls?status=over", "status not_allowed"),
        ("/calls?tenantId=x", "tenantId invalid_format"),
        ("/webhooks?state=broken", "state not_allowed"),
        ("/audit?actor=somebody", "actor invalid_format"),
        ("/audit?from=yesterday", "from invalid_format"),
    ] {
        let answer = api.get(path).await.expect(422);
        assert_eq!(field(answer), told, "{path}");
    }
    // Empty parameters of a form are ignored.
    for path in [
        "/tenants?q=&limit=&offset=",
        "/calls?status=&did=&tenantId=&bridgeId=&callerNumber=&from=&to=",
        "/webhooks?state=&tenantId=",
        "/deliveries?status=&webhookId=",
        "/functions?tenantId=&agentId=&name=&sort=",
        "/http?sort=",
        "/numbers?tenantId=",
        "/audit?tenantId=&actor=&action=&from=&to=",
    ] {
        api.get(path).await.expect(200);
    }
    let unknown = api.get("/tenants?p=").await.expect(422);
    assert_eq!(field(unknown), "p unknown_field");
    let large = json!({"name": "x".repeat(300_000)});
    assert_eq!(
        code(api.post("/tenants", large).await.expect(413)),
        "body_too_large"
    );
    assert_eq!(
        code(api.post("/tenants", json!([])).await.expect(422)),
        "validation_failed"
    );
    let untyped = api.send(Method::POST, "/tenants", None).await.expect(415);
    assert_eq!(code(untyped), "unsupported_media_type");
}
