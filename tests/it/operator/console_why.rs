//! An operator answers "why did this call fail?": search, the call's timeline, and the page of a delivery.

use super::{console::signed_in, *};
use crate::support::{
    tenant::{Tenant, text},
    visitor::{VisitedPage, Visitor},
};

/// The path that a search leads to; `None` if it shows a page.
async fn leads_to(browser: &Visitor, text: &str) -> Option<String> {
    let query: String = url::form_urlencoded::byte_serialize(text.as_bytes()).collect();
    let page = browser.fetch(&format!("/search?q={query}")).await;
    assert!([200, 303].contains(&page.status), "{text}: {}", page.html);
    page.header("location").map(str::to_owned)
}

/// The lines of the timeline on a page, without ids of things.
fn steps(page: &VisitedPage) -> Vec<String> {
    let list = page.html.split("<ol class=\"steps\">").nth(1).unwrap();
    let list = list.split("</ol>").next().unwrap();
    list.split("<li>")
        .skip(1)
        .map(|line| {
            let line = VisitedPage {
                html: line.to_owned(),
                ..page.clone()
            };
            line.text()
        })
        .collect()
}

/// The delivery of a call's event, once its first attempt is recorded.
async fn delivery_of(api: &Rest, call: &str, such: impl Fn(&Value) -> bool) -> String {
    eventually("an attempt that is recorded", async || {
        let shown = api.get(&format!("/calls/{call}")).await.expect(200);
        let sent = shown["deliveries"].as_array().unwrap().clone();
        let sent = sent
            .into_iter()
            .find(|sent| such(sent) && sent["attemptCount"] != 0);
        sent.map(|sent| text(&sent, "id"))
    })
    .await
}

#[rstest]
#[actix_web::test]
async fn a_failed_call_is_found_and_its_page_says_why_in_order(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store, guarded());
    let (tenant, api) = (&world.tenant, with(&world.server, READ));
    tenant
        .create_function("find_order", "POST", &world.receiver.url("/orders"))
        .await;
    let bridge = tenant.bridge(Socket).await;
    let rang = Moment::ago(30);
    let call = bridge.ring_at(&tenant.did, Some(rang)).await;
    let at = |ms: i64| rang.plus_ms(ms).text();
    let answered = json!({"callId": call, "at": at(1_204)});
    bridge.ok("call.answered", answered).await;
    let function = json!({"callId": call, "invocationId": "i1", "name": "find_order", "parameters": {"item": "a secret wish"}});
    bridge.ok("call.function", function).await;
    // The bridge repeats an answer that comes too late.
    let failed = json!({"callId": call, "at": at(5_678), "reason": "ai_error", "detail": "closed by sip:+6281234567890@x"});
    bridge.ok("call.failed", failed).await;
    let late = json!({"callId": call, "at": at(6_000)});
    bridge.refused("call.answered", late).await;
    delivery_of(&api, &call, |sent| sent["event"] == "call.ended").await;

    let reader = signed_in(&world.server, READ).await;
    let path = format!("/calls/{call}");
    assert_eq!(leads_to(&reader, &call).await, Some(path.clone()));
    let list = reader.open("/calls").await;
    list.assert_shows("dropped AI error");
    list.assert_shows(&format!("+62*****7890 → {}", tenant.did));
    let page = reader.open(&path).await;
    page.assert_shows(&format!("+62*****7890 → {} · 4 s · AI error", tenant.did));
    page.assert_shows("AI error ai_error");
    page.assert_shows("closed by sip:+62*****7890@x");
    for hidden in ["6281234567890", "secret wish", "/calls/hangup"] {
        page.assert_hides(hidden);
    }
    let shown = steps(&page);
    let clock = |ms: i64| at(ms)[11..23].to_owned();
    let place = |words: &str| {
        let place = shown.iter().position(|line| line.contains(words));
        place.unwrap_or_else(|| panic!("no {words} in {shown:#?}"))
    };
    for (ms, words) in [
        (0, "Call Ringing"),
        (1_204, "Call Answered"),
        (5_678, "Call Ended: AI error"),
    ] {
        let offset = format!("+{}.{:03} s", ms / 1_000, ms % 1_000);
        assert_eq!(
            shown[place(words)],
            format!("{offset} {} {words}", clock(ms)),
            "{words}"
        );
    }
    let order = [
        "Call Ringing",
        "Call Answered",
        "Call Ended",
        "Bridge call.incoming, reply after",
        "Event call.started written",
        "Bridge call.answered, reply after",
        "Function find_order: ",
        "Bridge call.failed, reply after",
        "Ledger 1 min booked, extended 0 times, balance ",
    ];
    let places: Vec<usize> = order.iter().map(|words| place(words)).collect();
    assert!(places.is_sorted(), "{places:?} {shown:#?}");
    assert!(place("Delivery call.ended, attempt 1: 200 in ") > place("Ledger 1 min booked"));
    assert!(shown[place("refused")].ends_with("invalid_transition"));
    assert!(shown.iter().all(|line| line.starts_with('+')), "{shown:#?}");
    assert!(place("First minute reserved") > place("Bridge call.incoming"));

    // The same as a text.
    let report = reader.open(&format!("{path}?format=text")).await;
    assert_eq!(
        report.header("content-type"),
        Some("text/plain; charset=utf-8")
    );
    for words in [&call, "ai_error", "+1.204 s", "Ended: AI error", &at(5_678)] {
        assert!(report.html.contains(words), "{words}: {}", report.html);
    }
    assert!(!report.html.contains("6281234567890") && !report.html.contains("secret wish"));
    let indonesian = reader.with("accept-language", "id");
    let page = indonesian.open(&path).await;
    page.assert_shows("Berakhir: AI mengalami gangguan");
    page.assert_shows("+1,204 s");
}

