//! The third step: the index by which the turns of calls are found when transcripts are removed.

use super::indexes::{ConcurrentIndex, Indexes};

pub(crate) const STEP: Indexes = Indexes {
    name: "m20261129_000003_turns",
    indexes: &[ConcurrentIndex {
        name: "events_turns",
        on: "events (id) WHERE kind = 'call.turn'",
    }],
};
