//! A first hour with the command line and the log: messages, their form, and their delays.

use std::{fs, process::Command};

use dikala_testkit::{PATIENCE, free_port, within};

use crate::support::{
    prelude::*,
    server::{CommandResult, assert_fails, installation},
    tenant::text,
};

#[actix_web::test]
async fn what_clients_are_told_by_variables_disturbs_no_other_command() {
    let mut world = world!(Sqlite);
    let (http, key) = (world.server.http.clone(), world.tenant.key.clone());
    let token = world.tenant.token.clone();
    let settings = &mut world.server.installation.settings;
    for (name, value) in [("URL", &http), ("API_KEY", &key), ("BRIDGE_TOKEN", &token)] {
        settings.push((format!("DIKALA_{name}"), value.clone()));
    }
    let server = &world.server;
    for arguments in [
        &["tenant", "list"][..],
        &["config", "show"],
        &["migrate"],
        &["ledger", "verify"],
    ] {
        let finished = server.installation.run(arguments);
        assert_eq!(finished.code, Some(0), "{finished:?}");
        assert!(!finished.stdout.contains(&key) && !finished.stdout.contains(&token));
    }
    let sample = server.cli(&["trigger", "call.ended"]);
    assert!(text(&sample, "id").starts_with("evt_"));
    // The defaults are enough for a first try.
    let did = world.tenant.did.as_str();
    let finished =
        server
            .installation
            .run(&["simulate", "--did", did, "--talk-seconds", "0", "--json"]);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert_eq!(finished.json()["calls"], 10);
    for client in ["simulate", "trigger", "listen"] {
        let help = server.installation.run(&[client, "--help"]).stdout;
        assert!(
            help.contains("DIKALA_URL") && !help.contains(&key) && !help.contains(&token),
            "{help}"
        );
    }
    // An option overrides the environment.
    let wrong = server
        .installation
        .run(&["trigger", "call.ended", "--url", "http://127.0.0.1:1"]);
    assert_fails(&wrong, &[1], "127.0.0.1:1");
}

#[actix_web::test]
async fn a_simulation_of_which_every_call_was_refused_failed() {
    let world = world!(Sqlite, WorldSetup::new().minutes(0));
    let simulate = [
        "simulate",
        "--url",
        &world.server.http,
        "--token",
        &world.tenant.token,
        "--did",
        &world.tenant.did,
        "--calls",
        "3",
    ];
    let finished = world.server.installation.run(&simulate);
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert!(
        finished.stderr.contains("insufficient_credits (3")
            && finished.stderr.contains("dikala credits add"),
        "{finished:?}"
    );
    assert!(finished.stdout.contains("refused"), "{finished:?}");
}

