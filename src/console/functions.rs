//! Functions that were recently called on this node: rates, failures, times, and open circuit breakers.

use actix_web::{HttpRequest, HttpResponse};
use dikala_entities::Ranking;
use futures_util::future::LocalBoxFuture;
use maud::{Markup, html};

use super::{
    figures::{NONE, TenantNames, count, since, times},
    follow, layout,
    list::{List, one_of},
    view::ConsoleView,
};
use crate::{
    api::function_stats::FunctionCircuitState,
    http::error::ApiError,
    operator_api::functions::{self, CalledFunction, CalledList},
    pages::{
        components::{Field, Tone, badge, empty, short_id, table},
        form::FormValues,
    },
};

const PATH: &str = "/functions";
const TITLE: &str = "Functions";
const FILTERS: &[&str] = &["sort", "tenantId", "agentId", "name"];

fn fields() -> [Field; 4] {
    let text = |name, label: &str| Field::text(name, label.to_owned());
    [
        Field::select("sort", "Sort by".to_owned(), one_of(Ranking::WORDS)),
        text("tenantId", "Tenant's id"),
        text("agentId", "Agent's id"),
        text("name", "Name"),
    ]
}

/// `GET /functions`
pub async fn list(visit: ConsoleView, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let typed = FormValues::parse(request.query_string().as_bytes());
    let list = List::new(PATH, FILTERS, &typed);
    match found(&visit, &list) {
        Ok(found) => {
            let rows = rows(&visit, &list, &found).await?;
            let content = html! {
                p.lead { "What this node called since its start; the last 1,000 functions are kept in mind. First those whose endpoints are left alone." }
                (list.filter(&visit, &fields()))
                (follow::followed(&visit, "functions", &list.query(), &rows))
            };
            Ok(layout::page(&visit, TITLE, content))
        }
        Err(error) => list.refused(&visit, TITLE, error, &fields()),
    }
}

fn found(visit: &ConsoleView, list: &List<'_>) -> Result<CalledList, ApiError> {
    functions::page(&visit.process(), &list.form()?)
}

/// The live part of the list.
pub fn part<'a>(
    visit: &'a ConsoleView,
    typed: &'a FormValues,
) -> LocalBoxFuture<'a, Result<Markup, ApiError>> {
    Box::pin(async move {
        let list = List::new(PATH, FILTERS, typed);
        let found = found(visit, &list)?;
        rows(visit, &list, &found).await
    })
}

async fn rows(
    visit: &ConsoleView,
    list: &List<'_>,
    found: &CalledList,
) -> Result<Markup, ApiError> {
    let db = visit.store().api_reader();
    let names = TenantNames::of(db, found.functions.iter().map(|of| of.tenant_id)).await?;
    let columns = [
        "Function",
        "Tenant",
        "Circuit",
        "Last minute",
        "Total",
        "p50 / p99",
        "Last fault",
    ];
    let row = |of: &CalledFunction| {
        vec![
            html! { strong { (of.name) } br; (of.origin) @if let Some(agent) = of.agent_id { br; (short_id(&agent.to_string())) } },
            names.link(of.tenant_id),
            circuit(visit, of),
            counts(visit, of.last_minute, of.failed_in_last_minute),
            counts(visit, of.calls, of.failed),
            times(&of.times_us),
            html! {
                @match (of.last_fault, of.last_fault_at) {
                    (Some(fault), Some(at)) => { code { (fault) } ", " (since(visit, at)) " ago" }
                    _ => { (NONE) }
                }
            },
        ]
    };
    Ok(html! {
        div #part {
            @if found.functions.is_empty() {
                (empty("No functions", "None was called on this node since its start, or none match the filter.", html! {}))
            } @else {
                (table(visit, TITLE, &columns.map(str::to_owned), found.functions.iter().map(row).collect()))
            }
            (list.paging(found.offset, found.has_more))
        }
    })
}

/// A count with its number of failures.
pub fn counts(visit: &ConsoleView, all: u64, failed: u64) -> Markup {
    html! {
        (count(visit, all))
        @if failed > 0 { ", " (badge(Tone::Bad, &format!("{} failed", count(visit, failed)))) }
    }
}

fn circuit(visit: &ConsoleView, of: &CalledFunction) -> Markup {
    match of.circuit.state {
        FunctionCircuitState::Closed => badge(Tone::Good, "closed"),
        FunctionCircuitState::HalfOpen => badge(Tone::Warning, "half open"),
        FunctionCircuitState::Open => html! {
            (badge(Tone::Bad, "open"))
            @if let Some(at) = of.circuit.retry_at { " until " (visit.time(at)) }
        },
    }
}
