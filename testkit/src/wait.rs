//! Waits for conditions.

use std::time::{Duration, Instant};

/// Timeout for anything on a slow, busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Interval at which a condition is polled.
const POLL: Duration = Duration::from_millis(50);

/// Polls until there is a value; panics with `what` at the timeout.
pub async fn eventually<T>(what: &str, probe: impl AsyncFnMut() -> Option<T>) -> T {
    within(PATIENCE, what, probe).await
}

/// As [`eventually`], with another timeout.
pub async fn within<T>(
    patience: Duration,
    what: &str,
    mut probe: impl AsyncFnMut() -> Option<T>,
) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = probe().await {
            return found;
        }
        assert!(
            started.elapsed() < patience,
            "after {patience:?} still waiting for: {what}"
        );
        tokio::time::sleep(POLL).await;
    }
}
