//! The call that a stored answer tells of, so that erasing the call finds it by key. Answers of before have none; they are those
//! of a day.

use super::Statements;

pub(crate) const STEP: Statements = Statements {
    file: file!(),
    up: &["ALTER TABLE idempotency_keys ADD COLUMN call_id TEXT"],
    down: &["ALTER TABLE idempotency_keys DROP COLUMN call_id"],
};
