//! Refused requests: posts from other sites, from outdated pages and by viewers, and other tenants' ids.

use super::*;
use crate::support::visitor::HtmlForm;

async fn key_names(somebody: &BrowsingPerson) -> String {
    somebody.browser.open(KEYS).await.text()
}

#[actix_web::test]
async fn posts_of_other_places_change_nothing() {
    let world = shared_world!(Postgres);
    let owner = owner(&world).await;
    let form = owner
        .browser
        .open(KEYS)
        .await
        .form(KEYS)
        .set("name", "planted");
    let from = |origin: Option<&str>| {
        let mut browser = owner.browser.clone();
        browser.origin = origin.map(str::to_owned);
        browser
    };
    let own = world.server.http.as_str();
    let port = own.rsplit(':').next().unwrap();
    let elsewhere = [
        from(Some("https://evil.example")),
        from(Some("null")),
        from(Some(&format!("http://localhost:{port}"))),
        from(Some(&format!("http://127.0.0.1.evil.example:{port}"))),
        from(None),
        from(None).with("sec-fetch-site", "cross-site"),
        from(None).with("sec-fetch-site", "same-site"),
        from(None).with("sec-fetch-site", "none"),
        from(Some(own)).with("sec-fetch-site", "cross-site"),
        from(Some("https://evil.example")).with("sec-fetch-site", "same-origin"),
    ];
    for browser in &elsewhere {
        let page = browser.post(&form).await;
        assert_eq!(page.status, 403, "{:?}", browser.origin);
        page.assert_shows("Nothing was changed.");
    }
    let stranger = Visitor::new(own);
    let foreign_token = stranger
        .open(SIGN_IN)
        .await
        .form(SIGN_IN)
        .value("_token")
        .unwrap()
        .to_owned();
    let forged: [HtmlForm; 4] = [
        form.clone().without("_token"),
        form.clone().set("_token", ""),
        form.clone().set("_token", "AAAA"),
        form.clone().set("_token", &foreign_token),
    ];
    for form in &forged {
        assert_eq!(owner.browser.post(form).await.status, 403, "{form:?}");
    }
    assert!(!key_names(&owner).await.contains("planted"));
    // Signing a victim in to the attacker's account (login CSRF) is refused as well.
    let sign_in = stranger
        .open(SIGN_IN)
        .await
        .form(SIGN_IN)
        .set("email", &owner.email)
        .set("password", PASSWORD);
    assert_eq!(
        stranger
            .post(&sign_in.clone().without("_token"))
            .await
            .status,
        422
    );
    assert!(!is_in(&stranger).await);
    let mut evil = stranger.clone();
    evil.origin = Some("https://evil.example".to_owned());
    assert_eq!(evil.post(&sign_in).await.status, 403);
    assert!(!is_in(&stranger).await);

    // The page's own post is accepted, even if the browser sends only one of the two headers.
    let browser = from(None).with("sec-fetch-site", "same-origin");
    assert_eq!(browser.post(&form).await.status, 303);
    assert!(key_names(&owner).await.contains("planted"));
}

/// A browser sends no cookie with another site's post. A new one would replace the session's and sign the person out.
#[actix_web::test]
async fn posts_of_other_sites_get_no_cookie() {
    // Without a token the console has no sessions.
    let guarded = WorldSetup::new().set("operator.token", "the-full-token-0001");
    let world = world!(Sqlite, guarded);
    let server = &world.server;
    for (base, sign_in) in [(&server.http, SIGN_IN), (&server.operator, "/sign-in")] {
        let form = Visitor::new(base).open(sign_in).await.form(sign_in);
        for action in [sign_in, &sign_in.replace("-in", "-out"), "/nothing"] {
            let mut browser = Visitor::new(base);
            browser.origin = Some("https://evil.example".to_owned());
            let form = HtmlForm {
                action: action.to_owned(),
                ..form.clone()
            };
            for site in ["cross-site", "same-site", "same-origin"] {
                let browser = browser.clone().with("sec-fetch-site", site);
                browser.post(&form).await;
                assert!(browser.cookies().is_empty(), "{base}{action} {site}");
            }
        }
        // The page after the service's own form has a form, which is bound to a cookie.
        let browser = Visitor::new(base);
        browser.post(&form).await;
        assert_eq!(browser.cookies().len(), 1, "{base}");
    }
}

