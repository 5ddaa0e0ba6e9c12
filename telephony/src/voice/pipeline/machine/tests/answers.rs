//! Answers: clauses, functions, summaries.

use super::*;

#[test]
fn the_greeting_is_spoken_without_a_model() {
    let mut story = Story::with(true, &[]);
    assert_eq!(story.told, [VoiceEvent::Ready]);
    assert!(story.open.is_empty(), "nothing is made before the answer");
    story.say(VoiceInput::Greet);
    story.say(VoiceInput::Greet);
    assert_eq!(story.clauses(), ["Kopi Senja, selamat pagi!"]);
    story.sounds(250);
    story.speaks(250);
    assert_eq!(story.milliseconds(), 500);
    assert_eq!(story.said(), "Kopi Senja, selamat pagi! ");
    assert_eq!(story.told.last(), Some(&VoiceEvent::TurnOver));
    let short = |told: &VoiceEvent| !matches!(told, VoiceEvent::Audio(it) if it.len() > 2_400);
    assert!(story.told.iter().all(short));
    assert!(!story.is_thinking());
}

#[test]
fn an_agent_without_a_greeting_makes_one() {
    let mut story = Story::with(true, &[]);
    story.machine.agent.greeting_text = None;
    story.say(VoiceInput::Greet);
    assert!(
        story
            .asked()
            .starts_with("user: [The call has just been answered. Greet")
    );
}

#[test]
fn a_voice_that_takes_over_goes_on() {
    let so_far = [
        (Speaker::Agent, "Kopi Senja!".to_owned()),
        (Speaker::Caller, "Where is my order?".to_owned()),
    ];
    let mut story = Story::with(true, &so_far);
    story.say(VoiceInput::Greet);
    let messages = story.messages();
    assert_eq!(messages[2], "assistant: Kopi Senja!");
    assert!(
        messages[3].starts_with("user: Where is my order?\n[The line to you"),
        "{messages:?}"
    );
}

#[test]
fn clauses_are_spoken_as_they_are_written_and_two_are_made_at_once() {
    let mut story = Story::greeted();
    story.caller_says("What is there?");
    story.writes("There is coffee.");
    assert!(story.clauses().is_empty(), "the sentence may go on");
    story.writes(" There is tea. And");
    assert_eq!(story.clauses(), ["There is coffee.", "There is tea."]);
    story.writes(" milk. And water. ");
    assert_eq!(story.clauses().len(), 2);
    story.speaks(1_000);
    assert_eq!(story.clauses(), ["There is tea.", "And milk."]);
    // The third is complete before the second.
    let third = story
        .open
        .iter()
        .find(|(_, it)| matches!(it, PipelineRequest::Speak { text } if text == "And milk."));
    let third = third.unwrap().0;
    story.reply(third, PipelineReply::Audio(vec![500; 24 * 700]));
    story.reply(third, PipelineReply::Done);
    assert_eq!(story.milliseconds(), 1_000);
    story.speaks(1_000);
    assert_eq!(story.milliseconds(), 2_700);
    assert_eq!(story.said(), "There is coffee. There is tea. And milk. ");
    story.ends();
    story.speaks(500);
    assert_eq!(story.count(&VoiceEvent::TurnOver), 1);
    story.caller_says("Thanks.");
    assert_eq!(
        story.messages()[4],
        "assistant: There is coffee. There is tea. And milk. And water."
    );
}

/// The call counts what was said by the samples that it was given.
#[test]
fn words_are_told_with_their_sound() {
    let mut story = Story::greeted();
    story.caller_says("When?");
    story.answers("It comes in twenty minutes.");
    story.sounds(100);
    assert_eq!(story.said(), "");
    story.sounds(500);
    assert_eq!(story.said(), "It ");
    story.speaks(100);
    assert_eq!(story.said(), "It comes in twenty minutes. ");
}

