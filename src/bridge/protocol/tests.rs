//! Tests of each message type, valid and invalid.

use dikala_actors::calls::{CallError, CallInput};
use dikala_entities::{HangupInitiator, HangupReason};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    parse::{ACTIVE_CALLS_MAX, TYPES},
    *,
};

fn code(message: Value) -> (&'static str, String) {
    match parse(&message) {
        Ok(request) => panic!("was taken: {request:?}"),
        Err(refusal) => (refusal.code, refusal.message),
    }
}

const CALL: &str = "call_01k9zv3m8rj2q4w6y8a0c2e4g6";

#[test]
fn each_fault_is_named() {
    for (message, expected, word) in [
        (json!([]), "invalid_message", "object"),
        (json!({"type": "heartbeat"}), "invalid_message", "id"),
        (
            json!({"id": "", "type": "heartbeat"}),
            "invalid_message",
            "id",
        ),
        (json!({"id": "1"}), "invalid_message", "type"),
        (
            json!({"id": "1", "type": "call.paused"}),
            "unknown_type",
            "call.paused",
        ),
        (
            json!({"id": "1", "type": "call.answered"}),
            "invalid_message",
            "callId",
        ),
        (
            json!({"id": "1", "type": "call.answered", "callId": "nonsense"}),
            "unknown_call",
            "callId",
        ),
        (
            json!({"id": "1", "type": "call.answered", "callId": CALL, "at": "soon"}),
            "invalid_message",
            "at",
        ),
        (
            json!({"id": "1", "type": "call.answered", "callId": CALL, "at": "1969-12-31T23:59:59Z"}),
            "invalid_message",
            "at is too old",
        ),
        (
            json!({"id": "1", "type": "call.transcript", "callId": CALL, "summary": "s", "turns": [{"role": "agent", "text": "w", "at": "1950-01-01T00:00:00Z"}]}),
            "invalid_message",
            "turns[0] has an at that is too old",
        ),
        (
            json!({"id": "1", "type": "call.incoming", "bridgeCallId": "b", "did": "+0812345678", "callerNumber": "x"}),
            "invalid_message",
            "did",
        ),
        (
            json!({"id": "1", "type": "call.hangup", "callId": CALL, "reason": "bored"}),
            "invalid_message",
            "credits_exhausted",
        ),
        (
            json!({"id": "1", "type": "call.hangup", "callId": CALL, "reason": "no_agent"}),
            "invalid_message",
            "normal",
        ),
        (
            json!({"id": "1", "type": "call.hangup", "callId": CALL, "aiCostIdr": -1}),
            "invalid_message",
            "aiCostIdr",
        ),
        (
            json!({"id": "1", "type": "call.hangup", "callId": CALL, "aiCostIdr": 1.5}),
            "invalid_message",
            "aiCostIdr",
        ),
        (
            json!({"id": "1", "type": "call.hangup", "callId": CALL, "initiator": "tenant"}),
            "invalid_message",
            "initiator",
        ),
        (
            json!({"id": "1", "type": "call.function", "callId": CALL, "invocationId": "i", "name": "f"}),
            "invalid_message",
            "parameters",
        ),
        (
            json!({"id": "1", "type": "call.transcript", "callId": CALL, "summary": "s", "turns": [{"role": "dog", "text": "w"}]}),
            "invalid_message",
            "turns[0]",
        ),
        (
            json!({"id": "1", "type": "call.incoming", "bridgeCallId": "b", "did": "0812", "callerNumber": "x"}),
            "invalid_message",
            "did",
        ),
        (
            json!({"id": "1", "type": "call.incoming", "bridgeCallId": "b\u{0}", "did": "+6281234567890", "callerNumber": "x"}),
            "invalid_message",
            "U+0000",
        ),
        (
            json!({"id": "1", "type": "heartbeat", "activeCalls": [7]}),
            "invalid_message",
            "activeCalls",
        ),
        (
            json!({"id": "1", "type": "heartbeat", "activeCalls": [CALL, "sip-4711"]}),
            "invalid_message",
            "call_",
        ),
        (
            json!({"id": "1", "type": "heartbeat", "activeCalls": vec![CALL; ACTIVE_CALLS_MAX + 1]}),
            "invalid_message",
            "20,000",
        ),
    ] {
        let (code, text) = code(message.clone());
        assert_eq!(code, expected, "{message}");
        assert!(text.contains(word), "{message}: {text}");
    }
}

#[test]
fn a_refusal_carries_the_id_and_the_status() {
    let status = dikala_entities::CallStatus::Ended;
    let refusal = MessageRefusal::from(("7".to_owned(), CallError::InvalidTransition { status }));
    let json = refusal.to_json();
    assert_eq!(json["replyTo"], "7");
    assert_eq!(json["error"]["status"], "ended");
    assert_eq!(json["ok"], false);
}

#[test]
fn defaults_are_those_of_the_protocol() {
    let hangup = parse(&json!({"id": "1", "type": "call.hangup", "callId": CALL})).expect("parses");
    assert!(matches!(
        hangup.body,
        MessageContent::Call {
            input: CallInput::HangUp {
                reason: HangupReason::Normal,
                initiator: HangupInitiator::Caller,
                ai_cost_idr: None,
                at: None
            },
            ..
        }
    ));
    let failed = parse(&json!({"id": "1", "type": "call.failed", "callId": CALL})).expect("parses");
    assert!(matches!(
        failed.body,
        MessageContent::Call {
            input: CallInput::Failed {
                reason: HangupReason::BridgeError,
                ..
            },
            ..
        }
    ));
}

proptest! {
    #[test]
    fn no_bytes_bring_it_down(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse_text(&bytes);
    }

    #[test]
    fn no_fields_bring_it_down(kind in 0..TYPES.len(), name in "[a-zA-Z]{1,12}", text in ".{0,20}", number in any::<i64>()) {
        for value in [json!(text), json!(number), json!([text]), json!({"a": number}), json!(null)] {
            let message = json!({"id": "1", "type": TYPES[kind], "callId": CALL, &name: value});
            if let Err(refusal) = parse(&message) {
                prop_assert_eq!(refusal.id.as_deref(), message["id"].as_str());
            }
        }
    }
}
