//! Messages are sent and resent as needed, and each reply reaches its call.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::engine::Outcome;

const AT: Millis = Millis::MIN;

fn incoming() -> Message {
    Message::Incoming {
        bridge_call_id: "b-1".to_owned(),
        did: "+622150001000".to_owned(),
        caller: "+6281234567890".to_owned(),
        metadata: json!({}),
    }
}

fn function(id: &str) -> Message {
    Message::Function {
        invocation_id: id.to_owned(),
        name: "check".to_owned(),
        parameters: serde_json::Map::new(),
    }
}

fn hangup() -> Message {
    Message::Hangup {
        reason: HangupReason::Normal,
        initiator: dikala_entities::HangupInitiator::Caller,
        ai_cost_idr: Some(7),
    }
}

fn agent() -> Value {
    json!({"id": "agent_1", "name": "Ayu", "systemPrompt": "", "voiceId": "Kore", "greetingText": "", "language": "id",
        "maxCallDurationMinutes": 10, "escalationNumber": null, "tools": ["end_call"], "functions": []})
}

fn book() -> Book {
    let mut book = Book::new("p".to_owned());
    book.connected();
    book
}

/// All messages that are due now: kind and id.
fn sent(book: &mut Book, now_ms: u64) -> Vec<(String, String)> {
    std::iter::from_fn(|| book.next(now_ms))
        .map(|text| {
            let frame: Value = serde_json::from_str(&text).expect("JSON is sent");
            let text = |name: &str| frame[name].as_str().unwrap_or_default().to_owned();
            (text("type"), text("id"))
        })
        .collect()
}

fn kinds(book: &mut Book, now_ms: u64) -> Vec<String> {
    sent(book, now_ms)
        .into_iter()
        .map(|(kind, _)| kind)
        .collect()
}

fn reply(book: &mut Book, no: u64, with: Value, now_ms: u64) -> Vec<(Key, Told)> {
    let mut frame = json!({"replyTo": format!("p-{no}"), "ok": true});
    frame
        .as_object_mut()
        .expect("an object")
        .extend(with.as_object().expect("an object").clone());
    book.on_frame(&frame.to_string(), now_ms)
}

fn taken(book: &mut Book, no: u64, call: &str) -> Vec<(Key, Told)> {
    let with = json!({"callId": call, "action": "answer", "agent": agent()});
    reply(book, no, with, 0)
}

/// A call that the service has accepted.
fn talking(book: &mut Book) {
    book.open(1);
    book.post(1, incoming(), AT);
    assert_eq!(kinds(book, 0), ["call.incoming"]);
    let told = taken(book, 1, "call_1");
    assert!(
        matches!(&told[..], [(1, Told::Reply(Reply::Taken { call_id, .. }))] if call_id == "call_1")
    );
}

#[test]
fn messages_of_a_call_go_one_after_the_other_and_functions_beside_them() {
    let mut book = book();
    talking(&mut book);
    book.post(1, Message::Answered, AT);
    book.post(1, function("f"), AT);
    assert_eq!(kinds(&mut book, 0), ["call.answered"]);
    assert!(reply(&mut book, 2, json!({}), 0).is_empty());
    assert_eq!(kinds(&mut book, 0), ["call.function"]);
    book.post(1, hangup(), AT);
    let transcript = Message::Transcript {
        summary: String::new(),
        turns: Vec::new(),
    };
    book.post(1, transcript, AT);
    // The function does not delay the hang-up; the transcript waits for it.
    assert_eq!(kinds(&mut book, 0), ["call.hangup"]);
    reply(&mut book, 4, json!({}), 0);
    assert_eq!(kinds(&mut book, 0), ["call.transcript"]);
    let outcome = json!({"outcome": {"status": "ok", "result": {"n": 1}}});
    let told = reply(&mut book, 3, outcome, 0);
    assert!(
        matches!(&told[..], [(1, Told::Reply(Reply::Outcome { outcome: Outcome::Ok(result), .. }))] if result["n"] == 1)
    );
    reply(&mut book, 5, json!({}), 0);
    assert!(book.is_quiet());
}

#[test]
fn what_was_not_replied_to_is_sent_again_by_its_id() {
    let mut book = book();
    talking(&mut book);
    book.post(1, Message::Answered, AT);
    let first = sent(&mut book, 0);
    book.disconnected();
    assert!(sent(&mut book, 0).is_empty());
    book.connected();
    assert_eq!(sent(&mut book, 0), first);
    assert!(sent(&mut book, 0).is_empty());
}

