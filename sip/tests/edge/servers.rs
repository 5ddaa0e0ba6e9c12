//! Servers of a trunk that the DNS names (RFC 3263): those of its domain, and the next one after a failure.

use std::{net::SocketAddr, time::Duration};

use dikala_sip::settings::{OutboundSettings, RegisterSettings};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, UdpSocket},
    task::JoinHandle,
};

use crate::support::{CallBehaviour, ScriptedPhone, TestEdge, eventually, header, offer, port};

const SRV: [u8; 2] = [0, 33];

/// A nameserver whose only records are these servers of `_sip._udp.trunk.example`, the first preferred. `whole`: its answer is
/// too long for a datagram.
struct Nameserver {
    servers: Vec<SocketAddr>,
    whole: bool,
}

impl Nameserver {
    /// Serves both transports. Returns its address.
    async fn serve(self) -> (SocketAddr, JoinHandle<()>) {
        let address = SocketAddr::from(([127, 0, 0, 1], port()));
        let datagrams = UdpSocket::bind(address).await.unwrap();
        let connections = TcpListener::bind(address).await.unwrap();
        let served = tokio::spawn(async move {
            let mut buffer = [0; 512];
            loop {
                tokio::select! {
                    received = datagrams.recv_from(&mut buffer) => {
                        let (length, from) = received.unwrap();
                        let mut answer = self.answer(&buffer[..length]);
                        if self.whole {
                            answer.truncate(length);
                            answer[2] |= 2;
                        }
                        datagrams.send_to(&answer, from).await.unwrap();
                    }
                    accepted = connections.accept() => {
                        let (mut stream, _) = accepted.unwrap();
                        let length = usize::from(stream.read_u16().await.unwrap());
                        stream.read_exact(&mut buffer[..length]).await.unwrap();
                        let answer = self.answer(&buffer[..length]);
                        stream.write_u16(answer.len().try_into().unwrap()).await.unwrap();
                        stream.write_all(&answer).await.unwrap();
                    }
                }
            }
        });
        (address, served)
    }

    fn answer(&self, question: &[u8]) -> Vec<u8> {
        let mut answer = question.to_vec();
        answer[2..4].copy_from_slice(&[0x81, 0x80]);
        let name = b"\x04_sip\x04_udp\x05trunk\x07example\x00";
        if question[12..].starts_with(name) && question[12 + name.len()..].starts_with(&SRV) {
            answer[7] = u8::try_from(self.servers.len()).unwrap();
            for (priority, server) in (1_u16..).zip(&self.servers) {
                answer.extend(service(priority, *server));
            }
        }
        answer
    }
}

/// An SRV record. Its target looks like an address, so that nothing else is looked up.
fn service(priority: u16, server: SocketAddr) -> Vec<u8> {
    let mut data = [priority, 0, server.port()].map(u16::to_be_bytes).concat();
    for label in server.ip().to_string().split('.') {
        data.push(u8::try_from(label.len()).unwrap());
        data.extend(label.as_bytes());
    }
    data.push(0);
    let length = u16::try_from(data.len()).unwrap().to_be_bytes();
    // The name of the question; SRV, the Internet, a minute.
    let head = [0xc0, 12, 0, 33, 0, 1, 0, 0, 0, 60];
    [&head[..], &length, &data].concat()
}

/// Two servers, and the nameserver that names them.
struct Servers {
    sockets: Vec<UdpSocket>,
    nameserver: SocketAddr,
    _served: JoinHandle<()>,
}

impl Servers {
    async fn new(whole: bool) -> Self {
        let mut sockets = Vec::new();
        for host in ["127.0.0.5", "127.0.0.6"] {
            sockets.push(UdpSocket::bind((host, 0)).await.unwrap());
        }
        let servers = sockets.iter().map(|socket| socket.local_addr().unwrap());
        let servers = servers.collect();
        let (nameserver, served) = Nameserver { servers, whole }.serve().await;
        Self {
            sockets,
            nameserver,
            _served: served,
        }
    }

    async fn phones(self, bench: &TestEdge) -> [ScriptedPhone; 2] {
        let mut sockets = self.sockets.into_iter();
        let (first, second) = (sockets.next().unwrap(), sockets.next().unwrap());
        let edge = bench.udp();
        [
            ScriptedPhone::at(first, edge).await,
            ScriptedPhone::at(second, edge).await,
        ]
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registration_is_tried_at_the_next_server_of_the_domain() {
    let servers = Servers::new(false).await;
    let bench = TestEdge::with(CallBehaviour::Ring, 10, |sip| {
        sip.nameservers = vec![servers.nameserver];
        sip.trunks[0].addresses = Vec::new();
        sip.trunks[0].register = Some(RegisterSettings {
            registrar: "sip:trunk.example".to_owned(),
            expires_seconds: 600,
            ..RegisterSettings::default()
        });
    })
    .await;
    let [mut first, mut second] = servers.phones(&bench).await;
    let register = first.expect("REGISTER sip:trunk.example ").await;
    let refused = first.response(&register, "503 Service Unavailable", "r", "");
    first.send(&refused).await;
    let register = second.expect("REGISTER sip:trunk.example ").await;
    let again = first.hears(Duration::from_millis(50)).await;
    assert_eq!(again, None, "it is not asked twice");
    let accepted = second.response(&register, "200 OK", "r", "");
    second.send(&accepted).await;
    eventually("it is registered", || {
        bench.edge.statistics().registered_trunks == 1
    })
    .await;
    // Both are the registrar's, so both may call.
    for server in [&mut first, &mut second] {
        let invite = server.request("INVITE", "", &offer(40_000));
        server.send(&invite).await;
        server.expect("SIP/2.0 180").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_is_called_over_the_next_server_of_the_domain() {
    let servers = Servers::new(true).await;
    let transferring = CallBehaviour::Transfer("+62811111".to_owned());
    let bench = TestEdge::with(transferring, 10, |sip| {
        sip.nameservers = vec![servers.nameserver];
        sip.trunks[0].outbound = OutboundSettings {
            uri: Some("sip:trunk.example".to_owned()),
            ..OutboundSettings::default()
        };
    })
    .await;
    let [mut first, mut second] = servers.phones(&bench).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    phone.call("", &offer(40_000)).await;
    let invite = first.expect("INVITE sip:+62811111@trunk.example ").await;
    let refused = first.response(&invite, "503 Service Unavailable", "r", "");
    first.send(&refused).await;
    first.expect("ACK ").await;
    let again = second.expect("INVITE sip:+62811111@trunk.example ").await;
    assert_eq!(header(&again, "Call-ID"), header(&invite, "Call-ID"));
    let accepted = second.response(&again, "200 OK", "person", &offer(40_002));
    second.send(&accepted).await;
    second.expect("ACK ").await;
    phone.hang_up().await;
    second.expect("BYE ").await;
}
