//! Tests of each message type, valid and invalid.

use proptest::prelude::*;
use serde_json::json;

use super::*;

const CALL: &str = "call_01k9zv3m8rj2q4w6y8a0c2e4g6";

/// Code and words of an invalid message.
fn fault(message: &Value) -> String {
    match parse(message) {
        Ok(message) => panic!("was taken: {message:?}"),
        Err(error) => format!("{}: {}", error.code.as_str(), error.message),
    }
}

/// A message of this type about a call, with more fields.
fn about(kind: &str, fields: Value) -> Value {
    let mut message = json!({"id": "1", "type": kind, "callId": CALL});
    let fields = fields.as_object().cloned().unwrap_or_default();
    message.as_object_mut().expect("an object").extend(fields);
    message
}

fn incoming_at(did: &str, bridge_call_id: &str) -> Value {
    let fields = json!({"bridgeCallId": bridge_call_id, "did": did, "callerNumber": "x"});
    about("call.incoming", fields)
}

fn over(channel: &str) -> Value {
    let fields = json!({"bridgeCallId": "b", "did": "+622150001000", "callerNumber": "x", "channel": channel});
    about("call.incoming", fields)
}

fn transcript_with(turn: Value) -> Value {
    about("call.transcript", json!({"summary": "s", "turns": [turn]}))
}

#[test]
fn each_fault_is_named() {
    let at = "1969-12-31T23:59:59Z";
    let hangup = |fields| about("call.hangup", fields);
    let listed = |calls: Value| about("heartbeat", json!({"activeCalls": calls}));
    let crowd = vec![CALL; ACTIVE_CALLS_MAX + 1];
    for (message, word) in [
        (json!([]), "object"),
        (json!({"type": "heartbeat"}), "id"),
        (json!({"id": "", "type": "heartbeat"}), "id"),
        (json!({"id": "1"}), "type"),
        (json!({"id": "1", "type": "call.answered"}), "callId"),
        (about("call.answered", json!({"at": "soon"})), "at"),
        (about("call.answered", json!({"at": at})), "at is too old"),
        (hangup(json!({"reason": "bored"})), "credits_exhausted"),
        (hangup(json!({"reason": "no_agent"})), "normal"),
        (hangup(json!({"aiCostIdr": -1})), "aiCostIdr"),
        (hangup(json!({"aiCostIdr": 1.5})), "aiCostIdr"),
        (hangup(json!({"initiator": "tenant"})), "initiator"),
        (
            about("call.function", json!({"invocationId": "i", "name": "f"})),
            "parameters",
        ),
        (
            transcript_with(json!({"role": "dog", "text": "w"})),
            "turns[0]",
        ),
        (
            transcript_with(json!({"role": "agent", "text": "w", "at": at})),
            "turns[0] has an at that is too old",
        ),
        (incoming_at("+0812345678", "b"), "did"),
        (incoming_at("0812", "b"), "did"),
        (incoming_at("+6281234567890", "b\u{0}"), "U+0000"),
        (over("fax"), "channel must be one of phone, whatsapp, web"),
        (over("web"), "agentId in place of a did"),
        (about("call.transferred", json!({})), "to"),
        (about("call.transferred", json!({"to": "0811"})), "to "),
        (
            about(
                "call.transferred",
                json!({"to": "+62811111111", "aiCostIdr": -1}),
            ),
            "aiCostIdr",
        ),
        (listed(json!([7])), "activeCalls"),
        (listed(json!([CALL, "sip-4711"])), "call_"),
        (listed(json!(crowd)), "20,000"),
    ] {
        let fault = fault(&message);
        assert!(fault.starts_with("invalid_message: "), "{message}: {fault}");
        assert!(fault.contains(word), "{message}: {fault}");
    }
    let paused = fault(&about("call.paused", json!({})));
    assert!(
        paused.starts_with("unknown_type: \"call.paused\""),
        "{paused}"
    );
    let unknown = fault(&about("call.answered", json!({"callId": "nonsense"})));
    assert!(unknown.starts_with("unknown_call: ") && unknown.contains("callId"));
}

