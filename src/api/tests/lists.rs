//! Lists without a limit.

use std::time::Duration;

use actix_web::http::Method;
use dikala_actors::runtime::clock::Clock;
use dikala_entities::{CallId, CallStatus, EventId, EventKind, agent, call, event};
use dikala_testkit::rows;
use sea_orm::{ConnectionTrait, DbBackend, IdenStatic, Iterable, Statement};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::prelude::*;
use super::seed::write_call;
use crate::{
    api::context::ApiSettings,
    http::{
        error::{ApiError, Code},
        route::BASE,
        unread::{BYTES_PER_TENANT_MAX, LISTS_PER_TENANT_MAX},
    },
    operations::SKIPPED_MAX,
};

/// Longest time for something that should happen at once.
const PATIENCE: Duration = Duration::from_secs(20);

/// Enough agents to exceed every buffer of a connection.
const MANY: usize = 130;

async fn many_agents(world: &ApiWorld) {
    let now = world.clock.now();
    for _ in 0..MANY {
        let row = agent::Model {
            system_prompt: "あ".repeat(32_000),
            ..rows::agent(world.ours.tenant, now)
        };
        rows::insert(world.store().writer(), row).await;
    }
}

/// A client that asks for the agents and reads only on demand.
async fn asked(world: &ApiWorld) -> TcpStream {
    asked_for(world, "/agents").await
}

async fn asked_for(world: &ApiWorld, path: &str) -> TcpStream {
    let mut socket = TcpStream::connect(world.address).await.expect("connects");
    let request = format!(
        "GET {BASE}{path} HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\n\r\n",
        world.ours.key
    );
    socket.write_all(request.as_bytes()).await.expect("writes");
    let mut begin = [0; 17];
    let read = tokio::time::timeout(PATIENCE, socket.read_exact(&mut begin));
    read.await.expect("in time").expect("reads");
    assert_eq!(&begin, b"HTTP/1.1 200 OK\r\n");
    socket
}

fn ids(list: &Value) -> Vec<String> {
    let rows = list.as_array().expect("a list");
    let id = |row: &Value| row["id"].as_str().expect("an id").to_owned();
    rows.iter().map(id).collect()
}

/// Rows per statement; the store limits a statement to a few seconds.
const ROWS_AT_ONCE: u64 = 10_000;

/// Adds `count` calls of ours.
async fn many_rows(world: &ApiWorld, count: u64) {
    let backend = world.store().backend();
    let text = match backend {
        DbBackend::Postgres => "LPAD(i::text, 26, '0')",
        _ => "PRINTF('%026d', i)",
    };
    let call = |column: call::Column| match column {
        call::Column::Id => format!("'call_' || {text}"),
        call::Column::BridgeCallId => text.to_owned(),
        call::Column::StartedAt => "started_at - i".to_owned(),
        other => format!("{:?}", other.as_str()),
    };
    let (into, from): (Vec<String>, Vec<String>) = call::Column::iter()
        .map(|column| (format!("{:?}", column.as_str()), call(column)))
        .unzip();
    for part in 0..count.div_ceil(ROWS_AT_ONCE) {
        let first = part * ROWS_AT_ONCE + 1;
        let last = count.min(first + ROWS_AT_ONCE - 1);
        let sql = format!(
            "INSERT INTO calls ({}) WITH RECURSIVE n(i) AS (SELECT {first} UNION ALL SELECT i + 1 FROM n WHERE i < {last}) \
             SELECT {} FROM calls, n WHERE id = '{}'",
            into.join(", "),
            from.join(", "),
            world.ours.ended
        );
        let written = world.store().writer().execute_unprepared(&sql).await;
        written.expect("is written");
    }
}

