//! Mails to people: contents, recipients, languages, and failures of the mail server.

use dikala_testkit::{Encryption, MailTreatment, Postbox, ReceivedMail, certificate, free_port};

use super::*;

const FROM: &str = "Dikala <no-reply@voice.example>";

pub(super) fn setup(postbox: &Postbox) -> WorldSetup {
    at(postbox.address.port())
}

fn at(port: u16) -> WorldSetup {
    WorldSetup::new()
        .set("mail.url", format!("smtp://127.0.0.1:{port}"))
        .set("mail.from", FROM)
        .minutes(6)
        .low_threshold(6)
}

/// Invites a person; returns the next page.
pub(super) async fn invite(browser: &Visitor, email: &str) -> crate::support::visitor::VisitedPage {
    let values = [("email", email), ("name", "Sari"), ("role", "viewer")];
    browser.fill(MEMBERS, MEMBERS, &values).await
}

/// Uses a minute, after which credit is low.
async fn talk(world: &TestWorld) {
    let bridge = world.tenant.bridge(Socket).await;
    let call = bridge.talk(&world.tenant.did).await;
    bridge.hang_up(&call).await;
}

/// Makes mails that wait for a retry due now.
async fn hurry(world: &TestWorld) {
    execute(
        &world.server,
        "UPDATE mails SET next_at = 1 WHERE next_at IS NOT NULL",
    )
    .await;
}

/// The number of mails with this outcome in the metrics.
async fn counted(world: &TestWorld, outcome: &str) -> u64 {
    let metrics = Rest::new(&world.server.operator).get("/metrics").await;
    let name = format!("dikala_mails_total{{outcome=\"{outcome}\"}} ");
    let metrics = metrics.text;
    let value = metrics.lines().find_map(|line| line.strip_prefix(&name));
    value.unwrap().parse().unwrap()
}

async fn until_counted(world: &TestWorld, outcome: &str, count: u64) {
    eventually(&format!("{count} mails {outcome}"), async || {
        (counted(world, outcome).await >= count).then_some(())
    })
    .await;
}

/// Asserts that the log contains nothing confidential of a mail.
fn assert_discreet(world: &TestWorld, letters: &[ReceivedMail]) {
    let log = world.server.log();
    // Statements are logged without their parameters.
    assert!(!log.contains("@example.com") && !log.contains("dko_"));
    for letter in letters {
        assert!(!log.contains(&letter.to), "{}", letter.to);
    }
}

#[actix_web::test]
async fn an_invitation_is_mailed_as_well() {
    let postbox = Postbox::start();
    let world = world!(Postgres, setup(&postbox));
    let owner = owner(&world).await;
    let page = invite(&owner.browser, "sari@example.com").await;
    page.assert_shows("Invitation created. It will be emailed too;");
    let shown = page.element("link");
    let letters = postbox.wait_for("sari@example.com", 1).await;
    assert_eq!(letters[0].link(), shown);
    assert_eq!(letters[0].from, "no-reply@voice.example");
    assert_eq!(letters[0].header("from"), FROM);
    assert_eq!(letters[0].header("to"), "Sari <sari@example.com>");
    assert_eq!(letters[0].header("auto-submitted"), "auto-generated");
    assert!(letters[0].header("message-id").ends_with("@voice.example>"));
    let subject = letters[0].header("subject");
    assert!(subject.starts_with("owner invites you to "), "{subject}");
    assert!(
        letters[0].text.starts_with("Hello Sari,\n"),
        "{}",
        letters[0].text
    );
    let hers = Visitor::new(&world.server.http);
    assert_eq!(come_by(&hers, &shown).await.path, "/dashboard/password");

    // In the inviting person's language, until the invited person chooses one. A new link is mailed, too.
    let indonesian = owner.browser.clone().with("accept-language", "id");
    let page = invite(&indonesian, "dewi@example.com").await;
    let dewi = postbox.wait_for("dewi@example.com", 1).await;
    assert!(dewi[0].text.starts_with("Halo Sari,\n"), "{}", dewi[0].text);
    assert_eq!(dewi[0].link(), page.element("link"));
    let people = world
        .server
        .cli(&["user", "list", "--tenant", &world.tenant.id]);
    let id = text(&people["users"][2], "id");
    let form = owner.browser.open(MEMBERS).await;
    let again = form.form(&format!("{MEMBERS}/{id}/link"));
    let page = owner.browser.submit(&again).await;
    page.assert_shows("New link created. It will be emailed too;");
    let dewi = postbox.wait_for("dewi@example.com", 2).await;
    assert_eq!(dewi[1].link(), page.element("link"));
    assert_ne!(dewi[0].link(), dewi[1].link());

    // Links in mails use the service's own URL, whatever the `Host` header says.
    let mut elsewhere = owner.browser.clone().with("host", "evil.example");
    elsewhere.origin = Some("http://evil.example".to_owned());
    let page = invite(&elsewhere, "rina@example.com").await;
    assert!(page.element("link").starts_with("http://evil.example/"));
    let rina = postbox.wait_for("rina@example.com", 1).await;
    assert!(rina[0].link().starts_with(&world.server.http), "{rina:?}");

    until_counted(&world, "sent", 4).await;
    assert_eq!(
        postbox.letters().len(),
        4,
        "what operators make is not mailed"
    );
    let store = &world.server.installation.store;
    let kept =
        store.rows::<1>("SELECT id FROM mails WHERE link IS NOT NULL OR next_at IS NOT NULL");
    assert_eq!(kept.await, [[""; 1]; 0], "no link outlives its mail");
    assert_discreet(&world, &postbox.letters());
}

