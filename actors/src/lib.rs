//! Everything in Dikala that happens on its own time.
//!
//! Architecture invariant: nothing here imports actix-web, and nothing here knows the REST API or the bridge's wire format.

pub mod batches;
pub mod bridges;
pub mod call;
mod circuit;
pub mod clock;
pub mod feed;
pub mod functions;
pub mod gather;
pub mod journal;
pub mod ledger;
pub mod meter;
pub mod nesting;
pub mod outbound;
pub mod outbox;
pub mod registry;
pub mod shares;
#[cfg(test)]
pub(crate) mod testing;
pub mod turns;
pub mod webhooks;
