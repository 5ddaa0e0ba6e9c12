//! Tests of the calls' writes, on both stores.

use dikala_entities::{
    EventKind, IdempotencyScope, Millis, Store, TransactionType, credit_account,
    credit_transaction, idempotency,
};
use dikala_testkit::rows;
use sea_orm::{DbBackend, PaginatorTrait, Statement, sea_query::Expr};

use super::*;
use crate::{
    commit::{self, CommitDeps, CommitHandle},
    events::{outbox::EventRecipients, payload::SampleCall},
    ledger::{Credit, CreditBooking, LedgerError},
    nodes::Membership,
    runtime::clock::{Clock, SystemClock},
};

fn ledger(store: &Store) -> CommitHandle {
    let deps = CommitDeps {
        store: store.clone(),
        clock: Arc::new(SystemClock),
        node: Membership::outside("node"),
        recipients: EventRecipients::default(),
    };
    commit::start(&actix_rt::Arbiter::current(), &deps)
}

fn ringing(now: Millis) -> call::Model {
    rows::call(TenantId::new(now), now)
}

fn event(call: &call::Model, kind: EventKind) -> NewEvent {
    let now = call.started_at;
    let data = SampleCall::new(now).payload(kind);
    NewEvent::new(call.tenant_id, Some(call.id), now, now, &data)
}

fn begun(call: &call::Model) -> CommitEntry {
    CommitEntry {
        call: Some(CallWrite::Insert(Box::new(call.clone()))),
        events: vec![event(call, EventKind::CallStarted)],
        ..CommitEntry::of(call.tenant_id)
    }
}

fn answered(call: &call::Model) -> CommitEntry {
    let update = CallUpdate {
        id: call.id,
        fence: fence(1),
        was: CallStatus::Ringing,
        last_sign_was: call.started_at.as_i64(),
        status: CallStatus::Answered,
        answered_at: Some(call.started_at.as_i64()),
        joined_at: None,
        ended_at: None,
        duration_seconds: None,
        talk_time_seconds: None,
        hangup_reason: None,
        hangup_initiator: None,
        transcript_summary: None,
        ai_cost_idr: None,
        voice_provider: None,
        turn_latency_ms: None,
        stalls: None,
        interruptions: None,
        pending: None,
        answer_message_id: None,
        failure_detail: None,
        last_sign_at: call.started_at.as_i64(),
    };
    CommitEntry {
        call: Some(CallWrite::Update(Box::new(update))),
        events: vec![event(call, EventKind::CallAnswered)],
        ..CommitEntry::of(call.tenant_id)
    }
}

fn fence(epoch: i64) -> Fence {
    Fence {
        owner: Arc::from("node"),
        epoch,
    }
}

fn invoked(call: &call::Model, id: &str) -> CommitEntry {
    let invocation = invocation::Model {
        call_id: call.id,
        invocation_id: id.to_owned(),
        tenant_id: call.tenant_id,
        function_name: "look_up".to_owned(),
        outcome: "{}".to_owned(),
        duration_ms: 1,
        created_at: call.started_at,
        function_id: None,
        fault: None,
    };
    CommitEntry {
        invocation: Some((invocation, fence(1))),
        events: vec![event(call, EventKind::FunctionCalled)],
        ..CommitEntry::of(call.tenant_id)
    }
}

async fn events(store: &Store, call: &call::Model) -> u64 {
    event::Entity::find()
        .filter(event::Column::CallId.eq(call.id))
        .count(store.reader())
        .await
        .expect("is counted")
}

/// A commit succeeded and its answer was lost. It is written again by the same entry, or by a later try of the actor whose
/// event has another id. A status change announced by another event is not that of the later try.
#[actix::test]
async fn an_entry_written_twice_has_the_effect_of_one() {
    for (_keep, store) in dikala_testkit::both().await {
        let (ledger, call) = (ledger(&store), ringing(SystemClock.now()));
        for entry in [begun(&call), answered(&call), invoked(&call, "one")] {
            for _ in 0..2 {
                assert_eq!(ledger.write(entry.clone()).await, Ok(()));
            }
        }
        assert_eq!(events(&store, &call).await, 3);
        for again in [begun(&call), invoked(&call, "one")] {
            assert_eq!(ledger.write(again).await, Ok(()));
        }
        let another = ledger.write(answered(&call)).await;
        assert_eq!(another, Err(LedgerError::Conflict));
        assert_eq!(events(&store, &call).await, 3);
    }
}

