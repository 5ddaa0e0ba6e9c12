//! `mails`: what somebody is to be told by mail, written in the transaction of what it tells.

use sea_orm::entity::prelude::*;

use crate::values::{MailId, MailKind, Millis, TenantId, UserId};

/// A mail that waits, or one of the last day.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "mails")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: MailId,
    pub tenant_id: TenantId,
    /// Whom it is for; none: all owners of the tenant who want mails of this kind, each of whom gets a row of his own.
    pub user_id: Option<UserId>,
    pub kind: MailKind,
    /// The id of what it tells of: an event, a webhook, or the person who invites.
    pub subject: String,
    /// The language of those who chose none.
    pub language: Option<String>,
    /// The one-time link of an invitation, sealed, until the mail is sent.
    pub link: Option<String>,
    /// How often it was tried.
    pub attempts: i64,
    /// When it is tried next; none: it was sent or given up.
    pub next_at: Option<Millis>,
    pub created_at: Millis,
    /// When it is given up, and not kept any longer.
    pub ends_at: Millis,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
