//! Figures over many turns, calls and faults, in simulated time: `docs/telephony.md`, *Figures*.

use dikala_testkit::gemini::ModelReaction;
use rstest::rstest;

use super::{
    simulated::{FRAME_MS, Fake, Reaction, SimulatedCall},
    *,
};

/// A shorter silence is a part of speech.
const PAUSE_MS: u64 = 300;
const SENTENCE_MS: u64 = 1_000;
/// A sentence is whole with its last letter; the space after it has its share of the time, too.
const LAST_SPACE_MS: u64 = 50;

/// The same numbers in every run.
struct Dice(u64);

impl Dice {
    fn between(&mut self, from: u64, to: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        from + (self.0 >> 33) % (to - from)
    }

    /// A voice in whole frames. A shorter one than 300 ms interrupts nobody.
    fn voice_ms(&mut self) -> u64 {
        self.between(8, 14) * FRAME_MS
    }
}

fn say(text: &str, ms: u64) -> Reaction {
    Reaction::Say(text.to_owned(), ms)
}

/// The reactions to a turn of the caller, of which the last has this text.
fn reactions(turn: u64, answer: &str) -> Vec<Reaction> {
    let answer = say(answer, 400);
    let silent = match turn {
        // Not even an answer to the words of the guard.
        250 | 750 => return vec![Reaction::Nothing, Reaction::Nothing, answer],
        turn if turn % 2 == 0 => return vec![answer],
        turn => match turn / 2 % 4 {
            0 => Reaction::Nothing,
            1 => Reaction::Empty,
            2 => Reaction::Stall("Well, ".to_owned(), 400),
            _ => Reaction::Write("In writing. ".to_owned()),
        },
    };
    vec![silent, answer]
}

/// The caller's pauses over 1,000 turns.
fn pauses_of_a_thousand_turns(fake: &Fake) -> Vec<u64> {
    let mut dice = Dice(7);
    let mut pauses = Vec::new();
    for conversation in 0..20 {
        let mut call = SimulatedCall::greeted(fake);
        for turn in conversation * 50..(conversation + 1) * 50 {
            call.wait(dice.between(300, 2_000));
            let answer = format!("Answer {turn}.");
            fake.answer(reactions(turn, &answer));
            let end = call.speak(dice.voice_ms());
            call.until_said(&answer);
            let silences = call.silences_since(end).into_iter();
            pauses.extend(silences.filter(|ms| *ms >= PAUSE_MS));
        }
        call.hang_up();
    }
    pauses.sort_unstable();
    pauses
}

#[rstest]
fn of_a_thousand_turns_hardly_one_has_a_long_pause(
    #[values(Fake::gemini, Fake::openai, Fake::openai_own, Fake::pipeline)] fake: fn() -> Fake,
) {
    let fake = fake();
    let pauses = pauses_of_a_thousand_turns(&fake);
    let long = pauses.iter().filter(|ms| **ms > 3_000).count();
    let longest = pauses.last().copied().unwrap_or_default();
    println!(
        "{}: {} pauses, median {} ms, {long} over 3 s, the longest {longest} ms",
        fake.name(),
        pauses.len(),
        pauses[pauses.len() / 2]
    );
    assert!(pauses.len() >= 1_000);
    assert!(
        long * 1_000 <= pauses.len() * 5,
        "{long} of {}",
        pauses.len()
    );
    assert!(longest <= 21_000, "{longest}");
    assert_eq!(fake.broken_rules(), [""; 0]);
}

/// Sentences of equal length in letters and time.
fn sentences(answer: &str, count: u64) -> String {
    let sentence = |at| format!("{answer}-{at} kata kata kata. ");
    (1..=count).map(sentence).collect()
}

/// Sentences of the transcript that were not played, and sentences in it.
fn unplayed(call: &SimulatedCall, answer: &str, count: u64, played_ms: u64) -> (usize, usize) {
    let transcript = call.transcript();
    let agent = transcript
        .iter()
        .filter(|(role, ..)| *role == Speaker::Agent);
    let text: Vec<&str> = agent.map(|(_, text, _)| text.as_str()).collect();
    let text = text.join(" ");
    let (mut wrong, mut all) = (0, 0);
    for at in 1..=count {
        let begins = text.contains(&format!("{answer}-{at} "));
        let ends = text.contains(&format!("{answer}-{at} kata kata kata."));
        all += usize::from(begins);
        wrong += usize::from(begins && played_ms <= (at - 1) * SENTENCE_MS);
        wrong += usize::from(ends && played_ms + LAST_SPACE_MS < at * SENTENCE_MS);
    }
    (wrong, all)
}

