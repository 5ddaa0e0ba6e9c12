//! The rows of mails: which are due, who takes one, what became of it.

use dikala_actors::mails::OF_TENANT_MAX;
use dikala_entities::{MailId, MailKind, Millis, OfTenant, Role, Store, mail, user};
use sea_orm::{
    ColumnTrait, DbErr, EntityTrait, ExprTrait, PaginatorTrait, QueryFilter, QueryOrder,
    QuerySelect, sea_query::Expr,
};

/// Mails that are read at once.
const BATCH: u64 = 20;

/// The next ones whose time has come.
pub(super) async fn due(store: &Store, now: Millis) -> Result<Vec<mail::Model>, DbErr> {
    mail::Entity::find()
        .filter(mail::Column::NextAt.lte(now))
        .order_by_asc(mail::Column::NextAt)
        .limit(BATCH)
        .all(store.reader())
        .await
}

/// Takes one for a try, and sets the time of the next. Of two who do, one gets it.
pub(super) async fn claim(
    store: &Store,
    mail: &mail::Model,
    next_at: Millis,
) -> Result<bool, DbErr> {
    let taken = mail::Entity::update_many()
        .col_expr(
            mail::Column::Attempts,
            Expr::col(mail::Column::Attempts).add(1),
        )
        .col_expr(mail::Column::NextAt, Expr::value(Some(next_at)))
        .filter(mail::Column::Id.eq(mail.id))
        .filter(mail::Column::NextAt.eq(mail.next_at))
        .exec(store.writer())
        .await?;
    Ok(taken.rows_affected == 1)
}

/// Nothing more is done about it, and its link is nowhere any more.
pub(super) async fn finish(store: &Store, mail: &mail::Model) -> Result<(), DbErr> {
    mail::Entity::update_many()
        .col_expr(mail::Column::NextAt, Expr::value(None::<Millis>))
        .col_expr(mail::Column::Link, Expr::value(None::<String>))
        .filter(mail::Column::Id.eq(mail.id))
        .exec(store.writer())
        .await
        .map(drop)
}

/// Makes of a mail to all owners one for each who wants it, as many as the tenant may have.
pub(super) async fn address(store: &Store, mail: mail::Model, now: Millis) -> Result<(), DbErr> {
    let txn = store.begin().await?;
    let taken = mail::Entity::delete_many()
        .filter(mail::Column::Id.eq(mail.id))
        .filter(mail::Column::NextAt.eq(mail.next_at))
        .exec(&txn)
        .await?;
    if taken.rows_affected != 1 {
        return txn.rollback().await;
    }
    let wants = match mail.kind {
        MailKind::CreditsLow => user::Column::MailsLowCredit,
        MailKind::WebhookDisabled => user::Column::MailsDisabledWebhooks,
        // It is for one person from the beginning.
        MailKind::Invitation => return txn.commit().await,
    };
    let lately = mail::Entity::of(mail.tenant_id).count(&txn).await?;
    let owners = user::Entity::find()
        .filter(user::Column::TenantId.eq(mail.tenant_id))
        .filter(user::Column::Role.eq(Role::Owner))
        .filter(wants.eq(true))
        .order_by_asc(user::Column::Id)
        .limit(OF_TENANT_MAX.saturating_sub(lately))
        .all(&txn)
        .await?;
    if lately >= OF_TENANT_MAX {
        tracing::warn!(tenant = %mail.tenant_id, kind = %mail.kind, "a mail is given up: the tenant had too many mails today");
    }
    let each = owners.into_iter().map(|owner| mail::Model {
        id: MailId::new(now),
        user_id: Some(owner.id),
        ..mail.clone()
    });
    dikala_actors::mails::write(&txn, each).await?;
    txn.commit().await
}
