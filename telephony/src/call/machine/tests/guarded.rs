//! Calls in which nobody waits in silence, whatever the model does.

use dikala_sip::waiting_tone;

use super::*;
use crate::call::machine::guard::Stall;

/// Agent and caller have spoken, and the caller waits since now.
fn asked(rules: CallRules) -> Story {
    let mut call = Story::talking_with(rules);
    call.on(AUDIO());
    let effects = call.on(MachineInput::Voice(VoiceEvent::TurnOver));
    call.wait(100);
    call.play(&effects);
    call.on(MachineInput::Leg(LegEvent::VoiceStarted));
    call.wait(1_400);
    call.on(MachineInput::Leg(LegEvent::VoiceEnded));
    call
}

/// The guard's actions, each with the time since now.
fn guards(call: &mut Story, ms: u64) -> Vec<(u64, String)> {
    let since = call.ms;
    let until = call.ms + ms;
    let mut all = Vec::new();
    while call.ms < until && !call.machine.is_over() {
        let mut effects = call.wait(100);
        effects.extend(call.play(&effects));
        all.extend(lines(call.ms - since, &effects));
    }
    all
}

/// The guard's actions among these effects.
fn lines(at: u64, effects: &[MachineEffect]) -> Vec<(u64, String)> {
    let line = |effect: &MachineEffect| {
        Some(match effect {
            MachineEffect::Voice(VoiceInput::Text(_) | VoiceInput::AnswerNow(_)) => {
                "text".to_owned()
            }
            MachineEffect::Voice(VoiceInput::Goodbye(_)) => "goodbye".to_owned(),
            MachineEffect::Say(Speech::Audio(samples)) if *samples == waiting_tone() => {
                "tone".to_owned()
            }
            MachineEffect::Say(Speech::Audio(_)) => "phrase".to_owned(),
            MachineEffect::OpenVoice(name, _) => format!("open {name}"),
            MachineEffect::Leg(Order::Transfer { to }) => format!("transfer {to}"),
            MachineEffect::Service(CallReport::Failed { reason, .. }, _) => format!("{reason}"),
            _ => return None,
        })
    };
    effects
        .iter()
        .filter_map(line)
        .map(|line| (at, line))
        .collect()
}

fn line(at: u64, what: &str) -> (u64, String) {
    (at, what.to_owned())
}

#[test]
fn a_model_that_does_not_answer_is_asked_filled_in_for_replaced_and_left() {
    let mut call = asked(rules());
    // The caller's voice ended 300 ms ago.
    let mut all = guards(&mut call, 12_000);
    call.on(MachineInput::Voice(VoiceEvent::Ready));
    all.extend(
        guards(&mut call, 12_000)
            .into_iter()
            .map(|(at, what)| (at + 12_000, what)),
    );
    assert_eq!(
        all,
        [
            line(2_200, "text"),
            line(5_700, "phrase"),
            line(11_700, "open gemini"),
            line(19_700, &format!("transfer {}", person().as_str())),
        ]
    );
}

#[test]
fn without_a_person_the_call_ends_with_an_apology() {
    let mut call = asked(rules());
    call.machine
        .agent
        .as_mut()
        .expect("an agent")
        .escalation_number = None;
    guards(&mut call, 12_000);
    call.on(MachineInput::Voice(VoiceEvent::Ready));
    let all = guards(&mut call, 20_000);
    assert_eq!(all.last().map(|(_, what)| what.as_str()), Some("ai_error"));
}

#[test]
fn the_new_session_knows_the_conversation_so_far() {
    let mut call = asked(rules());
    call.on(said(Speaker::Caller, "Where is my order?"));
    let effects = call.wait(11_700);
    let opened = effects.iter().find_map(|effect| match effect {
        MachineEffect::OpenVoice(_, setup) => Some(setup),
        _ => None,
    });
    let so_far = &opened.expect("a session").so_far;
    let asked = (Speaker::Caller, "Where is my order?".to_owned());
    assert!(so_far.contains(&asked), "{so_far:?}");
}

