//! The credit page and its file.

use super::*;
use crate::support::tenant::top_up;

const CREDITS: &str = "/dashboard/credits";
const FILE: &str = "/dashboard/credits.csv";

#[rstest]
#[actix_web::test]
async fn every_movement_is_shown_on_pages_and_in_the_file(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = shared_world!(store, WorldSetup::new().minutes(1_234));
    let owner = owner(&world).await;
    let browser = &owner.browser;
    let bridge = world.tenant.bridge(Http).await;
    let answered = Moment::ago(61);
    let call = bridge.talk_since(&world.tenant.did, answered).await;
    let running = browser.open(CREDITS).await;
    running.assert_shows("Reserved for live calls");
    bridge.hang_up_at(&call, answered.plus(61)).await;
    for n in 0..60 {
        let reference = format!("=receipt-{n:02}");
        top_up(&world.server, &world.tenant.id, 1, &reference);
    }
    let page = browser.open(CREDITS).await;
    assert_eq!(page.status, 200);
    for words in [
        "1,292 minutes",
        "1,294 minutes",
        "2 minutes",
        "+1",
        "=receipt-59",
    ] {
        page.assert_shows(words);
    }
    page.assert_shows("Minutes used per day");
    assert!(
        page.html.contains(": 2</title>"),
        "the day of the call has its minutes"
    );
    let older = page
        .links()
        .into_iter()
        .find(|link| link.contains("before="))
        .unwrap();
    let older = browser.open(&older).await;
    for words in ["=receipt-00", "-2", "+1,234", "initial"] {
        older.assert_shows(words);
    }
    older.assert_hides("=receipt-59");
    assert!(
        older
            .links()
            .iter()
            .any(|link| link == &format!("/dashboard/calls/{call}"))
    );
    assert!(older.links().iter().any(|link| link == CREDITS));
    let indonesian = browser
        .clone()
        .with("accept-language", "id")
        .open(CREDITS)
        .await;
    indonesian.assert_shows("1.292 menit");

    let file = browser.open(FILE).await;
    assert_eq!(
        (file.status, file.header("content-type")),
        (200, Some("text/csv; charset=utf-8"))
    );
    let lines: Vec<&str> = file.html.lines().collect();
    assert_eq!(lines.len(), 1 + 62);
    assert!(
        lines[0].starts_with("id,createdAt,type,minutes,"),
        "{}",
        lines[0]
    );
    assert!(
        lines[1].ends_with(",purchase,1,1292,,,'=receipt-59"),
        "formulas are defused: {}",
        lines[1]
    );
    let usage = lines.iter().find(|line| line.contains(&*call)).unwrap();
    assert!(usage.contains(",usage,-2,1232,"), "{usage}");
}

#[rstest]
#[actix_web::test]
async fn credit_of_others_is_not_shown(#[values(Sqlite)] store: StoreKind) {
    let world = shared_world!(store, WorldSetup::new().minutes(7));
    let other = world.another_tenant(5_555).await;
    let theirs = text(&other.transactions().await[0], "id");
    let owner = owner(&world).await;
    for path in [CREDITS, FILE] {
        owner.browser.open(path).await.assert_hides("5,555");
    }
    let page = owner
        .browser
        .open(&format!("{CREDITS}?before={theirs}"))
        .await;
    page.assert_shows("No transactions yet");
    assert_eq!(
        owner
            .browser
            .open(&format!("{CREDITS}?before=x"))
            .await
            .status,
        422
    );
    let guest = owner.browser.another().open(FILE).await;
    assert!(guest.path.starts_with(SIGN_IN), "{}", guest.path);
    let viewer = somebody(
        &world.server,
        &world.tenant.id,
        &fresh_email("viewer"),
        "viewer",
    )
    .await;
    assert_eq!(viewer.browser.open(FILE).await.status, 200);
}
