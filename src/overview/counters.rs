//! The counters behind the ten figures. They are read every second for as long as the process runs, so reading them
//! waits for nothing and costs microseconds.

use dikala_actors::runtime::histogram::Distribution;
use dikala_entities::{CallStatus, HangupReason, Millis};
use dikala_protocol::MessageType;

use super::OverviewSources;

/// Time over which rates and percentiles are measured, in milliseconds.
pub const WINDOW_MS: i64 = 10_000;

/// The counters at one moment. Totals count from the process's start.
#[derive(Clone, Debug)]
pub struct FigureCounters {
    pub at: Millis,
    /// Running calls.
    pub calls: i64,
    /// Ended calls, and those of them with a conversation.
    pub over: u64,
    pub talked: u64,
    /// Times from a bridge's message about a call to the answer.
    pub acknowledged: Distribution,
    pub delivered: u64,
    /// Milliseconds since the oldest due delivery became due.
    pub due_ms: i64,
    pub batches: u64,
    pub items: u64,
    pub committed: Distribution,
}

/// Prefix of bridge messages during which a caller waits in silence, and the one for whose reply nobody waits.
const ABOUT_CALLS: &str = "call.";
const TURN: &str = MessageType::Turn.as_str();

impl FigureCounters {
    /// Reads the counters.
    pub fn of(parts: &OverviewSources) -> Self {
        let node = &parts.node;
        let now = node.clock.now();
        let calls = node.calls.meter();
        let over = calls.over();
        let webhooks = node.webhooks.stats();
        let ledger = node.ledger.stats();
        let talked = over.iter().filter(|(status, reason, _)| {
            *status != CallStatus::Failed && *reason != HangupReason::Abandoned
        });
        Self {
            at: now,
            calls: calls.active().iter().map(|(_, count)| count).sum(),
            talked: talked.map(|(.., count)| count).sum(),
            over: over.iter().map(|(.., count)| count).sum(),
            acknowledged: acknowledged(parts),
            delivered: webhooks.succeeded,
            due_ms: webhooks
                .due_since
                .map_or(0, |since| now.since(since).max(0)),
            batches: ledger.commit.count(),
            items: ledger.items.sum,
            committed: ledger.commit,
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

/// Two readings and the time between them.
#[derive(Clone, Copy, Debug)]
pub struct CounterWindow<'a> {
    pub before: &'a FigureCounters,
    pub after: &'a FigureCounters,
}

impl CounterWindow<'_> {
    /// The increase of a counter.
    pub fn grew(self, count: impl Fn(&FigureCounters) -> u64) -> i64 {
        let grew = count(self.after).saturating_sub(count(self.before));
        i64::try_from(grew).unwrap_or(i64::MAX)
    }

    /// The increase per second, in thousandths.
    pub fn per_second(self, count: impl Fn(&FigureCounters) -> u64) -> i64 {
        let ms = self.after.at.since(self.before.at).max(1);
        self.grew(count).saturating_mul(1_000_000) / ms
    }

    /// A percentile of the values within the window, in microseconds.
    pub fn percentile(self, percent: u64, of: fn(&FigureCounters) -> &Distribution) -> Option<i64> {
        let within = of(self.after).minus(of(self.before));
        i64::try_from(within.percentile(percent)?).ok()
    }
}

#[cfg(test)]
pub mod tests {
    //! Counters for tests.

    use super::*;

    /// Counters at `ms`, with nothing counted.
    pub fn counters(ms: i64) -> FigureCounters {
        FigureCounters {
            at: Millis::from_i64(1_800_000_000_000 + ms),
            calls: 0,
            over: 0,
            talked: 0,
            acknowledged: Distribution::of_answers(),
            delivered: 0,
            due_ms: 0,
            batches: 0,
            items: 0,
            committed: Distribution::of_answers(),
        }
    }
}
