//! Transcripts of conversations as they are told.

use super::*;

fn told(transcript: &mut TranscriptBuilder, summary: Option<&str>) -> (String, Vec<String>) {
    match transcript.close(summary.map(str::to_owned)) {
        Some(CallReport::Transcript { summary, turns }) => {
            let turns = turns.iter();
            let turns = turns.map(|turn| format!("{}: {}", turn.role, turn.text));
            (summary, turns.collect())
        }
        _ => panic!("something was said"),
    }
}

#[test]
fn pieces_become_turns() {
    let mut said = TranscriptBuilder::default();
    said.agent_piece("Selamat ", 0, Millis::MIN);
    said.agent_piece("pagi!", 0, Millis::MIN);
    said.turn_over(700);
    said.piece(Speaker::Caller, "Where is", Millis::MIN);
    said.agent_piece("Let me", 700, Millis::MIN);
    // The caller's words are transcribed later than the agent's answer to them.
    said.piece(Speaker::Caller, " my order?", Millis::MIN);
    said.whole(Speaker::Tool, "check_order", Millis::MIN);
    said.agent_piece(" look.", 700, Millis::MIN);
    said.turn_over(1_500);
    said.agent_piece("Words that nobody spoke.", 1_500, Millis::MIN);
    said.turn_over(1_500);
    said.piece(Speaker::Caller, "Thanks\0", Millis::MIN);
    let (summary, turns) = told(&mut said, None);
    assert_eq!(
        turns,
        [
            "agent: Selamat pagi!",
            "caller: Where is my order?",
            "agent: Let me look.",
            "tool: check_order",
            "caller: Thanks"
        ]
    );
    assert_eq!(
        summary,
        "agent: Selamat pagi!\ncaller: Where is my order?\n…\ntool: check_order\ncaller: Thanks"
    );
    assert!(said.close(None).is_none());
}

#[test]
fn words_stand_where_the_caller_began_however_late_they_come() {
    let mut said = TranscriptBuilder::default();
    said.agent_piece("Selamat pagi!", 0, Millis::MIN);
    said.turn_over(700);
    said.caller_begins(Millis::MIN);
    said.agent_piece("It comes today.", 700, Millis::MIN);
    said.turn_over(1_500);
    said.played();
    assert!(!said.is_conversation(), "no word of the caller");
    let heard: Vec<u32> = said.heard_turns(true).iter().map(|it| it.n).collect();
    assert_eq!(heard, [1, 3]);
    said.piece(Speaker::Caller, "Where is", Millis::MIN);
    said.piece(Speaker::Caller, " my order?", Millis::MIN);
    // A cough, and another one.
    said.caller_begins(Millis::MIN);
    said.agent_piece("Anything else?", 1_500, Millis::MIN);
    said.turn_over(2_000);
    said.played();
    said.caller_begins(Millis::MIN);
    let heard: Vec<u32> = said.heard_turns(true).iter().map(|it| it.n).collect();
    assert_eq!(heard, [2, 5]);
    assert_eq!(said.so_far().len(), 4);
    let (_, turns) = told(&mut said, None);
    assert_eq!(
        turns,
        [
            "agent: Selamat pagi!",
            "caller: Where is my order?",
            "agent: It comes today.",
            "agent: Anything else?",
        ]
    );
}

#[test]
fn the_models_summary_comes_first_unless_it_is_empty() {
    for (given, expected) in [("It rained. ", "It rained."), (" ", "agent: Hi")] {
        let mut said = TranscriptBuilder::default();
        said.whole(Speaker::Agent, "Hi", Millis::MIN);
        assert_eq!(told(&mut said, Some(given)).0, expected);
    }
}

#[test]
fn an_endless_call_keeps_its_first_and_its_last_turns() {
    let mut said = TranscriptBuilder::default();
    for number in 0..20_000 {
        said.whole(Speaker::Caller, &format!("word {number}"), Millis::MIN);
        said.agent_piece("and so on ", 0, Millis::MIN);
    }
    assert!(said.bytes <= BYTES_MAX && said.turns.len() <= TURNS_MAX);
    let message = said.close(None).expect("something was said");
    let text = serde_json::to_string(&message).expect("a text");
    assert!(text.len() <= MESSAGE_BYTES_MAX, "{}", text.len());
    assert!(text.contains("word 0") && text.contains("word 19999"));
}

