//! Mails to people. A mail is a row that is written in the transaction of what it tells, so that neither can be without the
//! other. It costs that transaction one row, whoever is to get it: whom it is for, and what it says, is found when it is sent.

use dikala_entities::{
    MailId, MailKind, Millis, TenantId, batch::BatchWrite, mail, store::Transaction,
};
use sea_orm::{DbErr, EntityTrait, IntoActiveModel};

/// How long a mail is tried, and how long it is known that there was one, in milliseconds.
pub const KEPT_MS: i64 = 24 * 60 * 60 * 1_000;

/// Mails to people of one tenant in that time. What would be more is not sent: who has a tenant is no reason to be flooded by it.
pub const OF_TENANT_MAX: u64 = 100;

/// Something that all owners of a tenant are told who want to know. `subject` is the id of what it tells of.
pub fn to_owners(kind: MailKind, tenant: TenantId, subject: String, now: Millis) -> mail::Model {
    mail::Model {
        id: MailId::new(now),
        tenant_id: tenant,
        user_id: None,
        kind,
        subject,
        language: None,
        link: None,
        attempts: 0,
        next_at: Some(now),
        created_at: now,
        ends_at: now.plus_ms(KEPT_MS),
    }
}

/// Writes mails in a batch.
pub(crate) fn batch(mails: Vec<mail::Model>) -> Result<BatchWrite, DbErr> {
    let rows = mails.into_iter().map(IntoActiveModel::into_active_model);
    BatchWrite::insert(rows.collect(), "")
}

/// Writes mails in a transaction.
pub async fn write(
    txn: &Transaction,
    mails: impl IntoIterator<Item = mail::Model>,
) -> Result<(), DbErr> {
    let rows: Vec<_> = mails
        .into_iter()
        .map(IntoActiveModel::into_active_model)
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    mail::Entity::insert_many(rows)
        .exec_without_returning(txn)
        .await
        .map(drop)
}
