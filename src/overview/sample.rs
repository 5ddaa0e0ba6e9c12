//! The counters at one moment: plain integers, read without waiting for anything.

use dikala_actors::{runtime::metrics::meters, webhooks::stats::QueueState};
use dikala_entities::Millis;

use super::{OverviewSources, counters::FigureCounters};

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
    pub counters: FigureCounters,
    /// Attempts that failed through a fault of the service.
    pub own_faults: u64,
    /// Endpoints whose secret cannot be opened.
    pub sealed: i64,
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

/// Polled by machines; 503 is a regular answer.
const READINESS: &str = "/health/ready";

impl OverviewSample {
    /// Reads the counters.
    pub fn of(parts: &OverviewSources) -> Self {
        let node = &parts.node;
        let counters = FigureCounters::of(parts);
        let now = counters.at;
        let webhooks = node.webhooks.stats();
        let (requests, failed_requests) = requests(parts);
        let sealed = QueueState::ALL
            .iter()
            .position(|state| *state == QueueState::Sealed);
        Self {
            at: now,
            counters,
            own_faults: webhooks.own_faults,
            sealed: sealed.map_or(0, |state| webhooks.queues[state]),
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
    use crate::overview::counters::tests::counters;

    /// A sample at `ms`, with nothing counted.
    pub fn sample(ms: i64) -> OverviewSample {
        OverviewSample {
            at: Millis::from_i64(1_800_000_000_000 + ms),
            counters: counters(ms),
            own_faults: 0,
            sealed: 0,
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
