//! The deliveries of a webhook; one delivery with its request, attempts and answers; sending it again.

use std::borrow::Cow;

use actix_web::{HttpRequest, HttpResponse};
use dikala_actors::webhooks::{
    Envelope, headers,
    signature::{Signer, SigningKeys},
};
use dikala_entities::{
    DeliveryId, DeliveryStatus, Millis, Secret, SecretPlace, WebhookId, attempt, delivery, event,
    webhook,
};
use maud::{Markup, html};

use super::{
    components::{Tone, badge, empty, notice, paging, post, table},
    form::{self, Fields, Shape},
    layout,
    names::cut,
    pretty::pretty_to,
    view::SignedIn,
    webhooks::path_of,
};
use crate::{
    api::deliveries::{self as api, DeliveryWithAttempts},
    http::{
        error::ApiError,
        extract::{Id, id, word},
    },
    operations::deliveries::resend_now,
    pages::words::attempt_error,
};

pub const PATH: &str = "/dashboard/deliveries";
const ASKED: &Fields = &[("status", Shape::Optional), ("before", Shape::Optional)];
/// Deliveries on a page.
const PAGE: usize = 15;
/// Longest shown part of an answer, in characters.
const ANSWER_CHARS_MAX: usize = 1_000;
/// Longest shown part of a body, in characters.
const BODY_CHARS_MAX: usize = 6_000;
/// Shown attempts, the latest ones; the API has more.
const ATTEMPTS_MAX: usize = 20;
/// Limit to which an endpoint's waiting deliveries are counted.
const WAITING_MAX: u64 = 1_000;

/// The requested deliveries of a webhook.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeliveryQuery {
    status: Option<DeliveryStatus>,
    /// Show only deliveries older than this one.
    before: Option<DeliveryId>,
}

impl DeliveryQuery {
    /// Reads them from the query string.
    pub fn read(request: &HttpRequest) -> Result<Self, ApiError> {
        form::asked(request, ASKED)?.read(&[], |form| {
            Some(Self {
                status: form.optional("status", None, word("a status")),
                before: form.optional("before", None, id("a delivery")),
            })
        })
    }

    fn path(self, webhook: WebhookId) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        if let Some(status) = self.status {
            query.append_pair("status", status.as_str());
        }
        if let Some(before) = self.before {
            query.append_pair("before", &before.to_string());
        }
        let path = path_of(webhook);
        match query.finish() {
            query if query.is_empty() => path,
            query => format!("{path}?{query}"),
        }
    }
}

/// Deliveries of a webhook, newest first, with links to other pages.
pub async fn of_webhook(
    visit: &SignedIn,
    webhook: &webhook::Model,
    shown: &DeliveryQuery,
) -> Result<Markup, ApiError> {
    let db = visit.store().api_reader();
    let one_more = u64::try_from(PAGE).unwrap_or(u64::MAX) + 1;
    let mut rows = api::latest(db, webhook, shown.status, shown.before, one_more).await?;
    let has_more = rows.len() > PAGE;
    rows.truncate(PAGE);
    let newer = DeliveryQuery {
        before: None,
        ..*shown
    };
    let newer = shown.before.map(|_| newer.path(webhook.id));
    let last = rows.last().map(|row| row.id).filter(|_| has_more);
    let older = last.map(|last| {
        DeliveryQuery {
            before: Some(last),
            ..*shown
        }
        .path(webhook.id)
    });
    Ok(html! {
        (filter(visit, webhook.id, shown.status))
        @if rows.is_empty() {
            (empty(&visit.t("deliveries-none"), &visit.t("deliveries-none-words"), html! {}))
        } @else {
            (delivery_table(visit, webhook, &rows).await?)
        }
        (paging(visit, newer.as_deref(), older.as_deref()))
    })
}

fn filter(visit: &SignedIn, webhook: WebhookId, chosen: Option<DeliveryStatus>) -> Markup {
    let all = std::iter::once(None).chain(DeliveryStatus::ALL.iter().copied().map(Some));
    html! {
        nav.tabs aria-label=(visit.t("deliveries-filter")) {
            @for status in all {
                @let path = DeliveryQuery { status, before: None }.path(webhook);
                a href={ (path) "#sent" } aria-current=[(status == chosen).then_some("true")] {
                    (status.map_or_else(|| visit.t("deliveries-all"), |status| status_name(visit, status)))
                }
            }
        }
    }
}

