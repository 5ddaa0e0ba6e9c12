//! The processes that serve one database. Each start is a node of its own, with a lease in the database's time. A
//! node owns its work as long as its row is in the table; ending a node removes the row first. The database is the
//! only medium between nodes.
//!
//! [`lease`] is the arithmetic, `table` the SQL, [`Membership`] the node that this process is. `keeper` renews its
//! lease, and [`ServingTerms`] are read with each renewal. [`notices`], carried by `exchange`, reduce polling of the tables.
//! `process` tells processes of one machine apart.

mod exchange;
mod keeper;
pub mod lease;
mod membership;
pub mod notices;
mod process;
#[cfg(test)]
pub(crate) mod simulated;
pub(crate) mod table;
mod terms;

pub use self::{
    exchange::exchange,
    keeper::keep,
    membership::{Membership, NodeIdentity},
    table::{NodeLoad, NodeRow, all, end, is_gone, time_of},
    terms::ServingTerms,
};

impl NodeRow {
    /// True if the node is known to be gone, whatever its lease says: its process ran on this machine and has ended.
    pub fn is_gone(&self) -> bool {
        process::is_gone(&self.process)
    }
}
