//! The operators' console: sign-in, and common properties of its pages.

use std::{collections::BTreeSet, io::Read};

use flate2::read::GzDecoder;

use super::*;
use crate::support::{
    raw_socket::exchange,
    tenant::text,
    visitor::{HtmlForm, VisitedPage, Visitor, kind},
};

const SIGN_IN: &str = "/sign-in";
/// The caller's number in all tests.
const CALLER: &str = "6281234567890";
const COOKIE: &str = "dikala-operator";
/// Maximum transfer of a first visit.
const FIRST_VISIT_BYTES: usize = 60 * 1024;

/// A browser that signed in with a token.
pub async fn signed_in(server: &Server, token: &str) -> Visitor {
    let browser = Visitor::new(&server.operator);
    let page = try_token(&browser, token).await;
    assert_eq!(page.status, 303, "{}", page.text());
    browser
}

/// Types a token and sends it.
async fn try_token(browser: &Visitor, token: &str) -> VisitedPage {
    let form = browser.open(SIGN_IN).await.form(SIGN_IN);
    browser.post(&form.set("token", token)).await
}

/// True if the browser is signed in.
async fn is_in(browser: &Visitor) -> bool {
    let page = browser.fetch("/").await;
    assert!([200, 303].contains(&page.status), "{}", page.html);
    page.status == 200
}

/// All changing pages, from the table of pages: paths with `{…}`.
fn changing() -> Vec<String> {
    let table = include_str!("../../../src/console/mod.rs").lines();
    let posts = table.filter_map(|line| {
        let path = line.trim().strip_prefix("post(\"")?.split('"').next()?;
        (path != SIGN_IN && path != "/sign-out").then(|| path.to_owned())
    });
    posts.collect()
}

/// A form for this path with this CSRF token.
fn sent_to(path: &str, token: Option<&str>) -> HtmlForm {
    let token = token.map(|token| ("_token".to_owned(), token.to_owned()));
    let path = path.replace("{type}", "call");
    HtmlForm {
        action: path.replace("{id}", &nobody("call")),
        method: "post".to_owned(),
        fields: token.into_iter().collect(),
    }
}

/// The CSRF token of the home page.
async fn form_token(browser: &Visitor) -> String {
    let form = browser.open("/").await.form("/sign-out");
    form.value("_token").unwrap().to_owned()
}

#[actix_web::test]
async fn a_token_signs_in_once_and_each_sees_what_it_may() {
    let world = world!(Postgres, guarded());
    let server = &world.server;
    let guest = Visitor::new(&server.operator);
    let led = guest.fetch("/actors?x=1").await;
    assert_eq!(
        led.header("location"),
        Some("/sign-in?next=%2Factors%3Fx%3D1")
    );
    let form = guest.open("/actors?x=1").await.form(SIGN_IN);
    assert_eq!(
        guest.submit(&form.set("token", FULL)).await.path,
        "/actors?x=1"
    );
    assert!(is_in(&guest).await);
    guest.open("/").await.assert_shows("Full access");
    assert_eq!(guest.open(SIGN_IN).await.path, "/");
    let reader = signed_in(server, READ).await;
    reader.open("/").await.assert_shows("View-only access");

    for (typed, words) in [
        ("", "Token: This is required."),
        ("not-one-of-the-tokens", "The token is wrong"),
    ] {
        let page = try_token(&guest.another(), typed).await;
        assert_eq!(page.status, 422, "{typed:?}");
        page.assert_shows(words);
        assert_eq!(page.input("token")["aria-invalid"], "true");
        page.assert_hides("not-one-of-the-tokens");
    }
    // No redirects to other sites.
    for away in ["//evil.example", "https://evil.example/", "/\\evil.example"] {
        let browser = guest.another();
        let form = browser.open(SIGN_IN).await.form(SIGN_IN).set("next", away);
        let page = browser.post(&form.set("token", FULL)).await;
        assert_eq!(
            (page.status, page.header("location")),
            (303, Some("/")),
            "{away}"
        );
    }
    // A tenant's key or a bridge's token is no operator's token.
    for other in [&world.tenant.key, &world.tenant.token] {
        assert_eq!(try_token(&guest.another(), other).await.status, 422);
    }
    let log = server.log();
    assert!(!log.contains(FULL) && !log.contains(READ) && !log.contains("not-one-of"));
}

