//! The steps of the conversation guard.

/// A step for a caller who waits, as the metrics count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stall {
    AskedAgain,
    Filled,
    Replaced,
    GivenUp,
}

impl Stall {
    /// Every step with its name, in the order of their values.
    pub(crate) const ALL: [(Self, &'static str); 4] = [
        (Self::AskedAgain, "asked_again"),
        (Self::Filled, "filled"),
        (Self::Replaced, "replaced"),
        (Self::GivenUp, "given_up"),
    ];
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::call::machine) enum GuardStep {
    /// The caller waits: the model is asked for its answer in words.
    AskAgain,
    /// The agent has broken off in mid-answer: the model is asked for the rest.
    AskForRest,
    /// The caller waits: a recorded sentence asks for patience.
    Filler,
    /// The caller waits: the voice session is replaced.
    Replace,
    /// The caller has waited too long.
    GiveUp,
    /// The caller is silent: the agent asks whether somebody is there.
    Remind,
    /// The caller stays silent: the agent says goodbye and hangs up.
    EndForSilence,
    /// A function takes long.
    FunctionFiller,
    /// A voice without end is a noise, and the caller may be waiting.
    IgnoreNoise,
}

impl GuardStep {
    /// The step's name in metrics, for a step of a caller who waits.
    pub(in crate::call::machine) fn stall(self) -> Option<Stall> {
        match self {
            Self::AskAgain | Self::AskForRest => Some(Stall::AskedAgain),
            Self::Filler => Some(Stall::Filled),
            Self::Replace => Some(Stall::Replaced),
            Self::GiveUp => Some(Stall::GivenUp),
            Self::Remind | Self::EndForSilence | Self::FunctionFiller | Self::IgnoreNoise => None,
        }
    }
}
