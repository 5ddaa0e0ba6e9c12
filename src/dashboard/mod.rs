//! The tenant's dashboard: pages that are rendered on the server and work without a script.
//!
//! Pages are written with maud. The compiler checks the markup, and a page stands in the function that reads its data. Separate
//! template files (such as askama's) would split each page in two and need a second language for conditions.
//!
//! # How to add a page
//!
//! 1. A file in this folder, with a handler for each line in [`PAGES`]:
//!
//!    ```text
//!    pub async fn list(visit: SignedIn) -> Result<HttpResponse, ApiError> {
//!        let rows = …;                                         // every read starts from visit.tenant()
//!        Ok(layout::page(&visit, &visit.t("things-title"), html! { … }))
//!    }
//!
//!    const FIELDS: &Fields = &[("name", Shape::Text), ("isActive", Shape::Switch)];
//!
//!    pub async fn create(visit: SignedIn, typed: FormValues) -> Result<HttpResponse, ApiError> {
//!        let made = match form::body(&typed, FIELDS) {
//!            Ok(body) => things::create(visit.operation(), body).await,             // the operation
//!            Err(error) => Err(error),
//!        };
//!        match made {
//!            Ok(_) => Ok(visit.see("/dashboard/things", "done-thing-made")),
//!            Err(error) => {
//!                let filled = FormState::again(typed, error)?;
//!                Ok(errors::refused(&visit, &title, form(&visit, &filled), &filled))
//!            }
//!        }
//!    }
//!    ```
//!
//!    [`SignedIn`](view::SignedIn) holds the signed-in person, language and time zone; [`FormValues`](form::FormValues) holds the
//!    typed values. [`Id`](crate::http::extract::Id) reads ids in paths. A returned `ApiError` becomes a page ([`errors`]). A secret
//!    that is shown once goes through [`SignedIn::leave_note`](view::SignedIn::leave_note).
//! 2. Its lines in [`PAGES`]. By default a `post` is for owners and a `get` for everybody who is signed in. The confirmation of an
//!    action is a `get` of the same path. Middleware handles missing sessions, viewers, posts from other sites and invalid ids.
//! 3. Its line in the navigation ([`audience`]), its messages in both files of `locales/`, and a story in `tests/it/dashboard/`.
//!
//! [`components`] has the building blocks of pages; [`components::fields`] shows a form's fields below its errors. Inline scripts
//! and styles are forbidden by the Content-Security-Policy.

mod account;
mod agent_choice;
mod agents;
mod audience;
mod audit;
mod calls;
mod credits;
mod csv;
mod deliveries;
mod enter;
mod follow;
mod function_secret;
mod home;
mod json_text;
mod keys;
mod link;
mod live;
mod members;
mod names;
mod numbers;
mod password;
mod prove;
pub mod session;
mod sign_in;
pub mod state;
mod throttle;
mod trouble;
pub mod view;
mod webhook;
mod webhooks;
mod widgets;

use actix_web::{
    middleware::from_fn,
    web::{self, ServiceConfig},
};

pub use state::DashboardState;

use self::enter::enter;
use crate::{
    http::error::{ApiError, Missing},
    pages::{
        assets, charts, components, cross_site, errors, faults, filters, form, format, heading,
        lang, layout, pretty,
        table::{self, PageAccess, PageRoute, get, post},
        zones,
    },
};

const BASE: &str = "/dashboard";