#[test]
fn functions_are_called_at_once_and_answered_together() {
    let mut story = Story::greeted();
    story.caller_says("Where are my orders?");
    story.writes("One moment. ");
    story.calls(&[
        ("check_order", r#"{"orderId":"1"}"#),
        ("check_order", r#"{"orderId":"2"}"#),
    ]);
    assert_eq!(
        story.tools(),
        [("call-1", "check_order"), ("call-2", "check_order")]
    );
    story.outcome("call-2");
    story.outcome("call-1");
    assert!(!story.is_thinking(), "the agent has not finished");
    story.speaks(500);
    let messages = story.messages();
    let outcome = r#"tool: {"output":{"minutes":20}}"#;
    assert_eq!(messages[4..], ["assistant: One moment.", outcome, outcome]);
    story.answers("In twenty minutes.");
    story.speaks(500);
    assert!(!story.is_thinking());
}

#[test]
fn pieces_of_calls_are_joined_by_their_number_and_their_id() {
    let mut story = Story::greeted();
    story.caller_says("Where are my orders?");
    let piece = |index, id: &str, name: &str, arguments: &str| {
        let mut call = CallDelta {
            index,
            id: id.to_owned(),
            ..CallDelta::default()
        };
        call.function.name = name.to_owned();
        call.function.arguments = arguments.to_owned();
        call
    };
    story.delta(ChatDelta {
        calls: vec![
            piece(0, "a", "check_order", "{\"order"),
            piece(1, "b", "check_order", ""),
            piece(0, "", "", "Id\":\"1\"}"),
            piece(1, "", "", "no json"),
            // Another call, although the number is the same.
            piece(1, "c", "check_order", "{}"),
            piece(9, "d", "check_order", &"x".repeat(70_000)),
        ],
        ..ChatDelta::default()
    });
    story.ends();
    assert_eq!(
        story.tools(),
        [("call-1", "check_order"), ("call-3", "check_order")]
    );
    story.outcome("call-1");
    story.outcome("call-3");
    let messages = story.messages();
    assert!(messages[6].contains("no JSON object"), "{messages:?}");
}

#[test]
fn a_caller_who_asks_meanwhile_is_answered_and_the_outcome_follows() {
    let mut story = Story::greeted();
    story.caller_says("Where is my order?");
    story.calls(&[("check_order", "{}")]);
    story.caller_says("Are you there?");
    let messages = story.messages();
    assert!(
        messages[5].contains("not there yet") && messages[6] == "user: Are you there?",
        "{messages:?}"
    );
    story.outcome("call-1");
    story.answers("Yes.");
    story.speaks(500);
    assert!(
        story.asked().contains("The function check_order"),
        "{}",
        story.asked()
    );
}

#[rstest::rstest]
#[case("end_call")]
#[case("transfer_to_human")]
fn a_call_is_left_after_the_goodbye(#[case] tool: &str) {
    let mut story = Story::greeted();
    story.caller_says("Thanks.");
    story.writes("Goodbye! ");
    story.calls(&[(tool, "")]);
    story.sounds(500);
    assert_eq!(story.tools(), []);
    story.speaks(500);
    assert_eq!(story.tools(), [("call-1", tool)]);
    assert_eq!(story.told.last(), Some(&VoiceEvent::TurnOver));
    story.outcome("call-1");
    story.pass(1_000);
    assert_eq!(story.is_thinking(), tool != "end_call");
}

#[rstest::rstest]
#[case::not_made_yet(false)]
#[case::made_meanwhile(true)]
fn a_goodbye_that_is_interrupted_ends_nothing(#[case] is_made: bool) {
    let mut story = Story::greeted();
    story.caller_says("Thanks.");
    story.writes("Goodbye! ");
    story.calls(&[("end_call", "")]);
    story.sounds(500);
    story.activity(true);
    if is_made {
        story.speaks(100);
    }
    story.audio(1_100);
    story.activity(false);
    story.pass(PAUSE_MS);
    story.writes_down("Wait!");
    assert_eq!(story.tools(), []);
    assert_eq!(story.asked(), "user: Wait!");
}

#[test]
fn a_short_voice_delays_the_end_of_a_call() {
    let mut story = Story::greeted();
    story.caller_says("Thanks.");
    story.writes("Goodbye! ");
    story.calls(&[("end_call", "")]);
    story.sounds(500);
    story.activity(true);
    story.speaks(100);
    story.audio(480);
    assert_eq!(story.tools(), []);
    story.activity(false);
    assert_eq!(story.tools(), [("call-1", "end_call")]);
}

#[test]
fn notes_and_keys_reach_the_model_once_it_is_quiet() {
    let mut story = Story::greeted();
    story.say(VoiceInput::Keys("the caller pressed 4 2 #".to_owned()));
    story.say(VoiceInput::Text("Be quick.".to_owned()));
    assert_eq!(story.asked(), "user: [the caller pressed 4 2 #]");
    story.answers("Halo.");
    story.speaks(500);
    assert_eq!(story.asked(), "user: [Be quick.]");
}

#[test]
fn a_summary_stops_everything_else() {
    let mut story = Story::greeted();
    story.caller_says("Where is my order?");
    story.writes("It comes soon. By");
    story.say(VoiceInput::Summarise);
    story.say(VoiceInput::Summarise);
    story.activity(true);
    assert_eq!(story.open.len(), 1);
    assert!(matches!(&story.open[0].1, PipelineRequest::Chat { tools, .. } if tools.is_empty()));
    let asked = story.asked();
    // Sides take turns.
    assert!(
        asked.starts_with("user: Where is my order?\n[The call is over"),
        "{asked}"
    );
    story.told.clear();
    story.writes("An order. ");
    story.answers("Solved.");
    let summary = VoiceEvent::Summary("An order. Solved.".to_owned());
    assert_eq!(story.told, [VoiceEvent::Summarising, summary]);
    assert!(story.clauses().is_empty());
}

#[rstest::rstest]
#[case::in_the_last_word(|story: &mut Story| {
    story.activity(true);
    story.audio(1_000);
})]
#[case::while_it_is_written_down(|story: &mut Story| {
    story.caller_speaks(1_000);
    story.pass(PAUSE_MS);
})]
fn a_caller_who_hangs_up_at_once_is_written_down(#[case] speaks: fn(&mut Story)) {
    for (is_in_time, fails) in [(true, false), (false, false), (false, true)] {
        let mut story = Story::greeted();
        story.caller_says("Where is my order?");
        story.answers("It comes soon.");
        story.speaks(1_000);
        story.pass(2_000);
        speaks(&mut story);
        story.told.clear();
        story.say(VoiceInput::Summarise);
        assert!(story.is_hearing() && !story.is_thinking());
        story.pass(899);
        if is_in_time {
            story.writes_down("Thank you!");
        } else if fails {
            story.fails(CloseReason::gone("it broke"));
            assert!(story.is_thinking(), "at once");
        }
        story.pass(1);
        assert!(!story.is_hearing() && story.is_thinking());
        assert_eq!(story.asked().contains("Thank you!"), is_in_time);
        let said = VoiceEvent::CallerSaid("Thank you! ".to_owned());
        assert_eq!(story.told.contains(&said), is_in_time);
        // The call waits longer for the summary.
        assert!(story.told.contains(&VoiceEvent::Summarising));
        story.answers("An order.");
        let summary = VoiceEvent::Summary("An order.".to_owned());
        assert_eq!(story.count(&VoiceEvent::Summarising), 1);
        assert_eq!(story.told.last(), Some(&summary));
    }
}

#[test]
fn a_late_summary_ends_with_what_there_is() {
    let mut story = Story::greeted();
    story.caller_says("Halo.");
    story.say(VoiceInput::Summarise);
    story.writes("An order.");
    story.pass(4_000);
    story.writes(" Solved");
    story.pass(4_000);
    assert_eq!(
        story.told.last(),
        Some(&VoiceEvent::Summary("An order. Solved".to_owned()))
    );
}
