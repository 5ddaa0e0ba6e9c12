//! Deliveries of all webhooks, of one webhook, or of a call; sending one again.

use actix_web::{HttpRequest, HttpResponse};
use dikala_actors::webhooks::ResendOutcome;
use dikala_entities::{DeliveryId, DeliveryStatus, Millis, WebhookId};
use maud::{Markup, html};

use super::{
    figures::{NONE, delivery_status},
    layout,
    list::{List, acted, any_of},
    view::ConsoleView,
};
use crate::{
    http::{
        answer::Accepted,
        error::ApiError,
        extract::{Id, RequestBody},
    },
    operations::deliveries::{self, DeliveryList, OperatorDelivery},
    operator_api::calls::CallDeliveryStatus,
    pages::{
        components::{Field, empty, post, short_id, table},
        form::FormValues,
    },
};

const PATH: &str = "/deliveries";
const TITLE: &str = "Deliveries";
const FILTERS: &[&str] = &["status", "webhookId"];

/// The filter by status.
pub fn status_field() -> Field {
    let words = any_of(DeliveryStatus::WORDS);
    Field::select("status", "Status".to_owned(), words)
}

fn fields() -> [Field; 2] {
    let webhook = Field::text("webhookId", "Webhook's id".to_owned());
    [status_field(), webhook]
}

/// `GET /deliveries`
pub async fn list(visit: ConsoleView, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let typed = FormValues::parse(request.query_string().as_bytes());
    let list = List::new(PATH, FILTERS, &typed);
    let found = async { deliveries::list(visit.operation(), list.query_of()?).await };
    match found.await {
        Ok(found) => {
            let content = html! {
                p.lead { "Newest first: of all webhooks the newest 100,000." }
                (list.filter(&visit, &fields()))
                (rows(&visit, &found, false))
                (list.paging(found.offset, found.has_more))
            };
            Ok(layout::page(&visit, TITLE, content))
        }
        Err(error) => list.refused(&visit, TITLE, error, &fields()),
    }
}

/// A page of deliveries, with buttons that send them again.
pub fn rows(visit: &ConsoleView, found: &DeliveryList, of_one: bool) -> Markup {
    if found.deliveries.is_empty() {
        return empty(
            "No deliveries",
            "There are none, or none match the filter.",
            html! {},
        );
    }
    let mut columns = ["Created", "Event", "Status", "Attempts", "Next"]
        .map(str::to_owned)
        .to_vec();
    // All rows of a webhook's page belong to that webhook.
    if !of_one {
        columns.push("Webhook".to_owned());
    }
    if visit.may_change() {
        columns.push(String::new());
    }
    let row = |of: &OperatorDelivery| {
        let mut cells = vec![
            visit.time(of.created_at),
            html! {
                span.word {
                    @match of.call_id {
                        Some(call) => a href={ "/calls/" (call) } { (of.event.as_str()) },
                        None => { (of.event.as_str()) }
                    }
                }
            },
            delivery_status(of.status),
            html! { (visit.number(of.attempt_count)) @if of.is_test { " (test)" } },
            next(visit, of.next_attempt_at),
        ];
        if !of_one {
            cells.push(webhook(of.webhook_id));
        }
        if visit.may_change() {
            cells.push(send_again(visit, of.id));
        }
        cells
    };
    table(
        visit,
        TITLE,
        &columns,
        found.deliveries.iter().map(row).collect(),
    )
}

/// Deliveries of a call's events. They have no buttons, because this part is updated live.
pub fn of_call(visit: &ConsoleView, sent: &[CallDeliveryStatus]) -> Markup {
    let columns = ["Event", "Webhook", "Status", "Attempts", "Next", "Finished"].map(str::to_owned);
    let row = |of: &CallDeliveryStatus| {
        vec![
            html! { span.word { (of.event.as_str()) } },
            webhook(of.webhook_id),
            delivery_status(of.status),
            html! { (visit.number(of.attempt_count)) },
            next(visit, of.next_attempt_at),
            visit.time_or(of.completed_at, NONE),
        ]
    };
    table(visit, TITLE, &columns, sent.iter().map(row).collect())
}

/// A past time means soon, or with the next probe.
fn next(visit: &ConsoleView, at: Option<Millis>) -> Markup {
    match at {
        Some(at) if at <= visit.state().now() => html! { "due" },
        at => visit.time_or(at, NONE),
    }
}

fn webhook(id: WebhookId) -> Markup {
    html! { a href={ "/webhooks/" (id) } { (short_id(&id.to_string())) } }
}

fn send_again(visit: &ConsoleView, id: DeliveryId) -> Markup {
    let path = format!("{PATH}/{id}/resend");
    post(
        visit,
        &path,
        html! { button.secondary type="submit" aria-label={ "Resend " (id) } { "Resend" } },
    )
}

/// `POST /deliveries/{id}/resend`
pub async fn resend(visit: ConsoleView, id: Id<DeliveryId>) -> Result<HttpResponse, ApiError> {
    let done = deliveries::resend(visit.operation(), id, RequestBody::default()).await;
    let (mut back, mut word) = (PATH.to_owned(), "done-delivery-resent-later");
    if let Ok(Accepted(OperatorDelivery {
        webhook_id: webhook,
        attempt_count: attempts,
        ..
    })) = done
    {
        back = format!("/webhooks/{webhook}");
        // The delivery is already due: if it cannot be awaited now, the dispatcher attempts it later.
        let webhooks = &visit.process().node.webhooks;
        let resent = webhooks.resend(webhook, id.0, attempts, None).await;
        if matches!(resent, Ok(ResendOutcome::Made)) {
            word = "done-delivery-resent";
        }
    }
    acted(&visit, done, &back, word)
}
