//! Unauthenticated clients that are slow, guess, flood or send garbage: they delay nobody else and learn no more
//! than necessary.

use std::{io::Write as _, time::Instant};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use dikala_testkit::within;

use crate::support::{
    prelude::*,
    raw_socket::{address, connect_from, exchange, read_all},
    tenant::{Tenant, TenantPlan},
};

const PATIENCE: Duration = Duration::from_secs(30);

/// An accepted, idle connection from another local address; `None` if it was refused. Several workers accept
/// connections, in no fixed order.
async fn taken_from(from: &str, to: &str) -> Option<TcpStream> {
    let mut stream = connect_from(from, to).await;
    let request = b"GET /health/live HTTP/1.1\r\nhost: x\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = [0; 15];
    stream.read_exact(&mut answer).await.unwrap();
    (&answer == b"HTTP/1.1 200 OK").then_some(stream)
}

/// Reads one answer of a keep-alive connection.
async fn read_one(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&answer).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = header(head, "content-length").unwrap_or_default();
            if body.len() >= length.parse().unwrap_or(0) {
                return text;
            }
        }
        let read = tokio::time::timeout(PATIENCE, stream.read(&mut buffer)).await;
        match read.expect("an answer").unwrap() {
            0 => return text,
            more => answer.extend_from_slice(&buffer[..more]),
        }
    }
}

fn header(head: &str, name: &str) -> Option<String> {
    head.lines()
        .filter_map(|line| line.split_once(": "))
        .find(|(it, _)| it.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.to_owned())
}

fn status(answer: &str) -> u16 {
    let status = answer.split(' ').nth(1).and_then(|it| it.parse().ok());
    status.unwrap_or_else(|| panic!("no answer: {answer:?}"))
}

/// Writes bytes one at a time until the peer closes; returns what it sent.
async fn drip(mut stream: TcpStream, bytes: &'static [u8]) -> String {
    let (mut reads, mut writes) = stream.split();
    let mut answer = Vec::new();
    let dripping = async {
        for byte in bytes.iter().cycle() {
            if writes.write_all(&[*byte]).await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        read = tokio::time::timeout(PATIENCE, reads.read_to_end(&mut answer)) => drop(read.expect("cut off")),
        () = dripping => {}
    }
    String::from_utf8_lossy(&answer).into_owned()
}

/// Starts with the low soft limit of open files that most systems have, which can be raised.
fn few_files(setup: WorldSetup) -> WorldSetup {
    setup.files(256, 8_192)
}

#[actix_web::test]
async fn bodies_that_strangers_drip_take_nothing_from_others() {
    const STRANGERS: usize = 1_200;
    let limits = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    assert!(
        limits.current.is_none_or(|files| files > 2_000),
        "ulimit -n 4096"
    );
    let world = world!(Sqlite, few_files(WorldSetup::new()));
    let heads = [
        "POST /bridge/v1/messages HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n{",
        "POST /bridge/v1/messages HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{\r\n",
        "POST /api/v1/agents HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n{",
        "POST /nowhere HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n{",
    ];
    let mut strangers = Vec::new();
    for n in 0..STRANGERS {
        // Written at once, so that the head is not late, however busy the machine is.
        let mut stream = std::net::TcpStream::connect(address(&world.server.http)).unwrap();
        let _ = stream.write_all(heads[n % heads.len()].as_bytes());
        stream.set_nonblocking(true).unwrap();
        let stream = TcpStream::from_std(stream).unwrap();
        strangers.push(actix_web::rt::spawn(drip(stream, b"1\r\n{\r\n")));
    }
    let mut others = 0;
    while !strangers.iter().all(|stranger| stranger.is_finished()) {
        world.tenant.api.get("/agents").await.expect(200);
        others += 1;
    }
    assert!(others > 0);
    for stranger in strangers {
        let answer = stranger.await.unwrap();
        assert!([401, 404, 429].contains(&status(&answer)), "{answer}");
        assert!(answer.contains("\"error\""), "{answer}");
    }
    world
        .tenant
        .bridge(Http)
        .await
        .ring(&world.tenant.did)
        .await;
}

#[actix_web::test]
async fn heads_that_drip_are_cut_off_the_first_and_every_later_one() {
    let world = world!(Sqlite);
    let http = &world.server.http;
    let first = async {
        let stream = TcpStream::connect(address(http)).await.unwrap();
        let answer = drip(stream, b"GET /health/live HTTP/1.1\r\nx-very-long: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa").await;
        assert_eq!(status(&answer), 408, "{answer}");
        assert!(answer.contains("\"request_timeout\""), "{answer}");
    };
    let later = async {
        let mut stream = TcpStream::connect(address(http)).await.unwrap();
        let request = b"GET /health/live HTTP/1.1\r\nhost: x\r\n\r\n";
        stream.write_all(request).await.unwrap();
        assert_eq!(status(&read_one(&mut stream).await), 200);
        let answer = drip(stream, b"GET /health/live HTTP/1.1\r\nx-very-long: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa").await;
        assert_eq!(answer, "", "it is no request yet");
    };
    // An active client may stay as long as it likes.
    let working = async {
        let mut stream = TcpStream::connect(address(http)).await.unwrap();
        let until = Instant::now() + Duration::from_secs(12);
        while Instant::now() < until {
            let request = b"GET /health/live HTTP/1.1\r\nhost: x\r\n\r\n";
            stream.write_all(request).await.unwrap();
            assert_eq!(status(&read_one(&mut stream).await), 200);
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    };
    tokio::join!(first, later, working);
}

#[actix_web::test]
async fn one_address_has_its_share_of_the_connections() {
    let setup = WorldSetup::new()
        .set("http.connections_per_address", 3)
        .set("http.max_connections", 16)
        .set("http.trusted_proxies", "127.0.0.3,127.0.0.9");
    let world = world!(Sqlite, setup);
    let http = &world.server.http;
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(taken_from("127.0.0.2", http).await.expect("there is room"));
    }
    let refused = |from: &'static str| {
        eventually("a refusal", async move || {
            let mut stream = connect_from(from, http).await;
            let answer = tokio::time::timeout(Duration::from_millis(500), read_all(&mut stream));
            answer.await.ok()
        })
    };
    let answer = refused("127.0.0.2").await;
    assert_eq!(status(&answer), 429);
    assert!(
        answer.contains("\"rate_limited\"") && answer.contains("retry-after: "),
        "{answer}"
    );
    world.tenant.api.get("/agents").await.expect(200);
    // A proxy carries the connections of all clients.
    eventually("every place to be taken", async || {
        // The tenant's client may have held one for a while.
        held.extend(taken_from("127.0.0.3", http).await);
        (held.len() == 16).then_some(())
    })
    .await;
    let answer = refused("127.0.0.4").await;
    assert_eq!(status(&answer), 503);
    assert!(answer.contains("\"unavailable\""), "{answer}");
    drop(held);
    eventually("room again", async || {
        let mut stream = connect_from("127.0.0.2", http).await;
        let request = b"GET /health/live HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        let _ = stream.write_all(request).await;
        (status(&read_all(&mut stream).await) == 200).then_some(())
    })
    .await;
}

