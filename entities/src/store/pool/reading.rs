//! What a pool shows of itself.

use std::sync::Arc;

use super::Connections;

/// How many connections of a pool there are, by what they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolReading {
    /// In somebody's hands, or being made.
    pub in_use: usize,
    /// Open, and nobody has them.
    pub idle: usize,
    /// There may be so many more.
    pub unopened: usize,
}

impl Connections {
    pub(in crate::store) fn reading(&self) -> PoolReading {
        let most = self.shared.most as usize;
        let in_use = most.saturating_sub(self.shared.permits.available_permits());
        let idle = self.idle().len().min(most - in_use);
        PoolReading {
            in_use,
            idle,
            unopened: most - in_use - idle,
        }
    }

    /// Whether these are the same connections by another door.
    pub(in crate::store) fn are(&self, others: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &others.shared)
    }
}
