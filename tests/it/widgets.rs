//! Widgets by the API, and the requests of their visitors.

use actix_web::http::StatusCode;
use futures_util::future::join_all;

use crate::dashboard::execute;
use crate::support::{
    prelude::*,
    rest::{Rest, RestResponse},
    tenant::text,
    web_call::TestBrowser,
};

const SHOP: &str = "https://shop.example.com";

async fn world(store: StoreKind) -> Option<TestWorld> {
    let mut installation = Installation::migrated(store)?;
    installation.answer_with_the_test_voice();
    installation.set("http.trusted_proxies", "127.0.0.0/8");
    Some(TestWorld::on(installation, WorldSetup::new().minutes(50)).await)
}

async fn create(world: &TestWorld, fields: Value) -> Value {
    let mut widget = json!({"name": "Shop", "agentId": world.tenant.agent, "origins": [SHOP]});
    for (name, value) in fields.as_object().unwrap() {
        widget[name] = value.clone();
    }
    world.tenant.api.post("/widgets", widget).await.expect(201)
}

/// The visitors of a website: requests of the frame, from this network address.
fn visitor(world: &TestWorld, address: &str) -> Rest {
    let own = &world.server.http;
    Rest::new(own)
        .with("origin", own)
        .with("x-forwarded-for", address)
}

async fn ask(visitor: &Rest, widget: &Value, origin: &str) -> RestResponse {
    let body = json!({"key": widget["key"], "origin": origin});
    visitor.post("/web/v1/widget/calls", body).await
}

#[rstest]
#[actix_web::test]
async fn a_tenant_manages_its_widgets(#[values(Sqlite, Postgres)] store: StoreKind) {
    let Some(world) = world(store).await else {
        return;
    };
    let api = &world.tenant.api;
    let fields = json!({"origins": [SHOP, "https://www.example.com/"], "color": "#0F766E",
        "texts": {"start": " Ask us "}});
    let made = create(&world, fields).await;
    let expected = [
        ("name", json!("Shop")),
        ("agentId", json!(world.tenant.agent)),
        ("origins", json!([SHOP, "https://www.example.com"])),
        ("callsPerVisitorPerHour", json!(5)),
        ("maxConcurrent", json!(5)),
        ("texts", json!({"start": "Ask us"})),
        ("color", json!("#0f766e")),
    ];
    for (field, value) in expected {
        assert_eq!(made[field], value, "{made}");
    }
    let (id, key) = (text(&made, "id"), text(&made, "key"));
    assert!(id.starts_with("wgt_") && key.starts_with("dkw_"), "{made}");
    let path = format!("/widgets/{id}");
    assert_eq!(api.get(&path).await.expect(200), made);
    let change = json!({"maxConcurrent": 2, "color": null, "texts": null});
    let changed = api.patch(&path, change).await.expect(200);
    let changes = (
        &changed["maxConcurrent"],
        &changed["color"],
        &changed["texts"],
    );
    assert_eq!(changes, (&json!(2), &Value::Null, &json!({})));
    assert_eq!(
        (&changed["key"], &changed["origins"]),
        (&made["key"], &made["origins"])
    );
    // A client may send back what it read.
    assert_eq!(api.patch(&path, changed.clone()).await.expect(200), changed);

    for (fields, field, words) in [
        (json!({"origins": []}), "origins", "at least 1"),
        (
            json!({"origins": ["http://shop.example.com"]}),
            "origins[0]",
            "https://",
        ),
        (
            json!({"origins": [SHOP, format!("{SHOP}/")]}),
            "origins[1]",
            "twice",
        ),
        (
            json!({"agentId": "agent_1"}),
            "agentId",
            "one of your agents",
        ),
        (json!({"name": " "}), "name", "required"),
        (json!({"maxConcurrent": 0}), "maxConcurrent", "at least 1"),
        (
            json!({"callsPerVisitorPerHour": 101}),
            "callsPerVisitorPerHour",
            "at most 100",
        ),
        (json!({"color": "red"}), "color", "six hexadecimal digits"),
        (
            json!({"texts": {"strat": "x"}}),
            "texts.strat",
            "did you mean",
        ),
        (
            json!({"texts": {"start": "x".repeat(201)}}),
            "texts.start",
            "at most 200",
        ),
        (json!({"widget": 1}), "widget", "not a known field"),
    ] {
        let refused = api.patch(&path, fields).await.expect(422);
        let fault = &refused["error"]["fields"][0];
        assert_eq!(fault["field"], field, "{refused}");
        assert!(text(fault, "message").contains(words), "{refused}");
    }
    let other = world.another_tenant(5).await;
    for response in [
        other.api.get(&path).await,
        other.api.patch(&path, json!({"name": "x"})).await,
        other.api.delete(&path).await,
    ] {
        assert_eq!(response.expect(404)["error"]["code"], "widget_not_found");
    }
    let foreign = json!({"name": "x", "agentId": world.tenant.agent, "origins": [SHOP]});
    let refused = other.api.post("/widgets", foreign).await.expect(422);
    assert_eq!(refused["error"]["fields"][0]["field"], "agentId");

    for _ in 1..20 {
        create(&world, json!({})).await;
    }
    let one_more = json!({"name": "x", "agentId": world.tenant.agent, "origins": [SHOP]});
    let refused = api.post("/widgets", one_more).await.expect(409);
    assert_eq!(refused["error"]["code"], "widget_limit_reached");
    let listed = api.get("/widgets").await.expect(200);
    assert_eq!(listed["widgets"].as_array().unwrap().len(), 20);
    assert_eq!(listed["widgets"][0]["id"], id);
    api.delete(&path).await.expect(204);
    api.get(&path).await.expect(404);
    let audited = world
        .server
        .cli(&["audit", "list", "--tenant", &world.tenant.id]);
    for action in ["widget.create", "widget.update", "widget.delete"] {
        assert!(audited.to_string().contains(action), "{audited}");
    }
    // An agent takes its widgets with it.
    let agent = format!("/agents/{}", world.tenant.agent);
    api.delete(&agent).await.expect(204);
    let left = api.get("/widgets").await.expect(200);
    assert_eq!(left["widgets"], json!([]));
}