/// A well-formed key or token that was never issued.
pub fn well_made(prefix: &str) -> String {
    const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut text = prefix.to_owned();
    let digit = |n: u32| char::from(BASE62[usize::try_from(n % 62).unwrap()]);
    text.extend((0..30).map(|_| digit(rand::random())));
    let crc = text.bytes().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 * (crc & 1))
        })
    });
    let digits = (0..6).rev().map(|place| digit(!crc / 62_u32.pow(place)));
    text.extend(digits);
    text
}

/// A request of a bridge or tenant through a proxy, on behalf of one of its clients.
async fn ask_through(http: &str, from: &str, client: &str, path: &str, credential: &str) -> u16 {
    let mut stream = connect_from(from, http).await;
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nx-forwarded-for: 6.6.6.6, {client}\r\n{credential}\r\ncontent-type: application/json\r\n\
         content-length: 2\r\nconnection: close\r\n\r\n{{}}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    status(&read_all(&mut stream).await)
}

#[actix_web::test]
async fn who_guesses_is_limited_on_every_way_in_and_others_are_not() {
    let setup = WorldSetup::new()
        .set("http.unauthenticated_requests_per_minute", 3)
        .set("http.trusted_proxies", "127.0.0.3");
    let world = world!(Sqlite, setup);
    let (http, proxy) = (&world.server.http, "127.0.0.3");
    let guess = || well_made("dkb_");
    let bearer = |token: &str| format!("authorization: Bearer {token}");
    let bridge = |client: &'static str, token: String| {
        ask_through(http, proxy, client, "/bridge/v1/messages", token.leak())
    };
    for _ in 0..3 {
        let token = bearer(&guess());
        assert_eq!(bridge("198.51.100.1", token).await, 401);
    }
    assert_eq!(bridge("198.51.100.1", bearer(&guess())).await, 429);
    // The same address with another kind of credential, another client of the proxy, and the same client without
    // the proxy.
    let key = format!("x-api-key: {}", well_made("dkl_"));
    let path = "/api/v1/agents";
    assert_eq!(
        ask_through(http, proxy, "198.51.100.1", path, &key).await,
        429
    );
    assert_eq!(
        ask_through(http, proxy, "198.51.100.2", path, &key).await,
        401
    );
    assert_eq!(
        ask_through(http, "127.0.0.4", "198.51.100.1", path, &key).await,
        401
    );
    // A credential that was accepted before is still accepted.
    let token = bearer(&world.tenant.token);
    assert_eq!(bridge("198.51.100.3", token.clone()).await, 422);
    assert_eq!(bridge("198.51.100.1", token).await, 422);
    world.tenant.api.get("/agents").await.expect(200);
}

