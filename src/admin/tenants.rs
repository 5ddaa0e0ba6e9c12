//! Tenants: create, change, suspend, and the secret that signs their function requests.

use std::collections::HashMap;

use dikala_entities::{
    AuditAction, Millis, Plan, Secret, SecretPlace, Store, TenantId, Vault, credit_account,
    session, store::Transaction, tenant,
};
use rand::{RngExt, distr::Alphanumeric};
use sea_orm::{
    ActiveModelTrait,
    ActiveValue::Set,
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, ExprTrait, IntoActiveModel, QueryFilter,
    QueryOrder, Select,
    sea_query::{Expr, Func, LikeExpr},
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{AdminError, TransactionScope, find_tenant, in_range, lock_tenant, name};
use crate::audit::{AuditChange, ChangeOrigin};

pub const LOW_CREDIT_THRESHOLD_DEFAULT: i64 = 30;
const FUNCTION_SECRET_CHARS: usize = 40;
/// Accounts per query.
const VIEWED_AT_ONCE: usize = 500;

/// An operator's changes to a tenant. Absent fields stay as they are; 0 removes a limit of the tenant's own.
#[derive(Clone, Debug, Default)]
pub struct TenantChanges {
    pub name: Option<String>,
    pub plan: Option<Plan>,
    pub rate_limit: Option<i64>,
    pub low_credit_threshold: Option<i64>,
    pub max_concurrent_calls: Option<i64>,
}

/// A tenant in the operators' views.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Tenant, example = json!({
    "id": "ten_01k9zv3m8rj2q4w6y8a0c2e4g6", "name": "Kopi Senja", "plan": "business", "rateLimit": null,
    "lowCreditThreshold": 30, "maxConcurrentCalls": null, "balanceMinutes": 480, "suspendedAt": null,
    "createdAt": "2026-01-15T03:30:00.000Z", "updatedAt": "2026-01-15T03:30:00.000Z"
}))]
pub struct TenantView {
    pub id: TenantId,
    pub name: String,
    pub plan: Plan,
    /// Requests a minute; null: the plan's limit.
    pub rate_limit: Option<i64>,
    pub low_credit_threshold: i64,
    /// Null: the plan's limit.
    pub max_concurrent_calls: Option<i64>,
    pub balance_minutes: i64,
    pub suspended_at: Option<Millis>,
    pub created_at: Millis,
    pub updated_at: Millis,
}

impl TenantView {
    fn new(tenant: tenant::Model, account: Option<&credit_account::Model>) -> Self {
        Self {
            id: tenant.id,
            name: tenant.name,
            plan: tenant.plan,
            rate_limit: tenant.rate_limit,
            low_credit_threshold: account.map_or(LOW_CREDIT_THRESHOLD_DEFAULT, |a| a.low_threshold),
            max_concurrent_calls: tenant.max_concurrent_calls,
            balance_minutes: account.map_or(0, |account| account.available + account.held),
            suspended_at: tenant.suspended_at,
            created_at: tenant.created_at,
            updated_at: tenant.updated_at,
        }
    }
}

/// Creates a tenant with an empty account and a function secret.
pub async fn create(
    work: impl Into<TransactionScope<'_>>,
    vault: &Vault,
    changes: TenantChanges,
    by: &ChangeOrigin,
    now: Millis,
) -> Result<TenantView, AdminError> {
    let id = TenantId::new(now);
    let threshold = changes
        .low_credit_threshold
        .unwrap_or(LOW_CREDIT_THRESHOLD_DEFAULT);
    let tenant = tenant::Model {
        id,
        name: name("name", changes.name.as_deref().unwrap_or_default())?,
        plan: changes.plan.unwrap_or(Plan::Starter),
        rate_limit: limit("rate-limit", changes.rate_limit)?,
        max_concurrent_calls: limit("max-concurrent-calls", changes.max_concurrent_calls)?,
        function_secret: vault.seal(SecretPlace::FunctionSecret, id, &new_function_secret()),
        suspended_at: None,
        created_at: now,
        updated_at: now,
    };
    let account = credit_account::Model::empty(id, in_range("low-credit-threshold", threshold, 0)?);
    let txn = work.into().begin().await?;
    tenant::Entity::insert(tenant.clone().into_active_model())
        .exec_without_returning(&*txn)
        .await?;
    credit_account::Entity::insert(account.clone().into_active_model())
        .exec_without_returning(&*txn)
        .await?;
    let change = AuditChange::new(AuditAction::TenantCreate, id).with(&tenant.name);
    by.write(&*txn, id, change, now).await?;
    txn.commit().await?;
    Ok(TenantView::new(tenant, Some(&account)))
}