/// Skipped rows are read, so a far page of a long list is refused with a hint; in a short list it is empty.
#[rstest]
#[actix_web::test]
async fn a_page_far_into_a_list_costs_no_more_than_one_that_is_near(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let past_the_end = world.get("/calls?offset=9007199254740991").await;
    assert_eq!(past_the_end.status, 200, "{}", past_the_end.text);
    assert_eq!(past_the_end.json()["calls"], json!([]));
    assert_eq!(past_the_end.json()["hasMore"], false);
    many_rows(&world, SKIPPED_MAX).await;
    let last = world
        .get(&format!("/calls?limit=1&offset={SKIPPED_MAX}"))
        .await;
    assert_eq!(
        (last.status, last.json()["hasMore"].clone()),
        (200, json!(true))
    );
    let farther = world
        .get(&format!("/calls?offset={}", SKIPPED_MAX + 1))
        .await;
    assert_eq!(farther.status, 422, "{}", farther.text);
    assert_eq!(farther.fields(), ["offset too_large"]);
    assert!(farther.text.contains("before"), "{}", farther.text);
    let before = ids(&last.json()["calls"])[0].clone();
    let next = world.get(&format!("/calls?before={before}")).await;
    assert_eq!(
        (next.status, next.json()["calls"].as_array().map(Vec::len)),
        (200, Some(1))
    );
    let filtered = format!("/calls?status=ringing&offset={}", SKIPPED_MAX + 1);
    assert_eq!(world.get(&filtered).await.json()["calls"], json!([]));
    let deliveries = format!("/webhooks/{}/deliveries?offset=200000", world.ours.webhook);
    assert_eq!(world.get(&deliveries).await.json()["deliveries"], json!([]));
}

/// The database itself cancels a statement that takes too long, and the error says what to do.
#[rstest]
#[actix_web::test]
async fn what_takes_too_long_to_read_is_broken_off_and_said(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) AS n FROM n";
    let endless = Statement::from_string(world.store().backend(), endless);
    let broken_off = world.store().api_reader().query_one_raw(endless).await;
    let error = ApiError::from(broken_off.expect_err("it never ends"));
    assert_eq!(error, ApiError::TookTooLong);
    assert_eq!(error.code(), Code::Unavailable);
    assert_eq!(world.get("/calls").await.status, 200);
}

#[rstest]
#[actix_web::test]
async fn every_list_is_whole_and_paged_where_it_is_asked_for(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    for n in 0..5 {
        let agent = json!({"name": format!("A{n}"), "systemPrompt": "x"});
        assert_eq!(world.post("/agents", agent).await.status, 201);
        let hook = json!({"url": "https://example.com/h", "events": ["call.ended"], "secret": "long-enough"});
        assert_eq!(world.post("/webhooks", hook).await.status, 201);
        let function = json!({"name": format!("f{n}"), "description": "d", "endpoint": "https://example.com/"});
        let functions = format!("/agents/{}/functions", world.ours.agent);
        assert_eq!(world.post(&functions, function).await.status, 201);
        let now = world.clock.now();
        let row = event::Model {
            call_id: Some(world.ours.ended),
            kind: EventKind::CallEnded,
            body: json!({"data": {"n": n}}).to_string(),
            position: Some(1_000 + n),
            ..rows::event(world.ours.tenant, now)
        };
        rows::insert(world.store().writer(), row).await;
    }
    let (agent, call) = (world.ours.agent, world.ours.ended);
    for (id, path, key, count) in [
        ("agents.list", "/agents".to_owned(), "agents", 6),
        ("webhooks.list", "/webhooks".to_owned(), "webhooks", 6),
        (
            "functions.list",
            format!("/agents/{agent}/functions"),
            "functions",
            6,
        ),
        ("calls.events", format!("/calls/{call}/events"), "events", 6),
        (
            "phoneNumbers.list",
            "/phone-numbers".to_owned(),
            "phoneNumbers",
            1,
        ),
    ] {
        let whole = world.done(id, &path, None).await.json();
        assert_eq!(
            whole.as_object().map(|list| list.len()),
            Some(1),
            "{path}: no paging fields"
        );
        let all = ids(&whole[key]);
        assert_eq!(all.len(), count, "{path}");
        assert!(all.is_sorted(), "{path}");
        let mut read = Vec::new();
        for offset in (0..8).step_by(4) {
            let page = world
                .done(id, &format!("{path}?limit=4&offset={offset}"), None)
                .await
                .json();
            assert_eq!(
                (&page["limit"], &page["offset"]),
                (&json!(4), &json!(offset))
            );
            assert_eq!(
                page["hasMore"],
                json!(offset + 4 < count),
                "{path} {offset}"
            );
            read.extend(ids(&page[key]));
        }
        assert_eq!(read, all, "{path}");
        let exact = world.get(&format!("{path}?limit={count}")).await.json();
        assert_eq!(
            (&exact["hasMore"], ids(&exact[key]).len()),
            (&json!(false), count)
        );
        let rest = world.get(&format!("{path}?offset=1")).await.json();
        assert_eq!(
            (&rest["limit"], ids(&rest[key])),
            (&json!(50), all[1..].to_vec())
        );
        assert_eq!(
            world.get(&format!("{path}?limit=0")).await.fields(),
            ["limit too_small"]
        );
        assert_eq!(
            world.get(&format!("{path}?page=1")).await.fields(),
            ["page unknown_field"]
        );
    }
    let versions = format!("/agents/{agent}/versions");
    let page = world
        .done(
            "agents.versions",
            &format!("{versions}?limit=2&offset=1"),
            None,
        )
        .await
        .json();
    assert_eq!(
        (&page["versions"][0]["agentVersion"], &page["hasMore"]),
        (&json!(2), &json!(true))
    );
}

