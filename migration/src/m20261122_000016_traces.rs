//! The trace that a call is part of, where its bridge named one.

use super::Statements;

pub(crate) const STEP: Statements = Statements {
    file: file!(),
    up: &["ALTER TABLE calls ADD COLUMN traceparent TEXT"],
    down: &["ALTER TABLE calls DROP COLUMN traceparent"],
};
