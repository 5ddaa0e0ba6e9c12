//! Measures what exports cost another tenant: its reads without an export, beside one, and beside four.
//!
//! ```sh
//! cargo build --profile bench
//! DIKALA_PROGRAM=$PWD/target/release/dikala cargo test --test it -- --ignored --nocapture exports_beside
//! ```

use std::{
    convert::Infallible,
    time::{Duration, Instant},
};

use actix_web::rt;
use futures_util::{
    StreamExt,
    future::{Either, join_all, select},
};

use super::{exports::begin, *};

/// Calls of each exporting tenant.
const CALLS: usize = 60_000;
/// Bytes of a call in the file, about.
const CALL_BYTES: usize = 1_500;
/// Each round measures every number of exports once, so that a slower machine is slower for all of them.
const ROUNDS: usize = 5;
const REQUESTS: usize = 500;

/// Inserts ended calls whose summaries fill the file. `number` keeps the ids of tenants apart.
async fn insert_calls(db: &impl ConnectionTrait, tenant: &str, number: usize) {
    let summary = "word ".repeat(CALL_BYTES / 5);
    let first = 10_000_000 + number * CALLS;
    let sql = format!(
        "INSERT INTO calls (id, tenant_id, bridge_id, bridge_call_id, phone_number_id, caller_number, callee_number, status, \
         owner, epoch, started_at, answered_at, ended_at, last_sign_at, duration_seconds, talk_time_seconds, hangup_reason, \
         hangup_initiator, transcript_summary, metadata) WITH RECURSIVE n (i) AS (SELECT {first} UNION ALL SELECT i + 1 FROM n \
         WHERE i < {first} + {CALLS} - 1) SELECT 'call_01k9zv3m8rj2q4w6y0' || i, '{tenant}', 'brg_01k9zv3m8rj2q4w6y8a0c2e4g6', \
         'measured-' || i, 'pn_01k9zv3m8rj2q4w6y8a0c2e4g6', '+6281234567890', '+622150001000', 'ended', '', 0, \
         1760000000000 + i, 1760000000000 + i, 1760000060000 + i, 1760000060000 + i, 60, 60, 'normal', 'caller', '{summary}', \
         '{{}}' FROM n"
    );
    db.execute_unprepared(&sql).await.unwrap();
}

/// Reads exports one after the other, without an end.
async fn export(world: &TestWorld, owner: &BrowsingPerson) -> Infallible {
    loop {
        let mut file = begin(world, &owner.browser).await;
        if file.status() == 429 {
            // The export that the last round broke off still has its place for a moment.
            rt::time::sleep(Duration::from_millis(50)).await;
            continue;
        }
        while let Some(piece) = file.next().await {
            piece.unwrap();
        }
    }
}

/// The times of another tenant's reads.
async fn read(world: &TestWorld) -> Vec<Duration> {
    let mut times = Vec::new();
    for _ in 0..REQUESTS {
        let began = Instant::now();
        world.tenant.api.get("/agents").await.expect(200);
        times.push(began.elapsed());
    }
    times
}

/// The middle and the 99th percentile, in microseconds.
fn percentiles(mut times: Vec<Duration>) -> (u128, u128) {
    times.sort_unstable();
    let at = |percent: usize| times[times.len() * percent / 100].as_micros();
    (at(50), at(99))
}

async fn measure(kind: StoreKind) {
    let Some(world) = TestWorld::start(kind, WorldSetup::new()).await else {
        return;
    };
    let url = &world.server.installation.store.url;
    let connection = Database::connect(url).await.unwrap();
    let mut owners = Vec::new();
    for number in 0..4 {
        let tenant = world.another_tenant(1).await;
        let email = format!("owner{number}@example.com");
        owners.push(somebody(&world.server, &tenant.id, &email, "owner").await);
        insert_calls(&connection, &tenant.id, number).await;
    }
    connection.close().await.unwrap();
    read(&world).await;
    for round in 1..=ROUNDS {
        for exports in [0, 1, 4] {
            let exporting = join_all(owners[..exports].iter().map(|owner| export(&world, owner)));
            let reading = Box::pin(read(&world));
            let times = match exports {
                0 => reading.await,
                _ => match select(reading, Box::pin(exporting)).await {
                    Either::Left((times, _)) => times,
                    Either::Right(_) => unreachable!("an export has no end"),
                },
            };
            let (p50, p99) = percentiles(times);
            println!("{kind:?}, round {round}, {exports} exports: p50 {p50} us, p99 {p99} us");
        }
    }
}

#[ignore = "measures; needs an optimised program and a quiet machine"]
#[actix_web::test]
async fn exports_beside_reads_on_sqlite() {
    measure(Sqlite).await;
}

#[ignore = "measures; needs an optimised program and a quiet machine"]
#[actix_web::test]
async fn exports_beside_reads_on_postgres() {
    measure(Postgres).await;
}
