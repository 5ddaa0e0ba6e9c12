//! The base of every actor: time, the context that meters messages and survives panics, group commit, and fair
//! limits. Knows nothing of calls, money or webhooks.

pub mod answer;
pub mod circuit;
pub mod clock;
pub mod context;
#[cfg(debug_assertions)]
pub mod fail_points;
pub mod fair_semaphore;
pub mod group_commit;
pub mod histogram;
pub mod instances;
pub mod lag;
pub mod last_minute;
pub mod metrics;
pub mod shared_limit;
#[cfg(test)]
pub(crate) mod simulated;
