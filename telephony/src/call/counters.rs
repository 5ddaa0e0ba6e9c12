//! Counters over all calls.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use dikala_protocol::CallReport;
use dikala_sip::leg::Order;

use super::machine::{MachineEffect, MachineInput};
use crate::voice::VoiceEvent;

/// Counts since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallStatistics {
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
pub(crate) struct CallCounters {
    pauses: AtomicU64,
    interruptions: AtomicU64,
    reconnections: AtomicU64,
    voices_lost: AtomicU64,
    cost_idr: AtomicU64,
}

impl CallCounters {
    pub(super) fn count_input(&self, input: &MachineInput) {
        let counter = match input {
            MachineInput::Voice(VoiceEvent::Interrupted) => &self.interruptions,
            MachineInput::Voice(VoiceEvent::Reconnected) => &self.reconnections,
            _ => return,
        };
        counter.fetch_add(1, Relaxed);
    }

    pub(super) fn count_effect(&self, effect: &MachineEffect) {
        let (counter, count) = match effect {
            MachineEffect::Leg(Order::Pause) => (&self.pauses, 1),
            MachineEffect::CloseVoice => (&self.voices_lost, 1),
            MachineEffect::Service(CallReport::Hangup { ai_cost_idr, .. }, _) => {
                (&self.cost_idr, ai_cost_idr.unwrap_or_default())
            }
            _ => return,
        };
        counter.fetch_add(count, Relaxed);
    }

    pub(crate) fn read(&self) -> CallStatistics {
        CallStatistics {
            pauses: self.pauses.load(Relaxed),
            interruptions: self.interruptions.load(Relaxed),
            reconnections: self.reconnections.load(Relaxed),
            voices_lost: self.voices_lost.load(Relaxed),
            cost_idr: self.cost_idr.load(Relaxed),
        }
    }
}
