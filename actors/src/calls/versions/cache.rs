//! Versions in memory: what calls began with lately.

use std::sync::{Arc, OnceLock};

use dikala_entities::{AgentId, Millis, Store, TransferPrefixes};
use moka::sync::Cache;
use sea_orm::DbErr;
use serde_json::Value;

use super::{first, settings_of, to_json};
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

/// Versions that calls began with lately. A version never changes, so nothing in here is ever wrong; which one is an agent's
/// present one is read for every call.
#[derive(Clone, Debug)]
pub struct Versions(Cache<(AgentId, i64), Arc<Version>>);

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
        agent: AgentId,
        version: i64,
        now: Millis,
    ) -> Result<Option<Arc<Version>>, DbErr> {
        if let Some(known) = self.0.get(&(agent, version)) {
            return Ok(Some(known));
        }
        let read = match settings_of(store.critical_reader(), agent, version).await? {
            Some(settings) => Some(Version::new(version, settings)?),
            None => first(store, agent, now).await?,
        };
        if let Some(version) = &read {
            self.0.insert((agent, version.number), Arc::clone(version));
        }
        Ok(read)
    }
}
