//! The bridge protocol `dikala.bridge.v1`.
//!
//! [`message`] is what a bridge sends, and [`read`] how the service reads it. [`reply`] and [`command`] are what the service
//! sends. [`client`] is a client for bridges. Names of messages, fields and error codes stand here only; `docs/bridges.md` describes them.
//!
//! Architecture invariant: only typed values are known here, no store, no actor and no HTTP.

#![warn(unreachable_pub)]

pub mod agent;
pub mod client;
pub mod command;
pub mod message;
pub mod read;
pub mod reply;

pub use self::{
    agent::{CallAgent, FunctionDeclaration},
    command::{Command, CommandKind},
    message::{
        BridgeMessage, CallMessage, CallReport, CalledParty, FunctionInvocation, Heartbeat,
        IncomingCall, MessageContent, MessageType, NumberedTurn, SpokenTurn, VoiceReport,
    },
    reply::{CalleeNames, ErrorCode, InvocationOutcome, ReplyError},
};

/// The WebSocket subprotocol.
pub const SUBPROTOCOL: &str = "dikala.bridge.v1";
/// The path of the WebSocket.
pub const CONNECT_PATH: &str = "/bridge/v1/connect";
/// The largest message, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 256 * 1024;
/// The most messages in one HTTP request.
pub const MESSAGES_MAX: usize = 100;