#[actix_web::test]
async fn owners_are_told_what_they_want_to_know() {
    let postbox = Postbox::start();
    let world = world!(Postgres, setup(&postbox));
    let (server, tenant) = (&world.server, &world.tenant.id);
    let owner = owner(&world).await;
    let dewi = somebody(server, tenant, "dewi@example.com", "owner").await;
    let form = dewi.browser.open(ACCOUNT).await.form(ACCOUNT);
    let form = form.set("language", "id").without("mailsDisabledWebhooks");
    dewi.browser.submit(&form).await;
    let silent = somebody(server, tenant, "silent@example.com", "owner").await;
    let form = silent.browser.open(ACCOUNT).await.form(ACCOUNT);
    let form = form
        .without("mailsLowCredit")
        .without("mailsDisabledWebhooks");
    silent.browser.submit(&form).await;
    somebody(server, tenant, "viewer@example.com", "viewer").await;
    let other = world.another_tenant(0).await;
    somebody(server, &other.id, "stranger@example.com", "owner").await;
    world.receiver.answer("/gone", [ServerAnswer::Status(410)]);
    let gone = world.receiver.url("/gone");
    let webhook = world
        .tenant
        .subscribe(&gone, &["credits.low"], SECRET)
        .await;
    talk(&world).await;

    let mine = postbox.wait_for("owner@example.com", 2).await;
    let by_words = |words: &str| mine.iter().find(|letter| letter.text.contains(words));
    let low = by_words("5 minutes are left").expect("low credit").clone();
    assert!(
        low.header("subject").ends_with(": 5 minutes left"),
        "{low:?}"
    );
    assert!(low.text.contains("below 6"), "{}", low.text);
    assert_eq!(low.link(), format!("{}/dashboard/credits", server.http));
    assert!(
        low.text.contains("/dashboard/settings/account"),
        "{}",
        low.text
    );
    let disabled = by_words("is gone (410)")
        .expect("a disabled webhook")
        .clone();
    assert_eq!(
        disabled.link(),
        format!("{}/dashboard/webhooks/{webhook}", server.http)
    );
    assert!(
        !disabled.text.contains("/gone"),
        "paths can be secrets: {}",
        disabled.text
    );
    let hers = postbox.wait_for("dewi@example.com", 1).await;
    assert!(hers[0].text.contains("adalah 5 menit"), "{}", hers[0].text);

    until_counted(&world, "sent", 3).await;
    let mut told: Vec<String> = postbox.letters().into_iter().map(|it| it.to).collect();
    told.sort_unstable();
    assert_eq!(
        told,
        ["dewi@example.com", "owner@example.com", "owner@example.com"]
    );
    assert!(is_in(&owner.browser).await);
    assert_discreet(&world, &postbox.letters());
}

/// Committed mails are sent exactly once when the server is back, also after a crash.
#[rstest]
#[actix_web::test]
async fn no_mail_is_lost_while_the_mail_server_is_away(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let port = free_port();
    let mut world = world!(store, at(port));
    let browser = owner(&world).await.browser;
    let page = invite(&browser, "sari@example.com").await;
    page.assert_shows("Invitation created. It will be emailed too;");
    let link = page.element("link");
    talk(&world).await;
    world.server.kill9();
    let postbox = Postbox::start_on(port, Encryption::None);
    world.server.restart();
    hurry(&world).await;
    let letters = postbox.wait_for("sari@example.com", 1).await;
    assert_eq!(letters[0].link(), link);
    postbox.wait_for("owner@example.com", 1).await;
    until_counted(&world, "sent", 2).await;
    // An orderly stop remembers which mails were sent.
    world.server.terminate().await;
    world.server.restart();
    hurry(&world).await;
    invite(&browser, "last@example.com").await;
    postbox.wait_for("last@example.com", 1).await;
    assert_eq!(postbox.letters().len(), 3);
}

