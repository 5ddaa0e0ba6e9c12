//! Deadlines and failures.

use proptest::prelude::*;
use rstest::rstest;

use super::*;

fn status(words: &str) -> CloseReason {
    CloseReason {
        refused: true,
        words: words.to_owned(),
        ..CloseReason::default()
    }
}

/// A story in which a request of this kind is open and has brought nothing.
fn waiting(stage: &str) -> Story {
    let mut story = Story::greeted();
    story.caller_speaks(1_000);
    story.pass(PAUSE_MS);
    if stage != "stt" {
        story.writes_down("Where is my order?");
    }
    if stage == "tts" {
        story.answers("It comes soon.");
    }
    assert_eq!(story.open.len(), 1, "{:?}", story.open);
    story
}

#[rstest]
#[case::text("stt", 10_000, "no text came within 10 s")]
#[case::first_token("llm", 5_000, "no answer began within 5 s")]
#[case::first_sound("tts", 5_000, "no sound came within 5 s")]
fn each_deadline_is_met_twice(#[case] stage: &str, #[case] limit: u64, #[case] words: &str) {
    let mut story = waiting(stage);
    story.pass(limit - 1);
    assert_eq!(story.count(&VoiceEvent::Away), 0);
    let made = story.made.len();
    story.pass(1);
    assert_eq!(story.told.last(), Some(&VoiceEvent::Away));
    assert!(story.open.is_empty());
    story.pass(200);
    assert_eq!(story.made.len(), made + 1, "it is tried once more");
    assert_eq!(story.made[made], story.made[made - 1]);
    story.pass(limit);
    let lost = story.lost().unwrap();
    assert!(
        lost.contains(&format!("telephony.pipeline.{stage}")) && lost.contains(words),
        "{lost}"
    );
    assert!(story.open.is_empty());
}

fn asks_now(story: &mut Story) {
    story.say(VoiceInput::AnswerNow("The caller waits.".to_owned()));
}

#[rstest]
#[case::the_first(0)]
#[case::the_second(1)]
fn a_model_that_does_not_begin_is_asked_once_more_and_the_first_answer_counts(#[case] wins: usize) {
    let mut story = waiting("llm");
    asks_now(&mut story);
    story.pass(999);
    assert_eq!(story.open.len(), 1, "it has hardly begun");
    story.pass(1);
    asks_now(&mut story);
    let asked: Vec<(u32, PipelineRequest)> = story.open.clone();
    assert_eq!(asked.len(), 2, "once more, and not twice");
    assert_eq!(asked[0].1, asked[1].1);
    let (winner, loser) = (asked[wins].0, asked[1 - wins].0);
    story.open.swap(0, wins);
    story.writes("It comes");
    assert!(story.open.iter().all(|it| it.0 != loser), "is cancelled");
    // Late words of the other one are not said.
    let late = ChatDelta {
        content: " Never.".to_owned(),
        ..ChatDelta::default()
    };
    story.reply(loser, PipelineReply::Chat(late));
    assert_eq!(
        story.first(|it| matches!(it, PipelineRequest::Chat { .. })),
        winner
    );
    story.answers(" soon.");
    assert_eq!(story.clauses(), ["It comes soon."]);
    // A model that has begun is not asked once more.
    let asked = story.asked_times();
    story.speaks(500);
    story.pass(1_000);
    story.caller_says("And now?");
    story.writes("Well, ");
    asks_now(&mut story);
    story.pass(1_000);
    assert_eq!(story.asked_times(), asked + 1);
}

/// A request that was made twice.
fn asked_twice() -> Story {
    let mut story = waiting("llm");
    asks_now(&mut story);
    story.pass(1_000);
    assert_eq!(story.open.len(), 2);
    story
}

#[rstest]
#[case::broken(CloseReason::gone("it broke"))]
#[case::final_for_one(CloseReason { is_final: true, ..status("it answers with status 403") })]
#[case::refused(status("it answers with status 400"))]
#[case::limited(CloseReason { retry_after: Some(Duration::from_secs(60)), ..CloseReason::gone("it answers with status 429") })]
fn of_two_requests_one_that_fails_leaves_the_other(
    #[case] why: CloseReason,
    #[values(0, 1)] fails: usize,
) {
    let mut story = asked_twice();
    story.open.swap(0, fails);
    let asked = story.asked_times();
    story.fails(why);
    story.pass(1_000);
    assert_eq!(story.asked_times(), asked, "the other one is left");
    assert_eq!((story.count(&VoiceEvent::Away), story.lost()), (0, None));
    story.answers("It comes soon.");
    story.speaks(500);
    assert_eq!(story.milliseconds(), 500);
}

