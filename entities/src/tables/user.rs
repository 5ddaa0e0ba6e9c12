//! `users`: a person who signs in to the dashboard of one tenant.

use sea_orm::entity::prelude::*;

use crate::values::{Email, Millis, Role, TenantId, UserId};

/// A person who signs in to the dashboard of one tenant.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "users")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: UserId,
    pub tenant_id: TenantId,
    /// Unique in the service.
    pub email: Email,
    pub name: String,
    pub role: Role,
    /// `en` or `id`; none: what the browser asks for.
    pub language: Option<String>,
    /// A name of the time zone database, such as `Asia/Jakarta`; none: that one.
    pub time_zone: Option<String>,
    /// argon2id as a PHC string; none: the person signs in with a one-time link only.
    pub password_hash: Option<String>,
    /// Whether low credit is told by mail.
    pub mails_low_credit: bool,
    /// Whether a webhook that was switched off by the service is told by mail.
    pub mails_disabled_webhooks: bool,
    pub created_at: Millis,
    pub updated_at: Millis,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
