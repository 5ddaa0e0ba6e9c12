//! The data that Dikala stores, and the typed values that all other crates use.
//!
//! - [`values`]: ids, phone numbers, statuses, secrets … each parsed once, private inside, correct from then on.
//! - [`tables`]: one file per table; every read on behalf of a tenant starts with the tenant ([`OfTenant`]).
//! - [`batch`]: many rows in one statement; [`rows`]: rows as one JSON parameter.
//! - [`store`]: the connections, and how a write transaction begins on each database.
//! - [`foreign_json`]: reads JSON from outside.
//! - [`nesting`]: the limit of nesting in JSON from outside.
//! - [`vault`]: secrets at rest.
//!
//! Architecture invariant: nothing here knows an actor, HTTP or the clock.

#![warn(unreachable_pub)]

pub mod batch;
pub mod foreign_json;
pub mod nesting;
pub mod rows;
pub mod store;
pub mod tables;
pub mod values;
pub mod vault;

pub use store::{Store, StoreError};
pub use tables::*;
pub use values::*;
pub use vault::{SecretPlace, Vault};