#[test]
fn a_caller_who_types_or_is_understood_is_not_asked_whether_somebody_is_there() {
    let mut call = Story::talking();
    call.on(AUDIO());
    call.on(MachineInput::Voice(VoiceEvent::TurnOver));
    for _ in 0..5 {
        assert_eq!(guards(&mut call, 8_000), []);
        call.on(said(Speaker::Caller, "Hm. "));
    }
    // Keys that follow each other within 1.5 s are one sequence.
    for _ in 0..20 {
        call.on(MachineInput::Leg(LegEvent::Key('1')));
        assert_eq!(guards(&mut call, 1_000), []);
    }
}

/// It would call the function again, and ask for the keys again.
#[test]
fn the_new_session_knows_outcomes_and_keys_that_are_not_shown() {
    let mut call = asked(rules());
    let agent = call.machine.agent.as_mut().expect("an agent");
    agent.conversation.mask_keys = true;
    call.on(tool("t", "check_order", json!({"id": "A7"})));
    call.on(outcome("t", json!({"minutes": 20})));
    call.on(MachineInput::Leg(LegEvent::Key('4')));
    call.on(MachineInput::Leg(LegEvent::Key('#')));
    call.on(AUDIO());
    let effects = call.wait(20_000);
    let opened = effects.iter().find_map(|effect| match effect {
        MachineEffect::OpenVoice(_, setup) => Some(setup),
        _ => None,
    });
    let setup = opened.expect("a session");
    let said = |text: &str| setup.so_far.iter().any(|(_, said)| said.contains(text));
    assert!(said("A7") && said("20") && said("pressed 4 #"), "{setup:?}");
    assert!(setup.is_answer_cut, "the agent has begun to answer");
}

#[test]
fn an_answer_ends_the_wait_and_has_a_latency() {
    let mut call = asked(rules());
    call.wait(500);
    let effects = call.on(AUDIO());
    let provider = VoiceProvider::Gemini;
    assert!(effects.contains(&MachineEffect::TurnLatency { provider, ms: 800 }));
    call.on(said(Speaker::Agent, "It is on its way."));
    call.on(MachineInput::Voice(VoiceEvent::TurnOver));
    assert_eq!(guards(&mut call, 10_000), []);
    call.on(MachineInput::Leg(LegEvent::HungUp));
    let effects = call.wait(5_000);
    let transcript = effects.iter().find_map(|effect| match effect {
        MachineEffect::Service(CallReport::Transcript { turns, .. }, _) => turns.last(),
        _ => None,
    });
    assert_eq!(transcript.and_then(|turn| turn.latency_ms), Some(800));
}

#[test]
fn a_silent_caller_is_asked_twice_and_left_with_a_goodbye() {
    let mut call = Story::talking();
    call.on(AUDIO());
    call.on(MachineInput::Voice(VoiceEvent::TurnOver));
    for (silence_ms, step) in [(10_100, "text"), (20_000, "text")] {
        assert_eq!(guards(&mut call, silence_ms), [line(silence_ms, step)]);
        call.on(AUDIO());
        call.on(MachineInput::Voice(VoiceEvent::TurnOver));
    }
    assert_eq!(guards(&mut call, 45_000), [line(45_000, "goodbye")]);
    call.wait(1_000);
    call.on(AUDIO());
    let effects = call.on(MachineInput::Voice(VoiceEvent::TurnOver));
    let mut all = effects;
    all.extend(call.wait(100));
    assert!(!hung_up(&call.play(&all)));
    assert!(!hung_up(&call.wait(299)));
    assert!(hung_up(&call.wait(1)));
    call.on(MachineInput::VoiceGone);
    assert!(call.machine.is_over());
}

