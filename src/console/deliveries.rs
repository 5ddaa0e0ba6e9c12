//! Deliveries of all webhooks or of one; sending one again.

use actix_web::HttpResponse;
use dikala_entities::{DeliveryId, DeliveryStatus, Millis, WebhookId};
use maud::{Markup, html};

use super::{
    figures::{NONE, delivery_status},
    list::{List, ListRows, acted, any_of},
    view::ConsoleView,
};
use crate::{
    http::{error::ApiError, extract::Id},
    operations::deliveries::{self, DeliveryList, OperatorDelivery},
    pages::{
        components::{Field, post, short_id},
        form::FormValues,
    },
};

pub const PATH: &str = "/deliveries";
const TITLE: &str = "console-deliveries";
const FILTERS: &[&str] = &["status", "webhookId"];

/// The filter by status.
pub fn status_field(visit: &ConsoleView) -> Field {
    let words = any_of(visit, DeliveryStatus::WORDS);
    Field::select("status", visit.t("console-status"), words)
}

fn fields(visit: &ConsoleView) -> [Field; 2] {
    let webhook = Field::text("webhookId", visit.t("console-webhook-id"));
    [status_field(visit), webhook]
}

/// `GET /deliveries`
pub async fn list(visit: ConsoleView, typed: FormValues) -> Result<HttpResponse, ApiError> {
    let list = List::new(PATH, FILTERS, &typed);
    let fields = fields(&visit);
    let found = async { deliveries::list(visit.operation(), list.query_of()?).await };
    let content = found.await.map(|found| {
        html! {
            p.lead { (visit.t("console-deliveries-words")) }
            (list.filter(&visit, &fields))
            (rows(&visit, &found, false))
            (list.paging(&visit, found.offset, found.has_more))
        }
    });
    list.page(&visit, TITLE, &fields, content)
}

/// A page of deliveries, with buttons that send them again.
pub fn rows(visit: &ConsoleView, found: &DeliveryList, of_one: bool) -> Markup {
    let mut columns = visit.columns("console-deliveries-columns");
    // All rows of a webhook's page belong to that webhook.
    if !of_one {
        columns.push(visit.t("console-webhook"));
    }
    if visit.may_change() {
        columns.push(String::new());
    }
    let row = |of: &OperatorDelivery| {
        let mut cells = vec![
            html! { a href={ (PATH) "/" (of.id) } { (visit.precise(of.created_at)) } },
            html! {
                span.word { (of.event.as_str()) }
                @if let Some(call) = of.call_id { " " a href={ "/calls/" (call) } { (short_id(&call.to_string())) } }
            },
            delivery_status(visit, of.status),
            html! { (visit.number(of.attempt_count)) @if of.is_test { " " (visit.t("console-test")) } },
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
    let rows = ListRows {
        title: TITLE,
        columns,
        rows: found.deliveries.iter().map(row).collect(),
        none: ("console-no-deliveries", "console-no-deliveries-words"),
    };
    rows.show(visit)
}

/// A past time means soon, or with the next probe.
fn next(visit: &ConsoleView, at: Option<Millis>) -> Markup {
    match at {
        Some(at) if at <= visit.state().now() => html! { (visit.t("console-is-due")) },
        Some(at) => visit.precise(at),
        None => html! { span.muted { (NONE) } },
    }
}

fn webhook(id: WebhookId) -> Markup {
    html! { a href={ "/webhooks/" (id) } { (short_id(&id.to_string())) } }
}

/// The button that sends a delivery again.
pub fn send_again(visit: &ConsoleView, id: DeliveryId) -> Markup {
    let path = format!("{PATH}/{id}/resend");
    let label = visit.tn("console-resend-of", &[("delivery", id.to_string().into())]);
    let button =
        html! { button.secondary type="submit" aria-label=(label) { (visit.t("console-resend")) } };
    post(visit, &path, button)
}

/// `POST /deliveries/{id}/resend`
pub async fn resend(visit: ConsoleView, id: Id<DeliveryId>) -> Result<HttpResponse, ApiError> {
    let done = deliveries::resend_now(visit.operation(), id).await;
    let word = match done {
        Ok((_, true)) => "console-done-delivery-resent",
        _ => "console-done-delivery-resent-later",
    };
    acted(&visit, done, &format!("{PATH}/{}", id.0), word)
}
