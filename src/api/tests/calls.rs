//! Calls over HTTP.

use dikala_actors::runtime::clock::Clock;
use dikala_entities::{AgentId, CallId, CallStatus, HangupReason, PhoneNumberId, transcript};
use dikala_protocol::CommandKind;
use dikala_testkit::rows;
use serde_json::{Value, json};

use super::prelude::*;
use super::{
    seed::{settings, write_call},
    world::ApiWorld,
};

#[rstest]
#[actix_web::test]
async fn a_running_call_knows_nothing_of_its_end(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let call = world
        .done("calls.get", &format!("/calls/{}", world.ours.running), None)
        .await
        .json();
    for field in [
        "endedAt",
        "durationSeconds",
        "talkTimeSeconds",
        "hangupReason",
        "hangupInitiator",
        "transcriptSummary",
        "aiCostIdr",
    ] {
        assert_eq!(call[field], Value::Null, "{field}");
    }
    assert_eq!(
        (&call["direction"], &call["metadata"]),
        (&json!("inbound"), &json!({"campaign": "x"}))
    );
    let over = world
        .done("calls.get", &format!("/calls/{}", world.ours.ended), None)
        .await
        .json();
    assert_eq!(
        (&over["durationSeconds"], &over["endedAt"]),
        (&json!(34), &json!("2026-01-15T03:29:34.000Z"))
    );
}

#[rstest]
#[actix_web::test]
async fn pages_come_newest_first_and_complete(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let now = world.clock.now();
    for i in 0..5 {
        // Two at the same moment: the id decides.
        let row = world.ours.call(
            CallId::new(now),
            CallStatus::Failed,
            now.plus_ms(1_000 * (i / 2)),
        );
        write_call(world.store(), row).await;
    }
    let all = world.done("calls.list", "/calls", None).await.json();
    assert_eq!(
        (&all["limit"], &all["offset"], &all["hasMore"]),
        (&json!(50), &json!(0), &json!(false))
    );
    let all = all["calls"].as_array().expect("calls").clone();
    assert_eq!(all.len(), 7);
    let key = |call: &Value| (call["startedAt"].to_string(), call["id"].to_string());
    assert!(all.is_sorted_by(|a, b| key(a) > key(b)));
    let mut paged = Vec::new();
    for offset in [0, 3, 6] {
        let page = world
            .get(&format!("/calls?limit=3&offset={offset}"))
            .await
            .json();
        assert_eq!(page["hasMore"], json!(offset < 6));
        paged.extend(page["calls"].as_array().expect("calls").clone());
    }
    assert_eq!(paged, all);
    let far = world.get("/calls?offset=9007199254740991").await.json();
    assert_eq!(
        (&far["calls"], &far["hasMore"]),
        (&json!([]), &json!(false))
    );
}

#[rstest]
#[actix_web::test]
async fn filters_by_state_and_time(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let count = async |query: &str| {
        let reply = world.get(&format!("/calls?{query}")).await;
        reply.json()["calls"].as_array().map(Vec::len)
    };
    assert_eq!(count("status=answered").await, Some(1));
    assert_eq!(count("status=dropped").await, Some(0));
    // `from` is inclusive, `to` is exclusive.
    assert_eq!(count("from=2026-01-15T03:30:00Z").await, Some(1));
    assert_eq!(count("to=2026-01-15T03:30:00Z").await, Some(1));
    assert_eq!(count("from=2026-01-15T10:30:00%2B07:00").await, Some(1));
    assert_eq!(count("from=2026-01-15T10:30:00+07:00").await, Some(1));
    assert_eq!(count("from=2026-01-15&to=2026-01-16").await, Some(2));
    assert_eq!(count("from=2026-01-16&to=2026-01-15").await, Some(0));
    let wrong = world
        .get("/calls?limit=0&offset=-1&status=ring&from=yesterday&to=&to=2026-01-15")
        .await;
    assert_eq!(
        wrong.fields(),
        [
            "limit too_small",
            "offset too_small",
            "status not_allowed",
            "from invalid_format",
            "to duplicate"
        ]
    );
    assert_eq!(
        world
            .get("/calls?limit=101&offset=99999999999999999999")
            .await
            .fields(),
        ["limit too_large", "offset too_large"]
    );
}

