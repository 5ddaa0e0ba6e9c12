//! Routes of our requests: a caller's Contact and Record-Route must not lead this machine to services of its own network.

use std::{
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use dikala_sip::settings::{ListenAddress, SipTransport};
use socket2::{Domain, Socket, Type};
use tokio::{
    net::{TcpListener, UdpSocket},
    time::timeout,
};

use crate::{
    digests::{call_by_digest, unacknowledged_by_digest},
    support::{CallBehaviour, ScriptedPhone, TestEdge, eventually, offer},
};

const SOON: Duration = Duration::from_millis(200);

/// Services that only this machine reaches.
pub struct Inner {
    tcp: TcpListener,
    udp: UdpSocket,
}

impl Inner {
    pub async fn new() -> Self {
        Self {
            tcp: TcpListener::bind("127.0.0.1:0").await.unwrap(),
            udp: UdpSocket::bind("127.0.0.1:0").await.unwrap(),
        }
    }

    /// Contacts and recorded routes that lead to them.
    pub fn named(&self) -> Vec<String> {
        let tcp = self.tcp.local_addr().unwrap().port();
        let udp = self.udp.local_addr().unwrap().port();
        let all = [
            format!("127.0.0.1:{tcp};transport=tcp"),
            format!("localhost:{tcp};transport=tcp"),
            format!("[::ffff:127.0.0.1]:{tcp};transport=tcp"),
            format!("127.0.0.1:{udp}"),
            format!("localhost:{udp}"),
            "169.254.169.254:80;transport=tcp".to_owned(),
            "169.254.169.254".to_owned(),
            "nobody.invalid;transport=tcp".to_owned(),
        ];
        all.to_vec()
    }

    pub async fn hears_nothing(&self, named: &str) {
        let connected = timeout(SOON, self.tcp.accept()).await;
        assert!(connected.is_err(), "{named}: a connection");
        let sent = self.udp.try_recv(&mut [0; 2_048]);
        assert!(sent.is_err(), "{named}: a datagram");
    }
}

/// An INVITE whose Contact, or first recorded route, leads there.
fn leading(invite: &str, to: &str, by_route: bool) -> String {
    let at = invite.find("Contact: ").unwrap();
    let rest = &invite[at..];
    let (contact, rest) = rest.split_once("\r\n").unwrap();
    let named = match by_route {
        false => format!("Contact: <sip:budi@{to}>"),
        true => format!("Record-Route: <sip:{to};lr>\r\n{contact}"),
    };
    format!("{}{named}\r\n{rest}", &invite[..at])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_phone_is_hung_up_where_it_calls_from_whatever_way_it_names() {
    let bench = TestEdge::with(CallBehaviour::HangUp, 50, |sip| {
        sip.trunks = TestEdge::of_users()
    })
    .await;
    let inner = Inner::new().await;
    for named in inner.named() {
        for by_route in [false, true] {
            for transport in [SipTransport::Udp, SipTransport::Tcp] {
                let mut phone = match transport {
                    SipTransport::Udp => ScriptedPhone::udp(bench.udp()).await,
                    _ => ScriptedPhone::tcp(bench.address(transport)).await,
                };
                let change = |invite: String| leading(&invite, &named, by_route);
                call_by_digest(&mut phone, change, &offer(40_000)).await;
                let bye = phone.expect("BYE ").await;
                phone.answer(&bye, "200 OK").await;
            }
        }
        inner.hears_nothing(&named).await;
    }
}

/// A phone that calls over a connection is reached only over it.
#[tokio::test(flavor = "multi_thread")]
async fn a_phone_whose_connection_is_gone_is_looked_for_nowhere() {
    let bench = TestEdge::with(CallBehaviour::HangUp, 50, |sip| {
        sip.trunks = TestEdge::of_users()
    })
    .await;
    let inner = Inner::new().await;
    let named = &inner.named()[0];
    let mut phone = ScriptedPhone::tcp(bench.address(SipTransport::Tcp)).await;
    let mut other = ScriptedPhone::udp(bench.udp()).await;
    let change = |invite: String| leading(&invite, named, false);
    unacknowledged_by_digest(&mut phone, change, &offer(40_000)).await;
    other.call_id.clone_from(&phone.call_id);
    (other.to, other.cseq) = (phone.to.clone(), phone.cseq);
    phone.closes().await;
    // The call is established now, and is hung up.
    other.acknowledge("").await;
    eventually("the call is over", || bench.edge.statistics().calls == 0).await;
    inner.hears_nothing(named).await;
}

/// A listener with a full queue, to which connecting hangs, and the connection in its queue.
fn full() -> (Socket, TcpStream) {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    listener.bind(&any.into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    // Linux queues one more than asked for.
    (listener, TcpStream::connect(address).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_does_not_wait_for_a_connection_to_its_trunk() {
    let (_listener, queued) = full();
    let named = queued.peer_addr().unwrap().to_string();
    let bench = TestEdge::with(CallBehaviour::HangUp, 50, |_| ()).await;
    let mut phone = ScriptedPhone::tcp(bench.address(SipTransport::Tcp)).await;
    let mut other = ScriptedPhone::udp(bench.udp()).await;
    let invite = phone.request("INVITE", "", &offer(40_000));
    phone.send(&leading(&invite, &named, false)).await;
    phone.answered("SIP/2.0 200").await;
    other.call_id.clone_from(&phone.call_id);
    (other.to, other.cseq) = (phone.to.clone(), phone.cseq);
    phone.closes().await;
    other.acknowledge("").await;
    // Our BYE needs a connection. That of the peer is answered meanwhile.
    eventually("we hang up", || bench.edge.statistics().calls == 0).await;
    other.ask("BYE", "", "").await;
    other.answered("SIP/2.0 200").await;
}

/// A trunk may record a route through its own addresses and names of them, not through others of this network.
#[tokio::test(flavor = "multi_thread")]
async fn a_trunk_is_hung_up_through_its_own_addresses_only() {
    let bench = TestEdge::with(CallBehaviour::HangUp, 50, |sip| {
        sip.trunks[0].addresses = vec!["127.0.0.1/32".parse().unwrap()];
    })
    .await;
    let mut other = ScriptedPhone::udp_from("127.0.0.2", bench.udp()).await;
    let mut proxy = ScriptedPhone::udp(bench.udp()).await;
    let by_name = format!("localhost:{}", proxy.local.port());
    for (named, by_route, at_proxy) in [
        (proxy.local.to_string(), true, true),
        (proxy.local.to_string(), false, false),
        (other.local.to_string(), true, false),
        (other.local.to_string(), false, false),
        (by_name.clone(), true, true),
        (by_name, false, false),
        ("nobody.invalid".to_owned(), true, false),
    ] {
        let mut phone = ScriptedPhone::udp(bench.udp()).await;
        let invite = phone.request("INVITE", "", &offer(40_000));
        phone.send(&leading(&invite, &named, by_route)).await;
        phone.answered("SIP/2.0 200").await;
        phone.acknowledge("").await;
        let at = if at_proxy { &mut proxy } else { &mut phone };
        let bye = at.expect("BYE ").await;
        at.answer(&bye, "200 OK").await;
    }
    assert_eq!(other.hears(SOON).await, None);
}

/// The socket of the caller's address family cannot send to the other one.
#[tokio::test(flavor = "multi_thread")]
async fn a_trunk_that_names_its_other_address_family_is_hung_up_there() {
    let bench = TestEdge::with(CallBehaviour::HangUp, 50, |sip| {
        sip.listen.push(ListenAddress {
            transport: SipTransport::Udp,
            address: "[::1]:0".parse().unwrap(),
        });
    })
    .await;
    let all = bench.edge.addresses();
    let edge = all.iter().find(|listen| listen.address.is_ipv6()).unwrap();
    let mut proxy = ScriptedPhone::udp_from("::1", edge.address).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let invite = phone.request("INVITE", "", &offer(40_000));
    phone
        .send(&leading(&invite, &proxy.local.to_string(), true))
        .await;
    phone.answered("SIP/2.0 200").await;
    phone.acknowledge("").await;
    let bye = proxy.expect("BYE ").await;
    proxy.answer(&bye, "200 OK").await;
}

/// A phone that roams, or whose NAT gave it another port, is found by its last request.
#[tokio::test(flavor = "multi_thread")]
async fn requests_of_ours_follow_the_callers_last_request() {
    let bench = TestEdge::new(CallBehaviour::HangUp).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let mut moved = ScriptedPhone::udp(bench.udp()).await;
    let invite = phone.request("INVITE", "", &offer(40_000));
    phone.send(&invite).await;
    phone.answered("SIP/2.0 200").await;
    moved.call_id.clone_from(&phone.call_id);
    (moved.to, moved.cseq) = (phone.to.clone(), phone.cseq);
    moved.cseq += 1;
    // Its Contact still names an address that nobody can reach.
    let update = moved.request("UPDATE", "", "");
    let contact = |at| format!("Contact: <sip:budi@{at}>");
    let update = update.replace(&contact(moved.local), &contact(phone.local));
    moved.send(&update).await;
    moved.answered("SIP/2.0 200").await;
    phone.acknowledge("").await;
    let bye = moved.expect("BYE ").await;
    moved.answer(&bye, "200 OK").await;
}
