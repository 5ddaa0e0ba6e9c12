//! The terms on which a node serves its database: the oldest schema step that it must know, and the server's unsafe durability
//! settings. A node reads them when it enters, and in the statement of each lease renewal.

use std::sync::{Mutex, MutexGuard, PoisonError};

use dikala_entities::store::unsafe_settings_sql;
use sea_orm::{DbBackend, FromQueryResult};
use tokio::sync::watch;

/// The terms in the database.
#[derive(Clone, Debug, Default, FromQueryResult)]
pub(super) struct FoundTerms {
    /// The oldest schema step that a program must know.
    pub(super) serves_from: i64,
    /// Server settings with which a crash loses acknowledged commits; empty if there are none.
    pub(super) unsafe_settings: String,
}

/// The columns of [`FoundTerms`].
pub(super) fn terms_sql(backend: DbBackend) -> String {
    format!(
        "(SELECT serves_from FROM schema_compatibility) AS serves_from, {} AS unsafe_settings",
        unsafe_settings_sql(backend)
    )
}

/// The terms that this node read last.
#[derive(Debug)]
pub struct ServingTerms {
    is_outdated: watch::Sender<bool>,
    unsafe_settings: Mutex<String>,
}

impl Default for ServingTerms {
    fn default() -> Self {
        Self {
            is_outdated: watch::Sender::new(false),
            unsafe_settings: Mutex::default(),
        }
    }
}

impl ServingTerms {
    /// Records the terms found and logs changes. `knows_step` is the last schema step that this program knows.
    pub(super) fn heed(&self, knows_step: i64, found: &FoundTerms) {
        let serves_from = found.serves_from;
        if serves_from > knows_step && !self.is_outdated.send_replace(true) {
            tracing::error!(
                serves_from,
                knows_step,
                "the schema is too new for this version; the node hands over its calls and stops. Install the newer version here"
            );
        }
        let mut before = self.settings();
        if *before == found.unsafe_settings {
            return;
        }
        before.clone_from(&found.unsafe_settings);
        if before.is_empty() {
            tracing::info!("a crash of the database no longer loses acknowledged commits");
        } else {
            tracing::warn!(
                settings = *before,
                "with these settings a crash of the database loses acknowledged calls and minutes; correct them"
            );
        }
    }

    /// True if this program is too old for the schema. It stays true: a schema does not go back under a living node.
    pub fn is_outdated(&self) -> bool {
        *self.is_outdated.borrow()
    }

    /// Completes when this program is too old to serve from the schema.
    pub async fn outdated(&self) {
        let mut is_outdated = self.is_outdated.subscribe();
        // The sender lives as long as `self`, so this cannot fail.
        let _ = is_outdated.wait_for(|is_outdated| *is_outdated).await;
    }

    /// Server settings with which a crash loses acknowledged commits, as `fsync = off, …`; empty if there are none.
    pub fn unsafe_settings(&self) -> String {
        self.settings().clone()
    }

    fn settings(&self) -> MutexGuard<'_, String> {
        self.unsafe_settings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_does_not_know_the_oldest_step_is_outdated_for_good() {
        let terms = ServingTerms::default();
        let found = |serves_from| FoundTerms {
            serves_from,
            unsafe_settings: String::new(),
        };
        terms.heed(30, &found(30));
        assert!(!terms.is_outdated());
        terms.heed(30, &found(31));
        assert!(terms.is_outdated());
        terms.heed(30, &found(30));
        assert!(terms.is_outdated());
    }
}
