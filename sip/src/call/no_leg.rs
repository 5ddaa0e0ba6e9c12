//! The outcome of a second leg that is none.

use std::sync::atomic::AtomicU64;

use crate::statistics::OutcomeCounters;

/// Why there is no leg, and the counter for it.
pub struct NoLeg {
    pub why: String,
    /// That of the trunk, if it refused.
    pub status: Option<u16>,
    pub counted: fn(&OutcomeCounters) -> &AtomicU64,
}

impl<W: Into<String>> From<W> for NoLeg {
    fn from(why: W) -> Self {
        Self {
            why: why.into(),
            status: None,
            counted: |of| &of.failed,
        }
    }
}

impl NoLeg {
    pub fn refused(status: Option<u16>, why: impl Into<String>) -> Self {
        Self {
            status,
            counted: |of| &of.refused,
            ..why.into().into()
        }
    }

    pub fn cancelled(why: &str) -> Self {
        Self {
            counted: |of| &of.cancelled,
            ..why.into()
        }
    }
}
