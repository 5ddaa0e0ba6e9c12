//! Conversations of the test voice.

use serde_json::json;

use super::*;
use crate::voice::ToolOutcome;

const WORD: [i16; 320] = [4_000; 320];
const QUIET: [i16; 320] = [0; 320];

fn agent(tools: &[&str], functions: Value) -> CallAgent {
    serde_json::from_value(json!({
        "id": "agent_1", "name": "Ayu", "systemPrompt": "", "voiceId": "Kore", "greetingText": "Halo", "language": "en",
        "maxCallDurationMinutes": 10, "escalationNumber": null, "tools": tools, "functions": functions
    }))
    .expect("an agent")
}

fn with_function() -> CallAgent {
    let parameters = json!({"type": "object", "properties": {"orderId": {"type": "string"}}, "required": ["orderId"]});
    agent(
        &["end_call"],
        json!([{"name": "check_order", "description": "", "parameters": parameters}]),
    )
}

/// A script that has greeted, and what it said.
fn greeted(agent: CallAgent) -> (VoiceScript, Vec<VoiceEvent>) {
    let (mut script, mut said) = VoiceScript::begin(agent, false, 0);
    assert_eq!(said, [VoiceEvent::Ready]);
    said.extend(script.hear(VoiceInput::Greet, 0));
    (script, said)
}

/// The words heard, `♪` for audio without words, and other events.
fn told(said: &[VoiceEvent]) -> Vec<String> {
    let line = |heard: &VoiceEvent| match heard {
        VoiceEvent::AgentSaid(text) => Some(text.trim().to_owned()),
        VoiceEvent::Tool {
            name, arguments, ..
        } => Some(format!("{name} {}", Value::Object(arguments.clone()))),
        VoiceEvent::CallerSaid(text) => Some(format!("< {text}")),
        VoiceEvent::Interrupted => Some("interrupted".to_owned()),
        VoiceEvent::TurnOver => Some("over".to_owned()),
        _ => None,
    };
    said.iter().filter_map(line).collect()
}

fn speak(script: &mut VoiceScript, mut now_ms: u64) -> Vec<VoiceEvent> {
    let mut said = Vec::new();
    for samples in [WORD; 20].into_iter().chain([QUIET; 45]) {
        now_ms += 20;
        said.extend(script.hear(VoiceInput::Audio(samples.to_vec()), now_ms));
    }
    said
}

const GREETING: &str =
    "Hello! This is the test voice of Dikala, without any artificial intelligence.";
const QUESTION: &str = "Please say something, or press some digits, and then the hash key.";
const GOODBYE: &str = "Thank you for calling. Goodbye!";

#[test]
fn a_conversation_with_keys_and_a_function() {
    let (mut script, said) = greeted(with_function());
    assert_eq!(said.first(), Some(&VoiceEvent::Ready));
    assert_eq!(told(&said), [GREETING, QUESTION, "over"]);
    let said = script.hear(
        VoiceInput::Keys("the caller pressed 4 2 7 #".to_owned()),
        30_000,
    );
    assert_eq!(
        told(&said),
        [
            "All right, let me look that up.",
            "over",
            "check_order {\"orderId\":\"427\"}"
        ]
    );
    let outcome = ToolOutcome::success(json!({"arrivesInMinutes": 20}));
    let id = "scripted-1".to_owned();
    let said = script.hear(VoiceInput::ToolOutcome { id, outcome }, 31_000);
    assert_eq!(
        told(&said),
        [
            "The answer is:",
            "two",
            "zero.",
            GOODBYE,
            "end_call {}",
            "over"
        ]
    );
    assert_eq!(script.due(), None);
    let said = script.hear(VoiceInput::Summarise, 32_000);
    let summary = "A call with the test voice. Answers of the caller: 1. Functions called: 1.";
    assert_eq!(said, [VoiceEvent::Summary(summary.to_owned())]);
}

/// The transcript: a line per speaker, and the summary.
fn transcript(script: &mut VoiceScript, said: &[VoiceEvent]) -> Vec<String> {
    let mut lines = vec![String::new()];
    for heard in said {
        match heard {
            VoiceEvent::AgentSaid(text) => lines.last_mut().expect("a line").push_str(text),
            VoiceEvent::CallerSaid(text) => lines.extend([text.clone(), String::new()]),
            VoiceEvent::Tool { name, .. } => lines.extend([name.clone(), String::new()]),
            VoiceEvent::TurnOver => lines.push(String::new()),
            _ => {}
        }
    }
    lines.retain(|line| !line.is_empty());
    let summed_up = script.hear(VoiceInput::Summarise, 90_000);
    lines.extend(summed_up.into_iter().map(|heard| match heard {
        VoiceEvent::Summary(summary) => summary,
        other => panic!("{other:?} is no summary"),
    }));
    lines
        .iter()
        .map(|line| line.trim_end().to_owned())
        .collect()
}