#[rstest]
#[actix_web::test]
async fn a_sign_in_form_of_another_tab_is_shown_again_without_its_password(
    #[values(Sqlite)] store: StoreKind,
) {
    let world = shared_world!(store);
    let owner = owner(&world).await;
    let (browser, other) = (owner.browser.another(), owner.browser.another());
    let first = browser.open(SIGN_IN).await.form(SIGN_IN);
    // A tab that was opened at the same time got another cookie, which stays.
    other.open(SIGN_IN).await;
    browser.set_cookie("dikala", &other.cookies()["dikala"]);
    let typed = |form: HtmlForm| form.set("email", &owner.email).set("password", PASSWORD);
    let page = browser.post(&typed(first)).await;
    assert_eq!(page.status, 422);
    page.assert_hides(PASSWORD);
    assert!(!is_in(&browser).await);
    let again = page.form(SIGN_IN);
    assert_eq!(again.value("email"), Some(&*owner.email));
    assert_eq!(browser.post(&typed(again)).await.status, 303);
    assert!(is_in(&browser).await);
}

#[rstest]
#[actix_web::test]
async fn a_form_of_an_earlier_session_is_kept(#[values(Sqlite)] store: StoreKind) {
    let world = shared_world!(store);
    let owner = owner(&world).await;
    let old = owner
        .browser
        .open(KEYS)
        .await
        .form(KEYS)
        .set("name", "planted");
    // In another tab.
    let tab = owner.browser.clone();
    let out = tab.open("/dashboard").await.form("/dashboard/sign-out");
    tab.submit(&out).await;
    assert_eq!(owner.browser.post(&old).await.status, 303);
    let text = "planted ".repeat(5_000);
    let long = old.clone().set("name", &text);
    let page = owner.browser.post(&long).await;
    assert_eq!(page.status, 403);
    page.assert_shows("You are signed out");
    let kept = page.form(KEYS);
    assert_eq!(kept.value("name"), Some(&*text));
    assert_eq!(try_password(&tab, &owner.email, PASSWORD).await.status, 303);
    for form in [old, kept] {
        let page = owner.browser.post(&form).await;
        assert_eq!(page.status, 403);
        page.assert_shows("This form is out of date");
        assert!(!key_names(&owner).await.contains("planted"));
        let again = page.form(KEYS).set("name", "sent again");
        assert_eq!(owner.browser.post(&again).await.status, 303);
        assert!(key_names(&owner).await.contains("sent again"));
    }
}

#[rstest]
#[actix_web::test]
async fn passwords_are_in_no_form_that_is_kept(#[values(Sqlite)] store: StoreKind) {
    let world = shared_world!(store);
    let owner = owner(&world).await;
    let path = format!("{ACCOUNT}/password");
    let form = owner.browser.open(&path).await.form(&path);
    let form = form.set("current_password", PASSWORD).without("_token");
    let page = owner.browser.post(&form).await;
    assert_eq!(page.status, 403);
    page.assert_hides(PASSWORD);
}

#[rstest]
#[actix_web::test]
async fn two_who_change_the_same_do_not_overwrite_each_other(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = shared_world!(store);
    let (browser, other) = (owner(&world).await.browser, owner(&world).await.browser);
    let tenant = &world.tenant;
    tenant
        .create_function("check", "POST", &world.receiver.url("/f"))
        .await;
    let webhooks = tenant.api.get("/webhooks").await.expect(200);
    let webhook = text(&webhooks["webhooks"][0], "id");
    let agent = format!("/dashboard/agents/{}", tenant.agent);
    for (path, field, texts) in [
        (agent.clone(), "greetingText", ["One", "Two"]),
        (
            format!("{agent}/functions/check"),
            "description",
            ["One", "Two"],
        ),
        (
            format!("/dashboard/webhooks/{webhook}"),
            "url",
            ["https://example.com/1", "https://example.com/2"],
        ),
    ] {
        let mine = browser.open(&path).await.form(&path);
        let theirs = other.open(&path).await.form(&path);
        // One's own changes, in another tab, are no reason to ask.
        for _ in 0..2 {
            let theirs = theirs.clone().set(field, texts[1]);
            assert_eq!(other.post(&theirs).await.status, 303, "{path}");
        }
        let mine = mine.set(field, texts[0]);
        let page = browser.post(&mine).await;
        assert_eq!(page.status, 422, "{path}");
        page.assert_shows("Somebody else saved changes here");
        let shown = browser.open(&path).await.form(&path);
        assert_eq!(shown.value(field), Some(texts[1]));

        let again = page.form(&path);
        assert_eq!(again.value(field), Some(texts[0]));
        assert_eq!(browser.post(&again).await.status, 303, "{path}");
        let shown = browser.open(&path).await.form(&path);
        assert_eq!(shown.value(field), Some(texts[0]));
    }
}

