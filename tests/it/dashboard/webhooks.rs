//! An owner creates, tests, repairs and removes webhooks, and resends deliveries.

use super::*;
use crate::support::{visitor::VisitedPage, world::HOOK};

const WEBHOOKS: &str = "/dashboard/webhooks";
const NEW: &str = "/dashboard/webhooks/new";

/// The path of a page without the confirmation's parameter.
fn place(page: &VisitedPage) -> String {
    page.path.split('?').next().unwrap().to_owned()
}

/// The page of the world's own webhook.
async fn page_of_usual(world: &TestWorld) -> String {
    let webhooks = world.tenant.api.get("/webhooks").await.expect(200);
    format!("{WEBHOOKS}/{}", text(&webhooks["webhooks"][0], "id"))
}

#[rstest]
#[actix_web::test]
async fn a_webhook_is_made_its_secret_shown_once_and_what_it_signs_is_right(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let owner = owner(&world).await;
    let browser = &owner.browser;
    browser.open(WEBHOOKS).await.assert_shows("All events");

    let form = browser.open(NEW).await.form(NEW);
    let refused = browser.submit(&form.clone().set("url", "nonsense")).await;
    assert_eq!(refused.status, 422);
    assert_eq!(refused.input("url")["value"], "nonsense");
    assert_eq!(refused.input("url")["aria-invalid"], "true");
    let none = form.clone().set("url", &world.receiver.url("/mine"));
    let none = browser.submit(&none.clone().without("events")).await;
    assert_eq!(none.status, 422);
    none.assert_shows("Events: Choose at least one.");
    let box_of_it = none.input("events");
    assert_eq!(box_of_it["aria-invalid"], "true");
    assert_eq!(box_of_it["aria-describedby"], "f-events-error");

    let form = form
        .without("events")
        .tick("events", "call.started")
        .set("url", &world.receiver.url("/mine"));
    let made = browser.submit(&form).await;
    assert_eq!(made.status, 200);
    made.assert_shows("Webhook created.");
    let secret = made.element("secret");
    assert_eq!(secret.len(), 32, "{secret}");
    assert!(made.element("standard").starts_with("whsec_"));
    let path = place(&made);
    for again in [&*path, &*made.path, WEBHOOKS] {
        browser.open(again).await.assert_hides(&secret);
    }
    assert!(!world.server.log().contains(&secret), "it is not logged");

    let bridge = world.tenant.bridge(Http).await;
    let call = bridge.ring(&world.tenant.did).await;
    // Checks the signatures with the shown secret.
    world
        .receiver
        .wait_for_event("/mine", &secret, "call.started", &call)
        .await;
    let delivered = eventually("the delivery to be shown as delivered", async || {
        let page = browser.open(&path).await;
        page.text()
            .contains("call.started delivered")
            .then_some(page)
    })
    .await;
    // The day's first attempt appears in the chart and its table.
    assert!(
        delivered.html.contains("<rect class=\"ink-good\""),
        "{}",
        delivered.text()
    );
    delivered.assert_shows("Attempts per hour");
    let delivery = delivered
        .links()
        .into_iter()
        .find(|link| link.starts_with("/dashboard/deliveries/"))
        .unwrap();
    let delivery = browser.open(&delivery).await;
    for words in [
        "x-service-signature",
        "sha256=",
        "call.started",
        "\"callerNumber\"",
        &*call,
    ] {
        delivery.assert_shows(words);
    }
}

#[rstest]
#[actix_web::test]
async fn a_test_is_sent_and_what_came_of_it_shown(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(
        store,
        WorldSetup::new().set("webhooks.retry_schedule_seconds", "3600")
    );
    let owner = owner(&world).await;
    let browser = &owner.browser;
    let answers = [ServerAnswer::Status(503), ServerAnswer::Status(204)];
    world.receiver.answer(HOOK, answers);
    let path = page_of_usual(&world).await;
    let test = format!("{path}/test");
    let failed = browser.submit(&browser.open(&path).await.form(&test)).await;
    assert!(
        failed.path.starts_with("/dashboard/deliveries/"),
        "{}",
        failed.path
    );
    failed.assert_shows("Test sent.");
    failed.assert_shows("503");
    failed.assert_shows("x-service-test");
    let resend = format!("{}/resend", place(&failed));
    let resent = browser.submit(&failed.form(&resend)).await;
    resent.assert_shows("Resent.");
    resent.assert_shows("204");
}