#[test]
fn a_whole_transcript_reads_well_in_both_languages() {
    for (language, expected) in [
        (
            "en-GB",
            [
                "Hello! This is the test voice of Dikala, without any artificial intelligence. Please say something, or press some digits, and then the hash key.",
                "(speech)",
                "All right, let me look that up.",
                "check_order",
                "The answer is: two zero. Thank you for calling. Goodbye!",
                "end_call",
                "A call with the test voice. Answers of the caller: 1. Functions called: 1.",
            ],
        ),
        (
            "id-ID",
            [
                "Halo! Ini suara uji Dikala, tanpa kecerdasan buatan. Silakan bicara, atau tekan angka, lalu tanda pagar.",
                "(suara)",
                "Baik, saya periksa dulu.",
                "check_order",
                "Jawabannya: dua nol. Terima kasih sudah menelepon. Sampai jumpa!",
                "end_call",
                "Panggilan dengan suara uji. Jawaban penelepon: 1. Fungsi yang dipanggil: 1.",
            ],
        ),
    ] {
        let mut agent = with_function();
        agent.language = language.to_owned();
        let (mut script, mut said) = greeted(agent);
        said.extend(speak(&mut script, 30_000));
        let outcome = ToolOutcome::success(json!({"arrivesInMinutes": 20}));
        let id = "scripted-1".to_owned();
        said.extend(script.hear(VoiceInput::ToolOutcome { id, outcome }, 60_000));
        assert_eq!(transcript(&mut script, &said), expected);
    }
}

#[test]
fn a_function_that_fails_or_tells_no_number_is_told_of() {
    for (outcome, expected) in [
        (
            ToolOutcome::failure("timeout", ""),
            "Sorry, that did not work.",
        ),
        (
            ToolOutcome::success(json!({"status": "sent"})),
            "It is done.",
        ),
    ] {
        let (mut script, _) = greeted(with_function());
        speak(&mut script, 30_000);
        let id = "scripted-1".to_owned();
        let said = script.hear(VoiceInput::ToolOutcome { id, outcome }, 31_000);
        assert_eq!(told(&said)[0], expected);
    }
}

#[test]
fn who_speaks_is_heard_and_who_interrupts_is_listened_to() {
    let (mut script, _) = greeted(agent(&["end_call"], json!([])));
    let said = speak(&mut script, 1_000);
    assert_eq!(
        told(&said),
        [
            "interrupted",
            "< (speech)",
            "Thank you, I can hear you.",
            GOODBYE,
            "end_call {}",
            "over"
        ]
    );
    let (mut script, _) = greeted(agent(&["end_call"], json!([])));
    assert_eq!(told(&speak(&mut script, 60_000))[0], "< (speech)");
}

#[test]
fn silence_is_asked_again_and_then_left() {
    let (mut script, _) = greeted(agent(&["end_call"], json!([])));
    let mut heard = Vec::new();
    while let Some(due) = script.due() {
        assert!(script.wait(due - 1).is_empty());
        heard.extend(told(&script.wait(due)));
    }
    let expected = [
        QUESTION,
        "over",
        QUESTION,
        "over",
        GOODBYE,
        "end_call {}",
        "over",
    ];
    assert_eq!(heard, expected);
}

#[test]
fn a_caller_who_stays_silent_hears_a_function_all_the_same() {
    let (mut script, _) = greeted(with_function());
    let silence = |script: &mut VoiceScript| {
        let due = script.due().expect("it waits");
        told(&script.wait(due))
    };
    assert_eq!(silence(&mut script), [QUESTION, "over"]);
    assert_eq!(
        silence(&mut script),
        [
            "All right, let me look that up.",
            "over",
            "check_order {\"orderId\":\"1001\"}"
        ]
    );
    assert_eq!(script.due(), None, "the answer is waited for");
    let outcome = ToolOutcome::success(json!({"minutes": 7}));
    let id = "scripted-1".to_owned();
    let said = script.hear(VoiceInput::ToolOutcome { id, outcome }, 60_000);
    assert_eq!(
        told(&said)[..3],
        ["The answer is:", "seven.", GOODBYE].map(str::to_owned)
    );
}

#[test]
fn words_of_the_telephone_are_no_answer() {
    let (mut script, _) = greeted(with_function());
    let words = "Connecting the caller failed: status 486.".to_owned();
    assert!(script.hear(VoiceInput::Text(words), 30_000).is_empty());
}

#[test]
fn an_agent_that_may_not_hang_up_goes_on_listening() {
    let (mut script, _) = greeted(agent(&[], json!([])));
    let said = script.hear(VoiceInput::Goodbye("no more credit".to_owned()), 20_000);
    assert_eq!(told(&said), [GOODBYE, "over"]);
    assert_eq!(
        told(&speak(&mut script, 60_000))[1],
        "Thank you, I can hear you."
    );
}

#[test]
fn the_chime_is_two_tones_of_its_loudness() {
    let samples = chime();
    assert_eq!(samples.len(), 24 * 300);
    let crossings = |part: &[i16]| {
        part.windows(2)
            .filter(|pair| pair[0] < 0 && pair[1] >= 0)
            .count()
    };
    // 660 Hz for 120 ms, 880 Hz for 180 ms.
    assert!((77..=80).contains(&crossings(&samples[..24 * 120])));
    assert!((156..=159).contains(&crossings(&samples[24 * 120..])));
    let loudest = samples.iter().map(|sample| sample.unsigned_abs()).max();
    assert!((5_500..=6_000).contains(&loudest.unwrap_or_default()));
}
