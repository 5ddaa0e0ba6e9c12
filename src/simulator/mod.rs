//! A telephony bridge that places calls over a real WebSocket and measures acknowledgements. `dikala simulate` and
//! `dikala dev` use it.
//!
//! `call` is one call, `engine` all calls; both are pure. [`SimulatedBridge`] connects them to the service and reconnects
//! after a loss. The exchange of `dikala_protocol` then resends unacknowledged messages, so that a restart of the service
//! loses no call.

mod address;
mod arguments;
mod bridge;
mod call;
mod connection;
mod engine;
pub mod figures;
mod scenario;
mod tally;
mod transcripts;

pub use self::{
    address::{ServiceUrl, UrlScheme},
    bridge::SimulatedBridge,
    connection::{BridgeUrl, Peer},
    figures::DecimalArgument,
    scenario::CallScenario,
    tally::{Summary, Totals},
};

#[cfg(test)]
mod tests;
