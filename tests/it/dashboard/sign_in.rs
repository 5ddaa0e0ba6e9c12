//! Sign-in: by a sign-in link, by a password, and the limits of failures.

use std::fs;

use super::*;
use crate::support::visitor::VisitedPage;

#[rstest]
#[actix_web::test]
async fn a_link_lets_in_once_and_asks_for_a_password(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let (server, tenant) = (&world.server, &world.tenant.id);
    let made = create(server, tenant, "Sari@Example.com", "owner");
    assert_eq!(made["email"], "sari@example.com");
    assert_eq!(made["role"], "owner");
    let (url, id) = (text(&made, "url"), text(&made, "id"));
    assert!(
        url.starts_with(&format!("{}/dashboard/", server.http)),
        "{url}"
    );

    // A mail scanner that follows the link does not consume it.
    let scanner = Visitor::new(&server.http);
    for _ in 0..3 {
        assert_eq!(scanner.open(&url).await.status, 200);
    }
    assert!(!is_in(&scanner).await);

    let browser = Visitor::new(&server.http);
    let page = come_by(&browser, &url).await;
    assert_eq!(page.path, "/dashboard/password");
    let form = page.form("/dashboard/password");
    for (wrong, words) in [
        ("", "New password: This is required."),
        ("ninechars", "At least 10 characters."),
        ("qwertyuiop", "most common passwords"),
        (&"x".repeat(257), "At most 256 characters."),
    ] {
        let page = browser.submit(&form.clone().set("password", wrong)).await;
        assert_eq!(page.status, 422, "{wrong}");
        page.assert_shows(words);
        let input = page.input("password");
        assert_eq!(input["aria-invalid"], "true");
        assert!(
            input["aria-describedby"].contains("f-password-error"),
            "{input:?}"
        );
        assert!(!input.contains_key("value"));
    }
    let home = browser.submit(&form.set("password", PASSWORD)).await;
    home.assert_shows("Your password is set");

    // The link is used up, also for the browser that used it.
    for tried in [&browser, &scanner] {
        assert_eq!(tried.open(&url).await.status, 410);
    }
    let again = server.cli(&["user", "login-link", &id]);
    let page = scanner.open(&text(&again, "url")).await;
    let button = page.form(text(&again, "url").strip_prefix(&server.http).unwrap());
    execute(server, "UPDATE login_links SET expires_at = 1").await;
    assert_eq!(scanner.submit(&button).await.status, 410);
    assert_eq!(
        scanner.open("/dashboard/link/dko_nonsense").await.status,
        410
    );
    assert!(!is_in(&scanner).await);
    assert_eq!(
        try_password(&scanner, "SARI@example.com ", PASSWORD)
            .await
            .status,
        303
    );
    assert!(is_in(&scanner).await);
}

#[rstest]
#[actix_web::test]
async fn a_page_that_was_asked_for_comes_after_signing_in(#[values(Sqlite)] store: StoreKind) {
    let world = world!(store);
    let owner = owner(&world).await;
    let browser = owner.browser.another();
    let page = browser.open("/dashboard/settings/keys?done=saved").await;
    assert!(page.path.starts_with(SIGN_IN), "{}", page.path);
    let form = page
        .form(SIGN_IN)
        .set("email", &owner.email)
        .set("password", PASSWORD);
    assert_eq!(
        browser.submit(&form).await.path,
        "/dashboard/settings/keys?done=saved"
    );
    for away in [
        "//evil.example",
        "https://evil.example/",
        "/dashboard\\@evil.example",
        "/api/v1",
    ] {
        let browser = owner.browser.another();
        let form = browser.open(SIGN_IN).await.form(SIGN_IN).set("next", away);
        let page = browser
            .post(&form.set("email", &owner.email).set("password", PASSWORD))
            .await;
        assert_eq!(
            (page.status, page.header("location")),
            (303, Some("/dashboard")),
            "{away}"
        );
    }
    // Signed-in people skip the sign-in page.
    assert_eq!(browser.open(SIGN_IN).await.path, "/dashboard");
}

#[rstest]
#[actix_web::test]
async fn wrong_passwords_are_counted_by_address_and_the_right_one_waits_too(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let (server, tenant) = (&world.server, &world.tenant.id);
    let owner = owner(&world).await;
    let browser = owner.browser.another();
    let mut known = Vec::new();
    for _ in 0..10 {
        known.push(try_password(&browser, &owner.email, "not the password").await);
    }
    assert!(
        known.iter().all(|page| page.status == 422),
        "ten are looked at"
    );
    let mut unknown = Vec::new();
    for _ in 0..10 {
        unknown.push(try_password(&browser, "nobody@example.com", "not the password").await);
    }
    assert_eq!(
        same(&known[0], &owner.email),
        same(&unknown[0], "nobody@example.com")
    );
    for (email, password) in [
        (owner.email.as_str(), PASSWORD),
        (&*owner.email.to_uppercase(), PASSWORD),
        ("nobody@example.com", "not the password"),
    ] {
        let refused = try_password(&browser, email, password).await;
        assert_eq!(refused.status, 429, "{email}");
        let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!((800..=900).contains(&wait), "{wait}");
        refused.assert_shows("15 minutes");
    }
    // Signed-in sessions continue, and other email addresses are not affected.
    assert!(is_in(&owner.browser).await);
    let other = somebody(server, tenant, "other@example.com", "viewer").await;
    assert_eq!(
        try_password(&browser, &other.email, PASSWORD).await.status,
        303
    );

    // Fifty attempts per network, for any email addresses; thirty are left.
    let guesser = browser.another();
    for n in 0..30 {
        let email = format!("guess{n}@example.com");
        assert_eq!(
            try_password(&guesser, &email, "not the password")
                .await
                .status,
            422,
            "{n}"
        );
    }
    for email in ["fresh@example.com", &other.email] {
        assert_eq!(try_password(&guesser, email, PASSWORD).await.status, 429);
    }
    // After a quarter of an hour.
    execute(
        server,
        "UPDATE sign_in_failures SET failed_at = '[1,2,3,4,5,6,7,8,9,10,11]'",
    )
    .await;
    assert_eq!(
        try_password(&guesser, &owner.email, PASSWORD).await.status,
        303
    );
}

