//! Exchanges with servers that misbehave: each ends within its timeout and bounded memory, with the right reason.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use awc::http::{Method, header::HeaderMap};
use bytes::Bytes;
use dikala_entities::{Millis, OutboundUrl, TenantId, UrlPolicy};
use dikala_testkit::{ServerAnswer, TenantServer, certificate};

use super::{
    BlockedReason, ErrorKind, Exchange, Failure, Guard, Head, Outbound, OutboundClient, Permission,
    exchange,
    testing::{ClosedPort, SlowNames, local_outbound},
};

const BODY_MAX: usize = 16 * 1024;
/// A timeout longer than any exchange that ends.
const AMPLE: Duration = Duration::from_secs(20);
/// A timeout for exchanges that do not end.
const SHORT: Duration = Duration::from_millis(400);

fn post(url: &str) -> Head {
    Head {
        method: Method::POST,
        uri: url.parse().expect("an address"),
        headers: HeaderMap::new(),
    }
}

async fn ask(client: &OutboundClient, url: &str) -> Result<Exchange, Failure> {
    ask_within(AMPLE, client, url).await
}

async fn ask_within(
    limit: Duration,
    client: &OutboundClient,
    url: &str,
) -> Result<Exchange, Failure> {
    let body = Bytes::from_static(b"{}");
    exchange(client, post(url), body, BODY_MAX, limit).await
}

async fn play(play: ServerAnswer) -> Result<Exchange, Failure> {
    play_within(AMPLE, play).await
}

async fn play_within(limit: Duration, play: ServerAnswer) -> Result<Exchange, Failure> {
    let receiver = TenantServer::scripted(move |_| play.clone());
    ask_within(
        limit,
        &local_outbound().client(None, 8),
        receiver.outbound_url("/").as_str(),
    )
    .await
}

fn kind(answer: Result<Exchange, Failure>) -> ErrorKind {
    answer.expect_err("no answer").kind
}

#[actix::test]
async fn a_server_that_hangs_or_drips_is_cut_off_in_time() {
    for endless in [ServerAnswer::Hang, ServerAnswer::DripHead] {
        let answer = play_within(SHORT, endless).await;
        assert_eq!(kind(answer), ErrorKind::Timeout);
    }
    let raw = b"HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\nthe beginning".to_vec();
    let body = play_within(SHORT, ServerAnswer::Bytes(raw)).await;
    let expected = Failure {
        kind: ErrorKind::Timeout,
        status: Some(200),
        body: b"the beginning".to_vec(),
    };
    assert_eq!(body, Err(expected));
}

#[actix::test]
async fn a_body_without_end_is_cut_and_counts_by_its_status() {
    let answer = play(ServerAnswer::TenGigabytes).await.expect("an answer");
    assert_eq!((answer.status, answer.truncated), (200, true));
    assert_eq!(answer.body.len(), BODY_MAX);
}

