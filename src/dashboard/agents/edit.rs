//! The form of an agent: creates, edits, duplicates and deletes it, and begins chats with what the form says.

use actix_web::{HttpRequest, HttpResponse};
use dikala_entities::{AgentId, FunctionId, OfTenant, PhoneNumber, agent, phone_number};
use maud::{Markup, html};
use sea_orm::{ColumnTrait, DbErr, QueryFilter, QueryOrder, QuerySelect};
use serde_json::{Value, json};

use super::{
    super::{
        components::{self, Field, Question, Tone, empty, notice, post, post_from, refused},
        errors,
        form::{self, Fields, FormState, FormValues, Shape},
        layout, members,
        view::SignedIn,
    },
    NEW_PATH, PATH,
    agent_form::{self, FormChoices},
    assign_path, chat, find,
    functions::{self, FunctionRow},
    path_of, talk, template_functions, templates, workbench,
};
use crate::{
    http::{
        error::ApiError,
        extract::{Id, RequestBody, id as read_id},
    },
    operations::{agents, chats},
};

/// The kind of business whose texts fill in the form.
const TEMPLATE: &Fields = &[("template", Shape::Optional)];
/// The cursor of an agent's page of functions.
const PLACE: &Fields = &[("before", Shape::Optional)];

/// The tool that needs the number of a person.
const TRANSFER: &str = "transfer_to_human";
/// Free numbers that are offered to an agent without a number.
const NUMBERS_OFFERED: u64 = 3;
/// Numbers of an agent that are listed by name.
const NUMBERS_MAX: usize = 10;

/// `GET /dashboard/agents/new`
pub async fn ask_new(visit: SignedIn, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let title = visit.t("agents-new");
    let asked = form::asked(&request, TEMPLATE)?;
    let template = asked.text("template").and_then(templates::find);
    let blank = agent::Model::new(visit.tenant(), visit.now());
    let agent = match template {
        Some(template) => template.fill(blank, visit.lang()),
        None => blank,
    };
    let chosen = template.map(|template| template.name);
    let functions = match chosen {
        Some(name) => {
            let brought = template_functions::brought(&visit, name).await?;
            template_functions::announced(&visit, name, &brought)
        }
        None => html! {},
    };
    let form = new_form(&visit, &agent_form::of(&agent), chosen)?;
    let content = html! { (offered(&visit, chosen)) (functions) (form) };
    Ok(layout::page(&visit, &title, content))
}

/// Links to the templates.
fn offered(visit: &SignedIn, chosen: Option<&str>) -> Markup {
    html! {
        p { (visit.t("templates-words")) }
        nav.tabs aria-label=(visit.t("templates-title")) {
            @for template in templates::ALL {
                @let is_it = chosen == Some(template.name);
                a href={ (NEW_PATH) "?template=" (template.name) } aria-current=[is_it.then_some("true")] { (visit.t(template.label)) }
            }
        }
        @if chosen.is_some() { p.hint { (visit.t("templates-chosen")) } }
    }
}

fn new_form(
    visit: &SignedIn,
    filled: &FormState,
    template: Option<&str>,
) -> Result<Markup, ApiError> {
    let fields = components::fields(visit, filled, &fields(visit, filled, &[])?);
    let submit = components::submit_kept(visit, &visit.t("agents-make-submit"));
    Ok(post(
        visit,
        NEW_PATH,
        html! {
            @if let Some(template) = template { input type="hidden" name="template" value=(template); }
            (fields) (submit)
        },
    ))
}

fn fields(
    visit: &SignedIn,
    filled: &FormState,
    functions: &[String],
) -> Result<Vec<Field>, ApiError> {
    let operation = visit.operation();
    let choices = FormChoices {
        functions,
        providers: &operation.agent_limits()?.voices.available,
    };
    Ok(agent_form::fields(visit, filled, choices))
}

