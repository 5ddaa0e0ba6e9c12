//! `webhook_stats`: counts of delivery attempts by hour, outcome and duration, written as they are recorded.

use sea_orm::entity::prelude::*;

use crate::values::{AttemptOutcome, Millis, WebhookId};

/// An hour, in milliseconds.
pub const HOUR_MS: i64 = 60 * 60 * 1_000;
/// Shorter durations are stored exactly.
const EXACT_MS: i64 = 16;

/// Attempts at one webhook with the same hour, outcome and rounded duration.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "webhook_stats")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub webhook_id: WebhookId,
    /// The beginning of the hour.
    #[sea_orm(primary_key, auto_increment = false)]
    pub hour: Millis,
    #[sea_orm(primary_key, auto_increment = false)]
    pub outcome: AttemptOutcome,
    /// The upper bound of their durations, in milliseconds; see [`up_to`].
    #[sea_orm(primary_key, auto_increment = false)]
    pub up_to_ms: i64,
    pub attempts: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// The hour of an instant.
pub const fn hour_of(at: Millis) -> Millis {
    at.plus_ms(-(at.as_i64() % HOUR_MS))
}

/// A duration rounded up, by an eighth at most, so that few rows suffice.
pub const fn up_to(ms: i64) -> i64 {
    if ms < EXACT_MS {
        return if ms < 0 { 0 } else { ms };
    }
    // Clears all but the first four binary digits.
    let cut = ms.ilog2() - 3;
    (((ms >> cut) + 1) << cut) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_rounded_up_by_an_eighth_at_most() {
        let mut kept = std::collections::BTreeSet::new();
        for ms in 0..20_000 {
            let up_to = up_to(ms);
            assert!(up_to >= ms && (up_to - ms) * 8 <= ms, "{ms} as {up_to}");
            kept.insert(up_to);
        }
        assert!(kept.len() < 110, "{}", kept.len());
        assert_eq!(
            [0, 15, 16, 17, 100, 15_000].map(up_to),
            [0, 15, 17, 17, 103, 15_359]
        );
    }
}