#[test]
fn who_speaks_into_the_goodbye_is_heard() {
    let mut call = Story::talking();
    call.on(AUDIO());
    call.on(tool("t", "end_call", json!({})));
    let heard = call.on(MachineInput::Leg(LegEvent::Audio(vec![5; 320])));
    assert_eq!(
        heard,
        [MachineEffect::Voice(VoiceInput::Audio(vec![5; 320]))]
    );
    assert_eq!(call.caller_speaks(), [Order::Pause]);
    let is_told = |effects: &[MachineEffect]| {
        let mut told = tells(effects).into_iter();
        told.any(|told| matches!(told, VoiceInput::Text(_)))
    };
    assert!(!is_told(&call.wait(499)) && is_told(&call.wait(1)));
    assert!(!hung_up(&call.wait(30_000)));
}

/// The model stops for the caller, too: the rest of the goodbye is not heard after the caller's words.
#[test]
fn an_interrupted_goodbye_is_not_heard_later() {
    let mut call = Story::talking();
    call.on(AUDIO());
    call.on(tool("t", "end_call", json!({})));
    let settled = call.wait(1_500);
    assert!(!settled.is_empty());
    call.caller_speaks();
    let effects = call.on(MachineInput::Voice(VoiceEvent::Interrupted));
    assert!(
        !orders(&effects).contains(&&Order::Flush),
        "it may be a cough"
    );
    assert!(orders(&call.wait(600)).contains(&&Order::Flush));
}

/// A cough pauses the goodbye, also in the 300 ms after it.
#[test]
fn a_short_voice_stops_no_goodbye() {
    let mut call = Story::talking();
    call.on(AUDIO());
    call.on(tool("t", "end_call", json!({})));
    call.caller_speaks();
    assert!(!hung_up(&call.wait(450)));
    let effects = call.on(MachineInput::Leg(LegEvent::VoiceEnded));
    assert!(orders(&effects).contains(&&Order::Continue));
    let effects = call.wait(1_500);
    let mut all = call.play(&effects);
    call.caller_speaks();
    all.extend(call.wait(450));
    assert!(!hung_up(&all), "it may be a word");
    all.extend(call.on(MachineInput::Leg(LegEvent::VoiceEnded)));
    all.extend(call.wait(0));
    assert!(hung_up(&all));
    let is_told = |told: &&VoiceInput| matches!(told, VoiceInput::Text(_));
    assert!(!tells(&all).iter().any(is_told), "{all:?}");
}

/// The caller began before the model wanted to hang up, and is still speaking when the goodbye was played.
#[test]
fn who_speaks_when_the_goodbye_ends_is_heard() {
    let mut call = Story::talking();
    call.on(AUDIO());
    call.on(MachineInput::Leg(LegEvent::VoiceStarted));
    let mut effects = call.on(tool("t", "end_call", json!({})));
    effects.extend(call.wait(2_000));
    let mut all = call.play(&effects);
    all.extend(call.wait(300));
    let is_asked = |told: &&VoiceInput| matches!(told, VoiceInput::Text(_));
    assert!(tells(&all).iter().any(is_asked), "{all:?}");
    call.on(MachineInput::Leg(LegEvent::VoiceEnded));
    assert!(!hung_up(&call.wait(2_000)));
}

/// During a transfer the voice hears nothing, so it is told before that the caller's words are over.
#[test]
fn a_voice_that_is_left_for_a_person_hears_no_caller() {
    let mut call = Story::talking();
    call.on(MachineInput::Leg(LegEvent::VoiceStarted));
    let effects = call.on(tool("t", "transfer_to_human", json!({})));
    let over = VoiceInput::Activity { speaks: false };
    assert!(tells(&effects).contains(&&over), "{effects:?}");
}

