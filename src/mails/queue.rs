//! The rows of mails: due ones, claims and outcomes.

use dikala_actors::mails::{KEPT_MS, OF_TENANT_MAX};
use dikala_entities::{MailId, MailKind, Millis, OfTenant, Role, Store, mail, user};
use sea_orm::{
    ColumnTrait, DbErr, EntityTrait, ExprTrait, PaginatorTrait, QueryFilter, QueryOrder,
    QuerySelect, sea_query::Expr,
};

use super::WAITS_MAX_MS;

/// No mail is scheduled this far ahead: the longest wait, and the largest difference between clocks.
const TOO_FAR_MS: i64 = WAITS_MAX_MS + 5 * 60 * 1_000;
/// Rows per query.
const BATCH: u64 = 20;

/// The next due mails.
pub(super) async fn due(store: &Store, now: Millis) -> Result<Vec<mail::Model>, DbErr> {
    mail::Entity::find()
        .filter(mail::Column::NextAt.lte(now))
        .order_by_asc(mail::Column::NextAt)
        .limit(BATCH)
        .all(store.reader())
        .await
}

/// Reschedules mails that a clock running ahead had scheduled too far in the future. Runs once, at the start: this
/// process sets its clock then only.
pub(super) async fn set_right(store: &Store, now: Millis) -> Result<(), DbErr> {
    mail::Entity::update_many()
        .col_expr(mail::Column::NextAt, Expr::value(Some(now)))
        .col_expr(mail::Column::EndsAt, Expr::value(now.plus_ms(KEPT_MS)))
        .filter(mail::Column::NextAt.gt(now.plus_ms(TOO_FAR_MS)))
        .exec(store.writer())
        .await
        .map(drop)
}

/// Claims a mail for an attempt, and sets the time of the next one. Of two concurrent claims, one succeeds.
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

/// Ends the handling of a mail and removes its link.
pub(super) async fn finish(store: &Store, mail: &mail::Model) -> Result<(), DbErr> {
    mail::Entity::update_many()
        .col_expr(mail::Column::NextAt, Expr::value(None::<Millis>))
        .col_expr(mail::Column::Link, Expr::value(None::<String>))
        .filter(mail::Column::Id.eq(mail.id))
        .exec(store.writer())
        .await
        .map(drop)
}

/// Replaces a mail to all owners by one for each owner who wants it, within the tenant's limit.
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
        // An invitation has one recipient from the beginning.
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
        tracing::warn!(tenant = %mail.tenant_id, kind = %mail.kind, "a mail is given up, because the tenant reached its limit of mails in 24 hours");
    }
    let each = owners.into_iter().map(|owner| mail::Model {
        id: MailId::new(now),
        user_id: Some(owner.id),
        ..mail.clone()
    });
    dikala_actors::mails::write(&txn, each).await?;
    txn.commit().await
}

#[cfg(test)]
mod tests {
    use dikala_actors::mails;
    use dikala_entities::{TenantId, UserId};
    use dikala_testkit::StoreKind::{self, Postgres, Sqlite};
    use rstest::rstest;
    use sea_orm::IntoActiveModel;

    use super::*;

    const NOW: Millis = Millis::from_i64(1_800_000_000_000);

    async fn put(store: &Store, mail: &mail::Model) {
        let txn = store.begin().await.expect("begins");
        mails::write(&txn, [mail.clone()]).await.expect("writes");
        txn.commit().await.expect("commits");
    }

    /// Two claims at once, as by two nodes.
    #[rstest]
    #[actix_web::test]
    async fn of_two_who_take_a_mail_one_has_it(#[values(Sqlite, Postgres)] kind: StoreKind) {
        let Some((_keep, store)) = kind.open().await else {
            return;
        };
        let tenant = TenantId::new(NOW);
        let owner = user::Model {
            id: UserId::new(NOW),
            tenant_id: tenant,
            email: "sari@toko.example".parse().expect("an address"),
            name: "Sari".to_owned(),
            role: Role::Owner,
            language: None,
            time_zone: None,
            password_hash: None,
            mails_low_credit: true,
            mails_disabled_webhooks: false,
            created_at: NOW,
            updated_at: NOW,
        };
        user::Entity::insert(owner.clone().into_active_model())
            .exec_without_returning(store.writer())
            .await
            .expect("inserts");
        let event = "evt_1".to_owned();
        let told = mails::to_owners(MailKind::CreditsLow, tenant, event, NOW);
        put(&store, &told).await;
        assert_eq!(due(&store, NOW.plus_ms(-1)).await, Ok(Vec::new()));
        assert_eq!(due(&store, NOW).await, Ok(vec![told.clone()]));
        for _ in 0..2 {
            address(&store, told.clone(), NOW).await.expect("addresses");
        }
        let unwanted = mails::to_owners(MailKind::WebhookDisabled, tenant, String::new(), NOW);
        put(&store, &unwanted).await;
        address(&store, unwanted, NOW).await.expect("addresses");
        let waiting = due(&store, NOW).await.expect("reads");
        let [mail] = waiting.as_slice() else {
            panic!("one for the one owner: {waiting:?}");
        };
        assert_eq!(
            (mail.user_id, mail.subject.as_str()),
            (Some(owner.id), "evt_1")
        );
        let next = NOW.plus_ms(60_000);
        assert_eq!(claim(&store, mail, next).await, Ok(true));
        assert_eq!(claim(&store, mail, next).await, Ok(false));
        assert_eq!(due(&store, NOW).await, Ok(Vec::new()));
        let again = due(&store, next).await.expect("reads");
        assert_eq!((again.len(), again[0].attempts), (1, 1));
        finish(&store, mail).await.expect("finishes");
        assert_eq!(due(&store, mail.ends_at).await, Ok(Vec::new()));
    }
    #[rstest]
    #[actix_web::test]
    async fn a_mail_of_a_clock_that_was_ahead_is_tried_now(
        #[values(Sqlite, Postgres)] kind: StoreKind,
    ) {
        let Some((_keep, store)) = kind.open().await else {
            return;
        };
        let tenant = TenantId::new(NOW);
        let told = |at: Millis| mails::to_owners(MailKind::CreditsLow, tenant, String::new(), at);
        let ahead = told(NOW.plus_ms(365 * KEPT_MS));
        let waits = told(NOW.plus_ms(WAITS_MAX_MS));
        for mail in [&ahead, &waits] {
            put(&store, mail).await;
        }
        set_right(&store, NOW).await.expect("writes");
        let now = due(&store, NOW).await.expect("reads");
        let [mail] = now.as_slice() else {
            panic!("one mail: {now:?}");
        };
        assert_eq!((mail.id, mail.ends_at), (ahead.id, NOW.plus_ms(KEPT_MS)));
    }
}
