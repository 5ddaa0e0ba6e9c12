//! Recoveries: batches, turns, and the deliveries that they include.

use dikala_entities::{RecoveryId, recovery};
use dikala_testkit::rows;
use sea_orm::{ConnectionTrait, DbBackend, PaginatorTrait, QuerySelect};

use super::{backlog::reads, *};
use crate::webhooks::recovery::{
    RECOVERY_BATCH, count, created_within, given_up_within, step, work,
};

const NOW: Millis = Millis::from_i64(1_768_447_800_000);
const BATCH: usize = RECOVERY_BATCH as usize;

/// A webhook without an endpoint.
async fn webhook(store: &Store) -> webhook::Model {
    let row = webhook::Model {
        id: WebhookId::new(NOW),
        tenant_id: TenantId::new(NOW),
        url: OutboundUrl::parse("https://example.com/", Default::default()).expect("a URL"),
        events: "[]".to_owned(),
        secret: "sealed".to_owned(),
        secret_hint: "aled".to_owned(),
        previous_secret: None,
        previous_secret_until: None,
        is_active: true,
        disabled_reason: None,
        paused_at: None,
        failed_in_row: 0,
        failing_since: None,
        created_at: NOW,
        updated_at: NOW,
    };
    rows::insert(store.writer(), row.clone()).await;
    row
}

/// A delivery that failed a minute before now.
fn failed(webhook: &webhook::Model) -> delivery::Model {
    failed_of(webhook, NOW.plus_ms(-60_000))
}

/// A delivery that was created then and failed at once.
fn failed_of(webhook: &webhook::Model, at: Millis) -> delivery::Model {
    static MADE: AtomicUsize = AtomicUsize::new(1);
    let made = MADE.fetch_add(1, Ordering::Relaxed);
    delivery::Model {
        // The time of a new id never goes back, that of a delivery's does.
        id: DeliveryId::derived(at, made as u128),
        status: DeliveryStatus::Failed,
        attempts: 11,
        completed_at: Some(at),
        ..rows::delivery(&rows::event(webhook.tenant_id, at), webhook.id)
    }
}

async fn insert(store: &Store, rows: Vec<delivery::Model>) -> Vec<DeliveryId> {
    let ids = rows.iter().map(|row| row.id).collect();
    for chunk in rows.chunks(500) {
        let rows = chunk
            .iter()
            .cloned()
            .map(IntoActiveModel::into_active_model);
        delivery::Entity::insert_many(rows)
            .exec_without_returning(store.writer())
            .await
            .expect("inserted");
    }
    ids
}

async fn insert_failed(store: &Store, webhook: &webhook::Model, count: usize) -> Vec<DeliveryId> {
    insert(store, (0..count).map(|_| failed(webhook)).collect()).await
}

/// Requests a recovery of the hour before `now`.
async fn ask(store: &Store, webhook: &webhook::Model, now: Millis) -> recovery::Model {
    let row = recovery::Model {
        id: RecoveryId::new(now),
        tenant_id: webhook.tenant_id,
        webhook_id: webhook.id,
        since: now.plus_ms(-3_600_000),
        until: now.plus_ms(1),
        after: DeliveryId::first_at(Millis::MIN),
        asked_at: now,
    };
    rows::insert(store.writer(), row.clone()).await;
    row
}

async fn open(store: &Store) -> Vec<RecoveryId> {
    recovery::Entity::find()
        .select_only()
        .column(recovery::Column::Id)
        .order_by_asc(recovery::Column::Id)
        .into_tuple()
        .all(store.reader())
        .await
        .expect("read")
}

async fn pending(store: &Store, webhook: &webhook::Model) -> Vec<DeliveryId> {
    delivery::Entity::find()
        .select_only()
        .column(delivery::Column::Id)
        .filter(delivery::Column::WebhookId.eq(webhook.id))
        .filter(delivery::Column::Status.eq(DeliveryStatus::Pending))
        .order_by_asc(delivery::Column::Id)
        .into_tuple()
        .all(store.reader())
        .await
        .expect("read")
}

