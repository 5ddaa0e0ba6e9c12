//! The operators' console: pages on the operators' listener that are made on the server and work without a script. It shows what
//! [`operator_api`](crate::operator_api) gives as JSON, and what it changes goes through the handlers of that.
//!
//! # How to add a page
//!
//! 1. A file (or folder) of its own here, with a handler for each line in [`PAGES`]:
//!
//!    ```text
//!    pub async fn list(visit: Visit, query: Query) -> Result<HttpResponse, ApiError> {
//!        let rows = …;                                           // from visit.store().api_reader(), visit.desk()
//!        Ok(layout::page(&visit, "Things", html! { … @if visit.may_change() { (post(&visit, "/things/1/end", …)) } }))
//!    }
//!
//!    pub async fn end(visit: Visit, id: Id<ThingId>) -> Result<HttpResponse, ApiError> {
//!        things::end(visit.desk(), visit.operator(), id).await?; // the handler of the operators' API
//!        Ok(visit.see("/things", "done-thing-ended"))            // 303; the words are in layout::DONE
//!    }
//!    ```
//!
//!    [`Visit`](view::Visit) is who looks; [`Typed`](crate::pages::form::Typed) what was typed, which
//!    [`form::body`](crate::pages::form::body) makes the JSON of a handler of; a form that was refused is shown again with
//!    [`layout::refused`]. What may be shown once goes through [`Visit::leave_note`](view::Visit::leave_note). Texts are English
//!    and stand in the page.
//! 2. Its lines in [`PAGES`]: a `post` is for who has `operator.token`, a `get` for who has either. A question before an act is a `get`
//!    of the same path, [`by`](crate::pages::table::Page::by) `Access::Owner`. Sessions, foreign posts and what the read token may not
//!    do are answered before the handler.
//! 3. Its line in the navigation ([`layout`]), and, where it changes by itself, the part that does in [`live`]: the page has it
//!    in [`live::followed`].
//! 4. A story in `tests/it/operator/`, and its path in `console_pages.rs` there, which asks of every page what all keep to.

mod actors;
mod enter;
mod errors;
mod kit;
mod layout;
mod live;
mod overview;
mod session;
mod sign_in;
mod view;

use actix_web::{
    dev::ServiceRequest,
    http::{Method, header::ACCEPT},
    middleware::from_fn,
    web::{self, ServiceConfig},
};

pub use kit::Kit;

use self::enter::enter;
use crate::{
    operator::access::OwnDoor,
    pages::{
        assets,
        headers::header,
        table::{self, Access, Found, Page, get, post},
    },
};

/// Every page.
#[rustfmt::skip]
const PAGES: &[Page] = &[
    get("/", |r| r.to(overview::show)),
    get("/actors", |r| r.to(actors::list)),
    get("/actors/{type}", |r| r.to(actors::show)),

    get("/sign-in", |r| r.to(sign_in::show)).by(Access::Anybody),
    post("/sign-in", |r| r.to(sign_in::submit)).by(Access::Anybody),
    post("/sign-out", |r| r.to(sign_in::sign_out)).by(Access::Member),
    get("/live", |r| r.to(live::stream)),
];

/// What paths begin with that machines ask for.
const MACHINES: [&str; 3] = ["/operator", "/metrics", "/health"];

/// Whether a request is for a page: one that there is, or one that somebody with a browser asks for and that there is not.
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
    table::find(PAGES, "", Some(pattern), &Method::GET) != Found::Nothing
}

/// Mounts all pages and their assets, behind everything else that the listener serves.
///
/// The application has to hold `Data<Kit>`, and all that [`operator_api`](crate::operator_api::configure) asks for.
pub fn configure(cfg: &mut ServiceConfig) {
    let is_ours =
        |req: &ServiceRequest| is_a_page(req) || req.match_pattern() == Some(assets::pattern(""));
    assets::configure(cfg, "");
    let pages = table::mount(PAGES, web::scope(""));
    cfg.app_data(OwnDoor(is_ours))
        .service(pages.wrap(from_fn(enter)));
}
