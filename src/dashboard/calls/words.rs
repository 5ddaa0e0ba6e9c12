//! Names of states, reasons and durations.

use dikala_entities::{
    CallStatus, CallerNumber, ChannelKind, ConnectionQuality, DeliveryStatus, HangupInitiator,
    HangupReason, Speaker, VoiceProvider, call,
};
use maud::{Markup, html};

use super::{
    super::{
        components::{Tone, badge},
        format,
        view::DashboardView,
    },
    by_hand::ManualAct,
};
pub use crate::pages::words::reason_id;

/// The message id of a state, which the filter also uses.
pub const fn status_id(status: CallStatus) -> &'static str {
    match status {
        CallStatus::Ringing => "calls-ringing",
        CallStatus::Answered => "calls-answered",
        CallStatus::Ended => "calls-ended",
        CallStatus::Dropped => "calls-dropped",
        CallStatus::Failed => "calls-failed",
    }
}

/// A state as a badge.
pub fn status(view: &DashboardView, status: CallStatus) -> Markup {
    let tone = match status {
        CallStatus::Ringing => Tone::Warning,
        CallStatus::Answered => Tone::Good,
        CallStatus::Ended => Tone::Plain,
        CallStatus::Dropped | CallStatus::Failed => Tone::Bad,
    };
    badge(tone, &view.t(status_id(status)))
}

/// The end of a call as a badge, whose colour is told to screen readers.
pub fn ended(view: &DashboardView, status: CallStatus, outcome: &str) -> Markup {
    let tone = match status {
        CallStatus::Dropped | CallStatus::Failed => Tone::Bad,
        CallStatus::Ringing | CallStatus::Answered | CallStatus::Ended => Tone::Plain,
    };
    html! { span.unseen { (view.t(status_id(status))) } " " (badge(tone, outcome)) }
}

/// The quality of a connection as a badge.
pub fn connection(view: &DashboardView, quality: ConnectionQuality) -> Markup {
    let (tone, id) = match quality {
        ConnectionQuality::Good => (Tone::Good, "calls-connection-good"),
        ConnectionQuality::Fair => (Tone::Warning, "calls-connection-fair"),
        ConnectionQuality::Poor => (Tone::Bad, "calls-connection-poor"),
    };
    badge(tone, &view.t(id))
}

/// The end of a call and its author: `Caller hung up`, `Ended by Dewi`.
pub fn outcome(
    view: &DashboardView,
    reason: HangupReason,
    by: Option<HangupInitiator>,
    hand: Option<&ManualAct>,
) -> String {
    let name = hand.and_then(|hand| hand.name.as_deref());
    let to = hand.and_then(|hand| hand.to.as_deref());
    match (reason, by) {
        (HangupReason::Normal, Some(HangupInitiator::Caller)) => view.t("calls-caller-hung-up"),
        (HangupReason::Normal, Some(HangupInitiator::Agent)) => view.t("calls-agent-hung-up"),
        (HangupReason::Requested, _) => match name {
            Some(name) => view.tn("calls-ended-by", &[("name", name.into())]),
            None => view.t(reason_id(reason)),
        },
        (HangupReason::Transferred, _) => match (name, to) {
            (Some(name), Some(to)) => {
                let parts = [("name", name.into()), ("to", to.into())];
                view.tn("calls-transferred-by", &parts)
            }
            _ => view.t(reason_id(reason)),
        },
        _ => view.t(reason_id(reason)),
    }
}

/// The message id of a speaker.
pub const fn speaker_id(speaker: Speaker) -> &'static str {
    match speaker {
        Speaker::Caller => "calls-said-caller",
        Speaker::Agent => "calls-said-agent",
        Speaker::Tool => "calls-said-tool",
    }
}

/// The status of a delivery as a badge.
pub fn delivery(view: &DashboardView, status: DeliveryStatus) -> Markup {
    match status {
        DeliveryStatus::Pending => badge(Tone::Warning, &view.t("calls-delivery-pending")),
        DeliveryStatus::Succeeded => badge(Tone::Good, &view.t("calls-delivery-succeeded")),
        DeliveryStatus::Failed => badge(Tone::Bad, &view.t("calls-delivery-failed")),
    }
}

/// A duration: `1 min 34 s`.
pub fn duration(view: &DashboardView, seconds: i64) -> String {
    let (minutes, seconds) = (seconds.div_euclid(60), seconds.rem_euclid(60));
    let parts = [("minutes", minutes.into()), ("seconds", seconds.into())];
    match minutes {
        0 => view.tn("calls-seconds", &parts[1..]),
        _ => view.tn("calls-minutes-seconds", &parts),
    }
}

/// A time within a call: `1:34`.
pub fn minutes_and_seconds(seconds: i64) -> String {
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

/// The heading of a call: `+62 812-3456-7890 · 19 s · Caller hung up`.
pub fn heading(view: &DashboardView, call: &call::Model, hand: Option<&ManualAct>) -> String {
    let caller = match call.is_erased() {
        true => view.t("calls-erased"),
        false => format::phone(call.caller_number.as_str()),
    };
    let talk = call.talk_time_seconds.filter(|talk| *talk > 0);
    let over = call.hangup_reason;
    let over = over.map(|reason| outcome(view, reason, call.hangup_initiator, hand));
    let state = over.unwrap_or_else(|| view.t(status_id(call.status)));
    let parts = [
        Some(caller),
        talk.map(|talk| duration(view, talk)),
        Some(state),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

/// A duration in milliseconds: `310 ms`.
pub fn milliseconds(view: &DashboardView, ms: i64) -> String {
    view.tn("calls-milliseconds", &[("ms", ms.into())])
}

pub const fn channel_id(channel: ChannelKind) -> &'static str {
    match channel {
        ChannelKind::Phone => "calls-channel-phone",
        ChannelKind::Whatsapp => "calls-channel-whatsapp",
        ChannelKind::Web => "calls-channel-web",
    }
}

/// The name of a voice's provider.
pub const fn provider_id(provider: VoiceProvider) -> &'static str {
    match provider {
        VoiceProvider::Gemini => "voice-provider-gemini",
        VoiceProvider::Openai => "voice-provider-openai",
        VoiceProvider::Pipeline => "voice-provider-pipeline",
        VoiceProvider::Scripted => "voice-provider-scripted",
    }
}

/// The caller's number, or a note that it was erased.
pub fn caller(view: &DashboardView, caller: &CallerNumber, is_erased: bool) -> Markup {
    html! {
        @if is_erased { span.muted { (view.t("calls-erased")) } }
        @else { span.number { (caller.as_str()) } }
    }
}
