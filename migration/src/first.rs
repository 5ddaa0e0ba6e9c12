//! The first step: the schema of the first release.
//!
//! Conventions: ids and enumerations are text, instants are BIGINT milliseconds since the Unix epoch, JSON is text,
//! booleans are booleans. No row refers to another tenant's rows. Long texts are the last columns of their table,
//! because SQLite reads through them to whatever follows.

use super::script::Script;

pub(crate) const STEP: Script = Script {
    name: "m20261129_000001_schema",
    sql: concat!(
        include_str!("first/service.sql"),
        include_str!("first/tenants.sql"),
        include_str!("first/agents.sql"),
        include_str!("first/calls.sql"),
        include_str!("first/credit.sql"),
        include_str!("first/events.sql"),
    ),
};
