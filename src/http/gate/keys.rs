//! API keys: the tenant of a key, and the time of its last use.
//!
//! An answer of the database is trusted for [`TRUST_MS`]. So under load one read serves a burst of requests, and yet
//! a revocation, a suspension or a change of plan by any process takes effect practically at the next request.

use std::sync::Arc;

use dashmap::{DashMap, Entry};
use dikala_entities::{
    ApiKeyId, Credential, CredentialHash, Millis, Plan, Store, TenantId, api_key, tenant,
};
use futures_util::future::{BoxFuture, FutureExt, Shared};
use moka::sync::Cache;
use sea_orm::{
    ColumnTrait, Condition, EntityTrait, FromQueryResult, JoinType, QueryFilter, QuerySelect,
    sea_query::Expr,
};
use tokio::sync::Semaphore;

use crate::http::{error::ApiError, settings::HttpSettings};

/// Lifetime of a cached answer.
const TRUST_MS: i64 = 20;
const KEYS_MAX: u64 = 10_000;
/// Precision of `lastUsedAt`.
const TOUCH_EVERY_MS: i64 = 60_000;
/// Concurrent writes of `lastUsedAt`. Any more are skipped; the key's next request tries again.
const TOUCHES_MAX: usize = 2;

/// The tenant of a key, with its limit and state.
#[derive(Clone, Copy, Debug)]
pub(in crate::http) struct KeyIdentity {
    pub tenant: TenantId,
    /// Requests a minute.
    pub limit: u32,
    pub suspended: bool,
    pub key: ApiKeyId,
    last_used_at: Option<Millis>,
    read_at: Millis,
}

/// A read of the database that several requests may wait for.
#[derive(Clone, Debug)]
struct KeyRead {
    /// The address of this allocation identifies the read.
    began_at: Arc<Millis>,
    answer: Shared<BoxFuture<'static, Result<KeyIdentity, ApiError>>>,
}

/// Cached keys, and reads under way.
#[derive(Clone, Debug)]
pub(in crate::http) struct KeyCache {
    known: Cache<CredentialHash, KeyIdentity>,
    reading: Arc<DashMap<CredentialHash, KeyRead>>,
    touched: Cache<ApiKeyId, Millis>,
    touches: Arc<Semaphore>,
}

impl Default for KeyCache {
    fn default() -> Self {
        Self {
            known: Cache::new(KEYS_MAX),
            reading: Arc::default(),
            touched: Cache::new(KEYS_MAX),
            touches: Arc::new(Semaphore::new(TOUCHES_MAX)),
        }
    }
}

fn is_fresh(read_at: Millis, now: Millis) -> bool {
    (0..TRUST_MS).contains(&now.since(read_at))
}

impl KeyCache {
    /// The tenant of a key. Errors: unknown key, revoked key, database unavailable.
    pub async fn identify(
        &self,
        store: &Store,
        settings: &HttpSettings,
        key: &Credential,
        now: Millis,
    ) -> Result<KeyIdentity, ApiError> {
        let hash = key.hash();
        if let Some(known) = self.known.get(&hash)
            && is_fresh(known.read_at, now)
        {
            return Ok(known);
        }
        // Many requests find the cached answer stale at the same moment: one reads, the others wait for it. A read
        // that began too long ago is not joined, because its answer would be stale too.
        let answer = match self.reading.entry(hash) {
            Entry::Occupied(found) if is_fresh(*found.get().began_at, now) => {
                found.get().answer.clone()
            }
            entry => {
                let reading = self.read(store, settings, entry.key().clone(), now);
                let answer = reading.answer.clone();
                entry.insert(reading);
                answer
            }
        };
        answer.await
    }

    /// Clears the cache, so that a change by this process takes effect at the next request.
    pub fn forget(&self) {
        // In this order, so that a read under way is not cached afterwards.
        self.reading.clear();
        self.known.invalidate_all();
    }

