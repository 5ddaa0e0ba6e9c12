//! `/tenants`: making, changing and suspending them.

use actix_web::web::Data;
use dikala_entities::{MINUTES_MAX, Plan, TenantId};
use sea_orm::ConnectionTrait;
use serde_json::Value;
use utoipa::ToSchema;

use super::{
    desk::{OperatorContext, OperatorUnit},
    list::{lists, rows},
    refused::{name_of, refused},
};
use crate::{
    admin::{
        find_tenant, lock_tenant,
        tenants::{self, LOW_CREDIT_THRESHOLD_DEFAULT, TenantChanges, TenantView},
    },
    api::PageRange,
    http::{
        answer::ApiAnswer,
        error::ApiError,
        extract::{
            FormFields, Id, OperatorQuery, OperatorRequest, ParseResult, RequestBody, integer, word,
        },
        route::OPERATORS_BASE,
    },
};

/// Fields of a response that are ignored in an update.
pub const READ_ONLY: &[&str] = &["id", "balanceMinutes", "createdAt", "updatedAt"];
/// Fields of a response that an update may contain only unchanged.
pub const KEPT: &[&str] = &["suspendedAt"];

/// A new tenant.
#[derive(Clone, Debug, ToSchema)]
#[schema(rename_all = "camelCase", as = TenantInput, example = json!({"name": "Kopi Senja", "plan": "business"}))]
pub struct TenantDraft {
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

lists! {
    /// A page of tenants, oldest first.
    TenantList { tenants: TenantView, "tenants" }
}

impl TenantDraft {
    fn read(form: &FormFields, now: Option<&TenantView>) -> Result<Self, ApiError> {
        form.read(READ_ONLY, |form| {
            let own = |value: &Value| -> ParseResult<i64> { integer(1, MINUTES_MAX)(value) };
            let suspended_at = now.and_then(|now| now.suspended_at);
            form.unchanged(
                "suspendedAt",
                &suspended_at,
                "is changed with POST …/suspend and …/resume",
            );
            let name = now.map(|now| now.name.clone());
            let name = form.required("name", name, name_of);
            let plan = now.map(|now| now.plan);
            let plan = form.defaulted("plan", plan, Plan::Starter, word("a plan"));
            let rate_limit = form.optional("rateLimit", now.and_then(|now| now.rate_limit), own);
            let threshold = form.defaulted(
                "lowCreditThreshold",
                now.map(|now| now.low_credit_threshold),
                LOW_CREDIT_THRESHOLD_DEFAULT,
                integer(0, MINUTES_MAX),
            );
            let calls = now.and_then(|now| now.max_concurrent_calls);
            let calls = form.optional("maxConcurrentCalls", calls, own);
            Some(Self {
                name: name?,
                plan,
                rate_limit,
                low_credit_threshold: threshold,
                max_concurrent_calls: calls,
            })
        })
    }

    fn changes(self) -> TenantChanges {
        TenantChanges {
            name: Some(self.name),
            plan: Some(self.plan),
            // 0 removes the tenant's own limit.
            rate_limit: Some(self.rate_limit.unwrap_or(0)),
            low_credit_threshold: Some(self.low_credit_threshold),
            max_concurrent_calls: Some(self.max_concurrent_calls.unwrap_or(0)),
        }
    }
}

/// `GET /tenants`
pub async fn list(
    desk: Data<OperatorContext>,
    filters: OperatorQuery,
) -> Result<ApiAnswer, ApiError> {
    Ok(ApiAnswer::ok(
        &page(desk.node.store.api_reader(), &filters.0).await?,
    ))
}

pub async fn page(db: &impl ConnectionTrait, asked: &FormFields) -> Result<TenantList, ApiError> {
    let (page, wanted) = asked.read(&[], |form| {
        let page = PageRange::read(form);
        Some((page, form.optional("q", None, name_of)))
    })?;
    let (rows, has_more) = rows(db, page, tenants::matching(wanted.as_deref())).await?;
    let views = tenants::views(db, rows).await.map_err(refused)?;
    Ok(TenantList::new(page, views, has_more))
}

/// `POST /tenants`
pub async fn create(
    desk: Data<OperatorContext>,
    operator: OperatorRequest,
    body: RequestBody,
) -> Result<ApiAnswer, ApiError> {
    let draft = TenantDraft::read(&body.form()?, None)?;
    let unit = OperatorUnit::begin(&desk, &operator).await?;
    let (vault, by) = (&desk.node.vault, &operator.origin);
    let made = tenants::create(unit.txn(), vault, draft.changes(), by, desk.now()).await;
    let made = made.map_err(refused)?;
    let path = format!("{OPERATORS_BASE}/tenants/{}", made.id);
    unit.commit(ApiAnswer::created_at(path, &made)).await
}

/// `GET /tenants/{id}`
pub async fn show(desk: Data<OperatorContext>, id: Id<TenantId>) -> Result<ApiAnswer, ApiError> {
    Ok(ApiAnswer::ok(
        &one(desk.node.store.api_reader(), id.0).await?,
    ))
}

/// One tenant, or 404.
pub async fn one(db: &impl ConnectionTrait, id: TenantId) -> Result<TenantView, ApiError> {
    tenants::show(db, id).await.map_err(refused)
}

/// `PATCH /tenants/{id}`
pub async fn update(
    desk: Data<OperatorContext>,
    operator: OperatorRequest,
    id: Id<TenantId>,
    body: RequestBody,
) -> Result<ApiAnswer, ApiError> {
    let there = find_tenant(desk.node.store.api_reader(), id.0).await;
    there.map_err(refused)?;
    let form = body.patch()?;
    let unit = OperatorUnit::begin(&desk, &operator).await?;
    let changed = async {
        lock_tenant(unit.txn(), id.0).await.map_err(refused)?;
        let now = tenants::show(unit.txn(), id.0).await.map_err(refused)?;
        let changes = TenantDraft::read(&form, Some(&now))?.changes();
        let changed = tenants::update(unit.txn(), id.0, changes, &operator.origin, desk.now());
        changed.await.map_err(refused)
    };
    let answer = ApiAnswer::ok(&changed.await?);
    let answer = unit.commit(answer).await?;
    desk.tenants.gate.forget_keys();
    Ok(answer)
}

/// `POST /tenants/{id}/suspend`
pub async fn suspend(
    desk: Data<OperatorContext>,
    operator: OperatorRequest,
    id: Id<TenantId>,
    body: RequestBody,
) -> Result<ApiAnswer, ApiError> {
    set_suspended(&desk, &operator, id.0, &body, true).await
}

/// `POST /tenants/{id}/resume`
pub async fn resume(
    desk: Data<OperatorContext>,
    operator: OperatorRequest,
    id: Id<TenantId>,
    body: RequestBody,
) -> Result<ApiAnswer, ApiError> {
    set_suspended(&desk, &operator, id.0, &body, false).await
}

async fn set_suspended(
    desk: &OperatorContext,
    operator: &OperatorRequest,
    id: TenantId,
    body: &RequestBody,
    suspended: bool,
) -> Result<ApiAnswer, ApiError> {
    let there = find_tenant(desk.node.store.api_reader(), id).await;
    there.map_err(refused)?;
    body.optional_form()?.expect_empty()?;
    let unit = OperatorUnit::begin(desk, operator).await?;
    let by = &operator.origin;
    let changed = tenants::set_suspended(unit.txn(), id, suspended, by, desk.now()).await;
    let answer = ApiAnswer::ok(&changed.map_err(refused)?);
    let answer = unit.commit(answer).await?;
    desk.tenants.gate.forget_keys();
    Ok(answer)
}
