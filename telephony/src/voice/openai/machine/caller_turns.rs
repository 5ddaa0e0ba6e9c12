//! The caller's turns where this side detects them, `turn_detection = "own"`.
//!
//! A turn is over after 500 ms of silence, or of 15 s of voice, which may be a noise. A voice of less than 300 ms interrupts nothing
//! that is heard: its audio is dropped, unless so little of the speech is ahead that it may be an answer to it.

use std::time::Duration;

use dikala_entities::InterruptionMode;
use dikala_sip::leg::SPEECH_RATE;

use super::{RealtimeMachine, answers::SPEAKS_MOST};
use crate::voice::common::{INTERRUPTS_AFTER, NEAR_END, OwnTurns, PAUSE_OF_TURN};

#[derive(Debug, Default)]
pub(super) struct CallerTurns {
    voice: OwnTurns,
    /// When the voice began or ended.
    changed: Duration,
    /// The voice interrupts the agent at this time, if it lasts.
    interrupts_at: Option<Duration>,
    /// The audio of such a voice so far.
    held: Vec<i16>,
    /// Without a further word the turn is over at this time.
    over_at: Option<Duration>,
    /// When the call will have played the agent's speech.
    played_at: Duration,
}

impl CallerTurns {
    /// Adds 20 to 40 ms of the caller. Returns the audio that the model is to hear.
    pub(super) fn hear(&mut self, samples: &[i16]) -> Vec<i16> {
        let turn = self.voice.hear(samples);
        if self.interrupts_at.is_none() {
            return turn;
        }
        self.held.extend(turn);
        Vec::new()
    }

    /// The call was given this many samples of the agent.
    pub(super) fn agent_says(&mut self, samples: usize, now: Duration) {
        let length = samples as u64 * 1_000 / u64::from(SPEECH_RATE);
        self.played_at = self.played_at.max(now) + Duration::from_millis(length);
    }

    /// The agent's queued speech is discarded.
    pub(super) fn was_flushed(&mut self) {
        self.played_at = Duration::ZERO;
    }

    pub(super) fn due(&self) -> Option<Duration> {
        self.interrupts_at.or(self.over_at)
    }

    /// The call is over: no turn follows.
    pub(super) fn end(&mut self) {
        self.interrupts_at = None;
        self.over_at = None;
    }
}

impl RealtimeMachine {
    /// The caller's voice begins or ends. A server that detects turns itself is told nothing.
    pub(super) fn activity(&mut self, speaks: bool) {
        let is_answering = self.answers.is_running();
        let Some(turns) = self.own_turns.as_mut() else {
            return;
        };
        if self.summary.is_some() || !turns.voice.speaks(speaks) {
            return;
        }
        let lasted = self.now - std::mem::replace(&mut turns.changed, self.now);
        if !speaks {
            if turns.interrupts_at.take().is_some() {
                if self.terms.agent.conversation.interruptions == InterruptionMode::Fast {
                    // The call has paused the agent meanwhile.
                    turns.played_at += lasted;
                }
                let voice = std::mem::take(&mut turns.held);
                if turns.played_at >= self.now + NEAR_END {
                    return;
                }
                self.held_audio.push(&voice);
            }
            turns.over_at = Some(self.now + PAUSE_OF_TURN);
            return;
        }
        let goes_on = turns.over_at.take().is_some();
        if goes_on && self.answers.caller_speaks() {
            turns.over_at = Some(self.now + SPEAKS_MOST);
            return;
        }
        let is_in_speech = is_answering || self.now < turns.played_at;
        if is_in_speech && self.terms.interruptible {
            turns.interrupts_at = Some(self.now + INTERRUPTS_AFTER);
        } else {
            self.begin_turn();
        }
    }

    fn begin_turn(&mut self) {
        self.caller_starts(true);
        if let Some(turns) = &mut self.own_turns {
            // A voice without end may be a noise, in which the caller speaks.
            turns.over_at = Some(self.now + SPEAKS_MOST);
        }
    }

    /// Takes the steps of the caller's turn that are due.
    pub(super) fn turn_time(&mut self) {
        let Some(turns) = self.own_turns.as_mut() else {
            return;
        };
        let is_due = |at: &mut Duration| *at <= self.now;
        if turns.interrupts_at.take_if(is_due).is_some() {
            let voice = std::mem::take(&mut turns.held);
            self.held_audio.push(&voice);
            self.begin_turn();
        } else if turns.over_at.take_if(is_due).is_some() {
            if turns.voice.is_speaking() {
                // A noise that stays is committed less and less often.
                turns.over_at = Some(self.now + (self.now - turns.changed));
            }
            if self.terms.interruptible && self.answers.is_unheard() {
                // That answer does not know these words.
                self.stop_answer();
            }
            self.commits = true;
            self.caller_stops();
        }
    }
}