/// A resend is attempted however often the endpoint failed, and whatever else waits for it.
#[rstest]
#[actix_web::test]
async fn what_is_sent_again_has_its_answer_on_the_page_although_the_endpoint_fails(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(
        store,
        WorldSetup::new().set("webhooks.retry_schedule_seconds", "3600, 3600, 3600")
    );
    let owner = owner(&world).await;
    let browser = &owner.browser;
    let path = page_of_usual(&world).await;
    world.receiver.answer(HOOK, [ServerAnswer::Status(500)]);
    let bridge = world.tenant.bridge(Http).await;
    for _ in 0..10 {
        let call = bridge.ring(&world.tenant.did).await;
        bridge.hang_up(&call).await;
    }
    let api = path.replace("/dashboard", "");
    let all = eventually("every first attempt", async || {
        let list = format!("{api}/deliveries?limit=100");
        let page = world.tenant.api.get(&list).await.expect(200);
        let rows = page["deliveries"].as_array().unwrap().clone();
        let tried = rows.iter().filter(|row| row["attemptCount"] != 0).count();
        // The circuit opens after five failures, so some deliveries are not attempted.
        (rows.len() == 20 && (5..20).contains(&tried)).then_some(rows)
    })
    .await;
    // The newest, because the circuit tries the oldest by itself.
    let untried = all.iter().find(|row| row["attemptCount"] == 0).unwrap();
    let list = browser.open(&path).await;
    list.assert_shows("Paused, because the endpoint fails.");
    // The oldest deliveries were attempted.
    let older = list
        .links()
        .into_iter()
        .find(|link| link.contains("before="));
    browser.open(&older.unwrap()).await.assert_shows("500");
    let page = format!("/dashboard/deliveries/{}", text(untried, "id"));
    let before = browser.open(&page).await;
    before.assert_hides("x-service-attempt");
    before.assert_hides("As in the last attempt");
    before.assert_shows("Nothing was sent yet.");
    let again = format!("{page}/resend");
    let failed = browser.submit(&before.form(&again)).await;
    failed.assert_shows("Resent.");
    failed.assert_shows("500");
    failed.assert_shows("x-service-attempt");
    world.receiver.answer(HOOK, [ServerAnswer::Status(202)]);
    let delivered = browser.submit(&failed.form(&again)).await;
    delivered.assert_shows("Resent.");
    delivered.assert_shows("202");
    let sent = world.receiver.received(HOOK);
    let id = text(untried, "id");
    let of_it = sent
        .iter()
        .filter(|sent| sent.header("x-service-delivery") == id);
    assert_eq!(of_it.count(), 2, "one attempt for each press");
}

#[rstest]
#[actix_web::test]
async fn deliveries_are_filtered_and_paged_and_failed_ones_sent_again(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(
        store,
        WorldSetup::new().set("webhooks.retry_schedule_seconds", "3600")
    );
    let owner = owner(&world).await;
    let browser = &owner.browser;
    let path = page_of_usual(&world).await;
    world.receiver.answer(HOOK, [ServerAnswer::Status(500)]);
    let bridge = world.tenant.bridge(Http).await;
    for _ in 0..27 {
        let call = bridge.ring(&world.tenant.did).await;
        bridge.hang_up(&call).await;
    }
    let all = eventually("all deliveries to be there", async || {
        let api = &world.tenant.api;
        let id = path.rsplit('/').next().unwrap();
        let page = api
            .get(&format!("/webhooks/{id}/deliveries?limit=100"))
            .await
            .expect(200);
        let rows = page["deliveries"].as_array().unwrap().clone();
        (rows.len() == 54).then_some(rows)
    })
    .await;
    let mut seen = Vec::new();
    let mut next = Some(path.clone());
    while let Some(at) = next {
        let page = browser.open(&at).await;
        assert_eq!(page.status, 200);
        assert!(page.html.len() < 30 * 1024, "{}", page.html.len());
        let links = page.links();
        let ids = links
            .iter()
            .filter_map(|link| link.strip_prefix("/dashboard/deliveries/"));
        seen.extend(ids.map(str::to_owned));
        next = links.into_iter().find(|link| link.contains("before="));
    }
    let expected: Vec<String> = all.iter().map(|row| text(row, "id")).collect();
    assert_eq!(seen, expected);
    let succeeded = browser.open(&format!("{path}?status=succeeded")).await;
    succeeded.assert_shows("No deliveries");
    assert_eq!(
        browser
            .open(&format!("{path}?status=nonsense"))
            .await
            .status,
        422
    );

    // Pending deliveries have not failed yet, so all are marked as failed.
    execute(
        &world.server,
        "UPDATE deliveries SET status = 'failed', next_attempt_at = NULL, completed_at = created_at",
    )
    .await;
    world.receiver.answer(HOOK, [ServerAnswer::Status(204)]);
    let recover = format!("{path}/recover");
    let form = browser.open(&recover).await.form(&recover);
    assert_eq!(form.value("since").unwrap().len(), "2026-01-15T10:30".len());
    let wrong = browser
        .submit(&form.clone().set("since", "yesterday"))
        .await;
    assert_eq!(wrong.status, 422);
    assert_eq!(wrong.input("since")["value"], "yesterday");
    let early = form.clone().set("until", "2020-01-01T00:00");
    assert_eq!(
        browser.submit(&early).await.input("until")["aria-invalid"],
        "true"
    );
    browser.submit(&form).await.assert_shows("are being resent");
    eventually("all to arrive", async || {
        let page = browser.open(&format!("{path}?status=failed")).await;
        page.text().contains("No deliveries").then_some(())
    })
    .await;
    browser
        .submit(&form)
        .await
        .assert_shows("No delivery failed in that time");
}