#[actix_web::test]
async fn wrong_tokens_are_throttled_and_who_is_in_stays_in() {
    let setup = guarded().set("http.unauthenticated_requests_per_minute", 3);
    let world = world!(Sqlite, setup);
    let browser = signed_in(&world.server, FULL).await;
    let guesser = browser.another();
    for _ in 0..3 {
        assert_eq!(
            try_token(&guesser, "not-one-of-the-tokens").await.status,
            422
        );
    }
    for token in ["not-one-of-the-tokens", READ] {
        let page = try_token(&guesser, token).await;
        assert_eq!(page.status, 429, "{token}");
        let wait: u64 = page.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=60).contains(&wait), "{wait}");
        page.assert_shows("Too many requests");
    }
    assert!(is_in(&browser).await && !is_in(&guesser).await);
    // The API counts the same guesses.
    with(&world.server, "another-guess-at-it")
        .get("/nodes")
        .await
        .expect(429);
}

#[actix_web::test]
async fn a_session_is_new_at_every_sign_in_and_ends_by_signing_out() {
    let mut world = world!(Sqlite, guarded());
    // An attacker planted a known cookie.
    let planted = Visitor::new(&world.server.operator);
    planted.fetch(SIGN_IN).await;
    let known = planted.cookies()[COOKIE].clone();
    assert_eq!(try_token(&planted, FULL).await.status, 303);
    let attacker = planted.another();
    attacker.set_cookie(COOKIE, &known);
    assert!(is_in(&planted).await && !is_in(&attacker).await);
    let cookie = planted.cookies()[COOKIE].clone();
    assert!(
        !cookie.contains(&known) && !cookie.contains(FULL),
        "{cookie}"
    );
    // The sealed part belongs to its id; anything else is refused.
    let (id, sealed) = cookie.split_once('.').unwrap();
    for forged in [
        String::new(),
        id.to_owned(),
        format!("{id}."),
        format!("{id}.{}", sealed.replacen('A', "B", 1)),
        format!("{known}.{sealed}"),
        format!("{id}.2.0000000000000000.AAAA"),
    ] {
        if forged != cookie {
            attacker.set_cookie(COOKIE, &forged);
            assert!(!is_in(&attacker).await, "{forged}");
        }
    }
    // One of two browsers signs out: its cookie is not accepted any more.
    let other = signed_in(&world.server, FULL).await;
    let stolen = planted.another();
    stolen.set_cookie(COOKIE, &cookie);
    assert!(is_in(&stolen).await);
    let form = planted.open("/").await.form("/sign-out");
    planted
        .submit(&form)
        .await
        .assert_shows("You are signed out.");
    assert!(!is_in(&planted).await && !is_in(&stolen).await && is_in(&other).await);
    // A session survives the process, and ends with its token.
    world.server.kill9();
    world.server.restart();
    assert!(is_in(&other).await && !is_in(&stolen).await);
    world.server.kill9();
    world
        .server
        .installation
        .set("operator.token", "another-full-token");
    world.server.restart();
    assert!(!is_in(&other).await);
}

#[actix_web::test]
async fn cookies_are_for_browsers_alone_and_for_https_where_they_came_by_it() {
    let world = world!(Sqlite, guarded());
    let set = |page: &VisitedPage| page.header("set-cookie").unwrap().to_owned();
    let mut browser = Visitor::new(&world.server.operator);
    let fresh = set(&browser.fetch(SIGN_IN).await);
    assert!(
        fresh.starts_with("dikala-operator=dks_") && !fresh.contains("Max-Age"),
        "{fresh}"
    );
    let plain = set(&try_token(&browser, FULL).await);
    for (attribute, there) in [
        ("HttpOnly", true),
        ("SameSite=Lax", true),
        ("Path=/", true),
        ("Secure", false),
    ] {
        assert_eq!(plain.contains(attribute), there, "{attribute} of {plain}");
    }
    browser = browser.another();
    browser.origin = Some(world.server.operator.replace("http://", "https://"));
    let secure = set(&try_token(&browser, FULL).await);
    assert!(
        secure.starts_with("__Host-dikala-operator=") && secure.contains("; Secure"),
        "{secure}"
    );
    assert!(is_in(&browser).await);
}

