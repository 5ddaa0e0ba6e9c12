//! Counters over all calls.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use dikala_entities::VoiceProvider;
use dikala_protocol::CallReport;
use dikala_sip::statistics::{ValueCounts, ValueHistogram};

use super::machine::{MachineEffect, MachineInput, Stall};
use crate::voice::VoiceEvent;

/// Upper bounds of the time from the end of the caller's voice to the agent's first sound, in microseconds.
const TURN_BOUNDS: &[u64] = &[
    250_000, 500_000, 750_000, 1_000_000, 1_500_000, 2_000_000, 3_000_000, 5_000_000, 10_000_000,
    20_000_000,
];

/// Counts since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
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
    /// One for each provider.
    pub voices: Vec<VoiceStatistics>,
}

/// Counts of the calls of one provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VoiceStatistics {
    pub provider: VoiceProvider,
    /// From the end of the caller's voice to the agent's first sound, in microseconds.
    pub turns: ValueCounts,
    /// Steps for callers who waited, with their names.
    pub stalls: [(&'static str, u64); Stall::ALL.len()],
    /// Times that it took over from another provider.
    pub failovers: u64,
}

#[derive(Debug)]
struct VoiceCounters {
    provider: VoiceProvider,
    turns: ValueHistogram,
    stalls: [AtomicU64; Stall::ALL.len()],
    failovers: AtomicU64,
}

impl VoiceCounters {
    fn new(provider: VoiceProvider) -> Self {
        Self {
            provider,
            turns: ValueHistogram::new(TURN_BOUNDS),
            stalls: Default::default(),
            failovers: AtomicU64::new(0),
        }
    }

    fn read(&self) -> VoiceStatistics {
        VoiceStatistics {
            provider: self.provider,
            turns: self.turns.read(),
            stalls: std::array::from_fn(|step| {
                (Stall::ALL[step].1, self.stalls[step].load(Relaxed))
            }),
            failovers: self.failovers.load(Relaxed),
        }
    }
}

#[derive(Debug)]
pub(crate) struct CallCounters {
    voices: Vec<VoiceCounters>,
    pauses: AtomicU64,
    interruptions: AtomicU64,
    reconnections: AtomicU64,
    voices_lost: AtomicU64,
    cost_idr: AtomicU64,
}

impl Default for CallCounters {
    fn default() -> Self {
        let providers = VoiceProvider::ALL.iter().copied();
        Self {
            voices: providers.map(VoiceCounters::new).collect(),
            pauses: AtomicU64::new(0),
            interruptions: AtomicU64::new(0),
            reconnections: AtomicU64::new(0),
            voices_lost: AtomicU64::new(0),
            cost_idr: AtomicU64::new(0),
        }
    }
}

impl CallCounters {
    pub(super) fn count_input(&self, input: &MachineInput) {
        let counter = match input {
            MachineInput::Voice(VoiceEvent::Reconnected) => &self.reconnections,
            _ => return,
        };
        counter.fetch_add(1, Relaxed);
    }

    pub(super) fn count_effect(&self, effect: &MachineEffect) {
        let (counter, count) = match effect {
            MachineEffect::SpeechPaused => (&self.pauses, 1),
            MachineEffect::Interruption => (&self.interruptions, 1),
            MachineEffect::VoiceLost => (&self.voices_lost, 1),
            MachineEffect::Service(
                CallReport::Hangup { ai_cost_idr, .. } | CallReport::Failed { ai_cost_idr, .. },
                _,
            ) => (&self.cost_idr, ai_cost_idr.unwrap_or_default()),
            MachineEffect::Stall { provider, stall } => {
                let Some(voice) = self.of(*provider) else {
                    return;
                };
                (&voice.stalls[*stall as usize], 1)
            }
            MachineEffect::Failover(provider) => {
                let Some(voice) = self.of(*provider) else {
                    return;
                };
                (&voice.failovers, 1)
            }
            MachineEffect::TurnLatency { provider, ms } => {
                if let Some(voice) = self.of(*provider) {
                    voice.turns.count(ms.saturating_mul(1_000));
                }
                return;
            }
            _ => return,
        };
        counter.fetch_add(count, Relaxed);
    }

    fn of(&self, provider: VoiceProvider) -> Option<&VoiceCounters> {
        self.voices.iter().find(|voice| voice.provider == provider)
    }

    pub(crate) fn read(&self) -> CallStatistics {
        CallStatistics {
            pauses: self.pauses.load(Relaxed),
            interruptions: self.interruptions.load(Relaxed),
            reconnections: self.reconnections.load(Relaxed),
            voices_lost: self.voices_lost.load(Relaxed),
            cost_idr: self.cost_idr.load(Relaxed),
            voices: self.voices.iter().map(VoiceCounters::read).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use dikala_entities::{HangupInitiator, HangupReason, Millis};
    use dikala_protocol::VoiceReport;

    use super::*;

    #[test]
    fn each_end_counts_its_cost_and_only_a_lost_voice_is_one() {
        let counters = CallCounters::default();
        let at = Millis::from_i64(0);
        let ends = [
            CallReport::Hangup {
                reason: HangupReason::Normal,
                initiator: HangupInitiator::Caller,
                ai_cost_idr: Some(20),
                voice: VoiceReport::default(),
            },
            CallReport::Failed {
                reason: HangupReason::AiError,
                detail: None,
                ai_cost_idr: Some(3),
                voice: VoiceReport::default(),
            },
            CallReport::failed(HangupReason::MediaLost, "lost"),
        ];
        for end in ends {
            counters.count_effect(&MachineEffect::Service(end, at));
        }
        for effect in [
            MachineEffect::CloseVoice,
            MachineEffect::VoiceLost,
            MachineEffect::Interruption,
        ] {
            counters.count_effect(&effect);
        }
        let read = counters.read();
        assert_eq!(
            (read.cost_idr, read.voices_lost, read.interruptions),
            (23, 1, 1)
        );
    }
}
