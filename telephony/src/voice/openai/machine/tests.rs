//! The decisions of the machine, without a socket.

use std::{collections::HashSet, time::Duration};

use base64::prelude::{BASE64_STANDARD, Engine};
use dikala_entities::Speaker;
use dikala_sip::leg::VOICE_HANG_OVER_MS;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::{RealtimeMachine, SessionTerms};
use crate::{
    settings::TurnDetection,
    voice::{
        ToolOutcome, VoiceEvent, VoiceInput,
        common::{CloseReason, SessionEffect, VoiceMachine, tests::agent},
        openai::wire::{client::RealtimeRequest, server::RealtimeEvent},
    },
};

type SessionInput = crate::voice::common::SessionInput<RealtimeEvent>;

const MINUTE: u64 = 60_000;

/// A machine with its clock, and all its effects.
struct Story {
    machine: RealtimeMachine,
    now: Duration,
    done: Vec<SessionEffect<RealtimeRequest>>,
}

fn terms(interruptible: bool) -> SessionTerms {
    SessionTerms {
        agent: agent(),
        circumstances: String::new(),
        transcription_model: "t".to_owned(),
        turn_detection: TurnDetection::Server,
        interruptible,
        is_plain: false,
    }
}

impl Story {
    fn new(interruptible: bool) -> Self {
        let mut story = Self {
            machine: RealtimeMachine::new(terms(interruptible), &[], false),
            now: Duration::ZERO,
            done: Vec::new(),
        };
        story.say(VoiceInput::Greet);
        story
    }

    /// A machine that has greeted.
    fn live() -> Self {
        let mut story = Self::new(true);
        story.set_up(1);
        story.says("greeting", 400);
        story.done.clear();
        story
    }

    fn give(&mut self, input: SessionInput) {
        let done = self.machine.step(input, self.now);
        self.done.extend(done);
    }

    fn event(&mut self, connection: u32, event: Value) {
        let message = Box::new(serde_json::from_value(event).unwrap());
        self.give(SessionInput::Message {
            connection,
            message,
        });
    }

    fn say(&mut self, spoken: VoiceInput) {
        self.give(SessionInput::Spoken(spoken));
    }

    fn set_up(&mut self, connection: u32) {
        self.give(SessionInput::Opened { connection });
        self.event(
            connection,
            json!({"type": "session.created", "session": {}}),
        );
        self.event(
            connection,
            json!({"type": "session.updated", "session": {}}),
        );
    }

    fn created(&mut self, id: &str) {
        self.event(
            self.live_one(),
            json!({"type": "response.created", "response": {"id": id}}),
        );
    }

    fn audio(&mut self, id: &str, milliseconds: usize) {
        let delta = BASE64_STANDARD.encode(vec![1; milliseconds * 48]);
        self.event(
            self.live_one(),
            json!({"type": "response.output_audio.delta", "response_id": id,
            "item_id": format!("item-{id}"), "content_index": 0, "delta": delta}),
        );
    }

    fn done(&mut self, id: &str, status: &str) {
        let response = json!({"id": id, "status": status});
        self.event(
            self.live_one(),
            json!({"type": "response.done", "response": response}),
        );
    }

    /// A whole response.
    fn says(&mut self, id: &str, milliseconds: usize) {
        self.created(id);
        self.audio(id, milliseconds);
        self.event(
            self.live_one(),
            json!({"type": "response.output_audio_transcript.delta", "response_id": id,
            "item_id": format!("item-{id}"), "delta": format!("words of {id}")}),
        );
        self.done(id, "completed");
    }

    fn calls(&mut self, id: &str, names: &[&str]) {
        self.created(id);
        for name in names {
            let item = json!({"type": "function_call", "call_id": name, "name": "check_order", "arguments": json!({"orderId": name}).to_string()});
            self.event(
                self.live_one(),
                json!({"type": "response.output_item.done", "response_id": id, "item": item}),
            );
        }
        self.done(id, "completed");
    }

    fn outcome(&mut self, id: &str) {
        let outcome = ToolOutcome::success(json!({"is": 7}));
        let id = id.to_owned();
        self.say(VoiceInput::ToolOutcome { id, outcome });
    }

    fn caller(&mut self, edge: &str, id: &str) {
        let kind = format!("input_audio_buffer.{edge}");
        self.event(self.live_one(), json!({"type": kind, "item_id": id}));
    }

    fn closed(&mut self, connection: u32, words: &str) {
        let why = CloseReason {
            words: words.to_owned(),
            ..CloseReason::default()
        };
        self.give(SessionInput::Closed { connection, why });
    }

    fn live_one(&self) -> u32 {
        self.machine.live().unwrap_or(1)
    }

    /// Advances the time, and wakes the machine whenever it is due.
    fn until(&mut self, milliseconds: u64) {
        let end = Duration::from_millis(milliseconds);
        for _ in 0..10_000 {
            match self.machine.due().filter(|due| *due <= end) {
                Some(due) => {
                    self.now = self.now.max(due);
                    self.give(SessionInput::Time);
                }
                None => {
                    self.now = end;
                    return self.give(SessionInput::Time);
                }
            }
        }
        panic!("it never comes to rest");
    }

    /// The events sent on a connection, without audio.
    fn sent(&self, on: u32) -> Vec<Value> {
        let of = |effect: &SessionEffect<RealtimeRequest>| match effect {
            SessionEffect::Send {
                connection,
                message,
            } if *connection == on => serde_json::to_value(message).ok(),
            _ => None,
        };
        let sent = self.done.iter().filter_map(of);
        sent.filter(|it| it["type"] != "input_audio_buffer.append")
            .collect()
    }

    fn types(&self, on: u32) -> Vec<String> {
        let sent = self.sent(on);
        let short = |it: &Value| it["type"].as_str().unwrap().to_owned();
        sent.iter().map(short).collect()
    }

    fn told(&self) -> Vec<&VoiceEvent> {
        self.done
            .iter()
            .filter_map(|effect| match effect {
                SessionEffect::Tell(heard) => Some(heard),
                _ => None,
            })
            .collect()
    }

