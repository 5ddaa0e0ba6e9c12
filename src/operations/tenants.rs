//! Tenants: create, change, suspend, and the secret that signs their function requests.

pub mod activity;

use std::collections::HashMap;

use dikala_entities::{
    AuditAction, MINUTES_MAX, Millis, OfTenant, Plan, Secret, SecretPlace, TenantId,
    credit_account, session, store::Transaction, tenant,
};
use rand::{RngExt, distr::Alphanumeric};
use sea_orm::{
    ActiveModelTrait,
    ActiveValue::Set,
    ColumnTrait, Condition, ConnectionTrait, DbErr, EntityTrait, ExprTrait, IntoActiveModel,
    QueryFilter, QueryOrder, QuerySelect, Select,
    sea_query::{Expr, Func, LikeExpr},
};
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use super::{
    OperationContext, PageRange,
    list::{lists, rows},
    name,
};
use crate::{
    audit::AuditChange,
    http::{
        answer::Created,
        error::{ApiError, Missing},
        extract::{FormFields, Id, OperatorQuery, RequestBody, integer, word},
        route::OPERATORS_BASE,
    },
    pages::form::{Fields, Shape},
};

pub const LOW_CREDIT_THRESHOLD_DEFAULT: i64 = 30;
const FUNCTION_SECRET_CHARS: usize = 40;
/// Accounts per query.
const VIEWED_AT_ONCE: usize = 500;
/// Fields of a response that are ignored in an update.
pub const READ_ONLY: &[&str] = &["id", "balanceMinutes", "createdAt", "updatedAt"];
/// Fields of a response that an update may contain only unchanged.
pub const KEPT: &[&str] = &["suspendedAt"];

/// The input of [`create`] and [`update`].
#[derive(Clone, Debug, ToSchema)]
#[schema(rename_all = "camelCase", example = json!({"name": "Kopi Senja", "plan": "business"}))]
pub struct TenantInput {
    #[schema(min_length = 1, max_length = 120)]
    name: String,
    #[schema(nullable, default = "starter")]
    plan: Plan,
    /// Requests a minute; the plan's if left out.
    #[schema(minimum = 1, maximum = 1_000_000_000)]
    rate_limit: Option<i64>,
    /// Minutes below which `credits.low` is announced.
    #[schema(nullable, default = 30, minimum = 0, maximum = 1_000_000_000)]
    low_credit_threshold: i64,
    /// Calls at the same time; the plan's if left out.
    #[schema(minimum = 1, maximum = 1_000_000_000)]
    max_concurrent_calls: Option<i64>,
}

/// The fields of [`TenantInput`] in a form.
pub const FIELDS: &Fields = &[
    ("name", Shape::Text),
    ("plan", Shape::Optional),
    ("rateLimit", Shape::Number),
    ("lowCreditThreshold", Shape::Number),
    ("maxConcurrentCalls", Shape::Number),
];