#[actix::test]
async fn a_body_whose_connection_ends_too_soon_is_known_to_be_cut() {
    let sized = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"a\":1}";
    let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n7\r\n{\"a\":1}\r\n";
    let in_a_chunk = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n100\r\n{\"a\":1}";
    for cut in [&sized[..], chunked, in_a_chunk] {
        let answer = play(ServerAnswer::Raw(cut)).await.expect("an answer");
        assert_eq!((answer.status, answer.cut), (200, true));
        assert_eq!(answer.body, b"{\"a\":1}");
    }
    let to_the_end = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"a\":1}";
    let answer = play(ServerAnswer::Raw(to_the_end)).await;
    assert!(!answer.expect("an answer").cut);
}

#[actix::test]
async fn a_body_is_kept_as_it_came() {
    let exact = play(ServerAnswer::with(200, "", &vec![7; BODY_MAX]))
        .await
        .expect("an answer");
    assert_eq!((exact.body.len(), exact.truncated), (BODY_MAX, false));
    let more = play(ServerAnswer::with(200, "", &vec![7; BODY_MAX + 1]))
        .await
        .expect("an answer");
    assert_eq!((more.body.len(), more.truncated), (BODY_MAX, true));
    // The beginning of a gzip stream: kept, never decompressed.
    let gzip = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
    let packed = play(ServerAnswer::with(200, "content-encoding: gzip\r\n", &gzip))
        .await
        .expect("an answer");
    assert_eq!(packed.body, gzip);
    let bytes = play(ServerAnswer::with(
        500,
        "retry-after: 7\r\n",
        b"\xff\x00\xfe",
    ))
    .await
    .expect("an answer");
    assert_eq!((bytes.status, bytes.body), (500, b"\xff\x00\xfe".to_vec()));
    assert_eq!(bytes.retry_after.as_deref(), Some("7"));
}

#[actix::test]
async fn what_is_not_http_has_its_name() {
    assert_eq!(kind(play(ServerAnswer::Reset).await), ErrorKind::Reset);
    for bad in [
        &b"SSH-2.0-OpenSSH_9.9\r\n\r\n"[..],
        b"HTTP/1.1 200 OK\r\nbad header\r\n\r\n",
        b"HTTP/1.1 9999 X\r\n\r\n",
        b"\x00\x01\x02\r\n\r\n",
    ] {
        let answer = play(ServerAnswer::Bytes(bad.to_vec())).await;
        assert_eq!(kind(answer), ErrorKind::InvalidResponse, "{bad:?}");
    }
    let huge = [
        b"HTTP/1.1 200 OK\r\n".to_vec(),
        b"x-a: b\r\n".repeat(1_000_000),
    ]
    .concat();
    let kind = kind(play(ServerAnswer::Bytes(huge)).await);
    assert!(
        matches!(kind, ErrorKind::InvalidResponse | ErrorKind::Reset),
        "{kind:?}"
    );
}

#[actix::test]
async fn redirects_are_answers_and_nothing_is_asked_for_packed() {
    let receiver = TenantServer::scripted(|_| ServerAnswer::with(307, "location: /other\r\n", b""));
    let client = local_outbound().client(None, 8);
    for _ in 0..3 {
        let answer = ask(&client, receiver.outbound_url("/a").as_str())
            .await
            .expect("an answer");
        assert_eq!(answer.status, 307);
    }
    let seen = receiver.all();
    assert_eq!(seen.len(), 3);
    assert!(
        seen.iter()
            .all(|seen| seen.target() == "/a" && seen.method == "POST")
    );
    assert!(!seen[0].headers.contains_key("accept-encoding"));
    let agent = format!("Dikala/{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(seen[0].headers["user-agent"], agent);
}

#[actix::test]
async fn nobody_there_and_no_tls_have_their_names() {
    let nobody = ClosedPort::port();
    let url = format!("http://{}/", nobody.address);
    let client = local_outbound().client(None, 8);
    assert_eq!(kind(ask(&client, &url).await), ErrorKind::Connect);
    let plain = TenantServer::scripted(|_| ServerAnswer::Reset);
    // The receiver waits for the end of a head that never comes, so the handshake stalls.
    let url = format!("https://{}/", plain.address);
    let stalled = ask_within(SHORT, &client, &url).await;
    assert_eq!(kind(stalled), ErrorKind::Timeout);
    let babble = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = babble.local_addr().expect("an address");
    std::thread::spawn(move || {
        use std::io::Write;
        if let Ok((mut socket, _)) = babble.accept() {
            let _ = socket.write_all(b"this is not TLS at all\r\n\r\n");
        }
    });
    let refused = ask(&client, &format!("https://{address}/")).await;
    assert_eq!(kind(refused), ErrorKind::Tls);
    let unknown = ask(&client, "http://no-such-host.example.com/").await;
    assert!(matches!(kind(unknown), ErrorKind::Dns | ErrorKind::Timeout));
}

#[actix::test]
async fn an_address_that_is_not_public_is_never_dialled() {
    let receiver = TenantServer::scripted(|_| ServerAnswer::with(200, "", b""));
    let port = receiver.address.port();
    let strict = Outbound::new(
        Guard {
            allow_http: true,
            ..Guard::default()
        },
        None,
    )
    .expect("outbound");
    let client = strict.client(None, 8);
    for host in [
        "127.0.0.1",
        "localhost",
        "a.localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
    ] {
        let url = format!("http://{host}:{port}/");
        assert_eq!(
            kind(ask(&client, &url).await),
            ErrorKind::BlockedTarget,
            "{host}"
        );
    }
    let https_only = Outbound::new(
        Guard {
            allow_cidrs: vec!["127.0.0.0/8".parse().expect("a range")],
            ..Guard::default()
        },
        None,
    )
    .expect("outbound");
    let plain = ask(
        &https_only.client(None, 8),
        receiver.outbound_url("/").as_str(),
    )
    .await;
    assert_eq!(kind(plain), ErrorKind::BlockedTarget);
    assert!(receiver.all().is_empty());
}

#[actix::test]
async fn registration_and_delivery_give_the_same_verdict_in_every_spelling() {
    let guard = Guard {
        allow_http: true,
        ..Guard::default()
    };
    let strict = Outbound::new(guard, None).expect("outbound");
    let client = strict.client(None, 1);
    let tenant = TenantId::new(Millis::from_i64(1));
    for host in [
        "127.0.0.1",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0x7F.0x0.0x0.0x1",
        "0177.0.0.1",
        "017700000001",
        "0",
        "127.0.0.1.",
        "2130706433.",
        "localhost",
        "LOCALHOST.",
        "a.localhost",
        "ｌｏｃａｌｈｏｓｔ",
        "[::1]",
        "[::]",
        "[0:0:0:0:0:0:0:1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[0:0:0:0:0:ffff:7f00:0001]",
        "[::127.0.0.1]",
        "[fd00::1]",
        "[fe80::1]",
        "[fec0::1]",
        "[64:ff9b::7f00:1]",
        "[64:ff9b:1::a00:1]",
        "[2002:7f00:1::]",
        "[5f00::1]",
        "169.254.169.254",
        "2852039166",
        "0xa9.254.0251.254",
        "10.0.0.1",
        "100.64.0.1",
        "198.18.0.1",
        "240.0.0.1",
        "%31%32%37.0.0.1",
        "127%2e0%2E0.1",
        "１２７.0.0.1",
        "①②⑦.0.0.1",
        "127。0｡0．1",
    ] {
        for scheme in ["https", "http"] {
            let url = format!("{scheme}://{host}:4443/");
            let policy = UrlPolicy { allow_http: true };
            let parsed = OutboundUrl::parse(&url, policy).unwrap_or_else(|e| panic!("{url}: {e}"));
            let registered = strict.check_url(tenant, &parsed).await;
            assert_eq!(registered, Err(BlockedReason::NotPublic), "{url}");
            let delivered = kind(ask(&client, parsed.as_str()).await);
            assert_eq!(delivered, ErrorKind::BlockedTarget, "{url}");
        }
    }
    // Not valid addresses: they never reach a resolver that might interpret them.
    for host in [
        "256.0.0.1",
        "127.0.0.0.1",
        "0x100000000",
        "127.0.0.08",
        "[::1%25lo]",
        "[::ffff:0x7f.1]",
        "[127.0.0.1]",
        "127.0.0.1%00.example.com",
        "127.0.0.1%2f.example.com",
    ] {
        let url = OutboundUrl::parse(&format!("https://{host}/"), UrlPolicy::default());
        assert!(url.is_err(), "{host}: {url:?}");
    }
    for (host, verdict) in [
        ("intranet", BlockedReason::Internal),
        ("ip6-localhost", BlockedReason::Internal),
        ("metadata.google.internal", BlockedReason::Internal),
        ("no-such-host.invalid", BlockedReason::Internal),
        ("168.63.129.16", BlockedReason::NotPublic),
        ("example.com:22", BlockedReason::Port),
        ("8.8.8.8:6667", BlockedReason::Port),
    ] {
        let url = format!("https://{host}/");
        let parsed = OutboundUrl::parse(&url, UrlPolicy::default()).expect("an address");
        assert_eq!(
            strict.check_url(tenant, &parsed).await,
            Err(verdict),
            "{url}"
        );
        let delivered = kind(ask(&client, &url).await);
        assert_eq!(delivered, ErrorKind::BlockedTarget, "{url}");
    }
    for host in ["8.8.8.8", "[2606:4700::1111]", "no-such-host.example.com"] {
        let url = OutboundUrl::parse(&format!("https://{host}/"), UrlPolicy::default());
        assert_eq!(
            strict.check_url(tenant, &url.expect("a URL")).await,
            Ok(()),
            "{host}"
        );
    }
}

#[test]
fn an_authority_file_that_holds_none_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ca.pem");
    assert!(Outbound::new(Guard::default(), Some(&path)).is_err());
    std::fs::write(&path, "nothing").expect("a file");
    assert!(Outbound::new(Guard::default(), Some(&path)).is_err());
}

/// One TLS exchange on a thread of its own, with the test kit's certificate (for `localhost` and its addresses, valid
/// for a century).
fn tls_server(host: &str) -> std::net::SocketAddr {
    tls_server_saying(host, b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nsecure")
}

/// As above with another answer. The connection ends without a TLS close.
fn tls_server_saying(host: &str, answer: &'static [u8]) -> std::net::SocketAddr {
    use std::io::{Read, Write};

    use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};

    let certificate = CertificateDer::from_pem_slice(certificate::SERVER);
    let key = PrivateKeyDer::from_pem_slice(certificate::SERVER_KEY);
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.expect("a certificate")],
            key.expect("a key"),
        )
        .expect("a configuration");
    let listener = std::net::TcpListener::bind((host, 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        let (socket, _) = listener.accept().expect("a connection");
        let connection = rustls::ServerConnection::new(config.into()).expect("a connection");
        let mut stream = rustls::StreamOwned::new(connection, socket);
        if stream.read(&mut [0; 4096]).is_ok() {
            let _ = stream.write_all(b"HTTP/1.1 103 Early Hints\r\n\r\n");
            let _ = stream.write_all(answer);
            let _ = stream.flush();
            // Reads what the client still sends; otherwise the system would reset the connection and lose the
            // answer.
            let _ = stream.sock.shutdown(std::net::Shutdown::Write);
            let _ = std::io::copy(&mut stream.sock, &mut std::io::sink());
        }
    });
    address
}

