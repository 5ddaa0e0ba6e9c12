//! The tenants' API beside its [operations](crate::operations): complete lists, deliveries, statistics, and the stream of events.

pub mod call_stats;
pub mod chats;
pub mod context;
pub mod deliveries;
pub mod events;
pub mod function_stats;
pub mod listing;
pub mod lists;
pub mod webhook_stats;

mod latency;
mod zone;

#[cfg(test)]
mod tests;
