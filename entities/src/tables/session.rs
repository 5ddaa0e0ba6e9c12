//! `sessions`: a browser that is signed in, known by the hash of what its cookie holds.

use sea_orm::entity::prelude::*;

use crate::values::{CredentialHash, Millis, TenantId, UserId};

/// A browser that is signed in, known by the hash of what its cookie holds.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "sessions")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub hash: CredentialHash,
    pub tenant_id: TenantId,
    pub user_id: UserId,
    /// It began with a one-time link, which stands for the password where a new one is set.
    pub by_link: bool,
    /// The network address that it began from.
    pub address: String,
    /// What the browser called itself, shortened.
    pub agent: String,
    /// What the next page shows once, sealed: a new key, a link to pass on.
    pub note: Option<String>,
    pub created_at: Millis,
    /// To about a minute.
    pub used_at: Millis,
    /// Moves on with its use, up to the longest that a session lasts.
    pub ends_at: Millis,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
