//! Agents: all of them, making one, setting one, a second like it, deleting one.

use std::collections::HashMap;

use actix_web::HttpResponse;
use dikala_entities::{
    AgentId, Language, Millis, OfTenant, PhoneNumber, PhoneNumberId, agent, phone_number,
};
use maud::{Markup, html};
use sea_orm::{ColumnTrait, DbErr, QueryFilter, QueryOrder, QuerySelect};

use super::{
    agent_form::{self, FIELDS, language_name},
    components::{Question, Tone, badge, empty, notice, paging, post, submit, table},
    form::{self, Filled, Typed},
    functions::{self, Listed},
    layout,
    view::Visit,
};
use crate::{
    api::{agents as api, duplicates},
    http::{
        error::ApiError,
        extract::{Id, Query, id},
        route,
    },
};

/// Where agents are.
pub const PATH: &str = "/dashboard/agents";
const NEW_PATH: &str = "/dashboard/agents/new";
/// Agents on one page.
const PAGE: usize = 50;
/// Numbers that an agent without any can be given at once.
const NUMBERS_OFFERED: u64 = 3;
/// Numbers of an agent that are named.
const NUMBERS_MAX: usize = 20;

/// The address of one agent's page.
pub fn path_of(id: AgentId) -> String {
    format!("{PATH}/{id}")
}

/// Where the agent of a number is chosen.
pub fn assign_path(number: PhoneNumberId) -> String {
    format!("/dashboard/numbers/{number}/assign-agent")
}

/// The tenant's agent, or 404.
pub async fn find(visit: &Visit, id: Id<AgentId>) -> Result<agent::Model, ApiError> {
    api::find(visit.store().api_reader(), visit.tenant(), id.0).await
}

/// What the thing on a page belongs to: its kind, its page, its name.
pub fn belongs_to(kind: &str, path: &str, name: &str) -> Markup {
    html! { p.way { span { (kind) ":" } " " a href=(path) { (name) } } }
}

/// What a list tells of an agent.
struct Row {
    id: AgentId,
    name: String,
    language: Language,
    is_active: bool,
    updated_at: Millis,
}

