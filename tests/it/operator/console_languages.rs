//! The console speaks the browser's language, on every page.

use super::{
    console::{busy, every_page, signed_in},
    *,
};
use crate::support::visitor::Visitor;

/// The navigation in English, without names that are the same in Indonesian.
const ENGLISH: [&str; 15] = [
    "Activity",
    "Overview",
    "Calls",
    "Webhooks",
    "Functions",
    "Ledger",
    "Customers",
    "Tenants",
    "Bridges",
    "Audit",
    "System",
    "Actors",
    "Nodes",
    "Database",
    "Configuration",
];

#[actix_web::test]
async fn every_page_is_indonesian_for_a_browser_that_prefers_it() {
    let Some(world) = busy(guarded()).await else {
        return;
    };
    let indonesian = |browser: Visitor| browser.with("accept-language", "id-ID,id;q=0.9,en;q=0.8");
    let browser = indonesian(signed_in(&world.server, FULL).await);
    let pages = every_page(&browser).await;
    assert!(pages.len() >= 30, "{pages:?}");
    for path in &pages {
        let page = browser.open(path).await;
        assert!(page.html.contains("<html lang=\"id\">"), "{path}");
        for word in ENGLISH {
            let shown = format!(">{word}<");
            assert!(!page.html.contains(&shown), "{path}: {word}");
        }
    }
    browser.open("/").await.assert_shows("Akses penuh");
    let nothing = browser.fetch("/actors/nothing").await;
    assert_eq!(nothing.status, 404);
    nothing.assert_shows("Halaman tidak ditemukan");

    let guest = indonesian(Visitor::new(&world.server.operator));
    let form = guest.open("/sign-in").await.form("/sign-in");
    let refused = guest
        .post(&form.set("token", "not-one-of-the-tokens"))
        .await;
    assert_eq!(refused.status, 422);
    refused.assert_shows("Token ini salah.");
    let log = world.server.log();
    assert!(!log.contains("a message is missing") && !log.contains("a message lacks a value"));
}
