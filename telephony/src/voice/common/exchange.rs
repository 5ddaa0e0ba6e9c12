//! The inputs and effects of a machine.

use std::time::Duration;

use serde::Serialize;

use crate::voice::{VoiceEvent, VoiceInput};

/// The decisions of a session with a model: an input and the time give effects. Pure: no sockets, no waiting.
pub(in crate::voice) trait VoiceMachine: Send + 'static {
    /// A message of the model.
    type Received: Send + 'static;
    /// A message to the model.
    type Sent: Send + 'static;
    /// The agent's text is told beside its speech, word by word, so that an interruption voids both.
    const TELLS_WORDS_WITH_SPEECH: bool = false;

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

/// A machine whose model is behind a WebSocket, with messages in JSON.
pub(in crate::voice) trait SocketMachine: VoiceMachine<Sent: Serialize> {
    /// Parses a message; `None` if it is unreadable.
    fn read(bytes: &[u8]) -> Option<Self::Received>;
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
    /// The call has taken all that it was told. Until then nothing of the model is read.
    Drained,
    /// The time that [`VoiceMachine::due`] gave has come.
    Time,
}

/// Why a connection ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::voice) struct CloseReason {
    /// The service rejects what it was sent, and would reject it again.
    pub refused: bool,
    /// It will reject every session: the key, or the address, is wrong.
    pub is_final: bool,
    /// The service asks to be left alone for this long.
    pub retry_after: Option<Duration>,
    /// For operators, without secrets.
    pub words: String,
}

impl CloseReason {
    /// The connection is gone; the next one may be better.
    pub(in crate::voice) fn gone(words: &str) -> Self {
        Self {
            words: words.to_owned(),
            ..Self::default()
        }
    }
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
