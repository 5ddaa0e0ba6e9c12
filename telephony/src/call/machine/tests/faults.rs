//! Faults that models are known for, and noises of the caller's side, as whole calls in simulated time.

use std::sync::Arc;

use dikala_testkit::gemini::{FakeGemini, ModelReaction};
use rstest::rstest;

use super::{
    simulated::{Fake, Reaction, SimulatedCall},
    *,
};

const MINUTE_MS: u64 = 60_000;

fn gemini() -> (Arc<FakeGemini>, Fake) {
    let gemini = Arc::new(FakeGemini::start());
    (Arc::clone(&gemini), Fake::Gemini(gemini))
}

fn say(text: &str, ms: u64) -> Reaction {
    Reaction::Say(text.to_owned(), ms)
}

fn hush(milliseconds: u64) -> ModelReaction {
    let text = "[Silence]".to_owned();
    ModelReaction::Hush { text, milliseconds }
}

/// Everything that this side has said, according to the transcript.
fn words(call: &SimulatedCall, side: Speaker) -> String {
    let turns = call.transcript().into_iter();
    let turns = turns.filter(|(role, ..)| *role == side);
    let turns: Vec<String> = turns.map(|(_, text, _)| text).collect();
    turns.join(" | ")
}

/// Silence for an answer: sutando#1356, python-genai#2117.
#[rstest]
#[case::an_empty_turn(ModelReaction::Empty)]
#[case::in_writing(ModelReaction::Write("[Silence]".to_owned()))]
#[case::in_sound(hush(1_000))]
fn silence_for_an_answer_is_no_answer(#[case] silence: ModelReaction) {
    let (gemini, fake) = gemini();
    let mut call = SimulatedCall::greeted(&fake);
    gemini.answer([silence.clone()]);
    fake.answer([say("It is on its way.", 1_000)]);
    call.wait(500);
    let end = call.speak(600);
    call.until_said("on its way.");
    let waited = call.silences_since(end)[0];
    assert!((2_500..3_000).contains(&waited), "{waited}");
    gemini.answer([silence.clone(), silence]);
    call.wait(500);
    let (fillers, end) = (call.fillers, call.speak(600));
    call.wait(8_000);
    let waited = call.silences_since(end)[0];
    let is_in_time = (6_000..6_100).contains(&waited);
    assert!(call.fillers == fillers + 1 && is_in_time, "{waited}");
    call.hang_up();
    let said = words(&call, Speaker::Agent);
    assert!(
        said.contains("on its way.") && !said.contains('['),
        "{said}"
    );
    assert_eq!(fake.broken_rules(), [""; 0]);
}

/// A sentence whose halves are two turns for the model: js-genai#1467, python-genai#2580. The second half may be answered only when
/// the model is asked again (gemini-live-api-examples#52).
#[rstest]
fn a_sentence_in_two_turns_is_heard_whole_and_answered_once(
    #[values(false, true)] pauses: bool,
    #[values(false, true)] freezes: bool,
) {
    let (gemini, fake) = gemini();
    let mut call = SimulatedCall::greeted(&fake);
    fake.answer([say("Half an answer, too early.", 4_000)]);
    fake.answer(freezes.then_some(Reaction::Nothing));
    fake.answer([say("It is on its way.", 1_200)]);
    call.wait(500);
    let end = if pauses {
        call.speak(1_000);
        call.wait(1_600);
        call.speak(1_400)
    } else {
        gemini.splits_turns();
        call.speak(3_400)
    };
    let before = call.played_ms_until(end + 500);
    call.until_said("on its way.");
    let longest = call.silences_since(end).into_iter().max();
    assert!(
        longest <= Some(if freezes { 3_000 } else { 1_000 }),
        "{longest:?}"
    );
    assert_eq!(call.played_ms() - before, 1_200);
    call.hang_up();
    let heard = words(&call, Speaker::Caller);
    let halves = match pauses {
        true => ["heard 1000 ms", "heard 1400 ms"],
        false => ["heard 2000 ms", "heard 1400 ms"],
    };
    assert!(
        halves.iter().all(|half| heard.matches(half).count() == 1),
        "{heard}"
    );
    let said = words(&call, Speaker::Agent);
    assert!(said.ends_with("It is on its way."), "{said}");
    assert!(!said.contains("too early"), "{said}");
    assert_eq!(fake.broken_rules(), [""; 0]);
}

