//! Live pages in use: selection and scroll position stay, and the reader can pause updates.

use super::*;

/// Signs an owner in and opens the list of calls.
async fn at_the_calls(browser: &Browser, world: &TestWorld) {
    enter(browser, &invited(world, "rina@example.com"), "Sign in").await;
    browser
        .go(&format!("{}/dashboard/calls", world.server.http))
        .await;
    browser.see("Live – Pause").await;
}

#[actix_web::test]
async fn what_is_selected_stays_and_is_brought_up_to_date_afterwards() {
    let Some(browser) = Browser::open("en").await else {
        return;
    };
    let world = world!(Sqlite);
    let bridge = world.tenant.bridge(Socket).await;
    let call = bridge.talk(&world.tenant.did).await;
    let other = bridge.talk(&world.tenant.did).await;
    at_the_calls(&browser, &world).await;
    let select = "const row = document.getElementById(arguments[0]); window.row = row;
        getSelection().selectAllChildren(row.querySelector('.number')); return getSelection().toString()";
    let number = browser.run_with(select, json!([call])).await;
    assert_eq!(number, "+6281234567890");
    bridge.hang_up(&call).await;
    bridge.hang_up(&other).await;
    // The other row shows that the page is up to date: its event came after the first one.
    let text = "return document.getElementById(arguments[0]).textContent";
    eventually("the other row to change", async || {
        let row = browser.run_with(text, json!([other])).await;
        row.as_str()?.contains("Caller hung up").then_some(())
    })
    .await;
    assert_eq!(
        browser.run("return getSelection().toString()").await,
        number
    );
    let row = browser.run_with(text, json!([call])).await;
    assert!(row.as_str().unwrap().contains("in progress"), "{row}");
    browser.run("getSelection().removeAllRanges()").await;
    eventually("the row to change", async || {
        let row = browser.run_with(text, json!([call])).await;
        row.as_str()?.contains("Caller hung up").then_some(())
    })
    .await;
    let same = "return window.row === document.getElementById(arguments[0])";
    assert_eq!(browser.run_with(same, json!([call])).await, true);
    assert_eq!(browser.complaints().await, [""; 0]);
}

#[actix_web::test]
async fn new_calls_move_nothing_that_is_read_and_a_page_that_is_paused_waits() {
    let Some(browser) = Browser::open("en").await else {
        return;
    };
    let world = world!(Sqlite);
    let bridge = world.tenant.bridge(Socket).await;
    for _ in 0..20 {
        let call = bridge.ring(&world.tenant.did).await;
        bridge.hang_up(&call).await;
    }
    browser.look(1280, "light").await;
    at_the_calls(&browser, &world).await;
    let top = "return Math.round(window.read.getBoundingClientRect().top)";
    browser
        .run("window.read = document.querySelectorAll('[data-rows] tr')[9]; window.read.scrollIntoView()")
        .await;
    let before = browser.run(top).await;
    for _ in 0..3 {
        bridge.ring(&world.tenant.did).await;
    }
    browser.see("3 new calls ↑").await;
    assert_eq!(browser.run(top).await, before);
    let said = "return document.querySelector('[data-live-said]').textContent";
    assert_eq!(browser.run(said).await, "A call came in.");
    browser.press("3 new calls ↑").await;
    eventually("the top of the page", async || {
        (browser.run("return scrollY").await == 0).then_some(())
    })
    .await;

    browser.press("Live – Pause").await;
    browser.see("Paused – Resume").await;
    let rows = "return document.querySelectorAll('[data-rows] tr').length";
    let paused = browser.run(rows).await;
    let call = bridge.ring(&world.tenant.did).await;
    world.event("call.started", &call).await;
    assert_eq!(browser.run(rows).await, paused);
    browser.press("Paused – Resume").await;
    eventually("what happened meanwhile", async || {
        let there = "return document.getElementById(arguments[0]) !== null";
        (browser.run_with(there, json!([call])).await == true).then_some(())
    })
    .await;
    assert_eq!(browser.complaints().await, [""; 0]);
}

#[actix_web::test]
async fn a_page_copies_after_updates_and_says_when_it_is_not_live() {
    let Some(browser) = Browser::open("en").await else {
        return;
    };
    let mut world = world!(Sqlite);
    let bridge = world.tenant.bridge(Socket).await;
    let call = bridge.ring(&world.tenant.did).await;
    at_the_calls(&browser, &world).await;
    browser
        .go(&format!("{}/dashboard/calls/{call}", world.server.http))
        .await;
    browser.see("Live – Pause").await;
    bridge.ok("call.answered", json!({"callId": call})).await;
    browser.see("The agent answered").await;
    browser.press("More").await;
    browser.press("Copy").await;
    browser.see("Copied").await;
    drop(bridge);
    world.server.kill9();
    browser.see("Not live – reconnecting").await;
    world.server.restart();
    browser.see("Live – Pause").await;
}

/// The button that had the focus is gone, and the heading has it. The rest of the page is the same.
#[actix_web::test]
async fn the_end_of_a_call_is_in_the_title_and_leaves_the_focus_in_the_page() {
    let Some(browser) = Browser::open("en").await else {
        return;
    };
    let world = world!(Sqlite);
    let bridge = world.tenant.bridge(Socket).await;
    let call = bridge.talk(&world.tenant.did).await;
    at_the_calls(&browser, &world).await;
    browser
        .go(&format!("{}/dashboard/calls/{call}", world.server.http))
        .await;
    browser.see("Live – Pause").await;
    let title = "return document.title";
    let before = browser.run(title).await;
    assert!(before.as_str().unwrap().contains("in progress"), "{before}");
    let focus = "window.beside = document.querySelector('.beside');
        document.querySelector('a[href$=\"/transfer\"]').focus()";
    browser.run(focus).await;
    bridge.hang_up(&call).await;
    eventually("the title to change", async || {
        let title = browser.run(title).await;
        title.as_str()?.contains("Caller hung up").then_some(())
    })
    .await;
    let focused =
        "return document.activeElement.tagName + ' ' + document.activeElement.textContent";
    let focused = browser.run(focused).await;
    let focused = focused.as_str().unwrap();
    assert!(
        focused.starts_with("H1 ") && focused.contains("Caller hung up"),
        "{focused}"
    );
    let same = "return window.beside === document.querySelector('.beside')";
    assert_eq!(browser.run(same).await, true);
    assert_eq!(browser.complaints().await, [""; 0]);
}

/// A lost mobile network closes no connection. The process that stands still is as silent.
#[actix_web::test]
async fn a_page_that_hears_nothing_says_that_it_is_not_live() {
    let Some(browser) = Browser::open("en").await else {
        return;
    };
    let world = world!(Sqlite);
    at_the_calls(&browser, &world).await;
    world.server.freeze();
    browser.see("Not live").await;
    world.server.thaw();
    browser.see("Live – Pause").await;
    browser.run("dispatchEvent(new Event('offline'))").await;
    browser.see("Live – Pause").await;
    assert_eq!(browser.complaints().await, [""; 0]);
}
