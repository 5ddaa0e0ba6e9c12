//! Bookings over HTTP, like a payment gateway's callback.

use futures_util::future::{join, join_all};
use sea_orm::{ConnectionTrait, Database, TransactionTrait};

use super::*;
use crate::support::tenant::text;

#[rstest]
#[actix_web::test]
async fn a_reference_is_booked_once_and_never_as_something_else(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = shared_world!(store);
    let (tenant, api) = (&world.tenant, client(&world.server));
    let other = world.another_tenant(10).await;
    let path = format!("/tenants/{}/credits/transactions", tenant.id);
    let booking =
        json!({"minutes": 500, "type": "purchase", "reference": "inv-1", "description": "January"});
    let first = api.post(&path, booking.clone()).await;
    assert_eq!(made_at(&world.server, &first).await, first.body);
    let first = first.expect(201);
    assert_eq!(
        (&first["minutes"], &first["type"]),
        (&json!(500), &json!("purchase"))
    );
    let again = api.post(&path, booking.clone()).await.expect(200);
    assert_eq!(again, first);
    for (name, value) in [
        ("minutes", json!(501)),
        ("type", json!("bonus")),
        ("description", json!("February")),
        ("description", Value::Null),
    ] {
        let mut another = booking.clone();
        another[name] = value;
        let refused = api.post(&path, another).await.expect(409);
        assert_eq!(refused["error"]["code"], "reference_conflict", "{name}");
    }
    // References are scoped to their tenant.
    let theirs = format!("/tenants/{}/credits/transactions", other.id);
    let booked = api.post(&theirs, booking).await.expect(201);
    assert_ne!(booked["id"], first["id"]);
    let listed = api.get(&path).await.expect(200);
    assert_eq!(
        listed["transactions"].as_array().unwrap().len(),
        2,
        "{listed}"
    );
    assert_eq!(listed["transactions"][0], first);
    let credits = api
        .get(&format!("/tenants/{}/credits", tenant.id))
        .await
        .expect(200);
    let expected = json!({
        "balanceMinutes": 1500, "availableMinutes": 1500, "heldMinutes": 0, "lifetimePurchasedMinutes": 1500,
        "lifetimeUsedMinutes": 0,
    });
    assert_eq!(credits, expected);
    world.assert_ledger_is_exact();
}

#[rstest]
#[actix_web::test]
async fn callbacks_that_come_at_once_are_one_booking(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let (tenant, api) = (&world.tenant, client(&world.server));
    let path = format!("/tenants/{}/credits/transactions", tenant.id);
    let booking = json!({"minutes": 7, "reference": "inv-1"});
    let post = || api.post(&path, booking.clone());
    let answers = join_all((0..16).map(|_| post())).await;
    let booked_now = answers.iter().filter(|answer| answer.status == 201).count();
    assert_eq!(booked_now, 1, "{answers:?}");
    let bodies: Vec<Value> = answers
        .into_iter()
        .map(|answer| {
            let status = answer.status;
            answer.expect(status)
        })
        .collect();
    assert!(bodies.iter().all(|body| body == &bodies[0]), "{bodies:?}");
    assert_eq!(tenant.credits().await, (1_007, 1_007, 0));
    // The command line does not book the same reference again, either.
    let booked = world.server.cli(&[
        "credits",
        "add",
        "--tenant",
        &tenant.id,
        "--minutes",
        "7",
        "--reference",
        " inv-1 ",
    ]);
    assert_eq!(booked["id"], bodies[0]["id"]);
    let entries = api.get("/audit?action=credit.add").await.expect(200);
    let who: Vec<&str> = entries["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["actor"].as_str().unwrap())
        .collect();
    assert_eq!(
        who,
        ["operator", "operator"],
        "each booking leaves one entry: {entries}"
    );
    world.assert_ledger_is_exact();
}

#[rstest]
#[actix_web::test]
async fn what_cannot_be_booked_says_why(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = shared_world!(store, WorldSetup::new().minutes(10));
    let (tenant, api) = (&world.tenant, client(&world.server));
    let path = format!("/tenants/{}/credits/transactions", tenant.id);
    for (booking, field, code) in [
        (json!({}), "minutes", "required"),
        (json!({"minutes": 0}), "minutes", "not_allowed"),
        (json!({"minutes": -1}), "minutes", "too_small"),
        (
            json!({"minutes": -1, "type": "refund"}),
            "minutes",
            "too_small",
        ),
        (json!({"minutes": 1.5}), "minutes", "invalid_type"),
        (json!({"minutes": 1_000_000_001}), "minutes", "too_large"),
        (json!({"minutes": 1_000_000_000}), "minutes", "too_large"),
        (
            json!({"minutes": 1, "type": "usage"}),
            "type",
            "not_allowed",
        ),
        (json!({"minutes": 1, "type": "gift"}), "type", "not_allowed"),
        (
            json!({"minutes": 1, "reference": "a\nb"}),
            "reference",
            "invalid_format",
        ),
        (
            json!({"minutes": 1, "reference": "x".repeat(256)}),
            "reference",
            "too_long",
        ),
        (
            json!({"minutes": 1, "refrence": "x"}),
            "refrence",
            "unknown_field",
        ),
    ] {
        let refused = api.post(&path, booking.clone()).await.expect(422);
        let fault = &refused["error"]["fields"][0];
        assert_eq!(
            (&fault["field"], &fault["code"]),
            (&json!(field), &json!(code)),
            "{booking}"
        );
    }
    // Minutes held by running calls cannot be taken.
    let bridge = tenant.bridge(Http).await;
    let call = bridge.talk(&tenant.did).await;
    let take = |minutes: i64| json!({"minutes": -minutes, "type": "adjustment"});
    let refused = api.post(&path, take(10)).await.expect(409);
    assert_eq!(refused["error"]["code"], "insufficient_minutes");
    let taken = api.post(&path, take(5)).await.expect(201);
    assert_eq!(taken["minutes"], -5);
    assert_eq!(text(&taken, "type"), "adjustment");
    bridge.hang_up(&call).await;
    world.assert_ledger_is_exact();
}

/// SQL after which no answer can be stored under a key.
fn storing_breaks(store: StoreKind) -> &'static str {
    match store {
        Sqlite => {
            "CREATE TRIGGER broken BEFORE UPDATE OF body ON idempotency_keys BEGIN SELECT RAISE(ABORT, 'broken'); END"
        }
        Postgres => {
            "CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'broken'; END $$; \
             CREATE TRIGGER broken BEFORE UPDATE OF body ON idempotency_keys FOR EACH ROW EXECUTE FUNCTION broken()"
        }
    }
}

