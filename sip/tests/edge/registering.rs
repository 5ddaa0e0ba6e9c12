//! Registrations of the bridge with a registrar of the test, and packets from other sources.

use dikala_sip::settings::{Credentials, RegisterSettings, Trunk};
use dikala_testkit::phone::registrar;
use tokio::{net::UdpSocket, sync::mpsc, time::timeout};

use crate::{
    proofs::{challenge, number, proven},
    support::{
        CallBehaviour, PATIENCE, ScriptedPhone, TestEdge, eventually, flood, header, offer, trunk,
    },
};

fn at(registrar: String, expires_seconds: u32) -> RegisterSettings {
    RegisterSettings {
        registrar,
        credentials: Credentials {
            username: "dikala".to_owned(),
            password: "rahasia".to_owned(),
        },
        expires_seconds,
        ..RegisterSettings::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_brief_registration_is_asked_for_as_it_is_told_and_renewed() {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let register = at(format!("sip:{}", socket.local_addr().unwrap()), 2);
    let (asked, mut heard) = mpsc::unbounded_channel();
    let registrar = tokio::spawn(registrar(socket, asked));
    let _bench = TestEdge::with(CallBehaviour::Echo, 10, |sip| {
        sip.trunks[0].register = Some(register);
    })
    .await;
    for _ in 0..3 {
        let expires = tokio::time::timeout(PATIENCE, heard.recv()).await;
        assert_eq!(expires.unwrap().as_deref(), Some("2"));
    }
    registrar.abort();
}

/// An outbound proxy and the registrar behind it have challenges of their own (RFC 3261, 22.3).
#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_and_a_registrar_that_both_challenge_get_their_credentials_together() {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let register = at(format!("sip:{}", socket.local_addr().unwrap()), 600);
    let bench = TestEdge::with(CallBehaviour::Ring, 10, |sip| {
        sip.trunks[0].register = Some(register);
    })
    .await;
    let mut registrar = ScriptedPhone::at(socket, bench.udp()).await;
    let mut last = 0;
    for status in ["407 Proxy Authentication Required", "401 Unauthorized"] {
        let request = next_register(&mut registrar, last).await;
        last = number(&request);
        challenge(&mut registrar, &request, status).await;
    }
    let request = next_register(&mut registrar, last).await;
    proven(&request, "Authorization", last + 1);
    let second_use = header(&request, "Proxy-Authorization").unwrap();
    assert!(second_use.contains("nc=00000002"), "{second_use}");
    registrar.answer(&request, "200 OK").await;
    eventually("it is registered", || {
        bench.edge.statistics().registered_trunks == 1
    })
    .await;
}

/// The next REGISTER with a greater number; others are repeats.
async fn next_register(registrar: &mut ScriptedPhone, last: u32) -> String {
    loop {
        let request = registrar.expect("REGISTER ").await;
        if number(&request) > last {
            return request;
        }
    }
}

/// A registrar may answer from another port, so only its answers distinguish it from strangers.
#[tokio::test(flavor = "multi_thread")]
async fn a_registrar_is_heard_beside_a_flood() {
    let (socket, other) = (
        UdpSocket::bind("127.0.0.1:0").await.unwrap(),
        UdpSocket::bind("127.0.0.1:0").await.unwrap(),
    );
    let register = at(socket.local_addr().unwrap().to_string(), 1);
    let registrar = dikala_sip::registrar(&register.registrar).unwrap();
    let bench = TestEdge::with(CallBehaviour::Echo, 10, |sip| {
        sip.trunks = TestEdge::of_users();
        sip.trunks[0].register = Some(RegisterSettings {
            registrar,
            ..register
        });
    })
    .await;
    let flood = flood("127.0.0.66", bench.udp()).await;
    eventually("it is too much", || {
        bench.edge.statistics().strangers_dropped > 2_000
    })
    .await;
    let mut buffer = vec![0; 65_536];
    // Requests from before the first answer are retransmitted in any case.
    let (mut numbers, mut repeated) = (Vec::new(), 0);
    while numbers.len() < 6 {
        let received = tokio::time::timeout(PATIENCE, socket.recv_from(&mut buffer));
        let (length, from) = received.await.unwrap().unwrap();
        let request = String::from_utf8_lossy(&buffer[..length]).into_owned();
        let Some(number) = header(&request, "CSeq").map(str::to_owned) else {
            continue;
        };
        if numbers.contains(&number) {
            repeated += usize::from(numbers.len() > 1);
        } else {
            numbers.push(number);
        }
        let answer = ScriptedPhone::udp(bench.udp())
            .await
            .response(&request, "200 OK", "", "");
        other.send_to(answer.as_bytes(), from).await.unwrap();
    }
    flood.abort();
    assert!(repeated <= 1, "{repeated} were asked again");
}

/// A registrar with several users. `two` is accepted once, for a while, and then refused.
struct Registrar {
    socket: UdpSocket,
    /// Seconds granted to `two`.
    brief: u32,
    /// Users and `Expires` of accepted requests; then the number of refused ones.
    taken: Vec<(String, String)>,
    refused: usize,
}

impl Registrar {
    fn new(socket: UdpSocket, brief: u32) -> Self {
        Self {
            socket,
            brief,
            taken: Vec::new(),
            refused: 0,
        }
    }

    /// The next message other than REGISTER; REGISTERs are answered until `until` holds.
    async fn next(&mut self, until: impl Fn(&Self) -> bool) -> Option<String> {
        let mut buffer = vec![0; 65_536];
        while !until(self) {
            let received = timeout(PATIENCE, self.socket.recv_from(&mut buffer)).await;
            let (length, from) = received.unwrap().unwrap();
            let request = String::from_utf8_lossy(&buffer[..length]).into_owned();
            if !request.starts_with("REGISTER ") {
                return Some(request);
            }
            let lines = ["Via", "From", "To", "Call-ID", "CSeq"]
                .map(|name| format!("{name}: {}\r\n", header(&request, name).unwrap()));
            let user = header(&request, "From").unwrap();
            let user = user.split(['@', ':']).nth(1).unwrap().to_owned();
            let expires = header(&request, "Expires").unwrap().to_owned();
            let is_back = self.taken.iter().any(|(taken, _)| *taken == user);
            let answer = if user == "two" && is_back {
                self.refused += 1;
                "403 Forbidden\r\n".to_owned()
            } else {
                let granted = if user == "two" { self.brief } else { 600 };
                self.taken.push((user, expires));
                format!("200 OK\r\nExpires: {granted}\r\n")
            };
            let answer = format!(
                "SIP/2.0 {answer}{}Content-Length: 0\r\n\r\n",
                lines.concat()
            );
            self.socket.send_to(answer.as_bytes(), from).await.unwrap();
        }
        None
    }

    /// Routes a call to the bridge. Returns its trunk once it rings.
    async fn leads(&mut self, bench: &TestEdge, user: &str) -> String {
        self.leads_with(bench, user, "", "+622150001000").await
    }

    /// The same with these headers, and with another user in To.
    async fn leads_with(
        &mut self,
        bench: &TestEdge,
        user: &str,
        headers: &str,
        to: &str,
    ) -> String {
        let mut phone = ScriptedPhone::udp(bench.udp()).await;
        let target = format!("INVITE sip:{user}@");
        let invite = phone.request("INVITE", headers, &offer(40_000));
        let invite = invite.replacen("INVITE sip:+622150001000@", &target, 1);
        let invite = invite.replacen("To: <sip:+622150001000@", &format!("To: <sip:{to}@"), 1);
        let sent = self.socket.send_to(invite.as_bytes(), bench.udp()).await;
        sent.unwrap();
        loop {
            let answer = self.next(|_| false).await.unwrap();
            if header(&answer, "Call-ID") != Some(&phone.call_id) {
                continue;
            }
            if answer.starts_with("SIP/2.0 180") {
                break;
            }
            assert!(answer.starts_with("SIP/2.0 100"), "{answer}");
        }
        let calls = bench.calls();
        calls.last().unwrap().trunk.clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_trunks_at_one_registrar_do_not_take_each_other_off() {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = format!("sip:{}", socket.local_addr().unwrap());
    let trunk = |name: &str| {
        let mut register = at(address.clone(), 600);
        register.credentials.username = name.to_owned();
        Trunk {
            name: format!("trunk {name}"),
            register: Some(register),
            ..Trunk::default()
        }
    };
    let bench = TestEdge::with(CallBehaviour::Ring, 10, |sip| {
        sip.trunks = vec![trunk("zero"), trunk("two"), trunk("one")];
    })
    .await;
    let mut registrar = Registrar::new(socket, 1);
    let users = |registrar: &Registrar| registrar.taken.len();
    registrar.next(|registrar| users(registrar) == 3).await;
    eventually("all are registered", || {
        bench.edge.statistics().registered_trunks == 3
    })
    .await;
    assert_eq!(registrar.leads(&bench, "one").await, "trunk one");
    assert_eq!(registrar.leads(&bench, "+622150001000").await, "trunk zero");
    registrar.next(|registrar| registrar.refused > 0).await;
    eventually("one is not any more", || {
        bench.edge.statistics().registered_trunks == 2
    })
    .await;
    assert_eq!(registrar.leads(&bench, "one").await, "trunk one");
    assert_eq!(registrar.leads(&bench, "two").await, "trunk zero");
    registrar.taken.clear();
    let closing = tokio::spawn(bench.edge.close());
    registrar.next(|registrar| users(registrar) == 2).await;
    closing.await.unwrap();
    registrar.taken.sort_unstable();
    let off = ["one", "zero"].map(|user| (user.to_owned(), "0".to_owned()));
    assert_eq!(registrar.taken, off);
}

/// A registrar calls our Contact, whose user is the account. The called number stands in To, or in P-Called-Party-ID.
#[tokio::test(flavor = "multi_thread")]
async fn a_numeric_account_is_not_taken_for_the_called_number() {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let mut register = at(format!("sip:{}", socket.local_addr().unwrap()), 600);
    register.credentials.username = "123456".to_owned();
    let trunk = Trunk {
        register: Some(register),
        addresses: Vec::new(),
        ..trunk()
    };
    let bench = TestEdge::with(CallBehaviour::Ring, 10, |sip| sip.trunks = vec![trunk]).await;
    let mut registrar = Registrar::new(socket, 1);
    registrar
        .next(|registrar| !registrar.taken.is_empty())
        .await;
    eventually("it is registered", || {
        bench.edge.statistics().registered_trunks == 1
    })
    .await;
    registrar.leads(&bench, "123456").await;
    assert_eq!(bench.call().did, "+622150001000");
    let called = "P-Called-Party-ID: <sip:+622150002000@carrier.example>\r\n";
    registrar
        .leads_with(&bench, "123456", called, "123456")
        .await;
    assert_eq!(bench.calls().last().unwrap().did, "+622150002000");
}

/// The registrar has us until the end of what it granted.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_renewal_leaves_the_registration_until_it_expires() {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let mut register = at(format!("sip:{}", socket.local_addr().unwrap()), 600);
    register.credentials.username = "two".to_owned();
    let trunk = Trunk {
        register: Some(register),
        addresses: Vec::new(),
        ..trunk()
    };
    let bench = TestEdge::with(CallBehaviour::Ring, 10, |sip| sip.trunks = vec![trunk]).await;
    let mut registrar = Registrar::new(socket, 12);
    registrar.next(|registrar| registrar.refused == 1).await;
    registrar.leads(&bench, "two").await;
    // Another server of the registrar, with another port, may send calls as well.
    let mut other = ScriptedPhone::udp(bench.udp()).await;
    let invite = other.request("INVITE", "", &offer(40_000));
    other.send(&invite).await;
    other.expect("SIP/2.0 180").await;
    assert_eq!(bench.edge.statistics().registered_trunks, 1);
    eventually("it has expired", || {
        bench.edge.statistics().registered_trunks == 0
    })
    .await;
}

/// Accounts at many carriers have a proxy, a domain and a digest username of their own.
#[tokio::test(flavor = "multi_thread")]
async fn a_registration_goes_through_its_proxy_under_its_own_names() {
    let proxy = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = proxy.local_addr().unwrap();
    let register = RegisterSettings {
        proxy: Some(format!("sip:{address}")),
        domain: Some("ims.example".to_owned()),
        account: Some("+622150001000".to_owned()),
        ..at("sip:registrar.invalid:5070".to_owned(), 600)
    };
    let bench = TestEdge::with(CallBehaviour::Ring, 10, |sip| {
        sip.trunks[0].register = Some(register);
    })
    .await;
    let mut proxy = ScriptedPhone::at(proxy, bench.udp()).await;
    let first = proxy.expect("REGISTER sip:registrar.invalid:5070 ").await;
    assert_eq!(
        header(&first, "Route"),
        Some(&*format!("<sip:{address};lr>"))
    );
    let record = "<sip:+622150001000@ims.example>";
    assert_eq!(header(&first, "To"), Some(record));
    assert!(
        header(&first, "From").unwrap().starts_with(record),
        "{first}"
    );
    let contact = format!("<sip:+622150001000@{}>", bench.udp());
    assert!(
        header(&first, "Contact").unwrap().starts_with(&contact),
        "{first}"
    );
    challenge(&mut proxy, &first, "401 Unauthorized").await;
    let second = proxy.expect("REGISTER ").await;
    proven(&second, "Authorization", 2);
}
