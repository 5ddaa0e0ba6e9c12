//! The steps of the operators' overview: snoozed problems.

use super::script::Script;

pub(crate) const SNOOZES: Script = Script {
    name: "m20261129_000007_snoozes",
    sql: "CREATE TABLE snoozed_problems (
        problem TEXT NOT NULL PRIMARY KEY,
        is_critical BOOLEAN NOT NULL,
        ends_at BIGINT NOT NULL
    );
    CREATE INDEX snoozed_problems_end ON snoozed_problems (ends_at);",
};
