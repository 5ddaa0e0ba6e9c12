//! Takes blocks of requests out of shared windows, in SQL with the database's time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
    time::Duration,
};

use dikala_actors::nodes::Membership;
use dikala_entities::{Millis, Store, TenantId};
use moka::sync::Cache;
use sea_orm::{ConnectionTrait, DbErr, Statement, Value};
use tokio::sync::Mutex;

use super::rate::{Allowance, BlockGrant, BlockRequest, Limiter, RateDecision, WINDOW_MS};

/// Longest wait of a request for a block.
const TAKE_WITHIN: Duration = Duration::from_millis(500);
/// After a failure to take a block, this node counts alone for this time, in milliseconds.
const ALONE_MS: i64 = 1_000;
/// Tenants with a lock for taking blocks, and the idle time after which a lock is dropped.
const ASKING_MAX: u64 = 100_000;
const ASKING_KEPT: Duration = Duration::from_secs(60);
/// Attempts of a request to get a block that others use up at once; then it is counted by this node alone.
const TRIES_MAX: usize = 64;

/// Takes blocks, one at a time per tenant.
#[derive(Debug)]
pub struct SharedWindows {
    asking: Cache<TenantId, Arc<Mutex<()>>>,
    alone_until: AtomicI64,
}

impl Default for SharedWindows {
    fn default() -> Self {
        Self {
            asking: Cache::builder()
                .max_capacity(ASKING_MAX)
                .time_to_idle(ASKING_KEPT)
                .build(),
            alone_until: AtomicI64::new(i64::MIN),
        }
    }
}

impl SharedWindows {
    /// Counts a tenant's request. A single node, or a node without the database, counts alone.
    pub async fn count(
        &self,
        windows: &Limiter<TenantId>,
        (store, member): (&Store, &Membership),
        (tenant, limit): (TenantId, u32),
        now: Millis,
    ) -> Allowance {
        let nodes = member.nodes();
        if nodes < 2 {
            return windows.count(tenant, limit, now);
        }
        for _ in 0..TRIES_MAX {
            if self.is_alone(now) {
                break;
            }
            if let RateDecision::Decided(allowance) =
                windows.count_together(tenant, limit, nodes, now)
            {
                return allowance;
            }
            let asking = self.asking.get_with(tenant, Arc::default);
            let _one = asking.lock().await;
            // The previous holder of the lock may have taken a block, or failed to.
            let wish = match windows.count_together(tenant, limit, nodes, now) {
                RateDecision::Decided(allowance) => return allowance,
                RateDecision::Take(wish) => wish,
            };
            if self.is_alone(now) {
                break;
            }
            match tokio::time::timeout(TAKE_WITHIN, take(store, tenant, wish)).await {
                Ok(Ok(grant)) => windows.granted(tenant, grant, now),
                failed => {
                    tracing::warn!(
                        ?failed,
                        "could not share a tenant's request count with other nodes; this node counts alone for a second"
                    );
                    self.alone_until
                        .store(now.plus_ms(ALONE_MS).as_i64(), Relaxed);
                }
            }
        }
        windows.count(tenant, limit, now)
    }

    fn is_alone(&self, now: Millis) -> bool {
        now.as_i64() < self.alone_until.load(Relaxed)
    }
}

/// Takes a block out of the current window, or begins a window.
async fn take(store: &Store, tenant: TenantId, wish: BlockRequest) -> Result<BlockGrant, DbErr> {
    let running = format!(
        "w.started_at > excluded.started_at + $5 - {WINDOW_MS} AND w.started_at <= excluded.started_at + $5"
    );
    let block = |taken: &str| {
        format!("LEAST(CAST($2 AS BIGINT), GREATEST(CAST($3 AS BIGINT) - {taken}, 0))")
    };
    let (new, more) = (block("CAST($4 AS BIGINT)"), block("w.taken - $4"));
    let now = "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)";
    let sql = format!(
        "INSERT INTO rate_windows AS w (tenant_id, started_at, taken, granted) \
         SELECT $1, {now} - CAST($5 AS BIGINT), CAST($4 AS BIGINT) + {new}, {new} \
         ON CONFLICT (tenant_id) DO UPDATE SET \
         started_at = CASE WHEN {running} THEN w.started_at ELSE excluded.started_at END, \
         taken = CASE WHEN {running} THEN w.taken + $4 + {more} ELSE excluded.taken END, \
         granted = CASE WHEN {running} THEN {more} ELSE excluded.granted END \
         RETURNING taken, granted, {now} - started_at AS age_ms"
    );
    let values = [
        Value::from(tenant.to_string()),
        i64::from(wish.block).into(),
        i64::from(wish.most).into(),
        i64::from(wish.counted).into(),
        wish.age_ms.into(),
    ];
    let statement = Statement::from_sql_and_values(store.backend(), sql, values);
    let row = store.writer().query_one_raw(statement).await?;
    let row = row.ok_or_else(|| DbErr::RecordNotFound("a window".to_owned()))?;
    let number = |name| {
        let number: i64 = row.try_get("", name)?;
        Ok::<u32, DbErr>(u32::try_from(number.max(0)).unwrap_or(u32::MAX))
    };
    Ok(BlockGrant {
        block: number("granted")?,
        taken: number("taken")?,
        age_ms: row.try_get("", "age_ms")?,
    })
}
