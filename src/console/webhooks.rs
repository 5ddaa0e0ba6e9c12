//! Webhooks: status, pausing and resuming, and sending failed deliveries again.

use actix_web::{HttpRequest, HttpResponse};
use dikala_entities::{WebhookId, WebhookState};
use futures_util::future::LocalBoxFuture;
use maud::{Markup, html};

use super::{
    deliveries,
    figures::{NONE, TenantNames, address, short_address, since},
    follow, layout,
    list::{List, acted, any_of},
    view::ConsoleView,
};
use crate::{
    http::{
        error::{ApiError, Missing},
        extract::{Id, OperatorQuery, RequestBody},
    },
    operations::{deliveries as sending, webhooks},
    operator_api::webhook_status::{
        self, DUE_MAX, EndpointQueueStatus, StandingList, WebhookAnswer, WebhookStanding,
    },
    pages::{
        components::{Field, Tone, badge, empty, fields, notice, post, submit, table},
        form::{self, Fields, FormState, FormValues, Shape},
    },
};

const PATH: &str = "/webhooks";
const TITLE: &str = "Webhooks";
const FILTERS: &[&str] = &["state", "tenantId"];
const RECOVERY: &Fields = &[("since", Shape::Optional), ("until", Shape::Optional)];
const RECOVER: &str = "Resend failed deliveries";

fn filters() -> [Field; 2] {
    [
        Field::select("state", "Status".to_owned(), any_of(WebhookState::WORDS)),
        Field::text("tenantId", "Tenant's id".to_owned()),
    ]
}

/// `GET /webhooks`
pub async fn list(visit: ConsoleView, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let typed = FormValues::parse(request.query_string().as_bytes());
    let list = List::new(PATH, FILTERS, &typed);
    match found(&visit, &list).await {
        Ok(found) => {
            let rows = rows(&visit, &list, &found).await?;
            let content = html! {
                p.lead { "Queues are the endpoints' queues in the memory of this node. " a href="/deliveries" { "All deliveries" } }
                (list.filter(&visit, &filters()))
                (follow::followed(&visit, "webhooks", &list.query(), &rows))
            };
            Ok(layout::page(&visit, TITLE, content))
        }
        Err(error) => list.refused(&visit, TITLE, error, &filters()),
    }
}

async fn found(visit: &ConsoleView, list: &List<'_>) -> Result<StandingList, ApiError> {
    webhook_status::list(visit.process(), visit.operation(), list.query_of()?).await
}

/// The live part of the list.
pub fn part<'a>(
    visit: &'a ConsoleView,
    typed: &'a FormValues,
) -> LocalBoxFuture<'a, Result<Markup, ApiError>> {
    Box::pin(async move {
        let list = List::new(PATH, FILTERS, typed);
        let found = found(visit, &list).await?;
        rows(visit, &list, &found).await
    })
}

async fn rows(
    visit: &ConsoleView,
    list: &List<'_>,
    found: &StandingList,
) -> Result<Markup, ApiError> {
    let db = visit.store().api_reader();
    let names = TenantNames::of(db, found.webhooks.iter().map(|of| of.view.tenant_id)).await?;
    let columns = [
        "Endpoint",
        "Tenant",
        "Status",
        "Due",
        "Queue",
        "Last answer",
    ]
    .map(str::to_owned);
    let row = |of: &WebhookStanding| {
        vec![
            html! { a href={ (PATH) "/" (of.view.id) } { (short_address(of.view.url.as_str())) } },
            names.link(of.view.tenant_id),
            state(of),
            due(visit, of),
            lane(visit, of.lane.as_ref()),
            last_answer(visit, of.last_answer.as_ref()),
        ]
    };
    Ok(html! {
        div #part {
            @if found.webhooks.is_empty() {
                (empty("No webhooks", "No tenant has created one, or none match the filter.", html! {}))
            } @else {
                (table(visit, TITLE, &columns, found.webhooks.iter().map(row).collect()))
            }
            (list.paging(found.offset, found.has_more))
        }
    })
}

