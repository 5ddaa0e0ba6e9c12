//! The database: size, pools, commit times, and slowest statements.

use actix_web::{HttpRequest, HttpResponse};
use dikala_entities::StatementRanking;
use maud::{Markup, html};

use super::{
    figures::{NONE, bytes, count, time_us, times},
    follow::followed,
    layout,
    list::{List, one_of},
    view::ConsoleView,
};
use crate::{
    http::{error::ApiError, extract::FormFields},
    operator_api::database::{self, DatabaseStatus, Pool, StatementTimes},
    pages::{
        components::{Field, Tone, notice, table},
        form::FormValues,
    },
};

const PATH: &str = "/database";
const TITLE: &str = "Database";
const FILTERS: &[&str] = &["sort"];
/// Shown lengths of a statement's beginning (its verb) and end (its conditions); the columns between are omitted.
const BEGIN_CHARS: usize = 100;
const END_CHARS: usize = 160;

fn ranking() -> [Field; 1] {
    let words = one_of(StatementRanking::WORDS);
    [Field::select("sort", "Sort by".to_owned(), words)]
}

/// `GET /database`
pub async fn show(visit: ConsoleView, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let typed = FormValues::parse(request.query_string().as_bytes());
    let list = List::new(PATH, FILTERS, &typed);
    match parts(&visit, &typed).await {
        Ok([above, below]) => {
            let content = html! {
                (above)
                h2 { "Slowest statements" }
                p { "What this process sent since its start, with " code { "?" } " for values and " code { "…" } " for the rest of a list." }
                (list.filter(&visit, &ranking()))
                (below)
            };
            let content = followed(&visit, "database", &list.query(), &content);
            Ok(layout::page(&visit, TITLE, content))
        }
        Err(error) => list.refused(&visit, TITLE, error, &ranking()),
    }
}

/// The live parts: above the choice of ranking, and below it.
pub async fn parts(visit: &ConsoleView, asked: &FormValues) -> Result<[Markup; 2], ApiError> {
    let asked = match List::new(PATH, FILTERS, asked).text("sort") {
        "" => FormFields::default(),
        sort => FormFields::from_body(serde_json::json!({ "sort": sort }))?,
    };
    let found = database::read(&visit.process(), &asked).await?;
    let above = html! { div #part { (facts(visit, &found)) } };
    let below = html! { div #below { (statements(visit, &found.statements)) } };
    Ok([above, below])
}

fn facts(visit: &ConsoleView, found: &DatabaseStatus) -> Markup {
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

fn statements(visit: &ConsoleView, slowest: &[StatementTimes]) -> Markup {
    let columns = ["Statement", "Mean", "Longest", "Total", "Count"].map(str::to_owned);
    let row = |slow: &StatementTimes| {
        vec![
            html! { code.long { (short(&slow.shape)) } },
            html! { (time_us(slow.mean_us)) },
            html! { (time_us(slow.longest_us)) },
            html! { (time_us(slow.total_us)) },
            html! {
                (count(visit, slow.count))
                @if slow.failed > 0 { ", " (count(visit, slow.failed)) " failed" }
            },
        ]
    };
    table(
        visit,
        "Slowest statements",
        &columns,
        slowest.iter().map(row).collect(),
    )
}

/// A statement without quotes; the middle of a long one is omitted.
fn short(shape: &str) -> String {
    let text: Vec<char> = shape.chars().filter(|each| *each != '"').collect();
    if text.len() <= BEGIN_CHARS + END_CHARS {
        return text.into_iter().collect();
    }
    let (begin, end) = (&text[..BEGIN_CHARS], &text[text.len() - END_CHARS..]);
    begin.iter().chain(&[' ', '…', ' ']).chain(end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_statement_keeps_both_ends() {
        assert_eq!(short("SELECT \"a\" FROM \"b\""), "SELECT a FROM b");
        let long = format!("SELECT {} FROM calls WHERE id = ?", "ü, ".repeat(500));
        let shown = short(&long);
        assert_eq!(shown.chars().count(), BEGIN_CHARS + END_CHARS + 3);
        assert!(shown.starts_with("SELECT ü") && shown.ends_with("WHERE id = ?"));
    }
}
