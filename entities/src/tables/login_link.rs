//! `login_links`: a one-time link for signing in, of which only the hash is kept.

use sea_orm::entity::prelude::*;

use crate::values::{CredentialHash, Millis, UserId};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "login_links")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub hash: CredentialHash,
    pub user_id: UserId,
    pub created_at: Millis,
    pub expires_at: Millis,
    pub consumed_at: Option<Millis>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
