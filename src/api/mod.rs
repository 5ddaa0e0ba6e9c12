//! The tenants' API, one file per resource. A handler parses, makes one call and converts; it decides nothing about
//! calls or deliveries.

pub mod call_stats;
pub mod context;
pub mod control;
pub mod deliveries;
pub mod events;
pub mod function_stats;
pub mod functions;
pub mod listing;
pub mod lists;
pub mod parameters;
pub mod webhook_stats;

mod latency;
mod unit;
mod zone;

#[cfg(test)]
mod tests;

pub use unit::TenantWrite;
