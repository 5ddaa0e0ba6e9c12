//! The time of each bridge's newest socket. If two nodes claim it, the later one has it.

use super::Statements;

pub(crate) const STEP: Statements = Statements {
    file: file!(),
    up: &["ALTER TABLE bridges ADD COLUMN connected_at BIGINT"],
    down: &["ALTER TABLE bridges DROP COLUMN connected_at"],
};
