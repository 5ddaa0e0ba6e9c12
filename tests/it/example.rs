//! A worked example: read it to write the next test.
//!
//! A test here knows what a customer, an operator and a builder of bridges know, and drives the real program from outside. Where
//! that is more than the thing needs, write it further in: handlers in `src/api/tests` (in process, with a clock that is moved by
//! hand), an actor or a pure function beside its code.
//!
//! A new file is a story of its own: begin it with one sentence that says which, and add it to `main.rs`.

// All that nearly every test needs. What is left (raw sockets, a link to PostgreSQL that fails) is in `support/`, one file each.
use crate::support::prelude::*;

// The name is what is promised, as one would say it; a failure reads like a bug report. What holds on both stores runs on both:
// rstest makes a test of each value. Without PostgreSQL on the machine that one is skipped.
#[rstest]
#[actix_web::test]
async fn a_minute_that_was_begun_is_paid_and_told(
    #[values(Sqlite, Postgres)] store: StoreKind,
    #[values(Socket, Http)] transport: Transport,
) {
    // A server on a store of its own; a tenant with a key, an agent at a number, a bridge and credit; a receiver that gets all
    // events. `Setup` says what differs from the usual, `set` takes any key of the configuration: so a wait that is an hour in
    // production is a second here.
    let world = world!(store, Setup::new().minutes(10));
    let tenant = &world.tenant;

    // A test says when things happened instead of waiting for them: this call was answered 61 seconds ago.
    let answered = Moment::ago(61);
    let bridge = tenant.bridge(transport).await;
    let call = bridge.talk_since(&tenant.did, answered).await;
    bridge.hang_up_at(&call, answered.plus(61)).await;

    // What is acknowledged is durable, so it can be asked for at once.
    assert_eq!(tenant.billed(&call).await, Some(2));

    // What happens on its own time is waited for, by its condition, never by a sleep. `event` has checked the signatures.
    let ended = world.event("call.ended", &call).await;
    assert_eq!(ended.data["talkTimeSeconds"], 61);

    // Whatever moved minutes leaves books that balance. When the test ends, the world has the server's statements looked at: one
    // that reads through a growing table fails it.
    world.assert_ledger_is_exact();
}

// A receiver of one's own is as bad as it is told to be, answer by answer; the last one stays.
#[actix_web::test]
async fn an_event_that_is_refused_once_comes_again_the_same() {
    let setup = Setup::new().set("webhooks.retry_schedule_seconds", "1");
    let world = world!(Sqlite, setup);
    let answers = [Answer::Status(503), Answer::Status(204)];
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