#[test]
fn a_noise_without_end_keeps_no_call() {
    let mut call = Story::talking();
    for goodbye in 0..3 {
        call.on(AUDIO());
        call.on(tool(&format!("t{goodbye}"), "end_call", json!({})));
        call.on(MachineInput::Leg(LegEvent::VoiceStarted));
        call.wait(700);
        call.on(MachineInput::Leg(LegEvent::VoiceEnded));
    }
    let effects = call.wait(2_000);
    let mut all = call.play(&effects);
    all.extend(call.wait(300));
    assert!(hung_up(&all));
}

#[test]
fn a_function_that_takes_long_has_a_filler() {
    use dikala_entities::FillerKind::{Off, Tone, Words};
    for (fillers, expected) in [(Words, Some("text")), (Tone, Some("tone")), (Off, None)] {
        let mut call = asked(rules());
        let agent = call.machine.agent.as_mut().expect("an agent");
        agent.conversation.fillers = fillers;
        call.on(tool("t", "check_order", json!({})));
        let all = guards(&mut call, 5_000);
        assert_eq!(
            all,
            expected
                .map(|what| line(2_000, what))
                .into_iter()
                .collect::<Vec<_>>()
        );
        call.on(outcome("t", json!({"minutes": 20})));
        assert_eq!(
            guards(&mut call, 3_000),
            [line(2_500, "text")],
            "its result is awaited"
        );
    }
}

#[test]
fn stalls_and_interruptions_are_reported() {
    let mut call = asked(rules());
    let effects = call.wait(2_200);
    let (provider, stall) = (VoiceProvider::Gemini, Stall::AskedAgain);
    assert!(effects.contains(&MachineEffect::Stall { provider, stall }));
    call.on(said(Speaker::Agent, "One two three four"));
    call.on(MachineInput::Voice(VoiceEvent::Audio(vec![1_000; 24_000])));
    call.on(MachineInput::Voice(VoiceEvent::Interrupted));
    call.on(MachineInput::Leg(LegEvent::Flushed {
        total_played_ms: 520,
    }));
    let effects = call.on(MachineInput::Leg(LegEvent::HungUp));
    let mut all = effects;
    all.extend(call.wait(5_000));
    let voice = all.iter().find_map(|effect| match effect {
        MachineEffect::Service(CallReport::Hangup { voice, .. }, _) => Some(*voice),
        _ => None,
    });
    let voice = voice.expect("an end");
    assert_eq!((voice.stalls, voice.interruptions), (Some(1), Some(1)));
    assert_eq!(voice.voice_provider, Some(VoiceProvider::Gemini));
    assert!(
        told(&all)[1].ends_with("agent: One two"),
        "{:?}",
        told(&all)
    );
}

fn lost() -> MachineInput {
    MachineInput::Voice(VoiceEvent::Lost("the key is wrong".to_owned()))
}

fn opened(effects: &[MachineEffect]) -> Vec<VoiceProvider> {
    let opened = |effect: &MachineEffect| match effect {
        MachineEffect::OpenVoice(name, _) => Some(*name),
        _ => None,
    };
    effects.iter().filter_map(opened).collect()
}

#[test]
fn another_provider_takes_over_from_one_that_is_lost() {
    let mut call = asked(rules_with_fallback());
    let effects = call.on(lost());
    assert_eq!(opened(&effects), [VoiceProvider::Openai]);
    // A session that is replaced is not lost for good.
    assert!(!effects.contains(&MachineEffect::CloseVoice) && told(&effects).is_empty());
    assert!(effects.contains(&MachineEffect::Failover(VoiceProvider::Openai)));
    // It fails, too, before it says a word: the call ends.
    call.on(MachineInput::Voice(VoiceEvent::Ready));
    let effects = call.on(lost());
    assert!(opened(&effects).is_empty() && speaks(&effects) == 1);
}

