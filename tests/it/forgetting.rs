//! Erasure of calls by a tenant, and retention limits of the operator.

use std::sync::Arc;

use dikala_testkit::{
    ServerAnswer::{Full, Json, Status},
    free_port,
};
use tokio::sync::Semaphore;

use crate::support::{prelude::*, tenant::text};

const CALLER: &str = "+6281377712345";
const WORDS: [&str; 5] = [
    CALLER,
    "tulip-in-metadata",
    "tulip-in-summary",
    "tulip-in-turns",
    "tulip-in-parameters",
];
/// The answer of the function and of the receiver.
const ANSWERED: &str = "tulip-in-an-answer";

/// All rows of all tables as one text, with bytes in hexadecimal.
async fn everything(store: &dikala_testkit::StorePlace, kind: StoreKind) -> String {
    let mut all = String::new();
    for table in [
        "calls",
        "transcripts",
        "invocations",
        "events",
        "deliveries",
        "delivery_attempts",
        "credit_holds",
        "credit_transactions",
        "idempotency_keys",
        "erasures",
        "audit",
        "call_stats",
    ] {
        let row = match kind {
            Postgres => "CAST(t AS TEXT)".to_owned(),
            Sqlite => {
                let columns = format!("SELECT name FROM pragma_table_info('{table}')");
                let columns = store.rows::<1>(&columns).await;
                let columns = columns.iter().map(|[name]| {
                    format!("COALESCE(CAST(\"{name}\" AS TEXT), '') || ' ' || hex(\"{name}\")")
                });
                columns.collect::<Vec<_>>().join(" || ' ' || ")
            }
        };
        for [row] in store
            .rows::<1>(&format!("SELECT {row} FROM {table} t"))
            .await
        {
            all.push_str(&row);
            all.push('\n');
        }
    }
    all
}

fn holds(all: &str, words: &str) -> bool {
    let hex = hex(words);
    all.contains(words) || all.to_lowercase().contains(&hex)
}

