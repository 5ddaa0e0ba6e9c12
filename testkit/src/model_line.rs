//! Connections of simulated models without sockets, for simulated time.

use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_tungstenite::tungstenite::Message;

/// A connection without a socket. Dropping it closes it.
pub trait ModelLine {
    /// Takes a message. `now` counts from the beginning of the connection.
    fn take(&mut self, message: Value, now: Duration);
    /// The messages of the model since the last call.
    fn sent(&mut self) -> Vec<Vec<u8>>;
    /// The model has closed it.
    fn is_closed(&self) -> bool;
}

pub(crate) fn drained(outgoing: &mut UnboundedReceiver<Message>) -> Vec<Vec<u8>> {
    let mut sent = Vec::new();
    while let Ok(message) = outgoing.try_recv() {
        sent.push(message.into_data().to_vec());
    }
    sent
}
