//! `mails`: mails to people, each written in the transaction of its cause.

use sea_orm::entity::prelude::*;

use crate::values::{MailId, MailKind, Millis, TenantId, UserId};

/// A mail that waits, or one of the last day.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "mails")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: MailId,
    pub tenant_id: TenantId,
    /// The recipient. None: all owners of the tenant who want mails of this kind; each of them gets a row of their
    /// own.
    pub user_id: Option<UserId>,
    pub kind: MailKind,
    /// The id of the mail's subject: an event, a webhook, or the person who invites.
    pub subject: String,
    /// The language for recipients who chose none.
    pub language: Option<String>,
    /// The one-time link of an invitation, sealed, until the mail is sent.
    pub link: Option<String>,
    /// Number of tries.
    pub attempts: i64,
    /// The time of the next try. None: it was sent or given up.
    pub next_at: Option<Millis>,
    pub created_at: Millis,
    /// The time at which it is given up and removed.
    pub ends_at: Millis,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
