//! `sessions`: a signed-in browser, identified by the hash of its cookie.

use sea_orm::entity::prelude::*;

use crate::values::{CredentialHash, Millis, TenantId, UserId};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "sessions")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub hash: CredentialHash,
    pub tenant_id: TenantId,
    pub user_id: UserId,
    /// It began with a one-time link, which replaces the old password when a new one is set.
    pub by_link: bool,
    /// The network address from which it began.
    pub address: String,
    /// The browser's user agent, shortened.
    pub agent: String,
    /// A message that the next page shows once, sealed, such as a new key or a link to pass on.
    pub note: Option<String>,
    pub created_at: Millis,
    /// Accurate to about a minute.
    pub used_at: Millis,
    /// Extended with use, up to the maximum duration of a session.
    pub ends_at: Millis,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