fn status_name(visit: &SignedIn, status: DeliveryStatus) -> String {
    visit.t(match status {
        DeliveryStatus::Pending => "deliveries-pending",
        DeliveryStatus::Succeeded => "deliveries-succeeded",
        DeliveryStatus::Failed => "deliveries-failed",
    })
}

fn status_badge(visit: &SignedIn, status: DeliveryStatus) -> Markup {
    let tone = match status {
        DeliveryStatus::Pending => Tone::Plain,
        DeliveryStatus::Succeeded => Tone::Good,
        DeliveryStatus::Failed => Tone::Bad,
    };
    badge(tone, &status_name(visit, status))
}

async fn delivery_table(
    visit: &SignedIn,
    webhook: &webhook::Model,
    rows: &[delivery::Model],
) -> Result<Markup, ApiError> {
    let last = api::last_attempts(visit.store().api_reader(), visit.tenant(), rows).await?;
    let probe = probe_at(visit, webhook).await;
    let columns = [
        "deliveries-event",
        "deliveries-status",
        "deliveries-answer",
        "deliveries-attempts",
        "deliveries-made",
        "deliveries-next",
    ];
    let row = |row: &delivery::Model| {
        vec![
            html! {
                a href={ (PATH) "/" (row.id) } { (row.kind) }
                @if row.is_test { " " (badge(Tone::Plain, &visit.t("deliveries-test"))) }
            },
            status_badge(visit, row.status),
            html! {
                @match last.get(&row.id) {
                    Some(last) => {
                        (outcome(visit, last.status_code, last.error_kind.as_deref()))
                        " " span.muted { (visit.tn("calls-milliseconds", &[("ms", last.duration_ms.into())])) }
                    },
                    None => span.muted { "–" },
                }
            },
            html! { (visit.number(row.attempts)) },
            visit.time(row.created_at),
            next_attempt(visit, webhook, row, probe),
        ]
    };
    Ok(table(
        visit,
        &visit.t("deliveries-title"),
        &columns.map(|id| visit.t(id)),
        rows.iter().map(row).collect(),
    ))
}

/// Time of the next probe of a failing endpoint; `None` if its circuit is closed.
pub async fn probe_at(visit: &SignedIn, webhook: &webhook::Model) -> Option<Millis> {
    let context = visit.operation();
    let dispatcher = &context.serving().ok()?.node.webhooks;
    let statuses = dispatcher.statuses(vec![webhook.id]).await?;
    let queue = statuses.get(&webhook.id)?.queue?;
    queue.probe_at.filter(|at| *at > visit.now())
}

/// Time of the next attempt. A past time means soon, or with the next probe.
fn next_attempt(
    visit: &SignedIn,
    webhook: &webhook::Model,
    delivery: &delivery::Model,
    probe: Option<Millis>,
) -> Markup {
    let is_taken = webhook.is_active && webhook.paused_at.is_none();
    match delivery.next_attempt_at.filter(|_| is_taken) {
        None => html! { span.muted { "–" } },
        Some(next) => match Some(next).max(probe).filter(|at| *at > visit.now()) {
            Some(at) => visit.time(at),
            None => html! { (visit.t("deliveries-soon")) },
        },
    }
}

/// Explains why deliveries to a webhook wait, and until when. Empty if they do not wait.
pub async fn waits(visit: &SignedIn, webhook: &webhook::Model) -> Result<Markup, ApiError> {
    if !webhook.is_active || webhook.paused_at.is_some() {
        return Ok(html! {});
    }
    let Some(probe) = probe_at(visit, webhook).await else {
        return Ok(html! {});
    };
    let waiting = api::waiting(visit.store().api_reader(), webhook, WAITING_MAX).await?;
    let waiting = [("count", i64::try_from(waiting).unwrap_or(i64::MAX).into())];
    Ok(notice(
        Tone::Warning,
        html! {
            p { (visit.t("deliveries-paused")) " " (visit.time(probe)) ". " (visit.tn("deliveries-waiting", &waiting)) }
        },
    ))
}

