//! The dashboard in a simulated browser without scripts.

mod audit;
mod calls;
mod credits;
mod export_cost;
mod exports;
mod foreign;
mod full_disk;
mod functions;
mod guessing;
mod history;
mod keys;
mod live;
mod mails;
mod members;
mod pages;
mod people;
mod refusals;
mod sessions;
mod setup;
mod sign_in;
mod sizes;
mod webhooks;
mod widgets;

use sea_orm::{ConnectionTrait, Database};

use crate::support::{
    prelude::*,
    server::Server,
    shared::WorldServer,
    tenant::{fresh_email, text},
    visitor::{HtmlForm, VisitedPage, Visitor},
};

/// A valid password.
const PASSWORD: &str = "seven purple teapots";
const SIGN_IN: &str = "/dashboard/sign-in";
const ACCOUNT: &str = "/dashboard/settings/account";
const MEMBERS: &str = "/dashboard/settings/members";
const KEYS: &str = "/dashboard/settings/keys";
const SECRET_PAGE: &str = "/dashboard/settings/function-secret";

/// A person with a browser.
pub(crate) struct BrowsingPerson {
    pub(crate) id: String,
    email: String,
    pub(crate) browser: Visitor,
}

/// Creates a person by the command line; returns the document with the unused link.
fn create(server: &Server, tenant: &str, email: &str, role: &str) -> Value {
    server.cli(&[
        "user", "create", "--tenant", tenant, "--email", email, "--role", role,
    ])
}

/// A person who has used the link and set a password.
async fn somebody(server: &Server, tenant: &str, email: &str, role: &str) -> BrowsingPerson {
    let made = create(server, tenant, email, role);
    let browser = Visitor::new(&server.http);
    let page = come_by(&browser, &text(&made, "url")).await;
    let form = page.form("/dashboard/password").set("password", PASSWORD);
    browser
        .submit(&form)
        .await
        .assert_shows("Your password is set");
    BrowsingPerson {
        id: text(&made, "id"),
        email: email.to_owned(),
        browser,
    }
}

pub(crate) async fn owner(world: &TestWorld) -> BrowsingPerson {
    // Addresses are unique on a server.
    let email = match world.server {
        WorldServer::Own(_) => "owner@example.com".to_owned(),
        WorldServer::Shared(_) => fresh_email("owner"),
    };
    owner_by(world, &email).await
}

/// An owner with this address.
pub(crate) async fn owner_by(world: &TestWorld, email: &str) -> BrowsingPerson {
    somebody(&world.server, &world.tenant.id, email, "owner").await
}

/// Follows a sign-in link and presses the button.
async fn come_by(browser: &Visitor, url: &str) -> crate::support::visitor::VisitedPage {
    let page = browser.open(url).await;
    assert_eq!(page.status, 200, "{}", page.text());
    let path = url.split_once("/dashboard").unwrap().1;
    browser
        .submit(&page.form(&format!("/dashboard{path}")))
        .await
}

/// Sends an email address and a password.
async fn try_password(
    browser: &Visitor,
    email: &str,
    password: &str,
) -> crate::support::visitor::VisitedPage {
    let form = browser.open(SIGN_IN).await.form(SIGN_IN);
    browser
        .post(&form.set("email", email).set("password", password))
        .await
}

/// True if the browser is signed in.
async fn is_in(browser: &Visitor) -> bool {
    let page = browser.fetch("/dashboard").await;
    assert!([200, 303].contains(&page.status), "{}", page.html);
    page.status == 200
}

/// Changes the store without the server, for example to simulate the passage of time.
pub async fn execute(server: &Server, sql: &str) {
    let db = Database::connect(&server.installation.store.url)
        .await
        .unwrap();
    db.execute_unprepared(sql).await.unwrap();
    db.close().await.unwrap();
}

/// A post with only the page's token.
fn bare(page: &VisitedPage, action: &str) -> HtmlForm {
    let form = page.form("/dashboard/sign-out");
    HtmlForm {
        action: action.to_owned(),
        ..form
    }
}