/// A page without the parts that differ each time.
fn same(page: &VisitedPage, email: &str) -> String {
    let token = page.form(SIGN_IN).value("_token").unwrap().to_owned();
    page.html.replace(&token, "").replace(email, "")
}

#[rstest]
#[actix_web::test]
async fn of_many_at_the_same_moment_ten_are_looked_at(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let owner = owner(&world).await;
    let browser = owner.browser.another();
    let form = browser.open(SIGN_IN).await.form(SIGN_IN);
    let form = form
        .set("email", &owner.email)
        .set("password", "not the password");
    let crowd = (0..25).map(|_| browser.post(&form));
    let statuses: Vec<u16> = futures_util::future::join_all(crowd)
        .await
        .iter()
        .map(|page| page.status)
        .collect();
    let count = |status: u16| statuses.iter().filter(|it| **it == status).count();
    assert_eq!((count(422), count(429)), (10, 15), "{statuses:?}");
}

/// Guesses from many networks, more than can be checked. Unchecked attempts do not count as failures, and the real
/// person may be among them.
#[actix_web::test]
async fn what_was_not_looked_at_in_a_storm_is_no_failure() {
    let setup = WorldSetup::new().set("http.trusted_proxies", "127.0.0.1");
    let world = world!(Sqlite, setup);
    let browser = Visitor::new(&world.server.http);
    let form = browser.open(SIGN_IN).await.form(SIGN_IN);
    let form = form.set("password", "not the password");
    let cookie = browser.cookies()["dikala"].clone();
    let storm = (0..900).map(async |n| {
        let from = format!("10.0.{}.{}", n / 250, n % 250);
        // A separate browser, so that attempts do not share a connection.
        let guesser = browser.another().with("x-forwarded-for", &from);
        guesser.set_cookie("dikala", &cookie);
        let email = format!("guess{n}@example.com");
        let form = form.clone().set("email", &email);
        guesser.post(&form).await.status
    });
    // Calls are served meanwhile.
    let bridge = world.tenant.bridge(Socket).await;
    let calls = async {
        for _ in 0..20 {
            let call = bridge.talk(&world.tenant.did).await;
            bridge.hang_up(&call).await;
        }
    };
    let storm = futures_util::future::join_all(storm);
    let (statuses, ()) = futures_util::future::join(storm, calls).await;
    let count = |status: u16| statuses.iter().filter(|it| **it == status).count();
    let (looked_at, sent_away) = (count(422), count(503));
    assert_eq!(looked_at + sent_away, statuses.len(), "{statuses:?}");
    assert!(looked_at > 0 && sent_away > 0, "{statuses:?}");
    let failed =
        "SELECT failed_at FROM sign_in_failures WHERE subject LIKE 'email:%' AND failed_at <> '[]'";
    let failed = world.server.installation.store.rows::<1>(failed).await;
    assert_eq!(failed.len(), looked_at);
}

/// The same statements are sent, in number and text, whether the person exists, has a password, or not.
#[actix_web::test]
async fn the_same_work_is_done_for_an_address_that_is_nobodys() {
    let world = world!(Postgres);
    let owner = owner(&world).await;
    create(
        &world.server,
        &world.tenant.id,
        "invited@example.com",
        "viewer",
    );
    let log = world.server.installation.log();
    let about_people = || -> Vec<String> {
        let log = fs::read_to_string(&log).unwrap();
        log.lines()
            .filter(|line| line.contains("sqlx::query"))
            .filter(|line| {
                ["sign_in_failures", "users", "sessions"]
                    .iter()
                    .any(|table| line.contains(table))
            })
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .map(|line| line["summary"].to_string())
            .collect()
    };
    let browser = owner.browser.another();
    let form = browser
        .open(SIGN_IN)
        .await
        .form(SIGN_IN)
        .set("password", "not the password");
    let mut work = Vec::new();
    for email in [
        owner.email.as_str(),
        "nobody@example.com",
        "invited@example.com",
        "no address",
    ] {
        // Run once before, so that the counting rows exist.
        for _ in 0..2 {
            let before = about_people().len();
            assert_eq!(
                browser.post(&form.clone().set("email", email)).await.status,
                422
            );
            work.push(about_people().split_off(before));
        }
    }
    assert!(work[0].len() >= 4, "{work:?}");
    assert!(work.iter().all(|each| *each == work[0]), "{work:#?}");
}

#[rstest]
#[actix_web::test]
async fn what_is_typed_is_kept_but_for_the_password(#[values(Sqlite)] store: StoreKind) {
    let world = world!(store);
    let browser = Visitor::new(&world.server.http);
    let form = browser.open(SIGN_IN).await.form(SIGN_IN);
    let empty = browser.submit(&form).await;
    assert_eq!(empty.status, 422);
    for words in ["Email: This is required.", "Password: This is required."] {
        empty.assert_shows(words);
    }
    let wrong = try_password(&browser, "<b>\"sari\"@example.com", "not the password").await;
    assert_eq!(
        wrong.form(SIGN_IN).value("email"),
        Some("<b>\"sari\"@example.com")
    );
    wrong.assert_hides("not the password");
    wrong.assert_hides("<b>");
    let log = world.server.log();
    assert!(
        !log.contains("not the password") && !log.contains("sari"),
        "nothing typed is logged"
    );
}
