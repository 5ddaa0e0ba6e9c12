//! Tenants: search, creation, changes and suspension; the pages below a tenant show keys, people, credit and
//! numbers.

mod cockpit;
pub mod credits;
pub mod keys;
pub mod numbers;
pub mod people;

use actix_web::HttpResponse;
use dikala_entities::{Plan, TenantId};
use maud::{Markup, html};

use super::{
    figures::NONE,
    layout,
    list::{List, ListRows, acted, one_of},
    view::ConsoleView,
};
use crate::{
    http::{
        error::ApiError,
        extract::{Id, RequestBody},
    },
    operations::tenants::{
        self, FIELDS, LOW_CREDIT_THRESHOLD_DEFAULT, TenantView, activity::activity,
    },
    pages::{
        components::{Field, Question, Tone, badge, belongs_to, fields, post, submit},
        form::{self, FormState, FormValues},
    },
};

const PATH: &str = "/tenants";
const PATH_OF_NEW: &str = "/tenants/new";
const TITLE: &str = "console-tenants";
const MAKE: &str = "console-create-tenant";
const FILTERS: &[&str] = &["q"];
/// The path of a tenant's page, or of one below it.
fn path_of(id: TenantId, below: &str) -> String {
    format!("{PATH}/{id}{below}")
}

/// `GET /tenants`
pub async fn list(visit: ConsoleView, typed: FormValues) -> Result<HttpResponse, ApiError> {
    let list = List::new(PATH, FILTERS, &typed);
    let search = [Field::text("q", visit.t("console-name-or-id"))];
    let content = found(&visit, &list).await.map(|rows| {
        html! {
            (list.filter(&visit, &search))
            @if list.is_whole() { (visit.followed("tenants", "", &rows)) } @else { (rows) }
            @if visit.may_change() { div.actions { a.button href=(PATH_OF_NEW) { (visit.t(MAKE)) } } }
        }
    });
    list.page(&visit, TITLE, &search, content)
}

/// The live part: the first page of all tenants.
pub async fn part(visit: &ConsoleView) -> Result<Markup, ApiError> {
    found(visit, &List::new(PATH, FILTERS, &FormValues::default())).await
}

async fn found(visit: &ConsoleView, list: &List<'_>) -> Result<Markup, ApiError> {
    let found = tenants::list(visit.operation(), list.query_of()?).await?;
    let row = |tenant: &TenantView| {
        vec![
            html! { a href=(path_of(tenant.id, "")) { (tenant.name) } },
            state(visit, tenant),
            html! { (tenant.plan.as_str()) },
            minutes(visit, tenant),
            visit.precise(tenant.created_at),
        ]
    };
    let rows = ListRows {
        title: TITLE,
        columns: visit.columns("console-tenants-columns"),
        rows: found.tenants.iter().map(row).collect(),
        none: ("console-no-tenants", "console-no-tenants-words"),
    };
    Ok(list.part(visit, rows, found.offset, found.has_more))
}

fn state(visit: &ConsoleView, tenant: &TenantView) -> Markup {
    match tenant.suspended_at {
        Some(at) => {
            html! { (badge(Tone::Bad, &visit.t("console-is-suspended"))) " " (visit.time(at)) }
        }
        None => badge(Tone::Good, &visit.t("console-is-active")),
    }
}

fn minutes(visit: &ConsoleView, tenant: &TenantView) -> Markup {
    html! {
        (visit.number(tenant.balance_minutes))
        @if tenant.balance_minutes < tenant.low_credit_threshold { " " (badge(Tone::Warning, &visit.t("console-is-low"))) }
    }
}