#[actix_web::test]
async fn what_changes_something_comes_from_a_page_of_the_console() {
    let world = world!(Sqlite, guarded());
    let browser = signed_in(&world.server, FULL).await;
    let token = form_token(&browser).await;
    let others = form_token(&signed_in(&world.server, FULL).await).await;
    let mut paths = changing();
    paths.push("/sign-out".to_owned());
    for path in &paths {
        for wrong in [None, Some(""), Some("x"), Some(others.as_str())] {
            let page = browser.post(&sent_to(path, wrong)).await;
            assert_eq!(page.status, 403, "{path} {wrong:?}");
            page.assert_shows("Nothing was changed");
        }
        let mut foreign = browser.clone();
        for origin in [
            None,
            Some("http://evil.example"),
            Some("null"),
            Some("http://127.0.0.1:1"),
        ] {
            foreign.origin = origin.map(str::to_owned);
            let page = foreign.post(&sent_to(path, Some(&token))).await;
            assert_eq!(page.status, 403, "{path} {origin:?}");
        }
        let across = browser.clone().with("sec-fetch-site", "cross-site");
        assert_eq!(
            across.post(&sent_to(path, Some(&token))).await.status,
            403,
            "{path}"
        );
    }
    assert!(is_in(&browser).await);
    // Another site's page cannot sign anybody in.
    let mut foreign = browser.another();
    let form = foreign.open(SIGN_IN).await.form(SIGN_IN).set("token", FULL);
    foreign.origin = Some("http://evil.example".to_owned());
    assert_eq!(foreign.post(&form).await.status, 403);
}

#[actix_web::test]
async fn who_shows_a_token_itself_reads_the_pages_and_posts_no_form() {
    let world = world!(Sqlite, guarded());
    let shows = |token: &str| {
        let authorization = format!("Bearer {token}");
        Rest::new(&world.server.operator).with("authorization", &authorization)
    };
    for token in [FULL, READ] {
        shows(token).get("/tenants").await.expect(200);
    }
    shows("another-token-0001")
        .get("/tenants")
        .await
        .expect(303);
    shows(FULL)
        .post("/ledger/verify", json!({}))
        .await
        .expect(403);
}

#[actix_web::test]
async fn the_read_token_changes_nothing_anywhere() {
    let world = world!(Sqlite, guarded());
    let reader = signed_in(&world.server, READ).await;
    let token = form_token(&reader).await;
    for path in changing() {
        let page = reader.post(&sent_to(&path, Some(&token))).await;
        assert_eq!(page.status, 403, "{path}: {}", page.text());
        page.assert_shows("You have view-only access");
    }
    for path in every_page(&reader).await {
        for form in reader.open(&path).await.forms() {
            let harmless = form.method == "get" || form.action == "/sign-out";
            assert!(harmless, "{path} has a form for {}", form.action);
        }
    }
    // The API accepts no cookies.
    let cookie = format!("{COOKIE}={}", reader.cookies()[COOKIE]);
    let api = client(&world.server).with("cookie", &cookie);
    api.get("/nodes").await.expect(401);
    api.post("/ledger/verify", json!({})).await.expect(401);
}

#[actix_web::test]
async fn without_a_token_the_console_is_open_to_this_machines_own_pages() {
    let world = world!(Sqlite);
    let operator = &world.server.operator;
    let browser = Visitor::new(operator);
    let page = browser.open("/").await;
    assert_eq!(page.status, 200);
    let signs_out = |form: &HtmlForm| form.action == "/sign-out";
    assert!(
        !page.forms().iter().any(signs_out),
        "there is nothing to sign out of"
    );
    assert_eq!(browser.open(SIGN_IN).await.path, "/");
    let port = operator.rsplit(':').next().unwrap();
    for (host, origin, status) in [
        (format!("localhost:{port}"), "", 200),
        ("rebound.example".to_owned(), "", 403),
        (
            format!("127.0.0.1:{port}"),
            "origin: http://evil.example\r\n",
            403,
        ),
    ] {
        for path in ["/", "/actors", "/live?of=overview", "/sign-in", "/nothing"] {
            let request = format!(
                "GET {path} HTTP/1.1\r\nhost: {host}\r\n{origin}accept: text/html\r\nconnection: close\r\n\r\n"
            );
            if status == 200 && path != "/" {
                continue;
            }
            let answer = exchange(operator, request.as_bytes()).await;
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status} ")),
                "{host} {path}: {answer}"
            );
        }
    }
    for path in changing() {
        let page = browser.post(&sent_to(&path, Some("x"))).await;
        assert_eq!(page.status, 403, "{path}");
    }
}

/// Every linked page, one of each kind.
pub async fn every_page(browser: &Visitor) -> BTreeSet<String> {
    let (mut seen, mut kinds, mut to_see) =
        (BTreeSet::new(), BTreeSet::new(), vec!["/".to_owned()]);
    while let Some(path) = to_see.pop() {
        let is_page = path.starts_with('/') && !path.contains(".csv") && !path.contains("done=");
        if !is_page || !kinds.insert(kind(&path)) {
            continue;
        }
        let page = browser.open(&path).await;
        assert_eq!(page.status, 200, "{path}: {}", page.text());
        to_see.extend(
            page.links()
                .into_iter()
                .filter(|link| !link.starts_with('#')),
        );
        seen.insert(path);
    }
    seen
}

