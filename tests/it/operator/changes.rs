//! Every change over HTTP leaves one audit entry or does not happen; with an `Idempotency-Key` it happens once.

use std::collections::BTreeSet;

use awc::http::Method;

use super::{routes::operations, *};
use crate::support::{
    tenant::{fresh_did, text},
    world::HOOK,
};

/// A request that changes something.
struct Step {
    id: &'static str,
    method: Method,
    path: String,
    body: Value,
    status: u16,
    /// Its action in the audit log; `None` if it changes nothing.
    action: Option<&'static str>,
}

fn post(id: &'static str, path: String, body: Value, done: (u16, &'static str)) -> Step {
    Step {
        id,
        method: Method::POST,
        path,
        body,
        status: done.0,
        action: Some(done.1),
    }
}

fn patch(id: &'static str, path: String, body: Value, action: &'static str) -> Step {
    Step {
        method: Method::PATCH,
        ..post(id, path, body, (200, action))
    }
}

fn delete(id: &'static str, path: String, action: &'static str) -> Step {
    Step {
        method: Method::DELETE,
        ..post(id, path, Value::Null, (204, action))
    }
}

/// One step per changing route, in an order in which all succeed.
async fn steps(world: &TestWorld, api: &Rest, call: &str) -> Vec<Step> {
    let made = async |path: &str, body: Value| text(&api.post(path, body).await.expect(201), "id");
    let other = made("/tenants", json!({"name": "Other"})).await;
    let of = format!("/tenants/{}", world.tenant.id);
    let other_of = format!("/tenants/{other}");
    let key = made(&format!("{of}/keys"), json!({"name": "old"})).await;
    let person = json!({"email": "sari@example.com"});
    let user = made(&format!("{of}/users"), person).await;
    let bridge = made("/bridges", json!({"name": "old"})).await;
    let number = |did: String| json!({"tenantId": other, "did": did, "label": "Line"});
    let old = made("/numbers", number(fresh_did())).await;
    let (hook, delivery) = failed(world, api).await;
    let due = json!({"since": Moment::ago(600).text()});
    let budi = json!({"email": "budi@example.com"});
    let none = || json!({});
    let done = |action| (200, action);
    let made = |action| (201, action);
    let books = format!("{of}/credits/transactions");
    let verify = Step {
        action: None,
        ..post("ledger.verify", "/ledger/verify".into(), none(), done(""))
    };
    let new = json!({"name": "New"});
    let hook = format!("/webhooks/{hook}");
    vec![
        post(
            "tenants.create",
            "/tenants".into(),
            new.clone(),
            made("tenant.create"),
        ),
        patch(
            "tenants.update",
            of.clone(),
            json!({"maxConcurrentCalls": 90}),
            "tenant.update",
        ),
        post(
            "tenants.suspend",
            format!("{other_of}/suspend"),
            none(),
            done("tenant.suspend"),
        ),
        post(
            "tenants.resume",
            format!("{other_of}/resume"),
            none(),
            done("tenant.resume"),
        ),
        post(
            "keys.create",
            format!("{of}/keys"),
            new.clone(),
            made("key.create"),
        ),
        delete("keys.revoke", format!("/keys/{key}"), "key.revoke"),
        post(
            "users.create",
            format!("{of}/users"),
            budi,
            made("user.create"),
        ),
        post(
            "users.loginLink",
            format!("/users/{user}/login-link"),
            none(),
            made("user.link"),
        ),
        delete("users.delete", format!("/users/{user}"), "user.remove"),
        post(
            "credits.book",
            books,
            json!({"minutes": 5}),
            made("credit.add"),
        ),
        post(
            "numbers.create",
            "/numbers".into(),
            number(fresh_did()),
            made("number.create"),
        ),
        patch(
            "numbers.update",
            format!("/numbers/{old}"),
            json!({"label": "New"}),
            "number.update",
        ),
        delete("numbers.delete", format!("/numbers/{old}"), "number.delete"),
        post(
            "bridges.create",
            "/bridges".into(),
            new,
            made("bridge.create"),
        ),
        delete(
            "bridges.revoke",
            format!("/bridges/{bridge}"),
            "bridge.revoke",
        ),
        post(
            "calls.hangup",
            format!("/calls/{call}/hangup"),
            none(),
            (202, "call.hangup"),
        ),
        post(
            "webhooks.pause",
            format!("{hook}/pause"),
            none(),
            done("webhook.pause"),
        ),
        post(
            "webhooks.resume",
            format!("{hook}/resume"),
            none(),
            done("webhook.resume"),
        ),
        post(
            "webhooks.recover",
            format!("{hook}/recover"),
            due,
            (202, "webhook.recover"),
        ),
        post(
            "deliveries.resend",
            format!("/deliveries/{delivery}/resend"),
            none(),
            (202, "delivery.resend"),
        ),
        verify,
    ]
}