fn storing_works(store: StoreKind) -> &'static str {
    match store {
        Sqlite => "DROP TRIGGER broken",
        Postgres => "DROP TRIGGER broken ON idempotency_keys",
    }
}

/// Without a reference only the key identifies a repetition. Booking and answer are one commit, so no repetition
/// books again, however late it comes.
#[rstest]
#[actix_web::test]
async fn a_booking_and_the_answer_to_its_key_are_one_commit(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store, WorldSetup::new().minutes(10));
    let (tenant, database) = (&world.tenant, &world.server.installation.store);
    let path = format!("/tenants/{}/credits/transactions", tenant.id);
    let api = client(&world.server).with("idempotency-key", "topup-1");
    let post = || api.post(&path, json!({"minutes": 11}));
    let booked_before = database.count("credit_transactions").await;
    let booked = async || database.count("credit_transactions").await - booked_before;
    // Longer ago than a request may run: without a stored answer, the key is free.
    let later = || database.execute("UPDATE idempotency_keys SET created_at = created_at - 61000");

    database.execute(storing_breaks(store)).await;
    let refused = post().await.expect(503);
    assert_eq!(refused["error"]["code"], "unavailable");
    assert_eq!(booked().await, 0);
    database.execute(storing_works(store)).await;

    later().await;
    let first = post().await;
    assert_eq!(first.header("idempotent-replayed"), None);
    assert_eq!(made_at(&world.server, &first).await, first.body);
    let at = first.header("location").unwrap().to_owned();
    let first = first.expect(201);
    later().await;
    let again = post().await;
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.header("location"), Some(&*at));
    assert_eq!(again.expect(201), first);
    assert_eq!(booked().await, 1);
    assert_eq!(tenant.credits().await, (21, 21, 0));
    world.assert_ledger_is_exact();
}

/// A known reference gives an answer that is stored as well.
#[rstest]
#[actix_web::test]
async fn a_known_reference_under_a_new_key_is_answered_once_and_kept(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = shared_world!(store, WorldSetup::new().minutes(10));
    let path = format!("/tenants/{}/credits/transactions", world.tenant.id);
    let booking = json!({"minutes": 11, "reference": "inv-1"});
    let api = client(&world.server);
    let first = api.post(&path, booking.clone()).await.expect(201);
    let api = api.with("idempotency-key", "topup-1");
    for replayed in [None, Some("true")] {
        let again = api.post(&path, booking.clone()).await;
        assert_eq!(again.header("idempotent-replayed"), replayed);
        assert_eq!(again.expect(200), first);
    }
    assert_eq!(world.tenant.credits().await, (21, 21, 0));
}

/// It waited for so long that a later request took over its key.
#[actix_web::test]
async fn a_booking_that_lost_its_key_books_nothing() {
    let world = world!(Postgres, WorldSetup::new().minutes(10));
    let (tenant, database) = (&world.tenant, &world.server.installation.store);
    let path = format!("/tenants/{}/credits/transactions", tenant.id);
    let api = client(&world.server).with("idempotency-key", "topup-1");
    let connection = Database::connect(&database.url).await.unwrap();
    let held = connection.begin().await.unwrap();
    let hold = "SELECT 1 FROM credit_accounts FOR UPDATE";
    held.execute_unprepared(hold).await.unwrap();
    let lose = async {
        eventually("the booking waits", async || {
            let waiting = database.count("pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted AND datname = current_database()").await;
            (waiting > 0).then_some(())
        })
        .await;
        database
            .execute("UPDATE idempotency_keys SET created_at = created_at - 1")
            .await;
        held.rollback().await.unwrap();
    };
    let (refused, ()) = join(api.post(&path, json!({"minutes": 11})), lose).await;
    connection.close().await.unwrap();
    assert_eq!(
        refused.expect(409)["error"]["code"],
        "idempotency_in_progress"
    );
    assert_eq!(tenant.credits().await, (10, 10, 0));
    world.assert_ledger_is_exact();
}
