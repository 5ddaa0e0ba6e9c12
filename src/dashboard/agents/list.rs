//! The list of agents.

use std::collections::HashMap;

use actix_web::{HttpRequest, HttpResponse};
use dikala_entities::{AgentId, Language, Millis, OfTenant, PhoneNumber, agent, phone_number};
use maud::{Markup, html};
use sea_orm::{ColumnTrait, QueryFilter, QueryOrder, QuerySelect};

use super::{
    super::{
        components::{Tone, badge, empty, paging, table},
        form::{self, Fields, Shape},
        heading::PageHeading,
        layout,
        view::SignedIn,
    },
    NEW_PATH, PATH,
    agent_form::language_name,
    path_of,
};
use crate::http::{error::ApiError, extract::id};

/// The cursor of the list.
const PLACE: &Fields = &[("before", Shape::Optional)];
/// Agents on one page.
const PAGE: usize = 25;

/// An agent as the list shows it.
struct Row {
    id: AgentId,
    name: String,
    language: Language,
    is_active: bool,
    updated_at: Millis,
}

async fn rows(visit: &SignedIn, before: Option<AgentId>) -> Result<Vec<Row>, ApiError> {
    use agent::Column;

    let mut select = agent::Entity::of(visit.tenant()).select_only().columns([
        Column::Id,
        Column::Name,
        Column::Language,
        Column::IsActive,
        Column::UpdatedAt,
    ]);
    if let Some(before) = before {
        select = select.filter(Column::Id.lt(before));
    }
    let one_more = u64::try_from(PAGE).unwrap_or(u64::MAX) + 1;
    let rows: Vec<(AgentId, String, Language, bool, Millis)> = select
        .order_by_desc(Column::Id)
        .limit(one_more)
        .into_tuple()
        .all(visit.store().api_reader())
        .await?;
    let row = |(id, name, language, is_active, updated_at)| Row {
        id,
        name,
        language,
        is_active,
        updated_at,
    };
    Ok(rows.into_iter().map(row).collect())
}

/// The first number of each agent, and its count of numbers.
async fn first_numbers(
    visit: &SignedIn,
    rows: &[Row],
) -> Result<HashMap<AgentId, (PhoneNumber, i64)>, ApiError> {
    use phone_number::Column;

    let counted: Vec<(AgentId, PhoneNumber, i64)> = phone_number::Entity::of(visit.tenant())
        .select_only()
        .column(Column::AgentId)
        .column_as(Column::Did.min(), "first")
        .column_as(Column::Id.count(), "count")
        .filter(Column::AgentId.is_in(rows.iter().map(|row| row.id)))
        .group_by(Column::AgentId)
        .into_tuple()
        .all(visit.store().api_reader())
        .await?;
    let counted = counted.into_iter();
    Ok(counted
        .map(|(agent, first, count)| (agent, (first, count)))
        .collect())
}

/// `GET /dashboard/agents`
pub async fn list(visit: SignedIn, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let before = form::asked(&request, PLACE)?.read(&[], |form| {
        Some(form.optional("before", None, id("an agent")))
    })?;
    let mut rows = rows(&visit, before).await?;
    let has_more = rows.len() > PAGE;
    rows.truncate(PAGE);
    let numbers = first_numbers(&visit, &rows).await?;
    let last = rows.last().map(|last| last.id).filter(|_| has_more);
    let older = last.map(|last| format!("{PATH}?before={last}"));
    let columns = [
        "agents-name",
        "agents-numbers",
        "agents-language",
        "agents-changed",
    ];
    let columns = columns.map(|id| visit.t(id));
    let make = html! {
        @if visit.is_owner() { a.button href=(NEW_PATH) { (visit.t("agents-make")) } }
    };
    let content = html! {
        p.lead { (visit.t("agents-words")) }
        @if rows.is_empty() {
            (empty(&visit.t("agents-none"), &visit.t("agents-none-words"), make.clone()))
        } @else {
            @let cells = rows.iter().map(|row| cells(&visit, row, numbers.get(&row.id))).collect();
            (table(&visit, &visit.t("agents-title"), &columns, cells))
        }
        (paging(&visit, before.map(|_| PATH), older.as_deref()))
    };
    let title = visit.t("agents-title");
    let heading = PageHeading::new(&title);
    let heading = if rows.is_empty() {
        heading
    } else {
        heading.action(make)
    };
    Ok(layout::page(&visit, heading, content))
}

fn cells(visit: &SignedIn, row: &Row, numbers: Option<&(PhoneNumber, i64)>) -> Vec<Markup> {
    vec![
        html! {
            a href=(path_of(row.id)) { (row.name) }
            @if !row.is_active { " " (badge(Tone::Warning, &visit.t("agents-inactive"))) }
        },
        match numbers {
            None => html! { span.muted { (visit.t("agents-no-number")) } },
            Some((first, count)) => html! {
                (first.as_str())
                @if *count > 1 {
                    " " span.muted { (visit.tn("agents-and-more", &[("count", (count - 1).into())])) }
                }
            },
        },
        html! { (language_name(row.language.as_str())) },
        visit.time(row.updated_at),
    ]
}
