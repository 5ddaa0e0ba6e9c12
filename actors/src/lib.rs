//! The actors: everything in Dikala that runs on its own time.
//!
//! Architecture invariant: nothing here imports actix-web, and nothing here parses requests or bridge messages.

#![warn(unreachable_pub)]

pub mod bridges;
pub mod calls;
pub mod commit;
pub mod events;
pub mod functions;
pub mod ledger;
pub mod mails;
pub mod nodes;
pub mod outbound;
pub mod runtime;
#[cfg(test)]
mod simulation;
pub mod traces;
pub mod webhooks;
