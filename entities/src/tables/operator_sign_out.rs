//! `operator_sign_outs`: operators' sessions that somebody signed out of.

use sea_orm::entity::prelude::*;

use crate::values::{CredentialHash, Millis};

/// A session of the console that does not count any more.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "operator_sign_outs")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub session_hash: CredentialHash,
    /// When the session would have been over anyway.
    pub ends_at: Millis,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
