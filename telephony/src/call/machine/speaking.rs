//! The agent's speech on its way to the caller: how it is paused, flushed and waited for.

use std::collections::VecDeque;

use dikala_sip::leg::{Order, SPEECH_RATE, Speech};

use super::MachineEffect;

const PER_MS: u64 = SPEECH_RATE as u64 / 1_000;
/// Sentences of the bridge that are remembered until a flush. A call has few.
const OWN_MAX: usize = 64;
/// The longest pause for a voice that the model does not treat as an interruption: it may be a noise without end.
const PAUSE_MS_MAX: u64 = 3_000;

#[derive(Debug, Default)]
pub(super) struct Speaking {
    last_mark: u64,
    said: SaidSpeech,
    /// The phone's count of played speech at the last flush.
    played_before_ms: u64,
    /// Something was said after the last mark that was played.
    is_speaking: bool,
    /// While the agent pauses for the caller: when to continue if the caller's voice does not end.
    resume: Option<u64>,
    flushing: Option<Flush>,
}

/// The speech since the last flush, in samples.
#[derive(Debug, Default)]
struct SaidSpeech {
    /// All speech before the last flush, played or not.
    begins: u64,
    length: u64,
    /// Beginnings and lengths of the bridge's own sentences.
    own: Vec<(u64, u64)>,
}

impl SaidSpeech {
    /// The share of the voice in what was played.
    fn of_voice(&self, played: u64) -> u64 {
        let own = self.own.iter();
        let own = own.map(|(begins, length)| played.saturating_sub(*begins).min(*length));
        played.saturating_sub(own.sum())
    }

    fn ends(&self) -> u64 {
        self.begins + self.length
    }
}

/// The part of the speech before a flush that was heard.
#[derive(Debug)]
pub(super) struct HeardSpeech {
    /// The end of what was heard, and of all that was said; milliseconds since the beginning of the call's speech.
    pub(super) heard_ms: u64,
    pub(super) said_ms: u64,
    /// The heard speech of the voice since its last interruption, in milliseconds, if the voice is to be told.
    pub(super) told_ms: Option<u64>,
}

/// A flush that the phone has not confirmed yet. Later speech is held until then.
#[derive(Debug)]
struct Flush {
    /// The voice is told how much was heard.
    is_reported: bool,
    before: SaidSpeech,
    held: VecDeque<Speech>,
}

impl Speaking {
    pub(super) fn say(&mut self, samples: Vec<i16>, out: &mut Vec<MachineEffect>) {
        self.is_speaking = true;
        self.said.length += samples.len() as u64;
        self.send(Speech::Audio(samples), out);
    }

    /// Says a sentence of the bridge, which is no part of the voice's speech.
    pub(super) fn say_own(&mut self, samples: Vec<i16>, out: &mut Vec<MachineEffect>) {
        if self.said.own.len() < OWN_MAX {
            let own = (self.said.length, samples.len() as u64);
            self.said.own.push(own);
        }
        self.say(samples, out);
    }

    /// Milliseconds of speech since the beginning, played or not.
    pub(super) fn said_ms(&self) -> u64 {
        self.said.ends() / PER_MS
    }

    /// Another voice session begins. What the last one said is not its own.
    pub(super) fn change_voice(&mut self) {
        self.said.own = vec![(0, self.said.length)];
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
            out.push(MachineEffect::SpeechPaused);
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
                let next = SaidSpeech {
                    begins: self.said.ends(),
                    ..SaidSpeech::default()
                };
                self.flushing = Some(Flush {
                    is_reported,
                    before: std::mem::replace(&mut self.said, next),
                    held: VecDeque::new(),
                });
            }
        }
    }

    /// Ends a flush, after which the phone has played `total_played_ms` of all speech.
    pub(super) fn flushed(
        &mut self,
        total_played_ms: u64,
        out: &mut Vec<MachineEffect>,
    ) -> Option<HeardSpeech> {
        let flush = self.flushing.take()?;
        out.extend(flush.held.into_iter().map(MachineEffect::Say));
        let played_ms = total_played_ms.saturating_sub(self.played_before_ms);
        self.played_before_ms = total_played_ms;
        let before = flush.before;
        let played = played_ms.saturating_mul(PER_MS).min(before.length);
        let told = flush.is_reported.then(|| before.of_voice(played) / PER_MS);
        Some(HeardSpeech {
            heard_ms: (before.begins + played) / PER_MS,
            said_ms: before.ends() / PER_MS,
            told_ms: told,
        })
    }

    pub(super) fn is_flushing(&self) -> bool {
        self.flushing.is_some()
    }
}
