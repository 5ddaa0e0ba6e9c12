//! Renders a call as a conversation: bubbles, with the functions and the call's steps between them.

use dikala_entities::{Millis, Speaker};
use maud::{Markup, html};
use serde_json::Value;

use super::{
    super::{
        components::{Tone, badge},
        format,
        names::cut,
        view::DashboardView,
    },
    record::{CallRecord, TranscriptTurn},
    timeline::{self, InvokedFunction, TimelineEntry, TimelineEvent},
    words,
};

/// Longest shown part of a text, in characters.
const CHARS_MAX: usize = 2_000;
/// Size of a page of a conversation, in bytes of markup. A single larger entry is shown whole.
const BYTES_MAX: usize = 12_000;
/// Entries later than this after the ring show their date, in milliseconds.
const SAME_CALL_MS: i64 = 5 * 60 * 60 * 1_000;
/// An answer that took longer than this is marked, in milliseconds: a caller notices it.
const SLOW_MS: i64 = 2_000;

/// A page of the conversation that begins with entry number `first`, with links to the call's other pages. Without a number it is
/// the last page of a call that goes on, and else the first one. `path` is the call's path.
pub fn list(view: &DashboardView, record: &CallRecord, path: &str, first: Option<usize>) -> Markup {
    let entries = timeline::of(record);
    // The numbering of functions keeps an entry unfolded when the list is replaced.
    let numbered = entries.iter().scan(0, |functions, entry| {
        *functions += usize::from(matches!(entry.what, TimelineEvent::Called(_)));
        Some((*functions, entry))
    });
    let numbered: Vec<(usize, &TimelineEntry)> = numbered.collect();
    let item =
        |(nth, entry): &(usize, &TimelineEntry)| item(view, record.call.started_at, entry, *nth);
    let goes_on = !record.call.status.is_final();
    let is_followed = first.is_none() && goes_on;
    let start = if goes_on {
        "?from=0#timeline"
    } else {
        "#timeline"
    };
    let (first, shown) = if is_followed {
        let mut shown = fitting(numbered.iter().rev().map(item));
        shown.reverse();
        (entries.len() - shown.len(), shown)
    } else {
        let first = first.unwrap_or_default();
        (first, fitting(numbered.iter().skip(first).map(item)))
    };
    let next = first.saturating_add(shown.len());
    let is_end = next >= entries.len();
    html! {
        ol.conversation { @for item in shown { (item) } }
        @if is_end && record.is_cut { p.muted { (view.t("calls-cut")) } }
        @if first > 0 || !is_end {
            nav.paging aria-label=(view.t("page-paging")) {
                @if first > 0 { a.button.secondary href={ (path) (start) } { (view.t("calls-from-the-ring")) } }
                @if !is_end {
                    a.button.secondary href={ (path) "?from=" (next) "#timeline" } rel="next" { (view.t("calls-what-followed")) }
                }
            }
        }
    }
}

/// The items that fit on a page.
fn fitting(items: impl Iterator<Item = Markup>) -> Vec<Markup> {
    let (mut bytes, mut shown) = (0, Vec::new());
    for item in items {
        bytes += item.0.len();
        if bytes > BYTES_MAX && !shown.is_empty() {
            break;
        }
        shown.push(item);
    }
    shown
}

fn item(view: &DashboardView, start: Millis, entry: &TimelineEntry, nth: usize) -> Markup {
    let when = when(view, start, entry.at);
    match &entry.what {
        TimelineEvent::Rang => step(&when, &view.t("calls-rang")),
        TimelineEvent::Answered => step(&when, &view.t("calls-was-answered")),
        TimelineEvent::Joined => step(&when, &view.t("calls-was-joined")),
        TimelineEvent::Over { reason, by, hand } => {
            let over = view.t("calls-over");
            let outcome = reason.map(|reason| words::outcome(view, reason, *by, hand.as_ref()));
            let words =
                outcome.map_or_else(|| over.clone(), |outcome| format!("{over}: {outcome}"));
            step(&when, &words)
        }
        TimelineEvent::Said(turn) => said(view, &when, turn),
        TimelineEvent::Called(function) => called(view, &when, function, nth),
    }
}

/// The time since the ring: `0:04`.
fn when(view: &DashboardView, start: Millis, at: Millis) -> Markup {
    if at.since(start) > SAME_CALL_MS {
        return view.time(at);
    }
    let text = words::minutes_and_seconds(at.whole_seconds_since(start));
    html! { time datetime=(at) title=(format::utc(at)) { (text) } }
}

fn step(when: &Markup, words: &str) -> Markup {
    html! { li.step { (when) " " span { (words) } } }
}

/// A bubble with the words of a turn.
pub fn said(view: &DashboardView, when: &Markup, turn: &TranscriptTurn) -> Markup {
    let class = match turn.role {
        Speaker::Caller => "caller",
        Speaker::Agent => "agent",
        Speaker::Tool => "tool",
    };
    html! {
        li.said.(class) {
            p.who {
                (view.t(words::speaker_id(turn.role))) " " (when)
                @if let Some(ms) = turn.latency_ms { " " (latency(view, ms)) }
                @if turn.interrupted { " " span { (view.t("calls-interrupted")) } }
            }
            p.words { (cut(&turn.text, CHARS_MAX)) }
        }
    }
}

/// The time until the agent's first sound, marked if it is long.
fn latency(view: &DashboardView, ms: i64) -> Markup {
    let text = words::milliseconds(view, ms);
    match ms > SLOW_MS {
        true => badge(Tone::Warning, &text),
        false => html! { span { (text) } },
    }
}

/// A function with its arguments and result, the `nth` of the page.
pub fn called(
    view: &DashboardView,
    when: &Markup,
    function: &InvokedFunction,
    nth: usize,
) -> Markup {
    let name = html! {
        (when) " " (view.t("calls-function")) " " code { (function.name) } " "
        @match &function.fault {
            Some(code) => (badge(Tone::Bad, code)),
            None => (badge(Tone::Good, &view.t("calls-function-ok"))),
        }
        @if let Some(ms) = function.duration_ms { " " (latency(view, ms)) }
    };
    // A failure's reason is seen at once.
    let (sentence, object) = match &function.result {
        Some(Value::String(sentence)) => (Some(sentence), None),
        object => (None, object.as_ref()),
    };
    html! {
        li.called {
            @if function.parameters.is_some() || object.is_some() {
                details id={ "function" (nth) } {
                    summary { (name) }
                    @if let Some(parameters) = &function.parameters {
                        h3 { (view.t("calls-arguments")) } (json(parameters))
                    }
                    @if let Some(object) = object { h3 { (view.t("calls-result")) } (json(object)) }
                }
            } @else { p { (name) } }
            @if let Some(sentence) = sentence { p.words lang="en" { (cut(sentence, CHARS_MAX)) } }
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