#[actix::test]
async fn tls_trusts_the_operators_authority_and_nobody_unknown() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = folder.path().join("ca.pem");
    std::fs::write(&authority, certificate::AUTHORITY).expect("a file");
    let loopback = || Guard {
        allow_cidrs: vec![
            "127.0.0.0/8".parse().expect("v4"),
            "::1/128".parse().expect("v6"),
        ],
        ..Guard::default()
    };
    let url = || format!("https://localhost:{}/", tls_server("127.0.0.1").port());
    let trusting = Outbound::new(loopback(), Some(&authority)).expect("outbound");
    let answer = ask(&trusting.client(None, 1), &url())
        .await
        .expect("an answer");
    assert_eq!(
        (answer.status, answer.body.as_slice()),
        (200, &b"secure"[..])
    );
    if std::net::TcpListener::bind("[::1]:0").is_ok() {
        for host in ["127.0.0.1", "::1"] {
            let url = format!("https://{}/", tls_server(host));
            let answer = ask(&trusting.client(None, 1), &url).await;
            assert_eq!(answer.expect("an answer").body, b"secure", "{url}");
        }
    }
    let wary = Outbound::new(loopback(), None).expect("outbound");
    assert_eq!(
        kind(ask(&wary.client(None, 1), &url()).await),
        ErrorKind::Tls
    );
}

