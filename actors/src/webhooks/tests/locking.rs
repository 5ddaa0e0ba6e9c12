//! Changes of deliveries lock them in the order of their ids.

use dikala_entities::{RecoveryId, recovery};
use dikala_testkit::rows;
use sea_orm::{ConnectionTrait, DbBackend, DbErr, Statement};

use super::{
    super::{
        attempt::AttemptRecord,
        recovery::send_again,
        retry::AttemptVerdict,
        store::{
            pending::{close_deleted, close_lost},
            results::record,
        },
    },
    *,
};

const ALL: usize = 3;

/// Deliveries of one webhook, by id. Their due times, and so the index, have the opposite order.
fn deliveries(now: Millis, status: DeliveryStatus) -> Vec<delivery::Model> {
    let webhook = WebhookId::new(now);
    let mut ids: Vec<DeliveryId> = (0..ALL).map(|_| DeliveryId::new(now)).collect();
    ids.sort_unstable();
    let mut due = now.plus_ms(1_000);
    let row = |id| {
        due = due.plus_ms(-1);
        delivery::Model {
            id,
            status,
            next_attempt_at: (status == DeliveryStatus::Pending).then_some(due),
            completed_at: (status != DeliveryStatus::Pending).then_some(now),
            ..rows::delivery(&rows::event(TenantId::new(now), now), webhook)
        }
    };
    ids.into_iter().map(row).collect()
}

fn delivered(delivery: &delivery::Model) -> AttemptRecord {
    AttemptRecord {
        delivery: delivery.id,
        webhook: delivery.webhook_id,
        tenant: delivery.tenant_id,
        event: delivery.event_id,
        call: None,
        kind: delivery.kind,
        webhook_updated_at: delivery.created_at,
        number: 1,
        is_test: false,
        is_beside_queue: false,
        started_at: delivery.created_at,
        ended_at: delivery.created_at,
        duration_ms: 0,
        status_code: Some(200),
        error_kind: None,
        response: Vec::new(),
        verdict: AttemptVerdict::Delivered,
    }
}

/// Table and index have the greatest id first, another transaction locks the smallest, and it is named last. A change
/// that waits for it must not have locked any other row.
async fn holds_none_while_it_waits<W>(
    status: DeliveryStatus,
    change: impl FnOnce(Store, Vec<delivery::Model>) -> W,
) where
    W: Future<Output = Result<(), DbErr>> + 'static,
{
    let Some((_keep, store)) = dikala_testkit::postgres().await else {
        return;
    };
    let mut deliveries = deliveries(SystemClock.now(), status);
    deliveries.reverse();
    for delivery in &deliveries {
        rows::insert(store.writer(), delivery.clone()).await;
    }
    let cursor = format!(
        "INSERT INTO webhook_cursors (webhook_id, node, sequence, position) VALUES ('{}', '{NODE}', 0, 0)",
        deliveries[0].webhook_id
    );
    store
        .writer()
        .execute_unprepared(&cursor)
        .await
        .expect("is owned");
    let ask = |sql: String| Statement::from_string(DbBackend::Postgres, sql);
    let other = store.begin().await.expect("begins");
    let smallest = deliveries[ALL - 1].id;
    let lock = format!("SELECT id FROM deliveries WHERE id = '{smallest}' FOR UPDATE");
    other.query_one_raw(ask(lock)).await.expect("is locked");

    let changing = actix_rt::spawn(change(store.clone(), deliveries));
    // Only of this test's own database; other tests wait in theirs.
    let waits = "SELECT 1 AS one FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
    loop {
        assert!(!changing.is_finished(), "it waits for nobody");
        let row = store.reader().query_one_raw(ask(waits.to_owned())).await;
        if row.expect("answers").is_some() {
            break;
        }
    }
    let free = "SELECT id FROM deliveries FOR UPDATE SKIP LOCKED".to_owned();
    let free = other.query_all_raw(ask(free)).await.expect("answers");
    // The row that it locked itself, and all others: none is locked by the change.
    assert_eq!(free.len(), ALL);
    other.commit().await.expect("commits");
    changing.await.expect("is done").expect("is written");
}

fn ids(deliveries: &[delivery::Model]) -> Vec<DeliveryId> {
    deliveries.iter().map(|delivery| delivery.id).collect()
}

#[actix::test]
async fn recording_attempts_locks_in_order() {
    holds_none_while_it_waits(DeliveryStatus::Pending, |store, all| async move {
        let batch: Vec<AttemptRecord> = all.iter().map(delivered).collect();
        record(&store, NODE, &batch).await.map(drop)
    })
    .await;
}

