//! `credit_holds`: the credit of one call.

use sea_orm::entity::prelude::*;

use crate::values::{CallId, Millis, TenantId};

/// The credit of one call.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "credit_holds")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub call_id: CallId,
    pub tenant_id: TenantId,
    pub owner: String,
    pub epoch: i64,
    /// The number of the last grant.
    pub request: i64,
    /// Granted and not begun.
    pub held: i64,
    /// Begun.
    pub used: i64,
    /// The last grant was announced as the last.
    pub last: bool,
    /// Why the call was not admitted; remembered, so that a repeat is refused as well.
    pub refusal: Option<String>,
    pub created_at: Millis,
    pub settled_at: Option<Millis>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
