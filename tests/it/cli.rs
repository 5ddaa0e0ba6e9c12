//! The command line: exit codes, messages, `--json` documents.

use crate::support::{
    prelude::*,
    server::{assert_fails, installation},
    tenant::{fresh_did, text, top_up},
};

#[rstest]
#[actix_web::test]
async fn each_failure_has_its_exit_code(#[values(Sqlite, Postgres)] store: StoreKind) {
    let installation = installation!(store);
    let created = installation.cli(&["tenant", "create", "--name", "Toko"]);
    let tenant = text(&created, "id");
    let did = fresh_did();
    installation.cli(&[
        "number", "add", "--tenant", &tenant, "--did", &did, "--label", "One",
    ]);
    let nobody = "ten_01k9zzzzzzzzzzzzzzzzzzzzzz";
    let long = "x".repeat(200);
    for (arguments, codes, names) in [
        (&["dance"][..], &[2][..], "dance"),
        (&["tenant", "create"], &[2], "--name"),
        (
            &["tenant", "create", "--name", "a", "--colour", "red"],
            &[2],
            "--colour",
        ),
        (
            &["tenant", "create", "--name", "a", "--plan", "golden"],
            &[2, 6],
            "golden",
        ),
        (&["tenant", "create", "--name", " "], &[2, 6], "name"),
        (&["tenant", "create", "--name", &long], &[2, 6], "name"),
        (&["tenant", "show", nobody], &[5], nobody),
        (&["tenant", "show", "nonsense"], &[5], "nonsense"),
        (
            &["key", "create", "--tenant", nobody, "--name", "a"],
            &[5],
            nobody,
        ),
        (
            &["key", "revoke", "key_01k9zzzzzzzzzzzzzzzzzzzzzz"],
            &[5],
            "key_",
        ),
        (
            &["bridge", "revoke", "br_01k9zzzzzzzzzzzzzzzzzzzzzz"],
            &[5],
            "br_",
        ),
        (
            &[
                "number", "add", "--tenant", nobody, "--did", "+628111", "--label", "a",
            ],
            &[5],
            nobody,
        ),
        (
            &[
                "number", "add", "--tenant", &tenant, "--did", &did, "--label", "Two",
            ],
            &[6],
            &did[..4],
        ),
        (
            &[
                "number", "add", "--tenant", &tenant, "--did", "0811", "--label", "a",
            ],
            &[2, 6],
            "did",
        ),
        (
            &["credits", "add", "--tenant", nobody, "--minutes", "5"],
            &[5],
            nobody,
        ),
        (
            &["credits", "add", "--tenant", &tenant, "--minutes", "1.5"],
            &[2],
            "minutes are booked whole",
        ),
        (
            &[
                "credits",
                "add",
                "--tenant",
                &tenant,
                "--minutes",
                "5",
                "--type",
                "usage",
            ],
            &[2],
            "purchase, bonus, adjustment, refund",
        ),
        (
            &["credits", "add", "--tenant", &tenant, "--minutes", "0"],
            &[2, 6],
            "",
        ),
        (
            &[
                "credits",
                "add",
                "--tenant",
                &tenant,
                "--minutes=-5",
                "--type",
                "purchase",
            ],
            &[2, 6],
            "",
        ),
        (
            &[
                "credits",
                "add",
                "--tenant",
                &tenant,
                "--minutes=-5",
                "--type",
                "adjustment",
            ],
            &[6],
            "",
        ),
        (&["ledger", "verify", "--tenant", nobody], &[5], nobody),
        (
            &["function-secret", "show", "--tenant", nobody],
            &[5],
            nobody,
        ),
    ] {
        for json in [&[][..], &["--json"]] {
            let finished = installation.run(&[arguments, json].concat());
            println!("dikala {arguments:?}");
            assert_fails(&finished, codes, names);
        }
    }
}