/// An entry whose call has another owner is not written; the rest of the batch is.
#[actix::test]
async fn a_former_owner_writes_nothing_and_delays_no_other_entry() {
    for (_keep, store) in dikala_testkit::both().await {
        let now = SystemClock.now();
        let (ledger, call) = (ledger(&store), ringing(now));
        assert_eq!(ledger.write(begun(&call)).await, Ok(()));
        call::Entity::update_many()
            .col_expr(call::Column::Epoch, Expr::value(2))
            .filter(call::Column::Id.eq(call.id))
            .exec(store.writer())
            .await
            .expect("is taken over");
        let twin = call::Model {
            id: CallId::new(now),
            ..call.clone()
        };
        let others: Vec<call::Model> = (0..8)
            .map(|n| call::Model {
                bridge_call_id: format!("other {n}"),
                tenant_id: call.tenant_id,
                ..ringing(now)
            })
            .collect();
        let lost = [answered(&call), invoked(&call, "one"), begun(&twin)];
        let lost = futures_util::future::join_all(lost.map(|entry| ledger.write(entry)));
        let kept = others.iter().map(|other| ledger.write(begun(other)));
        let (lost, kept) = tokio::join!(lost, futures_util::future::join_all(kept));
        assert_eq!(lost, vec![Err(LedgerError::Conflict); 3]);
        assert!(kept.iter().all(Result::is_ok), "{kept:?}");
        assert_eq!(events(&store, &call).await, 1);
        assert_eq!(events(&store, &twin).await, 0);
        for other in &others {
            assert_eq!(events(&store, other).await, 1);
        }
    }
}

/// Two nodes have an ended call in memory, and each receives its transcript.
#[actix::test]
async fn a_transcript_is_announced_by_one_of_two_nodes() {
    for (_keep, store) in dikala_testkit::both().await {
        let (ledger, call) = (ledger(&store), ringing(SystemClock.now()));
        let told = |was: CallStatus| {
            let mut entry = answered(&call);
            let Some(CallWrite::Update(update)) = &mut entry.call else {
                panic!("an update");
            };
            (update.was, update.status) = (was, CallStatus::Ended);
            // Unlike the turns, the summary stays the same.
            update.last_sign_at += i64::from(was == CallStatus::Ended);
            entry
        };
        assert_eq!(ledger.write(begun(&call)).await, Ok(()));
        assert_eq!(ledger.write(told(CallStatus::Ringing)).await, Ok(()));
        assert_eq!(ledger.write(told(CallStatus::Ended)).await, Ok(()));
        let second = ledger.write(told(CallStatus::Ended)).await;
        assert_eq!(second, Err(LedgerError::Conflict));
        assert_eq!(events(&store, &call).await, 3);
    }
}

fn claim(key: &str, claimed_at: Millis) -> idempotency::Model {
    idempotency::Model {
        scope: IdempotencyScope::Operators,
        key: key.to_owned(),
        fingerprint: "f".to_owned(),
        status: None,
        body: None,
        location: None,
        created_at: claimed_at,
        size: 0,
        is_brief: false,
        node: String::new(),
        call_id: None,
    }
}

fn kept(key: &str, claimed_at: Millis, body: &str) -> StoredResponse {
    StoredResponse {
        scope: IdempotencyScope::Operators,
        key: key.to_owned(),
        claimed_at,
        status: 201,
        body: body.to_owned(),
        location: Some("/there".to_owned()),
        size: 7,
    }
}

