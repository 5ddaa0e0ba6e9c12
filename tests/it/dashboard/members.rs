//! A tenant's members: invitation, roles, removal.

use super::*;

#[actix_web::test]
async fn somebody_is_invited_comes_gets_a_role_and_is_removed() {
    let world = world!(Postgres);
    let (server, tenant) = (&world.server, &world.tenant.id);
    let owner = owner(&world).await;
    let browser = &owner.browser;
    let form = browser.open(MEMBERS).await.form(MEMBERS);
    assert_eq!(
        form.value("role"),
        Some("viewer"),
        "the lesser right is offered first"
    );
    let invite = |email: &str, name: &str, role: &str| {
        form.clone()
            .set("email", email)
            .set("name", name)
            .set("role", role)
    };
    for (form, words) in [
        (invite("", "", "viewer"), "Email: This is required."),
        (
            invite("sari", "Sari", "viewer"),
            "Email: This must be an email address",
        ),
        (
            invite("sari@example.com", " ", "viewer"),
            "Name: This is required.",
        ),
        (
            invite("sari@example.com", "Sa\u{7}ri", "viewer"),
            "This must not contain control characters.",
        ),
        (
            invite("sari@example.com", "Sari", "king"),
            "\"king\" is not a role",
        ),
        (
            invite(&owner.email.to_uppercase(), "Sari", "viewer"),
            "This address belongs to a member already.",
        ),
    ] {
        let page = browser.submit(&form).await;
        assert_eq!(page.status, 422, "{form:?}");
        page.assert_shows(words);
    }
    let invited = browser
        .submit(&invite("sari@example.com", "Sari", "viewer"))
        .await;
    invited.assert_shows("Invitation created.");
    let url = invited.element("link");
    assert!(url.starts_with(&server.http), "{url}");
    browser.open(MEMBERS).await.assert_hides(&url);

    // A new link replaces a lost one; each works once within seven days.
    let sari = text(
        &server.cli(&["user", "list", "--tenant", tenant])["users"][1],
        "id",
    );
    let again = browser
        .open(MEMBERS)
        .await
        .form(&format!("{MEMBERS}/{sari}/link"));
    let second = browser.submit(&again).await.element("link");
    assert_ne!(url, second);
    let hers = browser.another();
    assert_eq!(come_by(&hers, &second).await.path, "/dashboard/password");
    let password = hers
        .open("/dashboard/password")
        .await
        .form("/dashboard/password");
    hers.submit(&password.set("password", PASSWORD))
        .await
        .assert_shows("Your password is set");
    // Nobody can get a link for a member with a password.
    let refused = browser.submit(&again).await;
    assert_eq!(refused.status, 422);
    refused.assert_shows("already has a password");
    refused.form(&format!("{MEMBERS}/{sari}/role"));

    assert_eq!(
        hers.open(&format!("{SECRET_PAGE}/rotate")).await.status,
        403
    );
    let role = browser
        .open(MEMBERS)
        .await
        .form(&format!("{MEMBERS}/{sari}/role"));
    browser
        .submit(&role.clone().set("role", "owner"))
        .await
        .assert_shows("Role changed.");
    assert_eq!(
        hers.open(&format!("{SECRET_PAGE}/rotate")).await.status,
        200,
        "it counts at once"
    );

    let question = browser.open(&format!("{MEMBERS}/{sari}/remove")).await;
    question.assert_shows("sari@example.com is signed out everywhere at once");
    let remove = question.form(&format!("{MEMBERS}/{sari}/remove"));
    browser.submit(&remove).await.assert_shows("Member removed");
    assert!(!is_in(&hers).await);
    assert_eq!(
        try_password(&hers, "sari@example.com", PASSWORD)
            .await
            .status,
        422
    );
    assert_eq!(browser.submit(&remove).await.status, 404);
    browser.open(MEMBERS).await.assert_hides("sari@example.com");
}

#[actix_web::test]
async fn the_last_owner_stays() {
    let world = world!(Postgres);
    let (server, tenant) = (&world.server, &world.tenant.id);
    let owner = owner(&world).await;
    somebody(server, tenant, "viewer@example.com", "viewer").await;
    let second = somebody(server, tenant, "second@example.com", "owner").await;
    let page = owner.browser.open(MEMBERS).await;
    let step_down = page
        .form(&format!("{MEMBERS}/{}/role", owner.id))
        .set("role", "viewer");
    let leave = owner
        .browser
        .open(&format!("{MEMBERS}/{}/remove", owner.id))
        .await;
    let leave = leave.form(&format!("{MEMBERS}/{}/remove", owner.id));
    server.cli(&["user", "remove", &second.id]);
    for form in [&step_down, &leave] {
        let page = owner.browser.submit(form).await;
        assert_eq!(page.status, 422);
        page.assert_shows("This is the last owner.");
    }
    assert!(is_in(&owner.browser).await);
    let offered = owner.browser.open(MEMBERS).await;
    assert!(
        !offered
            .links()
            .contains(&format!("{MEMBERS}/{}/remove", owner.id)),
        "it is not offered"
    );
}

/// If two owners leave at once, one of them stays.
#[rstest]
#[actix_web::test]
async fn two_owners_cannot_leave_at_once(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let (server, tenant) = (&world.server, &world.tenant.id);
    let one = owner(&world).await;
    let two = somebody(server, tenant, "second@example.com", "owner").await;
    let path = |id: &str| format!("{MEMBERS}/{id}/role");
    let down = async |who: &BrowsingPerson| {
        let form = who
            .browser
            .open(MEMBERS)
            .await
            .form(&path(&who.id))
            .set("role", "viewer");
        (who.browser.clone(), form)
    };
    let ((a, form_a), (b, form_b)) = (down(&one).await, down(&two).await);
    let (first, second) = tokio::join!(a.post(&form_a), b.post(&form_b));
    let mut statuses = [first.status, second.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [303, 422]);
}
