//! Phone numbers and their agents.

use actix_web::{HttpRequest, HttpResponse};
use dikala_entities::{AgentId, OfTenant, PhoneNumberId, phone_number};
use maud::{Markup, html};
use sea_orm::{ColumnTrait, QueryFilter, QueryOrder, QuerySelect};

use super::{
    agent_choice::{self, AgentChoices, Choice, newest, options},
    agents,
    components::{self, Field, Tone, badge, empty, notice, paging, post, submit, table},
    form::{self, Fields, FormState, FormValues, Shape},
    layout,
    view::SignedIn,
};
use crate::{
    http::{
        error::ApiError,
        extract::{Id, id},
    },
    operations::{NAME_CHARS_MAX, agents::AGENTS_MAX, numbers},
};

const PATH: &str = "/dashboard/numbers";
const FIELDS: &Fields = &[("agentId", Shape::Optional)];
/// The cursor of the list.
const PLACE: &Fields = &[("before", Shape::Optional)];
/// Numbers on one page.
const PAGE: usize = 12;
/// Newest agents offered beside each number in the list. A number's own page offers more.
const CHOICES_MAX: u64 = 6;
/// Newest matching agents offered on a number's page.
const OFFERED_MAX: usize = 50;

/// `GET /dashboard/numbers`
pub async fn list(visit: SignedIn, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let before = form::asked(&request, PLACE)?.read(&[], |form| {
        Some(form.optional("before", None, id("a phone number")))
    })?;
    let mut numbers = page(&visit, before).await?;
    let has_more = numbers.len() > PAGE;
    numbers.truncate(PAGE);
    let last = numbers.last().map(|last| last.id).filter(|_| has_more);
    let older = last.map(|last| format!("{PATH}?before={last}"));
    let agents = numbers.iter().filter_map(|number| number.agent_id);
    let assigned = agent_choice::of(&visit, agents).await?;
    let mut choices = newest(&visit, CHOICES_MAX + 1).await?;
    let are_all = u64::try_from(choices.len()).is_ok_and(|there| there <= CHOICES_MAX);
    if !are_all {
        choices.pop_first();
    }
    let columns = ["numbers-number", "numbers-agent"].map(|id| visit.t(id));
    let rows = numbers.iter().map(|number| {
        let present = number
            .agent_id
            .and_then(|id| Some((id, assigned.get(&id)?)));
        vec![
            number_cell(&visit, number, present.map(|(_, choice)| choice)),
            agent_cell(&visit, number, present, &choices, are_all),
        ]
    });
    let content = html! {
        p.lead { (visit.t("numbers-words")) }
        @if choices.is_empty() && !numbers.is_empty() {
            (notice(Tone::Warning, html! {
                p { (visit.t("numbers-no-agents")) }
                @if visit.is_owner() { p.way { a href="/dashboard/agents/new" { (visit.t("agents-make")) } } }
            }))
        }
        @if numbers.is_empty() {
            (empty(&visit.t("numbers-none"), &visit.t("numbers-none-words"), html! {}))
        } @else {
            (table(&visit, &visit.t("numbers-title"), &columns, rows.collect()))
        }
        (paging(&visit, before.map(|_| PATH), older.as_deref()))
    };
    Ok(layout::page(&visit, &visit.t("numbers-title"), content))
}

/// Numbers, newest first, at most one more than fit on a page.
async fn page(
    visit: &SignedIn,
    before: Option<PhoneNumberId>,
) -> Result<Vec<phone_number::Model>, ApiError> {
    let one_more = u64::try_from(PAGE).unwrap_or(u64::MAX) + 1;
    let mut select = phone_number::Entity::of(visit.tenant());
    if let Some(before) = before {
        select = select.filter(phone_number::Column::Id.lt(before));
    }
    let numbers = select
        .order_by_desc(phone_number::Column::Id)
        .limit(one_more)
        .all(visit.store().api_reader())
        .await?;
    Ok(numbers)
}

/// The number, its label, and the reason if calls to it are not answered.
fn number_cell(visit: &SignedIn, number: &phone_number::Model, agent: Option<&Choice>) -> Markup {
    html! {
        strong { (number.did.as_str()) }
        @if !number.is_active {
            " " (badge(Tone::Bad, &visit.t("numbers-inactive")))
        } @else if agent.is_none() {
            " " (badge(Tone::Warning, &visit.t("numbers-unanswered")))
        } @else if agent.is_some_and(|agent| !agent.is_active) {
            " " (badge(Tone::Warning, &visit.t("numbers-agent-inactive")))
        }
        @if !number.label.is_empty() { br; span.muted { (number.label) } }
        @if !number.is_active { br; span.muted { (visit.t("numbers-inactive-words")) } }
    }
}

