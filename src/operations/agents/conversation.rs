//! The field `conversation` of an agent: an object of settings, each with a default.

use dikala_entities::{
    ConversationSettings, END_SECONDS, FillerKind, InterruptionMode, REMINDER_SECONDS, described,
};
use utoipa::ToSchema;

use crate::{
    http::extract::{FormReader, boolean, integer, word},
    openapi::schema,
};

/// An agent's behaviour in silences, waits and interruptions. A setting that is left out stays as it is; null resets it.
#[derive(Clone, Debug, ToSchema)]
#[schema(rename_all = "camelCase", example = json!({"reminderAfterSeconds": 8, "fillers": "tone"}))]
#[expect(dead_code, reason = "the description of what is read field by field")]
pub struct ConversationInput {
    /// Seconds of the caller's silence until the agent asks whether the caller is there.
    #[schema(nullable, required = false, default = json!(ConversationSettings::default().reminder_after_seconds))]
    reminder_after_seconds: ReminderSeconds,
    /// Seconds of silence after the second reminder until the agent says goodbye and hangs up.
    #[schema(nullable, required = false, default = json!(ConversationSettings::default().end_after_silence_seconds))]
    end_after_silence_seconds: EndSeconds,
    /// The sound that the caller hears while a function takes long.
    #[schema(nullable, required = false, default = json!(ConversationSettings::default().fillers))]
    fillers: FillerKind,
    /// The detection of callers who interrupt the agent.
    #[schema(nullable, required = false, default = json!(ConversationSettings::default().interruptions))]
    interruptions: InterruptionMode,
    /// The transcript has `•` in place of each digit of pressed keys.
    #[schema(nullable, required = false, default = json!(ConversationSettings::default().mask_keys))]
    mask_keys: bool,
}

/// Seconds until the agent asks for the caller. It has no values; for descriptions only.
#[derive(Clone, Copy, Debug)]
pub enum ReminderSeconds {}

/// Seconds until the agent hangs up. It has no values; for descriptions only.
#[derive(Clone, Copy, Debug)]
pub enum EndSeconds {}

described! {
    ReminderSeconds: schema::integer(*REMINDER_SECONDS.start(), *REMINDER_SECONDS.end());
    EndSeconds: schema::integer(*END_SECONDS.start(), *END_SECONDS.end());
}

/// Reads the settings that are sent; the others stay as in `current`.
pub(super) fn read(
    form: &mut FormReader<'_>,
    current: ConversationSettings,
) -> ConversationSettings {
    let default = ConversationSettings::default();
    let seconds = |range: std::ops::RangeInclusive<i64>| integer(*range.start(), *range.end());
    ConversationSettings {
        reminder_after_seconds: form.defaulted(
            "reminderAfterSeconds",
            Some(current.reminder_after_seconds),
            default.reminder_after_seconds,
            seconds(REMINDER_SECONDS),
        ),
        end_after_silence_seconds: form.defaulted(
            "endAfterSilenceSeconds",
            Some(current.end_after_silence_seconds),
            default.end_after_silence_seconds,
            seconds(END_SECONDS),
        ),
        fillers: form.defaulted(
            "fillers",
            Some(current.fillers),
            default.fillers,
            word("a kind of filler"),
        ),
        interruptions: form.defaulted(
            "interruptions",
            Some(current.interruptions),
            default.interruptions,
            word("a way to interrupt"),
        ),
        mask_keys: form.defaulted(
            "maskKeys",
            Some(current.mask_keys),
            default.mask_keys,
            boolean,
        ),
    }
}
