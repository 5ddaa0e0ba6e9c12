//! Creates, edits and deletes functions of an agent, and shows their recent outcomes.

use actix_web::HttpResponse;
use dikala_entities::{AgentId, FunctionId, FunctionMethod, OutboundUrl, agent, function};
use maud::{Markup, html};
use sea_orm::{ColumnTrait, QueryFilter, QueryOrder, QuerySelect};

use super::{
    super::{
        components::{Question, Tone, badge, notice, paging, post, seen, submit_kept, table},
        form::FormValues,
        heading::PageHeading,
        layout, members,
        names::cut,
        view::SignedIn,
    },
    find, function_calls,
    function_form::{self, FunctionForm},
    path_of as agents_path,
};
use crate::{
    api::function_stats::{self, FunctionCircuitState, FunctionStats},
    http::{
        error::{ApiError, Missing},
        extract::{FunctionName, Id},
    },
    operations::{agents::tools, functions},
};

/// Last path segment of the page for a new function.
const NEW: &str = "new";
/// Functions on one page.
const PAGE: usize = 6;
/// A 95th percentile above this, in milliseconds, is marked: the caller hears the silence.
const SLOW_MS: i64 = 1_500;
/// The longest part of an endpoint's address in the list, in characters.
const ENDPOINT_CHARS_MAX: usize = 200;

/// The path of the page for a new function.
pub fn new_path(agent: AgentId) -> String {
    format!("{}/functions/{NEW}", agents_path(agent))
}

/// The path of a function's page. A function named `new` is addressed by its id, because that path is taken.
pub fn path_of(agent: AgentId, name: &str, id: FunctionId) -> String {
    let path = agents_path(agent);
    match name {
        NEW => format!("{path}/functions/{id}"),
        _ => format!("{path}/functions/{name}"),
    }
}

/// A function of the tenant and its agent.
#[derive(Debug)]
pub struct FunctionPage {
    pub agent: agent::Model,
    pub function: function::Model,
    /// The path of the function's page.
    pub path: String,
}

impl FunctionPage {
    /// Finds the function at a path, or fails with 404.
    pub async fn at(
        visit: &SignedIn,
        id: Id<AgentId>,
        name: &FunctionName,
    ) -> Result<Self, ApiError> {
        let agent = find(visit, id).await?;
        let db = visit.store().api_reader();
        let function = match (functions::find(db, &agent, &name.0).await, name.0.parse()) {
            (Err(ApiError::NotFound(_)), Ok(id)) => by_id(visit, &agent, id).await?,
            (found, _) => found?,
        };
        let path = path_of(agent.id, &function.name, function.id);
        Ok(Self {
            agent,
            function,
            path,
        })
    }

    /// The function's name as the API's path parameter.
    pub fn api_name(&self) -> FunctionName {
        FunctionName(self.function.name.clone())
    }

    /// The heading of the function's page.
    fn heading(&self, visit: &SignedIn) -> PageHeading<'_> {
        let heading = below(&self.function.name, &self.agent);
        match visit.is_owner() {
            true => heading.action(html! {
                a.button href={ (self.path) "/test" } { (visit.t("functions-test")) }
            }),
            false => heading,
        }
    }

    /// The heading of a page below the function's page.
    pub fn heading_below<'a>(&self, title: &'a str) -> PageHeading<'a> {
        below(title, &self.agent).below(&self.function.name, &self.path)
    }

    fn is_enabled(&self) -> bool {
        tools(&self.agent).contains(&self.function.name)
    }
}

async fn by_id(
    visit: &SignedIn,
    agent: &agent::Model,
    id: FunctionId,
) -> Result<function::Model, ApiError> {
    let found = function::Entity::of_agent(agent)
        .filter(function::Column::Id.eq(id))
        .one(visit.store().api_reader())
        .await?;
    found.ok_or(ApiError::NotFound(Missing::Function))
}

/// A function as the list shows it.
#[derive(Debug)]
pub struct FunctionRow {
    id: FunctionId,
    pub name: String,
    method: FunctionMethod,
    endpoint: OutboundUrl,
}

/// All functions of an agent, oldest first.
pub async fn of_agent(
    visit: &SignedIn,
    agent: &agent::Model,
) -> Result<Vec<FunctionRow>, ApiError> {
    use function::Column;

    let rows: Vec<(FunctionId, String, FunctionMethod, OutboundUrl)> =
        function::Entity::of_agent(agent)
            .select_only()
            .columns([Column::Id, Column::Name, Column::Method, Column::Endpoint])
            .order_by_asc(Column::Id)
            .into_tuple()
            .all(visit.store().api_reader())
            .await?;
    let listed = |(id, name, method, endpoint)| FunctionRow {
        id,
        name,
        method,
        endpoint,
    };
    Ok(rows.into_iter().map(listed).collect())
}