/// The outcome of a call with an interrupted answer.
struct Goodbye {
    is_kept: bool,
    unplayed: usize,
    sentences: usize,
}

/// The caller interrupts an answer, and in every third call also the goodbye.
fn interrupted_call(fake: &Fake, number: u64, dice: &mut Dice) -> Goodbye {
    let mut call = SimulatedCall::greeted(fake);
    let (count, interrupted) = (dice.between(3, 9), format!("a{number}"));
    fake.answer([say(&sentences(&interrupted, count), count * SENTENCE_MS)]);
    call.wait(500);
    call.speak(dice.voice_ms());
    let before = call.played_ms();
    call.until_heard(dice.between(200, count * SENTENCE_MS - 1_000));
    let bye = Reaction::HangUp("Sampai jumpa.".to_owned(), 900);
    fake.answer([bye.clone()]);
    // The answer begins a while after the caller's voice, so what is played until then is of the interrupted one.
    let end = call.speak(dice.voice_ms());
    call.advance_to(end + 500);
    let played_ms = call.played_ms_until(end) - before;
    if number.is_multiple_of(3) {
        call.until_heard(300);
        // It is told that the call goes on, and begins to answer that while the caller speaks.
        fake.answer([say("Ya?", 400)]);
        fake.answer([bye]);
        call.speak(600);
    }
    call.wait(15_000);
    let is_ended = call.reports.iter().any(|report| {
        matches!(
            report,
            CallReport::Hangup {
                reason: HangupReason::Normal,
                initiator: HangupInitiator::Agent,
                ..
            }
        )
    });
    let silence = call.hung_up_ms.map(|at| at - call.last_sound_ms());
    let last = call.transcript().pop();
    let is_whole = last.is_some_and(|(_, text, is_cut)| {
        text.ends_with("Sampai jumpa.") && !is_cut || text == "end_call"
    });
    let (unplayed, sentences) = unplayed(&call, &interrupted, count, played_ms);
    assert_eq!(fake.broken_rules(), [""; 0]);
    Goodbye {
        is_kept: is_ended && is_whole && silence.is_some_and(|ms| (300..3_000).contains(&ms)),
        unplayed,
        sentences,
    }
}

#[rstest]
fn of_two_hundred_interrupted_answers_no_goodbye_is_lost_and_nothing_unheard_is_written(
    #[values(Fake::gemini, Fake::openai, Fake::openai_own, Fake::pipeline)] fake: fn() -> Fake,
) {
    let mut dice = Dice(11);
    let calls: Vec<Goodbye> = (0..200)
        .map(|number| interrupted_call(&fake(), number, &mut dice))
        .collect();
    let lost = calls.iter().filter(|call| !call.is_kept).count();
    let unplayed: usize = calls.iter().map(|call| call.unplayed).sum();
    let sentences: usize = calls.iter().map(|call| call.sentences).sum();
    println!(
        "{}: {} interrupted answers, {lost} lost goodbyes, {unplayed} unplayed of {sentences} sentences",
        fake().name(),
        calls.len()
    );
    assert_eq!((lost, unplayed), (0, 0));
    assert!(sentences >= 200);
}

#[test]
fn an_answer_whose_connection_breaks_is_said_again_a_hundred_times() {
    for fake in [Fake::gemini(), Fake::openai(), Fake::openai_own()] {
        let mut dice = Dice(13);
        let (mut again, mut longest) = (0, 0);
        for _ in 0..10 {
            let mut call = SimulatedCall::greeted(&fake);
            for _ in 0..10 {
                call.wait(dice.between(300, 2_000));
                let answer = format!("Answer {again}.");
                let partly = Reaction::Stall("Ans".to_owned(), 2_000);
                fake.answer([partly, say(&answer, 1_500)]);
                call.speak(600);
                call.until_heard(dice.between(100, 2_000));
                let cut = call.ms;
                call.cut();
                call.until_said(&answer);
                let told = fake.newest_texts();
                assert!(
                    told.contains("Say your last answer again") && told.contains("heard 600 ms"),
                    "{told}"
                );
                let silences = call.silences_since(cut);
                longest = silences.into_iter().fold(longest, u64::max);
                again += 1;
            }
            assert_eq!(call.fillers, 0);
            call.hang_up();
        }
        println!(
            "{}: said again {again} times of 100, the longest silence {longest} ms",
            fake.provider()
        );
        assert!(again == 100 && longest <= 1_500);
        assert_eq!(fake.broken_rules(), [""; 0]);
    }
}

