//! Counters over all calls.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::machine::{Effect, Input};
use crate::{engine::Message, leg::Order, voice::Heard};

/// Counts since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reading {
    /// Times that the agent fell silent because the caller spoke.
    pub pauses: u64,
    /// Pauses that the model confirmed as an interruption (barge-in).
    pub interruptions: u64,
    /// Connections to the model that were lost and made again.
    pub reconnections: u64,
    /// Voice sessions that were lost during a call.
    pub voices_lost: u64,
    /// Model cost in rupiah, as reported to the service.
    pub cost_idr: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pauses: AtomicU64,
    interruptions: AtomicU64,
    reconnections: AtomicU64,
    voices_lost: AtomicU64,
    cost_idr: AtomicU64,
}

impl Counters {
    pub(super) fn happened(&self, input: &Input) {
        let counter = match input {
            Input::Voice(Heard::Interrupted) => &self.interruptions,
            Input::Voice(Heard::Reconnected) => &self.reconnections,
            _ => return,
        };
        counter.fetch_add(1, Relaxed);
    }

    pub(super) fn follows(&self, effect: &Effect) {
        let (counter, count) = match effect {
            Effect::Leg(Order::Pause) => (&self.pauses, 1),
            Effect::CloseVoice => (&self.voices_lost, 1),
            Effect::Engine(Message::Hangup { ai_cost_idr, .. }, _) => {
                (&self.cost_idr, ai_cost_idr.unwrap_or_default())
            }
            _ => return,
        };
        counter.fetch_add(count, Relaxed);
    }

    pub(crate) fn read(&self) -> Reading {
        Reading {
            pauses: self.pauses.load(Relaxed),
            interruptions: self.interruptions.load(Relaxed),
            reconnections: self.reconnections.load(Relaxed),
            voices_lost: self.voices_lost.load(Relaxed),
            cost_idr: self.cost_idr.load(Relaxed),
        }
    }
}
