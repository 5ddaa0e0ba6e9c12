//! The client of `dikala.bridge.v1`: a WebSocket to the engine that outlives the engine's restarts.
//!
//! [`messages`] is what is said, [`book`] decides what is sent when and whom an answer is for (pure), [`client`] carries that out.

mod book;
mod client;
mod messages;

pub use client::{Address, Client, Line};
pub use messages::{Command, Message, Outcome, Reply, Told, Turn, Wanted};
