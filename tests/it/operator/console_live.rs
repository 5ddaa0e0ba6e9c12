//! Live pages of the console: a page's stream sends what happened after the page was opened.

use std::time::Duration;

use futures_util::StreamExt;

use super::{console::signed_in, *};
use crate::support::{
    tenant::text,
    visitor::{VisitedPage, Visitor},
};

/// Opens a page and its stream, as its script does, and performs an action until the text that it returns has
/// arrived.
async fn follow(
    browser: &Visitor,
    url: &str,
    path: &str,
    doing: impl Future<Output = String>,
) -> (VisitedPage, String) {
    let page = browser.open(path).await;
    let place = page.html.split("data-live=\"").nth(1);
    let place = place.unwrap_or_else(|| panic!("{path} does not follow: {}", page.html));
    let place = place.split('"').next().unwrap().replace("&amp;", "&");
    let cookies = browser.cookies().into_iter();
    let cookies: Vec<String> = cookies
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let client = awc::Client::builder().disable_timeout().finish();
    let request = client.get(format!("{url}{place}&after=0"));
    let request = request.insert_header(("cookie", cookies.join("; ")));
    let mut stream = request.send().await.unwrap();
    assert_eq!(stream.status(), 200, "{place}");
    let words = doing.await;
    let mut seen = String::new();
    let limit = tokio::time::Instant::now() + Duration::from_secs(60);
    while !seen.contains(&words) {
        let chunk = tokio::time::timeout_at(limit, stream.next()).await;
        let chunk = chunk.unwrap_or_else(|_| panic!("{path} never told {words}: {seen}"));
        let chunk = chunk.unwrap().unwrap();
        seen.push_str(&String::from_utf8_lossy(&chunk));
    }
    // Each part replaces one that is in the page.
    for part in seen.split("event: part\ndata: <div id=\"").skip(1) {
        let id = part.split('"').next().unwrap();
        let place = format!("<div id=\"{id}\">");
        assert_eq!(page.html.matches(&place).count(), 1, "{id} of {path}");
    }
    (page, seen)
}

/// The same, for a text that was not on the page before the action.
async fn tells(browser: &Visitor, url: &str, path: &str, doing: impl Future<Output = String>) {
    let words = std::cell::RefCell::new(String::new());
    let doing = async {
        let told = doing.await;
        words.replace(told.clone());
        told
    };
    let (page, _) = follow(browser, url, path, doing).await;
    assert!(
        !page.html.contains(&*words.borrow()),
        "{path} had it at once"
    );
}

#[actix_web::test]
async fn pages_tell_what_happens_while_they_are_open() {
    let world = world!(Sqlite, guarded());
    let (tenant, api, url) = (
        &world.tenant,
        with(&world.server, FULL),
        &*world.server.operator,
    );
    let browser = signed_in(&world.server, FULL).await;
    let endpoint = world.receiver.url("/followed");
    let hook = tenant.subscribe(&endpoint, &["call.started"], SECRET).await;
    let paused = async {
        let path = format!("/webhooks/{hook}/pause");
        api.post(&path, json!({})).await.expect(200);
        ">paused<".to_owned()
    };
    tells(&browser, url, &format!("/webhooks/{hook}"), paused).await;
    let made =
        async |list: &str, name: &str| api.post(list, json!({"name": name})).await.expect(201);
    let bridge = async {
        made("/bridges", "A new bridge").await;
        "A new bridge".to_owned()
    };
    tells(&browser, url, "/bridges", bridge).await;
    let named = async {
        made("/tenants", "A new tenant").await;
        "A new tenant".to_owned()
    };
    tells(&browser, url, "/tenants", named).await;
    let audited = async { text(&made("/tenants", "Another").await, "id") };
    tells(&browser, url, "/audit", audited).await;

    let bridge = tenant.bridge(Socket).await;
    let counted = async {
        bridge.talk(&tenant.did).await;
        "data-column=\"Calls\">1<".to_owned()
    };
    tells(&browser, url, "/nodes", counted).await;
    let held = async { format!("<a href=\"/calls/{}\">", bridge.talk(&tenant.did).await) };
    tells(&browser, url, "/ledger", held).await;

    // Pools and commit times change while anybody looks.
    let comes = async {
        bridge.talk(&tenant.did).await;
        "event: part\ndata: <div id=\"part\">".to_owned()
    };
    tells(&browser, url, "/database", comes).await;
    // Filtered lists, and later pages of a list, are not updated.
    for path in [
        "/audit?actor=operator",
        "/tenants?q=new",
        "/tenants?offset=1",
    ] {
        let page = browser.open(path).await;
        assert!(!page.html.contains("data-live"), "{path}");
    }
    for gone in [
        "/live?of=webhook",
        "/live?of=webhook&id=x",
        &format!("/live?of=webhook&id={}", nobody("wh")),
    ] {
        assert_eq!(browser.fetch(gone).await.status, 404, "{gone}");
    }
}
