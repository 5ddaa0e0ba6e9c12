//! A connection without a socket: the time is told, and messages are carried by whoever holds it.

use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;

use super::{
    Shared,
    connection::{ModelSession, begin_session, check_setup, over},
};
use crate::{
    model_line::{ModelLine, drained},
    model_socket::{End, ModelOutput},
};

/// A connection of the simulated Gemini without a socket.
#[derive(Debug)]
pub struct GeminiLine {
    shared: Shared,
    number: usize,
    output: ModelOutput,
    outgoing: mpsc::UnboundedReceiver<Message>,
    /// `None` before the setup.
    session: Option<ModelSession>,
    is_closed: bool,
}

impl GeminiLine {
    pub(super) fn open(shared: &Shared) -> Self {
        let mut state = shared.lock().unwrap();
        let number = state.opened();
        let (output, outgoing) = ModelOutput::new(state.connections[number].unsent.clone());
        Self {
            shared: shared.clone(),
            number,
            output,
            outgoing,
            session: None,
            is_closed: false,
        }
    }

    fn set_up(&mut self, message: &Value) -> Result<(), End> {
        let rules = check_setup(message, self.number, &self.shared)?;
        let rules = begin_session(message, self.number, &self.shared, rules, &self.output)?;
        let (output, shared) = (self.output.clone(), self.shared.clone());
        let session = ModelSession::new(output, self.number, shared, rules);
        self.session.insert(session).give_handle()
    }
}

impl ModelLine for GeminiLine {
    fn take(&mut self, message: Value, now: Duration) {
        let done = match &mut self.session {
            _ if self.is_closed => return,
            Some(session) => {
                session.now = now;
                session.take(message)
            }
            None => self.set_up(&message),
        };
        if let Err(end) = done {
            self.is_closed = true;
            if let End::Broken((_, reason)) = end {
                self.shared.lock().unwrap().connections[self.number].broken = Some(reason);
            }
        }
    }

    fn sent(&mut self) -> Vec<Vec<u8>> {
        drained(&mut self.outgoing)
    }

    fn is_closed(&self) -> bool {
        self.is_closed
    }
}

impl Drop for GeminiLine {
    fn drop(&mut self) {
        over(self.number, &self.shared);
    }
}
