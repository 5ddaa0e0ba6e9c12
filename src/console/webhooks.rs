//! Webhooks: status, pausing and resuming, and sending failed deliveries again.

use actix_web::HttpResponse;
use dikala_entities::{WebhookId, WebhookState};
use maud::{Markup, html};

use super::{
    deliveries,
    figures::{NONE, TenantNames, address, short_address, since},
    layout,
    list::{List, ListRows, acted, any_of, word},
    view::ConsoleView,
};
use crate::{
    http::{
        error::{ApiError, Missing},
        extract::{Id, OperatorQuery, RequestBody},
    },
    operations::{
        deliveries as sending,
        webhooks::{backlog::DUE_MAX, health as webhooks},
    },
    operator_api::webhook_status::{self, EndpointQueueStatus, WebhookAnswer, WebhookStanding},
    pages::{
        components::{Field, Tone, badge, fields, notice, post, submit},
        form::{self, Fields, FormState, FormValues, Shape},
    },
};

const PATH: &str = "/webhooks";
const TITLE: &str = "console-webhooks";
const FILTERS: &[&str] = &["state", "tenantId"];
const RECOVERY: &Fields = &[("since", Shape::Optional), ("until", Shape::Optional)];
const RECOVER: &str = "console-recover-title";

fn filters(visit: &ConsoleView) -> [Field; 2] {
    [
        Field::select(
            "state",
            visit.t("console-status"),
            any_of(visit, WebhookState::WORDS),
        ),
        Field::text("tenantId", visit.t("console-tenant-id")),
    ]
}

/// `GET /webhooks`
pub async fn list(visit: ConsoleView, typed: FormValues) -> Result<HttpResponse, ApiError> {
    let list = List::new(PATH, FILTERS, &typed);
    let filters = filters(&visit);
    let content = part(&visit, &typed).await.map(|rows| {
        html! {
            p.lead { (visit.t("console-webhooks-words")) " " a href="/deliveries" { (visit.t("console-all-deliveries")) } }
            (list.filter(&visit, &filters))
            (visit.followed("webhooks", &list.query(), &rows))
        }
    });
    list.page(&visit, TITLE, &filters, content)
}

/// The live part of the list.
pub async fn part(visit: &ConsoleView, typed: &FormValues) -> Result<Markup, ApiError> {
    let list = List::new(PATH, FILTERS, typed);
    let asked = list.query_of()?;
    let found = webhook_status::list(visit.operation(), asked).await?;
    let db = visit.store().api_reader();
    let names = TenantNames::of(db, found.webhooks.iter().map(|of| of.view.tenant_id)).await?;
    let row = |of: &WebhookStanding| {
        vec![
            html! { a href={ (PATH) "/" (of.view.id) } { (short_address(of.view.url.as_str())) } },
            names.link(of.view.tenant_id),
            state(visit, of),
            due(visit, of),
            lane(visit, of.lane.as_ref()),
            last_answer(visit, of.last_answer.as_ref()),
        ]
    };
    let rows = ListRows {
        title: TITLE,
        columns: visit.columns("console-webhooks-columns"),
        rows: found.webhooks.iter().map(row).collect(),
        none: ("console-no-webhooks", "console-no-webhooks-words"),
    };
    Ok(list.part(visit, rows, found.offset, found.has_more))
}

fn state(visit: &ConsoleView, of: &WebhookStanding) -> Markup {
    let view = &of.view;
    if !view.is_active {
        badge(Tone::Bad, &word(visit, "disabled"))
    } else if view.paused_at.is_some() {
        badge(Tone::Warning, &word(visit, "paused"))
    } else if view.failing_since.is_some() {
        badge(Tone::Warning, &word(visit, "failing"))
    } else {
        badge(Tone::Good, &visit.t("console-is-active"))
    }
}

