//! A person talks to an agent from its page, by a microphone that beeps.

use super::{enter, invited};
use crate::{
    dashboard::execute,
    support::{browser::Browser, prelude::*, tenant::text},
};

/// The settings that are tried are those of the form, which is not saved.
#[actix_web::test]
async fn an_owner_talks_to_an_agent_whose_settings_are_not_saved() {
    let Some(browser) = Browser::open("en").await else {
        return;
    };
    let Some(mut installation) = Installation::migrated(Sqlite) else {
        return;
    };
    installation.answer_with_the_test_voice();
    let world = TestWorld::on(installation, WorldSetup::new().minutes(20)).await;
    let tenant = &world.tenant;
    let order = ServerAnswer::Json(json!({"arrivesInMinutes": 25}));
    world.receiver.answer("/order", [order]);
    let endpoint = world.receiver.url("/order");
    tenant
        .create_function("check_order", "POST", &endpoint)
        .await;
    tenant
        .change_agent(json!({"toolsEnabled": ["end_call", "check_order"], "language": "id"}))
        .await;
    enter(&browser, &invited(&world, "rina@example.com"), "Sign in").await;
    let page = format!("{}/dashboard/agents/{}", world.server.http, tenant.agent);
    browser.go(&page).await;
    // A wrong number is told beside its field, which is no part of the agent's form.
    browser.fill("Caller's number", "call me").await;
    browser.press("Talk").await;
    let told = browser.told_beside("Caller's number").await;
    assert!(told.contains("This is not a phone number"), "{told}");
    browser.see("The caller's number is wrong.").await;
    let focused = "const it = document.activeElement; return [it.name, it.value, it.getAttribute('aria-invalid')]";
    assert_eq!(
        browser.run(focused).await,
        json!(["callerNumber", "call me", "true"])
    );
    browser.fill("Caller's number", "0812 3456 7890").await;
    browser.choose("Language", "English").await;
    browser.see("Not saved yet").await;
    browser.press("Talk").await;
    browser.see("This is the test voice of Dikala").await;
    browser.see("The agent is on the line").await;
    let wrong = "return document.querySelectorAll('[aria-invalid]').length";
    assert_eq!(browser.run(wrong).await, 0);
    // At once: a slow machine would pause between them, and the agent takes them as complete after a pause.
    let press = "for (const key of ['4', '2', '7', '#']) \
        [...document.querySelectorAll('button')].find((it) => it.textContent.trim() === key).click()";
    browser.run(press).await;
    browser.see("check_order: done").await;
    browser.see("25").await;
    browser.see("Goodbye!").await;
    browser.see("Call hung up").await;
    let calls = tenant.calls().await;
    assert_eq!(calls.len(), 1, "{calls:?}");
    let call = tenant.call_over(&text(&calls[0], "id")).await;
    assert_eq!(
        (&call["draft"], &call["channel"]),
        (&json!(true), &json!("web"))
    );
    browser.press("Open the call").await;
    let page = format!(
        "{}/dashboard/calls/{}",
        world.server.http,
        text(&calls[0], "id")
    );
    browser.go(&page).await;
    browser.see("Goodbye!").await;
    browser.see("tried with settings that were not saved").await;
    let agent = tenant
        .api
        .get(&format!("/agents/{}", tenant.agent))
        .await
        .expect(200);
    assert_eq!(agent["language"], "id");
}

#[actix_web::test]
async fn a_call_that_a_person_may_not_make_says_why() {
    let Some(browser) = Browser::open("en").await else {
        return;
    };
    let world = world!(Sqlite);
    enter(&browser, &invited(&world, "rina@example.com"), "Sign in").await;
    let page = format!(
        "{}/dashboard/agents/{}",
        world.server.http, world.tenant.agent
    );
    browser.go(&page).await;
    execute(&world.server, "UPDATE users SET role = 'viewer'").await;
    browser.press("Talk").await;
    browser.see("You have view-only access").await;
    execute(&world.server, "UPDATE users SET role = 'owner'").await;
    execute(&world.server, "DELETE FROM sessions").await;
    // A form with a short prompt leads to the sign-in page; one with a long prompt is kept in a page of its own.
    for prompt in ["Be kind.".to_owned(), "Be kind. ".repeat(50)] {
        browser.fill("Instructions", &prompt).await;
        browser.press("Talk").await;
        browser.see("You are signed out. Sign in again.").await;
    }
}