/// When the requests of a pipeline break: while the caller's words are written down, before the model's first word, in its answer,
/// and while the answer is spoken.
#[derive(Debug, Clone, Copy)]
enum Break {
    Hearing,
    Thinking,
    Answering,
    Speaking,
}

#[rstest]
fn an_answer_whose_requests_break_is_heard_whole(
    #[values(Break::Hearing, Break::Thinking, Break::Answering, Break::Speaking)] at: Break,
) {
    let fake = Fake::pipeline();
    let mut dice = Dice(17);
    let mut longest = 0;
    for conversation in 0..10 {
        let mut call = SimulatedCall::greeted(&fake);
        for turn in 0..10 {
            call.wait(dice.between(300, 2_000));
            let number = conversation * 10 + turn;
            let answer = format!("Answer {number}, kata kata. Kata kata kata. Rest {number}.");
            let (before, spoken) = (call.said.len(), call.voice_ms);
            let mut length: u64 = 3_000;
            let expected = match at {
                Break::Answering => {
                    let partly = Reaction::Stall("Answer, kata".to_owned(), 1_200);
                    fake.answer([partly, say(&answer, 3_000)]);
                    length += 1_200;
                    format!("Answer, kata {answer} ")
                }
                Break::Thinking => {
                    fake.answer([Reaction::Nothing, say(&answer, 3_000)]);
                    format!("{answer} ")
                }
                Break::Hearing | Break::Speaking => {
                    fake.answer([say(&answer, 3_000)]);
                    format!("{answer} ")
                }
            };
            call.speak(dice.voice_ms());
            match at {
                Break::Hearing => call.wait(dice.between(220, 480)),
                Break::Thinking => call.wait(dice.between(550, 1_500)),
                Break::Answering => call.wait(dice.between(800, 1_100)),
                Break::Speaking => call.until_heard(dice.between(100, 600)),
            }
            let cut = call.ms;
            assert!(call.cut() > 0, "nothing was under way");
            call.until_said(&format!("Rest {number}."));
            assert_eq!(call.said[before..], expected);
            let spoken = call.voice_ms - spoken;
            assert!(length.abs_diff(spoken) < 100, "{spoken} of {length} ms");
            let silences = call.silences_since(cut);
            longest = silences.into_iter().fold(longest, u64::max);
        }
        assert_eq!(call.fillers, 0);
        call.hang_up();
    }
    println!("pipeline, {at:?}: 100 answers, the longest silence {longest} ms");
    assert!(longest <= 1_500, "{longest}");
    assert_eq!(fake.broken_rules(), [""; 0]);
}

#[test]
fn providers_that_fail_in_turn_take_the_conversation_along_with_one_filler_each() {
    let fakes = Fake::all();
    fakes[0].answer([say("Halo.", 600)]);
    let mut rules = rules_with_fallback();
    rules.voices.push((VoiceProvider::Pipeline, None));
    rules.preferred.push(VoiceProvider::Pipeline);
    let mut call = SimulatedCall::ring(rules, &fakes);
    call.until_said("Halo.");
    let mut longest = 0;
    for change in 0..8 {
        let (fails, next) = (&fakes[change % 3], &fakes[(change + 1) % 3]);
        let asked = format!("Question {change}.");
        let answer = format!("Answer {change}.");
        fails.answer([say(&asked, 500)]);
        next.answer([say(&answer, 700)]);
        call.wait(1_000);
        call.speak(600);
        call.until_said(&asked);
        let (fillers, cut) = (call.fillers, call.ms);
        call.set_down();
        call.cut();
        // The caller notices nothing before having said something.
        call.speak(800);
        call.until_said(&answer);
        assert!(
            call.fillers - fillers <= 1,
            "{} fillers",
            call.fillers - fillers
        );
        assert_eq!(call.opened.last(), Some(&next.provider()));
        let told = next.newest_texts();
        assert!(told.contains(&asked) && told.contains("Halo."), "{told}");
        longest = call.silences_since(cut).into_iter().fold(longest, u64::max);
    }
    println!(
        "8 changes of the provider, {} fillers, the longest silence {longest} ms",
        call.fillers
    );
    assert_eq!(call.opened.len(), 9);
    for fake in &fakes {
        assert_eq!(fake.broken_rules(), [""; 0]);
    }
}

