//! `credit_transactions`: a movement of a balance; immutable.

use sea_orm::entity::prelude::*;

use crate::values::{CallId, Millis, TenantId, TransactionId, TransactionType};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "credit_transactions")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub tenant_id: TenantId,
    #[sea_orm(primary_key, auto_increment = false)]
    pub seq: i64,
    pub id: TransactionId,
    /// The call's id or the operator's reference; unique per tenant.
    pub idempotency_key: String,
    pub kind: TransactionType,
    /// Positive or negative.
    pub minutes: i64,
    pub balance_after: i64,
    pub call_id: Option<CallId>,
    pub description: Option<String>,
    pub reference: Option<String>,
    pub created_at: Millis,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
