//! Batches from remembered rows, while others write the same rows.

use dikala_entities::{EventKind, HangupReason, Store, WebhookId, event};
use dikala_testkit::rows;
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, PaginatorTrait, QueryFilter};

use super::{
    store::{
        admission, announcement, assert_exact, deps, ending, ledger, minute, minutes, purchase,
        tenant_with,
    },
    *,
};
use crate::{commit::batch::Posting, runtime::clock::SystemClock};

/// A refusal changes no account, so nothing in its statement would notice that there are minutes by now.
#[actix::test]
async fn minutes_that_others_book_are_there_at_once() {
    for (_keep, store) in dikala_testkit::both().await {
        let tenant = tenant_with(&store, 1).await;
        let ledger = ledger(&store);
        let admit = async || ledger.admit(admission(tenant, CallId::new(NOW))).await;
        let refused = Ok(Admission::Refused(HangupReason::InsufficientCredits));
        assert_eq!(admit().await, Ok(Admission::Granted));
        assert_eq!(admit().await, refused);
        let booking = purchase(tenant, 1, None);
        let booked = credit(&store, Arc::new(SystemClock), booking, None).await;
        assert!(booked.is_ok_and(|booked| booked.is_new));
        assert_eq!(admit().await, Ok(Admission::Granted));
        assert_eq!(admit().await, refused);
        assert_exact(&store).await;
    }
}

#[actix::test]
async fn minutes_that_another_node_took_are_gone() {
    for (_keep, store) in dikala_testkit::both().await {
        let tenant = tenant_with(&store, 4).await;
        let (here, there) = (ledger(&store), ledger(&store));
        let mut granted = 0;
        for turn in 0..8 {
            let node = if turn % 2 == 0 { &here } else { &there };
            let call = CallId::new(NOW);
            let admitted = node.admit(admission(tenant, call)).await;
            granted += i32::from(admitted == Ok(Admission::Granted));
            // One call goes on at the node where it began, and ends at the other.
            if turn == 0 {
                let extended = node.extend(minute(tenant, call, 1, 1)).await;
                assert_eq!(extended.map(|grant| grant.total), Ok(2));
                let settled = there.settle(ending(tenant, call, 1)).await;
                assert_eq!(settled, Ok(Settlement { minutes: 1 }));
            }
        }
        assert_eq!(granted, 4);
        assert_eq!(minutes(&store, tenant).await, (0, 3, 1));
        assert_exact(&store).await;
    }
}

/// PostgreSQL comes back without its last commits, and others make as many: then the account's version is the same, and its
/// minutes are not.
#[actix::test]
async fn an_account_of_the_same_version_and_other_minutes_is_read_again() {
    for (_keep, store) in dikala_testkit::both().await {
        let tenant = tenant_with(&store, 5).await;
        let (ledger, call) = (ledger(&store), CallId::new(NOW));
        let admitted = ledger.admit(admission(tenant, call)).await;
        assert_eq!(admitted, Ok(Admission::Granted));
        let others = "UPDATE credit_accounts SET available = available - 3, used = used + 3";
        store
            .writer()
            .execute_unprepared(others)
            .await
            .expect("runs");
        let extended = ledger.extend(minute(tenant, call, 1, 1)).await;
        assert_eq!(extended.map(|grant| grant.total), Ok(2));
        assert_eq!(minutes(&store, tenant).await, (0, 1, 4));
    }
}

#[actix::test]
async fn a_webhook_that_is_new_or_switched_off_counts_for_the_next_event() {
    for (_keep, store) in dikala_testkit::both().await {
        let tenant = TenantId::new(NOW);
        let ledger = start(&actix_rt::Arbiter::current(), &deps(&store));
        let announce = async || {
            let Posting::Write(entry) = announcement(tenant) else {
                panic!("an event alone is a write");
            };
            ledger.write((*entry).clone()).await.expect("is written");
        };
        announce().await;
        announce().await;
        let id = WebhookId::new(NOW);
        let webhook = rows::webhook(id, tenant, &[EventKind::CallStarted], NOW);
        let txn = store.begin().await.expect("begins");
        rows::insert(&txn, webhook).await;
        txn.commit().await.expect("commits");
        announce().await;
        announce().await;
        assert_eq!(events(&store, id).await, 2);
        let off = "UPDATE webhooks SET is_active = false";
        store.writer().execute_unprepared(off).await.expect("runs");
        announce().await;
        assert_eq!(events(&store, id).await, 2);
    }
}

async fn events(store: &Store, webhook: WebhookId) -> u64 {
    let theirs =
        event::Entity::find().filter(event::Column::Subscribers.contains(webhook.to_string()));
    theirs.count(store.reader()).await.expect("answers")
}