    fn heard_ms(&self) -> usize {
        let told = self.told();
        let length = |it: &&VoiceEvent| match it {
            VoiceEvent::Audio(samples) => samples.len() / 24,
            _ => 0,
        };
        told.iter().map(length).sum()
    }

    fn opened(&self) -> Vec<u32> {
        let of = |effect: &SessionEffect<RealtimeRequest>| match effect {
            SessionEffect::Open { connection } => Some(*connection),
            _ => None,
        };
        self.done.iter().filter_map(of).collect()
    }
}

#[test]
fn nothing_is_generated_before_the_call_is_answered() {
    let mut story = Story::new(true);
    story.machine = RealtimeMachine::new(terms(true), &[], false);
    story.done.clear();
    story.give(SessionInput::Time);
    story.set_up(1);
    assert_eq!(story.types(1), ["session.update"]);
    for _ in 0..2 {
        story.say(VoiceInput::Greet);
    }
    let greeted = [
        "session.update",
        "conversation.item.create",
        "response.create",
    ];
    assert_eq!(story.types(1), greeted);
}

#[test]
fn a_session_that_takes_over_goes_on_with_the_conversation() {
    let mut story = Story::new(true);
    let so_far = [
        (Speaker::Agent, "Halo!".to_owned()),
        (Speaker::Caller, "Where is it?".to_owned()),
    ];
    story.machine = RealtimeMachine::new(terms(true), &so_far, false);
    story.done.clear();
    story.say(VoiceInput::Greet);
    story.set_up(1);
    let texts: Vec<Value> = story.sent(1)[1..]
        .iter()
        .map(|it| it["item"]["content"][0]["text"].clone())
        .collect();
    assert_eq!(texts[..2], [json!("Halo!"), json!("Where is it?")]);
    assert!(
        texts[2].as_str().unwrap().contains("Do not greet again"),
        "{texts:?}"
    );
    assert_eq!(story.types(1).last().unwrap(), "response.create");
}

#[test]
fn nothing_is_sent_before_the_session_is_created_and_the_greeting_comes_first() {
    let mut story = Story::new(true);
    story.give(SessionInput::Opened { connection: 1 });
    story.say(VoiceInput::Audio(vec![1; 320]));
    story.say(VoiceInput::Keys("the caller pressed 4".to_owned()));
    assert!(
        story.types(1).is_empty(),
        "an update before would be ignored"
    );
    story.event(1, json!({"type": "session.created"}));
    assert_eq!(story.types(1), ["session.update"]);
    story.event(1, json!({"type": "session.updated"}));
    assert_eq!(
        story.types(1)[1..],
        [
            "conversation.item.create",
            "conversation.item.create",
            "response.create"
        ]
    );
    let greeting = &story.sent(1)[1]["item"]["content"][0]["text"];
    assert!(
        greeting.as_str().unwrap().contains("selamat pagi"),
        "{greeting}"
    );
    assert_eq!(story.told(), [&VoiceEvent::Ready]);
}

#[rstest]
#[case(0, json!({"type": "conversation.item.delete", "item_id": "item-a"}))]
#[case(1, json!({"type": "conversation.item.truncate", "item_id": "item-a", "content_index": 0, "audio_end_ms": 1}))]
#[case(799, json!({"type": "conversation.item.truncate", "item_id": "item-a", "content_index": 0, "audio_end_ms": 799}))]
#[case(800, Value::Null)]
#[case(90_000, Value::Null)]
fn an_interruption_cuts_what_was_not_heard(#[case] played_ms: u64, #[case] expected: Value) {
    let mut story = Story::live();
    story.caller("speech_started", "c");
    story.say(VoiceInput::Interrupted { played_ms: 400 });
    story.caller("speech_stopped", "c");
    story.says("a", 800);
    story.done.clear();
    story.caller("speech_started", "d");
    let interrupted = [&VoiceEvent::Interrupted, &VoiceEvent::TurnOver];
    assert_eq!(story.told(), interrupted);
    story.say(VoiceInput::Interrupted { played_ms });
    let cut = story.sent(1);
    assert_eq!(cut.first().unwrap_or(&Value::Null), &expected);
    assert!(cut.len() <= 1, "{cut:?}");
}

#[test]
fn an_interruption_of_nothing_is_nothing() {
    let mut story = Story::new(true);
    story.set_up(1);
    story.done.clear();
    story.caller("speech_started", "c");
    assert_eq!((story.told().len(), story.sent(1).len()), (0, 0));
    story.say(VoiceInput::Interrupted { played_ms: 500 });
    assert!(story.sent(1).is_empty());
}

#[test]
fn what_comes_after_an_interruption_is_thrown_away() {
    let mut story = Story::live();
    story.created("a");
    story.audio("a", 100);
    story.caller("speech_started", "c");
    story.done.clear();
    // The server is still sending, then stops.
    story.audio("a", 100);
    story.event(1, json!({"type": "response.output_audio_transcript.delta", "response_id": "a", "item_id": "item-a", "delta": "late"}));
    story.done("a", "cancelled");
    story.audio("a", 100);
    assert_eq!(story.told(), [&VoiceEvent::TurnOver]);
    story.caller("speech_stopped", "c");
    story.says("b", 100);
    assert_eq!(story.heard_ms(), 100, "the next answer is heard");
}

#[test]
fn an_answer_that_was_requested_before_an_interruption_is_stopped() {
    let mut story = Story::live();
    story.say(VoiceInput::Keys("the caller pressed 1".to_owned()));
    story.caller("speech_started", "c");
    story.done.clear();
    story.created("late");
    assert_eq!(story.types(1), ["response.cancel"]);
    story.audio("late", 100);
    story.done("late", "cancelled");
    assert_eq!(story.heard_ms(), 0);
    story.caller("speech_stopped", "c");
    story.says("b", 100);
    assert_eq!(story.heard_ms(), 100);
}