/// Works until no recovery is open. Returns whose turns they were.
async fn work_off(store: &Store, mut last: Option<RecoveryId>) -> Vec<RecoveryId> {
    let mut turns = Vec::new();
    while let Some(worked) = work(store, last, NOW).await.expect("worked") {
        turns.push(worked);
        last = Some(worked);
        assert!(turns.len() < 100, "it goes on and on");
    }
    turns
}

#[actix::test]
async fn recoveries_take_turns_a_batch_each() {
    for (_keep, store) in dikala_testkit::both().await {
        let (large, small) = (webhook(&store).await, webhook(&store).await);
        let all = insert_failed(&store, &large, BATCH * 2 + 7).await;
        let few = insert_failed(&store, &small, 3).await;
        let first = ask(&store, &large, NOW).await;
        let second = ask(&store, &small, NOW).await;
        assert_eq!(
            count(store.reader(), &first).await.ok(),
            u64::try_from(all.len()).ok()
        );

        assert_eq!(work(&store, None, NOW).await.ok(), Some(Some(first.id)));
        assert_eq!(pending(&store, &large).await, all[..BATCH]);
        let found = recovery::Entity::find_by_id(first.id)
            .one(store.reader())
            .await;
        let after = found.expect("read").expect("still open").after;
        assert_eq!(after, all[BATCH - 1], "the step is stored with the batch");

        let turns = work_off(&store, Some(first.id)).await;
        assert_eq!(turns, [second.id, first.id, first.id]);
        assert_eq!(pending(&store, &large).await, all);
        assert_eq!(pending(&store, &small).await, few);
        assert_eq!(open(&store).await, []);
        let row = delivery::Entity::find_by_id(few[0])
            .one(store.reader())
            .await;
        let row = row.expect("read").expect("there");
        assert_eq!((row.next_attempt_at, row.completed_at), (Some(NOW), None));
        assert_eq!(row.attempts, 11, "its history stays");
    }
}

#[actix::test]
async fn only_what_had_failed_in_the_time_is_meant() {
    for (_keep, store) in dikala_testkit::both().await {
        let hook = webhook(&store).await;
        let other = webhook(&store).await;
        let row = || failed(&hook);
        let before = NOW.plus_ms(-3_600_001);
        let given_up_in_time = delivery::Model {
            completed_at: Some(NOW.plus_ms(-60_000)),
            ..failed_of(&hook, before)
        };
        let first_moment = delivery::Model {
            id: DeliveryId::first_at(NOW.plus_ms(-3_600_000)),
            completed_at: Some(NOW),
            ..failed_of(&hook, NOW.plus_ms(-3_600_000))
        };
        let meant = insert(&store, vec![row(), given_up_in_time, first_moment]).await;
        let mut others = Vec::new();
        for status in [DeliveryStatus::Succeeded, DeliveryStatus::Pending] {
            others.push(delivery::Model { status, ..row() });
        }
        others.push(delivery::Model {
            is_test: true,
            ..row()
        });
        others.push(failed_of(&hook, before));
        // It failed after the recovery was requested.
        others.push(delivery::Model {
            completed_at: Some(NOW.plus_ms(1)),
            ..row()
        });
        others.push(failed(&other));
        let others = insert(&store, others).await;
        let asked = ask(&store, &hook, NOW).await;
        assert_eq!(count(store.reader(), &asked).await.ok(), Some(3));
        let untouched = async || {
            delivery::Entity::find()
                .filter(delivery::Column::Id.is_in(others.clone()))
                .order_by_asc(delivery::Column::Id)
                .all(store.reader())
                .await
                .expect("read")
        };
        let as_they_were = untouched().await;
        work_off(&store, None).await;
        assert_eq!(untouched().await, as_they_were);
        for id in meant {
            let row = delivery::Entity::find_by_id(id).one(store.reader()).await;
            let row = row.expect("read").expect("there");
            assert_eq!(row.status, DeliveryStatus::Pending);
        }
    }
}

