//! `credit_holds`: the minutes held for one call.

use sea_orm::entity::prelude::*;

use crate::values::{CallId, Millis, TenantId};

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
    /// The last grant was announced as final.
    pub last: bool,
    /// The reason why the call was not admitted, kept so that a repeat is refused too.
    pub refusal: Option<String>,
    pub created_at: Millis,
    pub settled_at: Option<Millis>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
