//! The timeline on a call's page: one line a step, with its offset from the ring, its time, its source and words.

use std::{fmt::Write, time::Duration};

use dikala_entities::{AuditAction, HangupReason, TenantId};
use dikala_protocol::{ErrorCode, MessageType};
use maud::{Markup, html};

use super::{calls::reason_words, figures::time_us, list::word, view::ConsoleView};
use crate::{
    operations::calls::{
        diagnosis::SipStep,
        timeline::{AttemptStep, CallStep, CallTimeline, CalledFunctionStep, StepKind},
    },
    pages::{components::short_id, format::offset, words::attempt_error},
};

/// A step in words.
struct StepWords {
    /// The message id of its source.
    source: &'static str,
    words: String,
    /// The first line of a SIP message.
    code: Option<String>,
    note: Option<String>,
    /// Paths of the things that it is about, each with its id or message id.
    links: Vec<(String, StepLink)>,
}

enum StepLink {
    Id(String),
    Words(&'static str),
}

impl StepWords {
    fn new(source: &'static str, words: String) -> Self {
        Self {
            source,
            words,
            code: None,
            note: None,
            links: Vec::new(),
        }
    }

    fn link(mut self, path: String, id: impl ToString) -> Self {
        self.links.push((path, StepLink::Id(id.to_string())));
        self
    }
}

/// The entries of one page.
pub fn show(
    visit: &ConsoleView,
    timeline: &CallTimeline,
    steps: &[CallStep],
    tenant: TenantId,
) -> Markup {
    html! {
        ol.steps {
            @for step in steps {
                @let told = told(visit, &step.what, tenant);
                li {
                    span.offset { (offset(visit.lang(), step.at.since(timeline.rang_at))) }
                    time datetime=(step.at) { (visit.zone().clock_with_milliseconds(visit.lang(), step.at)) }
                    span.source { (visit.t(told.source)) }
                    span.what {
                        (told.words)
                        @if let Some(code) = &told.code { " " code { (code) } }
                        @if let Some(note) = &told.note { " " span.muted { (note) } }
                        @for (path, link) in &told.links {
                            " " a href=(path) {
                                @match link {
                                    StepLink::Id(id) => (short_id(id)),
                                    StepLink::Words(id) => (visit.t(id)),
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The sources that are missing here, and why.
pub fn gaps(visit: &ConsoleView, timeline: &CallTimeline) -> Markup {
    html! {
        @if timeline.has_sip { p.muted { (visit.rich("console-sip-words", &[])) } }
        @else { p.muted { (visit.t("console-no-sip")) } }
        @if timeline.forgotten > 0 {
            @let count = i64::try_from(timeline.forgotten).unwrap_or(i64::MAX);
            p.muted { (visit.tn("console-sip-forgotten", &[("count", count.into())])) }
        }
        @if !timeline.has_messages { p.muted { (visit.t("console-no-bridge-messages")) } }
    }
}

/// A step as a line of the report.
pub fn line(
    visit: &ConsoleView,
    timeline: &CallTimeline,
    step: &CallStep,
    tenant: TenantId,
) -> String {
    let told = told(visit, &step.what, tenant);
    let mut line = format!(
        "{:>12}  {}  {:<10}  {}",
        offset(visit.lang(), step.at.since(timeline.rang_at)),
        step.at,
        visit.t(told.source),
        told.words
    );
    let ids = told.links.iter().filter_map(|(_, link)| match link {
        StepLink::Id(id) => Some(id),
        StepLink::Words(_) => None,
    });
    for more in told.code.iter().chain(&told.note).chain(ids) {
        // Writing to a text never fails.
        let _ = write!(line, " {more}");
    }
    line.push('\n');
    line
}

fn told(visit: &ConsoleView, what: &StepKind, tenant: TenantId) -> StepWords {
    let state = |words| StepWords::new("console-source-call", words);
    match what {
        StepKind::Sip(step) => sip(visit, step),
        StepKind::Message {
            kind,
            took,
            refusal,
        } => message(visit, *kind, *took, *refusal),
        StepKind::Rang => state(visit.t("console-step-rang")),
        StepKind::Answered => state(visit.t("console-answered")),
        StepKind::Joined => state(visit.t("console-joined")),
        StepKind::Ended { status, reason, by } => {
            let words = match reason {
                Some(reason) => reason_words(visit, *reason, *by),
                None => word(visit, status.as_str()),
            };
            state(visit.tn("console-step-ended", &[("why", words.into())]))
        }
        StepKind::Asked {
            actor,
            action,
            detail,
        } => {
            let who = ("who", actor.to_string().into());
            let words = match action {
                AuditAction::CallTransfer => {
                    let to = ("to", detail.as_str().into());
                    visit.tn("console-step-asked-transfer", &[who, to])
                }
                _ => visit.tn("console-step-asked-end", &[who]),
            };
            StepWords::new("console-source-request", words)
        }
        StepKind::Reserved | StepKind::Refused(_) | StepKind::Settled { .. } => {
            ledger(visit, what, tenant)
        }
        StepKind::Function(function) => called(visit, function, tenant),
        StepKind::Event { kind, after_ms } => {
            let kind = ("kind", kind.as_str().into());
            let words = match after_ms {
                0 => visit.tn("console-step-event", &[kind]),
                ms => visit.tn("console-step-event-after", &[kind, ("ms", (*ms).into())]),
            };
            StepWords::new("console-source-event", words)
        }
        StepKind::Attempt(attempt) => attempted(visit, attempt),
        StepKind::Due {
            delivery,
            webhook,
            event,
        } => {
            let words = visit.tn("console-step-due", &[("kind", event.as_str().into())]);
            StepWords::new("console-source-delivery", words)
                .link(format!("/deliveries/{delivery}"), delivery)
                .link(format!("/webhooks/{webhook}"), webhook)
        }
    }
}

fn message(
    visit: &ConsoleView,
    kind: MessageType,
    took: Duration,
    refusal: Option<ErrorCode>,
) -> StepWords {
    let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    let kind = ("kind", kind.as_str().into());
    let time = ("time", time_us(us).into());
    let words = match refusal {
        None => visit.tn("console-step-message", &[kind, time]),
        Some(code) => {
            let code = ("code", code.as_str().into());
            visit.tn("console-step-message-refused", &[kind, time, code])
        }
    };
    StepWords::new("console-source-bridge", words)
}

/// A posting of the ledger, with a link to the tenant's minutes if it changed them.
fn ledger(visit: &ConsoleView, what: &StepKind, tenant: TenantId) -> StepWords {
    let ledger = |words| StepWords::new("console-source-ledger", words);
    match what {
        StepKind::Refused(refusal) => {
            let reason: Option<HangupReason> = refusal.parse().ok();
            let why = reason.map_or_else(
                || refusal.clone(),
                |reason| reason_words(visit, reason, None),
            );
            ledger(visit.tn("console-grant-refused", &[("refusal", why.into())]))
        }
        StepKind::Settled {
            minutes,
            grants,
            balance,
        } => {
            let used = [("minutes", (*minutes).into()), ("grants", (*grants).into())];
            let mut words = visit.tn("console-step-settled", &used);
            if let Some(balance) = balance {
                let left = visit.number(*balance).into();
                words.push_str(", ");
                words.push_str(&visit.tn("console-step-balance", &[("minutes", left)]));
            }
            let mut words = ledger(words);
            let credits = format!("/tenants/{tenant}/credits");
            words
                .links
                .push((credits, StepLink::Words("console-credit")));
            words
        }
        _ => ledger(visit.t("console-step-reserved")),
    }
}

fn sip(visit: &ConsoleView, step: &SipStep) -> StepWords {
    let direction = match step.direction {
        "sent" => "console-sent",
        _ => "console-received",
    };
    let words = format!("{} {} {}", visit.t(direction), step.transport, step.remote);
    StepWords {
        code: Some(step.first_line.clone()),
        note: step.sdp.clone(),
        ..StepWords::new("console-source-sip", words)
    }
}

fn called(visit: &ConsoleView, function: &CalledFunctionStep, tenant: TenantId) -> StepWords {
    let name = ("name", function.name.as_str().into());
    let ms = ("ms", function.duration_ms.into());
    let words = match &function.fault {
        None => visit.tn("console-step-function", &[name, ms]),
        Some(fault) => {
            let fault = ("fault", fault.as_str().into());
            visit.tn("console-step-function-failed", &[name, ms, fault])
        }
    };
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.append_pair("tenantId", &tenant.to_string());
    query.append_pair("name", &function.name);
    let path = format!("/functions?{}", query.finish());
    let mut words = StepWords::new("console-source-function", words);
    words
        .links
        .push((path, StepLink::Words("console-functions")));
    words
}

fn attempted(visit: &ConsoleView, step: &AttemptStep) -> StepWords {
    let made = &step.attempt;
    let parts = [
        ("kind", step.event.as_str().into()),
        ("number", made.number.into()),
        (
            "outcome",
            answer(visit, made.status_code, made.error.as_deref()).into(),
        ),
        ("ms", made.duration_ms.into()),
    ];
    let words = visit.tn("console-step-attempt", &parts);
    let (delivery, webhook) = (made.delivery_id, step.webhook);
    StepWords::new("console-source-delivery", words)
        .link(format!("/deliveries/{delivery}"), delivery)
        .link(format!("/webhooks/{webhook}"), webhook)
}

/// The outcome of an attempt: `204`, `too slow`.
pub fn answer(visit: &ConsoleView, status: Option<i64>, error: Option<&str>) -> String {
    match (status, error) {
        (Some(status), Some(error)) => format!("{status}, {}", attempt_error(visit, error)),
        (None, Some(error)) => attempt_error(visit, error),
        (Some(status), None) => status.to_string(),
        (None, None) => super::figures::NONE.to_owned(),
    }
}
