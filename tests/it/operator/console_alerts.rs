//! The alerts of the overview: links, durations, amounts, the buttons that help, and snoozing.

use super::{console::signed_in, *};
use crate::support::visitor::{HtmlForm, VisitedPage, Visitor};

/// Waits until an alert with this code is listed.
pub async fn alert(api: &Rest, code: &str) -> Value {
    eventually(code, async || {
        let overview = api.get("/overview").await.expect(200);
        let problems = overview["problems"].as_array().unwrap();
        let found = problems.iter().find(|problem| problem["code"] == code);
        found.cloned()
    })
    .await
}

/// The form that a browser sends if this button of the alerts' form is pressed.
#[track_caller]
fn button(page: &VisitedPage, action: &str, name: &str) -> HtmlForm {
    let mut buttons = page.html.split("<button").skip(1);
    let found = buttons.find_map(|button| {
        let (attributes, _) = button.split_once('>')?;
        let is_it = match action {
            "/problems/snooze" => !attributes.contains("formaction"),
            _ => attributes.contains(&format!("formaction=\"{action}\"")),
        };
        let value = attributes.split_once("value=\"").map(|(_, rest)| rest);
        let value = value.and_then(|rest| rest.split('"').next());
        (is_it && attributes.contains("form=\"act\"")).then(|| value.unwrap_or_default().to_owned())
    });
    let value = found.unwrap_or_else(|| panic!("no button for {action}: {}", page.html));
    let mut form = page.form("/problems/snooze");
    form.action = action.to_owned();
    match name {
        "" => form,
        name => form.tick(name, &value),
    }
}

/// A webhook whose endpoint answers 500, and its alert.
async fn failing(world: &TestWorld, api: &Rest) -> (String, Value) {
    let tenant = &world.tenant;
    world
        .receiver
        .answer("/broken", [ServerAnswer::Status(500)]);
    let webhook = tenant
        .subscribe(&world.receiver.url("/broken"), &["call.started"], SECRET)
        .await;
    let bridge = tenant.bridge(Socket).await;
    bridge.ring(&tenant.did).await;
    let told = alert(api, "webhook_failing").await;
    assert_eq!(told["target"], json!(webhook));
    (webhook, told)
}

async fn sees(browser: &Visitor, words: &str) -> VisitedPage {
    eventually(words, async || {
        let page = browser.open("/").await;
        page.text().contains(words).then_some(page)
    })
    .await
}

/// Waits until the overview no longer says so. It may say more: other tests keep the machine busy.
async fn hides(browser: &Visitor, words: &str) {
    eventually(&format!("not {words}"), async || {
        let page = browser.open("/").await;
        (!page.text().contains(words)).then_some(())
    })
    .await;
}

#[actix_web::test]
async fn an_alert_leads_to_its_webhook_and_its_button_helps() {
    let world = world!(Postgres, guarded());
    let api = with(&world.server, READ);
    let (webhook, told) = failing(&world, &api).await;
    let since = Moment::parse(&told["since"]);
    assert!(since.ms_since(Moment::now()) <= 0, "{told}");
    assert_eq!(told["snoozedUntil"], Value::Null);
    let browser = signed_in(&world.server, FULL).await;
    let page = sees(&browser, "last answer 500").await;
    let links = page.links();
    for path in [
        format!("/webhooks/{webhook}"),
        format!("/tenants/{}", world.tenant.id),
    ] {
        let found = links.iter().filter(|link| **link == path);
        assert_eq!(found.count(), 1, "{path} in {links:?}");
    }
    page.assert_shows("keeps failing. for ");
    let reader = signed_in(&world.server, READ).await;
    let seen = sees(&reader, "last answer 500").await;
    assert!(!seen.html.contains("form=\"act\""), "{}", seen.html);

    // Failed deliveries can be sent again, from the time at which it began.
    let recover = format!("/webhooks/{webhook}/recover");
    let form = button(&page, &recover, "since");
    assert_eq!(form.value("since"), told["since"].as_str());
    let page = browser.submit(&form).await;
    assert_eq!(
        (page.status, page.path.starts_with("/webhooks/")),
        (200, true)
    );

    // A paused webhook is no alert, until it was forgotten for an hour.
    let pause = format!("/webhooks/{webhook}/pause");
    let page = browser.open("/").await;
    let page = browser.submit(&button(&page, &pause, "")).await;
    page.assert_shows("Paused. Deliveries wait; none is lost.");
    hides(&browser, "keeps failing").await;
    let store = &world.server.installation.store;
    let long_ago =
        format!("UPDATE webhooks SET paused_at = paused_at - 3700000 WHERE id = '{webhook}'");
    store.execute(&long_ago).await;
    let page = sees(&browser, "is still paused. for 61 min").await;
    let resume = format!("/webhooks/{webhook}/resume");
    let page = browser.submit(&button(&page, &resume, "")).await;
    page.assert_shows("Resumed. Deliveries continue in their order.");
    hides(&browser, "is still paused").await;
}

