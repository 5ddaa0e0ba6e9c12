//! Conversations as the guard sees them, as stories and at random.

use proptest::prelude::*;
use rstest::rstest;

use super::*;

fn guard() -> ConversationGuard {
    ConversationGuard::new(ConversationSettings::default())
}

/// Audible speech of this length.
fn speech(ms: usize) -> Vec<i16> {
    vec![1_000; ms * SPEECH_RATE as usize / 1_000]
}

/// The steps until `until`, each with its time.
fn steps(guard: &mut ConversationGuard, until: u64, has_model: bool) -> Vec<(u64, GuardStep)> {
    let mut steps = Vec::new();
    while let Some(due) = guard.due().filter(|due| *due <= until) {
        steps.extend(guard.step(due, has_model).map(|step| (due, step)));
    }
    steps
}

/// A conversation in which the agent has just said something of this length, at 0.
fn after_words(ms: usize) -> ConversationGuard {
    let mut guard = guard();
    guard.begin(0);
    says(&mut guard, ms, 0);
    guard
}

/// The agent says a whole turn of this length.
fn says(guard: &mut ConversationGuard, ms: usize, now: u64) -> Option<u64> {
    let latency = guard.agent_says(&speech(ms), now);
    guard.turn_over();
    latency
}

#[test]
fn a_caller_who_waits_is_helped_step_by_step() {
    let mut guard = after_words(1_000);
    guard.caller_started(0);
    assert_eq!(guard.due(), Some(16_000), "a noise at the most");
    guard.caller_ended(5_000, 5_400);
    assert_eq!(
        steps(&mut guard, 60_000, true),
        [
            (7_500, GuardStep::AskAgain),
            (11_000, GuardStep::Filler),
            (17_000, GuardStep::Replace),
            (25_000, GuardStep::GiveUp),
        ]
    );
    assert_eq!(guard.due(), None);
}

/// A model that is dead, and a caller who says "hello?" every four seconds.
#[test]
fn a_caller_who_goes_on_asking_comes_to_the_next_step() {
    let mut guard = after_words(1_000);
    let mut all = Vec::new();
    for began in (4_000..40_000).step_by(4_000) {
        all.extend(steps(&mut guard, began, true));
        guard.caller_started(began);
        guard.caller_ended(began + 800, began + 1_200);
    }
    all.retain(|(_, step)| *step != GuardStep::AskAgain);
    assert_eq!(
        all,
        [
            (11_600, GuardStep::Filler),
            (19_300, GuardStep::Replace),
            (31_300, GuardStep::GiveUp),
        ]
    );
}

/// Pauses in which nobody asks for an answer are those of somebody who thinks.
#[test]
fn a_caller_who_speaks_with_pauses_is_not_waiting() {
    let mut guard = after_words(1_000);
    for began in (4_000..60_000).step_by(4_000) {
        assert_eq!(steps(&mut guard, began, true), []);
        guard.caller_started(began);
        guard.caller_ended(began + 2_000, began + 2_400);
    }
    // Also after one long pause, and after a function without words.
    guard.function_began(58_500);
    guard.function_ended(58_600);
    let asked = (61_100, GuardStep::AskAgain);
    assert_eq!(steps(&mut guard, 61_500, true), [asked]);
    for began in (61_500..120_000).step_by(4_000) {
        assert_eq!(steps(&mut guard, began, true), []);
        guard.caller_started(began);
        guard.caller_ended(began + 2_000, began + 2_400);
    }
}

#[test]
fn a_chain_of_functions_is_given_its_time() {
    let mut guard = after_words(1_000);
    guard.caller_started(2_000);
    guard.caller_ended(3_000, 3_400);
    let mut all = Vec::new();
    for began in (4_000..18_000).step_by(2_000) {
        all.extend(steps(&mut guard, began, true));
        guard.function_began(began);
        all.extend(steps(&mut guard, began + 600, true));
        guard.function_ended(began + 600);
    }
    let filler = |at| (at, GuardStep::FunctionFiller);
    assert_eq!(all, [filler(6_500), filler(14_500)]);
}

