//! What the tests of several modules share, and the ledger's benchmark with them.

use std::{
    env, fs,
    io::{BufRead, BufReader},
    net::TcpListener,
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{
        LazyLock,
        atomic::{AtomicU32, Ordering},
    },
};

use dikala_entities::Store;

/// Set to 1 where a missing PostgreSQL must fail the tests instead of skipping them.
const REQUIRED: &str = "DIKALA_REQUIRE_POSTGRES";

/// Owns a throw-away cluster and watches its standard input, the other end of which only the tests' process holds: however
/// that process ends, the shell stops the server and removes its folder.
const OWNER_SCRIPT: &str = r#"
folder=$(mktemp -d /tmp/dikala-postgres.XXXXXX) || exit 1
trap '"$BIN/pg_ctl" -D "$folder/data" -m immediate stop >/dev/null 2>&1; rm -rf "$folder"' EXIT
cd "$folder"
"$BIN/initdb" -D data -U dikala -A trust -E UTF8 --locale=C --no-sync >log 2>&1 &&
"$BIN/pg_ctl" -D data -l log -w -t 120 start -o "-p $PORT -c listen_addresses=127.0.0.1 \
    -c unix_socket_directories= -c max_connections=200" >>log 2>&1 || { cat log; exit 1; }
echo ready
cat >/dev/null
"#;

static CLUSTER: LazyLock<Option<Cluster>> = LazyLock::new(Cluster::start);

struct Cluster {
    port: u16,
    /// Its standard input is the leash.
    _owner: Child,
}

/// A migrated SQLite store in a folder of its own, which is removed when the folder's handle is dropped.
pub async fn sqlite_store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("test.db");
    let store = Store::connect(&format!("sqlite://{}", path.display()))
        .await
        .expect("a store");
    dikala_migration::migrate(&store.for_schema().await.expect("a connection"))
        .await
        .expect("the schema");
    (folder, store)
}

/// One migrated store of each kind that this machine has.
pub async fn stores() -> Vec<(Option<tempfile::TempDir>, Store)> {
    let (folder, sqlite) = sqlite_store().await;
    let postgres = postgres_store().await;
    let kinds = [(Some(folder), sqlite)];
    kinds
        .into_iter()
        .chain(postgres.map(|store| (None, store)))
        .collect()
}

/// A migrated PostgreSQL store in a database of its own, or none where no PostgreSQL is installed.
pub async fn postgres_store() -> Option<Store> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let Some(cluster) = &*CLUSTER else {
        let note = "no PostgreSQL on this machine";
        assert!(env::var(REQUIRED).as_deref() != Ok("1"), "{note}");
        println!("skipped: {note}");
        return None;
    };
    let server = format!("postgres://dikala@127.0.0.1:{}", cluster.port);
    let name = format!("t{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let admin = sea_orm::Database::connect(format!("{server}/postgres"))
        .await
        .expect("the server answers");
    // template0: nobody can be connected to it, so that parallel tests do not disturb each other here.
    sea_orm::ConnectionTrait::execute_unprepared(
        &admin,
        &format!("CREATE DATABASE {name} TEMPLATE template0"),
    )
    .await
    .expect("a database");
    let store = Store::connect(&format!("{server}/{name}"))
        .await
        .expect("a store");
    dikala_migration::migrate(&store.for_schema().await.expect("a connection"))
        .await
        .expect("the schema");
    Some(store)
}

impl Cluster {
    fn start() -> Option<Self> {
        let bin = newest_tools()?;
        // The port is free when chosen and may be gone when used.
        let started = (0..3).find_map(|_| Self::start_once(&bin));
        Some(started.expect("PostgreSQL is installed and starts"))
    }

    fn start_once(bin: &PathBuf) -> Option<Self> {
        let port = TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?;
        let mut owner = unprivileged_shell()
            .args(["-c", OWNER_SCRIPT])
            .env("BIN", bin)
            .env("PORT", port.port().to_string())
            // Ctrl-C on the terminal ends the tests; the shell must outlive them to clean up.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        for line in BufReader::new(owner.stdout.take()?).lines() {
            let line = line.ok()?;
            if line == "ready" {
                return Some(Self {
                    port: port.port(),
                    _owner: owner,
                });
            }
            eprintln!("{line}");
        }
        let _ = owner.wait();
        None
    }
}

/// The folder of the newest `initdb` and `pg_ctl`, where Debian puts them.
fn newest_tools() -> Option<PathBuf> {
    fs::read_dir("/usr/lib/postgresql")
        .ok()?
        .flatten()
        .filter_map(|entry| {
            let version: u32 = entry.file_name().to_str()?.parse().ok()?;
            let bin = entry.path().join("bin");
            bin.join("initdb").exists().then_some((version, bin))
        })
        .max()
        .map(|(_, bin)| bin)
}

/// A shell as a user that PostgreSQL agrees to run as: anybody but root.
fn unprivileged_shell() -> Command {
    let root = Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|output| output.stdout == b"0\n");
    if !root {
        return Command::new("sh");
    }
    let mut shell = Command::new("runuser");
    shell.args(["-u", "postgres", "--", "sh"]);
    shell
}