#[test]
fn of_two_requests_that_fail_the_last_counts() {
    let mut story = asked_twice();
    let asked = story.asked_times();
    story.fails(CloseReason::gone("it broke"));
    story.fails(CloseReason::gone("it broke"));
    assert_eq!(story.count(&VoiceEvent::Away), 1);
    story.pass(200);
    assert_eq!(story.asked_times(), asked + 1);
    story.fails(CloseReason::gone("it broke"));
    assert!(story.lost().is_some());
}

#[test]
fn of_two_requests_one_without_an_answer_leaves_the_other() {
    let mut story = asked_twice();
    story.ends();
    assert!(story.is_thinking(), "the other one is left");
    story.answers("It comes soon.");
    assert_eq!(story.clauses(), ["It comes soon."]);
    assert!(!story.is_thinking());
}

#[test]
fn a_caller_who_goes_on_cancels_both_requests() {
    let mut story = asked_twice();
    story.caller_speaks(1_000);
    assert!(!story.is_thinking());
}

#[test]
fn a_second_attempt_that_succeeds_is_reported() {
    let mut story = waiting("tts");
    story.fails(status("it answers with status 500"));
    assert_eq!(story.told.last(), Some(&VoiceEvent::Away));
    story.pass(200);
    story.speaks(500);
    assert_eq!(story.count(&VoiceEvent::Reconnected), 1);
    assert_eq!(story.milliseconds(), 500);
    // The next failure is the first again.
    story.caller_says("Halo.");
    story.answers("Halo.");
    story.fails(status("it answers with status 500"));
    assert_eq!(story.lost(), None);
}

#[test]
fn a_clause_that_hangs_is_noticed_while_another_sounds() {
    let mut story = Story::greeted();
    story.caller_says("Where is my order?");
    story.answers("It comes soon. By motorcycle.");
    assert_eq!(story.clauses().len(), 2);
    for _ in 0..49 {
        story.sounds(100);
        story.pass(100);
    }
    story.sounds(100);
    story.pass(99);
    assert_eq!(story.clauses().len(), 2);
    story.pass(1);
    assert_eq!(story.clauses(), ["It comes soon."]);
    story.speaks(100);
    story.pass(1_000);
    assert_eq!(story.clauses(), ["By motorcycle."]);
}

#[test]
fn no_deadline_counts_while_the_call_has_enough_to_play() {
    let mut story = Story::greeted();
    story.caller_says("Where is my order?");
    story.writes("It comes soon. By motorcycle. And");
    story.is_blocked = true;
    story.sounds(500);
    story.pass(60_000);
    assert_eq!(story.open.len(), 3);
    story.is_blocked = false;
    story.give(SessionInput::Drained);
    story.pass(4_999);
    assert_eq!(story.count(&VoiceEvent::Away), 0);
    story.pass(1);
    assert_eq!(story.count(&VoiceEvent::Away), 1);
}

#[rstest]
#[case(CloseReason { is_final: true, ..status("it answers with status 401") })]
#[case(status("it answers with status 429 and the error insufficient_quota"))]
#[case(status("it answers with status 400 and the error model_not_found"))]
#[case(CloseReason { retry_after: Some(Duration::from_secs(60)), ..CloseReason::gone("it answers with status 429") })]
fn what_stays_is_not_tried_again(#[case] why: CloseReason) {
    for stage in ["stt", "llm", "tts"] {
        let mut story = waiting(stage);
        let made = story.made.len();
        story.fails(why.clone());
        assert!(story.lost().unwrap().contains(stage));
        story.pass(60_000);
        assert_eq!(story.made.len(), made);
    }
}

#[test]
fn a_server_that_names_a_time_gets_it() {
    let mut story = waiting("llm");
    let made = story.made.len();
    story.fails(CloseReason {
        retry_after: Some(Duration::from_secs(3)),
        ..CloseReason::gone("it answers with status 429")
    });
    story.pass(2_999);
    assert_eq!(story.made.len(), made);
    story.pass(1);
    assert_eq!(story.made.len(), made + 1);
}