#[rstest]
#[actix_web::test]
async fn a_webhook_is_changed_replaced_switched_and_deleted(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let owner = owner(&world).await;
    let browser = &owner.browser;
    let path = page_of_usual(&world).await;
    let form = browser.open(&path).await.form(&path);
    let refused = browser.submit(&form.clone().set("url", "ftp://x")).await;
    assert_eq!(refused.status, 422);
    assert_eq!(refused.input("url")["value"], "ftp://x");
    let refused = browser
        .submit(&form.clone().set("url", "https://x\0.id"))
        .await;
    assert_eq!(refused.status, 422);
    refused.assert_shows("must not contain the character U+0000");
    assert_eq!(refused.input("url")["value"], "https://x.id");
    let changed = form.without("events").tick("events", "call.ended");
    browser.submit(&changed).await.assert_shows("Saved.");

    let rotate = format!("{path}/rotate-secret");
    let question = browser.open(&rotate).await;
    question.assert_shows("for 24 hours");
    let rotated = browser.submit(&question.form(&rotate)).await;
    let secret = rotated.element("secret");
    browser.open(&path).await.assert_hides(&secret);

    execute(
        &world.server,
        "UPDATE webhooks SET is_active = false, disabled_reason = 'The endpoint answered 410 Gone.'",
    )
    .await;
    let off = browser.open(&path).await;
    off.assert_shows("This webhook was disabled");
    off.assert_shows("it accepts no more deliveries");
    let indonesian = browser
        .clone()
        .with("accept-language", "id")
        .open(&path)
        .await;
    indonesian.assert_shows("Webhook ini dinonaktifkan");
    let on = browser.submit(&off.form(&format!("{path}/enable"))).await;
    on.assert_shows("Webhook enabled. Waiting deliveries are sent now.");
    let off = browser.submit(&on.form(&format!("{path}/disable"))).await;
    off.assert_shows("nothing is sent to it");
    execute(&world.server, "UPDATE webhooks SET paused_at = 1").await;
    let on = browser.submit(&off.form(&format!("{path}/enable"))).await;
    on.assert_shows("Webhook enabled.");
    on.assert_hides("sent now");
    execute(&world.server, "UPDATE webhooks SET paused_at = NULL").await;

    let bridge = world.tenant.bridge(Http).await;
    let call = bridge.ring(&world.tenant.did).await;
    bridge.hang_up(&call).await;
    world
        .receiver
        .wait_for_event(HOOK, &secret, "call.ended", &call)
        .await;

    let delete = format!("{path}/delete");
    let question = browser.open(&delete).await;
    question.assert_shows("You cannot undo this");
    let deleted = browser.submit(&question.form(&delete)).await;
    deleted.assert_shows("No webhooks yet");
    assert_eq!(browser.open(&path).await.status, 404);
}

