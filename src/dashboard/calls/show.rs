//! The page of one call.

use actix_web::HttpResponse;
use dikala_entities::{CallId, Millis, call};
use maud::{Markup, html};
use serde_json::Value;

use super::{
    super::{
        components::{Tone, copyable, notice},
        follow::{self, FollowedPart},
        form::FormValues,
        layout,
        view::SignedIn,
    },
    entries, path_of,
    record::{self, CallRecord},
    words,
};
use crate::{
    http::{error::ApiError, extract::Id},
    pages::live,
};

/// `GET /dashboard/calls/{id}`
pub async fn show(
    visit: SignedIn,
    id: Id<CallId>,
    asked: FormValues,
) -> Result<HttpResponse, ApiError> {
    let first = asked.text("from").and_then(|from| from.parse().ok());
    let content = match first.unwrap_or_default() {
        0 => content(&visit, id.0).await?,
        first => part(&visit, id.0, first).await?.html,
    };
    Ok(layout::page(&visit, &visit.t("calls-one-title"), content))
}

/// The page without its title.
pub async fn content(visit: &SignedIn, id: CallId) -> Result<Markup, ApiError> {
    let position = follow::position(visit).await?;
    let shown = part(visit, id, 0).await?;
    Ok(html! {
        @if shown.is_settled { (shown.html) }
        @else {
            p { (live::sign(visit)) }
            (live::followed(visit, FollowedPart::Call(id), "", position, shown.html))
        }
    })
}

/// The changing part of a call's page.
pub struct CallPart {
    pub html: Markup,
    /// True if the page will not change again.
    pub is_settled: bool,
}

/// The changing part, with the timeline from entry number `first` on.
pub async fn part(visit: &SignedIn, id: CallId, first: usize) -> Result<CallPart, ApiError> {
    let call = record::find(visit, id).await?;
    let record = record::read(visit, call).await?;
    let now = visit.services().clock.now();
    let html = html! {
        div #part {
            (under_way(visit, &record.call))
            (facts(visit, &record, now))
            (actions(visit, &record.call))
            section aria-labelledby="timeline" {
                h2 #timeline { (visit.t("calls-timeline")) }
                (entries::list(visit, &record, &path_of(id), first))
            }
        }
    };
    let is_settled = record.is_settled(now);
    Ok(CallPart { html, is_settled })
}

fn facts(visit: &SignedIn, record: &CallRecord, now: Millis) -> Markup {
    let call = &record.call;
    html! {
        dl.facts {
            dt { (visit.t("calls-state")) }
            dd {
                (words::status(visit, call.status))
                @if let Some(reason) = call.hangup_reason {
                    " " (words::outcome(visit, reason, call.hangup_initiator, record.hand.as_ref()))
                }
            }
            dt { (visit.t("calls-caller")) } dd { (words::caller(visit, &call.caller_number, call.is_erased())) }
            dt { (visit.t("calls-number")) }
            dd {
                span.number { (call.callee_number.as_str()) }
                @if let Some(label) = &record.number { " " span.muted { (label) } }
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
            @if call.metadata != "{}" {
                dt { (visit.t("calls-metadata")) } dd { (entries::json_text(&call.metadata)) }
            }
            dt { (visit.t("calls-id")) } dd { (copyable(visit, "id", &visit.t("calls-id"), &call.id.to_string())) }
        }
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

/// Actions that were requested and that the bridge has not done yet.
fn under_way(visit: &SignedIn, call: &call::Model) -> Markup {
    let pending: Value = call
        .pending
        .as_deref()
        .and_then(|pending| serde_json::from_str(pending).ok())
        .unwrap_or_default();
    let told = [
        ("hangup", "calls-is-ending"),
        ("transfer", "calls-is-transferring"),
    ];
    let told = told
        .into_iter()
        .find(|(command, _)| !pending[command].is_null());
    html! {
        @if let Some((_, words)) = told.filter(|_| !call.status.is_final()) {
            div #under-way { (notice(Tone::Good, html! { p role="status" { (visit.t(words)) } })) }
        }
    }
}

/// Links to the possible actions on a running call, or on an ended call's data.
fn actions(visit: &SignedIn, call: &call::Model) -> Markup {
    let path = path_of(call.id);
    html! {
        @if visit.is_owner() && !call.is_erased() {
            div.actions {
                @if call.status.is_final() {
                    a.button.secondary href={ (path) "/erase" } { (visit.t("calls-erase")) }
                } @else {
                    a.button.danger href={ (path) "/hangup" } { (visit.t("calls-hangup")) }
                    a.button.secondary href={ (path) "/transfer" } { (visit.t("calls-transfer")) }
                }
            }
        }
    }
}
