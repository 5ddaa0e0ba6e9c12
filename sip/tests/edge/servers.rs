//! Servers of a trunk that the DNS names (RFC 3263): those of its domain, and the next one after a failure.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use dikala_sip::{
    find_targets,
    settings::{ListenAddress, OutboundSettings, RegisterSettings, SipSettings, SipTransport},
};
use rstest::rstest;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, UdpSocket},
    task::JoinHandle,
    time::timeout,
};

use crate::support::{
    CallBehaviour, PATIENCE, PhoneMedia, ScriptedPhone, TestEdge, eventually, header, offer, port,
};

pub const A: [u8; 2] = [0, 1];
pub const SRV: [u8; 2] = [0, 33];
pub const NAPTR: [u8; 2] = [0, 35];

/// A nameserver with these servers for `_sip._udp` and `_sip._tcp` of `trunk.example`, the first preferred. `pointed.example` has
/// them too, with NAPTR records that prefer TCP, and `alone.example` has the first one.
/// `whole`: its answer is too long for a datagram.
pub struct Nameserver {
    servers: Arc<Mutex<Vec<SocketAddr>>>,
    whole: bool,
    /// Questions so far.
    asked: Arc<AtomicUsize>,
}

/// A nameserver that answers nothing yet. Returns its socket and the address.
pub async fn silent() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

impl Nameserver {
    fn new(servers: Arc<Mutex<Vec<SocketAddr>>>, whole: bool) -> Self {
        Self {
            servers,
            whole,
            asked: Arc::default(),
        }
    }

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
        self.asked.fetch_add(1, Relaxed);
        let mut answer = question.to_vec();
        answer[2..4].copy_from_slice(&[0x81, 0x80]);
        let asks_for = |name: &str, kind: [u8; 2]| asks_for(question, name, kind);
        let has_service = |domain: &str| {
            let services = ["udp", "tcp"].map(|it| format!("_sip._{it}.{domain}"));
            services.iter().any(|service| asks_for(service, SRV))
        };
        let servers = self.servers.lock().unwrap();
        let most = match () {
            () if has_service("trunk.example") || has_service("pointed.example") => servers.len(),
            () if has_service("alone.example") => 1,
            () => 0,
        };
        answer[7] = u8::try_from(most).unwrap();
        for (priority, server) in (1_u16..).zip(servers.iter().take(most)) {
            answer.extend(service(priority, *server));
        }
        if asks_for("pointed.example", NAPTR) {
            answer[7] = 2;
            answer.extend(pointer(2, b"SIP+D2U", "_sip._udp.pointed.example"));
            answer.extend(pointer(1, b"SIP+D2T", "_sip._tcp.pointed.example"));
        }
        answer
    }
}

/// True if this question is for such records of the name.
pub fn asks_for(question: &[u8], name: &str, kind: [u8; 2]) -> bool {
    let name = dns_name(name);
    question[12..].starts_with(&name) && question[12 + name.len()..].starts_with(&kind)
}

/// An SRV record that says that there is no service.
pub fn service_without() -> Vec<u8> {
    record(SRV, &[0; 7])
}

pub fn address_record(ip: [u8; 4]) -> Vec<u8> {
    record(A, &ip)
}

/// An SRV record. Its target looks like an address, so that nothing else is looked up.
pub fn service(priority: u16, server: SocketAddr) -> Vec<u8> {
    let mut data = [priority, 0, server.port()].map(u16::to_be_bytes).concat();
    data.extend(dns_name(&server.ip().to_string()));
    record(SRV, &data)
}

/// A NAPTR record that leads to SRV records.
pub fn pointer(order: u16, service: &[u8], leads_to: &str) -> Vec<u8> {
    let mut data = [order, 0].map(u16::to_be_bytes).concat();
    data.extend(b"\x01s");
    data.push(u8::try_from(service.len()).unwrap());
    data.extend(service);
    // No regular expression.
    data.push(0);
    data.extend(dns_name(leads_to));
    record(NAPTR, &data)
}

