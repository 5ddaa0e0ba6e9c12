//! An operator's work on tenants in the console: tenants, keys, people, credit and numbers. Effects are read
//! through the operators' API.

use super::{console::signed_in, *};
use crate::support::{
    tenant::{fresh_did, text},
    visitor::{VisitedPage, Visitor},
};

/// Asserts that a form was refused, with errors beside these fields, and that typed values were kept.
#[track_caller]
fn assert_refused(page: &VisitedPage, fields: &[&str]) {
    assert_eq!(page.status, 422, "{}", page.text());
    for field in fields {
        let input = page.input(field);
        assert_eq!(
            input.get("aria-invalid").map(String::as_str),
            Some("true"),
            "{field}"
        );
        assert!(input["aria-describedby"].contains(&format!("f-{field}-error")));
    }
}

#[rstest]
#[actix_web::test]
async fn a_tenant_is_made_and_changed(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store, guarded());
    let (browser, api) = (
        signed_in(&world.server, FULL).await,
        with(&world.server, READ),
    );
    let new = "/tenants/new";
    let wrong = [
        ("name", " "),
        ("rateLimit", "0"),
        ("lowCreditThreshold", "many"),
        ("maxConcurrentCalls", "-1"),
    ];
    let page = browser.fill(new, new, &wrong).await;
    assert_refused(
        &page,
        &[
            "name",
            "rateLimit",
            "lowCreditThreshold",
            "maxConcurrentCalls",
        ],
    );
    assert_eq!(page.form(new).value("lowCreditThreshold"), Some("many"));

    let right = [
        ("name", "Kopi <Senja>"),
        ("plan", "business"),
        ("rateLimit", "600"),
    ];
    let made = browser.fill(new, new, &right).await;
    made.assert_shows("Tenant created");
    made.assert_hides("<Senja>");
    let path = made.path.split('?').next().unwrap().to_owned();
    let shown = api.get(&path).await.expect(200);
    assert_eq!(
        [&shown["name"], &shown["plan"]],
        ["Kopi <Senja>", "business"]
    );
    assert_eq!(
        [&shown["rateLimit"], &shown["lowCreditThreshold"]],
        [600, 30]
    );

    let changed = browser
        .fill(
            &path,
            &path,
            &[("rateLimit", ""), ("maxConcurrentCalls", "7")],
        )
        .await;
    changed.assert_shows("Saved.");
    let shown = api.get(&path).await.expect(200);
    assert_eq!(
        (&shown["rateLimit"], &shown["maxConcurrentCalls"]),
        (&Value::Null, &json!(7))
    );
    let page = browser.fill(&path, &path, &[("name", "")]).await;
    assert_refused(&page, &["name"]);
    // An invalid character is reported; the rest of the text stays.
    let page = browser.fill(&path, &path, &[("name", "Kopi\0 Pagi")]).await;
    assert_refused(&page, &["name"]);
    page.assert_shows("Name: This must not contain the character U+0000");
    assert_eq!(page.form(&path).value("name"), Some("Kopi Pagi"));
}

#[rstest]
#[actix_web::test]
async fn a_tenant_is_found_suspended_and_resumed(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store, guarded());
    let (browser, api) = (
        signed_in(&world.server, FULL).await,
        with(&world.server, READ),
    );
    let id = world.tenant.id.as_str();
    let path = format!("/tenants/{id}");
    let suspend = format!("{path}/suspend");
    let question = browser.open(&suspend).await;
    browser
        .submit(&question.form(&suspend))
        .await
        .assert_shows("suspended");
    assert!(api.get(&path).await.expect(200)["suspendedAt"].is_string());
    let resume = format!("{path}/resume");
    let page = browser.open(&path).await;
    browser
        .submit(&page.form(&resume))
        .await
        .assert_shows("Tenant resumed.");
    assert!(api.get(&path).await.expect(200)["suspendedAt"].is_null());

    let name = text(&api.get(&path).await.expect(200), "name");
    for query in [&*name.to_uppercase(), id] {
        let found = browser.open(&format!("/tenants?q={query}")).await;
        assert!(found.links().contains(&path), "{query}");
    }
    let none = browser.open("/tenants?q=nobody").await;
    assert!(!none.links().contains(&path));
    none.assert_shows("No tenants");
}

#[rstest]
#[actix_web::test]
async fn a_key_is_shown_once_and_revoked(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store, guarded());
    let browser = signed_in(&world.server, FULL).await;
    let path = format!("/tenants/{}/keys", world.tenant.id);
    let page = browser.fill(&path, &path, &[("name", "")]).await;
    assert_refused(&page, &["name"]);
    let made = browser.fill(&path, &path, &[("name", "cash desk")]).await;
    made.assert_shows("not shown again");
    let key = made.element("key");
    browser.open(&path).await.assert_hides(&key);
    let of_key = || {
        let api = Rest::new(&format!("{}/api/v1", world.server.http));
        api.with("x-api-key", &key)
    };
    of_key().get("/agents").await.expect(200);
    let revoke = made
        .links()
        .into_iter()
        .rfind(|link| link.ends_with("/revoke"));
    let revoke = revoke.unwrap();
    let question = browser.open(&revoke).await;
    question.assert_shows("cash desk");
    browser
        .submit(&question.form(&revoke))
        .await
        .assert_shows("revoked");
    of_key().get("/agents").await.expect(401);
    // Another tenant's page shows none of it.
    let other = world.another_tenant(10).await;
    let others = browser.open(&format!("/tenants/{}/keys", other.id)).await;
    assert!(!others.text().contains("cash desk"));
}

