//! Courses of simulated calls, as stories and at random.

use dikala_entities::{CallId, Millis};
use dikala_protocol::{CalleeNames, ErrorCode, InvocationOutcome, client::MessageRef};
use proptest::prelude::*;
use serde_json::{Map, json};

use super::*;

const SCRIPT: CallScript = CallScript {
    ring_ms: 100,
    talk_ms: 1_000,
    abandons: false,
    asks: false,
    agent_ends: false,
    choice: 0,
};

fn taken() -> Incident {
    let reply = json!({
        "id": "agent_1", "name": "Ayu", "systemPrompt": "", "voiceId": null, "greetingText": null, "language": "id",
        "maxCallDurationMinutes": 10, "escalationNumber": null, "tools": [], "functions": [{
            "name": "checkOrder", "description": "",
            "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}},
        }],
    });
    Incident::Reply(ServiceReply::Taken {
        call: CallId::new(Millis::from_i64(1)),
        called: dikala_protocol::CalledParty::Number("+622150001000".parse().expect("a number")),
        agent: serde_json::from_value(reply).expect("an agent"),
        callee: CalleeNames::default(),
    })
}

fn acknowledged(kind: MessageType) -> Incident {
    Incident::Reply(match kind {
        MessageType::Function => ServiceReply::Outcome {
            invocation_id: "i".to_owned(),
            outcome: InvocationOutcome::Ok { result: Map::new() },
        },
        kind => ServiceReply::Done(kind),
    })
}

fn declined(kind: MessageType, code: ErrorCode, status: Option<CallStatus>) -> Incident {
    let invocation_id = None;
    Incident::Reply(ServiceReply::Declined {
        message: MessageRef {
            kind,
            called: None,
            invocation_id,
        },
        code: code.as_str().to_owned(),
        words: String::new(),
        status,
    })
}

fn too_late(kind: MessageType) -> Incident {
    declined(kind, ErrorCode::InvalidTransition, Some(CallStatus::Ended))
}

fn hang_up(reason: HangupReason) -> Incident {
    Incident::Command(CommandKind::Hangup { reason })
}

fn transfer() -> Incident {
    let to = "+622150001000".parse().expect("a number");
    Incident::Command(CommandKind::Transfer { to })
}

/// Feeds inputs to a call and names the reaction to each.
fn life(script: CallScript, heard: Vec<Incident>) -> Vec<String> {
    let mut call = SimulatedCall::new(script, "i".to_owned());
    let name = |effect: Option<Reaction>| match effect {
        None => "-".to_owned(),
        Some(Reaction::Say(CallReport::Hangup {
            reason, initiator, ..
        })) => format!("hangup {reason} {initiator}"),
        Some(Reaction::Say(CallReport::Function(function))) => {
            format!("{} {}", function.name, json!(function.parameters))
        }
        Some(Reaction::Say(report)) => format!("{:?}", report.kind()),
        Some(Reaction::Turn {
            turn,
            wake_after_ms,
        }) => format!("{} {}, {wake_after_ms} ms", turn.n, turn.turn.role),
        Some(Reaction::WakeAfterMs(ms)) => format!("{ms} ms"),
        Some(Reaction::Over(outcome)) => format!("{outcome:?}"),
    };
    heard
        .into_iter()
        .map(|heard| name(call.on(heard, Millis::from_i64(1))))
        .collect()
}

