//! A client of `dikala.bridge.v1`: a WebSocket to the service that outlives the service's restarts.
//!
//! [`exchange`] decides which message is sent when, and which call a reply is for (pure). [`events`] is what a call learns from
//! that. [`shell`] carries it out over a [`socket`].

pub mod events;
pub mod exchange;
mod posted;
pub mod shell;
pub mod socket;

pub use self::{
    events::{MessageRef, ReplyDelay, ServiceEvent, ServiceReply},
    exchange::MessageExchange,
    posted::OpenedCall,
    shell::{Address, CallChannel, ServiceClient, WallClock},
};
