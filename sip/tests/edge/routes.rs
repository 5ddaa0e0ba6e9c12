//! Routes of our requests inside a call over servers that the DNS names: found once, and never waited for.

use std::sync::atomic::Ordering::Relaxed;

use dikala_sip::{find_targets, settings::SipSettings};
use tokio::{net::UdpSocket, time::timeout};

use crate::{
    servers::{Servers, silent},
    support::{CallBehaviour, PATIENCE, ScriptedPhone, TestEdge, eventually, header, offer},
};

/// A caller's INVITE, or a person's answer, with a route that names the domain of the servers.
fn recorded(message: &str) -> String {
    message.replacen(
        "Contact:",
        "Record-Route: <sip:trunk.example;lr>\r\nContact:",
        1,
    )
}

/// The answer to our request is expected where it went, and the route stays for the next one.
#[tokio::test(flavor = "multi_thread")]
async fn requests_in_a_call_go_to_the_server_of_a_recorded_name() {
    for (allowed, goes_there) in [("127.0.0.5/32", true), ("127.0.0.7/32", false)] {
        let servers = Servers::new(false).await;
        let bench = TestEdge::with(CallBehaviour::HangUp, 10, |sip| {
            sip.nameservers = vec![servers.nameserver];
            let addresses = ["127.0.0.1/32", allowed].map(|net| net.parse().unwrap());
            sip.trunks[0].addresses = addresses.to_vec();
        })
        .await;
        let [mut first, _second] = servers.phones(&bench).await;
        let mut phone = ScriptedPhone::udp(bench.udp()).await;
        let invite = recorded(&phone.request("INVITE", "", &offer(40_000)));
        phone.send(&invite).await;
        phone.answered("SIP/2.0 200").await;
        phone.acknowledge("").await;
        let at = if goes_there { &mut first } else { &mut phone };
        let bye = at.expect("BYE ").await;
        assert_eq!(header(&bye, "Route"), Some("<sip:trunk.example;lr>"));
        at.answer(&bye, "200 OK").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_is_acknowledged_and_hung_up_at_the_server_of_a_recorded_name() {
    let servers = Servers::new(false).await;
    let person = UdpSocket::bind("127.0.0.7:0").await.unwrap();
    let address = person.local_addr().unwrap();
    let transferring = CallBehaviour::Transfer("+62811111".to_owned());
    let bench = TestEdge::with(transferring, 10, |sip| {
        sip.nameservers = vec![servers.nameserver];
        sip.trunks[0].outbound.uri = Some(format!("sip:{address}"));
    })
    .await;
    let asked = servers.asked.clone();
    let [mut proxy, _second] = servers.phones(&bench).await;
    let mut person = ScriptedPhone::at(person, bench.udp()).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    phone.call("", &offer(40_000)).await;
    let invite = person.expect("INVITE ").await;
    let accepted = person.response(&invite, "200 OK", "person", &offer(40_002));
    person.send(&recorded(&accepted)).await;
    proxy.expect("ACK ").await;
    let before = asked.load(Relaxed);
    phone.hang_up().await;
    let bye = proxy.expect("BYE ").await;
    proxy.answer(&bye, "200 OK").await;
    assert!(before > 0);
    assert_eq!(asked.load(Relaxed), before, "the route is kept");
}

/// A name that the DNS did not know for a moment is asked for again by the next request, and by a repeated answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_route_that_was_not_found_is_looked_up_again() {
    let servers = Servers::new(false).await;
    let named = servers.named.clone();
    let known = std::mem::take(&mut *named.lock().unwrap());
    let person = UdpSocket::bind("127.0.0.7:0").await.unwrap();
    let address = person.local_addr().unwrap();
    let transferring = CallBehaviour::Transfer("+62811111".to_owned());
    let bench = TestEdge::with(transferring, 10, |sip| {
        sip.nameservers = vec![servers.nameserver];
        sip.trunks[0].outbound.uri = Some(format!("sip:{address}"));
    })
    .await;
    let [mut proxy, _second] = servers.phones(&bench).await;
    let mut person = ScriptedPhone::at(person, bench.udp()).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    phone.call("", &offer(40_000)).await;
    let invite = person.expect("INVITE ").await;
    let accepted = recorded(&person.response(&invite, "200 OK", "person", &offer(40_002)));
    person.send(&accepted).await;
    person.expect("ACK ").await;
    *named.lock().unwrap() = known;
    person.send(&accepted).await;
    proxy.expect("ACK ").await;
    phone.hang_up().await;
    let bye = proxy.expect("BYE ").await;
    proxy.answer(&bye, "200 OK").await;
}

/// The person is heard at once, and is acknowledged and hung up where the answer came from. Both need less time than the DNS, which
/// is asked for something else meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_person_is_joined_acknowledged_and_hung_up_while_the_dns_is_silent() {
    let (_dns, nameserver) = silent().await;
    let person = UdpSocket::bind("127.0.0.7:0").await.unwrap();
    let address = person.local_addr().unwrap();
    let transferring = CallBehaviour::Transfer("+62811111".to_owned());
    let bench = TestEdge::with(transferring, 10, |sip| {
        sip.nameservers = vec![nameserver];
        sip.trunks[0].outbound.uri = Some(format!("sip:{address}"));
    })
    .await;
    let mut person = ScriptedPhone::at(person, bench.udp()).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    phone.call("", &offer(40_000)).await;
    let invite = person.expect("INVITE ").await;
    let settings = SipSettings {
        nameservers: vec![nameserver],
        ..TestEdge::settings(10)
    };
    let silence = tokio::spawn(async move { find_targets(&settings, "sip:trunk.example").await });
    let accepted = person.response(&invite, "200 OK", "person", &offer(40_002));
    person.send(&recorded(&accepted)).await;
    eventually("they are joined", || bench.is_joined()).await;
    let ack = person.expect("ACK ").await;
    assert_eq!(header(&ack, "Route"), Some("<sip:trunk.example;lr>"));
    phone.hang_up().await;
    let bye = person.expect("BYE ").await;
    person.answer(&bye, "200 OK").await;
    assert!(!silence.is_finished(), "it waited for the DNS");
}

/// The call goes on while a name is looked up. If the DNS stays silent, the request goes to where the last one came from.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_does_not_wait_for_the_name_of_its_route() {
    let (dns, nameserver) = silent().await;
    let bench = TestEdge::with(CallBehaviour::HangUp, 10, |sip| {
        sip.nameservers = vec![nameserver];
    })
    .await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let invite = recorded(&phone.request("INVITE", "", &offer(40_000)));
    phone.send(&invite).await;
    phone.answered("SIP/2.0 200").await;
    phone.acknowledge("").await;
    let mut question = [0; 512];
    let asked = timeout(PATIENCE, dns.recv(&mut question)).await;
    asked.unwrap().unwrap();
    phone.ask("OPTIONS", "", "").await;
    phone.answered("SIP/2.0 481").await;
    let bye = phone.expect("BYE ").await;
    phone.answer(&bye, "200 OK").await;
}
