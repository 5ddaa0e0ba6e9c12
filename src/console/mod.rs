//! The operators' console: pages on the operators' listener that are rendered on the server and work without a script. It uses
//! [`operations`](crate::operations), and the handlers of the [`operator_api`](crate::operator_api) for the state of this process.
//!
//! # How to add a page
//!
//! 1. A file or folder here, with a handler for each line in [`PAGES`]:
//!
//!    ```text
//!    pub async fn list(visit: ConsoleView, query: Query) -> Result<HttpResponse, ApiError> {
//!        let rows = …;                                           // from visit.store().api_reader(), visit.process()
//!        Ok(layout::page(&visit, &visit.t("console-things"), html! { … @if visit.may_change() { (post(&visit, "/things/1/end", …)) } }))
//!    }
//!
//!    pub async fn end(visit: ConsoleView, id: Id<ThingId>) -> Result<HttpResponse, ApiError> {
//!        things::end(visit.operation(), id).await?;              // the operation
//!        Ok(visit.see("/things", "console-done-thing-ended"))    // 303, and the confirmation
//!    }
//!    ```
//!
//!    [`ConsoleView`](view::ConsoleView) holds the access right. [`FormValues`](crate::pages::form::FormValues) holds the typed
//!    values, which [`form::body`](crate::pages::form::body) turns into an operation's input. [`layout::refused`] shows a refused form
//!    again. A secret that is shown once goes through [`ConsoleView::leave_note`](view::ConsoleView::leave_note). Texts are messages
//!    of both files in `src/pages/locales/console/`.
//! 2. Its lines in [`PAGES`]: a `post` needs `operator.token`, a `get` either token. The confirmation of an action is a `get` of the
//!    same path, [`by`](crate::pages::table::PageRoute::by) `PageAccess::Owner`. Middleware handles missing sessions, posts from
//!    other sites and missing rights.
//! 3. Its line in the navigation ([`audience`]). If it is updated live, its parts in [`live`], which the page wraps in
//!    [`ConsoleView::followed`](view::ConsoleView::followed).
//! 4. A story in `tests/it/operator/`. `console.rs` there checks the common rules on every linked page.

mod actors;
mod audience;
mod audit;
mod bridges;
mod call;
mod call_diagnosis;
mod call_steps;
mod calls;
mod configuration;
mod database;
mod deliveries;
mod delivery;
mod ended;
mod enter;
mod figures;
mod functions;
mod ledger;
mod list;
mod live;
mod nodes;
mod overview;
mod requests;
mod search;
mod session;
mod sign_in;
mod state;
mod tenants;
mod view;
mod webhooks;

use actix_web::{
    dev::ServiceRequest,
    http::{Method, header::ACCEPT},
    middleware::from_fn,
    web::{self, ServiceConfig},
};

pub use state::ConsoleState;

use self::enter::{enter, right_of_session};
use crate::{
    operator::access::{SessionRights, SessionRoutes},
    pages::{
        assets,
        headers::header,
        layout,
        table::{self, PageAccess, PageMatch, PageRoute, get, post},
    },
};

