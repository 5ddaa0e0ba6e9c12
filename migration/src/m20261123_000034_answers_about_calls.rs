//! The call that a stored answer tells of, so that erasing the call finds it by key. Answers of before are read through once; they
//! are those of a day.

use super::Statements;

pub(crate) const STEP: Statements = Statements {
    file: file!(),
    up: &[
        "ALTER TABLE idempotency_keys ADD COLUMN call_id TEXT",
        "UPDATE idempotency_keys SET call_id = (SELECT c.id FROM calls c \
         WHERE c.id = SUBSTR(idempotency_keys.body, 8, 31)) \
         WHERE body LIKE '{\"id\":\"call\\_%' ESCAPE '\\' AND status = 202",
    ],
    down: &["ALTER TABLE idempotency_keys DROP COLUMN call_id"],
};