/// The end of a turn that Gemini reports too early neither cuts the speech nor has it asked for again.
#[test]
fn an_answer_whose_turn_ends_too_early_is_heard_whole() {
    let fake = Fake::gemini();
    let Fake::Gemini(gemini) = &fake else {
        unreachable!("it is Gemini");
    };
    let mut call = SimulatedCall::greeted(&fake);
    gemini.answer([ModelReaction::EndEarly {
        halves: ["It comes ", "by motorcycle."].map(str::to_owned),
        milliseconds: 4_000,
    }]);
    call.wait(500);
    call.speak(600);
    let before = call.played_ms();
    call.until_said("by motorcycle.");
    call.wait(5_000);
    assert_eq!(call.played_ms() - before, 4_000);
    assert!(!fake.newest_texts().contains("caller is waiting"));
    call.hang_up();
    let transcript = call.transcript();
    let said = transcript.iter().map(|(_, text, _)| text.as_str());
    let said: Vec<&str> = said.collect();
    assert!(
        said.join(" ").contains("It comes by motorcycle."),
        "{said:?}"
    );
}

/// Music that sets in while the agent speaks, and stays: the agent finishes, and the caller is not left in silence.
#[rstest]
fn an_agent_finishes_its_answer_in_music(
    #[values(Fake::gemini, Fake::openai, Fake::pipeline)] fake: fn() -> Fake,
) {
    let fake = fake();
    let mut call = SimulatedCall::greeted(&fake);
    let answer = sentences("music", 5);
    fake.answer([say(&answer, 5_000), say("Rest.", 500)]);
    call.wait(500);
    call.speak(600);
    let before = call.played_ms();
    call.until_heard(1_000);
    let began = call.ms;
    call.music(10_000);
    let heard = call.played_ms() - before;
    let is_stopped = call.said.contains("Rest.");
    let longest = call.silences_since(began).into_iter().max();
    let longest = longest.unwrap_or_default();
    println!(
        "{}: {heard} ms were heard, the longest silence {longest} ms",
        fake.name()
    );
    assert!(is_stopped || heard >= 4_900, "{heard}");
    assert!(longest <= 5_000, "{longest}");
    assert_eq!(fake.broken_rules(), [""; 0]);
}

#[test]
fn the_first_words_are_heard_at_once() {
    for fake in Fake::all() {
        let call = SimulatedCall::greeted(&fake);
        let ms = call.first_sound_ms() - call.answered_ms;
        println!(
            "{}: {ms} ms from the 200 to the first sound",
            fake.provider()
        );
        assert!(ms <= 700, "{ms}");
    }
}

/// The time that this thread has used a processor for, in nanoseconds.
fn used_ns() -> u64 {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let used = schedstat.split(' ').next().expect("a field");
    used.parse().expect("a number")
}

/// Nanoseconds of a processor for a call in 20 ms.
fn ns_per_tick(calls: &mut [Story], mut tick: impl FnMut(&mut Story, u64)) -> u64 {
    const TICKS: u64 = 2_000;
    let began = used_ns();
    for at in 0..TICKS {
        for call in &mut *calls {
            tick(call, at);
        }
    }
    (used_ns() - began) / TICKS / calls.len() as u64
}

/// The guard is asked for its deadline before and after each input, and told of the agent's speech.
#[test]
fn the_guard_costs_next_to_nothing() {
    let mut calls: Vec<Story> = (0..200).map(|_| Story::talking()).collect();
    let words = vec![1_000; 2_400];
    let is_answer = |at: u64| at.is_multiple_of(5);
    let guard = ns_per_tick(&mut calls, |call, at| {
        let guard = &mut call.machine.guard;
        for _ in 0..if is_answer(at) { 6 } else { 3 } {
            std::hint::black_box(guard.due());
        }
        if is_answer(at) {
            std::hint::black_box(guard.agent_says(&words, at * 20));
        }
    });
    let mut calls: Vec<Story> = (0..200).map(|_| Story::talking()).collect();
    let whole = ns_per_tick(&mut calls, |call, at| {
        call.ms = at * 20;
        call.on(MachineInput::Leg(LegEvent::Audio(vec![1; 320])));
        if is_answer(at) {
            call.on(MachineInput::Voice(VoiceEvent::Audio(words.clone())));
            call.on(MachineInput::Leg(LegEvent::Played(1)));
        }
        std::hint::black_box(call.machine.due());
    });
    // 20 ms are 20,000,000 ns.
    println!(
        "the guard: {guard} ns in 20 ms of a call, 0.{:05} % of a core",
        guard / 2
    );
    println!("the call's machine with it: {whole} ns");
    // 0.02 % of a core.
    assert!(guard <= 4_000, "{guard} ns");
}