#[rstest]
#[actix_web::test]
async fn a_viewer_sees_webhooks_but_nothing_of_a_secret(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = shared_world!(store);
    let owner = owner(&world).await;
    let viewer = somebody(
        &world.server,
        &world.tenant.id,
        &fresh_email("viewer"),
        "viewer",
    )
    .await;
    let path = page_of_usual(&world).await;
    let bridge = world.tenant.bridge(Http).await;
    let call = bridge.ring(&world.tenant.did).await;
    world.event("call.started", &call).await;
    let rotate = format!("{path}/rotate-secret");
    let question = owner.browser.open(&rotate).await;
    // The owner has not opened the page yet: the secret waits for that page, whoever requests another one first.
    let rotated = owner.browser.post(&question.form(&rotate)).await;
    assert_eq!(rotated.status, 303);

    // A delivery is listed once its attempt is written.
    let delivery = eventually("the delivery to be listed", async || {
        let page = viewer.browser.open(&path).await;
        assert_eq!(page.status, 200);
        page.assert_hides("id=\"secret\"");
        let is_delivery = |link: &String| link.starts_with("/dashboard/deliveries/");
        page.links().into_iter().find(is_delivery)
    })
    .await;
    let sent = viewer.browser.open(&delivery).await;
    sent.assert_shows("x-service-signature …");
    sent.assert_hides("sha256=");
    let shown = owner.browser.open(&path).await;
    let secret = shown.element("secret");
    let hint = &secret[secret.len() - 4..];
    shown.assert_shows(&format!("…{hint}"));
    for path in [WEBHOOKS, &*path, &*delivery] {
        let page = viewer.browser.open(path).await;
        page.assert_hides(&secret);
        assert!(!page.text().contains(&format!("…{hint}")), "{path}");
        let offered = page
            .forms()
            .into_iter()
            .filter(|form| form.action != "/dashboard/sign-out");
        assert_eq!(offered.count(), 0, "{path} offers what is refused");
        let acts = ["/recover", "/rotate-secret", "/delete", "/new"];
        assert!(
            !page
                .links()
                .iter()
                .any(|link| acts.iter().any(|act| link.ends_with(act))),
            "{path}"
        );
    }
    let home = viewer.browser.open("/dashboard").await;
    for act in [
        "",
        "/test",
        "/recover",
        "/rotate-secret",
        "/enable",
        "/disable",
        "/delete",
    ] {
        let refused = viewer
            .browser
            .post(&bare(&home, &format!("{path}{act}")))
            .await;
        assert_eq!(refused.status, 403, "{act}");
    }
    for action in [NEW, &format!("{delivery}/resend")] {
        assert_eq!(
            viewer.browser.post(&bare(&home, action)).await.status,
            403,
            "{action}"
        );
    }
    for act in ["/recover", "/rotate-secret", "/delete"] {
        assert_eq!(
            viewer.browser.open(&format!("{path}{act}")).await.status,
            403,
            "{act}"
        );
    }
    assert_eq!(viewer.browser.open(NEW).await.status, 403);
}

#[rstest]
#[actix_web::test]
async fn webhooks_and_deliveries_of_others_are_not_there(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = shared_world!(store);
    let owner = owner(&world).await;
    let other = world.another_tenant(0).await;
    let theirs = other
        .subscribe(&world.receiver.url("/theirs"), &["call.ended"], SECRET)
        .await;
    let sent = other
        .api
        .post(&format!("/webhooks/{theirs}/test"), json!({}))
        .await
        .expect(200);
    let sent = text(&sent, "id");
    let home = owner.browser.open("/dashboard").await;
    for webhook in [&*theirs, "wh_01k9zv3m8rj2q4w6y8a0c2e4g6", "nonsense"] {
        let path = format!("{WEBHOOKS}/{webhook}");
        for page in ["", "/recover", "/rotate-secret", "/delete"] {
            assert_eq!(
                owner.browser.open(&format!("{path}{page}")).await.status,
                404,
                "{page}"
            );
        }
        for act in [
            "",
            "/test",
            "/recover",
            "/rotate-secret",
            "/enable",
            "/disable",
            "/delete",
        ] {
            let post = bare(&home, &format!("{path}{act}")).tick("since", "2026-01-15T00:00");
            assert_eq!(owner.browser.post(&post).await.status, 404, "{act}");
        }
    }
    for delivery in [&*sent, "dlv_01k9zv3m8rj2q4w6y8a0c2e4g6", "nonsense"] {
        let path = format!("/dashboard/deliveries/{delivery}");
        assert_eq!(owner.browser.open(&path).await.status, 404);
        let post = bare(&home, &format!("{path}/resend"));
        assert_eq!(owner.browser.post(&post).await.status, 404);
    }
    // Another tenant's cursor has no effect: only rows of the own webhook are read.
    let own = page_of_usual(&world).await;
    owner
        .browser
        .open(&format!("{own}?before={sent}"))
        .await
        .assert_hides(&sent);
    let there = other
        .api
        .get(&format!("/webhooks/{theirs}"))
        .await
        .expect(200);
    assert_eq!(there["isActive"], true);
}
