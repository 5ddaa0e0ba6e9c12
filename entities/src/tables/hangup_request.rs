//! `hangup_requests`: calls that a command wants ended, until the node that runs them has heard of it.

use sea_orm::entity::prelude::*;

use crate::values::{Actor, CallId, Millis};

/// A call that a command wants ended.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "hangup_requests")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub call_id: CallId,
    /// Who asks.
    pub actor: Actor,
    /// The node whose configuration the command has.
    pub node: String,
    pub asked_at: Millis,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
