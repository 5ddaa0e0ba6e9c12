//! The steps of the operators' overview: snoozed problems, and refused calls.

use super::{
    indexes::{ConcurrentIndex, Indexes},
    script::Script,
};

pub(crate) const SNOOZES: Script = Script {
    name: "m20261129_000007_snoozes",
    sql: "CREATE TABLE snoozed_problems (
        problem TEXT NOT NULL PRIMARY KEY,
        is_critical BOOLEAN NOT NULL,
        ends_at BIGINT NOT NULL
    );
    CREATE INDEX snoozed_problems_end ON snoozed_problems (ends_at);",
};

/// The index by which calls that were refused for lack of minutes are found. Other calls are not in it.
pub(crate) const REFUSED: Indexes = Indexes {
    name: "m20261129_000008_refused",
    indexes: &[ConcurrentIndex {
        name: "calls_refused",
        on: "{ended_calls} (started_at DESC, tenant_id) WHERE outcome = 'failed' AND hangup_reason = 'insufficient_credits'",
    }],
};
