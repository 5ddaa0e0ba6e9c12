//! Records of deliveries to misbehaving receivers: each attempt ends in time and with the right error.

use std::{
    io::Write as _,
    net::{SocketAddr, TcpListener},
};

use dikala_testkit::{PATIENCE, free_port, within};

use crate::support::{
    deaf::DeafListener,
    prelude::*,
    tenant::{Tenant, text},
};

/// Timeout of one exchange, and the longest attempt on a busy machine.
const TIMEOUT_SECONDS: i64 = 5;
const ENDED_WITHIN_MS: i64 = 15_000;
/// Stored part of an answer, in bytes.
const KEPT: usize = 16 * 1024;

/// An answer and its record: status code, error, text.
type Case = (&'static str, ServerAnswer, Value, Value, String);

fn full(status: u16, body: &[u8]) -> ServerAnswer {
    ServerAnswer::Full(status, "x-a", "b".to_owned(), body.to_vec())
}

/// Complete answers with any status and bytes.
fn answers(elsewhere: &str) -> Vec<Case> {
    let moved =
        |status| ServerAnswer::Full(status, "location", elsewhere.to_owned(), b"there".to_vec());
    let later = |status| ServerAnswer::Full(status, "retry-after", "1".to_owned(), vec![]);
    let case = |path, answer, status: u16, text: &str| {
        (path, answer, json!(status), Value::Null, text.to_owned())
    };
    let half = ServerAnswer::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf");
    let kept = "x".repeat(KEPT);
    vec![
        case("/s200", full(200, "Kopi ☕".as_bytes()), 200, "Kopi ☕"),
        case("/s204", ServerAnswer::Status(204), 204, ""),
        case("/s301", moved(301), 301, "there"),
        case("/s302", moved(302), 302, "there"),
        case("/s307", moved(307), 307, "there"),
        case("/s400", full(400, b"{\"no\": 1}"), 400, "{\"no\": 1}"),
        case("/s410", full(410, b"gone"), 410, "gone"),
        case("/s429", later(429), 429, ""),
        case("/s500", full(500, b"oops"), 500, "oops"),
        case("/s503", later(503), 503, ""),
        case(
            "/not-utf8",
            full(500, b"\xff\0\xfe<b>"),
            500,
            "\u{fffd}\0\u{fffd}<b>",
        ),
        case("/long", full(500, &vec![b'x'; KEPT + 1]), 500, &kept),
        // The head has decided the result; a truncated body does not change it.
        case("/half", half, 200, "half"),
        case("/endless", ServerAnswer::EndlessBody, 200, &kept),
        case("/ten-gigabytes", ServerAnswer::TenGigabytes, 200, &kept),
    ]
}

/// Missing and incomplete answers.
fn failures() -> Vec<Case> {
    let case = |path, answer, status: Value, error: &str| {
        (path, answer, status, json!(error), String::new())
    };
    let (none, ok) = (Value::Null, json!(200));
    let raw = ServerAnswer::Raw;
    let bad_header = raw(b"HTTP/1.1 200 OK\r\nbad\0name: \xff\r\n\r\n");
    let bad_status = raw(b"HTTP/1.1 9999 OK\r\n\r\n");
    vec![
        case("/hang", ServerAnswer::Hang, none.clone(), "timeout"),
        case(
            "/drip-head",
            ServerAnswer::DripHead,
            none.clone(),
            "timeout",
        ),
        case("/drip-body", ServerAnswer::DripBody, ok, "timeout"),
        case("/reset", ServerAnswer::Reset, none.clone(), "reset"),
        case("/bad-header", bad_header, none.clone(), "invalid_response"),
        case("/bad-status", bad_status, none.clone(), "invalid_response"),
        case(
            "/not-http",
            raw(b"SSH-2.0-OpenSSH_9.6\r\n"),
            none,
            "invalid_response",
        ),
    ]
}

/// The only delivery of a webhook with its attempts, once it is as wanted.
async fn delivery(tenant: &Tenant, webhook: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    within(PATIENCE, "a delivery to end", async || {
        let list = format!("/webhooks/{webhook}/deliveries");
        let list = tenant.api.get(&list).await.expect(200);
        let id = list["deliveries"][0]["id"].as_str()?.to_owned();
        let shown = tenant
            .api
            .get(&format!("/deliveries/{id}"))
            .await
            .expect(200);
        wanted(&shown).then_some(shown)
    })
    .await
}

fn attempted(delivery: &Value) -> bool {
    delivery["attemptCount"].as_i64().unwrap() >= 1
}

#[track_caller]
fn assert_in_time(name: &str, attempt: &Value) {
    let took = attempt["durationMs"].as_i64().unwrap();
    let least = match attempt["error"].as_str() {
        Some("timeout") => TIMEOUT_SECONDS * 1_000,
        _ => 0,
    };
    assert!(
        (least..ENDED_WITHIN_MS).contains(&took),
        "{name} took {took} ms: {attempt}"
    );
}

#[rstest]
#[actix_web::test]
async fn what_is_stored_of_an_answer_is_right(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store, one_attempt());
    let elsewhere = world.receiver.url("/elsewhere");
    let cases = answers(&elsewhere).into_iter();
    let cases = cases.map(|case| served(&world.receiver, case)).collect();
    assert_stored(&world.tenant, cases).await;
    let followed = world.receiver.received("/elsewhere");
    assert!(followed.is_empty(), "redirects are answers");
}

