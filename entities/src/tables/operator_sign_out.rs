//! `operator_sign_outs`: operators' sessions that were signed out.

use sea_orm::entity::prelude::*;

use crate::values::{CredentialHash, Millis};

/// A session of the console that is no longer valid.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "operator_sign_outs")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub session_hash: CredentialHash,
    /// The time at which the session would have expired.
    pub ends_at: Millis,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
