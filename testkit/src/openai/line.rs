//! A connection without a socket: messages are carried by whoever holds it.

use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;

use super::{MODEL, RealtimeBegin, RealtimeConnection, Shared, connection::RealtimeSession};
use crate::{
    model_line::{ModelLine, drained},
    model_socket::{End, ModelOutput},
};

/// A connection of the simulated OpenAI without a socket. Its session is created.
#[derive(Debug)]
pub struct RealtimeLine {
    shared: Shared,
    number: usize,
    outgoing: mpsc::UnboundedReceiver<Message>,
    session: RealtimeSession,
    is_closed: bool,
}

impl RealtimeLine {
    pub(super) fn open(shared: &Shared) -> Self {
        let (number, unsent) = {
            let mut state = shared.lock().unwrap();
            let connection = RealtimeConnection::default();
            let unsent = connection.unsent.clone();
            state.connections.push(connection);
            (state.connections.len() - 1, unsent)
        };
        let (output, outgoing) = ModelOutput::new(unsent);
        let begin = RealtimeBegin::Normally;
        let mut session = RealtimeSession::new(output, number, begin, shared.clone());
        let is_closed = session.created(MODEL).is_err();
        Self {
            shared: shared.clone(),
            number,
            outgoing,
            session,
            is_closed,
        }
    }
}

impl ModelLine for RealtimeLine {
    fn take(&mut self, message: Value, _: Duration) {
        if self.is_closed {
            return;
        }
        if let Err(end) = self.session.take(message) {
            self.is_closed = true;
            if let End::Broken((_, reason)) = end {
                let mut state = self.shared.lock().unwrap();
                state.connections[self.number].broken.push(reason);
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

impl Drop for RealtimeLine {
    fn drop(&mut self) {
        let mut state = self.shared.lock().unwrap();
        state.connections[self.number].over = Some(Instant::now());
    }
}
