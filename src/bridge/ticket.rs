//! What is kept of a message until it is answered.

use std::time::Instant;

use dikala_actors::bridges::Bridges;

use super::protocol::{Refusal, Request};

/// What is not understood has no type of its own.
const INVALID: &str = "invalid";

/// One for each message, from reading it until its answer is written.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    /// Where its answer stands among those of one request.
    pub place: usize,
    kind: &'static str,
    read_at: Instant,
}

impl Ticket {
    /// For a message that was just read.
    pub fn new(place: usize, message: &Result<Request, Refusal>) -> Self {
        let kind = message
            .as_ref()
            .map_or(INVALID, |request| request.body.name());
        Self {
            place,
            kind,
            read_at: Instant::now(),
        }
    }

    /// When it was read.
    pub fn read_at(&self) -> Instant {
        self.read_at
    }

    /// Its answer is written.
    pub fn answered(self, bridges: &Bridges) {
        bridges.acknowledged(self.kind, self.read_at);
    }
}