/// `POST /dashboard/agents/new`
pub async fn create(visit: SignedIn, typed: FormValues) -> Result<HttpResponse, ApiError> {
    let made = match form::body(&typed, &agents::shapes()) {
        Ok(body) => agents::create(visit.operation(), body).await,
        Err(error) => Err(error),
    };
    let template = typed.text("template").and_then(templates::find);
    let template = template.map(|template| template.name);
    match made {
        Ok(created) => {
            let agent = created.value.id();
            let functions = match template {
                Some(template) => template_functions::create(&visit, agent, template).await,
                None => Ok(()),
            };
            // The agent exists, so it is shown in any case.
            let done = match functions {
                Ok(()) => "done-agent-made",
                Err(_) => "done-agent-made-without",
            };
            Ok(visit.see(&path_of(agent), done))
        }
        Err(error) => {
            let filled = FormState::again(typed, error)?;
            let content = new_form(&visit, &filled, template)?;
            let title = visit.t("agents-new");
            Ok(errors::refused(&visit, &title, content, &filled))
        }
    }
}

/// `GET /dashboard/agents/{id}`
pub async fn show(
    visit: SignedIn,
    id: Id<AgentId>,
    request: HttpRequest,
) -> Result<HttpResponse, ApiError> {
    let agent = find(&visit, id).await?;
    let before = form::asked(&request, PLACE)?.read(&[], |form| {
        Some(form.optional("before", None, read_id("a function")))
    })?;
    let content = content(&visit, &agent, before, &agent_form::of(&agent)).await?;
    Ok(layout::page(&visit, &agent.name, content))
}

