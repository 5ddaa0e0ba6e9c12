//! The index by which a recovery finds deliveries that were given up in a period. Only failed deliveries are in it.

use super::indexes::{ConcurrentIndex, Indexes};

pub(crate) const STEP: Indexes = Indexes {
    name: "m20261130_000010_recoveries",
    indexes: &[ConcurrentIndex {
        name: "deliveries_failed",
        on: "deliveries (webhook_id, completed_at, id) WHERE status = 'failed' AND NOT is_test",
    }],
};