#[test]
fn busy_is_repeated_later_and_holds_what_comes_after() {
    let mut book = book();
    talking(&mut book);
    book.post(1, Message::Answered, AT);
    book.post(1, hangup(), AT);
    let first = sent(&mut book, 0);
    let busy = json!({"ok": false, "error": {"code": "unavailable", "message": "later"}});
    assert!(reply(&mut book, 2, busy.clone(), 1_000).is_empty());
    assert!(sent(&mut book, 1_000).is_empty());
    let wakes = book.wakes_at(1_000).expect("it is to be sent again");
    assert!((1_250..1_500).contains(&wakes), "{wakes}");
    assert_eq!(sent(&mut book, wakes), first);
    // The backoff grows.
    reply(&mut book, 2, busy, wakes);
    let later = book.wakes_at(wakes).expect("it is to be sent again");
    assert!(later >= wakes + 500);
}

#[test]
fn a_call_that_the_engine_never_heard_of_is_not_told_of() {
    let mut book = Book::new("p".to_owned());
    book.open(1);
    book.post(1, incoming(), AT);
    book.post(1, hangup(), AT);
    book.connected();
    assert!(sent(&mut book, 0).is_empty() && book.is_quiet());
}

#[test]
fn a_caller_who_gave_up_before_the_reply_is_told_of_after_it() {
    let mut book = book();
    book.open(1);
    book.post(1, incoming(), AT);
    assert_eq!(kinds(&mut book, 0), ["call.incoming"]);
    book.post(1, hangup(), AT);
    book.close(1, AT);
    assert!(sent(&mut book, 0).is_empty());
    assert!(taken(&mut book, 1, "call_1").is_empty(), "nobody listens");
    assert_eq!(kinds(&mut book, 0), ["call.hangup"]);
    reply(&mut book, 2, json!({}), 0);
    assert!(book.is_quiet() && book.calls.is_empty() && book.by_id.is_empty());
}

#[test]
fn a_call_that_is_let_go_of_is_reported_as_broken_once() {
    let mut book = book();
    talking(&mut book);
    book.close(1, AT);
    assert_eq!(kinds(&mut book, 0), ["call.failed"]);
    reply(&mut book, 2, json!({}), 0);
    assert!(book.is_quiet() && book.calls.is_empty());
}

