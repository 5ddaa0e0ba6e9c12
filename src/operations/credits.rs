//! A tenant's minutes: the balance, its transactions, and bookings. Only the ledger moves minutes. A booking is idempotent
//! by its reference, as a payment gateway's repeated callbacks require.

use dikala_actors::ledger::{Credit, CreditBooking, LedgerError};
use dikala_entities::{
    CallId, MINUTES_MAX, Millis, OfTenant, TenantId, TransactionId, TransactionType,
    credit_account, credit_transaction,
};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbBackend, DbErr, FromQueryResult, QueryFilter, QueryOrder,
    QuerySelect, Select,
    sea_query::{Expr, SimpleExpr},
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{OperationContext, PageRange, list::lists};
use crate::{
    audit::AuditChange,
    http::{
        answer::ApiAnswer,
        error::{ApiError, Missing},
        extract::{FormFields, Id, OperatorQuery, Query, RequestBody, integer, line, word},
        field::{FieldCode, ValueFault},
        route::OPERATORS_BASE,
    },
};

const TEXT_CHARS_MAX: usize = 255;

/// The tenant's minutes. Minutes that running calls hold are still in the balance; those that have begun are used.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Balance, example = json!({"balanceMinutes": 480, "lifetimePurchasedMinutes": 1000, "lifetimeUsedMinutes": 520}))]
pub struct BalanceView {
    balance_minutes: i64,
    lifetime_purchased_minutes: i64,
    lifetime_used_minutes: i64,
}

/// A tenant's minutes.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({
    "balanceMinutes": 480, "availableMinutes": 478, "heldMinutes": 2, "lifetimePurchasedMinutes": 1000,
    "lifetimeUsedMinutes": 520
}))]
pub struct Credits {
    /// Those that running calls hold are still in it.
    pub balance_minutes: i64,
    pub available_minutes: i64,
    pub held_minutes: i64,
    pub lifetime_purchased_minutes: i64,
    pub lifetime_used_minutes: i64,
}

/// A movement of the balance.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Transaction, example = json!({
    "id": "txn_01k9zv3m8rj2q4w6y8a0c2e4g6", "type": "purchase", "minutes": 500, "balanceAfterMinutes": 980,
    "callId": null, "description": "January", "reference": "invoice-2026-001", "createdAt": "2026-01-15T03:31:34.000Z"
}))]
pub struct TransactionView {
    pub id: TransactionId,
    #[serde(rename = "type")]
    pub kind: TransactionType,
    /// Signed.
    pub minutes: i64,
    pub balance_after_minutes: i64,
    pub call_id: Option<CallId>,
    pub description: Option<String>,
    pub reference: Option<String>,
    pub created_at: Millis,
}

lists! {
    /// A page of movements, newest first.
    TransactionList { transactions: TransactionView, "transactions": {
        "id": "txn_01k9zv3m8rj2q4w6y8a0c2e4g6", "type": "usage", "minutes": -2, "balanceAfterMinutes": 480,
        "callId": "call_01k9zv3m8rj2q4w6y8a0c2e4g6", "description": null, "reference": null,
        "createdAt": "2026-01-15T03:31:34.000Z"
    } }
}

/// A booking.
#[expect(dead_code, reason = "the description of what is read field by field")]
#[derive(Clone, Debug, ToSchema)]
#[schema(as = TransactionInput, example = json!({"minutes": 500, "type": "purchase", "reference": "invoice-2026-001"}))]
pub struct TransactionInput {
    /// Negative for an adjustment that takes minutes away; never 0.
    #[schema(minimum = -1_000_000_000, maximum = 1_000_000_000)]
    pub minutes: i64,
    /// `purchase`, `bonus`, `refund` or `adjustment`; calls book `usage`.
    #[schema(rename = "type", nullable, default = "purchase")]
    pub kind: TransactionType,
    /// The same reference is booked once.
    #[schema(min_length = 1, max_length = 255)]
    pub reference: Option<String>,
    #[schema(min_length = 1, max_length = 255)]
    pub description: Option<String>,
}

impl From<credit_transaction::Model> for TransactionView {
    fn from(row: credit_transaction::Model) -> Self {
        Self {
            id: row.id,
            kind: row.kind,
            minutes: row.minutes,
            balance_after_minutes: row.balance_after,
            call_id: row.call_id,
            description: row.description,
            reference: row.reference,
            created_at: row.created_at,
        }
    }
}