fn state(of: &WebhookStanding) -> Markup {
    let view = &of.view;
    if !view.is_active {
        badge(Tone::Bad, "disabled")
    } else if view.paused_at.is_some() {
        badge(Tone::Warning, "paused")
    } else if view.failing_since.is_some() {
        badge(Tone::Warning, "failing")
    } else {
        badge(Tone::Good, "active")
    }
}

fn due(visit: &ConsoleView, of: &WebhookStanding) -> Markup {
    html! {
        (visit.number(of.due)) @if of.due >= DUE_MAX { " or more" }
        @if let Some(oldest) = of.oldest_due_at { ", for " (since(visit, oldest)) }
    }
}

fn lane(visit: &ConsoleView, lane: Option<&EndpointQueueStatus>) -> Markup {
    let Some(lane) = lane else {
        return html! { span.muted { "idle" } };
    };
    let tone = match lane.state {
        "open" | "sealed" => Tone::Bad,
        "disabled" | "paused" => Tone::Warning,
        _ => Tone::Plain,
    };
    html! {
        (badge(tone, lane.state)) " "
        (lane.in_flight) " in flight, " (lane.waiting) " waiting"
        @if let Some(at) = lane.probe_at { br; span.muted { "probed " (visit.time(at)) } }
    }
}

fn last_answer(visit: &ConsoleView, answer: Option<&WebhookAnswer>) -> Markup {
    let Some(answer) = answer else {
        return html! { (NONE) };
    };
    html! {
        @match (answer.status_code, answer.error) {
            (_, Some(error)) => code { (error) },
            (Some(status), None) => code { (status) },
            (None, None) => { (NONE) }
        }
        " in " (visit.number(answer.duration_ms)) " ms, " (since(visit, answer.at)) " ago"
    }
}

/// `GET /webhooks/{id}`
pub async fn show(
    visit: ConsoleView,
    id: Id<WebhookId>,
    request: HttpRequest,
) -> Result<HttpResponse, ApiError> {
    let typed = FormValues::parse(request.query_string().as_bytes());
    let of = webhook_status::one(&visit.process(), visit.operation(), id).await?;
    let facts = facts(&visit, &of).await?;
    let path = format!("{PATH}/{}", id.0);
    let list = List::new(&path, &["status"], &typed);
    let found = async {
        let asked = list.form_with(&[("webhookId", id.0.to_string())])?;
        sending::list(visit.operation(), OperatorQuery(asked)).await
    };
    let found = match found.await {
        Ok(found) => found,
        Err(error) => {
            return list.refused(&visit, "Webhook", error, &[deliveries::status_field()]);
        }
    };
    let content = html! {
        (follow::followed(&visit, "webhook", &format!("&id={}", id.0), &facts))
        @if visit.may_change() { (actions(&visit, &of)) }
        h2 { "Deliveries" }
        (list.filter(&visit, &[deliveries::status_field()]))
        (deliveries::rows(&visit, &found, true))
        (list.paging(found.offset, found.has_more))
    };
    Ok(layout::page(&visit, "Webhook", content))
}

/// The live part of a webhook's page.
pub fn part_of_one<'a>(
    visit: &'a ConsoleView,
    typed: &'a FormValues,
) -> LocalBoxFuture<'a, Result<Markup, ApiError>> {
    Box::pin(async move {
        let id = typed.text("id").and_then(|id| id.parse().ok());
        let id: WebhookId = id.ok_or(ApiError::NotFound(Missing::Webhook))?;
        facts(
            visit,
            &webhook_status::one(&visit.process(), visit.operation(), Id(id)).await?,
        )
        .await
    })
}