impl TenantInput {
    /// Reads a new tenant, or the changes of the one that is shown as `now`.
    fn read(form: &FormFields, now: Option<&TenantView>) -> Result<Self, ApiError> {
        form.read(READ_ONLY, |form| {
            let suspended_at = now.and_then(|now| now.suspended_at);
            form.unchanged(
                "suspendedAt",
                &suspended_at,
                "is changed with POST …/suspend and …/resume",
            );
            let current = now.map(|now| now.name.clone());
            let name = form.required("name", current, name);
            let plan = now.map(|now| now.plan);
            let plan = form.defaulted("plan", plan, Plan::Starter, word("a plan"));
            let rate_limit = now.and_then(|now| now.rate_limit);
            let rate_limit = form.optional("rateLimit", rate_limit, integer(1, MINUTES_MAX));
            let threshold = now.map(|now| now.low_credit_threshold);
            let calls = now.and_then(|now| now.max_concurrent_calls);
            let low_credit_threshold = form.defaulted(
                "lowCreditThreshold",
                threshold,
                LOW_CREDIT_THRESHOLD_DEFAULT,
                integer(0, MINUTES_MAX),
            );
            let max_concurrent_calls =
                form.optional("maxConcurrentCalls", calls, integer(1, MINUTES_MAX));
            Some(Self {
                name: name?,
                plan,
                rate_limit,
                low_credit_threshold,
                max_concurrent_calls,
            })
        })
    }
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

lists! {
    /// A page of tenants, oldest first.
    TenantList { tenants: TenantView, "tenants" }
}

/// Creates a tenant with an empty account and a function secret.
pub async fn create(
    context: OperationContext,
    body: RequestBody,
) -> Result<Created<TenantView>, ApiError> {
    let input = TenantInput::read(&body.form()?, None)?;
    let id = TenantId::new(context.now);
    let secret = new_function_secret();
    let tenant = tenant::Model {
        id,
        name: input.name,
        plan: input.plan,
        rate_limit: input.rate_limit,
        max_concurrent_calls: input.max_concurrent_calls,
        function_secret: context
            .vault()?
            .seal(SecretPlace::FunctionSecret, id, &secret),
        suspended_at: None,
        created_at: context.now,
        updated_at: context.now,
    };
    let account = credit_account::Model::empty(id, input.low_credit_threshold);
    let mut write = context.begin().await?;
    tenant::Entity::insert(tenant.clone().into_active_model())
        .exec_without_returning(&*write)
        .await?;
    credit_account::Entity::insert(account.clone().into_active_model())
        .exec_without_returning(&*write)
        .await?;
    let change = AuditChange::new(AuditAction::TenantCreate, id).with(&tenant.name);
    write.record(id, change).await?;
    let path = format!("{OPERATORS_BASE}/tenants/{id}");
    let created = TenantView::new(tenant, Some(&account));
    write.commit(Created::at(path, created)).await
}

/// Tenants, oldest first: all, or those whose id is the text or whose name contains it, regardless of case.
pub(super) fn matching(text: Option<&str>) -> Select<tenant::Entity> {
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
async fn views(
    context: &OperationContext,
    db: &impl ConnectionTrait,
    tenants: Vec<tenant::Model>,
) -> Result<Vec<TenantView>, DbErr> {
    let ids = tenants.iter().map(|tenant| tenant.id);
    let accounts = context
        .rows::<credit_account::Entity>()
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

/// A page of tenants.
pub async fn list(context: OperationContext, query: OperatorQuery) -> Result<TenantList, ApiError> {
    let (page, search) = query.0.read(&[], |form| {
        let page = PageRange::read(form);
        Some((page, form.optional("q", None, name)))
    })?;
    let db = context.store().api_reader();
    let (rows, has_more) = rows(db, page, matching(search.as_deref())).await?;
    Ok(TenantList::new(
        page,
        views(&context, db, rows).await?,
        has_more,
    ))
}

/// All matching tenants, oldest first.
pub async fn all(
    context: OperationContext,
    search: Option<&str>,
) -> Result<Vec<TenantView>, ApiError> {
    let db = context.store().reader();
    let mut all = Vec::new();
    let tenants = matching(search).all(db).await?;
    for some in tenants.chunks(VIEWED_AT_ONCE) {
        all.extend(views(&context, db, some.to_vec()).await?);
    }
    Ok(all)
}

/// One tenant.
pub async fn show(context: OperationContext, id: Id<TenantId>) -> Result<TenantView, ApiError> {
    let db = context.store().api_reader();
    let tenant = context.find_tenant(db, id.0).await?;
    Ok(view(db, tenant).await?)
}

async fn view(db: &impl ConnectionTrait, tenant: tenant::Model) -> Result<TenantView, DbErr> {
    let account = credit_account::Entity::of(tenant.id).one(db).await?;
    Ok(TenantView::new(tenant, account.as_ref()))
}

/// Locks a tenant's row until the transaction ends.
async fn lock(txn: &Transaction, id: TenantId) -> Result<tenant::Model, ApiError> {
    let found = tenant::Entity::find_by_id(id).lock_exclusive();
    found
        .one(txn)
        .await?
        .ok_or(ApiError::NotFound(Missing::Tenant))
}

/// Changes a tenant. A new low-credit threshold is armed if the balance is at or above it.
pub async fn update(
    context: OperationContext,
    id: Id<TenantId>,
    body: RequestBody,
) -> Result<TenantView, ApiError> {
    let id = id.0;
    context.require_tenant(id).await?;
    let form = body.patch()?;
    let mut write = context.begin().await?;
    let before = lock(&write, id).await?;
    let shown = view(&*write, before.clone()).await?;
    let input = TenantInput::read(&form, Some(&shown))?;
    let rearmed = set_threshold(&write, id, input.low_credit_threshold).await?;
    let mut wanted = tenant::Model {
        name: input.name,
        plan: input.plan,
        rate_limit: input.rate_limit,
        max_concurrent_calls: input.max_concurrent_calls,
        ..before.clone()
    };
    if wanted != before || rearmed {
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
        wanted.updated_at = context.now;
        let row = wanted.clone().into_active_model().reset_all();
        row.update(&*write).await?;
        write.record(id, change).await?;
    }
    let shown = view(&*write, wanted).await?;
    let shown = write.commit(shown).await?;
    context.forget_keys();
    Ok(shown)
}

/// Returns true if the threshold changed.
async fn set_threshold(txn: &Transaction, tenant: TenantId, threshold: i64) -> Result<bool, DbErr> {
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

/// Suspends a tenant and ends its members' sessions. A repeat changes nothing.
pub async fn suspend(
    context: OperationContext,
    id: Id<TenantId>,
    body: RequestBody,
) -> Result<TenantView, ApiError> {
    set_suspended(&context, id.0, &body, Some(context.now)).await
}

/// Lifts a suspension. A repeat changes nothing.
pub async fn resume(
    context: OperationContext,
    id: Id<TenantId>,
    body: RequestBody,
) -> Result<TenantView, ApiError> {
    set_suspended(&context, id.0, &body, None).await
}

async fn set_suspended(
    context: &OperationContext,
    id: TenantId,
    body: &RequestBody,
    suspended_at: Option<Millis>,
) -> Result<TenantView, ApiError> {
    context.require_tenant(id).await?;
    body.optional_form()?.expect_empty()?;
    let mut write = context.begin().await?;
    let mut tenant = lock(&write, id).await?;
    if tenant.suspended_at.is_some() != suspended_at.is_some() {
        (tenant.suspended_at, tenant.updated_at) = (suspended_at, context.now);
        let row = tenant.clone().into_active_model().reset_all();
        row.update(&*write).await?;
        session::Entity::delete_many()
            .filter(session::Column::TenantId.eq(id))
            .exec(&*write)
            .await?;
        let action = match suspended_at {
            Some(_) => AuditAction::TenantSuspend,
            None => AuditAction::TenantResume,
        };
        write.record(id, AuditChange::new(action, id)).await?;
    }
    let shown = view(&*write, tenant).await?;
    let shown = write.commit(shown).await?;
    context.forget_keys();
    Ok(shown)
}

/// The secret that signs the tenant's function requests, in the clear.
#[derive(Clone, Debug, Serialize)]
pub struct FunctionSecret {
    #[serde(serialize_with = "exposed")]
    pub secret: Secret,
}

fn exposed<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.expose())
}

/// Shows the function secret. The audit records each reading.
pub async fn function_secret(
    context: OperationContext,
    id: Id<TenantId>,
) -> Result<FunctionSecret, ApiError> {
    let mut write = context.begin().await?;
    let tenant = context.find_tenant(&*write, id.0).await?;
    let opened = context
        .vault()?
        .open(SecretPlace::FunctionSecret, id.0, &tenant.function_secret);
    let secret = opened.map_err(|error| {
        tracing::error!(%error, tenant = %id.0, "a function secret cannot be opened");
        ApiError::Unreadable(error.to_string())
    })?;
    let change = AuditChange::new(AuditAction::FunctionSecretShow, id.0);
    write.record(id.0, change).await?;
    write.commit(FunctionSecret { secret }).await
}

/// Replaces the function secret; the old one is invalid at once.
pub async fn rotate_function_secret(
    context: OperationContext,
    id: Id<TenantId>,
) -> Result<FunctionSecret, ApiError> {
    let secret = new_function_secret();
    let mut write = context.begin().await?;
    let mut tenant = context
        .find_tenant(&*write, id.0)
        .await?
        .into_active_model();
    let sealed = context
        .vault()?
        .seal(SecretPlace::FunctionSecret, id.0, &secret);
    tenant.function_secret = Set(sealed);
    tenant.updated_at = Set(context.now);
    tenant.update(&*write).await?;
    let change = AuditChange::new(AuditAction::FunctionSecretRotate, id.0);
    write.record(id.0, change).await?;
    write.commit(FunctionSecret { secret }).await
}

fn new_function_secret() -> Secret {
    let characters = rand::rng()
        .sample_iter(Alphanumeric)
        .take(FUNCTION_SECRET_CHARS);
    Secret::new(characters.map(char::from).collect::<String>())
}
