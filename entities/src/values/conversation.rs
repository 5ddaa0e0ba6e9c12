//! How an agent leads a conversation, and how fast it answered. The store has these values as JSON text; a setting that is absent
//! there has its default.

use std::{fmt, ops::RangeInclusive, str::FromStr};

use sea_orm::DeriveValueType;
use serde::{Deserialize, Serialize};

use super::{FillerKind, InterruptionMode};

/// Allowed seconds of silence before the agent asks for the caller.
pub const REMINDER_SECONDS: RangeInclusive<i64> = 3..=120;
/// Allowed seconds of silence, after two reminders, before the agent hangs up.
pub const END_SECONDS: RangeInclusive<i64> = 5..=600;

/// An agent's behaviour in silences, waits and interruptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, DeriveValueType)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = Conversation))]
#[serde(rename_all = "camelCase", default)]
#[sea_orm(value_type = "String")]
pub struct ConversationSettings {
    /// Seconds of the caller's silence until the agent asks whether the caller is there.
    #[cfg_attr(
        feature = "openapi",
        schema(required = true, minimum = 3, maximum = 120)
    )]
    pub reminder_after_seconds: i64,
    /// Seconds of silence after the second reminder until the agent says goodbye and hangs up.
    #[cfg_attr(
        feature = "openapi",
        schema(required = true, minimum = 5, maximum = 600)
    )]
    pub end_after_silence_seconds: i64,
    /// The sound that the caller hears while a function takes long.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub fillers: FillerKind,
    /// The detection of callers who interrupt the agent.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub interruptions: InterruptionMode,
    /// The transcript has `•` in place of each digit of pressed keys.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub mask_keys: bool,
}

impl Default for ConversationSettings {
    fn default() -> Self {
        Self {
            reminder_after_seconds: 10,
            end_after_silence_seconds: 45,
            fillers: FillerKind::Words,
            interruptions: InterruptionMode::Fast,
            mask_keys: false,
        }
    }
}

/// Times from the end of the caller's voice to the agent's first sound, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, DeriveValueType)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[sea_orm(value_type = "String")]
pub struct TurnLatencyMs {
    /// Half of the agent's turns began no later.
    pub p50: i64,
    /// 95 % of them began no later.
    pub p95: i64,
}

impl TurnLatencyMs {
    /// Percentiles by nearest rank: times that were really measured. `None` without times.
    pub fn of(mut times: Vec<i64>) -> Option<Self> {
        times.sort_unstable();
        let percentile = |percent: usize| {
            let rank = (times.len() * percent).div_ceil(100);
            times.get(rank.checked_sub(1)?).copied()
        };
        Some(Self {
            p50: percentile(50)?,
            p95: percentile(95)?,
        })
    }
}

macro_rules! stored_as_json {
    ($($name:ident)*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
            }
        }

        impl FromStr for $name {
            type Err = serde_json::Error;

            fn from_str(text: &str) -> Result<Self, serde_json::Error> {
                serde_json::from_str(text)
            }
        }
    )*};
}

stored_as_json! { ConversationSettings TurnLatencyMs }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_is_stored_whole_and_read_with_defaults() {
        let settings = ConversationSettings {
            fillers: FillerKind::Tone,
            mask_keys: true,
            ..ConversationSettings::default()
        };
        let stored = settings.to_string();
        assert_eq!(
            stored,
            r#"{"reminderAfterSeconds":10,"endAfterSilenceSeconds":45,"fillers":"tone","interruptions":"fast","maskKeys":true}"#
        );
        assert_eq!(stored.parse::<ConversationSettings>().ok(), Some(settings));
        let partly = r#"{"fillers":"tone","maskKeys":true}"#.parse::<ConversationSettings>();
        assert_eq!(partly.ok(), Some(settings));
        assert!("7".parse::<ConversationSettings>().is_err());
    }

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let of = |times: &[i64]| TurnLatencyMs::of(times.to_vec()).map(|ms| (ms.p50, ms.p95));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[7]), Some((7, 7)));
        assert_eq!(of(&[900, 100]), Some((100, 900)));
        let hundred: Vec<i64> = (1..=100).rev().collect();
        assert_eq!(of(&hundred), Some((50, 95)));
    }
}
