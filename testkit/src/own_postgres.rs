//! A PostgreSQL server for fault tests, with PostgreSQL's default durability. Tests stop it cleanly or as a power
//! failure does, restart it, and copy it to a standby that they promote.
//!
//! As for the shared servers (`postgres`), a shell owns it and ends with this process.

use std::{
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use crate::{
    large,
    place::StorePlace,
    port::free_port,
    postgres::{TEMPLATE_NAME, missing, port_of_template, tools},
    schema,
    shell::Shell,
    wait::PATIENCE,
};

/// The database of [`OwnPostgres::place`].
const DATABASE: &str = "dikala";

const OWNER_SCRIPT: &str = r#"
folder=$(mktemp -d /tmp/dikala-postgres.XXXXXX) || exit 1
leave() {
  for data in "$folder"/*/; do "$BIN/pg_ctl" -D "$data" -m immediate stop; done >/dev/null 2>&1
  rm -rf "$folder"
}
trap leave EXIT
cd "$folder"
start() {
  "$BIN/pg_ctl" -D "$1" -l "$1.log" -w -t 120 start -o "-p $2 -c listen_addresses=127.0.0.1 \
    -c unix_socket_directories= -c max_connections=200 -c cluster_name=$1"
}
"#;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Aborts transactions and writes everything: an operator's restart.
    Fast,
    /// Like a power failure: the next start recovers.
    Immediate,
}

/// A running server. It is removed with the last clone and standby.
#[derive(Clone, Debug)]
pub struct OwnPostgres {
    name: &'static str,
    pub port: u16,
    shell: Arc<Mutex<Shell>>,
}

impl OwnPostgres {
    /// Starts a server. Returns `None` with a printed note if PostgreSQL is not installed.
    pub fn start() -> Option<Self> {
        let Some(tools) = tools() else {
            missing();
            return None;
        };
        let shell = Shell::start(OWNER_SCRIPT, &[("BIN", &tools)]);
        let server = Self {
            name: "primary",
            port: free_port(),
            shell: Arc::new(Mutex::new(shell)),
        };
        match large::wanted() {
            false => server
                .run("\"$BIN/initdb\" -D primary -U dikala -A trust -E UTF8 --locale=C --no-sync"),
            true => server.copy(port_of_template()?),
        };
        server.start_again();
        Some(server)
    }

    /// Creates this server's folder as a copy of another's.
    fn copy(&self, port: u16) -> String {
        self.run(&format!(
            "\"$BIN/pg_basebackup\" -D {} -X stream -c fast --no-sync -h 127.0.0.1 -U dikala -p {port}",
            self.name
        ))
    }

    /// Creates the database with the current schema. Its URL has the given port: the server's own, or that of a
    /// proxy.
    pub fn place(&self, port: u16) -> StorePlace {
        let url = |port| format!("postgres://dikala@127.0.0.1:{port}/{DATABASE}");
        match large::wanted() {
            false => {
                self.tool("createdb", DATABASE);
                schema::migrate(&url(self.port));
            }
            true => {
                let rename = format!("ALTER DATABASE {TEMPLATE_NAME} RENAME TO {DATABASE}");
                self.tool("psql", &format!("-qc \"{rename}\" -d postgres"));
            }
        }
        StorePlace::at(url(port))
    }

    /// As [`Self::place`], but logs each statement's plan with its reads; see [`Self::log`].
    pub fn explained_place(&self, port: u16) -> StorePlace {
        let place = self.place(port);
        let settings = [
            ("session_preload_libraries", "auto_explain"),
            ("auto_explain.log_min_duration", "0"),
            ("auto_explain.log_analyze", "on"),
            ("auto_explain.log_buffers", "on"),
            ("auto_explain.log_timing", "off"),
            ("auto_explain.log_format", "json"),
        ];
        let options = settings.map(|(name, value)| format!("options[{name}]={value}"));
        StorePlace::at(format!("{}?{}", place.url, options.join("&")))
    }

    pub fn log(&self) -> String {
        self.run(&format!("cat {}.log", self.name))
    }

    pub fn stop(&self, how: Stop) {
        let mode = match how {
            Stop::Fast => "fast",
            Stop::Immediate => "immediate",
        };
        self.run(&format!(
            "\"$BIN/pg_ctl\" -D {} -m {mode} -w stop",
            self.name
        ));
    }

    /// Restarts the server; returns when it accepts connections.
    pub fn start_again(&self) {
        self.run(&format!("start {} {}", self.name, self.port));
    }

    /// Starts a server that replicates this one.
    pub fn standby(&self) -> Self {
        let standby = Self {
            name: "standby",
            port: free_port(),
            shell: self.shell.clone(),
        };
        self.run(&format!(
            "\"$BIN/pg_basebackup\" -D standby -R -X stream -c fast -h 127.0.0.1 -U dikala -p {}",
            self.port
        ));
        standby.start_again();
        standby
    }

    /// Switches to synchronous replication: each commit then waits for the standby.
    pub fn waits_for_its_standby(&self) {
        self.sql("ALTER SYSTEM SET synchronous_standby_names = 'standby'");
        self.sql("SELECT pg_reload_conf()");
        self.until(
            "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'",
            "1",
        );
    }

    fn until(&self, statement: &str, says: &str) {
        let began = Instant::now();
        while self.sql(statement) != says {
            assert!(
                began.elapsed() < PATIENCE,
                "{statement} does not become {says}"
            );
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Promotes a standby, which then accepts writes.
    pub fn promote(&self) {
        self.run(&format!("\"$BIN/pg_ctl\" -D {} -w promote", self.name));
    }

    /// Stops a standby's replication.
    pub fn fall_behind(&self) {
        self.sql("ALTER SYSTEM SET primary_conninfo = ''");
        self.sql("SELECT pg_reload_conf()");
        self.until("SELECT count(*) FROM pg_stat_wal_receiver", "0");
    }

    /// Runs a statement; returns its output without header and footer.
    pub fn sql(&self, statement: &str) -> String {
        let said = self.tool("psql", &format!("-qAtXc \"{statement}\" -d {DATABASE}"));
        said.trim().to_owned()
    }

    /// Terminates all client connections, as an operator or the kernel might.
    pub fn kill_backends(&self) {
        self.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()",
        );
    }

    /// Dumps the database; returns the number of bytes.
    pub fn dump(&self) -> usize {
        let bytes = self.tool("pg_dump", &format!("-d {DATABASE} | wc -c"));
        bytes.trim().parse().unwrap()
    }

    fn tool(&self, name: &str, arguments: &str) -> String {
        self.run(&format!(
            "\"$BIN/{name}\" -h 127.0.0.1 -U dikala -p {} {arguments}",
            self.port
        ))
    }

    /// Runs a line that must succeed.
    fn run(&self, line: &str) -> String {
        let (said, code) = self.shell.lock().unwrap().run(line);
        assert_eq!(code, 0, "{line}: {said}");
        said
    }
}