#[rstest]
#[actix_web::test]
async fn a_key_is_good_for_calls_within_its_limits_only(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let Some(world) = world(store).await else {
        return;
    };
    let limits = json!({"callsPerVisitorPerHour": 2, "maxConcurrent": 3});
    let widget = create(&world, limits).await;
    let one = visitor(&world, "192.0.2.1");
    let made = ask(&one, &widget, SHOP).await.expect(201);
    let first = TestBrowser::open(&text(&made, "url"))
        .await
        .expect("a socket");
    let id = first.ready().await;
    let call = world.tenant.call(&id).await;
    assert_eq!(
        (&call["channel"], &call["callerNumber"]),
        (&json!("web"), &json!("web"))
    );
    // A token that is not used counts too.
    ask(&one, &widget, SHOP).await.expect(201);
    let refused = ask(&one, &widget, SHOP).await;
    let wait: i64 = refused.header("retry-after").unwrap().parse().unwrap();
    // The token is forgotten after a minute, the call after an hour.
    assert!((1..=60).contains(&wait), "{wait}");
    assert_eq!(refused.expect(429)["error"]["code"], "visitor_limit");
    // Another visitor has calls of its own, until all places of the widget are taken.
    let two = visitor(&world, "192.0.2.2");
    ask(&two, &widget, SHOP).await.expect(201);
    let busy = ask(&two, &widget, SHOP).await;
    assert!(busy.header("retry-after").is_some());
    assert_eq!(busy.expect(503)["error"]["code"], "widget_busy");
    // Tokens that are too old count no more, calls that run do, however long they last.
    let server = &world.server;
    execute(
        server,
        "UPDATE web_calls SET expires_at = 1 WHERE used_at IS NULL",
    )
    .await;
    execute(
        server,
        "UPDATE web_calls SET used_at = used_at - 3500000 WHERE used_at IS NOT NULL",
    )
    .await;
    for _ in 0..2 {
        ask(&two, &widget, SHOP).await.expect(201);
    }
    // The unused tokens of one visitor take one place.
    let three = visitor(&world, "192.0.2.3");
    ask(&three, &widget, SHOP).await.expect(201);
    let four = visitor(&world, "192.0.2.4");
    let busy = ask(&four, &widget, SHOP).await.expect(503);
    assert_eq!(busy["error"]["code"], "widget_busy");
    first.send(&json!({"type": "hangup"}));
    first.ended().await;
    world.tenant.call_over(&id).await;
    ask(&four, &widget, SHOP).await.expect(201);
    execute(
        server,
        "UPDATE web_calls SET expires_at = 1 WHERE used_at IS NULL",
    )
    .await;
    ask(&one, &widget, SHOP).await.expect(201);
    let wait = ask(&one, &widget, SHOP).await;
    let wait: i64 = wait.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=100).contains(&wait), "{wait}");
    execute(
        server,
        "UPDATE web_calls SET used_at = used_at - 200000 WHERE used_at IS NOT NULL",
    )
    .await;
    ask(&one, &widget, SHOP).await.expect(201);
    world.assert_ledger_is_exact();
}