/// A world with something on every page, and with secrets and personal data in it.
pub async fn busy(setup: WorldSetup) -> Option<TestWorld> {
    let world = TestWorld::start(Sqlite, setup).await?;
    let tenant = &world.tenant;
    tenant
        .change_agent(json!({"systemPrompt": "PLANTED-PROMPT", "greetingText": "PLANTED-GREETING"}))
        .await;
    let bridge = tenant.bridge(Socket).await;
    for _ in 0..3 {
        let call = bridge.talk(&tenant.did).await;
        let said = json!({
            "callId": call, "summary": "PLANTED-SUMMARY",
            "turns": [{"role": "caller", "text": "PLANTED-TURN", "at": Moment::ago(1).text()}],
        });
        bridge.ok("call.transcript", said).await;
        bridge.hang_up(&call).await;
        world.event("call.ended", &call).await;
    }
    bridge.talk(&tenant.did).await;
    Some(world)
}

#[actix_web::test]
async fn every_page_binds_the_browser_is_small_and_tells_no_secret() {
    let Some(world) = busy(guarded()).await else {
        return;
    };
    let browser = signed_in(&world.server, FULL).await;
    let packing = browser.clone().with("accept-encoding", "gzip, br");
    let pages = every_page(&browser).await;
    assert!(pages.len() >= 4, "{pages:?}");
    let planted = [
        FULL,
        READ,
        &world.tenant.key,
        &world.tenant.token,
        SECRET,
        CALLER,
        "PLANTED-",
    ];
    for path in &pages {
        let page = browser.open(path).await;
        page.assert_bound("/assets/");
        for secret in planted {
            page.assert_hides(secret);
        }
        let packed = packing.open(path).await;
        let mut html = String::new();
        GzDecoder::new(&packed.body[..])
            .read_to_string(&mut html)
            .unwrap();
        assert!(html.contains("<h1"), "{path}");
    }
    let guest = Visitor::new(&world.server.operator);
    guest.open(SIGN_IN).await.assert_bound("/assets/");
    guest.fetch("/").await.assert_bound("/assets/");
    let log = world.server.log();
    assert!(
        !log.contains("PLANTED-"),
        "prompts and transcripts are not logged"
    );
}

#[actix_web::test]
async fn a_first_visit_is_small_and_what_is_not_there_is_said_in_words() {
    let world = world!(Sqlite, guarded());
    let guest = Visitor::new(&world.server.operator);
    let packing = guest.clone().with("accept-encoding", "gzip");
    let page = guest.open(SIGN_IN).await;
    let mut total = packing.open(SIGN_IN).await.body.len();
    let assets: Vec<&str> = page
        .html
        .split('"')
        .filter(|text| text.starts_with("/assets/"))
        .collect();
    assert!(assets.len() >= 3, "{assets:?}");
    for path in assets {
        let asset = packing.fetch(path).await;
        assert_eq!(asset.status, 200);
        assert_eq!(
            asset.header("cache-control"),
            Some("public, max-age=31536000, immutable")
        );
        total += asset.body.len();
    }
    assert!(total < FIRST_VISIT_BYTES, "{total}");

    let browser = signed_in(&world.server, READ)
        .await
        .with("accept", "text/html");
    for path in ["/nothing", "/actors/nothing", "/actors/call/x"] {
        let page = browser.open(path).await;
        assert_eq!(page.status, 404, "{path}");
        page.assert_shows("Page not found");
        page.assert_bound("/assets/");
    }
    assert_eq!(browser.open("/actors/").await.path, "/actors");
    // A refused form leaves the browser at an address that only takes posts; a reload leads to the page above.
    for (path, above) in [
        ("/sign-out", "/"),
        ("/ledger/verify", "/ledger"),
        ("/users/user_1/login-link", "/"),
    ] {
        let led = browser.fetch(path).await;
        assert_eq!((led.status, led.header("location")), (303, Some(above)));
    }
    assert!(is_in(&browser).await, "a link signs nobody out");
    // Machines get the same answers as before.
    for path in ["/operator/v1/nothing", "/operator/nothing", "/nothing"] {
        let api =
            Rest::new(&world.server.operator).with("authorization", &format!("Bearer {READ}"));
        assert_eq!(
            api.get(path).await.expect(404)["error"]["code"],
            "route_not_found",
            "{path}"
        );
        let stranger = Rest::new(&world.server.operator)
            .get(path)
            .await
            .expect(401);
        assert_eq!(
            text(&stranger["error"], "code"),
            "missing_operator_token",
            "{path}"
        );
    }
}
