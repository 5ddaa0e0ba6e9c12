//! The caller's turn: its audio is written down in pieces, and it is over after a pause.
//!
//! A pause of 500 ms ends a piece, which is transcribed at once. If its text is a whole sentence, the turn is over with it; if not,
//! the caller has until 900 ms to go on. All pieces of a turn are joined. A voice that does not end within 15 s is taken as a noise in
//! which the caller speaks: the turn is over as if it had ended. One that has stopped an answer and has no words after 3 s is a noise,
//! too, and the agent goes on.

use std::{collections::VecDeque, time::Duration};

use dikala_entities::InterruptionMode;
use dikala_sip::leg::{CALLER_RATE, VOICE_HANG_OVER_MS};

use super::{PipelineMachine, PipelineRequest, VoiceEvent, requests::Stage};
use crate::voice::{
    Usage,
    common::{INTERRUPTS_AFTER, NEAR_END, OwnTurns, PAUSE_OF_TURN},
    pipeline::transcripts,
};

/// The pause after half a sentence. The end of the caller's voice is told after [`VOICE_HANG_OVER_MS`] of silence.
const OVER_AFTER: Duration = Duration::from_millis(900 - VOICE_HANG_OVER_MS);
/// A caller who seems to speak for longer delays no answer: it may be a noise.
const SPEAKS_MOST: Duration = Duration::from_secs(15);
/// A voice that has stopped an answer is written down after this time: without words it is a noise, and the agent goes on.
const WORDS_WITHIN: Duration = Duration::from_secs(3);
/// The longest piece: 15 s.
const PIECE_MOST: usize = CALLER_RATE as usize * 15;
/// Pieces that wait to be transcribed; beyond this the oldest is dropped.
const PIECES_MOST: usize = 3;
/// The longest turn, in bytes.
const TURN_MOST: usize = 8_000;
/// For an agent that a noise has stopped.
const NOISE: &str =
    "A noise has interrupted you, and the caller said nothing. Go on where you stopped.";

#[derive(Debug, Default)]
pub(super) struct HeardTurn {
    voice: OwnTurns,
    is_speaking: bool,
    /// When the voice began or ended.
    changed: Duration,
    /// Audio since the last piece.
    audio: Vec<i16>,
    pieces: VecDeque<Vec<i16>>,
    transcribing: Option<(u32, Vec<i16>)>,
    /// The words so far.
    text: String,
    is_complete: bool,
    /// The caller speaks into the agent's answer, and stops it at this time. Until then nothing more of it is told.
    interrupts_at: Option<(Duration, StoppedAnswer)>,
    /// If the voice does not interrupt, it is no answer either: much of the agent's speech is ahead.
    is_aside: bool,
    /// This turn has stopped an answer.
    stopped: Option<StoppedAnswer>,
    /// It is written down at this time although the voice goes on, because it has stopped an answer.
    words_at: Option<Duration>,
    /// Its last piece was cut for that, in the present voice.
    is_probed: bool,
    /// The present voice has no words.
    is_noise: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StoppedAnswer {
    Unheard,
    HeardInPart,
}

impl HeardTurn {
    /// Adds 20 to 40 ms of the caller.
    pub(super) fn hear(&mut self, samples: &[i16]) {
        self.audio.extend(self.voice.hear(samples));
        if self.audio.len() >= PIECE_MOST {
            self.end_piece();
        }
    }

    fn end_piece(&mut self) {
        if self.pieces.len() == PIECES_MOST {
            self.pieces.pop_front();
        }
        self.pieces.push_back(std::mem::take(&mut self.audio));
    }

    /// The call is over.
    pub(super) fn ends(&mut self) {
        if !self.audio.is_empty() {
            self.end_piece();
        }
    }

    /// Nothing more is written down.
    pub(super) fn give_up(&mut self) {
        self.pieces.clear();
        self.transcribing = None;
    }

    /// The words that were not answered.
    pub(super) fn into_words(self) -> Option<String> {
        Some(self.text).filter(|text| !text.is_empty())
    }

    /// The caller has not finished, as far as is known.
    pub(super) fn is_open(&self, now: Duration) -> bool {
        match self.is_speaking {
            true => !self.is_noise && now < self.changed + SPEAKS_MOST,
            false => !self.audio.is_empty() || self.has_unheard() || !self.text.is_empty(),
        }
    }

    pub(super) fn is_speaking(&self) -> bool {
        self.is_speaking
    }

    pub(super) fn may_interrupt(&self) -> bool {
        self.interrupts_at.is_some()
    }

    /// Some of the audio is not written down yet.
    pub(super) fn has_unheard(&self) -> bool {
        !self.pieces.is_empty() || self.transcribing.is_some()
    }

    /// When the turn is over, if all of it is written down.
    fn over_at(&self) -> Option<Duration> {
        let is_waiting = !self.text.is_empty() || self.stopped.is_some();
        let is_heard = (self.is_speaking || self.audio.is_empty()) && !self.has_unheard();
        let ended = match self.is_speaking && !self.is_noise {
            true => self.changed + SPEAKS_MOST,
            false => self.changed,
        };
        let pause = match self.is_complete || self.text.is_empty() {
            true => PAUSE_OF_TURN,
            false => OVER_AFTER,
        };
        (is_waiting && is_heard).then_some(ended + pause)
    }

    pub(super) fn due(&self, now: Duration) -> Option<Duration> {
        let piece =
            (!self.is_speaking && !self.audio.is_empty()).then_some(self.changed + PAUSE_OF_TURN);
        let noise = self.is_speaking.then_some(self.changed + SPEAKS_MOST);
        let interrupts_at = self.interrupts_at.map(|(at, _)| at);
        let all = [interrupts_at, self.words_at, self.over_at(), piece, noise];
        all.into_iter().flatten().filter(|at| *at > now).min()
    }

