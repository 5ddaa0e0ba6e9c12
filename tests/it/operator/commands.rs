//! Commands match the operators' API: they print the same documents, and their changes reach the running server.

use super::*;
use crate::support::{scrape::Scrape, server::assert_fails, tenant::text};

/// Asserts that a command's document equals the API's, except for what only the running process knows.
#[track_caller]
fn assert_within(command: &Value, api: &Value) {
    match (command, api) {
        (Value::Object(ours), Value::Object(theirs)) => {
            for (name, value) in ours {
                assert_within(
                    value,
                    theirs
                        .get(name)
                        .unwrap_or_else(|| panic!("no {name} in {api}")),
                );
            }
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            assert_eq!(ours.len(), theirs.len(), "{command} and {api}");
            for (ours, theirs) in ours.iter().zip(theirs) {
                assert_within(ours, theirs);
            }
        }
        _ => assert_eq!(command, api),
    }
}

#[rstest]
#[actix_web::test]
async fn commands_show_what_the_api_shows(#[values(Sqlite, Postgres)] store: StoreKind) {
    let setup = WorldSetup::new().set("webhooks.retry_schedule_seconds", "3600");
    let world = world!(store, setup);
    let (server, tenant, api) = (&world.server, &world.tenant, client(&world.server));
    let other = world.another_tenant(3).await;
    world
        .receiver
        .answer("/fails", vec![ServerAnswer::Status(500)]);
    let failing = tenant
        .subscribe(&world.receiver.url("/fails"), &["call.started"], SECRET)
        .await;
    let bridge = tenant.bridge(Http).await;
    let over = bridge.talk(&tenant.did).await;
    bridge.hang_up(&over).await;
    let live = bridge.talk(&tenant.did).await;
    world.event("call.answered", &live).await;
    world.receiver.wait_for("/fails", 2).await;
    server.cli(&["tenant", "suspend", &other.id]);
    let of_failing = format!("/deliveries?webhookId={failing}");
    eventually("all attempts to be written", async || {
        let listed = api.get(&of_failing).await.expect(200);
        let rows = listed["deliveries"].as_array().unwrap();
        rows.iter()
            .all(|row| row["attemptCount"] == 1)
            .then_some(())
    })
    .await;

    let bridge_id = text(
        &api.get(&format!("/calls/{live}")).await.expect(200),
        "bridgeId",
    );
    let (of_us, minute_ago) = (tenant.id.as_str(), Moment::ago(60).text());
    let credits = format!("/tenants/{of_us}/credits");
    for (arguments, path) in [
        (vec!["call", "list"], "/calls".to_owned()),
        (
            vec!["call", "list", "--limit", "1", "--offset", "1"],
            "/calls?limit=1&offset=1".to_owned(),
        ),
        (
            vec![
                "call",
                "list",
                "--status",
                "answered",
                "--tenant",
                of_us,
                "--bridge",
                &bridge_id,
                "--from",
                &minute_ago,
            ],
            format!(
                "/calls?status=answered&tenantId={of_us}&bridgeId={bridge_id}&from={minute_ago}"
            ),
        ),
        (
            vec![
                "call",
                "list",
                "--did",
                &tenant.did,
                "--caller",
                "+6281234567890",
                "--to",
                &minute_ago,
            ],
            format!(
                "/calls?did={}&callerNumber=+6281234567890&to={minute_ago}",
                tenant.did
            ),
        ),
        (vec!["call", "show", &over], format!("/calls/{over}")),
        (vec!["webhook", "list"], "/webhooks".to_owned()),
        (
            vec!["webhook", "list", "--state", "failing", "--tenant", of_us],
            format!("/webhooks?state=failing&tenantId={of_us}"),
        ),
        (
            vec![
                "delivery",
                "list",
                "--status",
                "pending",
                "--webhook",
                &failing,
            ],
            format!("/deliveries?status=pending&webhookId={failing}"),
        ),
        (
            vec![
                "audit",
                "list",
                "--actor",
                "cli",
                "--action",
                "tenant.suspend",
                "--tenant",
                &other.id,
            ],
            format!(
                "/audit?actor=cli&action=tenant.suspend&tenantId={}",
                other.id
            ),
        ),
        (
            vec!["audit", "list", "--limit", "2"],
            "/audit?limit=2".to_owned(),
        ),
        (vec!["number", "list"], "/numbers".to_owned()),
        (vec!["credits", "show", "--tenant", of_us], credits.clone()),
        (
            vec!["credits", "transactions", "--tenant", of_us, "--limit", "1"],
            format!("{credits}/transactions?limit=1"),
        ),
    ] {
        let shown = server.cli(&arguments);
        assert_within(&shown, &api.get(&path).await.expect(200));
        let rows = shown
            .as_object()
            .unwrap()
            .values()
            .filter_map(Value::as_array);
        assert!(
            rows.clone().count() == 0
                || rows.clone().any(|rows| !rows.is_empty())
                || path.contains("to="),
            "{shown}"
        );
    }
    // A command is no node; what it knows of nodes is as old as their last renewal.
    let [ours, theirs] = [
        server.cli(&["node", "list"]),
        api.get("/nodes").await.expect(200),
    ];
    for field in ["id", "name", "address", "version", "startedAt"] {
        assert_eq!(ours["nodes"][0][field], theirs["nodes"][0][field]);
    }
    assert_eq!(
        (&ours["nodes"][0]["isThis"], &theirs["nodes"][0]["isThis"]),
        (&json!(false), &json!(true))
    );
    let found = server.cli(&["tenant", "list", "--search", &other.id]);
    assert_eq!(ids(&found["tenants"]), [other.id.as_str()]);
    bridge.hang_up(&live).await;
}

