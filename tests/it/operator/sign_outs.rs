//! Sign-outs that cannot be stored: the operator is told, and the number of stored ones is limited.

use dikala_testkit::within;

use super::{console::signed_in, *};
use crate::support::visitor::{VisitedPage, Visitor};

/// Smaller than the database is already, so that nothing can be written.
const FULL_DISK: u64 = 16 << 10;
/// Stored sign-outs with one token within a few minutes.
const WRITTEN_MAX: usize = 100;
const TOLD: &str = "could not be written down yet";

async fn sign_out(browser: &Visitor) -> VisitedPage {
    let form = browser.open("/").await.form("/sign-out");
    browser.submit(&form).await
}

async fn stored(server: &Server) -> usize {
    server.installation.store.count("operator_sign_outs").await
}

#[actix_web::test]
async fn on_a_full_disk_it_is_told_and_written_later() {
    let mut world = world!(Sqlite, guarded());
    let browser = signed_in(&world.server, FULL).await;
    let copy = browser.another();
    for (name, value) in &browser.cookies() {
        copy.set_cookie(name, value);
    }
    world.server.limit_files(Some(FULL_DISK));
    sign_out(&browser).await.assert_shows(TOLD);
    // This node knows it at once.
    assert_eq!(copy.fetch("/").await.status, 303);
    assert_eq!(stored(&world.server).await, 0);
    world.server.limit_files(None);
    within(Duration::from_secs(20), "it to be written", async || {
        (stored(&world.server).await == 1).then_some(())
    })
    .await;
    world.server.kill9();
    world.server.restart();
    assert_eq!(copy.fetch("/").await.status, 303, "and after a start");
}

#[rstest]
#[actix_web::test]
async fn a_flood_of_sign_outs_is_told_and_takes_no_room(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store, guarded());
    for _ in 0..WRITTEN_MAX {
        let browser = signed_in(&world.server, READ).await;
        sign_out(&browser).await.assert_shows("You are signed out.");
    }
    for _ in 0..3 {
        let browser = signed_in(&world.server, READ).await;
        sign_out(&browser).await.assert_shows(TOLD);
        assert_eq!(browser.fetch("/").await.status, 303);
    }
    assert_eq!(stored(&world.server).await, WRITTEN_MAX);
    // Holders of the other token are not affected.
    let browser = signed_in(&world.server, FULL).await;
    sign_out(&browser).await.assert_shows("You are signed out.");
    assert_eq!(stored(&world.server).await, WRITTEN_MAX + 1);
}
