//! Checks that depend on others: readiness, the store and the disk. They run while the overview is watched, each
//! with a timeout. A check that times out keeps its last result.

mod changes;
mod money;
mod webhooks;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use dikala_actors::webhooks::HANGS_AFTER;
use dikala_entities::{Millis, TenantId, WebhookId, snoozed_problem, tenant};
use sea_orm::{ColumnTrait, DbErr, EntityTrait, QueryFilter, QuerySelect};

use self::money::ShortTenants;
pub use self::{
    changes::{ChangeKind, RecentChange},
    money::{RefusedTenant, ShortTenant},
};
use super::OverviewSources;
use crate::operator::health;

/// Timeout of the store.
const STORE_WITHIN: Duration = Duration::from_secs(2);
/// Maximum number of webhooks that are listed per kind.
pub const NAMED_MAX: usize = 20;
/// Interval of the checks that read more.
const SELDOM: Duration = Duration::from_secs(10);
/// Refused requests per minute that count as flooding.
const FLOOD: u32 = 30;
/// Maximum number of snoozed problems that are read.
const SNOOZED_MAX: u64 = 1_000;
/// Maximum number of cached tenant names.
const NAMES_MAX: usize = 1_000;

/// A webhook whose tenant misses events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TroubledWebhook {
    pub webhook: WebhookId,
    pub tenant: TenantId,
    pub trouble: WebhookTrouble,
    pub since: Millis,
}

/// The reason why a tenant misses events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebhookTrouble {
    /// Its attempts fail.
    Failing,
    /// It kept failing, and the service switched it off.
    Disabled,
    /// An operator paused it a while ago.
    Paused,
}

/// The deliveries that wait for a webhook.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebhookBacklog {
    /// Due deliveries.
    pub due: i64,
    /// The status or the error of this node's last attempt.
    pub last_answer: Option<String>,
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
    pub webhooks: Vec<TroubledWebhook>,
    /// True if more webhooks are in trouble than are listed.
    pub more_webhooks: bool,
    pub backlogs: BTreeMap<WebhookId, WebhookBacklog>,
    pub hanging: Vec<HangingWebhook>,
    /// Tenants that exceed their rate limit, with their refused requests per minute.
    pub flooding: Vec<(TenantId, u32)>,
    pub room: Option<DiskSpace>,
    pub refused: Vec<RefusedTenant>,
    pub short: Vec<ShortTenant>,
    pub changes: Vec<RecentChange>,
    pub names: BTreeMap<TenantId, String>,
    pub snoozed: Vec<snoozed_problem::Model>,
}

/// Runs the checks and keeps their last results.
#[derive(Debug, Default)]
pub struct ExternalChecks {
    known: Mutex<CheckResults>,
    asking: AtomicBool,
    /// The last run of the checks that read more.
    seldom: Mutex<Option<Instant>>,
    short: ShortTenants,
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
        if in_time(self.ask_webhooks(parts, now)).await.is_none() {
            // Readiness reports an unavailable database.
            return;
        }
        let is_time = self.is_time_for_more();
        let shown = self.shown_webhooks();
        let is_new = |id: &WebhookId| !self.lock().backlogs.contains_key(id);
        if is_time || shown.iter().any(is_new) {
            in_time(self.ask_backlogs(parts, shown, now)).await;
        }
        if is_time {
            self.ask_more(parts, now).await;
        }
        let unnamed = self.unnamed();
        if !unnamed.is_empty()
            && let Some(named) = in_time(names(parts, unnamed)).await
        {
            self.lock().names.extend(named);
        }
    }

    async fn ask_webhooks(&self, parts: &OverviewSources, now: Millis) -> Result<(), DbErr> {
        let (webhooks, more) = webhooks::troubled(parts, now).await?;
        let snoozed = snoozed(parts, now).await?;
        let mut known = self.lock();
        known.webhooks = webhooks;
        known.more_webhooks = more;
        known.snoozed = snoozed;
        Ok(())
    }

    /// Reads anew which problems are snoozed.
    pub async fn ask_snoozed(&self, parts: &OverviewSources) {
        let now = parts.node.clock.now();
        if let Some(snoozed) = in_time(snoozed(parts, now)).await {
            self.lock().snoozed = snoozed;
        }
    }

    /// True every few seconds.
    fn is_time_for_more(&self) -> bool {
        let mut last = self.seldom.lock().unwrap_or_else(PoisonError::into_inner);
        let is_time = last.is_none_or(|last| last.elapsed() >= SELDOM);
        if is_time {
            *last = Some(Instant::now());
        }
        is_time
    }

    fn shown_webhooks(&self) -> BTreeSet<WebhookId> {
        let known = self.lock();
        let troubled = known.webhooks.iter().map(|of| of.webhook);
        let hanging = known.hanging.iter().map(|of| of.webhook);
        troubled.chain(hanging).collect()
    }

    async fn ask_backlogs(
        &self,
        parts: &OverviewSources,
        shown: BTreeSet<WebhookId>,
        now: Millis,
    ) -> Result<(), DbErr> {
        let backlogs = webhooks::backlogs(parts, shown, now).await?;
        self.lock().backlogs = backlogs;
        Ok(())
    }

    /// The checks that read more. Each has its own time, so that a slow one stops no other.
    async fn ask_more(&self, parts: &OverviewSources, now: Millis) {
        if let Some(refused) = in_time(money::refused(parts, now)).await {
            self.lock().refused = refused;
        }
        match in_time(self.short.next(parts, now)).await {
            Some(short) => self.lock().short = short,
            None => self.short.ask_fewer(),
        }
        if let Some(changes) = in_time(changes::changes(parts, now)).await {
            self.lock().changes = changes;
        }
    }

    /// Forgets the tenants whose minutes are over soon: nobody watches, so they may have got minutes.
    pub fn forget(&self) {
        self.short.forget();
        self.lock().short.clear();
    }

    /// Tenants to be shown whose names are not cached.
    fn unnamed(&self) -> BTreeSet<TenantId> {
        let mut known = self.lock();
        if known.names.len() > NAMES_MAX {
            known.names.clear();
        }
        let webhooks = known.webhooks.iter().map(|webhook| webhook.tenant);
        let hanging = known.hanging.iter().map(|hanging| hanging.tenant);
        let flooding = known.flooding.iter().map(|(tenant, _)| *tenant);
        let refused = known.refused.iter().map(|of| of.tenant);
        let short = known.short.iter().map(|of| of.tenant);
        let all = webhooks.chain(hanging).chain(flooding);
        let all = all.chain(refused).chain(short);
        all.filter(|tenant| !known.names.contains_key(tenant))
            .take(NAMED_MAX * 6)
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

/// The result of a read of the store; `None` after an error or the timeout.
async fn in_time<T>(reading: impl Future<Output = Result<T, DbErr>>) -> Option<T> {
    tokio::time::timeout(STORE_WITHIN, reading).await.ok()?.ok()
}

/// The problems that are snoozed.
async fn snoozed(
    parts: &OverviewSources,
    now: Millis,
) -> Result<Vec<snoozed_problem::Model>, DbErr> {
    snoozed_problem::Entity::find()
        .filter(snoozed_problem::Column::EndsAt.gt(now))
        .limit(SNOOZED_MAX)
        .all(parts.node.store.api_reader())
        .await
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

/// The free space at a folder; `None` if the system does not tell.
pub fn room_at(folder: &Path) -> Option<DiskSpace> {
    let system = rustix::fs::statvfs(folder).ok()?;
    let free = system.f_bavail.saturating_mul(system.f_frsize);
    Some(DiskSpace {
        free_mib: free / (1_024 * 1_024),
    })
}