    /// The piece is tried once more.
    pub(super) fn transcription_failed(&mut self) {
        if let Some((_, piece)) = self.transcribing.take() {
            self.pieces.push_front(piece);
        }
    }
}

impl PipelineMachine {
    /// The caller's voice begins or ends.
    pub(super) fn activity(&mut self, speaks: bool) {
        if !self.turn.voice.speaks(speaks) {
            return;
        }
        let lasted = self.now - std::mem::replace(&mut self.turn.changed, self.now);
        self.turn.is_speaking = speaks;
        self.turn.is_noise = false;
        self.turn.is_probed = false;
        let goes_on = speaks && self.turn.stopped.is_some();
        self.turn.words_at = goes_on.then_some(self.now + WORDS_WITHIN);
        if !speaks {
            if self.turn.interrupts_at.take().is_some() {
                // Too short to interrupt.
                if self.turn.is_aside {
                    self.turn.audio.clear();
                }
                if self.agent.conversation.interruptions == InterruptionMode::Fast {
                    // The call has paused the agent meanwhile.
                    self.speech.was_paused(lasted);
                }
            }
            return;
        }
        // A caller who speaks waits for nothing.
        self.back();
        let into = match self.is_heard() {
            true => StoppedAnswer::HeardInPart,
            false if self.is_unheard() => StoppedAnswer::Unheard,
            false => return,
        };
        if self.is_interruptible {
            self.turn.interrupts_at = Some((self.now + INTERRUPTS_AFTER, into));
            let is_at_end = !self.is_answering() && self.speech.plays_for(self.now) < NEAR_END;
            self.turn.is_aside = into == StoppedAnswer::HeardInPart && !is_at_end;
        }
    }

    /// The agent is in the middle of speech.
    fn is_heard(&self) -> bool {
        self.speech.is_playing(self.now) || self.is_answering() && self.speech.has_begun()
    }

    /// An answer is being made of which nothing was heard, and which the caller may still change.
    fn is_unheard(&self) -> bool {
        self.is_answering() && !self.is_heard() && !self.speech.is_greeting()
    }

    /// Takes the steps of the caller's turn that are due.
    pub(super) fn end_turn(&mut self) {
        let is_due = |it: &mut (Duration, StoppedAnswer)| it.0 <= self.now;
        let into = self.turn.interrupts_at.take_if(is_due).map(|it| it.1);
        // An answer without words may have ended meanwhile.
        let stops =
            |into: &StoppedAnswer| *into == StoppedAnswer::HeardInPart || self.is_answering();
        if let Some(into) = into.filter(stops) {
            match into {
                StoppedAnswer::HeardInPart => self.interrupt(),
                StoppedAnswer::Unheard => self.stop_answer(),
            }
            self.turn.stopped = Some(into);
            self.turn.words_at = Some(self.turn.changed + WORDS_WITHIN);
        }
        let turn = &mut self.turn;
        if turn.words_at.take_if(|at| *at <= self.now).is_some() {
            turn.end_piece();
            turn.is_probed = true;
        }
        if !turn.is_speaking && !turn.audio.is_empty() && turn.changed + PAUSE_OF_TURN <= self.now {
            turn.end_piece();
        }
        self.write_down();
        let over_at = self.turn.over_at();
        // An agent that is not to be interrupted finishes first.
        if over_at.is_none_or(|at| at > self.now) || self.is_answering() {
            return;
        }
        let words = std::mem::take(&mut self.turn.text);
        match self.turn.stopped.take() {
            _ if !words.is_empty() => {
                self.history.caller(&words);
                self.answer.want();
            }
            Some(StoppedAnswer::HeardInPart) => self.note(NOISE),
            Some(StoppedAnswer::Unheard) => self.answer.want(),
            None => {}
        }
    }

    /// Has the next piece of the caller's turn written down.
    pub(super) fn write_down(&mut self) {
        if self.turn.transcribing.is_none()
            && self.requests.may_start(self.now)
            && let Some(piece) = self.turn.pieces.pop_front()
        {
            let request = PipelineRequest::Transcribe(piece.clone());
            let connection = self.start(Stage::Hearing, request);
            self.turn.transcribing = Some((connection, piece));
        }
    }

    pub(super) fn transcribed(&mut self, connection: u32, text: &str) {
        self.brought(connection);
        let is_it = |it: &mut (u32, Vec<i16>)| it.0 == connection;
        let Some((_, piece)) = self.turn.transcribing.take_if(is_it) else {
            return;
        };
        self.tell(VoiceEvent::Usage(Usage {
            milliseconds: piece.len() as u64 * 1_000 / u64::from(CALLER_RATE),
            ..Usage::default()
        }));
        let Some(words) = transcripts::words(text) else {
            let turn = &mut self.turn;
            turn.is_noise = turn.is_probed && !turn.has_unheard() && turn.text.is_empty();
            return;
        };
        if self.is_interruptible && self.is_unheard() {
            self.stop_answer();
            self.turn.interrupts_at = None;
        }
        self.turn.is_complete = transcripts::is_complete(&words);
        if self.turn.text.len() + words.len() <= TURN_MOST {
            if !self.turn.text.is_empty() {
                self.turn.text.push(' ');
            }
            self.turn.text.push_str(&words);
        }
        self.tell(VoiceEvent::CallerSaid(format!("{words} ")));
    }
}
