//! Versions in memory: what calls began with lately.

use std::sync::{Arc, OnceLock};

use dikala_entities::{AgentId, Millis, Store, TransferPrefixes};
use moka::sync::Cache;
use sea_orm::DbErr;
use serde_json::Value;

use super::{first, settings_by_hash, to_json};
use crate::calls::settings::CallSettings;

/// What versions in memory may weigh in all.
const CACHED_BYTES: u64 = 32 * 1024 * 1024;
/// How much heavier a version is in memory than its JSON: its values, and what bridges are told of it.
const HEAVIER: usize = 6;

/// A version of an agent, as calls begin with it.
#[derive(Debug)]
pub struct Version {
    /// 1, 2, …
    pub number: i64,
    /// What it says.
    pub settings: CallSettings,
    for_bridge: OnceLock<Arc<Value>>,
    /// About how many bytes it takes in memory.
    weight: u32,
}

impl Version {
    pub(in crate::calls) fn new(number: i64, settings: CallSettings) -> Result<Arc<Self>, DbErr> {
        let bytes = HEAVIER * to_json(&settings)?.len();
        Ok(Arc::new(Self {
            number,
            settings,
            for_bridge: OnceLock::new(),
            weight: u32::try_from(bytes).unwrap_or(u32::MAX),
        }))
    }

    /// What a bridge is told of it.
    pub fn for_bridge(&self, transfers: &TransferPrefixes) -> Arc<Value> {
        let made = || Arc::new(self.settings.for_bridge(transfers));
        Arc::clone(self.for_bridge.get_or_init(made))
    }
}

/// The present version of an agent, as it is read for every call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PresentVersion {
    pub agent: AgentId,
    /// The number of the version.
    pub number: i64,
    /// Hash of its settings; none if the version is not written yet.
    pub hash: Option<String>,
}

/// Versions that recent calls began with, by their content. The number is not enough: after a failover, a lost version's number
/// may return with other settings.
#[derive(Clone, Debug)]
pub struct Versions(Cache<PresentVersion, Arc<Version>>);

impl Default for Versions {
    fn default() -> Self {
        let cache = Cache::builder().max_capacity(CACHED_BYTES);
        Self(
            cache
                .weigher(|_, version: &Arc<Version>| version.weight)
                .build(),
        )
    }
}

impl Versions {
    /// A version of an agent, or the present one where that is not written yet; none where the agent is gone.
    pub async fn current(
        &self,
        store: &Store,
        present: &PresentVersion,
        now: Millis,
    ) -> Result<Option<Arc<Version>>, DbErr> {
        let Some(hash) = &present.hash else {
            return first(store, present.agent, now).await;
        };
        if let Some(known) = self.0.get(present) {
            return Ok(Some(known));
        }
        let reader = store.critical_reader();
        let Some(settings) = settings_by_hash(reader, present.agent, hash).await? else {
            return first(store, present.agent, now).await;
        };
        let version = Version::new(present.number, settings)?;
        self.0.insert(present.clone(), Arc::clone(&version));
        Ok(Some(version))
    }
}