async fn content(
    visit: &SignedIn,
    agent: &agent::Model,
    before: Option<FunctionId>,
    filled: &FormState,
) -> Result<Markup, ApiError> {
    let own = functions::of_agent(visit, agent).await?;
    let names: Vec<String> = own.iter().map(|function| function.name.clone()).collect();
    let answered = numbers_of(visit, agent.id).await?;
    let path = path_of(agent.id);
    let fields = fields(visit, filled, &names)?;
    Ok(html! {
        (workbench::tabs(visit, agent.id))
        @if !agent.is_active {
            (notice(Tone::Warning, html! { p { (visit.t("agents-inactive-words")) } }))
        }
        @if agent.escalation_number.is_none() && agents::tools(agent).iter().any(|tool| tool == TRANSFER) {
            (notice(Tone::Warning, html! { p { (visit.t("agents-no-escalation")) } }))
        }
        @if answered.is_empty() {
            (unreachable(visit, agent.id, &without_agent(visit, NUMBERS_OFFERED).await?))
        }
        @if visit.is_owner() {
            div.bench {
                (post_from(visit, Some(chat::FORM), &path, html! {
                    (components::seen(filled, agent.updated_at))
                    (components::fields(visit, filled, &fields))
                    (components::submit_kept(visit, &visit.t("page-save")))
                }))
                div {
                    (talk::section(visit, agent.id))
                    (chat::section(visit, agent.id))
                }
            }
        } @else {
            (members::who_may_change(visit).await?)
            (components::shown(visit, filled, &fields))
        }
        (workbench::figures(visit, agent.id).await?)
        (own_functions(visit, agent, &own, before))
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

/// A warning that no number leads to this agent. It offers numbers without an agent.
fn unreachable(visit: &SignedIn, agent: AgentId, free: &[phone_number::Model]) -> Markup {
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

fn own_functions(
    visit: &SignedIn,
    agent: &agent::Model,
    own: &[FunctionRow],
    before: Option<FunctionId>,
) -> Markup {
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
                (functions::list(visit, agent, own, before))
                div.actions { (make) }
            }
        }
    }
}

/// The agent's numbers, at most one more than are listed.
async fn numbers_of(visit: &SignedIn, agent: AgentId) -> Result<Vec<PhoneNumber>, ApiError> {
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

/// Active numbers without an agent, oldest first.
pub async fn without_agent(visit: &SignedIn, most: u64) -> Result<Vec<phone_number::Model>, DbErr> {
    phone_number::Entity::of(visit.tenant())
        .filter(phone_number::Column::IsActive.eq(true))
        .filter(phone_number::Column::AgentId.is_null())
        .order_by_asc(phone_number::Column::Id)
        .limit(most)
        .all(visit.store().api_reader())
        .await
}

fn numbers_named(visit: &SignedIn, numbers: &[PhoneNumber]) -> Markup {
    html! {
        ul {
            @for number in numbers.iter().take(NUMBERS_MAX) { li { (number.as_str()) } }
            @if numbers.len() > NUMBERS_MAX { li { (visit.t("agents-more-numbers")) } }
        }
    }
}

/// `POST /dashboard/agents/{id}`
pub async fn save(
    visit: SignedIn,
    id: Id<AgentId>,
    typed: FormValues,
) -> Result<HttpResponse, ApiError> {
    let agent = find(&visit, id).await?;
    let saved = match form::body(&typed, &agents::shapes()) {
        Ok(body) => {
            let operation = visit.operation().unless_changed_since(typed.seen());
            agents::update(operation, id, body).await
        }
        Err(error) => Err(error),
    };
    match saved {
        Ok(_) => Ok(visit.see(&path_of(agent.id), "done-saved")),
        Err(error) => again(&visit, &agent, typed, error).await,
    }
}

/// `POST /dashboard/agents/{id}/chats`: a chat with the form's settings.
pub async fn write_to(
    visit: SignedIn,
    id: Id<AgentId>,
    typed: FormValues,
) -> Result<HttpResponse, ApiError> {
    let agent = find(&visit, id).await?;
    let begun = match form::object(&typed, &agents::shapes()) {
        Ok(draft) => {
            let body = RequestBody::of(json!({"draft": Value::Object(draft)}));
            chats::create(visit.operation(), id, body).await
        }
        Err(error) => Err(error),
    };
    match begun {
        Ok(begun) => Ok(visit.go(&chat::path(begun.value.chat_id))),
        Err(error) => again(&visit, &agent, typed, of_form(error)).await,
    }
}

/// The errors of a draft as errors of the form's fields.
fn of_form(error: ApiError) -> ApiError {
    let without_draft = |text: &mut String| {
        if let Some(rest) = text.strip_prefix("draft.").map(str::to_owned) {
            *text = rest;
        }
    };
    match error {
        ApiError::Validation(mut errors) => {
            for error in &mut errors {
                without_draft(&mut error.field);
                without_draft(&mut error.message);
            }
            ApiError::Validation(errors)
        }
        other => other,
    }
}

/// The form once more, with what was wrong.
async fn again(
    visit: &SignedIn,
    agent: &agent::Model,
    typed: FormValues,
    error: ApiError,
) -> Result<HttpResponse, ApiError> {
    let filled = FormState::again(typed, error)?;
    let content = content(visit, agent, None, &filled).await?;
    Ok(errors::refused(visit, &agent.name, content, &filled))
}

/// `POST /dashboard/agents/{id}/duplicate`
pub async fn duplicate(visit: SignedIn, id: Id<AgentId>) -> Result<HttpResponse, ApiError> {
    let agent = find(&visit, id).await?;
    let suffix = visit.t("agents-copy");
    let made = agents::duplicate(visit.operation(), id, &suffix).await;
    match made {
        Ok(made) => Ok(visit.see(&path_of(made.value.id()), "done-agent-duplicated")),
        Err(error @ (ApiError::Validation(_) | ApiError::TooManyVersions(_))) => {
            let page = content(&visit, &agent, None, &agent_form::of(&agent)).await?;
            let content = html! { (refused(&visit, &error)) (page) };
            Ok(errors::again(&visit, &agent.name, content, &error))
        }
        Err(error) => Err(error),
    }
}

/// `GET /dashboard/agents/{id}/delete`
pub async fn ask_delete(visit: SignedIn, id: Id<AgentId>) -> Result<HttpResponse, ApiError> {
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
pub async fn delete(visit: SignedIn, id: Id<AgentId>) -> Result<HttpResponse, ApiError> {
    agents::delete(visit.operation(), id).await?;
    Ok(visit.see(PATH, "done-agent-deleted"))
}
