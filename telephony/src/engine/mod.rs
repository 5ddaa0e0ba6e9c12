//! The client of `dikala.bridge.v1`: a WebSocket to the service that outlives the service's restarts.
//!
//! [`messages`] is the protocol, [`book`] decides which message is sent when and which call a reply is for (pure), [`client`]
//! carries that out.

mod book;
mod client;
mod messages;

pub use client::{Address, Client, Line};
pub use messages::{Command, Message, Outcome, Reply, Told, Turn, Wanted};