#[actix_web::test]
async fn what_is_stored_of_a_failure_is_right() {
    let world = world!(Sqlite, one_attempt());
    let (full, silent) = (DeafListener::full(), DeafListener::silent());
    let cases = failures().into_iter();
    let mut cases: Vec<_> = cases.map(|case| served(&world.receiver, case)).collect();
    let no_tls = format!("https://{}/no-tls", without_tls());
    for (url, error) in [
        (format!("http://{}/never-accepted", full.address), "timeout"),
        (format!("https://{}/tls-stalls", silent.address), "timeout"),
        (no_tls, "tls"),
        (
            format!("http://127.0.0.1:{}/nobody", free_port()),
            "connect",
        ),
    ] {
        cases.push((url, Value::Null, json!(error), String::new()));
    }
    assert_stored(&world.tenant, cases).await;
}

/// Answers a TLS handshake in plain HTTP.
fn without_tls() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let _ = socket.and_then(|mut socket| {
                std::io::Read::read(&mut socket, &mut [0; 1_024])?;
                socket.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
            });
        }
    });
    address
}

fn one_attempt() -> WorldSetup {
    WorldSetup::new()
        .set("webhooks.retry_schedule_seconds", "3600")
        .set("webhooks.timeout_seconds", TIMEOUT_SECONDS)
}

/// An address, and the record of its attempt.
type StoredAttempt = (String, Value, Value, String);

fn served(receiver: &TenantServer, (path, answer, status, error, text): Case) -> StoredAttempt {
    receiver.answer(path, [answer]);
    (receiver.url(path), status, error, text)
}

/// Sends one event to each address and checks the recorded attempts.
async fn assert_stored(tenant: &Tenant, cases: Vec<StoredAttempt>) {
    let mut webhooks = Vec::new();
    for (url, ..) in &cases {
        webhooks.push(tenant.subscribe(url, &["call.started"], SECRET).await);
    }
    let bridge = tenant.bridge(Socket).await;
    bridge.ring(&tenant.did).await;
    for (webhook, (url, status, error, text)) in webhooks.iter().zip(&cases) {
        let delivery = delivery(tenant, webhook, attempted).await;
        let attempt = &delivery["attempts"][0];
        let stored = ["number", "statusCode", "error"].map(|field| &attempt[field]);
        assert_eq!(stored, [&json!(1), status, error], "{url}");
        let response = attempt["response"].as_str().unwrap();
        if url.ends_with("/drip-body") {
            // The bytes that arrived in time.
            assert!((1..1_000).contains(&response.len()), "{response}");
        } else {
            assert_eq!(response, text, "{url}");
        }
        assert_in_time(url, attempt);
        let outcome = match status.as_u64() {
            Some(200..=299) if error.is_null() => "succeeded",
            Some(410) => "failed",
            _ => "pending",
        };
        assert_eq!(delivery["status"], outcome, "{url}");
        let next = &delivery["nextAttemptAt"];
        assert_eq!(next.is_null(), outcome != "pending", "{url}");
    }
}