#[rstest]
#[actix_web::test]
async fn what_is_no_form_is_not_read(#[values(Sqlite)] store: StoreKind) {
    let world = shared_world!(store);
    let owner = owner(&world).await;
    let form = owner.browser.open(KEYS).await.form(KEYS);
    let json = owner
        .browser
        .clone()
        .with("content-type", "application/json");
    // The later of two equal headers is the browser's own.
    let long = form.clone().set("name", &"x".repeat(800_000));
    let page = owner.browser.post(&long).await;
    assert_eq!(page.status, 413);
    page.assert_shows("768 KiB");
    let stranger = Visitor::new(&world.server.http);
    let sign_in = stranger.open(SIGN_IN).await.form(SIGN_IN);
    let long = sign_in.set("password", &"x".repeat(20_000));
    assert_eq!(stranger.post(&long).await.status, 413);
    let answer = Rest::new(&world.server.http)
        .with("origin", &world.server.http)
        .with("cookie", &format!("dikala={}", json.cookies()["dikala"]))
        .post(
            KEYS,
            json!({"name": "planted", "_token": form.value("_token")}),
        )
        .await;
    assert_eq!(answer.status, 415);
    let nothing = Rest::new(&world.server.http)
        .with("origin", &world.server.http)
        .with("cookie", &format!("dikala={}", json.cookies()["dikala"]))
        .send(awc::http::Method::POST, KEYS, None)
        .await;
    assert_eq!(nothing.status, 403, "nothing typed, no token");
    assert!(!key_names(&owner).await.contains("planted"));
}