/// Another provider has no voice of that name.
#[test]
fn the_name_of_a_voice_is_for_its_provider_alone() {
    let gemini = Some(VoiceProvider::Gemini);
    // A provider that is not configured is replaced by the default, which does not know the name either.
    let pipeline = Some(VoiceProvider::Pipeline);
    for (choice, knows_it) in [(None, true), (gemini, true), (pipeline, false)] {
        let mut agent = agent();
        agent.voice_provider = choice;
        agent.voice_name = Some("Kore".to_owned());
        let mut call = Story::with(rules_with_fallback());
        let named = |effects: &[MachineEffect]| {
            let name = |effect: &MachineEffect| match effect {
                MachineEffect::OpenVoice(_, setup) => Some(setup.agent.voice_name.clone()),
                _ => None,
            };
            effects.iter().find_map(name).expect("a voice is opened")
        };
        call.on(taken_for(agent));
        let first = named(&call.on(MachineInput::Leg(LegEvent::Answered)));
        assert_eq!(first.is_some(), knows_it, "{choice:?}");
        assert_eq!(named(&call.on(lost())), None, "{choice:?}");
    }
}

#[test]
fn two_providers_that_fail_in_turn_keep_the_call() {
    let mut call = asked(rules_with_fallback());
    for turn in 0..6 {
        let effects = call.on(lost());
        let next = [VoiceProvider::Openai, VoiceProvider::Gemini][turn % 2];
        assert_eq!(opened(&effects), [next]);
        call.on(MachineInput::Voice(VoiceEvent::Ready));
        assert_eq!(speaks(&call.on(AUDIO())), 1);
    }
}

#[test]
fn a_provider_that_is_away_for_three_seconds_is_left_and_the_caller_hears_one_filler() {
    let mut call = asked(rules_with_fallback());
    call.on(MachineInput::Voice(VoiceEvent::Away));
    let all = guards(&mut call, 5_000);
    let tone = line(4_500, "tone");
    assert_eq!(
        all,
        [line(1_400, "phrase"), line(3_000, "open openai"), tone]
    );
    call.on(MachineInput::Voice(VoiceEvent::Ready));
    let all = guards(&mut call, 3_000);
    let asked = line(2_500, "text");
    assert_eq!(all, [asked], "the filler of the wait was heard");
}

#[test]
fn a_session_that_takes_over_before_the_first_word_greets() {
    let mut call = Story::with(rules_with_fallback());
    call.on(taken());
    call.on(MachineInput::Leg(LegEvent::Answered));
    // The caller has heard the request for patience by then.
    let effects = call.wait(3_000);
    let so_far = effects.iter().find_map(|effect| match effect {
        MachineEffect::OpenVoice(VoiceProvider::Openai, setup) => Some(&setup.so_far),
        _ => None,
    });
    assert_eq!(so_far, Some(&Vec::new()));
    assert!(tells(&effects).contains(&&VoiceInput::Greet));
}

#[test]
fn an_interrupted_session_is_told_of_its_own_speech_alone() {
    let mut call = asked(rules_with_fallback());
    call.on(MachineInput::Voice(VoiceEvent::Audio(vec![1_000; 24_000])));
    call.on(lost());
    call.on(MachineInput::Voice(VoiceEvent::Ready));
    call.on(MachineInput::Voice(VoiceEvent::Audio(vec![1_000; 24_000])));
    call.on(MachineInput::Voice(VoiceEvent::Interrupted));
    let flushed = LegEvent::Flushed {
        total_played_ms: 1_520,
    };
    let effects = call.on(MachineInput::Leg(flushed));
    let told = tells(&effects);
    assert_eq!(told, [&VoiceInput::Interrupted { played_ms: 500 }]);
}

#[test]
fn each_provider_is_paid_at_its_own_prices() {
    let mut call = asked(rules_with_fallback());
    call.on(usage(100, 10));
    call.on(lost());
    call.on(usage(1_000, 1_000));
    let effects = call.on(MachineInput::Leg(LegEvent::HungUp));
    assert_eq!(told(&effects)[0], "hangup normal caller 120 at 1500");
}

