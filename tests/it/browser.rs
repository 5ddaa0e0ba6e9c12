//! Pages in a real browser: an owner's work in the dashboard, an operator's in the console, and the accessibility
//! of all pages.

mod aside;
mod console;
mod live;
mod operators;
mod pictures;
mod story;
mod talk;
mod widget;

use std::collections::BTreeSet;

use crate::support::{browser::Browser, prelude::*, visitor::kind};

/// `npm ci` installs the accessibility checker here.
const AXE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/axe/node_modules/axe-core/axe.min.js"
);
/// Maximum number of pages per walk; lists with many similar pages are sampled.
const PAGES_MAX: usize = 60;
/// Maximum number of similar pages per walk.
const ALIKE_MAX: usize = 2;

/// A link that signs a person in.
pub(crate) fn invited(world: &TestWorld, email: &str) -> String {
    let made = world.server.cli(&[
        "user",
        "create",
        "--tenant",
        &world.tenant.id,
        "--email",
        email,
        "--name",
        "Ibu Rina",
        "--role",
        "owner",
    ]);
    made["url"].as_str().unwrap().to_owned()
}

/// Follows a sign-in link.
pub(crate) async fn enter(browser: &Browser, link: &str, press: &str) {
    browser.go(link).await;
    browser.press(press).await;
    eventually("being inside", async || {
        let url = browser.url().await;
        (url.contains("/dashboard") && !url.contains("/link/")).then_some(())
    })
    .await;
}

/// Forms also work without scripts.
#[rstest]
#[actix_web::test]
async fn a_password_signs_in_again(#[values(true, false)] scripts: bool) {
    let Some(browser) = Browser::open("en").await else {
        return;
    };
    let world = world!(Sqlite);
    browser.scripts(scripts).await;
    enter(&browser, &invited(&world, "rina@example.com"), "Sign in").await;
    browser
        .go(&format!("{}/dashboard/password", world.server.http))
        .await;
    browser.fill("New password", "kopi susu gula aren").await;
    browser.press("Set password").await;
    browser.see("Your password is set").await;
    browser
        .go(&format!("{}/dashboard/settings/account", world.server.http))
        .await;
    let account = "//details/summary[contains(., 'rina@example.com')]";
    let account = browser.one(account).await;
    browser.click(&account).await;
    browser.press("Sign out").await;
    browser.see("You are signed out").await;
    browser.fill("Email", "RINA@example.com").await;
    browser.fill("Password", "teh tawar hangat").await;
    browser.press("Sign in").await;
    browser.see("is wrong").await;
    assert_eq!(browser.value("Email").await, "RINA@example.com");
    browser.fill("Password", "kopi susu gula aren").await;
    browser.press("Sign in").await;
    browser.see("Ibu Rina").await;
}

/// The last one is after the back button, which may show the page as it was left.
#[actix_web::test]
async fn a_second_press_sends_nothing_while_a_form_is_sent() {
    let Some(browser) = Browser::open("en").await else {
        return;
    };
    let world = world!(Sqlite);
    enter(&browser, &invited(&world, "rina@example.com"), "Sign in").await;
    let keys = format!("{}/dashboard/settings/keys", world.server.http);
    browser.go(&keys).await;
    browser.fill("Name", "Kasir").await;
    let presses =
        "const form = document.querySelector('form[action=\"/dashboard/settings/keys\"]');
        const prevented = [];
        addEventListener('submit', (event) => prevented.push(event.defaultPrevented));
        form.requestSubmit(); form.requestSubmit();
        dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }));
        form.requestSubmit();
        return prevented";
    assert_eq!(browser.run(presses).await, json!([false, true, false]));
    browser.see("Copy the key now").await;
}

/// No page may have accessibility violations, browser errors, content from other sites, or text that overflows a
/// narrow window.
#[rstest]
#[ignore = "keeps a processor busy for minutes, which others measure with; `.ci/slow` runs it"]
#[actix_web::test]
async fn every_page_is_for_everybody(#[values("en", "id")] language: &str) {
    let Some(browser) = Browser::open(language).await else {
        return;
    };
    let Some(axe) = axe() else { return };
    let world = world!(Sqlite);
    let bridge = world.tenant.bridge(Socket).await;
    world
        .tenant
        .create_function("check_order", "POST", &world.receiver.url("/order"))
        .await;
    let ended = bridge.talk(&world.tenant.did).await;
    bridge.hang_up(&ended).await;
    world.event("call.ended", &ended).await;
    bridge.ring(&world.tenant.did).await;
    let press = if language == "id" { "Masuk" } else { "Sign in" };
    enter(&browser, &invited(&world, "rina@example.com"), press).await;
    let mut seen = BTreeSet::new();
    let mut to_see = vec!["/dashboard".to_owned()];
    let mut faults = Vec::new();
    while let Some(path) = to_see.pop() {
        if seen.len() >= PAGES_MAX || !seen.insert(path.clone()) {
            continue;
        }
        browser.go(&format!("{}{path}", world.server.http)).await;
        for fault in barriers(&browser, &axe).await {
            faults.push(format!("{path}: {fault}"));
        }
        let links = browser.run(LINKS).await;
        for link in links.as_array().unwrap() {
            let link = link.as_str().unwrap().to_owned();
            let alike = seen
                .iter()
                .chain(&to_see)
                .filter(|it| kind(it) == kind(&link));
            if alike.count() < ALIKE_MAX {
                to_see.push(link);
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(seen.len() > 5, "{seen:?}");
}

/// The paths of all linked pages, without downloads.
const LINKS: &str = "return [...document.querySelectorAll('a[href]')].filter(a => a.origin === location.origin)
    .map(a => a.pathname + a.search).filter(p => p.startsWith('/dashboard') && !p.includes('.csv') && !p.includes('done='))";

/// The accessibility checker; `None` with a printed note if it is not installed.
fn axe() -> Option<String> {
    let axe = std::fs::read_to_string(AXE).ok();
    if axe.is_none() {
        assert_ne!(
            std::env::var("DIKALA_REQUIRE_BROWSER").as_deref(),
            Ok("1"),
            "npm ci --prefix tests/axe"
        );
        eprintln!("skipped: axe is not installed (npm ci --prefix tests/axe)");
    }
    axe
}

/// The problems of the current page, in a narrow and a wide window, light and dark.
async fn barriers(browser: &Browser, axe: &str) -> Vec<String> {
    let mut found = Vec::new();
    let foreign = "return performance.getEntriesByType('resource').map(it => it.name).filter(it => !it.startsWith(location.origin))";
    for (width, scheme) in [
        (320, "light"),
        (1280, "dark"),
        (1280, "light"),
        (320, "dark"),
    ] {
        browser.look(width, scheme).await;
        let wide = browser
            .run("return document.documentElement.scrollWidth - innerWidth")
            .await;
        if wide.as_i64().unwrap_or_default() > 0 {
            found.push(format!("{wide} px wider than a window of {width}"));
        }
        browser.run(axe).await;
        let violations = browser
            .run_until_done(
                "const done = arguments[0]; axe.run(document, {resultTypes: ['violations']}).then(result => done(result.violations
                    .filter(it => it.impact === 'serious' || it.impact === 'critical')
                    .map(it => `${it.id}: ${it.nodes.map(node => node.html).join(' ').slice(0, 300)}`)), error => done([String(error)]))",
            )
            .await;
        for violation in violations.as_array().unwrap() {
            found.push(format!("{width} {scheme}: {violation}"));
        }
    }
    for address in browser.run(foreign).await.as_array().unwrap() {
        found.push(format!("loads {address}"));
    }
    found.extend(browser.complaints().await);
    found
}
