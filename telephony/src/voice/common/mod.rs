//! The common part of voices that are a model of others.
//!
//! Such a voice is a pure machine of its own ([`VoiceMachine`]) in the [`shell`], with a [`Transport`] to the model, such as the
//! sockets of [`socket`]. The other modules are
//! the parts of a machine that do not depend on the model: what outlives a connection, what limits a model, and the [`words`] for
//! it.

mod backoff;
mod bill;
mod conversation;
mod exchange;
mod held_audio;
mod messages;
mod model_error;
mod own_turns;
mod playback;
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
    exchange::{CloseReason, SessionEffect, SessionInput, SocketMachine, VoiceMachine},
    held_audio::{HeldAudio, steps},
    messages::{null_is_empty, read_message},
    model_error::{ModelError, is_fatal},
    own_turns::{INTERRUPTS_AFTER, NEAR_END, OwnTurns, PAUSE_OF_TURN},
    playback::{CutItem, Playback},
    shell::{Transport, open},
    socket::{ModelEndpoint, Sockets, broken, closed, connect, shown},
    speech::{SpeechDecoder, tell_audio},
    summary::SummaryRequest,
    tool_calls::{AnswerTarget, RequestedCall, ToolAnswer, ToolCalls, ToolRequestFault},
};
