//! Tenants: search, creation, changes and suspension; the pages below a tenant show keys, people, credit and
//! numbers.

pub mod credits;
pub mod keys;
pub mod numbers;
pub mod people;

use actix_web::{HttpRequest, HttpResponse};
use dikala_entities::{Plan, TenantId};
use maud::{Markup, html};

use super::{
    figures::NONE,
    follow::followed,
    layout,
    list::{List, acted, one_of},
    view::ConsoleView,
};
use crate::{
    http::{
        error::ApiError,
        extract::{Id, RequestBody},
    },
    operations::tenants::{self, FIELDS, LOW_CREDIT_THRESHOLD_DEFAULT, TenantList, TenantView},
    pages::{
        components::{
            Field, Question, Tone, badge, belongs_to, empty, fields, post, submit, table,
        },
        form::{self, FormState, FormValues},
    },
};

const PATH: &str = "/tenants";
const PATH_OF_NEW: &str = "/tenants/new";
const TITLE: &str = "Tenants";
const MAKE: &str = "Create a tenant";
const FILTERS: &[&str] = &["q"];
/// The path of a tenant's page, or of one below it.
fn path_of(id: TenantId, below: &str) -> String {
    format!("{PATH}/{id}{below}")
}

/// `GET /tenants`
pub async fn list(visit: ConsoleView, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let typed = FormValues::parse(request.query_string().as_bytes());
    let list = List::new(PATH, FILTERS, &typed);
    let search = [Field::text("q", "Name or id".to_owned())];
    match found(&visit, &list).await {
        Ok(rows) => {
            let content = html! {
                (list.filter(&visit, &search))
                @if list.is_whole() { (followed(&visit, "tenants", "", &rows)) } @else { (rows) }
                @if visit.may_change() { div.actions { a.button href=(PATH_OF_NEW) { (MAKE) } } }
            };
            Ok(layout::page(&visit, TITLE, content))
        }
        Err(error) => list.refused(&visit, TITLE, error, &search),
    }
}

/// The live part: the first page of all tenants.
pub async fn part(visit: &ConsoleView) -> Result<Markup, ApiError> {
    found(visit, &List::new(PATH, FILTERS, &FormValues::default())).await
}

async fn found(visit: &ConsoleView, list: &List<'_>) -> Result<Markup, ApiError> {
    let found = tenants::list(visit.operation(), list.query_of()?).await?;
    Ok(html! {
        div #part {
            (rows(visit, &found))
            (list.paging(found.offset, found.has_more))
        }
    })
}

fn rows(visit: &ConsoleView, found: &TenantList) -> Markup {
    if found.tenants.is_empty() {
        return empty(
            "No tenants",
            "There are none, or none match the search.",
            html! {},
        );
    }
    let columns = ["Tenant", "Status", "Plan", "Minutes", "Created"].map(str::to_owned);
    let row = |tenant: &TenantView| {
        vec![
            html! { a href=(path_of(tenant.id, "")) { (tenant.name) } },
            state(visit, tenant),
            html! { (tenant.plan.as_str()) },
            minutes(visit, tenant),
            visit.time(tenant.created_at),
        ]
    };
    table(
        visit,
        TITLE,
        &columns,
        found.tenants.iter().map(row).collect(),
    )
}

fn state(visit: &ConsoleView, tenant: &TenantView) -> Markup {
    match tenant.suspended_at {
        Some(at) => html! { (badge(Tone::Bad, "suspended")) " " (visit.time(at)) },
        None => badge(Tone::Good, "active"),
    }
}

fn minutes(visit: &ConsoleView, tenant: &TenantView) -> Markup {
    html! {
        (visit.number(tenant.balance_minutes))
        @if tenant.balance_minutes < tenant.low_credit_threshold { " " (badge(Tone::Warning, "low")) }
    }
}

