//! The audit log's page and file.

use super::*;

const AUDIT: &str = "/dashboard/audit";
const FILE: &str = "/dashboard/audit.csv";

#[rstest]
#[actix_web::test]
async fn who_changed_what_is_shown_filtered_and_taken_away(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let owner = owner(&world).await;
    let browser = &owner.browser;
    // Changes on a page, with a key, and by the operator.
    let new = "/dashboard/webhooks/new";
    let form = browser
        .open(new)
        .await
        .form(new)
        .set("url", &world.receiver.url("/mine"));
    browser.submit(&form).await.assert_shows("Webhook created.");
    world.tenant.change_agent(json!({"name": "Dewi"})).await;
    let page = browser.open(AUDIT).await;
    for words in [
        "Webhook created",
        "Agent changed",
        "owner",
        "Key: test",
        "127.0.0.1",
        "Operator, at the command line",
    ] {
        page.assert_shows(words);
    }

    let by_me = browser
        .open(&format!("{AUDIT}?actor={}&action=&from=&to=", owner.id))
        .await;
    by_me.assert_shows("Webhook created");
    assert!(by_me.html.matches("<time ").count() < page.html.matches("<time ").count());
    let agents = browser.open(&format!("{AUDIT}?action=agent.update")).await;
    assert!(
        agents
            .html
            .contains("option value=\"agent.update\" selected")
    );
    assert!(
        !agents.html.contains("/dashboard/webhooks/wh_"),
        "{}",
        agents.text()
    );
    let never = browser.open(&format!("{AUDIT}?to=2020-01-01")).await;
    never.assert_shows("No entries");
    let today = &Moment::now().text()[..10];
    let lately = browser
        .open(&format!("{AUDIT}?from={today}T00:00:00Z"))
        .await;
    lately.assert_shows("Webhook created");
    for (wrong, field) in [
        ("actor=nobody", "actor"),
        ("action=x.y", "action"),
        ("from=soon", "from"),
    ] {
        let page = browser.open(&format!("{AUDIT}?{wrong}")).await;
        assert_eq!(page.status, 422, "{wrong}");
        assert_eq!(page.input(field)["aria-invalid"], "true");
        assert_eq!(
            browser.open(&format!("{FILE}?{wrong}")).await.status,
            422,
            "{wrong}"
        );
    }

    let file = browser.open(&format!("{FILE}?action=webhook.create")).await;
    assert_eq!(
        (file.status, file.header("content-type")),
        (200, Some("text/csv; charset=utf-8"))
    );
    let lines: Vec<&str> = file.html.lines().collect();
    assert_eq!(lines.len(), 1 + 2, "{}", file.html);
    assert!(
        lines[0].starts_with("id,at,actor,name,action,target,"),
        "{}",
        lines[0]
    );
    assert!(
        lines[1].contains(&format!(",{},owner,webhook.create,wh_", owner.id)),
        "{}",
        lines[1]
    );
}

#[rstest]
#[actix_web::test]
async fn the_audit_has_pages_and_nothing_of_others(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let owner = owner(&world).await;
    for n in 0..50 {
        world
            .tenant
            .change_agent(json!({"name": format!("Name {n}")}))
            .await;
    }
    let filter = format!("{AUDIT}?action=agent.update");
    let first = owner.browser.open(&filter).await;
    assert!(first.html.len() < 64 * 1024, "{}", first.html.len());
    let older = first
        .links()
        .into_iter()
        .find(|link| link.contains("before="))
        .unwrap();
    assert!(older.contains("action=agent.update"), "{older}");
    let second = owner.browser.open(&older).await;
    let entries = |page: &crate::support::visitor::VisitedPage| page.html.matches("<time ").count();
    assert_eq!(entries(&first) + entries(&second), 50);
    assert!(
        second.links().contains(&filter),
        "back to the newest: {:?}",
        second.links()
    );

    let other = world.another_tenant(0).await;
    let stranger = somebody(&world.server, &other.id, "stranger@example.com", "owner").await;
    let before = older.split("before=").nth(1).unwrap();
    let page = stranger
        .browser
        .open(&format!("{AUDIT}?before={before}"))
        .await;
    page.assert_shows("No entries");
    let all = stranger.browser.open(AUDIT).await;
    all.assert_hides(&world.tenant.agent);
    stranger
        .browser
        .open(FILE)
        .await
        .assert_hides(&world.tenant.agent);
    let as_theirs = stranger
        .browser
        .open(&format!("{AUDIT}?actor={}", owner.id))
        .await;
    as_theirs.assert_shows("No entries");
    as_theirs.assert_hides(&owner.email);
    let viewer = somebody(
        &world.server,
        &world.tenant.id,
        "viewer@example.com",
        "viewer",
    )
    .await;
    viewer
        .browser
        .open(AUDIT)
        .await
        .assert_shows("Agent changed");
}

/// The entries about people, oldest first: author, action and detail. The owner is shown as such, others as in the
/// log.
async fn of_people(somebody: &BrowsingPerson) -> Vec<String> {
    let file = somebody.browser.open(FILE).await;
    let mut lines: Vec<String> = file.html.lines().skip(1).map(str::to_owned).collect();
    lines.reverse();
    let of_people = lines.into_iter().filter_map(|line| {
        let (before, after) = line.split_once(",user.")?;
        let who = before.split(',').nth(2)?.replace(&somebody.id, "owner");
        let mut after = after.splitn(3, ',');
        let (action, _, rest) = (after.next()?, after.next()?, after.next()?);
        let detail = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split('"').next()?,
            None => rest.split(',').next()?,
        };
        Some(format!("{who}: {action} {detail}").trim_end().to_owned())
    });
    of_people.collect()
}