fn dns_name(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in name.split('.') {
        bytes.push(u8::try_from(label.len()).unwrap());
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes
}

/// A record with the name of the question, not to be kept.
fn record(kind: [u8; 2], data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(data.len()).unwrap().to_be_bytes();
    [&[0xc0, 12][..], &kind, &[0, 1, 0, 0, 0, 0], &length, data].concat()
}

/// Two servers, and the nameserver that names them.
pub struct Servers {
    sockets: Vec<UdpSocket>,
    pub nameserver: SocketAddr,
    /// Those that it names.
    pub named: Arc<Mutex<Vec<SocketAddr>>>,
    /// Questions to it.
    pub asked: Arc<AtomicUsize>,
    _served: JoinHandle<()>,
}

impl Servers {
    pub async fn new(whole: bool) -> Self {
        let mut sockets = Vec::new();
        for host in ["127.0.0.5", "127.0.0.6"] {
            sockets.push(UdpSocket::bind((host, 0)).await.unwrap());
        }
        let servers = sockets.iter().map(|socket| socket.local_addr().unwrap());
        let named = Arc::new(Mutex::new(servers.collect()));
        let dns = Nameserver::new(named.clone(), whole);
        let asked = dns.asked.clone();
        let (nameserver, served) = dns.serve().await;
        Self {
            sockets,
            nameserver,
            named,
            asked,
            _served: served,
        }
    }

    pub async fn phones(self, bench: &TestEdge) -> [ScriptedPhone; 2] {
        let mut sockets = self.sockets.into_iter();
        let (first, second) = (sockets.next().unwrap(), sockets.next().unwrap());
        let edge = bench.udp();
        [
            ScriptedPhone::at(first, edge).await,
            ScriptedPhone::at(second, edge).await,
        ]
    }
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_registration_is_tried_at_the_next_server_of_the_domain(
    #[values("503 Service Unavailable", "500 Server Error", "408 Request Timeout")] refusal: &str,
) {
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
    let refused = first.response(&register, refusal, "r", "");
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

/// The registrar is called over the connection of the registration, and has a second server all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_person_is_called_over_the_next_server_after_the_one_that_is_connected() {
    let mut listeners = Vec::new();
    for host in ["127.0.0.5:0", "127.0.0.6:0"] {
        listeners.push(TcpListener::bind(host).await.unwrap());
    }
    let local = |listener: &TcpListener| listener.local_addr().unwrap();
    let named = listeners.iter().map(local).collect();
    let dns = Nameserver::new(Arc::new(Mutex::new(named)), false);
    let (nameserver, _served) = dns.serve().await;
    let transferring = CallBehaviour::Transfer("+62811111".to_owned());
    let bench = TestEdge::with(transferring, 10, |sip| {
        sip.nameservers = vec![nameserver];
        sip.trunks[0].addresses = Vec::new();
        sip.trunks[0].register = Some(RegisterSettings {
            registrar: "sip:trunk.example;transport=tcp".to_owned(),
            expires_seconds: 600,
            ..RegisterSettings::default()
        });
    })
    .await;
    let (stream, _) = listeners[0].accept().await.unwrap();
    let mut first = ScriptedPhone::over("TCP", Box::new(stream), local(&listeners[0]), bench.udp());
    granted(&mut first).await;
    eventually("it is registered", || {
        bench.edge.statistics().registered_trunks == 1
    })
    .await;
    first.call("", &offer(40_000)).await;
    let invite = first.expect("INVITE sip:+62811111@trunk.example").await;
    let refused = first.response(&invite, "503 Service Unavailable", "r", "");
    first.send(&refused).await;
    let (stream, _) = timeout(PATIENCE, listeners[1].accept())
        .await
        .expect("the second server is tried")
        .unwrap();
    let mut second =
        ScriptedPhone::over("TCP", Box::new(stream), local(&listeners[1]), bench.udp());
    let again = second.expect("INVITE sip:+62811111@trunk.example").await;
    let accepted = second.response(&again, "200 OK", "person", &offer(40_002));
    second.send(&accepted).await;
    second.expect("ACK ").await;
}

/// A person is not called twice: if the first server comes back, its call is cancelled, and hung up if it was answered.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_server_is_left_for_the_next_and_its_late_call_is_ended() {
    let (bench, [mut first, mut second], mut phone) =
        failing_over(["127.0.0.5", "127.0.0.6"], |_| {}).await;
    let invite = first.expect("INVITE ").await;
    let again = second.expect("INVITE ").await;
    assert_eq!(header(&again, "Call-ID"), header(&invite, "Call-ID"));
    let accepted = second.response(&again, "200 OK", "person", &offer(40_002));
    second.send(&accepted).await;
    second.expect("ACK ").await;
    let ringing = first.response(&invite, "180 Ringing", "late", "");
    first.send(&ringing).await;
    let cancel = first.expect("CANCEL ").await;
    assert_eq!(header(&cancel, "CSeq"), Some("1 CANCEL"));
    let cancelled = first.response(&cancel, "200 OK", "late", "");
    first.send(&cancelled).await;
    let accepted = first.response(&invite, "200 OK", "late", &offer(40_006));
    first.send(&accepted).await;
    first.expect("ACK ").await;
    let bye = first.expect("BYE ").await;
    first
        .send(&first.response(&bye, "200 OK", "late", ""))
        .await;
    eventually("it stands", || bench.is_joined()).await;
    phone.hang_up().await;
    second.expect("BYE ").await;
}

/// Without another server that can be reached, the silent one may still answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_server_is_kept_if_no_other_can_be_reached() {
    let (bench, [mut first, _], mut phone) = failing_over(["127.0.0.5", "127.0.0.6"], |sip| {
        // Its services over TCP are left, where nobody listens.
        sip.trunks[0].outbound.uri = Some("sip:alone.example".to_owned());
    })
    .await;
    let mut invite = String::new();
    // The fifth is sent after 7.5 s.
    for _ in 0..5 {
        invite = first.expect("INVITE ").await;
    }
    let accepted = first.response(&invite, "200 OK", "person", &offer(40_002));
    first.send(&accepted).await;
    first.expect("ACK ").await;
    eventually("it stands", || bench.is_joined()).await;
    phone.hang_up().await;
    first.expect("BYE ").await;
}

