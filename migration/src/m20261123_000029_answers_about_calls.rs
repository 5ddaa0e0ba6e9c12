//! The call that a stored answer is about, so that erasing the call finds the answer by key. Earlier answers have
//! none; they are kept for a day.

use super::Statements;

pub(crate) const STEP: Statements = Statements {
    file: file!(),
    up: &["ALTER TABLE idempotency_keys ADD COLUMN call_id TEXT"],
    down: &["ALTER TABLE idempotency_keys DROP COLUMN call_id"],
};
