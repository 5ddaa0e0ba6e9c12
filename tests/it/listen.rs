//! `dikala listen` and `dikala trigger`: a tenant's events on a developer's machine.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::Write,
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Stdio},
    time::Instant,
};

use socket2::{Domain, Socket as Socket2, Type};

use dikala_testkit::{PATIENCE, within};

use crate::support::{
    prelude::*,
    server::{assert_fails, finished, interrupt},
    world::{HOOK, SECRET},
};

const LOCAL: &str = "/local";

/// A running `dikala listen` that forwards to the receiver; killed when dropped.
struct Listener {
    child: Child,
    printed: PathBuf,
    said: PathBuf,
}

impl Listener {
    fn start(world: &TestWorld, options: &[&str]) -> Self {
        let folder = world.server.installation.folder.path();
        let (printed, said) = (folder.join("listen.out"), folder.join("listen.err"));
        let target = world.receiver.url(LOCAL);
        let arguments = [
            &[
                "listen",
                "--url",
                &world.server.http,
                "--key",
                &world.tenant.key,
            ],
            &["--forward-to", &*target][..],
            options,
        ]
        .concat();
        let child = world
            .server
            .installation
            .command(&arguments)
            .stdout(File::create(&printed).unwrap())
            .stderr(File::create(&said).unwrap())
            .spawn()
            .unwrap();
        Self {
            child,
            printed,
            said,
        }
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap()
    }

    /// Its signing secret.
    async fn secret(&self) -> String {
        eventually("the secret", async || {
            let said = self.said();
            let (_, secret) = said.split_once("the secret ")?;
            secret.split_once('\n').map(|(secret, _)| secret.to_owned())
        })
        .await
    }

