//! The caller's turns and interruptions.

use super::*;

/// Milliseconds of the last audio that is to be written down.
fn transcribed_ms(story: &Story) -> usize {
    let mut made = story.made.iter().rev();
    let last = made.find_map(|request| match request {
        PipelineRequest::Transcribe(samples) => Some(samples.len() / 16),
        _ => None,
    });
    last.unwrap()
}

#[test]
fn a_whole_sentence_is_answered_after_half_a_second() {
    let mut story = Story::greeted();
    story.audio(1_000);
    story.caller_speaks(1_000);
    story.pass(PAUSE_MS - 1);
    assert!(!story.is_hearing());
    story.pass(1);
    assert!(story.is_hearing());
    // The beginning from before it was noticed, and the pause.
    assert_eq!(transcribed_ms(&story), 300 + 1_300);
    story.writes_down(" Where is my order? ");
    assert_eq!(story.asked(), "user: Where is my order?");
    assert_eq!(
        story.told,
        [VoiceEvent::CallerSaid("Where is my order? ".to_owned())]
    );
    assert!(story.messages()[0].contains("Kopi Senja") && story.messages()[0].contains("noon"));
}

#[test]
fn half_a_sentence_gets_900_ms_and_is_joined_to_its_rest() {
    let mut story = Story::greeted();
    story.caller_says("I would like");
    story.pass(399);
    assert!(!story.is_thinking());
    story.caller_says("a coffee.");
    assert_eq!(story.asked(), "user: I would like a coffee.");

    let mut story = Story::greeted();
    story.caller_says("I would like");
    story.pass(400);
    assert_eq!(story.asked(), "user: I would like");
}

#[test]
fn a_text_that_comes_late_is_answered_at_once() {
    let mut story = Story::greeted();
    story.caller_speaks(1_000);
    story.pass(3_000);
    story.writes_down("I would like");
    assert!(story.is_thinking());
}

#[test]
fn a_caller_who_goes_on_while_it_is_written_down_is_not_answered_yet() {
    let mut story = Story::greeted();
    story.caller_speaks(1_000);
    story.pass(PAUSE_MS);
    story.activity(true);
    story.writes_down("I would like.");
    story.pass(2_000);
    assert!(!story.is_thinking());
    story.audio(400);
    story.activity(false);
    story.pass(PAUSE_MS);
    story.writes_down("A coffee.");
    assert_eq!(story.asked(), "user: I would like. A coffee.");
}

#[test]
fn a_caller_who_goes_on_before_the_answer_is_heard_has_one_turn() {
    let mut story = Story::greeted();
    story.caller_says("I would like.");
    story.writes("With pleasure! Which");
    assert_eq!(story.clauses(), ["With pleasure!"]);
    story.activity(true);
    story.audio(480);
    assert_eq!(story.open.len(), 2, "it may be a noise");
    story.audio(20);
    assert!(story.open.is_empty(), "all requests are cancelled");
    story.audio(400);
    story.activity(false);
    story.pass(PAUSE_MS);
    story.writes_down("A coffee.");
    assert_eq!(story.asked(), "user: I would like. A coffee.");
    assert_eq!(
        story.count(&VoiceEvent::Interrupted),
        0,
        "nothing was heard"
    );
}

#[test]
fn a_short_word_before_the_answer_is_heard_belongs_to_the_turn() {
    let mut story = Story::greeted();
    story.caller_says("A coffee.");
    story.writes("With pleasure! Which");
    story.caller_speaks(100);
    story.pass(PAUSE_MS);
    assert_eq!(story.clauses(), ["With pleasure!"]);
    story.writes_down("Two.");
    assert!(story.clauses().is_empty());
    assert_eq!(story.asked(), "user: A coffee. Two.");
    assert_eq!(story.asked_times(), 2);
}

#[rstest::rstest]
#[case::short(100, 1)]
#[case::long(700, 2)]
fn a_noise_while_the_model_thinks_costs_no_answer(
    #[case] milliseconds: usize,
    #[case] asked_times: usize,
) {
    let mut story = Story::greeted();
    story.caller_says("Where is my order?");
    story.caller_speaks(milliseconds);
    story.pass(PAUSE_MS);
    story.writes_down("[NOISE]");
    story.pass(PAUSE_MS);
    assert_eq!(story.asked(), "user: Where is my order?");
    assert_eq!(story.asked_times(), asked_times);
    assert!(story.is_thinking());
}

