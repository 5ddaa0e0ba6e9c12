//! The clauses of an answer on their way to the caller: one is played while the next one is made.

use std::{collections::VecDeque, time::Duration};

use dikala_sip::leg::SPEECH_RATE;

use super::{PipelineMachine, PipelineRequest, VoiceEvent, requests::Stage};
use crate::voice::{Usage, common::tell_audio, pipeline::clauses::ClauseCutter};

/// Clauses that are made at the same time.
const AT_ONCE: usize = 2;
/// The longest speech of a clause: 60 s.
const SPEECH_MOST: usize = SPEECH_RATE as usize * 60;
/// Samples of one character, as far as the length of a clause is not known: 67 ms.
const PER_CHARACTER: usize = SPEECH_RATE as usize * 67 / 1_000;
/// 100 ms, the longest piece for the call.
const PIECE: usize = SPEECH_RATE as usize / 10;
#[derive(Debug, Default)]
pub(super) struct SpokenAnswer {
    cutter: ClauseCutter,
    /// Clauses of which the call does not have all yet.
    clauses: VecDeque<Clause>,
    /// Clauses made so far.
    made: u64,
    /// The call has some of this answer.
    has_begun: bool,
    /// These are the tenant's given words, which may be a notice: they begin, even if the caller speaks.
    is_greeting: bool,
    /// When all that the call has will have been played, by the clock.
    playing_until: Duration,
}

#[derive(Debug, Default)]
struct Clause {
    id: String,
    text: String,
    request: Option<u32>,
    /// The request has brought sound.
    is_sounding: bool,
    /// Samples of the request that came with an earlier one, which broke off.
    repeated: usize,
    /// Samples that wait for the clause before.
    held: Vec<i16>,
    /// All samples so far, and those that the call has.
    received: usize,
    told: usize,
    /// Bytes of the text that the call has.
    told_text: usize,
    is_complete: bool,
    /// It has no end, so it is complete as it is.
    is_cut_off: bool,
}

impl Clause {
    /// The words that belong to the samples so far.
    fn words(&mut self) -> Option<String> {
        let is_whole = self.is_complete && !self.is_cut_off;
        let end = match is_whole && self.told == self.received {
            true => self.text.len(),
            false => {
                let length = match is_whole {
                    true => self.received,
                    false => self.expected(),
                };
                spoken_part(&self.text, self.told, length)
            }
        };
        let words = self
            .text
            .get(self.told_text..end)
            .filter(|it| !it.is_empty())?;
        let mut words = words.to_owned();
        if end == self.text.len() {
            words.push(' ');
        }
        self.told_text = end;
        Some(words)
    }

    /// The length in samples, while it is not known.
    fn expected(&self) -> usize {
        self.text.chars().count() * PER_CHARACTER
    }
}

/// The end of the words that are spoken in a part of the clause's length.
fn spoken_part(text: &str, told: usize, length: usize) -> usize {
    let characters = text.chars().count();
    let spoken = characters * told / length.max(1);
    let end = text
        .char_indices()
        .nth(spoken)
        .map_or(text.len(), |(at, _)| at);
    text[..end]
        .rfind(char::is_whitespace)
        .map_or(0, |space| space + 1)
}

impl SpokenAnswer {
    /// The call has all clauses of the answer so far.
    pub(super) fn is_empty(&self) -> bool {
        self.clauses.is_empty()
    }

    pub(super) fn has_begun(&self) -> bool {
        self.has_begun
    }

    pub(super) fn is_greeting(&self) -> bool {
        self.is_greeting
    }

    /// The clauses are the tenant's greeting.
    pub(super) fn greets(&mut self) {
        self.is_greeting = !self.clauses.is_empty();
    }

    pub(super) fn is_playing(&self, now: Duration) -> bool {
        self.plays_for(now) > Duration::ZERO
    }

    /// The length of speech that the call has and that was not played yet.
    pub(super) fn plays_for(&self, now: Duration) -> Duration {
        self.playing_until.saturating_sub(now)
    }

    /// The call has paused the speech for this long.
    pub(super) fn was_paused(&mut self, lasted: Duration) {
        self.playing_until += lasted;
    }

    fn find(&mut self, connection: u32) -> Option<&mut Clause> {
        let mut clauses = self.clauses.iter_mut();
        clauses.find(|clause| clause.request == Some(connection))
    }

    /// A clause has all its speech.
    pub(super) fn complete(&mut self, connection: u32) {
        if let Some(clause) = self.find(connection) {
            clause.is_complete = true;
            clause.request = None;
        }
    }

    /// A clause that broke off is made once more, and goes on where it stopped. True if nothing of it had come.
    pub(super) fn failed(&mut self, connection: u32) -> bool {
        self.find(connection).is_some_and(|clause| {
            clause.repeated = clause.received;
            clause.is_sounding = false;
            clause.request = None;
            clause.received == 0
        })
    }
}

impl PipelineMachine {
    /// Adds text of the answer.
    pub(super) fn write(&mut self, text: &str) {
        for clause in self.speech.cutter.push(text) {
            self.add_clause(clause);
        }
    }

    /// The text of the answer has ended.
    pub(super) fn written(&mut self) {
        if let Some(clause) = self.speech.cutter.finish() {
            self.add_clause(clause);
        }
    }

