//! Voice sessions that open while the phone rings.

use std::{collections::BTreeMap, sync::Arc};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Unanswered calls of a trunk whose voice sessions are open already. The sessions of others open after the answer.
const EARLY_VOICES_MAX: usize = 10;

/// Voice sessions that open before the answer, by trunk. A trunk that sends forged calls costs no more of them.
#[derive(Debug, Default)]
pub(crate) struct EarlyVoices(BTreeMap<String, Arc<Semaphore>>);

impl EarlyVoices {
    /// Trunks are configured, so they are few.
    pub(crate) fn of_trunk(&mut self, trunk: String) -> Option<OwnedSemaphorePermit> {
        let new = || Arc::new(Semaphore::new(EARLY_VOICES_MAX));
        let semaphore = self.0.entry(trunk).or_insert_with(new);
        Arc::clone(semaphore).try_acquire_owned().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trunk_has_ten_and_takes_none_from_another() {
        let mut early = EarlyVoices::default();
        let of = |early: &mut EarlyVoices, trunk: &str| early.of_trunk(trunk.to_owned());
        let mut permits: Vec<_> = (0..20).filter_map(|_| of(&mut early, "a")).collect();
        assert_eq!(permits.len(), EARLY_VOICES_MAX);
        assert!(of(&mut early, "b").is_some());
        permits.pop();
        assert!(of(&mut early, "a").is_some());
    }
}