#[actix_web::test]
async fn what_is_no_request_is_refused_like_one_and_told_to_nobody() {
    let world = world!(Sqlite, WorldSetup::new().set("log.format", "json"));
    let http = &world.server.http;
    let long = format!(
        "GET / HTTP/1.1\r\nhost: x\r\nx-long: {}\r\n\r\n",
        "a".repeat(300_000)
    );
    let cases: [(&[u8], u16, &str); 8] = [
        (b"no HTTP\r\n\r\n", 400, "invalid_json"),
        (b"GET / HTTP/1.1\r\nbad name: a\r\nhost: x\r\n\r\n", 400, "invalid_json"),
        (b"GET / HTTP/1.1\r\nhost: x\r\nx: \0\r\n\r\n", 400, "invalid_json"),
        (b"GET / HTTP/1.1\r\n\r\n", 400, "invalid_json"),
        (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n", 400, "invalid_json"),
        (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n", 400, "invalid_json"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "invalid_json"),
        (long.as_bytes(), 431, "body_too_large"),
    ];
    let mut ids = Vec::new();
    for (bytes, expected, code) in cases {
        let answer = exchange(http, bytes).await;
        let sent = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]);
        assert_eq!(status(&answer), expected, "{sent:?}: {answer}");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let body: Value = serde_json::from_str(body).unwrap_or_else(|_| panic!("{answer}"));
        assert_eq!(body["error"]["code"], code, "{sent:?}");
        assert_eq!(
            header(head, "content-type").as_deref(),
            Some("application/json")
        );
        assert_eq!(
            header(head, "x-request-id").as_deref(),
            body["error"]["requestId"].as_str()
        );
        ids.push(body["error"]["requestId"].as_str().unwrap().to_owned());
    }
    // Pipelined after a valid request, which is answered normally.
    let both = b"GET /health/live HTTP/1.1\r\nhost: x\r\n\r\nno HTTP\r\n\r\n";
    let answers = exchange(http, both).await;
    assert!(
        answers.starts_with("HTTP/1.1 200") && answers.contains("{\"status\":\"live\"}"),
        "{answers}"
    );
    assert!(
        answers.contains("HTTP/1.1 400") && answers.contains("\"invalid_json\""),
        "{answers}"
    );
    // A tenant's server that answers nonsense causes no log lines either.
    world.receiver.answer(
        "/nonsense",
        [ServerAnswer::Raw(
            b"HTTP/1.1 200 OK\r\nbad\0name: \xff\r\n\r\n",
        )],
    );
    let url = world.receiver.url("/nonsense");
    world.tenant.create_function("look_up", "POST", &url).await;
    let test = format!("/agents/{}/functions/look_up/test", world.tenant.agent);
    let outcome = world
        .tenant
        .api
        .post(&test, json!({"parameters": {"orderId": "1"}}))
        .await;
    assert_eq!(outcome.expect(200)["code"], "invalid_response");
    let log = world.server.log();
    let malformed = log
        .lines()
        .filter(|line| line.contains("refused an invalid HTTP request"));
    let lines: Vec<Value> = malformed
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), cases.len() + 1, "a line each:\n{log}");
    for (line, id) in lines.iter().zip(&ids) {
        assert_eq!(line["request_id"], *id, "{line}");
    }
    assert!(!log.contains("ERROR") && !log.contains("actix"), "{log}");
}

