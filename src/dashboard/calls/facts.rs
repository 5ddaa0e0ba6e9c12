//! The facts about a call, beside its conversation.

use dikala_entities::{Millis, call};
use maud::{Markup, html};

use super::{
    super::{components::copyable, view::SignedIn},
    conversation, list, path_of,
    record::CallRecord,
    words,
};
use crate::operations::calls::callers::CallerPart;

/// The facts, and folded those that are rarely needed.
pub fn list(visit: &SignedIn, record: &CallRecord, now: Millis) -> Markup {
    let call = &record.call;
    html! {
        h2.unseen { (visit.t("calls-facts")) }
        dl.facts {
            dt { (visit.t("calls-state")) }
            dd {
                (words::status(visit, call.status))
                @if let Some(reason) = call.hangup_reason {
                    " " (words::outcome(visit, reason, call.hangup_initiator, record.hand.as_ref()))
                }
            }
            dt { (visit.t("calls-caller")) } dd { (caller(visit, call)) }
            @if let Some(number) = call.phone_number_id {
                dt { (visit.t("calls-number")) }
                dd {
                    a href={ "/dashboard/calls?phoneNumberId=" (number) } {
                        span.number { (call.callee_number.as_str()) }
                    }
                    @if let Some(label) = &record.number { " " span.muted { (label) } }
                }
            }
            dt { (visit.t("calls-channel")) } dd { (visit.t(words::channel_id(call.channel))) }
            dt { (visit.t("calls-agent")) } dd { (agent(visit, record)) }
            dt { (visit.t("calls-when")) } dd { (visit.time(call.started_at)) }
            dt { (visit.t("calls-duration")) } dd { (duration(visit, call, now)) }
            @if let Some(quality) = record.connection {
                dt { (visit.t("calls-connection")) } dd { (words::connection(visit, quality)) }
            }
            @if let Some(voice) = voice(visit, call) {
                dt { (visit.t("calls-voice")) } dd { (voice) }
            }
            dt { (visit.t("calls-minutes")) } dd { (minutes(visit, record)) }
            @if let Some(cost) = call.ai_cost_idr {
                dt { (visit.t("calls-ai-cost")) } dd { (visit.rupiah(cost)) }
            }
        }
        details #more {
            summary { (visit.t("calls-more")) }
            @if call.metadata != "{}" {
                h3 { (visit.t("calls-metadata")) } (conversation::json_text(&call.metadata))
            }
            h3 { (visit.t("calls-id")) } (copyable(visit, "id", &visit.t("calls-id"), &call.id.to_string()))
            @if visit.is_owner() && call.status.is_final() && !call.is_erased() {
                a.button.secondary href={ (path_of(call.id)) "/erase" } { (visit.t("calls-erase")) }
            }
        }
    }
}

/// The caller's number, which leads to all calls from it.
fn caller(visit: &SignedIn, call: &call::Model) -> Markup {
    let number = words::caller(visit, &call.caller_number, call.is_erased());
    let is_searched = !matches!(CallerPart::read(call.caller_number.as_str()), Some(Err(_)));
    match is_searched && !call.is_erased() {
        false => number,
        true => html! { a href=(list::calls_of(&call.caller_number)) { (number) } },
    }
}

/// The provider, how fast the agent answered, and what went on in the conversation; `None` if nothing of it is known.
fn voice(visit: &SignedIn, call: &call::Model) -> Option<String> {
    let provider = call.voice_provider;
    let provider = provider.map(|provider| visit.t(words::provider_id(provider)));
    let latency = call.turn_latency_ms.map(|ms| {
        let of = |ms| words::milliseconds(visit, ms).into();
        visit.tn(
            "calls-turn-latency",
            &[("p50", of(ms.p50)), ("p95", of(ms.p95))],
        )
    });
    let counted = |id, count: Option<i64>| {
        let count = count.filter(|count| *count > 0)?;
        Some(visit.tn(id, &[("count", count.into())]))
    };
    let interruptions = counted("calls-interruptions", call.interruptions);
    let stalls = counted("calls-stalls", call.stalls);
    let parts: Vec<String> = [provider, latency, interruptions, stalls]
        .into_iter()
        .flatten()
        .collect();
    (!parts.is_empty()).then(|| parts.join(" · "))
}

fn agent(visit: &SignedIn, record: &CallRecord) -> Markup {
    html! {
        @match (&record.agent, record.call.agent_id) {
            (Some(name), Some(id)) => a href={ "/dashboard/agents/" (id) } { (name) },
            (_, Some(_)) => span.muted { (visit.t("calls-agent-gone")) },
            (_, None) => span.muted { (visit.t("calls-agent-none")) },
        }
        @if let Some(version) = record.call.agent_version {
            " " span.muted { (visit.tn("calls-version", &[("version", version.into())])) }
        } @else if record.call.settings.is_some() {
            " " span.muted { (visit.t("calls-draft")) }
        }
    }
}

/// Total duration and talk time. A running call shows only its start, so that the part does not change every
/// second.
fn duration(visit: &SignedIn, call: &call::Model, now: Millis) -> Markup {
    html! {
        @match (call.duration_seconds, call.talk_time_seconds) {
            (Some(all), talk) => {
                (words::duration(visit, all))
                @if let Some(talk) = talk.filter(|talk| *talk > 0) {
                    " " span.muted { (visit.tn("calls-of-it-talk", &[("talk", words::duration(visit, talk).into())])) }
                }
            },
            (None, _) => {
                @let minutes = now.whole_seconds_since(call.started_at) / 60;
                (visit.tn("calls-running-for", &[("minutes", minutes.into())]))
            },
        }
    }
}

fn minutes(visit: &SignedIn, record: &CallRecord) -> Markup {
    let (used, held) = record
        .hold
        .as_ref()
        .map_or((0, 0), |hold| (hold.used, hold.held));
    html! {
        (visit.tn("calls-minutes-used", &[("used", used.into())]))
        @if held > 0 { ", " (visit.tn("calls-minutes-held", &[("held", held.into())])) }
    }
}