fn draft_fields() -> [Field; 5] {
    let plans = Field::select("plan", "Plan".to_owned(), one_of(Plan::WORDS));
    let number = |name, label: &str, hint: &str| {
        let field = Field::number(name, label.to_owned()).optional();
        field.hint(hint.to_owned())
    };
    let of_plan = "Leave empty for the plan's.";
    let threshold =
        format!("{LOW_CREDIT_THRESHOLD_DEFAULT} if left out; below it the tenant is told.");
    [
        Field::text("name", "Name".to_owned()),
        plans,
        number("rateLimit", "Requests a minute", of_plan),
        number("lowCreditThreshold", "Low credit, in minutes", &threshold),
        number("maxConcurrentCalls", "Calls at the same time", of_plan),
    ]
}

fn filled(tenant: &TenantView) -> FormState {
    let figure = |figure: Option<i64>| figure.map(|figure| figure.to_string()).unwrap_or_default();
    FormState::with([
        ("name", tenant.name.clone()),
        ("plan", tenant.plan.as_str().to_owned()),
        ("rateLimit", figure(tenant.rate_limit)),
        (
            "lowCreditThreshold",
            tenant.low_credit_threshold.to_string(),
        ),
        ("maxConcurrentCalls", figure(tenant.max_concurrent_calls)),
    ])
}

/// `GET /tenants/new`
pub async fn ask_new(visit: ConsoleView) -> Result<HttpResponse, ApiError> {
    let form = draft_form(&visit, PATH_OF_NEW, MAKE, &FormState::blank());
    Ok(layout::page(&visit, MAKE, form))
}

fn draft_form(visit: &ConsoleView, path: &str, label: &str, filled: &FormState) -> Markup {
    let content = html! {
        (fields(visit, filled, &draft_fields()))
        (submit(label))
    };
    post(visit, path, content)
}

/// `POST /tenants/new`
pub async fn create(visit: ConsoleView, typed: FormValues) -> Result<HttpResponse, ApiError> {
    let created = match form::body(&typed, FIELDS) {
        Ok(body) => tenants::create(visit.operation(), body).await,
        Err(error) => Err(error),
    };
    match created {
        Ok(created) => Ok(visit.see(&path_of(created.value.id, ""), "done-tenant-made")),
        Err(error) => {
            let form = draft_form(&visit, PATH_OF_NEW, MAKE, &FormState::again(typed, error)?);
            Ok(layout::refused(&visit, MAKE, form))
        }
    }
}

/// `GET /tenants/{id}`
pub async fn show(visit: ConsoleView, id: Id<TenantId>) -> Result<HttpResponse, ApiError> {
    let tenant = tenants::show(visit.operation(), id).await?;
    let content = content(&visit, &tenant, &filled(&tenant));
    Ok(layout::page(&visit, &tenant.name, content))
}

fn content(visit: &ConsoleView, tenant: &TenantView, filled: &FormState) -> Markup {
    let path = path_of(tenant.id, "");
    let own = |figure: Option<i64>| match figure {
        Some(figure) => visit.number(figure),
        None => "the plan's".to_owned(),
    };
    html! {
        dl.facts {
            dt { "Tenant" } dd { code { (tenant.id) } }
            dt { "Status" } dd { (state(visit, tenant)) }
            dt { "Plan" } dd { (tenant.plan.as_str()) }
            dt { "Minutes" } dd { (minutes(visit, tenant)) }
            dt { "Requests a minute" } dd { (own(tenant.rate_limit)) }
            dt { "Calls at the same time" } dd { (own(tenant.max_concurrent_calls)) }
            dt { "Created" } dd { (visit.time(tenant.created_at)) }
        }
        ul {
            @for (below, name) in [("/credits", "Credit"), ("/keys", "Keys"), ("/users", "People"), ("/numbers", "Numbers")] {
                li { a href={ (path) (below) } { (name) } }
            }
            @for (list, name) in [("calls", "Calls"), ("webhooks", "Webhooks"), ("functions", "Functions"), ("audit", "Audit")] {
                li { a href={ "/" (list) "?tenantId=" (tenant.id) } { (name) } }
            }
        }
        @if visit.may_change() {
            h2 { "Change" }
            (draft_form(visit, &path, "Save", filled))
            div.actions {
                @if tenant.suspended_at.is_some() {
                    (post(visit, &format!("{path}/resume"), html! { button type="submit" { "Resume" } }))
                } @else {
                    a.button.danger href={ (path) "/suspend" } { "Suspend" }
                }
            }
        }
    }
}

