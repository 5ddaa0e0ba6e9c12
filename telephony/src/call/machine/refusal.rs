//! Refusals of the engine in the phone's own terms.

use dikala_entities::HangupReason;

use crate::leg::Refusal;

/// When a caller may try again what failed for the moment.
const RETRY_AFTER_SECONDS: u32 = 5;

/// The engine took the number and refuses the call.
pub(super) fn refused(reason: HangupReason) -> Refusal {
    let (status, words) = match reason {
        HangupReason::NoAgent => (480, "No agent answers this number."),
        HangupReason::AgentInactive => (480, "The agent of this number is switched off."),
        HangupReason::NumberInactive => (480, "This number is switched off."),
        HangupReason::InsufficientCredits => (402, "The credit of this number is used up."),
        HangupReason::ConcurrencyLimit => (486, "All lines of this number are busy."),
        HangupReason::TenantSuspended => (403, "This number is suspended."),
        _ => (480, "The call cannot be taken now."),
    };
    Refusal {
        status,
        words: words.to_owned(),
        retry_after_seconds: None,
    }
}

/// The engine does not take `call.incoming` at all.
pub(super) fn declined(code: &str) -> Refusal {
    let (status, words) = match code {
        "unknown_number" => (404, "Nobody has this number."),
        "repeated" => (482, "This call has been here before."),
        _ => (500, "The call cannot be handled."),
    };
    Refusal {
        status,
        words: words.to_owned(),
        retry_after_seconds: None,
    }
}

/// Nobody decides about the call.
pub(crate) fn unavailable(words: &str) -> Refusal {
    Refusal {
        status: 503,
        words: words.to_owned(),
        retry_after_seconds: Some(RETRY_AFTER_SECONDS),
    }
}