/// Tenants, oldest first: all, or those whose id is the text or whose name contains it, regardless of case.
pub fn matching(text: Option<&str>) -> Select<tenant::Entity> {
    let select = tenant::Entity::find().order_by_asc(tenant::Column::Id);
    let Some(text) = text else {
        return select;
    };
    let name = || Expr::col(tenant::Column::Name);
    // SQLite lower-cases ASCII letters only, so the exact text is tried too.
    let named = name().like(holding(text));
    let named_small = Expr::expr(Func::lower(name())).like(holding(&text.to_lowercase()));
    let is = text
        .parse()
        .ok()
        .map(|id: TenantId| tenant::Column::Id.eq(id));
    select.filter(Condition::any().add(named).add(named_small).add_option(is))
}

/// A pattern for texts that contain this one.
fn holding(text: &str) -> LikeExpr {
    let special = |c: char| ['\\', '%', '_'].contains(&c);
    let literal = text
        .chars()
        .flat_map(|c| special(c).then_some('\\').into_iter().chain([c]));
    LikeExpr::new(format!("%{}%", literal.collect::<String>())).escape('\\')
}

/// Adds the accounts to tenants; keeps their order.
pub async fn views(
    db: &impl ConnectionTrait,
    tenants: Vec<tenant::Model>,
) -> Result<Vec<TenantView>, AdminError> {
    let ids = tenants.iter().map(|tenant| tenant.id);
    let accounts = credit_account::Entity::find()
        .filter(credit_account::Column::TenantId.is_in(ids))
        .all(db)
        .await?;
    let accounts: HashMap<TenantId, credit_account::Model> = accounts
        .into_iter()
        .map(|account| (account.tenant_id, account))
        .collect();
    let view = |tenant: tenant::Model| {
        let account = accounts.get(&tenant.id);
        TenantView::new(tenant, account)
    };
    Ok(tenants.into_iter().map(view).collect())
}

/// Lists the matching tenants, oldest first.
pub async fn list(store: &Store, search: Option<&str>) -> Result<Vec<TenantView>, AdminError> {
    let mut all = Vec::new();
    let tenants = matching(search).all(store.reader()).await?;
    for some in tenants.chunks(VIEWED_AT_ONCE) {
        all.extend(views(store.reader(), some.to_vec()).await?);
    }
    Ok(all)
}

pub async fn show(db: &impl ConnectionTrait, id: TenantId) -> Result<TenantView, AdminError> {
    let tenant = find_tenant(db, id).await?;
    let account = credit_account::Entity::find_by_id(id).one(db).await?;
    Ok(TenantView::new(tenant, account.as_ref()))
}

/// Changes a tenant. A new low-credit threshold is armed if the balance is at or above it.
pub async fn update(
    work: impl Into<TransactionScope<'_>>,
    id: TenantId,
    changes: TenantChanges,
    by: &ChangeOrigin,
    now: Millis,
) -> Result<TenantView, AdminError> {
    let txn = work.into().begin().await?;
    let before = lock_tenant(&*txn, id).await?;
    let wanted = wanted(&before, &changes)?;
    let rearmed = match changes.low_credit_threshold {
        Some(threshold) => set_threshold(&txn, id, threshold).await?,
        None => false,
    };
    if wanted == before && !rearmed {
        return show(&*txn, id).await;
    }
    let change = AuditChange::new(AuditAction::TenantUpdate, id).fields(&[
        ("name", wanted.name != before.name),
        ("plan", wanted.plan != before.plan),
        ("rateLimit", wanted.rate_limit != before.rate_limit),
        (
            "maxConcurrentCalls",
            wanted.max_concurrent_calls != before.max_concurrent_calls,
        ),
        ("lowCreditThreshold", rearmed),
    ]);
    let tenant = tenant::Model {
        updated_at: now,
        ..wanted
    };
    tenant.into_active_model().reset_all().update(&*txn).await?;
    by.write(&*txn, id, change, now).await?;
    let shown = show(&*txn, id).await?;
    txn.commit().await?;
    Ok(shown)
}

