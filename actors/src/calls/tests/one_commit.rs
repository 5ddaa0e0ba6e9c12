//! A message is one commit: if any of its writes fails, nothing is stored; its repeat stores everything.

use dikala_entities::{Actor, AuditAction, AuditId, EventKind, Speaker, WebhookId, audit};
use dikala_protocol::SpokenTurn;
use dikala_testkit::rows;
use sea_orm::Statement;

use super::*;

/// Everything that a call can change, in one line.
const EVERYTHING: &str = "SELECT \
    (SELECT available || ' ' || held || ' ' || used || ' ' || posted || ' ' || open_holds FROM credit_accounts) || ', holds ' || \
    (SELECT COUNT(*) || ' ' || COALESCE(SUM(held), 0) || ' ' || COALESCE(SUM(used), 0) || ' ' || COUNT(settled_at) FROM credit_holds) \
    || ', transactions ' || (SELECT COUNT(*) FROM credit_transactions) || ', calls ' || \
    (SELECT COALESCE(GROUP_CONCAT(status), '') FROM calls) || ', transcripts ' || (SELECT COUNT(*) FROM transcripts) || ', events ' || \
    (SELECT COUNT(*) FROM events) || ' up to ' || (SELECT COALESCE(SUM(last), 0) FROM event_positions) || ', subscribed ' || \
    (SELECT COUNT(subscribers) FROM events) || ', counted ' || (SELECT COALESCE(SUM(calls), 0) FROM call_stats) || ', audit ' || \
    (SELECT COUNT(*) FROM audit) AS everything";

async fn everything(store: &Store) -> String {
    let ask = Statement::from_string(store.backend(), EVERYTHING);
    let row = store.reader().query_one_raw(ask).await.expect("answers");
    let row = row.expect("a row");
    row.try_get("", "everything").expect("a text")
}

async fn subscribe(store: &Store, now: Millis) {
    let tenant = tenant::Entity::find().one(store.reader()).await;
    let tenant = tenant.expect("is read").expect("is there").id;
    let row = rows::webhook(WebhookId::new(now), tenant, EventKind::OF_WEBHOOKS, now);
    rows::insert(store.writer(), row).await;
}

/// The audit entry of a tenant's request.
fn wish(call: CallId, now: Millis) -> audit::Model {
    audit::Model {
        id: AuditId::new(now),
        tenant_id: None,
        actor: Actor::Cli,
        action: AuditAction::CallTransfer,
        target: call.to_string(),
        detail: String::new(),
        at: now,
        address: None,
        request_id: None,
        node: "node".to_owned(),
    }
}

/// Lets each write fail once; then the message succeeds.
async fn fails_wholly<T: std::fmt::Debug>(
    world: &World,
    writes: &[&str],
    message: impl AsyncFn() -> Result<T, CallError>,
) -> T {
    let before = everything(&world.store).await;
    let sql = async |sql: String| {
        let done = world.store.writer().execute_unprepared(&sql).await;
        done.expect("runs");
    };
    for write in writes {
        sql(format!(
            "CREATE TRIGGER broken BEFORE {write} BEGIN SELECT RAISE(ABORT, 'broken'); END"
        ))
        .await;
        let refused = message().await;
        assert!(refused.is_err(), "{write}: {refused:?}");
        assert_eq!(everything(&world.store).await, before, "{write}");
        sql("DROP TRIGGER broken".to_owned()).await;
    }
    let done = message().await.expect("it is written");
    assert_ne!(everything(&world.store).await, before);
    done
}

#[actix::test]
async fn a_message_of_which_one_write_fails_leaves_nothing() {
    let world = World::new().await;
    subscribe(&world.store, SystemClock.now()).await;
    let taken = fails_wholly(
        &world,
        &[
            "INSERT ON credit_holds",
            "UPDATE ON credit_accounts",
            "INSERT ON calls",
            "INSERT ON event_positions",
            "INSERT ON events",
        ],
        async || {
            world
                .calls
                .incoming(world.bridge, incoming("a"), None)
                .await
        },
    )
    .await;
    let CallReply::Admitted { call, .. } = taken else {
        panic!("the call is taken: {taken:?}");
    };
    fails_wholly(
        &world,
        &[
            "UPDATE ON calls",
            "UPDATE ON event_positions",
            "INSERT ON events",
        ],
        async || world.tell(call, answered()).await,
    )
    .await;
    fails_wholly(
        &world,
        &[
            "UPDATE ON calls",
            "INSERT ON transcripts",
            "INSERT ON events",
            "INSERT ON call_stats",
        ],
        async || {
            let answer = SpokenTurn::new(Speaker::Agent, "Besok.".to_owned(), None);
            let said = CallInput::Transcript {
                at: None,
                summary: "They talked.".to_owned(),
                turns: vec![SpokenTurn {
                    latency_ms: Some(640),
                    ..answer
                }],
            };
            world.tell(call, said).await
        },
    )
    .await;
    let audit = wish(call, SystemClock.now());
    fails_wholly(
        &world,
        &["UPDATE ON calls", "INSERT ON audit"],
        async || {
            let transfer = CallInput::RequestTransfer {
                to: "+6281234567890".parse().expect("a number"),
                audit: Some(Box::new(audit.clone())),
            };
            world.calls.tell(None, call, transfer).await
        },
    )
    .await;
    fails_wholly(
        &world,
        &[
            "UPDATE ON credit_holds",
            "INSERT ON credit_transactions",
            "UPDATE ON credit_accounts",
            "UPDATE ON calls",
            "INSERT ON events",
            "INSERT ON call_stats",
        ],
        async || world.tell(call, hang_up()).await,
    )
    .await;
    assert_eq!(
        everything(&world.store).await,
        "9 0 1 9 0, holds 1 0 1 1, transactions 2, calls ended, transcripts 1, events 4 up to 4, subscribed 4, counted 3, audit 1"
    );
    let report = ledger::verify(&world.store, None)
        .await
        .expect("is verified");
    assert_eq!(report.differences, Vec::<String>::new());
}

/// The refusal is written with its hold.
#[actix::test]
async fn a_refusal_of_which_one_write_fails_leaves_nothing() {
    let world = World::new().await;
    let empty = "UPDATE credit_accounts SET available = 0, used = used + available";
    world
        .store
        .writer()
        .execute_unprepared(empty)
        .await
        .expect("runs");
    let refused = fails_wholly(
        &world,
        &[
            "INSERT ON credit_holds",
            "INSERT ON calls",
            "INSERT ON events",
            "INSERT ON call_stats",
        ],
        async || {
            world
                .calls
                .incoming(world.bridge, incoming("a"), None)
                .await
        },
    )
    .await;
    let reason = HangupReason::InsufficientCredits;
    assert!(matches!(refused, CallReply::Refused { reason: told, .. } if told == reason));
}
