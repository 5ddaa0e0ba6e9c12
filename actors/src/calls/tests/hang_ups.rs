//! Callers hang up while functions of their calls start: this delays no other write.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use sea_orm::DbBackend;

use super::*;
use crate::{calls::actor::CallActor, runtime::context::Metered};

/// A write waits no longer than this.
const SOON: Duration = Duration::from_secs(1);
/// The limit of the plain form, which runs beside many other tests. On SQLite a write gives up after 10 s.
const IN_TIME: Duration = Duration::from_secs(5);
/// Calls that hang up together, each with a function.
const CALLS: usize = 40;
const ROUNDS: usize = 100;
const FUNCTIONS: usize = 8;

fn invocation(world: &World, number: usize) -> InvokeFunction {
    InvokeFunction {
        trace: None,
        bridge: world.bridge,
        invocation_id: number.to_string(),
        name: "find_order".into(),
        parameters: serde_json::Map::new(),
        at: None,
        since: Instant::now(),
    }
}

async fn talking(world: &World, bridge_call: &str) -> CallId {
    let call = world.incoming(bridge_call).await;
    assert_eq!(world.tell(call, answered()).await, Ok(CallReply::Done));
    call
}

/// Lets other tasks of this thread run.
async fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        tokio::task::yield_now().await;
    }
}

/// True while the call's actor handles a message; it accepts no other meanwhile.
fn is_busy(call: CallId) -> bool {
    let actors = <CallActor as Metered>::meter().busiest(usize::MAX);
    let mut actors = actors.into_iter();
    actors.any(|actor| actor.name == call.to_string() && actor.doing.is_some())
}

/// Takes every connection on which a claim or the ledger may write.
async fn all_writers(store: &Store) -> Vec<Transaction> {
    let mut held = Vec::new();
    for (name, pool) in store.pools() {
        for _ in 0..pool.in_use + pool.idle + pool.unopened {
            let txn = match (store.backend(), name) {
                // The single connection, without a place in its queue: a claim takes that.
                (DbBackend::Sqlite, "writer") | (_, "critical") => store.begin_critical().await,
                (_, "writer") => store.begin().await,
                _ => continue,
            };
            held.push(txn.expect("begins"));
        }
    }
    held
}

/// Writes something unrelated to calls. Returns the time that it took.
async fn write(store: &Store) -> Duration {
    let began = Instant::now();
    let sql = "UPDATE tenants SET updated_at = updated_at + 1";
    let written = store.writer().execute_unprepared(sql).await;
    written.expect("is written");
    began.elapsed()
}

#[actix::test]
async fn a_function_in_line_for_the_store_holds_up_no_hang_up_and_no_write() {
    for store in dikala_testkit::both().await {
        let world = World::on(store, Arc::new(SystemClock)).await;
        let call = talking(&world, "a").await;
        let mut held = all_writers(&world.store).await;
        let functions = (0..FUNCTIONS).map(|number| invocation(&world, number));
        let functions = functions.map(|function| world.calls.invoke(call, function));
        let hang_up = async {
            // Each of them queues from the moment at which it is noted here.
            until(|| world.calls.deps().invocations.running.len() == FUNCTIONS).await;
            world.tell(call, hang_up()).await
        };
        let others = async {
            until(|| is_busy(call)).await;
            held.clear();
            write(&world.store).await
        };
        let all = async { tokio::join!(join_all(functions), hang_up, others) };
        let all = tokio::time::timeout(IN_TIME, all).await;
        let (functions, hung_up, _) = all.expect("nobody waits for somebody who waits for him");
        assert_eq!(hung_up, Ok(CallReply::Done));
        assert_eq!(functions.len(), FUNCTIONS);
    }
}

/// `.ci/faults` runs it.
#[actix::test]
#[ignore = "a minute"]
async fn crowds_that_hang_up_while_their_functions_begin_hold_up_no_write() {
    for store in dikala_testkit::both().await {
        let world = World::on(store, Arc::new(SystemClock)).await;
        world.buy(2 * (CALLS * ROUNDS) as i64).await;
        let mut longest = Duration::ZERO;
        for round in 0..ROUNDS {
            let mut calls = Vec::new();
            for number in 0..CALLS {
                calls.push(talking(&world, &format!("{round} {number}")).await);
            }
            let each = calls.iter().map(|call| async {
                let hung_up = async {
                    let began = Instant::now();
                    assert_eq!(world.tell(*call, hang_up()).await, Ok(CallReply::Done));
                    began.elapsed()
                };
                let function = world.calls.invoke(*call, invocation(&world, 0));
                tokio::join!(function, hung_up).1
            });
            let others = async {
                let mut longest = Duration::ZERO;
                for _ in 0..20 {
                    longest = longest.max(write(&world.store).await);
                }
                longest
            };
            let (each, others) = tokio::join!(join_all(each), others);
            longest = each
                .into_iter()
                .chain([others, longest])
                .max()
                .expect("some");
        }
        println!(
            "the longest write of {ROUNDS} rounds on {:?}: {longest:?}",
            world.store.backend()
        );
        assert!(longest <= SOON, "{longest:?}");
    }
}