/// The domain prefers TCP, by its NAPTR records. The same address over UDP is another server.
#[tokio::test(flavor = "multi_thread")]
async fn the_dns_chooses_the_transport_and_another_one_after_a_failure() {
    let servers = Servers::new(false).await;
    let address = servers.named.lock().unwrap()[0];
    let connections = TcpListener::bind(address).await.unwrap();
    let bench = TestEdge::with(CallBehaviour::Ring, 10, |sip| {
        sip.nameservers = vec![servers.nameserver];
        sip.trunks[0].addresses = Vec::new();
        sip.trunks[0].register = Some(RegisterSettings {
            registrar: "sip:pointed.example".to_owned(),
            ..RegisterSettings::default()
        });
    })
    .await;
    let [mut first, _] = servers.phones(&bench).await;
    let accepted = timeout(PATIENCE, connections.accept()).await;
    let (mut connection, _) = accepted.unwrap().unwrap();
    let mut register = Vec::new();
    while !register.ends_with(b"\r\n\r\n") {
        register.push(connection.read_u8().await.unwrap());
    }
    let register = String::from_utf8(register).unwrap();
    assert!(
        register.starts_with("REGISTER sip:pointed.example "),
        "{register}"
    );
    // The connection stays open, so every later attempt would go there first.
    let refused = first.response(&register, "503 Service Unavailable", "r", "");
    connection.write_all(refused.as_bytes()).await.unwrap();
    first.expect("REGISTER sip:pointed.example ").await;
}