async fn rows(visit: &Visit, before: Option<AgentId>) -> Result<Vec<Row>, ApiError> {
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

/// One number of each of these agents, and how many they have.
async fn first_numbers(
    visit: &Visit,
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
pub async fn list(visit: Visit, query: Query) -> Result<HttpResponse, ApiError> {
    let before = query.0.read(&["done"], |form| {
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
            (empty(&visit.t("agents-none"), &visit.t("agents-none-words"), make))
        } @else {
            @let cells = rows.iter().map(|row| cells(&visit, row, numbers.get(&row.id))).collect();
            (table(&visit, &visit.t("agents-title"), &columns, cells))
            div.actions { (make) }
        }
        (paging(&visit, before.map(|_| PATH), older.as_deref()))
    };
    Ok(layout::page(&visit, &visit.t("agents-title"), content))
}

fn cells(visit: &Visit, row: &Row, numbers: Option<&(PhoneNumber, i64)>) -> Vec<Markup> {
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

/// `GET /dashboard/agents/new`
pub async fn ask_new(visit: Visit) -> HttpResponse {
    let title = visit.t("agents-new");
    layout::page(&visit, &title, new_form(&visit, &agent_form::blank()))
}

fn new_form(visit: &Visit, filled: &Filled) -> Markup {
    html! {
        (post(visit, NEW_PATH, html! {
            (agent_form::fields(visit, filled, &[]))
            (submit(&visit.t("agents-make-submit")))
        }))
    }
}

/// `POST /dashboard/agents/new`
pub async fn create(visit: Visit, typed: Typed) -> Result<HttpResponse, ApiError> {
    let made = match form::body(&typed, FIELDS) {
        Ok(body) => api::create(visit.caller(), visit.services(), body).await,
        Err(error) => Err(error),
    };
    match made {
        // The page of what is at a path of the API is at the same path of the dashboard.
        Ok(answer) => {
            let location = answer.location.unwrap_or_default();
            let path = location.strip_prefix(route::BASE).unwrap_or_default();
            Ok(visit.see(&format!("/dashboard{path}"), "done-agent-made"))
        }
        Err(error) => {
            let content = new_form(&visit, &Filled::again(typed, error)?);
            Ok(layout::refused(&visit, &visit.t("agents-new"), content))
        }
    }
}

/// `GET /dashboard/agents/{id}`
pub async fn show(visit: Visit, id: Id<AgentId>) -> Result<HttpResponse, ApiError> {
    let agent = find(&visit, id).await?;
    let content = content(&visit, &agent, &agent_form::of(&agent)).await?;
    Ok(layout::page(&visit, &agent.name, content))
}

async fn content(visit: &Visit, agent: &agent::Model, filled: &Filled) -> Result<Markup, ApiError> {
    let own = functions::of_agent(visit, agent).await?;
    let names: Vec<String> = own.iter().map(|function| function.name.clone()).collect();
    let answered = numbers_of(visit, agent.id).await?;
    let path = path_of(agent.id);
    Ok(html! {
        @if !agent.is_active {
            (notice(Tone::Warning, html! { p { (visit.t("agents-inactive-words")) } }))
        }
        @if answered.is_empty() {
            (unreachable(visit, agent.id, &without_agent(visit, NUMBERS_OFFERED).await?))
        }
        @if visit.is_owner() {
            (post(visit, &path, html! {
                (agent_form::fields(visit, filled, &names))
                (submit(&visit.t("page-save")))
            }))
        } @else {
            fieldset.whole disabled { (agent_form::fields(visit, filled, &names)) }
        }
        (own_functions(visit, agent, &own))
        @if !answered.is_empty() {
            section aria-labelledby="numbers" {
                h2 #numbers { (visit.t("agents-numbers")) }
                (numbers_named(visit, &answered))
                p.way { a href="/dashboard/numbers" { (visit.t("agents-assign")) } }
            }
        }
        @if visit.is_owner() {
            section aria-labelledby="more" {
                h2 #more { (visit.t("agents-more")) }
                div.row {
                    (post(visit, &format!("{path}/duplicate"), html! {
                        button.secondary type="submit" { (visit.t("agents-duplicate")) }
                    }))
                    a.button.danger href={ (path) "/delete" } { (visit.t("agents-delete")) }
                }
                p.hint { (visit.t("agents-duplicate-hint")) }
            }
        }
    })
}

/// Nobody can call this agent: numbers that nobody answers are one press away.
fn unreachable(visit: &Visit, agent: AgentId, free: &[phone_number::Model]) -> Markup {
    notice(
        Tone::Warning,
        html! {
            p { (visit.t("agents-unreachable")) }
            @if visit.is_owner() {
                @for number in free {
                    (post(visit, &assign_path(number.id), html! {
                        input type="hidden" name="agentId" value=(agent);
                        button type="submit" {
                            (visit.tn("agents-take-number", &[("number", number.did.as_str().into())]))
                        }
                    }))
                }
            }
            p.way { a href="/dashboard/numbers" { (visit.t("agents-assign")) } }
        },
    )
}

fn own_functions(visit: &Visit, agent: &agent::Model, own: &[Listed]) -> Markup {
    let make = html! {
        @if visit.is_owner() {
            a.button.secondary href=(functions::new_path(agent.id)) { (visit.t("functions-make")) }
        }
    };
    html! {
        section aria-labelledby="functions" {
            h2 #functions { (visit.t("functions-title")) }
            @if own.is_empty() {
                (empty(&visit.t("functions-none"), &visit.t("functions-none-words"), make))
            } @else {
                (functions::list(visit, agent, own))
                div.actions { (make) }
            }
        }
    }
}

/// The numbers that an agent answers, and one more than are named where there are more.
async fn numbers_of(visit: &Visit, agent: AgentId) -> Result<Vec<PhoneNumber>, ApiError> {
    let one_more = u64::try_from(NUMBERS_MAX).unwrap_or(u64::MAX) + 1;
    let numbers = phone_number::Entity::of(visit.tenant())
        .select_only()
        .column(phone_number::Column::Did)
        .filter(phone_number::Column::AgentId.eq(agent))
        .order_by_asc(phone_number::Column::Id)
        .limit(one_more)
        .into_tuple()
        .all(visit.store().api_reader())
        .await?;
    Ok(numbers)
}

/// Numbers that are in use and have no agent, the oldest first.
pub async fn without_agent(visit: &Visit, most: u64) -> Result<Vec<phone_number::Model>, DbErr> {
    phone_number::Entity::of(visit.tenant())
        .filter(phone_number::Column::IsActive.eq(true))
        .filter(phone_number::Column::AgentId.is_null())
        .order_by_asc(phone_number::Column::Id)
        .limit(most)
        .all(visit.store().api_reader())
        .await
}

fn numbers_named(visit: &Visit, numbers: &[PhoneNumber]) -> Markup {
    html! {
        ul {
            @for number in numbers.iter().take(NUMBERS_MAX) { li { (number.as_str()) } }
            @if numbers.len() > NUMBERS_MAX { li { (visit.t("agents-more-numbers")) } }
        }
    }
}

/// `POST /dashboard/agents/{id}`
pub async fn save(visit: Visit, id: Id<AgentId>, typed: Typed) -> Result<HttpResponse, ApiError> {
    let agent = find(&visit, id).await?;
    let saved = match form::body(&typed, FIELDS) {
        Ok(body) => api::update(visit.caller(), visit.services(), id, body).await,
        Err(error) => Err(error),
    };
    match saved {
        Ok(_) => Ok(visit.see(&path_of(agent.id), "done-saved")),
        Err(error) => {
            let content = content(&visit, &agent, &Filled::again(typed, error)?).await?;
            Ok(layout::refused(&visit, &agent.name, content))
        }
    }
}

/// `POST /dashboard/agents/{id}/duplicate`
pub async fn duplicate(visit: Visit, id: Id<AgentId>) -> Result<HttpResponse, ApiError> {
    let suffix = visit.t("agents-copy");
    let made = duplicates::create(&visit.caller(), &visit.services(), id.0, &suffix).await?;
    Ok(visit.see(&path_of(made), "done-agent-duplicated"))
}

/// `GET /dashboard/agents/{id}/delete`
pub async fn ask_delete(visit: Visit, id: Id<AgentId>) -> Result<HttpResponse, ApiError> {
    let agent = find(&visit, id).await?;
    let own = functions::of_agent(&visit, &agent).await?;
    let numbers = numbers_of(&visit, agent.id).await?;
    let path = path_of(agent.id);
    let question = Question {
        path: &format!("{path}/delete"),
        consequences: html! {
            @if !own.is_empty() {
                p { (visit.t("agents-delete-functions")) }
                ul { @for function in &own { li { code { (function.name) } } } }
            }
            @if !numbers.is_empty() {
                p { (visit.t("agents-delete-numbers")) }
                (numbers_named(&visit, &numbers))
            }
            p { (visit.t("agents-delete-calls")) }
            p { (visit.t("agents-delete-final")) }
        },
        yes: visit.t("agents-delete"),
        back: &path,
    };
    let title = visit.tn(
        "agents-delete-title",
        &[("name", agent.name.as_str().into())],
    );
    Ok(layout::page(&visit, &title, question.show(&visit)))
}

/// `POST /dashboard/agents/{id}/delete`
pub async fn delete(visit: Visit, id: Id<AgentId>) -> Result<HttpResponse, ApiError> {
    api::delete(visit.caller(), visit.services(), id).await?;
    Ok(visit.see(PATH, "done-agent-deleted"))
}