#[rstest]
#[actix_web::test]
async fn people_get_links_that_are_shown_once(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store, guarded());
    let (browser, api) = (
        signed_in(&world.server, FULL).await,
        with(&world.server, READ),
    );
    let path = format!("/tenants/{}/users", world.tenant.id);
    for wrong in ["", "nobody", "a@b@c"] {
        let page = browser.fill(&path, &path, &[("email", wrong)]).await;
        assert_refused(&page, &["email"]);
        assert_eq!(page.form(&path).value("email"), Some(wrong));
    }
    let sari = [
        ("email", "sari@example.com"),
        ("name", "Sari"),
        ("role", "viewer"),
    ];
    let made = browser.fill(&path, &path, &sari).await;
    let first = made.element("link");
    browser.open(&path).await.assert_hides(&first);
    let people = api.get(&path).await.expect(200);
    let person = &people["users"][0];
    assert_eq!(
        [&person["email"], &person["role"]],
        ["sari@example.com", "viewer"]
    );
    let taken = browser.fill(&path, &path, &sari).await;
    assert_refused(&taken, &["email"]);

    let of_person = format!("/users/{}", text(person, "id"));
    let page = browser.open(&path).await;
    let again = browser
        .submit(&page.form(&format!("{of_person}/login-link")))
        .await;
    let second = again.element("link");
    assert_ne!(first, second);
    let theirs = Visitor::new(&world.server.http);
    theirs.open(&second).await.assert_shows("Sign in");

    let remove = format!("{of_person}/remove");
    let question = browser.open(&remove).await;
    question.assert_shows("sari@example.com");
    browser
        .submit(&question.form(&remove))
        .await
        .assert_shows("removed");
    assert_eq!(api.get(&path).await.expect(200)["users"], json!([]));
}

#[rstest]
#[actix_web::test]
async fn minutes_are_booked_once_however_often_it_is_pressed(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store, guarded().minutes(100));
    let (browser, api) = (
        signed_in(&world.server, FULL).await,
        with(&world.server, READ),
    );
    let path = format!("/tenants/{}/credits", world.tenant.id);
    let balance = async || api.get(&path).await.expect(200)["balanceMinutes"].clone();
    for (minutes, kind) in [
        ("0", "purchase"),
        ("-5", "purchase"),
        ("ten", "bonus"),
        ("1000", "refund2"),
    ] {
        let page = browser
            .fill(&path, &path, &[("minutes", minutes), ("type", kind)])
            .await;
        let wrong = if kind == "refund2" { "type" } else { "minutes" };
        assert_refused(&page, &[wrong]);
    }
    let page = browser.open(&path).await;
    let booking = page
        .form(&path)
        .set("minutes", "50")
        .set("description", "January <b>");
    let booked = browser.submit(&booking).await;
    booked.assert_shows("booked");
    booked.assert_hides("<b>");
    browser.submit(&booking).await.assert_shows("booked");
    assert_eq!(balance().await, 150);
    // The same reference with other values is a conflict.
    let conflict = browser.submit(&booking.clone().set("minutes", "60")).await;
    assert_refused(&conflict, &["reference"]);
    let too_many = page
        .form(&path)
        .set("minutes", "-900")
        .set("type", "adjustment")
        .set("reference", "x-1");
    assert_refused(&browser.submit(&too_many).await, &["minutes"]);
    assert_eq!(balance().await, 150);
    let fresh = browser.open(&path).await.form(&path);
    assert_ne!(fresh.value("reference"), booking.value("reference"));
    let moved = api.get(&format!("{path}/transactions")).await.expect(200);
    assert_eq!(moved["transactions"][0]["description"], "January <b>");
    world.assert_ledger_is_exact();
}

#[rstest]
#[actix_web::test]
async fn numbers_are_given_changed_moved_and_deleted(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store, guarded());
    let other = world.another_tenant(10).await;
    let (browser, api) = (
        signed_in(&world.server, FULL).await,
        with(&world.server, READ),
    );
    let path = format!("/tenants/{}/numbers", world.tenant.id);
    let page = browser
        .fill(&path, &path, &[("did", "0812"), ("label", "")])
        .await;
    assert_refused(&page, &["did", "label"]);
    let taken = [("did", world.tenant.did.as_str()), ("label", "twice")];
    assert_refused(&browser.fill(&path, &path, &taken).await, &["did"]);
    let did = fresh_did();
    let given = browser
        .fill(&path, &path, &[("did", &did), ("label", "Orders")])
        .await;
    given.assert_shows("Number added");
    given.assert_hides(&did);
    let of = async || {
        let listed = api.get("/numbers?limit=100").await.expect(200);
        let numbers = listed["numbers"].as_array().unwrap().clone();
        numbers.into_iter().find(|number| number["did"] == *did)
    };
    let number = format!("/numbers/{}", text(&of().await.unwrap(), "id"));

    let form = browser.open(&number).await.form(&number);
    let off = form.clone().set("label", "Sales").without("isActive");
    browser.submit(&off).await.assert_shows("Saved.");
    let now = of().await.unwrap();
    assert_eq!(
        (&now["label"], &now["isActive"]),
        (&json!("Sales"), &json!(false))
    );
    for wrong in ["x", &nobody("ten")] {
        let page = browser.submit(&form.clone().set("tenantId", wrong)).await;
        assert_refused(&page, &["tenantId"]);
    }
    browser
        .submit(&form.clone().set("tenantId", &other.id))
        .await
        .assert_shows("Saved.");
    assert_eq!(of().await.unwrap()["tenantId"], other.id);

    let delete = format!("{number}/delete");
    let question = browser.open(&delete).await;
    let gone = browser.submit(&question.form(&delete)).await;
    assert_eq!(
        gone.path.split('?').next(),
        Some(&*format!("/tenants/{}/numbers", other.id))
    );
    assert!(of().await.is_none());
}