#[actix_web::test]
async fn a_server_that_hangs_delays_mails_and_nothing_else() {
    let postbox = Postbox::start();
    postbox.answer([MailTreatment::Hang]);
    let world = world!(Postgres, setup(&postbox));
    let owner = owner(&world).await;
    invite(&owner.browser, "sari@example.com").await;
    postbox.wait_for_connections(1).await;
    // While the mail server hangs, calls are answered and billed, and pages work.
    talk(&world).await;
    invite(&owner.browser, "dewi@example.com").await;
    assert_eq!(counted(&world, "retried").await, 0, "it still hangs");
    world.assert_ledger_is_exact();
    until_counted(&world, "retried", 1).await;
    postbox.answer([MailTreatment::Take]);
    hurry(&world).await;
    for to in ["sari@example.com", "dewi@example.com", "owner@example.com"] {
        postbox.wait_for(to, 1).await;
    }
    until_counted(&world, "sent", 3).await;
    assert_eq!(postbox.letters().len(), 3);
    assert_discreet(&world, &postbox.letters());
}

#[rstest]
#[case::later_for_the_address(MailTreatment::Refuse(451), "retried", "answered 451")]
#[case::later_for_the_mail(MailTreatment::RefuseText(452), "retried", "answered 452")]
#[case::a_cut(MailTreatment::Drop, "retried", "ended the connection")]
#[case::never_for_the_address(MailTreatment::Refuse(550), "given_up", "answered 550")]
#[case::never_for_the_mail(MailTreatment::RefuseText(554), "given_up", "answered 554")]
#[actix_web::test]
async fn what_the_server_answers_counts(
    #[values(Sqlite)] store: StoreKind,
    #[case] post: MailTreatment,
    #[case] outcome: &str,
    #[case] words: &str,
) {
    let postbox = Postbox::start();
    postbox.answer([post]);
    let world = world!(store, setup(&postbox));
    let owner = owner(&world).await;
    invite(&owner.browser, "sari@example.com").await;
    until_counted(&world, outcome, 1).await;
    assert!(world.server.log().contains(words), "{words}");
    postbox.answer([MailTreatment::Take]);
    hurry(&world).await;
    // The next mail shows that the given-up one is not retried.
    invite(&owner.browser, "dewi@example.com").await;
    postbox.wait_for("dewi@example.com", 1).await;
    if outcome == "retried" {
        postbox.wait_for("sari@example.com", 1).await;
    }
    let told = postbox.letters().len();
    assert_eq!(told, if outcome == "retried" { 2 } else { 1 });
    let store = &world.server.installation.store;
    until_counted(&world, "sent", told as u64).await;
    let links = store
        .rows::<1>("SELECT id FROM mails WHERE link IS NOT NULL")
        .await;
    assert_eq!(links.len(), 0);
    assert_discreet(&world, &[]);
}

/// The mail server accepts the mail and hangs at `QUIT`.
#[rstest]
#[actix_web::test]
async fn what_was_taken_is_not_sent_again(#[values(Sqlite)] store: StoreKind) {
    let postbox = Postbox::start();
    postbox.answer([MailTreatment::TakeAndHang]);
    let world = world!(store, setup(&postbox));
    let owner = owner(&world).await;
    invite(&owner.browser, "sari@example.com").await;
    until_counted(&world, "sent", 1).await;
    hurry(&world).await;
    invite(&owner.browser, "dewi@example.com").await;
    postbox.wait_for("dewi@example.com", 1).await;
    assert_eq!(postbox.letters().len(), 2);
}

#[rstest]
#[actix_web::test]
async fn a_mail_is_given_up_after_its_last_try(#[values(Sqlite)] store: StoreKind) {
    let world = world!(store, at(free_port()));
    let owner = owner(&world).await;
    invite(&owner.browser, "sari@example.com").await;
    let store = &world.server.installation.store;
    eventually("it to be given up", async || {
        hurry(&world).await;
        (counted(&world, "given_up").await == 1).then_some(())
    })
    .await;
    let [[attempts, link]] = &store
        .rows::<2>("SELECT CAST(attempts AS TEXT), COALESCE(link, 'none') FROM mails WHERE next_at IS NULL")
        .await[..]
    else {
        panic!("one mail");
    };
    assert_eq!((attempts.as_str(), link.as_str()), ("8", "none"));
    assert_eq!(counted(&world, "retried").await, 7);
}

