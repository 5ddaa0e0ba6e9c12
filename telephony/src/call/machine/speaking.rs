//! The agent's speech on its way to the caller: how it is paused, flushed and waited for.

use std::collections::VecDeque;

use dikala_sip::leg::{Order, SPEECH_RATE, Speech};

use super::MachineEffect;

/// The longest pause for a voice that the model does not treat as an interruption: it may be a noise without end.
const PAUSE_MS_MAX: u64 = 3_000;

#[derive(Debug, Default)]
pub(super) struct Speaking {
    last_mark: u64,
    /// Samples that were sent to the phone since the beginning.
    said: u64,
    /// Something was said after the last mark that was played.
    is_speaking: bool,
    /// While the agent pauses for the caller: when to continue if the caller's voice does not end.
    resume: Option<u64>,
    flushing: Option<Flush>,
}

/// A flush that the phone has not confirmed yet. Later speech is held until then.
#[derive(Debug)]
struct Flush {
    /// The voice is told how much was heard.
    is_reported: bool,
    held: VecDeque<Speech>,
}

impl Speaking {
    pub(super) fn say(&mut self, samples: Vec<i16>, out: &mut Vec<MachineEffect>) {
        self.is_speaking = true;
        self.said += samples.len() as u64;
        self.send(Speech::Audio(samples), out);
    }

    /// Milliseconds of speech since the beginning, played or not.
    pub(super) fn said_ms(&self) -> u64 {
        self.said * 1_000 / u64::from(SPEECH_RATE)
    }

    /// Sets a mark behind everything said so far.
    pub(super) fn mark(&mut self, out: &mut Vec<MachineEffect>) -> u64 {
        self.last_mark += 1;
        self.send(Speech::Mark(self.last_mark), out);
        self.last_mark
    }

    fn send(&mut self, speech: Speech, out: &mut Vec<MachineEffect>) {
        match &mut self.flushing {
            Some(flush) => flush.held.push_back(speech),
            None => out.push(MachineEffect::Say(speech)),
        }
    }

    pub(super) fn played(&mut self, mark: u64) {
        self.is_speaking &= mark != self.last_mark;
    }

    pub(super) fn is_speaking(&self) -> bool {
        self.is_speaking
    }

    /// Pauses because the caller speaks.
    pub(super) fn pause(&mut self, now_ms: u64, out: &mut Vec<MachineEffect>) {
        if self.is_speaking && self.resume.is_none() && self.flushing.is_none() {
            self.resume = Some(now_ms + PAUSE_MS_MAX);
            out.push(MachineEffect::Leg(Order::Pause));
        }
    }

    /// Continues after a pause.
    pub(super) fn resume(&mut self, out: &mut Vec<MachineEffect>) {
        if self.resume.take().is_some() {
            out.push(MachineEffect::Leg(Order::Continue));
        }
    }

    /// Paused until it is clear whether the caller interrupts.
    pub(super) fn is_paused(&self) -> bool {
        self.resume.is_some()
    }

    pub(super) fn due(&self) -> Option<u64> {
        self.resume
    }

    /// Discards queued speech. `is_reported`: the voice learns how much of it was heard.
    pub(super) fn flush(&mut self, is_reported: bool, out: &mut Vec<MachineEffect>) {
        self.resume = None;
        self.is_speaking = false;
        match &mut self.flushing {
            Some(flush) => {
                flush.is_reported |= is_reported;
                flush.held.retain(|held| matches!(held, Speech::Mark(_)));
            }
            None => {
                out.push(MachineEffect::Leg(Order::Flush));
                self.flushing = Some(Flush {
                    is_reported,
                    held: VecDeque::new(),
                });
            }
        }
    }

    /// Ends a flush. Returns whether the voice is told how much was heard.
    pub(super) fn flushed(&mut self, out: &mut Vec<MachineEffect>) -> bool {
        let Some(flush) = self.flushing.take() else {
            return false;
        };
        out.extend(flush.held.into_iter().map(MachineEffect::Say));
        flush.is_reported
    }

    pub(super) fn is_flushing(&self) -> bool {
        self.flushing.is_some()
    }
}