/// `GET /dashboard/deliveries/{id}`
pub async fn show(visit: SignedIn, id: Id<DeliveryId>) -> Result<HttpResponse, ApiError> {
    let db = visit.store().api_reader();
    let found = api::find(db, visit.tenant(), id.0).await?;
    let delivery = &found.delivery;
    let webhook = match visit.operation().find_webhook(delivery.webhook_id).await {
        Ok(webhook) => Some(webhook),
        Err(ApiError::NotFound(_)) => None,
        Err(error) => return Err(error),
    };
    let is_waiting = delivery.status == DeliveryStatus::Pending;
    let waiting = match webhook.as_ref().filter(|_| is_waiting) {
        Some(webhook) => html! {
            (super::trouble::trouble(&visit, webhook))
            (waits(&visit, webhook).await?)
        },
        None => html! {},
    };
    let next = match webhook.as_ref().filter(|_| is_waiting) {
        Some(webhook) => {
            let probe = probe_at(&visit, webhook).await;
            next_attempt(&visit, webhook, delivery, probe)
        }
        None => html! {},
    };
    let content = html! {
        (waiting)
        (facts(&visit, delivery, webhook.as_ref(), &next))
        @if visit.is_owner() && webhook.is_some() {
            (post(&visit, &format!("{PATH}/{}/resend", delivery.id), html! {
                div.actions { button.secondary type="submit" { (visit.t("deliveries-resend")) } }
            }))
        }
        section aria-labelledby="attempts" {
            h2 #attempts { (visit.t("deliveries-attempts")) }
            (attempts(&visit, &found.attempts))
        }
        @if let Some(event) = &found.event {
            section aria-labelledby="request" {
                h2 #request { (visit.t("deliveries-request")) }
                (request(&visit, &found, event, webhook.as_ref()))
            }
        } @else {
            (notice(Tone::Plain, html! { p { (visit.t("deliveries-body-gone")) } }))
        }
    };
    let title = visit.tn(
        "deliveries-one",
        &[("event", delivery.kind.as_str().into())],
    );
    Ok(layout::page(&visit, &title, content))
}

fn facts(
    visit: &SignedIn,
    delivery: &delivery::Model,
    webhook: Option<&webhook::Model>,
    next: &Markup,
) -> Markup {
    html! {
        dl.facts {
            dt { (visit.t("deliveries-status")) }
            dd {
                (status_badge(visit, delivery.status))
                @if delivery.is_test { " " (badge(Tone::Plain, &visit.t("deliveries-test"))) }
            }
            dt { (visit.t("deliveries-webhook")) }
            dd {
                @if let Some(webhook) = webhook { a href=(path_of(webhook.id)) { (webhook.url.as_str()) } }
                @else { span.muted { (visit.t("deliveries-webhook-gone")) } }
            }
            @if let Some(call) = delivery.call_id {
                dt { (visit.t("deliveries-call")) }
                dd { a href={ "/dashboard/calls/" (call) } { code { (call) } } }
            }
            dt { (visit.t("deliveries-made")) } dd { (visit.time(delivery.created_at)) }
            @if !next.0.is_empty() {
                dt { (visit.t("deliveries-next")) } dd { (next) }
            }
            @if let Some(over) = delivery.completed_at {
                dt { (visit.t("deliveries-over")) } dd { (visit.time(over)) }
            }
            dt { (visit.t("deliveries-id")) } dd { code { (delivery.id) } }
        }
    }
}

fn attempts(visit: &SignedIn, attempts: &[attempt::Model]) -> Markup {
    if attempts.is_empty() {
        return html! { p.muted { (visit.t("deliveries-no-attempt")) } };
    }
    let columns = [
        "deliveries-attempt",
        "deliveries-outcome",
        "deliveries-took",
        "deliveries-answer",
    ];
    let latest = attempts.iter().rev().take(ATTEMPTS_MAX);
    let row = |attempt: &attempt::Model| {
        vec![
            html! { (visit.number(attempt.number)) ": " (visit.time(attempt.started_at)) },
            outcome(visit, attempt.status_code, attempt.error_kind.as_deref()),
            html! { (visit.tn("calls-milliseconds", &[("ms", attempt.duration_ms.into())])) },
            answer(visit, attempt),
        ]
    };
    html! {
        @if attempts.len() > ATTEMPTS_MAX {
            p.muted { (visit.tn("deliveries-last-attempts", &[("count", ATTEMPTS_MAX.into())])) }
        }
        (table(visit, &visit.t("deliveries-attempts"), &columns.map(|id| visit.t(id)), latest.map(row).collect()))
    }
}

fn outcome(visit: &SignedIn, status: Option<i64>, error: Option<&str>) -> Markup {
    match (status, error) {
        (status, Some(kind)) => html! {
            (badge(Tone::Bad, &attempt_error(visit, kind)))
            @if let Some(status) = status { " " (status) }
        },
        (Some(status @ 200..=299), None) => badge(Tone::Good, &status.to_string()),
        (Some(status), None) => badge(Tone::Bad, &status.to_string()),
        (None, None) => html! {},
    }
}

