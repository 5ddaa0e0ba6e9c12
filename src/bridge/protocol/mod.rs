//! The wire format of `dikala.bridge.v1`: JSON text to typed requests, outcomes to JSON. Pure.

mod fields;
mod parse;
mod refusal;
mod reply;
mod request;
#[cfg(test)]
mod tests;

pub use self::{
    parse::{parse, parse_text},
    refusal::MessageRefusal,
    reply::{Success, command, reply},
    request::{BridgeMessage, FunctionInvocation, MessageContent, QueueKey},
};

/// The WebSocket subprotocol.
pub const SUBPROTOCOL: &str = "dikala.bridge.v1";
/// The largest message, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 256 * 1024;
/// The most messages in one HTTP request.
pub const MESSAGES_MAX: usize = 100;
