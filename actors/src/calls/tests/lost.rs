//! Take-over from a dead node: all of its calls are taken up, even if some cannot be read.

use dikala_entities::WebhookId;
use sea_orm::Statement;

use super::*;
use crate::calls::{
    recovery::{look_for_lost, recover},
    registry::look_at_others,
};

impl World {
    async fn does(&self, sql: &str) {
        let db = self.store.writer();
        db.execute_unprepared(sql).await.expect("is done");
    }

    /// A node whose lease has expired, and that has not been ended yet.
    async fn died(&self, node: &str) {
        let died = format!(
            "INSERT INTO nodes (id, name, address, process, version, started_at, lease_until, calls, bridges) \
             VALUES ('{node}', '', '', '', '', 0, 0, 0, 0)"
        );
        self.does(&died).await;
    }

    /// A call that a node owns and that no actor has in memory.
    async fn left_by(&self, node: &str, bridge_call: &str) -> CallId {
        let call = self.incoming(bridge_call).await;
        self.calls.let_go(call, i64::MAX);
        self.moves(call, node).await;
        call
    }

    async fn moves(&self, call: CallId, node: &str) {
        for (table, id) in [("calls", "id"), ("credit_holds", "call_id")] {
            let moves = format!(
                "UPDATE {table} SET owner = '{node}', epoch = epoch + 1 WHERE {id} = '{call}'"
            );
            self.does(&moves).await;
        }
    }

    fn is_here(&self, call: CallId) -> bool {
        self.calls.directory().find(call).is_some()
    }

    async fn is_node(&self, node: &str) -> bool {
        let find = format!("SELECT id FROM nodes WHERE id = '{node}'");
        let find = Statement::from_string(self.store.backend(), find);
        let found = self.store.reader().query_one_raw(find).await;
        found.expect("is read").is_some()
    }
}

/// With a row lock on one of its deliveries. A write to it would wait, and a write to a million rows would be cancelled.
#[actix::test]
async fn a_node_is_ended_without_writing_its_deliveries() {
    let Some(place) = dikala_testkit::postgres().await else {
        return;
    };
    let world = World::on(place, Arc::new(SystemClock)).await;
    let now = SystemClock.now();
    let event = rows::event(TenantId::new(now), now);
    let delivery = dikala_entities::delivery::Model {
        next_attempt_at: Some(now),
        ..rows::delivery(&event, WebhookId::new(now))
    };
    rows::insert(world.store.writer(), delivery).await;
    let busy = world.store.begin().await.expect("begins");
    let lock = "UPDATE deliveries SET attempts = 1";
    busy.execute_unprepared(lock).await.expect("is locked");
    let call = world.left_by("gone", "b-1").await;
    world.died("gone").await;
    look_for_lost(&world.calls).await.expect("nothing waits");
    assert!(!world.is_node("gone").await);
    // The registry does the same every second, and may have been faster.
    dikala_testkit::eventually("the call to be here", async || {
        world.is_here(call).then_some(())
    })
    .await;
    assert_eq!(world.row(call).await.owner, "node");
    busy.commit().await.expect("was locked until now");
}

/// A call whose hold is locked waits for a new owner, and a start neither fails nor waits for it.
#[actix::test]
async fn a_locked_hold_keeps_no_other_call_from_being_taken_up() {
    let Some(place) = dikala_testkit::postgres().await else {
        return;
    };
    let world = World::on(place, Arc::new(SystemClock)).await;
    let locked = world.left_by("left", "b-1").await;
    let busy = world.store.begin().await.expect("begins");
    let lock = format!("SELECT 1 FROM credit_holds WHERE call_id = '{locked}' FOR UPDATE");
    busy.execute_unprepared(&lock).await.expect("is locked");
    recover(&world.calls).await.expect("a start goes on");
    assert!(!world.is_here(locked));
    busy.rollback().await.expect("was locked until now");
    // The registry looks every second.
    dikala_testkit::eventually("the call to be here", async || {
        world.is_here(locked).then_some(())
    })
    .await;
}

#[actix::test]
async fn a_node_that_cannot_be_ended_keeps_nothing_else_from_being_done() {
    let world = World::new().await;
    let nobodys = world.left_by("left", "b-1").await;
    let moved = world.incoming("b-2").await;
    world.moves(moved, "other").await;
    world.died("stuck").await;
    world.died("gone").await;
    let sticks = "CREATE TRIGGER sticks BEFORE DELETE ON nodes WHEN OLD.id = 'stuck' \
                  BEGIN SELECT RAISE(ABORT, 'it sticks'); END";
    world.does(sticks).await;
    // Other nodes live, so calls that they took over are dropped here.
    let lives = "INSERT INTO nodes (id, name, address, process, version, started_at, lease_until, calls, bridges) \
                 VALUES ('other', '', '', '', '', 0, 9000000000000, 0, 0)";
    world.does(lives).await;
    look_at_others(&world.calls).await.expect_err("it sticks");
    assert!(world.is_here(nobodys), "it is taken up");
    assert!(!world.is_here(moved), "it is let go of");
    assert!(!world.is_node("gone").await, "it is ended");
    assert!(world.is_node("stuck").await);
}

/// A row of a newer version, or one that was changed by hand.
#[actix::test]
async fn a_call_that_cannot_be_read_keeps_no_other_from_being_taken_up() {
    let world = World::new().await;
    let mut calls = Vec::new();
    for bridge_call in ["b-1", "b-2", "b-3"] {
        calls.push(world.left_by("left", bridge_call).await);
    }
    let [strange, good, unheld] = calls[..] else {
        panic!("three calls");
    };
    world
        .does(&format!(
            "UPDATE calls SET hangup_reason = 'of_a_newer_version' WHERE id = '{strange}'"
        ))
        .await;
    world
        .does(&format!(
            "UPDATE credit_holds SET created_at = 'a word' WHERE call_id = '{unheld}'"
        ))
        .await;
    look_for_lost(&world.calls).await.expect("goes on");
    assert!(world.is_here(good));
    // A row that cannot be read completely is not billed, rather than billed wrongly.
    assert!(!world.is_here(strange) && !world.is_here(unheld));
    let repair = format!("UPDATE calls SET hangup_reason = NULL WHERE id = '{strange}'");
    world.does(&repair).await;
    take_up(&world.calls, &[strange]).await;
    assert!(world.is_here(strange));
}

/// The call was taken over, but the database was unavailable for the read. No actor has the call, and its bridge may have lost
/// it.
#[actix::test]
async fn a_call_that_was_taken_and_not_read_is_told_what_its_bridge_lists() {
    let world = World::new().await;
    let call = world.incoming("b-1").await;
    let answered = CallInput::Answered {
        at: None,
        message_id: "1".into(),
    };
    world.tell(call, answered).await.expect("is answered");
    world.calls.let_go_of_all();
    assert_eq!(world.row(call).await.owner, "node");
    world.calls.deps().node.found(2);
    let listed = world.calls.heartbeat(world.bridge, &[], None).await;
    assert_eq!(listed, Ok(Vec::new()));
    let row = world.row(call).await;
    assert_eq!(row.hangup_reason, Some(HangupReason::BridgeLost));
}