async fn facts(visit: &ConsoleView, of: &WebhookStanding) -> Result<Markup, ApiError> {
    let view = &of.view;
    let names = TenantNames::of(visit.store().api_reader(), [view.tenant_id]).await?;
    Ok(html! { div #part {
        @if let Some(reason) = &view.disabled_reason {
            (notice(Tone::Warning, html! { p { (reason) } }))
        }
        dl.facts {
            dt { "Endpoint" } dd { (address(view.url.as_str())) br; code { (view.id) } }
            dt { "Tenant" } dd { (names.link(view.tenant_id)) }
            dt { "Status" }
            dd {
                (state(of))
                @if let Some(at) = view.paused_at { " since " (visit.time(at)) }
                @else if let Some(at) = view.failing_since { " since " (visit.time(at)) }
            }
            dt { "Failed in a row" } dd { (visit.number(view.failed_in_row)) }
            dt { "Due" } dd { (due(visit, of)) }
            dt { "Queue" } dd { (lane(visit, of.lane.as_ref())) }
            dt { "Last answer" } dd { (last_answer(visit, of.last_answer.as_ref())) }
            dt { "Events" } dd { @for event in &view.events { code { (event.as_str()) } " " } }
            dt { "Created" } dd { (visit.time(view.created_at)) }
        }
    } })
}

fn actions(visit: &ConsoleView, of: &WebhookStanding) -> Markup {
    let path = format!("{PATH}/{}", of.view.id);
    html! {
        div.actions {
            @if of.view.paused_at.is_some() {
                (post(visit, &format!("{path}/resume"), html! { button type="submit" { "Resume" } }))
            } @else {
                (post(visit, &format!("{path}/pause"), html! { button.secondary type="submit" { "Pause" } }))
            }
            a.button.secondary href={ (path) "/recover" } { "Recover" }
        }
    }
}

/// `POST /webhooks/{id}/pause`
pub async fn pause(visit: ConsoleView, id: Id<WebhookId>) -> Result<HttpResponse, ApiError> {
    let path = format!("{PATH}/{}", id.0);
    let done = webhooks::pause(visit.operation(), id, RequestBody::default()).await;
    acted(&visit, done, &path, "done-webhook-paused")
}

/// `POST /webhooks/{id}/resume`
pub async fn resume(visit: ConsoleView, id: Id<WebhookId>) -> Result<HttpResponse, ApiError> {
    let path = format!("{PATH}/{}", id.0);
    let done = webhooks::resume(visit.operation(), id, RequestBody::default()).await;
    acted(&visit, done, &path, "done-webhook-resumed")
}

/// `GET /webhooks/{id}/recover`
pub async fn ask_recover(visit: ConsoleView, id: Id<WebhookId>) -> Result<HttpResponse, ApiError> {
    let webhook = webhooks::show(visit.operation(), id).await?;
    let since = webhook.failing_since.map(|at| at.to_string());
    let filled = FormState::with(since.map(|since| ("since", since)));
    let form = recovery(&visit, id.0, &filled);
    Ok(layout::page(&visit, RECOVER, form))
}

fn recovery(visit: &ConsoleView, id: WebhookId, filled: &FormState) -> Markup {
    let path = format!("{PATH}/{id}");
    let hint = "2026-01-15T03:30:00Z, or 2026-01-15.".to_owned();
    let since = Field::text("since", "Since".to_owned()).hint(hint);
    let until = Field::text("until", "Until".to_owned());
    let until = until.hint("Leave empty for now.".to_owned()).optional();
    html! {
        p.lead { "All deliveries that failed for good in that time are resent in the background, in their order." }
        (post(visit, &format!("{path}/recover"), html! {
            (fields(visit, filled, &[since, until]))
            (submit("Resend"))
        }))
        p { a href=(path) { "Back to the webhook" } }
    }
}

/// `POST /webhooks/{id}/recover`
pub async fn recover(
    visit: ConsoleView,
    id: Id<WebhookId>,
    typed: FormValues,
) -> Result<HttpResponse, ApiError> {
    let webhook = id.0;
    let done = match form::body(&typed, RECOVERY) {
        Ok(body) => sending::recover(visit.operation(), id, body).await,
        Err(error) => Err(error),
    };
    match done {
        Ok(_) => Ok(visit.see(&format!("{PATH}/{webhook}"), "done-webhook-recovering")),
        Err(error) => {
            let form = recovery(&visit, webhook, &FormState::again(typed, error)?);
            Ok(layout::refused(&visit, RECOVER, form))
        }
    }
}
