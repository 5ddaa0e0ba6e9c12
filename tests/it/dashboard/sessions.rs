//! The binding and the end of sessions.

use futures_util::future::join;
use sea_orm::TransactionTrait;

use super::*;

#[actix_web::test]
async fn a_session_is_new_at_every_sign_in() {
    let world = shared_world!(Postgres);
    let owner = owner(&world).await;
    let first = owner.browser.cookies()["dikala"].clone();
    // An attacker planted a cookie: a well-formed one, and one with a session.
    let planted = Visitor::new(&world.server.http);
    planted.fetch(SIGN_IN).await;
    let known = planted.cookies()["dikala"].clone();
    assert_eq!(
        try_password(&planted, &owner.email, PASSWORD).await.status,
        303
    );
    let attacker = planted.another();
    attacker.set_cookie("dikala", &known);
    assert!(is_in(&planted).await && !is_in(&attacker).await);
    let second = planted.cookies()["dikala"].clone();
    assert!(known != second && first != second);

    // A new session ends the browser's previous one.
    let url = text(&world.server.cli(&["user", "login-link", &owner.id]), "url");
    come_by(&planted, &url).await;
    attacker.set_cookie("dikala", &second);
    assert!(!is_in(&attacker).await);
    assert!(is_in(&owner.browser).await);
    for nonsense in ["", "x", "dks_", "dks_000000000000000000000000000000000000"] {
        attacker.set_cookie("dikala", nonsense);
        assert!(!is_in(&attacker).await, "{nonsense}");
    }
}

#[actix_web::test]
async fn signing_out_here_and_everywhere() {
    let world = shared_world!(Postgres);
    let owner = owner(&world).await;
    let phone = owner.browser.another();
    try_password(&phone, &owner.email, PASSWORD).await;
    let (stolen, tab) = (phone.another(), phone.clone());
    stolen.set_cookie("dikala", &phone.cookies()["dikala"]);
    assert!(is_in(&stolen).await);

    let form = phone.open("/dashboard").await.form("/dashboard/sign-out");
    phone
        .submit(&form)
        .await
        .assert_shows("You are signed out.");
    assert!(!is_in(&phone).await && !is_in(&stolen).await && !is_in(&tab).await);
    assert!(is_in(&owner.browser).await);
    // A form of a page that was open before.
    assert_eq!(phone.post(&form).await.status, 303);

    try_password(&phone, &owner.email, PASSWORD).await;
    let link = text(&world.server.cli(&["user", "login-link", &owner.id]), "url");
    let form = phone
        .open(ACCOUNT)
        .await
        .form(&format!("{ACCOUNT}/sign-out-everywhere"));
    phone
        .submit(&form)
        .await
        .assert_shows("You are signed out.");
    assert!(!is_in(&phone).await && !is_in(&owner.browser).await);
    assert_eq!(
        phone.open(&link).await.status,
        410,
        "links that were not used are taken back"
    );
}

#[rstest]
#[actix_web::test]
async fn another_password_ends_the_other_sessions(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = shared_world!(store);
    let owner = owner(&world).await;
    let phone = owner.browser.another();
    try_password(&phone, &owner.email, PASSWORD).await;
    let form = phone
        .open(ACCOUNT)
        .await
        .form(&format!("{ACCOUNT}/password"));
    let new = "eight yellow teapots";
    for (old, new, words) in [
        ("not the password", new, "This is not your password."),
        ("", new, "This is not your password."),
        (PASSWORD, "teapot", "At least 10 characters."),
    ] {
        let page = phone
            .submit(
                &form
                    .clone()
                    .set("current_password", old)
                    .set("new_password", new),
            )
            .await;
        assert_eq!(page.status, 422);
        page.assert_shows(words);
        page.assert_hides(new);
    }
    assert!(is_in(&owner.browser).await, "nothing happened yet");
    let changed = form
        .set("current_password", PASSWORD)
        .set("new_password", new);
    phone
        .submit(&changed)
        .await
        .assert_shows("Your password is set");
    assert!(is_in(&phone).await && !is_in(&owner.browser).await);
    assert_eq!(
        try_password(&owner.browser, &owner.email, PASSWORD)
            .await
            .status,
        422
    );
    assert_eq!(
        try_password(&owner.browser, &owner.email, new).await.status,
        303
    );
    // After a sign-in with the password, a change needs the old password.
    let page = phone.open("/dashboard/password").await;
    assert_eq!(page.path, ACCOUNT);
}