#[actix_web::test]
async fn bodies_without_end_take_no_memory() {
    // The answers of one round together exceed the memory.
    const CALLS: usize = 20;
    const GROWTH_MB: u64 = 64;
    // Long enough that the size, not the timeout, ends each attempt.
    let world = world!(Sqlite, one_attempt().set("webhooks.timeout_seconds", 25));
    let (tenant, receiver) = (&world.tenant, &world.receiver);
    let paths = ["/endless", "/ten-gigabytes", "/bomb"];
    let answers = [
        ServerAnswer::EndlessBody,
        ServerAnswer::TenGigabytes,
        ServerAnswer::GzipBomb,
    ];
    let mut webhooks = Vec::new();
    for (path, answer) in paths.into_iter().zip(answers) {
        receiver.answer(path, [answer]);
        let url = receiver.url(path);
        webhooks.push(tenant.subscribe(&url, &["call.started"], SECRET).await);
    }
    let before = world.server.peak_memory_mb();
    let bridge = tenant.bridge(Socket).await;
    for _ in 0..CALLS {
        let id = bridge.ring(&tenant.did).await;
        bridge.hang_up(&id).await;
    }
    for path in paths {
        receiver.wait_for(path, CALLS).await;
    }
    for webhook in &webhooks {
        let delivery = delivery(tenant, webhook, attempted).await;
        let attempt = &delivery["attempts"][0];
        assert_eq!(
            [&attempt["statusCode"], &attempt["error"]],
            [&json!(200), &Value::Null]
        );
        // As text, bytes that are not UTF-8 take up to three times their size.
        assert!((1..=KEPT).contains(&text(attempt, "response").chars().count()));
        assert_eq!(delivery["status"], "succeeded");
    }
    let grown = world.server.peak_memory_mb() - before;
    assert!(
        grown < GROWTH_MB,
        "{grown} MB more than the {before} MB before"
    );
}

#[rstest]
#[actix_web::test]
async fn a_flapping_receiver_gets_everything(#[values(Sqlite, Postgres)] store: StoreKind) {
    const CALLS: usize = 20;
    let schedule = vec!["1"; 60].join(",");
    let setup = WorldSetup::new()
        .set("webhooks.retry_schedule_seconds", schedule)
        .set("webhooks.timeout_seconds", 5);
    let world = world!(store, setup);
    let (tenant, receiver) = (&world.tenant, &world.receiver);
    let bad = [
        full(500, b"down"),
        ServerAnswer::Raw(b"no HTTP\r\n"),
        ServerAnswer::Hang,
        full(503, b"busy"),
    ];
    let flapping = bad
        .into_iter()
        .flat_map(|bad| [bad.clone(), ServerAnswer::Status(200), bad]);
    receiver.answer("/flaps", flapping.chain([ServerAnswer::Status(204)]));
    let webhook = tenant
        .subscribe(&receiver.url("/flaps"), &["call.started"], SECRET)
        .await;
    let bridge = tenant.bridge(Socket).await;
    for _ in 0..CALLS {
        bridge.ring(&tenant.did).await;
    }
    let list = format!("/webhooks/{webhook}/deliveries?limit=100&status=succeeded");
    let made = eventually("every delivery to be made", async || {
        let list = tenant.api.get(&list).await.expect(200);
        let made = list["deliveries"].as_array().unwrap().clone();
        (made.len() == CALLS).then_some(made)
    })
    .await;
    let mut failed = Vec::new();
    for delivery in &made {
        let id = text(delivery, "id");
        let shown = format!("/deliveries/{id}");
        let shown = tenant.api.get(&shown).await.expect(200);
        let attempts = shown["attempts"].as_array().unwrap();
        assert_eq!(json!(attempts.len()), shown["attemptCount"]);
        let (last, before) = attempts.split_last().unwrap();
        let status = &last["statusCode"];
        assert!(*status == 200 || *status == 204, "{shown}");
        let how = |attempt: &Value| json!([attempt["statusCode"], attempt["error"]]);
        failed.extend(before.iter().map(how));
    }
    failed.sort_by_key(Value::to_string);
    let each_twice = json!([
        [500, null],
        [500, null],
        [503, null],
        [503, null],
        [null, "invalid_response"],
        [null, "invalid_response"],
        [null, "timeout"],
        [null, "timeout"],
    ]);
    assert_eq!(json!(failed), each_twice);
    let record = tenant
        .api
        .get(&format!("/webhooks/{webhook}"))
        .await
        .expect(200);
    assert_eq!(record["isActive"], true);
}

