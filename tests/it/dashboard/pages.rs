//! What holds of every page: headers, languages, times, assets, and what is not there.

use std::{collections::BTreeSet, io::Read};

use flate2::read::GzDecoder;

use super::*;
use crate::support::visitor::{Page, kind};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";
/// The most that a page may have, unpacked and without its assets.
const PAGE_BYTES: usize = 30 * 1024;
/// The most that somebody gets who comes for the first time.
const FIRST_VISIT_BYTES: usize = 60 * 1024;
const ALL: [&str; 9] = [
    "/dashboard",
    "/dashboard/password",
    "/dashboard/agents",
    "/dashboard/agents/new",
    "/dashboard/numbers",
    KEYS,
    MEMBERS,
    SECRET_PAGE,
    ACCOUNT,
];

#[track_caller]
fn assert_bound(page: &Page) {
    for (name, value) in [
        ("content-security-policy", POLICY),
        ("referrer-policy", "same-origin"),
        ("x-content-type-options", "nosniff"),
        ("cache-control", "no-store"),
    ] {
        assert_eq!(page.header(name), Some(value), "{name} of {}", page.path);
    }
    for forbidden in [
        "<style",
        " style=",
        " onclick=",
        "javascript:",
        "//cdn",
        "https://",
    ] {
        assert!(
            !page.html.contains(forbidden),
            "{forbidden} is in {}",
            page.path
        );
    }
    for script in page.html.split("<script").skip(1) {
        assert!(script.starts_with(" src=\"/dashboard/assets/"), "{script}");
    }
    assert!(
        page.html.len() < PAGE_BYTES,
        "{} has {} bytes",
        page.path,
        page.html.len()
    );
}

/// What somebody gets who takes packed pages, unpacked.
#[track_caller]
fn unpacked(page: &Page) -> String {
    let what = (page.header("content-encoding"), page.header("vary"));
    assert_eq!(
        what,
        (Some("gzip"), Some("Accept-Encoding")),
        "{}",
        page.path
    );
    let mut html = String::new();
    let mut decoder = GzDecoder::new(&page.body[..]);
    decoder.read_to_string(&mut html).unwrap();
    html
}

/// Every page that links lead to, one of each kind, with lists that are full: as small as was promised, and packed for who asks.
#[rstest]
#[actix_web::test]
async fn every_page_is_small_and_packed_for_who_asks(#[values(Sqlite)] store: StoreKind) {
    let world = world!(store);
    let owner = owner(&world).await;
    let tenant = &world.tenant;
    tenant
        .create_function("check_order", "POST", &world.receiver.url("/order"))
        .await;
    let bridge = tenant.bridge(Http).await;
    for _ in 0..30 {
        let call = bridge.talk(&tenant.did).await;
        bridge.hang_up(&call).await;
        world.event("call.ended", &call).await;
    }
    let packed = owner.browser.clone().with("accept-encoding", "gzip, br");
    let (mut seen, mut to_see) = (BTreeSet::new(), vec!["/dashboard".to_owned()]);
    while let Some(path) = to_see.pop() {
        if path.contains(".csv") || !path.starts_with("/dashboard") || !seen.insert(kind(&path)) {
            continue;
        }
        let page = packed.open(&path).await;
        let html = unpacked(&page);
        assert!(html.len() < PAGE_BYTES, "{path}: {} bytes", html.len());
        assert!(
            page.body.len() < html.len() * 3 / 4,
            "{path}: {}",
            page.body.len()
        );
        to_see.extend(owner.browser.open(&path).await.links());
    }
    assert!(seen.len() > 25, "{seen:?}");
    // What is refused is a page, too; a file is sent piece by piece.
    let form = owner.browser.open("/dashboard/agents/new").await;
    let refused = packed.submit(&form.form("/dashboard/agents/new")).await;
    assert_eq!(refused.status, 422);
    unpacked(&refused);
    let file = packed.open("/dashboard/calls.csv").await;
    assert_eq!(file.header("content-encoding"), None);
}

#[rstest]
#[actix_web::test]
async fn every_page_binds_the_browser_and_is_small(#[values(Sqlite)] store: StoreKind) {
    let world = world!(store);
    let owner = owner(&world).await;
    for language in ["en", "id"] {
        let browser = owner.browser.clone().with("accept-language", language);
        for path in ALL {
            let page = browser.open(path).await;
            assert_eq!(page.status, 200, "{path}");
            assert_bound(&page);
            assert!(
                page.html.contains(&format!("<html lang=\"{language}\">")),
                "{path}"
            );
            assert_eq!(page.html.matches("<h1").count(), 1, "{path}");
            for form in page.forms() {
                assert!(
                    form.value("_token").is_some_and(|token| token.len() > 40),
                    "{form:?}"
                );
            }
        }
    }
    let guest = Visitor::new(&world.server.http);
    for page in [
        guest.open(SIGN_IN).await,
        guest.fetch("/dashboard").await,
        guest.open("/dashboard/link/x").await,
    ] {
        assert_bound(&page);
    }
}

