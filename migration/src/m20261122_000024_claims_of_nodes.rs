//! The node that handles the request of an `Idempotency-Key`. If it is gone, another need not wait.

use super::Statements;

pub(crate) const STEP: Statements = Statements {
    file: file!(),
    up: &["ALTER TABLE idempotency_keys ADD COLUMN node TEXT NOT NULL DEFAULT ''"],
    down: &["ALTER TABLE idempotency_keys DROP COLUMN node"],
};
