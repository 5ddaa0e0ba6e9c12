//! Durations and sizes of the measurements.

use std::time::Duration;

/// Durations and sizes of a run.
#[derive(Clone, Debug)]
pub struct Sizes {
    /// Duration of one measurement at full load, and of one at a steady rate.
    pub load: Duration,
    pub rate: Duration,
    /// Duration of the warm-up.
    pub warm_up: Duration,
    /// Calls whose rows the bare loops write.
    pub rows: u64,
    /// Calls of a pipelined step.
    pub burst: usize,
    /// Tenants that share the load, and tenants that debits are spread over.
    pub tenants: usize,
    pub spread: usize,
    /// Numbers of active calls whose memory is measured.
    pub live: Vec<usize>,
    /// Active calls with a tick every minute, and active calls at a restart.
    pub ticking: usize,
    pub unfinished: usize,
    /// Numbers of calls in the tables that the API reads.
    pub tables: Vec<i64>,
    /// Ended calls of the tenant whose pages are requested, and requests per page.
    pub past: i64,
    pub visits: usize,
    /// Duration of a turn when the API is compared, and the number of turns.
    pub turn: Duration,
    pub turns: usize,
}

impl Sizes {
    /// Sizes for published figures.
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

    /// Finishes in under two minutes.
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

    /// Shows that everything works; the figures mean nothing.
    pub fn smallest() -> Self {
        Self {
            load: Duration::from_millis(200),
            rate: Duration::from_millis(300),
            warm_up: Duration::from_millis(50),
            rows: 32,
            burst: 40,
            tenants: 2,
            spread: 4,
            // With fewer calls, memory taken by caches would dominate the figure.
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
