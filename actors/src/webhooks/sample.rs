//! Samples for tests: the payloads of real events, with made-up calls. Pure.

use dikala_entities::{CallId, EventKind, Millis, PhoneNumberId, TenantId};
use serde_json::{Value, json};

use crate::events::outbox::NewEvent;

const CALLER: &str = "+6281234567890";
const CALLEE: &str = "+622150001234";
const SUMMARY: &str =
    "The caller asked for the opening hours on Saturday. The agent gave them: 9 to 17.";

/// An event of a kind that tells of nothing that happened.
pub fn sample(kind: EventKind, tenant: TenantId, now: Millis) -> NewEvent {
    NewEvent {
        is_test: true,
        trace: None,
        ..NewEvent::new(kind, tenant, None, now, now, &data(kind, now))
    }
}

/// The `data` of an event of a kind, as a call of two minutes would have announced it.
fn data(kind: EventKind, now: Millis) -> Value {
    let call = CallId::new(now);
    match kind {
        EventKind::CallStarted => json!({
            "callId": call,
            "phoneNumberId": PhoneNumberId::new(now),
            "callerNumber": CALLER,
            "did": CALLEE,
        }),
        EventKind::CallAnswered => json!({
            "callId": call,
            "agentId": dikala_entities::AgentId::new(now),
            "startedAt": now,
        }),
        EventKind::CallEnded => json!({
            "callId": call,
            "phoneNumberId": PhoneNumberId::new(now),
            "callerNumber": CALLER,
            "calleeNumber": CALLEE,
            "durationSeconds": 127,
            "talkTimeSeconds": 119,
            "hangupReason": "normal",
            "hangupInitiator": "caller",
            "transcriptSummary": SUMMARY,
            "aiCostIdr": 2400,
        }),
        EventKind::CallTranscript => json!({
            "callId": call,
            "transcriptSummary": SUMMARY,
        }),
        EventKind::CreditsLow => json!({
            "balanceMinutes": 29,
            "threshold": 30,
        }),
        EventKind::FunctionCalled => json!({
            "callId": call,
            "functionName": "find_order",
            "parameters": { "orderNumber": "A-1042" },
            "result": { "status": "shipped", "arrives": "2026-01-17" },
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_exactly_the_fields_of_its_kind() {
        for (kind, fields) in [
            (
                EventKind::CallStarted,
                "callId callerNumber did phoneNumberId",
            ),
            (EventKind::CallAnswered, "agentId callId startedAt"),
            (
                EventKind::CallEnded,
                "aiCostIdr callId calleeNumber callerNumber durationSeconds hangupInitiator \
                 hangupReason phoneNumberId talkTimeSeconds transcriptSummary",
            ),
            (EventKind::CallTranscript, "callId transcriptSummary"),
            (EventKind::CreditsLow, "balanceMinutes threshold"),
            (
                EventKind::FunctionCalled,
                "callId functionName parameters result",
            ),
        ] {
            let data = data(kind, Millis::from_i64(1_768_447_800_000));
            let mut names: Vec<&str> = data
                .as_object()
                .expect("an object")
                .keys()
                .map(String::as_str)
                .collect();
            names.sort_unstable();
            assert_eq!(names.join(" "), fields, "{kind}");
        }
    }
}
