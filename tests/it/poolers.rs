//! A pooler in front of PostgreSQL that does not keep sessions is refused with an error. Tested with pgbouncer if
//! installed; `DIKALA_REQUIRE_PROXIES` makes its absence a failure.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    process::{Child, Command, Stdio},
};

use dikala_testkit::free_port;
use tempfile::TempDir;

use crate::support::{prelude::*, server::assert_fails};

/// pgbouncer drops startup parameters that it does not support.
const LENIENT: &str = "ignore_startup_parameters = extra_float_digits,options\n";

struct Pooler {
    child: Child,
    port: u16,
    _folder: TempDir,
}

impl Drop for Pooler {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Pooler {
    /// `None` if pgbouncer is not installed.
    async fn before(server: u16, settings: &str) -> Option<Self> {
        let is_there = Command::new("pgbouncer")
            .arg("--version")
            .stdout(Stdio::null())
            .status();
        if is_there.is_err() {
            assert!(
                std::env::var_os("DIKALA_REQUIRE_PROXIES").is_none(),
                "there is no pgbouncer"
            );
            println!("skipped: there is no pgbouncer");
            return None;
        }
        let (folder, port) = (dikala_testkit::folder(), free_port());
        let file = folder.path().join("pgbouncer.ini");
        let text = format!(
            "[databases]\n* = host=127.0.0.1 port={server} user=dikala\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = any\n{settings}"
        );
        fs::write(&file, text).unwrap();
        let mut command = Command::new("pgbouncer");
        // pgbouncer refuses to run as root.
        if fs::metadata(folder.path()).unwrap().uid() == 0 {
            command.args(["-u", "nobody"]);
        }
        command.arg("-q").arg(&file);
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let child = command.stderr(log).spawn().unwrap();
        let pooler = Self {
            child,
            port,
            _folder: folder,
        };
        eventually("pgbouncer to listen", async || {
            tokio::net::TcpStream::connect(("127.0.0.1", port))
                .await
                .ok()
        })
        .await;
        Some(pooler)
    }
}

#[rstest]
#[case::as_it_comes("pool_mode = session\n", "", "refuses the settings")]
#[case::lenient(&format!("pool_mode = session\n{LENIENT}"), "", "do not reach the server")]
#[case::for_a_transaction(&format!("pool_mode = transaction\n{LENIENT}"), "SET statement_timeout = 6000", "share one session")]
#[actix_web::test]
async fn a_pooler_without_sessions_is_refused_in_words(
    #[case] settings: &str,
    #[case] of_the_database: &str,
    #[case] words: &str,
) {
    let Some(mut installation) = Installation::migrated(Postgres) else {
        return;
    };
    let url = installation.store.url.clone();
    let (before, database) = url.rsplit_once('/').unwrap();
    let (before, server) = before.rsplit_once(':').unwrap();
    if !of_the_database.is_empty() {
        let alter = format!("ALTER DATABASE \"{database}\" {of_the_database}");
        installation.store.execute(&alter).await;
    }
    let Some(pooler) = Pooler::before(server.parse().unwrap(), settings).await else {
        return;
    };
    let through = format!("{before}:{}/{database}", pooler.port);
    installation.set("database.url", &through);
    for arguments in [&["serve"][..], &["migrate"]] {
        let refused = installation.run(arguments);
        assert_fails(&refused, &[1, 2, 3, 4, 5], "pooler");
        assert!(refused.stderr.contains(words), "{refused:?}");
        assert!(
            refused.stderr.contains("at most 32 connections"),
            "{refused:?}"
        );
    }
    // The database itself is fine.
    installation.set("database.url", &url);
    installation.cli(&["tenant", "list"]);
}
