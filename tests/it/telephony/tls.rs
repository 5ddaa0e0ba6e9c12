//! TLS of the telephony bridge: the certificate for callers, and the authorities that it trusts.

use std::{fs, net::SocketAddr, path::PathBuf, process::Stdio};

use dikala_testkit::{certificate, free_port, tls};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{PATIENCE, phone::TestPhone, rings, trunk};
use crate::support::{
    prelude::*,
    server::{self, wait_for_line},
};

/// The files of a certificate that is renewed.
struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

impl Files {
    fn of(installation: &mut Installation) -> Self {
        let beside = |name: &str| installation.log().with_file_name(name);
        let files = Self {
            certificate: beside("sip.pem"),
            key: beside("sip.key"),
        };
        files.write(certificate::SERVER, certificate::SERVER_KEY);
        for (key, path) in [
            ("tls_certificate_file", &files.certificate),
            ("tls_key_file", &files.key),
        ] {
            let key = format!("telephony.sip.{key}");
            installation.set(&key, &path.display().to_string());
        }
        files
    }

    fn write(&self, certificate: &[u8], key: &[u8]) {
        fs::write(&self.certificate, certificate).unwrap();
        fs::write(&self.key, key).unwrap();
    }
}

/// A bridge as its operator sees it.
struct OperatedBridge {
    pid: u32,
    log: PathBuf,
    udp: SocketAddr,
    tls: SocketAddr,
    did: String,
}

impl OperatedBridge {
    /// Reloads the certificate, and waits until the log has these words this many times.
    async fn reload(&self, words: &str, times: usize) {
        server::hang_up(self.pid);
        eventually(
            "the log to say what became of the certificate",
            async || {
                let log = fs::read_to_string(&self.log).unwrap();
                (log.matches(words).count() == times).then_some(())
            },
        )
        .await;
    }

    /// A new certificate is used for new connections, an invalid one never, and open connections stay.
    async fn renews(&self, files: &Files) {
        let mut early = tls::connect(self.tls).await.unwrap();
        assert_eq!(tls::shown(&early), tls::der(certificate::SERVER));
        let phone = TestPhone::call(self.udp, &self.did).await;
        phone.hears().await;

        files.write(certificate::RENEWED, certificate::RENEWED_KEY);
        self.reload("the certificate was read again", 1).await;
        let renewed = tls::der(certificate::RENEWED);
        assert_eq!(tls::shown(&tls::connect(self.tls).await.unwrap()), renewed);

        for (certificate, key) in [
            (&b"rubbish"[..], certificate::SERVER_KEY),
            (certificate::SERVER, certificate::RENEWED_KEY),
        ] {
            files.write(certificate, key);
            let refused = if certificate == b"rubbish" { 1 } else { 2 };
            self.reload("the certificate stays as it was", refused)
                .await;
            assert_eq!(tls::shown(&tls::connect(self.tls).await.unwrap()), renewed);
        }

        let options = format!(
            "OPTIONS sip:{0} SIP/2.0\r\nVia: SIP/2.0/TLS {0};branch=z9hG4bKearly\r\nFrom: <sip:a@b>;tag=1\r\nTo: <sip:{0}>\r\n\
             Call-ID: early\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n",
            self.tls
        );
        early.write_all(options.as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        early.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"SIP/2.0 200 ");
        phone.hears().await;
        phone.hang_up().await;
    }
}

#[actix_web::test]
async fn serve_reads_its_certificate_again() {
    let Some(mut installation) = Installation::migrated(Sqlite) else {
        return;
    };
    let address = || SocketAddr::from(([127, 0, 0, 1], free_port()));
    let (udp, secured) = (address(), address());
    let config = trunk(&installation);
    let files = Files::of(&mut installation);
    let listen = format!("udp://{udp}, tls://{secured}");
    for (key, value) in [
        ("config", config.as_str()),
        ("telephony.enabled", "true"),
        ("telephony.voice.provider", "scripted"),
        ("telephony.sip.listen", &listen),
    ] {
        installation.set(key, value);
    }
    let world = TestWorld::on(installation, WorldSetup::new()).await;
    let operated = OperatedBridge {
        pid: world.server.pid(),
        log: world.server.installation.log(),
        udp,
        tls: secured,
        did: world.tenant.did.clone(),
    };
    operated.renews(&files).await;
}