#[test]
fn a_server_that_tells_no_usage_is_asked_without() {
    let mut story = waiting("llm");
    story.fails(status("it answers with status 400"));
    assert!(matches!(
        story.made.last(),
        Some(PipelineRequest::Chat { is_plain: true, .. })
    ));
    assert_eq!(
        story.told.last(),
        Some(&VoiceEvent::CallerSaid("Where is my order? ".to_owned()))
    );
    story.answers("Soon.");
    story.speaks(500);
    story.caller_says("When?");
    assert!(matches!(
        story.made.last(),
        Some(PipelineRequest::Chat { is_plain: true, .. })
    ));
    // A refusal that has other reasons.
    for _ in 0..2 {
        story.fails(status("it answers with status 400"));
        story.pass(200);
    }
    assert!(story.lost().is_some());
}

#[test]
fn an_answer_that_breaks_off_is_gone_on_with() {
    let mut story = waiting("llm");
    story.writes("It comes soon. By motor");
    story.fails(CloseReason::gone("its stream broke off"));
    assert!(story.told.contains(&VoiceEvent::Away));
    story.speaks(500);
    story.pass(200);
    story.speaks(500);
    let messages = story.messages();
    assert_eq!(messages[4], "assistant: It comes soon. By motor");
    assert!(messages[5].contains("go on where"), "{messages:?}");
    story.writes("Soon.");
    story.fails(CloseReason::gone("its stream broke off"));
    assert!(story.lost().is_some(), "twice is enough");
}

/// The caller is helped by the call then: an empty answer is no failure.
#[test]
fn a_second_attempt_that_brings_nothing_is_over_too() {
    let mut story = waiting("llm");
    story.fails(CloseReason::gone("the connection broke"));
    assert_eq!(story.told.last(), Some(&VoiceEvent::Away));
    story.pass(200);
    let connection = story.first(|it| matches!(it, PipelineRequest::Chat { .. }));
    story.reply(connection, PipelineReply::Done);
    assert_eq!(story.told.last(), Some(&VoiceEvent::Reconnected));
}

#[test]
fn an_answer_that_stalls_is_broken_off() {
    let mut story = waiting("llm");
    story.writes("It comes");
    story.pass(4_000);
    story.writes("");
    story.pass(1_000);
    assert_eq!(
        story.count(&VoiceEvent::Away),
        1,
        "empty pieces are no answer"
    );
}

#[test]
fn a_model_that_thinks_first_has_begun() {
    let mut story = waiting("llm");
    for _ in 0..4 {
        story.pass(4_000);
        story.delta(ChatDelta {
            is_thinking: true,
            ..ChatDelta::default()
        });
    }
    story.answers("It comes soon.");
    assert_eq!(story.clauses(), ["It comes soon."]);
    assert_eq!(story.count(&VoiceEvent::Away), 0);
}

#[test]
fn an_answer_that_stops_before_a_clause_while_the_caller_waits_is_gone_on_with() {
    let mut story = waiting("llm");
    story.writes("It comes");
    story.pass(999);
    let asked = story.asked_times();
    asks_now(&mut story);
    assert_eq!(story.asked_times(), asked, "it may go on");
    story.pass(1);
    asks_now(&mut story);
    story.speaks(100);
    assert_eq!(story.asked_times(), asked + 1);
    let messages = story.messages();
    assert_eq!(messages[4], "assistant: It comes");
    assert!(messages[5].contains("go on where"), "{messages:?}");
    assert_eq!(story.count(&VoiceEvent::Away), 0, "nothing has failed");
}

/// Some servers send a call of a function in one piece at its end.
#[test]
fn an_answer_of_which_something_is_spoken_may_take_its_time() {
    let mut story = waiting("llm");
    story.writes("One moment. ");
    story.speaks(500);
    story.pass(4_000);
    let asked = story.asked_times();
    asks_now(&mut story);
    assert_eq!(story.asked_times(), asked);
    story.calls(&[("check_order", "{}")]);
    let is_call = |told: &VoiceEvent| matches!(told, VoiceEvent::Tool { .. });
    assert!(story.told.iter().any(is_call), "{:?}", story.told);
}