#[rstest]
#[actix_web::test]
async fn bridges_are_connected_on_the_command_line_too(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let mut world = world!(store);
    let bridge = world.tenant.bridge(Socket).await;
    let call = bridge.talk(&world.tenant.did).await;
    let shown = async |server: &Server, connected: bool| {
        eventually("what the table says of the bridge", async || {
            let listed = server.cli(&["bridge", "list"]);
            let row = listed["bridges"][0].clone();
            (row["connected"] == connected).then_some(row)
        })
        .await
    };
    let ours = shown(&world.server, true).await;
    let listed = client(&world.server).get("/bridges").await.expect(200);
    let theirs = &listed["bridges"][0];
    assert_eq!(
        (&ours["id"], &ours["calls"], &ours["connected"]),
        (&theirs["id"], &theirs["calls"], &theirs["connected"])
    );
    assert_eq!(ours["calls"], 1);
    // After the end of a dead process's lease nothing is connected there; its calls wait for a take-over.
    world.server.kill9();
    let ours = shown(&world.server, false).await;
    assert_eq!(ours["calls"], 1, "{call}");
}

/// Data in a process's memory are requested from it, with the configuration's address and token.
#[actix_web::test]
async fn database_and_functions_are_asked_of_the_running_service() {
    let world = world!(Sqlite, guarded());
    let (server, tenant, api) = (&world.server, &world.tenant, with(&world.server, READ));
    world
        .receiver
        .answer("/stock", vec![ServerAnswer::Json(json!({}))]);
    let url = world.receiver.url("/stock");
    let function =
        json!({"name": "check_stock", "description": "Says what there is.", "endpoint": url});
    let path = format!("/agents/{}/functions", tenant.agent);
    tenant.api.post(&path, function).await.expect(201);
    let bridge = tenant.bridge(Http).await;
    let call = bridge.talk(&tenant.did).await;
    let invoked =
        json!({"callId": call, "invocationId": "1", "name": "check_stock", "parameters": {}});
    bridge.ok("call.function", invoked).await;

    let functions = ["functions", "--tenant", &tenant.id, "--sort", "errors"];
    let ours = server.cli(&functions);
    let filter = format!("/functions?tenantId={}&sort=errors", tenant.id);
    let theirs = api.get(&filter).await.expect(200);
    assert_eq!(ours, theirs);
    assert_eq!(ours["functions"][0]["name"], "check_stock");
    let none = server.cli(&["functions", "--tenant", &nobody("ten")]);
    assert_eq!(none["functions"], json!([]));
    let told = server.installation.run(&["functions"]);
    assert!(told.stdout.contains("check_stock"), "{told:?}");

    let ours = server.cli(&["database"]);
    let theirs = api.get("/database").await.expect(200);
    for field in ["kind", "version", "migrations", "unanswered"] {
        assert_eq!(ours[field], theirs[field], "{field}");
    }
    let told = server.installation.run(&["database"]);
    assert!(
        told.stdout.contains("api_reader") && told.stdout.contains("sqlite"),
        "{told:?}"
    );
    for (wrong, code, words) in [
        (&["functions", "--sort", "best"][..], 2, "rate"),
        (&["functions", "--tenant", "x"], 6, "tenantId"),
        (
            &["database", "--url", "http://127.0.0.1:1"],
            1,
            "127.0.0.1:1",
        ),
    ] {
        assert_fails(&server.installation.run(wrong), &[code], words);
    }
    bridge.hang_up(&call).await;
}

