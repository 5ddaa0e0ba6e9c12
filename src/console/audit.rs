//! The audit log: each change with its author, time and address.

use actix_web::HttpResponse;
use dikala_entities::AuditAction;
use maud::{Markup, html};

use super::{
    figures::{NONE, TenantNames},
    list::{List, ListRows, any_of},
    view::ConsoleView,
};
use crate::{
    http::error::ApiError,
    operations::audit::{self, AuditEntry},
    pages::{components::Field, form::FormValues},
};

const PATH: &str = "/audit";
const TITLE: &str = "console-audit";
const FILTERS: &[&str] = &["tenantId", "actor", "action", "from", "to"];

fn fields(visit: &ConsoleView) -> [Field; 5] {
    let text = |name, id: &str| Field::text(name, visit.t(id));
    let when = visit.t("console-moment-hint");
    [
        text("tenantId", "console-tenant-id"),
        text("actor", "console-who").hint(visit.t("console-actor-hint")),
        Field::select(
            "action",
            visit.t("console-action"),
            any_of(visit, AuditAction::WORDS),
        ),
        text("from", "console-at-or-after").hint(when.clone()),
        text("to", "console-before").hint(when),
    ]
}

/// `GET /audit`
pub async fn list(visit: ConsoleView, typed: FormValues) -> Result<HttpResponse, ApiError> {
    let list = List::new(PATH, FILTERS, &typed);
    let fields = fields(&visit);
    let content = found(&visit, &list).await.map(|rows| {
        html! {
            (list.filter(&visit, &fields))
            @if list.is_whole() { (visit.followed("audit", "", &rows)) } @else { (rows) }
        }
    });
    list.page(&visit, TITLE, &fields, content)
}

/// The live part: the newest entries, unfiltered.
pub async fn part(visit: &ConsoleView) -> Result<Markup, ApiError> {
    found(visit, &List::new(PATH, FILTERS, &FormValues::default())).await
}

async fn found(visit: &ConsoleView, list: &List<'_>) -> Result<Markup, ApiError> {
    let found = audit::list(visit.operation(), list.query_of()?).await?;
    let tenants = found.entries.iter().filter_map(|entry| entry.tenant_id);
    let names = TenantNames::of(visit.store().api_reader(), tenants).await?;
    let row = |entry: &AuditEntry| {
        vec![
            visit.precise(entry.at),
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
    let rows = ListRows {
        title: TITLE,
        columns: visit.columns("console-audit-columns"),
        rows: found.entries.iter().map(row).collect(),
        none: ("console-no-entries", "console-no-entries-words"),
    };
    Ok(list.part(visit, rows, found.offset, found.has_more))
}
