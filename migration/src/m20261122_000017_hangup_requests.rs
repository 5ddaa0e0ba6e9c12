//! Requests by commands to end calls, until the owning node has received them.

use super::Statements;

pub(crate) const STEP: Statements = Statements {
    file: file!(),
    up: &[
        "CREATE TABLE hangup_requests (call_id TEXT NOT NULL PRIMARY KEY, actor TEXT NOT NULL, node TEXT NOT NULL, \
     asked_at BIGINT NOT NULL)",
    ],
    down: &["DROP TABLE hangup_requests"],
};
