//! Configuration: layers, errors, and obstacles to a start.

use std::fs;

use base64::{Engine, engine::general_purpose::STANDARD};

use dikala_testkit::free_port;

use crate::support::{
    prelude::*,
    server::{assert_fails, installation},
    tenant::text,
};

#[rstest]
#[actix_web::test]
async fn a_wrong_configuration_is_named(
    #[values("serve", "migrate", "check", "tenant list")] command: &str,
) {
    let command: Vec<_> = command.split(' ').collect();
    for (key, value, names) in [
        ("http.listn", "127.0.0.1:0", "listen"),
        ("calls.ring_timeout", "60", "ring_timeout_seconds"),
        ("nonsense", "1", "NONSENSE"),
        ("http.listen", "nowhere", "listen"),
        ("database.url", "mysql://localhost/x", "database.url"),
        ("calls.ring_timeout_seconds", "soon", "ring_timeout_seconds"),
        (
            "webhooks.retry_schedule_seconds",
            "1,x",
            "retry_schedule_seconds",
        ),
        ("outbound.allow_cidrs", "10.0.0.0/99", "allow_cidrs"),
        (
            "outbound.allow_hosts",
            "https://hooks.internal",
            "allow_hosts",
        ),
    ] {
        let mut installation = Installation::new(Sqlite).unwrap();
        installation.set(key, value);
        let finished = installation.run(&command);
        println!("{key} = {value}");
        // `check` prints all errors on standard output and fails if there is any.
        let (code, says) = match command[0] {
            "check" => (1, &finished.stdout),
            _ => (3, &finished.stderr),
        };
        assert_eq!(finished.code, Some(code), "{finished:?}");
        assert!(
            says.to_lowercase().contains(&names.to_lowercase()),
            "{finished:?}"
        );
    }
}

#[test]
fn serve_refuses_what_is_not_safe() {
    for (key, value) in [
        ("secrets.key", None),
        ("secrets.key", Some("c2hvcnQ=")),
        ("secrets.key", Some("not base64!")),
        ("operator.listen", Some("0.0.0.0:0")),
    ] {
        let mut installation = Installation::new(Sqlite).unwrap();
        match value {
            Some(value) => installation.set(key, value),
            None => installation.unset(key),
        }
        let finished = installation.run(&["serve"]);
        let section = key.split('.').next().unwrap();
        assert_fails(&finished, &[3], section);
        if let Some(value) = value.filter(|_| key == "secrets.key") {
            assert!(
                !finished.stderr.contains(value),
                "a secret is not shown: {finished:?}"
            );
        }
    }
}

#[test]
fn bad_luck_is_one_sentence() {
    // A port in use.
    let mut installation = Installation::new(Sqlite).unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    installation.set("http.listen", &address);
    let finished = installation.run(&["serve"]);
    assert_fails(&finished, &[1, 3], &address);

    // A folder that cannot be created, because a file has its name.
    let mut installation = Installation::new(Sqlite).unwrap();
    let file = installation.folder.path().join("file");
    fs::write(&file, "").unwrap();
    installation.set(
        "database.url",
        &format!("sqlite://{}/sub/dikala.db", file.display()),
    );
    assert_fails(&installation.run(&["serve"]), &[1, 3], "file");

    // An unreachable database.
    let mut installation = Installation::new(Sqlite).unwrap();
    let url = format!(
        "postgres://nobody:hidden-password@127.0.0.1:{}/none",
        free_port()
    );
    installation.set("database.url", &url);
    let finished = installation.run(&["serve"]);
    assert_fails(&finished, &[1, 3], "database");
    assert!(!finished.stderr.contains("hidden-password"), "{finished:?}");
}

#[rstest]
#[actix_web::test]
async fn check_looks_at_everything_before_the_start(#[values(Sqlite, Postgres)] store: StoreKind) {
    let mut installation = installation!(store);
    let names = |document: &Value, ok: bool| -> Vec<String> {
        let checks = document["checks"].as_array().unwrap();
        assert!(
            checks
                .iter()
                .all(|check| check["name"].is_string() && check["detail"].is_string())
        );
        checks
            .iter()
            .filter(|check| check["ok"] == ok)
            .map(|check| text(check, "name"))
            .collect()
    };
    let fine = installation.cli(&["check"]);
    assert_eq!(names(&fine, false), Vec::<String>::new());
    assert!(names(&fine, true).len() >= 6, "{fine}");
    let person = installation.run(&["check"]);
    assert!(
        person.stdout.contains('✓') && !person.stdout.contains('✗'),
        "{person:?}"
    );

    // The port is free, but both listeners cannot use it.
    let one = format!("127.0.0.1:{}", free_port());
    installation.set("http.listen", &one);
    installation.set("operator.listen", &one);
    let finished = installation.run(&["check", "--json"]);
    assert_eq!(finished.code, Some(1));
    assert_eq!(names(&finished.json(), false), ["ports"]);
    installation.set("operator.listen", "127.0.0.1:0");

    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    installation.set("http.listen", &taken.local_addr().unwrap().to_string());
    let finished = installation.run(&["check", "--json"]);
    assert_eq!(finished.code, Some(1));
    assert_eq!(names(&finished.json(), false).len(), 1, "{finished:?}");
    assert!(installation.run(&["check"]).stdout.contains('✗'));
}

