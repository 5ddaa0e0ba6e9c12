//! Pages without a link, or shown once: before sign-in, refused forms, errors, secrets, and a viewer's pages. They
//! must be accessible as well.

use super::*;

/// Fills in a form by its fields' names, whatever the language, and sends it as its button does, but unchecked by
/// the browser. The old page is gone once its mark is.
const SEND: &str =
    "const form = [...document.forms].find(form => form.getAttribute('action') === arguments[0]);
    for (const [name, value] of arguments[1]) form.elements[name].value = value;
    window.formWasSent = true; form.noValidate = true; form.requestSubmit();";
/// The status of the page that has loaded after a form was sent.
const ARRIVED: &str = "return window.formWasSent || document.readyState !== 'complete' ? null
    : performance.getEntriesByType('navigation')[0].responseStatus";
const PASSWORD: &str = "kopi susu gula aren";

/// A tour of pages with the problems found on them.
struct Round<'a> {
    browser: &'a Browser,
    axe: &'a str,
    base: &'a str,
    faults: Vec<String>,
}

impl Round<'_> {
    /// Checks the page at a path; it must have this status.
    async fn at(&mut self, path: &str, status: u16) {
        self.browser.go(&format!("{}{path}", self.base)).await;
        self.here(path, status).await;
    }

    /// Sends a form of the current page and checks the page that follows.
    async fn send(&mut self, action: &str, fields: &[(&str, &str)], status: u16) {
        self.browser.run_with(SEND, json!([action, fields])).await;
        self.here(&format!("POST {action}"), status).await;
    }

    async fn here(&mut self, what: &str, status: u16) {
        let found = eventually(what, async || self.browser.run(ARRIVED).await.as_u64()).await;
        assert_eq!(
            found,
            u64::from(status),
            "{what}: {}",
            self.browser.text().await
        );
        let faults = barriers(self.browser, self.axe).await;
        // The browser reports the status of refused forms as an error, and that a page asked before an unsaved form was left. Only
        // people are asked.
        let told = format!("the server responded with a status of {status}");
        let is_fault = |fault: &String| !fault.contains(&told) && !fault.contains("'beforeunload'");
        let faults = faults.into_iter().filter(is_fault);
        self.faults
            .extend(faults.map(|fault| format!("{what}: {fault}")));
    }
}

/// The sign-in link of a person whom the operator creates.
fn link_of(world: &TestWorld, email: &str, role: &str) -> String {
    let tenant = &world.tenant.id;
    let made = world.server.cli(&[
        "user", "create", "--tenant", tenant, "--email", email, "--role", role,
    ]);
    let link = made["url"].as_str().unwrap();
    link.split_once("/dashboard").unwrap().1.to_owned()
}

#[rstest]
#[ignore = "keeps a processor busy for minutes, which others measure with; `.ci/slow` runs it"]
#[actix_web::test]
async fn pages_that_no_link_leads_to_are_for_everybody(#[values("en", "id")] language: &str) {
    let Some(browser) = Browser::open(language).await else {
        return;
    };
    let Some(axe) = axe() else { return };
    let Some(mut installation) = Installation::migrated(Sqlite) else {
        return;
    };
    let nowhere = format!("http://127.0.0.1:{}", dikala_testkit::free_port());
    installation.set("telephony.pipeline.llm.url", &nowhere);
    let world = TestWorld::on(installation, WorldSetup::new()).await;
    let mut round = Round {
        browser: &browser,
        axe: &axe,
        base: &world.server.http,
        faults: Vec::new(),
    };
    coming_in(&mut round, &world).await;
    refused(&mut round, &world).await;
    shown_once(&mut round, &world).await;
    round.at("/dashboard/settings/account", 200).await;
    round.send("/dashboard/sign-out", &[], 200).await;
    a_viewer(&mut round, &world).await;
    too_many(&mut round).await;
    assert!(round.faults.is_empty(), "{}", round.faults.join("\n"));
}

/// The pages before sign-in, and the first one after.
async fn coming_in(round: &mut Round<'_>, world: &TestWorld) {
    let link = format!("/dashboard{}", link_of(world, "rina@example.com", "owner"));
    let sign_in = "/dashboard/sign-in";
    round.at(sign_in, 200).await;
    round.send(sign_in, &[], 422).await;
    round
        .send(sign_in, &[("email", "rina"), ("password", "wrong")], 422)
        .await;
    round.at("/dashboard/link/dko_nonsense", 410).await;
    round.at(&link, 200).await;
    round.send(&link, &[], 200).await;
    let password = "/dashboard/password";
    round.send(password, &[("password", "pendek")], 422).await;
    round.send(password, &[("password", PASSWORD)], 200).await;
    round.at(&link, 410).await;
}

