//! Rows locked by other sessions, on PostgreSQL.

use std::time::{Duration, Instant};

use dikala_entities::{EventKind, Store};
use dikala_testkit::PATIENCE;
use futures_util::future::join_all;
use sea_orm::{ConnectionTrait, EntityTrait, IntoActiveModel};

use super::*;
use crate::{
    events::outbox::{EventRecipients, NewEvent},
    nodes::Membership,
    runtime::clock::SystemClock,
};

/// All on the same shard.
const TENANTS: usize = 6;

async fn tenants(store: &Store) -> Vec<TenantId> {
    let ids = std::iter::repeat_with(|| TenantId::new(NOW));
    let shards = POSTGRES_SHARDS as u128;
    let of_one_shard = ids.filter(|id| id.as_u128() % shards == 0);
    let tenants: Vec<TenantId> = of_one_shard.take(TENANTS).collect();
    let accounts = tenants
        .iter()
        .map(|id| account(*id, 100).into_active_model());
    credit_account::Entity::insert_many(accounts)
        .exec_without_returning(store.writer())
        .await
        .expect("are made");
    tenants
}

/// A ringing call needs a minute and an event position.
async fn ring(ledger: &CommitHandle, tenant: TenantId) -> Result<Admission, LedgerError> {
    ring_as(ledger, tenant, CallId::new(NOW)).await
}

async fn ring_as(
    ledger: &CommitHandle,
    tenant: TenantId,
    call: CallId,
) -> Result<Admission, LedgerError> {
    let admit = Admit {
        call,
        tenant,
        owner: owner(),
        epoch: 1,
        max_concurrent: None,
    };
    let event = NewEvent::sample(EventKind::CallStarted, tenant, NOW);
    let entry = CommitEntry {
        events: vec![event],
        ..CommitEntry::of(tenant)
    };
    ledger.admit(admit, move |_| entry.clone()).await
}

/// Another session locks the first tenant's row, as an operator's open transaction would.
async fn one_is_locked(table: &str) {
    let Some((_keep, store)) = dikala_testkit::postgres().await else {
        return;
    };
    let tenants = tenants(&store).await;
    let deps = CommitDeps {
        store: store.clone(),
        clock: Arc::new(SystemClock),
        node: Membership::outside(&owner()),
        recipients: EventRecipients::default(),
    };
    let ledger = start(&actix_rt::Arbiter::current(), &deps);
    let all = join_all(tenants.iter().map(|tenant| ring(&ledger, *tenant))).await;
    assert!(all.iter().all(|rung| *rung == Ok(Admission::Granted)));
    let holder = store.begin().await.expect("begins");
    for sql in [
        "SET LOCAL idle_in_transaction_session_timeout = 0",
        &format!(
            "SELECT 1 FROM {table} WHERE tenant_id = '{}' FOR UPDATE",
            tenants[0]
        ),
    ] {
        holder.execute_unprepared(sql).await.expect("is locked");
    }
    let (handle, locked) = (ledger.clone(), tenants[0]);
    let waiting = actix_rt::spawn(async move { ring(&handle, locked).await });
    // The first posting is a batch of its own. Those that arrive meanwhile form the next one, including the locked tenant's.
    let first = ring(&ledger, tenants[1]);
    let others = || join_all(tenants[1..].iter().map(|tenant| ring(&ledger, *tenant)));
    let (first, mut rung) = tokio::join!(first, others());
    rung.push(first);
    // The lock is known now, and delays no further batch.
    rung.extend(others().await);
    assert!(
        rung.iter().all(|rung| *rung == Ok(Admission::Granted)),
        "{rung:?}"
    );
    assert!(!waiting.is_finished(), "its row is locked");
    holder.rollback().await.expect("is free again");
    assert_eq!(waiting.await.expect("goes on"), Ok(Admission::Granted));
    assert_eq!(ring(&ledger, locked).await, Ok(Admission::Granted));
}

#[actix::test]
async fn a_locked_account_stalls_only_its_own_tenant() {
    one_is_locked("credit_accounts").await;
}

#[actix::test]
async fn a_locked_position_of_events_stalls_only_its_own_tenant() {
    one_is_locked("event_positions").await;
}

/// The hang-up of one call waits for its hold; the calls of other tenants do not.
#[actix::test]
async fn a_locked_hold_stalls_only_its_own_tenant() {
    let Some((_keep, store)) = dikala_testkit::postgres().await else {
        return;
    };
    let tenants = tenants(&store).await;
    let deps = CommitDeps {
        store: store.clone(),
        clock: Arc::new(SystemClock),
        node: Membership::outside(&owner()),
        recipients: EventRecipients::default(),
    };
    let ledger = start(&actix_rt::Arbiter::current(), &deps);
    let (tenant, call) = (tenants[0], CallId::new(NOW));
    assert_eq!(ring_as(&ledger, tenant, call).await, Ok(Admission::Granted));
    let holder = store.begin().await.expect("begins");
    for sql in [
        "SET LOCAL idle_in_transaction_session_timeout = 0",
        &format!("SELECT 1 FROM credit_holds WHERE call_id = '{call}' FOR UPDATE"),
    ] {
        holder.execute_unprepared(sql).await.expect("is locked");
    }
    let handle = ledger.clone();
    let waiting = actix_rt::spawn(async move {
        let settle = Settle {
            call,
            tenant,
            owner: owner(),
            epoch: 1,
            minutes: 1,
        };
        handle
            .settle(settle, move |_| CommitEntry::of(tenant))
            .await
    });
    let others = || join_all(tenants[1..].iter().map(|tenant| ring(&ledger, *tenant)));
    let mut rung = others().await;
    rung.extend(others().await);
    assert!(
        rung.iter().all(|rung| *rung == Ok(Admission::Granted)),
        "{rung:?}"
    );
    assert!(!waiting.is_finished(), "its hold is locked");
    holder.rollback().await.expect("is free again");
    assert_eq!(
        waiting.await.expect("goes on"),
        Ok(Settlement { minutes: 1 })
    );
}

/// Two other sessions lock the row in turn, each while the other still has it. A check that does not queue never finds it free.
#[actix::test]
async fn a_row_that_others_write_all_the_time_is_got_in_turn() {
    let Some((_keep, store)) = dikala_testkit::postgres().await else {
        return;
    };
    let tenants = tenants(&store).await;
    let tenant = tenants[0];
    let deps = CommitDeps {
        store: store.clone(),
        clock: Arc::new(SystemClock),
        node: Membership::outside(&owner()),
        recipients: EventRecipients::default(),
    };
    let ledger = start(&actix_rt::Arbiter::current(), &deps);
    let lock = async || {
        let holder = store.begin().await.expect("begins");
        let sql = format!("SELECT 1 FROM credit_accounts WHERE tenant_id = '{tenant}' FOR UPDATE");
        holder.execute_unprepared(&sql).await.expect("is locked");
        holder
    };
    let mut holder = lock().await;
    let waiting = actix_rt::spawn(async move { ring(&ledger, tenant).await });
    let began = Instant::now();
    while !waiting.is_finished() {
        assert!(began.elapsed() < PATIENCE, "it is never its turn");
        let next = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            holder.rollback().await.expect("is free");
        };
        (holder, ()) = tokio::join!(lock(), next);
    }
    holder.rollback().await.expect("is free");
    assert_eq!(waiting.await.expect("goes on"), Ok(Admission::Granted));
}