#[test]
fn a_call_goes_by_its_script() {
    use Incident::Wake;
    let whole = vec![
        taken(),
        Wake,
        acknowledged(MessageType::Answered),
        Wake,
        Wake,
        acknowledged(MessageType::Turn),
        Wake,
        Wake,
        Wake,
        acknowledged(MessageType::Transcript),
        acknowledged(MessageType::Hangup),
    ];
    let seen = life(SCRIPT, whole.clone());
    assert_eq!(
        seen,
        [
            "100 ms",
            "Answered",
            "200 ms",
            "1 agent, 200 ms",
            "2 caller, 200 ms",
            "-",
            "3 agent, 200 ms",
            "4 caller, 200 ms",
            "Transcript",
            "hangup normal caller",
            "HungUp"
        ]
    );

    let mut asking = whole;
    asking.splice(5..5, [Wake, Wake, acknowledged(MessageType::Function)]);
    let script = CallScript {
        asks: true,
        agent_ends: true,
        ..SCRIPT
    };
    let seen = life(script, asking);
    assert_eq!(
        seen,
        [
            "100 ms",
            "Answered",
            "200 ms",
            "1 agent, 200 ms",
            "2 caller, 200 ms",
            "3 tool, 0 ms",
            "checkOrder {\"n\":1}",
            "200 ms",
            "-",
            "4 agent, 200 ms",
            "5 caller, 200 ms",
            "Transcript",
            "hangup normal agent",
            "HungUp"
        ]
    );

    let script = CallScript {
        abandons: true,
        ..SCRIPT
    };
    let seen = life(
        script,
        vec![taken(), Wake, acknowledged(MessageType::Hangup)],
    );
    assert_eq!(seen, ["100 ms", "hangup abandoned caller", "Abandoned"]);
}

#[test]
fn the_engine_can_refuse_end_and_transfer() {
    use Incident::Wake;
    let refused = life(
        SCRIPT,
        vec![Incident::Reply(ServiceReply::Refused {
            reason: HangupReason::NoAgent,
        })],
    );
    assert_eq!(refused, ["Refused(NoAgent)"]);
    let cut = vec![
        taken(),
        Wake,
        acknowledged(MessageType::Answered),
        hang_up(HangupReason::MaxDuration),
        hang_up(HangupReason::MaxDuration),
        Wake,
        acknowledged(MessageType::Hangup),
    ];
    assert_eq!(
        life(SCRIPT, cut)[3..],
        ["hangup max_duration bridge", "-", "-", "HungUp"]
    );
    let moved = vec![
        taken(),
        Wake,
        acknowledged(MessageType::Answered),
        transfer(),
    ];
    assert_eq!(life(SCRIPT, moved)[3], "hangup transferred agent");
    let late = vec![
        taken(),
        Wake,
        too_late(MessageType::Transcript),
        too_late(MessageType::Answered),
    ];
    assert_eq!(life(SCRIPT, late)[2..], ["-", "EndedByEngine"]);
    let error = declined(MessageType::Incoming, ErrorCode::UnknownNumber, None);
    assert_eq!(life(SCRIPT, vec![error]), ["Failed(\"unknown_number\")"]);
}

#[test]
fn a_stop_hangs_up_as_soon_as_the_call_has_an_id() {
    let seen = life(
        SCRIPT,
        vec![Incident::Stop, taken(), acknowledged(MessageType::Hangup)],
    );
    assert_eq!(seen, ["-", "hangup normal bridge", "HungUp"]);
}

fn anything() -> impl Strategy<Value = Incident> {
    let kind = prop::sample::select(MessageType::ALL.to_vec());
    prop_oneof![
        Just(taken()),
        kind.clone().prop_map(acknowledged),
        kind.prop_map(too_late),
        Just(Incident::Wake),
        Just(hang_up(HangupReason::CreditsExhausted)),
        Just(transfer()),
        Just(Incident::Stop),
    ]
}

proptest! {
    #[test]
    fn whatever_it_hears_it_hangs_up_once_and_says_nothing_after(heard in prop::collection::vec(anything(), 0..40), asks: bool, abandons: bool) {
        let mut call = SimulatedCall::new(CallScript { asks, abandons, ..SCRIPT }, "i".to_owned());
        let mut hung_up = false;
        for heard in heard {
            let effect = call.on(heard, Millis::from_i64(1));
            let goes_on = !matches!(effect, None | Some(Reaction::Over(_)));
            prop_assert!(!hung_up || !goes_on);
            hung_up |= matches!(effect, Some(Reaction::Say(CallReport::Hangup { .. })));
            if matches!(effect, Some(Reaction::Over(_))) {
                break;
            }
        }
    }
}