/// An account, and the minutes of running calls that have begun since they were counted.
#[derive(Debug, FromQueryResult)]
struct AccountNow {
    #[sea_orm(nested)]
    account: credit_account::Model,
    begun: i64,
}

/// The minutes that have begun and are held: the ledger counts them when their call asks for more, or ends.
fn begun(backend: DbBackend, now: Millis) -> SimpleExpr {
    let (least, greatest, time) = match backend {
        DbBackend::Postgres => ("LEAST", "GREATEST", "$1"),
        _ => ("MIN", "MAX", "?"),
    };
    let sql = format!(
        "(SELECT CAST(COALESCE(SUM({least}(h.held, {greatest}(0, ({time} - c.answered_at) / 60000 + 1 - h.used))), 0) AS BIGINT) \
         FROM credit_holds h JOIN calls c ON c.id = h.call_id WHERE h.tenant_id = credit_accounts.tenant_id \
         AND h.settled_at IS NULL AND c.outcome IS NULL AND c.answered_at IS NOT NULL)"
    );
    Expr::cust_with_values(sql, [now.as_i64()])
}

/// The tenant's account. Minutes that have begun count as used. An account that is not there yet has neither bought nor used any.
pub async fn account(
    db: &impl ConnectionTrait,
    tenant: TenantId,
    now: Millis,
) -> Result<credit_account::Model, DbErr> {
    let begun = begun(db.get_database_backend(), now);
    let found = credit_account::Entity::of(tenant)
        .column_as(begun, "begun")
        .into_model::<AccountNow>()
        .one(db)
        .await?;
    let Some(AccountNow { account, begun }) = found else {
        return Ok(credit_account::Model::empty(tenant, 0));
    };
    Ok(credit_account::Model {
        held: account.held - begun,
        used: account.used + begun,
        ..account
    })
}

/// The tenant's own balance.
pub async fn balance(context: OperationContext) -> Result<BalanceView, ApiError> {
    let db = context.store().api_reader();
    let account = account(db, context.tenant()?, context.now).await?;
    Ok(BalanceView {
        balance_minutes: account.available + account.held,
        lifetime_purchased_minutes: account.purchased,
        lifetime_used_minutes: account.used,
    })
}

/// A tenant's minutes.
pub async fn show(context: OperationContext, id: Id<TenantId>) -> Result<Credits, ApiError> {
    context.require_tenant(id.0).await?;
    let account = account(context.store().api_reader(), id.0, context.now).await?;
    Ok(Credits {
        balance_minutes: account.available + account.held,
        available_minutes: account.available,
        held_minutes: account.held,
        lifetime_purchased_minutes: account.purchased,
        lifetime_used_minutes: account.used,
    })
}

/// A tenant's transactions, newest first.
fn newest(tenant: TenantId) -> Select<credit_transaction::Entity> {
    credit_transaction::Entity::of(tenant).order_by_desc(credit_transaction::Column::Seq)
}

/// At most `limit` transactions, newest first, older than `before` if it is given. If the tenant has no such
/// transaction, the result is empty.
pub async fn latest(
    db: &impl ConnectionTrait,
    tenant: TenantId,
    before: Option<TransactionId>,
    limit: u64,
) -> Result<Vec<credit_transaction::Model>, DbErr> {
    let mut select = newest(tenant);
    if let Some(before) = before {
        let last = credit_transaction::Entity::of(tenant)
            .filter(credit_transaction::Column::Id.eq(before));
        let Some(last) = last.one(db).await? else {
            return Ok(Vec::new());
        };
        select = select.filter(credit_transaction::Column::Seq.lt(last.seq));
    }
    select.limit(limit).all(db).await
}

/// A page of the tenant's own transactions.
pub async fn own_transactions(
    context: OperationContext,
    query: Query,
) -> Result<TransactionList, ApiError> {
    page(&context, context.tenant()?, &query.0).await
}

/// A page of a tenant's transactions.
pub async fn transactions(
    context: OperationContext,
    id: Id<TenantId>,
    query: OperatorQuery,
) -> Result<TransactionList, ApiError> {
    context.require_tenant(id.0).await?;
    page(&context, id.0, &query.0).await
}