/// `POST /tenants/{id}`
pub async fn save(
    visit: ConsoleView,
    id: Id<TenantId>,
    typed: FormValues,
) -> Result<HttpResponse, ApiError> {
    let tenant = id.0;
    let saved = match form::body(&typed, FIELDS) {
        Ok(body) => tenants::update(visit.operation(), id, body).await,
        Err(error) => Err(error),
    };
    match saved {
        Ok(_) => Ok(visit.see(&path_of(tenant, ""), "done-saved")),
        Err(error) => {
            let filled = FormState::again(typed, error)?;
            let tenant = tenants::show(visit.operation(), Id(tenant)).await?;
            let content = content(&visit, &tenant, &filled);
            Ok(layout::refused(&visit, &tenant.name, content))
        }
    }
}

/// `GET /tenants/{id}/suspend`
pub async fn ask_suspend(visit: ConsoleView, id: Id<TenantId>) -> Result<HttpResponse, ApiError> {
    let tenant = tenants::show(visit.operation(), id).await?;
    let path = path_of(tenant.id, "");
    let question = Question {
        path: &format!("{path}/suspend"),
        consequences: html! {
            p { "Requests and new calls of " strong { (tenant.name) } " are refused from now on, and its people are signed out. Calls under way go on, and nothing is removed." }
            p { "It can be resumed at any time." }
        },
        yes: "Suspend this tenant".to_owned(),
        back: &path,
    };
    Ok(layout::page(
        &visit,
        "Suspend this tenant?",
        question.show(&visit),
    ))
}

/// `POST /tenants/{id}/suspend`
pub async fn suspend(visit: ConsoleView, id: Id<TenantId>) -> Result<HttpResponse, ApiError> {
    let path = path_of(id.0, "");
    let done = tenants::suspend(visit.operation(), id, RequestBody::default()).await;
    acted(&visit, done, &path, "done-tenant-suspended")
}

/// `POST /tenants/{id}/resume`
pub async fn resume(visit: ConsoleView, id: Id<TenantId>) -> Result<HttpResponse, ApiError> {
    let path = path_of(id.0, "");
    let done = tenants::resume(visit.operation(), id, RequestBody::default()).await;
    acted(&visit, done, &path, "done-tenant-resumed")
}

/// The heading of a page below a tenant's.
async fn whose(visit: &ConsoleView, id: TenantId) -> Result<Markup, ApiError> {
    let tenant = tenants::show(visit.operation(), Id(id)).await?;
    Ok(belongs_to("Tenant", &path_of(id, ""), &tenant.name))
}

/// One kind of a tenant's things: a list, and a form that adds one.
struct TenantThings<'a> {
    title: &'static str,
    columns: Vec<String>,
    rows: Vec<Vec<Markup>>,
    /// Title and text of an empty list.
    none: (&'static str, &'static str),
    paging: Markup,
    /// Heading and button of the form.
    more: (&'static str, &'static str),
    /// Fields of the form.
    fields: &'a [Field],
}

impl TenantThings<'_> {
    /// `path` is the form's target.
    fn show(self, visit: &ConsoleView, path: &str, filled: &FormState) -> Markup {
        let (none, words) = self.none;
        let (heading, button) = self.more;
        html! {
            @if self.rows.is_empty() { (empty(none, words, html! {})) }
            @else { (table(visit, self.title, &self.columns, self.rows)) }
            (self.paging)
            @if visit.may_change() {
                section aria-labelledby="make" {
                    h2 #make { (heading) }
                    (post(visit, path, html! {
                        (fields(visit, filled, self.fields))
                        (submit(button))
                    }))
                }
            }
        }
    }
}

/// The text, or the placeholder for an unknown author.
fn or_none(text: Option<&str>) -> &str {
    text.unwrap_or(NONE)
}