#[rstest]
#[actix_web::test]
async fn a_long_list_comes_whole_and_in_order(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    many_agents(&world).await;
    let url = format!("http://{}{BASE}/agents", world.address);
    let request = awc::Client::default()
        .get(url)
        .insert_header(("x-api-key", world.ours.key.as_str()));
    let mut response = request.send().await.expect("an answer");
    let header = |name| {
        response
            .headers()
            .get(name)
            .and_then(|value| value.to_str().ok())
    };
    assert_eq!(header("content-type"), Some("application/json"));
    assert_eq!(header("cache-control"), Some("no-store"));
    assert!(header("x-ratelimit-remaining").is_some() && header("x-request-id").is_some());
    let body = response.body().limit(40_000_000).await.expect("a body");
    let list: Value = serde_json::from_slice(&body).expect("JSON");
    let all = ids(&list["agents"]);
    assert_eq!(all.len(), MANY + 1);
    assert!(all.is_sorted());
    let page = world.get("/agents?limit=90&offset=30").await.json();
    assert_eq!(ids(&page["agents"]), all[30..120]);
    assert_eq!(page["hasMore"], true);
}

/// A slow reader uses places of its own tenant only, and frees them when it disconnects.
#[rstest]
#[actix_web::test]
async fn slow_readers_of_long_lists_are_few_per_tenant(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    many_agents(&world).await;
    let mut slow = Vec::new();
    for _ in 0..LISTS_PER_TENANT_MAX {
        slow.push(asked(&world).await);
    }
    let refused = world.get("/agents").await;
    assert_eq!(
        (refused.status, refused.code()),
        (429, "rate_limited".into())
    );
    assert!(refused.header("retry-after").parse::<u32>().is_ok());
    // Short answers and other tenants are not affected.
    assert_eq!(world.get("/agents?limit=1").await.status, 200);
    assert_eq!(world.get("/webhooks").await.status, 200);
    let theirs = [("x-api-key", world.theirs.key.as_str())];
    let path = format!("{BASE}/agents");
    assert_eq!(
        world
            .send(&Method::GET, &path, &theirs, Vec::new())
            .await
            .status,
        200
    );
    drop(slow.pop());
    let again = async {
        while world.get("/agents?limit=90").await.status != 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, again)
        .await
        .expect("a place is free again");
}

/// A place without a reader is freed after a time, and the cut answer is recognizable.
#[rstest]
#[actix_web::test]
async fn who_does_not_read_a_long_list_is_cut_off(#[values(Sqlite, Postgres)] store: StoreKind) {
    let settings = ApiSettings {
        unread: Duration::from_millis(100),
        ..ApiSettings::default()
    };
    let world = world!(store, settings);
    many_agents(&world).await;
    let mut slow = Vec::new();
    for _ in 0..LISTS_PER_TENANT_MAX {
        slow.push(asked(&world).await);
    }
    let all_cut_off = async {
        while !world.services.http.unread.is_idle() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, all_cut_off)
        .await
        .expect("the places are free again");
    for mut socket in slow {
        let mut rest = Vec::new();
        let read = tokio::time::timeout(PATIENCE, socket.read_to_end(&mut rest)).await;
        drop(read.expect("the connection is cut"));
        assert!(
            !rest.ends_with(b"0\r\n\r\n"),
            "the last chunk says that all is there"
        );
    }
}

