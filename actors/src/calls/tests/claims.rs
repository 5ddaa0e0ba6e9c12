//! Tests of invocation claims.

use sea_orm::Statement;

use super::*;
use crate::calls::claims::{claim, delete_released, delete_stale, mark_abandoned};

async fn claimed(world: &World, call: CallId) -> Option<bool> {
    let claim = claim(world.calls.deps(), call, "once").await;
    claim.expect("is claimed").map(|claim| claim.is_lost())
}

async fn rows(world: &World) -> usize {
    let all = "SELECT * FROM invocation_claims";
    let rows = world.store.reader().query_all_raw(Statement::from_string(
        world.store.backend(),
        all.to_owned(),
    ));
    rows.await.expect("is read").len()
}

#[actix::test]
async fn an_endpoint_is_called_once() {
    let world = World::new().await;
    let deps = world.calls.deps();
    let call = world.incoming("1").await;
    world.tell(call, answered()).await.expect("is answered");
    let first = claim(deps, call, "once").await.expect("is claimed");
    assert!(first.is_some());
    for _ in 0..2 {
        assert_eq!(claimed(&world, call).await, None, "another has it");
    }
    drop(first);
    assert_eq!(
        claimed(&world, call).await,
        Some(false),
        "it was never called"
    );
    delete_released(deps).await.expect("forgets");
    assert_eq!(rows(&world).await, 0, "nobody has to wait for it");

    // The process that called the endpoint is gone, and the outcome with it.
    let lost = claim(deps, call, "once").await.expect("is claimed");
    lost.expect("is free").mark_called();
    assert_eq!(claimed(&world, call).await, Some(true));
    mark_abandoned(deps).await.expect("is told");
    assert_eq!(claimed(&world, call).await, Some(true), "for everybody");

    delete_stale(deps).await.expect("looks");
    assert_eq!(rows(&world).await, 1, "it may be asked for again");
    world.tell(call, hang_up()).await.expect("is over");
    delete_stale(deps).await.expect("forgets");
    assert_eq!(rows(&world).await, 0);
}

#[actix::test]
async fn a_claim_that_is_done_is_forgotten() {
    let world = World::new().await;
    let deps = world.calls.deps();
    let call = world.incoming("1").await;
    let done = claim(deps, call, "once").await.expect("is claimed");
    let mut done = done.expect("is free");
    done.mark_called();
    done.mark_done();
    drop(done);
    delete_released(deps).await.expect("forgets");
    mark_abandoned(deps).await.expect("has nothing to give up");
    assert_eq!(rows(&world).await, 0);
}

#[actix::test]
async fn a_claim_that_is_held_is_not_forgotten() {
    let world = World::new().await;
    let deps = world.calls.deps();
    let call = world.incoming("1").await;
    drop(claim(deps, call, "once").await.expect("is claimed"));
    let again = claim(deps, call, "once").await.expect("is claimed");
    delete_released(deps).await.expect("forgets");
    assert_eq!(rows(&world).await, 1, "it is somebody's again");
    drop(again);
    delete_released(deps).await.expect("forgets");
    assert_eq!(rows(&world).await, 0);
}

#[actix::test]
async fn a_late_write_about_a_claim_leaves_its_successor_alone() {
    for next in ["node = 'other'", "claimed_at = claimed_at + 1"] {
        let world = World::new().await;
        let deps = world.calls.deps();
        let call = world.incoming("1").await;
        drop(claim(deps, call, "once").await.expect("is claimed"));
        let taken = format!("UPDATE invocation_claims SET {next}");
        let writer = world.store.writer();
        writer.execute_unprepared(&taken).await.expect("is taken");
        delete_released(deps).await.expect("forgets");
        assert_eq!(rows(&world).await, 1, "{next}");
    }
}
