//! `sign_in_failures`: recent failed sign-ins, one row per email address and network address.

use sea_orm::entity::prelude::*;

use crate::values::Millis;

/// Recent failed sign-ins with one email address, or from one network address.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "sign_in_failures")]
pub struct Model {
    /// `email:` and an address's hash, or `network:` and an address.
    #[sea_orm(primary_key, auto_increment = false)]
    pub subject: String,
    /// Their times in milliseconds since the epoch, oldest first, as a JSON array of bounded length.
    pub failed_at: String,
    /// The time from which none of them counts.
    pub ends_at: Millis,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
