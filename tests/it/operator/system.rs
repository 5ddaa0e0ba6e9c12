//! The running system: actors, nodes, ledger, database, configuration.

use super::{console::signed_in, *};
use crate::support::{link::linked, tenant::text};

#[rstest]
#[actix_web::test]
async fn what_runs_is_shown_and_no_secret_with_it(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store, guarded());
    let (tenant, api) = (&world.tenant, with(&world.server, READ));
    let bridge = tenant.bridge(Socket).await;
    let call = bridge.talk(&tenant.did).await;

    let actors = api.get("/actors").await.expect(200);
    let loops = actors["eventLoops"].as_array().unwrap();
    let is_late = |name: &str| {
        let found = loops.iter().find(|event_loop| event_loop["name"] == name);
        found.is_some_and(|event_loop| event_loop["lagUs"].is_u64())
    };
    assert!(is_late("core-0") && is_late("webhooks-0"), "{loops:?}");
    let actors = actors["actors"].as_array().unwrap();
    let instances = |kind: &str| {
        let actor = actors.iter().find(|actor| actor["type"] == kind);
        actor.unwrap_or_else(|| panic!("no {kind} in {actors:?}"))["instances"].clone()
    };
    assert_eq!(instances("call"), 1);
    assert!(instances("credit_ledger").as_i64().unwrap() >= 1);
    let ledger = api.get("/actors/credit_ledger").await.expect(200);
    assert!(ledger["handled"].as_i64().unwrap() > 0, "{ledger}");
    let messages = ledger["messages"].as_array().unwrap();
    // Messages that query an actor's state are counted in their own rows only.
    let looks = ["Describe", "Look", "Ping"];
    let handled: i64 = messages
        .iter()
        .filter(|of| !looks.contains(&of["message"].as_str().unwrap()))
        .map(|of| of["handled"].as_i64().unwrap())
        .sum();
    assert_eq!(ledger["handled"], handled);
    let posts = messages.iter().find(|of| of["handled"].as_i64() > Some(0));
    for times in ["waitUs", "handlingUs"] {
        let [half, most] = ["p50", "p99"].map(|part| posts.unwrap()[times][part].as_u64().unwrap());
        assert!((1..=most).contains(&half), "{times}: {half} {most}");
    }
    let listed = actors.iter().find(|of| of["type"] == "credit_ledger");
    assert!(listed.unwrap()["messages"][0]["waitUs"].is_object());

    let nodes = api.get("/nodes").await.expect(200);
    let node = &nodes["nodes"][0];
    assert_eq!((&node["name"], &node["calls"]), (&json!("main"), &json!(1)));
    assert_eq!(
        (&node["bridges"], nodes["nodes"].as_array().unwrap().len()),
        (&json!(1), 1)
    );

    let database = api.get("/database").await.expect(200);
    let kind = if store == Sqlite {
        "sqlite"
    } else {
        "postgres"
    };
    assert_eq!(database["kind"], kind);
    assert!(
        database["sizeBytes"].as_i64().unwrap() > 100_000,
        "{database}"
    );

    let commit = ["p50", "p99"].map(|part| database["commitUs"][part].as_u64().unwrap());
    assert!(commit[0] > 0 && commit[0] <= commit[1], "{database}");
    let pools = database["pools"].as_array().unwrap();
    let reads = pools.iter().find(|pool| pool["name"] == "api_reader");
    let counts = ["inUse", "idle", "unopened"].map(|state| reads.unwrap()[state].as_u64().unwrap());
    assert!(counts.iter().sum::<u64>() > 0, "{database}");

    let config = api.get("/config").await;
    for secret in [FULL, READ] {
        assert!(!config.text.contains(secret), "{}", config.text);
    }
    let config = config.expect(200);
    assert_eq!(config, world.server.cli(&["config", "show"]));
    bridge.hang_up(&call).await;
}

#[rstest]
#[actix_web::test]
async fn the_books_are_verified_and_what_was_found_stays(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let (tenant, api) = (&world.tenant, client(&world.server));
    let bridge = tenant.bridge(Http).await;
    let call = bridge.talk(&tenant.did).await;
    let ledger = api.get("/ledger").await.expect(200);
    assert_eq!(
        (&ledger["openHolds"], &ledger["lastVerification"]),
        (&json!(1), &Value::Null)
    );
    let found = api.post("/ledger/verify", json!({})).await.expect(200);
    assert_eq!(
        (&found["tenants"], &found["differences"]),
        (&json!(1), &json!([]))
    );
    assert_eq!(
        api.get("/ledger").await.expect(200)["lastVerification"],
        found
    );
    // Transactions of one tenant only.
    let one = api
        .post("/ledger/verify", json!({"tenantId": tenant.id}))
        .await
        .expect(200);
    assert_eq!(one["transactions"], 1);
    assert_eq!(
        api.get("/ledger").await.expect(200)["lastVerification"],
        found
    );
    let nobodys = json!({"tenantId": nobody("ten")});
    let refused = api.post("/ledger/verify", nobodys).await.expect(422);
    assert_eq!(refused["error"]["fields"][0]["code"], "not_found");
    bridge.hang_up(&call).await;
}

/// Data in the process's memory do not wait for a silent database.
#[actix_web::test]
async fn what_needs_no_database_is_told_while_it_is_silent() {
    let Some((world, link)) = linked(guarded()).await else {
        return;
    };
    let api = with(&world.server, READ);
    let before = api.get("/database").await.expect(200);
    let nodes = api.get("/nodes").await.expect(200);
    assert_eq!(
        [&before["unanswered"], &nodes["unanswered"]],
        [&Value::Null; 2]
    );
    link.go_dark();
    let silent = api.get("/database").await.expect(200);
    for unknown in ["version", "sizeBytes", "migrations"] {
        assert!(before[unknown] != Value::Null, "{before}");
        assert_eq!(silent[unknown], Value::Null, "{silent}");
    }
    assert!(text(&silent, "unanswered").contains("does not answer"));
    assert_eq!(silent["commitUs"], before["commitUs"]);
    let names = |of: &Value| {
        let pools = of["pools"].as_array().unwrap().iter();
        pools.map(|pool| text(pool, "name")).collect::<Vec<_>>()
    };
    assert_eq!(names(&silent), names(&before));
    let told = api.get("/nodes").await.expect(200);
    assert!(text(&told, "unanswered").contains("does not answer"));
    let (here, listed) = (&told["nodes"][0], &nodes["nodes"][0]);
    for known in ["id", "name", "address", "version", "isThis"] {
        assert_eq!(here[known], listed[known], "{known}");
    }
    let browser = signed_in(&world.server, READ).await;
    for path in ["/database", "/nodes"] {
        browser.open(path).await.assert_shows("does not answer");
    }
    link.light_up();
}
