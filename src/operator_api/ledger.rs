//! `/ledger`: open holds, differences, and the verification of balances.

use std::sync::Arc;

use actix_web::web::Data;
use dikala_actors::ledger::{self, Report};
use dikala_entities::{
    CallId, Millis, TenantId,
    credit_hold::{Column, Entity, Model},
};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
    Statement,
};
use serde::Serialize;
use tokio::sync::OwnedMutexGuard;
use utoipa::ToSchema;

use super::context::{LastVerification, OperatorContext};
use crate::{
    http::{
        answer::ApiAnswer,
        error::ApiError,
        extract::{RequestBody, id},
    },
    operations::{OperationContext, numbers::require_tenant},
};

/// Number of shown open holds; the oldest.
const HOLDS_SHOWN: usize = 50;
/// Number of open holds that are read to find them.
const HOLDS_MAX: u64 = 10_000;

/// Credit that a call holds which is not over.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenHold {
    pub call_id: CallId,
    pub tenant_id: TenantId,
    /// The node that runs the call.
    pub owner: String,
    /// Granted and not begun.
    pub held_minutes: i64,
    /// Begun.
    pub used_minutes: i64,
    pub created_at: Millis,
}

impl From<Model> for OpenHold {
    fn from(row: Model) -> Self {
        Self {
            call_id: row.call_id,
            tenant_id: row.tenant_id,
            owner: row.owner,
            held_minutes: row.held,
            used_minutes: row.used,
            created_at: row.created_at,
        }
    }
}

/// The result of a verification of the books.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({
    "verifiedAt": "2026-01-15T03:30:00.000Z", "tenants": 12, "transactions": 8123, "holds": 3, "differences": []
}))]
pub struct Verification {
    pub verified_at: Millis,
    pub tenants: i64,
    pub transactions: i64,
    pub holds: i64,
    /// One sentence each; none if the books are right.
    pub differences: Vec<String>,
}

impl From<LastVerification> for Verification {
    fn from(verified: LastVerification) -> Self {
        let Report {
            tenants,
            transactions,
            holds,
            differences,
        } = verified.report;
        Self {
            verified_at: verified.at,
            tenants,
            transactions,
            holds,
            differences,
        }
    }
}

/// The ledger now.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Ledger, example = json!({
    "openHolds": 1, "heldMinutes": 1, "differences": 0, "batches": 8001, "items": 8123, "lastVerification": null,
    "oldestHolds": [{"callId": "call_01k9zv3m8rj2q4w6y8a0c2e4g6", "tenantId": "ten_01k9zv3m8rj2q4w6y8a0c2e4g6", "owner": "main",
                     "heldMinutes": 1, "usedMinutes": 2, "createdAt": "2026-01-15T03:30:00.000Z"}]
}))]
pub struct LedgerStatus {
    /// Holds of calls that are not over.
    pub open_holds: i64,
    /// The minutes in open holds.
    pub held_minutes: i64,
    /// Accounts and open holds that did not add up when this process last looked, a minute ago at most.
    pub differences: usize,
    /// Transactions that this process wrote.
    pub batches: u64,
    /// The messages and writes that they committed.
    pub items: u64,
    /// Null where the books were not verified here since the start, or are being verified.
    pub last_verification: Option<Verification>,
    /// The oldest open holds, 50 at most, of 10,000 that are looked through.
    pub oldest_holds: Vec<OpenHold>,
}

/// The tenant whose books are verified; all tenants if omitted.
#[expect(dead_code, reason = "the description of what is read field by field")]
#[derive(Clone, Debug, ToSchema)]
#[schema(rename_all = "camelCase", as = VerificationInput, example = json!({"tenantId": "ten_01k9zv3m8rj2q4w6y8a0c2e4g6"}))]
pub struct VerificationInput {
    pub tenant_id: Option<TenantId>,
}

/// `GET /ledger`
pub async fn show(process: Data<OperatorContext>) -> Result<ApiAnswer, ApiError> {
    Ok(ApiAnswer::ok(&read(&process).await?))
}

/// The ledger's current state.
pub async fn read(process: &OperatorContext) -> Result<LedgerStatus, DbErr> {
    let db = process.node.store.api_reader();
    let sql = "SELECT COUNT(*) AS holds, CAST(COALESCE(SUM(held), 0) AS BIGINT) AS minutes FROM credit_holds \
               WHERE settled_at IS NULL";
    let statement = Statement::from_string(db.get_database_backend(), sql);
    let row = db.query_one_raw(statement).await?;
    let (open_holds, held_minutes) = match row {
        Some(row) => (row.try_get("", "holds")?, row.try_get("", "minutes")?),
        None => (0, 0),
    };
    let written = process.node.ledger.stats();
    let verified = process.verified.try_lock().ok();
    let verified = verified.and_then(|verified| verified.clone());
    Ok(LedgerStatus {
        open_holds,
        held_minutes,
        differences: process.node.ledger.differences(),
        batches: written.commit.count(),
        items: written.items.sum,
        last_verification: verified.map(Verification::from),
        oldest_holds: oldest(db).await?,
    })
}

/// The oldest open holds. The order is that of a partial index on open holds, so that both databases use it.
async fn oldest(db: &impl ConnectionTrait) -> Result<Vec<OpenHold>, DbErr> {
    let mut open: Vec<(Millis, CallId)> = Entity::find()
        .select_only()
        .columns([Column::CreatedAt, Column::CallId])
        .filter(Column::SettledAt.is_null())
        .order_by_asc(Column::TenantId)
        .order_by_asc(Column::CallId)
        .limit(HOLDS_MAX)
        .into_tuple()
        .all(db)
        .await?;
    open.sort_unstable();
    open.truncate(HOLDS_SHOWN);
    if open.is_empty() {
        return Ok(Vec::new());
    }
    let these = Column::CallId.is_in(open.iter().map(|(_, id)| *id));
    let mut rows = Entity::find().filter(these).all(db).await?;
    rows.sort_unstable_by_key(|row| (row.created_at, row.call_id));
    Ok(rows.into_iter().map(OpenHold::from).collect())
}

/// `POST /ledger/verify`: recomputes all balances. Runs one at a time, because each run reads all transactions.
pub async fn verify(
    process: Data<OperatorContext>,
    context: OperationContext,
    body: RequestBody,
) -> Result<Verification, ApiError> {
    let tenant: Option<TenantId> = body.optional_form()?.read(&[], |form| {
        Some(form.optional("tenantId", None, id("a tenant")))
    })?;
    let store = &process.node.store;
    if let Some(tenant) = tenant {
        require_tenant(&context, context.store().api_reader(), tenant).await?;
    }
    let last = Arc::clone(&process.verified).try_lock_owned();
    let mut last: OwnedMutexGuard<Option<LastVerification>> =
        last.map_err(|_| ApiError::VerificationRunning)?;
    let verified = LastVerification {
        at: process.now(),
        report: ledger::verify(store, tenant).await?,
    };
    if tenant.is_none() {
        *last = Some(verified.clone());
    }
    Ok(verified.into())
}