/// An answer without words has nothing to be stopped, but it does not end the call of somebody who speaks.
#[rstest::rstest]
#[case("check_order", &[("call-1", "check_order")], 1)]
#[case("end_call", &[], 2)]
fn a_voice_into_an_answer_without_words(
    #[case] tool: &str,
    #[case] called: &[(&str, &str)],
    #[case] asked_times: usize,
) {
    let mut story = Story::greeted();
    story.caller_says("Where is my order?");
    story.activity(true);
    story.calls(&[(tool, "{}")]);
    story.audio(1_100);
    story.activity(false);
    story.pass(PAUSE_MS);
    story.writes_down("[NOISE]");
    story.pass(PAUSE_MS);
    assert_eq!(story.tools(), called);
    assert_eq!(story.asked_times(), asked_times);
    assert_eq!(story.count(&VoiceEvent::Interrupted), 0);
}

#[test]
fn a_noise_holds_speech_back_for_its_own_time() {
    let mut story = Story::greeted();
    story.caller_says("Where is my order?");
    story.answers("It comes soon.");
    for _ in 0..3 {
        story.activity(true);
        story.audio(480);
        story.activity(false);
        story.audio(60);
    }
    story.activity(true);
    story.speaks(500);
    story.audio(480);
    assert_eq!(story.milliseconds(), 0);
    story.activity(false);
    assert_eq!(
        (story.milliseconds(), story.said().as_str()),
        (500, "It comes soon. ")
    );
    assert_eq!(story.asked_times(), 1);
}

/// Its words may be a notice that the caller has to hear.
#[rstest::rstest]
#[case::speaks_on(false)]
#[case::has_spoken(true)]
fn a_given_greeting_begins_whoever_speaks(#[case] has_spoken: bool) {
    let mut story = Story::with(true, &[]);
    story.say(VoiceInput::Greet);
    story.activity(true);
    story.audio(1_000);
    if has_spoken {
        story.activity(false);
        story.pass(PAUSE_MS);
        story.writes_down("Halo?");
    }
    assert_eq!(story.clauses(), ["Kopi Senja, selamat pagi!"]);
    story.speaks(1_000);
    assert_eq!(story.said(), "Kopi Senja, selamat pagi! ");
    if !has_spoken {
        story.activity(false);
        story.pass(PAUSE_MS);
        story.writes_down("Halo?");
    }
    let messages = story.messages();
    assert_eq!(
        messages[2..],
        ["assistant: Kopi Senja, selamat pagi!", "user: Halo?"]
    );
}

#[test]
fn an_interruption_ends_everything_and_only_what_was_heard_stays() {
    let mut story = Story::greeted();
    story.caller_says("Where is my order?");
    story.writes("It comes in twenty minutes. By motorcycle. And");
    story.speaks(2_000);
    story.told.clear();
    story.activity(true);
    story.audio(480);
    assert_eq!(story.count(&VoiceEvent::Interrupted), 0);
    story.audio(20);
    assert_eq!(story.told, [VoiceEvent::Interrupted, VoiceEvent::TurnOver]);
    assert!(story.open.is_empty(), "all requests are cancelled");
    // The greeting had 1,000 ms.
    story.say(VoiceInput::Interrupted { played_ms: 2_000 });
    story.audio(400);
    story.activity(false);
    story.pass(PAUSE_MS);
    story.writes_down("Stop!");
    let messages = story.messages();
    assert_eq!(
        messages[2..],
        [
            "assistant: Kopi Senja, selamat pagi!",
            "user: Where is my order?",
            "assistant: It comes in t",
            "user: Stop!"
        ]
    );
}

/// The length of a clause that is still being made is estimated, so that no word is kept that was not heard.
#[test]
fn an_interruption_within_a_clause_keeps_its_share() {
    let mut story = Story::greeted();
    story.caller_says("Where is my order?");
    story.writes(
        "Your order with the number four hundred and twenty seven comes in twenty minutes. ",
    );
    story.sounds(1_000);
    story.caller_speaks(700);
    story.say(VoiceInput::Interrupted { played_ms: 2_000 });
    story.pass(PAUSE_MS);
    story.writes_down("Stop!");
    assert_eq!(story.messages()[4], "assistant: Your order wit");
}

#[test]
fn a_short_voice_does_not_interrupt() {
    let mut story = Story::greeted();
    story.caller_says("Where is my order?");
    story.answers("It comes in twenty minutes.");
    story.speaks(2_000);
    story.told.clear();
    story.activity(true);
    story.audio(480);
    story.activity(false);
    story.pass(3_000);
    assert_eq!(story.told, []);
    assert!(story.open.is_empty(), "it is not written down either");
}