#[rstest]
#[actix_web::test]
async fn a_call_that_was_refused_says_so(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store, guarded());
    let poor = world.another_tenant(0).await;
    let bridge = poor.bridge(Http).await;
    let reply = bridge.incoming(&poor.did, None).await;
    assert_eq!(reply["action"], "reject");
    let call = text(&reply, "callId");
    let reader = signed_in(&world.server, READ).await;
    let page = reader.open(&format!("/calls/{call}")).await;
    page.assert_shows("No minutes left insufficient_credits");
    let shown = steps(&page);
    let refused = shown.iter().find(|line| line.contains("Ledger"));
    assert!(
        refused.unwrap().ends_with("refused: No minutes left"),
        "{shown:#?}"
    );
}

#[rstest]
#[actix_web::test]
async fn a_delivery_shows_its_attempts_and_is_sent_again(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let setup = guarded().set("webhooks.retry_schedule_seconds", "3600");
    let world = world!(store, setup);
    let (tenant, api) = (&world.tenant, with(&world.server, READ));
    world.receiver.answer(
        "/fails",
        [ServerAnswer::Status(503), ServerAnswer::Status(204)],
    );
    let url = world.receiver.url("/fails?token=planted");
    let hook = tenant.subscribe(&url, &["call.started"], SECRET).await;
    let bridge = tenant.bridge(Http).await;
    let call = bridge.ring(&tenant.did).await;
    let delivery = delivery_of(&api, &call, |sent| sent["webhookId"] == *hook).await;
    let path = format!("/deliveries/{delivery}");

    let reader = signed_in(&world.server, READ).await;
    assert_eq!(leads_to(&reader, &delivery).await, Some(path.clone()));
    let page = reader.open(&format!("/calls/{call}")).await;
    assert!(page.links().contains(&path), "{:?}", page.links());
    let page = reader.open(&path).await;
    for words in [
        "Delivery of call.started",
        "The next attempt is at",
        "pending",
        "503",
    ] {
        page.assert_shows(words);
    }
    for link in [
        format!("/calls/{call}"),
        format!("/webhooks/{hook}"),
        format!("/tenants/{}", tenant.id),
    ] {
        assert!(page.links().contains(&link), "{link}");
    }
    for hidden in ["planted", "6281234567890", "resend"] {
        page.assert_hides(hidden);
    }
    let shown = api.get(&path).await.expect(200);
    let attempts = shown["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 1, "{shown}");
    assert_eq!(
        (&attempts[0]["number"], &attempts[0]["statusCode"]),
        (&json!(1), &json!(503))
    );
    assert!(attempts[0].get("response").is_none() && shown.get("payload").is_none());
    api.get(&format!("/deliveries/{}", nobody("dlv")))
        .await
        .expect(404);

    let browser = signed_in(&world.server, FULL).await;
    let form = browser.open(&path).await.form(&format!("{path}/resend"));
    let resent = browser.submit(&form).await;
    assert_eq!(resent.path.split('?').next(), Some(&*path));
    resent.assert_shows("Delivery resent.");
    let page = eventually("both attempts", async || {
        let page = reader.open(&path).await;
        page.text()
            .contains("Delivered. Nothing more happens.")
            .then_some(page)
    })
    .await;
    page.assert_shows("204");
    page.assert_shows("503");
    world.receiver.wait_for("/fails", 2).await;
    let paused = format!("/webhooks/{hook}/pause");
    with(&world.server, FULL)
        .post(&paused, json!({}))
        .await
        .expect(200);
    let another = bridge.ring(&tenant.did).await;
    world.event("call.started", &another).await;
    let waiting = eventually("a delivery that waits", async || {
        let listed = api
            .get(&format!("/deliveries?status=pending&webhookId={hook}"))
            .await
            .expect(200);
        listed["deliveries"][0]["id"].as_str().map(str::to_owned)
    })
    .await;
    let page = reader.open(&format!("/deliveries/{waiting}")).await;
    page.assert_shows("Waits: its webhook has been paused since");
    for call in [call, another] {
        bridge.hang_up(&call).await;
    }
}

/// Everything of a tenant that has an id, with the path that its id leads to.
async fn things(world: &TestWorld, tenant: &Tenant) -> Vec<(String, String)> {
    let api = with(&world.server, FULL);
    let bridges = api.get("/bridges").await.expect(200);
    let bridge = text(&bridges["bridges"][0], "id");
    let keys = format!("/tenants/{}/keys", tenant.id);
    let key = text(&api.get(&keys).await.expect(200)["keys"][0], "id");
    let webhooks = api
        .get(&format!("/webhooks?tenantId={}", tenant.id))
        .await
        .expect(200);
    let webhook = text(&webhooks["webhooks"][0], "id");
    vec![
        (tenant.id.clone(), format!("/tenants/{}", tenant.id)),
        (tenant.agent.clone(), format!("/tenants/{}", tenant.id)),
        (
            tenant.number.clone(),
            format!("/tenants/{}/numbers", tenant.id),
        ),
        (
            tenant.did.clone(),
            format!("/tenants/{}/numbers", tenant.id),
        ),
        (bridge.clone(), format!("/bridges/{bridge}")),
        (webhook.clone(), format!("/webhooks/{webhook}")),
        (key, keys),
    ]
}

#[rstest]
#[actix_web::test]
async fn a_search_leads_to_what_has_the_id(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store, guarded());
    let api = with(&world.server, FULL);
    let reader = signed_in(&world.server, READ).await;
    for (typed, path) in things(&world, &world.tenant).await {
        assert_eq!(leads_to(&reader, &typed).await, Some(path), "{typed}");
        let padded = leads_to(&reader, &format!("  {typed} ")).await;
        assert!(padded.is_some(), "{typed}");
    }
    // A request that changed something, by the id in its answer.
    let made = api
        .post(
            "/tenants",
            json!({"name": "Warung Search One", "plan": "business"}),
        )
        .await;
    let request = made.header("x-request-id").unwrap().to_owned();
    let first = made.expect(201);
    let audit = leads_to(&reader, &request).await.unwrap();
    assert!(audit.starts_with("/audit?from="), "{audit}");
    reader.open(&audit).await.assert_shows("tenant.create");
    // A whole number that is no tenant's is a caller's; its calls have a list.
    let caller = leads_to(&reader, "0812-0000-1111").await;
    assert_eq!(
        caller.as_deref(),
        Some("/calls?callerNumber=%2B6281200001111")
    );
    // A part of a name: one leads on, several are listed.
    let one = format!("/tenants/{}", text(&first, "id"));
    assert_eq!(leads_to(&reader, "search one").await, Some(one.clone()));
    let second = api
        .post(
            "/tenants",
            json!({"name": "Warung Search Two", "plan": "starter"}),
        )
        .await
        .expect(201);
    let several = reader.open("/search?q=warung+search").await;
    several.assert_shows("Warung Search One");
    several.assert_shows("Warung Search Two");
    for tenant in [&first, &second] {
        let link = format!("/tenants/{}", text(tenant, "id"));
        assert!(several.links().contains(&link), "{link}");
    }
    // Numbers by their beginning, with and without the country code.
    for (did, tenant) in [("+62219990001", &first), ("+62219990002", &second)] {
        let number = json!({"tenantId": tenant["id"], "did": did, "label": "Main"});
        api.post("/numbers", number).await.expect(201);
    }
    for typed in ["+62219990", "021-9990", "6221 9990"] {
        let query = typed.replace('+', "%2B").replace(' ', "+");
        let page = reader.open(&format!("/search?q={query}")).await;
        page.assert_shows("+62219990001");
        page.assert_shows("+62219990002");
    }
    let full = signed_in(&world.server, FULL).await;
    let led = leads_to(&full, "+62219990001").await.unwrap();
    assert!(led.starts_with("/numbers/pn_"), "{led}");
    // Nothing, in words of both languages; the frame of every page has the field.
    for nothing in [
        nobody("call"),
        nobody("req"),
        "no such name".to_owned(),
        "%".to_owned(),
        "x".repeat(500),
    ] {
        let query: String = url::form_urlencoded::byte_serialize(nothing.as_bytes()).collect();
        let page = reader.open(&format!("/search?q={query}")).await;
        assert_eq!((page.status, page.path.starts_with("/search")), (200, true));
        page.assert_shows("No id, phone number or tenant's name matches.");
    }
    let page = reader
        .clone()
        .with("accept-language", "id")
        .open("/search?q=zzzz")
        .await;
    page.assert_shows("Tidak ditemukan");
    assert_eq!(reader.open("/search").await.status, 200);
    for path in ["/", "/calls", "/nodes"] {
        let form = reader.open(path).await.form("/search");
        assert_eq!((form.method.as_str(), form.value("q")), ("get", Some("")));
    }
}

