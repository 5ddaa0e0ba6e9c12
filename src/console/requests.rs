//! HTTP: the routes of this node's two listeners with their rates, failures and times.

use actix_web::{HttpRequest, HttpResponse};
use dikala_entities::Ranking;
use futures_util::future::{LocalBoxFuture, ready};
use maud::{Markup, html};

use super::{
    figures::{count, times},
    follow,
    functions::counts,
    layout,
    list::{List, one_of},
    view::ConsoleView,
};
use crate::{
    http::error::ApiError,
    operator_api::requests::{self, RouteList, RouteRequests},
    pages::{
        components::{Field, empty, table},
        form::FormValues,
    },
};

const PATH: &str = "/http";
const TITLE: &str = "HTTP";
const FILTERS: &[&str] = &["sort"];
const ROWS: i64 = 30;

fn fields() -> [Field; 1] {
    [Field::select(
        "sort",
        "Sort by".to_owned(),
        one_of(Ranking::WORDS),
    )]
}

/// `GET /http`
pub async fn list(visit: ConsoleView, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let typed = FormValues::parse(request.query_string().as_bytes());
    let list = List::new(PATH, FILTERS, &typed).of(ROWS);
    match found(&visit, &list) {
        Ok(found) => {
            let content = html! {
                p.lead { "Requests to both listeners of this node since its start, by route. Times end with the head of the response." }
                (list.filter(&visit, &fields()))
                (follow::followed(&visit, "http", &list.query(), &rows(&visit, &list, &found)))
            };
            Ok(layout::page(&visit, TITLE, content))
        }
        Err(error) => list.refused(&visit, TITLE, error, &fields()),
    }
}

fn found(visit: &ConsoleView, list: &List<'_>) -> Result<RouteList, ApiError> {
    requests::page(&visit.process(), &list.form()?)
}

/// The live part of the list.
pub fn part<'a>(
    visit: &'a ConsoleView,
    typed: &'a FormValues,
) -> LocalBoxFuture<'a, Result<Markup, ApiError>> {
    let list = List::new(PATH, FILTERS, typed).of(ROWS);
    let made = found(visit, &list).map(|found| rows(visit, &list, &found));
    Box::pin(ready(made))
}

fn rows(visit: &ConsoleView, list: &List<'_>, found: &RouteList) -> Markup {
    let columns = ["Route", "Last minute", "Total", "4xx", "p50 / p99"].map(str::to_owned);
    let row = |of: &RouteRequests| {
        vec![
            html! { code { (of.method) " " (of.route) } },
            counts(visit, of.last_minute, of.failed_in_last_minute),
            counts(visit, of.requests, of.server_errors),
            html! { (count(visit, of.client_errors)) },
            times(&of.times_us),
        ]
    };
    html! {
        div #part {
            @if found.routes.is_empty() { (empty("No requests", "No requests since this node started.", html! {})) }
            @else { (table(visit, TITLE, &columns, found.routes.iter().map(row).collect())) }
            (list.paging(found.offset, found.has_more))
        }
    }
}
