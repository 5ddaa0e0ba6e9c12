//! The answer that the agent owes, and the silence of the caller.

use dikala_entities::ConversationSettings;

use super::GuardStep;

/// The time between the two reminders of a silent caller.
const SECOND_REMINDER_MS: u64 = 20_000;

#[derive(Debug, Clone, Copy)]
pub(super) struct OwedAnswer {
    pub(super) since: u64,
    /// The model that is there was asked again.
    pub(super) is_asked: bool,
    pub(super) what: OwedWords,
}

/// The wait of a caller who spoke again after the model was asked for its answer, or whose model calls one function after the
/// other. Otherwise neither would ever come to the next step.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Wait {
    pub(super) ms: u64,
    /// Steps of the ladder that were taken.
    pub(super) steps: usize,
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

impl CallerSilence {
    /// The next step and its time, for a caller who says nothing after the agent's words, which were heard `until` then.
    pub(super) fn next(
        &self,
        settings: &ConversationSettings,
        until: u64,
    ) -> Option<(u64, GuardStep)> {
        let (after, step) = match self.reminders {
            0 => (ms(settings.reminder_after_seconds), GuardStep::Remind),
            1 => (SECOND_REMINDER_MS, GuardStep::Remind),
            2 => (
                ms(settings.end_after_silence_seconds),
                GuardStep::EndForSilence,
            ),
            _ => return None,
        };
        let since = match self.reminders {
            0 => self.since.max(until),
            _ => self.since,
        };
        Some((since + after, step))
    }
}

fn ms(seconds: i64) -> u64 {
    u64::try_from(seconds)
        .unwrap_or_default()
        .saturating_mul(1_000)
}