/// One page of an agent's functions as a table, newest first, with links to other pages.
pub fn list(
    visit: &SignedIn,
    agent: &agent::Model,
    own: &[FunctionRow],
    before: Option<FunctionId>,
) -> Markup {
    let older = |function: &&FunctionRow| before.is_none_or(|before| function.id < before);
    let shown: Vec<&FunctionRow> = own.iter().rev().filter(older).take(PAGE + 1).collect();
    let path = agents_path(agent.id);
    let next = shown.get(PAGE).and(shown.get(PAGE - 1));
    let next = next.map(|last| format!("{path}?before={}#functions", last.id));
    let newest = before.map(|_| format!("{path}#functions"));
    let columns = ["functions-name", "functions-request"].map(|id| visit.t(id));
    let enabled = tools(agent);
    let row = |function: &FunctionRow| {
        vec![
            html! {
                a href=(path_of(agent.id, &function.name, function.id)) { (function.name) }
                @if !enabled.contains(&function.name) {
                    " " (badge(Tone::Warning, &visit.t("functions-disabled")))
                }
            },
            html! { code { (function.method) " " (cut(function.endpoint.as_str(), ENDPOINT_CHARS_MAX)) } },
        ]
    };
    let rows = shown.into_iter().take(PAGE).map(row).collect();
    html! {
        (table(visit, &visit.t("functions-title"), &columns, rows))
        (paging(visit, newest.as_deref(), next.as_deref()))
    }
}

/// `GET /dashboard/agents/{id}/functions/new`
pub async fn ask_new(visit: SignedIn, id: Id<AgentId>) -> Result<HttpResponse, ApiError> {
    let agent = find(&visit, id).await?;
    let content = new_form(&visit, &agent, &FunctionForm::blank());
    let title = visit.t("functions-new");
    Ok(layout::page(&visit, below(&title, &agent), content))
}

/// The heading of a page about a function of this agent.
fn below<'a>(title: &'a str, agent: &agent::Model) -> PageHeading<'a> {
    PageHeading::new(title).below(&agent.name, &agents_path(agent.id))
}

fn new_form(visit: &SignedIn, agent: &agent::Model, form: &FunctionForm) -> Markup {
    let path = new_path(agent.id);
    html! {
        p.lead { (visit.t("functions-words")) }
        (post(visit, &path, html! {
            (form.show(visit, &path))
            (submit_kept(visit, &visit.t("functions-make-submit")))
        }))
    }
}

/// `POST /dashboard/agents/{id}/functions/new`
pub async fn create(
    visit: SignedIn,
    id: Id<AgentId>,
    typed: FormValues,
) -> Result<HttpResponse, ApiError> {
    let agent = find(&visit, id).await?;
    let title = visit.t("functions-new");
    if let Some(form) = FunctionForm::rearranged(&visit, &typed) {
        let form = form?;
        let content = new_form(&visit, &agent, &form);
        return Ok(form.page(&visit, below(&title, &agent), content));
    }
    let (body, faults) = function_form::body(&visit, &typed, None);
    let made = functions::create(visit.operation(), id, body).await;
    let made = made.map_err(|error| faults.beside(error));
    match made {
        Ok(created) => {
            let function = &created.value;
            let path = path_of(agent.id, &function.name, function.id);
            Ok(visit.see(&path, "done-function-made"))
        }
        Err(error) => {
            let form = FunctionForm::again(typed, error)?;
            let content = new_form(&visit, &agent, &form);
            Ok(form.page(&visit, below(&title, &agent), content))
        }
    }
}

/// `GET /dashboard/agents/{id}/functions/{name}`
pub async fn show(
    visit: SignedIn,
    id: Id<AgentId>,
    name: FunctionName,
) -> Result<HttpResponse, ApiError> {
    let found = FunctionPage::at(&visit, id, &name).await?;
    let form = FunctionForm::of(&found.function);
    let content = content(&visit, &found, &form).await?;
    Ok(layout::page(&visit, found.heading(&visit), content))
}

async fn content(
    visit: &SignedIn,
    found: &FunctionPage,
    form: &FunctionForm,
) -> Result<Markup, ApiError> {
    let stats = function_stats::of(&visit.operation(), &found.function).await?;
    let last = function_calls::last(visit, &found.function).await?;
    Ok(html! {
        @if !found.is_enabled() {
            (notice(Tone::Warning, html! { p { (visit.t("functions-disabled-words")) } }))
        }
        (circuit(visit, &stats))
        (figures(visit, &stats))
        (last)
        @if visit.is_owner() {
            section aria-labelledby="settings" {
                h2 #settings { (visit.t("functions-settings")) }
                (post(visit, &found.path, html! {
                    (seen(&form.filled, found.function.updated_at))
                    (form.show(visit, &found.path))
                    (submit_kept(visit, &visit.t("page-save")))
                }))
            }
            section aria-labelledby="more" {
                h2 #more { (visit.t("functions-delete")) }
                p { (visit.tn("functions-delete-words", &[("agent", found.agent.name.as_str().into())])) }
                a.button.danger href={ (found.path) "/delete" } { (visit.t("functions-delete")) }
            }
        } @else {
            (members::who_may_change(visit).await?)
            (function_form::shown(visit, &found.function))
        }
    })
}

