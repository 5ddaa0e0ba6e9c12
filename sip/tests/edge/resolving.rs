//! The look-up of a trunk's servers when the DNS fails for a part of its questions, or says that there is no service.

use std::{net::SocketAddr, time::Duration};

use dikala_sip::{
    find_targets,
    settings::{RegisterSettings, SipSettings},
};
use tokio::{
    net::{TcpListener, UdpSocket},
    time::{Instant, timeout},
};

use crate::{
    secured::TlsServer,
    servers::{A, NAPTR, SRV, address_record, asks_for, pointer, service, service_without},
    support::{CallBehaviour, ScriptedPhone, TestEdge, eventually, offer},
};

/// An answer to a question: its code, and its records.
type Answer = (u8, Vec<Vec<u8>>);

const NOTHING: Answer = (0, Vec::new());

/// A nameserver that answers as this function says; `None` is silence. Returns its address.
async fn nameserver(
    answer: impl Fn(&[u8]) -> Option<Answer> + Send + Sync + 'static,
) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut buffer = [0; 512];
        loop {
            let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
            let question = &buffer[..length];
            let Some((code, records)) = answer(question) else {
                continue;
            };
            let mut answer = question.to_vec();
            answer[2..4].copy_from_slice(&[0x81, 0x80 | code]);
            answer[7] = u8::try_from(records.len()).unwrap();
            answer.extend(records.concat());
            socket.send_to(&answer, from).await.unwrap();
        }
    });
    address
}

async fn found(nameservers: &[SocketAddr], address: &str) -> Result<Vec<String>, String> {
    let settings = SipSettings {
        nameservers: nameservers.to_vec(),
        ..TestEdge::settings(10)
    };
    let found = find_targets(&settings, address).await;
    let found = found.map_err(|error| error.to_string())?;
    let found = found.iter();
    Ok(found
        .map(|one| format!("{:?} {}", one.transport, one.address))
        .collect())
}

const TRUNK: &str = "sip:trunk.example";

/// Some nameservers know no NAPTR records, and some routers drop questions about them (RFC 3263, 4.1).
#[tokio::test]
async fn a_question_that_fails_does_not_hide_the_other_services() {
    let server = SocketAddr::from(([127, 0, 0, 6], 5070));
    // FORMERR, SERVFAIL, NOTIMP, REFUSED, and silence.
    for code in [Some(1), Some(2), Some(4), Some(5), None] {
        let refusing = move |question: &[u8]| {
            if asks_for(question, "trunk.example", NAPTR) {
                code.map(|code| (code, Vec::new()))
            } else if asks_for(question, "_sip._udp.trunk.example", SRV) {
                Some((0, vec![service(1, server)]))
            } else {
                Some(NOTHING)
            }
        };
        let servers = [nameserver(refusing).await, nameserver(refusing).await];
        let begun = Instant::now();
        let found = found(&servers, TRUNK).await;
        assert_eq!(found, Ok(vec!["Udp 127.0.0.6:5070".to_owned()]), "{code:?}");
        assert!(begun.elapsed() < Duration::from_secs(4), "{code:?}");
    }
    // The services over UDP are unknown, those over TCP are not.
    let refusing = move |question: &[u8]| {
        if asks_for(question, "_sip._udp.trunk.example", SRV) {
            Some((2, Vec::new()))
        } else if asks_for(question, "_sip._tcp.trunk.example", SRV) {
            Some((0, vec![service(1, server)]))
        } else {
            Some(NOTHING)
        }
    };
    let servers = [nameserver(refusing).await];
    let found = found(&servers, TRUNK).await;
    assert_eq!(found, Ok(vec!["Tcp 127.0.0.6:5070".to_owned()]));
}