#[rstest]
#[actix_web::test]
async fn a_store_that_is_not_migrated_says_so(#[values(Sqlite, Postgres)] store: StoreKind) {
    let Some(mut installation) = Installation::new(store) else {
        return;
    };
    for arguments in [&["tenant", "list"][..], &["ledger", "verify"]] {
        assert_fails(&installation.run(arguments), &[1], "dikala migrate");
    }
    installation.set("database.migrate", "false");
    assert_fails(&installation.run(&["serve"]), &[1], "dikala migrate");
    for _ in 0..2 {
        assert_eq!(
            installation.run(&["migrate"]).code,
            Some(0),
            "again is harmless"
        );
    }
    installation.cli(&["tenant", "list"]);
    Server::start(installation);
}

#[rstest]
#[actix_web::test]
async fn documents_have_their_shapes(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let (server, tenant) = (&world.server, &world.tenant);
    let created = server.cli(&[
        "tenant", "create", "--name", " Warung ", "--plan", "business",
    ]);
    let id = text(&created, "id");
    assert!(id.starts_with("ten_") && id.len() == 30, "{id}");
    assert_eq!([&created["name"], &created["plan"]], ["Warung", "business"]);
    assert_eq!(server.cli(&["tenant", "show", &id])["id"], id);
    let updated = server.cli(&["tenant", "update", &id, "--name", "Kedai"]);
    assert_eq!(updated["name"], "Kedai");
    let list = server.cli(&["tenant", "list"]).to_string();
    assert!(list.contains(&id) && list.contains(&tenant.id), "{list}");

    let key = server.cli(&["key", "create", "--tenant", &id, "--name", "second"]);
    let secret = text(&key, "key");
    assert!(secret.starts_with("dkl_") && secret.len() == 40, "{secret}");
    assert_eq!(text(&key, "prefix"), secret[..12]);
    assert!(text(&key, "id").starts_with("key_"));
    let keys = server.cli(&["key", "list", "--tenant", &id]).to_string();
    assert!(
        keys.contains(&secret[..12]) && !keys.contains(&secret),
        "{keys}"
    );

    let bridge = server.cli(&["bridge", "create", "--name", "second"]);
    let token = text(&bridge, "token");
    assert!(
        token.starts_with("dkb_") && token.len() == 40 && text(&bridge, "id").starts_with("br_")
    );
    let bridges = server.cli(&["bridge", "list"]).to_string();
    assert!(
        bridges.contains(&text(&bridge, "id")) && !bridges.contains(&token),
        "{bridges}"
    );

    let did = fresh_did();
    let number = server.cli(&[
        "number", "add", "--tenant", &id, "--did", &did, "--label", "Line",
    ]);
    let seen = ["displayNumber", "label", "isActive", "agentId"].map(|field| &number[field]);
    assert_eq!(json!(seen), json!([did, "Line", true, null]));
    assert!(text(&number, "id").starts_with("pn_"));

    let shown = server.cli(&["function-secret", "show", "--tenant", &id]);
    let rotated = server.cli(&["function-secret", "rotate", "--tenant", &id]);
    assert_ne!(text(&shown, "secret"), text(&rotated, "secret"));
    assert_eq!(
        server.cli(&["function-secret", "show", "--tenant", &id]),
        rotated
    );

    let verdict = server.cli(&["ledger", "verify"]);
    assert_eq!(
        verdict,
        json!({"tenants": 2, "transactions": 1, "holds": 0, "differences": []})
    );
    let one = server.cli(&["ledger", "verify", "--tenant", &id]);
    assert_eq!(
        (&one["tenants"], &one["transactions"]),
        (&json!(1), &json!(0))
    );

    let api = Rest::new(&format!("{}/api/v1", server.http)).with("x-api-key", &secret);
    api.get("/agents").await.expect(200);
    server.cli(&["key", "revoke", &text(&key, "id")]);
    eventually("the key to be revoked", async || {
        let answer = api.get("/agents").await;
        (answer.status == 401 && answer.body["error"]["code"] == "revoked_api_key").then_some(())
    })
    .await;
}

