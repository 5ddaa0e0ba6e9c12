//! Checks that depend on others: readiness, the store and the disk. They run while the overview is watched, each
//! with a timeout. A check that times out keeps its last result.

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

use super::OverviewSources;
use crate::{operations::webhooks::health::matching, operator::health};

/// Timeout of the store.
const STORE_WITHIN: Duration = Duration::from_secs(2);
/// Maximum number of webhooks that are listed per kind.
pub const NAMED_MAX: usize = 20;
/// Time for which a disabled webhook is shown, in milliseconds.
const DISABLED_TOLD_MS: i64 = 7 * 24 * 60 * 60 * 1_000;
/// Refused requests per minute that count as flooding.
const FLOOD: u32 = 30;
/// Maximum number of cached tenant names.
const NAMES_MAX: usize = 1_000;

/// A failing or disabled webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailingWebhook {
    pub webhook: WebhookId,
    pub tenant: TenantId,
    /// Time since when its attempts fail; `None` if it was disabled.
    pub failing_since: Option<Millis>,
}

/// A webhook whose endpoint does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HangingWebhook {
    pub webhook: WebhookId,
    pub tenant: TenantId,
}

/// Free space of the database's disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    pub free_mib: u64,
}

/// Results of the checks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckResults {
    /// Failed readiness checks: names and messages.
    pub unready: Vec<(&'static str, &'static str)>,
    pub missed: Vec<FailingWebhook>,
    /// True if more webhooks fail than are listed.
    pub more_missed: bool,
    pub hanging: Vec<HangingWebhook>,
    /// Tenants that exceed their rate limit, with their refused requests per minute.
    pub flooding: Vec<(TenantId, u32)>,
    pub room: Option<DiskSpace>,
    pub names: BTreeMap<TenantId, String>,
}

/// Runs the checks and keeps their last results.
#[derive(Debug, Default)]
pub struct ExternalChecks {
    known: Mutex<CheckResults>,
    asking: AtomicBool,
}

impl ExternalChecks {
    pub fn known(&self) -> CheckResults {
        self.lock().clone()
    }

    /// Runs the checks, unless they are running. Returns true if a result changed.
    pub async fn ask(&self, parts: &OverviewSources) -> bool {
        if self.asking.swap(true, Relaxed) {
            return false;
        }
        // Resets the flag even if this future is dropped.
        let _open = CheckGuard(&self.asking);
        let before = self.known();
        tokio::join!(self.ask_readiness(parts), self.ask_store(parts));
        *self.lock() != before
    }

    async fn ask_readiness(&self, parts: &OverviewSources) {
        let unready = health::problems(&parts.health).await;
        self.lock().unready = unready;
    }

    async fn ask_store(&self, parts: &OverviewSources) {
        let now = parts.node.clock.now();
        let room = parts.folder.as_deref().and_then(room_at);
        let flooding = parts.gate.flooding(FLOOD, now);
        let slow = parts.node.webhooks.slow_attempts(HANGS_AFTER);
        let slow: BTreeMap<_, _> = slow.into_iter().take(NAMED_MAX).collect();
        let hanging: Vec<HangingWebhook> = slow
            .into_iter()
            .map(|(webhook, tenant)| HangingWebhook { webhook, tenant })
            .collect();
        {
            let mut known = self.lock();
            known.room = room;
            known.flooding = flooding;
            known.hanging = hanging;
        }
        let Ok(Ok((missed, more))) = tokio::time::timeout(STORE_WITHIN, missed(parts, now)).await
        else {
            // Readiness reports an unavailable database.
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

    /// Tenants to be shown whose names are not cached.
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

    fn lock(&self) -> std::sync::MutexGuard<'_, CheckResults> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct CheckGuard<'a>(&'a AtomicBool);

impl Drop for CheckGuard<'_> {
    fn drop(&mut self) {
        self.0.store(false, Relaxed);
    }
}

async fn missed(
    parts: &OverviewSources,
    now: Millis,
) -> Result<(Vec<FailingWebhook>, bool), DbErr> {
    let db = parts.node.store.api_reader();
    let most = u64::try_from(NAMED_MAX).unwrap_or(u64::MAX) + 1;
    let failing = matching(webhook::Entity::find(), Some(WebhookState::Failing), None).limit(most);
    let mut rows = failing.all(db).await?;
    let disabled = matching(webhook::Entity::find(), Some(WebhookState::Disabled), None)
        .filter(webhook::Column::DisabledReason.is_not_null())
        .filter(webhook::Column::UpdatedAt.gt(now.plus_ms(-DISABLED_TOLD_MS)))
        .limit(most);
    rows.extend(disabled.all(db).await?);
    let more = rows.len() > NAMED_MAX;
    let told = rows.into_iter().take(NAMED_MAX);
    let missed = told.map(|row| FailingWebhook {
        webhook: row.id,
        tenant: row.tenant_id,
        failing_since: row.failing_since.filter(|_| row.is_active),
    });
    Ok((missed.collect(), more))
}

async fn names(
    parts: &OverviewSources,
    of: BTreeSet<TenantId>,
) -> Result<BTreeMap<TenantId, String>, DbErr> {
    let named: Vec<(TenantId, String)> = tenant::Entity::find()
        .select_only()
        .columns([tenant::Column::Id, tenant::Column::Name])
        .filter(tenant::Column::Id.is_in(of))
        .into_tuple()
        .all(parts.node.store.api_reader())
        .await?;
    Ok(named.into_iter().collect())
}

fn room_at(folder: &Path) -> Option<DiskSpace> {
    let system = rustix::fs::statvfs(folder).ok()?;
    let free = system.f_bavail.saturating_mul(system.f_frsize);
    Some(DiskSpace {
        free_mib: free / (1_024 * 1_024),
    })
}
