//! `api_keys`: a tenant's API key, of which only the hash is kept.

use sea_orm::entity::prelude::*;

use crate::values::{ApiKeyId, CredentialHash, Millis, TenantId, UserId};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "api_keys")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: ApiKeyId,
    pub tenant_id: TenantId,
    pub name: String,
    /// The first 12 characters.
    pub prefix: String,
    pub hash: CredentialHash,
    pub created_at: Millis,
    /// Accurate to about a minute.
    pub last_used_at: Option<Millis>,
    pub revoked_at: Option<Millis>,
    /// The dashboard user that made it; none: an operator.
    pub made_by: Option<UserId>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