/// A webhook and its permanently failed delivery.
async fn failed(world: &TestWorld, api: &Rest) -> (String, String) {
    let answers = [ServerAnswer::Status(410), ServerAnswer::Status(204)];
    world.receiver.answer("/gone", answers);
    let tenant = &world.tenant;
    let url = world.receiver.url("/gone");
    let hook = tenant.subscribe(&url, &["call.started"], SECRET).await;
    let bridge = tenant.bridge(Http).await;
    let call = bridge.ring(&tenant.did).await;
    let path = format!("/deliveries?status=failed&webhookId={hook}");
    let delivery = eventually("the delivery to fail", async || {
        let page = api.get(&path).await.expect(200);
        page["deliveries"][0]["id"].as_str().map(str::to_owned)
    })
    .await;
    let on = json!({"isActive": true});
    let of = format!("/webhooks/{hook}");
    tenant.api.patch(&of, on).await.expect(200);
    bridge.hang_up(&call).await;
    (hook, delivery)
}

async fn send(api: &Rest, step: &Step) -> crate::support::rest::RestResponse {
    let body = (!step.body.is_null()).then(|| step.body.clone());
    api.send(step.method.clone(), &step.path, body).await
}

/// SQL after which no audit entry can be written.
fn breaks(store: StoreKind) -> &'static str {
    match store {
        Sqlite => {
            "CREATE TRIGGER broken BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'broken'); END"
        }
        Postgres => {
            "CREATE OR REPLACE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'broken'; END $$; \
             CREATE TRIGGER broken BEFORE INSERT ON audit FOR EACH ROW EXECUTE FUNCTION broken()"
        }
    }
}

fn works(store: StoreKind) -> &'static str {
    match store {
        Sqlite => "DROP TRIGGER broken",
        Postgres => "DROP TRIGGER broken ON audit",
    }
}

/// Number of rows in all tables that a step may write. A step that only updates a row is checked by its repetition,
/// which finds nothing to change.
async fn rows(world: &TestWorld) -> usize {
    let mut rows = 0;
    for table in [
        "tenants",
        "api_keys",
        "users",
        "login_links",
        "credit_transactions",
        "phone_numbers",
        "bridges",
        "recoveries",
        "audit",
    ] {
        rows += world.server.installation.store.count(table).await;
    }
    rows
}

#[rstest]
#[actix_web::test]
async fn no_change_is_without_its_entry_and_none_is_made_twice_under_a_key(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store, WorldSetup::new().minutes(100));
    let api = client(&world.server);
    let bridge = world.tenant.bridge(Socket).await;
    let call = bridge.talk(&world.tenant.did).await;
    world.receiver.wait_for(HOOK, 2).await;
    let steps = steps(&world, &api, &call).await;
    let changing = operations_that_change(&world.server).await;
    let tried: BTreeSet<String> = steps.iter().map(|step| step.id.to_owned()).collect();
    assert_eq!(tried, changing);

    let database = &world.server.installation.store;
    for step in &steps {
        if step.action.is_some() {
            // Wait for background work of earlier steps.
            eventually("no recovery to be under way", async || {
                (database.count("recoveries").await == 0).then_some(())
            })
            .await;
            let before = rows(&world).await;
            database.execute(breaks(store)).await;
            let refused = send(&api, step).await;
            database.execute(works(store)).await;
            assert!(
                [500, 503].contains(&refused.status),
                "{}: {refused:?}",
                step.id
            );
            assert_eq!(rows(&world).await, before, "{}", step.id);
        }
        once(&world, step).await;
    }
    bridge
        .ok("call.hangup", json!({"callId": call, "reason": "operator"}))
        .await;
    world.assert_ledger_is_exact();
}