#[rstest]
#[actix_web::test]
async fn what_is_not_there_is_said_in_words(#[values(Sqlite)] store: StoreKind) {
    let world = world!(store);
    let owner = owner(&world).await;
    for path in [
        "/dashboard/nothing",
        "/dashboard/settings",
        "/dashboard/settings/keys/x/y",
        "/dashboard/link",
    ] {
        let page = owner.browser.open(path).await;
        assert_eq!(page.status, 404, "{path}");
        page.assert_shows("There is nothing here");
        assert_bound(&page);
        // Who is not signed in learns nothing of which pages there are.
        let guest = Visitor::new(&world.server.http).open(path).await;
        assert!(guest.path.starts_with(SIGN_IN), "{path}");
    }
    let slash = owner.browser.open("/dashboard/").await;
    assert_eq!((slash.status, &*slash.path), (200, "/dashboard"));
    let sign_out = owner.browser.fetch("/dashboard/sign-out").await;
    assert_eq!(
        (sign_out.status, sign_out.header("allow")),
        (405, Some("POST"))
    );
    assert!(is_in(&owner.browser).await, "a link signs nobody out");
    // What the API says of the rest is not changed.
    let api = Rest::new(&world.server.http).get("/nothing").await;
    assert_eq!(api.body["error"]["code"], "route_not_found");
}

/// Who passes a link on adds marks to it.
#[rstest]
#[actix_web::test]
async fn marks_in_an_address_are_left_alone(#[values(Sqlite)] store: StoreKind) {
    let world = world!(store);
    let owner = owner(&world).await;
    let webhooks = world.tenant.api.get("/webhooks").await.expect(200);
    let webhook = format!(
        "/dashboard/webhooks/{}",
        text(&webhooks["webhooks"][0], "id")
    );
    let lists = [
        "/dashboard/calls",
        "/dashboard/agents",
        "/dashboard/numbers",
        "/dashboard/credits",
        "/dashboard/audit",
        &webhook,
    ];
    for path in ALL.iter().chain(&lists) {
        let marked = format!("{path}?utm_source=mail&utm_source=mail&x=%00");
        let page = owner.browser.open(&marked).await;
        assert_eq!(page.status, 200, "{marked}: {}", page.text());
    }
    for path in lists {
        let nowhere = owner.browser.open(&format!("{path}?before=nonsense")).await;
        assert_eq!(nowhere.status, 422, "{path}");
    }
}

#[rstest]
#[actix_web::test]
async fn language_and_time_zone_are_the_readers_own(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let owner = owner(&world).await;
    let browser = &owner.browser;
    browser.open(KEYS).await.assert_shows("WIB");
    let indonesian = browser
        .clone()
        .with("accept-language", "id-ID,id;q=0.9,en;q=0.8");
    indonesian.open(KEYS).await.assert_shows("Kunci API");
    let refused = indonesian.fill(KEYS, KEYS, &[("name", "")]).await;
    refused.assert_shows("Nama: Wajib diisi.");
    let long = indonesian
        .fill(KEYS, KEYS, &[("name", &"x".repeat(121))])
        .await;
    long.assert_shows("Paling banyak 120 karakter.");

    let form = browser.open(ACCOUNT).await.form(ACCOUNT);
    assert_eq!(
        [form.value("language"), form.value("timeZone")],
        [Some(""), Some("Asia/Jakarta")]
    );
    for (name, value, field) in [
        ("language", "xx", "language"),
        ("timeZone", "Asia/Atlantis", "timeZone"),
        ("name", "", "name"),
        ("name", "Wa\u{202e}nay", "name"),
    ] {
        let page = browser.submit(&form.clone().set(name, value)).await;
        assert_eq!(page.status, 422);
        assert_eq!(page.input(field)["aria-invalid"], "true");
    }
    let chosen = form
        .set("language", "id")
        .set("timeZone", "Asia/Makassar")
        .set("name", " Wayan ");
    let chosen = chosen.without("mailsLowCredit");
    browser.submit(&chosen).await.assert_shows("Tersimpan.");
    // The choice wins over what the browser says.
    let page = browser
        .clone()
        .with("accept-language", "en")
        .open(KEYS)
        .await;
    for words in ["Kunci API", "WITA", "Wayan"] {
        page.assert_shows(words);
    }
    let time = page.html.split("<time ").nth(1).unwrap();
    assert!(
        time.contains("title=\"20") && time.contains(" UTC\""),
        "{time}"
    );
    let stored = browser.open(ACCOUNT).await.form(ACCOUNT);
    assert_eq!(stored.value("mailsLowCredit"), None);
    assert_eq!(stored.value("mailsDisabledWebhooks"), Some("true"));
    let ticked = stored.tick("mailsLowCredit", "true");
    browser.submit(&ticked).await.assert_shows("Tersimpan.");
    let stored = browser.open(ACCOUNT).await.form(ACCOUNT);
    assert_eq!(stored.value("mailsLowCredit"), Some("true"));
}

#[rstest]
#[actix_web::test]
async fn a_first_visit_is_small_and_its_assets_are_kept_for_a_year(
    #[values(Sqlite)] store: StoreKind,
) {
    let world = world!(store);
    let browser = Visitor::new(&world.server.http);
    let packing = browser.clone().with("accept-encoding", "br, gzip");
    let page = browser.open(SIGN_IN).await;
    let mut total = packing.open(SIGN_IN).await.body.len();
    let assets: Vec<&str> = page
        .html
        .split('"')
        .filter(|text| text.starts_with("/dashboard/assets/"))
        .collect();
    assert!(assets.len() >= 3, "{assets:?}");
    for path in assets {
        let plain = browser.fetch(path).await;
        assert_eq!(plain.status, 200);
        assert_eq!(
            plain.header("cache-control"),
            Some("public, max-age=31536000, immutable")
        );
        let packed = packing.fetch(path).await;
        assert_eq!(unpacked(&packed), plain.html);
        total += packed.body.len();
        let gone = browser.fetch(&path.replace('-', "-0")).await;
        assert_eq!(gone.status, 404);
    }
    assert!(total < FIRST_VISIT_BYTES, "{total}");
}
