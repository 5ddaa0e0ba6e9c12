//! The folded list of a call's deliveries to webhooks.

use dikala_entities::DeliveryStatus;
use maud::{Markup, html};

use super::{
    super::{names::cut, view::DashboardView},
    record::{CallDelivery, CallEvent, CallRecord},
    words,
};

/// Longest shown part of an address, in characters.
const URL_CHARS_MAX: usize = 100;
/// Deliveries that are listed; first those that failed or wait.
const SHOWN_MAX: usize = 12;

/// One line with the counts, which unfolds; nothing without deliveries.
pub fn list(view: &DashboardView, record: &CallRecord) -> Markup {
    let mut all = all(record);
    let of = |status| all.iter().filter(|(_, sent)| sent.status == status).count();
    let counts = [
        (DeliveryStatus::Succeeded, "calls-webhooks-delivered"),
        (DeliveryStatus::Pending, "calls-webhooks-waiting"),
        (DeliveryStatus::Failed, "calls-webhooks-failed"),
    ];
    let counts = counts.map(|(status, id)| (of(status), id));
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts
        .map(|(count, id)| view.tn(id, &[("count", count.into())]))
        .collect();
    let more = all.len().saturating_sub(SHOWN_MAX);
    all.truncate(SHOWN_MAX);
    html! {
        @if !all.is_empty() {
            details #webhooks {
                summary { (view.t("calls-webhooks")) ": " (counts.join(", ")) }
                ul.deliveries { @for (event, sent) in &all { li { (delivery(view, event, sent)) } } }
                @if more > 0 { p.muted { (view.tn("calls-webhooks-more", &[("count", more.into())])) } }
            }
        }
    }
}

/// The deliveries in the order of their events; those that need a look come first.
fn all(record: &CallRecord) -> Vec<(&CallEvent, &CallDelivery)> {
    let of = |event| record.deliveries.get(event).into_iter().flatten();
    let events = record.events.iter();
    let mut all: Vec<_> = events
        .flat_map(|event| of(&event.id).map(move |sent| (event, sent)))
        .collect();
    all.sort_by_key(|(_, sent)| match sent.status {
        DeliveryStatus::Failed => 0,
        DeliveryStatus::Pending => 1,
        DeliveryStatus::Succeeded => 2,
    });
    all
}

fn delivery(view: &DashboardView, event: &CallEvent, sent: &CallDelivery) -> Markup {
    html! {
        code { (event.kind) } " " (words::delivery(view, sent.status)) " "
        a href={ "/dashboard/deliveries/" (sent.id) } {
            @match &sent.url {
                Some(url) => (cut(url, URL_CHARS_MAX)),
                None => (view.t("calls-webhook-gone")),
            }
        }
        @if sent.attempts != 1 || sent.next_attempt_at.is_some() {
            " " span.muted { (view.tn("calls-attempts", &[("count", sent.attempts.into())])) }
        }
        @if let Some(at) = sent.next_attempt_at.filter(|_| sent.attempts > 0) {
            " " span.muted { (view.t("calls-next-attempt")) " " (view.time(at)) }
        }
    }
}