#[rstest]
#[actix_web::test]
async fn events_and_transcripts(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let path = format!("/calls/{}", world.ours.ended);
    let events = world
        .done("calls.events", &format!("{path}/events"), None)
        .await
        .json();
    assert_eq!(events["events"][0]["event"], "call.answered");
    assert_eq!(
        events["events"][0]["data"],
        json!({"callId": world.ours.ended})
    );
    let none = world
        .done("calls.transcript", &format!("{path}/transcript"), None)
        .await
        .json();
    assert_eq!(
        none,
        json!({"callId": world.ours.ended, "summary": null, "turns": []})
    );
    let row = transcript::Model {
        call_id: world.ours.ended,
        tenant_id: world.ours.tenant,
        summary: "Short.".into(),
        turns: json!([{"role": "agent", "text": "Halo"}]).to_string(),
        created_at: world.clock.now(),
    };
    rows::insert(world.store().writer(), row).await;
    let transcript = world
        .done("calls.transcript", &format!("{path}/transcript"), None)
        .await
        .json();
    assert_eq!(
        transcript,
        json!({"callId": world.ours.ended, "summary": "Short.", "turns": [{"role": "agent", "text": "Halo"}]})
    );
}

#[rstest]
#[actix_web::test]
async fn running_calls_can_be_transferred_and_ended(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let path = format!("/calls/{}", world.ours.running);
    assert_eq!(
        world
            .post(&format!("{path}/transfer"), json!({"to": "0812"}))
            .await
            .fields(),
        ["to invalid_format"]
    );
    for dear in ["+19005551234", "+881612345678", "+62809123456"] {
        let reply = world
            .post(&format!("{path}/transfer"), json!({"to": dear}))
            .await;
        assert_eq!(
            (reply.status, reply.fields()),
            (422, vec!["to not_allowed".to_owned()])
        );
        let agent = format!("/agents/{}", world.ours.agent);
        let reply = world.patch(&agent, json!({"escalationNumber": dear})).await;
        assert_eq!(reply.fields(), ["escalationNumber not_allowed"]);
    }
    let agent = format!("/agents/{}", world.ours.agent);
    let escalation = async |number: Value| {
        let changed = world
            .patch(&agent, json!({"escalationNumber": number}))
            .await;
        assert_eq!(changed.status, 200, "{changed:?}");
    };
    escalation(json!("+628111111111")).await;
    let (bridge, id) = world.talk().await;
    let path = format!("/calls/{id}");
    let told = |to: &str| CommandKind::Transfer {
        to: to.parse().expect("a number"),
    };
    world
        .done(
            "calls.transfer",
            &format!("{path}/transfer"),
            Some(json!({"to": "+6281234567890"})),
        )
        .await;
    assert_eq!(world.commands(bridge), [told("+6281234567890")]);
    // Without a number: the agent's, as it was when the call began.
    escalation(json!("+628222222222")).await;
    world
        .done("calls.transfer", &format!("{path}/transfer"), None)
        .await;
    assert_eq!(world.commands(bridge), [told("+628111111111")]);
    assert_eq!(
        world
            .post(&format!("{path}/hangup"), json!({"why": 1}))
            .await
            .fields(),
        ["why unknown_field"]
    );
    let call = world
        .done("calls.hangup", &format!("{path}/hangup"), None)
        .await
        .json();
    assert_eq!(call["status"], "answered", "until the bridge has done it");
    let reason = HangupReason::Requested;
    assert_eq!(world.commands(bridge), [CommandKind::Hangup { reason }]);
    world.obey(bridge, id).await;
    let call = world.get(&path).await.json();
    assert_eq!(
        (&call["status"], &call["hangupReason"]),
        (&json!("ended"), &json!("requested"))
    );
    for over in ["hangup", "transfer"] {
        let reply = world.post(&format!("{path}/{over}"), json!({})).await;
        assert_eq!(
            (reply.status, reply.code()),
            (409, "call_not_active".into())
        );
    }
    let mut row = world.ours.call(
        CallId::new(world.clock.now()),
        CallStatus::Ringing,
        world.clock.now(),
    );
    row.settings = Some(settings(world.ours.agent, None));
    write_call(world.store(), row.clone()).await;
    let reply = world
        .post(&format!("/calls/{}/transfer", row.id), json!({}))
        .await;
    assert_eq!(
        (reply.status, reply.fields()),
        (422, vec!["to required".to_owned()])
    );
}

