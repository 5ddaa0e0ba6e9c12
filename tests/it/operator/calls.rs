//! Calls of all tenants, and the operator's hang-up.

use super::*;

#[rstest]
#[actix_web::test]
async fn live_calls_come_first_and_filters_find_the_rest(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let (ours, api) = (&world.tenant, client(&world.server));
    let theirs = world.another_tenant(100).await;
    let (one, two) = (ours.bridge(Http).await, theirs.bridge(Http).await);
    let live = one.talk(&ours.did).await;
    let over = one.talk_since(&ours.did, Moment::ago(120)).await;
    one.hang_up(&over).await;
    let ringing = two.ring(&theirs.did).await;
    let last = two.talk(&theirs.did).await;
    two.hang_up(&last).await;
    let list = async |query: &str| {
        let page = api.get(&format!("/calls{query}")).await.expect(200);
        let ids = ids(&page["calls"])
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>();
        (ids, page["hasMore"] == true)
    };
    assert_eq!(
        list("").await,
        (
            vec![ringing.clone(), live.clone(), last.clone(), over.clone()],
            false
        )
    );
    // A page may end among the running calls, or continue with the others.
    assert_eq!(list("?limit=1").await, (vec![ringing.clone()], true));
    assert_eq!(
        list("?limit=2&offset=1").await,
        (vec![live.clone(), last.clone()], true)
    );
    assert_eq!(list("?limit=2&offset=3").await, (vec![over.clone()], false));
    assert_eq!(list("?limit=2&offset=9").await, (vec![], false));
    let bridge = api.get(&format!("/calls/{live}")).await.expect(200)["bridgeId"].clone();
    let minute_ago = Moment::ago(60).text();
    for (query, found) in [
        (format!("?tenantId={}", ours.id), vec![&live, &over]),
        (format!("?tenantId={}", nobody("ten")), vec![]),
        ("?status=answered".to_owned(), vec![&live]),
        ("?status=ringing".to_owned(), vec![&ringing]),
        ("?status=ended".to_owned(), vec![&last, &over]),
        ("?status=failed".to_owned(), vec![]),
        (
            format!("?did={}", theirs.did.replace('+', "%2B")),
            vec![&ringing, &last],
        ),
        // With an unencoded plus.
        (format!("?did={}", theirs.did), vec![&ringing, &last]),
        (
            format!("?bridgeId={}", bridge.as_str().unwrap()),
            vec![&live, &over],
        ),
        (
            "?callerNumber=+6281234567890".to_owned(),
            vec![&ringing, &live, &last, &over],
        ),
        ("?callerNumber=+6281234567891".to_owned(), vec![]),
        (format!("?to={minute_ago}"), vec![&over]),
        (format!("?from={minute_ago}"), vec![&ringing, &live, &last]),
        (
            format!("?tenantId={}&status=ended&from={minute_ago}", ours.id),
            vec![],
        ),
    ] {
        let found: Vec<String> = found.into_iter().cloned().collect();
        assert_eq!(list(&query).await.0, found, "{query}");
    }
    for (bridge, call) in [(&one, &live), (&two, &ringing)] {
        bridge.hang_up(call).await;
    }
}

#[rstest]
#[actix_web::test]
async fn a_call_tells_all_but_what_was_said(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let (tenant, api) = (&world.tenant, client(&world.server));
    let bridge = tenant.bridge(Http).await;
    let call = bridge.talk(&tenant.did).await;
    world.event("call.answered", &call).await;
    let path = format!("/calls/{call}");
    // A delivery is stored after its attempt.
    let shown = eventually("both deliveries", async || {
        let shown = api.get(&path).await.expect(200);
        (shown["deliveries"].as_array().unwrap().len() == 2).then_some(shown)
    })
    .await;
    let nodes = api.get("/nodes").await.expect(200);
    assert_eq!(
        (&shown["tenantId"], &shown["owner"]),
        (&json!(tenant.id), &nodes["nodes"][0]["id"])
    );
    assert_eq!(shown["status"], "answered");
    let hold = &shown["holds"][0];
    let minutes = |name: &str| hold[name].as_i64().unwrap();
    assert!(
        minutes("heldMinutes") + minutes("usedMinutes") >= 1,
        "{shown}"
    );
    assert_eq!(hold["settledAt"], Value::Null);
    let kinds: Vec<&str> = shown["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["event"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["call.started", "call.answered"]);
    assert_eq!(shown["deliveries"][0]["eventId"], shown["events"][0]["id"]);

    let said = json!([{"role": "caller", "text": "my secret wish"}]);
    let summary = json!({"callId": call, "turns": said, "summary": "a secret wish"});
    bridge.ok("call.transcript", summary).await;
    bridge.hang_up(&call).await;
    world.event("call.transcript", &call).await;
    let over = api.get(&path).await;
    assert!(!over.text.contains("secret wish"), "{}", over.text);
    assert!(over.expect(200)["holds"][0]["settledAt"].is_string());
}

#[rstest]
#[actix_web::test]
async fn a_call_that_an_operator_ends_says_so(
    #[values(Sqlite, Postgres)] store: StoreKind,
    #[values(Socket, Http)] transport: BridgeTransport,
) {
    let world = world!(store);
    let (tenant, api) = (&world.tenant, client(&world.server));
    let bridge = tenant.bridge(transport).await;
    let call = bridge.talk(&tenant.did).await;
    let kept = bridge.talk(&tenant.did).await;
    let path = format!("/calls/{call}/hangup");
    let answer = api.post(&path, json!({})).await.expect(202);
    assert_eq!(answer["id"], call);
    let command = bridge.command("hangup", &call).await;
    assert_eq!(command["reason"], "operator", "{command}");
    bridge
        .ok("call.hangup", json!({"callId": call, "reason": "operator"}))
        .await;
    let ended = world.event("call.ended", &call).await;
    assert_eq!(ended.data["hangupReason"], "operator");
    let over = tenant.call(&call).await;
    assert_eq!(
        (&over["status"], &over["hangupInitiator"]),
        (&json!("ended"), &json!("operator"))
    );
    let refused = api.post(&path, json!({})).await.expect(409);
    assert_eq!(refused["error"]["code"], "call_not_active");
    assert_eq!(tenant.call(&kept).await["status"], "answered");
    bridge.hang_up(&kept).await;
    let entries = api.get("/audit?action=call.hangup").await.expect(200);
    assert_eq!(entries["entries"].as_array().unwrap().len(), 1, "{entries}");
    assert_eq!(entries["entries"][0]["target"], call);
    world.assert_ledger_is_exact();
}
