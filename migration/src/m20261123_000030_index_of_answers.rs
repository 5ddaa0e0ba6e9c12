//! An index of stored answers by their call.

use super::indexes::{ConcurrentIndex, Indexes};

pub(crate) const STEP: Indexes = Indexes {
    file: file!(),
    indexes: &[ConcurrentIndex {
        name: "idempotency_keys_of_calls",
        on: "idempotency_keys (call_id) WHERE call_id IS NOT NULL",
    }],
};
