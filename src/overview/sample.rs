//! The counters at one moment: plain integers, read without waiting for anything.

use dikala_actors::{
    runtime::{histogram::Distribution, metrics::meters},
    webhooks::stats::QueueState,
};
use dikala_entities::{CallStatus, HangupReason, Millis};
use dikala_protocol::MessageType;

use super::OverviewSources;

/// Counters of an actor type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActorSample {
    pub name: &'static str,
    /// Messages in its mailboxes.
    pub waiting: i64,
    /// Capacity of one instance's mailbox.
    pub capacity: i64,
    pub handled: u64,
    pub lost: u64,
    /// Milliseconds since the last panic.
    pub panicked_ms: Option<i64>,
}

/// All counters at one moment. Totals count from the process's start.
#[derive(Clone, Debug)]
pub struct OverviewSample {
    pub at: Millis,
    /// Running calls.
    pub calls: i64,
    /// Ended calls, and those of them with a conversation.
    pub over: u64,
    pub talked: u64,
    /// Times from a bridge's message about a call to the answer.
    pub acknowledged: Distribution,
    pub delivered: u64,
    /// Attempts that failed through a fault of the service.
    pub own_faults: u64,
    /// Milliseconds since the oldest due delivery became due.
    pub due_ms: i64,
    /// Endpoints whose secret cannot be opened.
    pub sealed: i64,
    pub batches: u64,
    pub items: u64,
    pub committed: Distribution,
    pub requests: u64,
    /// Requests answered with 5xx, except readiness checks.
    pub failed_requests: u64,
    pub differences: usize,
    /// Milliseconds by which the machine's clock is ahead of the service's.
    pub clock_off_ms: i64,
    /// The same for the database's clock.
    pub database_off_ms: i64,
    /// Connected sockets of bridges.
    pub sockets: usize,
    /// Milliseconds since the last sign of life of any bridge.
    pub bridge_seen_ms: Option<i64>,
    /// Lag per event loop, in milliseconds.
    pub loops: Vec<(String, i64)>,
    pub actors: Vec<ActorSample>,
}

/// Prefix of bridge messages during which a caller waits in silence, and the one for whose reply nobody waits.
const ABOUT_CALLS: &str = "call.";
const TURN: &str = MessageType::Turn.as_str();
/// Polled by machines; 503 is a regular answer.
const READINESS: &str = "/health/ready";

impl OverviewSample {
    /// Reads the counters.
    pub fn of(parts: &OverviewSources) -> Self {
        let node = &parts.node;
        let now = node.clock.now();
        let calls = node.calls.meter();
        let over = calls.over();
        let webhooks = node.webhooks.stats();
        let ledger = node.ledger.stats();
        let (requests, failed_requests) = requests(parts);
        let sealed = QueueState::ALL
            .iter()
            .position(|state| *state == QueueState::Sealed);
        Self {
            at: now,
            calls: calls.active().iter().map(|(_, count)| count).sum(),
            over: over.iter().map(|(.., count)| count).sum(),
            talked: over
                .iter()
                .filter(|(status, reason, _)| {
                    *status != CallStatus::Failed && *reason != HangupReason::Abandoned
                })
                .map(|(.., count)| count)
                .sum(),
            acknowledged: acknowledged(parts),
            delivered: webhooks.succeeded,
            own_faults: webhooks.own_faults,
            due_ms: webhooks
                .due_since
                .map_or(0, |since| now.since(since).max(0)),
            sealed: sealed.map_or(0, |state| webhooks.queues[state]),
            batches: ledger.commit.count(),
            items: ledger.items.sum,
            committed: ledger.commit,
            requests,
            failed_requests,
            differences: node.ledger.differences(),
            clock_off_ms: node.clock.stepped_ms(),
            database_off_ms: node.member.ahead_ms().saturating_neg(),
            sockets: node.bridges.sockets(),
            bridge_seen_ms: node.bridges.newest_sign().map(|at| now.since(at)),
            loops: loops(parts),
            actors: actors(),
        }
    }
}

fn acknowledged(parts: &OverviewSources) -> Distribution {
    let all = parts.node.bridges.acknowledgements().into_iter();
    all.filter(|(kind, _)| kind.starts_with(ABOUT_CALLS) && *kind != TURN)
        .map(|(_, times)| times)
        .reduce(|one, other| one.plus(&other))
        .unwrap_or_else(Distribution::of_answers)
}

fn requests(parts: &OverviewSources) -> (u64, u64) {
    let reading = parts.http.reading();
    let counted = reading.iter().filter(|of| of.route != READINESS);
    let each = counted.flat_map(|of| &of.statuses);
    each.fold((0, 0), |(all, failed), (status, count)| {
        let is_fault = *status >= 500;
        (all + count, failed + if is_fault { *count } else { 0 })
    })
}

fn loops(parts: &OverviewSources) -> Vec<(String, i64)> {
    let lags = parts.loops.lags().into_iter();
    lags.map(|(name, lag)| (name, i64::try_from(lag.as_millis()).unwrap_or(i64::MAX)))
        .collect()
}

fn actors() -> Vec<ActorSample> {
    let meters = meters().into_iter();
    meters
        .map(|meter| {
            let readings = meter.readings();
            ActorSample {
                name: meter.name(),
                waiting: readings.iter().map(|of| of.depth).sum(),
                capacity: meter.capacity(),
                handled: readings
                    .iter()
                    .filter(|of| !of.is_look)
                    .map(|of| of.handling.count())
                    .sum(),
                lost: readings.iter().map(|of| of.lost).sum(),
                panicked_ms: meter
                    .last_panic()
                    .map(|at| i64::try_from(at.elapsed().as_millis()).unwrap_or(i64::MAX)),
            }
        })
        .collect()
}

#[cfg(test)]
pub mod tests {
    //! A sample for tests.

    use super::*;

    /// A sample at `ms`, with nothing counted.
    pub fn sample(ms: i64) -> OverviewSample {
        OverviewSample {
            at: Millis::from_i64(1_800_000_000_000 + ms),
            calls: 0,
            over: 0,
            talked: 0,
            acknowledged: Distribution::of_answers(),
            delivered: 0,
            own_faults: 0,
            due_ms: 0,
            sealed: 0,
            batches: 0,
            items: 0,
            committed: Distribution::of_answers(),
            requests: 0,
            failed_requests: 0,
            differences: 0,
            clock_off_ms: 0,
            database_off_ms: 0,
            sockets: 0,
            bridge_seen_ms: None,
            loops: Vec::new(),
            actors: Vec::new(),
        }
    }
}
