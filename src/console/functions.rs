//! Functions that were recently called on this node: rates, failures, times, and open circuit breakers.

use actix_web::HttpResponse;
use dikala_entities::Ranking;
use maud::{Markup, html};

use super::{
    figures::{NONE, TenantNames, count, since, times},
    list::{List, ListRows, one_of, word},
    view::ConsoleView,
};
use crate::{
    api::function_stats::FunctionCircuitState,
    http::error::ApiError,
    operator_api::functions::{self, CalledFunction},
    pages::{
        components::{Field, Tone, badge, short_id},
        form::FormValues,
    },
};

const PATH: &str = "/functions";
const TITLE: &str = "console-functions";
const FILTERS: &[&str] = &["sort", "tenantId", "agentId", "name"];

fn fields(visit: &ConsoleView) -> [Field; 4] {
    let text = |name, id: &str| Field::text(name, visit.t(id));
    [
        Field::select(
            "sort",
            visit.t("console-sort-by"),
            one_of(visit, Ranking::WORDS),
        ),
        text("tenantId", "console-tenant-id"),
        text("agentId", "console-agent-id"),
        text("name", "console-name"),
    ]
}

/// `GET /functions`
pub async fn list(visit: ConsoleView, typed: FormValues) -> Result<HttpResponse, ApiError> {
    let list = List::new(PATH, FILTERS, &typed);
    let fields = fields(&visit);
    let content = part(&visit, &typed).await.map(|rows| {
        html! {
            p.lead { (visit.t("console-functions-words")) }
            (list.filter(&visit, &fields))
            (visit.followed("functions", &list.query(), &rows))
        }
    });
    list.page(&visit, TITLE, &fields, content)
}

/// The live part of the list.
pub async fn part(visit: &ConsoleView, typed: &FormValues) -> Result<Markup, ApiError> {
    let list = List::new(PATH, FILTERS, typed);
    let found = functions::page(&visit.process(), &list.form()?)?;
    let db = visit.store().api_reader();
    let names = TenantNames::of(db, found.functions.iter().map(|of| of.tenant_id)).await?;
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
                    (Some(fault), Some(at)) => (visit.rich("console-fault-ago", &[
                        ("fault", html! { code { (fault) } }), ("time", html! { (since(visit, at)) }),
                    ])),
                    _ => { (NONE) }
                }
            },
        ]
    };
    let rows = ListRows {
        title: TITLE,
        columns: visit.columns("console-functions-columns"),
        rows: found.functions.iter().map(row).collect(),
        none: ("console-no-functions", "console-no-functions-words"),
    };
    Ok(list.part(visit, rows, found.offset, found.has_more))
}

/// A count with its number of failures.
pub fn counts(visit: &ConsoleView, all: u64, failed: u64) -> Markup {
    html! {
        (count(visit, all))
        @if failed > 0 { ", " (badge(Tone::Bad, &visit.tn("console-failed-of", &[("count", count(visit, failed).into())]))) }
    }
}

fn circuit(visit: &ConsoleView, of: &CalledFunction) -> Markup {
    match of.circuit.state {
        FunctionCircuitState::Closed => badge(Tone::Good, &word(visit, "closed")),
        FunctionCircuitState::HalfOpen => {
            badge(Tone::Warning, &visit.t("console-circuit-half-open"))
        }
        FunctionCircuitState::Open => html! {
            (badge(Tone::Bad, &word(visit, "open")))
            @if let Some(at) = of.circuit.retry_at { " " (visit.rich("console-circuit-until", &[("time", visit.time(at))])) }
        },
    }
}