#[actix::test]
async fn nothing_is_sent_again_twice() {
    for (_keep, store) in dikala_testkit::both().await {
        let hook = webhook(&store).await;
        let all = insert_failed(&store, &hook, BATCH + 1).await;
        let first = ask(&store, &hook, NOW).await;
        let second = ask(&store, &hook, NOW.plus_ms(5)).await;
        work(&store, None, NOW).await.expect("worked");
        // It was retried and failed again, while the rest is still to come.
        let again = delivery::ActiveModel {
            id: Set(all[0]),
            status: Set(DeliveryStatus::Failed),
            completed_at: Set(Some(NOW.plus_ms(9))),
            ..Default::default()
        };
        again.update(store.writer()).await.expect("updated");
        let turns = work_off(&store, None).await;
        assert_eq!(turns, [first.id, second.id]);
        assert_eq!(pending(&store, &hook).await, all[1..]);
    }
}

#[actix::test]
async fn a_slower_node_takes_nothing_back() {
    for (_keep, store) in dikala_testkit::both().await {
        let hook = webhook(&store).await;
        let all = insert_failed(&store, &hook, BATCH * 3).await;
        let as_asked = ask(&store, &hook, NOW).await;
        while !open(&store).await.is_empty() {
            let (one, other) = tokio::join!(work(&store, None, NOW), work(&store, None, NOW));
            assert!(one.is_ok() && other.is_ok(), "{one:?} {other:?}");
            let txn = store.begin().await.expect("a transaction");
            let late = step(&txn, &as_asked, &all[..BATCH]).await;
            assert_eq!(late.ok(), Some(false), "this batch was done by others");
        }
        assert_eq!(pending(&store, &hook).await, all);
    }
}

#[actix::test]
async fn a_deleted_webhook_takes_its_recoveries_along() {
    for (_keep, store) in dikala_testkit::both().await {
        let (gone, stays) = (webhook(&store).await, webhook(&store).await);
        insert_failed(&store, &gone, 2).await;
        ask(&store, &gone, NOW).await;
        let left = ask(&store, &stays, NOW).await;
        webhook::Entity::delete_by_id(gone.id)
            .exec(store.writer())
            .await
            .expect("deleted");
        assert_eq!(open(&store).await, [left.id]);
        work_off(&store, None).await;
        assert_eq!(pending(&store, &gone).await, []);
    }
}

/// Deliveries after a long outage, with their events.
async fn given_up(world: &World, deliveries: usize) -> Vec<DeliveryId> {
    let dispatches = world.commit(world.tenant, &world.calls(deliveries)).await;
    world.write_rows(&dispatches).await;
    delivery::Entity::update_many()
        .set(delivery::ActiveModel {
            status: Set(DeliveryStatus::Failed),
            attempts: Set(11),
            next_attempt_at: Set(None),
            completed_at: Set(Some(world.clock.now())),
            ..Default::default()
        })
        .filter(delivery::Column::Status.eq(DeliveryStatus::Pending))
        .exec(world.store.writer())
        .await
        .expect("updated");
    dispatches.iter().map(|d| d.delivery).collect()
}

#[actix::test]
async fn what_was_asked_for_arrives_with_and_without_a_restart() {
    let world = World::new().await;
    let receiver = TenantServer::scripted(|_| ok());
    let hook = world
        .webhook(world.tenant, receiver.outbound_url("/"))
        .await;
    let before = given_up(&world, 30).await;
    ask(&world.store, &hook, world.clock.now()).await;
    let handle = world.start(patient());
    for id in &before {
        world.succeeded(*id).await;
    }
    let after = given_up(&world, 30).await;
    ask(&world.store, &hook, world.clock.now()).await;
    handle.wake();
    for id in &after {
        assert_eq!(world.succeeded(*id).await.attempts, 12);
    }
    assert_eq!(receiver.all().len(), 60, "each once");
    let left = recovery::Entity::find().count(world.store.reader()).await;
    assert_eq!(left.ok(), Some(0));
}