fn hex(words: &str) -> String {
    words.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// Makes a call with personal data: number, metadata, transcript and function. Its events are delivered; returns
/// its id.
async fn a_personal_call(world: &TestWorld, bridge: &TestBridge) -> String {
    let fields = json!({"bridgeCallId": format!("b-{}", bridge.message("x", json!({}))["id"]), "did": world.tenant.did,
        "callerNumber": CALLER, "metadata": {"note": WORDS[1]}});
    let call = text(&bridge.ok("call.incoming", fields).await, "callId");
    bridge.ok("call.answered", json!({"callId": call})).await;
    let invocation = json!({"callId": call, "name": "find_order", "invocationId": "i1",
        "parameters": {"orderId": WORDS[4]}});
    let outcome = bridge.ok("call.function", invocation).await;
    assert!(outcome.to_string().contains(ANSWERED), "{outcome}");
    let turns = json!([{"role": "caller", "text": WORDS[3]}]);
    let transcript = json!({"callId": call, "summary": WORDS[2], "turns": turns});
    bridge.ok("call.transcript", transcript).await;
    call
}

#[rstest]
#[actix_web::test]
async fn an_erased_call_leaves_nothing_but_what_it_cost(
    #[values(Sqlite, Postgres)] kind: StoreKind,
) {
    let setup = WorldSetup::new().set("webhooks.retry_schedule_seconds", "1,1,1,1,1,1,1,1,1,1");
    let world = world!(kind, setup);
    let tenant = &world.tenant;
    let said = json!({"found": ANSWERED}).to_string();
    let json = || {
        Full(
            200,
            "content-type",
            "application/json".to_owned(),
            said.clone().into_bytes(),
        )
    };
    world.receiver.answer("/function", [json()]);
    world.receiver.answer("/hook", [json()]);
    let endpoint = world.receiver.url("/function");
    tenant
        .create_function("find_order", "POST", &endpoint)
        .await;
    // Nothing listens at this webhook's port yet, so its deliveries wait.
    let port = free_port();
    let later_url = format!("http://127.0.0.1:{port}/later");
    tenant.subscribe(&later_url, &["call.ended"], SECRET).await;

    let bridge = tenant.bridge(Socket).await;
    let call = a_personal_call(&world, &bridge).await;
    let path = format!("/calls/{call}");
    let running = tenant.api.delete(&path).await;
    assert_eq!(running.status, 409, "{}", running.text);
    let keyed = Rest::new(&format!("{}/api/v1", world.server.http))
        .with("x-api-key", &tenant.key)
        .with("idempotency-key", "hang-up-1");
    keyed
        .post(&format!("{path}/hangup"), json!({}))
        .await
        .expect(202);
    bridge.hang_up(&call).await;
    world.event("call.ended", &call).await;
    let before = tenant.call(&call).await;
    let store = &world.server.installation.store;
    let kept = everything(store, kind).await;
    for words in WORDS.iter().chain([&ANSWERED]) {
        assert!(holds(&kept, words), "{words} was never there");
    }

    let stranger = world.another_tenant(0).await;
    stranger.api.delete(&path).await.expect(404);
    let erased = tenant.api.delete(&path).await;
    assert_eq!((erased.status, erased.text.as_str()), (204, ""));
    assert_eq!(
        tenant.api.delete(&path).await.status,
        404,
        "as with all that was deleted"
    );
    let kept = everything(store, kind).await;
    for words in WORDS.iter().chain([&ANSWERED]) {
        assert!(!holds(&kept, words), "{words} is still in the store");
    }

    let after = tenant.call(&call).await;
    let mut expected = before;
    expected["callerNumber"] = json!("erased");
    expected["metadata"] = json!({});
    expected["transcriptSummary"] = json!(null);
    assert_eq!(after, expected);
    assert_eq!(tenant.billed(&call).await, Some(1));
    world.assert_ledger_is_exact();
    let events = tenant.api.get(&format!("{path}/events")).await.expect(200);
    let ended = events["events"].as_array().unwrap().iter();
    let ended = ended.filter(|event| event["event"] == "call.ended").count();
    assert_eq!(ended, 1, "that it ended is still known: {events}");
    for event in events["events"].as_array().unwrap() {
        let own = match event["event"].as_str() {
            Some("call.started") => &event["data"]["did"],
            Some("call.ended") => &event["data"]["calleeNumber"],
            _ => continue,
        };
        assert_eq!(own, &after["calleeNumber"], "the tenant's own number stays");
    }
    let record = store.rows::<2>("SELECT call_id, actor FROM erasures").await;
    assert_eq!(record.len(), 1);
    assert_eq!(record[0][0], call);
    assert!(record[0][1].starts_with("key_"), "who did it: {record:?}");

    // A late transcript is accepted when it first arrives, and not stored.
    for _ in 0..2 {
        let words = json!([{"role": "agent", "text": WORDS[3]}]);
        let late = json!({"callId": call, "summary": WORDS[2], "turns": words});
        bridge.ok("call.transcript", late).await;
    }
    assert!(!holds(&everything(store, kind).await, WORDS[2]));

    // Nothing of the erased call is delivered any more: a later call's event arrives alone.
    let later = TenantServer::start_on(port);
    let other = bridge.talk(&tenant.did).await;
    bridge.hang_up(&other).await;
    later
        .wait_for_event("/later", SECRET, "call.ended", &other)
        .await;
    let told: Vec<Value> = later
        .events("/later", SECRET)
        .into_iter()
        .map(|event| event.data["callId"].clone())
        .collect();
    assert_eq!(told, [json!(other)]);

    // Nor is it sent again, one by one or with all that failed.
    let failed = tenant.api.get("/webhooks").await.expect(200);
    let mut failed = failed["webhooks"].as_array().unwrap().iter();
    let failed = failed.find(|webhook| webhook["url"] == later_url);
    let path = format!("/webhooks/{}", text(failed.unwrap(), "id"));
    let recovered = tenant
        .api
        .post(
            &format!("{path}/recover"),
            json!({"since": "2026-01-01T00:00:00Z"}),
        )
        .await;
    recovered.expect(202);
    let other = bridge.talk(&tenant.did).await;
    bridge.hang_up(&other).await;
    later
        .wait_for_event("/later", SECRET, "call.ended", &other)
        .await;
    let told = later.events("/later", SECRET);
    assert!(told.iter().all(|event| event.data["callId"] != call));
    let listed = format!("{path}/deliveries?status=failed");
    let deliveries = tenant.api.get(&listed).await.expect(200);
    let resend = format!(
        "/deliveries/{}/resend",
        text(&deliveries["deliveries"][0], "id")
    );
    let refused = tenant.api.post(&resend, json!({})).await.expect(409);
    assert_eq!(refused["error"]["code"], "call_not_active", "{refused}");
}

/// The receiver has the request, and answers only after the call was erased.
#[rstest]
#[actix_web::test]
async fn what_is_under_way_when_a_call_is_erased_is_not_kept(
    #[values(Sqlite, Postgres)] kind: StoreKind,
) {
    let world = world!(kind);
    let tenant = &world.tenant;
    let slow = world.receiver.url("/slow");
    let permits = Arc::new(Semaphore::new(0));
    let late = Json(json!({"words": ANSWERED})).when(&permits);
    world.receiver.answer("/slow", [late, Status(200)]);
    tenant.subscribe(&slow, &["call.ended"], SECRET).await;
    let bridge = tenant.bridge(Socket).await;
    let call = bridge.talk(&tenant.did).await;
    bridge.hang_up(&call).await;
    world.receiver.wait_for("/slow", 1).await;
    tenant
        .api
        .delete(&format!("/calls/{call}"))
        .await
        .expect(204);
    permits.add_permits(1);
    // The attempt ends and is recorded as what it is, without the answer; nothing more is sent.
    let store = &world.server.installation.store;
    let attempt = "SELECT CAST(length(a.response) AS TEXT) FROM delivery_attempts a \
                   JOIN deliveries d ON d.id = a.delivery_id WHERE d.status = 'succeeded' AND a.status_code = 200";
    let kept = eventually("the attempt to be over", async || {
        store.rows::<1>(attempt).await.pop()
    })
    .await;
    assert_eq!(kept, ["0".to_owned()], "bytes of the answer");
    let other = bridge.talk(&tenant.did).await;
    bridge.hang_up(&other).await;
    let told = world.receiver.wait_for("/slow", 2).await;
    assert!(told[1].text().contains(&other), "{}", told[1].text());
}

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

/// The id that would have been made `days` earlier: its time is in the ten characters after the prefix.
fn earlier(id: &str, days: u64) -> String {
    const DIGITS: &str = "0123456789abcdefghjkmnpqrstvwxyz";
    let (prefix, ulid) = id.split_once('_').unwrap();
    let digit = |c: char| DIGITS.find(c).unwrap() as u64;
    let time = ulid[..10].chars().fold(0, |time, c| time * 32 + digit(c));
    let time = time - days * DAY_MS;
    let place = |n: u32| (time >> (5 * n)) as usize % 32;
    let time: String = (0..10)
        .rev()
        .map(|n| DIGITS.as_bytes()[place(n)] as char)
        .collect();
    format!("{prefix}_{time}{}", &ulid[10..])
}

/// Makes calls and everything that belongs to them `days` older, while no server runs.
async fn age(store: &dikala_testkit::StorePlace, days: u64, calls: &[String]) {
    let ms = days * DAY_MS;
    let mut sql = vec![
        format!(
            "UPDATE calls SET started_at = started_at - {ms}, answered_at = answered_at - {ms}, ended_at = ended_at - {ms}"
        ),
        format!("UPDATE transcripts SET created_at = created_at - {ms}"),
        format!(
            "UPDATE credit_holds SET created_at = created_at - {ms}, settled_at = settled_at - {ms}"
        ),
        format!(
            "UPDATE credit_transactions SET created_at = created_at - {ms} WHERE call_id IS NOT NULL"
        ),
    ];
    for call in calls {
        let old = earlier(call, days);
        for (table, column) in [
            ("calls", "id"),
            ("transcripts", "call_id"),
            ("invocations", "call_id"),
            ("events", "call_id"),
            ("deliveries", "call_id"),
            ("credit_holds", "call_id"),
            ("credit_transactions", "call_id"),
        ] {
            sql.push(format!(
                "UPDATE {table} SET {column} = '{old}' WHERE {column} = '{call}'"
            ));
        }
        sql.push(format!(
            "UPDATE credit_transactions SET idempotency_key = 'call:{old}' WHERE idempotency_key = 'call:{call}'"
        ));
    }
    let events = "SELECT id FROM events WHERE call_id IS NOT NULL";
    for [event] in store.rows::<1>(events).await {
        let old = earlier(&event, days);
        for (table, column) in [("events", "id"), ("deliveries", "event_id")] {
            sql.push(format!(
                "UPDATE {table} SET {column} = '{old}' WHERE {column} = '{event}'"
            ));
        }
    }
    store.execute(&sql.join(";")).await;
}

#[rstest]
#[actix_web::test]
async fn what_is_older_than_the_operator_wants_goes_and_the_books_stay_exact(
    #[values(Sqlite, Postgres)] kind: StoreKind,
) {
    let mut world = world!(kind, WorldSetup::new().set("retention.sweep_seconds", 1));
    let said = json!({"found": ANSWERED});
    world
        .receiver
        .answer("/function", [ServerAnswer::Json(said)]);
    let endpoint = world.receiver.url("/function");
    world
        .tenant
        .create_function("find_order", "POST", &endpoint)
        .await;
    let bridge = world.tenant.bridge(Socket).await;
    let (one, two) = (
        a_personal_call(&world, &bridge).await,
        a_personal_call(&world, &bridge).await,
    );
    for call in [&one, &two] {
        bridge.hang_up(call).await;
        world.event("call.ended", call).await;
    }
    bridge.cut();
    // Every delivery is recorded; otherwise an event would be kept for it.
    let store = &world.server.installation.store;
    let waiting = "SELECT id FROM deliveries WHERE status = 'pending'";
    eventually("all to be delivered", async || {
        store.rows::<1>(waiting).await.is_empty().then_some(())
    })
    .await;
    world.server.terminate().await;
    let store = &world.server.installation.store;
    let old = [earlier(&one, 10), earlier(&two, 10)];
    age(store, 10, &[one, two]).await;
    let of_old = format!("call_id IN ('{}', '{}')", old[0], old[1]);

    // Transcripts expire first, then the calls themselves.
    world
        .server
        .installation
        .set("retention.transcripts_days", "5");
    world.server.restart();
    let bridge = world.tenant.bridge(Socket).await;
    let young = a_personal_call(&world, &bridge).await;
    bridge.hang_up(&young).await;
    let store = &world.server.installation.store;
    eventually("old transcripts to go", async || {
        (store.count("transcripts").await == 1).then_some(())
    })
    .await;
    let calls = world.tenant.calls().await;
    let summaries: Vec<&Value> = calls
        .iter()
        .map(|call| &call["transcriptSummary"])
        .collect();
    assert_eq!(summaries, [&json!(WORDS[2]), &json!(null), &json!(null)]);
    let told = format!("SELECT body FROM events WHERE {of_old}");
    let told = store.rows::<1>(&told).await;
    assert!(!told.is_empty());
    assert!(
        told.iter().all(|[body]| !body.contains(WORDS[2])),
        "{told:?}"
    );

    world.server.terminate().await;
    world.server.installation.set("retention.calls_days", "7");
    world.server.restart();
    let store = &world.server.installation.store;
    eventually("old calls to go", async || {
        (store.count("calls").await == 1).then_some(())
    })
    .await;
    for table in ["events", "deliveries"] {
        eventually(&format!("{table} that tell of them to go"), async || {
            let left = format!("SELECT id FROM {table} WHERE {of_old}");
            store.rows::<1>(&left).await.is_empty().then_some(())
        })
        .await;
    }
    for table in ["calls", "transcripts", "invocations", "credit_holds"] {
        assert_eq!(store.count(table).await, 1, "the young call's, in {table}");
    }
    let usage = world.tenant.transactions().await;
    let usage = usage
        .iter()
        .filter(|booked| booked["type"] == "usage")
        .count();
    assert_eq!(usage, 3, "what was paid for stays");
    world.assert_ledger_is_exact();
    // The verification still detects a missing hold.
    let lost = format!("DELETE FROM credit_holds WHERE call_id = '{young}'");
    store.execute(&lost).await;
    let verdict = world
        .server
        .installation
        .run(&["ledger", "verify", "--json"]);
    assert_eq!(verdict.code, Some(1), "{verdict:?}");
    assert!(
        verdict.stdout.contains("has no settled hold"),
        "{verdict:?}"
    );
}
