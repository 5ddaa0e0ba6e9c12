//! Counts the outcomes of a bridge's messages.

use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use super::reply::BenchReply;
use crate::cli::bench::figure::Durations;

/// Delay before a message that was answered `busy` is sent again.
pub const REST: Duration = Duration::from_millis(20);

/// Number of failures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FailureCounts {
    /// Refused messages and calls that were not answered.
    pub refused: u64,
    /// Messages without a reply and webhooks that never arrived.
    pub missing: u64,
    /// Messages that were answered `busy` and sent again. They are shown, but are no failure.
    pub busy: u64,
    /// Text of the first refusal.
    pub first: Option<String>,
}

impl FailureCounts {
    pub fn add(&mut self, others: &Self) {
        self.refused += others.refused;
        self.missing += others.missing;
        self.busy += others.busy;
        if self.first.is_none() {
            self.first.clone_from(&others.first);
        }
    }

    /// True if nothing was refused or lost.
    pub fn none(&self) -> bool {
        self.refused == 0 && self.missing == 0
    }

    pub fn refuse(&mut self, text: &[u8]) {
        self.refused += 1;
        self.first
            .get_or_insert_with(|| String::from_utf8_lossy(text).chars().take(300).collect());
    }
}

/// Outcomes of the messages of some sockets.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Latencies from a message to its acknowledgement, retries included.
    pub times: Durations,
    /// Calls whose every message was acknowledged.
    pub calls: u64,
    pub faults: FailureCounts,
    /// Time of the last acknowledgement.
    pub last: Option<Instant>,
}

/// The script's next action after a reply.
#[derive(Debug, PartialEq, Eq)]
pub enum AfterReply {
    Done,
    Again,
    Refused,
}

impl Tally {
    /// Counts a reply to a message that was due at `sent`.
    pub fn count(
        &mut self,
        reply: &BenchReply<'_>,
        is_ring: bool,
        sent: Instant,
        now: Instant,
    ) -> AfterReply {
        if reply.is_busy {
            self.faults.busy += 1;
            return AfterReply::Again;
        }
        if !reply.ok || (is_ring && !reply.is_taken()) {
            self.faults.refuse(reply.text);
            return AfterReply::Refused;
        }
        self.times.record(now - sent);
        self.last = Some(now);
        AfterReply::Done
    }

    pub fn add(&mut self, others: &Self) {
        self.times.add(&others.times);
        self.calls += others.calls;
        self.faults.add(&others.faults);
        self.last = self.last.max(others.last);
    }
}
