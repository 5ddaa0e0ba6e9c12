//! A telephony bridge over a real WebSocket that places calls and measures acknowledgements.
//!
//! `call` is one call, `engine` all of them; both are pure. [`Bridge`] connects them to the service, again after every loss:
//! what was not acknowledged is sent again, so that a restart of the service loses no call. `dikala simulate` and `dikala dev`
//! place their calls with it.

mod address;
mod arguments;
mod bridge;
mod call;
mod connection;
mod engine;
pub mod figures;
mod messages;
mod scenario;
mod tally;

pub use self::{
    address::{ServiceUrl, Transport},
    bridge::Bridge,
    connection::{BridgeUrl, Peer},
    figures::Thousandths,
    scenario::Scenario,
    tally::{Summary, Totals},
};

#[cfg(test)]
mod tests;
