//! The transcript of a call, turn by turn. Of the agent it has what was played, because a model speaks faster than it is heard.

use std::ops::Range;

use dikala_entities::{Millis, Speaker};
use dikala_protocol::{CallReport, NumberedTurn, SpokenTurn};

use super::keys::SecretKeys;

/// Turns and bytes that are kept.
const TURNS_MAX: usize = 1_900;
const BYTES_MAX: usize = 128 * 1024;
/// Bytes of words that only models get.
const FOR_MODELS_MAX: usize = 32 * 1024;
/// The highest number of a turn that the service takes.
const NUMBER_MAX: u32 = 2_000;
/// The longest latency that the service takes.
const LATENCY_MS_MAX: u32 = 600_000;
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
    /// The number of the newest turn.
    last_n: u32,
    /// A turn may have been heard to its end since [`Self::heard_turns`].
    has_news: bool,
    /// The service takes no turns before the transcript.
    is_untold: bool,
    /// Keys are masked, so no digit is told before the transcript.
    hides_digits: bool,
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
    n: u32,
    /// The turn as the service was told it.
    told: Option<SpokenTurn>,
}

impl TranscriptEntry {
    /// A place for the caller's words, which have not come.
    fn is_place(&self) -> bool {
        self.turn.role == Speaker::Caller && self.turn.text.trim().is_empty()
    }

    /// Nobody has said it: models write `[Silence]` and the like.
    fn is_note(&self) -> bool {
        let text = self.turn.text.trim().strip_prefix('[');
        let note = text.and_then(|text| text.strip_suffix(']'));
        let is_note = note.is_some_and(|note| !note.contains(['[', ']']));
        self.is_place() || is_note && self.turn.role != Speaker::Tool
    }
}

#[derive(Debug, Clone, Copy)]
struct Speech {
    from_ms: u64,
    /// `None` while the turn goes on.
    to_ms: Option<u64>,
}

impl TranscriptBuilder {
    /// The caller begins to speak. The words come later, often after the agent's answer to them.
    pub(super) fn caller_begins(&mut self, at: Millis) {
        let last = self.turns.last();
        if last.is_some_and(|said| said.turn.role == Speaker::Caller && said.is_open) {
            return;
        }
        // The place before, for which no words came, was made by a noise.
        let bytes = &mut self.bytes;
        self.turns.retain(|said| {
            *bytes -= if said.is_place() {
                said.turn.text.len()
            } else {
                0
            };
            !said.is_place()
        });
        self.push(Speaker::Caller, String::new(), at, true);
        self.shorten();
    }

    /// The model's speech goes on at this point of the speech so far.
    pub(super) fn agent_speaks(&mut self, said_ms: u64) {
        self.is_cut_off = false;
        self.has_news |= self.turn_began_ms.is_none();
        self.turn_began_ms.get_or_insert(said_ms);
    }

    /// The agent's present turn, or its next one, is an answer after this time.
    pub(super) fn answered_after(&mut self, ms: u64) {
        let ms = u32::try_from(ms).unwrap_or(u32::MAX).min(LATENCY_MS_MAX);
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

    /// All of the agent's speech was played.
    pub(super) fn played(&mut self) {
        self.has_news = true;
    }

    /// Keys are to be masked.
    pub(super) fn hide_digits(&mut self) {
        self.hides_digits = true;
    }

    /// The service does not know turns before the transcript.
    pub(super) fn tell_no_turns(&mut self) {
        self.is_untold = true;
    }

    /// The turns that were heard since the last time, or heard otherwise than told. The caller's turn counts once the agent speaks,
    /// the agent's once it was played.
    pub(super) fn heard_turns(&mut self, is_all_played: bool) -> Vec<NumberedTurn> {
        if !std::mem::take(&mut self.has_news) || self.is_closed || self.is_untold {
            return Vec::new();
        }
        let mut heard = Vec::new();
        for said in &mut self.turns {
            let is_answered = said.told.is_none()
                && said.turn.role == Speaker::Caller
                && self.turn_began_ms.is_some();
            let is_over = !said.is_open && (said.speech.is_none() || is_all_played);
            let is_told = said.told.is_some();
            if !(is_over || is_answered || is_told && !said.is_open) || said.is_note() {
                continue;
            }
            let text = said.turn.text.trim();
            let text = match self.hides_digits {
                // Keys that are pressed later may be among them.
                true => text.replace(|sign: char| sign.is_ascii_digit(), "•"),
                false => text.to_owned(),
            };
            let turn = SpokenTurn {
                text,
                ..said.turn.clone()
            };
            if said.n <= NUMBER_MAX && said.told.as_ref() != Some(&turn) {
                said.told = Some(turn.clone());
                heard.push(NumberedTurn { n: said.n, turn });
            }
        }
        heard
    }

    /// Cuts the agent's turns, of which `said_ms` was said, where they were not played any further. Returns whether a turn of the
    /// model was cut.
    pub(super) fn heard(&mut self, played_ms: u64, said_ms: u64) -> bool {
        let mut is_cut = false;
        self.has_news = true;
        for said in &mut self.turns {
            let Some(speech) = said.speech else {
                continue;
            };
            let to_ms = speech.to_ms.unwrap_or(said_ms);
            // Later speech waits until the phone has discarded this one.
            if to_ms <= played_ms || to_ms > said_ms {
                continue;
            }
            is_cut |= !said.is_own;
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
                self.has_news |= said.is_place();
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
        self.has_news = true;
        let open = self.turns.iter_mut().filter(|said| said.is_open);
        for said in open.filter(|said| !said.is_place()) {
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
        self.last_n += 1;
        self.has_news |= !is_open;
        self.turns.push(TranscriptEntry {
            turn: SpokenTurn::new(role, text, Some(at)),
            is_open,
            is_own: false,
            for_models: None,
            speech: None,
            n: self.last_n,
            told: None,
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
        let is_by = |said: &TranscriptEntry, role| said.turn.role == role && !said.is_place();
        let said_by = |role| self.turns.iter().any(|said| is_by(said, role));
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
mod tests;