#[rstest]
#[actix_web::test]
async fn credit_with_the_same_reference_is_added_once(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store, WorldSetup::new().minutes(10));
    let (server, tenant) = (&world.server, &world.tenant);
    let first = top_up(server, &tenant.id, 25, "invoice-1");
    let seen = [
        "type",
        "minutes",
        "balanceAfterMinutes",
        "callId",
        "reference",
    ]
    .map(|f| &first[f]);
    assert_eq!(json!(seen), json!(["purchase", 25, 35, null, "invoice-1"]));
    assert_eq!(top_up(server, &tenant.id, 25, "invoice-1"), first);
    let again = "credits add --minutes 25 --reference invoice-1 --tenant".split(' ');
    let again: Vec<&str> = again.chain([&*tenant.id]).collect();
    let again = server.installation.run(&again);
    assert!(
        again.code == Some(0) && again.stderr.contains("booked before"),
        "{again:?}"
    );
    let other = world.another_tenant(0).await;
    assert_ne!(
        top_up(server, &other.id, 25, "invoice-1"),
        first,
        "a reference is the tenant's own"
    );
    assert_eq!(tenant.credits().await, (35, 35, 0));

    let add = |kind: &str, minutes: i64| {
        let minutes = format!("--minutes={minutes}");
        let arguments = [
            "credits", "add", "--tenant", &tenant.id, &minutes, "--type", kind,
        ];
        server.cli(&[&arguments[..], &["--description", "because"]].concat())
    };
    assert_eq!(add("bonus", 5)["balanceAfterMinutes"], 40);
    assert_eq!(add("refund", 2)["description"], "because");
    assert_eq!(add("adjustment", -12)["balanceAfterMinutes"], 30);
    // Adjustments do not change the purchased minutes, only the balance.
    assert_eq!(tenant.credits().await, (30, 35, 0));
    let listed: Vec<_> = tenant
        .transactions()
        .await
        .iter()
        .map(|t| t["type"].clone())
        .collect();
    assert_eq!(
        json!(listed),
        json!(["adjustment", "refund", "bonus", "purchase", "purchase"])
    );
    assert_eq!(
        tenant.transactions().await[3],
        first,
        "the command shows what the API shows"
    );
    world.assert_ledger_is_exact();
}

#[rstest]
#[actix_web::test]
async fn without_json_people_read_it(#[values(Sqlite)] store: StoreKind) {
    let installation = installation!(store);
    let tenant = text(
        &installation.cli(&["tenant", "create", "--name", "Toko Sari"]),
        "id",
    );
    for (arguments, shows) in [
        (&["tenant", "list"][..], "Toko Sari"),
        (
            &["key", "create", "--tenant", &tenant, "--name", "a"],
            "dkl_",
        ),
        (&["bridge", "create", "--name", "a"], "dkb_"),
        (&["config", "show"], "http.listen"),
        (&["--help"], "simulate"),
        (&["--version"], "dikala"),
    ] {
        let finished = installation.run(arguments);
        assert_eq!(finished.code, Some(0), "{finished:?}");
        assert!(
            finished.stdout.contains(shows),
            "{arguments:?}: {finished:?}"
        );
        assert!(
            serde_json::from_str::<Value>(&finished.stdout).is_err(),
            "{finished:?}"
        );
    }
    let description = installation.run(&["openapi"]).json();
    assert_eq!(description["openapi"].as_str().unwrap()[..4], *"3.1.");
}

#[actix_web::test]
async fn simulate_places_calls_and_says_how_it_went() {
    let world = world!(Sqlite);
    let (server, tenant) = (&world.server, &world.tenant);
    let simulate = |url: &str, token: &str| {
        server.installation.run(&[
            "simulate",
            "--url",
            url,
            "--token",
            token,
            "--did",
            &tenant.did,
            "--calls",
            "20",
            "--concurrency",
            "5",
            "--rate",
            "50",
            "--talk-seconds",
            "1",
            "--json",
        ])
    };
    let finished = simulate(&server.http, &tenant.token);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let summary = finished.json().to_string();
    assert!(
        ["p50", "p95", "p99"]
            .iter()
            .all(|figure| summary.contains(figure)),
        "{summary}"
    );
    let calls = tenant.calls().await;
    assert_eq!(calls.len(), 20);
    assert!(calls.iter().all(|call| !call["endedAt"].is_null()));
    for (url, token) in [
        (&*server.http, "dkb_wrong"),
        ("http://127.0.0.1:1", &*tenant.token),
    ] {
        let finished = simulate(url, token);
        assert!(matches!(finished.code, Some(1..=6)), "{finished:?}");
        assert!(!finished.stderr.is_empty(), "{finished:?}");
    }
}