fn early() -> CallRules {
    CallRules {
        opens_early: true,
        ..rules_with_fallback()
    }
}

/// A trunk has ten such sessions at once, and forged calls are never acknowledged.
#[test]
fn a_voice_that_opened_early_is_given_up_two_seconds_after_the_answer() {
    let mut call = Story::with(early());
    call.on(taken());
    call.on(MachineInput::Voice(VoiceEvent::Ready));
    let closed = |effects: &[MachineEffect]| effects.contains(&MachineEffect::CloseVoice);
    assert!(!closed(&call.wait(1_999)));
    assert!(closed(&call.wait(1)));
    assert!(call.wait(10_000).is_empty());
    let effects = call.on(MachineInput::Leg(LegEvent::Answered));
    assert_eq!(opened(&effects), [VoiceProvider::Gemini]);
    assert_eq!(tells(&effects), [&VoiceInput::Greet]);
}

/// A session that goes on after a broken connection need not know what it owes.
#[test]
fn a_model_that_comes_back_and_says_nothing_is_asked() {
    let mut call = asked(rules());
    call.on(MachineInput::Voice(VoiceEvent::Away));
    let away = guards(&mut call, 2_700);
    assert_eq!(away, [line(1_400, "phrase")]);
    call.on(MachineInput::Voice(VoiceEvent::Reconnected));
    assert_eq!(guards(&mut call, 5_000), [line(2_500, "text")]);
}

/// A connection that is set up, and lost again before the first word, each time.
fn flaps(call: &mut Story, rounds: usize, up_ms: u64, away_ms: u64) -> Vec<(u64, String)> {
    let since = call.ms;
    let mut all = Vec::new();
    for _ in 0..rounds {
        for (event, ms) in [
            (VoiceEvent::Away, away_ms),
            (VoiceEvent::Reconnected, up_ms),
        ] {
            let effects = call.on(MachineInput::Voice(event));
            let before = call.ms - since;
            all.extend(lines(before, &effects));
            call.play(&effects);
            let heard = guards(call, ms);
            all.extend(heard.into_iter().map(|(at, what)| (before + at, what)));
        }
    }
    all
}

#[test]
fn a_model_that_leaves_again_without_a_word_was_not_back() {
    let mut call = asked(rules_with_fallback());
    let all = flaps(&mut call, 20, 200, 100);
    let expected = [line(1_500, "phrase"), line(3_000, "open openai")];
    assert_eq!(all.get(..2), Some(&expected[..]), "{all:?}");
    let mut call = asked(rules());
    let all = flaps(&mut call, 27, 200, 100);
    let tones = all.iter().filter(|(_, what)| what == "tone").count();
    assert!(
        all[0] == line(1_500, "phrase") && tones == all.len() - 1 && tones >= 2,
        "{all:?}"
    );
    let effects = call.on(MachineInput::Voice(VoiceEvent::Away));
    assert!(effects.contains(&MachineEffect::VoiceLost), "{effects:?}");
}

#[test]
fn a_model_that_spoke_or_stayed_was_back() {
    let mut call = asked(rules_with_fallback());
    for _ in 0..5 {
        assert_eq!(flaps(&mut call, 1, 100, 1_000), []);
        assert_eq!(speaks(&call.on(AUDIO())), 1);
    }
    let mut call = Story::talking_with(rules_with_fallback());
    for _ in 0..5 {
        let opened = flaps(&mut call, 1, 10_000, 1_000);
        let opens = |(_, what): &(u64, String)| what.starts_with("open");
        assert!(!opened.iter().any(opens), "{opened:?}");
        call.on(MachineInput::Leg(LegEvent::VoiceStarted));
    }
}

