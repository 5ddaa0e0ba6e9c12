//! Hostile peers: connections that only begin TLS, registrars that challenge without end, and strangers who send requests into a
//! call.

use dikala_sip::settings::{Credentials, ListenAddress, RegisterSettings, SipTransport};
use tokio::{
    net::{TcpSocket, UdpSocket},
    time::timeout,
};
use tokio_rustls::TlsConnector;

use crate::support::{
    CallBehaviour, Certificate, PATIENCE, ScriptedPhone, TestEdge, eventually, header, offer,
    privately,
};

async fn connected(host: &str, edge: std::net::SocketAddr) -> tokio::net::TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    let from = format!("{host}:0").parse().unwrap();
    socket.bind(from).unwrap();
    socket.connect(edge).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_only_begins_tls_keeps_nobody_else_from_it() {
    let certificate = Certificate::of_testkit();
    let bench = TestEdge::with(CallBehaviour::Echo, 10, |sip| {
        sip.trunks = TestEdge::of_users();
        sip.tls = Some(certificate.files());
        sip.listen.push(ListenAddress {
            transport: SipTransport::Tls,
            address: "127.0.0.1:0".parse().unwrap(),
        });
    })
    .await;
    let edge = bench.address(SipTransport::Tls);
    let mut begun = Vec::new();
    for round in 0..40 {
        for last in 2..20 {
            let stream = connected(&format!("127.0.0.{last}"), edge).await;
            // The head of a record that never ends.
            let _ = stream.try_write(&[22, 3, 1, 2, 0, 1][..round % 7]);
            begun.push(stream);
        }
    }
    let tls = privately();
    let stream = connected("127.0.0.99", edge).await;
    let local = stream.local_addr().unwrap();
    let name = "localhost".try_into().unwrap();
    let secured = timeout(PATIENCE, TlsConnector::from(tls).connect(name, stream)).await;
    let mut phone = ScriptedPhone::over("TLS", Box::new(secured.unwrap().unwrap()), local, edge);
    let invite = phone.request("INVITE", "", &offer(40_000));
    phone.send(&invite).await;
    phone.expect("SIP/2.0 407").await;
}

/// The next REGISTER, and its source address.
async fn asked(socket: &UdpSocket) -> (String, std::net::SocketAddr) {
    let mut buffer = vec![0; 65_536];
    let received = timeout(PATIENCE, socket.recv_from(&mut buffer)).await;
    let (length, from) = received.unwrap().unwrap();
    (
        String::from_utf8_lossy(&buffer[..length]).into_owned(),
        from,
    )
}

/// An edge that registers here, and a phone that writes the answers.
async fn registering(socket: &UdpSocket) -> (TestEdge, ScriptedPhone) {
    let register = RegisterSettings {
        registrar: format!("sip:{}", socket.local_addr().unwrap()),
        credentials: Credentials {
            username: "dikala".to_owned(),
            password: "rahasia".to_owned(),
        },
        expires_seconds: 600,
        ..RegisterSettings::default()
    };
    let bench = TestEdge::with(CallBehaviour::Echo, 10, |sip| {
        sip.trunks[0].register = Some(register)
    })
    .await;
    let phone = ScriptedPhone::udp(bench.udp()).await;
    (bench, phone)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registrar_that_always_asks_anew_is_given_up_for_a_while() {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let (bench, phone) = registering(&socket).await;
    for nonce in 0..6 {
        let (request, from) = asked(&socket).await;
        let demand = format!(
            "WWW-Authenticate: Digest realm=\"r\", nonce=\"{nonce}\", qop=\"auth\", stale=true\r\n"
        );
        let answer = phone.response(&request, "401 Unauthorized", "", "");
        let answer = answer.replace("Contact:", &format!("{demand}Contact:"));
        socket.send_to(answer.as_bytes(), from).await.unwrap();
    }
    eventually("it is given up", || {
        let refused = bench.edge.statistics().refused;
        let found = refused.iter().find(|one| one.reason == "registration");
        found.is_some_and(|one| one.trunk == "here" && one.count == 1)
    })
    .await;
    assert!(socket.try_recv(&mut [0; 1]).is_err(), "it is asked on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registrar_makes_no_registration_last_for_years() {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let (_bench, phone) = registering(&socket).await;
    let (request, from) = asked(&socket).await;
    let answer = phone.response(&request, "423 Interval Too Brief", "", "");
    let answer = answer.replace("Contact:", "Min-Expires: 4294967295\r\nContact:");
    socket.send_to(answer.as_bytes(), from).await.unwrap();
    let (request, _) = asked(&socket).await;
    assert_eq!(header(&request, "Expires"), Some("86400"));
}

/// Requests of others change nothing in a call, wherever they come from.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_changed_by_its_own_caller_alone() {
    let bench = TestEdge::new(CallBehaviour::Echo).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    phone.call("", &offer(40_000)).await;
    let mut thief = ScriptedPhone::udp_from("127.0.0.2", bench.udp()).await;
    thief.call_id = phone.call_id.clone();
    let callee = phone.to.clone();
    let (before, _) = callee.split_once(";tag=").unwrap();
    for method in ["INVITE", "UPDATE", "INFO", "BYE"] {
        // The caller's own tag is known and the edge's is guessed; then the other way round.
        thief.to = format!("{before};tag=00000000000000000000");
        thief.cseq = 100;
        let forged = thief.request(method, "", &offer(40_002));
        thief.send(&forged).await;
        thief.expect("SIP/2.0 481").await;
        thief.to.clone_from(&callee);
        let forged = thief.request(method, "", &offer(40_002));
        let forged = forged.replace(";tag=phone", ";tag=thief");
        thief.send(&forged).await;
        thief.expect("SIP/2.0 481").await;
    }
    phone.ask("OPTIONS", "", "").await;
    phone.answered("SIP/2.0 200").await;
    phone.hang_up().await;
    assert_eq!(bench.calls().len(), 1);
}
