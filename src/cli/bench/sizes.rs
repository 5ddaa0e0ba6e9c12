//! How much is measured.

use std::time::Duration;

/// Times and numbers of a run.
#[derive(Clone, Debug)]
pub struct Sizes {
    /// For one measurement at full load, and for one at a rate.
    pub load: Duration,
    pub rate: Duration,
    /// Before a measurement.
    pub warm_up: Duration,
    /// Calls whose rows the bare loops write.
    pub rows: u64,
    /// Calls of a pipelined step.
    pub burst: usize,
    /// Tenants that share the load, and those over which debits are spread.
    pub tenants: usize,
    pub spread: usize,
    /// Live calls whose memory is measured.
    pub live: Vec<usize>,
    /// Live calls with minute ticks, and those that a start finds.
    pub ticking: usize,
    pub unfinished: usize,
    /// Calls in the tables that the API reads.
    pub tables: Vec<i64>,
    /// Calls of the tenant whose pages are looked at, and how often each is.
    pub past: i64,
    pub visits: usize,
    /// For each side's turn in a comparison of the API, and how many turns there are.
    pub turn: Duration,
    pub turns: usize,
}

impl Sizes {
    /// What figures are published from.
    pub fn full() -> Self {
        Self {
            load: Duration::from_secs(10),
            rate: Duration::from_secs(20),
            warm_up: Duration::from_secs(2),
            rows: 8_192,
            burst: 20_000,
            tenants: 16,
            spread: 1_000,
            live: vec![10_000, 100_000],
            ticking: 10_000,
            unfinished: 10_000,
            tables: vec![10_000, 1_000_000, 5_000_000],
            past: 1_000_000,
            visits: 200,
            turn: Duration::from_millis(1_500),
            turns: 4,
        }
    }

    /// A look in under two minutes.
    pub fn quick() -> Self {
        Self {
            load: Duration::from_secs(2),
            rate: Duration::from_secs(4),
            warm_up: Duration::from_millis(500),
            rows: 2_048,
            burst: 4_000,
            tenants: 16,
            spread: 200,
            live: vec![5_000],
            ticking: 2_000,
            unfinished: 2_000,
            tables: vec![10_000, 100_000],
            past: 100_000,
            visits: 40,
            turn: Duration::from_millis(500),
            turns: 2,
        }
    }

    /// Whether everything works; the figures mean nothing.
    pub fn smallest() -> Self {
        Self {
            load: Duration::from_millis(200),
            rate: Duration::from_millis(300),
            warm_up: Duration::from_millis(50),
            rows: 32,
            burst: 40,
            tenants: 2,
            spread: 4,
            // Fewer do not stand out of what caches take meanwhile.
            live: vec![1_000],
            ticking: 20,
            unfinished: 20,
            tables: vec![50, 100],
            past: 100,
            visits: 2,
            turn: Duration::from_millis(50),
            turns: 1,
        }
    }
}