/// A menu or an answering machine is a conversation (cookbook#1197), until the service ends the call.
#[test]
fn a_machine_that_talks_is_left_after_the_longest_time() {
    let (_, fake) = gemini();
    let mut call = SimulatedCall::greeted(&fake);
    while call.ms < 10 * MINUTE_MS {
        call.speak(5_000);
    }
    fake.answer([say("You have several choices.", 30_000)]);
    call.speak(600);
    call.until_heard(500);
    let told = call.ms;
    assert_eq!(call.hung_up_ms, None);
    call.take(hangup(HangupReason::MaxDuration));
    call.speak(5_000);
    call.wait(5_000);
    assert_eq!(call.ended_because(), Some(HangupReason::MaxDuration));
    let lasted = call.hung_up_ms.expect("an end") - told;
    assert!(lasted <= 2_000, "{lasted}");
}

#[rstest]
fn a_cough_stops_no_goodbye(
    #[values(Fake::gemini, Fake::openai, Fake::openai_own, Fake::pipeline)] fake: fn() -> Fake,
    #[values(300, 900, 1_400)] heard_ms: u64,
) {
    let fake = fake();
    let mut call = SimulatedCall::greeted(&fake);
    fake.answer([Reaction::HangUp("Sampai jumpa, Kak.".to_owned(), 1_500)]);
    call.wait(500);
    call.speak(600);
    let before = call.played_ms();
    call.until_heard(heard_ms);
    call.speak(240);
    call.wait(8_000);
    assert_eq!(call.ended_because(), Some(HangupReason::Normal));
    let played = call.played_ms() - before;
    assert!(played.abs_diff(1_500) <= 40, "{played}");
    let last = call.hung_up_ms.expect("an end") - call.last_sound_ms();
    assert!((300..1_000).contains(&last), "{last}");
    assert!(!fake.newest_texts().contains("so it goes on"));
    let said = words(&call, Speaker::Agent);
    assert!(said.ends_with("Sampai jumpa, Kak."), "{said}");
    assert_eq!(fake.broken_rules(), [""; 0]);
}

/// Sounds beside the agent's speech, as a leg tells of them: an echo of −20 or −10 dB is silence, and babble or music of −15 dB is one
/// voice without end. The tests of `dikala-sip` show that; models take none of them for a voice.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Beside {
    Echo,
    BabbleOrMusic,
}

/// A pipeline has discarded its answer by the time that it finds no words in the sound, so its model says the rest.
#[rstest]
fn an_agent_finishes_its_sentences(
    #[values(Fake::gemini, Fake::openai, Fake::pipeline)] fake: fn() -> Fake,
    #[values(Beside::Echo, Beside::BabbleOrMusic)] beside: Beside,
    #[values(40, 1_000, 3_500)] from_ms: u64,
) {
    let fake = fake();
    let is_stopped = matches!(fake, Fake::Pipeline(_)) && beside == Beside::BabbleOrMusic;
    let mut call = SimulatedCall::greeted(&fake);
    let answer = "Satu, dua. Tiga, empat. Lima, enam. Tujuh, delapan.";
    fake.answer([say(answer, 5_000)]);
    fake.answer(is_stopped.then(|| say("Dan tujuh, delapan.", 2_000)));
    call.wait(500);
    call.speak(600);
    let before = call.played_ms();
    call.until_heard(from_ms);
    let (began, heard) = (call.ms, call.played_ms());
    let longest_ms = match beside {
        Beside::Echo => {
            call.sound(0, 9_000);
            0
        }
        Beside::BabbleOrMusic => {
            call.noise(300, 9_000);
            4_000
        }
    };
    let expected = if is_stopped {
        heard + 2_000
    } else {
        before + 5_000
    };
    let played = call.played_ms();
    assert!(played.abs_diff(expected) <= 250, "{played} of {expected}");
    let longest = call.silences_since(began).into_iter().max();
    assert!(longest.unwrap_or_default() <= longest_ms, "{longest:?}");
    call.hang_up();
    let said = words(&call, Speaker::Agent);
    assert!(
        said.ends_with("ujuh, delapan.") && said.matches("ujuh").count() == 1,
        "{said}"
    );
    let is_cut = call.transcript().iter().any(|(.., is_cut)| *is_cut);
    assert!(is_cut == (is_stopped && from_ms > 40), "{said}");
    assert_eq!(fake.broken_rules(), [""; 0]);
}