    fn printed(&self) -> String {
        fs::read_to_string(&self.printed).unwrap()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Triggers samples until the listener forwards one: from then on it follows.
async fn following(world: &TestWorld) {
    let installation = &world.server.installation;
    eventually("the listener to follow", async || {
        let tried = installation.run(&trigger(world, "credits.low"));
        assert_eq!(tried.code, Some(0), "{tried:?}");
        (!world.receiver.received(LOCAL).is_empty()).then_some(())
    })
    .await;
}

fn trigger<'a>(world: &'a TestWorld, kind: &'a str) -> Vec<&'a str> {
    let (http, key) = (&*world.server.http, &*world.tenant.key);
    vec!["trigger", kind, "--url", http, "--key", key]
}

/// Requests that are no samples.
fn real(received: &[ReceivedRequest]) -> impl Iterator<Item = &ReceivedRequest> {
    received
        .iter()
        .filter(|request| !request.headers.contains_key("x-service-test"))
}

#[rstest]
#[actix_web::test]
async fn what_a_webhook_gets_a_listener_gets_through_a_crash_of_the_service(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let mut world = world!(store);
    let mut listener = Listener::start(&world, &[]);
    following(&world).await;
    let secret = listener.secret().await;
    assert!(secret.starts_with("lsn_"), "{secret}");
    let other = world.another_tenant(10).await;

    for crash in [false, true] {
        if crash {
            world.server.kill9();
            world.server.restart();
        }
        // The listener may be disconnected meanwhile.
        let bridge = world.tenant.bridge(Socket).await;
        let theirs = other.bridge(Socket).await;
        let call = bridge.talk(&world.tenant.did).await;
        let foreign = theirs.ring(&other.did).await;
        bridge.hang_up(&call).await;
        theirs.hang_up(&foreign).await;
        world.event("call.ended", &call).await;
    }
    // Some may have arrived twice around the crash.
    let mut delivered = world.receiver.received(HOOK);
    let mut seen = HashSet::new();
    delivered.retain(|request| seen.insert(request.header("webhook-id").to_owned()));
    assert_eq!(delivered.len(), 6);
    let all = |received: &[ReceivedRequest]| real(received).count() >= 6;
    let passed = world.receiver.wait_until(LOCAL, "all events", all).await;
    for (passed, delivered) in real(&passed).zip(&delivered) {
        assert_eq!(passed.event(&secret).id, delivered.event(SECRET).id);
        assert_eq!(passed.body, delivered.body);
        assert_eq!(passed.header("x-service-attempt"), "1");
    }
    assert_eq!(real(&passed).count(), 6, "each once");
    let printed = listener.printed();
    assert!(
        printed.contains("call.ended") && printed.contains("200 in "),
        "{printed}"
    );
    assert!(
        !printed.contains("+62"),
        "no numbers on the screen: {printed}"
    );

    interrupt(&listener.child);
    let status = within(PATIENCE, "the listener to end", async || {
        listener.child.try_wait().unwrap()
    });
    assert_eq!(status.await.code(), Some(0), "{}", listener.said());
}

#[actix_web::test]
async fn a_sample_reaches_listeners_and_no_webhook() {
    let world = world!(Sqlite);
    let _listener = Listener::start(&world, &["--secret", SECRET, "--json"]);
    following(&world).await;
    let sample = world.server.cli(&trigger(&world, "call.ended"));
    let id = sample["id"].as_str().unwrap();
    let is_it = |request: &ReceivedRequest| request.header("webhook-id") == id;
    let received = world
        .receiver
        .wait_until(LOCAL, "the sample", |received| received.iter().any(is_it))
        .await;
    let received = received.into_iter().find(is_it).unwrap();
    assert_eq!(received.header("x-service-test"), "true");
    assert_eq!(received.event(SECRET).data, sample["data"]);
    assert_eq!(world.receiver.received(HOOK).len(), 0);

    // A later listener with `--after` gets the rest.
    world.server.cli(&trigger(&world, "call.started"));
    let mut later = world
        .server
        .installation
        .command(&[
            "listen",
            "--url",
            &world.server.http,
            "--key",
            &world.tenant.key,
        ])
        .args(["--json", "--after", id])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let line = crate::support::server::wait_for_line(&mut later, &PathBuf::new(), |line| {
        serde_json::from_str::<Value>(line).ok()
    });
    assert_eq!(
        (&line["event"], &line["isTest"]),
        (&json!("call.started"), &json!(true))
    );
    assert_eq!(line["forwarded"], Value::Null);
    later.kill().unwrap();
    later.wait().unwrap();
}

#[actix_web::test]
async fn it_ends_with_who_reads_it() {
    let world = world!(Sqlite);
    let first = world.server.cli(&trigger(&world, "call.started"));
    let mut child = world
        .server
        .installation
        .command(&["listen", "--url", &world.server.http])
        .args(["--key", &world.tenant.key])
        .args(["--after", first["id"].as_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    world.server.cli(&trigger(&world, "call.ended"));
    let status = within(PATIENCE, "the listener to end", async || {
        child.try_wait().unwrap()
    });
    assert_eq!(status.await.code(), Some(0));
}

/// More than a socket's kernel buffers hold: the service must notice that nobody reads.
const UNREAD_EVENTS: &str = "
    WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 400)
    INSERT INTO events (id, tenant_id, kind, occurred_at, body, position, is_test)
    SELECT 'evt_' || printf('%026d', n), tenant_id, kind, occurred_at, '{\"x\":\"' || hex(zeroblob(30000)) || '\"}',
        position + n, FALSE
    FROM numbers, (SELECT * FROM events ORDER BY position DESC LIMIT 1)";

/// The server's number of sockets, once temporary ones are closed.
async fn idle_sockets(server: &Server) -> usize {
    let (mut count, mut since) = (server.sockets(), Instant::now());
    eventually("the server's sockets to stay the same", async || {
        if server.sockets() != count {
            (count, since) = (server.sockets(), Instant::now());
        }
        (since.elapsed() >= Duration::from_secs(2)).then_some(count)
    })
    .await
}

#[actix_web::test]
async fn who_does_not_read_is_cut_off() {
    let world = world!(Sqlite);
    let sample = world.server.cli(&trigger(&world, "credits.low"));
    world.server.installation.store.execute(UNREAD_EVENTS).await;
    let before = idle_sockets(&world.server).await;
    let socket = Socket2::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let address: SocketAddr = world.server.http["http://".len()..].parse().unwrap();
    socket.connect(&address.into()).unwrap();
    let request = format!(
        "GET /api/v1/events/stream HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\nlast-event-id: {}\r\n\r\n",
        world.tenant.key,
        sample["id"].as_str().unwrap()
    );
    (&socket).write_all(request.as_bytes()).unwrap();
    eventually("the stream", async || {
        (world.server.sockets() > before).then_some(())
    })
    .await;
    let patience = Duration::from_secs(90);
    within(patience, "the stream to be cut off", async || {
        (world.server.sockets() <= before).then_some(())
    })
    .await;
}

#[actix_web::test]
async fn what_cannot_work_says_so() {
    let world = world!(Sqlite);
    let (http, key) = (&*world.server.http, &*world.tenant.key);
    let revoked = world.server.cli(&[
        "key",
        "create",
        "--tenant",
        &world.tenant.id,
        "--name",
        "old",
    ]);
    world
        .server
        .cli(&["key", "revoke", revoked["id"].as_str().unwrap()]);
    let revoked = revoked["key"].as_str().unwrap();
    let other = if key.ends_with('x') { 'y' } else { 'x' };
    let typo = format!("{}{other}", &key[..key.len() - 1]);
    let unknown = format!("evt_{}", &world.tenant.id[4..]);
    for (arguments, code, names) in [
        (
            vec!["listen", "--url", http, "--key", revoked],
            6,
            "revoked",
        ),
        (vec!["listen", "--url", http, "--key", &typo], 2, "dkl_"),
        (
            vec!["listen", "--url", "http://127.0.0.1:1", "--key", key],
            1,
            "--url",
        ),
        (
            vec!["listen", "--url", http, "--key", key, "--after", &unknown],
            6,
            "Last-Event-ID",
        ),
        (
            vec![
                "listen",
                "--url",
                http,
                "--key",
                key,
                "--forward-to",
                "localhost:3000",
            ],
            2,
            "http://localhost:3000/hooks",
        ),
        (
            vec!["trigger", "call.ended", "--url", http, "--key", revoked],
            6,
            "revoked",
        ),
        (
            vec!["trigger", "call.end", "--url", http, "--key", key],
            2,
            "call.ended",
        ),
        (
            vec![
                "trigger",
                "call.ended",
                "--url",
                "http://127.0.0.1:1",
                "--key",
                key,
            ],
            1,
            "--url",
        ),
    ] {
        let child = world
            .server
            .installation
            .command(&arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let finished = finished(child, PATIENCE).await;
        assert_fails(&finished, &[code], names);
        assert!(!finished.stderr.contains(&typo), "no key on the screen");
    }
}