/// The caller need not wait for the end of a question.
#[test]
fn a_short_voice_over_the_last_words_is_an_answer() {
    let mut story = Story::greeted();
    story.caller_says("A coffee.");
    story.answers("With milk?");
    story.speaks(2_000);
    story.pass(1_000);
    story.caller_speaks(100);
    story.pass(PAUSE_MS);
    assert!(!story.is_hearing(), "a second is left");

    let mut story = Story::greeted();
    story.caller_says("A coffee.");
    story.answers("With milk?");
    story.speaks(2_000);
    story.pass(1_001);
    story.caller_speaks(100);
    story.pass(PAUSE_MS);
    story.writes_down("Ya.");
    assert_eq!(story.asked(), "user: Ya.");
    assert_eq!(story.count(&VoiceEvent::Interrupted), 0);
}

#[test]
fn a_short_voice_is_an_answer_when_nobody_else_speaks() {
    let mut story = Story::greeted();
    story.caller_speaks(100);
    story.pass(PAUSE_MS);
    story.writes_down("Ya.");
    assert_eq!(story.asked(), "user: Ya.");
}

#[test]
fn an_agent_that_a_noise_has_stopped_goes_on() {
    let mut story = Story::greeted();
    story.caller_says("Where is my order?");
    story.answers("It comes in twenty minutes.");
    story.speaks(2_000);
    story.caller_speaks(700);
    story.pass(PAUSE_MS);
    story.writes_down("");
    assert!(story.asked().contains("Go on where you stopped"));
}

#[rstest::rstest]
#[case("")]
#[case("[BLANK_AUDIO]")]
#[case("Terima kasih telah menonton!")]
fn nothing_is_asked_about_nothing(#[case] text: &str) {
    let mut story = Story::greeted();
    story.caller_says(text);
    story.pass(5_000);
    assert!(!story.is_thinking());
    assert_eq!(story.told, []);
    // The call notices that the caller waits.
    story.say(VoiceInput::AnswerNow("Answer now.".to_owned()));
    assert_eq!(story.asked(), "user: [Answer now.]");
    story.say(VoiceInput::AnswerNow("Answer now.".to_owned()));
    story.answers("Halo?");
    story.speaks(500);
    assert!(!story.is_thinking(), "an answer was under way");
}

#[test]
fn an_agent_that_is_not_to_be_interrupted_answers_afterwards() {
    let mut story = Story::greeted_with(false);
    story.caller_says("Where is my order?");
    story.writes("It comes soon. ");
    story.sounds(500);
    story.caller_says("Hello?");
    assert_eq!(story.count(&VoiceEvent::Interrupted), 0);
    story.ends();
    story.speaks(500);
    assert_eq!(story.asked(), "user: Hello?");
}

/// It may be a noise in which the caller speaks.
#[test]
fn a_voice_without_end_is_answered_after_15_s_and_heard_on() {
    let mut story = Story::greeted();
    story.activity(true);
    story.audio(14_980);
    assert!(!story.is_hearing());
    story.audio(20);
    assert_eq!(transcribed_ms(&story), 15_000);
    story.writes_down("A long story");
    story.audio(580);
    assert!(!story.is_thinking());
    story.audio(20);
    assert_eq!(story.asked(), "user: A long story");
    story.answers("Yes?");
    story.speaks(500);
    story.audio(14_400);
    assert_eq!(transcribed_ms(&story), 15_000);
    story.writes_down("with an end.");
    assert_eq!(story.asked(), "user: with an end.");
    story.answers("Yes?");
    story.speaks(500);
    story.audio(400);
    story.activity(false);
    story.pass(PAUSE_MS);
    assert_eq!(transcribed_ms(&story), 400);
}

#[test]
fn a_voice_without_end_delays_no_note() {
    let mut story = Story::greeted();
    story.activity(true);
    story.audio(10_000);
    story.say(VoiceInput::Text("Say goodbye.".to_owned()));
    assert!(!story.is_thinking());
    story.audio(5_000);
    assert_eq!(story.asked(), "user: [Say goodbye.]");
}

/// Music sets in while the agent speaks, and does not end.
#[test]
fn an_agent_that_a_noise_without_end_has_stopped_goes_on_after_3_s() {
    let mut story = Story::greeted();
    story.caller_says("Where is my order?");
    story.answers("It comes in twenty minutes. By motorcycle.");
    story.speaks(2_000);
    story.told.clear();
    story.activity(true);
    story.audio(2_980);
    assert_eq!(story.told, [VoiceEvent::Interrupted, VoiceEvent::TurnOver]);
    assert!(!story.is_hearing());
    story.audio(20);
    story.writes_down("[MUSIC]");
    story.pass(200);
    assert!(story.asked().contains("A noise has interrupted you"));
    story.answers("By motorcycle.");
    story.speaks(1_000);
    assert_eq!(story.said(), "By motorcycle. ");
}