/// Pages are built whole, so a tenant's unread pages are bounded in bytes.
#[rstest]
#[actix_web::test]
async fn large_pages_that_nobody_reads_are_bounded_in_bytes(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let now = world.clock.now();
    for _ in 0..100 {
        let mut row = world.ours.call(CallId::new(now), CallStatus::Failed, now);
        row.metadata = json!({"a": "x".repeat(60_000)}).to_string();
        write_call(world.store(), row).await;
    }
    let page = "/calls?limit=100";
    let bytes = world.get(page).await.text.len();
    let fit = BYTES_PER_TENANT_MAX / bytes;
    assert!(fit >= 2);
    let mut slow = Vec::new();
    for _ in 0..fit {
        slow.push(asked_for(&world, page).await);
    }
    let refused = world.get(page).await;
    assert_eq!(
        (refused.status, refused.code()),
        (429, "rate_limited".into())
    );
    assert_eq!(world.get("/calls?limit=1").await.status, 200);
    drop(slow);
    let again = async {
        while world.get(page).await.status != 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, again)
        .await
        .expect("there is room again");
}

/// HTTP/1.0 has no chunks: the answer ends with the connection.
#[rstest]
#[actix_web::test]
async fn a_long_list_for_a_client_of_http_1_0_comes_without_chunks(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    many_agents(&world).await;
    for keep_alive in ["", "connection: keep-alive\r\n"] {
        let mut socket = TcpStream::connect(world.address).await.expect("connects");
        let request = format!(
            "GET {BASE}/agents HTTP/1.0\r\nhost: x\r\n{keep_alive}x-api-key: {}\r\n\r\n",
            world.ours.key
        );
        socket.write_all(request.as_bytes()).await.expect("writes");
        let mut answer = Vec::new();
        let read = tokio::time::timeout(PATIENCE, socket.read_to_end(&mut answer));
        read.await.expect("the connection ends").expect("reads");
        let answer = String::from_utf8(answer).expect("text");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.starts_with("HTTP/1.0 200 "), "{head}");
        let head = head.to_ascii_lowercase();
        assert!(!head.contains("transfer-encoding:"), "{head}");
        assert!(!head.contains("connection: keep-alive"), "{head}");
        let list: Value = serde_json::from_str(body).expect("JSON");
        assert_eq!(ids(&list["agents"]).len(), MANY + 1);
    }
}

#[rstest]
#[actix_web::test]
async fn a_list_that_breaks_off_does_not_look_whole(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    many_agents(&world).await;
    let mut socket = asked(&world).await;
    let away = "ALTER TABLE agents RENAME TO agents_away";
    world
        .store()
        .writer()
        .execute_unprepared(away)
        .await
        .expect("renames");
    let mut rest = Vec::new();
    // Timing decides if the end is an error or a plain close.
    let read = tokio::time::timeout(PATIENCE, socket.read_to_end(&mut rest)).await;
    drop(read.expect("the connection is cut"));
    assert!(!rest.is_empty());
    assert!(
        !rest.ends_with(b"0\r\n\r\n"),
        "the last chunk says that all is there"
    );
}

/// Nodes take ids from their clocks, which differ slightly.
#[rstest]
#[actix_web::test]
async fn events_of_a_call_are_in_the_order_of_their_commits(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let (now, call) = (world.clock.now(), world.ours.ended);
    let path = format!("/calls/{call}/events");
    let before = world.get(&path).await.json()["events"]
        .as_array()
        .map_or(0, Vec::len);
    for (position, ahead) in [(1_001, 50), (1_002, 0)] {
        let row = event::Model {
            id: EventId::first_at(now.plus_ms(ahead)),
            call_id: Some(call),
            kind: EventKind::CallEnded,
            body: json!({"data": {"n": position}}).to_string(),
            position: Some(position),
            ..rows::event(world.ours.tenant, now)
        };
        rows::insert(world.store().writer(), row).await;
    }
    let page = world.get(&path).await;
    let page = page.json();
    let events = &page["events"].as_array().unwrap()[before..];
    let order: Vec<_> = events.iter().map(|event| &event["data"]["n"]).collect();
    assert_eq!(order, [1_001, 1_002]);
}

#[rstest]
#[actix_web::test]
async fn events_of_an_unknown_call_are_not_there(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let unknown = CallId::new(world.clock.now());
    for call in [unknown, world.theirs.ended] {
        let reply = world.get(&format!("/calls/{call}/events")).await;
        assert_eq!(reply.code(), "call_not_found");
    }
}