fn due(visit: &ConsoleView, of: &WebhookStanding) -> Markup {
    html! {
        @if of.due >= DUE_MAX { (visit.tn("console-due-or-more", &[("count", of.due.into())])) }
        @else { (visit.number(of.due)) }
        @if let Some(oldest) = of.oldest_due_at { ", " (visit.tn("console-due-for", &[("time", since(visit, oldest).into())])) }
    }
}

fn lane(visit: &ConsoleView, lane: Option<&EndpointQueueStatus>) -> Markup {
    let Some(lane) = lane else {
        return html! { span.muted { (visit.t("console-queue-idle")) } };
    };
    let tone = match lane.state {
        "open" | "sealed" => Tone::Bad,
        "disabled" | "paused" => Tone::Warning,
        _ => Tone::Plain,
    };
    html! {
        (visit.rich("console-queue-of", &[
            ("state", badge(tone, &word(visit, lane.state))),
            ("inflight", html! { (lane.in_flight) }), ("waiting", html! { (lane.waiting) }),
        ]))
        @if let Some(at) = lane.probe_at { br; span.muted { (visit.rich("console-probed", &[("time", visit.precise(at))])) } }
    }
}

fn last_answer(visit: &ConsoleView, answer: Option<&WebhookAnswer>) -> Markup {
    let Some(answer) = answer else {
        return html! { (NONE) };
    };
    let outcome = html! {
        @match (answer.status_code, answer.error) {
            (_, Some(error)) => code { (error) },
            (Some(status), None) => code { (status) },
            (None, None) => { (NONE) }
        }
    };
    let values = [
        ("answer", outcome),
        ("ms", html! { (visit.number(answer.duration_ms)) }),
        ("time", html! { (since(visit, answer.at)) }),
    ];
    visit.rich("console-answer-of", &values)
}

/// `GET /webhooks/{id}`
pub async fn show(
    visit: ConsoleView,
    id: Id<WebhookId>,
    typed: FormValues,
) -> Result<HttpResponse, ApiError> {
    let of = webhook_status::one(visit.operation(), id).await?;
    let facts = facts(&visit, &of).await?;
    let path = format!("{PATH}/{}", id.0);
    let list = List::new(&path, &["status"], &typed);
    let fields = [deliveries::status_field(&visit)];
    let found = async {
        let asked = list.form_with(&[("webhookId", id.0.to_string())])?;
        sending::list(visit.operation(), OperatorQuery(asked)).await
    };
    let content = found.await.map(|found| {
        html! {
            (visit.followed("webhook", &format!("&id={}", id.0), &facts))
            @if visit.may_change() { (actions(&visit, &of)) }
            h2 { (visit.t("console-deliveries")) }
            (list.filter(&visit, &fields))
            (deliveries::rows(&visit, &found, true))
            (list.paging(&visit, found.offset, found.has_more))
        }
    });
    list.page(&visit, "console-webhook", &fields, content)
}

/// The live part of a webhook's page.
pub async fn part_of_one(visit: &ConsoleView, typed: &FormValues) -> Result<Markup, ApiError> {
    let id = typed.text("id").and_then(|id| id.parse().ok());
    let id = Id(id.ok_or(ApiError::NotFound(Missing::Webhook))?);
    let of = webhook_status::one(visit.operation(), id).await?;
    facts(visit, &of).await
}

async fn facts(visit: &ConsoleView, of: &WebhookStanding) -> Result<Markup, ApiError> {
    let view = &of.view;
    let names = TenantNames::of(visit.store().api_reader(), [view.tenant_id]).await?;
    Ok(html! { div #part {
        @if let Some(reason) = &view.disabled_reason {
            (notice(Tone::Warning, html! { p lang="en" { (reason) } }))
        }
        dl.facts {
            dt { (visit.t("console-endpoint")) } dd { (address(view.url.as_str())) br; code { (view.id) } }
            dt { (visit.t("console-tenant")) } dd { (names.link(view.tenant_id)) }
            dt { (visit.t("console-status")) }
            dd {
                (state(visit, of))
                @if let Some(at) = view.paused_at.or(view.failing_since) { " " (visit.rich("console-status-since", &[("time", visit.time(at))])) }
            }
            dt { (visit.t("console-failed-in-row")) } dd { (visit.number(view.failed_in_row)) }
            dt { (visit.t("console-due")) } dd { (due(visit, of)) }
            dt { (visit.t("console-queue")) } dd { (lane(visit, of.lane.as_ref())) }
            dt { (visit.t("console-last-answer")) } dd { (last_answer(visit, of.last_answer.as_ref())) }
            dt { (visit.t("console-events")) } dd { @for event in &view.events { code { (event.as_str()) } " " } }
            dt { (visit.t("console-created")) } dd { (visit.time(view.created_at)) }
        }
    } })
}

