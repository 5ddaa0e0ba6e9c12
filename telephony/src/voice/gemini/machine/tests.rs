//! The decisions of the machine, without a socket.

mod handover;

use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine};
use dikala_protocol::CallAgent;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::SessionMachine;
use crate::voice::{
    ToolOutcome, VoiceEvent, VoiceInput,
    common::{CloseReason, SessionEffect, VoiceMachine},
    gemini::{
        setup::SessionSettings,
        wire::{client::ClientMessage, server::ServerMessage},
    },
};

type SessionInput = crate::voice::common::SessionInput<ServerMessage>;

const STABLE: &str = "gemini-3.8-live";
const BLOCKING: &str = "gemini-3.1-flash-live-preview";

/// A machine with its clock, and all its effects.
struct Story {
    machine: SessionMachine,
    now: Duration,
    done: Vec<SessionEffect<ClientMessage>>,
}

fn agent() -> CallAgent {
    serde_json::from_value(
        json!({"id": "a", "name": "Ayu", "systemPrompt": "You are Ayu.", "voiceId": null, "greetingText": "Halo!", "language": "id",
            "maxCallDurationMinutes": 10, "escalationNumber": null, "tools": [],
            "functions": [{"name": "f", "description": "F.", "parameters": {"type": "object"}}]}),
    )
    .unwrap()
}

impl Story {
    fn new(model: &str) -> Self {
        let mut story = Self {
            machine: SessionMachine::new(SessionSettings::new(agent(), model), &[], false),
            now: Duration::ZERO,
            done: Vec::new(),
        };
        story.give(SessionInput::Spoken(VoiceInput::Greet));
        story
    }

    /// A machine whose first connection is set up, with a handle.
    fn live(model: &str) -> Self {
        let mut story = Self::new(model);
        story.set_up(1);
        story.resumable(1, "h1");
        story.done.clear();
        story
    }

    fn give(&mut self, input: SessionInput) {
        let done = self.machine.step(input, self.now);
        self.done.extend(done);
    }

    /// The model sends these samples on its first connection.
    fn speaks(&mut self, bytes: &[u8]) {
        let data = BASE64_STANDARD.encode(bytes);
        let blob = json!({"mimeType": "audio/pcm;rate=24000", "data": data});
        let turn = json!({"parts": [{"inlineData": blob}]});
        self.message(1, json!({"serverContent": {"modelTurn": turn}}));
    }

    fn message(&mut self, connection: u32, message: Value) {
        let message = serde_json::from_value(message).unwrap();
        self.give(SessionInput::Message {
            connection,
            message: Box::new(message),
        });
    }

    fn set_up(&mut self, connection: u32) {
        self.give(SessionInput::Opened { connection });
        self.message(connection, json!({"setupComplete": {}}));
        self.message(
            connection,
            json!({"serverContent": {"modelTurn": {"parts": [{"inlineData":
            {"mimeType": "audio/pcm;rate=24000", "data": "AAAA"}}]}, "turnComplete": true}}),
        );
    }

    fn resumable(&mut self, connection: u32, handle: &str) {
        self.message(
            connection,
            json!({"sessionResumptionUpdate": {"newHandle": handle, "resumable": true}}),
        );
    }

