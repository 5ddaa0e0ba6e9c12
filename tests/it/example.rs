//! A worked example of a black-box test; read it to write the next one.
//!
//! Tests here know what a customer, an operator and a developer of bridges know, and drive the real program from
//! outside. A narrower test belongs further in: handlers in `src/api/tests` (in process, with a manual clock), an
//! actor or a pure function beside its code.
//!
//! A new file is a story of its own: begin it with one sentence that names the story, and add it to `main.rs`.

// Everything that most tests need. The rest (raw sockets, a faulty link to PostgreSQL) is in `support/`, one file
// each.
use crate::support::prelude::*;

// The name states the guarantee, so that a failure reads like a bug report. Tests of guarantees on both stores run
// on both: rstest makes one test per value. Without PostgreSQL its test is skipped.
#[rstest]
#[actix_web::test]
async fn a_minute_that_was_begun_is_paid_and_told(
    #[values(Sqlite, Postgres)] store: StoreKind,
    #[values(Socket, Http)] transport: BridgeTransport,
) {
    // A server; a tenant with key, agent, number, bridge and credit; a receiver of all events. Other tests use the
    // same server: this one looks at its own tenant only, and does not stop or disturb the server.
    let world = shared_world!(store, WorldSetup::new().minutes(10));
    let tenant = &world.tenant;

    // A test states when things happened instead of waiting: this call was answered 61 seconds ago.
    let answered = Moment::ago(61);
    let bridge = tenant.bridge(transport).await;
    let call = bridge.talk_since(&tenant.did, answered).await;
    bridge.hang_up_at(&call, answered.plus(61)).await;

    // Acknowledged changes are durable, so they can be checked at once.
    assert_eq!(tenant.billed(&call).await, Some(2));

    // Background work is awaited by its condition, never by a sleep. `event` has checked the signatures.
    let ended = world.event("call.ended", &call).await;
    assert_eq!(ended.data["talkTimeSeconds"], 61);

    // Every test that moves minutes verifies the ledger. When the test ends, the world checks the server's
    // statements; one that scans a growing table fails the test.
    world.assert_ledger_is_exact();
}

// A receiver answers as it is told, request by request; the last answer is repeated.
#[actix_web::test]
async fn an_event_that_is_refused_once_comes_again_the_same() {
    // `WorldSetup` lists what differs from the usual. `set` takes any configuration key, so that an hour in production
    // is a second here. This server is the test's own, with its own store.
    let setup = WorldSetup::new().set("webhooks.retry_schedule_seconds", "1");
    let world = world!(Sqlite, setup);
    let answers = [ServerAnswer::Status(503), ServerAnswer::Status(204)];
    world.receiver.answer("/flaps", answers);
    let url = world.receiver.url("/flaps");
    world
        .tenant
        .subscribe(&url, &["call.started"], SECRET)
        .await;

    let bridge = world.tenant.bridge(Http).await;
    bridge.ring(&world.tenant.did).await;

    let came = world.receiver.wait_for("/flaps", 2).await;
    assert_eq!(came[0].body, came[1].body);
    assert_eq!(came[1].header("x-service-attempt"), "2");
}
