//! Credit: the balance and its transactions. Read-only; only the ledger moves minutes.

use actix_web::web::Data;
use dikala_entities::{
    CallId, Millis, OfTenant, TenantId, TransactionId, TransactionType, credit_account,
    credit_transaction,
};
use sea_orm::{ColumnTrait, ConnectionTrait, DbErr, QueryFilter, QueryOrder, QuerySelect, Select};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    api::context::Services,
    http::{
        answer::ApiAnswer,
        error::ApiError,
        extract::{Query, TenantRequest},
    },
    operations::{ListPage, PageRange},
};

/// The tenant's minutes. Minutes that are only held for running calls are still in the balance.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Balance, example = json!({"balanceMinutes": 480, "lifetimePurchasedMinutes": 1000, "lifetimeUsedMinutes": 520}))]
pub struct BalanceView {
    balance_minutes: i64,
    lifetime_purchased_minutes: i64,
    lifetime_used_minutes: i64,
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

/// A page of movements, newest first.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"transactions": [{
    "id": "txn_01k9zv3m8rj2q4w6y8a0c2e4g6", "type": "usage", "minutes": -2, "balanceAfterMinutes": 480,
    "callId": "call_01k9zv3m8rj2q4w6y8a0c2e4g6", "description": null, "reference": null,
    "createdAt": "2026-01-15T03:31:34.000Z"
}], "limit": 50, "offset": 0, "hasMore": false}))]
pub struct TransactionList {
    pub transactions: Vec<TransactionView>,
    pub limit: i64,
    pub offset: i64,
    pub has_more: bool,
}

impl ListPage for TransactionList {
    type Row = TransactionView;
    const NAME: &'static str = "transactions";

    fn rows(&self) -> &[TransactionView] {
        &self.transactions
    }

    fn next(&self) -> Option<i64> {
        self.has_more.then_some(self.offset + self.limit)
    }
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

/// The tenant's account, if it has one yet.
pub async fn account(
    db: &impl ConnectionTrait,
    tenant: TenantId,
) -> Result<Option<credit_account::Model>, DbErr> {
    credit_account::Entity::of(tenant).one(db).await
}

/// `GET /credits`
pub async fn balance(
    caller: TenantRequest,
    services: Data<Services>,
) -> Result<ApiAnswer, ApiError> {
    let account = account(services.store.api_reader(), caller.tenant).await?;
    // A tenant without an account has neither bought nor used minutes.
    let balance = account.map_or(
        BalanceView {
            balance_minutes: 0,
            lifetime_purchased_minutes: 0,
            lifetime_used_minutes: 0,
        },
        |account| BalanceView {
            balance_minutes: account.available + account.held,
            lifetime_purchased_minutes: account.purchased,
            lifetime_used_minutes: account.used,
        },
    );
    Ok(ApiAnswer::ok(&balance))
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

/// `GET /credits/transactions`
pub async fn transactions(
    caller: TenantRequest,
    services: Data<Services>,
    query: Query,
) -> Result<ApiAnswer, ApiError> {
    let page = query.0.read(&[], |form| Some(PageRange::read(form)))?;
    let listed = page_of(services.store.api_reader(), caller.tenant, page).await?;
    Ok(ApiAnswer::ok(&listed))
}

/// A page of a tenant's transactions, newest first.
pub async fn page_of(
    db: &impl ConnectionTrait,
    tenant: TenantId,
    page: PageRange,
) -> Result<TransactionList, DbErr> {
    let ours = newest(tenant);
    let last: Option<i64> = ours
        .clone()
        .select_only()
        .column(credit_transaction::Column::Seq)
        .into_tuple()
        .one(db)
        .await?;
    // Numbers begin at 1 and have no gaps, so the offset is subtracted and no row is read to skip it.
    let first = last.unwrap_or(0).saturating_sub(page.offset);
    let select = ours.filter(credit_transaction::Column::Seq.lte(first));
    let mut rows = page.limit(select).all(db).await?;
    Ok(TransactionList {
        has_more: page.has_more(&mut rows),
        transactions: rows.into_iter().map(Into::into).collect(),
        limit: page.limit,
        offset: page.offset,
    })
}