#[test]
fn defaults_are_those_of_the_protocol() {
    let report = |kind: &str| match parse(&about(kind, json!({}))).map(|read| read.content) {
        Ok(MessageContent::Call(CallMessage {
            at: None, report, ..
        })) => report,
        other => panic!("{other:?}"),
    };
    let expected = CallReport::Hangup {
        reason: HangupReason::Normal,
        initiator: HangupInitiator::Caller,
        ai_cost_idr: None,
        voice: VoiceReport::default(),
    };
    assert_eq!(report("call.hangup"), expected);
    let expected = CallReport::Failed {
        reason: HangupReason::BridgeError,
        detail: None,
        ai_cost_idr: None,
        voice: VoiceReport::default(),
    };
    assert_eq!(report("call.failed"), expected);
}

fn messages() -> Vec<MessageContent> {
    let at = Some(Millis::from_i64(1_800_000_000_123));
    let object = |value: Value| value.as_object().cloned().unwrap_or_default();
    let trace = dikala_entities::TraceParent::parse(
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    );
    let incoming = IncomingCall {
        bridge_call_id: "b-1".to_owned(),
        called: CalledParty::Number("+622150001000".parse().expect("a number")),
        caller_number: "anonymous".parse().expect("a caller"),
        channel: Some(ChannelKind::Whatsapp),
        draft: None,
        metadata: Some(object(json!({"trunk": "jkt"}))),
        at,
        trace: trace.clone(),
    };
    let function = FunctionInvocation {
        invocation_id: "i".to_owned(),
        name: "check".to_owned(),
        parameters: object(json!({"n": 1})),
        trace,
    };
    let turn = |role, at| SpokenTurn::new(role, "words".to_owned(), at);
    let cut_off = SpokenTurn {
        latency_ms: Some(640),
        interrupted: true,
        ..turn(Speaker::Agent, at)
    };
    let voice = VoiceReport {
        voice_provider: Some(VoiceProvider::Openai),
        stalls: Some(2),
        interruptions: Some(0),
    };
    let hangup = |ai_cost_idr, voice| CallReport::Hangup {
        reason: HangupReason::Transferred,
        initiator: HangupInitiator::Agent,
        ai_cost_idr,
        voice,
    };
    let transferred = |ai_cost_idr| CallReport::Transferred {
        to: "+62811111111".parse().expect("a number"),
        ai_cost_idr,
    };
    let reports = [
        CallReport::Answered,
        transferred(None),
        transferred(Some(450)),
        CallReport::Function(function),
        CallReport::Transcript {
            summary: "They talked.".to_owned(),
            turns: vec![
                turn(Speaker::Agent, at),
                turn(Speaker::Caller, None),
                cut_off,
            ],
        },
        hangup(None, VoiceReport::default()),
        hangup(Some(450), voice),
        CallReport::failed(HangupReason::AiError, "a\0 fault"),
        CallReport::Failed {
            reason: HangupReason::MediaLost,
            detail: None,
            ai_cost_idr: Some(450),
            voice,
        },
    ];
    let call = CALL.parse().expect("an id");
    let about = |report| MessageContent::Call(CallMessage { call, at, report });
    let active = Some(vec![call]);
    let mut all: Vec<MessageContent> = reports.into_iter().map(about).collect();
    all.push(MessageContent::Incoming(incoming));
    all.push(MessageContent::Heartbeat(Heartbeat { active, at }));
    all.push(MessageContent::Heartbeat(Heartbeat {
        active: None,
        at: None,
    }));
    all
}

#[test]
fn every_message_is_read_as_it_was_written() {
    for content in messages() {
        let message = BridgeMessage {
            id: "m-1".to_owned(),
            content,
        };
        let text = message.to_text();
        let value: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(value["type"], message.content.kind().as_str(), "{text}");
        assert_eq!(parse(&value), Ok(message), "{text}");
    }
}

proptest! {
    #[test]
    fn no_bytes_bring_it_down(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(value) = serde_json::from_slice(&bytes) {
            let _ = parse(&value);
        }
    }

    #[test]
    fn no_fields_bring_it_down(kind in 0..MessageType::ALL.len(), name in "[a-zA-Z]{1,12}", text in ".{0,20}", number in any::<i64>()) {
        for value in [json!(text), json!(number), json!([text]), json!({"a": number}), json!(null)] {
            let kind = MessageType::ALL[kind].as_str();
            let _ = parse(&json!({"id": "1", "type": kind, "callId": CALL, &name: value}));
        }
    }
}