    fn add_clause(&mut self, text: String) {
        self.speech.made += 1;
        let id = format!("clause-{}", self.speech.made);
        self.history.agent(&id, &text);
        self.speech.clauses.push_back(Clause {
            id,
            text,
            ..Clause::default()
        });
    }

    /// Speech of a clause.
    pub(super) fn synthesised(&mut self, connection: u32, samples: &[i16]) {
        if samples.is_empty() {
            return;
        }
        self.brought(connection);
        let Some(clause) = self.speech.find(connection) else {
            return;
        };
        let is_first = !std::mem::replace(&mut clause.is_sounding, true);
        let (repeated, samples) = samples.split_at(samples.len().min(clause.repeated));
        clause.repeated -= repeated.len();
        let room = SPEECH_MOST - clause.received;
        let is_endless = samples.len() > room;
        clause.held.extend(&samples[..samples.len().min(room)]);
        clause.received += samples.len().min(room);
        clause.is_cut_off = is_endless;
        if is_first {
            let characters = clause.text.chars().count() as u64;
            let usage = Usage {
                characters,
                ..Usage::default()
            };
            self.tell(VoiceEvent::Usage(usage));
        }
        if is_endless {
            self.requests.cancel(connection, &mut self.effects);
            self.speech.complete(connection);
        }
    }

    /// Has the next clauses made, and gives the call what there is, unless the caller is about to interrupt.
    pub(super) fn speak(&mut self) {
        let at_once = match self.requests.has_failed(Stage::Speaking) {
            true => 1,
            false => AT_ONCE,
        };
        for at in 0..self.speech.clauses.len().min(at_once) {
            let clause = &self.speech.clauses[at];
            if clause.request.is_none() && !clause.is_complete && self.requests.may_start(self.now)
            {
                let text = clause.text.clone();
                let connection = self.start(Stage::Speaking, PipelineRequest::Speak { text });
                self.speech.clauses[at].request = Some(connection);
            }
        }
        if self.turn.may_interrupt() {
            return;
        }
        while let Some(mut clause) = self.speech.clauses.pop_front() {
            self.tell_clause(&mut clause);
            if !clause.is_complete {
                self.speech.clauses.push_front(clause);
                return;
            }
        }
        if self.answer.is_running() {
            return;
        }
        self.part();
        self.speech.is_greeting = false;
        if std::mem::take(&mut self.speech.has_begun) {
            self.tell(VoiceEvent::TurnOver);
        }
    }

    /// Tells the samples of a clause, each with its words. After the first, pieces are whole, since each is work for the call.
    fn tell_clause(&mut self, clause: &mut Clause) {
        let mut held = std::mem::take(&mut clause.held);
        if !clause.is_complete && clause.told > 0 {
            clause.held = held.split_off(held.len() - held.len() % PIECE);
        }
        for piece in held.chunks(PIECE) {
            tell_audio(piece, &mut self.effects);
            self.playback.add(&clause.id, 0, piece.len());
            clause.told += piece.len();
            self.speech.has_begun = true;
            let length = Duration::from_secs(piece.len() as u64) / SPEECH_RATE;
            self.speech.playing_until = self.speech.playing_until.max(self.now) + length;
            self.tell_words(clause);
        }
        if clause.is_complete {
            self.tell_words(clause);
        }
        if clause.is_cut_off {
            let (told, all) = (clause.told_text as u64, clause.text.len() as u64);
            self.history.keep(&clause.id, told, all);
        }
    }

    fn tell_words(&mut self, clause: &mut Clause) {
        if let Some(words) = clause.words() {
            self.tell(VoiceEvent::AgentSaid(words));
        }
    }

    /// The caller interrupts what is being played.
    pub(super) fn interrupt(&mut self) {
        if let Some(clause) = self.speech.clauses.front().filter(|it| it.told > 0) {
            // Its rest counts as unheard speech, so that the right share of its words is kept.
            let rest = clause.expected().saturating_sub(clause.told);
            self.playback.add(&clause.id, 0, rest);
        }
        self.stop_answer();
        if self.playback.has_spoken() {
            self.playback.interrupt();
            self.tell(VoiceEvent::Interrupted);
            self.tell(VoiceEvent::TurnOver);
        }
    }

    /// Drops the speech that the call does not have. What it has goes on.
    pub(super) fn stop_speech(&mut self) {
        self.speech.cutter.clear();
        self.speech.has_begun = false;
        self.speech.is_greeting = false;
        self.speech.playing_until = self.now;
        for clause in std::mem::take(&mut self.speech.clauses) {
            if let Some(connection) = clause.request {
                self.requests.cancel(connection, &mut self.effects);
            }
            if clause.told == 0 {
                self.history.keep(&clause.id, 0, 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::spoken_part;

    #[rstest]
    #[case(0, "")]
    #[case(30, "Satu ")]
    #[case(50, "Satu dua ")]
    #[case(99, "Satu dua tiga ")]
    fn words_go_with_their_sound(#[case] told: usize, #[case] expected: &str) {
        let text = "Satu dua tiga empat";
        assert_eq!(&text[..spoken_part(text, told, 100)], expected);
        assert_eq!(spoken_part("", told, 0), 0);
    }
}