/// Comparing a password takes a while. Meanwhile it may be changed, and the new session must then not begin.
#[actix_web::test]
async fn who_signs_in_while_another_password_is_set_has_the_wrong_one() {
    let world = world!(Postgres);
    let owner = owner(&world).await;
    let (typed, tab) = (owner.browser.another(), owner.browser.clone());
    let sign_in = typed.open(SIGN_IN).await.form(SIGN_IN);
    let sign_in = sign_in.set("email", &owner.email).set("password", PASSWORD);
    let change = format!("{ACCOUNT}/password");
    let change = tab.open(ACCOUNT).await.form(&change);
    let change = change
        .set("current_password", PASSWORD)
        .set("new_password", "nine yellow teapots");
    let database = &world.server.installation.store;
    let connection = Database::connect(&database.url).await.unwrap();
    let set = async |sql: &str| {
        let held = connection.begin().await.unwrap();
        held.execute_unprepared("SELECT 1 FROM users FOR UPDATE")
            .await
            .unwrap();
        eventually("it compared, and waits", async || {
            let waiting = database.count("pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted AND datname = current_database()").await;
            (waiting > 0).then_some(())
        })
        .await;
        held.execute_unprepared(sql).await.unwrap();
        held.commit().await.unwrap();
    };
    // The stored hash changes, so the typed password is wrong.
    let another = "UPDATE users SET password_hash = password_hash || 'x'";
    let (page, ()) = join(typed.post(&sign_in), set(another)).await;
    assert_eq!(page.status, 422);
    page.assert_hides(PASSWORD);
    assert!(!is_in(&typed).await);
    let before = "UPDATE users SET password_hash = rtrim(password_hash, 'x')";
    database.execute(before).await;
    let (page, ()) = join(tab.post(&change), set(another)).await;
    assert_eq!(page.status, 422);
    page.assert_shows("This is not your password.");

    // A session that ended meanwhile cannot set a password.
    database.execute(before).await;
    let (page, ()) = join(tab.post(&change), set("DELETE FROM sessions")).await;
    assert_eq!(
        (page.status, &*page.path),
        (303, "/dashboard/settings/account/password")
    );
    connection.close().await.unwrap();
    assert_eq!(
        try_password(&typed, &owner.email, PASSWORD).await.status,
        303
    );
}

#[rstest]
#[actix_web::test]
async fn removal_and_suspension_end_sessions_at_once(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = shared_world!(store);
    let (server, tenant) = (&world.server, &world.tenant.id);
    let owner = owner(&world).await;
    let viewer = somebody(server, tenant, &fresh_email("viewer"), "viewer").await;
    let open = viewer.browser.open(ACCOUNT).await.form(ACCOUNT);
    let removed = server.cli(&["user", "remove", &viewer.id]);
    assert_eq!(removed["id"], viewer.id);
    assert!(!is_in(&viewer.browser).await);
    let tab = viewer.browser.submit(&open.set("name", "Still here")).await;
    assert!(tab.path.starts_with(SIGN_IN), "{}", tab.path);
    assert_eq!(
        try_password(&viewer.browser, &viewer.email, PASSWORD)
            .await
            .status,
        422
    );

    let link = text(&server.cli(&["user", "login-link", &owner.id]), "url");
    server.cli(&["tenant", "suspend", tenant]);
    assert!(!is_in(&owner.browser).await);
    let refused = try_password(&owner.browser, &owner.email, PASSWORD).await;
    assert_eq!(refused.status, 403);
    refused.assert_shows("This account is suspended");
    let page = owner.browser.open(&link).await;
    let button = page.form(link.strip_prefix(&server.http).unwrap());
    assert_eq!(owner.browser.submit(&button).await.status, 403);
    server.cli(&["tenant", "resume", tenant]);
    assert!(!is_in(&owner.browser).await, "what ended stays ended");
    assert_eq!(
        owner.browser.submit(&button).await.path,
        "/dashboard/password"
    );
}

