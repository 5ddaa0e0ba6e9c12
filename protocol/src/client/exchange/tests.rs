//! Messages are sent and resent as needed, and each reply reaches its call.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::client::posted::MESSAGES_OF_A_CALL_MAX;
use crate::{
    MESSAGE_BYTES_MAX,
    command::CommandKind,
    message::{FunctionInvocation, VoiceReport},
    reply::InvocationOutcome,
};

const AT: Option<Millis> = Some(Millis::MIN);
const NOW: Duration = Duration::ZERO;
const CALL: &str = "call_01k9zv3m8rj2q4w6y8a0c2e4g6";
const OTHER_CALL: &str = "call_01k9zv3m8rj2q4w6y8a0c2e4g7";
const COMMAND: &str = "cmd_01k9zv3m8rj2q4w6y8a0c2e4g6";

fn incoming() -> crate::IncomingCall {
    crate::IncomingCall {
        bridge_call_id: "b-1".to_owned(),
        called: crate::CalledParty::Number("+622150001000".parse().expect("a number")),
        caller_number: "+6281234567890".parse().expect("a number"),
        channel: None,
        draft: None,
        metadata: None,
        at: AT,
        trace: None,
    }
}

fn function(id: &str) -> CallReport {
    CallReport::Function(FunctionInvocation {
        invocation_id: id.to_owned(),
        name: "check".to_owned(),
        parameters: serde_json::Map::new(),
        trace: None,
    })
}