/// The tokens of one visitor hold one place, so there may be more of them than places.
#[rstest]
#[actix_web::test]
async fn no_more_visitors_talk_than_allowed_however_many_tokens_there_are(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let Some(world) = world(store).await else {
        return;
    };
    let limits = json!({"callsPerVisitorPerHour": 20, "maxConcurrent": 2});
    let widget = create(&world, limits).await;
    let one = visitor(&world, "192.0.2.1");
    let mut urls = Vec::new();
    for _ in 0..6 {
        urls.push(text(&ask(&one, &widget, SHOP).await.expect(201), "url"));
    }
    let opened = join_all(urls.iter().map(|url| TestBrowser::open(url))).await;
    let (talking, refused): (Vec<_>, Vec<_>) = opened.into_iter().partition(Result::is_ok);
    assert_eq!(talking.len(), 2);
    let busy = |opened: &Result<_, StatusCode>| {
        opened.as_ref().err() == Some(&StatusCode::SERVICE_UNAVAILABLE)
    };
    assert!(refused.iter().all(busy));
    let mut talking: Vec<TestBrowser> = talking.into_iter().flatten().collect();
    let first = talking.remove(0);
    let call = first.ready().await;
    talking[0].ready().await;
    // A token that was refused is good once there is a place.
    first.send(&json!({"type": "hangup"}));
    first.ended().await;
    world.tenant.call_over(&call).await;
    let server = &world.server;
    execute(
        server,
        "UPDATE web_calls SET used_at = used_at - 6000 WHERE used_at IS NOT NULL",
    )
    .await;
    let opened = join_all(urls.iter().map(|url| TestBrowser::open(url))).await;
    assert_eq!(opened.iter().filter(|opened| opened.is_ok()).count(), 1);
    world.assert_ledger_is_exact();
}

