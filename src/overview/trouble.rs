//! What has to be asked of others, who may not answer: readiness, the store, the disk. Asked while somebody looks, one after the other,
//! each bounded in time; what did not answer is as it was.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use dikala_actors::webhooks::HANGS_AFTER;
use dikala_entities::{Millis, TenantId, WebhookId, WebhookState, tenant, webhook};
use sea_orm::{ColumnTrait, DbErr, EntityTrait, QueryFilter, QuerySelect};

use super::Parts;
use crate::{admin::webhooks::matching, operator::health};

/// How long the store may take.
const STORE_WITHIN: Duration = Duration::from_secs(2);
/// Webhooks of a kind that are named.
pub const NAMED_MAX: usize = 20;
/// For how long a webhook that was disabled is told of, in milliseconds.
const DISABLED_TOLD_MS: i64 = 7 * 24 * 60 * 60 * 1_000;
/// Requests refused in a minute that are a flood.
const FLOOD: u32 = 30;
/// Tenants whose names are remembered.
const NAMES_MAX: usize = 1_000;

/// A webhook whose tenant misses events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missed {
    pub webhook: WebhookId,
    pub tenant: TenantId,
    /// Since when its attempts fail; none: it was disabled for that.
    pub failing_since: Option<Millis>,
}

/// Something that a tenant's server makes others wait for, or a tenant does too much of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hanging {
    pub webhook: WebhookId,
    pub tenant: TenantId,
}

/// The room that is left where the database is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    pub free_mib: u64,
}

/// What was answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// What readiness finds wrong: names and words.
    pub unready: Vec<(&'static str, &'static str)>,
    pub missed: Vec<Missed>,
    /// There are more of them.
    pub more_missed: bool,
    pub hanging: Vec<Hanging>,
    /// Who asks more than he may, and how many requests were refused in a minute.
    pub flooding: Vec<(TenantId, u32)>,
    pub room: Option<Room>,
    pub names: BTreeMap<TenantId, String>,
}

/// What was answered last.
#[derive(Debug, Default)]
pub struct Troubles {
    known: Mutex<Known>,
    asking: AtomicBool,
}

impl Troubles {
    /// What was answered last.
    pub fn known(&self) -> Known {
        self.lock().clone()
    }

    /// Asks, unless somebody does already. Whether anything is different now.
    pub async fn ask(&self, parts: &Parts) -> bool {
        if self.asking.swap(true, Relaxed) {
            return false;
        }
        // Whoever stops waiting leaves the door open.
        let _open = Open(&self.asking);
        let before = self.known();
        tokio::join!(self.ask_readiness(parts), self.ask_store(parts));
        *self.lock() != before
    }

    async fn ask_readiness(&self, parts: &Parts) {
        let unready = health::problems(&parts.health).await;
        self.lock().unready = unready;
    }

    async fn ask_store(&self, parts: &Parts) {
        let now = parts.node.clock.now();
        let room = parts.folder.as_deref().and_then(room_at);
        let flooding = parts.gate.flooding(FLOOD, now);
        let slow = parts.node.webhooks.slow_attempts(HANGS_AFTER);
        let slow: BTreeMap<_, _> = slow.into_iter().take(NAMED_MAX).collect();
        let hanging: Vec<Hanging> = slow
            .into_iter()
            .map(|(webhook, tenant)| Hanging { webhook, tenant })
            .collect();
        {
            let mut known = self.lock();
            known.room = room;
            known.flooding = flooding;
            known.hanging = hanging;
        }
        let Ok(Ok((missed, more))) = tokio::time::timeout(STORE_WITHIN, missed(parts, now)).await
        else {
            // That the database is away is told by readiness.
            return;
        };
        {
            let mut known = self.lock();
            known.missed = missed;
            known.more_missed = more;
        }
        let unnamed = self.unnamed();
        if !unnamed.is_empty() {
            let named = tokio::time::timeout(STORE_WITHIN, names(parts, unnamed)).await;
            if let Ok(Ok(named)) = named {
                self.lock().names.extend(named);
            }
        }
    }

    /// Tenants that are to be named and whose names are not known.
    fn unnamed(&self) -> BTreeSet<TenantId> {
        let mut known = self.lock();
        if known.names.len() > NAMES_MAX {
            known.names.clear();
        }
        let missed = known.missed.iter().map(|missed| missed.tenant);
        let hanging = known.hanging.iter().map(|hanging| hanging.tenant);
        let flooding = known.flooding.iter().map(|(tenant, _)| *tenant);
        let all = missed.chain(hanging).chain(flooding);
        all.filter(|tenant| !known.names.contains_key(tenant))
            .take(NAMED_MAX * 4)
            .collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Open<'a>(&'a AtomicBool);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.store(false, Relaxed);
    }
}

async fn missed(parts: &Parts, now: Millis) -> Result<(Vec<Missed>, bool), DbErr> {
    let db = parts.node.store.api_reader();
    let most = u64::try_from(NAMED_MAX).unwrap_or(u64::MAX) + 1;
    let failing = matching(Some(WebhookState::Failing), None).limit(most);
    let mut rows = failing.all(db).await?;
    let disabled = matching(Some(WebhookState::Disabled), None)
        .filter(webhook::Column::DisabledReason.is_not_null())
        .filter(webhook::Column::UpdatedAt.gt(now.plus_ms(-DISABLED_TOLD_MS)))
        .limit(most);
    rows.extend(disabled.all(db).await?);
    let more = rows.len() > NAMED_MAX;
    let told = rows.into_iter().take(NAMED_MAX);
    let missed = told.map(|row| Missed {
        webhook: row.id,
        tenant: row.tenant_id,
        failing_since: row.failing_since.filter(|_| row.is_active),
    });
    Ok((missed.collect(), more))
}

async fn names(parts: &Parts, of: BTreeSet<TenantId>) -> Result<BTreeMap<TenantId, String>, DbErr> {
    let named: Vec<(TenantId, String)> = tenant::Entity::find()
        .select_only()
        .columns([tenant::Column::Id, tenant::Column::Name])
        .filter(tenant::Column::Id.is_in(of))
        .into_tuple()
        .all(parts.node.store.api_reader())
        .await?;
    Ok(named.into_iter().collect())
}

fn room_at(folder: &Path) -> Option<Room> {
    let system = rustix::fs::statvfs(folder).ok()?;
    let free = system.f_bavail.saturating_mul(system.f_frsize);
    Some(Room {
        free_mib: free / (1_024 * 1_024),
    })
}