/// Each function ends before its filler, and is called again before the model is asked for words.
#[test]
fn a_model_that_goes_on_calling_functions_leaves_nobody_alone() {
    let mut guard = after_words(1_000);
    guard.caller_started(2_000);
    guard.caller_ended(3_000, 3_400);
    let mut all = Vec::new();
    for began in (4_000..46_000).step_by(2_500) {
        all.extend(steps(&mut guard, began, true));
        guard.function_began(began);
        all.extend(steps(&mut guard, began + 1_000, true));
        guard.function_ended(began + 1_000);
    }
    let named = |wanted| all.iter().filter(move |(_, step)| *step == wanted);
    let waits = |wanted| named(wanted).map(|(at, _)| *at).collect::<Vec<_>>();
    assert_eq!(waits(GuardStep::Filler), [28_500]);
    assert_eq!(waits(GuardStep::Replace), [35_000]);
    assert_eq!(waits(GuardStep::GiveUp), [42_500]);
    assert_eq!(
        waits(GuardStep::FunctionFiller).len(),
        5,
        "one each eight seconds, while functions run"
    );
}

#[test]
fn a_model_that_reminds_nobody_is_replaced() {
    let mut guard = after_words(2_000);
    assert_eq!(
        steps(&mut guard, 200_000, true),
        [
            (12_000, GuardStep::Remind),
            (24_000, GuardStep::Replace),
            (32_000, GuardStep::Remind),
            (44_000, GuardStep::Replace),
            (77_000, GuardStep::EndForSilence),
        ]
    );
}

#[test]
fn without_a_model_only_the_end_is_due() {
    let mut guard = guard();
    guard.begin(0);
    let steps = steps(&mut guard, 60_000, false);
    assert_eq!(steps, [(20_000, GuardStep::GiveUp)]);
}

#[test]
fn the_agents_answer_ends_the_wait_and_is_timed() {
    let mut guard = after_words(1_000);
    guard.caller_started(0);
    guard.caller_ended(5_000, 5_400);
    assert_eq!(guard.agent_says(&vec![3; 480], 5_700), None, "silence");
    assert_eq!(guard.due(), Some(7_500));
    assert_eq!(guard.agent_says(&speech(500), 5_900), Some(900));
    assert_eq!(guard.agent_says(&speech(500), 6_000), None, "once a turn");
    guard.turn_over();
    // The silence of the caller counts from the last sample: 20 ms were silent, and 1 s was audible.
    assert_eq!(guard.due(), Some(6_900 + 10_000));
}

#[test]
fn an_agent_that_breaks_off_is_asked_for_the_rest() {
    let mut guard = after_words(1_000);
    guard.caller_started(2_000);
    guard.caller_ended(5_000, 5_400);
    guard.agent_says(&speech(1_000), 6_000);
    guard.agent_says(&speech(1_000), 6_500);
    assert_eq!(
        steps(&mut guard, 60_000, true),
        [
            (10_000, GuardStep::AskForRest),
            (14_000, GuardStep::Filler),
            (20_000, GuardStep::Replace),
            (28_000, GuardStep::GiveUp),
        ]
    );
}

#[test]
fn an_end_of_the_turn_alone_does_not_answer_the_call_for_the_rest() {
    let mut guard = guard();
    guard.begin(0);
    guard.agent_says(&speech(1_000), 0);
    let asked = guard.step(3_000, true);
    assert_eq!(asked, Some(GuardStep::AskForRest));
    // The model ends the turn that it did not go on with.
    guard.turn_over();
    assert_eq!(guard.next(), Some((7_000, GuardStep::Filler)));
    says(&mut guard, 1_000, 6_000);
    assert_eq!(guard.next(), Some((17_000, GuardStep::Remind)));
}