#[rustfmt::skip]
const PAGES: &[PageRoute] = &[
    get("/", |r| r.to(overview::show)),
    post("/problems/snooze", |r| r.to(overview::snooze)),
    post("/problems/show", |r| r.to(overview::show_again)),
    get("/actors", |r| r.to(actors::list)),
    get("/actors/{type}", |r| r.to(actors::show)),

    get("/search", |r| r.to(search::show)),

    get("/calls", |r| r.to(calls::list)),
    get("/calls/{id}", |r| r.to(call::show)),
    get("/calls/{id}/hangup", |r| r.to(calls::ask_hang_up)).by(PageAccess::Owner),
    post("/calls/{id}/hangup", |r| r.to(calls::hang_up)),

    get("/webhooks", |r| r.to(webhooks::list)),
    get("/webhooks/{id}", |r| r.to(webhooks::show)),
    post("/webhooks/{id}/pause", |r| r.to(webhooks::pause)),
    post("/webhooks/{id}/resume", |r| r.to(webhooks::resume)),
    get("/webhooks/{id}/recover", |r| r.to(webhooks::ask_recover)).by(PageAccess::Owner),
    post("/webhooks/{id}/recover", |r| r.to(webhooks::recover)),
    get("/deliveries", |r| r.to(deliveries::list)),
    get("/deliveries/{id}", |r| r.to(delivery::show)),
    post("/deliveries/{id}/resend", |r| r.to(deliveries::resend)),

    get("/functions", |r| r.to(functions::list)),
    get("/http", |r| r.to(requests::list)),
    get("/ledger", |r| r.to(ledger::show)),
    post("/ledger/verify", |r| r.to(ledger::verify)),
    get("/database", |r| r.to(database::show)),
    get("/nodes", |r| r.to(nodes::show)),
    get("/configuration", |r| r.to(configuration::show)),

    get("/bridges", |r| r.to(bridges::list)),
    post("/bridges", |r| r.to(bridges::create)),
    get("/bridges/{id}", |r| r.to(bridges::show)),
    get("/bridges/{id}/revoke", |r| r.to(bridges::ask_revoke)).by(PageAccess::Owner),
    post("/bridges/{id}/revoke", |r| r.to(bridges::revoke)),

    get("/tenants", |r| r.to(tenants::list)),
    get("/tenants/new", |r| r.to(tenants::ask_new)).by(PageAccess::Owner),
    post("/tenants/new", |r| r.to(tenants::create)),
    get("/tenants/{id}", |r| r.to(tenants::show)),
    post("/tenants/{id}", |r| r.to(tenants::save)),
    get("/tenants/{id}/suspend", |r| r.to(tenants::ask_suspend)).by(PageAccess::Owner),
    post("/tenants/{id}/suspend", |r| r.to(tenants::suspend)),
    post("/tenants/{id}/resume", |r| r.to(tenants::resume)),
    get("/tenants/{id}/credits", |r| r.to(tenants::credits::show)),
    post("/tenants/{id}/credits", |r| r.to(tenants::credits::book)),
    get("/tenants/{id}/keys", |r| r.to(tenants::keys::list)),
    post("/tenants/{id}/keys", |r| r.to(tenants::keys::create)),
    get("/keys/{id}/revoke", |r| r.to(tenants::keys::ask_revoke)).by(PageAccess::Owner),
    post("/keys/{id}/revoke", |r| r.to(tenants::keys::revoke)),
    get("/tenants/{id}/users", |r| r.to(tenants::people::list)),
    post("/tenants/{id}/users", |r| r.to(tenants::people::create)),
    post("/users/{id}/login-link", |r| r.to(tenants::people::link)),
    get("/users/{id}/remove", |r| r.to(tenants::people::ask_remove)).by(PageAccess::Owner),
    post("/users/{id}/remove", |r| r.to(tenants::people::remove)),
    get("/tenants/{id}/numbers", |r| r.to(tenants::numbers::list)),
    post("/tenants/{id}/numbers", |r| r.to(tenants::numbers::create)),
    get("/numbers/{id}", |r| r.to(tenants::numbers::show)).by(PageAccess::Owner),
    post("/numbers/{id}", |r| r.to(tenants::numbers::save)),
    get("/numbers/{id}/delete", |r| r.to(tenants::numbers::ask_delete)).by(PageAccess::Owner),
    post("/numbers/{id}/delete", |r| r.to(tenants::numbers::delete)),
    get("/audit", |r| r.to(audit::list)),

    get("/sign-in", |r| r.to(sign_in::show)).by(PageAccess::Anybody),
    post("/sign-in", |r| r.to(sign_in::submit)).by(PageAccess::Anybody),
    post("/sign-out", |r| r.to(sign_in::sign_out)).by(PageAccess::Member),
    get("/live", |r| r.to(live::stream)),
];

/// Prefixes of paths for machines.
const MACHINES: [&str; 3] = ["/operator", "/metrics", "/health"];

/// True if a request is for a page, or if a browser asks for an unknown path.
fn is_a_page(req: &ServiceRequest) -> bool {
    match req.match_pattern() {
        Some(pattern) => is_listed(&pattern),
        None => {
            let accepted = header(req.headers(), &ACCEPT).unwrap_or_default();
            let is_for_machines = MACHINES.iter().any(|path| req.path().starts_with(path));
            accepted.contains("text/html") && !is_for_machines
        }
    }
}

fn is_listed(pattern: &str) -> bool {
    table::find(PAGES, "", Some(pattern), &Method::GET) != PageMatch::Nothing
}

/// Mounts all pages and their assets, after everything else on the listener. The application needs `Data<ConsoleState>` and
/// everything that [`operator_api`](crate::operator_api::configure) needs.
pub fn configure(cfg: &mut ServiceConfig) {
    let is_ours =
        |req: &ServiceRequest| is_a_page(req) || req.match_pattern() == Some(assets::pattern(""));
    assets::configure(cfg, "");
    let pages = table::mount(PAGES, web::scope(""));
    cfg.app_data(SessionRoutes(is_ours))
        .app_data(SessionRights(|req| Box::pin(right_of_session(req))))
        .service(pages.wrap(from_fn(enter)));
}