async fn page(
    context: &OperationContext,
    tenant: TenantId,
    query: &FormFields,
) -> Result<TransactionList, ApiError> {
    let page = query.read(&[], |form| Some(PageRange::read(form)))?;
    let db = context.store().api_reader();
    let last: Option<i64> = newest(tenant)
        .select_only()
        .column(credit_transaction::Column::Seq)
        .into_tuple()
        .one(db)
        .await?;
    // Numbers begin at 1 and have no gaps, so the offset is subtracted and no row is read to skip it.
    let first = last.unwrap_or(0).saturating_sub(page.offset);
    let select = newest(tenant).filter(credit_transaction::Column::Seq.lte(first));
    let mut rows = page.limit(select).all(db).await?;
    let has_more = page.has_more(&mut rows);
    let transactions = rows.into_iter().map(TransactionView::from).collect();
    Ok(TransactionList::new(page, transactions, has_more))
}

/// One transaction.
pub async fn transaction(
    context: OperationContext,
    id: Id<TransactionId>,
) -> Result<TransactionView, ApiError> {
    let found = context
        .rows::<credit_transaction::Entity>()
        .filter(credit_transaction::Column::Id.eq(id.0))
        .one(context.store().api_reader())
        .await?;
    let row = found.ok_or(ApiError::NotFound(Missing::Transaction))?;
    Ok(row.into())
}

fn read(body: &RequestBody, tenant: TenantId) -> Result<Credit, ApiError> {
    body.form()?.read(&[], |form| {
        let minutes = form.required("minutes", None, integer(-MINUTES_MAX, MINUTES_MAX));
        let purchase = TransactionType::Purchase;
        let kind = form.defaulted("type", None, purchase, word("a type"));
        let reference = form.optional("reference", None, line(TEXT_CHARS_MAX));
        let description = form.optional("description", None, line(TEXT_CHARS_MAX));
        if kind == TransactionType::Usage {
            let predicate = "must not be usage, which calls book";
            form.fault("type", ValueFault::new(FieldCode::NotAllowed, predicate));
        }
        let minutes = minutes?;
        if minutes == 0 {
            let predicate = "must not be 0";
            form.fault("minutes", ValueFault::new(FieldCode::NotAllowed, predicate));
        } else if minutes < 0 && kind != TransactionType::Adjustment {
            let predicate = "must be at least 1; only an adjustment takes minutes away";
            form.fault("minutes", ValueFault::new(FieldCode::TooSmall, predicate));
        }
        Some(Credit {
            tenant,
            minutes,
            kind,
            reference,
            description,
        })
    })
}

/// Books minutes: 201 for what was booked now, 200 for what was booked before.
pub async fn book(
    context: OperationContext,
    id: Id<TenantId>,
    body: RequestBody,
) -> Result<ApiAnswer, ApiError> {
    context.require_tenant(id.0).await?;
    let credit = read(&body, id.0)?;
    let change = AuditChange::booking(&credit);
    let audit = context.entry(id.0, change);
    let claimed = context.claim.as_ref().map(|claim| claim.claimed().clone());
    let kept = move |booked: &CreditBooking| Some(claimed.as_ref()?.kept(&answer(booked)));
    let ledger = &context.serving()?.node.ledger;
    let booked = ledger.credit(credit, Some(audit), kept).await;
    let answer = answer(&booked.map_err(not_booked)?);
    if let Some(claim) = context.claim {
        claim.committed(&answer);
    }
    Ok(answer)
}

fn answer(booked: &CreditBooking) -> ApiAnswer {
    let shown = TransactionView::from(booked.transaction.clone());
    if !booked.is_new {
        return ApiAnswer::ok(&shown);
    }
    let path = format!("{OPERATORS_BASE}/transactions/{}", shown.id);
    ApiAnswer::created_at(path, &shown)
}

fn not_booked(error: LedgerError) -> ApiError {
    match error {
        LedgerError::NoAccount => ApiError::NotFound(Missing::Tenant),
        LedgerError::TooFew { available } => ApiError::InsufficientMinutes(available),
        LedgerError::ReferenceReused => ApiError::ReferenceConflict,
        LedgerError::TooMany => {
            let predicate = "is more than a balance can hold with what was bought before";
            ApiError::field(ValueFault::new(FieldCode::TooLarge, predicate).in_field("minutes"))
        }
        LedgerError::Conflict => ApiError::IdempotencyInProgress,
        LedgerError::Busy => ApiError::Unavailable,
        LedgerError::Unavailable => ApiError::OutcomeUnknown,
        error => {
            tracing::error!(%error, "a booking was checked and refused all the same");
            ApiError::Internal
        }
    }
}
