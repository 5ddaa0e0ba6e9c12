//! The database: size, pools and commit times.

use actix_web::HttpResponse;
use maud::{Markup, html};

use super::{
    figures::{NONE, bytes, times},
    layout,
    view::ConsoleView,
};
use crate::{
    operator_api::database::{self, Pool},
    pages::components::{Tone, notice, table},
};

/// `GET /database`
pub async fn show(visit: ConsoleView) -> HttpResponse {
    let content = visit.followed("database", "", &part(&visit).await);
    layout::page(&visit, &visit.t("console-database"), content)
}

/// The live part of the page.
pub async fn part(visit: &ConsoleView) -> Markup {
    let found = database::read(&visit.process()).await;
    let columns = visit.columns("console-pools-columns");
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
            @if let Some(told) = found.unanswered { (notice(Tone::Bad, html! { p lang="en" { (told) } })) }
            dl.facts {
                dt { (visit.t("console-database")) } dd { (found.kind) @if let Some(version) = &found.version { " " (version) } }
                dt { (visit.t("console-size")) } dd { @match found.size_bytes { Some(size) => (bytes(size)), None => (NONE) } }
                dt { (visit.t("console-migrations")) }
                dd { @match found.migrations { Some(steps) => (visit.number(steps)), None => (NONE) } }
                dt { (visit.t("console-commit-times")) } dd { (times(&found.commit_us)) }
            }
            h2 { (visit.t("console-pools")) }
            (table(visit, &visit.t("console-pools"), &columns, found.pools.iter().map(row).collect()))
        }
    }
}
