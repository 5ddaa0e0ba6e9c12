//! What every actor stands on: time, the context that counts messages and survives panics, what that counted, group commit, and
//! fair turns and shares of what there is little of. Knows nothing of calls, money or webhooks.

pub mod answer;
pub mod circuit;
pub mod clock;
pub mod context;
#[cfg(feature = "fail-points")]
pub mod fail_points;
pub mod group_commit;
pub mod histogram;
pub mod instances;
pub mod lag;
pub mod last_minute;
pub mod metrics;
pub mod shares;
#[cfg(test)]
pub(crate) mod simulated;
pub mod turns;