#[test]
fn a_model_that_never_ends_a_turn_is_asked_once() {
    let mut guard = guard();
    guard.begin(0);
    guard.agent_says(&speech(1_000), 0);
    assert_eq!(guard.step(3_000, true), Some(GuardStep::AskForRest));
    guard.agent_says(&speech(1_000), 4_000);
    assert_eq!(guard.next(), Some((15_000, GuardStep::Remind)));
}

#[test]
fn first_words_that_never_come_are_awaited_through_one_session_more() {
    let mut guard = guard();
    guard.begin(0);
    guard.model_ready(3_000);
    let mut all = steps(&mut guard, 15_000, true);
    guard.model_ready(15_500);
    all.extend(steps(&mut guard, 60_000, true));
    assert_eq!(
        all,
        [
            (5_500, GuardStep::AskAgain),
            (6_000, GuardStep::Filler),
            (12_000, GuardStep::Replace),
            (20_000, GuardStep::GiveUp),
        ]
    );
}

/// The providers that fail one after the other do not make the wait longer.
#[test]
fn a_caller_waits_no_longer_for_a_model_that_is_ready_late() {
    let mut guard = guard();
    guard.begin(0);
    let mut all = steps(&mut guard, 3_500, false);
    for ready_at in [3_500, 9_000, 14_000] {
        all.extend(steps(&mut guard, ready_at, false));
        guard.model_ready(ready_at);
    }
    all.extend(steps(&mut guard, 60_000, true));
    assert_eq!(all, [(20_000, GuardStep::GiveUp)]);
}

#[test]
fn words_over_the_last_ones_of_the_agent_may_be_an_answer() {
    let steps_after = |said_ms: u64, left_ms: u64| {
        let mut guard = after_words(10_000);
        let began = 10_000 - left_ms;
        guard.caller_started(began);
        guard.paused(began);
        guard.caller_ended(began + said_ms, began + said_ms + 400);
        guard.continued(began + said_ms + 400);
        steps(&mut guard, 19_000, true)
    };
    // The agent has finished 800 ms after it went on at 11.1 s.
    let asked = [(14_400, GuardStep::AskAgain), (17_900, GuardStep::Filler)];
    assert_eq!(steps_after(1_500, 800), asked);
    assert_eq!(steps_after(200, 800), []);
    assert_eq!(steps_after(1_500, 1_200), []);
}

#[test]
fn a_silent_caller_is_reminded_twice_and_then_left() {
    let mut guard = after_words(2_000);
    let mut all = steps(&mut guard, 12_000, true);
    // The reminder itself is speech, and begins no new count.
    says(&mut guard, 3_000, 13_000);
    all.extend(steps(&mut guard, 32_000, true));
    says(&mut guard, 3_000, 33_000);
    all.extend(steps(&mut guard, 200_000, true));
    assert_eq!(
        all,
        [
            (12_000, GuardStep::Remind),
            (32_000, GuardStep::Remind),
            (77_000, GuardStep::EndForSilence),
        ]
    );
}

#[test]
fn a_word_of_the_caller_begins_the_silence_anew() {
    let mut guard = after_words(2_000);
    assert_eq!(steps(&mut guard, 12_000, true).len(), 1);
    says(&mut guard, 1_000, 13_000);
    assert_eq!(steps(&mut guard, 32_000, true).len(), 1);
    says(&mut guard, 1_000, 33_000);
    guard.caller_started(40_000);
    guard.caller_ended(41_000, 41_400);
    says(&mut guard, 1_000, 42_000);
    assert_eq!(
        steps(&mut guard, 53_000, true),
        [(53_000, GuardStep::Remind)]
    );
}

#[test]
fn a_word_that_interrupts_nothing_is_no_turn() {
    let mut guard = after_words(10_000);
    guard.caller_started(0);
    guard.paused(1_000);
    guard.caller_ended(1_300, 1_700);
    guard.continued(1_700);
    // The speech ends 700 ms later than it would have.
    assert_eq!(guard.due(), Some(20_700));
    assert_eq!(guard.unplayed_ms(1_700), 9_000);
}