#[actix::test]
async fn many_that_were_given_up_in_the_time_precede_the_others() {
    for (_keep, store) in dikala_testkit::both().await {
        let hook = webhook(&store).await;
        let long_ago = NOW.plus_ms(-7_200_000);
        let earlier = |n: usize| delivery::Model {
            completed_at: Some(NOW.plus_ms(-1_000 - i64::try_from(n).expect("few"))),
            ..failed_of(&hook, long_ago)
        };
        let before = insert(&store, (0..BATCH + 3).map(earlier).collect()).await;
        let within = insert_failed(&store, &hook, BATCH).await;
        // Never asked for.
        insert(&store, vec![failed_of(&hook, long_ago)]).await;
        let asked = ask(&store, &hook, NOW).await;
        let all = u64::try_from(before.len() + within.len()).expect("few");
        assert_eq!(count(store.reader(), &asked).await.ok(), Some(all));
        work(&store, None, NOW).await.expect("worked");
        assert_eq!(
            pending(&store, &hook).await,
            before[3..],
            "the oldest failures"
        );
        assert_eq!(work_off(&store, None).await.len(), 2);
        assert_eq!(pending(&store, &hook).await, [before, within].concat());
        assert_eq!(open(&store).await, []);
    }
}

#[actix::test]
async fn a_recovery_reads_what_failed_in_its_time_however_much_failed_before() {
    const BEFORE: usize = 20_000;
    let Some((_keep, store)) = dikala_testkit::postgres().await else {
        return;
    };
    let hook = webhook(&store).await;
    let long_ago = NOW.plus_ms(-7_200_000);
    let before = (0..BEFORE).map(|_| failed_of(&hook, long_ago)).collect();
    insert(&store, before).await;
    insert_failed(&store, &hook, 10).await;
    let given_up = delivery::Model {
        completed_at: Some(NOW),
        ..failed_of(&hook, long_ago)
    };
    insert(&store, vec![given_up]).await;
    let db = store.writer();
    db.execute_unprepared("ANALYZE deliveries")
        .await
        .expect("is known");
    let asked = ask(&store, &hook, NOW).await;
    assert_eq!(count(store.reader(), &asked).await.ok(), Some(11));
    for selected in [created_within(&asked), given_up_within(&asked)] {
        let sent = selected.page(RECOVERY_BATCH, DbBackend::Postgres);
        let read = reads(&store, &sent).await;
        assert!(read.iter().all(|read| *read < 20), "{read:?} rows");
    }
}

#[actix::test]
async fn a_recovery_is_bounded_by_its_time_on_sqlite() {
    let (_keep, store) = dikala_testkit::sqlite().await;
    let hook = webhook(&store).await;
    let asked = ask(&store, &hook, NOW).await;
    for (selected, bound) in [
        (
            created_within(&asked),
            "deliveries_webhook_status (webhook_id=? AND status=? AND id>? AND id<?)",
        ),
        (
            given_up_within(&asked),
            "deliveries_failed (webhook_id=? AND completed_at>? AND completed_at<?)",
        ),
    ] {
        let mut plan = selected.page(RECOVERY_BATCH, DbBackend::Sqlite);
        plan.sql = format!("EXPLAIN QUERY PLAN {}", plan.sql);
        let steps = store.reader().query_all_raw(plan).await.expect("a plan");
        let steps: Vec<String> = steps
            .iter()
            .map(|step| step.try_get("", "detail").expect("a step"))
            .collect();
        assert!(steps[0].ends_with(bound), "{steps:?}");
        let erased = "SEARCH e USING COVERING INDEX sqlite_autoindex_erasures_1 (call_id=?)";
        assert!(
            steps.len() == 3 && steps[2].ends_with(erased),
            "one row at the most of each call: {steps:?}"
        );
    }
}
