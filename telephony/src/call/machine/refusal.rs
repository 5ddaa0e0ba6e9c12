//! The service's refusals as SIP statuses.

use dikala_entities::HangupReason;
use dikala_sip::leg::CallRefusal;

/// Retry-After of a temporary failure.
const RETRY_AFTER_SECONDS: u32 = 5;

/// The service knows the number and refuses the call.
pub(super) fn refused(reason: HangupReason) -> CallRefusal {
    let (status, words) = match reason {
        HangupReason::NoAgent => (480, "No agent answers this number."),
        HangupReason::AgentInactive => (480, "The agent of this number is switched off."),
        HangupReason::NumberInactive => (480, "This number is switched off."),
        HangupReason::InsufficientCredits => (402, "The credit of this number is used up."),
        HangupReason::ConcurrencyLimit => (486, "All lines of this number are busy."),
        HangupReason::TenantSuspended => (403, "This number is suspended."),
        _ => (480, "The call cannot be taken now."),
    };
    CallRefusal {
        status,
        words: words.to_owned(),
        retry_after_seconds: None,
    }
}

/// The service declined `call.incoming` itself.
pub(super) fn declined(code: &str) -> CallRefusal {
    let (status, words) = match code {
        "unknown_number" => (404, "Nobody has this number."),
        "repeated" => (482, "This call has been here before."),
        _ => (500, "The call cannot be handled."),
    };
    CallRefusal {
        status,
        words: words.to_owned(),
        retry_after_seconds: None,
    }
}

/// The service made no decision.
pub(crate) fn unavailable(words: &str) -> CallRefusal {
    CallRefusal {
        status: 503,
        words: words.to_owned(),
        retry_after_seconds: Some(RETRY_AFTER_SECONDS),
    }
}
