//! Each node's clock's lead over the database's, so that a new node follows the same time as the others.

use super::Statements;

pub(crate) const STEP: Statements = Statements {
    file: file!(),
    up: &["ALTER TABLE nodes ADD COLUMN ahead_ms BIGINT NOT NULL DEFAULT 0"],
    down: &["ALTER TABLE nodes DROP COLUMN ahead_ms"],
};
