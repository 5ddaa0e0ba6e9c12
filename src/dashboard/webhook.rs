//! One webhook: status, outcomes, settings and actions.

use actix_web::{HttpRequest, HttpResponse};
use dikala_entities::{EventKind, Millis, WebhookId, webhook};
use maud::{Markup, html};
use serde_json::{Value, json};

use super::{
    charts::{Bar, Chart, ChartSeries, Ink},
    components::{Field, Question, fields, post, seen, submit},
    deliveries::{self, DeliveryQuery},
    errors,
    form::{FormState, FormValues},
    layout,
    trouble::trouble,
    view::SignedIn,
    webhooks::{PATH, form_fields, new_secret, path_of, shown_once, state, typed_fields},
};
use crate::{
    api::{
        deliveries as api_deliveries,
        webhook_stats::{self, AttemptHour},
    },
    http::{
        error::ApiError,
        extract::{Id, RequestBody},
    },
    operations::{
        deliveries as sending,
        webhooks::{self, PREVIOUS_SECRET_MS},
    },
};

const HOUR_MS: i64 = 60 * 60 * 1_000;
const DAY_MS: i64 = 24 * HOUR_MS;

async fn find(visit: &SignedIn, id: Id<WebhookId>) -> Result<webhook::Model, ApiError> {
    visit.operation().find_webhook(id.0).await
}

/// `GET /dashboard/webhooks/{id}`
pub async fn show(
    visit: SignedIn,
    id: Id<WebhookId>,
    request: HttpRequest,
) -> Result<HttpResponse, ApiError> {
    let webhook = find(&visit, id).await?;
    let shown = DeliveryQuery::read(&request)?;
    let filled = FormState::with(setting(&webhook));
    let content = content(&visit, &webhook, &shown, &filled).await?;
    Ok(layout::page(&visit, webhook.url.as_str(), content))
}

/// The values of a webhook's form.
fn setting(webhook: &webhook::Model) -> Vec<(&'static str, String)> {
    let kinds = webhook.event_kinds();
    let events = kinds.iter().map(|kind| ("events", kind.to_string()));
    let url = ("url", webhook.url.as_str().to_owned());
    std::iter::once(url).chain(events).collect()
}

async fn content(
    visit: &SignedIn,
    webhook: &webhook::Model,
    shown: &DeliveryQuery,
    filled: &FormState,
) -> Result<Markup, ApiError> {
    let path = path_of(webhook.id);
    let new = match visit.is_owner() {
        true => visit.take_note(&webhook.id.to_string()).await?,
        false => None,
    };
    let deliveries = deliveries::of_webhook(visit, webhook, shown).await?;
    let waits = deliveries::waits(visit, webhook).await?;
    let stats = webhook_stats::read(visit.store().api_reader(), webhook, visit.now()).await?;
    Ok(html! {
        @if let Some(new) = &new { (shown_once(visit, new)) }
        (trouble(visit, webhook))
        (waits)
        (facts(visit, webhook))
        @if visit.is_owner() { (actions(visit, webhook)) }
        section aria-labelledby="day" {
            h2 #day { (visit.t("webhooks-day")) }
            (chart(visit, &stats.hours).show(visit.lang()))
        }
        section aria-labelledby="sent" {
            h2 #sent { (visit.t("deliveries-title")) }
            (deliveries)
        }
        @if visit.is_owner() {
            section aria-labelledby="settings" {
                h2 #settings { (visit.t("webhooks-settings")) }
                (post(visit, &path, html! {
                    (seen(filled, webhook.updated_at))
                    (fields(visit, filled, &form_fields(visit)))
                    (submit(&visit.t("page-save")))
                }))
            }
        }
    })
}

/// The last day's attempts, per hour and outcome.
fn chart(visit: &SignedIn, hours: &[AttemptHour]) -> Chart<'static> {
    let bar = |hour: &AttemptHour| {
        let of_hour = &hour.figures;
        Bar {
            label: visit.zone().hour(hour.start),
            name: visit.zone().clock(visit.lang(), hour.start),
            values: vec![
                of_hour.succeeded,
                of_hour.failed - of_hour.given_up,
                of_hour.given_up,
            ],
        }
    };
    Chart {
        id: "outcomes",
        title: visit.t("webhooks-attempts"),
        slot: visit.t("webhooks-hour"),
        series: vec![
            ChartSeries::new(visit.t("webhooks-arrived"), Ink::Good),
            ChartSeries::new(visit.t("webhooks-tried-again"), Ink::Warning),
            ChartSeries::new(visit.t("webhooks-given-up"), Ink::Bad),
        ],
        bars: hours.iter().map(bar).collect(),
    }
}

