//! Verifies open accounts and holds regularly, so that operators learn of a fault before tenants do. `dikala ledger
//! verify` verifies everything that was ever booked.

use std::time::Duration;

use dikala_actors::{commit::CommitHandle, ledger::verify_open};
use dikala_entities::Store;

const EVERY: Duration = Duration::from_secs(60);

/// Verifies for as long as the process runs.
pub(super) async fn look_regularly(store: &Store, ledger: &CommitHandle) {
    loop {
        match verify_open(store).await {
            Ok(differences) => {
                for difference in &differences {
                    tracing::error!(difference, "the books do not add up");
                }
                ledger.record_differences(differences.len());
            }
            Err(error) => {
                tracing::warn!(%error, "could not check the books; the next check is in a minute")
            }
        }
        tokio::time::sleep(EVERY).await;
    }
}
