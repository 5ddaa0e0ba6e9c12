//! `users`: a person who signs in to the dashboard of one tenant.

use sea_orm::entity::prelude::*;

use crate::values::{Email, Millis, Role, TenantId, UserId};

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
    /// `en` or `id`; none: the browser's language.
    pub language: Option<String>,
    /// A name of the time zone database; none: `Asia/Jakarta`.
    pub time_zone: Option<String>,
    /// argon2id as a PHC string; none: the person signs in only with one-time links.
    pub password_hash: Option<String>,
    /// True if they want mails about low credit.
    pub mails_low_credit: bool,
    /// True if they want mails about webhooks that the service disabled.
    pub mails_disabled_webhooks: bool,
    pub created_at: Millis,
    pub updated_at: Millis,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