#[test]
fn a_clause_that_breaks_off_goes_on_where_it_stopped() {
    let mut story = waiting("tts");
    story.billed.clear();
    story.sounds(500);
    story.clause_fails();
    assert_eq!(story.said(), "It ");
    assert_eq!(story.count(&VoiceEvent::Away), 0, "it goes on at once");
    story.pass(200);
    assert_eq!(story.clauses(), ["It comes soon."]);
    story.sounds(300);
    assert_eq!(story.milliseconds(), 500, "the caller has heard this");
    story.speaks(700);
    assert_eq!(story.milliseconds(), 1_000);
    assert_eq!(story.said(), "It comes soon. ");
    assert_eq!(story.told.last(), Some(&VoiceEvent::TurnOver));
    let characters: u64 = story.billed.iter().map(|usage| usage.characters).sum();
    assert_eq!(characters, 2 * 14, "it was made twice");
    story.caller_says("What?");
    assert_eq!(story.messages()[4], "assistant: It comes soon.");
}

#[test]
fn clauses_that_fail_together_are_one_failure() {
    let mut story = waiting("llm");
    story.writes("It comes soon. By motorcycle. And hot. ");
    assert_eq!(story.clauses(), ["It comes soon.", "By motorcycle."]);
    story.clause_fails();
    story.clause_fails();
    assert_eq!(story.lost(), None);
    story.pass(200);
    assert_eq!(story.clauses(), ["It comes soon."], "one at a time");
    story.speaks(500);
    assert_eq!(story.clauses(), ["By motorcycle.", "And hot."]);
    story.clause_fails();
    story.clause_fails();
    story.pass(200);
    story.clause_fails();
    assert!(story.lost().is_some(), "the second attempt failed, too");
}

/// Some servers report the sum so far with each part of an answer.
#[rstest]
#[case::done(|story: &mut Story| story.ends())]
#[case::failed(|story: &mut Story| story.fails(CloseReason::gone("its stream broke off")))]
#[case::lost(|story: &mut Story| story.fails(status("it answers with the error insufficient_quota")))]
#[case::cancelled(|story: &mut Story| story.caller_speaks(700))]
fn the_usage_of_an_answer_is_billed_once(#[case] ends: fn(&mut Story)) {
    let mut story = waiting("llm");
    story.billed.clear();
    let usage = |text_out| Usage {
        text_in: 10,
        text_out,
        ..Usage::default()
    };
    for text_out in 1..5 {
        story.delta(ChatDelta {
            content: "It ".to_owned(),
            usage: Some(usage(text_out)),
            ..ChatDelta::default()
        });
    }
    assert_eq!(story.billed, []);
    ends(&mut story);
    assert_eq!(story.billed, [usage(4)]);
}

#[rstest]
#[case::breaks(|story: &mut Story, connection: u32| {
    let why = CloseReason::gone("the connection broke");
    story.give(SessionInput::Closed { connection, why });
})]
#[case::stays_open(|story: &mut Story, _: u32| story.pass(2_000))]
fn a_fault_behind_a_complete_answer_is_none(#[case] fault: fn(&mut Story, u32)) {
    let mut story = waiting("llm");
    story.writes("It comes soon.");
    let connection = story.open[0].0;
    story.delta(ChatDelta {
        is_last: true,
        ..ChatDelta::default()
    });
    story.speaks(500);
    story.pass(1_000);
    story.caller_says("And the milk?");
    story.pass(4_000);
    let newer = story.open.last().unwrap().0;
    let content = "It comes, ".to_owned();
    story.reply(
        newer,
        PipelineReply::Chat(ChatDelta {
            content,
            ..ChatDelta::default()
        }),
    );
    fault(&mut story, connection);
    assert_eq!(story.count(&VoiceEvent::Away), 0);
    assert_eq!(story.asked_times(), 2);
    story.open.retain(|it| it.0 != connection);
    story.answers("too.");
    story.speaks(500);
    assert_eq!(story.said(), "It comes soon. It comes, too. ");
}

#[test]
fn nothing_is_waited_for_while_the_caller_speaks() {
    let mut story = waiting("llm");
    story.activity(true);
    story.fails(CloseReason::gone("its stream broke off"));
    story.audio(500);
    story.activity(false);
    story.pass(PAUSE_MS);
    assert_eq!(story.count(&VoiceEvent::Away), 0);
    story.writes_down("");
    assert_eq!(story.asked_times(), 2, "it is tried once more");

    let mut story = waiting("llm");
    story.fails(CloseReason::gone("its stream broke off"));
    assert_eq!(story.told.last(), Some(&VoiceEvent::Away));
    story.activity(true);
    assert_eq!(story.told.last(), Some(&VoiceEvent::Reconnected));
}

