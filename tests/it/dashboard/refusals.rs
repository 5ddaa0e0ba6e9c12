//! What is refused: the same page again, with why, and with what was typed.

use super::*;
use crate::support::visitor::Page;

/// Keys of a tenant that are in force.
const KEYS_MAX: usize = 100;

#[track_caller]
fn assert_refused(page: &Page, words: &str) {
    assert_eq!(page.status, 422, "{}", page.path);
    page.assert_shows(words);
}

/// Said by the service in the reader's own words, and once.
#[track_caller]
fn assert_told_in_indonesian(page: &Page, words: &str) {
    assert_refused(page, words);
    page.assert_hides("lang=\"en\"");
}

#[rstest]
#[actix_web::test]
async fn what_is_said_in_indonesian_is_not_said_in_english_as_well(
    #[values(Sqlite)] store: StoreKind,
) {
    let world = world!(store);
    let owner = owner(&world).await;
    let indonesian = |browser: Visitor| browser.with("accept-language", "id-ID,id");
    let browser = indonesian(owner.browser.clone());

    let stranger = indonesian(owner.browser.another());
    let page = try_password(&stranger, &owner.email, "not the password").await;
    assert_told_in_indonesian(&page, "Alamat email atau kata sandi salah.");

    let taken = [("email", owner.email.as_str()), ("name", "Sari")];
    let page = browser.fill(MEMBERS, MEMBERS, &taken).await;
    assert_told_in_indonesian(&page, "Alamat ini sudah dipakai seseorang.");

    let change = format!("{ACCOUNT}/password");
    let wrong = [
        ("current_password", "not the password"),
        ("new_password", "eight green kettles"),
    ];
    let page = browser.fill(ACCOUNT, &change, &wrong).await;
    assert_told_in_indonesian(&page, "Ini bukan kata sandi Anda.");
    let common = [
        ("current_password", PASSWORD),
        ("new_password", "qwertyuiop"),
    ];
    let page = browser.fill(ACCOUNT, &change, &common).await;
    assert_told_in_indonesian(&page, "salah satu kata sandi yang paling umum");

    let show = format!("{SECRET_PAGE}/show");
    let wrong = [("password", "not the password")];
    let page = browser.fill(SECRET_PAGE, &show, &wrong).await;
    assert_told_in_indonesian(&page, "Ini bukan kata sandi Anda.");

    let form = browser.open(KEYS).await.form(KEYS).set("name", "Kasir");
    let (mut page, mut made) = (browser.post(&form).await, 0);
    while page.status == 303 {
        made += 1;
        assert!(made <= KEYS_MAX, "{made}");
        page = browser.post(&form).await;
    }
    assert_told_in_indonesian(&page, "paling banyak punya 100 kunci");
    page.assert_hides("Paling banyak 0");
}
