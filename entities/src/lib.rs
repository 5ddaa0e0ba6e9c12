//! What Dikala stores, and the typed values that every other crate speaks.
//!
//! - [`values`]: ids, phone numbers, statuses, secrets … each parsed once, private inside, correct from then on.
//! - [`tables`]: one file per table; every read on behalf of a tenant starts with the tenant.
//! - [`batch`]: many rows in one statement.
//! - [`store`]: the connections, and how a write transaction begins on each database.
//! - [`vault`]: secrets at rest.
//!
//! Architecture invariant: nothing here knows an actor, HTTP or the clock.

pub mod batch;
pub mod store;
pub mod tables;
pub mod values;
pub mod vault;

pub use store::{Store, StoreError};
pub use tables::*;
pub use values::*;
pub use vault::{Place, Vault};
