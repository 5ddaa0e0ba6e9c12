//! The answer that the agent owes, and the silence of the caller.

#[derive(Debug, Clone, Copy)]
pub(super) struct OwedAnswer {
    pub(super) since: u64,
    /// The model that is there was asked again.
    pub(super) is_asked: bool,
    pub(super) what: OwedWords,
}

/// The time waited before a function ran, or before the caller spoke to an agent that had been asked for its answer already.
/// Without it a caller who keeps saying "hello?" would never come to the next step, nor would a model that keeps calling functions.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Wait {
    pub(super) ms: u64,
    /// Steps of the ladder that were taken.
    pub(super) steps: usize,
    /// The model was asked again.
    pub(super) was_asked: bool,
}

/// The words that the agent owes the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OwedWords {
    /// The first words, or words after a function.
    Words,
    /// An answer to the caller, so the time until it is a latency.
    Answer,
    /// The rest of what it has begun to say.
    Rest,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct CallerSilence {
    /// The last reminder, or the resumption of the call.
    pub(super) since: u64,
    pub(super) reminders: u8,
}
