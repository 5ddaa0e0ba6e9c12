//! Mails to people. A mail is a row in the transaction of its cause, so neither exists without the other. The
//! transaction writes one row; recipients and text are determined when it is sent.

use dikala_entities::{
    MailId, MailKind, Millis, TenantId, batch::BatchWrite, mail, store::Transaction,
};
use sea_orm::{DbErr, EntityTrait, IntoActiveModel};

/// Retries and the row of a mail end after this time, in milliseconds.
pub const KEPT_MS: i64 = 24 * 60 * 60 * 1_000;

/// Limit of mails to one tenant's people within `KEPT_MS`. Mails beyond it are not sent, so that no tenant floods its
/// people.
pub const OF_TENANT_MAX: u64 = 100;

/// A mail to all owners of a tenant who want to know. `subject` is the id of the mail's subject.
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

pub(crate) fn batch(mails: Vec<mail::Model>) -> Result<BatchWrite, DbErr> {
    let rows = mails.into_iter().map(IntoActiveModel::into_active_model);
    BatchWrite::insert(rows.collect(), "")
}

/// Writes mails in a transaction of the caller.
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
