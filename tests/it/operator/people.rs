//! People of a tenant's dashboard, created and removed over HTTP.

use super::*;
use crate::support::{tenant::text, visitor::Visitor};

#[actix_web::test]
async fn somebody_comes_in_by_the_link_and_is_gone_when_removed() {
    let world = world!(Postgres);
    let api = client(&world.server);
    let other = world.another_tenant(10).await;
    let path = format!("/tenants/{}/users", world.tenant.id);
    let made = api.post(&path, json!({"email": "Sari@Example.com"})).await;
    let found = made_at(&world.server, &made).await;
    let made = made.expect(201);
    assert_eq!(
        (&made["email"], &made["name"]),
        (&json!("sari@example.com"), &json!("sari"))
    );
    assert_eq!(made["role"], "owner");
    assert!(made["expiresAt"].is_string(), "{made}");
    let mut person = made.clone();
    for of_the_link in ["url", "expiresAt"] {
        person.as_object_mut().unwrap().remove(of_the_link);
    }
    let listed = api.get(&path).await.expect(200);
    assert_eq!(listed["users"], json!([person]), "made as it is listed");
    assert_eq!(found, person);
    let come = async |url: &str| {
        let browser = Visitor::new(&world.server.http);
        let page = browser.open(url).await;
        let form = page.form(&format!(
            "/dashboard{}",
            url.split_once("/dashboard").unwrap().1
        ));
        browser.submit(&form).await;
        browser
    };
    let browser = come(&text(&made, "url")).await;
    let is_in = async |browser: &Visitor| browser.fetch("/dashboard").await.status == 200;
    assert!(is_in(&browser).await);
    let user = format!("/users/{}", text(&made, "id"));
    let link = api.post(&format!("{user}/login-link"), json!({})).await;
    // A link cannot be read again: the path is the person's.
    assert_eq!(made_at(&world.server, &link).await, person);
    let link = link.expect(201);
    assert_ne!(link["url"], made["url"]);
    assert!(is_in(&come(&text(&link, "url")).await).await);

    for (body, status, code) in [
        (json!({"email": "sari@example.com"}), 409, "user_exists"),
        (json!({"email": "sari"}), 422, "validation_failed"),
        (
            json!({"email": "a@example.com", "role": "boss"}),
            422,
            "validation_failed",
        ),
    ] {
        let theirs = format!("/tenants/{}/users", other.id);
        let refused = api.post(&theirs, body).await.expect(status);
        assert_eq!(refused["error"]["code"], code);
    }
    let listed = api.get(&path).await.expect(200);
    assert_eq!(ids(&listed["users"]), [text(&made, "id")]);
    let theirs = api
        .get(&format!("/tenants/{}/users", other.id))
        .await
        .expect(200);
    assert_eq!(theirs["users"], json!([]));
    assert_eq!(api.delete(&user).await.status, 204);
    api.delete(&user).await.expect(404);
    assert!(!is_in(&browser).await, "the session ended");
}
