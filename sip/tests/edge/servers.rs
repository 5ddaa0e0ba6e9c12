//! Servers of a trunk that the DNS names (RFC 3263): those of its domain, and the next one after a failure.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use dikala_sip::settings::{OutboundSettings, RegisterSettings};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, UdpSocket},
    task::JoinHandle,
};

use crate::support::{CallBehaviour, ScriptedPhone, TestEdge, eventually, header, offer, port};

const SRV: [u8; 2] = [0, 33];

/// A nameserver whose only records are these servers of `_sip._udp` and `_sip._tcp` of `trunk.example`, the first preferred.
/// `whole`: its answer is too long for a datagram.
struct Nameserver {
    servers: Arc<Mutex<Vec<SocketAddr>>>,
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
        let names = [
            b"\x04_sip\x04_udp\x05trunk\x07example\x00",
            b"\x04_sip\x04_tcp\x05trunk\x07example\x00",
        ];
        let is_of = |name: &&[u8; 25]| {
            question[12..].starts_with(&name[..]) && question[12 + name.len()..].starts_with(&SRV)
        };
        if names.iter().any(is_of) {
            let servers = self.servers.lock().unwrap();
            answer[7] = u8::try_from(servers.len()).unwrap();
            for (priority, server) in (1_u16..).zip(&*servers) {
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
    // The name of the question; SRV, the Internet, not to be kept.
    let head = [0xc0, 12, 0, 33, 0, 1, 0, 0, 0, 0];
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
        let servers = Arc::new(Mutex::new(servers.collect()));
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

/// A carrier adds servers while our connection to the registrar stays open.
#[tokio::test(flavor = "multi_thread")]
async fn servers_that_a_registrar_adds_may_call_although_the_connection_stays() {
    let listener = TcpListener::bind("127.0.0.5:0").await.unwrap();
    let first = listener.local_addr().unwrap();
    let servers = Arc::new(Mutex::new(vec![first]));
    let dns = Nameserver {
        servers: servers.clone(),
        whole: false,
    };
    let (nameserver, _served) = dns.serve().await;
    let bench = TestEdge::with(CallBehaviour::Ring, 10, |sip| {
        sip.nameservers = vec![nameserver];
        sip.trunks[0].addresses = Vec::new();
        sip.trunks[0].register = Some(RegisterSettings {
            registrar: "sip:trunk.example;transport=tcp".to_owned(),
            expires_seconds: 2,
            ..RegisterSettings::default()
        });
    })
    .await;
    let (stream, _) = listener.accept().await.unwrap();
    let mut registrar = ScriptedPhone::over("TCP", Box::new(stream), first, bench.udp());
    let mut added = ScriptedPhone::udp_from("127.0.0.6", bench.udp()).await;
    granted(&mut registrar).await;
    servers.lock().unwrap().push(added.local);
    for _ in 0..2 {
        granted(&mut registrar).await;
    }
    eventually_admitted(&mut added).await;
    // Without an answer of the DNS both stay.
    servers.lock().unwrap().clear();
    for _ in 0..2 {
        granted(&mut registrar).await;
    }
    eventually_admitted(&mut added).await;
}

/// Behind an outbound proxy the registrar itself may call, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_registrar_behind_a_proxy_may_call() {
    let proxy = UdpSocket::bind("127.0.0.5:0").await.unwrap();
    let place = format!("sip:{}", proxy.local_addr().unwrap());
    let bench = TestEdge::with(CallBehaviour::Ring, 10, |sip| {
        sip.trunks[0].addresses = Vec::new();
        sip.trunks[0].register = Some(RegisterSettings {
            registrar: "sip:127.0.0.7:5070".to_owned(),
            proxy: Some(place),
            expires_seconds: 600,
            ..RegisterSettings::default()
        });
    })
    .await;
    let mut proxy = ScriptedPhone::at(proxy, bench.udp()).await;
    granted(&mut proxy).await;
    for host in ["127.0.0.5", "127.0.0.7"] {
        let mut caller = ScriptedPhone::udp_from(host, bench.udp()).await;
        eventually_admitted(&mut caller).await;
    }
}

/// Grants the next REGISTER.
async fn granted(registrar: &mut ScriptedPhone) {
    let register = registrar.expect("REGISTER ").await;
    let accepted = registrar.response(&register, "200 OK", "r", "");
    registrar.send(&accepted).await;
}

/// Calls until the response to the REGISTER has been handled.
async fn eventually_admitted(caller: &mut ScriptedPhone) {
    for _ in 0..10 {
        caller.cseq += 1;
        let invite = caller.request("INVITE", "", &offer(40_000));
        caller.send(&invite).await;
        let mut answer = caller.answered("SIP/2.0 ").await;
        if answer.starts_with("SIP/2.0 100") {
            answer = caller.answered("SIP/2.0 180").await;
        }
        if answer.starts_with("SIP/2.0 180") {
            caller.call_id = format!("{:x}@phone", rand::random::<u64>());
            caller.to = format!("<sip:{}@{}>", caller.did, caller.edge);
            return;
        }
        caller.to = format!("<sip:{}@{}>", caller.did, caller.edge);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{} may not call", caller.local);
}