#[test]
fn what_is_six_times_as_long_in_json_fits_too() {
    let mut said = TranscriptBuilder::default();
    for _ in 0..60 {
        said.whole(Speaker::Caller, &"\u{1}".repeat(2_000), Millis::MIN);
    }
    let message = said.close(Some("\u{1}".repeat(16_000)));
    let length = message.expect("something was said").encoded_len();
    assert!(length <= MESSAGE_BYTES_MAX, "{length}");
}

/// An agent's turn of ten words in ten seconds, from `from_ms` on.
fn ten_words(said: &mut TranscriptBuilder, from_ms: u64) {
    said.agent_speaks(from_ms);
    said.agent_piece("one two three four five ", from_ms, Millis::MIN);
    said.agent_piece("six seven eight nine ten", from_ms + 5_000, Millis::MIN);
}

fn turns(said: &mut TranscriptBuilder) -> Vec<(String, bool)> {
    let Some(CallReport::Transcript { turns, .. }) = said.close(None) else {
        return Vec::new();
    };
    let turns = turns.into_iter();
    turns.map(|turn| (turn.text, turn.interrupted)).collect()
}

#[test]
fn only_what_was_played_stays() {
    let mut said = TranscriptBuilder::default();
    ten_words(&mut said, 0);
    said.turn_over(10_000);
    ten_words(&mut said, 10_000);
    said.interrupted(20_000);
    assert!(said.heard(15_000, 20_000));
    // It belongs to what was cut off.
    said.agent_piece("eleven", 20_000, Millis::MIN);
    said.agent_speaks(20_000);
    said.agent_piece("Yes?", 20_000, Millis::MIN);
    said.turn_over(21_000);
    assert!(!said.heard(21_000, 21_000));
    assert_eq!(
        turns(&mut said),
        [
            (
                "one two three four five six seven eight nine ten".to_owned(),
                false
            ),
            ("one two three four five".to_owned(), true),
            ("Yes?".to_owned(), false),
        ]
    );
}

#[test]
fn a_turn_of_which_nothing_was_played_is_no_turn() {
    let mut said = TranscriptBuilder::default();
    ten_words(&mut said, 0);
    assert!(said.heard(0, 10_000));
    assert_eq!(said.bytes, 0);
    assert_eq!(turns(&mut said), []);
}

#[test]
fn a_sentence_of_the_bridge_stands_as_far_as_it_was_played() {
    let mut said = TranscriptBuilder::default();
    ten_words(&mut said, 0);
    said.turn_over(10_000);
    said.own("One moment, please.", 10_000..12_000, Millis::MIN);
    assert!(
        !said.heard(11_200, 12_000),
        "the model said all of its words"
    );
    assert_eq!(turns(&mut said)[1], ("One moment,".to_owned(), true));
}

#[test]
fn words_are_whole() {
    for (heard, expected) in [(0, 0), (3, 0), (4, 4), (5, 4), (8, 4), (9, 9), (99, 9)] {
        assert_eq!(share("satu dua…", heard, 9).min(9), expected, "{heard}");
    }
    assert_eq!(share("a", 0, 0), 0, "no speech of it has come");
}

#[test]
fn an_answer_has_its_latency_whichever_comes_first() {
    let mut said = TranscriptBuilder::default();
    said.answered_after(800);
    said.agent_piece("Audio first.", 0, Millis::MIN);
    said.turn_over(1_000);
    said.agent_piece("Text first.", 1_000, Millis::MIN);
    said.answered_after(900);
    said.turn_over(2_000);
    said.agent_piece("No answer.", 2_000, Millis::MIN);
    let Some(CallReport::Transcript { turns, .. }) = said.close(None) else {
        panic!("something was said");
    };
    let latencies: Vec<_> = turns.iter().map(|turn| turn.latency_ms).collect();
    assert_eq!(latencies, [Some(800), Some(900), None]);
}
