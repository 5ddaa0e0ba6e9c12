//! Credit over HTTP.

use dikala_actors::runtime::clock::Clock;
use dikala_entities::{TransactionId, TransactionType, credit_account, credit_transaction};
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
