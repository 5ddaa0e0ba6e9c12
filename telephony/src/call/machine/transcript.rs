//! The transcript of a call, turn by turn. Of the agent it has what was played, because a model speaks faster than it is heard.

use std::ops::Range;

use dikala_entities::{Millis, Speaker};
use dikala_protocol::{CallReport, SpokenTurn};

use super::keys::SecretKeys;

/// Turns and bytes that are kept.
const TURNS_MAX: usize = 1_900;
const BYTES_MAX: usize = 128 * 1024;
/// Bytes of words that only models get.
const FOR_MODELS_MAX: usize = 32 * 1024;
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
    /// The beginning of the agent's present turn in its speech, in milliseconds.
    turn_began_ms: Option<u64>,
    /// The agent's next turn came this long after the caller's.
    latency_ms: Option<u32>,
    /// The agent was cut off: text that follows without speech belongs to what was not heard.
    is_cut_off: bool,
    /// The service has it. A joined call goes on, and adds nothing.
    is_closed: bool,
    secret_keys: SecretKeys,
}

#[derive(Debug)]
struct TranscriptEntry {
    turn: SpokenTurn,
    /// More pieces may follow.
    is_open: bool,
    /// A sentence of the bridge, not of the model.
    is_own: bool,
    /// Words for a model that takes over, if they say more.
    for_models: Option<String>,
    /// The agent's speech for this turn, as a part of all its speech, in milliseconds.
    speech: Option<Speech>,
}

impl TranscriptEntry {
    /// Models write `[Silence]` and the like, which nobody has said.
    fn is_note(&self) -> bool {
        let text = self.turn.text.trim().strip_prefix('[');
        let note = text.and_then(|text| text.strip_suffix(']'));
        self.turn.role != Speaker::Tool && note.is_some_and(|note| !note.contains(['[', ']']))
    }
}

#[derive(Debug, Clone, Copy)]
struct Speech {
    from_ms: u64,
    /// `None` while the turn goes on.
    to_ms: Option<u64>,
}

impl TranscriptBuilder {
    /// The model's speech goes on at this point of the speech so far.
    pub(super) fn agent_speaks(&mut self, said_ms: u64) {
        self.is_cut_off = false;
        self.turn_began_ms.get_or_insert(said_ms);
    }

    /// The agent's present turn, or its next one, is an answer after this time.
    pub(super) fn answered_after(&mut self, ms: u64) {
        let ms = u32::try_from(ms).unwrap_or(u32::MAX);
        let open = self
            .turns
            .iter_mut()
            .rev()
            .find(|said| said.speech.is_some() && said.is_open);
        match open {
            Some(said) => said.turn.latency_ms = said.turn.latency_ms.or(Some(ms)),
            None => self.latency_ms = Some(ms),
        }
    }

    /// Appends a piece of the agent's text.
    pub(super) fn agent_piece(&mut self, piece: &str, said_ms: u64, at: Millis) {
        if self.is_cut_off {
            return;
        }
        let from_ms = *self.turn_began_ms.get_or_insert(said_ms);
        let turns = self.turns.len();
        self.piece(Speaker::Agent, piece, at);
        if let Some(said) = self.turns.get_mut(turns) {
            said.speech = Some(Speech {
                from_ms,
                to_ms: None,
            });
            said.turn.latency_ms = self.latency_ms.take();
        }
    }

    /// The model has stopped for the caller, at this point of its speech.
    pub(super) fn interrupted(&mut self, said_ms: u64) {
        self.turn_over(said_ms);
        self.is_cut_off = true;
    }

    /// Cuts the agent's turns where they were not played any further. Returns whether a turn was cut.
    pub(super) fn heard(&mut self, played_ms: u64, said_ms: u64) -> bool {
        let mut is_cut = false;
        for said in &mut self.turns {
            let Some(speech) = said.speech else {
                continue;
            };
            let to_ms = speech.to_ms.unwrap_or(said_ms);
            if to_ms <= played_ms {
                continue;
            }
            is_cut = true;
            let kept = share(
                &said.turn.text,
                played_ms.saturating_sub(speech.from_ms),
                to_ms - speech.from_ms.min(to_ms),
            );
            self.bytes -= said.turn.text.len() - kept;
            said.turn.text.truncate(kept);
            said.turn.interrupted = true;
            said.is_open = false;
            said.speech = None;
        }
        self.turns
            .retain(|said| !said.turn.interrupted || !said.turn.text.trim().is_empty());
        is_cut
    }

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

    /// The transcript does not show these keys, whoever repeats them.
    pub(super) fn hide(&mut self, keys: &str) {
        self.secret_keys.add(keys);
    }