fn facts(visit: &SignedIn, webhook: &webhook::Model) -> Markup {
    let kinds = webhook.event_kinds();
    let old_secret = webhook
        .previous_secret_until
        .filter(|until| *until > visit.now());
    html! {
        dl.facts {
            dt { (visit.t("webhooks-state")) } dd { (state(visit, webhook)) }
            dt { (visit.t("webhooks-events")) }
            dd {
                @if kinds.len() == EventKind::OF_WEBHOOKS.len() { (visit.t("webhooks-all-events")) }
                @else { @for kind in &kinds { code { (kind.as_str()) } " " } }
            }
            // Only owners see any part of the secret.
            @if visit.is_owner() {
                dt { (visit.t("webhooks-secret")) } dd { code { "…" (webhook.secret_hint) } }
            }
            @if let Some(until) = old_secret {
                dt { (visit.t("webhooks-old-secret")) } dd { (visit.time(until)) }
            }
            dt { (visit.t("webhooks-made")) } dd { (visit.time(webhook.created_at)) }
        }
    }
}

fn actions(visit: &SignedIn, webhook: &webhook::Model) -> Markup {
    let path = path_of(webhook.id);
    html! {
        div.actions {
            (post(visit, &format!("{path}/test"), html! {
                button.secondary type="submit" { (visit.t("webhooks-test")) }
            }))
            a.button.secondary href={ (path) "/recover" } { (visit.t("webhooks-recover")) }
            a.button.secondary href={ (path) "/rotate-secret" } { (visit.t("webhooks-rotate")) }
            @if webhook.is_active {
                (post(visit, &format!("{path}/disable"), html! {
                    button.secondary type="submit" { (visit.t("webhooks-disable")) }
                }))
            }
            a.button.danger href={ (path) "/delete" } { (visit.t("webhooks-delete")) }
        }
    }
}

/// `POST /dashboard/webhooks/{id}`
pub async fn update(
    visit: SignedIn,
    id: Id<WebhookId>,
    typed: FormValues,
) -> Result<HttpResponse, ApiError> {
    let body = RequestBody::of(typed_fields(&typed));
    let operation = visit.operation().unless_changed_since(typed.seen());
    let Err(error) = webhooks::update(operation, id, body).await else {
        return Ok(visit.see(&path_of(id.0), "done-saved"));
    };
    let filled = FormState::again(typed, error)?;
    let webhook = find(&visit, id).await?;
    let content = content(&visit, &webhook, &DeliveryQuery::default(), &filled).await?;
    Ok(layout::refused(&visit, webhook.url.as_str(), content))
}

/// `POST /dashboard/webhooks/{id}/enable`: also resets the count of failures.
pub async fn enable(visit: SignedIn, id: Id<WebhookId>) -> Result<HttpResponse, ApiError> {
    let enabled = RequestBody::of(json!({"isActive": true}));
    webhooks::update(visit.operation(), id, enabled).await?;
    let webhook = find(&visit, id).await?;
    let is_held =
        webhook.paused_at.is_some() || deliveries::probe_at(&visit, &webhook).await.is_some();
    let done = match is_held {
        true => "done-webhook-enabled-later",
        false => "done-webhook-enabled",
    };
    Ok(visit.see(&path_of(id.0), done))
}

/// `POST /dashboard/webhooks/{id}/disable`
pub async fn disable(visit: SignedIn, id: Id<WebhookId>) -> Result<HttpResponse, ApiError> {
    let disabled = RequestBody::of(json!({"isActive": false}));
    webhooks::update(visit.operation(), id, disabled).await?;
    Ok(visit.see(&path_of(id.0), "done-webhook-disabled"))
}

/// `POST /dashboard/webhooks/{id}/test`: redirects to the delivery after its first attempt.
pub async fn test(visit: SignedIn, id: Id<WebhookId>) -> Result<HttpResponse, ApiError> {
    let nothing = RequestBody::default();
    let sent = api_deliveries::test(visit.operation(), id, nothing).await?;
    Ok(visit.see(
        &format!("{}/{}", deliveries::PATH, sent.delivery.id),
        "done-webhook-tested",
    ))
}

/// `GET /dashboard/webhooks/{id}/rotate-secret`
pub async fn ask_rotate(visit: SignedIn, id: Id<WebhookId>) -> Result<HttpResponse, ApiError> {
    let webhook = find(&visit, id).await?;
    let hours = [("hours", (PREVIOUS_SECRET_MS / HOUR_MS).into())];
    let question = Question {
        path: &format!("{}/rotate-secret", path_of(webhook.id)),
        consequences: html! {
            p { code { (webhook.url.as_str()) } }
            p { (visit.t("webhooks-rotate-words")) }
            p { (visit.tn("webhooks-rotate-standard", &hours)) }
        },
        yes: visit.t("webhooks-rotate-submit"),
        back: &path_of(webhook.id),
    };
    let title = visit.t("webhooks-rotate-title");
    Ok(layout::page(&visit, &title, question.show(&visit)))
}