#[test]
fn an_agent_that_may_finish_is_not_interrupted() {
    let mut story = Story::new(false);
    story.set_up(1);
    story.created("a");
    story.audio("a", 100);
    story.caller("speech_started", "c");
    story.audio("a", 100);
    assert_eq!(story.heard_ms(), 200);
    assert!(!story.told().contains(&&VoiceEvent::Interrupted));
}

#[test]
fn functions_are_answered_one_by_one_and_then_talked_about_once() {
    let mut story = Story::live();
    story.calls("a", &["x", "y"]);
    let wishes = story
        .told()
        .into_iter()
        .filter(|it| matches!(it, VoiceEvent::Tool { .. }));
    assert_eq!(wishes.count(), 2);
    // A note is answered first, and meanwhile the first outcome comes.
    story.say(VoiceInput::Text("psst".to_owned()));
    story.created("b");
    story.done.clear();
    story.outcome("x");
    assert!(story.sent(1).is_empty(), "a response is running");
    story.done("b", "completed");
    assert_eq!(
        story.types(1),
        ["conversation.item.create"],
        "the other is still running"
    );
    story.outcome("y");
    assert_eq!(
        story.types(1),
        [
            "conversation.item.create",
            "conversation.item.create",
            "response.create"
        ]
    );
    let item = &story.sent(1)[0]["item"];
    assert_eq!(
        *item,
        json!({"type": "function_call_output", "call_id": "x", "output": r#"{"output":{"is":7}}"#})
    );
}

#[test]
fn a_note_waits_for_the_response_that_is_running() {
    let mut story = Story::live();
    story.created("a");
    story.say(VoiceInput::Goodbye("say goodbye".to_owned()));
    assert_eq!(story.types(1), ["conversation.item.create"]);
    story.until(60_000);
    story.done("a", "completed");
    assert_eq!(
        story.types(1),
        ["conversation.item.create", "response.create"]
    );
}

#[test]
fn a_function_call_is_carried_out_once_however_often_it_is_told() {
    let mut story = Story::live();
    story.created("a");
    let arguments = r#"{"orderId":"1"}"#;
    let item = json!({"type": "function_call", "call_id": "x", "name": "check_order", "arguments": arguments, "status": "completed"});
    story.event(1, json!({"type": "response.function_call_arguments.done", "response_id": "a", "call_id": "x", "arguments": arguments}));
    story.event(
        1,
        json!({"type": "response.output_item.done", "response_id": "a", "item": item}),
    );
    story.event(1, json!({"type": "response.done", "response": {"id": "a", "status": "completed", "output": [item]}}));
    let wishes = story
        .told()
        .into_iter()
        .filter(|it| matches!(it, VoiceEvent::Tool { .. }));
    assert_eq!(wishes.count(), 1);
}

#[test]
fn arguments_that_are_no_object_are_refused_at_once() {
    let mut story = Story::live();
    story.created("a");
    let item = json!({"type": "function_call", "call_id": "x", "name": "check_order", "arguments": "{\"a\":"});
    story.event(
        1,
        json!({"type": "response.output_item.done", "response_id": "a", "item": item}),
    );
    story.done("a", "completed");
    let output = story.sent(1)[0]["item"]["output"].clone();
    assert!(
        output.as_str().unwrap().contains("invalid_arguments"),
        "{output}"
    );
    assert!(
        !story
            .told()
            .iter()
            .any(|it| matches!(it, VoiceEvent::Tool { .. }))
    );
}

#[test]
fn nothing_is_said_after_the_call_is_ended() {
    let mut story = Story::live();
    story.created("a");
    let item =
        json!({"type": "function_call", "call_id": "x", "name": "end_call", "arguments": "{}"});
    story.event(
        1,
        json!({"type": "response.output_item.done", "response_id": "a", "item": item}),
    );
    story.done("a", "completed");
    story.outcome("x");
    assert_eq!(story.types(1), ["conversation.item.create"]);
}

#[test]
fn a_request_that_came_too_early_is_repeated() {
    let mut story = Story::live();
    story.say(VoiceInput::Keys("the caller pressed 1".to_owned()));
    story.done.clear();
    let error = json!({"type": "invalid_request_error", "code": "conversation_already_has_active_response"});
    story.event(1, json!({"type": "error", "error": error}));
    story.created("foreign");
    story.done("foreign", "completed");
    story.until(499);
    assert!(story.types(1).is_empty());
    story.until(500);
    assert_eq!(story.types(1), ["response.create"]);
}

#[test]
fn what_was_given_while_the_caller_spoke_is_answered_with_the_callers_words() {
    let mut story = Story::live();
    story.caller("speech_started", "c");
    story.say(VoiceInput::Keys("the caller pressed 1".to_owned()));
    story.caller("speech_stopped", "c");
    story.says("a", 100);
    story.until(20_000);
    assert!(
        !story.types(1).contains(&"response.create".to_owned()),
        "{:?}",
        story.types(1)
    );
    // A noise that never ends does not keep the agent silent.
    story.caller("speech_started", "d");
    story.say(VoiceInput::Goodbye("say goodbye".to_owned()));
    story.until(34_999);
    assert!(!story.types(1).contains(&"response.create".to_owned()));
    story.until(35_000);
    assert_eq!(story.types(1).last().unwrap(), "response.create");
}

#[test]
fn a_transcript_belongs_where_the_caller_began() {
    let mut story = Story::live();
    story.caller("speech_started", "c");
    story.caller("speech_stopped", "c");
    story.says("a", 100);
    let transcribed = "conversation.item.input_audio_transcription.completed";
    story.event(
        1,
        json!({"type": transcribed, "item_id": "c", "transcript": "Where is it?"}),
    );
    story.event(
        1,
        json!({"type": transcribed, "item_id": "d", "transcript": " \n"}),
    );
    // Nothing is known of these words.
    story.caller("speech_started", "e");
    story.closed(1, "gone");
    story.until(1_000);
    story.set_up(2);
    let items = story.sent(2);
    let texts: Vec<_> = items
        .iter()
        .filter_map(|it| it["item"]["content"][0]["text"].as_str())
        .collect();
    assert_eq!(
        texts,
        ["words of greeting", "Where is it?", "words of a"],
        "and none is empty"
    );
    let kinds: Vec<_> = items
        .iter()
        .filter_map(|it| it["item"]["content"][0]["type"].as_str())
        .collect();
    assert_eq!(kinds, ["output_text", "input_text", "output_text"]);
    assert!(
        !story.types(2).contains(&"response.create".to_owned()),
        "nobody waits for an answer"
    );
}

#[test]
fn an_answer_that_breaks_off_is_gone_on_with() {
    for began in [true, false] {
        let mut story = Story::live();
        story.caller("speech_started", "c");
        story.caller("speech_stopped", "c");
        if began {
            story.created("a");
            story.audio("a", 100);
        }
        story.closed(1, "gone");
        story.until(1_000);
        story.set_up(2);
        let sent = story.sent(2);
        let text = sent[sent.len() - 2]["item"]["content"][0]["text"]
            .as_str()
            .unwrap();
        let expected = match began {
            true => "Say your last answer again",
            false => "interrupted for a moment",
        };
        assert!(text.contains(expected), "{text}");
        assert_eq!(sent.last().unwrap()["type"], "response.create");
        assert!(
            !sent
                .iter()
                .any(|it| it.to_string().contains("selamat pagi")),
            "no second greeting"
        );
    }
}

/// A response of the server's own began while the request was on its way.
#[test]
fn a_request_that_was_refused_makes_no_later_response_void() {
    let mut story = Story::live();
    story.say(VoiceInput::Text("Transfer failed.".to_owned()));
    story.caller("speech_started", "c");
    let code = "conversation_already_has_active_response";
    story.event(1, json!({"type": "error", "error": {"code": code}}));
    story.caller("speech_stopped", "c");
    story.done.clear();
    story.says("a", 400);
    story.until(1_000);
    story.say(VoiceInput::Text("It failed again.".to_owned()));
    assert_eq!(story.types(1).last().unwrap(), "response.create");
    story.says("b", 400);
    let told = story.done.iter();
    let spoke = told.filter(|it| matches!(it, SessionEffect::Tell(VoiceEvent::Audio(_))));
    assert_eq!(spoke.count(), 8);
    assert!(!story.types(1).contains(&"response.cancel".to_owned()));
}

fn answer_now() -> VoiceInput {
    VoiceInput::AnswerNow("Answer now.".to_owned())
}

#[test]
fn who_waits_in_vain_is_answered_whatever_the_server_does() {
    // The server begins no response to a turn.
    let mut story = Story::live();
    story.caller("speech_started", "c");
    story.caller("speech_stopped", "c");
    story.until(2_500);
    story.say(answer_now());
    let asks = ["conversation.item.create", "response.create"];
    assert_eq!(story.types(1), asks);
    // It does not begin what was requested either, and is asked once more.
    story.say(answer_now());
    assert_eq!(story.types(1).len(), 2, "it was asked just now");
    story.until(5_000);
    story.say(answer_now());
    assert_eq!(story.types(1).len(), 4);
    // It thinks.
    story.created("a");
    story.until(9_000);
    story.say(answer_now());
    assert_eq!(story.types(1).len(), 4);
    // It breaks off.
    story.audio("a", 100);
    story.say(answer_now());
    assert_eq!(
        story.types(1)[4..],
        ["response.cancel", "conversation.item.create"]
    );
    story.done("a", "cancelled");
    assert_eq!(story.types(1)[6..], ["response.create"]);
}

#[test]
fn a_transcription_is_paid_for_by_its_length() {
    let mut story = Story::live();
    story.caller("speech_started", "c");
    let usage = json!({"type": "tokens", "input_tokens": 13, "output_tokens": 9, "input_token_details": {"audio_tokens": 13}});
    story.event(
        1,
        json!({"type": "conversation.item.input_audio_transcription.completed", "item_id": "c",
        "transcript": "Halo", "usage": usage}),
    );
    let told = story.done.iter().find_map(|it| match it {
        SessionEffect::Tell(VoiceEvent::Usage(usage)) => Some(*usage),
        _ => None,
    });
    let expected = crate::voice::Usage {
        milliseconds: 1_300,
        ..crate::voice::Usage::default()
    };
    assert_eq!(told, Some(expected));
}

#[test]
fn keys_reach_the_next_session_once() {
    let text = "the caller pressed 4 2 #";
    for lost_first in [true, false] {
        let mut story = Story::live();
        if lost_first {
            story.closed(1, "gone");
        }
        story.say(VoiceInput::Keys(text.to_owned()));
        if !lost_first {
            story.closed(1, "gone");
        }
        story.until(1_000);
        story.set_up(2);
        let sent = story.sent(2);
        let texts = sent.iter().filter(|it| it.to_string().contains(text));
        assert_eq!(texts.count(), 1, "{sent:?}");
        assert_eq!(sent.last().unwrap()["type"], "response.create");
    }
}

impl Story {
    /// A session whose turns this side detects, after a greeting of so many milliseconds.
    fn with_own_turns(greeting_ms: usize) -> Self {
        let mut story = Self::new(true);
        let own = SessionTerms {
            turn_detection: TurnDetection::Own,
            ..story.machine.terms
        };
        story.machine = RealtimeMachine::new(own, &[], false);
        story.say(VoiceInput::Greet);
        story.set_up(1);
        story.says("greeting", greeting_ms);
        story.done.clear();
        story
    }

    fn pass(&mut self, milliseconds: u64) {
        let now = u64::try_from(self.now.as_millis()).unwrap();
        self.until(now + milliseconds);
    }

    /// Time passes, and the call hears its caller, or silence.
    fn hears(&mut self, milliseconds: u64) {
        for _ in 0..milliseconds / 20 {
            self.say(VoiceInput::Audio(vec![1; 320]));
            self.pass(20);
        }
    }

    /// A voice of this length, and the silence after which its end is noticed.
    fn voice(&mut self, milliseconds: u64) {
        self.say(VoiceInput::Activity { speaks: true });
        self.hears(milliseconds + VOICE_HANG_OVER_MS);
        self.say(VoiceInput::Activity { speaks: false });
    }

    /// The caller's audio that was sent, in milliseconds at 24 kHz.
    fn sent_audio_ms(&self, on: u32) -> usize {
        let length = |effect: &SessionEffect<RealtimeRequest>| match effect {
            SessionEffect::Send {
                connection,
                message,
            } if *connection == on => {
                let message = serde_json::to_value(message).unwrap();
                message["audio"]
                    .as_str()
                    .map_or(0, |audio| audio.len() * 3 / 4 / 48)
            }
            _ => 0,
        };
        self.done.iter().map(length).sum()
    }
}

#[test]
fn a_turn_that_ends_while_there_is_no_model_is_answered_by_the_next() {
    let mut story = Story::with_own_turns(400);
    story.closed(1, "gone");
    story.voice(800);
    story.pass(1_000);
    story.set_up(2);
    let types = story.types(2);
    assert_eq!(
        types[types.len() - 2..],
        ["input_audio_buffer.commit", "response.create"]
    );
}

#[test]
fn a_short_voice_interrupts_no_answer_and_is_not_answered() {
    let mut story = Story::with_own_turns(5_000);
    story.voice(180);
    story.hears(1_000);
    assert_eq!(story.types(1), [""; 0]);
    story.pass(6_000);
    story.voice(400);
    story.hears(200);
    story.created("a");
    story.audio("a", 3_000);
    story.done.clear();
    story.voice(180);
    story.hears(1_000);
    assert_eq!(story.types(1), [""; 0]);
    assert!(!story.told().contains(&&VoiceEvent::Interrupted));
    // Two short words do not make a long one.
    story.voice(180);
    story.voice(180);
    assert!(!story.told().contains(&&VoiceEvent::Interrupted));
}

#[test]
fn a_longer_voice_interrupts_and_is_heard_from_its_beginning() {
    let mut story = Story::with_own_turns(5_000);
    story.say(VoiceInput::Activity { speaks: true });
    story.hears(480);
    assert!(story.told().is_empty() && story.sent_audio_ms(1) == 0);
    story.hears(40);
    let interrupted = [&VoiceEvent::Interrupted, &VoiceEvent::TurnOver];
    assert_eq!(story.told(), interrupted);
    assert!(
        (500..=520).contains(&story.sent_audio_ms(1)),
        "{}",
        story.sent_audio_ms(1)
    );
}

#[test]
fn a_short_answer_at_the_end_of_a_question_is_answered() {
    let mut story = Story::with_own_turns(2_000);
    story.pass(1_500);
    story.voice(180);
    story.hears(200);
    let types = story.types(1);
    assert!(!story.told().contains(&&VoiceEvent::Interrupted));
    assert_eq!(
        types[types.len() - 2..],
        ["input_audio_buffer.commit", "response.create"]
    );
    assert!(
        (400..=500).contains(&story.sent_audio_ms(1)),
        "{}",
        story.sent_audio_ms(1)
    );
}

#[test]
fn a_short_word_while_the_model_thinks_belongs_to_the_turn() {
    let mut story = Story::with_own_turns(100);
    story.pass(1_000);
    story.voice(400);
    story.hears(200);
    story.created("a");
    story.done.clear();
    story.voice(180);
    story.hears(200);
    let types = story.types(1);
    assert_eq!(types, ["response.cancel", "input_audio_buffer.commit"]);
    story.done("a", "cancelled");
    assert_eq!(story.types(1).last().unwrap(), "response.create");
    assert!(story.sent_audio_ms(1) >= 500);
}

#[test]
fn a_noise_without_end_is_committed() {
    let mut story = Story::with_own_turns(100);
    story.pass(1_000);
    story.say(VoiceInput::Activity { speaks: true });
    story.hears(14_900);
    assert_eq!(story.types(1), [""; 0]);
    story.hears(200);
    let types = story.types(1);
    assert_eq!(types, ["input_audio_buffer.commit", "response.create"]);
}

#[test]
fn a_voice_at_the_end_of_a_call_stops_no_summary() {
    let mut story = Story::with_own_turns(5_000);
    story.say(VoiceInput::Activity { speaks: true });
    story.hears(100);
    story.say(VoiceInput::Summarise);
    story.pass(900);
    story.created("s");
    let delta = "It was short.";
    story.event(1, json!({"type": "response.output_text.delta", "response_id": "s", "item_id": "i", "delta": delta}));
    story.done("s", "completed");
    let summary = VoiceEvent::Summary(delta.to_owned());
    assert!(story.told().contains(&&summary), "{:?}", story.told());
}

#[test]
fn a_turn_is_over_after_half_a_second_of_silence() {
    let mut story = Story::with_own_turns(100);
    story.pass(1_000);
    story.voice(400);
    story.hears(180);
    assert!(
        !story
            .types(1)
            .contains(&"input_audio_buffer.commit".to_owned())
    );
    // The turn goes on.
    story.voice(400);
    story.hears(180);
    assert!(
        !story
            .types(1)
            .contains(&"input_audio_buffer.commit".to_owned())
    );
    story.hears(40);
    let types = story.types(1);
    let commits = types.iter().filter(|it| *it == "input_audio_buffer.commit");
    assert_eq!(commits.count(), 1);
}

#[test]
fn an_item_of_an_earlier_session_is_never_cut() {
    let mut story = Story::live();
    story.says("a", 60_000);
    story.closed(1, "gone");
    story.until(1_000);
    story.set_up(2);
    story.done.clear();
    story.caller("speech_started", "c");
    let interrupted = [&VoiceEvent::Interrupted, &VoiceEvent::TurnOver];
    assert_eq!(story.told(), interrupted);
    story.say(VoiceInput::Interrupted { played_ms: 3_000 });
    assert!(story.sent(2).is_empty());
}

#[test]
fn a_session_is_renewed_before_it_is_closed_and_in_a_quiet_moment() {
    let mut story = Story::live();
    story.until(50 * MINUTE - 1);
    assert!(story.opened().is_empty());
    story.until(50 * MINUTE);
    assert_eq!(story.opened(), [2]);
    story.created("a");
    story.audio("a", 100);
    story.give(SessionInput::Opened { connection: 2 });
    story.event(2, json!({"type": "session.created"}));
    story.event(2, json!({"type": "session.updated"}));
    assert_eq!(story.machine.live(), Some(1), "it is answering");
    story.done("a", "completed");
    assert_eq!(story.machine.live(), Some(2));
    assert!(story.done.contains(&SessionEffect::Close { connection: 1 }));
    assert!(!story.told().contains(&&VoiceEvent::Away));
    assert_eq!(
        story.types(2),
        ["session.update", "conversation.item.create"]
    );
}

#[test]
fn the_hour_of_a_session_counts_from_its_beginning() {
    let mut story = Story::live();
    story.until(50 * MINUTE);
    // Somebody makes noise all the time.
    story.caller("speech_started", "noise");
    story.set_up(2);
    story.until(57 * MINUTE);
    assert_eq!(story.machine.live(), Some(2), "forced");
    story.until(100 * MINUTE - 1);
    assert_eq!(story.opened(), [2]);
    story.until(100 * MINUTE);
    assert_eq!(story.opened(), [2, 3]);
}

#[test]
fn words_that_the_caller_adds_are_words_of_their_own() {
    let mut story = Story::live();
    for (id, words) in [("a", "I want to order."), ("b", " Two coffees.")] {
        story.caller("speech_started", id);
        story.caller("speech_stopped", id);
        story.event(1, json!({"type": "conversation.item.input_audio_transcription.completed", "item_id": id, "transcript": words}));
    }
    let told = story.told();
    let said = told.iter().filter_map(|told| match told {
        VoiceEvent::CallerSaid(words) => Some(words.as_str()),
        _ => None,
    });
    assert_eq!(said.collect::<String>(), "I want to order. Two coffees. ");
}

#[test]
fn a_session_is_renewed_in_time_whatever_goes_on() {
    let mut story = Story::live();
    story.until(50 * MINUTE);
    story.calls("a", &["x"]);
    story.give(SessionInput::Opened { connection: 2 });
    story.event(2, json!({"type": "session.created"}));
    story.event(2, json!({"type": "session.updated"}));
    story.until(57 * MINUTE - 1);
    assert_eq!(story.machine.live(), Some(1));
    story.until(57 * MINUTE);
    assert_eq!(story.machine.live(), Some(2));
    story.outcome("x");
    let sent = story.sent(2);
    let late = sent
        .iter()
        .rev()
        .find_map(|it| it["item"]["content"][0]["text"].as_str());
    assert!(
        late.unwrap().contains("The function check_order"),
        "the new session made no call"
    );
}

#[test]
fn a_renewal_that_fails_is_tried_again_and_nobody_notices() {
    let mut story = Story::live();
    story.until(50 * MINUTE);
    story.closed(
        2,
        "the service closed the connection with 1008 model_not_found",
    );
    story.until(50 * MINUTE + 5_000);
    assert_eq!(story.opened(), [2, 3]);
    assert!(story.told().is_empty());
    // The old one ends before the new one is ready.
    story.give(SessionInput::Opened { connection: 3 });
    story.event(3, json!({"type": "session.created"}));
    story.closed(1, "1001");
    assert_eq!(story.told(), [&VoiceEvent::Away]);
    story.event(3, json!({"type": "session.updated"}));
    assert_eq!(story.told(), [&VoiceEvent::Away, &VoiceEvent::Reconnected]);
    assert_eq!(story.opened(), [2, 3]);
}

#[rstest]
#[case(json!({"type": "error", "error": {"type": "insufficient_quota", "code": "insufficient_quota"}}))]
#[case(json!({"type": "error", "error": {"code": "invalid_api_key"}}))]
#[case(json!({"type": "error", "error": {"code": "model_not_found"}}))]
#[case(json!({"type": "response.done", "response": {"id": "a", "status": "failed", "status_details": {"error": {"code": "insufficient_quota"}}}}))]
fn a_fatal_error_is_the_end_at_once(#[case] error: Value) {
    let mut story = Story::live();
    story.created("a");
    story.event(1, error.clone());
    assert!(
        matches!(story.told().last(), Some(VoiceEvent::Lost(_))),
        "{error}"
    );
    assert!(story.opened().is_empty());
    assert_eq!(story.machine.due(), None);
    if error["type"] == "error" {
        let mut before = Story::new(true);
        before.give(SessionInput::Opened { connection: 1 });
        before.event(1, error);
        assert!(matches!(before.told()[..], [VoiceEvent::Lost(_)]));
        assert_eq!(before.opened(), [1]);
    }
}

#[test]
fn a_refused_upgrade_is_the_end_at_once() {
    let mut story = Story::new(true);
    let why = CloseReason {
        refused: true,
        is_final: true,
        words: "it answers with status 401".to_owned(),
        ..CloseReason::default()
    };
    story.give(SessionInput::Closed { connection: 1, why });
    assert!(matches!(story.told()[..], [VoiceEvent::Lost(_)]));
}

#[rstest]
#[case(json!({"type": "error", "error": {"type": "server_error", "code": null}}))]
#[case(json!({"type": "error", "error": {"code": "session_expired"}}))]
#[case(json!({"type": "error", "error": {"code": "invalid_value", "message": "Audio content of 3ms is already shorter than 7ms"}}))]
#[case(json!({"type": "response.done", "response": {"id": "a", "status": "failed", "status_details": {"error": {"code": "rate_limit_exceeded"}}}}))]
fn an_error_that_passes_begins_a_new_session(#[case] error: Value) {
    let mut story = Story::live();
    story.created("a");
    story.event(1, error);
    assert_eq!(story.told().first(), Some(&&VoiceEvent::Away));
    assert_eq!(story.opened(), [2]);
}

#[test]
fn a_harmless_error_changes_nothing() {
    let mut story = Story::live();
    for code in [
        "response_cancel_not_active",
        "input_audio_buffer_commit_empty",
    ] {
        story.event(1, json!({"type": "error", "error": {"code": code}}));
    }
    assert!(story.told().is_empty() && story.opened().is_empty());
}

/// A server of one's own may refuse what it does not know of, each time.
#[test]
fn an_error_that_a_new_session_brings_again_changes_nothing() {
    let mut story = Story::live();
    let error = json!({"type": "error", "error": {"code": "invalid_value"}});
    story.event(1, error.clone());
    assert_eq!(story.opened(), [2]);
    story.set_up(2);
    for _ in 0..16 {
        story.event(2, error.clone());
    }
    assert_eq!(story.opened(), [2]);
    story.event(2, error);
    story.until(2_000);
    assert_eq!(story.opened(), [2, 3], "errors alone are a fault");
}

#[test]
fn terms_that_are_refused_become_plain_and_then_the_voice_is_lost() {
    let mut story = Story::new(true);
    story.give(SessionInput::Opened { connection: 1 });
    story.event(1, json!({"type": "session.created"}));
    let refusal = json!({"type": "error", "error": {"code": "unknown_parameter"}});
    story.event(1, refusal.clone());
    let updates = story.sent(1);
    assert_eq!(updates.len(), 2);
    assert!(updates[0]["session"].get("truncation").is_some());
    assert!(updates[1]["session"].get("truncation").is_none());
    for connection in 1..=3 {
        if connection > 1 {
            story.give(SessionInput::Opened { connection });
            story.event(connection, json!({"type": "session.created"}));
        }
        story.event(connection, refusal.clone());
        story.until(u64::from(connection) * 1_000);
    }
    assert!(
        matches!(story.told()[..], [VoiceEvent::Lost(words)] if words.contains("unknown_parameter"))
    );
}

#[test]
fn an_answer_in_writing_is_asked_for_in_speech() {
    let mut story = Story::live();
    let written = |story: &mut Story, id: &str| {
        story.created(id);
        story.event(1, json!({"type": "response.text.delta", "response_id": id, "item_id": id, "delta": "Halo"}));
        story.done(id, "completed");
    };
    written(&mut story, "a");
    assert_eq!(
        story.types(1),
        ["conversation.item.delete", "response.create"]
    );
    assert_eq!(
        story.sent(1)[1]["response"]["output_modalities"],
        json!(["audio"])
    );
    assert!(
        !story
            .told()
            .iter()
            .any(|it| matches!(it, VoiceEvent::AgentSaid(_)))
    );
    story.says("b", 100);
    for id in ["c", "d", "e"] {
        written(&mut story, id);
    }
    assert_eq!(story.opened(), [2], "three in a row are a fault");
}

#[test]
fn a_summary_is_written_beside_the_conversation() {
    let mut story = Story::live();
    story.created("a");
    story.done.clear();
    story.say(VoiceInput::Summarise);
    assert_eq!(story.types(1), ["response.cancel"]);
    story.audio("a", 100);
    story.event(
        1,
        json!({"type": "error", "error": {"code": "response_cancel_not_active"}}),
    );
    story.done("a", "cancelled");
    let request = story.sent(1).pop().unwrap();
    assert_eq!(request["response"]["conversation"], "none");
    assert_eq!(request["response"]["output_modalities"], json!(["text"]));
    story.say(VoiceInput::Audio(vec![1; 320]));
    story.created("s");
    assert!(story.told().is_empty());
    for delta in [" The caller ", "wanted coffee. "] {
        story.event(1, json!({"type": "response.output_text.delta", "response_id": "s", "item_id": "i", "delta": delta}));
    }
    let usage = json!({"input_tokens": 7});
    story.event(1, json!({"type": "response.done", "response": {"id": "s", "status": "completed", "usage": usage}}));
    let told = story.told();
    assert_eq!(told[0], &VoiceEvent::Summarising);
    assert!(matches!(told[1], VoiceEvent::Usage(_)), "it is paid for");
    assert_eq!(
        told[2],
        &VoiceEvent::Summary("The caller wanted coffee.".to_owned())
    );
    assert_eq!(told.len(), 3);
}

#[test]
fn a_gateway_that_refuses_to_answer_beside_is_asked_within() {
    let mut story = Story::live();
    story.say(VoiceInput::Summarise);
    story.done.clear();
    let error = json!({"code": "invalid_value", "event_id": "summary"});
    story.event(1, json!({"type": "error", "error": error}));
    assert_eq!(
        story.types(1),
        ["conversation.item.create", "response.create"]
    );
    assert_eq!(
        story.sent(1)[1]["response"],
        json!({"output_modalities": ["text"]})
    );
    story.event(1, json!({"type": "error", "error": error}));
    assert_eq!(story.types(1).len(), 2, "not for ever");
}

#[test]
fn what_is_interrupted_stands_in_the_record_as_far_as_it_was_heard() {
    let mut story = Story::live();
    story.created("a");
    story.audio("a", 1_000);
    story.event(1, json!({"type": "response.output_audio_transcript.delta", "response_id": "a", "item_id": "item-a", "delta": "0123456789"}));
    story.done("a", "completed");
    story.says("b", 1_000);
    story.caller("speech_started", "c");
    story.say(VoiceInput::Interrupted { played_ms: 700 });
    story.closed(1, "gone");
    story.until(1_000);
    story.set_up(2);
    let items = story.sent(2);
    let texts: Vec<_> = items
        .iter()
        .filter_map(|it| it["item"]["content"][0]["text"].as_str())
        .collect();
    assert_eq!(
        texts,
        ["words of greeting", "012"],
        "400 ms of the greeting were played before"
    );
}

#[test]
fn a_response_that_never_begins_is_a_fault() {
    let mut story = Story::live();
    story.say(VoiceInput::Keys("the caller pressed 1".to_owned()));
    story.until(9_999);
    assert!(story.opened().is_empty());
    story.until(10_000);
    assert_eq!(story.opened(), [2]);
}

#[test]
fn three_connections_that_bring_nothing_are_the_end() {
    let mut story = Story::live();
    for connection in 1..=4 {
        if connection > 1 {
            story.set_up(connection);
        }
        story.until(story.now.as_millis() as u64 + 3_000);
        story.closed(connection, "gone");
        story.until(story.now.as_millis() as u64 + 1_000);
    }
    assert!(
        matches!(story.told().last(), Some(VoiceEvent::Lost(words)) if words.contains("brought nothing"))
    );
}

#[test]
fn eight_seconds_without_a_model_are_the_end() {
    let mut silent = Story::new(true);
    silent.give(SessionInput::Opened { connection: 1 });
    silent.until(7_999);
    assert!(!silent.machine.is_over());
    silent.until(8_000);
    assert!(matches!(silent.told()[..], [VoiceEvent::Lost(_)]));
}

#[test]
fn what_the_caller_says_meanwhile_is_held_and_comes_in_24_kilohertz() {
    let mut story = Story::live();
    story.closed(1, "gone");
    for _ in 0..500 {
        story.say(VoiceInput::Audio(vec![1; 320]));
    }
    story.set_up(2);
    let audio = story.done.iter().filter_map(|effect| match effect {
        SessionEffect::Send {
            connection: 2,
            message,
        } => {
            let message = serde_json::to_value(message).unwrap();
            let audio = message["audio"]
                .as_str()
                .map(|it| BASE64_STANDARD.decode(it).unwrap());
            audio.map(|it| it.len() / 2)
        }
        _ => None,
    });
    assert_eq!(audio.sum::<usize>(), 3 * 24_000);
}

fn any_input() -> impl Strategy<Value = SessionInput> {
    let event = prop_oneof![
        Just(json!({"type": "session.created"})),
        Just(json!({"type": "session.updated"})),
        Just(json!({"type": "input_audio_buffer.speech_started", "item_id": "c"})),
        Just(json!({"type": "input_audio_buffer.speech_stopped", "item_id": "c"})),
        (0..3_u8).prop_map(|n| json!({"type": "response.created", "response": {"id": n.to_string()}})),
        (0..3_u8).prop_map(|n| json!({"type": "response.output_audio.delta", "response_id": n.to_string(), "item_id": n.to_string(), "delta": "AAAA"})),
        (0..3_u8, prop_oneof![Just("completed"), Just("failed"), Just("cancelled")])
            .prop_map(|(n, status)| json!({"type": "response.done", "response": {"id": n.to_string(), "status": status}})),
        (0..4_u8).prop_map(|n| json!({"type": "response.output_item.done", "response_id": "", "item":
            {"type": "function_call", "call_id": n.to_string(), "name": "f", "arguments": "{}"}})),
        prop_oneof![Just("session_expired"), Just("x"), Just("conversation_already_has_active_response"), Just("model_not_found")]
            .prop_map(|code| json!({"type": "error", "error": {"code": code, "event_id": "summary"}})),
    ];
    prop_oneof![
        (1..6_u32).prop_map(|connection| SessionInput::Opened { connection }),
        (1..6_u32, event).prop_map(|(connection, message)| SessionInput::Message {
            connection,
            message: Box::new(serde_json::from_value(message).unwrap()),
        }),
        (1..6_u32, any::<bool>()).prop_map(|(connection, refused)| SessionInput::Closed {
            connection,
            why: CloseReason {
                refused,
                words: "gone".to_owned(),
                ..CloseReason::default()
            },
        }),
        Just(SessionInput::Spoken(VoiceInput::Audio(vec![0; 320]))),
        Just(SessionInput::Spoken(VoiceInput::Text("t".to_owned()))),
        Just(SessionInput::Spoken(VoiceInput::Summarise)),
        (0..9_000_u64)
            .prop_map(|played_ms| SessionInput::Spoken(VoiceInput::Interrupted { played_ms })),
        (0..4_u8).prop_map(|n| SessionInput::Spoken(VoiceInput::ToolOutcome {
            id: n.to_string(),
            outcome: ToolOutcome::success(json!({})),
        })),
        (1..6_u32).prop_map(|connection| SessionInput::Rubbish { connection }),
        Just(SessionInput::Time),
    ]
}

proptest! {
    /// Invariants for any input: the terms come first on a connection, nothing after it was closed; nothing follows `Lost`; and
    /// without a model there is always a deadline.
    #[test]
    fn order_is_kept(inputs in prop::collection::vec((any_input(), 0..2_000_u64), 0..120)) {
        let mut story = Story::new(true);
        let mut opened = HashSet::new();
        for (input, pause) in inputs {
            match input {
                // A socket opens once, and only after it was requested.
                SessionInput::Opened { connection } if !story.opened().contains(&connection) || !opened.insert(connection) => {}
                input => story.give(input),
            }
            let next = story.now + Duration::from_millis(pause);
            story.until(next.as_millis() as u64);
            prop_assert!(story.machine.is_over() || story.machine.due().is_some());
        }
        let (mut set_up, mut closed) = (HashSet::new(), HashSet::new());
        for effect in &story.done {
            match effect {
                SessionEffect::Send { connection, message } => {
                    let is_update = message.event_id == Some(super::super::session_update::UPDATE_ID);
                    prop_assert!(is_update || set_up.contains(connection));
                    prop_assert!(!closed.contains(connection));
                    set_up.insert(*connection);
                }
                SessionEffect::Close { connection } => { closed.insert(*connection); }
                SessionEffect::Open { .. } | SessionEffect::Tell(_) | SessionEffect::Warn(_) => {}
            }
        }
        let lost = story.done.iter().position(|it| matches!(it, SessionEffect::Tell(VoiceEvent::Lost(_))));
        prop_assert!(lost.is_none_or(|at| at + 1 == story.done.len()));
    }
}
