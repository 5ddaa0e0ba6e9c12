//! The bookkeeping of a message until it is answered.

use std::time::Instant;

use dikala_actors::bridges::Bridges;
use dikala_protocol::BridgeMessage;

use super::protocol::MessageRefusal;

/// The metrics' type of a message that cannot be parsed.
const INVALID: &str = "invalid";

/// One per message, from reading it until its reply is written.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    /// The position of its reply in the answer to an HTTP request.
    pub place: usize,
    kind: &'static str,
    read_at: Instant,
}

impl Ticket {
    /// A ticket for a message that was just read.
    pub fn new(place: usize, message: &Result<BridgeMessage, MessageRefusal>) -> Self {
        let kind = message
            .as_ref()
            .map_or(INVALID, |message| message.content.kind().as_str());
        Self {
            place,
            kind,
            read_at: Instant::now(),
        }
    }

    pub fn read_at(&self) -> Instant {
        self.read_at
    }

    /// Records that the reply was written.
    pub fn answered(self, bridges: &Bridges) {
        bridges.acknowledged(self.kind, self.read_at);
    }
}
