//! Access to the operators' listener: tokens, throttling, and DNS rebinding.

use tokio::io::AsyncWriteExt;

use super::{console::signed_in, *};
use crate::support::{
    raw_socket::{connect_from, exchange, read_all},
    server::{assert_fails, installation},
    visitor::HtmlForm,
};

#[actix_web::test]
async fn wrong_tokens_are_throttled_and_the_right_one_is_not_hurt() {
    let setup = guarded().set("http.unauthenticated_requests_per_minute", 3);
    let world = world!(Postgres, setup);
    let server = &world.server;
    for _ in 0..3 {
        let answer = with(server, "not-one-of-the-tokens").get("/nodes").await;
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        let answer = answer.expect(401);
        assert_eq!(answer["error"]["code"], "invalid_operator_token");
    }
    let answer = with(server, "not-one-of-the-tokens").get("/nodes").await;
    let seconds: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&seconds), "{answer:?}");
    assert_eq!(answer.expect(429)["error"]["code"], "rate_limited");
    // No token is compared any more, so that even a right guess is refused.
    with(server, READ).get("/nodes").await.expect(429);
    // The tenant was created with the full token from this address, which others' guesses do not affect.
    with(server, FULL).get("/nodes").await.expect(200);
}

/// A token proven at one address is not trusted at another, where it might be a guess.
#[actix_web::test]
async fn a_token_is_proven_at_the_address_at_which_it_was_shown() {
    let setup = guarded().set("http.unauthenticated_requests_per_minute", 3);
    let world = world!(Sqlite, setup);
    let ask = async |from: &str, headers: &str| {
        let mut stream = connect_from(from, &world.server.operator).await;
        let request =
            format!("GET {BASE}/nodes HTTP/1.1\r\nhost: x\r\n{headers}connection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let answer = read_all(&mut stream).await;
        answer.split(' ').nth(1).unwrap().to_owned()
    };
    let status = async |from: &str, token: &str| {
        ask(from, &format!("authorization: Bearer {token}\r\n")).await
    };
    let (here, there) = ("127.0.0.2", "127.0.0.3");
    assert_eq!(status(here, FULL).await, "200");
    for _ in 0..3 {
        assert_eq!(status(there, "not-one-of-the-tokens").await, "401");
    }
    assert_eq!(status(there, FULL).await, "429");
    // Guesses there do not affect this address.
    assert_eq!(status(here, READ).await, "200");
    // Requests without a token are limited as well.
    for expected in ["401", "401", "401", "429"] {
        assert_eq!(ask("127.0.0.4", "").await, expected);
    }
}

#[actix_web::test]
async fn a_token_is_taken_as_the_field_writes_it_and_only_once() {
    let world = world!(Sqlite, guarded());
    let operator = &world.server.operator;
    let ask = async |headers: &str| {
        let request =
            format!("GET {BASE}/nodes HTTP/1.1\r\nhost: x\r\n{headers}connection: close\r\n\r\n");
        exchange(operator, request.as_bytes()).await
    };
    for (headers, status) in [
        (format!("authorization: Bearer {FULL}\r\n"), 200),
        (format!("authorization: bearer {READ}\r\n"), 200),
        (format!("authorization: {FULL}\r\n"), 401),
        (format!("authorization: Basic {FULL}\r\n"), 401),
        (format!("authorization: Bearer {FULL}x\r\n"), 401),
        (
            format!("authorization: Bearer {FULL}\r\nauthorization: Bearer {FULL}\r\n"),
            401,
        ),
        ("authorization: Bearer \r\n".to_owned(), 401),
        (format!("x-api-key: {}\r\n", world.tenant.key), 401),
        (
            format!("authorization: Bearer {}\r\n", world.tenant.token),
            401,
        ),
        (String::new(), 401),
    ] {
        let answer = ask(&headers).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{headers:?}: {answer}"
        );
    }
    // Health checks need no token, and accept no changes from anybody.
    for path in ["/health/live", "/health/ready"] {
        assert_eq!(Rest::new(operator).get(path).await.status, 200);
        let refused = Rest::new(operator).post(path, json!({})).await;
        assert_eq!(refused.header("allow"), Some("GET, HEAD"), "{path}");
        let refused = refused.expect(405);
        assert_eq!(refused["error"]["code"], "method_not_allowed", "{path}");
    }
    Rest::new(operator).get("/metrics").await.expect(401);
    let metrics = Rest::new(operator).with("authorization", &format!("Bearer {READ}"));
    assert_eq!(metrics.get("/metrics").await.status, 200);

    // The runbook refers to these lines.
    let stranger = world.server.rest().with("x-api-key", "dkl_wrong");
    stranger.get("/api/v1/agents").await.expect(401);
    let runbook = include_str!("../../../docs/runbook.md");
    for words in [
        "a request without a valid key was refused",
        "a request to the operators' listener was refused",
    ] {
        assert!(runbook.contains(&format!("`{words}`")), "{words}");
        eventually(words, async || {
            world.server.log().contains(words).then_some(())
        })
        .await;
    }
}

