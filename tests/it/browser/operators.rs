//! An operator at work in the console, in a real browser: a call is ended, a webhook is paused, resumed and recovered.

use super::*;

const TOKEN: &str = "the-operators-full-token";

async fn at_the_console(setup: WorldSetup) -> Option<(TestWorld, Browser)> {
    let browser = Browser::open("en").await?;
    let setup = setup.set("operator.token", TOKEN);
    let world = TestWorld::start(Sqlite, setup).await?;
    browser
        .go(&format!("{}/calls", world.server.operator))
        .await;
    browser.fill("Token", TOKEN).await;
    browser.press("Sign in").await;
    browser.see("Sign out").await;
    Some((world, browser))
}

/// A call appears while the page is open, and an operator ends it.
#[actix_web::test]
async fn a_call_is_seen_and_ended() {
    let Some((world, browser)) = at_the_console(WorldSetup::new()).await else {
        return;
    };
    browser.see("No calls").await;
    let bridge = world.tenant.bridge(Socket).await;
    let call = bridge.talk(&world.tenant.did).await;
    browser.see("answered").await;
    browser.press("End").await;
    browser.see("after ten seconds").await;
    browser.press("End this call").await;
    browser.see("told to hang up").await;
    bridge.command("hangup", &call).await;
    let ended = json!({"callId": call, "reason": "operator"});
    bridge.ok("call.hangup", ended).await;
    // The page shows the end without a reload.
    browser.see("Reason").await;
    browser.see("by operator").await;
}

#[actix_web::test]
async fn a_webhook_is_paused_resumed_and_recovered() {
    let Some((world, browser)) = at_the_console(WorldSetup::new()).await else {
        return;
    };
    let (tenant, receiver) = (&world.tenant, &world.receiver);
    receiver.answer(
        "/gone",
        [ServerAnswer::Status(410), ServerAnswer::Status(204)],
    );
    let url = receiver.url("/gone");
    let hook = tenant.subscribe(&url, &["call.started"], SECRET).await;
    let page = format!("{}/webhooks/{hook}", world.server.operator);
    browser.go(&page).await;
    browser.press("Pause").await;
    browser.see("none is lost").await;
    let bridge = tenant.bridge(Http).await;
    let call = bridge.ring(&tenant.did).await;
    world.event("call.started", &call).await;
    assert_eq!(receiver.received("/gone").len(), 0);
    browser.press("Resume").await;
    browser.see("in their order").await;
    receiver.wait_for("/gone", 1).await;

    // The endpoint answered 410 Gone; its owner re-enables the webhook.
    let path = format!("/webhooks/{hook}");
    eventually("it to be switched off", async || {
        let seen = tenant.api.get(&path).await.expect(200);
        (seen["isActive"] == false).then_some(())
    })
    .await;
    tenant
        .api
        .patch(&path, json!({"isActive": true}))
        .await
        .expect(200);
    browser.press("Recover").await;
    browser.fill("Since", &Moment::ago(600).text()).await;
    browser.press("Resend").await;
    browser.see("in the background").await;
    let came = receiver.wait_for("/gone", 2).await;
    assert_eq!(came[0].body, came[1].body);
    bridge.hang_up(&call).await;
}
