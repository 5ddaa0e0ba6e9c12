//! `credit_transactions`: a movement of a balance; never changed once written.

use sea_orm::entity::prelude::*;

use crate::values::{CallId, Millis, TenantId, TransactionId, TransactionType};

/// A movement of a balance; never changed once written.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "credit_transactions")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub tenant_id: TenantId,
    #[sea_orm(primary_key, auto_increment = false)]
    pub seq: i64,
    pub id: TransactionId,
    /// The call, or the operator's reference; unique in the tenant.
    pub idempotency_key: String,
    pub kind: TransactionType,
    /// Signed.
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