/// As over plain TCP, the connection's end completes an answer without another end. A body that breaks off does not
/// invalidate the head, and is known to be cut.
#[actix::test]
async fn over_tls_an_answer_may_end_with_the_connection_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = folder.path().join("ca.pem");
    std::fs::write(&authority, certificate::AUTHORITY).expect("a file");
    let guard = Guard {
        allow_cidrs: vec!["127.0.0.0/8".parse().expect("a range")],
        ..Guard::default()
    };
    let outbound = Outbound::new(guard, Some(&authority)).expect("outbound");
    let client = outbound.client(None, 1);
    let url = |answer| {
        let port = tls_server_saying("127.0.0.1", answer).port();
        format!("https://127.0.0.1:{port}/")
    };
    let whole = ask(&client, &url(b"HTTP/1.1 200 OK\r\n\r\nall of it")).await;
    let whole = whole.expect("an answer");
    assert_eq!(
        (whole.status, whole.body.as_slice()),
        (200, &b"all of it"[..])
    );
    let no_head = ask(&client, &url(b"HTTP/1.1 200 OK\r\nserver: x\r\n")).await;
    assert_eq!(kind(no_head), ErrorKind::Reset);
    // The head has the status, as over plain TCP.
    let sized = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nall";
    let broken = ask(&client, &url(sized)).await.expect("an answer");
    assert_eq!((broken.status, broken.body.as_slice()), (200, &b"all"[..]));
    assert_eq!((whole.cut, broken.cut), (false, true));
}

/// The permission is granted at first and withdrawn while connecting: the last moment counts.
#[actix::test]
async fn a_request_that_may_not_go_out_any_more_is_not_sent_when_it_is_connected() {
    let receiver = TenantServer::scripted(|_| ServerAnswer::with(200, "", b""));
    let names = SlowNames::start();
    let may = Arc::new(AtomicBool::new(true));
    let asked = Arc::clone(&may);
    let permission = Permission::only_while(move || asked.load(SeqCst));
    let client = names.outbound.permitted(permission).client(None, 8);
    for (withdrawn, requests) in [(false, 1), (true, 1)] {
        may.store(!withdrawn, SeqCst);
        let url = SlowNames::url(&receiver, "quick");
        let answer = ask(&client, url.as_str()).await;
        assert_eq!(answer.is_err(), withdrawn, "on a connection that is there");
        assert_eq!(receiver.all().len(), requests);
    }
    may.store(true, SeqCst);
    let late = SlowNames::url(&receiver, "hang");
    let asking = actix_rt::spawn(async move { ask(&client, late.as_str()).await });
    names.wait_for(1).await;
    may.store(false, SeqCst);
    drop(names);
    let answer = asking.await.expect("it ran");
    assert_eq!(kind(answer), ErrorKind::Busy);
    assert_eq!(receiver.all().len(), 1);
}