#[actix_web::test]
async fn a_snoozed_alert_is_folded_until_its_time_is_over() {
    let world = world!(Sqlite, guarded());
    let api = with(&world.server, READ);
    let (webhook, _) = failing(&world, &api).await;
    let browser = signed_in(&world.server, FULL).await;
    let page = sees(&browser, "keeps failing").await;
    let snooze = button(&page, "/problems/snooze", "problem");
    let page = browser.submit(&snooze).await;
    page.assert_shows("Snoozed for an hour.");
    page.assert_shows("Nothing. Calls, minutes and webhooks flow.");
    page.assert_shows("1 snoozed problem");
    page.assert_shows("snoozed until");
    let overview = api.get("/overview").await.expect(200);
    assert_eq!(overview["status"], "ok");
    let until = Moment::parse(&overview["problems"][0]["snoozedUntil"]);
    let left = until.ms_since(Moment::now());
    assert!((3_500_000..=3_600_000).contains(&left), "{left}");

    let page = browser
        .submit(&button(&page, "/problems/show", "problem"))
        .await;
    page.assert_shows("The problem is shown again.");
    page.assert_hides("snoozed problem");
    page.assert_shows("Snooze 1 h");

    // The hour is over.
    browser
        .submit(&snooze)
        .await
        .assert_shows("1 snoozed problem");
    let store = &world.server.installation.store;
    store
        .execute("UPDATE snoozed_problems SET ends_at = 1")
        .await;
    let page = sees(&browser, "Snooze 1 h").await;
    page.assert_hides("snoozed problem");

    for action in ["problem.snooze", "problem.show"] {
        let audit = api
            .get(&format!("/audit?action={action}"))
            .await
            .expect(200);
        let entry = &audit["entries"][0];
        assert_eq!(entry["target"], json!(format!("webhook_failing {webhook}")));
        assert_eq!(
            (&entry["actor"], &entry["tenantId"]),
            (&json!("operator"), &Value::Null)
        );
    }
    // One that is over by now is told so.
    let other = HtmlForm {
        fields: snooze
            .fields
            .iter()
            .filter(|(name, _)| name == "_token")
            .cloned()
            .collect(),
        ..snooze
    };
    browser
        .submit(&other)
        .await
        .assert_shows("That problem is over.");
}

#[actix_web::test]
async fn a_tenant_without_minutes_whose_calls_are_refused_is_told() {
    for kind in [StoreKind::Sqlite, StoreKind::Postgres] {
        let world = world!(kind, guarded());
        let api = with(&world.server, READ);
        let poor = world.another_tenant(0).await;
        let bridge = poor.bridge(Socket).await;
        for _ in 0..3 {
            let refused = bridge.incoming(&poor.did, None).await;
            assert_eq!(refused["reason"], "insufficient_credits", "{refused}");
        }
        let told = eventually("three refused calls", async || {
            let told = alert(&api, "credit_refused").await;
            told["summary"]
                .as_str()
                .unwrap()
                .contains("3 calls")
                .then_some(told)
        })
        .await;
        assert_eq!(told["tenantId"], json!(poor.id));
        assert!(
            told["amount"]
                .as_str()
                .unwrap()
                .starts_with("the last one "),
            "{told}"
        );
        let browser = signed_in(&world.server, FULL).await;
        let page = sees(&browser, "3 calls were refused within an hour.").await;
        let credits = format!("/tenants/{}/credits", poor.id);
        assert!(page.links().contains(&credits), "{:?}", page.links());
        // With minutes it is over.
        let booking = json!({"minutes": 500, "type": "purchase", "reference": "x"});
        let full = with(&world.server, FULL);
        let path = format!("/tenants/{}/credits/transactions", poor.id);
        full.post(&path, booking).await.expect(201);
        sees(&browser, "Nothing. Calls, minutes and webhooks flow.").await;
    }
}

#[actix_web::test]
async fn minutes_that_are_over_in_two_days_are_told() {
    for kind in [StoreKind::Sqlite, StoreKind::Postgres] {
        let world = world!(kind, guarded());
        let (api, store) = (with(&world.server, READ), &world.server.installation.store);
        let tenant = &world.tenant.id;
        // Of all its minutes the tenant used 7 parts of 8 in the last week: the rest lasts for a day.
        let minutes = store
            .rows::<1>(&format!(
                "SELECT CAST(available AS TEXT) FROM credit_accounts WHERE tenant_id = '{tenant}'"
            ))
            .await;
        let minutes: i64 = minutes[0][0].parse().unwrap();
        let (used, left) = (minutes / 8 * 7, minutes - minutes / 8 * 7);
        let now = std::time::SystemTime::UNIX_EPOCH
            .elapsed()
            .unwrap()
            .as_millis();
        let began = now - 7 * 86_400_000 + 60_000;
        store
            .execute(&format!("UPDATE credit_accounts SET available = {left}, used = {used} WHERE tenant_id = '{tenant}'"))
            .await;
        store
            .execute(&format!(
                "INSERT INTO call_stats (tenant_id, subject, slot, calls, answered, ended, dropped, failed, minutes, talk_seconds, \
                 duration_seconds) VALUES ('{tenant}', '', {began}, 9, 9, 9, 0, 0, {used}, 9, 9)"
            ))
            .await;
        let told = alert(&api, "credit_short").await;
        assert_eq!(told["tenantId"], json!(tenant));
        let amount = format!("{left} min left");
        assert_eq!(told["amount"], json!(amount));
        let summary = told["summary"].as_str().unwrap();
        assert!(
            ["23 h,", "24 h,"].iter().any(|part| summary.contains(part)),
            "{summary}"
        );
    }
}