#[actix_web::test]
async fn browsers_are_told_what_they_may_do_with_an_answer() {
    let world = world!(Sqlite);
    let rest = world.server.rest();
    for path in [
        "/",
        "/docs",
        "/docs/",
        "/docs/swagger-ui-bundle.js",
        "/openapi.json",
        "/api/v1/agents",
        "/health/live",
        "/nowhere",
    ] {
        let answer = rest.get(path).await;
        let value = |name: &str| {
            answer
                .header(name)
                .unwrap_or_else(|| panic!("no {name}: {path}"))
                .to_owned()
        };
        assert_eq!(value("x-content-type-options"), "nosniff");
        assert_eq!(value("x-frame-options"), "DENY");
        let policy = value("content-security-policy");
        assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"));
        assert!(!policy.contains("unsafe-eval") && !policy.contains("script-src 'self' 'unsafe"));
        assert_eq!(
            policy.contains("script-src 'self'"),
            path.starts_with("/docs/"),
            "{path}"
        );
    }
}

#[actix_web::test]
async fn an_operators_listener_without_a_token_answers_its_own_machine_only() {
    let world = world!(Sqlite);
    let operator = &world.server.operator;
    let port = address(operator).port();
    let ask = async |headers: String| {
        let request = format!("GET /metrics HTTP/1.1\r\n{headers}\r\nconnection: close\r\n\r\n");
        exchange(operator, request.as_bytes()).await
    };
    for own in [
        format!("host: 127.0.0.1:{port}"),
        format!("host: localhost:{port}"),
        format!("host: LOCALHOST:{port}\r\norigin: http://localhost:{port}"),
        "host: [::1]".to_owned(),
    ] {
        assert_eq!(status(&ask(own.clone()).await), 200, "{own}");
    }
    for foreign in [
        "host: rebound.example".to_owned(),
        format!("host: rebound.example:{port}"),
        format!("host: 127.0.0.1.rebound.example:{port}"),
        format!("host: 127.0.0.1:{port}\r\norigin: http://evil.example"),
        format!("host: 127.0.0.1:{port}\r\norigin: null"),
    ] {
        let answer = ask(foreign.clone()).await;
        assert_eq!(status(&answer), 403, "{foreign}");
        assert!(!answer.contains("dikala_"), "{foreign}: {answer}");
    }
    // With a token the host name does not matter, because every request needs the token.
    let token = "correct-horse-battery";
    let world = world!(Sqlite, WorldSetup::new().set("operator.token", token));
    let request = format!(
        "GET /metrics HTTP/1.1\r\nhost: metrics.example\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
    );
    assert_eq!(
        status(&exchange(&world.server.operator, request.as_bytes()).await),
        200
    );
}

#[rstest]
#[actix_web::test]
async fn a_stream_of_events_ends_with_its_key(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let (server, tenant) = (&world.server, &world.tenant);
    let mut stream = TcpStream::connect(address(&server.http)).await.unwrap();
    let request = format!(
        "GET /api/v1/events/stream HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\nconnection: close\r\n\r\n",
        tenant.key
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut buffer = [0; 4096];
    within(PATIENCE, "the stream to open", async || {
        let read = stream.read(&mut buffer).await.unwrap();
        String::from_utf8_lossy(&buffer[..read])
            .contains("retry:")
            .then_some(())
    })
    .await;
    let keys = server.cli(&["key", "list", "--tenant", &tenant.id]);
    let id = keys["keys"][0]["id"].as_str().unwrap().to_owned();
    server.cli(&["key", "revoke", &id]);
    // Earlier than the stream's own keep-alive, every ten seconds.
    let mut rest = Vec::new();
    let rest = tokio::time::timeout(Duration::from_secs(9), stream.read_to_end(&mut rest));
    rest.await.expect("it ends").unwrap();
}

#[actix_web::test]
async fn no_level_of_the_log_tells_a_secret() {
    let Some(mut installation) = Installation::new(Postgres) else {
        return;
    };
    let url = installation.store.url.replacen('@', ":hush-hush@", 1);
    assert!(url.contains("hush-hush"), "{url}");
    for (key, value) in [
        ("database.url", &*url),
        ("log.level", "trace"),
        ("log.format", "text"),
    ] {
        installation.set(key, value);
    }
    let server = Server::start(installation);
    let plan = TenantPlan {
        minutes: 10,
        low_threshold: None,
        concurrent_calls: None,
    };
    let tenant = Tenant::create(&server, &plan).await;
    let bridge = tenant.bridge(Socket).await;
    let call = bridge.talk(&tenant.did).await;
    bridge.hang_up(&call).await;
    let log = eventually("the call to be told", async || {
        let log = server.log();
        log.contains("call over").then_some(log)
    })
    .await;
    assert!(!log.contains('\u{1b}'), "no colours in a file");
    for secret in [&*tenant.key, &tenant.token, "Answer kindly.", "hush-hush"] {
        assert!(!log.contains(secret), "{secret} is in the log");
    }
}
