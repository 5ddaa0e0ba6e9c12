//! How far each node's clock is ahead of the database's, so that a node that starts beside others goes by the same time as they.

use super::Statements;

pub(crate) const STEP: Statements = Statements {
    file: file!(),
    up: &["ALTER TABLE nodes ADD COLUMN ahead_ms BIGINT NOT NULL DEFAULT 0"],
    down: &["ALTER TABLE nodes DROP COLUMN ahead_ms"],
};