#[rstest]
#[actix_web::test]
async fn a_call_that_a_command_ends_says_so(
    #[values(Sqlite, Postgres)] store: StoreKind,
    #[values(Socket, Http)] transport: BridgeTransport,
) {
    let mut world = world!(store);
    let bridge = world.tenant.bridge(transport).await;
    let did = world.tenant.did.clone();
    let (call, kept) = (bridge.talk(&did).await, bridge.talk(&did).await);
    let shown = world.server.cli(&["call", "hangup", &call]);
    assert_eq!(
        (&shown["id"], &shown["status"]),
        (&json!(call), &json!("answered"))
    );
    world.server.cli(&["call", "hangup", &call]);
    let command = bridge.command("hangup", &call).await;
    assert_eq!(command["reason"], "operator", "{command}");
    let confirmed = json!({"callId": call, "reason": "operator"});
    bridge.ok("call.hangup", confirmed).await;
    let ended = world.event("call.ended", &call).await;
    assert_eq!(ended.data["hangupReason"], "operator");
    let over = world.tenant.call(&call).await;
    assert_eq!(over["hangupInitiator"], "operator");
    let again = world.server.installation.run(&["call", "hangup", &call]);
    assert_fails(&again, &[6], &call);
    assert_eq!(world.tenant.call(&kept).await["status"], "answered");
    let entries = world
        .server
        .cli(&["audit", "list", "--action", "call.hangup"]);
    let entries = entries["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 1, "asked for twice is once: {entries:?}");
    assert_eq!(
        (&entries[0]["actor"], &entries[0]["target"]),
        (&json!("cli"), &json!(call))
    );

    // Without a running server the hang-up is stored.
    world.server.kill9();
    world.server.cli(&["call", "hangup", &kept]);
    world.server.restart();
    let bridge = world.tenant.bridge(transport).await;
    bridge.command("hangup", &kept).await;
    bridge
        .ok("call.hangup", json!({"callId": kept, "reason": "operator"}))
        .await;
    eventually("what was asked for to be done with", async || {
        let left = world
            .server
            .installation
            .store
            .count("hangup_requests")
            .await;
        (left == 0).then_some(())
    })
    .await;
    world.assert_ledger_is_exact();
}

#[rstest]
#[actix_web::test]
async fn webhooks_are_paused_recovered_and_sent_to_again_by_commands(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let (server, tenant) = (&world.server, &world.tenant);
    let answers = [
        ServerAnswer::Status(204),
        ServerAnswer::Status(410),
        ServerAnswer::Status(204),
    ];
    world.receiver.answer("/hook2", answers);
    let url = world.receiver.url("/hook2");
    let hook = tenant.subscribe(&url, &["call.started"], SECRET).await;
    let bridge = tenant.bridge(Http).await;
    let mut calls = vec![bridge.ring(&tenant.did).await];
    world.receiver.wait_for("/hook2", 1).await;

    let paused = server.cli(&["webhook", "pause", &hook]);
    assert!(paused["pausedAt"].is_string(), "{paused}");
    eventually("the server to know", async || {
        let scrape = Scrape::of(&server.operator).await;
        let is_paused = scrape.value("dikala_webhook_lanes", &[("state", "paused")]) == 1.0;
        is_paused.then_some(())
    })
    .await;
    calls.push(bridge.ring(&tenant.did).await);
    world.event("call.started", &calls[1]).await;
    let list = [
        "delivery",
        "list",
        "--webhook",
        &hook,
        "--status",
        "pending",
    ];
    let waiting = eventually("the delivery to wait", async || {
        let listed = server.cli(&list);
        listed["deliveries"].get(0).cloned()
    })
    .await;
    assert_eq!(waiting["attemptCount"], 0, "{waiting}");
    let resumed = server.cli(&["webhook", "resume", &hook]);
    assert_eq!(resumed["pausedAt"], Value::Null);
    let came = world.receiver.wait_for("/hook2", 2).await;

    // The endpoint answered 410 to that, which failed the delivery for good and disabled the webhook.
    let failed = eventually("it to have failed", async || {
        let listed = server.cli(&["delivery", "list", "--webhook", &hook, "--status", "failed"]);
        listed["deliveries"][0]["id"].as_str().map(str::to_owned)
    })
    .await;
    let on = json!({"isActive": true});
    tenant
        .api
        .patch(&format!("/webhooks/{hook}"), on)
        .await
        .expect(200);
    let since = Moment::ago(600).text();
    let recover = ["webhook", "recover", &hook, "--since", &since];
    assert_eq!(server.cli(&recover), json!({"deliveries": 1}));
    let again = world.receiver.wait_for("/hook2", 3).await;
    assert_eq!(again[2].body, came[1].body);
    let sent = server.cli(&["delivery", "resend", &failed]);
    assert_eq!(
        (&sent["id"], &sent["status"]),
        (&json!(failed), &json!("pending"))
    );
    world.receiver.wait_for("/hook2", 4).await;
    let entries = server.cli(&["audit", "list", "--actor", "cli", "--tenant", &tenant.id]);
    let actions: Vec<&str> = entries["entries"]
        .as_array()
        .unwrap()
        .iter()
        .rev()
        .map(|entry| entry["action"].as_str().unwrap())
        .collect();
    let ours = [
        "webhook.pause",
        "webhook.resume",
        "webhook.recover",
        "delivery.resend",
    ];
    assert_eq!(actions[actions.len() - 4..], ours, "{actions:?}");
    for call in &calls {
        bridge.hang_up(call).await;
    }
}

#[actix_web::test]
async fn what_a_command_cannot_do_it_says() {
    let Some(server) = empty(Sqlite) else {
        return;
    };
    let ids = ["call", "wh", "dlv", "ten"].map(nobody);
    let [call, hook, delivery, tenant] = ids.each_ref().map(String::as_str);
    for (arguments, code, names) in [
        (vec!["call", "show", call], 5, call),
        (vec!["call", "show", "nonsense"], 5, "nonsense"),
        (vec!["call", "hangup", call], 5, call),
        (vec!["webhook", "pause", hook], 5, hook),
        (vec!["webhook", "resume", "nonsense"], 5, "nonsense"),
        (
            vec!["webhook", "recover", hook, "--since", "2026-01-01"],
            5,
            hook,
        ),
        (vec!["webhook", "recover", hook], 2, "--since"),
        (vec!["delivery", "resend", delivery], 5, delivery),
        (vec!["credits", "show", "--tenant", tenant], 5, tenant),
        (
            vec!["credits", "transactions", "--tenant", tenant],
            5,
            tenant,
        ),
        (vec!["call", "list", "--status", "tired"], 6, "--status"),
        (vec!["call", "list", "--from", "yesterday"], 6, "--from"),
        (
            vec!["webhook", "list", "--state", "sad", "--tenant", "nobody"],
            6,
            "--tenant",
        ),
        (vec!["delivery", "list", "--limit", "1000"], 6, "--limit"),
        (vec!["audit", "list", "--actor", "me"], 6, "--actor"),
        (vec!["audit", "list", "--offset", "many"], 2, "--offset"),
    ] {
        for json in [&[][..], &["--json"]] {
            let finished = server.installation.run(&[&arguments[..], json].concat());
            println!("dikala {arguments:?}");
            assert_fails(&finished, &[code], names);
        }
    }
    let nothing = server.installation.run(&["call", "list"]);
    assert_eq!((nothing.code, nothing.stdout.trim()), (Some(0), "no calls"));
}

#[actix_web::test]
async fn people_read_tables_and_where_the_next_page_begins() {
    let world = world!(Sqlite);
    let (server, tenant) = (&world.server, &world.tenant);
    let bridge = tenant.bridge(Http).await;
    let calls = [
        bridge.talk(&tenant.did).await,
        bridge.talk(&tenant.did).await,
    ];
    for call in &calls {
        bridge.hang_up(call).await;
        world.event("call.ended", call).await;
    }
    let read = |arguments: &[&str]| {
        let finished = server.installation.run(arguments);
        assert_eq!(finished.code, Some(0), "{finished:?}");
        finished.stdout
    };
    let listed = read(&["call", "list", "--limit", "1"]);
    assert!(
        listed.contains(&calls[1]) && !listed.contains(&calls[0]),
        "{listed}"
    );
    assert!(listed.contains("there are more: --offset 1"), "{listed}");
    let rest = read(&["call", "list", "--limit", "1", "--offset", "1"]);
    assert!(rest.contains(&calls[0]) && !rest.contains("more"), "{rest}");
    let shown = read(&["call", "show", &calls[0]]);
    for words in [&calls[0], "usedMinutes", "call.answered", "dlv_"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
}
