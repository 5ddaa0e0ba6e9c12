//! `dikala init`: from nothing to a configuration that starts the service.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use dikala_testkit::free_port;

use crate::support::{prelude::*, server::assert_fails, tenant::text, terminal::Terminal};

/// An installation with an empty configuration.
fn bare() -> Installation {
    let mut installation = Installation::new(Sqlite).unwrap();
    installation.settings.clear();
    installation
}

fn mode(file: &Path) -> u32 {
    fs::metadata(file).unwrap().permissions().mode() & 0o777
}

/// The value of a key in a file.
fn value(file: &Path, key: &str) -> Option<String> {
    let text = fs::read_to_string(file).unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{key} = ")))?;
    Some(line.trim_matches('"').to_owned())
}

#[rstest]
#[actix_web::test]
async fn what_it_writes_is_what_the_service_starts_with(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let Some(mut installation) = Installation::new(store) else {
        return;
    };
    installation.settings.clear();
    // The tests' PostgreSQL does not flush commits.
    installation.set("database.allow_unsafe", "true");
    let url = installation.store.url.clone();
    let ports = [(); 2].map(|()| format!("127.0.0.1:{}", free_port()));
    let file = installation.folder.path().join("etc/my dikala.toml");
    let named = file.to_str().unwrap();
    let arguments = [
        "init",
        "--config",
        named,
        "--yes",
        "--database",
        &url,
        "--listen",
        &ports[0],
        "--operator-listen",
        &ports[1],
        "--public-url",
        "https://voice.example.com",
        "--mail-url",
        "smtp://127.0.0.1:9",
        "--mail-from",
        "Kopi \"Senja\" <a@example.com>",
    ];
    let written = installation.cli(&arguments);
    assert_eq!(
        (text(&written, "file"), mode(&file)),
        (named.to_owned(), 0o600)
    );
    assert_eq!(written["kept"], Value::Null);
    let next = json!([
        format!("dikala check --config '{named}'"),
        format!("dikala serve --config '{named}'")
    ]);
    assert_eq!(written["next"], next);
    let checked = installation.run(&["check", "--config", named]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    // No secret is printed.
    let [key, full, read] = ["key", "token", "read_token"].map(|key| value(&file, key).unwrap());
    for secret in [&key, &full, &read] {
        assert!(secret.len() >= 40 && !written.to_string().contains(secret.as_str()));
    }
    assert_ne!(full, read);

    installation
        .settings
        .push(("DIKALA_CONFIG".to_owned(), named.to_owned()));
    let server = Server::start(installation);
    assert_eq!(
        [&server.http, &server.operator],
        ports
            .each_ref()
            .map(|port| format!("http://{port}"))
            .each_ref()
    );
    let api = Rest::new(&format!("{}/operator/v1", server.operator));
    assert_eq!(api.get("/tenants").await.status, 401);
    for token in [full, read] {
        let api = api
            .clone()
            .with("authorization", &format!("Bearer {token}"));
        api.get("/tenants").await.expect(200);
    }
    let tenant = server.cli(&["tenant", "create", "--name", "Toko"]);
    let user = server.cli(&[
        "user",
        "create",
        "--tenant",
        &text(&tenant, "id"),
        "--email",
        "a@example.com",
    ]);
    assert!(
        text(&user, "url").starts_with("https://voice.example.com/"),
        "{user}"
    );
}

#[test]
fn nothing_is_written_over_unless_that_is_wanted() {
    let installation = bare();
    let file = installation.folder.path().join("dikala.toml");
    installation.cli(&["init", "--yes"]);
    let first = fs::read_to_string(&file).unwrap();
    assert_fails(&installation.run(&["init", "--yes"]), &[6], "--overwrite");
    assert_eq!(fs::read_to_string(&file).unwrap(), first);
    let again = ["init", "--yes", "--overwrite", "--listen", "127.0.0.1:9999"];
    let written = installation.cli(&again);
    let kept = text(&written, "kept");
    assert_eq!(fs::read_to_string(&kept).unwrap(), first);
    assert_eq!((mode(&file), mode(Path::new(&kept))), (0o600, 0o600));
    assert_eq!(value(&file, "listen").unwrap(), "127.0.0.1:9999");
    // The key is kept, because stored secrets need it; the tokens are new.
    assert_eq!(value(&file, "key"), value(Path::new(&kept), "key"));
    assert_ne!(value(&file, "token"), value(Path::new(&kept), "token"));
}

#[test]
fn what_cannot_be_is_told_and_nothing_is_written() {
    let installation = bare();
    for (arguments, code, names) in [
        (&["init"][..], 2, "--yes"),
        (
            &["init", "--yes", "--database", "mysql://host/name"],
            3,
            "postgres://",
        ),
        (&["init", "--yes", "--listen", "8080"], 3, "http.listen"),
        (
            &["init", "--yes", "--public-url", "voice.example.com"],
            3,
            "http.public_url",
        ),
        (
            &["init", "--yes", "--mail-url", "smtp://mail.example.com"],
            3,
            "mail.from",
        ),
        (
            &["init", "--yes", "--mail-from", "a@example.com"],
            3,
            "mail.url",
        ),
        (
            &["init", "--yes", "--config", "/proc/dikala.toml"],
            1,
            "/proc/dikala.toml",
        ),
    ] {
        assert_fails(&installation.run(arguments), &[code], names);
    }
    let there = fs::read_dir(installation.folder.path()).unwrap().flatten();
    let there: Vec<_> = there
        .map(|entry| entry.file_name())
        .filter(|name| name.to_string_lossy().contains("toml"))
        .collect();
    assert!(there.is_empty(), "{there:?}");
}

#[actix_web::test]
async fn on_a_terminal_it_asks_until_the_answer_can_be_used() {
    let installation = bare();
    let mut terminal = Terminal::run(&installation, "dikala init");
    for (question, said) in [
        ("Where are data kept?", "\n"),
        (
            "API, dashboard and bridges served? [127.0.0.1:8080]",
            "nowhere\n",
        ),
        ("http.listen is \"nowhere\"", "127.0.0.1:7070\n"),
        ("Where do people reach that", "\n"),
        ("operators' API and metrics served?", "\n"),
        ("Which server takes mails", "smtp://127.0.0.1:9\n"),
        ("Whom are they from", "\n"),
        ("Mails need it", "a@example.com\n"),
    ] {
        terminal.shows(question).await;
        terminal.press(said);
    }
    let (shown, code) = terminal.ended().await;
    assert_eq!(code, Some(0), "{shown}");
    let file = installation.folder.path().join("dikala.toml");
    assert!(
        shown.contains(&format!("dikala serve --config {}", file.display())),
        "{shown}"
    );
    assert_eq!(mode(&file), 0o600);
    let data = format!(
        "sqlite://{}",
        installation
            .folder
            .path()
            .join("dikala-data/dikala.db")
            .display()
    );
    assert_eq!(value(&file, "url").unwrap(), data);
    assert_eq!(value(&file, "listen").unwrap(), "127.0.0.1:7070");
    assert_eq!(value(&file, "from").unwrap(), "a@example.com");
    let checked = installation.run(&["check", "--config", "dikala.toml"]);
    // Its ports may be in use on this machine.
    let about = checked
        .stdout
        .lines()
        .filter(|line| line.starts_with('✗') && !line.contains("ports"));
    assert_eq!(about.count(), 0, "{checked:?}");
}

#[actix_web::test]
async fn answers_that_end_early_leave_no_file() {
    let installation = bare();
    let mut terminal = Terminal::run(&installation, "dikala init; echo code=$?");
    terminal.shows("Where are data kept?").await;
    // Ctrl-D.
    terminal.press("\u{4}");
    let shown = terminal.shows("code=").await;
    assert!(shown.contains("nothing was written"), "{shown}");
    let (shown, _) = terminal.ended().await;
    assert!(shown.contains("code=1"), "{shown}");
    assert!(!installation.folder.path().join("dikala.toml").exists());
}
