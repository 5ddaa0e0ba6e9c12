//! Since when each bridge has had its newest socket: of two nodes that say it is theirs, the later has it.

use super::Statements;

pub(crate) const STEP: Statements = Statements {
    file: file!(),
    up: &["ALTER TABLE bridges ADD COLUMN connected_at BIGINT"],
    down: &["ALTER TABLE bridges DROP COLUMN connected_at"],
};