#[actix_web::test]
async fn a_viewer_sees_everything_but_secrets_and_changes_nothing() {
    let world = shared_world!(Postgres);
    let (server, tenant) = (&world.server, &world.tenant.id);
    let owner = owner(&world).await;
    let viewer = somebody(server, tenant, &fresh_email("viewer"), "viewer").await;
    let token = viewer
        .browser
        .open("/dashboard")
        .await
        .form("/dashboard/sign-out");
    let token = token.value("_token").unwrap().to_owned();
    let key = server.cli(&["key", "list", "--tenant", tenant])["keys"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    for path in [
        "/dashboard",
        KEYS,
        &format!("{KEYS}/{key}"),
        MEMBERS,
        SECRET_PAGE,
        ACCOUNT,
    ] {
        let page = viewer.browser.open(path).await;
        assert_eq!(page.status, 200, "{path}");
        let own = ["/dashboard/sign-out", ACCOUNT];
        let others = page
            .forms()
            .into_iter()
            .filter(|form| !own.iter().any(|it| form.action.starts_with(it)));
        assert_eq!(others.count(), 0, "{path} offers what is refused");
        assert!(
            !page
                .links()
                .iter()
                .any(|link| link.ends_with("/revoke") || link.ends_with("/rotate")),
            "{path}"
        );
    }
    let secret = text(
        &server.cli(&["function-secret", "show", "--tenant", tenant]),
        "secret",
    );
    let before = server.cli(&["user", "list", "--tenant", tenant]);
    for path in [
        KEYS.to_owned(),
        format!("{KEYS}/{key}/revoke"),
        MEMBERS.to_owned(),
        format!("{MEMBERS}/{}/role", viewer.id),
        format!("{MEMBERS}/{}/link", owner.id),
        format!("{MEMBERS}/{}/remove", owner.id),
        format!("{SECRET_PAGE}/show"),
        format!("{SECRET_PAGE}/rotate"),
    ] {
        let fields = [
            ("_token", token.as_str()),
            ("name", "planted"),
            ("email", "planted@example.com"),
            ("role", "owner"),
            ("password", PASSWORD),
        ];
        let form = HtmlForm {
            action: path.clone(),
            method: "post".to_owned(),
            fields: fields
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .to_vec(),
        };
        let page = viewer.browser.post(&form).await;
        assert_eq!(page.status, 403, "{path}");
        page.assert_shows("Your role is viewer");
    }
    for path in [
        format!("{KEYS}/{key}/revoke"),
        format!("{MEMBERS}/{}/remove", owner.id),
        format!("{SECRET_PAGE}/rotate"),
    ] {
        assert_eq!(viewer.browser.open(&path).await.status, 403, "{path}");
    }
    assert_eq!(server.cli(&["user", "list", "--tenant", tenant]), before);
    assert_eq!(
        text(
            &server.cli(&["function-secret", "show", "--tenant", tenant]),
            "secret"
        ),
        secret
    );
    assert!(!key_names(&owner).await.contains("planted"));
    // A viewer may change the own account.
    let name = viewer
        .browser
        .fill(ACCOUNT, ACCOUNT, &[("name", "Budi")])
        .await;
    name.assert_shows("Saved.");
}

#[actix_web::test]
async fn ids_of_others_are_as_if_they_never_were() {
    let world = shared_world!(Postgres);
    let server = &world.server;
    let owner = owner(&world).await;
    let other = world.another_tenant(0).await;
    let stranger = somebody(server, &other.id, &fresh_email("stranger"), "owner").await;
    let invited = text(
        &create(server, &other.id, &fresh_email("invited"), "viewer"),
        "id",
    );
    let keys = server.cli(&["key", "list", "--tenant", &other.id]);
    let key = text(&keys["keys"][0], "id");
    let token = owner
        .browser
        .open("/dashboard")
        .await
        .form("/dashboard/sign-out");
    let token = token.value("_token").unwrap();
    let never = [
        "key_01k9zv3m8rj2q4w6y8a0c2e4g6",
        "user_01k9zv3m8rj2q4w6y8a0c2e4g6",
        "nonsense",
    ];
    let mut answers = Vec::new();
    for (key, user) in [
        (&*key, &*stranger.id),
        (&key, &invited),
        (never[0], never[1]),
        (never[2], never[2]),
    ] {
        let mut statuses = Vec::new();
        for path in [
            format!("{KEYS}/{key}"),
            format!("{KEYS}/{key}/revoke"),
            format!("{MEMBERS}/{user}/remove"),
        ] {
            let page = owner.browser.open(&path).await;
            statuses.push((page.status, page.text().replace(key, "").replace(user, "")));
        }
        for path in [
            format!("{KEYS}/{key}/revoke"),
            format!("{MEMBERS}/{user}/role"),
            format!("{MEMBERS}/{user}/link"),
            format!("{MEMBERS}/{user}/remove"),
        ] {
            let form = HtmlForm {
                action: path,
                method: "post".to_owned(),
                fields: vec![
                    ("_token".to_owned(), token.to_owned()),
                    ("role".to_owned(), "viewer".to_owned()),
                ],
            };
            let page = owner.browser.post(&form).await;
            statuses.push((page.status, page.text()));
        }
        assert!(
            statuses.iter().all(|(status, _)| *status == 404),
            "{statuses:?}"
        );
        answers.push(statuses);
    }
    assert!(
        answers.iter().all(|each| *each == answers[0]),
        "{answers:#?}"
    );
    assert_eq!(server.cli(&["key", "list", "--tenant", &other.id]), keys);
    let people = server.cli(&["user", "list", "--tenant", &other.id]);
    assert_eq!(people["users"].as_array().unwrap().len(), 2);
    assert!(is_in(&stranger.browser).await);
    for path in ["/dashboard", KEYS, MEMBERS, ACCOUNT] {
        owner.browser.open(path).await.assert_hides("stranger");
    }
}

/// Every page with an id in its path, from the table of pages: method, and path with `{…}`.
fn pages_of_one_thing() -> Vec<(&'static str, &'static str)> {
    let table = include_str!("../../../src/dashboard/mod.rs").lines();
    let pages: Vec<_> = table
        .filter_map(|line| {
            let (method, rest) = line.trim().split_once("(\"/")?;
            let method = ["get", "post"].into_iter().find(|it| *it == method)?;
            Some((method, rest.split('"').next()?))
        })
        .filter(|(_, path)| path.contains('{') && !path.starts_with("link/"))
        .collect();
    assert!(pages.len() > 40, "{pages:?}");
    pages
}

/// A tenant's things, by the prefix of their pages' paths.
struct Things([(&'static str, String); 9]);

impl Things {
    /// The path with the ids filled in.
    fn address(&self, path: &str) -> String {
        let of = |(begin, _): &&(&str, String)| path.starts_with(*begin);
        let (_, id) = self.0.iter().find(of).unwrap_or_else(|| panic!("{path}"));
        let path = path.replacen("{id}", id, 1).replace("{name}", "find_order");
        assert!(!path.contains('{'), "{path}");
        format!("/dashboard/{path}")
    }

    fn never() -> Self {
        let never = |prefix: &str| format!("{prefix}_01k9zv3m8rj2q4w6y8a0c2e4g6");
        Self([
            ("calls/", never("call")),
            ("agents/", never("agent")),
            ("numbers/", never("pn")),
            ("webhooks/", never("wh")),
            ("deliveries/", never("dlv")),
            ("settings/members/", never("user")),
            ("settings/keys/", never("key")),
            ("chats/", never("chat")),
            ("widgets/", never("wgt")),
        ])
    }

    fn without_ids(&self, text: &str) -> String {
        let ids = self.0.iter().map(|(_, id)| id);
        ids.fold(text.to_owned(), |text, id| text.replace(id, "…"))
    }
}

/// Everything of a tenant that could have been changed.
async fn state(
    world: &TestWorld,
    tenant: &crate::support::tenant::Tenant,
    things: &Things,
) -> Vec<Value> {
    let mut state = vec![world.server.cli(&["user", "list", "--tenant", &tenant.id])];
    let keys = world.server.cli(&["key", "list", "--tenant", &tenant.id]);
    state.push(keys["keys"][0]["revokedAt"].clone());
    let ids: Vec<&str> = things.0.iter().map(|(_, id)| id.as_str()).collect();
    for path in [
        "/agents".to_owned(),
        format!("/agents/{}/functions", ids[1]),
        "/phone-numbers".to_owned(),
        "/webhooks".to_owned(),
        "/widgets".to_owned(),
        format!("/webhooks/{}/deliveries", ids[3]),
        format!("/calls/{}", ids[0]),
    ] {
        state.push(tenant.api.get(&path).await.expect(200));
    }
    state
}

#[actix_web::test]
async fn no_page_shows_or_changes_what_is_anothers() {
    let world = shared_world!(Postgres);
    let (server, receiver) = (&world.server, &world.receiver);
    let owner = owner(&world).await;
    let other = world.another_tenant(10).await;
    let stranger = somebody(server, &other.id, &fresh_email("stranger"), "owner").await;
    other
        .create_function("find_order", "POST", &receiver.url("/function"))
        .await;
    let webhook = other
        .subscribe(&receiver.url("/theirs"), &["call.started"], SECRET)
        .await;
    let bridge = other.bridge(Socket).await;
    let call = bridge.talk(&other.did).await;
    receiver.wait_for("/theirs", 1).await;
    let delivery = eventually("a delivery that is recorded", async || {
        let path = format!("/webhooks/{webhook}/deliveries?status=succeeded");
        let page = other.api.get(&path).await.expect(200);
        page["deliveries"][0]["id"].as_str().map(str::to_owned)
    })
    .await;
    let widget =
        json!({"name": "Theirs", "agentId": other.agent, "origins": ["https://example.com"]});
    let widget = other.api.post("/widgets", widget).await.expect(201);
    let keys = server.cli(&["key", "list", "--tenant", &other.id]);
    let chat = "chat_01k9zv3m8rj2q4w6y8a0c2e4g7";
    let begun = format!(
        "INSERT INTO chats (id, tenant_id, agent_id, settings, is_draft, turns, messages, cost, created_at, expires_at) VALUES \
         ('{chat}', '{}', '{}', '{{}}', false, '[]', 0, 0, 1, 9000000000000)",
        other.id, other.agent
    );
    execute(server, &begun).await;
    let theirs = Things([
        ("calls/", call),
        ("agents/", other.agent.clone()),
        ("numbers/", other.number.clone()),
        ("webhooks/", webhook),
        ("deliveries/", delivery),
        ("settings/members/", stranger.id.clone()),
        ("settings/keys/", text(&keys["keys"][0], "id")),
        ("chats/", chat.to_owned()),
        ("widgets/", text(&widget, "id")),
    ]);
    let never = Things::never();
    let before = state(&world, &other, &theirs).await;
    let own = owner.browser.open("/dashboard").await;
    let token = own.form("/dashboard/sign-out");
    let token = token.value("_token").unwrap();
    for (method, path) in pages_of_one_thing() {
        let mut answers = Vec::new();
        for things in [&theirs, &never] {
            let address = things.address(path);
            let page = if method == "get" {
                owner.browser.open(&address).await
            } else {
                let fields = [
                    ("_token", token),
                    ("name", "Taken"),
                    ("systemPrompt", "Taken"),
                    ("language", "id"),
                    ("voiceId", "Kore"),
                    ("description", "Taken"),
                    ("endpoint", "http://127.0.0.1:9/"),
                    ("url", "http://127.0.0.1:9/"),
                    ("role", "viewer"),
                    ("to", "+6281200000000"),
                    ("since", "2026-01-01T00:00"),
                ];
                let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
                let form = HtmlForm {
                    action: address,
                    method: method.to_owned(),
                    fields: fields.to_vec(),
                };
                owner.browser.post(&form).await
            };
            assert_eq!(page.status, 404, "{method} {path}: {}", page.text());
            answers.push(things.without_ids(&page.text()));
        }
        assert_eq!(answers[0], answers[1], "{method} {path}");
    }
    assert_eq!(state(&world, &other, &theirs).await, before);
    assert!(is_in(&stranger.browser).await);
}
