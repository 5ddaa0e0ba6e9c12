//! Faults before and inside a handler.

use std::time::Duration;

use actix_web::http::Method;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{prelude::*, world::strict};

/// Sends raw bytes and reads until the server closes.
async fn raw(world: &ApiWorld, request: &str) -> String {
    let mut stream = TcpStream::connect(world.address).await.expect("connects");
    stream.write_all(request.as_bytes()).await.expect("sends");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

fn head(world: &ApiWorld, rest: &str) -> String {
    format!(
        "POST /api/v1/agents HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\ncontent-type: application/json\r\n{rest}\r\n\r\n",
        world.ours.key
    )
}

#[rstest]
#[actix_web::test]
async fn bodies_that_cannot_be_read(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let send = async |content_type: &str, body: Vec<u8>| {
        let headers = [
            ("x-api-key", world.ours.key.as_str()),
            ("content-type", content_type),
        ];
        let reply = world
            .send(&Method::POST, "/api/v1/agents", &headers, body)
            .await;
        (reply.status, reply.code())
    };
    let json = "application/json";
    assert_eq!(
        send(json, b"{".to_vec()).await,
        (400, "invalid_json".into())
    );
    assert_eq!(send(json, Vec::new()).await, (400, "invalid_json".into()));
    assert_eq!(
        send(json, b"{\"name\": \"\xff\"}".to_vec()).await,
        (400, "invalid_json".into())
    );
    assert_eq!(
        send(json, "[".repeat(65).into_bytes()).await,
        (400, "invalid_json".into())
    );
    assert_eq!(
        send(json, b"[]".to_vec()).await,
        (422, "validation_failed".into())
    );
    assert_eq!(
        send("text/plain", b"{}".to_vec()).await,
        (415, "unsupported_media_type".into())
    );
    assert_eq!(
        send("application/merge-patch+json", b"{}".to_vec()).await,
        (415, "unsupported_media_type".into())
    );
    let large = format!("{{\"name\":\"{}\"}}", "x".repeat(262_144));
    assert_eq!(
        send(json, large.into_bytes()).await,
        (413, "body_too_large".into())
    );
    let just = format!("{{\"name\":\"{}\"}}", "x".repeat(262_144 - 11));
    assert_eq!(send(json, just.into_bytes()).await.0, 422);
}

#[rstest]
#[actix_web::test]
async fn chunked_bodies_have_the_same_limit(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let chunk = format!("8000\r\n{}\r\n", "x".repeat(0x8000));
    let request = format!(
        "{}{}0\r\n\r\n",
        head(&world, "transfer-encoding: chunked\r\nconnection: close"),
        chunk.repeat(9)
    );
    let answer = raw(&world, &request).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert!(answer.contains("body_too_large"), "{answer}");
}

#[rstest]
#[actix_web::test]
async fn a_body_that_drips_is_cut_off(#[values(Sqlite, Postgres)] store: StoreKind) {
    let mut settings = strict();
    settings.http.body_timeout = Duration::from_millis(400);
    let world = world!(store, settings);
    let answer = raw(
        &world,
        &format!("{}{{\"na", head(&world, "content-length: 50")),
    )
    .await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(answer.contains("request_timeout"), "{answer}");
}

#[rstest]
#[actix_web::test]
async fn compressed_bodies_are_not_taken(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let key = world.ours.key.as_str();
    let headers = [
        ("x-api-key", key),
        ("content-type", "application/json"),
        ("content-encoding", "gzip"),
    ];
    let reply = world
        .send(&Method::POST, "/api/v1/agents", &headers, b"{}".to_vec())
        .await;
    assert_eq!(reply.status, 415);
}

#[rstest]
#[actix_web::test]
async fn paths_and_methods_that_are_not_there(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let key = [("x-api-key", world.ours.key.as_str())];
    for path in [
        "/api/v1/nothing",
        "/api/v1",
        "/api/v1/",
        "/api/v1/agents/",
        "/api/v1//agents",
        "/api/v2/agents",
        "/nothing",
        "/api/v1/agents/../calls",
        "/api/v1/%2e%2e",
    ] {
        for headers in [&key[..], &[]] {
            let reply = world.send(&Method::GET, path, headers, Vec::new()).await;
            assert_eq!(
                (reply.status, reply.code()),
                (404, "route_not_found".into()),
                "{path}"
            );
        }
    }
    for method in [
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
        Method::OPTIONS,
        Method::TRACE,
    ] {
        let reply = world
            .send(&method, "/api/v1/agents", &key, Vec::new())
            .await;
        assert_eq!(
            (reply.status, reply.code()),
            (405, "method_not_allowed".into()),
            "{method}"
        );
        assert_eq!(reply.header("allow"), "GET, POST");
        assert_eq!(reply.header("x-ratelimit-limit"), "100000");
    }
}

#[rstest]
#[actix_web::test]
async fn unknown_parameters_are_refused_everywhere(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let reply = world.get("/agents?limt=5").await;
    assert_eq!(
        (reply.status, reply.fields()),
        (422, vec!["limt unknown_field".to_owned()])
    );
    let reply = world.get("/calls?limt=5&offset=x").await;
    assert_eq!(
        reply.fields(),
        ["offset invalid_type", "limt unknown_field"]
    );
    assert!(
        reply.text.contains("did you mean \\\"limit\\\"?"),
        "{}",
        reply.text
    );
}

#[rstest]
#[actix_web::test]
async fn request_ids_are_echoed_or_made(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let ask = async |id: &str| {
        let headers = [("x-request-id", id)];
        let reply = world
            .send(&Method::GET, "/api/v1/credits", &headers, Vec::new())
            .await;
        assert_eq!(
            reply.json()["error"]["requestId"],
            reply.header("x-request-id")
        );
        reply.header("x-request-id").to_owned()
    };
    assert_eq!(ask("a.B_9-").await, "a.B_9-");
    assert_eq!(ask(&"x".repeat(64)).await, "x".repeat(64));
    for unusable in ["", "a b", "ä", "<script>", &"x".repeat(65)] {
        assert!(ask(unusable).await.starts_with("req_"), "{unusable}");
    }
    let reply = world.get("/credits").await;
    assert!(reply.header("x-request-id").starts_with("req_"));
}

#[actix_web::test]
async fn a_panic_is_500_and_the_service_goes_on() {
    use actix_web::{App, HttpResponse, middleware::from_fn, test, web};

    use crate::http::middleware::{catch_panic, request_scope};
    async fn falls() -> HttpResponse {
        panic!("on purpose")
    }
    let app = App::new().wrap(from_fn(request_scope)).service(
        web::scope("/a").service(
            web::resource("/{id}")
                .wrap(from_fn(catch_panic))
                .route(web::get().to(falls)),
        ),
    );
    let app = test::init_service(app).await;
    for _ in 0..2 {
        let response =
            test::call_service(&app, test::TestRequest::get().uri("/a/1").to_request()).await;
        assert_eq!(response.status(), 500);
        let body: serde_json::Value = test::read_body_json(response).await;
        assert_eq!(body["error"]["code"], "internal_error");
        assert_ne!(body["error"]["requestId"], "");
    }
}

#[rstest]
#[actix_web::test]
async fn what_others_answer_is_left_alone(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let reply = world.send(&Method::GET, "/plain", &[], Vec::new()).await;
    assert_eq!((reply.status, reply.text.as_str()), (401, "own"));
    assert_ne!(reply.header("x-request-id"), "");
}

#[rstest]
#[actix_web::test]
async fn nul_and_deep_or_strange_values_never_reach_the_store(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let reply = world.post("/agents", json!({"name": "a\u{0}b", "systemPrompt": "x", "maxCallDurationMinutes": 1e300, "toolsEnabled": ["\u{0}"]})).await;
    assert_eq!(reply.status, 422);
    assert_eq!(
        reply.fields(),
        [
            "name invalid_format",
            "maxCallDurationMinutes too_large",
            "toolsEnabled[0] invalid_format"
        ]
    );
    let reply = world.get("/calls?status=%00&from=%ff").await;
    assert_eq!(
        reply.fields(),
        ["status invalid_format", "from invalid_format"]
    );
    // The JSON library would read what is in the string, without any limit of depth.
    let hidden = json!({"name": "a", "systemPrompt": "x", "voiceId": {"$serde_json::private::RawValue": "[[1]]"}});
    let reply = world.post("/agents", hidden).await;
    assert_eq!((reply.status, &*reply.code()), (400, "invalid_json"));
}