fn hangup() -> CallReport {
    CallReport::Hangup {
        reason: HangupReason::Normal,
        initiator: dikala_entities::HangupInitiator::Caller,
        ai_cost_idr: Some(7),
        voice: VoiceReport::default(),
    }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn agent() -> Value {
    json!({"id": "agent_1", "name": "Ayu", "systemPrompt": "", "voiceId": "Kore", "greetingText": "", "language": "id",
        "maxCallDurationMinutes": 10, "escalationNumber": null, "tools": ["end_call"], "functions": []})
}

fn exchange() -> MessageExchange {
    let mut exchange = MessageExchange::new("p".to_owned());
    exchange.connected();
    exchange
}

/// All messages that are due now: kind and id.
fn sent(exchange: &mut MessageExchange, now_ms: u64) -> Vec<(String, String)> {
    std::iter::from_fn(|| exchange.next(ms(now_ms)))
        .map(|text| {
            let frame: Value = serde_json::from_str(&text).expect("JSON is sent");
            let text = |name: &str| frame[name].as_str().unwrap_or_default().to_owned();
            (text("type"), text("id"))
        })
        .collect()
}

fn kinds(exchange: &mut MessageExchange, now_ms: u64) -> Vec<String> {
    sent(exchange, now_ms)
        .into_iter()
        .map(|(kind, _)| kind)
        .collect()
}

fn reply(
    exchange: &mut MessageExchange,
    no: u64,
    with: Value,
    now_ms: u64,
) -> Vec<(CallKey, ServiceEvent)> {
    let mut frame = json!({"replyTo": format!("p-{no}"), "ok": true});
    frame
        .as_object_mut()
        .expect("an object")
        .extend(with.as_object().expect("an object").clone());
    exchange.on_frame(&frame.to_string(), ms(now_ms))
}

fn taken(exchange: &mut MessageExchange, no: u64, call: &str) -> Vec<(CallKey, ServiceEvent)> {
    let with = json!({"callId": call, "action": "answer", "agent": agent()});
    reply(exchange, no, with, 0)
}

/// A call that the service has accepted.
fn talking(exchange: &mut MessageExchange) {
    exchange.open(1, incoming(), NOW);
    assert_eq!(kinds(exchange, 0), ["call.incoming"]);
    let told = taken(exchange, 1, CALL);
    assert!(
        matches!(&told[..], [(1, ServiceEvent::Reply(ServiceReply::Taken { call, .. }, _))] if call.to_string() == CALL)
    );
}

/// A call with two more called numbers.
fn with_other_dids() -> OpenedCall {
    let other = |did: &str| did.parse().expect("a number");
    OpenedCall {
        other_dids: vec![other("+622150002000"), other("+622150003000")],
        ..incoming().into()
    }
}

#[test]
fn the_first_called_number_that_somebody_has_counts() {
    let mut exchange = exchange();
    exchange.open(1, with_other_dids(), NOW);
    let nobody = json!({"ok": false, "error": {"code": "unknown_number", "message": "w"}});
    for (no, did) in [(1, "+622150001000"), (2, "+622150002000")] {
        let asked: Value =
            serde_json::from_str(&exchange.next(NOW).expect("it is asked")).expect("JSON");
        assert_eq!(
            (&asked["did"], &asked["bridgeCallId"]),
            (&json!(did), &json!("b-1"))
        );
        assert!(
            reply(&mut exchange, no, nobody.clone(), 0).is_empty(),
            "{did}"
        );
    }
    assert_eq!(kinds(&mut exchange, 0), ["call.incoming"]);
    let told = taken(&mut exchange, 3, CALL);
    let [(1, ServiceEvent::Reply(ServiceReply::Taken { called, .. }, _))] = &told[..] else {
        panic!("{told:?}");
    };
    let number = "+622150003000".parse().expect("a number");
    assert_eq!(*called, crate::CalledParty::Number(number));
}

#[test]
fn a_call_to_numbers_that_nobody_has_is_declined_once() {
    let mut exchange = exchange();
    exchange.open(1, with_other_dids(), NOW);
    let nobody = json!({"ok": false, "error": {"code": "unknown_number", "message": "w"}});
    let mut told = Vec::new();
    for no in 1..=3 {
        assert_eq!(kinds(&mut exchange, 0), ["call.incoming"]);
        told.extend(reply(&mut exchange, no, nobody.clone(), 0));
    }
    assert!(
        matches!(&told[..], [(1, ServiceEvent::Reply(ServiceReply::Declined { code, .. }, _))] if code == "unknown_number"),
        "{told:?}"
    );
    assert_eq!(kinds(&mut exchange, 0), [""; 0]);
}

#[test]
fn no_further_number_is_tried_for_a_caller_who_has_hung_up() {
    let mut exchange = exchange();
    exchange.open(1, with_other_dids(), NOW);
    assert_eq!(kinds(&mut exchange, 0), ["call.incoming"]);
    exchange.post(1, hangup(), AT, NOW);
    let nobody = json!({"ok": false, "error": {"code": "unknown_number", "message": "w"}});
    reply(&mut exchange, 1, nobody, 0);
    assert_eq!(kinds(&mut exchange, 0), [""; 0]);
}

#[test]
fn messages_of_a_call_go_one_after_the_other_and_functions_beside_them() {
    let mut exchange = exchange();
    talking(&mut exchange);
    exchange.post(1, CallReport::Answered, AT, NOW);
    exchange.post(1, function("f"), AT, NOW);
    assert_eq!(kinds(&mut exchange, 0), ["call.answered"]);
    let told = reply(&mut exchange, 2, json!({}), 0);
    assert!(matches!(
        &told[..],
        [(
            1,
            ServiceEvent::Reply(ServiceReply::Done(MessageType::Answered), _)
        )]
    ));
    assert_eq!(kinds(&mut exchange, 0), ["call.function"]);
    exchange.post(1, hangup(), AT, NOW);
    let transcript = CallReport::Transcript {
        summary: String::new(),
        turns: Vec::new(),
    };
    exchange.post(1, transcript, AT, NOW);
    // The function does not delay the hang-up; the transcript waits for it.
    assert_eq!(kinds(&mut exchange, 0), ["call.hangup"]);
    reply(&mut exchange, 4, json!({}), 0);
    assert_eq!(kinds(&mut exchange, 0), ["call.transcript"]);
    let outcome = json!({"outcome": {"status": "ok", "result": {"n": 1}}});
    let told = reply(&mut exchange, 3, outcome, 0);
    assert!(
        matches!(&told[..], [(1, ServiceEvent::Reply(ServiceReply::Outcome { outcome: InvocationOutcome::Ok { result }, .. }, _))] if result["n"] == 1)
    );
    reply(&mut exchange, 5, json!({}), 0);
    assert!(exchange.is_quiet());
}

#[test]
fn what_was_not_replied_to_is_sent_again_by_its_id() {
    let mut exchange = exchange();
    talking(&mut exchange);
    exchange.post(1, CallReport::Answered, AT, NOW);
    let first = sent(&mut exchange, 0);
    exchange.disconnected();
    assert!(sent(&mut exchange, 0).is_empty());
    exchange.connected();
    assert_eq!(sent(&mut exchange, 0), first);
    assert!(sent(&mut exchange, 0).is_empty());
}

#[test]
fn busy_is_repeated_later_and_holds_what_comes_after() {
    let mut exchange = exchange();
    talking(&mut exchange);
    exchange.post(1, CallReport::Answered, AT, NOW);
    exchange.post(1, hangup(), AT, NOW);
    let first = sent(&mut exchange, 0);
    let busy = json!({"ok": false, "error": {"code": "unavailable", "message": "later"}});
    assert!(reply(&mut exchange, 2, busy.clone(), 1_000).is_empty());
    assert!(sent(&mut exchange, 1_000).is_empty());
    let wakes_ms = |exchange: &MessageExchange| {
        let wakes = exchange.wakes_at().expect("it is to be sent again");
        u64::try_from(wakes.as_millis()).expect("it is soon")
    };
    let wakes = wakes_ms(&exchange);
    assert!((1_250..1_500).contains(&wakes), "{wakes}");
    assert_eq!(sent(&mut exchange, wakes), first);
    // The backoff grows.
    reply(&mut exchange, 2, busy, wakes);
    let later = wakes_ms(&exchange);
    assert!(later >= wakes + 500);
}

#[test]
fn a_call_that_the_service_never_heard_of_is_not_told_of() {
    let mut exchange = MessageExchange::new("p".to_owned());
    exchange.open(1, incoming(), NOW);
    exchange.post(1, hangup(), AT, NOW);
    exchange.connected();
    assert!(sent(&mut exchange, 0).is_empty() && exchange.is_quiet());
}

#[test]
fn a_caller_who_gave_up_before_the_reply_is_told_of_after_it() {
    let mut exchange = exchange();
    exchange.open(1, incoming(), NOW);
    assert_eq!(kinds(&mut exchange, 0), ["call.incoming"]);
    exchange.post(1, hangup(), AT, NOW);
    exchange.close(1, Millis::MIN, NOW);
    assert!(sent(&mut exchange, 0).is_empty());
    assert!(taken(&mut exchange, 1, CALL).is_empty(), "nobody listens");
    assert_eq!(kinds(&mut exchange, 0), ["call.hangup"]);
    reply(&mut exchange, 2, json!({}), 0);
    assert!(exchange.is_quiet() && exchange.calls.is_empty() && exchange.by_id.is_empty());
}

#[test]
fn a_call_that_is_let_go_of_is_reported_as_broken_once() {
    let mut exchange = exchange();
    talking(&mut exchange);
    exchange.close(1, Millis::MIN, NOW);
    assert_eq!(kinds(&mut exchange, 0), ["call.failed"]);
    reply(&mut exchange, 2, json!({}), 0);
    assert!(exchange.is_quiet() && exchange.calls.is_empty());
}

/// To the service a repeat is the same call, so its messages would be attributed to the first.
#[test]
fn a_call_that_the_service_knows_is_not_taken_again_while_it_goes_on_or_after() {
    let mut exchange = exchange();
    let declined = |told: Vec<(CallKey, ServiceEvent)>, key: CallKey| matches!(&told[..], [(to, ServiceEvent::Reply(ServiceReply::Declined { code, .. }, _))] if *to == key && code == "repeated");
    talking(&mut exchange);
    // A repeat whose caller has given up meanwhile does not hang up the first.
    for (key, no) in [(2, 2), (3, 3)] {
        exchange.open(key, incoming(), NOW);
        assert_eq!(kinds(&mut exchange, 0), ["call.incoming"]);
        if key == 3 {
            exchange.post(key, hangup(), AT, NOW);
        }
        assert!(declined(taken(&mut exchange, no, CALL), key));
        exchange.close(key, Millis::MIN, NOW);
        assert!(sent(&mut exchange, 0).is_empty() && exchange.is_quiet());
    }
    let beat = exchange.heartbeat(AT);
    let listed = format!("\"activeCalls\":[\"{CALL}\"]");
    assert!(beat.contains(&listed), "{beat}");
    let command =
        json!({"id": COMMAND, "command": "hangup", "callId": CALL, "reason": "requested"});
    let told = exchange.on_frame(&command.to_string(), NOW);
    assert!(
        matches!(&told[..], [(1, ServiceEvent::Command(_))]),
        "{told:?}"
    );
    exchange.post(1, hangup(), AT, NOW);
    exchange.close(1, Millis::MIN, NOW);
    let (_, id) = sent(&mut exchange, 0).remove(0);
    let done = json!({"replyTo": id, "ok": true});
    exchange.on_frame(&done.to_string(), NOW);
    assert!(exchange.calls.is_empty() && exchange.by_id.is_empty());
    exchange.open(4, incoming(), NOW);
    let (_, id) = sent(&mut exchange, 0).remove(0);
    let no = id.strip_prefix("p-").and_then(|no| no.parse().ok());
    assert!(declined(
        taken(&mut exchange, no.expect("an id of ours"), CALL),
        4
    ));
    assert!(exchange.calls.is_empty() && exchange.by_id.is_empty());
}

#[test]
fn the_heartbeat_tells_of_calls_until_their_end_is_acknowledged() {
    let mut exchange = exchange();
    talking(&mut exchange);
    let listed = |exchange: &mut MessageExchange| {
        let beat: Value = serde_json::from_str(&exchange.heartbeat(AT)).expect("JSON is sent");
        beat["activeCalls"].clone()
    };
    assert_eq!(listed(&mut exchange), json!([CALL]));
    exchange.post(1, hangup(), AT, NOW);
    let hangup = sent(&mut exchange, 0);
    assert_eq!(listed(&mut exchange), json!([CALL]));
    let no = hangup[0]
        .1
        .strip_prefix("p-")
        .and_then(|no| no.parse().ok());
    reply(&mut exchange, no.expect("an id of ours"), json!({}), 0);
    assert_eq!(listed(&mut exchange), json!([]));
}

#[test]
fn what_is_over_at_the_service_is_heard_by_the_call() {
    let mut exchange = exchange();
    talking(&mut exchange);
    let beat: Value = serde_json::from_str(&exchange.heartbeat(AT)).expect("JSON is sent");
    let frame = json!({"replyTo": beat["id"], "ok": true, "ended": [CALL, OTHER_CALL]});
    let told = exchange.on_frame(&frame.to_string(), NOW);
    assert!(matches!(&told[..], [(1, ServiceEvent::Over)]));
}

#[test]
fn a_command_is_heard_once() {
    let mut exchange = exchange();
    talking(&mut exchange);
    let command =
        json!({"id": COMMAND, "command": "hangup", "callId": CALL, "reason": "requested"});
    let told = exchange.on_frame(&command.to_string(), NOW);
    assert!(matches!(
        &told[..],
        [(
            1,
            ServiceEvent::Command(CommandKind::Hangup {
                reason: HangupReason::Requested
            })
        )]
    ));
    assert!(exchange.on_frame(&command.to_string(), NOW).is_empty());
}

#[test]
fn rubbish_of_the_service_changes_nothing() {
    let mut exchange = exchange();
    talking(&mut exchange);
    let command = |name: &str, mut with: Value| {
        with["command"] = name.into();
        with["id"] = COMMAND.into();
        with["callId"] = CALL.into();
        with.to_string()
    };
    for rubbish in [
        "",
        "[]",
        "{}",
        "null",
        "{\"replyTo\": 7}",
        "{\"replyTo\": \"p-1\"}",
        "{\"replyTo\": \"p-99\", \"ok\": true}",
        "{\"replyTo\": \"x-1\", \"ok\": true}",
        &command("sing", json!({})),
        &command("hangup", json!({"reason": "boredom"})),
        &command("warn", json!({"reason": "max_duration", "secondsLeft": -1})),
    ] {
        assert!(exchange.on_frame(rubbish, NOW).is_empty(), "{rubbish}");
    }
}

#[test]
fn too_many_functions_and_too_large_ones_are_declined_here() {
    let mut exchange = exchange();
    talking(&mut exchange);
    for number in 0..MESSAGES_OF_A_CALL_MAX {
        assert!(
            exchange
                .post(1, function(&number.to_string()), AT, NOW)
                .is_none()
        );
    }
    let declined = |reply: Option<ServiceReply>, expected: &str| matches!(reply, Some(ServiceReply::Declined { code, .. }) if code == expected);
    assert!(declined(
        exchange.post(1, function("more"), AT, NOW),
        "busy"
    ));
    let mut large = function("l");
    if let CallReport::Function(function) = &mut large {
        let parameters = &mut function.parameters;
        parameters.insert("x".to_owned(), "x".repeat(MESSAGE_BYTES_MAX).into());
    }
    assert!(declined(exchange.post(1, large.clone(), AT, NOW), "busy"));
    exchange.open(2, incoming(), NOW);
    assert!(declined(exchange.post(2, large, AT, NOW), "too_large"));
}

/// A service that loses its socket now and then and handles each message once, by its id.
#[derive(Default)]
struct Service {
    done: Vec<String>,
    order: Vec<String>,
}

impl Service {
    fn take(&mut self, text: &str) -> Value {
        let frame: Value = serde_json::from_str(text).expect("JSON is sent");
        let id = frame["id"].as_str().expect("an id").to_owned();
        let kind = frame["type"].as_str().expect("a type").to_owned();
        if !self.done.contains(&id) {
            self.done.push(id.clone());
            self.order.push(kind.clone());
        }
        match kind.as_str() {
            "call.incoming" => {
                json!({"replyTo": id, "ok": true, "callId": CALL, "action": "answer", "agent": agent()})
            }
            "call.function" => {
                json!({"replyTo": id, "ok": true, "outcome": {"status": "ok", "result": {}}})
            }
            _ => json!({"replyTo": id, "ok": true}),
        }
    }
}

proptest! {
    /// Whatever gets lost: every message is delivered once and in order in the end, and nothing is kept.
    #[test]
    fn a_call_is_told_whole_over_any_line(fates in proptest::collection::vec(0_u8..6, 0..60)) {
        let mut exchange = MessageExchange::new("p".to_owned());
        let mut service = Service::default();
        let mut steps = vec![hangup(), function("b"), function("a"), CallReport::Answered];
        let mut now_ms = 0;
        exchange.connected();
        exchange.open(1, incoming(), NOW);
        let busy = |text: &str| {
            let frame: Value = serde_json::from_str(text).expect("JSON is sent");
            json!({"replyTo": frame["id"], "ok": false, "error": {"code": "busy", "message": ""}})
        };
        let perfect = std::iter::repeat_n(0, 60);
        for fate in fates.into_iter().chain(perfect) {
            now_ms += 6_000;
            match fate {
                // The socket breaks.
                1 => { exchange.disconnected(); exchange.connected(); }
                2 => { exchange.disconnected(); }
                3 => exchange.connected(),
                _ => {
                    if fate == 0 { exchange.connected(); }
                    while let Some(text) = exchange.next(ms(now_ms)) {
                        match fate {
                            // The message is handled, and its reply is lost with the socket.
                            4 => { service.take(&text); exchange.disconnected(); exchange.connected(); break; }
                            5 => { exchange.on_frame(&busy(&text).to_string(), ms(now_ms)); }
                            _ => { let reply = service.take(&text); exchange.on_frame(&reply.to_string(), ms(now_ms)); }
                        }
                    }
                    if let Some(step) = steps.pop_if(|_| !exchange.by_id.is_empty()) {
                        exchange.post(1, step, AT, NOW);
                    }
                }
            }
        }
        exchange.close(1, Millis::MIN, NOW);
        prop_assert!(exchange.is_quiet() && exchange.calls.is_empty() && exchange.by_id.is_empty());
        let order: Vec<&str> = service.order.iter().map(String::as_str).collect();
        prop_assert_eq!(&order[..2], &["call.incoming", "call.answered"][..]);
        prop_assert_eq!(order.len(), 5);
        prop_assert_eq!(order.iter().filter(|kind| **kind == "call.hangup").count(), 1);
    }
}
