//! Exports beside each other.

use awc::ClientResponse;
use futures_util::StreamExt;
use sea_orm::TransactionTrait;

use super::*;

const FILE: &str = "/dashboard/calls.csv";

/// Begins an export and reads no more than its head.
pub async fn begin(world: &TestWorld, browser: &Visitor) -> ClientResponse {
    let cookies = browser.cookies();
    let cookies: Vec<String> = cookies
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    awc::Client::default()
        .get(format!("{}{FILE}", world.server.http))
        .insert_header(("cookie", cookies.join("; ")))
        .send()
        .await
        .unwrap()
}

/// The table is locked from outside, so an export stays as it is.
#[actix_web::test]
async fn a_tenant_writes_one_file_at_a_time_and_others_write_theirs() {
    let Some(world) = TestWorld::start(Postgres, WorldSetup::new()).await else {
        return;
    };
    let owner = owner(&world).await;
    let other = world.another_tenant(1).await;
    let stranger = somebody(&world.server, &other.id, "else@example.com", "owner").await;
    let connection = Database::connect(&world.server.installation.store.url)
        .await
        .unwrap();
    let lock = connection.begin().await.unwrap();
    let sql = "LOCK TABLE calls IN ACCESS EXCLUSIVE MODE";
    lock.execute_unprepared(sql).await.unwrap();
    let mut first = begin(&world, &owner.browser).await;
    assert_eq!(first.status(), 200);
    let second = owner.browser.open(FILE).await;
    assert_eq!(second.status, 429);
    assert!(second.header("retry-after").is_some());
    second.assert_shows("Another export is running for this account");
    let theirs = begin(&world, &stranger.browser).await;
    assert_eq!(theirs.status(), 200);
    lock.rollback().await.unwrap();
    let mut lines = String::new();
    while let Some(piece) = first.next().await {
        lines.push_str(std::str::from_utf8(&piece.unwrap()).unwrap());
    }
    assert!(lines.starts_with("id,startedAt,"), "{lines}");
    eventually("the place to be free", async || {
        (owner.browser.open(FILE).await.status == 200).then_some(())
    })
    .await;
    connection.close().await.unwrap();
}

/// The table is locked from outside, so that no export ends.
#[actix_web::test]
async fn slow_exports_of_many_tenants_leave_places_for_others() {
    let Some(world) = TestWorld::start(Postgres, WorldSetup::new()).await else {
        return;
    };
    let connection = Database::connect(&world.server.installation.store.url)
        .await
        .unwrap();
    let mut owners = Vec::new();
    for number in 1..=10 {
        let tenant = world.another_tenant(number).await;
        let email = format!("owner{number}@example.com");
        owners.push(somebody(&world.server, &tenant.id, &email, "owner").await);
    }
    let lock = connection.begin().await.unwrap();
    let sql = "LOCK TABLE calls IN ACCESS EXCLUSIVE MODE";
    lock.execute_unprepared(sql).await.unwrap();
    let mut exports = Vec::new();
    for owner in &owners {
        let export = begin(&world, &owner.browser).await;
        assert_eq!(export.status(), 200, "after {} exports", exports.len());
        exports.push(export);
    }
    lock.rollback().await.unwrap();
    for mut export in exports {
        while let Some(piece) = export.next().await {
            piece.unwrap();
        }
    }
    connection.close().await.unwrap();
}