#[rstest]
#[actix_web::test]
async fn another_key_than_that_of_the_store_is_refused(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let mut installation = installation!(store);
    installation.cli(&["tenant", "create", "--name", "Toko"]);
    let another = STANDARD.encode(rand::random::<[u8; 32]>());
    installation.set("secrets.key", &another);
    assert_fails(
        &installation.run(&["serve"]),
        &[3],
        "secrets.key does not open",
    );
    let checked = installation.run(&["check", "--json"]);
    assert_eq!(checked.code, Some(1));
    let checks = checked.json()["checks"].as_array().unwrap().clone();
    let wrong: Vec<&Value> = checks.iter().filter(|check| check["ok"] == false).collect();
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    assert_eq!(wrong[0]["name"], "secrets");
}

#[test]
fn looking_makes_no_database() {
    let mut installation = Installation::new(Sqlite).unwrap();
    let file = installation.folder.path().join("dikala.db");
    let settings = installation.settings.clone();
    installation.set("secrets.key", "abc");
    assert_fails(&installation.run(&["migrate"]), &[3], "32 random bytes");
    installation.settings = settings;
    let finished = installation.run(&["tenant", "list"]);
    assert_fails(&finished, &[1], &file.display().to_string());
    let checked = installation.cli(&["check"]);
    assert!(
        checked["checks"][1]["detail"]
            .as_str()
            .unwrap()
            .contains("none yet")
    );
    assert!(!file.exists());
}

#[test]
fn a_database_file_has_one_server_and_no_other_readers() {
    use std::os::unix::fs::PermissionsExt;
    let installation = Installation::new(Sqlite).unwrap();
    let migrated = installation.run(&["migrate"]);
    assert_eq!(migrated.code, Some(0), "{migrated:?}");
    let file = installation.folder.path().join("dikala.db");
    let mode = file.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let settings = installation.settings.clone();
    let mut server = Server::start(installation);
    let ports = std::mem::take(&mut server.installation.settings);
    server.installation.settings = settings;
    for key in ["http.listen", "operator.listen"] {
        server.installation.set(key, "127.0.0.1:0");
    }
    assert_fails(&server.installation.run(&["serve"]), &[1], "already");
    // By another name it is the same file.
    let url = |file: &std::path::Path| format!("sqlite://{}", file.display());
    let link = file.with_file_name("link.db");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    server.installation.set("database.url", &url(&link));
    assert_fails(&server.installation.run(&["serve"]), &[1], "already");
    server.installation.set("database.url", &url(&file));
    // Commands work beside the server, and its death releases the lock.
    server.cli(&["tenant", "list"]);
    server.installation.settings = ports;
    server.kill9();
    server.restart();
}

#[test]
fn configuration_comes_in_layers() {
    let mut installation = Installation::new(Sqlite).unwrap();
    let path = |name: &str| installation.folder.path().join(name).display().to_string();
    let (file, secret_file) = (path("dikala.toml"), path("key"));
    fs::write(
        &file,
        "[calls]\nring_timeout_seconds = 11\nwarn_before_seconds = 22\n",
    )
    .unwrap();
    let secret = "oW8vSxwH4ZwbpfDYBPNvkDqgq8yfiBI6Z8dS0xYvKpM=";
    fs::write(&secret_file, format!("{secret}\n")).unwrap();
    installation.set("config", &file);
    installation.set("calls.ring_timeout_seconds", "33");
    installation.unset("secrets.key");
    installation.set("secrets.key_file", &secret_file);
    let shown = installation.run(&["config", "show", "--json"]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    assert!(!shown.stdout.contains(secret), "secrets are masked");
    let keys = shown.json()["keys"].clone();
    let value = |wanted: &str| {
        let keys = keys.as_array().unwrap();
        let named = |key: &&Value| key["key"] == wanted || key["name"] == wanted;
        let key = keys
            .iter()
            .find(named)
            .unwrap_or_else(|| panic!("no {wanted} in {keys:?}"));
        key["value"].to_string().trim_matches('"').to_owned()
    };
    assert_eq!(
        value("calls.ring_timeout_seconds"),
        "33",
        "the environment wins"
    );
    assert_eq!(value("calls.warn_before_seconds"), "22", "then the file");
    assert_eq!(value("bridge.lost_after_seconds"), "30", "then the default");

    fs::write(&file, "[calls]\nring_timeout_second = 11\n").unwrap();
    let finished = installation.run(&["config", "show"]);
    assert_fails(&finished, &[3], "ring_timeout_seconds");
    fs::write(&file, "[calls]\nwarn_before_seconds = -1\n").unwrap();
    let finished = installation.run(&["config", "show"]);
    assert_eq!(finished.code, Some(3), "{finished:?}");
    for told in [&finished.stdout, &finished.stderr] {
        assert!(told.contains("calls.warn_before_seconds"), "{told}");
    }
    let missing = installation.run(&["serve", "--config", "/nowhere/dikala.toml"]);
    assert_fails(&missing, &[3], "/nowhere/dikala.toml");
}