    /// Models that take over get these words for the last turn, which the transcript does not show.
    pub(super) fn add_for_models(&mut self, words: String) {
        if let Some(last) = self.turns.last_mut() {
            last.for_models = Some(words);
        }
        self.shorten_for_models();
    }

    /// The last call of this function without an outcome has one now.
    pub(super) fn tool_answered(&mut self, name: &str, words: String) {
        let is_it = |said: &&mut TranscriptEntry| {
            let turn = &said.turn;
            turn.role == Speaker::Tool && turn.text == name && said.for_models.is_none()
        };
        if let Some(called) = self.turns.iter_mut().rev().find(is_it) {
            called.for_models = Some(words);
        }
        self.shorten_for_models();
    }

    /// The agent's turn is over, and with it what the caller said before.
    pub(super) fn turn_over(&mut self, said_ms: u64) {
        self.is_cut_off = false;
        self.turn_began_ms = None;
        self.latency_ms = None;
        for said in self.turns.iter_mut().filter(|said| said.is_open) {
            said.is_open = false;
            if let Some(speech) = &mut said.speech {
                speech.to_ms.get_or_insert(said_ms);
            }
        }
        // Words without speech were heard by nobody.
        let bytes = &mut self.bytes;
        self.turns.retain(|said| {
            let is_heard = |speech: Speech| speech.to_ms != Some(speech.from_ms);
            let is_kept = said.speech.is_none_or(is_heard);
            *bytes -= if is_kept { 0 } else { said.turn.text.len() };
            is_kept
        });
    }

    fn push(&mut self, role: Speaker, text: String, at: Millis, is_open: bool) {
        if self.is_closed {
            return;
        }
        let text: String = text.chars().take(BYTES_MAX / 16).collect();
        self.bytes += text.len();
        self.turns.push(TranscriptEntry {
            turn: SpokenTurn::new(role, text, Some(at)),
            is_open,
            is_own: false,
            for_models: None,
            speech: None,
        });
    }

    /// Forgets the oldest words for models beyond the limit.
    fn shorten_for_models(&mut self) {
        let mut bytes = 0;
        for said in self.turns.iter_mut().rev() {
            bytes += said.for_models.as_ref().map_or(0, String::len);
            if bytes > FOR_MODELS_MAX {
                said.for_models = None;
            }
        }
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

    /// Adds a sentence of the bridge. `speech`: its part of all speech, in milliseconds.
    pub(super) fn own(&mut self, text: &str, speech: Range<u64>, at: Millis) {
        self.push(Speaker::Agent, text.to_owned(), at, false);
        if let Some(said) = self.turns.last_mut() {
            said.is_own = true;
            said.speech = Some(Speech {
                from_ms: speech.start,
                to_ms: Some(speech.end),
            });
        }
        self.shorten();
    }

    /// The conversation for a voice session that takes over, oldest turn first, without the bridge's own sentences.
    pub(super) fn so_far(&self) -> Vec<(Speaker, String)> {
        let turns = self.turns.iter().filter(|said| !said.is_own);
        turns
            .filter(|said| !said.is_note())
            .map(|said| {
                let words = said.for_models.as_ref().unwrap_or(&said.turn.text);
                (said.turn.role, words.clone())
            })
            .collect()
    }

    /// The transcript for the service, with the model's summary or, without one, the first and last turns. `None` if it is empty.
    pub(super) fn close(&mut self, summary: Option<String>) -> Option<CallReport> {
        self.is_closed = true;
        let turns: Vec<SpokenTurn> = self
            .turns
            .drain(..)
            .filter(|said| !said.is_note())
            .map(|said| SpokenTurn {
                text: self.secret_keys.masked(said.turn.text.trim()),
                ..said.turn
            })
            .collect();
        let given = summary.map(|summary| summary.replace('\0', "").trim().to_owned());
        let summary = given.filter(|summary| !summary.is_empty());
        let summary = summary.map(|summary| self.secret_keys.masked(&summary));
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

/// Bytes of a text that was heard for a part of its time: whole words.
fn share(text: &str, heard_ms: u64, all_ms: u64) -> usize {
    if heard_ms >= all_ms {
        return if all_ms == 0 { 0 } else { text.len() };
    }
    let chars = text.chars().count() as u64;
    let heard = usize::try_from(chars * heard_ms / all_ms).unwrap_or(usize::MAX);
    let bytes = text
        .char_indices()
        .nth(heard)
        .map_or(text.len(), |(at, _)| at);
    let is_between_words = text[bytes..].starts_with(char::is_whitespace);
    match text[..bytes].rfind(char::is_whitespace) {
        _ if is_between_words => bytes,
        Some(space) => space,
        None => 0,
    }
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
        assert!(said.heard(11_200, 12_000));
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
}
