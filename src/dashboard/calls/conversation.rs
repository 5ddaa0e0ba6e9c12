//! Renders a call's timeline as a list.

use dikala_entities::{EventId, Millis};
use maud::{Markup, html};
use serde_json::Value;

use super::{
    super::{
        components::{Tone, badge},
        format,
        names::cut,
        view::DashboardView,
    },
    record::{CallDelivery, CallRecord, TranscriptTurn},
    timeline::{self, InvokedFunction, TimelineEntry, TimelineEvent},
    words,
};

/// Longest shown part of a text, in characters.
const CHARS_MAX: usize = 2_000;
/// Longest shown part of an address, in characters.
const URL_CHARS_MAX: usize = 200;
/// Size of a page of a timeline, in bytes of markup. A single larger entry is shown whole.
const BYTES_MAX: usize = 15_000;
/// Entries later than this after the ring show their date, in milliseconds.
const SAME_CALL_MS: i64 = 5 * 60 * 60 * 1_000;

/// A page of the timeline that begins with entry number `first`, with links to the call's other pages. `path` is
/// the call's path.
pub fn list(view: &DashboardView, record: &CallRecord, path: &str, first: usize) -> Markup {
    let entries = timeline::of(record);
    // The numbering of functions keeps an entry unfolded when the list is replaced.
    let mut functions = 0;
    let (mut bytes, mut shown) = (0, Vec::new());
    for (nth, entry) in entries.iter().enumerate() {
        functions += usize::from(matches!(entry.what, TimelineEvent::Called(_)));
        if nth < first {
            continue;
        }
        let item = item(view, record, entry, functions);
        bytes += item.0.len();
        if bytes > BYTES_MAX && !shown.is_empty() {
            break;
        }
        shown.push(item);
    }
    let next = first.saturating_add(shown.len());
    let is_end = next >= entries.len();
    html! {
        ol.timeline { @for item in shown { (item) } }
        @if is_end && record.is_cut { p.muted { (view.t("calls-cut")) } }
        @if first > 0 || !is_end {
            nav.paging aria-label=(view.t("page-paging")) {
                @if first > 0 { a.button.secondary href={ (path) "#timeline" } { (view.t("calls-from-the-ring")) } }
                @if !is_end {
                    a.button.secondary href={ (path) "?from=" (next) "#timeline" } rel="next" { (view.t("calls-what-followed")) }
                }
            }
        }
    }
}

fn item(view: &DashboardView, record: &CallRecord, entry: &TimelineEntry, nth: usize) -> Markup {
    html! {
        li.(class(&entry.what)) {
            span.when { (when(view, record.call.started_at, entry.at)) }
            div.what {
                (what(view, &entry.what, nth))
                (sent(view, record, entry.event))
            }
        }
    }
}

const fn class(what: &TimelineEvent) -> &'static str {
    match what {
        TimelineEvent::Said(_) => "said",
        TimelineEvent::Called(_) => "called",
        TimelineEvent::Rang
        | TimelineEvent::Answered
        | TimelineEvent::Joined
        | TimelineEvent::Over { .. }
        | TimelineEvent::Summed(_) => "step",
    }
}

/// The time since the ring: `0:04`.
fn when(view: &DashboardView, start: Millis, at: Millis) -> Markup {
    if at.since(start) > SAME_CALL_MS {
        return view.time(at);
    }
    let seconds = at.whole_seconds_since(start);
    let text = format!("{}:{:02}", seconds / 60, seconds % 60);
    html! { time datetime=(at) title=(format::utc(at)) { (text) } }
}

fn what(view: &DashboardView, what: &TimelineEvent, nth: usize) -> Markup {
    match what {
        TimelineEvent::Rang => html! { strong { (view.t("calls-rang")) } },
        TimelineEvent::Answered => html! { strong { (view.t("calls-was-answered")) } },
        TimelineEvent::Joined => html! { strong { (view.t("calls-was-joined")) } },
        TimelineEvent::Said(turn) => said(view, turn),
        TimelineEvent::Called(function) => called(view, function, nth),
        TimelineEvent::Over { reason, by, hand } => html! {
            strong { (view.t("calls-over")) }
            @if let Some(reason) = reason { ": " (words::outcome(view, *reason, *by, hand.as_ref())) }
        },
        TimelineEvent::Summed(summary) => html! {
            strong { (view.t("calls-summary")) }
            p.words { (cut(summary, CHARS_MAX)) }
        },
    }
}

fn said(view: &DashboardView, turn: &TranscriptTurn) -> Markup {
    html! {
        span.who { (view.t(words::speaker_id(turn.role))) }
        @if let Some(ms) = turn.latency_ms { " " span.muted { (words::milliseconds(view, ms)) } }
        @if turn.interrupted { " " span.muted { (view.t("calls-interrupted")) } }
        p.words { (cut(&turn.text, CHARS_MAX)) }
    }
}

fn called(view: &DashboardView, function: &InvokedFunction, nth: usize) -> Markup {
    html! {
        strong { (view.t("calls-function")) " " code { (function.name) } }
        " "
        @match &function.fault {
            Some(code) => (badge(Tone::Bad, code)),
            None => (badge(Tone::Good, &view.t("calls-function-ok"))),
        }
        @if let Some(ms) = function.duration_ms { " " span.muted { (words::milliseconds(view, ms)) } }
        @if let Some(parameters) = &function.parameters {
            details id={ "arguments" (nth) } { summary { (view.t("calls-arguments")) } (json(parameters)) }
        }
        @if let Some(result) = &function.result {
            @match result {
                Value::String(sentence) => p.words lang="en" { (cut(sentence, CHARS_MAX)) },
                object => details id={ "result" (nth) } { summary { (view.t("calls-result")) } (json(object)) },
            }
        }
    }
}

/// Deliveries of the entry's event to webhooks.
fn sent(view: &DashboardView, record: &CallRecord, event: Option<EventId>) -> Markup {
    let sent = event.and_then(|event| record.deliveries.get(&event));
    html! {
        @if let Some(sent) = sent {
            ul.deliveries aria-label=(view.t("calls-deliveries")) {
                @for one in sent { li { (delivery(view, one)) } }
            }
        }
    }
}

fn delivery(view: &DashboardView, sent: &CallDelivery) -> Markup {
    html! {
        (words::delivery(view, sent.status)) " "
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

/// Stored JSON, formatted.
pub fn json_text(text: &str) -> Markup {
    let value: Value = serde_json::from_str(text).unwrap_or_default();
    json(&value)
}

fn json(value: &Value) -> Markup {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    html! { pre tabindex="0" { (cut(&text, CHARS_MAX)) } }
}