#[test]
fn after_an_interruption_the_caller_waits() {
    let mut guard = after_words(10_000);
    guard.caller_started(0);
    guard.paused(1_000);
    guard.flushed(1_200);
    assert_eq!(guard.due(), Some(16_200), "the caller still speaks");
    guard.caller_ended(3_000, 3_400);
    assert_eq!(guard.due(), Some(5_500));
    let mut late = after_words(10_000);
    late.caller_started(0);
    late.caller_ended(1_300, 1_700);
    late.flushed(2_000);
    assert_eq!(late.due(), Some(4_500));
}

#[test]
fn a_function_gets_fillers_and_its_result_is_awaited() {
    let mut guard = after_words(1_000);
    guard.caller_started(0);
    guard.caller_ended(5_000, 5_400);
    guard.function_began(6_000);
    guard.function_began(6_100);
    assert_eq!(
        steps(&mut guard, 17_000, true),
        [
            (8_000, GuardStep::FunctionFiller),
            (16_000, GuardStep::FunctionFiller),
        ]
    );
    guard.function_ended(17_000);
    assert_eq!(guard.due(), Some(24_000), "another one runs");
    guard.function_ended(18_000);
    assert_eq!(guard.due(), Some(20_500));
    guard.function_ended(18_000);
    assert_eq!(guard.due(), Some(20_500));
}

#[test]
fn a_result_that_comes_during_the_agents_words_is_awaited_after_them() {
    let mut guard = after_words(1_000);
    guard.caller_started(2_000);
    guard.caller_ended(5_000, 5_400);
    guard.function_began(6_000);
    guard.agent_says(&speech(3_000), 6_000);
    guard.function_ended(7_000);
    assert_eq!(guard.next(), Some((11_500, GuardStep::AskAgain)));
}

/// Whatever happens between the caller's voice and the answer.
#[test]
fn a_latency_counts_from_the_end_of_the_callers_voice() {
    let mut guard = after_words(1_000);
    guard.caller_started(2_000);
    guard.caller_ended(5_000, 5_400);
    guard.function_began(5_600);
    guard.function_ended(7_400);
    assert_eq!(guard.agent_says(&speech(500), 8_000), Some(3_000));
    // Nobody hears an answer while the call is on hold.
    let mut held = after_words(1_000);
    held.caller_started(2_000);
    held.caller_ended(5_000, 5_400);
    held.held(true, 5_500);
    held.held(false, 60_000);
    assert_eq!(held.agent_says(&speech(500), 60_700), Some(700));
}

/// The end of a voice is noticed later. Models may answer sooner.
#[rstest]
#[case::an_answer(5_250, Some(250))]
#[case::words_into_the_callers(4_900, None)]
fn an_answer_may_begin_before_the_end_of_the_voice_is_noticed(
    #[case] at: u64,
    #[case] latency: Option<u64>,
) {
    let mut guard = after_words(1_000);
    guard.caller_started(2_000);
    assert_eq!(guard.agent_says(&speech(500), at), None);
    assert_eq!(guard.agent_says(&speech(500), at + 100), None);
    assert_eq!(guard.caller_ended(5_000, 5_400), latency);
    assert_eq!(guard.caller_ended(5_000, 5_400), None, "once");
}

#[test]
fn a_noise_without_end_leaves_nobody_alone() {
    let mut guard = after_words(1_000);
    guard.caller_started(2_000);
    let steps = steps(&mut guard, 40_000, true);
    assert_eq!(
        steps[..2],
        [(19_500, GuardStep::AskAgain), (23_000, GuardStep::Filler)]
    );
}

/// The words of a caller are heard in a noise that hides their end.
#[test]
fn a_caller_who_is_understood_in_a_noise_is_not_silent() {
    let mut guard = after_words(1_000);
    guard.caller_started(2_000);
    assert_eq!(guard.step(17_000, true), None);
    says(&mut guard, 1_000, 18_000);
    assert_eq!(guard.next(), Some((29_000, GuardStep::Remind)));
    assert_eq!(guard.step(29_000, true), Some(GuardStep::Remind));
    says(&mut guard, 1_000, 30_000);
    guard.caller_was_heard(35_000);
    assert_eq!(guard.next(), Some((45_000, GuardStep::Remind)));
}

