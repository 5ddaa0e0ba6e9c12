//! The steps of the operators' overview: snoozed problems, refused calls, webhooks in trouble, and operators' changes.

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

/// Indexes of what the overview looks for each second. Most rows of the tables are not in them.
pub(crate) const TROUBLES: Indexes = Indexes {
    name: "m20261129_000009_troubles",
    indexes: &[
        ConcurrentIndex {
            name: "webhooks_failing",
            on: "webhooks (id) WHERE failing_since IS NOT NULL",
        },
        ConcurrentIndex {
            name: "webhooks_disabled",
            on: "webhooks (id) WHERE disabled_reason IS NOT NULL",
        },
        ConcurrentIndex {
            name: "webhooks_paused",
            on: "webhooks (id) WHERE paused_at IS NOT NULL",
        },
        ConcurrentIndex {
            name: "audit_operators",
            on: "audit (at DESC, id DESC) WHERE actor IN ('operator', 'cli')",
        },
    ],
};