/// A standalone bridge; killed with the test.
pub(super) struct StandaloneBridge {
    child: std::process::Child,
    log: PathBuf,
    pub(super) addresses: Vec<SocketAddr>,
}

impl StandaloneBridge {
    pub(super) fn start(world: &TestWorld, service: &str, name: &str) -> Self {
        let token = &world.tenant.token;
        let command = ["telephony", "--engine", service, "--token", token];
        let log = world.server.installation.log().with_file_name(name);
        let mut command = world.server.installation.command(&command);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let addresses = wait_for_line(&mut child, &log, |line| {
            let listed = line.strip_prefix("sip ")?.split_whitespace();
            let address = |one: &str| one.split_once("://")?.1.parse().ok();
            listed.map(address).collect::<Option<Vec<SocketAddr>>>()
        });
        Self {
            child,
            log,
            addresses,
        }
    }
}

impl Drop for StandaloneBridge {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An installation for a standalone bridge.
fn apart(listen: &str) -> Option<Installation> {
    let mut installation = Installation::migrated(Sqlite)?;
    let config = trunk(&installation);
    installation.set("config", &config);
    installation.set("telephony.voice.provider", "scripted");
    installation.set("telephony.sip.listen", listen);
    Some(installation)
}

#[actix_web::test]
async fn the_bridge_alone_reads_its_certificate_again() {
    let Some(mut installation) = apart("udp://127.0.0.1:0, tls://127.0.0.1:0") else {
        return;
    };
    let files = Files::of(&mut installation);
    let world = TestWorld::on(installation, WorldSetup::new()).await;
    let alone = StandaloneBridge::start(&world, &world.server.http, "alone.log");
    let operated = OperatedBridge {
        pid: alone.child.id(),
        log: alone.log.clone(),
        udp: alone.addresses[0],
        tls: alone.addresses[1],
        did: world.tenant.did.clone(),
    };
    operated.renews(&files).await;
}

#[actix_web::test]
async fn a_service_behind_tls_is_reached_where_its_authority_is_trusted() {
    let Some(installation) = apart("udp://127.0.0.1:0") else {
        return;
    };
    let mut world = TestWorld::on(installation, WorldSetup::new()).await;
    let plain = world.server.http.strip_prefix("http://").unwrap();
    let front = tls::front("127.0.0.1", plain.parse().unwrap()).await;
    let service = format!("https://localhost:{}", front.port());

    let distrusting = StandaloneBridge::start(&world, &service, "distrusting.log");
    eventually("the log to say that it is not trusted", async || {
        let log = fs::read_to_string(&distrusting.log).unwrap();
        log.contains("its TLS cannot be trusted").then_some(())
    })
    .await;
    drop(distrusting);

    let authority = world.server.installation.log().with_file_name("ca.pem");
    let extra = authority.display().to_string();
    let installation = &mut world.server.installation;
    installation.set("outbound.extra_ca_file", &extra);
    // An unreadable file prevents the start.
    let token = world.tenant.token.clone();
    let command = ["telephony", "--engine", &service, "--token", &token];
    let refused = world.server.installation.run(&command);
    assert_ne!(refused.code, Some(0));
    assert!(
        refused.stderr.contains("outbound.extra_ca_file"),
        "{refused:?}"
    );

    fs::write(&authority, certificate::AUTHORITY).unwrap();
    let trusting = StandaloneBridge::start(&world, &service, "trusting.log");
    let ringing = rings(&world, trusting.addresses[0]);
    tokio::time::timeout(PATIENCE, ringing).await.unwrap();
}
