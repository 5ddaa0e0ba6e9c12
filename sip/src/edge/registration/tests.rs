//! Tests of registrations.

use std::sync::Mutex;

use tokio::{
    net::UdpSocket,
    sync::mpsc,
    time::{Instant, sleep},
};

use super::*;
use crate::{
    edge::Edge,
    settings::{ListenAddress, SipSettings, SipTransport, Srtp, UserAgent},
};

/// A socket on a free port, with its address.
async fn socket() -> (UdpSocket, std::net::SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
    let address = socket.local_addr().expect("an address");
    (socket, address)
}

/// Answers questions for SRV records of `_sip._udp` with these servers, and others with nothing.
async fn serve_names(socket: UdpSocket, servers: Arc<Mutex<Vec<(Ipv4Addr, u16)>>>) {
    let mut buffer = [0; 512];
    loop {
        let (length, from) = socket.recv_from(&mut buffer).await.expect("a question");
        let question = &buffer[..length];
        let mut answer = question.to_vec();
        answer[2..4].copy_from_slice(&[0x81, 0x80]);
        let is_service = question[12..].starts_with(b"\x04_sip\x04_udp");
        if is_service && question.ends_with(&[0, 33, 0, 1]) {
            let servers = servers.lock().expect("the servers");
            for (ip, port) in servers.iter() {
                // The target looks like an address, so that nothing else is looked up.
                let mut data = [1, 0, *port].map(u16::to_be_bytes).concat();
                for octet in ip.octets().map(|octet| octet.to_string()) {
                    data.push(u8::try_from(octet.len()).expect("three digits"));
                    data.extend(octet.as_bytes());
                }
                data.push(0);
                answer.extend([0xc0, 12, 0, 33, 0, 1, 0, 0, 0, 0, 0]);
                answer.push(u8::try_from(data.len()).expect("a short name"));
                answer.extend(data);
                answer[7] += 1;
            }
        }
        socket.send_to(&answer, from).await.expect("sent");
    }
}

/// Accepts each REGISTER for ten minutes.
async fn serve_registrar(socket: UdpSocket) {
    let mut buffer = [0; 4_096];
    loop {
        let (length, from) = socket.recv_from(&mut buffer).await.expect("a request");
        let request = String::from_utf8_lossy(&buffer[..length]);
        let is_kept = |line: &&str| {
            let mut names = ["Via:", "From:", "To:", "Call-ID:", "CSeq:"].iter();
            names.any(|name| line.starts_with(*name))
        };
        let lines: Vec<_> = request.split("\r\n").filter(is_kept).collect();
        if !lines.is_empty() {
            let lines = lines.join("\r\n");
            let answer =
                format!("SIP/2.0 200 OK\r\n{lines}\r\nExpires: 600\r\nContent-Length: 0\r\n\r\n");
            let sent = socket.send_to(answer.as_bytes(), from).await;
            sent.expect("sent");
        }
    }
}

async fn edge(nameserver: std::net::SocketAddr) -> Edge {
    let settings = SipSettings {
        threads: 1,
        max_calls: 1,
        listen: vec![ListenAddress {
            transport: SipTransport::Udp,
            address: "127.0.0.1:0".parse().expect("an address"),
        }],
        public_address: None,
        local_networks: Vec::new(),
        tls: None,
        rtp_ports: 20_000..=31_999,
        codecs: Vec::new(),
        srtp: Srtp::Off,
        trunks: Vec::new(),
        nameservers: vec![nameserver],
    };
    let tls = rustls::ClientConfig::builder_with_provider(Arc::new(
        rustls::crypto::ring::default_provider(),
    ));
    let tls = tls.with_safe_default_protocol_versions().expect("versions");
    let tls = tls.with_root_certificates(rustls::RootCertStore::empty());
    let user_agent = UserAgent {
        name: "test",
        product: "Test/1",
    };
    let (incoming, _) = mpsc::channel(1);
    Edge::start(
        settings,
        user_agent,
        Arc::new(tls.with_no_client_auth()),
        incoming,
    )
    .await
    .expect("an edge")
}

/// The next renewal is nine minutes away.
#[tokio::test]
async fn new_addresses_of_the_registrar_are_admitted_between_renewals() {
    let (registrar, server) = socket().await;
    let (dns, nameserver) = socket().await;
    let localhost = Ipv4Addr::LOCALHOST;
    let servers = Arc::new(Mutex::new(vec![(localhost, server.port())]));
    let serving = [
        tokio::spawn(serve_registrar(registrar)),
        tokio::spawn(serve_names(dns, servers.clone())),
    ];
    let edge = edge(nameserver).await;
    let register = RegisterSettings {
        registrar: "sip:carrier.example".to_owned(),
        expires_seconds: 600,
        ..RegisterSettings::default()
    };
    let mut registration = Registration::new(edge.shared.clone(), &register).expect("valid");
    registration.ping = Duration::from_millis(50);
    let renewing = tokio::spawn(async move { registration.renew("carrier").await });
    let until = Instant::now() + Duration::from_secs(20);
    let eventually = async |ip: Ipv4Addr| {
        while !edge.shared.registrars.has("carrier", ip.into()) {
            assert!(Instant::now() < until, "{ip} is not admitted");
            sleep(Duration::from_millis(10)).await;
        }
    };
    eventually(localhost).await;
    let added = Ipv4Addr::new(192, 0, 2, 9);
    *servers.lock().expect("the servers") = vec![(added, 5060)];
    eventually(added).await;
    // The DNS does not name it any more, but we are registered there.
    assert!(edge.shared.registrars.has("carrier", localhost.into()));
    renewing.abort();
    for task in serving {
        task.abort();
    }
}

#[test]
fn a_failure_names_who_refuses() {
    for (error, words) in [
        (
            RegistrationError::Credentials(401),
            "the registrar refuses username or password",
        ),
        (
            RegistrationError::Credentials(407),
            "a proxy before the registrar refuses username or password",
        ),
        (
            RegistrationError::Challenge(407),
            "a proxy before the registrar asks for other credentials than a digest with MD5 or SHA-256",
        ),
    ] {
        assert_eq!(error.to_string(), words);
    }
}

#[test]
fn renewals_come_in_time() {
    for (granted, after) in [
        (3600, 3540),
        (160, 120),
        (120, 84),
        (60, 24),
        (30, 10),
        (4, 2),
        (1, 1),
        (0, 1),
    ] {
        assert_eq!(
            renewed_after(granted),
            Duration::from_secs(after),
            "{granted}"
        );
    }
}