#[rstest]
#[actix_web::test]
async fn a_tenants_page_says_what_does_not_work(#[values(Sqlite, Postgres)] store: StoreKind) {
    let setup = guarded()
        .set("webhooks.retry_schedule_seconds", "3600")
        .set("plans.business.requests_per_minute", 345)
        .set("plans.business.max_concurrent_calls", 0);
    let world = world!(store, setup);
    let (tenant, other) = (&world.tenant, world.another_tenant(10).await);
    let api = with(&world.server, FULL);
    let path = format!("/tenants/{}", tenant.id);
    let of_plan = json!({"plan": "business", "rateLimit": null, "maxConcurrentCalls": null});
    api.patch(&path, of_plan).await.expect(200);
    world.receiver.answer(
        "/fails",
        [ServerAnswer::Status(500), ServerAnswer::Status(500)],
    );
    let url = world.receiver.url("/fails");
    let hook = tenant.subscribe(&url, &["call.started"], SECRET).await;
    let bridge = tenant.bridge(Http).await;
    let running = bridge.talk(&tenant.did).await;
    let answered = bridge.talk(&tenant.did).await;
    bridge.hang_up(&answered).await;
    let failed = bridge.ring(&tenant.did).await;
    let reason = json!({"callId": failed, "reason": "ai_error"});
    bridge.ok("call.failed", reason).await;
    world.event("call.ended", &failed).await;

    let reader = signed_in(&world.server, READ).await;
    let page = eventually("the failing webhook", async || {
        let page = reader.open(&path).await;
        page.links()
            .contains(&format!("/webhooks/{hook}"))
            .then_some(page)
    })
    .await;
    for words in [
        "Calls now 1",
        "Calls today 2 0 a day in the last 7 days",
        "Answered today 50% – in the last 7 days",
        "used for less than 3 days",
        "Webhook failing:",
        "AI error 1 1",
        "Requests a minute 345 (business)",
        "Calls at the same time no limit (business)",
    ] {
        page.assert_shows(words);
    }
    for below in ["/credits", "/numbers", "/keys", "/users"] {
        let tab = format!("{path}{below}");
        assert!(page.links().contains(&tab), "{tab}");
        let links = reader.open(&tab).await.links();
        assert!(links.contains(&path) && links.contains(&format!("/audit?tenantId={}", tenant.id)));
    }
    // Another tenant's page shows none of it.
    let page = reader.open(&format!("/tenants/{}", other.id)).await;
    for words in ["Calls now 0", "Calls today 0", "Answered today –"] {
        page.assert_shows(words);
    }
    for hidden in ["AI error", "Webhook failing", &hook] {
        page.assert_hides(hidden);
    }
    let poor = world.another_tenant(0).await;
    let page = reader.open(&format!("/tenants/{}", poor.id)).await;
    page.assert_shows("No minutes left: every call is refused.");
    let indonesian = reader.with("accept-language", "id");
    let page = indonesian.open(&path).await;
    page.assert_shows("Panggilan saat ini 1");
    page.assert_shows("345 (business)");
    bridge.hang_up(&running).await;
}