/// The transfer to a domain, with servers at these addresses, which the DNS names in this order.
async fn failing_over(
    hosts: [&str; 2],
    change: impl FnOnce(&mut SipSettings),
) -> (TestEdge, [ScriptedPhone; 2], ScriptedPhone) {
    let mut sockets = Vec::new();
    for host in hosts {
        sockets.push(UdpSocket::bind((host, 0)).await.unwrap());
    }
    let servers = sockets.iter().map(|socket| socket.local_addr().unwrap());
    let servers = Arc::new(Mutex::new(servers.collect()));
    let dns = Nameserver::new(servers, false);
    let (nameserver, _served) = dns.serve().await;
    let transferring = CallBehaviour::Transfer("+62811111".to_owned());
    let bench = TestEdge::with(transferring, 10, |sip| {
        sip.nameservers = vec![nameserver];
        sip.trunks[0].outbound.uri = Some("sip:trunk.example".to_owned());
        change(sip);
    })
    .await;
    let mut phones = Vec::new();
    for socket in sockets {
        phones.push(ScriptedPhone::at(socket, bench.udp()).await);
    }
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    phone.call("", &offer(40_000)).await;
    (bench, phones.try_into().ok().unwrap(), phone)
}

/// Redirects an INVITE to the address of `to`.
async fn redirect(from: &mut ScriptedPhone, invite: &str, to: &ScriptedPhone) {
    let contact = format!("Contact: <sip:budi@{}>", from.local);
    let moved = from.response(invite, "302 Moved", "person", "");
    let there = format!("Contact: <sip:+62811111@{}>", to.local);
    from.send(&moved.replace(&contact, &there)).await;
}

/// Contact, Via and SDP of an INVITE name this address of ours.
fn names(invite: &str, host: &str, edge: SocketAddr) {
    let family = if host.contains('[') { "IP6" } else { "IP4" };
    let bare = host.trim_matches(['[', ']']);
    let port = edge.port();
    let contact = format!("<sip:dikala@{host}:{port}>");
    assert_eq!(header(invite, "Contact"), Some(contact.as_str()));
    let via = format!("SIP/2.0/UDP {host}:{port};");
    assert!(header(invite, "Via").unwrap().starts_with(&via), "{invite}");
    let connection = format!("\r\nc=IN {family} {bare}\r\n");
    assert!(invite.contains(&connection), "{invite}");
    let origin = format!(" IN {family} {bare}\r\ns=");
    assert!(invite.contains(&origin), "{invite}");
}