    fn closed(&mut self, connection: u32, refused: bool) {
        self.give(SessionInput::Closed {
            connection,
            why: CloseReason {
                refused,
                words: "gone".to_owned(),
                ..CloseReason::default()
            },
        });
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

    fn call(&mut self, connection: u32, id: &str) {
        self.message(
            connection,
            json!({"toolCall": {"functionCalls": [{"id": id, "name": "f", "args": {"n": 1}}]}}),
        );
    }

    fn outcome(&mut self, id: &str) {
        let outcome = ToolOutcome::success(json!({"is": 7}));
        self.give(SessionInput::Spoken(VoiceInput::ToolOutcome {
            id: id.to_owned(),
            outcome,
        }));
    }

    fn audio(&mut self) {
        self.give(SessionInput::Spoken(VoiceInput::Audio(vec![1; 320])));
    }

    /// The messages sent on a connection, as JSON.
    fn sent(&self, on: u32) -> Vec<Value> {
        let of = |effect: &SessionEffect<ClientMessage>| match effect {
            SessionEffect::Send {
                connection,
                message,
            } if *connection == on => serde_json::to_value(message).ok(),
            _ => None,
        };
        self.done.iter().filter_map(of).collect()
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

    fn opened(&self) -> Vec<u32> {
        let of = |effect: &SessionEffect<ClientMessage>| match effect {
            SessionEffect::Open { connection } => Some(*connection),
            _ => None,
        };
        self.done.iter().filter_map(of).collect()
    }

    fn answers(&self, on: u32) -> Vec<Value> {
        let sent = self.sent(on);
        let of = |message: &Value| message["toolResponse"]["functionResponses"][0].clone();
        sent.iter().map(of).filter(|it| !it.is_null()).collect()
    }

    fn pieces(&self, on: u32) -> usize {
        let sent = self.sent(on);
        let audio = |it: &&Value| it["realtimeInput"].get("audio").is_some();
        sent.iter().filter(audio).count()
    }
}

#[test]
fn who_waits_for_a_function_is_not_asked_for_words_that_would_come_after_it() {
    for (model, texts) in [(BLOCKING, 0), (STABLE, 1)] {
        let mut story = Story::live(model);
        story.call(1, "c");
        let patience = VoiceInput::AnswerNow("Ask for patience.".to_owned());
        story.give(SessionInput::Spoken(patience));
        let cannot = SessionEffect::Tell(VoiceEvent::CannotSpeak);
        assert_eq!(story.done.contains(&cannot), texts == 0, "{model}");
        story.outcome("c");
        story.until(1_000);
        let is_text = |it: &&Value| it["realtimeInput"].get("text").is_some();
        assert_eq!(
            story.sent(1).iter().filter(is_text).count(),
            texts,
            "{model}"
        );
        assert_eq!(story.answers(1).len(), 1);
    }
}

#[test]
fn the_first_words_are_the_greeting() {
    for (model, path) in [
        (STABLE, "/realtimeInput/text"),
        (BLOCKING, "/realtimeInput/text"),
        (
            "gemini-2.5-flash-native-audio-latest",
            "/clientContent/turns/0/parts/0/text",
        ),
    ] {
        let mut story = Story::new(model);
        assert_eq!(story.opened(), [1]);
        story.give(SessionInput::Opened { connection: 1 });
        story.audio();
        assert_eq!(story.sent(1).len(), 1, "nothing before the setup is taken");
        assert!(story.sent(1)[0].get("setup").is_some());
        story.message(1, json!({"setupComplete": {}}));
        let sent = story.sent(1);
        let greeting = sent.iter().find_map(|it| it.pointer(path)).unwrap();
        assert!(greeting.as_str().unwrap().contains("Halo!"), "{greeting}");
        assert_eq!(story.pieces(1), 1, "what was held follows");
        assert_eq!(story.told(), [&VoiceEvent::Ready]);
    }
}

#[test]
fn every_message_has_one_key() {
    let mut story = Story::live(STABLE);
    story.audio();
    let keys = "the caller pressed 4 2 7 #";
    story.give(SessionInput::Spoken(VoiceInput::Keys(keys.to_owned())));
    assert_eq!(story.sent(1)[1]["realtimeInput"]["text"], keys);
    story.call(1, "a");
    story.outcome("a");
    assert_eq!(story.sent(1).len(), 3);
    for message in story.sent(1) {
        assert_eq!(message.as_object().unwrap().len(), 1, "{message}");
    }
}

#[test]
fn a_function_that_does_not_block_lets_the_talk_go_on() {
    let mut story = Story::live(STABLE);
    story.call(1, "a");
    story.audio();
    assert_eq!(story.pieces(1), 1);
    story.outcome("a");
    let answer = &story.answers(1)[0];
    assert_eq!(
        *answer,
        json!({"id": "a", "name": "f", "response": {"output": {"is": 7}}, "scheduling": "WHEN_IDLE"})
    );
}

#[test]
fn nothing_is_sent_in_realtime_while_a_blocking_function_runs() {
    let mut story = Story::live(BLOCKING);
    story.call(1, "a");
    for _ in 0..10 {
        story.audio();
    }
    story.give(SessionInput::Spoken(VoiceInput::Text("psst".to_owned())));
    assert!(story.sent(1).is_empty());
    story.outcome("a");
    let sent = story.sent(1);
    assert!(
        sent[0].get("toolResponse").is_some(),
        "the answer comes first"
    );
    assert_eq!(
        sent[0].pointer("/toolResponse/functionResponses/0/scheduling"),
        None
    );
    assert_eq!(story.pieces(1), 5, "200 ms in pieces of 40");
    assert_eq!(sent[1]["realtimeInput"]["text"], "[psst]");
}

#[test]
fn the_gate_opens_on_cancellation_and_after_ten_seconds() {
    let mut story = Story::live(BLOCKING);
    story.call(1, "a");
    story.audio();
    story.message(1, json!({"toolCallCancellation": {"ids": ["a"]}}));
    assert_eq!(story.pieces(1), 1);
    let ids = vec!["a".to_owned()];
    assert!(story.told().contains(&&VoiceEvent::ToolCancelled { ids }));
    story.call(1, "b");
    // The repeat is the same call, which was not carried out twice.
    assert!(
        !story
            .told()
            .iter()
            .any(|it| matches!(it, VoiceEvent::Tool { id, .. } if id == "b"))
    );
    story.audio();
    story.until(9_999);
    assert_eq!(story.pieces(1), 1);
    story.until(10_000);
    assert_eq!(story.pieces(1), 2);
}

#[test]
fn what_the_caller_says_meanwhile_is_held_and_bounded() {
    let mut story = Story::live(STABLE);
    story.now = Duration::from_secs(20);
    story.closed(1, false);
    assert_eq!(story.opened(), [2]);
    for _ in 0..500 {
        story.audio();
    }
    story.give(SessionInput::Spoken(VoiceInput::Text("psst".to_owned())));
    story.give(SessionInput::Opened { connection: 2 });
    story.message(2, json!({"setupComplete": {}}));
    assert_eq!(story.pieces(2), 75, "3 s in pieces of 40 ms");
    let sent = story.sent(2);
    assert_eq!(sent[0]["setup"]["sessionResumption"]["handle"], "h1");
    assert_eq!(sent[1]["realtimeInput"]["text"], "[psst]");
    assert_eq!(story.told(), [&VoiceEvent::Away, &VoiceEvent::Reconnected]);
}

#[test]
fn a_goaway_is_followed_in_a_quiet_moment_and_the_old_socket_closed_first() {
    let mut story = Story::live(STABLE);
    story.message(
        1,
        json!({"serverContent": {"modelTurn": {"parts": [{"inlineData":
        {"mimeType": "audio/pcm;rate=24000", "data": "AAAA"}}]}}}),
    );
    story.message(1, json!({"goAway": {"timeLeft": "10s"}}));
    assert_eq!(story.opened(), [2]);
    story.give(SessionInput::Opened { connection: 2 });
    story.until(5_000);
    assert!(
        !story.done.contains(&SessionEffect::Close { connection: 1 }),
        "it speaks"
    );
    story.message(1, json!({"serverContent": {"turnComplete": true}}));
    assert!(story.done.contains(&SessionEffect::Close { connection: 1 }));
    assert!(
        story.sent(2).is_empty(),
        "the old socket still has the session"
    );
    story.audio();
    story.closed(1, false);
    assert_eq!(
        story.sent(2)[0]["setup"]["sessionResumption"]["handle"],
        "h1"
    );
    story.message(2, json!({"setupComplete": {}}));
    assert_eq!(story.pieces(2), 1);
    assert!(!story.told().contains(&&VoiceEvent::Away));
}

/// The service sends `goAway` on each connection at once, and can resume the session on the next.
#[test]
fn a_storm_of_goaways_is_followed_slowly() {
    for left in ["0s", "5s"] {
        let mut story = Story::live(STABLE);
        let mut connection = 1;
        while story.now < Duration::from_secs(60) {
            story.message(connection, json!({"goAway": {"timeLeft": left}}));
            let now = u64::try_from(story.now.as_millis()).unwrap();
            story.until(now + 20);
            if story.opened().last() != Some(&(connection + 1)) {
                continue;
            }
            let old = connection;
            connection += 1;
            story.give(SessionInput::Opened { connection });
            story.closed(old, false);
            story.message(connection, json!({"setupComplete": {}}));
            story.resumable(connection, "h");
        }
        // 0, 0.1, 0.3 and 0.6 s, then a second each.
        assert!((50..=65).contains(&connection), "{left}: {connection}");
        assert!(
            !story
                .told()
                .iter()
                .any(|it| matches!(it, VoiceEvent::Lost(_)))
        );
    }
}

#[test]
fn a_goaway_is_followed_in_time_whatever_goes_on() {
    let mut story = Story::live(STABLE);
    story.call(1, "a");
    story.message(1, json!({"goAway": {"timeLeft": "5s"}}));
    story.give(SessionInput::Opened { connection: 2 });
    story.until(2_999);
    assert!(story.sent(2).is_empty());
    story.until(3_000);
    assert!(story.done.contains(&SessionEffect::Close { connection: 1 }));
    // It does not wait long for a socket that does not close.
    story.until(3_100);
    assert!(story.sent(2)[0].get("setup").is_some());
}

#[test]
fn a_refused_handle_begins_a_session_that_knows_what_was_said() {
    for (model, greeting) in [(STABLE, 1), (BLOCKING, 0)] {
        let mut story = Story::live(model);
        story.message(
            1,
            json!({"serverContent": {"inputTranscription": {"text": "Where is my order?"}}}),
        );
        story.message(1, json!({"serverContent": {"outputTranscription": {"text": "I look."}, "turnComplete": true}}));
        story.closed(1, false);
        story.give(SessionInput::Opened { connection: 2 });
        story.closed(2, true);
        story.give(SessionInput::Opened { connection: 3 });
        story.message(3, json!({"setupComplete": {}}));
        let sent = story.sent(3);
        assert_eq!(sent[0]["setup"]["sessionResumption"], json!({}));
        let text = sent.iter().map(Value::to_string).collect::<String>();
        assert!(
            text.contains("Where is my order?") && text.contains("I look."),
            "{text}"
        );
        assert!(!text.contains("Halo!"), "it does not greet again");
        let turns = sent.iter().filter(|it| it.get("clientContent").is_some());
        assert_eq!(turns.count(), greeting, "{model}");
    }
}

#[test]
fn an_outcome_that_comes_while_the_model_is_away_is_told_afterwards() {
    let mut story = Story::live(STABLE);
    story.call(1, "a");
    story.resumable(1, "h2");
    story.closed(1, false);
    story.outcome("a");
    story.give(SessionInput::Opened { connection: 2 });
    story.message(2, json!({"setupComplete": {}}));
    assert_eq!(story.answers(2)[0]["id"], "a");
}

#[test]
fn a_resumed_model_that_does_not_know_that_it_asked_is_told_in_words() {
    let mut story = Story::live(STABLE);
    story.now = Duration::from_secs(1);
    story.call(1, "a");
    story.closed(1, false);
    story.give(SessionInput::Opened { connection: 2 });
    story.message(2, json!({"setupComplete": {}}));
    story.outcome("a");
    assert_eq!(story.answers(2)[0]["id"], "a");
    let words = |story: &Story, on: u32| {
        let sent = story.sent(on);
        let told = |it: &&Value| {
            it["realtimeInput"]["text"]
                .as_str()
                .is_some_and(|it| it.contains("The function f"))
        };
        sent.iter().filter(told).count()
    };
    assert_eq!(words(&story, 2), 0);
    // The answer was refused by its session: it is repeated as text in the next.
    story.closed(2, true);
    story.give(SessionInput::Opened { connection: 3 });
    story.message(3, json!({"setupComplete": {}}));
    assert_eq!((words(&story, 3), story.answers(3).len()), (1, 0));
}

#[test]
fn what_is_asked_again_after_a_reconnection_gets_the_outcome_that_is_there() {
    let mut story = Story::live(STABLE);
    story.call(1, "a");
    story.outcome("a");
    story.closed(1, false);
    story.give(SessionInput::Opened { connection: 2 });
    story.message(2, json!({"setupComplete": {}}));
    story.call(2, "b");
    assert_eq!(story.answers(2)[0]["id"], "b");
    let wishes = story
        .told()
        .into_iter()
        .filter(|it| matches!(it, VoiceEvent::Tool { .. }));
    assert_eq!(wishes.count(), 1);
}

#[test]
fn a_fresh_session_is_told_in_words_what_an_earlier_one_asked() {
    let mut story = Story::live(STABLE);
    story.call(1, "a");
    story.closed(1, false);
    story.give(SessionInput::Opened { connection: 2 });
    story.closed(2, true);
    story.give(SessionInput::Opened { connection: 3 });
    story.message(3, json!({"setupComplete": {}}));
    story.outcome("a");
    assert!(story.answers(3).is_empty());
    let last = story.sent(3).pop().unwrap();
    let words = last["realtimeInput"]["text"].as_str().unwrap();
    assert!(
        words.contains("The function f") && words.contains("\"is\":7"),
        "{words}"
    );
}

/// Connections that are lost one after the other, each after `lasted_ms` and this message.
fn in_a_row(count: u32, lasted_ms: u64, came: Option<Value>) -> Story {
    let mut story = Story::live(STABLE);
    for connection in 1..=count {
        if let Some(message) = came.clone() {
            story.message(connection, message);
        }
        story.until(story.now.as_millis() as u64 + lasted_ms);
        story.closed(connection, false);
        story.until(story.now.as_millis() as u64 + 1_000);
        if story.machine.is_over() {
            return story;
        }
        story.give(SessionInput::Opened {
            connection: connection + 1,
        });
        story.message(connection + 1, json!({"setupComplete": {}}));
    }
    story
}

#[test]
fn three_connections_that_bring_nothing_are_the_end() {
    let story = in_a_row(9, 9_000, None);
    assert!(
        matches!(story.told().last(), Some(VoiceEvent::Lost(words)) if words.contains("brought nothing"))
    );
    // The first one has brought the greeting.
    assert_eq!(story.opened(), [2, 3, 4]);
    assert_eq!(story.machine.due(), None);
    // A connection that lasted is no failure, nor one that brought something or can be resumed.
    assert!(!in_a_row(9, 10_000, None).machine.is_over());
    for came in [
        json!({"serverContent": {"inputTranscription": {"text": "yes"}}}),
        json!({"toolCall": {"functionCalls": [{"id": "a", "name": "f", "args": {}}]}}),
        json!({"sessionResumptionUpdate": {"newHandle": "h", "resumable": true}}),
    ] {
        let story = in_a_row(9, 3_000, Some(came.clone()));
        assert!(!story.machine.is_over(), "{came}");
    }
    let update = json!({"sessionResumptionUpdate": {"newHandle": "", "resumable": false}});
    assert!(in_a_row(9, 3_000, Some(update)).machine.is_over());
}

#[test]
fn who_closes_at_once_again_and_again_is_not_asked_without_a_pause() {
    let handle = json!({"sessionResumptionUpdate": {"newHandle": "h", "resumable": true}});
    let mut story = Story::live(STABLE);
    let mut opened_at = Vec::new();
    for connection in 2..8 {
        story.closed(connection - 1, false);
        let lost = story.now;
        while !story.opened().contains(&connection) {
            let due = story.machine.due().unwrap();
            story.until(due.as_millis() as u64);
        }
        opened_at.push((story.now - lost).as_millis());
        story.give(SessionInput::Opened { connection });
        story.message(connection, json!({"setupComplete": {}}));
        story.message(connection, handle.clone());
    }
    assert_eq!(opened_at, [0, 100, 300, 600, 1_000, 1_000]);
}

#[test]
fn a_standing_socket_may_take_what_is_left_of_the_eight_seconds() {
    let mut story = Story::live(STABLE);
    story.now = Duration::from_secs(20);
    story.closed(1, false);
    story.until(21_000);
    story.give(SessionInput::Opened { connection: 2 });
    story.until(27_999);
    assert_eq!(story.opened(), [2]);
    assert_eq!(story.told(), [&VoiceEvent::Away]);
    let mut late = Story::live(STABLE);
    late.now = Duration::from_secs(20);
    late.closed(1, false);
    late.give(SessionInput::Opened { connection: 2 });
    late.until(28_000);
    assert!(matches!(late.told().last(), Some(VoiceEvent::Lost(_))));
    story.message(2, json!({"setupComplete": {}}));
    assert_eq!(story.told(), [&VoiceEvent::Away, &VoiceEvent::Reconnected]);
}

#[test]
fn a_farewell_after_which_the_setup_is_slow_is_told() {
    let mut story = Story::live(STABLE);
    story.message(1, json!({"goAway": {"timeLeft": "10s"}}));
    story.give(SessionInput::Opened { connection: 2 });
    story.closed(1, false);
    story.until(299);
    assert!(story.told().is_empty(), "{:?}", story.told());
    story.until(300);
    assert_eq!(story.told(), [&VoiceEvent::Away]);
}

#[test]
fn eight_seconds_without_a_model_are_the_end() {
    let mut story = Story::live(STABLE);
    story.now = Duration::from_secs(20);
    story.closed(1, false);
    let mut now = 20_000;
    while !story.machine.is_over() {
        if let Some(connection) = story.opened().last().copied() {
            story.closed(connection, false);
        }
        now += 100;
        story.until(now);
        assert!(now <= 28_100, "it goes on for ever");
    }
    assert_eq!(now, 28_000);
    let aways = story
        .told()
        .into_iter()
        .filter(|it| **it == VoiceEvent::Away);
    assert_eq!(aways.count(), 1);
}

#[test]
fn a_setup_that_is_never_answered_is_the_end_after_eight_seconds() {
    let mut story = Story::new(STABLE);
    story.give(SessionInput::Opened { connection: 1 });
    story.until(7_999);
    assert!(!story.machine.is_over());
    story.until(8_000);
    assert!(
        matches!(story.told()[..], [VoiceEvent::Lost(_)]),
        "{:?}",
        story.told()
    );
}

#[test]
fn a_setup_that_is_refused_three_times_is_the_end() {
    let mut story = Story::new(STABLE);
    for connection in 1..=3 {
        story.give(SessionInput::Opened { connection });
        story.closed(connection, true);
        story.until(u64::from(connection) * 700);
    }
    assert!(
        matches!(story.told()[..], [VoiceEvent::Lost(_)]),
        "{:?}",
        story.told()
    );
    assert_eq!(story.opened().len(), 3);
}

/// The speech settings after the first setup is refused with these words.
fn speech_after_refusal(mut story: Story, words: &str) -> Value {
    story.give(SessionInput::Opened { connection: 1 });
    story.give(SessionInput::Closed {
        connection: 1,
        why: CloseReason {
            refused: true,
            words: words.to_owned(),
            ..CloseReason::default()
        },
    });
    story.until(1_000);
    story.give(SessionInput::Opened { connection: 2 });
    story.sent(2)[0]["setup"]["generationConfig"]["speechConfig"].clone()
}

#[test]
fn a_language_that_is_refused_is_left_to_the_prompt() {
    let speech = speech_after_refusal(Story::new(STABLE), "Unsupported language code 'id-ID'");
    assert!(speech.get("languageCode").is_none(), "{speech}");
}

#[test]
fn a_voice_that_is_refused_is_replaced() {
    let mut story = Story::new(STABLE);
    let agent = &mut story.machine.session_settings.agent;
    agent.voice_name = Some("Koree".to_owned());
    agent.voice_id = Some("Kore".to_owned());
    let words = "Requested voice api_name 'Koree' is not available for model";
    let speech = speech_after_refusal(story, words);
    let voice = &speech["voiceConfig"]["prebuiltVoiceConfig"]["voiceName"];
    assert_eq!(voice, "Kore");
}

#[test]
fn a_summary_is_asked_for_and_told() {
    let mut story = Story::live(STABLE);
    story.give(SessionInput::Spoken(VoiceInput::Summarise));
    let asked = story.sent(1)[0]["realtimeInput"]["text"].clone();
    assert!(
        asked.as_str().unwrap().contains("three sentences"),
        "{asked}"
    );
    story.audio();
    assert_eq!(story.pieces(1), 0, "nobody listens to the caller any more");
    assert!(story.told().is_empty());
    story.message(1, json!({"serverContent": {"outputTranscription": {"text": "old words"}, "interrupted": true}}));
    assert_eq!(story.told(), [&VoiceEvent::Summarising]);
    story.message(1, json!({"serverContent": {"turnComplete": true}}));
    story.message(
        1,
        json!({"serverContent": {"modelTurn": {"parts": [{"inlineData":
        {"mimeType": "audio/pcm;rate=24000", "data": "AAAA"}}]}}}),
    );
    story.message(
        1,
        json!({"serverContent": {"outputTranscription": {"text": " The order "}}}),
    );
    story.message(
        1,
        json!({"serverContent": {"outputTranscription": {"text": "comes."}, "turnComplete": true}}),
    );
    let told = story.told();
    assert_eq!(
        told.last(),
        Some(&&VoiceEvent::Summary("The order comes.".to_owned()))
    );
    assert!(
        !told
            .iter()
            .any(|it| matches!(it, VoiceEvent::Audio(_) | VoiceEvent::AgentSaid(_)))
    );
    // The usage may follow; other messages no longer matter.
    story.done.clear();
    story.message(
        1,
        json!({"serverContent": {"outputTranscription": {"text": "Bye."}, "turnComplete": true}}),
    );
    story.message(1, json!({"usageMetadata": {"promptTokenCount": 7}}));
    story.until(60_000);
    let usage = crate::voice::Usage {
        text_in: 7,
        ..Default::default()
    };
    assert_eq!(story.told(), [&VoiceEvent::Usage(usage)]);
}

#[test]
fn rubbish_is_passed_over_and_too_much_of_it_is_a_fault() {
    let mut story = Story::live(STABLE);
    for _ in 0..16 {
        story.give(SessionInput::Rubbish { connection: 1 });
    }
    assert!(story.done.is_empty());
    story.give(SessionInput::Rubbish { connection: 1 });
    assert!(story.done.contains(&SessionEffect::Close { connection: 1 }));
    assert_eq!(story.opened(), [2]);
}

#[test]
fn a_model_that_calls_functions_without_a_pause_is_connected_again() {
    let mut story = Story::live(STABLE);
    for number in 0..64 {
        story.call(1, &format!("a{number}"));
    }
    assert_eq!((story.told().len(), story.opened().len()), (32, 0));
    story.call(1, "one-more");
    assert_eq!(story.told().len(), 33, "that the connection is lost");
    assert!(story.done.contains(&SessionEffect::Close { connection: 1 }));
    assert_eq!(story.opened(), [2]);
}

#[test]
fn many_parts_of_a_message_are_few_pieces() {
    let mut story = Story::live(STABLE);
    let before = story.told().len();
    let part = json!({"inlineData": {"mimeType": "audio/pcm;rate=24000", "data": BASE64_STANDARD.encode([1, 2])}});
    let parts = vec![part; 5_000];
    story.message(1, json!({"serverContent": {"modelTurn": {"parts": parts}}}));
    let samples = |it: &&VoiceEvent| match it {
        VoiceEvent::Audio(samples) => samples.len(),
        _ => 0,
    };
    let told = story.told();
    assert_eq!(told[before..].iter().map(samples).sum::<usize>(), 5_000);
    assert!(told.len() - before <= 3);
}

#[test]
fn arguments_that_no_function_takes_are_refused_at_once_and_not_kept() {
    let mut story = Story::live(STABLE);
    let args = json!({"text": "x".repeat(64 * 1024)});
    let calls = json!([{"id": "a", "name": "f", "args": args}]);
    story.message(1, json!({"toolCall": {"functionCalls": calls}}));
    assert!(story.told().is_empty(), "{:?}", story.told());
    let answer = &story.answers(1)[0];
    assert_eq!((&answer["id"], &answer["name"]), (&json!("a"), &json!("f")));
    assert_eq!(answer["response"]["error"]["code"], "too_large");
    assert!(story.machine.tools.bytes() < 1_000);
}

#[test]
fn audio_that_cannot_be_played_is_no_audio() {
    let mut story = Story::live(STABLE);
    for blob in [
        json!({"mimeType": "audio/pcm;rate=24000", "data": "!!!"}),
        json!({"mimeType": "audio/pcm;rate=24000", "data": ""}),
        json!({"mimeType": "audio/pcm;rate=8000", "data": "AAAA"}),
        json!({"mimeType": "image/png", "data": "AAAA"}),
    ] {
        story.message(1, json!({"serverContent": {"modelTurn": {"parts": [{"inlineData": blob}, {}, {"text": "x"}]}}}));
    }
    assert!(story.told().is_empty(), "{:?}", story.told());
}

#[test]
fn half_a_sample_waits_for_the_rest_of_its_turn() {
    let mut story = Story::live(STABLE);
    for bytes in [&[1, 0, 2][..], &[0], &[3], &[0, 4, 0]] {
        story.speaks(bytes);
    }
    story.speaks(&[9]);
    story.message(1, json!({"serverContent": {"turnComplete": true}}));
    story.speaks(&[5, 0]);
    story.speaks(&[9]);
    story.message(1, json!({"serverContent": {"interrupted": true}}));
    story.speaks(&[6, 0]);
    let told = story.told();
    let samples = told.into_iter().filter_map(|heard| match heard {
        VoiceEvent::Audio(samples) => Some(samples.clone()),
        _ => None,
    });
    assert_eq!(samples.flatten().collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_long_message_is_told_in_pieces_of_100_ms() {
    let mut story = Story::live(STABLE);
    story.speaks(&[1; 5_000 * 2]);
    let lengths = story.told().into_iter().filter_map(|heard| match heard {
        VoiceEvent::Audio(samples) => Some(samples.len()),
        _ => None,
    });
    assert_eq!(lengths.collect::<Vec<_>>(), [2_400, 2_400, 200]);
}

fn any_input() -> impl Strategy<Value = SessionInput> {
    let message = prop_oneof![
        Just(json!({"setupComplete": {}})),
        Just(json!({"serverContent": {"modelTurn": {"parts": [{"inlineData": {"mimeType": "audio/pcm;rate=24000", "data": "AAAA"}}]}}})),
        Just(json!({"serverContent": {"turnComplete": true, "outputTranscription": {"text": "w"}}})),
        Just(json!({"serverContent": {"interrupted": true, "inputTranscription": {"text": "w"}}})),
        Just(json!({"goAway": {"timeLeft": "3s"}})),
        Just(json!({"sessionResumptionUpdate": {"newHandle": "h", "resumable": true}})),
        Just(json!({"sessionResumptionUpdate": {}})),
        Just(json!({"toolCallCancellation": {"ids": ["a"]}})),
        (0..4_u8).prop_map(|n| json!({"toolCall": {"functionCalls": [{"id": n.to_string(), "name": "f", "args": {"n": n % 2}}]}})),
    ];
    prop_oneof![
        (1..6_u32).prop_map(|connection| SessionInput::Opened { connection }),
        (1..6_u32, message).prop_map(|(connection, message)| SessionInput::Message {
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
        (0..4_u8).prop_map(|n| SessionInput::Spoken(VoiceInput::ToolOutcome {
            id: n.to_string(),
            outcome: ToolOutcome::success(json!({})),
        })),
        (1..6_u32).prop_map(|connection| SessionInput::Rubbish { connection }),
        Just(SessionInput::Time),
    ]
}

proptest! {
    /// Invariants for any input: each connection gets its setup first and once, and nothing after it was closed; nothing follows
    /// `Lost`; and without a model there is always a deadline.
    #[test]
    fn order_is_kept(model in prop_oneof![Just(STABLE), Just(BLOCKING)], inputs in prop::collection::vec((any_input(), 0..2_000_u64), 0..120)) {
        let mut story = Story::new(model);
        let mut stand = std::collections::HashSet::new();
        for (input, pause) in inputs {
            match input {
                // A socket opens once, and only after it was requested.
                SessionInput::Opened { connection } if !story.opened().contains(&connection) || !stand.insert(connection) => {}
                input => story.give(input),
            }
            let next = story.now + Duration::from_millis(pause);
            story.until(next.as_millis() as u64);
            prop_assert!(story.machine.is_over() || story.machine.live().is_some() || story.machine.due().is_some());
        }
        let mut set_up = std::collections::HashSet::new();
        let mut closed = std::collections::HashSet::new();
        for effect in &story.done {
            match effect {
                SessionEffect::Send { connection, message: ClientMessage::Setup(_) } => {
                    prop_assert!(set_up.insert(*connection) && !closed.contains(connection));
                }
                SessionEffect::Send { connection, .. } => {
                    prop_assert!(set_up.contains(connection) && !closed.contains(connection));
                }
                SessionEffect::Close { connection } => { closed.insert(*connection); }
                SessionEffect::Open { .. } | SessionEffect::Tell(_) | SessionEffect::Warn(_) => {}
            }
        }
        let lost = story.done.iter().position(|it| matches!(it, SessionEffect::Tell(VoiceEvent::Lost(_))));
        prop_assert!(lost.is_none_or(|at| at + 1 == story.done.len()));
    }
}