#[actix_web::test]
async fn without_a_token_only_this_machines_own_pages_are_answered() {
    let world = world!(Sqlite);
    let operator = &world.server.operator;
    let port = operator.rsplit(':').next().unwrap();
    let own = format!("127.0.0.1:{port}");
    for (host, origin, status) in [
        (own.clone(), None, 200),
        (format!("localhost:{port}"), None, 200),
        (
            format!("LocalHost:{port}"),
            Some(format!("http://localhost:{port}")),
            200,
        ),
        (format!("[::1]:{port}"), None, 200),
        (own.clone(), Some(format!("http://127.0.0.1:{port}")), 200),
        ("rebound.example".to_owned(), None, 403),
        (format!("rebound.example:{port}"), None, 403),
        (format!("127.0.0.1.rebound.example:{port}"), None, 403),
        (format!("localhost.rebound.example:{port}"), None, 403),
        ("0.0.0.0".to_owned(), None, 403),
        (String::new(), None, 403),
        (own.clone(), Some("http://evil.example".to_owned()), 403),
        (own.clone(), Some("null".to_owned()), 403),
        (own.clone(), Some(format!("https://127.0.0.1:{port}")), 403),
        (own.clone(), Some(format!("http://localhost:{port}")), 403),
        (own.clone(), Some("http://127.0.0.1:1".to_owned()), 403),
    ] {
        let origin = origin.map_or_else(String::new, |origin| format!("origin: {origin}\r\n"));
        for method in ["GET", "POST"] {
            let path = match method {
                "GET" => "tenants",
                _ => "ledger/verify",
            };
            let request = format!(
                "{method} {BASE}/{path} HTTP/1.1\r\nhost: {host}\r\n{origin}content-length: 0\r\nconnection: close\r\n\r\n"
            );
            let answer = exchange(operator, request.as_bytes()).await;
            let status_line = format!("HTTP/1.1 {status} ");
            assert!(
                answer.starts_with(&status_line),
                "{method} {host:?} {origin:?}: {answer}"
            );
            assert_eq!(answer.contains("foreign_host"), status == 403, "{answer}");
        }
    }
    // With two host headers it is unclear which one counts.
    let request = format!(
        "GET {BASE}/tenants HTTP/1.1\r\nhost: {own}\r\nhost: rebound.example\r\nconnection: close\r\n\r\n"
    );
    let answer = exchange(operator, request.as_bytes()).await;
    assert!(!answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[test]
fn tokens_that_protect_nothing_are_refused_at_the_start() {
    for (settings, names) in [
        (vec![("operator.listen", "0.0.0.0:0")], "operator.token"),
        (
            vec![
                ("operator.listen", "0.0.0.0:0"),
                ("operator.read_token", READ),
            ],
            "operator.token",
        ),
        (vec![("operator.read_token", READ)], "operator.token"),
        (
            vec![("operator.token", FULL), ("operator.read_token", FULL)],
            "operator.read_token is the same",
        ),
        (
            vec![("operator.token", FULL), ("operator.read_token", "short")],
            "at least 16",
        ),
    ] {
        let mut installation = installation!(Sqlite);
        for (key, value) in &settings {
            installation.set(key, value);
        }
        let finished = installation.run(&["serve"]);
        assert_fails(&finished, &[3], names);
        assert!(!finished.stderr.contains(READ), "{finished:?}");
        assert!(!finished.stderr.contains(FULL), "{finished:?}");
    }
}

/// A console session may read metrics and description. Changes and the API need a token.
#[actix_web::test]
async fn a_session_of_the_console_reads_metrics_and_description_and_no_more() {
    let world = world!(Sqlite, guarded());
    let browser = signed_in(&world.server, READ).await;
    let (metrics, description) = ("/metrics", "/operator/openapi.json");
    for path in [metrics, description] {
        assert_eq!(browser.fetch(path).await.status, 200, "{path}");
        assert_eq!(browser.another().fetch(path).await.status, 401, "{path}");
        let wrong = browser.clone().with("authorization", "Bearer nonsense");
        assert_eq!(wrong.fetch(path).await.status, 401, "{path}");
    }
    let tenants = browser.fetch("/operator/v1/tenants").await;
    assert_eq!(tenants.status, 401);
    let form = browser.open("/").await.form("/sign-out");
    let posted = HtmlForm {
        action: metrics.to_owned(),
        ..form.clone()
    };
    assert_eq!(browser.post(&posted).await.status, 401);
    let stolen = browser.another();
    for (name, value) in &browser.cookies() {
        stolen.set_cookie(name, value);
    }
    assert_eq!(stolen.fetch(metrics).await.status, 200);
    browser.submit(&form).await;
    assert_eq!(stolen.fetch(metrics).await.status, 401, "signed out");
}
