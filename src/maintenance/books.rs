//! The open books are looked at regularly, so that a fault is known before a tenant finds it. What was ever booked is verified by
//! `dikala ledger verify`.

use std::time::Duration;

use dikala_actors::ledger::{LedgerHandle, verify_open};
use dikala_entities::Store;

const EVERY: Duration = Duration::from_secs(60);

/// Looks for as long as the process runs.
pub(super) async fn look_regularly(store: &Store, ledger: &LedgerHandle) {
    loop {
        match verify_open(store).await {
            Ok(differences) => {
                for difference in &differences {
                    tracing::error!(difference, "the books do not add up");
                }
                ledger.looked_at(differences.len());
            }
            Err(error) => {
                tracing::warn!(%error, "the books were not looked at; the next look is in a minute")
            }
        }
        tokio::time::sleep(EVERY).await;
    }
}
