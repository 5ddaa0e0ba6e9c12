//! haproxy in front of nodes, or of a PostgreSQL and its standby. Skipped if haproxy is not installed;
//! `DIKALA_REQUIRE_PROXIES` makes its absence a failure.

use std::{
    fs,
    net::TcpStream,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use dikala_testkit::{PATIENCE, free_port, shipped};
use tempfile::TempDir;

/// The servers behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServedProtocol {
    /// The ready nodes, as in ops/haproxy/haproxy.cfg.
    Http,
    /// PostgreSQL: the first server, or the next if that is gone.
    Postgres,
}

/// A running haproxy; dropping it stops the process.
#[derive(Debug)]
pub struct Balancer {
    child: Child,
    pub port: u16,
    _folder: TempDir,
}

impl Drop for Balancer {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const PROGRAM: &str = "/usr/sbin/haproxy";

impl Balancer {
    /// `None` if haproxy is not installed.
    pub fn start(served: ServedProtocol, behind: &[String]) -> Option<Self> {
        let port = free_port();
        Self::with(&configuration(served, port, behind), port)
    }

    /// With the shipped ops/haproxy/postgres.cfg. `behind` has the ports of PostgreSQL and of Patroni's checks.
    pub fn to_primary(behind: [(u16, u16); 2]) -> Option<Self> {
        let port = free_port();
        let [first, second] =
            behind.map(|(server, checks)| format!("127.0.0.1:{server} port {checks}"));
        let changes = [
            ("bind 127.0.0.1:6432", &*format!("bind 127.0.0.1:{port}")),
            ("10.0.0.11:5432 port 8008", &first),
            ("10.0.0.12:5432 port 8008", &second),
        ];
        Self::with(&shipped("haproxy/postgres.cfg", &changes), port)
    }

    /// `port` is the one that the configuration listens on.
    fn with(configuration: &str, port: u16) -> Option<Self> {
        if !std::path::Path::new(PROGRAM).exists() {
            let required = std::env::var_os("DIKALA_REQUIRE_PROXIES").is_some();
            assert!(!required, "there is no {PROGRAM}");
            println!("haproxy is not at hand: skipped");
            return None;
        }
        let folder = dikala_testkit::folder();
        let file = folder.path().join("haproxy.cfg");
        fs::write(&file, configuration).unwrap();
        let child = Command::new(PROGRAM)
            .args(["-db", "-f"])
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(began.elapsed() < PATIENCE, "haproxy does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(Self {
            child,
            port,
            _folder: folder,
        })
    }

    pub fn http(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

fn configuration(served: ServedProtocol, port: u16, behind: &[String]) -> String {
    let (mode, checks, each) = match served {
        ServedProtocol::Http => (
            "mode http\n    timeout http-request 10s\n    timeout tunnel 75s\n    retry-on conn-failure\n    option redispatch",
            "balance leastconn\n    timeout check 5s\n    option httpchk\n    http-check send meth GET uri /health/ready ver HTTP/1.1 hdr Host dikala\n    \
             http-check expect status 200\n    default-server check inter 500ms fall 2 rise 1 pool-purge-delay 2s",
            "",
        ),
        ServedProtocol::Postgres => (
            "mode tcp",
            "default-server check inter 500ms fall 2 rise 1 on-marked-down shutdown-sessions",
            " backup",
        ),
    };
    let servers: String = behind
        .iter()
        .enumerate()
        .map(|(number, at)| {
            let at = at.trim_start_matches("http://");
            let backup = if number > 0 { each } else { "" };
            format!("    server s{number} {at}{backup}\n")
        })
        .collect();
    format!(
        "global\n    maxconn 4000\ndefaults\n    {mode}\n    timeout connect 2s\n    timeout queue 5s\n    timeout client 3600s\n    \
         timeout server 3600s\nfrontend in\n    bind 127.0.0.1:{port}\n    default_backend all\nbackend all\n    {checks}\n{servers}"
    )
}
