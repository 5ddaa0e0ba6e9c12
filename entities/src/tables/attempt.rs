//! `delivery_attempts`: one HTTP exchange of a delivery.

use sea_orm::entity::prelude::*;

use crate::values::{DeliveryId, Millis, TenantId};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "delivery_attempts")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub delivery_id: DeliveryId,
    #[sea_orm(primary_key, auto_increment = false)]
    pub number: i64,
    pub tenant_id: TenantId,
    pub started_at: Millis,
    pub duration_ms: i64,
    /// None if no answer came.
    pub status_code: Option<i64>,
    /// None if an answer came, whatever its status.
    pub error_kind: Option<String>,
    /// The beginning of the answer's body, as raw bytes.
    #[sea_orm(column_type = "VarBinary(StringLen::None)")]
    pub response: Vec<u8>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
