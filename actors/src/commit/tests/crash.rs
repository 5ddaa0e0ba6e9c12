//! PostgreSQL crashes between a commit that did not wait for the disk and its confirmation.

use std::time::Instant;

use dikala_entities::{
    Store,
    batch::BatchWrite,
    credit_account,
    store::{Durability, PendingCommit},
};
use dikala_testkit::{OwnPostgres, Stop, eventually};
use sea_orm::{ConnectionTrait, EntityTrait, IntoActiveModel, PaginatorTrait};

use super::*;

async fn server() -> Option<(OwnPostgres, Store)> {
    let postgres = OwnPostgres::start()?;
    let place = postgres.place(postgres.port);
    let store = Store::connect(&place.url).await.expect("a store");
    Some((postgres, store))
}

async fn insert(store: &Store) -> PendingCommit {
    let rows = vec![account(TenantId::new(NOW), 0).into_active_model()];
    let writes = [BatchWrite::insert(rows, "").expect("a write")];
    let written = store.write_at_once(&writes, Durability::AfterConfirm);
    written.await.expect("is answered").expect("is written")
}

async fn accounts(store: &Store) -> u64 {
    let all = credit_account::Entity::find().count(store.reader());
    all.await.expect("answers")
}

async fn crash(postgres: &OwnPostgres) {
    let postgres = postgres.clone();
    let crash = move || {
        postgres.stop(Stop::Immediate);
        postgres.start_again();
    };
    tokio::task::spawn_blocking(crash)
        .await
        .expect("it is back");
}

#[actix::test]
async fn a_pending_commit_is_not_confirmed_after_a_crash() {
    let Some((postgres, store)) = server().await else {
        return;
    };
    let kept = insert(&store).await;
    assert_eq!(kept.confirm().await, Ok(()));
    let uncertain = insert(&store).await;
    assert_eq!(accounts(&store).await, 2, "others see it");
    crash(&postgres).await;
    assert!(uncertain.confirm().await.is_err());
}

/// The server answers again, but it is not the one that showed the rows.
#[actix::test]
async fn rows_that_were_read_before_a_crash_are_not_confirmed_after_it() {
    let Some((postgres, store)) = server().await else {
        return;
    };
    let read_at = Instant::now();
    let _pending = insert(&store).await;
    assert_eq!(accounts(&store).await, 1);
    crash(&postgres).await;
    // Connections of after the crash.
    eventually("the store to connect again", async || {
        let asked = store.reader().execute_unprepared("SELECT 1").await;
        let written = store.begin_critical().await;
        (asked.is_ok() && written.is_ok()).then_some(())
    })
    .await;
    assert!(store.confirm(read_at).await.is_err());
    assert_eq!(store.confirm(Instant::now()).await, Ok(()));
}