/// Carries out a step, twice with a key if the route accepts one: it happens once and leaves one entry.
async fn once(world: &TestWorld, step: &Step) {
    let entries = || world.server.installation.store.count("audit");
    let before = entries().await;
    let mut api = client(&world.server).with("x-request-id", step.id);
    if step.method == Method::POST {
        api = api.with("idempotency-key", step.id);
    }
    let first = send(&api, step).await;
    let made = first.text.clone();
    first.expect(step.status);
    if step.method == Method::POST {
        let again = send(&api, step).await;
        assert_eq!(
            again.header("idempotent-replayed"),
            Some("true"),
            "{}",
            step.id
        );
        assert_eq!(
            (again.status, again.text),
            (step.status, made),
            "{}",
            step.id
        );
    }
    assert_eq!(
        entries().await - before,
        usize::from(step.action.is_some()),
        "{}",
        step.id
    );
    if let Some(action) = step.action {
        let page = api.get("/audit?limit=1").await.expect(200);
        let entry = &page["entries"][0];
        let told = ["action", "actor", "address", "requestId", "node"].map(|field| &entry[field]);
        let expected = json!([action, "operator", "127.0.0.1", step.id, "main"]);
        assert_eq!(json!(told), expected, "{entry}");
        // The id of a new thing is not in the path.
        let target = text(entry, "target");
        assert!(step.status == 201 || step.path.contains(&target), "{entry}");
    }
}

async fn operations_that_change(server: &Server) -> BTreeSet<String> {
    let all = operations(server).await.into_iter();
    all.filter(|(method, ..)| *method != Method::GET)
        .map(|(.., id)| id)
        .collect()
}

/// Every changing command leaves an entry by `cli`, without address and request id.
#[rstest]
#[actix_web::test]
async fn every_command_that_changes_something_leaves_an_entry(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let Some(server) = empty(store) else {
        return;
    };
    let done = |words: &str| server.cli(&words.split(' ').collect::<Vec<_>>());
    let made = |words: &str| text(&done(words), "id");
    let tenant = made("tenant create --name Toko");
    let did = fresh_did();
    let key = made(&format!("key create --tenant {tenant} --name k"));
    let user = made(&format!(
        "user create --tenant {tenant} --email sari@example.com"
    ));
    let number = made(&format!(
        "number add --tenant {tenant} --did {did} --label Main"
    ));
    let bridge = made("bridge create --name sip");
    let mut expected = vec![
        ("tenant.create", tenant.clone()),
        ("key.create", key.clone()),
        ("user.create", user.clone()),
        ("number.create", number.clone()),
        ("bridge.create", bridge.clone()),
    ];
    for (words, action, target) in [
        (
            format!("credits add --tenant {tenant} --minutes 5"),
            "credit.add",
            &tenant,
        ),
        (
            format!("tenant update {tenant} --rate-limit 9"),
            "tenant.update",
            &tenant,
        ),
        (
            format!("number update {number} --label Two"),
            "number.update",
            &number,
        ),
        (format!("user login-link {user}"), "user.link", &user),
        (
            format!("function-secret show --tenant {tenant}"),
            "function_secret.show",
            &tenant,
        ),
        (
            format!("function-secret rotate --tenant {tenant}"),
            "function_secret.rotate",
            &tenant,
        ),
        (
            format!("tenant suspend {tenant}"),
            "tenant.suspend",
            &tenant,
        ),
        (format!("tenant resume {tenant}"), "tenant.resume", &tenant),
        (format!("key revoke {key}"), "key.revoke", &key),
        (format!("user remove {user}"), "user.remove", &user),
        (format!("number remove {number}"), "number.delete", &number),
        (format!("bridge revoke {bridge}"), "bridge.revoke", &bridge),
    ] {
        done(&words);
        expected.push((action, target.clone()));
    }
    // Reads, and changes without effect, leave no entry.
    for words in [
        "tenant list".to_owned(),
        format!("tenant update {tenant} --rate-limit 9"),
        format!("tenant resume {tenant}"),
        format!("key revoke {key}"),
        format!("bridge revoke {bridge}"),
        "ledger verify".to_owned(),
    ] {
        done(&words);
    }
    let page = client(&server).get("/audit").await.expect(200);
    let mut entries = page["entries"].as_array().unwrap().clone();
    entries.reverse();
    let told: Vec<(&str, String)> = entries
        .iter()
        .map(|entry| (entry["action"].as_str().unwrap(), text(entry, "target")))
        .collect();
    assert_eq!(told, expected);
    for entry in &entries {
        let from = ["actor", "address", "requestId", "node"].map(|field| &entry[field]);
        assert_eq!(json!(from), json!(["cli", null, null, "main"]), "{entry}");
    }
}