/// The caller speaks meanwhile, and hears nothing because it is the caller's turn.
#[test]
fn a_model_that_listens_was_back() {
    for rules in [rules(), rules_with_fallback()] {
        let mut call = asked(rules);
        assert_eq!(flaps(&mut call, 1, 100, 1_000), []);
        call.on(MachineInput::Leg(LegEvent::VoiceStarted));
        call.wait(7_900);
        call.on(MachineInput::Leg(LegEvent::VoiceEnded));
        assert_eq!(flaps(&mut call, 1, 100, 400), []);
        assert_eq!(speaks(&call.on(AUDIO())), 1);
    }
}

/// The filler comes in time, also if the model is asked later.
#[test]
fn a_model_that_comes_back_often_delays_no_filler() {
    let mut call = asked(rules());
    assert_eq!(guards(&mut call, 4_200), [line(2_200, "text")]);
    let all = flaps(&mut call, 2, 2_200, 100);
    assert_eq!(all[0], line(1_500, "phrase"), "{all:?}");
}

/// Such sounds would be heard after the hold, when the model is long back.
#[test]
fn nothing_is_said_while_the_call_is_held() {
    let mut call = asked(rules());
    call.hold();
    call.on(MachineInput::Voice(VoiceEvent::Away));
    assert_eq!(guards(&mut call, 7_000), []);
    call.on(MachineInput::Leg(LegEvent::Held(false)));
    assert_eq!(guards(&mut call, 900), []);
}

#[test]
fn a_transfer_that_fails_is_no_silence_of_the_caller() {
    let mut call = Story::talking();
    call.on(AUDIO());
    let effects = call.on(MachineInput::Voice(VoiceEvent::TurnOver));
    call.play(&effects);
    for silence_ms in [10_100, 20_000] {
        assert_eq!(guards(&mut call, silence_ms).len(), 1, "a reminder");
        call.on(AUDIO());
        call.on(MachineInput::Voice(VoiceEvent::TurnOver));
    }
    call.on(tool("t", "transfer_to_human", json!({})));
    guards(&mut call, 60_000);
    call.on(MachineInput::Leg(LegEvent::Transfer(Err(
        "no answer".to_owned()
    ))));
    call.on(AUDIO());
    let effects = call.on(MachineInput::Voice(VoiceEvent::TurnOver));
    call.play(&effects);
    assert_eq!(guards(&mut call, 9_000), []);
}

#[test]
fn the_voice_opens_while_it_rings_and_speaks_after_the_answer() {
    let mut call = Story::with(early());
    call.effects.clear();
    let effects = call.on(taken());
    assert_eq!(opened(&effects), [VoiceProvider::Gemini]);
    assert!(orders(&effects).is_empty() && tells(&effects).is_empty());
    assert!(call.wait(700).is_empty());
    let effects = call.on(MachineInput::Voice(VoiceEvent::Ready));
    assert_eq!(orders(&effects), [&answer_order()]);
    let effects = call.on(MachineInput::Leg(LegEvent::Answered));
    assert_eq!(tells(&effects), [&VoiceInput::Greet]);
    assert_eq!(told(&effects), ["answered"]);
}

#[test]
fn a_voice_that_is_late_delays_the_answer_by_two_seconds() {
    let mut call = Story::with(early());
    call.on(taken());
    assert!(!orders(&call.wait(1_999)).contains(&&answer_order()));
    assert_eq!(orders(&call.wait(1)), [&answer_order()]);
    let effects = call.on(MachineInput::Leg(LegEvent::Answered));
    assert_eq!(tells(&effects), [&VoiceInput::Greet]);
    // The wait for the model counts from the answer.
    assert_eq!(guards(&mut call, 2_900), [line(1_400, "phrase")]);
}

#[test]
fn voices_that_fail_while_it_rings_leave_an_apology() {
    let mut call = Story::with(early());
    call.effects.clear();
    call.on(taken());
    assert_eq!(opened(&call.on(lost())), [VoiceProvider::Openai]);
    assert_eq!(orders(&call.on(lost())), [&answer_order()]);
    let effects = call.on(MachineInput::Leg(LegEvent::Answered));
    assert_eq!((told(&effects).len(), speaks(&effects)), (1, 1));
    let all = guards(&mut call, 9_000);
    assert_eq!(all.last().map(|(_, what)| what.as_str()), Some("ai_error"));
}

