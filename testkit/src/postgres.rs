//! One temporary PostgreSQL cluster per test process, and one database per test.
//!
//! `dikala bench` has its own starter (`src/cli/bench/ground/postgres.rs`): the program must not depend on this
//! crate, and it returns errors where this one panics.
//!
//! A child shell owns the cluster and watches its standard input, whose other end only this process holds. However
//! the process ends, the shell then stops the server and removes its folder.

use std::{
    env, fs,
    io::{BufRead, BufReader},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        LazyLock,
        atomic::{AtomicU32, Ordering},
    },
};

use crate::{large, port::free_port, schema};

/// If this is 1, a missing PostgreSQL fails the tests instead of skipping them.
const REQUIRED: &str = "DIKALA_REQUIRE_POSTGRES";

const OWNER_SCRIPT: &str = r#"
place=/tmp
# Each database has hundreds of files, which a disk's file system creates slowly. Containers often have 64 MB in memory.
free=$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }')
if [ "$IN_MEMORY" = 1 ] && [ "${free:-0}" -gt 2000000 ]; then place=/dev/shm; fi
folder=$(mktemp -d "$place/dikala-postgres.XXXXXX") || exit 1
trap '"$BIN/pg_ctl" -D "$folder/data" -m immediate stop >/dev/null 2>&1; rm -rf "$folder"' EXIT
cd "$folder"
"$BIN/initdb" -D data -U dikala -A trust -E UTF8 --locale=C --no-sync >log 2>&1 &&
"$BIN/pg_ctl" -D data -l log -w -t 120 start -o "-p $PORT -c listen_addresses=127.0.0.1 \
    -c unix_socket_directories= -c max_connections=1000 -c jit=off $OPTIONS" >>log 2>&1 || { cat log; exit 1; }
echo ready
cat >/dev/null
"#;

static QUICK: LazyLock<Option<Cluster>> = LazyLock::new(|| Cluster::start(Durability::None));
static DURABLE: LazyLock<Option<Cluster>> = LazyLock::new(|| Cluster::start(Durability::Full));
/// The template database with the current schema; nothing stays connected to it.
pub(crate) const TEMPLATE_NAME: &str = "migrated";
static TEMPLATE: LazyLock<Option<String>> = LazyLock::new(|| {
    let cluster = QUICK.as_ref()?;
    cluster.create(TEMPLATE_NAME, NOTHING);
    let url = cluster.url(TEMPLATE_NAME);
    schema::migrate(&url);
    if large::wanted() {
        schema::on_a_thread(large::fill(&url));
    }
    Some(TEMPLATE_NAME.to_owned())
});
/// An empty database that accepts no connections, so that parallel tests can copy it at once.
const NOTHING: &str = "template0";

/// The durability of commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Commits do not wait for the disk; tests need no durability.
    None,
    /// PostgreSQL's default.
    Full,
}

#[derive(Debug)]
struct Cluster {
    tools: PathBuf,
    port: u16,
    /// The shell and its server end when its standard input is closed.
    _owner: Child,
}

/// A database that is dropped with this value.
#[derive(Debug)]
pub struct TestDatabase {
    cluster: &'static Cluster,
    name: String,
    pub url: String,
}

impl TestDatabase {
    /// Creates an empty database. Returns `None` with a printed note if PostgreSQL is not installed.
    pub fn create() -> Option<Self> {
        Self::on(Durability::None)
    }

    /// Creates an empty database on a cluster with this durability.
    pub fn on(durability: Durability) -> Option<Self> {
        let cluster = match durability {
            Durability::None => &*QUICK,
            Durability::Full => &*DURABLE,
        };
        Self::copy(cluster, NOTHING)
    }

    /// Creates an empty database with the current schema.
    pub fn migrated() -> Option<Self> {
        Self::copy(&QUICK, TEMPLATE.as_deref().unwrap_or(NOTHING))
    }

    fn copy(cluster: &'static Option<Cluster>, template: &str) -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let Some(cluster) = cluster else {
            missing();
            return None;
        };
        let name = format!("t{}", COUNT.fetch_add(1, Ordering::Relaxed));
        cluster.create(&name, template);
        let url = cluster.url(&name);
        Some(Self { cluster, name, url })
    }

    /// Terminates all connections and accepts no new ones, as in an outage.
    pub fn go_away(&self) {
        self.administer(&format!(
            "ALTER DATABASE {} ALLOW_CONNECTIONS false",
            self.name
        ));
        self.administer(&format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}'",
            self.name
        ));
    }

    pub fn come_back(&self) {
        self.administer(&format!(
            "ALTER DATABASE {} ALLOW_CONNECTIONS true",
            self.name
        ));
    }

    fn administer(&self, statement: &str) {
        let arguments = ["-d", "postgres", "-qc", statement];
        self.cluster.run("psql", &arguments);
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        // If this fails, the database is removed with the cluster.
        let mut drop = self.cluster.tool("dropdb");
        let _ = drop.args(["--force", &self.name]).output();
    }
}

