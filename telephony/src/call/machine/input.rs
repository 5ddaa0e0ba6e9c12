//! What a call's machine takes, and what it gives.

use dikala_entities::Millis;

use crate::{
    engine::{Message, Told},
    leg::{Happening, Order, Speech},
    settings::Prices,
    voice::{Heard, Setup, Spoken},
};

/// When something happens: on a clock that never steps, for deadlines, and on the wall, for what is told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    pub(crate) ms: u64,
    pub(crate) at: Millis,
}

/// What holds for all calls.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    /// Whether a caller may interrupt the agent.
    pub(crate) barge_in: bool,
    /// None: the engine's rate holds.
    pub(crate) prices: Option<Prices>,
    /// How long the engine may be away before the call is ended.
    pub(crate) engine_lost_after_ms: u64,
}

#[derive(Debug, Clone)]
pub(crate) enum Input {
    Leg(Happening),
    /// Nothing more is heard of the phone.
    LegGone,
    Voice(Heard),
    /// Nothing more is heard of the voice.
    VoiceGone,
    Engine(Told),
    /// Whether the socket to the engine stands.
    EngineStands(bool),
    /// It does not, and was heard until then.
    EngineAway {
        since_ms: u64,
    },
    /// The bridge stops: the caller is told, and hung up; all of it within so many milliseconds.
    Stop {
        within_ms: u64,
    },
    /// A deadline has passed.
    Time,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Effect {
    Leg(Order),
    Say(Speech),
    OpenVoice(Box<Setup>),
    Tell(Spoken),
    CloseVoice,
    /// Something broke, in words for operators.
    Fault(String),
    /// To the engine, with when it happened.
    Engine(Message, Millis),
}