#[actix::test]
async fn closing_what_a_deleted_webhook_left_locks_in_order() {
    holds_none_while_it_waits(DeliveryStatus::Pending, |store, all| async move {
        let closed = close_deleted(&store, all[0].webhook_id, all[0].created_at).await?;
        assert_eq!(closed, 3);
        Ok(())
    })
    .await;
}

#[actix::test]
async fn closing_what_has_no_event_any_more_locks_in_order() {
    holds_none_while_it_waits(DeliveryStatus::Pending, |store, all| async move {
        close_lost(&store, &ids(&all), all[0].created_at).await?;
        let failed = delivery::Entity::find()
            .filter(delivery::Column::Status.eq(DeliveryStatus::Failed))
            .filter(delivery::Column::CompletedAt.eq(all[0].created_at));
        assert_eq!(failed.all(store.reader()).await?.len(), ALL);
        Ok(())
    })
    .await;
}

#[actix::test]
async fn recovering_locks_in_order() {
    holds_none_while_it_waits(DeliveryStatus::Failed, |store, all| async move {
        let now = all[0].created_at;
        let recovery = recovery::Model {
            id: RecoveryId::new(now),
            tenant_id: all[0].tenant_id,
            webhook_id: all[0].webhook_id,
            since: now,
            until: now,
            after: all[0].id,
            asked_at: now,
        };
        let txn = store.begin().await?;
        send_again(&txn, &recovery, ids(&all), now).await?;
        txn.commit().await
    })
    .await;
}

/// PostgreSQL breaks a deadlock by rolling one side back. If that was a single statement, it is sent again.
#[actix::test]
async fn a_statement_that_lost_a_deadlock_is_sent_again() {
    let Some((_keep, store)) = dikala_testkit::postgres().await else {
        return;
    };
    let table = "CREATE TABLE races (id BIGINT PRIMARY KEY, n BIGINT NOT NULL); INSERT INTO races VALUES (1, 0), (2, 0), (3, 0)";
    store
        .writer()
        .execute_unprepared(table)
        .await
        .expect("a table");
    let add = |id: i64| format!("UPDATE races SET n = n + 1 WHERE id = {id}");
    let (gate, other) = (store.begin(), store.begin());
    let (gate, other) = (gate.await.expect("begins"), other.await.expect("begins"));
    // The statement must detect the deadlock, and so lose it; and these transactions must not be ended while the test
    // waits.
    let patient =
        "SET LOCAL deadlock_timeout = '60s'; SET LOCAL idle_in_transaction_session_timeout = '60s'";
    for (transaction, row) in [(&gate, 3), (&other, 1)] {
        transaction.execute_unprepared(patient).await.expect("set");
        let has = transaction.execute_unprepared(&add(row)).await;
        has.expect("has its row");
    }
    let all = format!(
        "WITH a AS ({} RETURNING n), b AS (UPDATE races SET n = races.n + 1 FROM a WHERE id = 3 RETURNING races.n) \
         UPDATE races SET n = races.n + 1 FROM b WHERE id = 1",
        add(2)
    );
    let waiting = store.clone();
    let racing = actix_rt::spawn(async move { waiting.writer().execute_unprepared(&all).await });
    let wait = async |count: usize| {
        let waits = "SELECT 1 AS one FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
        let waits = || Statement::from_string(DbBackend::Postgres, waits);
        while store
            .reader()
            .query_all_raw(waits())
            .await
            .expect("answers")
            .len()
            < count
        {
            assert!(!racing.is_finished(), "it waits for another's row");
        }
    };
    wait(1).await;
    let second = add(2);
    let goes_on = actix_rt::spawn(async move {
        other.execute_unprepared(&second).await.expect("goes on");
        other.commit().await.expect("commits");
    });
    // The statement looks for a deadlock once in each wait, a second after its beginning. So its last wait begins last.
    wait(2).await;
    gate.commit().await.expect("commits");
    goes_on.await.expect("is done");
    racing.await.expect("is done").expect("is carried out");
    let sum = Statement::from_string(DbBackend::Postgres, "SELECT SUM(n)::BIGINT AS n FROM races");
    let row = store.reader().query_one_raw(sum).await.expect("answers");
    let sum: i64 = row.expect("a row").try_get("", "n").expect("a number");
    assert_eq!(sum, 6);
}
