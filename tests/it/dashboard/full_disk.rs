//! The dashboard on a full disk: people see an error, nothing is half done, and nothing of theirs is consumed.

use dikala_testkit::{Postbox, within};

use super::{
    mails::{invite, setup},
    *,
};

/// Smaller than the database is already, so that nothing can be written.
const FULL: u64 = 16 << 10;
const WORKS_WITHIN: Duration = Duration::from_secs(15);

async fn rows(world: &TestWorld) -> Vec<usize> {
    let mut rows = Vec::new();
    for table in ["sessions", "login_links", "mails", "users", "audit"] {
        rows.push(world.server.installation.store.count(table).await);
    }
    rows
}

#[actix_web::test]
async fn a_full_disk_lets_nobody_in_and_uses_nothing_up() {
    let postbox = Postbox::start();
    let world = world!(Sqlite, setup(&postbox));
    let owner = owner(&world).await;
    let made = create(
        &world.server,
        &world.tenant.id,
        "dewi@example.com",
        "viewer",
    );
    let url = text(&made, "url");
    let action = format!("/dashboard{}", url.split_once("/dashboard").unwrap().1);
    let (by_link, by_password) = (owner.browser.another(), owner.browser.another());
    let button = by_link.open(&url).await.form(&action);
    let form = by_password.open(SIGN_IN).await.form(SIGN_IN);
    let form = form.set("email", &owner.email).set("password", PASSWORD);
    let members = owner.browser.open(MEMBERS).await.form(MEMBERS);
    let values = [
        ("email", "sari@example.com"),
        ("name", "Sari"),
        ("role", "viewer"),
    ];
    let values = values.iter();
    let invitation = values.fold(members, |form, (name, value)| form.set(name, value));
    let before = rows(&world).await;

    world.server.limit_files(Some(FULL));
    for _ in 0..2 {
        for (browser, form) in [
            (&by_link, &button),
            (&by_password, &form),
            (&owner.browser, &invitation),
        ] {
            let page = browser.post(form).await;
            assert_eq!(page.status, 503, "{}: {}", page.path, page.text());
        }
        assert!(is_in(&owner.browser).await, "what is only read is there");
        assert!(!is_in(&by_link).await && !is_in(&by_password).await);
    }
    assert_eq!(rows(&world).await, before);

    world.server.limit_files(None);
    within(WORKS_WITHIN, "signing in", async || {
        (by_password.post(&form).await.status == 303).then_some(())
    })
    .await;
    assert!(is_in(&by_password).await);
    assert_eq!(
        by_link.post(&button).await.status,
        303,
        "the link was not used up"
    );
    assert!(is_in(&by_link).await);
    invite(&owner.browser, "sari@example.com").await;
    postbox.wait_for("sari@example.com", 1).await;
    let added: Vec<usize> = rows(&world).await;
    let added: Vec<usize> = added
        .iter()
        .zip(&before)
        .map(|(now, then)| now - then)
        .collect();
    // Two sessions; a link, a mail and a person by the invitation; three audit entries.
    assert_eq!(added, [2, 1, 1, 1, 3]);
    assert_eq!(postbox.letters().len(), 1);
}
