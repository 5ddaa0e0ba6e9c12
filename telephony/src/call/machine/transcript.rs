//! The transcript of a call, turn by turn.

use dikala_entities::{Millis, Speaker};
use dikala_protocol::{CallReport, SpokenTurn};

/// Turns and bytes that are kept.
const TURNS_MAX: usize = 1_900;
const BYTES_MAX: usize = 128 * 1024;
/// Size limit of the message; the service accepts a little more.
const MESSAGE_BYTES_MAX: usize = 240 * 1024;
const SUMMARY_CHARS_MAX: usize = 16_000;
/// Turns at the beginning that a shortened transcript keeps.
const FIRST_TURNS: usize = 50;
/// Turns at either end that stand in for a missing summary.
const TURNS_OF_SUMMARY: usize = 2;

#[derive(Debug, Default)]
pub(super) struct TranscriptBuilder {
    turns: Vec<TranscriptEntry>,
    bytes: usize,
}

#[derive(Debug)]
struct TranscriptEntry {
    turn: SpokenTurn,
    /// More pieces may follow.
    is_open: bool,
}

impl TranscriptBuilder {
    /// Appends a piece of speech to the open turn of its speaker.
    pub(super) fn piece(&mut self, role: Speaker, piece: &str, at: Millis) {
        let piece = piece.replace('\0', "");
        let mut turns = self.turns.iter_mut().rev();
        match turns.find(|said| said.turn.role == role && said.is_open) {
            Some(said) if said.turn.text.len() + piece.len() <= BYTES_MAX / 4 => {
                said.turn.text.push_str(&piece);
                self.bytes += piece.len();
            }
            Some(_) => {}
            None if piece.trim().is_empty() => {}
            None => self.push(role, piece, at, true),
        }
        self.shorten();
    }

    /// Adds a complete turn.
    pub(super) fn whole(&mut self, role: Speaker, text: &str, at: Millis) {
        self.push(role, text.replace('\0', ""), at, false);
        self.shorten();
    }

    /// The agent's turn is over, and with it what the caller said before.
    pub(super) fn turn_over(&mut self) {
        for said in &mut self.turns {
            said.is_open = false;
        }
    }

    fn push(&mut self, role: Speaker, text: String, at: Millis, is_open: bool) {
        let text: String = text.chars().take(BYTES_MAX / 16).collect();
        self.bytes += text.len();
        let turn = SpokenTurn::new(role, text, Some(at));
        self.turns.push(TranscriptEntry { turn, is_open });
    }

    fn shorten(&mut self) {
        while self.turns.len() > TURNS_MAX || self.bytes > BYTES_MAX {
            let at = FIRST_TURNS.min(self.turns.len() / 2);
            self.bytes -= self.turns.remove(at).turn.text.len();
        }
    }

    /// Both sides have spoken, so a summary makes sense.
    pub(super) fn is_conversation(&self) -> bool {
        let said_by = |role| self.turns.iter().any(|said| said.turn.role == role);
        said_by(Speaker::Caller) && said_by(Speaker::Agent)
    }

    /// The transcript for the service, with the model's summary or, without one, the first and last turns. `None` if it is empty.
    pub(super) fn close(&mut self, summary: Option<String>) -> Option<CallReport> {
        let turns: Vec<SpokenTurn> = self
            .turns
            .drain(..)
            .map(|said| SpokenTurn {
                text: said.turn.text.trim().to_owned(),
                ..said.turn
            })
            .collect();
        let given = summary.map(|summary| summary.replace('\0', "").trim().to_owned());
        let summary = given.filter(|summary| !summary.is_empty());
        let summary = summary.unwrap_or_else(|| ends(&turns));
        let summary = summary.chars().take(SUMMARY_CHARS_MAX).collect();
        (!turns.is_empty()).then(|| fitting(summary, turns))
    }
}

/// Drops turns in the middle until the encoded message fits: escapes make short text long in JSON.
fn fitting(summary: String, turns: Vec<SpokenTurn>) -> CallReport {
    let mut message = CallReport::Transcript { summary, turns };
    while message.encoded_len() > MESSAGE_BYTES_MAX
        && let CallReport::Transcript { turns, .. } = &mut message
        && !turns.is_empty()
    {
        let first = FIRST_TURNS.min(turns.len() / 2);
        let gone = (turns.len() / 8).max(1).min(turns.len() - first);
        turns.drain(first..first + gone);
    }
    message
}

fn ends(turns: &[SpokenTurn]) -> String {
    let line = |turn: &SpokenTurn| {
        let text: String = turn.text.chars().take(500).collect();
        format!("{}: {text}", turn.role)
    };
    if turns.len() <= 2 * TURNS_OF_SUMMARY {
        return turns.iter().map(line).collect::<Vec<_>>().join("\n");
    }
    let first = turns[..TURNS_OF_SUMMARY].iter().map(line);
    let last = turns[turns.len() - TURNS_OF_SUMMARY..].iter().map(line);
    let gap = std::iter::once("…".to_owned());
    first.chain(gap).chain(last).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
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
        said.piece(Speaker::Agent, "Selamat ", Millis::MIN);
        said.piece(Speaker::Agent, "pagi!", Millis::MIN);
        said.turn_over();
        said.piece(Speaker::Caller, "Where is", Millis::MIN);
        said.piece(Speaker::Agent, "Let me", Millis::MIN);
        // The caller's words are transcribed later than the agent's answer to them.
        said.piece(Speaker::Caller, " my order?", Millis::MIN);
        said.whole(Speaker::Tool, "check_order", Millis::MIN);
        said.piece(Speaker::Agent, " look.", Millis::MIN);
        said.turn_over();
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
            said.piece(Speaker::Agent, "and so on ", Millis::MIN);
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
}
