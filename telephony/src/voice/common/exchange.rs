//! The inputs and effects of a machine.

use std::time::Duration;

use serde::Serialize;

use crate::voice::{VoiceEvent, VoiceInput};

/// The decisions of a session with a model: an input and the time give effects. Pure: no sockets, no waiting.
pub(in crate::voice) trait VoiceMachine: Send + 'static {
    /// A message of the model.
    type Received: Send + 'static;
    /// A message to the model, sent as JSON.
    type Sent: Serialize;

    /// Parses a message; `None` if it is unreadable.
    fn read(bytes: &[u8]) -> Option<Self::Received>;
    /// Handles an input. `now` counts from the beginning of the session.
    fn step(
        &mut self,
        input: SessionInput<Self::Received>,
        now: Duration,
    ) -> Vec<SessionEffect<Self::Sent>>;
    /// When [`SessionInput::Time`] is due.
    fn due(&self) -> Option<Duration>;
    /// The voice has ended.
    fn is_over(&self) -> bool;
}

#[derive(Debug, Clone)]
pub(in crate::voice) enum SessionInput<M> {
    /// The socket was opened.
    Opened {
        connection: u32,
    },
    Message {
        connection: u32,
        message: Box<M>,
    },
    /// An unreadable message.
    Rubbish {
        connection: u32,
    },
    Closed {
        connection: u32,
        why: CloseReason,
    },
    Spoken(VoiceInput),
    /// The time that [`VoiceMachine::due`] gave has come.
    Time,
}

/// Why a connection ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::voice) struct CloseReason {
    /// The service rejects what it was sent, and would reject it again.
    pub refused: bool,
    /// It will reject every session: the key, or the address, is wrong.
    pub is_final: bool,
    /// For operators, without secrets.
    pub words: String,
}

#[derive(Debug, PartialEq)]
pub(in crate::voice) enum SessionEffect<S> {
    Open {
        connection: u32,
    },
    Send {
        connection: u32,
        message: S,
    },
    Close {
        connection: u32,
    },
    Tell(VoiceEvent),
    /// A warning for operators about this call.
    Warn(&'static str),
}
