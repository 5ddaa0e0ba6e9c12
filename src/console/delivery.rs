//! The page of a delivery: what happens next, its facts, and its attempts. What was sent and answered is not for operators.

use actix_web::HttpResponse;
use dikala_entities::{DeliveryId, DeliveryStatus, Millis};
use maud::{Markup, html};

use super::{
    call_steps::answer,
    deliveries::send_again,
    figures::{TenantNames, delivery_status, short_address},
    layout,
    view::ConsoleView,
};
use crate::{
    http::{
        error::{ApiError, Missing},
        extract::Id,
    },
    operations::deliveries::{self, DeliveryAttempt, OperatorDelivery, OperatorDeliveryDetail},
    operator_api::webhook_status::{self, WebhookStanding},
    pages::{
        components::{Tone, badge, table},
        form::FormValues,
    },
};

/// The next step of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextStep {
    Delivered,
    /// It failed for good.
    GivenUp,
    WebhookGone,
    WebhookDisabled,
    /// An operator paused its webhook.
    Paused(Millis),
    /// The endpoint keeps failing: only one attempt is made then, by the first in the queue.
    Probe(Millis),
    At(Millis),
    Due,
}

/// The state of a webhook that decides what happens next.
#[derive(Clone, Copy, Debug)]
struct WebhookState {
    is_active: bool,
    paused_at: Option<Millis>,
    probe_at: Option<Millis>,
}

impl From<&WebhookStanding> for WebhookState {
    fn from(of: &WebhookStanding) -> Self {
        Self {
            is_active: of.view.is_active,
            paused_at: of.view.paused_at,
            probe_at: of.lane.as_ref().and_then(|lane| lane.probe_at),
        }
    }
}

fn next_step(
    status: DeliveryStatus,
    next_attempt_at: Option<Millis>,
    webhook: Option<WebhookState>,
    now: Millis,
) -> NextStep {
    match status {
        DeliveryStatus::Succeeded => return NextStep::Delivered,
        DeliveryStatus::Failed => return NextStep::GivenUp,
        DeliveryStatus::Pending => {}
    }
    let Some(webhook) = webhook else {
        return NextStep::WebhookGone;
    };
    if !webhook.is_active {
        return NextStep::WebhookDisabled;
    }
    if let Some(at) = webhook.paused_at {
        return NextStep::Paused(at);
    }
    let planned = next_attempt_at.filter(|at| *at > now);
    let probe = webhook.probe_at.filter(|at| *at > now);
    match (planned, probe) {
        (planned, Some(probe)) if planned.is_none_or(|at| at <= probe) => NextStep::Probe(probe),
        (Some(at), _) => NextStep::At(at),
        (None, _) => NextStep::Due,
    }
}

/// A delivery with its webhook, if that still exists.
struct ShownDelivery {
    found: OperatorDeliveryDetail,
    webhook: Option<WebhookStanding>,
    names: TenantNames,
}

impl ShownDelivery {
    async fn read(visit: &ConsoleView, id: DeliveryId) -> Result<Self, ApiError> {
        let found = deliveries::show(visit.operation(), Id(id)).await?;
        let webhook = Id(found.delivery.webhook_id);
        let webhook = match webhook_status::one(visit.operation(), webhook).await {
            Ok(webhook) => Some(webhook),
            Err(ApiError::NotFound(_)) => None,
            Err(error) => return Err(error),
        };
        let db = visit.store().api_reader();
        let names = TenantNames::of(db, [found.delivery.tenant_id]).await?;
        Ok(Self {
            found,
            webhook,
            names,
        })
    }
}

/// `GET /deliveries/{id}`
pub async fn show(visit: ConsoleView, id: Id<DeliveryId>) -> Result<HttpResponse, ApiError> {
    let shown = ShownDelivery::read(&visit, id.0).await?;
    let delivery = &shown.found.delivery;
    let title = visit.tn(
        "console-delivery-of",
        &[("event", delivery.event.as_str().into())],
    );
    let content = html! {
        (visit.followed("delivery", &format!("&id={}", id.0), &part(&visit, &shown)))
        @if visit.may_change() && shown.webhook.is_some() {
            div.actions { (send_again(&visit, delivery.id)) }
        }
    };
    Ok(layout::page(&visit, &title, content))
}

/// The live part of a delivery's page.
pub async fn part_of_one(visit: &ConsoleView, typed: &FormValues) -> Result<Markup, ApiError> {
    let id = typed.text("id").and_then(|id| id.parse().ok());
    let id = id.ok_or(ApiError::NotFound(Missing::Delivery))?;
    Ok(part(visit, &ShownDelivery::read(visit, id).await?))
}

fn part(visit: &ConsoleView, shown: &ShownDelivery) -> Markup {
    let OperatorDeliveryDetail { delivery, attempts } = &shown.found;
    html! {
        div #part {
            p.lead { (next(visit, shown)) }
            (facts(visit, shown, delivery))
            h2 { (visit.t("console-attempts")) }
            @if attempts.is_empty() { p.muted { (visit.t("console-no-attempts")) } }
            @else { (attempt_table(visit, attempts)) }
        }
    }
}