#[rstest]
#[actix_web::test]
async fn a_call_is_erased_once_and_only_when_it_is_over(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let running = format!("/calls/{}", world.ours.running);
    let refused = world.delete(&running).await;
    assert_eq!(
        (refused.status, refused.code()),
        (409, "call_not_active".to_owned())
    );
    assert!(refused.text.contains("still running"), "{refused:?}");
    let theirs = format!("/calls/{}", world.theirs.ended);
    assert_eq!(world.delete(&theirs).await.code(), "call_not_found");
    let path = format!("/calls/{}", world.ours.ended);
    let before = world.get(&path).await.json();
    world.done("calls.delete", &path, None).await;
    assert_eq!(world.delete(&path).await.code(), "call_not_found");
    let mut expected = before;
    expected["callerNumber"] = json!("erased");
    expected["metadata"] = json!({});
    expected["transcriptSummary"] = Value::Null;
    let after = world.done("calls.get", &path, None).await.json();
    assert_eq!(after, expected);
}

/// With `offset`, a new call between two pages shifts all others, and the last of a page is shown twice.
#[rstest]
#[actix_web::test]
async fn a_cursor_shows_nothing_twice_while_calls_come_in(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let now = world.clock.now();
    let call = async |at| {
        let row = world.ours.call(CallId::new(now), CallStatus::Failed, at);
        write_call(world.store(), row).await;
    };
    for i in 0..7 {
        // Several at the same moment: the id decides.
        call(now.plus_ms(1_000 * (i / 3))).await;
    }
    let ids = |list: &Value| -> Vec<String> {
        let calls = list["calls"].as_array().expect("calls");
        calls
            .iter()
            .map(|call| call["id"].as_str().expect("an id").to_owned())
            .collect()
    };
    let all = ids(&world.get("/calls").await.json());
    let mut read = ids(&world.get("/calls?limit=2").await.json());
    loop {
        call(now.plus_ms(60_000)).await;
        let last = read.last().expect("a call");
        let page = world
            .done("calls.list", &format!("/calls?limit=2&before={last}"), None)
            .await
            .json();
        read.extend(ids(&page));
        if page["hasMore"] == false {
            break;
        }
    }
    assert_eq!(read, all);
    let refused = async |before: &str| world.get(&format!("/calls?before={before}")).await.fields();
    assert_eq!(refused("nonsense").await, ["before invalid_format"]);
    assert_eq!(
        refused(&CallId::new(now).to_string()).await,
        ["before not_found"]
    );
    assert_eq!(
        refused(&world.theirs.ended.to_string()).await,
        ["before not_found"]
    );
}

#[rstest]
#[actix_web::test]
async fn calls_are_found_by_agent_number_and_caller(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let now = world.clock.now();
    let mut other = world.ours.call(CallId::new(now), CallStatus::Failed, now);
    other.agent_id = Some(AgentId::new(now));
    let number = PhoneNumberId::new(now);
    other.phone_number_id = Some(number);
    other.caller_number = "anonymous & co".parse().expect("a caller");
    write_call(world.store(), other.clone()).await;
    let found = async |query: String| {
        let list = world
            .done("calls.list", &format!("/calls?{query}"), None)
            .await
            .json();
        let calls = list["calls"].as_array().expect("calls").clone();
        let only = calls.iter().all(|call| call["id"] == other.id.to_string());
        (calls.len(), only)
    };
    assert_eq!(
        found(format!("agentId={}", other.agent_id.expect("one"))).await,
        (1, true)
    );
    assert_eq!(found(format!("phoneNumberId={number}")).await, (1, true));
    assert_eq!(
        found("callerNumber=anonymous%20%26%20co".to_owned()).await,
        (1, true)
    );
    // An unencoded plus is accepted too.
    for number in ["%2B6281298765432", "+6281298765432"] {
        assert_eq!(found(format!("callerNumber={number}")).await, (2, false));
    }
    assert_eq!(
        found(format!("agentId={}&callerNumber=nobody", world.ours.agent))
            .await
            .0,
        0
    );
    assert_eq!(found(format!("agentId={}", world.theirs.agent)).await.0, 0);
    let wrong = world
        .get("/calls?agentId=x&phoneNumberId=call_1&callerNumber=")
        .await;
    assert_eq!(
        wrong.fields(),
        [
            "agentId invalid_format",
            "phoneNumberId invalid_format",
            "callerNumber invalid_format"
        ]
    );
}

#[rstest]
#[actix_web::test]
async fn a_number_whose_country_code_begins_with_0_is_none(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let draft = json!({"name": "A", "systemPrompt": "x", "escalationNumber": "+0812345678"});
    assert_eq!(
        world.post("/agents", draft).await.fields(),
        ["escalationNumber invalid_format"]
    );
    let transfer = format!("/calls/{}/transfer", world.ours.running);
    assert_eq!(
        world
            .post(&transfer, json!({"to": "+0812345678"}))
            .await
            .fields(),
        ["to invalid_format"]
    );
}
