//! The ends of calls: the final status that each reason leads to.

use dikala_entities::{CallStatus, HangupInitiator, HangupReason, Millis};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallEnding {
    pub status: CallStatus,
    pub reason: HangupReason,
    pub initiator: HangupInitiator,
    pub at: Millis,
    /// Whole seconds from start to end.
    pub duration_seconds: i64,
    /// Whole seconds from answer to end; 0 if the call was not answered.
    pub talk_seconds: i64,
}

/// The final status and reason for a reason of [`dikala_protocol::message::HANGUP_REASONS`].
pub fn bridge_hangup(
    answered: bool,
    reason: HangupReason,
    initiator: HangupInitiator,
) -> (CallStatus, HangupReason) {
    if !answered {
        return match initiator {
            HangupInitiator::Caller => (CallStatus::Dropped, HangupReason::Abandoned),
            _ => (CallStatus::Failed, HangupReason::Rejected),
        };
    }
    match reason {
        // An answered call cannot be abandoned: the caller hung up.
        HangupReason::Abandoned | HangupReason::AnswerTimeout => {
            (CallStatus::Ended, HangupReason::Normal)
        }
        HangupReason::MediaLost
        | HangupReason::AiError
        | HangupReason::BridgeError
        | HangupReason::BridgeLost => (CallStatus::Dropped, reason),
        // An answered call cannot be rejected: the bridge broke it off.
        HangupReason::Rejected => (CallStatus::Dropped, HangupReason::BridgeError),
        reason => (CallStatus::Ended, reason),
    }
}

/// The final status and reason for a reason of [`dikala_protocol::message::FAILURE_REASONS`].
pub fn bridge_failure(answered: bool, reason: HangupReason) -> (CallStatus, HangupReason) {
    match (answered, reason) {
        (_, HangupReason::MediaLost) => (CallStatus::Dropped, reason),
        (true, HangupReason::Rejected) => (CallStatus::Dropped, HangupReason::BridgeError),
        (true, _) => (CallStatus::Dropped, reason),
        (false, _) => (CallStatus::Failed, reason),
    }
}

#[cfg(test)]
mod tests {
    use CallStatus::{Dropped, Ended, Failed};
    use HangupInitiator::{Agent, Bridge, Caller, Tenant};
    use HangupReason::*;

    use super::*;

    #[test]
    fn a_hang_up_while_ringing_depends_on_who_hung_up() {
        for (reason, initiator, expected) in [
            (Normal, Caller, (Dropped, Abandoned)),
            (Normal, Bridge, (Failed, Rejected)),
            (Normal, Agent, (Failed, Rejected)),
            (Requested, Tenant, (Failed, Rejected)),
        ] {
            assert_eq!(bridge_hangup(false, reason, initiator), expected);
        }
    }

    #[test]
    fn a_hang_up_after_the_answer_depends_on_the_reason() {
        for (reason, expected) in [
            (Normal, (Ended, Normal)),
            (Transferred, (Ended, Transferred)),
            (MaxDuration, (Ended, MaxDuration)),
            (CreditsExhausted, (Ended, CreditsExhausted)),
            (Requested, (Ended, Requested)),
            (Operator, (Ended, Operator)),
            (Silence, (Ended, Silence)),
            (Abandoned, (Ended, Normal)),
            (MediaLost, (Dropped, MediaLost)),
            (AiError, (Dropped, AiError)),
            (BridgeError, (Dropped, BridgeError)),
            (Rejected, (Dropped, BridgeError)),
            (AnswerTimeout, (Ended, Normal)),
            (BridgeLost, (Dropped, BridgeLost)),
        ] {
            assert_eq!(bridge_hangup(true, reason, Caller), expected);
        }
    }

    #[test]
    fn a_failure_depends_on_whether_anybody_answered() {
        for (answered, reason, expected) in [
            (false, BridgeError, (Failed, BridgeError)),
            (true, BridgeError, (Dropped, BridgeError)),
            (false, AiError, (Failed, AiError)),
            (true, AiError, (Dropped, AiError)),
            (false, Rejected, (Failed, Rejected)),
            (true, Rejected, (Dropped, BridgeError)),
            (false, MediaLost, (Dropped, MediaLost)),
            (true, MediaLost, (Dropped, MediaLost)),
        ] {
            assert_eq!(bridge_failure(answered, reason), expected);
        }
    }
}
