//! The journal on both stores.

use dikala_entities::{BridgeId, EventKind, PhoneNumberId, TenantId, event};
use sea_orm::{DbBackend, PaginatorTrait, Statement, sea_query::Expr};

use super::*;
use crate::{
    clock::SystemClock,
    testing::{postgres_store, stores},
};

fn entry(now: Millis) -> Entry {
    let (id, tenant) = (CallId::new(now), TenantId::new(now));
    let call = call::Model {
        id,
        tenant_id: tenant,
        bridge_id: BridgeId::new(now),
        bridge_call_id: "b".to_owned(),
        phone_number_id: PhoneNumberId::new(now),
        agent_id: None,
        caller_number: "someone".parse().expect("a caller"),
        callee_number: "+622150001000".parse().expect("a number"),
        status: CallStatus::Ringing,
        started_at: now,
        answered_at: None,
        ended_at: None,
        duration_seconds: None,
        talk_time_seconds: None,
        hangup_reason: None,
        hangup_initiator: None,
        transcript_summary: None,
        ai_cost_idr: None,
        metadata: "{}".to_owned(),
        settings: None,
        agent_version: None,
        pending: None,
        answer_message_id: None,
        failure_detail: None,
        last_sign_at: now,
        owner: "node".to_owned(),
        epoch: 1,
    };
    let data = serde_json::json!({"callId": id});
    let event = NewEvent::new(EventKind::CallStarted, tenant, Some(id), now, now, &data);
    Entry {
        call: Some(CallWrite::Insert(Box::new(call))),
        events: vec![event],
        ..Entry::default()
    }
}

/// A commit that went through and whose answer was lost is written again.
#[actix::test]
async fn an_entry_that_is_written_twice_is_written_once() {
    for (_folder, store) in stores().await {
        let clock: SharedClock = Arc::new(SystemClock);
        let now = clock.now();
        let parts = JournalParts {
            store: store.clone(),
            clock,
            node: Arc::from("node"),
            audience: Audience::default(),
            stats: Arc::new(BatchStats::default()),
        };
        let entry = entry(now);
        let waiting = |entry: &Entry| Waiting {
            entry: entry.clone(),
            reply: oneshot::channel().0,
        };
        for _ in 0..2 {
            let written = write_once(&parts, &[waiting(&entry)]).await;
            assert!(written.expect("is written").conflicts.is_empty());
        }
        let events = event::Entity::find()
            .filter(event::Column::Id.eq(entry.events[0].id))
            .count(store.reader());
        assert_eq!(events.await.expect("is counted"), 1);
        // The same call under another owner is not this entry's.
        let Some(CallWrite::Insert(mut call)) = entry.call.clone() else {
            panic!("an insert");
        };
        call.owner = "another".to_owned();
        let other = Entry {
            call: Some(CallWrite::Insert(call)),
            ..Entry::default()
        };
        let written = write_once(&parts, &[waiting(&other)]).await;
        assert_eq!(written.expect("is written").conflicts.len(), 1);
    }
}

/// The later of two transcripts of one call stays, also where both are in one batch; that of another call is untouched.
#[actix::test]
async fn the_latest_transcript_of_each_call_of_a_batch_is_written() {
    for (_folder, store) in stores().await {
        let clock: SharedClock = Arc::new(SystemClock);
        let now = clock.now();
        let parts = JournalParts {
            store: store.clone(),
            clock,
            node: Arc::from("node"),
            audience: Audience::default(),
            stats: Arc::new(BatchStats::default()),
        };
        let (one, other) = (CallId::new(now), CallId::new(now));
        let said = |call: CallId, summary: &str| {
            let transcript = transcript::Model {
                call_id: call,
                tenant_id: TenantId::new(now),
                summary: summary.to_owned(),
                turns: "[]".to_owned(),
                created_at: now,
            };
            let entry = Entry {
                transcript: Some(transcript),
                ..Entry::default()
            };
            Waiting {
                entry,
                reply: oneshot::channel().0,
            }
        };
        let batches = [
            vec![
                said(one, "first"),
                said(other, "other"),
                said(one, "second"),
            ],
            vec![said(one, "third")],
        ];
        for (batch, expected) in batches.into_iter().zip(["second", "third"]) {
            write_once(&parts, &batch).await.expect("is written");
            for (call, expected) in [(one, expected), (other, "other")] {
                let found = transcript::Entity::find_by_id(call).one(store.reader());
                let found = found.await.expect("is read").expect("is there");
                assert_eq!(found.summary, expected);
            }
        }
    }
}

/// The erasure has changed the row and not committed yet when the outcome of a function comes.
#[actix::test]
async fn an_outcome_that_comes_while_its_call_is_being_erased_is_not_kept() {
    let Some(store) = postgres_store().await else {
        return;
    };
    let clock: SharedClock = Arc::new(SystemClock);
    let now = clock.now();
    let parts = JournalParts {
        store: store.clone(),
        clock,
        node: Arc::from("node"),
        audience: Audience::default(),
        stats: Arc::new(BatchStats::default()),
    };
    let waiting = |entry: Entry| Waiting {
        entry,
        reply: oneshot::channel().0,
    };
    let begun = entry(now);
    let Some(CallWrite::Insert(call)) = begun.call.clone() else {
        panic!("an insert");
    };
    write_once(&parts, &[waiting(begun)])
        .await
        .expect("is written");
    let outcome = Entry {
        invocation: Some(invocation::Model {
            call_id: call.id,
            invocation_id: "one".to_owned(),
            tenant_id: call.tenant_id,
            function_name: "look_up".to_owned(),
            outcome: "{}".to_owned(),
            duration_ms: 1,
            created_at: now,
            function_id: None,
            fault: None,
        }),
        ..Entry::default()
    };

    let erasing = store.begin().await.expect("begins");
    call::Entity::update_many()
        .col_expr(call::Column::Owner, Expr::value(call::NOBODY))
        .filter(call::Column::Id.eq(call.id))
        .exec(&erasing)
        .await
        .expect("is erased");
    let written = actix_rt::spawn(async move { write_once(&parts, &[waiting(outcome)]).await });
    let waits = "SELECT COUNT(*) AS waiting FROM pg_locks WHERE NOT granted";
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
    let written = written.await.expect("is done").expect("is written");
    assert_eq!(written.conflicts.len(), 1);
    let kept = invocation::Entity::find().count(store.reader()).await;
    assert_eq!(kept.expect("is counted"), 0);
}