/// Allowed and refused addresses at registration, and the operator's exceptions.
#[actix_web::test]
async fn addresses_are_judged_when_they_are_registered() {
    let setup = WorldSetup::new().set("outbound.allow_hosts", "localhost,.corp.internal,mail:6000");
    let world = world!(Sqlite, setup);
    let (api, receiver) = (&world.tenant.api, &world.receiver);
    let label = "a".repeat(64);
    for (url, code) in [
        ("https://intranet/", "blocked_address"),
        ("https://a.localhost/", "blocked_address"),
        ("https://localhost.localdomain/", "blocked_address"),
        ("https://metadata.google.internal/", "blocked_address"),
        ("https://printer.local/", "blocked_address"),
        ("https://router.home.arpa/", "blocked_address"),
        ("https://abc.onion/", "blocked_address"),
        ("https://no-such.invalid/", "blocked_address"),
        ("https://168.63.129.16/", "blocked_address"),
        ("https://10.0.0.1/", "blocked_address"),
        ("https://8.8.8.8:25/", "blocked_address"),
        ("http://127.0.0.1:6000/", "blocked_address"),
        ("https://mail/", "blocked_address"),
        ("https://a..example.com/", "invalid_format"),
        ("https://a;b.example.com/", "invalid_format"),
        ("https://a,b.example.com/", "invalid_format"),
        (&*format!("https://{label}.example.com/"), "invalid_format"),
    ] {
        let webhook = json!({"url": url, "events": [], "secret": SECRET});
        let refused = api.post("/webhooks", webhook).await.expect(422);
        let fields = refused["error"]["fields"].as_array().unwrap();
        let codes: Vec<_> = fields
            .iter()
            .map(|f| json!([f["field"], f["code"]]))
            .collect();
        assert_eq!(
            codes,
            [json!(["url", code]), json!(["events", "too_short"])],
            "{url}"
        );
    }
    for url in ["https://git.corp.internal/", "https://mail:6000/"] {
        let webhook = json!({"url": url, "events": ["call.started"], "secret": SECRET});
        api.post("/webhooks", webhook).await.expect(201);
    }
    let url = receiver.url("/by-name").replace("127.0.0.1", "localhost");
    let webhook = json!({"url": url, "events": ["call.started"], "secret": SECRET});
    let made = api.post("/webhooks", webhook).await.expect(201);
    let path = format!("/webhooks/{}/test", made["id"].as_str().unwrap());
    let tested = api.post(&path, json!({})).await.expect(200);
    assert_eq!(tested["status"], "succeeded", "{tested}");
    assert_eq!(receiver.received("/by-name").len(), 1);
}