/// To the service a repeat is the same call, so its messages would be attributed to the first.
#[test]
fn a_call_that_the_engine_knows_is_not_taken_again_while_it_goes_on_or_after() {
    let mut book = book();
    let declined = |told: Vec<(Key, Told)>, key: Key| matches!(&told[..], [(to, Told::Reply(Reply::Declined { code, .. }))] if *to == key && code == "repeated");
    talking(&mut book);
    // A repeat whose caller has given up meanwhile does not hang up the first.
    for (key, no) in [(2, 2), (3, 3)] {
        book.open(key);
        book.post(key, incoming(), AT);
        assert_eq!(kinds(&mut book, 0), ["call.incoming"]);
        if key == 3 {
            book.post(key, hangup(), AT);
        }
        assert!(declined(taken(&mut book, no, "call_1"), key));
        book.close(key, AT);
        assert!(sent(&mut book, 0).is_empty() && book.is_quiet());
    }
    let beat = book.heartbeat(AT);
    assert!(beat.contains(r#""activeCalls":["call_1"]"#), "{beat}");
    let command =
        json!({"id": "cmd_1", "command": "hangup", "callId": "call_1", "reason": "requested"});
    let told = book.on_frame(&command.to_string(), 0);
    assert!(matches!(&told[..], [(1, Told::Command(_))]), "{told:?}");
    book.post(1, hangup(), AT);
    book.close(1, AT);
    let (_, id) = sent(&mut book, 0).remove(0);
    let done = json!({"replyTo": id, "ok": true});
    book.on_frame(&done.to_string(), 0);
    assert!(book.calls.is_empty() && book.by_id.is_empty());
    book.open(4);
    book.post(4, incoming(), AT);
    let (_, id) = sent(&mut book, 0).remove(0);
    let no = id.strip_prefix("p-").and_then(|no| no.parse().ok());
    assert!(declined(
        taken(&mut book, no.expect("an id of ours"), "call_1"),
        4
    ));
    assert!(book.calls.is_empty() && book.by_id.is_empty());
}

#[test]
fn the_heartbeat_tells_of_calls_until_their_end_is_acknowledged() {
    let mut book = book();
    talking(&mut book);
    let listed = |book: &mut Book| {
        let beat: Value = serde_json::from_str(&book.heartbeat(AT)).expect("JSON is sent");
        beat["activeCalls"].clone()
    };
    assert_eq!(listed(&mut book), json!(["call_1"]));
    book.post(1, hangup(), AT);
    let hangup = sent(&mut book, 0);
    assert_eq!(listed(&mut book), json!(["call_1"]));
    let no = hangup[0]
        .1
        .strip_prefix("p-")
        .and_then(|no| no.parse().ok());
    reply(&mut book, no.expect("an id of ours"), json!({}), 0);
    assert_eq!(listed(&mut book), json!([]));
}

#[test]
fn what_is_over_at_the_engine_is_heard_by_the_call() {
    let mut book = book();
    talking(&mut book);
    let beat: Value = serde_json::from_str(&book.heartbeat(AT)).expect("JSON is sent");
    let frame = json!({"replyTo": beat["id"], "ok": true, "ended": ["call_1", "call_9"]});
    let told = book.on_frame(&frame.to_string(), 0);
    assert!(matches!(&told[..], [(1, Told::Over)]));
}

#[test]
fn a_command_is_heard_once() {
    let mut book = book();
    talking(&mut book);
    let command =
        json!({"id": "cmd_1", "command": "hangup", "callId": "call_1", "reason": "requested"});
    let told = book.on_frame(&command.to_string(), 0);
    assert!(matches!(
        &told[..],
        [(
            1,
            Told::Command(Command::Hangup {
                reason: HangupReason::Requested
            })
        )]
    ));
    assert!(book.on_frame(&command.to_string(), 0).is_empty());
}

#[test]
fn rubbish_of_the_engine_changes_nothing() {
    let mut book = book();
    talking(&mut book);
    for rubbish in [
        "",
        "[]",
        "{}",
        "null",
        "{\"replyTo\": 7}",
        "{\"replyTo\": \"p-1\"}",
        "{\"replyTo\": \"p-99\", \"ok\": true}",
        "{\"replyTo\": \"x-1\", \"ok\": true}",
        "{\"command\": \"sing\", \"id\": \"1\", \"callId\": \"call_1\"}",
        "{\"command\": \"hangup\", \"id\": \"1\", \"callId\": \"call_1\", \"reason\": \"boredom\"}",
        "{\"command\": \"warn\", \"id\": \"1\", \"callId\": \"call_1\", \"reason\": \"max_duration\", \"secondsLeft\": -1}",
    ] {
        assert!(book.on_frame(rubbish, 0).is_empty(), "{rubbish}");
    }
}

#[test]
fn too_many_functions_and_too_large_ones_are_declined_here() {
    let mut book = book();
    talking(&mut book);
    for number in 0..MESSAGES_OF_A_CALL_MAX {
        assert!(book.post(1, function(&number.to_string()), AT).is_none());
    }
    let declined = |reply: Option<Reply>, expected: &str| matches!(reply, Some(Reply::Declined { code, .. }) if code == expected);
    assert!(declined(book.post(1, function("more"), AT), "busy"));
    let mut large = Message::Function {
        invocation_id: "l".to_owned(),
        name: "check".to_owned(),
        parameters: serde_json::Map::new(),
    };
    if let Message::Function { parameters, .. } = &mut large {
        parameters.insert("x".to_owned(), "x".repeat(MESSAGE_BYTES_MAX).into());
    }
    assert!(declined(book.post(1, large.clone(), AT), "busy"));
    book.open(2);
    assert!(declined(book.post(2, large, AT), "too_large"));
}

/// A service that loses its socket now and then and handles each message once, by its id.
#[derive(Default)]
struct Engine {
    done: Vec<String>,
    order: Vec<String>,
}

impl Engine {
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
                json!({"replyTo": id, "ok": true, "callId": "call_1", "action": "answer", "agent": agent()})
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
        let mut book = Book::new("p".to_owned());
        let mut engine = Engine::default();
        let mut steps = vec![hangup(), function("b"), function("a"), Message::Answered];
        let mut now_ms = 0;
        book.open(1);
        book.connected();
        book.post(1, incoming(), AT);
        let busy = |text: &str| {
            let frame: Value = serde_json::from_str(text).expect("JSON is sent");
            json!({"replyTo": frame["id"], "ok": false, "error": {"code": "busy", "message": ""}})
        };
        let perfect = std::iter::repeat_n(0, 60);
        for fate in fates.into_iter().chain(perfect) {
            now_ms += 6_000;
            match fate {
                // The socket breaks.
                1 => { book.disconnected(); book.connected(); }
                2 => { book.disconnected(); }
                3 => book.connected(),
                _ => {
                    if fate == 0 { book.connected(); }
                    while let Some(text) = book.next(now_ms) {
                        match fate {
                            // The message is handled, and its reply is lost with the socket.
                            4 => { engine.take(&text); book.disconnected(); book.connected(); break; }
                            5 => { book.on_frame(&busy(&text).to_string(), now_ms); }
                            _ => { let reply = engine.take(&text); book.on_frame(&reply.to_string(), now_ms); }
                        }
                    }
                    if let Some(step) = steps.pop_if(|_| book.by_id.contains_key("call_1")) {
                        book.post(1, step, AT);
                    }
                }
            }
        }
        book.close(1, AT);
        prop_assert!(book.is_quiet() && book.calls.is_empty() && book.by_id.is_empty());
        let order: Vec<&str> = engine.order.iter().map(String::as_str).collect();
        prop_assert_eq!(&order[..2], &["call.incoming", "call.answered"][..]);
        prop_assert_eq!(order.len(), 5);
        prop_assert_eq!(order.iter().filter(|kind| **kind == "call.hangup").count(), 1);
    }
}