#[test]
fn speech_without_sound_is_a_failure() {
    let mut story = waiting("tts");
    let connection = story.open[0].0;
    story.reply(connection, PipelineReply::Done);
    assert_eq!(story.told.last(), Some(&VoiceEvent::Away));
}

#[test]
fn what_has_no_end_is_cut() {
    let mut story = waiting("tts");
    for _ in 0..700 {
        if !story.open.is_empty() {
            story.sounds(100);
        }
    }
    assert_eq!(story.milliseconds(), 60_000);
    assert_eq!(story.said(), "It comes ", "not the end");
    assert_eq!(story.told.last(), Some(&VoiceEvent::TurnOver));

    let mut story = waiting("llm");
    for _ in 0..10_000 {
        if story.is_thinking() {
            story.writes("more and more ");
        }
    }
    assert!(!story.is_thinking());
    while !story.clauses().is_empty() {
        story.speaks(10);
    }
    let said = story.said().len();
    assert!((3_900..4_100).contains(&said), "{said}");
}

#[test]
fn a_model_that_calls_functions_without_a_pause_is_lost() {
    let mut story = waiting("llm");
    for number in 1..400 {
        if story.lost().is_some() {
            return;
        }
        story.calls(&[("check_order", "{}")]);
        story.outcome(&format!("call-{number}"));
    }
    panic!("it goes on");
}

fn inputs() -> impl Strategy<Value = SessionInput<PipelineReply>> {
    let spoken = prop_oneof![
        Just(VoiceInput::Greet),
        Just(VoiceInput::Audio(vec![1; 640])),
        any::<bool>().prop_map(|speaks| VoiceInput::Activity { speaks }),
        Just(VoiceInput::Text("psst".to_owned())),
        Just(VoiceInput::AnswerNow("now".to_owned())),
        any::<u64>().prop_map(|played_ms| VoiceInput::Interrupted { played_ms }),
        (1..5_u32).prop_map(|id| VoiceInput::ToolOutcome {
            id: format!("call-{id}"),
            outcome: ToolOutcome::success(json!({}))
        }),
    ];
    let delta =
        ("[a-c. ]{0,9}", any::<bool>(), any::<bool>()).prop_map(|(content, calls, is_last)| {
            let mut call = CallDelta::default();
            call.function.name = "check_order".to_owned();
            ChatDelta {
                is_thinking: false,
                content,
                calls: if calls { vec![call] } else { vec![] },
                is_last,
                usage: None,
            }
        });
    let reply = prop_oneof![
        "[a-c. ]{0,9}".prop_map(PipelineReply::Transcript),
        delta.prop_map(PipelineReply::Chat),
        (0..9_000_usize).prop_map(|samples| PipelineReply::Audio(vec![1; samples])),
        Just(PipelineReply::Done),
    ];
    prop_oneof![
        4 => spoken.prop_map(SessionInput::Spoken),
        4 => (0..12_u32, reply).prop_map(|(connection, reply)| SessionInput::Message {
            connection,
            message: Box::new(reply)
        }),
        1 => (0..12_u32, any::<bool>()).prop_map(|(connection, refused)| SessionInput::Closed {
            connection,
            why: CloseReason { refused, ..CloseReason::gone("gone") }
        }),
        1 => Just(SessionInput::Drained),
        1 => Just(SessionInput::Spoken(VoiceInput::Summarise)),
        2 => Just(SessionInput::Time),
    ]
}

proptest! {
    #[test]
    fn whatever_comes_it_stays_bounded(inputs in prop::collection::vec((inputs(), 0..900_u64), 1..120)) {
        let mut story = Story::with(true, &[]);
        for (input, later) in inputs {
            let was_over = story.machine.is_over();
            let told = story.told.len();
            story.give(input);
            prop_assert!(!was_over || story.told.len() == told, "nothing follows the end");
            prop_assert!(story.open.len() <= 4, "{:?}", story.open);
            story.pass(later);
        }
    }
}
