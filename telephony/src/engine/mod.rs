//! The client of `dikala.bridge.v1`: a WebSocket to the service that outlives the service's restarts.
//!
//! [`messages`] is the protocol, [`exchange`] decides which message is sent when and which call a reply is for (pure), [`client`]
//! carries that out.

mod client;
mod exchange;
mod messages;

pub use client::{Address, CallChannel, ServiceClient};
pub use messages::{
    DeclinedMessage, InvocationOutcome, OutgoingMessage, ServiceCommand, ServiceEvent,
    ServiceReply, SpokenTurn,
};
