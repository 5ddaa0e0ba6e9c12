//! The audit log: each change with its author, time and address.

use actix_web::{HttpRequest, HttpResponse};
use dikala_entities::AuditAction;
use maud::{Markup, html};

use super::{
    figures::{NONE, TenantNames},
    follow::followed,
    layout,
    list::{List, any_of},
    view::ConsoleView,
};
use crate::{
    http::error::ApiError,
    operator_api::audit::{self, AuditEntry, EntryList},
    pages::{
        components::{Field, empty, table},
        form::FormValues,
    },
};

const PATH: &str = "/audit";
const TITLE: &str = "Audit";
const FILTERS: &[&str] = &["tenantId", "actor", "action", "from", "to"];

fn fields() -> [Field; 5] {
    let text = |name, label: &str| Field::text(name, label.to_owned());
    let when = "2026-01-15, or 2026-01-15T03:30:00Z";
    [
        text("tenantId", "Tenant's id"),
        text("actor", "Who").hint("operator, cli, or the id of a user or a key.".to_owned()),
        Field::select("action", "Action".to_owned(), any_of(AuditAction::WORDS)),
        text("from", "At or after").hint(when.to_owned()),
        text("to", "Before").hint(when.to_owned()),
    ]
}

/// `GET /audit`
pub async fn list(visit: ConsoleView, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let typed = FormValues::parse(request.query_string().as_bytes());
    let list = List::new(PATH, FILTERS, &typed);
    match found(&visit, &list).await {
        Ok(rows) => {
            let content = html! {
                (list.filter(&visit, &fields()))
                @if list.is_whole() { (followed(&visit, "audit", "", &rows)) } @else { (rows) }
            };
            Ok(layout::page(&visit, TITLE, content))
        }
        Err(error) => list.refused(&visit, TITLE, error, &fields()),
    }
}

/// The live part: the newest entries, unfiltered.
pub async fn part(visit: &ConsoleView) -> Result<Markup, ApiError> {
    found(visit, &List::new(PATH, FILTERS, &FormValues::default())).await
}

async fn found(visit: &ConsoleView, list: &List<'_>) -> Result<Markup, ApiError> {
    let db = visit.store().api_reader();
    let found = audit::page(db, &list.form()?, visit.state().now()).await?;
    Ok(html! {
        div #part {
            (rows(visit, &found).await?)
            (list.paging(found.offset, found.has_more))
        }
    })
}

async fn rows(visit: &ConsoleView, found: &EntryList) -> Result<Markup, ApiError> {
    if found.entries.is_empty() {
        return Ok(empty(
            "No entries",
            "No changes yet, or none match the filter.",
            html! {},
        ));
    }
    let db = visit.store().api_reader();
    let tenants = found.entries.iter().filter_map(|entry| entry.tenant_id);
    let names = TenantNames::of(db, tenants).await?;
    let columns = ["When", "Action", "Object", "Tenant", "Who", "From"].map(str::to_owned);
    let row = |entry: &AuditEntry| {
        vec![
            visit.time(entry.at),
            html! { code.word { (entry.action.as_str()) } },
            html! {
                code.long { (entry.target) }
                @if !entry.detail.is_empty() { br; span.muted.long { (entry.detail) } }
            },
            html! { @match entry.tenant_id { Some(tenant) => { (names.link(tenant)) } None => { (NONE) } } },
            html! { span.long { (entry.actor) } },
            html! { (entry.address.as_deref().unwrap_or(NONE)) br; span.muted { (entry.node) } },
        ]
    };
    let rows = found.entries.iter().map(row).collect();
    Ok(table(visit, TITLE, &columns, rows))
}