#[test]
fn a_caller_who_gives_up_while_the_voice_opens_has_abandoned_the_call() {
    for event in [LegEvent::Cancelled, LegEvent::HungUp] {
        let mut call = Story::with(early());
        call.on(taken());
        let effects = call.on(MachineInput::Leg(event));
        assert_eq!(told(&effects), ["hangup abandoned caller 0 at 0"]);
        assert!(call.machine.is_over());
    }
}

#[test]
fn an_agent_that_breaks_off_is_told_to_go_on() {
    let mut call = asked(rules());
    call.on(AUDIO());
    let asked = |effects: &[MachineEffect]| match tells(effects)[..] {
        [VoiceInput::AnswerNow(text)] => text.contains("Say the rest"),
        _ => false,
    };
    assert!(!asked(&call.wait(2_010)) && asked(&call.wait(20)));
}

#[test]
fn an_interruption_is_read_behind_all_that_was_said_before() {
    use InterruptionMode::{Fast, Model, Off};
    // While the agent speaks, and while the caller does.
    for (mode, expected) in [
        (Fast, [false, true]),
        (Model, [true, true]),
        (Off, [false, false]),
    ] {
        let mut call = Story::talking();
        let agent = call.machine.agent.as_mut().expect("an agent");
        agent.conversation.interruptions = mode;
        call.on(AUDIO());
        let agent_speaks = call.machine.may_be_interrupted();
        call.caller_speaks();
        let both = [agent_speaks, call.machine.may_be_interrupted()];
        assert_eq!(both, expected, "{mode:?}");
    }
}

#[test]
fn what_the_next_connection_says_is_a_turn_of_its_own() {
    let mut call = asked(rules());
    call.on(AUDIO());
    call.on(said(Speaker::Agent, "It is on"));
    call.on(MachineInput::Voice(VoiceEvent::Away));
    call.on(MachineInput::Voice(VoiceEvent::Reconnected));
    call.on(AUDIO());
    call.on(said(Speaker::Agent, "It is on its way."));
    let turns = call.machine.transcript.so_far();
    let agent = turns.iter().filter(|(who, _)| *who == Speaker::Agent);
    let said: Vec<&str> = agent.map(|(_, text)| text.as_str()).collect();
    assert_eq!(said, ["It is on", "It is on its way."]);
}

#[test]
fn keys_are_masked_where_the_tenant_wants_it() {
    let mut call = Story::talking();
    let agent = call.machine.agent.as_mut().expect("an agent");
    agent.conversation.mask_keys = true;
    for key in ['4', '2', '7', '#'] {
        let effects = call.on(MachineInput::Leg(LegEvent::Key(key)));
        if key == '#' {
            let words = "the caller pressed 4 2 7 #".to_owned();
            assert_eq!(tells(&effects), [&VoiceInput::Keys(words)]);
        }
    }
    call.on(AUDIO());
    call.on(said(Speaker::Agent, "Your code is 427."));
    call.on(MachineInput::Leg(LegEvent::HungUp));
    let summary = "The caller entered 4 2 7.".to_owned();
    let mut all = call.on(MachineInput::Voice(VoiceEvent::Summary(summary)));
    all.extend(call.wait(5_000));
    let sent = all.iter().find_map(|effect| match effect {
        MachineEffect::Service(CallReport::Transcript { summary, turns }, _) => {
            Some((summary, turns))
        }
        _ => None,
    });
    let (summary, turns) = sent.expect("a transcript");
    assert_eq!(summary, "The caller entered • • •.");
    assert!(
        turns.iter().all(|turn| !turn.text.contains("427")),
        "{turns:?}"
    );
}
