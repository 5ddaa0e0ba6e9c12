//! Common properties of all pages: headers, languages, times, assets, and missing pages.

use super::*;
use crate::support::visitor::HtmlForm;

/// Path of the dashboard's assets.
const ASSETS: &str = "/dashboard/assets/";
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
            page.assert_bound(ASSETS);
            assert!(
                page.html.contains(&format!("<html lang=\"{language}\">")),
                "{path}"
            );
            assert_eq!(page.html.matches("<h1").count(), 1, "{path}");
        }
    }
    let guest = Visitor::new(&world.server.http);
    for page in [
        guest.open(SIGN_IN).await,
        guest.fetch("/dashboard").await,
        guest.open("/dashboard/link/x").await,
    ] {
        page.assert_bound(ASSETS);
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
        page.assert_shows("Page not found");
        page.assert_bound(ASSETS);
        // Without a session nobody learns which pages exist.
        let guest = Visitor::new(&world.server.http).open(path).await;
        assert!(guest.path.starts_with(SIGN_IN), "{path}");
    }
    let slash = owner.browser.open("/dashboard/").await;
    assert_eq!((slash.status, &*slash.path), (200, "/dashboard"));
    let sign_out = owner.browser.open("/dashboard/sign-out").await;
    assert_eq!((sign_out.status, &*sign_out.path), (200, "/dashboard"));
    assert!(is_in(&owner.browser).await, "a link signs nobody out");
    // The API's answers are unchanged.
    let api = Rest::new(&world.server.http).get("/nothing").await;
    assert_eq!(api.body["error"]["code"], "route_not_found");
}

/// A refused form leaves the browser at the post's address; a reload leads to the form's page.
#[rstest]
#[actix_web::test]
async fn the_address_of_a_refused_form_leads_back_to_its_page(#[values(Sqlite)] store: StoreKind) {
    let world = world!(store);
    let owner = owner(&world).await;
    let agent = format!("/dashboard/agents/{}", world.tenant.agent);
    for (path, page) in [
        (format!("{ACCOUNT}/password"), ACCOUNT),
        (format!("{ACCOUNT}/sign-out-everywhere"), ACCOUNT),
        (format!("{SECRET_PAGE}/show"), SECRET_PAGE),
        (format!("{agent}/duplicate"), &agent),
        (format!("{MEMBERS}/{}/role", owner.id), MEMBERS),
        (format!("{MEMBERS}/{}/link?done=saved", owner.id), MEMBERS),
    ] {
        let found = owner.browser.open(&path).await;
        assert_eq!((found.status, &*found.path), (200, page), "{path}");
        let guest = owner.browser.another().open(&path).await;
        assert!(guest.path.starts_with(SIGN_IN), "{path}: {}", guest.path);
    }
    let typed = owner.browser.open(SECRET_PAGE).await;
    let form = typed.form(&format!("{SECRET_PAGE}/show"));
    let refused = owner.browser.submit(&form).await;
    assert_eq!(refused.status, 422);
    assert_eq!(owner.browser.open(&refused.path).await.path, SECRET_PAGE);
}

/// The plain verb is also a path, for people who do not know the API's name.
#[rstest]
#[actix_web::test]
async fn plain_verbs_are_paths_as_well(#[values(Sqlite)] store: StoreKind) {
    let world = world!(store);
    let browser = owner(&world).await.browser;
    let webhooks = world.tenant.api.get("/webhooks").await.expect(200);
    let webhook = format!(
        "/dashboard/webhooks/{}",
        text(&webhooks["webhooks"][0], "id")
    );
    let number = format!("/dashboard/numbers/{}", world.tenant.number);
    for (path, named, done) in [
        (
            format!("{webhook}/rotate"),
            format!("{webhook}/rotate-secret"),
            "Secret replaced.",
        ),
        (
            format!("{number}/assign"),
            format!("{number}/assign-agent"),
            "Saved",
        ),
    ] {
        let page = browser.open(&path).await;
        let form = HtmlForm {
            action: path,
            ..page.form(&named)
        };
        browser.submit(&form).await.assert_shows(done);
    }
}

/// Posts of people have their own limit, separate from API requests.
#[rstest]
#[actix_web::test]
async fn posts_are_counted_apart_from_requests_of_programs(#[values(Sqlite)] store: StoreKind) {
    let world = world!(store);
    let browser = owner(&world).await.browser;
    let remaining = async || {
        let answer = world.tenant.api.get("/agents").await;
        let left = answer.header("x-ratelimit-remaining").unwrap().to_owned();
        left.parse::<i64>().unwrap()
    };
    let form = browser.open(KEYS).await.form(KEYS);
    let before = remaining().await;
    let mut taken = 0;
    let refused = loop {
        let page = browser.post(&form).await;
        if page.status != 422 {
            break page;
        }
        taken += 1;
        assert!(taken <= 300, "there is a bound");
    };
    assert!(taken > 290, "{taken}");
    assert_eq!(refused.status, 429);
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    refused.assert_shows("Too many");
    assert_eq!(remaining().await, before - 1);
    assert_eq!(browser.open(KEYS).await.status, 200, "looking is free");
}

/// Links may carry unknown parameters, such as those of a campaign.
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

#[actix_web::test]
async fn language_and_time_zone_are_the_readers_own() {
    let world = world!(Sqlite);
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
    // The person's choice overrides the browser's language.
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