#[test]
fn a_caller_who_types_is_neither_silent_nor_waiting() {
    let mut guard = after_words(1_000);
    guard.key_pressed(1_000);
    assert_eq!(guard.due(), None);
    guard.caller_started(2_000);
    guard.caller_ended(3_000, 3_400);
    guard.key_pressed(3_500);
    assert_eq!(guard.due(), None);
    guard.caller_ended(8_000, 8_000);
    assert_eq!(guard.due(), Some(10_500));
}

#[test]
fn without_a_model_nobody_is_left_for_silence() {
    let mut guard = after_words(1_000);
    assert_eq!(steps(&mut guard, 200_000, false), []);
    let due = guard.due().expect("a reminder");
    assert_eq!(guard.step(due, true), Some(GuardStep::Remind));
}

#[test]
fn no_filler_is_heard_over_the_agents_words() {
    let mut guard = after_words(5_000);
    guard.function_began(1_000);
    assert_eq!(guard.due(), Some(7_000));
}

#[rstest]
#[case::waits(true, 62_500)]
#[case::is_silent(false, 70_000)]
fn hold_does_not_count(#[case] waits: bool, #[case] due: u64) {
    let mut guard = after_words(1_000);
    if waits {
        guard.caller_started(0);
        guard.caller_ended(2_000, 2_400);
    }
    guard.held(true, 3_000);
    assert_eq!(guard.due(), None);
    guard.held(false, 60_000);
    assert_eq!(guard.due(), Some(due));
}

#[derive(Debug, Clone)]
enum Happening {
    Started,
    Ended,
    Says(usize),
    TurnOver,
    Paused,
    Continued,
    Flushed,
    Began,
    Over,
    Held(bool),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        Just(Happening::Started),
        Just(Happening::Ended),
        (0_usize..3_000).prop_map(Happening::Says),
        Just(Happening::TurnOver),
        Just(Happening::Paused),
        Just(Happening::Continued),
        Just(Happening::Flushed),
        Just(Happening::Began),
        Just(Happening::Over),
        any::<bool>().prop_map(Happening::Held),
    ]
}

proptest! {
    /// Once nothing more happens, the guard always comes to an end, in steps of growing times.
    #[test]
    fn it_always_comes_to_an_end(happenings in proptest::collection::vec((happening(), 0_u64..3_000), 0..60)) {
        let mut guard = guard();
        guard.begin(0);
        let mut now = 0;
        for (happening, wait) in happenings {
            now += wait;
            steps(&mut guard, now, true);
            match happening {
                Happening::Started => guard.caller_started(now),
                Happening::Ended => { guard.caller_ended(now.saturating_sub(400), now); }
                Happening::Says(ms) => { guard.agent_says(&speech(ms), now); }
                Happening::TurnOver => guard.turn_over(),
                Happening::Paused => guard.paused(now),
                Happening::Continued => guard.continued(now),
                Happening::Flushed => guard.flushed(now),
                Happening::Began => guard.function_began(now),
                Happening::Over => guard.function_ended(now),
                Happening::Held(is_held) => guard.held(is_held, now),
            }
        }
        // The caller falls silent, and the service answers every function.
        guard.held(false, now);
        guard.continued(now);
        guard.caller_ended(now, now);
        (0..60).for_each(|_| guard.function_ended(now));
        let steps = steps(&mut guard, now + 1_000_000, true);
        let last = steps.last().map(|(_, step)| *step);
        prop_assert!(matches!(last, Some(GuardStep::GiveUp | GuardStep::EndForSilence)), "{steps:?}");
        prop_assert!(steps.windows(2).all(|pair| pair[0].0 <= pair[1].0) && steps.len() <= 5);
    }
}
