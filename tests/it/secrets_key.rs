//! The key that opens stored secrets: no command writes with a wrong one, and none is generated if one is needed.

use base64::{Engine, engine::general_purpose::STANDARD};

use crate::support::{
    prelude::*,
    server::{CommandResult, assert_fails, installation},
    tenant::{fresh_did, text},
};

const WRONG: &str = "does not open the secrets";
const MISSING: &str = "do not open without the key";

/// A store with two tenants; returns their ids.
fn with_tenants(installation: &Installation) -> [String; 2] {
    ["one", "two"].map(|name| {
        text(
            &installation.cli(&["tenant", "create", "--name", name]),
            "id",
        )
    })
}

fn another_key() -> String {
    STANDARD.encode(rand::random::<[u8; 32]>())
}

/// All commands that write, for an existing tenant.
fn writing(tenant: &str) -> Vec<Vec<String>> {
    let did = fresh_did();
    [
        "serve",
        "migrate",
        "tenant create --name three",
        "tenant suspend TENANT",
        "key create --tenant TENANT --name k",
        "number add --tenant TENANT --did DID --label l",
        "bridge create --name b",
        "credits add --tenant TENANT --minutes 5",
        "function-secret show --tenant TENANT",
        "function-secret rotate --tenant TENANT",
    ]
    .iter()
    .map(|line| line.replace("TENANT", tenant).replace("DID", &did))
    .map(|line| line.split(' ').map(str::to_owned).collect())
    .collect()
}

fn run(installation: &Installation, arguments: &[String]) -> CommandResult {
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    installation.run(&arguments)
}

#[actix_web::test]
async fn no_command_works_with_a_key_that_does_not_open_what_is_stored() {
    let mut installation = installation!(Sqlite);
    let [tenant, _] = with_tenants(&installation);
    let stored = "SELECT id, function_secret FROM tenants ORDER BY id";
    let before = installation.store.rows::<2>(stored).await;
    installation.set("secrets.key", &another_key());
    for command in writing(&tenant) {
        let refused = run(&installation, &command);
        assert_fails(&refused, &[3], WRONG);
    }
    assert_eq!(installation.store.rows::<2>(stored).await, before);
    for table in [
        "api_keys",
        "phone_numbers",
        "bridges",
        "credit_transactions",
    ] {
        assert_eq!(installation.store.count(table).await, 0, "{table}");
    }
}

#[actix_web::test]
async fn a_missing_key_is_not_made_anew_where_secrets_are() {
    let mut installation = installation!(Sqlite);
    let [tenant, _] = with_tenants(&installation);
    installation.unset("secrets.key");
    for command in [
        "serve",
        "tenant create --name three",
        "function-secret rotate --tenant TENANT",
    ] {
        let command = command.replace("TENANT", &tenant);
        let arguments: Vec<_> = command.split(' ').collect();
        let refused = installation.run(&arguments);
        assert_fails(&refused, &[3], MISSING);
        assert!(!refused.stderr.contains("openssl"), "{refused:?}");
    }
    let check = installation.run(&["check"]);
    assert!(check.stdout.contains(MISSING), "{check:?}");
    // Commands that need no secret work.
    let added = installation.run(&["bridge", "create", "--name", "b"]);
    assert_eq!(added.code, Some(0), "{added:?}");

    let mut empty = installation!(Sqlite);
    empty.unset("secrets.key");
    assert_fails(&empty.run(&["serve"]), &[3], "openssl rand -base64 32");
}

#[rstest]
#[actix_web::test]
async fn check_names_each_secret_that_does_not_open(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let second = world.another_tenant(1).await;
    let webhook = second
        .subscribe(&world.receiver.url("/x"), &["call.ended"], SECRET)
        .await;
    let third = world.another_tenant(1).await;
    let installation = &world.server.installation;
    let detail = || {
        let checks = installation.run(&["check", "--json"]).json();
        let checks = checks["checks"].as_array().unwrap().clone();
        checks
            .into_iter()
            .find(|check| check["name"] == "secrets")
            .unwrap()
    };
    assert_eq!(detail()["ok"], true);
    // Sealed for another row, so no key opens them.
    let foreign = format!(
        "(SELECT function_secret FROM tenants WHERE id = '{}')",
        world.tenant.id
    );
    let harm = [
        format!(
            "UPDATE tenants SET function_secret = {foreign} WHERE id = '{}'",
            third.id
        ),
        format!("UPDATE webhooks SET previous_secret = {foreign} WHERE id = '{webhook}'"),
    ];
    for harm in harm {
        installation.store.execute(&harm).await;
    }
    let found = detail();
    assert_eq!(found["ok"], false);
    for id in [&third.id, &webhook] {
        assert!(text(&found, "detail").contains(id.as_str()), "{found}");
    }
    assert!(
        !text(&found, "detail").contains(&world.tenant.id),
        "{found}"
    );
    // Other tenants are served nevertheless.
    let secret = installation.cli(&["function-secret", "rotate", "--tenant", &third.id]);
    assert!(!text(&secret, "secret").is_empty());
}

#[actix_web::test]
async fn dev_does_not_make_a_second_key_beside_its_data() {
    let installation = Installation::new(Sqlite).unwrap();
    let data = installation.folder.path().join("dev-data");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("dikala.db"), b"").unwrap();
    let mut installation = installation;
    installation.unset("secrets.key");
    installation.unset("database.url");
    let refused = installation.run(&["dev", "--data", data.to_str().unwrap()]);
    assert_fails(&refused, &[1], "secrets.key is missing");
    assert!(!data.join("secrets.key").exists());
}
