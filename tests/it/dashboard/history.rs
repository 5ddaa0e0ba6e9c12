//! Templates for a new agent, its versions, and the way back to one.

use super::*;

const NEW_AGENT: &str = "/dashboard/agents/new";

#[actix_web::test]
async fn a_template_fills_in_the_form_in_the_readers_language() {
    let world = shared_world!(Sqlite);
    let owner = owner(&world).await;
    let empty = owner.browser.open(NEW_AGENT).await;
    assert_eq!(empty.form(NEW_AGENT).value("systemPrompt"), Some(""));
    let indonesian = owner.browser.clone().with("accept-language", "id");
    let english = owner.browser.clone().with("accept-language", "en");
    for (browser, label, name, language) in [
        (&english, "Workshop", "Workshop desk", "en"),
        (&indonesian, "Bengkel", "Petugas bengkel", "id"),
    ] {
        let page = browser
            .open(&format!("{NEW_AGENT}?template=workshop"))
            .await;
        page.assert_shows(label);
        let form = page.form(NEW_AGENT);
        assert_eq!(form.value("name"), Some(name));
        assert_eq!(form.value("language"), Some(language));
        assert!(
            form.value("systemPrompt").unwrap().contains("- "),
            "{form:?}"
        );
        let made = browser.submit(&form).await;
        assert_eq!(made.status, 200);
    }
    let unknown = english.open(&format!("{NEW_AGENT}?template=circus")).await;
    assert_eq!(unknown.form(NEW_AGENT).value("name"), Some(""));
}

#[rstest]
#[actix_web::test]
async fn an_earlier_version_is_shown_with_its_author_and_restored(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = shared_world!(store, WorldSetup::new().minutes(10));
    let tenant = &world.tenant;
    let owner = owner(&world).await;
    let path = format!("/dashboard/agents/{}", tenant.agent);
    let form = owner.browser.open(&path).await.form(&path);
    let first = form.value("systemPrompt").unwrap().to_owned();
    let form = form.set("systemPrompt", "Be kind.\nOpen 9 to 17.");
    owner.browser.submit(&form).await;
    let bridge = tenant.bridge(Socket).await;
    let call = bridge.talk(&tenant.did).await;
    bridge.hang_up(&call).await;
    tenant.call_over(&call).await;
    let page = owner.browser.open(&path).await;
    page.assert_shows("100%");
    assert!(
        page.html
            .contains(&format!("/dashboard/calls?agentId={}", tenant.agent))
    );
    let form = page
        .form(&path)
        .set("systemPrompt", "Be kind.\nOpen 9 to 21.");
    owner.browser.submit(&form).await;

    let history = format!("{path}/history");
    let page = owner.browser.open(&history).await;
    for words in [
        "Open 9 to 17.",
        "Open 9 to 21.",
        "one call · 100% answered, functions failed in 0",
        "This is what callers meet now.",
        "owner",
    ] {
        page.assert_shows(words);
    }
    let restore = format!("{path}/restore");
    let forms = page.forms();
    let form = forms.iter().find(|form| form.action == restore);
    let restored = owner
        .browser
        .submit(form.expect("an earlier version"))
        .await;
    restored.assert_shows("as a new version");
    let now = owner.browser.open(&path).await.form(&path);
    assert_eq!(now.value("systemPrompt"), Some("Be kind.\nOpen 9 to 17."));
    assert_ne!(now.value("systemPrompt"), Some(&*first));
    let version = |agent: &Value| agent["agentVersion"].as_i64().unwrap();
    let agent = tenant
        .api
        .get(&format!("/agents/{}", tenant.agent))
        .await
        .expect(200);
    assert_eq!(version(&agent), 4, "{agent}");
    // A viewer reads, and restores nothing.
    let email = fresh_email("viewer");
    let viewer = somebody(&world.server, &tenant.id, &email, "viewer").await;
    let page = viewer.browser.open(&history).await;
    assert!(page.forms().iter().all(|form| form.action != restore));
    let refused = viewer.browser.post(&bare(&page, &restore)).await;
    assert_eq!(refused.status, 403);
}
