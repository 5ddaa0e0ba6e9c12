//! The button of a website, in a page of another origin with a Content-Security-Policy of its own.

use super::{axe, barriers};
use crate::support::{browser::Browser, prelude::*, tenant::text};

/// The address of a page that the receiver serves, as the name of another machine.
fn website(world: &TestWorld, path: &str) -> String {
    world.receiver.url(path).replace("127.0.0.1", "localhost")
}

/// Serves a page with a widget's line. Its policy allows our script and our frame alone.
fn serve(world: &TestWorld, path: &str, key: &str, attributes: &str) {
    let service = &world.server.http;
    let page = format!(
        "<!doctype html><html lang=en><head><meta charset=utf-8><title>Shop</title>\
         <meta http-equiv=Content-Security-Policy content=\"default-src 'none'; script-src {service} 'unsafe-eval'; frame-src {service}\">\
         </head><body><h1>Shop</h1><div id=place></div>\
         <script src=\"{service}/widget.js\" data-key=\"{key}\" {attributes} async></script></body></html>"
    );
    let html = "text/html; charset=utf-8".to_owned();
    let page = ServerAnswer::Full(200, "content-type", html, page.into_bytes());
    world.receiver.answer(path, [page]);
}

async fn world() -> Option<TestWorld> {
    let mut installation = Installation::migrated(Sqlite)?;
    installation.answer_with_the_test_voice();
    let world = TestWorld::on(installation, WorldSetup::new().minutes(20)).await;
    let tools = json!({"toolsEnabled": ["end_call"], "language": "en"});
    world.tenant.change_agent(tools).await;
    Some(world)
}

#[actix_web::test]
async fn a_visitor_of_a_website_talks_to_its_agent() {
    let Some(browser) = Browser::open("en").await else {
        return;
    };
    let Some(axe) = axe() else { return };
    let Some(world) = world().await else { return };
    let page = website(&world, "/shop");
    let origin = page.trim_end_matches("/shop");
    let widget = json!({"name": "Shop", "agentId": world.tenant.agent, "origins": [origin],
        "texts": {"start": "Ask about an order"}, "color": "#ffd400"});
    let made = world.tenant.api.post("/widgets", widget).await.expect(201);
    serve(&world, "/shop", &text(&made, "key"), "");
    browser.go(&page).await;
    browser
        .run("window.heard = []; for (const name of ['started', 'turn', 'ended', 'error']) Dikala.on(name, (it) => heard.push([name, it]))")
        .await;
    let heard = async |name: &str| {
        eventually(name, async || {
            let heard = browser.run("return heard").await;
            let all = heard.as_array().unwrap().clone();
            all.into_iter().find(|it| it[0] == name)
        })
        .await
    };
    browser.inside_frame(true).await;
    browser.press("Ask about an order").await;
    browser.see("Go ahead, we are listening.").await;
    browser.see("This is the test voice of Dikala").await;
    assert_eq!(barriers(&browser, &axe).await, [""; 0]);
    browser.press("Hang up").await;
    browser.see("The call is over.").await;
    browser.inside_frame(false).await;
    let started = heard("started").await;
    let id = text(&started[1], "callId");
    assert!(heard("turn").await[1]["role"].is_string());
    assert_eq!(heard("ended").await[1], json!({"reason": "normal"}));
    let call = world.tenant.call_over(&id).await;
    assert_eq!(
        (&call["channel"], &call["draft"]),
        (&json!("web"), &json!(false))
    );
    // The page begins and ends a call by itself.
    browser.run("heard.length = 0; Dikala.start()").await;
    heard("turn").await;
    browser.run("Dikala.end()").await;
    heard("ended").await;
    assert_eq!(world.tenant.calls().await.len(), 2);
    // The example that comes with the service.
    let example = include_str!("../../../examples/widget.html");
    let html = "text/html; charset=utf-8".to_owned();
    let example = ServerAnswer::Full(200, "content-type", html, example.into());
    world.receiver.answer("/example", [example]);
    let asked = format!(
        "{}?service={}&key={}",
        website(&world, "/example"),
        world.server.http,
        text(&made, "key")
    );
    browser.go(&asked).await;
    browser.press("Ask about an order").await;
    browser.see("began.").await;
    browser.run("Dikala.end()").await;
    browser.see("The call is over: normal.").await;
    let complaints = browser.complaints().await;
    assert!(
        complaints.iter().all(|it| it.contains("favicon")),
        "{complaints:?}"
    );
    world.assert_ledger_is_exact();
}

/// Also one whose address the page does not tell truly.
#[actix_web::test]
async fn another_website_gets_no_button() {
    let Some(browser) = Browser::open("id").await else {
        return;
    };
    let Some(world) = world().await else { return };
    let page = website(&world, "/shop");
    let origin = page.trim_end_matches("/shop").to_owned();
    let widget = json!({"name": "Shop", "agentId": world.tenant.agent, "origins": [origin]});
    let made = world.tenant.api.post("/widgets", widget).await.expect(201);
    let key = text(&made, "key");
    serve(
        &world,
        "/shop",
        &key,
        "data-element=\"#place\" data-lang=id",
    );
    browser.go(&page).await;
    let shown = "const frame = document.querySelector('#place iframe'); return frame?.style.visibility === 'visible'";
    eventually("the button", async || {
        browser.run(shown).await.as_bool().filter(|it| *it)
    })
    .await;
    browser.inside_frame(true).await;
    browser.see("Bicara dengan kami").await;
    browser.inside_frame(false).await;

    let elsewhere = world.receiver.url("/shop");
    browser.go(&elsewhere).await;
    browser.one("//iframe").await;
    let frame = format!(
        "{}/web/v1/widget?key={key}&origin={origin}",
        world.server.http
    );
    let lie = format!(
        "const [done] = arguments; const frame = document.createElement('iframe'); frame.src = '{frame}'; \
         frame.onload = () => done(true); document.body.append(frame)"
    );
    browser.run_until_done(&lie).await;
    eventually("the refusal", async || {
        let complaints = browser.complaints().await.join(" ");
        complaints.contains("frame-ancestors").then_some(())
    })
    .await;
    let visible = "return [...document.querySelectorAll('iframe')].some((it) => it.style.visibility === 'visible')";
    assert_eq!(browser.run(visible).await, json!(false));
    assert_eq!(world.tenant.calls().await.len(), 0);
}
