//! The processes that serve one database. Each start is a node of its own, with a lease in the database's time; what a node owns
//! is its own as long as its row is in the table, and who ends it takes the row away first. The database is the only medium
//! between nodes.
//!
//! [`lease`] is the arithmetic, `table` the SQL, [`Membership`] which node this process is at present, `keeper` renews its lease,
//! [`Terms`] are what it reads with each renewal, [`notices`], which `exchange` carries, save polling of the tables, `process`
//! tells processes of one machine apart.

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
    membership::{Identity, Membership},
    table::{Entered, Load, all, end, is_gone, time_of},
    terms::Terms,
};

impl Entered {
    /// Whether it is known to be gone, whatever its lease says: a process of this machine that does not run any more.
    pub fn is_gone(&self) -> bool {
        process::is_gone(&self.process)
    }
}