/// Refused forms and missing pages.
async fn refused(round: &mut Round<'_>, world: &TestWorld) {
    let agent = format!("/dashboard/agents/{}", world.tenant.agent);
    let function = format!("{agent}/functions/new");
    let number = format!("/dashboard/numbers/{}/assign-agent", world.tenant.number);
    let account = "/dashboard/settings/account";
    let password = format!("{account}/password");
    let show = "/dashboard/settings/function-secret/show";
    for (page, action, fields) in [
        ("/dashboard/agents/new", "/dashboard/agents/new", &[][..]),
        (&agent, &agent, &[("name", ""), ("escalationNumber", "x")]),
        (&function, &function, &[("parameters", "{\n\"a\": x}")]),
        (&number, &number, &[]),
        (
            "/dashboard/webhooks/new",
            "/dashboard/webhooks/new",
            &[("url", "http://x")],
        ),
        ("/dashboard/settings/keys", "/dashboard/settings/keys", &[]),
        (
            "/dashboard/settings/members",
            "/dashboard/settings/members",
            &[("email", "x")],
        ),
        (account, account, &[("name", "")]),
        (account, &password, &[("new_password", "pendek")]),
        (
            "/dashboard/settings/function-secret",
            show,
            &[("password", "wrong")],
        ),
    ] {
        round.browser.go(&format!("{}{page}", round.base)).await;
        // A number without an agent is valid.
        let status = if action == number { 200 } else { 422 };
        round.send(action, fields, status).await;
    }
    for (path, status) in [
        ("/dashboard/nothing", 404),
        ("/dashboard/calls?from=tomorrow", 422),
        ("/dashboard/audit?from=tomorrow", 422),
        ("/dashboard/calls?status=failed&callerNumber=nobody", 200),
    ] {
        round.at(path, status).await;
    }
}

/// The pages that show a new key or secret.
async fn shown_once(round: &mut Round<'_>, world: &TestWorld) {
    let keys = "/dashboard/settings/keys";
    round.browser.go(&format!("{}{keys}", round.base)).await;
    round.send(keys, &[("name", "Kasir")], 200).await;
    let webhook = "/dashboard/webhooks/new";
    round.browser.go(&format!("{}{webhook}", round.base)).await;
    let url = world.receiver.url("/hers");
    round.send(webhook, &[("url", &url)], 200).await;
    let secret = "/dashboard/settings/function-secret";
    round.browser.go(&format!("{}{secret}", round.base)).await;
    round
        .send(&format!("{secret}/show"), &[("password", PASSWORD)], 200)
        .await;
    let chats = format!("/agents/{}/chats", world.tenant.agent);
    let chat = world.tenant.api.post(&chats, json!({})).await.expect(201);
    let chat = format!("/dashboard/chats/{}", chat["chatId"].as_str().unwrap());
    round.at(&chat, 200).await;
    // No language model answers at that address.
    round.send(&chat, &[("text", "Halo")], 422).await;
    let members = "/dashboard/settings/members";
    round.browser.go(&format!("{}{members}", round.base)).await;
    let budi = [("email", "budi@example.com"), ("name", "Budi")];
    round.send(members, &budi, 200).await;
}

/// A viewer: pages without forms, and the page that refuses a change.
async fn a_viewer(round: &mut Round<'_>, world: &TestWorld) {
    let link = format!("/dashboard{}", link_of(world, "sari@example.com", "viewer"));
    round.at(&link, 200).await;
    round.send(&link, &[], 200).await;
    let agent = format!("/dashboard/agents/{}", world.tenant.agent);
    let webhooks = world.tenant.api.get("/webhooks").await.expect(200);
    let webhook = webhooks["webhooks"][0]["id"].as_str().unwrap();
    for path in [
        "/dashboard",
        "/dashboard/agents",
        &agent,
        "/dashboard/numbers",
        "/dashboard/credits",
        "/dashboard/webhooks",
        &format!("/dashboard/webhooks/{webhook}"),
        "/dashboard/settings/keys",
        "/dashboard/settings/members",
        "/dashboard/settings/function-secret",
        "/dashboard/settings/account",
        "/dashboard/audit",
    ] {
        round.at(path, 200).await;
    }
    round
        .at("/dashboard/settings/function-secret/rotate", 403)
        .await;
    round.at("/dashboard/agents/new", 403).await;
    round.at("/dashboard/settings/account", 200).await;
    round.send("/dashboard/sign-out", &[], 200).await;
}

/// Too many failed sign-ins.
async fn too_many(round: &mut Round<'_>) {
    let sign_in = "/dashboard/sign-in";
    let wrong = [("email", "nobody@example.com"), ("password", "wrong")];
    for _ in 0..10 {
        round.browser.go(&format!("{}{sign_in}", round.base)).await;
        round.browser.run_with(SEND, json!([sign_in, wrong])).await;
        eventually("an answer", async || {
            round.browser.run(ARRIVED).await.as_u64()
        })
        .await;
    }
    round.browser.go(&format!("{}{sign_in}", round.base)).await;
    round.browser.complaints().await;
    round.send(sign_in, &wrong, 429).await;
}
