//! Tests of the test helpers.

use std::net::TcpStream;

use dikala_testkit::{postgres::TestDatabase, signature};

use crate::support::{browser::Browser, prelude::*};

#[test]
fn postgres_gives_each_test_a_database() {
    let (Some(one), Some(other)) = (TestDatabase::create(), TestDatabase::create()) else {
        return;
    };
    assert_ne!(one.url, other.url);
    let address = one.url.split(['@', '/']).nth(3).unwrap();
    assert!(TcpStream::connect(address).is_ok(), "{address}");
}

#[test]
fn signatures_are_those_of_the_published_example() {
    // RFC 4231, test case 2.
    assert_eq!(
        signature::service("Jefe", b"what do ya want for nothing?"),
        "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    );
}

#[actix_web::test]
async fn the_receiver_records_and_answers_as_told() {
    let receiver = TenantServer::start();
    let client = Rest::new(&receiver.url(""));
    let moved = ServerAnswer::Full(302, "location", "/elsewhere".to_owned(), b"moved".to_vec());
    receiver.answer(
        "/flap",
        [
            ServerAnswer::Status(503),
            moved,
            ServerAnswer::Json(json!({"a": 1})),
        ],
    );
    assert_eq!(client.get("/flap").await.status, 503);
    assert_eq!(
        client.get("/flap").await.header("location"),
        Some("/elsewhere")
    );
    assert_eq!(client.get("/flap?x=1").await.body, json!({"a": 1}));
    assert_eq!(
        client.post("/flap", json!({"b": 2})).await.status,
        200,
        "the last answer stays"
    );

    let received = receiver.wait_for("/flap", 4).await;
    assert_eq!(received[2].query.as_deref(), Some("x=1"));
    assert_eq!(
        (received[3].method.as_str(), received[3].json()),
        ("POST", json!({"b": 2}))
    );
}

#[rstest]
#[case::hang(ServerAnswer::Hang)]
#[case::drip_head(ServerAnswer::DripHead)]
#[case::drip_body(ServerAnswer::DripBody)]
#[case::endless(ServerAnswer::EndlessBody)]
#[case::reset(ServerAnswer::Reset)]
#[case::not_http(ServerAnswer::Raw(b"HTTP/1.1 200 OK\r\nbad\0header\r\n\r\n"))]
#[actix_web::test]
async fn the_receiver_misbehaves_as_told(#[case] answer: ServerAnswer) {
    let receiver = TenantServer::start();
    receiver.answer("/bad", [answer]);
    let url = receiver.url("/bad");
    let whole = async {
        let mut response = awc::Client::new().get(url).send().await.ok()?;
        response.body().limit(1 << 20).await.ok()
    };
    let whole = tokio::time::timeout(Duration::from_secs(20), whole).await;
    assert!(
        !matches!(whole, Ok(Some(_))),
        "no client gets a whole answer"
    );
    assert_eq!(receiver.received("/bad").len(), 1);
}

/// The test does not decompress: `gzip -dc`, with which that was checked, is not on every machine.
#[actix_web::test]
async fn the_bomb_is_a_gzip_stream() {
    let receiver = TenantServer::start();
    receiver.answer("/bomb", [ServerAnswer::GzipBomb]);
    let request = awc::Client::new().get(receiver.url("/bomb"));
    let mut response = request.no_decompress().send().await.unwrap();
    let bomb = response.body().limit(64 << 20).await.unwrap();
    assert_eq!(bomb[..3], [0x1f, 0x8b, 8]);
    assert!(bomb.len() > 10 << 20);
}

#[actix_web::test]
async fn the_browser_reads_fills_in_and_complains() {
    let Some(browser) = Browser::open("id").await else {
        return;
    };
    let page = "data:text/html,<meta charset=utf-8><title>x</title><label for=n>Nama toko</label><input id=n>\
                <label for=l>Bahasa</label><select id=l><option>Inggris<option>Indonesia</select>\
                <p id=said>tanpa</p><button onclick=\"said.textContent = n.value + l.value + navigator.language\">Simpan</button>";
    browser.go(page).await;
    browser.fill("Nama toko", "Toko Roti ").await;
    browser.choose("Bahasa", "Indonesia").await;
    assert_eq!(browser.value("Nama toko").await, "Toko Roti ");
    browser.press("Simpan").await;
    browser.see("Toko Roti Indonesiaid").await;
    browser.look(320, "dark").await;
    let looks = "return [innerWidth, matchMedia('(prefers-color-scheme: dark)').matches]";
    assert_eq!(browser.run(looks).await, json!([320, true]));
    assert_eq!(browser.complaints().await, [""; 0]);
    browser.run("console.error('oh no')").await;
    assert_eq!(browser.complaints().await.len(), 1);
    let later = "const done = arguments[0]; setTimeout(() => done('later'), 20)";
    assert_eq!(browser.run_until_done(later).await, "later");
    browser.scripts(false).await;
    browser.go(page).await;
    browser.fill("Nama toko", "Toko Kopi").await;
    browser.press("Simpan").await;
    browser.see("tanpa").await;
}
