//! When the model may speak first, and what it is told after a connection or a session of another voice was lost.

use dikala_entities::Speaker;

use super::*;

/// The texts sent on a connection.
fn texts(story: &Story, on: u32) -> Vec<String> {
    let text = |it: Value| it["realtimeInput"]["text"].as_str().map(str::to_owned);
    story.sent(on).into_iter().filter_map(text).collect()
}

fn ringing(so_far: &[(Speaker, String)]) -> Story {
    let mut story = Story {
        machine: SessionMachine::new(SessionSettings::new(agent(), STABLE), so_far, false),
        now: Duration::ZERO,
        done: Vec::new(),
    };
    story.give(SessionInput::Time);
    story
}

#[test]
fn nothing_is_generated_before_the_call_is_answered() {
    let mut story = ringing(&[]);
    story.give(SessionInput::Opened { connection: 1 });
    story.message(1, json!({"setupComplete": {}}));
    assert_eq!(story.told(), [&VoiceEvent::Ready]);
    assert_eq!(texts(&story, 1), [""; 0]);
    // The connection is lost while it still rings.
    story.resumable(1, "h1");
    story.closed(1, false);
    story.until(1_000);
    story.give(SessionInput::Opened { connection: 2 });
    story.message(2, json!({"setupComplete": {}}));
    assert_eq!(texts(&story, 2), [""; 0]);
    for _ in 0..2 {
        story.give(SessionInput::Spoken(VoiceInput::Greet));
    }
    let greetings = texts(&story, 2);
    assert!(
        greetings.len() == 1 && greetings[0].contains("Halo!"),
        "{greetings:?}"
    );
}

#[test]
fn a_model_that_was_cut_off_in_an_answer_says_it_again() {
    for (is_answering, asked) in [(true, true), (true, false), (false, true)] {
        let mut story = Story::live(STABLE);
        if asked {
            let text = json!({"text": "Where is my order?"});
            story.message(1, json!({"serverContent": {"inputTranscription": text}}));
        }
        story.speaks(&[1, 0, 1, 0]);
        if !is_answering {
            story.message(1, json!({"serverContent": {"generationComplete": true}}));
        }
        story.closed(1, false);
        story.until(1_000);
        story.give(SessionInput::Opened { connection: 2 });
        story.message(2, json!({"setupComplete": {}}));
        let texts = texts(&story, 2);
        assert_eq!(texts.len(), usize::from(is_answering), "{texts:?}");
        if let Some(text) = texts.first() {
            assert!(text.starts_with('[') && text.contains("again"), "{text}");
            assert_eq!(text.contains("Where is my order?"), asked, "{text}");
        }
    }
}

#[test]
fn a_session_that_takes_over_knows_what_was_said_and_does_not_greet() {
    let so_far = [
        (Speaker::Agent, "Halo!".to_owned()),
        (Speaker::Caller, "Where is my order?".to_owned()),
        (Speaker::Tool, "check_order".to_owned()),
    ];
    let mut story = ringing(&so_far);
    story.give(SessionInput::Spoken(VoiceInput::Greet));
    story.give(SessionInput::Opened { connection: 1 });
    story.message(1, json!({"setupComplete": {}}));
    let sent = story.sent(1);
    let turns = sent
        .iter()
        .find_map(|it| it.pointer("/clientContent/turns"));
    let turns = turns.and_then(Value::as_array).expect("the conversation");
    let said: Vec<&str> = turns
        .iter()
        .filter_map(|it| it["parts"][0]["text"].as_str())
        .collect();
    assert_eq!(said[..3], ["Halo!", "Where is my order?", "[check_order]"]);
    assert!(said[3].contains("Do not greet again"), "{said:?}");
}

#[test]
fn a_turn_whose_end_was_not_told_is_over_on_the_next_connection() {
    for is_announced in [true, false] {
        let mut story = Story::live(STABLE);
        story.speaks(&[1, 0, 1, 0]);
        story.resumable(1, "h2");
        story.message(1, json!({"serverContent": {"generationComplete": true}}));
        if is_announced {
            story.message(1, json!({"goAway": {"timeLeft": "10s"}}));
            story.give(SessionInput::Opened { connection: 2 });
            assert!(story.done.contains(&SessionEffect::Close { connection: 1 }));
        }
        story.closed(1, false);
        if !is_announced {
            story.give(SessionInput::Opened { connection: 2 });
        }
        assert!(!story.told().contains(&&VoiceEvent::TurnOver));
        story.message(2, json!({"setupComplete": {}}));
        let told = story.told();
        assert_eq!(
            told[told.len() - 2..],
            [&VoiceEvent::TurnOver, &VoiceEvent::Reconnected]
        );
    }
}

#[test]
fn a_session_that_is_resumed_often_and_says_nothing_is_begun_anew() {
    let mut story = Story::live(STABLE);
    let mut handles = Vec::new();
    for connection in 2..8 {
        story.closed(connection - 1, false);
        story.until(story.now.as_millis() as u64 + 1_000);
        story.give(SessionInput::Opened { connection });
        story.message(connection, json!({"setupComplete": {}}));
        story.resumable(connection, "h");
        let setup = &story.sent(connection)[0]["setup"];
        handles.push(setup["sessionResumption"]["handle"].is_string());
        if connection == 5 {
            let text = json!({"text": "yes"});
            story.message(
                connection,
                json!({"serverContent": {"inputTranscription": text}}),
            );
        }
    }
    assert_eq!(handles, [true, true, false, true, true, true]);
}