fn actions(visit: &ConsoleView, of: &WebhookStanding) -> Markup {
    let path = format!("{PATH}/{}", of.view.id);
    html! {
        div.actions {
            @if of.view.paused_at.is_some() {
                (post(visit, &format!("{path}/resume"), html! { button type="submit" { (visit.t("console-resume-webhook")) } }))
            } @else {
                (post(visit, &format!("{path}/pause"), html! { button.secondary type="submit" { (visit.t("console-pause-webhook")) } }))
            }
            a.button.secondary href={ (path) "/recover" } { (visit.t("console-recover")) }
        }
    }
}

/// `POST /webhooks/{id}/pause`
pub async fn pause(visit: ConsoleView, id: Id<WebhookId>) -> Result<HttpResponse, ApiError> {
    let path = format!("{PATH}/{}", id.0);
    let done = webhooks::pause(visit.operation(), id, RequestBody::default()).await;
    acted(&visit, done, &path, "console-done-webhook-paused")
}

/// `POST /webhooks/{id}/resume`
pub async fn resume(visit: ConsoleView, id: Id<WebhookId>) -> Result<HttpResponse, ApiError> {
    let path = format!("{PATH}/{}", id.0);
    let done = webhooks::resume(visit.operation(), id, RequestBody::default()).await;
    acted(&visit, done, &path, "console-done-webhook-resumed")
}

/// `GET /webhooks/{id}/recover`
pub async fn ask_recover(visit: ConsoleView, id: Id<WebhookId>) -> Result<HttpResponse, ApiError> {
    let webhook = webhooks::show(visit.operation(), id).await?;
    let since = webhook.failing_since.map(|at| at.to_string());
    let filled = FormState::with(since.map(|since| ("since", since)));
    let form = recovery(&visit, id.0, &filled);
    Ok(layout::page(&visit, &visit.t(RECOVER), form))
}

fn recovery(visit: &ConsoleView, id: WebhookId, filled: &FormState) -> Markup {
    let path = format!("{PATH}/{id}");
    let hint = visit.t("console-recover-hint");
    let since = Field::text("since", visit.t("console-since")).hint(hint);
    let until = Field::text("until", visit.t("console-until-when"));
    let until = until.hint(visit.t("console-recover-until-hint")).optional();
    html! {
        p.lead { (visit.t("console-recover-words")) }
        (post(visit, &format!("{path}/recover"), html! {
            (fields(visit, filled, &[since, until]))
            (submit(&visit.t("console-resend")))
        }))
        p { a href=(path) { (visit.t("console-to-webhook")) } }
    }
}

/// `POST /webhooks/{id}/recover`
pub async fn recover(
    visit: ConsoleView,
    id: Id<WebhookId>,
    typed: FormValues,
) -> Result<HttpResponse, ApiError> {
    let webhook = id.0;
    let recover =
        async { sending::recover(visit.operation(), id, form::body(&typed, RECOVERY)?).await };
    match recover.await {
        Ok(_) => Ok(visit.see(
            &format!("{PATH}/{webhook}"),
            "console-done-webhook-recovering",
        )),
        Err(error) => {
            let form = recovery(&visit, webhook, &FormState::again(typed, error)?);
            Ok(layout::refused(&visit, &visit.t(RECOVER), form))
        }
    }
}
