//! Inputs and effects of a call's machine.

use dikala_entities::{Millis, VoiceProvider};
use dikala_protocol::{CallReport, client::ServiceEvent};
use dikala_sip::leg::{LegEvent, Order, Speech};

use super::guard::Stall;
use crate::{
    settings::Prices,
    voice::{VoiceEvent, VoiceInput, VoiceSetup},
};

/// The time of an input: monotonic milliseconds for deadlines, and wall-clock time for messages to the service.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    pub(crate) ms: u64,
    pub(crate) at: Millis,
}

/// Settings that are the same for all calls.
#[derive(Debug, Clone)]
pub(crate) struct CallRules {
    /// Callers may interrupt the agent.
    pub(crate) barge_in: bool,
    /// The configured providers with their prices. `None` leaves the price to the service's own rate.
    pub(crate) voices: Vec<(VoiceProvider, Option<Prices>)>,
    /// The default provider, and those that take over when it fails.
    pub(crate) preferred: Vec<VoiceProvider>,
    /// The voice session opens while the phone rings.
    pub(crate) opens_early: bool,
    /// Absence of the service after which the call is ended.
    pub(crate) service_lost_after_ms: u64,
}

#[derive(Debug, Clone)]
pub(crate) enum MachineInput {
    Leg(LegEvent),
    /// The phone's channel is closed.
    LegGone,
    Voice(VoiceEvent),
    /// The voice's channel is closed.
    VoiceGone,
    Service(ServiceEvent),
    /// The socket to the service is open.
    ServiceStands(bool),
    /// The socket to the service was lost; it was last heard at `since_ms`.
    ServiceAway {
        since_ms: u64,
    },
    /// The bridge stops: the caller hears a sentence and is hung up, all within this time.
    Stop {
        within_ms: u64,
    },
    Time,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum MachineEffect {
    Leg(Order),
    Say(Speech),
    /// Opens a voice session in place of the present one, if there is one.
    OpenVoice(VoiceProvider, Box<VoiceSetup>),
    Voice(VoiceInput),
    CloseVoice,
    /// The caller waited for the agent, and this was done about it.
    Stall {
        provider: VoiceProvider,
        stall: Stall,
    },
    /// This provider takes over from another.
    Failover(VoiceProvider),
    /// The caller has interrupted the agent.
    Interruption,
    /// The agent pauses because the caller speaks.
    SpeechPaused,
    /// The voice was lost, and no other provider takes over.
    VoiceLost,
    /// The time from the end of the caller's voice to the agent's first sound.
    TurnLatency {
        provider: VoiceProvider,
        ms: u64,
    },
    /// A fault, described for the operator's log.
    Fault(String),
    /// A message to the service, and when its cause happened.
    Service(CallReport, Millis),
}
