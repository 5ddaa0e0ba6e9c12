//! The database: size, pools and commit times.

use actix_web::HttpResponse;
use maud::{Markup, html};

use super::{
    figures::{NONE, bytes, times},
    follow::followed,
    layout,
    view::ConsoleView,
};
use crate::{
    operator_api::database::{self, Pool},
    pages::components::{Tone, notice, table},
};

/// `GET /database`
pub async fn show(visit: ConsoleView) -> HttpResponse {
    let content = followed(&visit, "database", "", &part(&visit).await);
    layout::page(&visit, "Database", content)
}

/// The live part of the page.
pub async fn part(visit: &ConsoleView) -> Markup {
    let found = database::read(&visit.process()).await;
    let columns = ["Pool", "In use", "Idle", "Unopened"].map(str::to_owned);
    let row = |pool: &Pool| {
        vec![
            html! { code { (pool.name) } },
            html! { (pool.in_use) },
            html! { (pool.idle) },
            html! { (pool.unopened) },
        ]
    };
    html! {
        div #part {
            @if let Some(told) = found.unanswered { (notice(Tone::Bad, html! { p { (told) } })) }
            dl.facts {
                dt { "Database" } dd { (found.kind) @if let Some(version) = &found.version { " " (version) } }
                dt { "Size" } dd { @match found.size_bytes { Some(size) => (bytes(size)), None => (NONE) } }
                dt { "Migrations" }
                dd { @match found.migrations { Some(steps) => (visit.number(steps)), None => (NONE) } }
                dt { "Ledger commits, p50 / p99" } dd { (times(&found.commit_us)) }
            }
            h2 { "Pools" }
            (table(visit, "Pools", &columns, found.pools.iter().map(row).collect()))
        }
    }
}
