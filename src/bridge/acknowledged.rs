//! How long bridges wait for the answers to their messages: from reading a message until its answer is written.

use std::{sync::Arc, time::Instant};

use dikala_actors::runtime::histogram::{ANSWER_US, Distribution, Histogram};

use super::protocol::{Refusal, Request, TYPES};

/// What is not understood has no type of its own.
const INVALID: &str = "invalid";

/// Times by type of message; all clones share them.
#[derive(Clone, Debug)]
pub struct AckMeter(Arc<[(&'static str, Histogram)]>);

/// What is kept of a message until it is answered.
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
}

impl Default for AckMeter {
    fn default() -> Self {
        let kinds = TYPES.iter().copied().chain([INVALID]);
        Self(
            kinds
                .map(|kind| (kind, Histogram::new(ANSWER_US)))
                .collect(),
        )
    }
}

impl AckMeter {
    /// The answer to a message is written.
    pub fn written(&self, ticket: Ticket) {
        if let Some((_, times)) = self.0.iter().find(|(kind, _)| *kind == ticket.kind) {
            times.observe_since(ticket.read_at);
        }
    }

    /// The times now, in microseconds, by type of message.
    pub fn reading(&self) -> Vec<(&'static str, Distribution)> {
        let times = self.0.iter();
        times
            .map(|(kind, times)| (*kind, times.reading()))
            .collect()
    }
}