#[actix_web::test]
async fn strangers_get_neither_frame_nor_call() {
    let Some(world) = world(Sqlite).await else {
        return;
    };
    let widget = create(&world, json!({})).await;
    let key = text(&widget, "key");
    let (own, one) = (&world.server.http, visitor(&world, "192.0.2.1"));
    let frame = |key: &str, origin: &str| format!("/web/v1/widget?key={key}&origin={origin}");
    let page = one.get(&frame(&key, SHOP)).await;
    let policy = page.header("content-security-policy").unwrap().to_owned();
    assert!(
        policy.contains(&format!("frame-ancestors {SHOP};")),
        "{policy}"
    );
    assert!(
        policy.starts_with("default-src 'none'; script-src 'self';"),
        "{policy}"
    );
    assert!(page.text.contains("Talk to us"), "{}", page.text);
    assert!(!page.text.contains(&world.tenant.agent) && !page.text.contains("ten_"));
    assert_eq!(page.status, 200);
    let top = one.clone().with("sec-fetch-dest", "document");
    assert_eq!(top.get(&frame(&key, SHOP)).await.status, 403);
    for (key, origin, status) in [
        (key.as_str(), "https://evil.example", 403),
        (&key, "https://shop.example.com.evil.example", 403),
        (&key, "http://shop.example.com", 403),
        (&key, "https://shop.example.com:8443", 403),
        (&key, "https://shop.example.com/", 403),
        (&key, "HTTPS://shop.example.com", 403),
        (&key, "*", 403),
        (&key, "", 403),
        (&key[..39], SHOP, 404),
        ("dkw_", SHOP, 404),
        ("' OR 1=1 --", SHOP, 404),
    ] {
        let address = frame(&key.replace(['\'', ' ', '='], "%27"), origin);
        let refused = one.get(&address).await;
        assert_eq!(refused.status, status, "{key} {origin}");
        assert!(refused.text.contains("\"message\""), "{}", refused.text);
    }
    assert_eq!(one.get("/web/v1/widget").await.status, 404);
    for (origin, site) in [
        (Some("https://evil.example"), None),
        (Some(SHOP), None),
        (Some("null"), None),
        (None, None),
        (Some(own.as_str()), Some("cross-site")),
    ] {
        let mut forged = Rest::new(own);
        for (name, value) in [("origin", origin), ("sec-fetch-site", site)] {
            if let Some(value) = value {
                forged = forged.with(name, value);
            }
        }
        assert_eq!(
            ask(&forged, &widget, SHOP).await.status,
            403,
            "{origin:?} {site:?}"
        );
    }
    assert_eq!(ask(&one, &widget, "https://evil.example").await.status, 403);
    assert_eq!(ask(&one, &json!({"key": 5}), SHOP).await.status, 422);
    let script = one.get("/widget.js").await;
    assert!(
        script
            .header("content-type")
            .unwrap()
            .starts_with("text/javascript")
    );
    assert!(script.text.contains("data-key") && script.header("set-cookie").is_none());

    // Nobody is called without minutes, or by an agent that takes no calls; the widget says so before it begins.
    let tenant = &world.tenant;
    tenant.change_agent(json!({"isActive": false})).await;
    assert_eq!(
        ask(&one, &widget, SHOP).await.expect(503)["error"]["code"],
        "widget_closed"
    );
    tenant.change_agent(json!({"isActive": true})).await;
    let balance = tenant.credits().await.0;
    let operator = world.server.operator_api();
    let path = format!("/tenants/{}/credits/transactions", tenant.id);
    let booking = json!({"minutes": -balance, "type": "adjustment", "reference": "empty"});
    operator.post(&path, booking).await.expect(201);
    assert_eq!(
        ask(&one, &widget, SHOP).await.expect(503)["error"]["code"],
        "widget_closed"
    );
    let refill = json!({"minutes": 5, "type": "purchase", "reference": "refill"});
    operator.post(&path, refill).await.expect(201);
    ask(&one, &widget, SHOP).await.expect(201);
    world.server.cli(&["tenant", "suspend", &tenant.id]);
    assert_eq!(
        ask(&one, &widget, SHOP).await.expect(503)["error"]["code"],
        "widget_closed"
    );
}

/// A flood of one address is refused, and others are not.
#[actix_web::test]
async fn a_flood_is_refused_before_it_reaches_the_database() {
    let Some(world) = world(Sqlite).await else {
        return;
    };
    let widget = create(&world, json!({"callsPerVisitorPerHour": 100})).await;
    let (flood, friend) = (visitor(&world, "192.0.2.1"), visitor(&world, "192.0.2.2"));
    let frame = format!("/web/v1/widget?key={}&origin={SHOP}", text(&widget, "key"));
    let mut refused = 0;
    for _ in 0..700 {
        refused += usize::from(flood.get(&frame).await.status == 429);
    }
    // A minute may have passed on the way.
    assert!((1..=100).contains(&refused), "{refused}");
    assert_eq!(friend.get(&frame).await.status, 200);
    ask(&friend, &widget, SHOP).await.expect(201);
}