/// `POST /dashboard/webhooks/{id}/rotate-secret`
pub async fn rotate(visit: SignedIn, id: Id<WebhookId>) -> Result<HttpResponse, ApiError> {
    let secret = new_secret();
    let body = RequestBody::of(json!({"secret": secret.expose()}));
    webhooks::rotate_secret(visit.operation(), id, body).await?;
    visit.leave_note(&id.0.to_string(), &secret).await?;
    Ok(visit.see(&path_of(id.0), "done-webhook-rotated"))
}

/// `GET /dashboard/webhooks/{id}/recover`
pub async fn ask_recover(visit: SignedIn, id: Id<WebhookId>) -> Result<HttpResponse, ApiError> {
    let webhook = find(&visit, id).await?;
    let yesterday = visit.zone().typed(visit.now().plus_ms(-DAY_MS));
    let filled = FormState::with([("since", yesterday)]);
    let content = recover_form(&visit, &webhook, &filled);
    Ok(layout::page(
        &visit,
        &visit.t("webhooks-recover-title"),
        content,
    ))
}

fn recover_form(visit: &SignedIn, webhook: &webhook::Model, filled: &FormState) -> Markup {
    let path = path_of(webhook.id);
    let until = Field::moment("until", visit.t("webhooks-recover-until"));
    let times = [
        Field::moment("since", visit.t("webhooks-recover-since")),
        until
            .optional()
            .hint(visit.t("webhooks-recover-until-hint")),
    ];
    html! {
        p { code { (webhook.url.as_str()) } }
        p.lead { (visit.t("webhooks-recover-words")) }
        (post(visit, &format!("{path}/recover"), html! {
            (fields(visit, filled, &times))
            div.actions {
                button type="submit" { (visit.t("webhooks-recover-submit")) }
                a.button.secondary href=(path) { (visit.t("page-cancel")) }
            }
        }))
    }
}

/// `POST /dashboard/webhooks/{id}/recover`
pub async fn recover(
    visit: SignedIn,
    id: Id<WebhookId>,
    typed: FormValues,
) -> Result<HttpResponse, ApiError> {
    let webhook = find(&visit, id).await?;
    match send_again(&visit, id, &typed).await {
        Ok(0) => Ok(visit.see(&path_of(webhook.id), "done-nothing-recovered")),
        Ok(_) => Ok(visit.see(&path_of(webhook.id), "done-recovered")),
        Err(error) => {
            let filled = FormState::again(typed, error)?;
            let content = recover_form(&visit, &webhook, &filled);
            let title = visit.t("webhooks-recover-title");
            Ok(errors::refused(&visit, &title, content, &filled))
        }
    }
}

/// Sends failed deliveries again; returns their number.
async fn send_again(
    visit: &SignedIn,
    id: Id<WebhookId>,
    typed: &FormValues,
) -> Result<u64, ApiError> {
    let field = |name| match typed.raw(name).next().unwrap_or_default().trim() {
        "" => Value::Null,
        text => instant(visit, text),
    };
    let body = RequestBody::of(json!({"since": field("since"), "until": field("until")}));
    let begun = sending::recover(visit.operation(), id, body).await?;
    Ok(begun.0.deliveries)
}

/// A time in the reader's zone as the API expects it. An invalid text is passed on, and the API refuses it.
fn instant(visit: &SignedIn, text: &str) -> Value {
    let at: Option<Millis> = visit.zone().read(text);
    at.map_or_else(|| text.into(), |at| at.to_string().into())
}

/// `GET /dashboard/webhooks/{id}/delete`
pub async fn ask_delete(visit: SignedIn, id: Id<WebhookId>) -> Result<HttpResponse, ApiError> {
    let webhook = find(&visit, id).await?;
    let question = Question {
        path: &format!("{}/delete", path_of(webhook.id)),
        consequences: html! {
            p { code { (webhook.url.as_str()) } }
            p { (visit.t("webhooks-delete-words")) }
            p { (visit.t("webhooks-delete-final")) }
        },
        yes: visit.t("webhooks-delete"),
        back: &path_of(webhook.id),
    };
    let title = visit.t("webhooks-delete-title");
    Ok(layout::page(&visit, &title, question.show(&visit)))
}

/// `POST /dashboard/webhooks/{id}/delete`
pub async fn delete(visit: SignedIn, id: Id<WebhookId>) -> Result<HttpResponse, ApiError> {
    webhooks::delete(visit.operation(), id).await?;
    Ok(visit.see(PATH, "done-webhook-deleted"))
}
