//! The audit, as its page and its file show it.

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
    // By a page, by a key, and by the operator.
    let new = "/dashboard/webhooks/new";
    let form = browser
        .open(new)
        .await
        .form(new)
        .set("url", &world.receiver.url("/mine"));
    browser
        .submit(&form)
        .await
        .assert_shows("The webhook is made.");
    world.tenant.change_agent(json!({"name": "Dewi"})).await;
    let page = browser.open(AUDIT).await;
    for words in [
        "Webhook made",
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
    by_me.assert_shows("Webhook made");
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
    lately.assert_shows("Webhook made");
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
    for n in 0..60 {
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
    let entries = |page: &crate::support::visitor::Page| page.html.matches("<time ").count();
    assert_eq!(entries(&first) + entries(&second), 60);
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
    as_theirs.assert_hides("owner@example.com");
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
