//! `sign_in_failures`: what failed lately at signing in, one row for each e-mail address and each network address that was tried.

use sea_orm::entity::prelude::*;

use crate::values::Millis;

/// What failed lately at signing in with one e-mail address, or from one network address.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "sign_in_failures")]
pub struct Model {
    /// `email:` and the hash of an address, or `network:` and an address.
    #[sea_orm(primary_key, auto_increment = false)]
    pub subject: String,
    /// When, in milliseconds since the epoch, oldest first: a JSON array of bounded length.
    pub failed_at: String,
    /// When nothing of it counts any more.
    pub ends_at: Millis,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
