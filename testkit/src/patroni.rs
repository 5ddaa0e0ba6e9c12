//! Two PostgreSQL servers under Patroni, with the shipped configuration: the one follows the other by itself.
//!
//! As for [`OwnPostgres`](crate::OwnPostgres), a shell owns all processes and ends with this one.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use crate::{
    place::StorePlace, port::free_port, postgres::tools, schema, shell::Shell, shipped::shipped,
    wait::PATIENCE,
};

const OWNER_SCRIPT: &str = r#"
folder=$(mktemp -d /tmp/dikala-patroni.XXXXXX) || exit 1
leave() {
  for file in "$folder"/*.pid; do kill -9 "$(cat "$file")"; done
  for data in "$folder"/db?; do "$BIN/pg_ctl" -D "$data" -m immediate stop; done
  rm -rf "$folder"
}
trap 'leave >/dev/null 2>&1' EXIT
cd "$folder"
begin() {
  name=$1
  shift
  "$@" >"$name.log" 2>&1 &
  echo $! >"$name.pid"
}
"#;
const PROGRAMS: [&str; 2] = ["/usr/bin/patroni", "/usr/bin/etcd"];
const NAMES: [&str; 2] = ["db1", "db2"];
/// The password of the superuser in the shipped configuration.
const PASSWORD: &str = "change-me";

/// The part of a primary that is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// PostgreSQL; its Patroni notices.
    Process,
    /// Patroni too, as with the machine; the other Patroni notices when the lease in etcd expires.
    Machine,
}

/// A running pair.
#[derive(Clone, Debug)]
pub struct PatroniPair {
    shell: Arc<Mutex<Shell>>,
    /// Port of PostgreSQL and of Patroni's checks, of each server.
    pub ports: [(u16, u16); 2],
}

impl PatroniPair {
    /// Starts both servers; returns when the standby is synchronous. `None` with a printed note if a program is missing.
    pub fn start() -> Option<Self> {
        let tools = tools()?;
        if let Some(missing) = PROGRAMS.iter().find(|program| !Path::new(program).exists()) {
            let required = std::env::var_os("DIKALA_REQUIRE_PATRONI").is_some();
            assert!(!required, "there is no {missing}");
            println!("{missing} is not at hand: skipped");
            return None;
        }
        let pair = Self {
            shell: Arc::new(Mutex::new(Shell::start(OWNER_SCRIPT, &[("BIN", &tools)]))),
            ports: NAMES.map(|_| (free_port(), free_port())),
        };
        let folder = PathBuf::from(pair.run("pwd").trim());
        let etcd = [free_port(), free_port()].map(|port| format!("http://127.0.0.1:{port}"));
        let [clients, peers] = &etcd;
        pair.run(&format!(
            "begin etcd etcd --data-dir etcd --listen-client-urls {clients} --advertise-client-urls {clients} \
             --listen-peer-urls {peers} --initial-advertise-peer-urls {peers} --initial-cluster default={peers}"
        ));
        for (number, name) in NAMES.into_iter().enumerate() {
            let text = pair.configuration(number, &folder, &tools, clients);
            fs::write(folder.join(format!("{name}.yml")), text).unwrap();
            pair.run(&format!("begin {name} patroni {name}.yml"));
            pair.wait_for(|pair| pair.primary().is_some(), "a primary");
        }
        let synchronous = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
        let is_followed = |pair: &Self| {
            let primary = pair.primary();
            primary.is_some_and(|primary| pair.sql(primary, synchronous).as_deref() == Some("1"))
        };
        pair.wait_for(is_followed, "a synchronous standby");
        Some(pair)
    }

    /// The shipped file with this server's name, ports and folders.
    fn configuration(&self, number: usize, folder: &Path, tools: &Path, etcd: &str) -> String {
        let (port, checks) = self.ports[number];
        let data = folder.join(NAMES[number]).display().to_string();
        let pgpass = format!("pgpass: {data}.pgpass");
        let changes = [
            ("name: db1", &*format!("name: {}", NAMES[number])),
            ("10.0.0.11:8008", &format!("127.0.0.1:{checks}")),
            ("10.0.0.11:5432", &format!("127.0.0.1:{port}")),
            (
                "10.0.0.21:2379,10.0.0.22:2379,10.0.0.23:2379",
                etcd.trim_start_matches("http://"),
            ),
            ("pgpass: /var/lib/postgresql/15/dikala.pgpass", &pgpass),
            ("/var/lib/postgresql/15/dikala", &data),
            ("/usr/lib/postgresql/15/bin", &tools.display().to_string()),
            ("10.0.0.0/24", "127.0.0.1/32"),
        ];
        shipped("patroni/patroni.yml", &changes)
    }

    /// The server that is the primary now.
    fn primary(&self) -> Option<usize> {
        let asked = "SELECT pg_is_in_recovery()";
        (0..NAMES.len()).find(|number| self.sql(*number, asked).as_deref() == Some("f"))
    }

    /// Runs a statement at one server; returns its output, or none if it does not answer.
    fn sql(&self, number: usize, statement: &str) -> Option<String> {
        self.sql_over(self.ports[number].0, statement)
    }

    fn sql_over(&self, port: u16, statement: &str) -> Option<String> {
        let line = format!(
            "PGPASSWORD={PASSWORD} PGCONNECT_TIMEOUT=2 \"$BIN/psql\" -h 127.0.0.1 -U postgres -p {port} -qAtXc \"{statement}\""
        );
        let (said, code) = self.shell.lock().unwrap().run(&line);
        (code == 0).then(|| said.trim().to_owned())
    }

    /// Creates a database with the schema, whose URL has the port of a proxy. Returns when that leads to the primary only.
    pub fn place(&self, proxy: u16) -> StorePlace {
        let primary = self.primary().unwrap();
        assert!(self.sql(primary, "CREATE DATABASE dikala").is_some());
        let url = |port| format!("postgres://postgres:{PASSWORD}@127.0.0.1:{port}/dikala");
        schema::migrate(&url(self.ports[primary].0));
        // Before its first checks it takes both servers in turn.
        let leads = |pair: &Self| {
            (0..4).all(|_| {
                let said = pair.sql_over(proxy, "SELECT pg_is_in_recovery()");
                said.as_deref() == Some("f")
            })
        };
        self.wait_for(leads, "a way to the primary");
        StorePlace::at(url(proxy))
    }

    /// Kills the primary.
    pub fn lose_the_primary(&self, loss: Loss) {
        let name = NAMES[self.primary().unwrap()];
        let mut processes = format!("$(head -1 {name}/postmaster.pid)");
        if loss == Loss::Machine {
            processes = format!("$(cat {name}.pid) {processes}");
        }
        self.run(&format!("kill -9 {processes}"));
    }

    fn wait_for(&self, is_there: impl Fn(&Self) -> bool, what: &str) {
        let began = Instant::now();
        while !is_there(self) {
            assert!(
                began.elapsed() < PATIENCE,
                "there is not {what}: {}",
                self.run("tail -n 20 *.log")
            );
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Runs a line that must succeed.
    fn run(&self, line: &str) -> String {
        let (said, code) = self.shell.lock().unwrap().run(line);
        assert_eq!(code, 0, "{line}: {said}");
        said
    }
}