/// The next server may be of another address family, and needs media sockets of it.
#[tokio::test(flavor = "multi_thread")]
async fn an_invite_to_the_next_server_names_our_addresses_for_it() {
    let (bench, [mut first, _], mut phone) = failing_over(["127.0.0.5", "127.0.0.6"], |sip| {
        sip.public_address = Some("203.0.113.7".to_owned());
        sip.listen.push(ListenAddress {
            transport: SipTransport::Udp,
            address: "[::1]:0".parse().unwrap(),
        });
    })
    .await;
    let edge = bench.edge.addresses().pop().unwrap().address;
    let mut second = ScriptedPhone::udp_from("::1", edge).await;
    let invite = first.expect("INVITE ").await;
    names(&invite, "203.0.113.7", first.edge);
    let ringing = first.response(&invite, "183 Session Progress", "r", &offer(40_004));
    first.send(&ringing).await;
    redirect(&mut first, &invite, &second).await;
    first.expect("ACK ").await;
    let again = second.expect("INVITE ").await;
    names(&again, "[::1]", second.edge);
    for name in ["Call-ID", "To"] {
        assert_eq!(header(&again, name), header(&invite, name));
    }
    let mut sound = PhoneMedia::at("::1").await;
    let answer = offer(sound.port()).replace("IN IP4 127.0.0.1", "IN IP6 ::1");
    let answer = answer.replace("RTP/AVP 0 8 101", "RTP/AVP 8 101");
    let accepted = second.response(&again, "200 OK", "person", &answer);
    second.send(&accepted).await;
    second.expect("ACK ").await;
    eventually("it stands", || bench.is_joined()).await;
    // Audio of the caller comes over IPv6.
    sound.send(&again).await;
    sound.pitch_of(3).await;
    phone.hang_up().await;
    second.expect("BYE ").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_in_a_local_network_is_told_the_local_address_in_its_turn() {
    let (_bench, [mut first, mut second], mut phone) =
        failing_over(["127.0.0.5", "127.0.0.6"], |sip| {
            sip.public_address = Some("203.0.113.7".to_owned());
            sip.local_networks = vec!["127.0.0.6/32".parse().unwrap()];
        })
        .await;
    let invite = first.expect("INVITE ").await;
    names(&invite, "203.0.113.7", first.edge);
    let refused = first.response(&invite, "503 Service Unavailable", "r", "");
    first.send(&refused).await;
    let again = second.expect("INVITE ").await;
    names(&again, "127.0.0.1", second.edge);
    // A redirection to the first server is built for it again.
    redirect(&mut second, &again, &first).await;
    let redirected = first.expect("INVITE sip:+62811111@127.0.0.5:").await;
    names(&redirected, "203.0.113.7", first.edge);
    assert_eq!(header(&redirected, "CSeq"), Some("3 INVITE"));
    phone.hang_up().await;
}

/// Nobody is called for a caller who has hung up meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_caller_may_hang_up_while_the_dns_is_silent() {
    let server = UdpSocket::bind("127.0.0.5:0").await.unwrap();
    let (dns, nameserver) = silent().await;
    let transferring = CallBehaviour::Transfer("+62811111".to_owned());
    let bench = TestEdge::with(transferring, 10, |sip| {
        sip.nameservers = vec![nameserver];
        sip.trunks[0].outbound.uri = Some("sip:trunk.example".to_owned());
    })
    .await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    phone.call("", &offer(40_000)).await;
    let mut question = [0; 512];
    let asked = timeout(PATIENCE, dns.recv_from(&mut question)).await;
    let (length, from) = asked.unwrap().unwrap();
    phone.hang_up().await;
    eventually("the call to the person is given up", || {
        bench.edge.statistics().persons.cancelled == 1
    })
    .await;
    // The answers come too late: no NAPTR record, and then a server.
    let servers = Arc::new(Mutex::new(vec![server.local_addr().unwrap()]));
    let late = Nameserver::new(servers, false);
    let answer = late.answer(&question[..length]);
    dns.send_to(&answer, from).await.unwrap();
    let pause = Duration::from_millis(300);
    let another = timeout(pause, dns.recv(&mut question)).await;
    assert!(another.is_err(), "the look-up goes on");
    let called = timeout(pause, server.recv(&mut question)).await;
    assert!(called.is_err(), "the person is called");
    assert_eq!(bench.edge.statistics().persons.failed, 0);
}

/// As `dikala check` prints them.
#[tokio::test]
async fn the_servers_of_a_domain_are_found_in_their_order() {
    let named = ["127.0.0.6:5070", "127.0.0.5:5060"].map(|text| text.parse().unwrap());
    let servers = Arc::new(Mutex::new(named.to_vec()));
    let (nameserver, _served) = Nameserver::new(servers, false).serve().await;
    let settings = SipSettings {
        nameservers: vec![nameserver],
        ..TestEdge::settings(10)
    };
    let found = async |address: &str| {
        let found = find_targets(&settings, address).await.unwrap();
        let found = found.iter();
        let written = found.map(|one| format!("{:?} {}", one.transport, one.address));
        written.collect::<Vec<_>>()
    };
    let (udp, tcp) = (
        ["Udp 127.0.0.6:5070", "Udp 127.0.0.5:5060"],
        ["Tcp 127.0.0.6:5070", "Tcp 127.0.0.5:5060"],
    );
    assert_eq!(found("sip:trunk.example").await, [udp, tcp].concat());
    assert_eq!(found("sip:trunk.example;transport=tcp").await, tcp);
    let literal = found("sip:[2001:db8::1];transport=tls").await;
    assert_eq!(literal, ["Tls [2001:db8::1]:5061"]);
    let nothing = find_targets(&settings, "sip:nobody.invalid").await;
    assert!(nothing.is_err());
}

/// A carrier adds servers while our connection to the registrar stays open.
#[tokio::test(flavor = "multi_thread")]
async fn servers_that_a_registrar_adds_may_call_although_the_connection_stays() {
    let listener = TcpListener::bind("127.0.0.5:0").await.unwrap();
    let first = listener.local_addr().unwrap();
    let servers = Arc::new(Mutex::new(vec![first]));
    let dns = Nameserver::new(servers.clone(), false);
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