fn answer(visit: &SignedIn, attempt: &attempt::Model) -> Markup {
    let text = String::from_utf8_lossy(&attempt.response);
    html! {
        @if text.is_empty() {
            span.muted { (visit.t("deliveries-answer-empty")) }
        } @else {
            details {
                summary { (visit.t("deliveries-answer-show")) }
                pre tabindex="0" { (cut(&text, ANSWER_CHARS_MAX)) }
            }
        }
    }
}

fn request(
    visit: &SignedIn,
    found: &DeliveryWithAttempts,
    event: &event::Model,
    webhook: Option<&webhook::Model>,
) -> Markup {
    let columns = ["deliveries-header", "deliveries-value"].map(|id| visit.t(id));
    let keys = webhook
        .filter(|_| visit.is_owner())
        .and_then(|webhook| keys(visit, webhook));
    let cell = |(name, value): (String, String)| {
        vec![html! { code { (name) } }, html! { code { (value) } }]
    };
    let rows = head(found, event, keys.as_ref(), visit.now());
    let body = pretty_to(&event.body, BODY_CHARS_MAX * 4 + 1);
    let shown = cut(&body, BODY_CHARS_MAX);
    html! {
        h3 { (visit.t("deliveries-headers")) }
        p.muted {
            @if found.attempts.is_empty() { (visit.t("deliveries-headers-first")) }
            @else if keys.is_some() { (visit.t("deliveries-signed-now")) }
            @else { (visit.t("deliveries-not-signed")) }
        }
        (table(visit, &visit.t("deliveries-headers"), &columns, rows.into_iter().map(cell).collect()))
        h3 { (visit.t("deliveries-body")) }
        pre tabindex="0" { (shown) }
        @if matches!(shown, Cow::Owned(_)) { p.muted { (visit.t("deliveries-body-cut")) } }
    }
}

/// Signing keys made of the webhook's current secret.
fn keys(visit: &SignedIn, webhook: &webhook::Model) -> Option<SigningKeys> {
    let vault = &visit.state().services.vault;
    let opened = vault.open(SecretPlace::WebhookSecret, webhook.id, &webhook.secret);
    let secret = opened.inspect_err(|error| {
        tracing::error!(webhook = %webhook.id, %error, "the secret of a webhook");
    });
    Some(SigningKeys {
        current: Signer::new(&secret.ok()?),
        previous: None,
    })
}

/// Headers of the last attempt, or of the first one to come. Without keys the signatures are hidden, so that people
/// who may not see the secret cannot test guesses against them.
fn head(
    found: &DeliveryWithAttempts,
    event: &event::Model,
    keys: Option<&SigningKeys>,
    now: Millis,
) -> Vec<(String, String)> {
    let last = found.attempts.last();
    let envelope = Envelope {
        event: event.id,
        kind: found.delivery.kind.as_str(),
        delivery: found.delivery.id,
        number: last.map_or(1, |last| last.number),
        body: event.body.as_bytes(),
        is_test: found.delivery.is_test,
        trace: None,
    };
    let none = SigningKeys {
        current: Signer::new(&Secret::new("")),
        previous: None,
    };
    let at = last.map_or(now, |last| last.started_at);
    let Ok(sent) = headers(envelope, keys.unwrap_or(&none), at) else {
        return Vec::new();
    };
    // Before the first attempt its number, time and signatures are unknown.
    let is_known = |name: &str| {
        let of_the_moment = ["x-service-attempt", "webhook-timestamp"].contains(&name);
        last.is_some() || !(of_the_moment || name.ends_with("-signature"))
    };
    let mut rows: Vec<(String, String)> = sent
        .iter()
        .filter(|(name, _)| is_known(name.as_str()))
        .map(|(name, value)| {
            let is_open = keys.is_some() || !name.as_str().ends_with("-signature");
            let value = value.to_str().unwrap_or_default();
            (
                name.to_string(),
                if is_open { value } else { "…" }.to_owned(),
            )
        })
        .collect();
    rows.sort_unstable();
    rows
}

/// `POST /dashboard/deliveries/{id}/resend`: redirects to the delivery, which shows the attempt.
pub async fn resend(visit: SignedIn, id: Id<DeliveryId>) -> Result<HttpResponse, ApiError> {
    let (_, is_made) = resend_now(visit.operation(), id).await?;
    let done = match is_made {
        true => "done-resent",
        false => "done-resent-later",
    };
    Ok(visit.see(&format!("{PATH}/{}", id.0), done))
}
