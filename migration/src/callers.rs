//! The second step: parts of callers' numbers, for the search of calls.
//!
//! `part` is what stands in the number from some digit on, to its end: a search for digits within a number is a search for parts that
//! begin with them. One part of each number begins with `s`, for the number's start. Calls are indexed a few minutes after their
//! ring, in the order of their ids, up to `caller_index.position`.

use super::script::Script;

pub(crate) const STEP: Script = Script {
    name: "m20261129_000002_callers",
    sql: "CREATE TABLE caller_parts (
        tenant_id TEXT NOT NULL,
        part TEXT NOT NULL,
        caller_number TEXT NOT NULL,
        PRIMARY KEY (tenant_id, part, caller_number)
    ) {by_key};
    CREATE TABLE caller_index (one BIGINT NOT NULL PRIMARY KEY, position TEXT NOT NULL);
    INSERT INTO caller_index (one, position) VALUES (1, '');",
};