/// A notice if the circuit breaker keeps the endpoint from being called.
fn circuit(visit: &SignedIn, stats: &FunctionStats) -> Markup {
    let words = match stats.circuit.state {
        FunctionCircuitState::Closed => return html! {},
        FunctionCircuitState::Open => visit.t("functions-circuit-open"),
        FunctionCircuitState::HalfOpen => visit.t("functions-circuit-half-open"),
    };
    notice(
        Tone::Bad,
        html! {
            p {
                (words)
                @if let Some(at) = stats.circuit.retry_at {
                    " " (visit.t("functions-circuit-retry")) " " (visit.time(at)) "."
                }
            }
        },
    )
}

/// Outcomes of the last day's calls.
fn figures(visit: &SignedIn, stats: &FunctionStats) -> Markup {
    let count = |count: usize| visit.number(i64::try_from(count).unwrap_or(i64::MAX));
    let time = |ms: Option<i64>| match ms {
        Some(ms) => visit.tn("functions-ms", &[("ms", ms.into())]),
        None => "–".to_owned(),
    };
    let figure = |id: &str, value: String| html! { div { dt { (visit.t(id)) } dd { (value) } } };
    let slow = stats.latency_ms.p95.filter(|ms| *ms > SLOW_MS);
    html! {
        section aria-labelledby="lately" {
            h2 #lately { (visit.t("functions-lately")) }
            dl.figures {
                (figure("functions-calls", count(stats.calls)))
                (figure("functions-failures", count(stats.failures)))
                (figure("functions-half", time(stats.latency_ms.p50)))
                div {
                    dt { (visit.t("functions-nearly-all")) }
                    dd.warning[slow.is_some()] { (time(stats.latency_ms.p95)) }
                }
                (figure("functions-slowest", time(stats.latency_ms.max)))
            }
            @if let Some(ms) = slow {
                (notice(Tone::Warning, html! { p { (visit.tn("functions-slow", &[("ms", ms.into())])) } }))
            }
            p.hint { (visit.t("functions-since")) " " (visit.time(stats.from)) }
        }
    }
}

/// `POST /dashboard/agents/{id}/functions/{name}`
pub async fn save(
    visit: SignedIn,
    id: Id<AgentId>,
    name: FunctionName,
    typed: FormValues,
) -> Result<HttpResponse, ApiError> {
    let found = FunctionPage::at(&visit, id, &name).await?;
    if let Some(form) = FunctionForm::rearranged(&visit, &typed) {
        let form = form?;
        let content = content(&visit, &found, &form).await?;
        return Ok(form.page(&visit, found.heading(&visit), content));
    }
    let (body, faults) = function_form::body(&visit, &typed, Some(&found.function.parameters));
    let operation = visit.operation().unless_changed_since(typed.seen());
    let saved = functions::update(operation, id, found.api_name(), body).await;
    let saved = saved.map_err(|error| faults.beside(error));
    match saved {
        Ok(function) => {
            let path = path_of(found.agent.id, &function.name, function.id);
            Ok(visit.see(&path, "done-saved"))
        }
        Err(error) => {
            let form = FunctionForm::again(typed, error)?;
            let content = content(&visit, &found, &form).await?;
            Ok(form.page(&visit, found.heading(&visit), content))
        }
    }
}

/// `GET /dashboard/agents/{id}/functions/{name}/delete`
pub async fn ask_delete(
    visit: SignedIn,
    id: Id<AgentId>,
    name: FunctionName,
) -> Result<HttpResponse, ApiError> {
    let found = FunctionPage::at(&visit, id, &name).await?;
    let question = Question {
        path: &format!("{}/delete", found.path),
        consequences: html! {
            p { (visit.tn("functions-delete-words", &[("agent", found.agent.name.as_str().into())])) }
            p { (visit.t("functions-delete-calls")) }
        },
        yes: visit.t("functions-delete"),
        back: &found.path,
    };
    let name = found.function.name.as_str();
    let title = visit.tn("functions-delete-title", &[("name", name.into())]);
    Ok(layout::page(
        &visit,
        found.heading_below(&title),
        question.show(&visit),
    ))
}

/// `POST /dashboard/agents/{id}/functions/{name}/delete`
pub async fn delete(
    visit: SignedIn,
    id: Id<AgentId>,
    name: FunctionName,
) -> Result<HttpResponse, ApiError> {
    let found = FunctionPage::at(&visit, id, &name).await?;
    functions::delete(visit.operation(), id, found.api_name()).await?;
    Ok(visit.see(&agents_path(found.agent.id), "done-function-deleted"))
}