fn draft_fields(visit: &ConsoleView) -> [Field; 5] {
    let plans = Field::select("plan", visit.t("console-plan"), one_of(visit, Plan::WORDS));
    let number = |name, id| Field::number(name, visit.t(id)).optional();
    let of_plan = visit.t("console-plan-hint");
    let default = [("minutes", LOW_CREDIT_THRESHOLD_DEFAULT.into())];
    let threshold = visit.tn("console-threshold-hint", &default);
    [
        Field::text("name", visit.t("console-name")),
        plans,
        number("rateLimit", "console-requests-a-minute").hint(of_plan.clone()),
        number("lowCreditThreshold", "console-low-credit").hint(threshold),
        number("maxConcurrentCalls", "console-calls-at-once").hint(of_plan),
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
    let form = draft_form(&visit, PATH_OF_NEW, &visit.t(MAKE), &FormState::blank());
    Ok(layout::page(&visit, &visit.t(MAKE), form))
}

fn draft_form(visit: &ConsoleView, path: &str, label: &str, filled: &FormState) -> Markup {
    let content = html! {
        (fields(visit, filled, &draft_fields(visit)))
        (submit(label))
    };
    post(visit, path, content)
}

/// `POST /tenants/new`
pub async fn create(visit: ConsoleView, typed: FormValues) -> Result<HttpResponse, ApiError> {
    let create = async { tenants::create(visit.operation(), form::body(&typed, FIELDS)?).await };
    match create.await {
        Ok(created) => Ok(visit.see(&path_of(created.value.id, ""), "console-done-tenant-made")),
        Err(error) => {
            let form = draft_form(
                &visit,
                PATH_OF_NEW,
                &visit.t(MAKE),
                &FormState::again(typed, error)?,
            );
            Ok(layout::refused(&visit, &visit.t(MAKE), form))
        }
    }
}

/// `GET /tenants/{id}`
pub async fn show(visit: ConsoleView, id: Id<TenantId>) -> Result<HttpResponse, ApiError> {
    let tenant = tenants::show(visit.operation(), id).await?;
    let content = content(&visit, &tenant, &filled(&tenant)).await?;
    Ok(layout::page(&visit, &tenant.name, content))
}

async fn content(
    visit: &ConsoleView,
    tenant: &TenantView,
    filled: &FormState,
) -> Result<Markup, ApiError> {
    let path = path_of(tenant.id, "");
    let activity = activity(&visit.operation(), tenant.id).await?;
    let limit = |own, key| cockpit::limit(visit, own, tenant.plan, key);
    Ok(html! {
        (tabs(visit, tenant.id))
        (cockpit::cockpit(visit, tenant, &activity))
        dl.facts {
            dt { (visit.t("console-tenant")) } dd { code { (tenant.id) } }
            dt { (visit.t("console-status")) } dd { (state(visit, tenant)) }
            dt { (visit.t("console-plan")) } dd { (tenant.plan.as_str()) }
            dt { (visit.t("console-minutes")) } dd { (minutes(visit, tenant)) }
            dt { (visit.t("console-requests-a-minute")) } dd { (limit(tenant.rate_limit, "requests_per_minute")) }
            dt { (visit.t("console-calls-at-once")) } dd { (limit(tenant.max_concurrent_calls, "max_concurrent_calls")) }
            dt { (visit.t("console-created")) } dd { (visit.time(tenant.created_at)) }
        }
        @if visit.may_change() {
            h2 { (visit.t("console-change")) }
            (draft_form(visit, &path, &visit.t("page-save"), filled))
            div.actions {
                @if tenant.suspended_at.is_some() {
                    (post(visit, &format!("{path}/resume"), html! { button type="submit" { (visit.t("console-resume")) } }))
                } @else {
                    a.button.danger href={ (path) "/suspend" } { (visit.t("console-suspend")) }
                }
            }
        }
    })
}

/// The pages of a tenant, and the lists of what belongs to it.
fn tabs(visit: &ConsoleView, tenant: TenantId) -> Markup {
    let page = |below, name| (path_of(tenant, below), name);
    let list = |list: &str, name| (format!("/{list}?tenantId={tenant}"), name);
    let tabs = [
        page("", "console-overview"),
        list("calls", "console-calls"),
        page("/credits", "console-minutes"),
        page("/numbers", "console-numbers"),
        page("/keys", "console-keys"),
        page("/users", "console-people"),
        list("webhooks", "console-webhooks"),
        list("functions", "console-functions"),
        list("audit", "console-audit"),
    ];
    html! {
        nav.tabs aria-label=(visit.t("console-tenant")) {
            @for (path, name) in tabs {
                a href=(path) aria-current=[(path == visit.path()).then_some("page")] { (visit.t(name)) }
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
    let save = async { tenants::update(visit.operation(), id, form::body(&typed, FIELDS)?).await };
    match save.await {
        Ok(_) => Ok(visit.see(&path_of(tenant, ""), "console-done-saved")),
        Err(error) => {
            let filled = FormState::again(typed, error)?;
            let tenant = tenants::show(visit.operation(), Id(tenant)).await?;
            let content = content(&visit, &tenant, &filled).await?;
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
            p { (visit.rich("console-suspend-tenant-words", &[("name", html! { strong { (tenant.name) } })])) }
            p { (visit.t("console-suspend-tenant-back")) }
        },
        yes: visit.t("console-suspend-tenant"),
        back: &path,
    };
    Ok(layout::page(
        &visit,
        &visit.t("console-suspend-tenant-title"),
        question.show(&visit),
    ))
}

/// `POST /tenants/{id}/suspend`
pub async fn suspend(visit: ConsoleView, id: Id<TenantId>) -> Result<HttpResponse, ApiError> {
    let path = path_of(id.0, "");
    let done = tenants::suspend(visit.operation(), id, RequestBody::default()).await;
    acted(&visit, done, &path, "console-done-tenant-suspended")
}

/// `POST /tenants/{id}/resume`
pub async fn resume(visit: ConsoleView, id: Id<TenantId>) -> Result<HttpResponse, ApiError> {
    let path = path_of(id.0, "");
    let done = tenants::resume(visit.operation(), id, RequestBody::default()).await;
    acted(&visit, done, &path, "console-done-tenant-resumed")
}

/// The heading of a page below a tenant's.
async fn whose(visit: &ConsoleView, id: TenantId) -> Result<Markup, ApiError> {
    let tenant = tenants::show(visit.operation(), Id(id)).await?;
    let name = belongs_to(&visit.t("console-tenant"), &path_of(id, ""), &tenant.name);
    Ok(html! { (name) (tabs(visit, id)) })
}

/// One kind of a tenant's things: a list, and a form that adds one.
struct TenantThings<'a> {
    rows: ListRows,
    paging: Markup,
    /// Heading and button of the form, as message ids.
    more: (&'static str, &'static str),
    /// Fields of the form.
    fields: &'a [Field],
}

impl TenantThings<'_> {
    /// `path` is the form's target.
    fn show(self, visit: &ConsoleView, path: &str, filled: &FormState) -> Markup {
        let (heading, button) = self.more;
        html! {
            (self.rows.show(visit))
            (self.paging)
            @if visit.may_change() {
                section aria-labelledby="make" {
                    h2 #make { (visit.t(heading)) }
                    (post(visit, path, html! {
                        (fields(visit, filled, self.fields))
                        (submit(&visit.t(button)))
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