/// All pages. A page whose path ends with the name of an API operation can also be reached by the plain verb.
#[rustfmt::skip]
const PAGES: &[PageRoute] = &[
    get("", |r| r.to(home::show)),

    get("/sign-in", |r| r.to(sign_in::show)).by(PageAccess::Anybody),
    post("/sign-in", |r| r.to(sign_in::submit)).by(PageAccess::Anybody),
    post("/sign-out", |r| r.to(sign_in::sign_out)).by(PageAccess::Member),
    get("/link/{token}", |r| r.to(link::show)).by(PageAccess::Anybody),
    post("/link/{token}", |r| r.to(link::consume)).by(PageAccess::Anybody),
    get("/password", |r| r.to(account::ask_password)),
    post("/password", |r| r.to(account::set_password)).by(PageAccess::Member),

    get("/calls", |r| r.to(calls::list::list)),
    get("/calls.csv", |r| r.to(calls::export::calls_csv)),
    get("/calls/{id}", |r| r.to(calls::show::show)),
    get("/calls/{id}/hangup", |r| r.to(calls::acts::ask_hang_up)).by(PageAccess::Owner),
    post("/calls/{id}/hangup", |r| r.to(calls::acts::hang_up)),
    get("/calls/{id}/transfer", |r| r.to(calls::acts::ask_transfer)).by(PageAccess::Owner),
    post("/calls/{id}/transfer", |r| r.to(calls::acts::transfer)),
    get("/calls/{id}/erase", |r| r.to(calls::acts::ask_erase)).by(PageAccess::Owner),
    post("/calls/{id}/erase", |r| r.to(calls::acts::erase)),
    get("/live", |r| r.to(live::stream)),

    get("/agents", |r| r.to(agents::list::list)),
    get("/agents/new", |r| r.to(agents::edit::ask_new)).by(PageAccess::Owner),
    post("/agents/new", |r| r.to(agents::edit::create)),
    get("/agents/{id}", |r| r.to(agents::edit::show)),
    post("/agents/{id}", |r| r.to(agents::edit::save)),
    get("/agents/{id}/history", |r| r.to(agents::history::show)),
    post("/agents/{id}/restore", |r| r.to(agents::history::restore)),
    post("/agents/{id}/talk", |r| r.to(agents::talk::begin)),
    post("/agents/{id}/chats", |r| r.to(agents::edit::write_to)),
    get("/chats/{id}", |r| r.to(agents::chat::show)),
    post("/chats/{id}", |r| r.to(agents::chat::send)),
    post("/agents/{id}/duplicate", |r| r.to(agents::edit::duplicate)),
    get("/agents/{id}/delete", |r| r.to(agents::edit::ask_delete)).by(PageAccess::Owner),
    post("/agents/{id}/delete", |r| r.to(agents::edit::delete)),
    get("/agents/{id}/functions/new", |r| r.to(agents::functions::ask_new)).by(PageAccess::Owner),
    post("/agents/{id}/functions/new", |r| r.to(agents::functions::create)),
    get("/agents/{id}/functions/{name}", |r| r.to(agents::functions::show)),
    post("/agents/{id}/functions/{name}", |r| r.to(agents::functions::save)),
    get("/agents/{id}/functions/{name}/test", |r| r.to(agents::function_trial::ask)).by(PageAccess::Owner),
    post("/agents/{id}/functions/{name}/test", |r| r.to(agents::function_trial::run)),
    get("/agents/{id}/functions/{name}/delete", |r| r.to(agents::functions::ask_delete)).by(PageAccess::Owner),
    post("/agents/{id}/functions/{name}/delete", |r| r.to(agents::functions::delete)),

    get("/numbers", |r| r.to(numbers::list)),
    get("/numbers/{id}/assign-agent", |r| r.to(numbers::ask_agent)).by(PageAccess::Owner),
    post("/numbers/{id}/assign-agent", |r| r.to(numbers::assign)),
    get("/numbers/{id}/assign", |r| r.to(numbers::ask_agent)).by(PageAccess::Owner),
    post("/numbers/{id}/assign", |r| r.to(numbers::assign)),

    get("/credits", |r| r.to(credits::show)),
    get("/credits.csv", |r| r.to(credits::file)),

    get("/webhooks", |r| r.to(webhooks::list)),
    get("/webhooks/new", |r| r.to(webhooks::ask_new)).by(PageAccess::Owner),
    post("/webhooks/new", |r| r.to(webhooks::create)),
    get("/webhooks/{id}", |r| r.to(webhook::show)),
    post("/webhooks/{id}", |r| r.to(webhook::update)),
    post("/webhooks/{id}/enable", |r| r.to(webhook::enable)),
    post("/webhooks/{id}/disable", |r| r.to(webhook::disable)),
    post("/webhooks/{id}/test", |r| r.to(webhook::test)),
    get("/webhooks/{id}/rotate-secret", |r| r.to(webhook::ask_rotate)).by(PageAccess::Owner),
    post("/webhooks/{id}/rotate-secret", |r| r.to(webhook::rotate)),
    get("/webhooks/{id}/rotate", |r| r.to(webhook::ask_rotate)).by(PageAccess::Owner),
    post("/webhooks/{id}/rotate", |r| r.to(webhook::rotate)),
    get("/webhooks/{id}/recover", |r| r.to(webhook::ask_recover)).by(PageAccess::Owner),
    post("/webhooks/{id}/recover", |r| r.to(webhook::recover)),
    get("/webhooks/{id}/delete", |r| r.to(webhook::ask_delete)).by(PageAccess::Owner),
    post("/webhooks/{id}/delete", |r| r.to(webhook::delete)),
    get("/deliveries/{id}", |r| r.to(deliveries::show)),
    post("/deliveries/{id}/resend", |r| r.to(deliveries::resend)),

    get("/widgets", |r| r.to(widgets::list)),
    get("/widgets/new", |r| r.to(widgets::ask_new)).by(PageAccess::Owner),
    post("/widgets/new", |r| r.to(widgets::create)),
    get("/widgets/{id}", |r| r.to(widgets::show)),
    post("/widgets/{id}", |r| r.to(widgets::update)),
    get("/widgets/{id}/delete", |r| r.to(widgets::ask_delete)).by(PageAccess::Owner),
    post("/widgets/{id}/delete", |r| r.to(widgets::delete)),

    get("/audit", |r| r.to(audit::show)),
    get("/audit.csv", |r| r.to(audit::file)),

    get("/settings/account", |r| r.to(account::show)),
    post("/settings/account", |r| r.to(account::update)).by(PageAccess::Member),
    post("/settings/account/password", |r| r.to(account::change_password)).by(PageAccess::Member),
    post("/settings/account/sign-out-everywhere", |r| r.to(account::sign_out_everywhere)).by(PageAccess::Member),

    get("/settings/members", |r| r.to(members::list)),
    post("/settings/members", |r| r.to(members::invite)),
    post("/settings/members/{id}/role", |r| r.to(members::change_role)),
    post("/settings/members/{id}/link", |r| r.to(members::link)),
    get("/settings/members/{id}/remove", |r| r.to(members::ask_remove)).by(PageAccess::Owner),
    post("/settings/members/{id}/remove", |r| r.to(members::remove)),

    get("/settings/keys", |r| r.to(keys::list)),
    post("/settings/keys", |r| r.to(keys::create)),
    get("/settings/keys/{id}", |r| r.to(keys::show)),
    get("/settings/keys/{id}/revoke", |r| r.to(keys::ask_revoke)).by(PageAccess::Owner),
    post("/settings/keys/{id}/revoke", |r| r.to(keys::revoke)),

    get("/settings/function-secret", |r| r.to(function_secret::show)),
    post("/settings/function-secret/show", |r| r.to(function_secret::reveal)),
    get("/settings/function-secret/rotate", |r| r.to(function_secret::ask_rotate)).by(PageAccess::Owner),
    post("/settings/function-secret/rotate", |r| r.to(function_secret::rotate)),
];

/// Mounts all pages and their assets. The application needs `Data<DashboardState>`, `Data<HttpContext>` and the middleware
/// [`request_scope`](crate::http::middleware::request_scope).
pub fn configure(cfg: &mut ServiceConfig) {
    assets::configure(cfg, BASE);
    let nothing = || async { Err::<String, _>(ApiError::NotFound(Missing::Route)) };
    let pages = table::mount(PAGES, web::scope(BASE));
    cfg.service(pages.default_service(web::to(nothing)).wrap(from_fn(enter)));
}
