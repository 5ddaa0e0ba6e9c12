//! `/tenants/{id}/credits`: a tenant's minutes and bookings. A booking is idempotent by its reference, as a payment
//! gateway's repeated callbacks require.

use actix_web::web::Data;
use dikala_actors::ledger::{Credit, CreditBooking, LedgerError};
use dikala_entities::{MINUTES_MAX, TenantId, TransactionId, TransactionType, credit_transaction};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use serde::Serialize;
use utoipa::ToSchema;

use super::context::OperatorContext;
use crate::{
    api::credits::{TransactionList, TransactionView, account, page_of},
    audit::AuditChange,
    http::{
        answer::ApiAnswer,
        error::{ApiError, Missing},
        extract::{Id, OperatorQuery, RequestBody, integer, line, word},
        field::{FieldCode, ValueFault},
        route::OPERATORS_BASE,
    },
    operations::{OperationContext, PageRange},
};

const TEXT_CHARS_MAX: usize = 255;

/// A tenant's minutes.
#[derive(Clone, Copy, Debug, Default, Serialize, ToSchema)]
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

/// A tenant's minutes.
pub async fn show(context: OperationContext, id: Id<TenantId>) -> Result<Credits, ApiError> {
    context.require_tenant(id.0).await?;
    let account = account(context.store().api_reader(), id.0).await?;
    let credits = account.map_or_else(Credits::default, |account| Credits {
        balance_minutes: account.available + account.held,
        available_minutes: account.available,
        held_minutes: account.held,
        lifetime_purchased_minutes: account.purchased,
        lifetime_used_minutes: account.used,
    });
    Ok(credits)
}

/// A page of a tenant's transactions.
pub async fn transactions(
    context: OperationContext,
    id: Id<TenantId>,
    query: OperatorQuery,
) -> Result<TransactionList, ApiError> {
    context.require_tenant(id.0).await?;
    let page = query.0.read(&[], |form| Some(PageRange::read(form)))?;
    Ok(page_of(context.store().api_reader(), id.0, page).await?)
}

/// One transaction.
pub async fn transaction(
    context: OperationContext,
    id: Id<TransactionId>,
) -> Result<TransactionView, ApiError> {
    let found = credit_transaction::Entity::find()
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
    process: Data<OperatorContext>,
    context: OperationContext,
    id: Id<TenantId>,
    body: RequestBody,
) -> Result<ApiAnswer, ApiError> {
    context.require_tenant(id.0).await?;
    let credit = read(&body, id.0)?;
    let change = AuditChange::booking(&credit);
    let audit = context.origin.entry(Some(id.0), change, context.now);
    let claimed = context.claim.as_ref().map(|claim| claim.claimed().clone());
    let kept = move |booked: &CreditBooking| Some(claimed.as_ref()?.kept(&answer(booked)));
    let booked = process.node.ledger.credit(credit, Some(audit), kept).await;
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