/// The next step in words.
fn next(visit: &ConsoleView, shown: &ShownDelivery) -> Markup {
    let delivery = &shown.found.delivery;
    let webhook = shown.webhook.as_ref().map(WebhookState::from);
    let now = visit.state().now();
    let at = |id: &str, at: Millis| visit.rich(id, &[("time", visit.precise(at))]);
    match next_step(delivery.status, delivery.next_attempt_at, webhook, now) {
        NextStep::Delivered => html! { (visit.t("console-next-delivered")) },
        NextStep::GivenUp => html! { (visit.t("console-next-given-up")) },
        NextStep::WebhookGone => html! { (visit.t("console-next-webhook-gone")) },
        NextStep::WebhookDisabled => html! { (visit.t("console-next-disabled")) },
        NextStep::Paused(since) => at("console-next-paused", since),
        NextStep::Probe(probe) => at("console-next-probe", probe),
        NextStep::At(next) => at("console-next-at", next),
        NextStep::Due => html! { (visit.t("console-next-due")) },
    }
}

fn facts(visit: &ConsoleView, shown: &ShownDelivery, delivery: &OperatorDelivery) -> Markup {
    html! {
        dl.facts {
            dt { (visit.t("console-status")) }
            dd {
                (delivery_status(visit, delivery.status))
                @if delivery.is_test { " " (badge(Tone::Plain, &visit.t("console-test"))) }
            }
            dt { (visit.t("console-delivery")) } dd { code { (delivery.id) } br; span.muted { code { (delivery.event_id) } } }
            dt { (visit.t("console-webhook")) }
            dd {
                @match &shown.webhook {
                    Some(webhook) => a href={ "/webhooks/" (webhook.view.id) } { (short_address(webhook.view.url.as_str())) },
                    None => { code { (delivery.webhook_id) } },
                }
            }
            dt { (visit.t("console-tenant")) } dd { (shown.names.link(delivery.tenant_id)) }
            @if let Some(call) = delivery.call_id {
                dt { (visit.t("console-call")) } dd { a href={ "/calls/" (call) } { code { (call) } } }
            }
            dt { (visit.t("console-attempts")) } dd { (visit.number(delivery.attempt_count)) }
            dt { (visit.t("console-created")) } dd { (visit.precise(delivery.created_at)) " " (visit.zone().short_name(delivery.created_at)) }
            @if let Some(at) = delivery.completed_at {
                dt { (visit.t("console-finished")) } dd { (visit.precise(at)) }
            }
        }
    }
}

fn attempt_table(visit: &ConsoleView, attempts: &[DeliveryAttempt]) -> Markup {
    let columns = visit.columns("console-attempts-columns");
    let row = |of: &DeliveryAttempt| {
        let is_good = of.error.is_none() && matches!(of.status_code, Some(200..=299));
        let tone = if is_good { Tone::Good } else { Tone::Bad };
        vec![
            html! { (visit.number(of.number)) },
            html! { (visit.precise(of.started_at)) },
            badge(tone, &answer(visit, of.status_code, of.error.as_deref())),
            html! { (visit.number(of.duration_ms)) " ms" },
        ]
    };
    let rows = attempts.iter().rev().map(row).collect();
    table(visit, &visit.t("console-attempts"), &columns, rows)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const NOW: i64 = 1_000;

    const fn at(ms: i64) -> Option<Millis> {
        Some(Millis::from_i64(ms))
    }

    #[rstest]
    #[case::early(at(2_000), None, NextStep::At(Millis::from_i64(2_000)))]
    #[case::late(at(500), None, NextStep::Due)]
    #[case::probed_later(at(500), at(3_000), NextStep::Probe(Millis::from_i64(3_000)))]
    #[case::planned_before_the_probe(
        at(2_000),
        at(3_000),
        NextStep::Probe(Millis::from_i64(3_000))
    )]
    #[case::planned_after_the_probe(at(4_000), at(3_000), NextStep::At(Millis::from_i64(4_000)))]
    #[case::probe_is_over(at(500), at(900), NextStep::Due)]
    fn a_pending_delivery_waits_for_its_time_or_a_probe(
        #[case] planned: Option<Millis>,
        #[case] probe_at: Option<Millis>,
        #[case] expected: NextStep,
    ) {
        let webhook = WebhookState {
            is_active: true,
            paused_at: None,
            probe_at,
        };
        let now = Millis::from_i64(NOW);
        let next = next_step(DeliveryStatus::Pending, planned, Some(webhook), now);
        assert_eq!(next, expected);
    }

    #[test]
    fn a_webhook_that_takes_nothing_comes_first() {
        let now = Millis::from_i64(NOW);
        let of = |is_active, paused_at| {
            let webhook = WebhookState {
                is_active,
                paused_at,
                probe_at: at(5_000),
            };
            next_step(DeliveryStatus::Pending, at(500), Some(webhook), now)
        };
        assert_eq!(of(false, at(1)), NextStep::WebhookDisabled);
        assert_eq!(of(true, at(1)), NextStep::Paused(Millis::from_i64(1)));
        let gone = |status| next_step(status, None, None, now);
        assert_eq!(gone(DeliveryStatus::Pending), NextStep::WebhookGone);
        assert_eq!(gone(DeliveryStatus::Succeeded), NextStep::Delivered);
        assert_eq!(gone(DeliveryStatus::Failed), NextStep::GivenUp);
    }
}
