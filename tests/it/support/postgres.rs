//! One throw-away PostgreSQL cluster per test process, one database per test.
//!
//! A shell started as a child owns the cluster and watches its standard input, the other end of which only this process
//! holds: however the process ends, the shell stops the server and removes its folder.

use std::{
    env, fs,
    io::{BufRead, BufReader},
    net::TcpListener,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        LazyLock,
        atomic::{AtomicU32, Ordering},
    },
};

/// Set to 1 where a missing PostgreSQL must fail the tests instead of skipping them.
const REQUIRED: &str = "DIKALA_REQUIRE_POSTGRES";

const OWNER_SCRIPT: &str = r#"
folder=$(mktemp -d /tmp/dikala-postgres.XXXXXX) || exit 1
trap '"$BIN/pg_ctl" -D "$folder/data" -m immediate stop >/dev/null 2>&1; rm -rf "$folder"' EXIT
cd "$folder"
"$BIN/initdb" -D data -U dikala -A trust -E UTF8 --locale=C --no-sync >log 2>&1 &&
"$BIN/pg_ctl" -D data -l log -w -t 120 start -o "-p $PORT -c listen_addresses=127.0.0.1 \
    -c unix_socket_directories= -c fsync=off -c max_connections=400" >>log 2>&1 || { cat log; exit 1; }
echo ready
cat >/dev/null
"#;

static CLUSTER: LazyLock<Option<Cluster>> = LazyLock::new(Cluster::start);

struct Cluster {
    tools: PathBuf,
    port: u16,
    /// Its standard input is the leash.
    _owner: Child,
}

/// A database of its own, dropped with this value.
#[derive(Debug)]
pub struct Database {
    name: String,
    pub url: String,
}

impl Database {
    /// Makes an empty database; `None`, and a printed note, where no PostgreSQL is installed.
    pub fn create() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let Some(cluster) = &*CLUSTER else {
            let note = format!(
                "no PostgreSQL (initdb, pg_ctl) on this machine; {REQUIRED}=1 makes this a failure"
            );
            assert!(env::var(REQUIRED).as_deref() != Ok("1"), "{note}");
            println!("skipped: {note}");
            return None;
        };
        let name = format!("t{}", COUNT.fetch_add(1, Ordering::Relaxed));
        // template0: nobody can be connected to it, so that parallel tests do not disturb each other here.
        let made = cluster
            .tool("createdb")
            .args(["-T", "template0", &name])
            .output()
            .unwrap();
        assert!(
            made.status.success(),
            "createdb: {}",
            String::from_utf8_lossy(&made.stderr)
        );
        let url = format!("postgres://dikala@127.0.0.1:{}/{name}", cluster.port);
        Some(Self { name, url })
    }
}

impl Database {
    /// Cuts every connection and lets nobody in, as an outage does.
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
        let cluster = CLUSTER.as_ref().expect("a database has a cluster");
        let done = cluster
            .tool("psql")
            .args(["-d", "postgres", "-qc", statement])
            .output()
            .unwrap();
        assert!(
            done.status.success(),
            "psql: {}",
            String::from_utf8_lossy(&done.stderr)
        );
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if let Some(cluster) = &*CLUSTER {
            // A database that stays goes away with the cluster.
            let _ = cluster
                .tool("dropdb")
                .args(["--force", &self.name])
                .output();
        }
    }
}

impl Cluster {
    fn start() -> Option<Self> {
        let tools = tools()?;
        // The port is free when chosen and may be gone when used.
        let attempts = (0..3).map(|_| Self::start_once(&tools));
        let mut faults = String::new();
        for attempt in attempts {
            match attempt {
                Ok(cluster) => return Some(cluster),
                Err(fault) => faults.push_str(&fault),
            }
        }
        panic!("PostgreSQL is installed but does not start: {faults}");
    }

    fn start_once(tools: &Path) -> Result<Self, String> {
        let port = free_port();
        let mut owner = unprivileged_shell()
            .args(["-c", OWNER_SCRIPT])
            .env("BIN", tools)
            .env("PORT", port.to_string())
            // Ctrl-C on the terminal ends the tests; the shell must outlive them to clean up.
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

    fn tool(&self, name: &str) -> Command {
        let mut command = Command::new(self.tools.join(name));
        let port = self.port.to_string();
        command.args(["-h", "127.0.0.1", "-U", "dikala", "-p", &port]);
        command
    }
}

/// The folder of `initdb` and `pg_ctl`: Debian's newest version, else the one on the path.
fn tools() -> Option<PathBuf> {
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

/// A shell as a user that PostgreSQL agrees to run as: anybody but root.
fn unprivileged_shell() -> Command {
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

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}