fn wide(installation: &Installation, arguments: &[&str], columns: &str) -> String {
    let output = installation
        .command(arguments)
        .env("COLUMNS", columns)
        .output()
        .unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[actix_web::test]
async fn tables_are_lines_that_fit_with_what_a_thing_is_told_by_first() {
    let installation = installation!(Sqlite);
    let names = [
        "Toko Sari",
        "A tenant with a name that takes more room than others do",
        "Kopi",
    ];
    for name in names {
        installation.cli(&["tenant", "create", "--name", name]);
    }
    let all = installation.run(&["tenant", "list"]).stdout;
    let lines: Vec<&str> = all.lines().collect();
    assert_eq!(
        lines.len(),
        1 + names.len(),
        "a line each, and no rules:\n{all}"
    );
    let columns: Vec<&str> = lines[0].split_whitespace().collect();
    assert_eq!(columns[..3], ["id", "name", "suspendedAt"], "{all}");
    assert!(
        lines[1..].iter().all(|line| line.starts_with("ten_")),
        "{all}"
    );
    assert!(!all.contains('─') && !all.contains('\u{1b}'), "{all}");
    let narrow = wide(&installation, &["tenant", "list"], "100");
    assert!(
        narrow.lines().all(|line| line.chars().count() <= 100),
        "{narrow}"
    );
    assert!(
        narrow.contains("more columns") && narrow.contains(names[1]),
        "{narrow}"
    );
    let one = installation
        .run(&["tenant", "create", "--name", "One"])
        .stdout;
    let fields: Vec<&str> = one
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(fields[..3], ["id", "name", "plan"], "{one}");
    let keys = wide(&installation, &["config", "show"], "100");
    assert!(
        keys.lines().all(|line| line.chars().count() <= 100),
        "{keys}"
    );
    assert!(
        keys.lines().nth(1).unwrap().starts_with("http.listen"),
        "as documented:\n{keys}"
    );
}

#[actix_web::test]
async fn errors_are_documents_where_documents_are_asked_for() {
    let mut installation = installation!(Sqlite);
    let told = |finished: &CommandResult, code: i32, word: &str| {
        assert_fails(finished, &[code], word);
        let error: Value =
            serde_json::from_str(&finished.stderr).unwrap_or_else(|_| panic!("{finished:?}"));
        assert_eq!(error["error"]["code"], word, "{finished:?}");
        assert!(!text(&error["error"], "message").is_empty());
    };
    told(
        &installation.run(&["tenant", "show", "ten_x", "--json"]),
        5,
        "not_found",
    );
    told(&installation.run(&["--json", "dance"]), 2, "usage");
    told(
        &installation.run(&["tenant", "create", "--json"]),
        2,
        "usage",
    );
    told(
        &installation.run(&["tenant", "create", "--name", " ", "--json"]),
        6,
        "refused",
    );
    told(
        &installation.run(&["trigger", "call.ended", "--key", "x", "--json"]),
        2,
        "usage",
    );
    installation.set("log.level", "warning");
    installation.set("http.shutdown_seconds", "soon");
    let finished = installation.run(&["serve", "--json"]);
    told(&finished, 3, "configuration_invalid");
    assert!(
        finished.stderr.contains("did you mean warn?")
            && finished.stderr.contains("shutdown_seconds")
    );
}

fn failed_checks(installation: &Installation) -> String {
    let finished = installation.run(&["check"]);
    assert_eq!(finished.code, Some(1), "{finished:?}");
    let failed = finished.stdout.lines().filter(|line| line.starts_with('✗'));
    failed.collect::<Vec<_>>().join("\n")
}

/// `check` reports the error that `serve` would.
#[track_caller]
fn both_refuse(installation: &Installation, words: &str) {
    let failed = failed_checks(installation);
    assert!(failed.contains(words), "{failed}");
    assert_fails(&installation.run(&["serve"]), &[1], words);
}

#[actix_web::test]
async fn check_says_what_serve_will_say() {
    // A folder that cannot be written, for a database that does not exist yet.
    let mut installation = Installation::new(Sqlite).unwrap();
    let file = installation.folder.path().join("file");
    fs::write(&file, "").unwrap();
    installation.set(
        "database.url",
        &format!("sqlite://{}/sub/dikala.db", file.display()),
    );
    let failed = failed_checks(&installation);
    assert!(
        failed.contains("store") && failed.contains("cannot be written"),
        "{failed}"
    );
    assert_fails(&installation.run(&["serve"]), &[1], "cannot be written");

    // Missing certificates.
    let mut installation = installation!(Sqlite);
    installation.set("outbound.extra_ca_file", "/nowhere/ca.pem");
    let failed = failed_checks(&installation);
    assert!(failed.contains("/nowhere/ca.pem"), "{failed}");
    assert_fails(&installation.run(&["serve"]), &[1], "/nowhere/ca.pem");

    // All errors of the configuration at once.
    installation.set("log.level", "loud");
    installation.set("calls.warn_before_seconds", "soon");
    installation.set("secrets.key_file", "/nowhere/key");
    installation.set("http.listn", "x");
    let failed = failed_checks(&installation);
    for words in ["loud", "soon", "/nowhere/key", "http.listn"] {
        assert!(failed.contains(words), "{words}: {failed}");
    }
}

#[actix_web::test]
async fn check_says_what_serve_will_say_of_a_database_file() {
    // A folder in place of the file.
    let mut installation = Installation::new(Sqlite).unwrap();
    let folder = installation.folder.path().join("data");
    fs::create_dir(&folder).unwrap();
    installation.set("database.url", &format!("sqlite://{}", folder.display()));
    both_refuse(&installation, "let database.url name a file");

    // Another application's tables.
    let installation = Installation::new(Sqlite).unwrap();
    fs::write(installation.folder.path().join("dikala.db"), "").unwrap();
    installation
        .store
        .execute("CREATE TABLE invoices (id INTEGER)")
        .await;
    both_refuse(&installation, "invoices");

    // Another server on the same file, with other ports. A check disturbs neither it nor the next one.
    let mut server = Server::start(installation!(Sqlite));
    let ports = server.installation.settings.clone();
    for key in ["http.listen", "operator.listen"] {
        server.installation.set(key, "127.0.0.1:0");
    }
    both_refuse(&server.installation, "another dikala serves");
    server.terminate().await;
    server.installation.settings = ports;
    server.installation.cli(&["check"]);
    server.restart();
}

#[test]
fn a_start_with_too_few_files_is_refused() {
    let mut installation = installation!(Sqlite);
    installation.files = Some((64, 64));
    both_refuse(&installation, "64 files open");
}

#[actix_web::test]
async fn a_postgresql_database_that_cannot_hold_all_texts_is_refused() {
    let Some(mut installation) = Installation::new(Postgres) else {
        return;
    };
    let store = installation.store.url.clone();
    let name = format!("latin_{}", free_port());
    let sql = |sql: &str| {
        let done = Command::new("psql").args([&store, "-c", sql]).output();
        let done = done.unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    sql(&format!(
        "CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0"
    ));
    let (server, _) = store.rsplit_once('/').unwrap();
    installation.set("database.url", &format!("{server}/{name}"));
    both_refuse(&installation, "encoded in LATIN1");
    sql(&format!("DROP DATABASE {name}"));
}

#[actix_web::test]
async fn check_knows_what_the_database_user_may_do() {
    let Some(mut installation) = Installation::new(Postgres) else {
        return;
    };
    let all = installation.store.url.clone();
    let sql = |sql: &str| {
        let done = Command::new("psql")
            .args([&all, "-v", "ON_ERROR_STOP=1", "-c", sql])
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    let user = format!("limited_{}", free_port());
    sql(&format!("CREATE ROLE {user} LOGIN"));
    let (scheme, rest) = all.split_once("://").unwrap();
    let (_, place) = rest.split_once('@').unwrap();
    let limited = format!("{scheme}://{user}@{place}");
    installation.set("database.url", &limited);
    // Without USAGE the schema is skipped.
    for change in [
        "REVOKE ALL ON SCHEMA public FROM PUBLIC",
        "GRANT USAGE ON SCHEMA public TO PUBLIC",
    ] {
        sql(change);
        both_refuse(&installation, "GRANT USAGE, CREATE ON SCHEMA \"public\"");
    }
    sql(&format!("ALTER ROLE {user} SET search_path = calls"));
    both_refuse(&installation, "CREATE SCHEMA \"calls\"");
    sql(&format!("ALTER ROLE {user} RESET search_path"));
    installation.set("database.url", &all);
    assert_eq!(installation.run(&["migrate"]).code, Some(0));
    // Nothing may be read, not even the schema's version.
    installation.set("database.url", &limited);
    both_refuse(&installation, "GRANT SELECT, INSERT");
    sql(&format!(
        "GRANT SELECT ON ALL TABLES IN SCHEMA public TO {user}"
    ));
    let failed = failed_checks(&installation);
    assert!(failed.contains("GRANT SELECT, INSERT"), "{failed}");
    sql(&format!("DROP OWNED BY {user}"));
    sql(&format!("DROP ROLE {user}"));
}

#[actix_web::test]
async fn a_postgresql_that_is_not_there_is_told_at_once() {
    let mut installation = Installation::new(Sqlite).unwrap();
    let port = free_port();
    installation.set(
        "database.url",
        &format!("postgres://me:hush@127.0.0.1:{port}/calls"),
    );
    // A pool would have retried for ten seconds. A busy machine may be late now and then.
    let mut least = PATIENCE;
    let mut tries = 0;
    let finished = loop {
        let began = std::time::Instant::now();
        let finished = installation.run(&["serve"]);
        (least, tries) = (least.min(began.elapsed()), tries + 1);
        if tries == 3 || least < Duration::from_secs(5) {
            break finished;
        }
    };
    assert!(least < Duration::from_secs(5), "{least:?}");
    assert_fails(&finished, &[1], &format!("127.0.0.1:{port}/calls"));
    assert!(
        finished.stderr.contains("refused") && !finished.stderr.contains("hush"),
        "{finished:?}"
    );
}

#[actix_web::test]
async fn the_log_tells_what_happened_and_nothing_of_the_framework() {
    let setup = WorldSetup::new()
        .set("webhooks.retry_schedule_seconds", 1)
        .set("log.level", "info")
        .set("log.format", "json");
    let world = world!(Sqlite, setup);
    let (server, tenant) = (&world.server, &world.tenant);
    world
        .receiver
        .answer("/broken", [ServerAnswer::Status(500)]);
    let webhook = tenant
        .subscribe(&world.receiver.url("/broken"), &["call.ended"], SECRET)
        .await;
    let bridge = tenant.bridge(Socket).await;
    let call = bridge.talk(&tenant.did).await;
    bridge.hang_up(&call).await;
    let rest = server.rest();
    rest.get("/api/v1/agents").await.expect(401);
    let seen = tenant.api.get(&format!("/calls/{call}")).await;
    let request = seen.header("x-request-id").unwrap().to_owned();
    seen.expect(200);
    within(
        Duration::from_secs(30),
        "the delivery to fail for good",
        async || {
            server
                .log()
                .contains("a delivery failed for good")
                .then_some(())
        },
    )
    .await;
    let log = server.log();
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let told = |message: &str| -> Vec<&Value> {
        lines
            .iter()
            .filter(|line| line["message"] == message)
            .collect()
    };
    let start = told("started")[0];
    assert_eq!(
        [&start["store"], &start["version"]],
        ["SQLite", env!("CARGO_PKG_VERSION")]
    );
    let configuration = text(start, "configuration");
    assert!(
        configuration.contains("webhooks.retry_schedule_seconds=1"),
        "{configuration}"
    );
    assert!(
        configuration.contains("secrets.key=********"),
        "{configuration}"
    );
    let asked = told("request");
    let asked: Vec<_> = asked
        .iter()
        .filter(|line| line["span"]["request_id"] == request)
        .collect();
    assert_eq!(asked.len(), 1, "a line for a request:\n{log}");
    let fields = ["method", "route", "status", "tenant"].map(|field| &asked[0][field]);
    assert_eq!(
        json!(fields),
        json!(["GET", "/api/v1/calls/{id}", 200, tenant.id])
    );
    assert!(asked[0]["ms"].is_u64());
    assert_eq!(asked[0]["request_id"], request);
    assert_eq!(
        told("a request without a valid key was refused")[0]["code"],
        "missing_api_key"
    );
    for message in ["call taken", "call answered", "call over"] {
        let of_call = told(message)
            .into_iter()
            .filter(|line| line["call"] == call);
        assert_eq!(of_call.count(), 1, "{message}:\n{log}");
    }
    let failed = told("a delivery failed for good")[0];
    assert_eq!(
        [&failed["webhook"], &failed["tenant"]],
        [&webhook, &tenant.id]
    );
    assert_eq!([&failed["status"], &failed["attempts"]], [500, 2]);
    let foreign = lines
        .iter()
        .find(|line| !text(line, "target").starts_with("dikala"));
    assert_eq!(foreign, None);
}

#[actix_web::test]
async fn the_address_of_the_service_leads_to_its_documentation() {
    let world = world!(Sqlite);
    let start = world.server.rest().get("/").await;
    assert_eq!(
        (start.status, start.header("location")),
        (307, Some("/docs"))
    );
    for path in ["/", "/docs"] {
        let head = awc::http::Method::HEAD;
        let answer = world.server.rest().send(head, path, None).await;
        assert_eq!(answer.status, 307, "{path}");
    }
}

#[actix_web::test]
async fn what_is_read_without_a_key_answers_head_as_it_answers_get() {
    let world = world!(Sqlite);
    let public = world.server.rest();
    let operators = Rest::new(&world.server.operator);
    for (rest, path) in [
        (&public, "/docs/"),
        (&public, "/openapi.json"),
        (&public, "/health/live"),
        (&public, "/health/ready"),
        (&operators, "/health/live"),
    ] {
        let got = rest.get(path).await;
        let head = rest.send(awc::http::Method::HEAD, path, None).await;
        assert_eq!((got.status, head.status), (200, 200), "{path}");
        for header in ["content-type", "content-length"] {
            assert_eq!(head.header(header), got.header(header), "{path}");
        }
    }
}