#[rstest]
#[actix_web::test]
async fn a_tenant_has_so_many_mails_a_day(#[values(Sqlite, Postgres)] store: StoreKind) {
    let postbox = Postbox::start();
    let world = world!(store, setup(&postbox).set("retention.sweep_seconds", 1));
    let owner = owner(&world).await;
    let rows: Vec<String> = (0..100)
        .map(|n| {
            format!(
                "('mail_0{n:025}', '{}', NULL, 'credits.low', '', 1, NULL, 1, 9000000000000)",
                world.tenant.id
            )
        })
        .collect();
    let sql = format!(
        "INSERT INTO mails (id, tenant_id, user_id, kind, subject, attempts, next_at, created_at, ends_at) VALUES {}",
        rows.join(", ")
    );
    execute(&world.server, &sql).await;
    let page = invite(&owner.browser, "sari@example.com").await;
    page.assert_shows("Invitation created. Send the link below to this person.");
    assert!(!page.element("link").is_empty());
    talk(&world).await;
    eventually("the owners not to be told", async || {
        world
            .server
            .log()
            .contains("reached its limit of mails")
            .then_some(())
    })
    .await;
    // The next day.
    execute(&world.server, "UPDATE mails SET ends_at = 1").await;
    eventually("the sweep", async || {
        (world.server.installation.store.count("mails").await == 0).then_some(())
    })
    .await;
    invite(&owner.browser, "dewi@example.com").await;
    postbox.wait_for("dewi@example.com", 1).await;
    assert_eq!(postbox.letters().len(), 1);
}

#[rstest]
#[actix_web::test]
async fn user_and_password_are_told_within_tls(#[values(Sqlite)] store: StoreKind) {
    let postbox = Postbox::start_on(0, Encryption::AtOnce);
    let authority = dikala_testkit::folder();
    let authority = authority.path().join("ca.pem");
    std::fs::write(&authority, certificate::AUTHORITY).unwrap();
    let url = format!(
        "smtps://me%40voice:p%2Fss+w%C3%B6rd@localhost:{}",
        postbox.address.port()
    );
    let setup = setup(&postbox).set("mail.url", url);
    let trusting = setup
        .clone()
        .set("outbound.extra_ca_file", authority.display());
    let world = world!(store, trusting);
    let browser = owner(&world).await.browser;
    invite(&browser, "sari@example.com").await;
    let letters = postbox.wait_for("sari@example.com", 1).await;
    let signed_in = ("me@voice".to_owned(), "p/ss+wörd".to_owned());
    assert_eq!(letters[0].signed_in, Some(signed_in));
    assert!(letters[0].was_encrypted);
    assert!(!world.server.log().contains("rd@localhost"));

    // Nothing is sent over an untrusted connection.
    let world = world!(store, setup);
    let browser = owner(&world).await.browser;
    invite(&browser, "dewi@example.com").await;
    until_counted(&world, "retried", 1).await;
    assert_eq!(postbox.letters().len(), 1);
}

#[rstest]
#[actix_web::test]
async fn the_server_of_mails_is_configured_whole_and_shown_without_its_password(
    #[values(Sqlite)] store: StoreKind,
) {
    use crate::support::server::{assert_fails, installation};
    let mut installation = installation!(store);
    installation.set("mail.url", "smtps://hush-user:hush-word@mail.example.com");
    let alone = installation.run(&["serve"]);
    assert_fails(&alone, &[3], "mail.from is not set; set both, or neither");
    assert!(!alone.stderr.contains("hush"), "{alone:?}");
    let checked = installation.run(&["check"]);
    assert!(
        checked.code != Some(0) && checked.stdout.contains("mail.from"),
        "{checked:?}"
    );
    installation.set("mail.from", "nobody");
    assert_fails(&installation.run(&["serve"]), &[3], "an email address");
    installation.set("mail.from", FROM);
    assert_eq!(installation.run(&["check"]).code, Some(0));
    let shown = installation.run(&["config", "show"]);
    assert!(
        shown.stdout.contains("smtps://********@mail.example.com"),
        "{shown:?}"
    );
    assert!(!format!("{shown:?}").contains("hush"), "{shown:?}");
}
