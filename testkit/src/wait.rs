//! Waiting for conditions.

use std::time::{Duration, Instant};

/// How long anything may take on a slow, busy machine before a test gives up.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// How often a condition is looked at that cannot announce itself.
const POLL: Duration = Duration::from_millis(50);

/// Asks until there is an answer; panics with `what` when patience ends.
pub async fn eventually<T>(what: &str, probe: impl AsyncFnMut() -> Option<T>) -> T {
    within(PATIENCE, what, probe).await
}

/// As [`eventually`], with a patience of one's own.
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
