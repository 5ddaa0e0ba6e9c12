//! Names of reasons that the pages of both audiences show.

use dikala_entities::HangupReason;

use super::view::View;

/// The message id of a reason, as a sentence.
pub const fn reason_id(reason: HangupReason) -> &'static str {
    match reason {
        HangupReason::Normal => "calls-reason-normal",
        HangupReason::Transferred => "calls-reason-transferred",
        HangupReason::MaxDuration => "calls-reason-max-duration",
        HangupReason::CreditsExhausted => "calls-reason-credits-exhausted",
        HangupReason::Requested => "calls-reason-requested",
        HangupReason::Operator => "calls-reason-operator",
        HangupReason::Silence => "calls-reason-silence",
        HangupReason::Abandoned => "calls-reason-abandoned",
        HangupReason::MediaLost => "calls-reason-media-lost",
        HangupReason::AiError => "calls-reason-ai-error",
        HangupReason::BridgeLost => "calls-reason-bridge-lost",
        HangupReason::AnswerTimeout => "calls-reason-answer-timeout",
        HangupReason::BridgeError => "calls-reason-bridge-error",
        HangupReason::Rejected => "calls-reason-rejected",
        HangupReason::NoAgent => "calls-reason-no-agent",
        HangupReason::AgentInactive => "calls-reason-agent-inactive",
        HangupReason::NumberInactive => "calls-reason-number-inactive",
        HangupReason::InsufficientCredits => "calls-reason-insufficient-credits",
        HangupReason::ConcurrencyLimit => "calls-reason-concurrency-limit",
        HangupReason::TenantSuspended => "calls-reason-tenant-suspended",
    }
}

/// The reason for a missing or incomplete answer. Unknown reasons keep the API's name.
pub fn attempt_error(view: &View, kind: &str) -> String {
    let id = match kind {
        "dns" => "deliveries-error-dns",
        "blocked_target" => "deliveries-error-blocked",
        "connect" => "deliveries-error-connect",
        "tls" => "deliveries-error-tls",
        "timeout" => "deliveries-error-timeout",
        "reset" => "deliveries-error-reset",
        "invalid_response" => "deliveries-error-invalid",
        "busy" => "deliveries-error-busy",
        other => return other.to_owned(),
    };
    view.t(id)
}
