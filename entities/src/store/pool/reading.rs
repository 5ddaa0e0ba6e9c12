//! Readings of pools.

use std::sync::Arc;

use super::Connections;

/// The number of a pool's connections by state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolReading {
    /// In use or being made.
    pub in_use: usize,
    /// Open and unused.
    pub idle: usize,
    /// May still be opened.
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

    /// True if both are handles on the same pool.
    pub(in crate::store) fn are(&self, others: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &others.shared)
    }
}
