//! The shipped configurations of nginx and haproxy, on Debian's versions: TLS ends there, and bridges, events,
//! addresses and refusals pass through. Skipped if they are not installed; `DIKALA_REQUIRE_PROXIES` makes their
//! absence a failure.

use std::{
    fs,
    net::IpAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use awc::{http::StatusCode, ws::CloseCode};
use dikala_testkit::{certificate, free_port, shipped, tls, within};
use futures_util::StreamExt;
use tempfile::TempDir;
use tokio::{io::AsyncWriteExt, net::TcpStream, time::timeout};

use crate::{
    front_door::well_made,
    support::{bridge::BridgeSocketEnd, prelude::*, rest, server::Server, web_call::TestBrowser},
};

/// The service's address in the shipped configurations.
const SERVICE: &str = "127.0.0.1:8080";

#[derive(Clone, Copy, Debug)]
enum Kind {
    Nginx,
    Haproxy,
}
use Kind::{Haproxy, Nginx};

/// A proxy in front of a service, on its own ports.
struct Proxy {
    child: Child,
    http: String,
    https: String,
    _folder: TempDir,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The path of a program that may not be on the search path.
fn program(name: &str) -> Option<PathBuf> {
    let places = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"];
    let paths = places.iter().map(|place| Path::new(place).join(name));
    let found = paths.into_iter().find(|path| path.exists());
    if found.is_none() {
        let required = std::env::var_os("DIKALA_REQUIRE_PROXIES").is_some();
        assert!(!required, "there is no {name}");
        println!("{name} is not at hand: skipped");
    }
    found
}

impl Proxy {
    /// Starts a proxy with the shipped configuration; only ports, certificate and the service's address differ.
    /// `None` if it is not installed.
    async fn start(kind: Kind, service: &str) -> Option<Self> {
        let folder = dikala_testkit::folder();
        let (plain, tls) = (free_port(), free_port());
        let at = folder.path().to_str().unwrap().to_owned();
        for (name, content) in [
            ("cert.pem", certificate::SERVER),
            ("cert.key", certificate::SERVER_KEY),
            (
                "both.pem",
                &[certificate::SERVER, certificate::SERVER_KEY].concat(),
            ),
        ] {
            fs::write(folder.path().join(name), content).unwrap();
        }
        let mut command = match kind {
            Nginx => {
                let mut command = Command::new(program("nginx")?);
                let file = nginx(&at, service, plain, tls);
                command.args(["-p", &at, "-e", &format!("{at}/error.log"), "-c", &file]);
                command
            }
            Haproxy => {
                let mut command = Command::new(program("haproxy")?);
                command.args(["-db", "-f", &haproxy(&at, service, plain, tls)]);
                command
            }
        };
        let child = command.stdout(Stdio::null()).spawn().unwrap();
        let proxy = Self {
            child,
            http: format!("http://127.0.0.1:{plain}"),
            https: format!("https://localhost:{tls}"),
            _folder: folder,
        };
        proxy.answers(200).await;
        Some(proxy)
    }

    /// Waits until the service's readiness is seen through the proxy.
    async fn answers(&self, status: u16) {
        let rest = Rest::new(&self.https);
        eventually(&format!("{status} through the proxy"), async || {
            let get = awc::http::Method::GET;
            let answer = rest.try_send(get, "/health/ready", None).await.ok()?;
            (answer.status == status).then_some(())
        })
        .await;
    }
}

/// The shipped file in a main configuration that needs no privileges and writes to its folder only.
fn nginx(at: &str, service: &str, plain: u16, tls: u16) -> String {
    let site = shipped(
        "nginx/dikala.conf",
        &[
            ("    listen [::]:80;\n", ""),
            ("    listen [::]:443 ssl http2;\n", ""),
            ("listen 80;", &format!("listen 127.0.0.1:{plain};")),
            (
                "listen 443 ssl http2;",
                &format!("listen 127.0.0.1:{tls} ssl http2;"),
            ),
            ("voice.example.com;", "localhost;"),
            (
                "/etc/ssl/dikala/voice.example.com.pem",
                &format!("{at}/cert.pem"),
            ),
            (
                "/etc/ssl/dikala/voice.example.com.key",
                &format!("{at}/cert.key"),
            ),
            (SERVICE, service),
        ],
    );
    fs::write(format!("{at}/dikala.conf"), site).unwrap();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|what| format!("{what}_temp_path {at}/{what};\n"))
        .collect();
    let main = format!(
        "daemon off;\nmaster_process off;\npid {at}/nginx.pid;\nerror_log {at}/error.log;\n\
         events {{ worker_connections 512; }}\nhttp {{\naccess_log off;\n{temporary}include {at}/dikala.conf;\n}}\n"
    );
    let file = format!("{at}/nginx.conf");
    fs::write(&file, main).unwrap();
    file
}

fn haproxy(at: &str, service: &str, plain: u16, tls: u16) -> String {
    let text = shipped(
        "haproxy/haproxy.cfg",
        &[
            ("    user haproxy\n    group haproxy\n", ""),
            // Fewer than an address begins in a test, and more than it may have.
            ("maxconn 9000", "maxconn 300"),
            (":::80 v4v6", &format!("127.0.0.1:{plain}")),
            (":::443 v4v6", &format!("127.0.0.1:{tls}")),
            ("/etc/haproxy/dikala.pem", &format!("{at}/both.pem")),
            (SERVICE, service),
        ],
    );
    let file = format!("{at}/haproxy.cfg");
    fs::write(&file, text).unwrap();
    file
}

/// A world whose service trusts the proxy.
macro_rules! behind {
    ($kind:expr, $setup:expr) => {{
        let world = world!(Sqlite, $setup.set("http.trusted_proxies", "127.0.0.1"));
        let service = world.server.http.trim_start_matches("http://").to_owned();
        let Some(proxy) = Proxy::start($kind, &service).await else {
            return;
        };
        (world, proxy)
    }};
}

#[rstest]
#[actix_web::test]
async fn calls_and_events_come_through(#[values(Nginx, Haproxy)] kind: Kind) {
    let (mut world, proxy) = behind!(kind, WorldSetup::new());
    let plain = Rest::new(&proxy.http).get("/docs?a=b").await;
    assert_eq!(plain.status, 308, "{}", plain.text);
    let leads = plain.header("location").unwrap();
    assert!(
        leads.starts_with("https://") && leads.ends_with("/docs?a=b"),
        "{leads}"
    );

    let tenant = &world.tenant;
    let mut stream = rest::client(None)
        .get(format!("{}/api/v1/events/stream", proxy.https))
        .insert_header(("x-api-key", &*tenant.key))
        .send()
        .await
        .unwrap();
    assert_eq!(stream.status(), StatusCode::OK);
    // The bridge's socket, over TLS.
    let bridge = TestBridge::open(&proxy.https, &tenant.token, Socket).await;
    let call = bridge.talk(&tenant.did).await;
    // Events arrive while the stream is open: the proxy does not buffer them.
    let mut told = String::new();
    while !(told.contains("call.answered") && told.contains(&call)) {
        let piece = timeout(dikala_testkit::PATIENCE, stream.next()).await;
        let piece = piece
            .expect("an event")
            .expect("the stream goes on")
            .unwrap();
        told.push_str(&String::from_utf8_lossy(&piece));
    }
    // An unsolicited command passes through, too.
    let api = Rest::new(&format!("{}/api/v1", proxy.https)).with("x-api-key", &tenant.key);
    api.post(&format!("/calls/{call}/hangup"), json!({}))
        .await
        .expect(202);
    bridge.command("hangup", &call).await;
    bridge.hang_up(&call).await;

    // A body that is too large gets the service's own error.
    let long = json!({"name": "x".repeat(300 << 10)});
    let refused = api.post("/agents", long).await.expect(413);
    assert_eq!(refused["error"]["code"], "body_too_large");

    // A stop reaches the bridge, and the service is found again afterwards.
    world.server.terminate().await;
    assert_eq!(
        bridge.closed().await,
        BridgeSocketEnd(Some(CloseCode::Away))
    );
    world.server.restart();
    proxy.answers(200).await;
    TestBridge::open(&proxy.https, &world.tenant.token, Socket).await;
}

/// The audio of a call, over the address that everything else has.
#[rstest]
#[actix_web::test]
async fn a_browser_talks_through_it(#[values(Nginx, Haproxy)] kind: Kind) {
    let setup = WorldSetup::new()
        .set("telephony.enabled", "true")
        .set("telephony.voice.provider", "scripted")
        .set("telephony.sip.listen", "udp://127.0.0.1:0")
        .minutes(10);
    let world = world!(Sqlite, setup);
    let service = world.server.http.strip_prefix("http://").unwrap();
    let Some(proxy) = Proxy::start(kind, service).await else {
        return;
    };
    let path = format!("/agents/{}/web-calls", world.tenant.agent);
    let made = world.tenant.api.post(&path, json!({})).await.expect(201);
    let token = made["token"].as_str().unwrap();
    let socket = proxy.https.replacen("https", "wss", 1);
    let opened = TestBrowser::open(&format!("{socket}/web/v1/call?token={token}")).await;
    let browser = opened.expect("a socket");
    let call = browser.ready().await;
    browser.hears_ms(1_000).await;
    browser.send(&json!({"type": "hangup"}));
    assert_eq!(browser.ended().await.0, "normal");
    assert_eq!(world.tenant.call_over(&call).await["status"], "ended");
}

/// A client's own `X-Forwarded-For` neither hides it nor charges others.
#[rstest]
#[actix_web::test]
async fn limits_are_those_of_the_client_and_not_of_what_he_says(
    #[values(Nginx, Haproxy)] kind: Kind,
) {
    let setup = WorldSetup::new().set("http.unauthenticated_requests_per_minute", 3);
    let (_world, proxy) = behind!(kind, setup);
    let base = format!("{}/api/v1", proxy.https.replace("localhost", "127.0.0.1"));
    let ask = async |from: &str, claimed: &str| {
        let from: IpAddr = from.parse().unwrap();
        let rest = Rest::from(Some(from), &base);
        let rest = rest
            .with("x-api-key", &well_made("dkl_"))
            .with("x-forwarded-for", claimed);
        rest.get("/agents").await.status
    };
    let mut statuses = Vec::new();
    for n in 0..6 {
        statuses.push(ask("127.0.0.2", &format!("6.6.6.{n}")).await);
    }
    assert_eq!(statuses, [401, 401, 401, 429, 429, 429]);
    assert_eq!(ask("127.0.0.3", "127.0.0.2").await, 401);
}

/// One address begins more requests and handshakes than the proxy of this test has connections, and ends none.
#[rstest]
#[actix_web::test]
async fn one_address_does_not_shut_the_door_for_others(#[values(Nginx, Haproxy)] kind: Kind) {
    const BEGUN: usize = 600;
    let (world, proxy) = behind!(kind, WorldSetup::new());
    let (_, port) = proxy.https.rsplit_once(':').unwrap();
    let address = format!("127.0.0.1:{port}").parse().unwrap();
    let (mut silent, mut begun) = (Vec::new(), Vec::new());
    for _ in 0..BEGUN {
        silent.extend(TcpStream::connect(address).await);
    }
    // Until the proxy takes no more.
    while begun.len() < BEGUN
        && let Ok(Ok(mut socket)) = timeout(Duration::from_secs(2), tls::connect(address)).await
    {
        let head = socket.write_all(b"GET / HTTP/1.1\r\nHost: ").await;
        begun.push(head.map(|()| socket));
    }
    let base = format!("{}/api/v1", proxy.https);
    let api = Rest::from(
        Some([127, 0, 0, 2].into()),
        &base.replace("localhost", "127.0.0.1"),
    );
    let api = api.with("x-api-key", &world.tenant.key);
    within(Duration::from_secs(15), "others are served", async || {
        let get = awc::http::Method::GET;
        let answer = api.try_send(get, "/agents", None).await.ok()?;
        (answer.status == 200).then_some(())
    })
    .await;
    drop((silent, begun));
}

/// One of two nodes, set up as in docs/deploying.md, dies: the next requests succeed.
#[rstest]
#[actix_web::test]
async fn what_a_node_does_not_take_goes_to_another(#[values(Nginx, Haproxy)] kind: Kind) {
    let mut world = world!(Postgres);
    let other = Server::start(world.server.installation.beside());
    let address = |server: &Server| server.http.trim_start_matches("http://").to_owned();
    let (first, second) = (address(&world.server), address(&other));
    let nodes = match kind {
        Nginx => format!("{first} max_fails=2 fail_timeout=2s;\n    server {second}"),
        Haproxy => format!("{first}\n    server second {second}"),
    };
    let Some(proxy) = Proxy::start(kind, &nodes).await else {
        return;
    };
    let tenant = &world.tenant;
    let api = Rest::new(&format!("{}/api/v1", proxy.https)).with("x-api-key", &tenant.key);
    let ask = async || {
        for n in 0..10 {
            api.get("/agents").await.expect(200);
            let agent = json!({"name": "Ayu", "systemPrompt": n.to_string()});
            api.post("/agents", agent).await.expect(201);
        }
    };
    ask().await;
    let call = {
        let bridge = TestBridge::open(&proxy.https, &tenant.token, Socket).await;
        bridge.talk(&tenant.did).await
    };
    world.server.kill9();
    ask().await;
    let bridge = TestBridge::open(&proxy.https, &tenant.token, Socket).await;
    bridge.hang_up(&call).await;
    let call = api.get(&format!("/calls/{call}")).await.expect(200);
    assert_eq!(call["status"], "ended");
}

#[actix_web::test]
async fn a_simulated_bridge_comes_through_with_an_authority_of_ones_own() {
    let (world, proxy) = behind!(Nginx, WorldSetup::new());
    let folder = dikala_testkit::folder();
    let file = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let authority = file("ca.pem", certificate::AUTHORITY);
    let nonsense = file("nonsense.pem", b"nonsense");
    let simulate = |more: &[&str]| {
        let tenant = &world.tenant;
        let arguments = [
            "simulate",
            "--url",
            &proxy.https,
            "--token",
            &tenant.token,
            "--did",
            &tenant.did,
            "--calls",
            "2",
            "--abandon",
            "0",
            "--talk-seconds",
            "0.1",
        ];
        world
            .server
            .installation
            .run(&[&arguments[..], more].concat())
    };
    let trusting = simulate(&["--ca-file", &authority]);
    assert_eq!(trusting.code, Some(0), "{trusting:?}");
    assert_eq!(world.tenant.calls().await.len(), 2);
    let strange = simulate(&[]);
    assert_eq!(strange.code, Some(1), "{strange:?}");
    let wrong = simulate(&["--ca-file", &nonsense]);
    assert_eq!(wrong.code, Some(1), "{wrong:?}");
    assert!(wrong.stderr.contains("--ca-file"), "{wrong:?}");
    assert_eq!(world.tenant.calls().await.len(), 2);
}