#[rstest]
#[actix_web::test]
async fn what_becomes_of_people_is_told_whoever_does_it(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let (server, tenant) = (&world.server, &world.tenant.id);
    let owner = owner(&world).await;
    let browser = &owner.browser;
    let form = browser.open(MEMBERS).await.form(MEMBERS);
    let sari = form.set("email", "sari@example.com").set("name", "Sari");
    browser.submit(&sari.set("role", "viewer")).await;
    let people = server.cli(&["user", "list", "--tenant", tenant]);
    let sari = text(&people["users"][1], "id");
    let link = browser.open(MEMBERS).await;
    let link = link.form(&format!("{MEMBERS}/{sari}/link"));
    browser.submit(&link).await;
    let role = browser.open(MEMBERS).await;
    let role = role.form(&format!("{MEMBERS}/{sari}/role"));
    browser.submit(&role.clone().set("role", "owner")).await;
    // A repeated or refused change is no change.
    browser.submit(&role.set("role", "owner")).await;
    let phone = browser.another();
    try_password(&phone, &owner.email, "not the password").await;
    try_password(&phone, &owner.email, PASSWORD).await;
    let out = browser.open(ACCOUNT).await;
    let out = out.form(&format!("{ACCOUNT}/sign-out-everywhere"));
    browser.submit(&out).await;
    try_password(browser, &owner.email, PASSWORD).await;
    let remove = browser.open(&format!("{MEMBERS}/{sari}/remove")).await;
    let remove = remove.form(&format!("{MEMBERS}/{sari}/remove"));
    browser.submit(&remove).await;
    assert_eq!(browser.submit(&remove).await.status, 404);
    let last = server.cli(&["user", "login-link", &owner.id]);
    let last = text(&last, "url");
    assert_eq!(
        of_people(&owner).await,
        [
            "cli: create owner, owner",
            "owner: sign_in link",
            "owner: password",
            "owner: create Sari, viewer",
            "owner: link Sari",
            "owner: role Sari, role=owner",
            "owner: sign_in password",
            "owner: sign_out_everywhere",
            "owner: sign_in password",
            "owner: remove Sari",
            "cli: link owner",
        ]
    );
    let page = browser.open(&format!("{AUDIT}?action=user.sign_in")).await;
    page.assert_shows("Signed in");
    page.assert_shows("127.0.0.1");
    let in_indonesian = browser.clone().with("accept-language", "id");
    let page = in_indonesian.open(AUDIT).await;
    for words in [
        "Anggota ditambahkan",
        "Peran diubah",
        "Kata sandi disetel",
        "Keluar dari semua perangkat",
    ] {
        page.assert_shows(words);
    }
    let store = &server.installation.store;
    let all = store.rows::<1>("SELECT target || detail FROM audit").await;
    let token = last.rsplit('/').next().unwrap();
    assert!(!format!("{all:?}").contains(token));
    assert!(!format!("{all:?}").contains("sari@example.com"));
}

#[rstest]
#[actix_web::test]
async fn a_new_name_of_ones_own_is_kept(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let owner = owner(&world).await;
    let browser = &owner.browser;
    let entries = async || {
        let page = browser.open(&format!("{AUDIT}?action=user.name")).await;
        page.html
            .matches("<tr role=\"row\"")
            .count()
            .saturating_sub(1)
    };
    browser.open(AUDIT).await.assert_hides("Ibu Sari");
    let form = browser.open(ACCOUNT).await.form(ACCOUNT);
    // A new language is no new name.
    let other = form.clone().set("timeZone", "Asia/Makassar");
    browser.submit(&other).await.assert_shows("Saved.");
    browser
        .open(&format!("{AUDIT}?action=user.name"))
        .await
        .assert_shows("No entries");
    for _ in 0..2 {
        let renamed = other.clone().set("name", "Ibu Sari");
        browser.submit(&renamed).await.assert_shows("Saved.");
        assert_eq!(entries().await, 1);
    }
    let page = browser.open(&format!("{AUDIT}?action=user.name")).await;
    for words in ["Name changed", "Ibu Sari", &owner.id] {
        page.assert_shows(words);
    }
}

#[rstest]
#[actix_web::test]
async fn entries_name_what_was_changed(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = shared_world!(store);
    let owner = owner(&world).await;
    let (api, number) = (&world.tenant.api, &world.tenant.number);
    let assign = format!("/phone-numbers/{number}/assign-agent");
    api.post(&assign, json!({"agentId": null}))
        .await
        .expect(200);
    let page = owner.browser.open(AUDIT).await;
    for words in [
        "Phone number unassigned",
        "Phone number assigned",
        &world.tenant.did,
        number,
    ] {
        page.assert_shows(words);
    }
    // The agent that was given the number is named, too.
    let page = owner
        .browser
        .open(&format!("{AUDIT}?action=number.assign"))
        .await;
    page.assert_shows(&format!("Sari ({})", world.tenant.agent));
    page.assert_hides("none");
}