    /// Spawned, because the read serves other requests and must survive this client's disconnect.
    fn read(
        &self,
        store: &Store,
        settings: &HttpSettings,
        hash: CredentialHash,
        now: Millis,
    ) -> KeyRead {
        let (keys, store, settings) = (self.clone(), store.clone(), settings.clone());
        let began_at = Arc::new(now);
        let this = Arc::clone(&began_at);
        let task = tokio::spawn(async move {
            let answer = read(&store, &settings, &hash, now).await;
            if let Entry::Occupied(reading) = keys.reading.entry(hash)
                && Arc::ptr_eq(&reading.get().began_at, &this)
            {
                if let Ok(identity) = answer {
                    keys.known.insert(reading.key().clone(), identity);
                }
                reading.remove();
            }
            if let Ok(identity) = answer {
                keys.touch(&store, identity, now);
            }
            answer
        });
        KeyRead {
            began_at,
            answer: task
                .map(|ended| ended.unwrap_or(Err(ApiError::Internal)))
                .boxed()
                .shared(),
        }
    }

    /// Records the use of a key in the background.
    fn touch(&self, store: &Store, identity: KeyIdentity, now: Millis) {
        let last = identity.last_used_at.max(self.touched.get(&identity.key));
        if last.is_some_and(|last| now.since(last) < TOUCH_EVERY_MS) {
            return;
        }
        let Ok(permit) = Arc::clone(&self.touches).try_acquire_owned() else {
            return;
        };
        self.touched.insert(identity.key, now);
        let store = store.clone();
        tokio::spawn(async move {
            if let Err(error) = write_last_used(&store, identity.key, now).await {
                tracing::debug!(%error, "could not store the last use of an API key");
            }
            drop(permit);
        });
    }
}

#[derive(FromQueryResult)]
struct Row {
    key: ApiKeyId,
    last_used_at: Option<Millis>,
    revoked_at: Option<Millis>,
    tenant: TenantId,
    plan: Plan,
    rate_limit: Option<i64>,
    suspended_at: Option<Millis>,
}

async fn read(
    store: &Store,
    settings: &HttpSettings,
    hash: &CredentialHash,
    now: Millis,
) -> Result<KeyIdentity, ApiError> {
    let tenant_of_key = api_key::Entity::belongs_to(tenant::Entity)
        .from(api_key::Column::TenantId)
        .to(tenant::Column::Id);
    let row: Row = api_key::Entity::find()
        .select_only()
        .column_as(api_key::Column::Id, "key")
        .columns([api_key::Column::LastUsedAt, api_key::Column::RevokedAt])
        .column_as(tenant::Column::Id, "tenant")
        .columns([
            tenant::Column::Plan,
            tenant::Column::RateLimit,
            tenant::Column::SuspendedAt,
        ])
        .join(JoinType::InnerJoin, tenant_of_key.into())
        .filter(api_key::Column::Hash.eq(hash.clone()))
        .into_model()
        .one(store.reader())
        .await?
        .ok_or(ApiError::InvalidApiKey)?;
    if row.revoked_at.is_some() {
        return Err(ApiError::RevokedApiKey);
    }
    let own = row
        .rate_limit
        .map(|limit| u32::try_from(limit.max(0)).unwrap_or(u32::MAX));
    Ok(KeyIdentity {
        tenant: row.tenant,
        limit: own.unwrap_or_else(|| settings.per_minute(row.plan)),
        suspended: row.suspended_at.is_some(),
        key: row.key,
        last_used_at: row.last_used_at,
        read_at: now,
    })
}

async fn write_last_used(store: &Store, key: ApiKeyId, now: Millis) -> Result<(), sea_orm::DbErr> {
    let stale = Condition::any()
        .add(api_key::Column::LastUsedAt.is_null())
        .add(api_key::Column::LastUsedAt.lt(now));
    api_key::Entity::update_many()
        .col_expr(api_key::Column::LastUsedAt, Expr::value(now))
        .filter(api_key::Column::Id.eq(key))
        .filter(stale)
        .exec(store.writer())
        .await
        .map(drop)
}
