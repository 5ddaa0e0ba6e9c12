//! The common part of voices that are a model behind a WebSocket.
//!
//! Such a voice is a pure machine of its own ([`VoiceMachine`]) in the [`shell`], with sockets ([`socket`]). The other modules are
//! the parts of a machine that do not depend on the model: what outlives a connection, what limits a model, and the [`words`] for
//! it.

mod backoff;
mod bill;
mod conversation;
mod exchange;
mod held_audio;
mod messages;
mod shell;
#[cfg(test)]
pub(super) mod simulated;
mod socket;
mod speech;
mod summary;
#[cfg(test)]
pub(super) mod tests;
mod tool_calls;
pub(super) mod words;

pub(super) use self::{
    backoff::{ATTEMPT, AWAY, FAILURES, Failures, STABLE, UNNOTICED},
    bill::{Bill, BillDecision},
    conversation::{ConversationRecord, Role},
    exchange::{CloseReason, SessionEffect, SessionInput, VoiceMachine},
    held_audio::{HeldAudio, steps},
    messages::{null_is_empty, read_message},
    shell::open,
    socket::{ModelEndpoint, broken, closed, connect},
    speech::{SpeechDecoder, tell_audio},
    summary::SummaryRequest,
    tool_calls::{AnswerTarget, RequestedCall, ToolAnswer, ToolCalls, ToolRequestFault},
};
