//! Which node carries out the request of an `Idempotency-Key`: where that is gone, another need not wait.

use super::Statements;

pub(crate) const STEP: Statements = Statements {
    file: file!(),
    up: &["ALTER TABLE idempotency_keys ADD COLUMN node TEXT NOT NULL DEFAULT ''"],
    down: &["ALTER TABLE idempotency_keys DROP COLUMN node"],
};
