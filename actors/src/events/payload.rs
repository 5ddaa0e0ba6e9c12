//! The data of events: one shape for each kind, as in the API's table of events, and a sample of each. Calls, ledger,
//! test deliveries and the API's description use them.

use std::sync::LazyLock;

use dikala_entities::{
    AgentId, CallId, EventKind, HangupInitiator, HangupReason, Millis, PhoneNumberId, Speaker,
    VoiceProvider,
};
use dikala_protocol::{NumberedTurn, SpokenTurn};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// The `data` of an event.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
pub enum Payload<'a> {
    CallStarted {
        call_id: CallId,
        phone_number_id: Option<PhoneNumberId>,
        caller_number: &'a str,
        did: &'a str,
    },
    CallAnswered {
        call_id: CallId,
        agent_id: Option<AgentId>,
        started_at: Millis,
    },
    CallEnded {
        call_id: CallId,
        phone_number_id: Option<PhoneNumberId>,
        caller_number: &'a str,
        callee_number: &'a str,
        duration_seconds: i64,
        talk_time_seconds: i64,
        hangup_reason: HangupReason,
        hangup_initiator: HangupInitiator,
        transcript_summary: Option<&'a str>,
        ai_cost_idr: i64,
        voice_provider: Option<VoiceProvider>,
    },
    CallTurn {
        call_id: CallId,
        turn: NumberedTurn,
    },
    CallTranscript {
        call_id: CallId,
        transcript_summary: &'a str,
    },
    CreditsLow {
        balance_minutes: i64,
        threshold: i64,
    },
    FunctionCalled {
        call_id: CallId,
        function_name: &'a str,
        parameters: &'a Map<String, Value>,
        result: &'a Value,
    },
}

impl Payload<'_> {
    pub const fn kind(&self) -> EventKind {
        match self {
            Self::CallStarted { .. } => EventKind::CallStarted,
            Self::CallAnswered { .. } => EventKind::CallAnswered,
            Self::CallEnded { .. } => EventKind::CallEnded,
            Self::CallTurn { .. } => EventKind::CallTurn,
            Self::CallTranscript { .. } => EventKind::CallTranscript,
            Self::CreditsLow { .. } => EventKind::CreditsLow,
            Self::FunctionCalled { .. } => EventKind::FunctionCalled,
        }
    }
}

const CALLER: &str = "+6281234567890";
const CALLEE: &str = "+622150001234";
const SUMMARY: &str =
    "The caller asked for the opening hours on Saturday. The agent gave them: 9 to 17.";
static ARGUMENTS: LazyLock<Map<String, Value>> =
    LazyLock::new(|| Map::from_iter([("orderNumber".to_owned(), "A-1042".into())]));
static RESULT: LazyLock<Value> =
    LazyLock::new(|| json!({"status": "shipped", "arrives": "2026-01-17"}));

/// An invented call of two minutes.
#[derive(Clone, Copy, Debug)]
pub struct SampleCall {
    pub id: CallId,
    pub phone_number: PhoneNumberId,
    pub agent: AgentId,
    pub started_at: Millis,
}

impl SampleCall {
    /// A sample call that came in now.
    pub fn new(now: Millis) -> Self {
        Self {
            id: CallId::new(now),
            phone_number: PhoneNumberId::new(now),
            agent: AgentId::new(now),
            started_at: now,
        }
    }

    /// The data of this call's event of the given kind.
    pub fn payload(&self, kind: EventKind) -> Payload<'static> {
        match kind {
            EventKind::CallStarted => Payload::CallStarted {
                call_id: self.id,
                phone_number_id: Some(self.phone_number),
                caller_number: CALLER,
                did: CALLEE,
            },
            EventKind::CallAnswered => Payload::CallAnswered {
                call_id: self.id,
                agent_id: Some(self.agent),
                started_at: self.started_at,
            },
            EventKind::CallEnded => Payload::CallEnded {
                call_id: self.id,
                phone_number_id: Some(self.phone_number),
                caller_number: CALLER,
                callee_number: CALLEE,
                duration_seconds: 127,
                talk_time_seconds: 119,
                hangup_reason: HangupReason::Normal,
                hangup_initiator: HangupInitiator::Caller,
                transcript_summary: Some(SUMMARY),
                ai_cost_idr: 2_400,
                voice_provider: Some(VoiceProvider::Gemini),
            },
            EventKind::CallTurn => Payload::CallTurn {
                call_id: self.id,
                turn: NumberedTurn {
                    n: 2,
                    turn: SpokenTurn {
                        latency_ms: Some(640),
                        ..SpokenTurn::new(
                            Speaker::Agent,
                            "We are open from 9 to 17.".to_owned(),
                            Some(self.started_at),
                        )
                    },
                },
            },
            EventKind::CallTranscript => Payload::CallTranscript {
                call_id: self.id,
                transcript_summary: SUMMARY,
            },
            EventKind::CreditsLow => Payload::CreditsLow {
                balance_minutes: 29,
                threshold: 30,
            },
            EventKind::FunctionCalled => Payload::FunctionCalled {
                call_id: self.id,
                function_name: "find_order",
                parameters: &ARGUMENTS,
                result: &RESULT,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_exactly_the_fields_of_its_kind() {
        let call = SampleCall::new(Millis::from_i64(1_768_447_800_000));
        for (kind, fields) in [
            (
                EventKind::CallStarted,
                "callId callerNumber did phoneNumberId",
            ),
            (EventKind::CallAnswered, "agentId callId startedAt"),
            (
                EventKind::CallEnded,
                "aiCostIdr callId calleeNumber callerNumber durationSeconds hangupInitiator \
                 hangupReason phoneNumberId talkTimeSeconds transcriptSummary voiceProvider",
            ),
            (EventKind::CallTurn, "callId turn"),
            (EventKind::CallTranscript, "callId transcriptSummary"),
            (EventKind::CreditsLow, "balanceMinutes threshold"),
            (
                EventKind::FunctionCalled,
                "callId functionName parameters result",
            ),
        ] {
            let payload = call.payload(kind);
            assert_eq!(payload.kind(), kind);
            let data = serde_json::to_value(payload).expect("JSON");
            let data = data.as_object().expect("an object");
            let mut names: Vec<&str> = data.keys().map(String::as_str).collect();
            names.sort_unstable();
            assert_eq!(names.join(" "), fields, "{kind}");
        }
    }
}