#[rstest]
#[actix_web::test]
async fn a_session_ends_by_itself_and_leaves_nothing(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store, WorldSetup::new().set("retention.sweep_seconds", 1));
    let owner = owner(&world).await;
    assert!(is_in(&owner.browser).await);
    // Unused for a minute: the next page extends the session.
    execute(
        &world.server,
        "UPDATE sessions SET used_at = used_at - 3600000, ends_at = ends_at - 3600000",
    )
    .await;
    assert!(is_in(&owner.browser).await);
    let moved = "UPDATE sessions SET ends_at = 1 WHERE ends_at - used_at > 43100000 AND used_at - created_at < 60000";
    execute(&world.server, moved).await;
    assert!(!is_in(&owner.browser).await);
    let db = Database::connect(&world.server.installation.store.url)
        .await
        .unwrap();
    eventually("the sweep", async || {
        let left = "SELECT hash FROM sessions WHERE ends_at = 1";
        let left = sea_orm::Statement::from_string(db.get_database_backend(), left);
        db.query_all_raw(left)
            .await
            .unwrap()
            .is_empty()
            .then_some(())
    })
    .await;
    db.close().await.unwrap();
}

#[rstest]
#[actix_web::test]
async fn cookies_are_for_this_service_alone(#[values(Sqlite)] store: StoreKind) {
    let world = world!(store);
    let owner = owner(&world).await;
    let set =
        |page: &crate::support::visitor::VisitedPage| page.header("set-cookie").unwrap().to_owned();
    let signed_in = set(&try_password(&owner.browser.another(), &owner.email, PASSWORD).await);
    for part in [
        "dikala=dks_",
        "Path=/",
        "HttpOnly",
        "SameSite=Lax",
        "Max-Age=1209600",
    ] {
        assert!(signed_in.contains(part), "{part} is not in {signed_in}");
    }
    assert!(
        !signed_in.contains("Secure") && !signed_in.contains("Domain"),
        "{signed_in}"
    );

    let world = world!(
        store,
        WorldSetup::new().set("http.public_url", "https://voice.example.com/")
    );
    let (server, tenant) = (&world.server, &world.tenant.id);
    let made = create(server, tenant, "sari@example.com", "owner");
    let url = text(&made, "url");
    assert!(
        url.starts_with("https://voice.example.com/dashboard/"),
        "{url}"
    );
    let mut browser = Visitor::new(&server.http);
    browser.origin = Some("https://voice.example.com".to_owned());
    let page = come_by(
        &browser,
        &url.replace("https://voice.example.com", &server.http),
    )
    .await;
    browser
        .submit(&page.form("/dashboard/password").set("password", PASSWORD))
        .await;
    assert!(is_in(&browser).await);
    let other = Visitor::new(&server.http);
    let signed_in = set(&try_password(&other, "sari@example.com", PASSWORD).await);
    assert!(signed_in.starts_with("__Host-dikala=dks_"), "{signed_in}");
    for part in ["Path=/", "HttpOnly", "SameSite=Lax", "Secure"] {
        assert!(signed_in.contains(part), "{part} is not in {signed_in}");
    }
    assert!(!signed_in.contains("Domain"), "{signed_in}");
    // A cookie without the prefix could have been set by another site on the host.
    let plain = Visitor::new(&server.http);
    plain.set_cookie("dikala", &browser.cookies()["__Host-dikala"]);
    assert!(!is_in(&plain).await);
}

/// Like a start of the service after its clock was corrected.
#[rstest]
#[actix_web::test]
async fn what_a_clock_that_was_ahead_let_in_is_out(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let owner = owner(&world).await;
    let server = &world.server;
    let link = text(&server.cli(&["user", "login-link", &owner.id]), "url");
    let ahead = async |ms: i64| {
        for sql in [
            format!(
                "UPDATE sessions SET created_at = created_at + {ms}, used_at = used_at + {ms}, ends_at = ends_at + {ms}"
            ),
            format!(
                "UPDATE login_links SET created_at = created_at + {ms}, expires_at = expires_at + {ms}"
            ),
        ] {
            execute(server, &sql).await;
        }
    };
    // Another node's clock may be a little ahead.
    ahead(60_000).await;
    assert!(is_in(&owner.browser).await);
    assert_eq!(owner.browser.another().open(&link).await.status, 200);
    ahead(24 * 60 * 60 * 1_000).await;
    assert!(!is_in(&owner.browser).await);
    assert_eq!(owner.browser.another().open(&link).await.status, 410);
}
