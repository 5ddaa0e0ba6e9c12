//! `hangup_requests`: requests of commands to end calls, until the owning node has received them.

use sea_orm::entity::prelude::*;

use crate::values::{Actor, CallId, Millis};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "hangup_requests")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub call_id: CallId,
    /// The actor that requests it.
    pub actor: Actor,
    /// The node named in the command's configuration.
    pub node: String,
    pub asked_at: Millis,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
