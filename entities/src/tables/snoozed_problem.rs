//! `snoozed_problems`: problems of the operators' overview that are hidden for a while, on all nodes.

use sea_orm::entity::prelude::*;

use crate::values::Millis;

/// A snoozed problem.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "snoozed_problems")]
pub struct Model {
    /// The problem's key in the overview.
    #[sea_orm(primary_key, auto_increment = false)]
    pub problem: String,
    /// True if the problem was critical. A warning that becomes critical is shown again.
    pub is_critical: bool,
    /// The time from which on the problem is shown again.
    pub ends_at: Millis,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
