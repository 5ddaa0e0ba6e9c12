//! Credit: the balance and its movements. Only reads; minutes move in the ledger.

use actix_web::web::Data;
use dikala_entities::{
    CallId, Millis, TransactionId, TransactionType, credit_account, credit_transaction,
};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use serde::Serialize;
use utoipa::ToSchema;

use super::{Answer, Page};
use crate::{
    error::ApiError,
    extract::{Caller, Query},
    openapi::schema,
    services::Services,
};

/// The tenant's minutes. Minutes that are only held for running calls are still in the balance.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"balanceMinutes": 480, "lifetimePurchasedMinutes": 1000, "lifetimeUsedMinutes": 520}))]
pub struct Balance {
    balance_minutes: i64,
    lifetime_purchased_minutes: i64,
    lifetime_used_minutes: i64,
}

/// A movement of the balance.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Transaction {
    #[schema(schema_with = schema::transaction_id)]
    id: TransactionId,
    #[serde(rename = "type")]
    #[schema(schema_with = schema::transaction_type)]
    kind: TransactionType,
    /// Signed.
    minutes: i64,
    balance_after_minutes: i64,
    #[schema(schema_with = schema::call_id_or_null)]
    call_id: Option<CallId>,
    description: Option<String>,
    reference: Option<String>,
    #[schema(schema_with = schema::instant)]
    created_at: Millis,
}

/// A page of movements, newest first.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"transactions": [{
    "id": "txn_01k9zv3m8rj2q4w6y8a0c2e4g6", "type": "usage", "minutes": -2, "balanceAfterMinutes": 480,
    "callId": "call_01k9zv3m8rj2q4w6y8a0c2e4g6", "description": null, "reference": null,
    "createdAt": "2026-01-15T03:31:34.000Z"
}], "limit": 50, "offset": 0, "hasMore": false}))]
pub struct TransactionList {
    transactions: Vec<Transaction>,
    limit: i64,
    offset: i64,
    has_more: bool,
}

impl From<credit_transaction::Model> for Transaction {
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

/// `GET /credits`
pub async fn balance(caller: Caller, services: Data<Services>) -> Result<Answer, ApiError> {
    let account = credit_account::Entity::find_by_id(caller.tenant)
        .one(services.store.api_reader())
        .await?;
    // No account yet: nothing was bought and nothing used.
    let balance = account.map_or(
        Balance {
            balance_minutes: 0,
            lifetime_purchased_minutes: 0,
            lifetime_used_minutes: 0,
        },
        |account| Balance {
            balance_minutes: account.available + account.held,
            lifetime_purchased_minutes: account.purchased,
            lifetime_used_minutes: account.used,
        },
    );
    Ok(Answer::ok(&balance))
}

/// `GET /credits/transactions`
pub async fn transactions(
    caller: Caller,
    services: Data<Services>,
    query: Query,
) -> Result<Answer, ApiError> {
    let page = query.0.read(&[], |form| Some(Page::read(form)))?;
    let db = services.store.api_reader();
    let ours = credit_transaction::Entity::find()
        .filter(credit_transaction::Column::TenantId.eq(caller.tenant))
        .order_by_desc(credit_transaction::Column::Seq);
    let last: Option<i64> = ours
        .clone()
        .select_only()
        .column(credit_transaction::Column::Seq)
        .into_tuple()
        .one(db)
        .await?;
    // They are numbered from 1 without a gap, so that nothing needs to be read to skip them.
    let first = last.unwrap_or(0).saturating_sub(page.offset);
    let select = ours.filter(credit_transaction::Column::Seq.lte(first));
    let mut rows = page.limit(select).all(db).await?;
    Ok(Answer::ok(&TransactionList {
        has_more: page.has_more(&mut rows),
        transactions: rows.into_iter().map(Into::into).collect(),
        limit: page.limit,
        offset: page.offset,
    }))
}
