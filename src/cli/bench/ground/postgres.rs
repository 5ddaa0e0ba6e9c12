//! Starts a PostgreSQL server from the installed programs, with their default durability. The tests have another
//! one in `testkit/`, which the program must not depend on.
//!
//! A child shell owns the server and watches its standard input, whose other end only this process holds. However
//! this process ends, the shell then stops the server and removes its folder.

use std::{
    env, fs,
    io::{BufRead, BufReader},
    net::TcpListener,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use crate::cli::bench::{Result, failed};

const OWNER_SCRIPT: &str = r#"
folder=$(mktemp -d "${TMPDIR:-/tmp}/dikala-bench-postgres.XXXXXX") || exit 1
trap '"$BIN/pg_ctl" -D "$folder/data" -m immediate stop >/dev/null 2>&1; rm -rf "$folder"' EXIT
cd "$folder"
"$BIN/initdb" -D data -U dikala -A trust -E UTF8 --locale=C --no-sync >log 2>&1 &&
"$BIN/pg_ctl" -D data -l log -w -t 120 start -o "-p $PORT -c listen_addresses=127.0.0.1 \
    -c unix_socket_directories= -c max_connections=200 -c commit_delay=$DELAY -c commit_siblings=0" >>log 2>&1 || { cat log; exit 1; }
echo ready
cat >/dev/null
"#;
const MISSING: &str = "PostgreSQL's programs (initdb, pg_ctl, createdb) are not installed here; install them (Debian and Ubuntu: \
    apt install postgresql, Fedora: dnf install postgresql-server, macOS: brew install postgresql), or use --store sqlite";
/// A free port may be taken between choosing and using it.
const ATTEMPTS: usize = 3;

/// A running PostgreSQL, stopped and removed when dropped.
#[derive(Debug)]
pub struct Postgres {
    tools: PathBuf,
    pub port: u16,
    /// Its standard input keeps the server alive.
    owner: Child,
}

impl Postgres {
    /// Blocks until the server accepts connections. Each of its flushes begins `commit_delay` late; 100 ms at most.
    pub fn start(commit_delay: Duration) -> Result<Self> {
        let tools = tools().ok_or_else(|| failed(MISSING))?;
        let mut fault = failed(MISSING);
        for _ in 0..ATTEMPTS {
            match Self::start_once(&tools, commit_delay) {
                Ok(server) => return Ok(server),
                Err(error) => fault = error,
            }
        }
        Err(fault)
    }

    fn start_once(tools: &Path, commit_delay: Duration) -> Result<Self> {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = free.map_err(failed)?.port();
        let mut owner = shell()
            .args(["-c", OWNER_SCRIPT])
            .env("BIN", tools)
            .env("PORT", port.to_string())
            .env("DELAY", commit_delay.as_micros().to_string())
            // Ctrl-C on the terminal ends the measurement; the shell must survive it to clean up.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let output = owner.stdout.take().expect("it was asked for");
        let mut said = String::new();
        for line in BufReader::new(output)
            .lines()
            .map_while(std::result::Result::ok)
        {
            if line == "ready" {
                let tools = tools.to_owned();
                return Ok(Self { tools, port, owner });
            }
            said.push_str(&line);
            said.push('\n');
        }
        // The shell failed and has written its error.
        let _ = owner.wait();
        Err(failed(format!(
            "PostgreSQL does not start: {}",
            said.trim()
        )))
    }

    /// Creates an empty database and returns its URL.
    pub fn database(&self, name: &str) -> Result<String> {
        let port = self.port.to_string();
        let made = Command::new(self.tools.join("createdb"))
            .args([
                "-h",
                "127.0.0.1",
                "-U",
                "dikala",
                "-p",
                &port,
                "-T",
                "template0",
                name,
            ])
            .output()
            .map_err(failed)?;
        if !made.status.success() {
            let said = String::from_utf8_lossy(&made.stderr);
            return Err(failed(format!("createdb: {}", said.trim())));
        }
        Ok(format!("postgres://dikala@127.0.0.1:{port}/{name}"))
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        drop(self.owner.stdin.take());
        // The shell cleans up even if this wait fails.
        let _ = self.owner.wait();
    }
}

/// The folder of PostgreSQL's programs: Debian's newest version, or else the one on the path.
fn tools() -> Option<PathBuf> {
    let mut debian: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let version = entry.file_name().to_str()?.parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .collect();
    debian.sort();
    let on_path: Vec<PathBuf> = env::split_paths(&env::var_os("PATH")?)
        .filter_map(|folder| fs::canonicalize(folder.join("pg_ctl")).ok())
        .filter_map(|program| Some(program.parent()?.to_owned()))
        .collect();
    let newest_first = debian.into_iter().rev().map(|(_, folder)| folder);
    newest_first.chain(on_path).find(|folder| {
        let has = |tool: &&str| folder.join(tool).exists();
        ["initdb", "pg_ctl", "createdb"].iter().all(has)
    })
}

/// A shell that runs as a user other than root: PostgreSQL refuses to run as root.
fn shell() -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new("sh");
    }
    let mut shell = Command::new("runuser");
    let known = |user: &&str| {
        Command::new("id")
            .args(["-u", user])
            .output()
            .is_ok_and(|id| id.status.success())
    };
    let user = ["postgres", "nobody"]
        .into_iter()
        .find(known)
        .unwrap_or("nobody");
    shell.args(["-u", user, "--", "sh"]);
    shell
}
