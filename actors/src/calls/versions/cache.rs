//! A cache of versions with which calls recently began.

use std::sync::{Arc, OnceLock};

use dikala_entities::{AgentId, Millis, Store, TransferPrefixes};
use moka::sync::Cache;
use sea_orm::DbErr;
use serde_json::Value;

use super::{first, settings_by_hash, to_json};
use crate::calls::settings::CallSettings;

/// Maximum size of the cache in memory.
const CACHED_BYTES: u64 = 32 * 1024 * 1024;
/// A version's size in memory relative to its JSON: parsed values, and the bridges' form.
const HEAVIER: usize = 6;

/// A version of an agent, in memory.
#[derive(Debug)]
pub struct Version {
    /// Starts at 1.
    pub number: i64,
    pub settings: CallSettings,
    for_bridge: OnceLock<Arc<Value>>,
    /// Its approximate size in memory, in bytes.
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

    /// The agent as bridges see it.
    pub fn for_bridge(&self, transfers: &TransferPrefixes, default_time_zone: &str) -> Arc<Value> {
        let build = || Arc::new(self.settings.for_bridge(transfers, default_time_zone));
        Arc::clone(self.for_bridge.get_or_init(build))
    }
}

/// An agent's current version, as read for every call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PresentVersion {
    pub agent: AgentId,
    pub number: i64,
    /// The hash of its settings; `None` if the version is not written yet.
    pub hash: Option<String>,
}

/// Versions by number and hash. The number is not enough: after a failover, a lost version's number may return with other
/// settings.
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
    /// The given version, or the agent's current one if that is not written yet; `None` if the agent is gone.
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