fn agent_cell(
    visit: &SignedIn,
    number: &phone_number::Model,
    present: Option<(AgentId, &Choice)>,
    choices: &AgentChoices,
    are_all: bool,
) -> Markup {
    if !visit.is_owner() {
        return html! {
            @match present {
                Some((id, agent)) => a href=(agents::path_of(id)) { (agent.name) },
                None => span.muted { (visit.t("numbers-no-agent")) },
            }
        };
    }
    let did = number.did.as_str();
    let chosen = present.map(|(id, _)| id.to_string()).unwrap_or_default();
    // The current agent may be older than the offered ones.
    let mut choices = choices.clone();
    choices.extend(present.map(|(id, agent)| (id, agent.clone())));
    html! {
        (post(visit, &agents::assign_path(number.id), html! {
            div.row {
                select name="agentId" aria-label=(visit.tn("numbers-agent-of", &[("number", did.into())])) {
                    @for (value, name) in choices_or_none(visit, &choices) {
                        option value=(value) selected[value == chosen] { (name) }
                    }
                }
                button.secondary type="submit" aria-label=(visit.tn("numbers-save-of", &[("number", did.into())])) {
                    (visit.t("page-save"))
                }
            }
        }))
        @if !are_all { a href=(agents::assign_path(number.id)) { (visit.t("numbers-all-agents")) } }
    }
}

/// The choices: no agent, or an agent, newest first.
fn choices_or_none(visit: &SignedIn, choices: &AgentChoices) -> Vec<(String, String)> {
    let nobody = (String::new(), visit.t("numbers-no-agent"));
    std::iter::once(nobody)
        .chain(options(visit, choices))
        .collect()
}

/// `GET /dashboard/numbers/{id}/assign-agent`
pub async fn ask_agent(
    visit: SignedIn,
    id: Id<PhoneNumberId>,
    asked: FormValues,
) -> Result<HttpResponse, ApiError> {
    let number = numbers::find(&visit.operation(), id.0).await?;
    let sought = asked.text("name").unwrap_or_default().trim();
    // No agent's name is longer.
    let sought: String = sought.chars().take(NAME_CHARS_MAX).collect();
    let present = number.agent_id.map(|agent| agent.to_string());
    let filled = FormState::with(present.map(|agent| ("agentId", agent)));
    let content = offer(&visit, &number, &sought, &filled).await?;
    Ok(layout::page(&visit, &title(&visit, &number), content))
}

fn title(visit: &SignedIn, number: &phone_number::Model) -> String {
    visit.tn(
        "numbers-agent-of",
        &[("number", number.did.as_str().into())],
    )
}

/// The form that assigns an agent: agents whose name contains `sought`, and the current one.
async fn offer(
    visit: &SignedIn,
    number: &phone_number::Model,
    sought: &str,
    filled: &FormState,
) -> Result<Markup, ApiError> {
    let all = newest(visit, AGENTS_MAX).await?;
    let are_many = all.len() > OFFERED_MAX;
    let folded = sought.to_lowercase();
    let present = number
        .agent_id
        .and_then(|id| Some((id, all.get(&id)?.clone())));
    let found: Vec<(AgentId, Choice)> = all
        .into_iter()
        .filter(|(_, agent)| agent.name.to_lowercase().contains(&folded))
        .collect();
    let left_out = found.len().saturating_sub(OFFERED_MAX);
    let is_nothing = found.is_empty();
    let mut offered: AgentChoices = found.into_iter().skip(left_out).collect();
    offered.extend(present);
    let path = agents::assign_path(number.id);
    let field = Field::select(
        "agentId",
        visit.t("numbers-agent"),
        choices_or_none(visit, &offered),
    );
    let name = Field::text("name", visit.t("numbers-seek")).filter();
    Ok(html! {
        (post(visit, &path, html! {
            (components::fields(visit, filled, &[field]))
            (submit(&visit.t("page-save")))
        }))
        @if are_many {
            form method="get" action=(path) novalidate {
                (name.show(visit, &FormState::with([("name", sought)])))
                div.actions {
                    button.secondary type="submit" { (visit.t("numbers-seek-submit")) }
                    @if !sought.is_empty() { a.button.secondary href=(path) { (visit.t("numbers-all-agents")) } }
                }
            }
            @if is_nothing { p role="status" { (visit.t("numbers-seek-nothing")) } }
            @if left_out > 0 {
                p.muted { (visit.tn("numbers-seek-more", &[("shown", OFFERED_MAX.into()), ("more", left_out.into())])) }
            }
        }
    })
}

/// `POST /dashboard/numbers/{id}/assign-agent`
pub async fn assign(
    visit: SignedIn,
    id: Id<PhoneNumberId>,
    typed: FormValues,
) -> Result<HttpResponse, ApiError> {
    let number = numbers::find(&visit.operation(), id.0).await?;
    let assigned = match form::body(&typed, FIELDS) {
        Ok(body) => numbers::assign_agent(visit.operation(), id, body).await,
        Err(error) => Err(error),
    };
    match assigned {
        Ok(_) => Ok(visit.see(PATH, "done-number-assigned")),
        Err(error) => {
            let filled = FormState::again(typed, error)?;
            let content = offer(&visit, &number, "", &filled).await?;
            Ok(layout::refused(&visit, &title(&visit, &number), content))
        }
    }
}