/// Includes an unknown commit outcome, after which the same is written again.
#[actix::test]
async fn an_answer_is_stored_with_its_effect() {
    for (_keep, store) in dikala_testkit::both().await {
        let now = SystemClock.now();
        let (ledger, call) = (ledger(&store), ringing(now));
        rows::insert(store.writer(), claim("k", now)).await;
        let entry = CommitEntry {
            answer: Some(kept("k", now, r#"{"a":"\u0001"}"#)),
            events: vec![event(&call, EventKind::CallStarted)],
            ..CommitEntry::of(call.tenant_id)
        };
        let answer_alone = CommitEntry {
            events: Vec::new(),
            ..entry.clone()
        };
        for entry in [&entry, &entry, &answer_alone] {
            assert_eq!(ledger.write(entry.clone()).await, Ok(()));
        }
        assert_eq!(events(&store, &call).await, 1);
        let rows = idempotency::Entity::find().all(store.reader()).await;
        let answered = idempotency::Model {
            status: Some(201),
            body: Some(r#"{"a":"\u0001"}"#.to_owned()),
            location: Some("/there".to_owned()),
            size: 7,
            ..claim("k", now)
        };
        assert_eq!(rows.expect("answers"), [answered]);
    }
}

/// The claim was taken over by a later request, or released. The rest of the batch is written.
#[actix::test]
async fn a_request_without_its_claim_has_no_effect_and_delays_no_other() {
    for (_keep, store) in dikala_testkit::both().await {
        let now = SystemClock.now();
        let (ledger, tenant) = (ledger(&store), TenantId::new(now));
        rows::insert(store.writer(), credit_account::Model::empty(tenant, 0)).await;
        for (key, claimed_at) in [("taken", now.plus_ms(1)), ("mine", now), ("also", now)] {
            rows::insert(store.writer(), claim(key, claimed_at)).await;
        }
        let book = |key: &'static str| {
            let credit = Credit {
                tenant,
                minutes: 11,
                kind: TransactionType::Purchase,
                reference: None,
                description: None,
            };
            ledger.credit(credit, None, move |_| Some(kept(key, now, key)))
        };
        let booked = ["taken", "mine", "given back", "also"].map(book);
        let booked = futures_util::future::join_all(booked).await;
        let lost = |outcome: &Result<CreditBooking, LedgerError>| match outcome {
            Ok(credited) => !credited.is_new,
            Err(error) => *error == LedgerError::Conflict,
        };
        let lost: Vec<bool> = booked.iter().map(lost).collect();
        assert_eq!(lost, [true, false, true, false], "{booked:?}");
        let transactions = credit_transaction::Entity::find().count(store.reader());
        assert_eq!(transactions.await.expect("is counted"), 2);
        let rows = idempotency::Entity::find().all(store.reader()).await;
        let mut bodies: Vec<(String, Option<String>)> = rows
            .expect("answers")
            .into_iter()
            .map(|row| (row.key, row.body))
            .collect();
        bodies.sort_unstable();
        let expected = [
            ("also", Some("also")),
            ("mine", Some("mine")),
            ("taken", None),
        ];
        let expected = expected.map(|(key, body)| (key.to_owned(), body.map(str::to_owned)));
        assert_eq!(bodies, expected);
    }
}

/// A function's outcome arrives while an erasure has changed the row and has not committed yet.
#[actix::test]
async fn an_outcome_that_comes_while_its_call_is_being_erased_is_not_kept() {
    let Some((_keep, store)) = dikala_testkit::postgres().await else {
        return;
    };
    let (ledger, call) = (ledger(&store), ringing(SystemClock.now()));
    assert_eq!(ledger.write(begun(&call)).await, Ok(()));
    let erasing = store.begin().await.expect("begins");
    call::Entity::update_many()
        .col_expr(call::Column::Owner, Expr::value(call::NOBODY))
        .filter(call::Column::Id.eq(call.id))
        .exec(&erasing)
        .await
        .expect("is erased");
    let outcome = invoked(&call, "one");
    let written = actix_rt::spawn(async move { ledger.write(outcome).await });
    // Only this test's own database: others wait in theirs.
    let waits = "SELECT COUNT(*) AS waiting FROM pg_stat_activity \
        WHERE wait_event_type = 'Lock' AND datname = current_database()";
    while !written.is_finished() {
        let ask = Statement::from_string(DbBackend::Postgres, waits);
        let row = store.reader().query_one_raw(ask).await.expect("answers");
        let waiting: i64 = row
            .expect("a row")
            .try_get("", "waiting")
            .expect("a number");
        if waiting > 0 {
            break;
        }
    }
    erasing.commit().await.expect("commits");
    assert_eq!(written.await.expect("is done"), Err(LedgerError::Conflict));
    let kept = invocation::Entity::find().count(store.reader()).await;
    assert_eq!(kept.expect("is counted"), 0);
}

/// Each tenant's positions have no gaps or duplicates and follow the order of the commits.
#[actix::test]
async fn each_tenants_events_are_in_the_order_of_their_commits() {
    for (_keep, store) in dikala_testkit::both().await {
        let now = SystemClock.now();
        let (one, other) = (ledger(&store), ledger(&store));
        let tenants = [TenantId::new(now), TenantId::new(now), TenantId::new(now)];
        let calls: Vec<call::Model> = (0..60)
            .map(|n| call::Model {
                bridge_call_id: format!("{n}"),
                tenant_id: tenants[n % 3],
                ..ringing(now)
            })
            .collect();
        let writes = calls.iter().enumerate().map(|(n, call)| {
            let ledger = if n % 2 == 0 { &one } else { &other };
            async move {
                assert_eq!(ledger.write(begun(call)).await, Ok(()));
                assert_eq!(ledger.write(answered(call)).await, Ok(()));
            }
        });
        futures_util::future::join_all(writes).await;
        for tenant in tenants {
            let mut positions: Vec<i64> = event::Entity::find()
                .filter(event::Column::TenantId.eq(tenant))
                .select_only()
                .column(event::Column::Position)
                .into_tuple()
                .all(store.reader())
                .await
                .expect("answers");
            positions.sort_unstable();
            assert_eq!(positions, (1..=40).collect::<Vec<i64>>());
        }
    }
}

/// No index of PostgreSQL spans running and ended calls.
#[actix::test]
async fn a_bridges_id_names_one_call_whether_it_runs_or_is_over() {
    for (_keep, store) in dikala_testkit::both().await {
        let now = SystemClock.now();
        let tenant = TenantId::new(now);
        let (one, other) = (ledger(&store), ledger(&store));
        for n in 0..40 {
            let ringing = call::Model {
                bridge_call_id: n.to_string(),
                ..rows::call(tenant, now)
            };
            let refused = call::Model {
                id: CallId::new(now),
                status: CallStatus::Failed,
                ended_at: Some(now),
                ..ringing.clone()
            };
            let written = tokio::join!(one.write(begun(&ringing)), other.write(begun(&refused)));
            assert!(
                matches!(
                    written,
                    (Ok(()), Err(LedgerError::Conflict)) | (Err(LedgerError::Conflict), Ok(()))
                ),
                "{written:?}"
            );
            let again = call::Model {
                id: CallId::new(now),
                ..ringing
            };
            let again = one.write(begun(&again)).await;
            assert_eq!(again, Err(LedgerError::Conflict));
        }
        // Both in one batch: others fill the first one.
        let others = (0..8).map(|n| call::Model {
            bridge_call_id: format!("other {n}"),
            ..rows::call(TenantId::new(now), now)
        });
        let others: Vec<call::Model> = others.collect();
        let running = call::Model {
            bridge_call_id: "twin".to_owned(),
            ..rows::call(tenant, now)
        };
        let over = call::Model {
            id: CallId::new(now),
            status: CallStatus::Failed,
            ended_at: Some(now),
            ..running.clone()
        };
        let all = others.iter().chain([&running, &over]);
        let written = futures_util::future::join_all(all.map(|call| one.write(begun(call)))).await;
        let kept = written.iter().filter(|one| one.is_ok()).count();
        assert_eq!(kept, 9, "{written:?}");
        let calls = call::Entity::find().count(store.reader()).await;
        assert_eq!(calls, Ok(49));
    }
}

/// Otherwise PostgreSQL writes an entry into every index whenever a call is answered.
#[actix::test]
async fn no_index_of_running_calls_contains_a_column_that_changes_while_a_call_runs() {
    let Some((_keep, store)) = dikala_testkit::postgres().await else {
        return;
    };
    let defined = "SELECT indexdef FROM pg_catalog.pg_indexes WHERE tablename = 'running_calls'";
    let rows = store
        .reader()
        .query_all_raw(Statement::from_string(store.backend(), defined))
        .await
        .expect("is read");
    assert!(rows.len() > 3, "there are {}", rows.len());
    for row in rows {
        let index: String = row.try_get("", "indexdef").expect("a text");
        let mut words = index.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        let changes = |word: &str| UPDATED.iter().any(|(column, _)| *column == word);
        assert_eq!(words.find(|word| changes(word)), None, "{index}");
    }
}
