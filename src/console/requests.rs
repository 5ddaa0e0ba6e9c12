//! HTTP: the routes of this node's two listeners with their rates, failures and times.

use actix_web::HttpResponse;
use dikala_entities::Ranking;
use maud::{Markup, html};

use super::{
    figures::{count, times},
    functions::counts,
    list::{List, ListRows, one_of},
    view::ConsoleView,
};
use crate::{
    http::error::ApiError,
    operator_api::requests::{self, RouteRequests},
    pages::{components::Field, form::FormValues},
};

const PATH: &str = "/http";
const TITLE: &str = "console-http";
const FILTERS: &[&str] = &["sort"];
const ROWS: i64 = 30;

fn fields(visit: &ConsoleView) -> [Field; 1] {
    let rankings = one_of(visit, Ranking::WORDS);
    [Field::select("sort", visit.t("console-sort-by"), rankings)]
}

/// `GET /http`
pub async fn list(visit: ConsoleView, typed: FormValues) -> Result<HttpResponse, ApiError> {
    let list = List::new(PATH, FILTERS, &typed).of(ROWS);
    let fields = fields(&visit);
    let content = part(&visit, &typed).map(|rows| {
        html! {
            p.lead { (visit.t("console-http-words")) }
            (list.filter(&visit, &fields))
            (visit.followed("http", &list.query(), &rows))
        }
    });
    list.page(&visit, TITLE, &fields, content)
}

/// The live part of the list.
pub fn part(visit: &ConsoleView, typed: &FormValues) -> Result<Markup, ApiError> {
    let list = List::new(PATH, FILTERS, typed).of(ROWS);
    let found = requests::page(&visit.process(), &list.form()?)?;
    let row = |of: &RouteRequests| {
        vec![
            html! { code { (of.method) " " (of.route) } },
            counts(visit, of.last_minute, of.failed_in_last_minute),
            counts(visit, of.requests, of.server_errors),
            html! { (count(visit, of.client_errors)) },
            times(&of.times_us),
        ]
    };
    let rows = ListRows {
        title: TITLE,
        columns: visit.columns("console-http-columns"),
        rows: found.routes.iter().map(row).collect(),
        none: ("console-no-requests", "console-no-requests-words"),
    };
    Ok(list.part(visit, rows, found.offset, found.has_more))
}
