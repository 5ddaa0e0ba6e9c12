//! Transactions that PostgreSQL rolls back because of a deadlock or a conflict.

use actix_web::http::Method;
use dikala_entities::store::Transaction;
use dikala_testkit::eventually;
use futures_util::future::join;
use sea_orm::{ConnectionTrait, DbBackend, Statement};
use serde_json::json;

use super::prelude::*;
use super::world::ApiReply;

async fn count(db: &impl ConnectionTrait, what: &str) -> i64 {
    let ask = Statement::from_string(
        DbBackend::Postgres,
        format!("SELECT COUNT(*) AS n FROM {what}"),
    );
    let row = db.query_one_raw(ask).await.expect("answers");
    row.expect("a row").try_get("", "n").expect("a number")
}

/// Another session locks the row of the number.
async fn with_the_number(world: &ApiWorld) -> Transaction {
    let session = world.store().begin().await.expect("begins");
    // The long timeouts make the request detect the deadlock and lose it, and keep this session alive meanwhile.
    for timeout in ["deadlock_timeout", "idle_in_transaction_session_timeout"] {
        let patient = format!("SET LOCAL {timeout} = '60s'");
        session.execute_unprepared(&patient).await.expect("is set");
    }
    lock(&session, "phone_numbers", &world.ours.number).await;
    session
}

async fn lock(session: &Transaction, table: &str, id: &impl ToString) {
    let id = id.to_string();
    let sql = format!("SELECT id FROM {table} WHERE id = '{id}' FOR UPDATE");
    let locked = session.query_one_raw(Statement::from_string(DbBackend::Postgres, sql));
    assert!(locked.await.expect("is locked").is_some());
}

/// Assigns our number to an agent, with an idempotency key.
async fn assign(world: &ApiWorld, agent: &str) -> ApiReply {
    let path = format!("/api/v1/phone-numbers/{}/assign-agent", world.ours.number);
    let headers = [
        ("x-api-key", world.ours.key.as_str()),
        ("content-type", "application/json"),
        ("idempotency-key", "assign"),
    ];
    let body = json!({"agentId": agent}).to_string().into_bytes();
    world.send(&Method::POST, &path, &headers, body).await
}

#[actix_web::test]
async fn who_loses_a_deadlock_is_carried_out_again() {
    let world = world!(Postgres);
    let second = world
        .post("/agents", json!({"name": "Two", "systemPrompt": "B"}))
        .await
        .id();
    let session = with_the_number(&world).await;
    let crossing = async {
        eventually("the request to wait for the number", async || {
            let waits =
                "pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
            (count(world.store().reader(), waits).await == 1).then_some(())
        })
        .await;
        lock(&session, "agents", &second).await;
        session.commit().await.expect("commits");
    };
    let (reply, ()) = join(assign(&world, &second), crossing).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let losers = "pg_stat_database WHERE datname = current_database() AND deadlocks = 1";
    eventually("the deadlock to be counted", async || {
        (count(world.store().reader(), losers).await == 1).then_some(())
    })
    .await;
    let replayed = assign(&world, &second).await;
    assert_eq!(
        (replayed.status, replayed.header("idempotent-replayed")),
        (200, "true")
    );
    assert_eq!(replayed.json(), reply.json());
    let entries = "audit WHERE action = 'number.assign'";
    assert_eq!(count(world.store().reader(), entries).await, 1);
}

/// A lock timeout is not retried: the next wait may be as long, so the client decides.
#[actix_web::test]
async fn who_waits_for_too_long_is_told_so() {
    let world = world!(Postgres);
    let session = with_the_number(&world).await;
    let reply = assign(&world, &world.ours.agent.to_string()).await;
    assert_eq!((reply.status, reply.code()), (503, "unavailable".into()));
    assert_ne!(reply.header("retry-after"), "");
    session.rollback().await.expect("ends");
    let reply = assign(&world, &world.ours.agent.to_string()).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
}