impl Cluster {
    fn start(durability: Durability) -> Option<Self> {
        let tools = tools()?;
        let options = match durability {
            // A session looks for a deadlock once, after this time. A test that provokes one must close the circle
            // before. It must be shorter than the lock timeout of `Store`.
            Durability::None => {
                "-c fsync=off -c full_page_writes=off -c deadlock_timeout=3s -c max_wal_size=256MB"
            }
            Durability::Full => "",
        };
        let in_memory = durability == Durability::None && !large::wanted();
        // A free port may be taken between choosing and using it.
        let attempts = (0..3).map(|_| Self::start_once(&tools, options, in_memory));
        let mut faults = String::new();
        for attempt in attempts {
            match attempt {
                Ok(cluster) => return Some(cluster),
                Err(fault) => faults.push_str(&fault),
            }
        }
        panic!("PostgreSQL is installed but does not start: {faults}");
    }

    fn start_once(tools: &Path, options: &str, in_memory: bool) -> Result<Self, String> {
        let port = free_port();
        let mut owner = unprivileged_shell()
            .args(["-c", OWNER_SCRIPT])
            .env("BIN", tools)
            .env("PORT", port.to_string())
            .env("OPTIONS", options)
            .env("IN_MEMORY", if in_memory { "1" } else { "0" })
            // Ctrl-C on the terminal ends the tests; the shell must survive it to clean up.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| e.to_string())?;
        let mut said = String::new();
        for line in BufReader::new(owner.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            if line == "ready" {
                let tools = tools.to_owned();
                return Ok(Self {
                    tools,
                    port,
                    _owner: owner,
                });
            }
            said.push_str(&line);
            said.push('\n');
        }
        let _ = owner.wait();
        Err(said)
    }

    fn url(&self, database: &str) -> String {
        format!("postgres://dikala@127.0.0.1:{}/{database}", self.port)
    }

    fn create(&self, database: &str, template: &str) {
        // Through the WAL, as by default, it is written twice and takes six times as long.
        let sql = format!("CREATE DATABASE {database} TEMPLATE {template} STRATEGY file_copy");
        self.run("psql", &["-d", "postgres", "-qc", &sql]);
    }

    /// Runs a tool that must succeed.
    fn run(&self, tool: &str, arguments: &[&str]) {
        let done = self.tool(tool).args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{tool}: {said}");
    }

    fn tool(&self, name: &str) -> Command {
        let mut command = Command::new(self.tools.join(name));
        let port = self.port.to_string();
        command.args(["-h", "127.0.0.1", "-U", "dikala", "-p", &port]);
        command
    }
}

/// The port of the server that has the template of [`large`] stores.
pub(crate) fn port_of_template() -> Option<u16> {
    TEMPLATE.as_ref()?;
    Some(QUICK.as_ref()?.port)
}

/// Skips the test because PostgreSQL is missing, or fails it if PostgreSQL is required.
pub(crate) fn missing() {
    let note = format!(
        "no PostgreSQL (initdb, pg_ctl) on this machine; {REQUIRED}=1 makes this a failure"
    );
    assert!(env::var(REQUIRED).as_deref() != Ok("1"), "{note}");
    println!("skipped: {note}");
}

/// The folder of `initdb` and `pg_ctl`: Debian's newest version, or else the one on the path.
pub(crate) fn tools() -> Option<PathBuf> {
    let mut debian: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            Some((
                entry.file_name().to_str()?.parse().ok()?,
                entry.path().join("bin"),
            ))
        })
        .collect();
    debian.sort();
    let on_path = env::split_paths(&env::var_os("PATH").unwrap_or_default())
        .filter_map(|folder| {
            Some(
                fs::canonicalize(folder.join("pg_ctl"))
                    .ok()?
                    .parent()?
                    .to_owned(),
            )
        })
        .collect::<Vec<_>>();
    let newest_first = debian.into_iter().rev().map(|(_, folder)| folder);
    newest_first.chain(on_path).find(|folder| {
        ["initdb", "pg_ctl", "createdb", "psql"]
            .iter()
            .all(|tool| folder.join(tool).exists())
    })
}

/// A shell that runs as a user other than root: PostgreSQL refuses to run as root.
pub(crate) fn unprivileged_shell() -> Command {
    let id = |arguments: &[&str]| {
        let output = Command::new("id").args(arguments).output().ok()?;
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    if id(&["-u"]).as_deref() != Some("0") {
        return Command::new("sh");
    }
    let user = ["postgres", "nobody"]
        .into_iter()
        .find(|user| id(&["-u", user]).is_some());
    let mut shell = Command::new("runuser");
    shell.args([
        "-u",
        user.expect("root needs a user to run PostgreSQL as"),
        "--",
        "sh",
    ]);
    shell
}
