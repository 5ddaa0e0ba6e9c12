//! Credit over HTTP.

use dikala_actors::runtime::clock::Clock;
use dikala_entities::{
    CallId, CallStatus, TransactionId, TransactionType, call, credit_account, credit_hold,
    credit_transaction,
};
use dikala_testkit::rows;
use serde_json::json;

use super::prelude::*;

#[rstest]
#[actix_web::test]
async fn the_balance_counts_what_is_held(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let none = world.done("credits.get", "/credits", None).await.json();
    assert_eq!(
        none,
        json!({"balanceMinutes": 0, "lifetimePurchasedMinutes": 0, "lifetimeUsedMinutes": 0})
    );
    let account = credit_account::Model {
        tenant_id: world.ours.tenant,
        available: 70,
        held: 5,
        used: 30,
        purchased: 100,
        adjusted: 5,
        posted: 75,
        seq: 3,
        open_holds: 1,
        low_threshold: 30,
        low_armed: true,
        version: 1,
    };
    rows::insert(world.store().writer(), account).await;
    let balance = world.done("credits.get", "/credits", None).await.json();
    assert_eq!(
        balance,
        json!({"balanceMinutes": 75, "lifetimePurchasedMinutes": 100, "lifetimeUsedMinutes": 30})
    );
}

/// The ledger counts a minute when the call asks for the next one; whoever looks sees it at once.
#[rstest]
#[actix_web::test]
async fn minutes_that_have_begun_are_used(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let (ours, now) = (&world.ours, world.clock.now());
    let account = credit_account::Model {
        available: 94,
        held: 5,
        used: 1,
        purchased: 100,
        posted: 100,
        open_holds: 3,
        ..credit_account::Model::empty(ours.tenant, 0)
    };
    rows::insert(world.store().writer(), account).await;
    // Seconds since the answer, minutes that are counted, and minutes that are held.
    for (seconds, used, held) in [(0, 0, 2), (61, 1, 1), (200, 0, 2)] {
        let id = CallId::new(now);
        let call = call::Model {
            answered_at: Some(now.plus_seconds(-seconds)),
            ..ours.call(id, CallStatus::Answered, now.plus_seconds(-300))
        };
        rows::insert(world.store().writer(), call).await;
        let hold = credit_hold::Model {
            call_id: id,
            tenant_id: ours.tenant,
            owner: "node".to_owned(),
            epoch: 1,
            request: 1,
            held,
            used,
            last: false,
            refusal: None,
            created_at: now,
            settled_at: None,
        };
        rows::insert(world.store().writer(), hold).await;
    }
    // One of the first call, one more of the second, and of the third no more than it holds.
    let balance = world.done("credits.get", "/credits", None).await.json();
    assert_eq!(
        balance,
        json!({"balanceMinutes": 95, "lifetimePurchasedMinutes": 100, "lifetimeUsedMinutes": 5})
    );
}

#[rstest]
#[actix_web::test]
async fn movements_come_newest_first(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let now = world.clock.now();
    for (seq, kind, minutes, after) in [
        (1, TransactionType::Purchase, 100, 100),
        (2, TransactionType::Usage, -30, 70),
        (3, TransactionType::Bonus, 5, 75),
    ] {
        let row = credit_transaction::Model {
            tenant_id: world.ours.tenant,
            seq,
            id: TransactionId::new(now),
            idempotency_key: seq.to_string(),
            kind,
            minutes,
            balance_after: after,
            call_id: (kind == TransactionType::Usage).then_some(world.ours.ended),
            description: None,
            reference: Some("inv-1".into()),
            created_at: now,
        };
        rows::insert(world.store().writer(), row).await;
    }
    let page = world
        .done(
            "credits.transactions",
            "/credits/transactions?limit=2",
            None,
        )
        .await
        .json();
    assert_eq!(page["hasMore"], true);
    let kinds = [
        &page["transactions"][0]["type"],
        &page["transactions"][1]["type"],
    ];
    assert_eq!(kinds, ["bonus", "usage"]);
    assert_eq!(page["transactions"][1]["minutes"], -30);
    let rest = world
        .get("/credits/transactions?limit=2&offset=2")
        .await
        .json();
    assert_eq!(
        (
            &rest["hasMore"],
            &rest["transactions"][0]["balanceAfterMinutes"]
        ),
        (&json!(false), &json!(100))
    );
    assert_eq!(
        world.get("/credits/transactions?status=x").await.fields(),
        ["status unknown_field"]
    );
}