/// RFC 2782: the root as target means that the service is decidedly not there.
#[tokio::test]
async fn a_declined_service_is_not_looked_for_at_the_addresses_of_the_name() {
    let declining = |declined: &'static [&'static str]| {
        move |question: &[u8]| {
            let is_declined = |transport: &&str| {
                let name = format!("_sip._{transport}.trunk.example");
                asks_for(question, &name, SRV)
            };
            if declined.iter().any(is_declined) {
                Some((0, vec![service_without()]))
            } else if asks_for(question, "trunk.example", A) {
                Some((0, vec![address_record([127, 0, 0, 9])]))
            } else {
                Some(NOTHING)
            }
        }
    };
    let over_udp = || Ok(vec!["Udp 127.0.0.9:5060".to_owned()]);
    let refused = Err(
        "the SRV record of its domain says that it has no such service (target \".\")".to_owned(),
    );
    for (declined, address, expected) in [
        (&[][..], TRUNK, over_udp()),
        (&["udp"][..], TRUNK, refused.clone()),
        (&["tcp"][..], TRUNK, over_udp()),
        (
            &["tcp"][..],
            "sip:trunk.example;transport=tcp",
            refused.clone(),
        ),
        (&["udp", "tcp"][..], TRUNK, refused.clone()),
    ] {
        let servers = [nameserver(declining(declined)).await];
        let found = found(&servers, address).await;
        assert_eq!(found, expected, "{declined:?} {address}");
    }
}

/// Servers of `trunk.example` over TLS and TCP, and a nameserver whose NAPTR records prefer TLS.
async fn preferring_tls() -> (TlsServer, TcpListener, SocketAddr) {
    let secured = TlsServer::at("127.0.0.5").await;
    let clear = TcpListener::bind("127.0.0.6:0").await.unwrap();
    let tls = SocketAddr::from(([127, 0, 0, 5], secured.port()));
    let tcp = clear.local_addr().unwrap();
    let dns = nameserver(move |question| {
        let records = if asks_for(question, "trunk.example", NAPTR) {
            vec![
                pointer(1, b"SIPS+D2T", "_sips._tcp.trunk.example"),
                pointer(2, b"SIP+D2T", "_sip._tcp.trunk.example"),
            ]
        } else if asks_for(question, "_sips._tcp.trunk.example", SRV) {
            vec![service(1, tls)]
        } else if asks_for(question, "_sip._tcp.trunk.example", SRV) {
            vec![service(1, tcp)]
        } else {
            Vec::new()
        };
        Some((0, records))
    });
    (secured, clear, dns.await)
}

async fn is_not_called(server: &TcpListener) {
    let called = timeout(Duration::from_millis(300), server.accept()).await;
    assert!(called.is_err(), "a connection without TLS was opened");
}

/// A server with a certificate of somebody else must not bring the password into the clear.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_refused_certificate_we_do_not_register_in_clear() {
    let (secured, clear, dns) = preferring_tls().await;
    let bench = TestEdge::with(CallBehaviour::Ring, 10, |sip| {
        sip.nameservers = vec![dns];
        sip.trunks[0].register = Some(RegisterSettings {
            registrar: TRUNK.to_owned(),
            ..RegisterSettings::default()
        });
    })
    .await;
    // The second try comes after 2 to 3 s.
    for _ in 0..2 {
        assert!(secured.shakes_hands().await.is_none(), "it is not trusted");
        is_not_called(&clear).await;
    }
    assert_eq!(bench.edge.statistics().registered_trunks, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_refused_certificate_nobody_is_called_in_clear() {
    let (secured, clear, dns) = preferring_tls().await;
    let transferring = CallBehaviour::Transfer("+62811111".to_owned());
    let bench = TestEdge::with(transferring, 10, |sip| {
        sip.nameservers = vec![dns];
        sip.trunks[0].outbound.uri = Some(TRUNK.to_owned());
    })
    .await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    phone.call("", &offer(40_000)).await;
    assert!(secured.shakes_hands().await.is_none(), "it is not trusted");
    is_not_called(&clear).await;
    eventually("the call to the person fails", || {
        bench.edge.statistics().persons.failed == 1
    })
    .await;
    phone.hang_up().await;
}
