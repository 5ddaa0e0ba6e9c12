//! The trace of a call, if its bridge sent one.

use super::Statements;

pub(crate) const STEP: Statements = Statements {
    file: file!(),
    up: &["ALTER TABLE calls ADD COLUMN traceparent TEXT"],
    down: &["ALTER TABLE calls DROP COLUMN traceparent"],
};