fn wanted(before: &tenant::Model, changes: &TenantChanges) -> Result<tenant::Model, AdminError> {
    let mut tenant = before.clone();
    if let Some(new_name) = &changes.name {
        tenant.name = name("name", new_name)?;
    }
    if let Some(plan) = changes.plan {
        tenant.plan = plan;
    }
    if changes.rate_limit.is_some() {
        tenant.rate_limit = limit("rate-limit", changes.rate_limit)?;
    }
    if changes.max_concurrent_calls.is_some() {
        tenant.max_concurrent_calls = limit("max-concurrent-calls", changes.max_concurrent_calls)?;
    }
    Ok(tenant)
}

/// Returns true if the threshold changed.
async fn set_threshold(
    txn: &Transaction,
    tenant: TenantId,
    threshold: i64,
) -> Result<bool, AdminError> {
    let threshold = in_range("low-credit-threshold", threshold, 0)?;
    let balance =
        Expr::col(credit_account::Column::Available).add(Expr::col(credit_account::Column::Held));
    let changed = credit_account::Entity::update_many()
        .col_expr(credit_account::Column::LowThreshold, Expr::value(threshold))
        .col_expr(credit_account::Column::LowArmed, balance.gte(threshold))
        .col_expr(
            credit_account::Column::Version,
            Expr::col(credit_account::Column::Version).add(1),
        )
        .filter(credit_account::Column::TenantId.eq(tenant))
        .filter(credit_account::Column::LowThreshold.ne(threshold))
        .exec(txn)
        .await?;
    Ok(changed.rows_affected > 0)
}

/// Suspends a tenant and ends its members' sessions, or lifts the suspension. Idempotent.
pub async fn set_suspended(
    work: impl Into<TransactionScope<'_>>,
    id: TenantId,
    suspended: bool,
    by: &ChangeOrigin,
    now: Millis,
) -> Result<TenantView, AdminError> {
    let txn = work.into().begin().await?;
    let found = lock_tenant(&*txn, id).await?;
    if found.suspended_at.is_some() != suspended {
        let mut tenant = found.into_active_model();
        tenant.suspended_at = Set(suspended.then_some(now));
        tenant.updated_at = Set(now);
        tenant.update(&*txn).await?;
        session::Entity::delete_many()
            .filter(session::Column::TenantId.eq(id))
            .exec(&*txn)
            .await?;
        let action = match suspended {
            true => AuditAction::TenantSuspend,
            false => AuditAction::TenantResume,
        };
        by.write(&*txn, id, AuditChange::new(action, id), now)
            .await?;
    }
    let shown = show(&*txn, id).await?;
    txn.commit().await?;
    Ok(shown)
}

/// The secret that signs the tenant's function requests. The audit records each reading.
pub async fn function_secret(
    work: impl Into<TransactionScope<'_>>,
    vault: &Vault,
    id: TenantId,
    by: &ChangeOrigin,
    now: Millis,
) -> Result<Secret, AdminError> {
    let txn = work.into().begin().await?;
    let tenant = find_tenant(&*txn, id).await?;
    let secret = vault
        .open(SecretPlace::FunctionSecret, id, &tenant.function_secret)
        .map_err(|error| AdminError::Refused(error.to_string()))?;
    let change = AuditChange::new(AuditAction::FunctionSecretShow, id);
    by.write(&*txn, id, change, now).await?;
    txn.commit().await?;
    Ok(secret)
}

/// Replaces the function secret; the old one is invalid at once.
pub async fn rotate_function_secret(
    work: impl Into<TransactionScope<'_>>,
    vault: &Vault,
    id: TenantId,
    by: &ChangeOrigin,
    now: Millis,
) -> Result<Secret, AdminError> {
    let secret = new_function_secret();
    let txn = work.into().begin().await?;
    let mut tenant = find_tenant(&*txn, id).await?.into_active_model();
    tenant.function_secret = Set(vault.seal(SecretPlace::FunctionSecret, id, &secret));
    tenant.updated_at = Set(now);
    tenant.update(&*txn).await?;
    let change = AuditChange::new(AuditAction::FunctionSecretRotate, id);
    by.write(&*txn, id, change, now).await?;
    txn.commit().await?;
    Ok(secret)
}

fn new_function_secret() -> Secret {
    let characters = rand::rng()
        .sample_iter(Alphanumeric)
        .take(FUNCTION_SECRET_CHARS);
    Secret::new(characters.map(char::from).collect::<String>())
}

/// 0 removes the tenant's own limit.
fn limit(field: &str, value: Option<i64>) -> Result<Option<i64>, AdminError> {
    value
        .map(|value| in_range(field, value, 0))
        .transpose()
        .map(|value| value.filter(|value| *value > 0))
}
