//! The time of the next REGISTER, and the server that gets it.

use std::time::Duration;

use dikala_sip::settings::{Credentials, RegisterSettings};
use rstest::rstest;
use tokio::{net::UdpSocket, time::Instant};

use crate::{
    proofs::challenge,
    servers::Servers,
    support::{CallBehaviour, ScriptedPhone, TestEdge, eventually, header},
};

fn register(registrar: String) -> RegisterSettings {
    RegisterSettings {
        registrar,
        credentials: Credentials {
            username: "dikala".to_owned(),
            password: "rahasia".to_owned(),
        },
        expires_seconds: 600,
        ..RegisterSettings::default()
    }
}

async fn registering() -> (TestEdge, ScriptedPhone) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let register = register(format!("sip:{}", socket.local_addr().unwrap()));
    let bench = TestEdge::with(CallBehaviour::Ring, 10, |sip| {
        sip.trunks[0].register = Some(register);
    })
    .await;
    let registrar = ScriptedPhone::at(socket, bench.udp()).await;
    (bench, registrar)
}

/// Answers the request with this header in place of Contact.
async fn answer(phone: &mut ScriptedPhone, request: &str, status: &str, line: &str) {
    let response = phone.response(request, status, "r", "");
    let contact = format!("Contact: <sip:budi@{}>\r\n", phone.contact);
    phone.send(&response.replace(&contact, line)).await;
}

/// As session border controllers and NATs do. It also has an older registration from there, and one of another phone.
#[tokio::test(flavor = "multi_thread")]
async fn a_contact_that_the_registrar_rewrote_has_its_time() {
    let (_bench, mut registrar) = registering().await;
    let others = ", <sip:dikala@198.51.100.9:31000>;expires=500, <sip:9000@198.51.100.7>;expires=1";
    for others in ["", others] {
        let request = registrar.expect("REGISTER ").await;
        let line = format!("Contact: <sip:dikala@198.51.100.9:31234>;expires=2{others}\r\n");
        answer(&mut registrar, &request, "200 OK", &line).await;
    }
    let begun = Instant::now();
    registrar.expect("REGISTER ").await;
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_registrar_that_asks_for_a_pause_gets_it(
    #[values("503 Service Unavailable", "500 Server Error", "480 Gone for Now")] refusal: &str,
) {
    let (_bench, mut registrar) = registering().await;
    let request = registrar.expect("REGISTER ").await;
    let line = "Retry-After: 5 (in a moment)\r\n";
    answer(&mut registrar, &request, refusal, line).await;
    let begun = Instant::now();
    registrar.expect("REGISTER ").await;
    let waited = begun.elapsed();
    assert!(waited > Duration::from_millis(4_900), "{waited:?}");
    assert!(waited < Duration::from_secs(8), "{waited:?}");
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_registration_for_no_time_is_a_failure(
    #[values("Contact: <sip:dikala@198.51.100.9>;expires=0\r\n", "Expires: 0\r\n")] line: &str,
) {
    let (bench, mut registrar) = registering().await;
    let request = registrar.expect("REGISTER ").await;
    answer(&mut registrar, &request, "200 OK", line).await;
    let begun = Instant::now();
    registrar.expect("REGISTER ").await;
    assert!(begun.elapsed() > Duration::from_millis(1_900));
    let statistics = bench.edge.statistics();
    assert_eq!(statistics.registered_trunks, 0);
    let mut refused = statistics.refused.iter();
    assert!(refused.any(|one| one.reason == "registration" && one.count == 1));
}

/// Challenges the first REGISTER, and grants the next one for two seconds.
async fn challenged_and_granted(phone: &mut ScriptedPhone) {
    let request = phone.expect("REGISTER ").await;
    challenge(phone, &request, "401 Unauthorized").await;
    let request = granted(phone).await;
    assert!(header(&request, "Authorization").is_some(), "{request}");
}

/// Grants a REGISTER for two seconds.
async fn granted(phone: &mut ScriptedPhone) -> String {
    let request = phone.expect("REGISTER ").await;
    answer(phone, &request, "200 OK", "Expires: 2\r\n").await;
    request
}

async fn with_two_servers() -> (TestEdge, [ScriptedPhone; 2]) {
    let servers = Servers::new(false).await;
    let bench = TestEdge::with(CallBehaviour::Ring, 10, |sip| {
        sip.nameservers = vec![servers.nameserver];
        sip.trunks[0].register = Some(register("sip:trunk.example".to_owned()));
    })
    .await;
    let phones = servers.phones(&bench).await;
    (bench, phones)
}

/// Its server is asked again, although a preferred one may answer by now.
#[tokio::test(flavor = "multi_thread")]
async fn a_registration_stays_where_it_is() {
    let (bench, [mut first, mut second]) = with_two_servers().await;
    let request = first.expect("REGISTER ").await;
    let line = "Retry-After: 1\r\n";
    answer(&mut first, &request, "503 Service Unavailable", line).await;
    challenged_and_granted(&mut second).await;
    granted(&mut second).await;
    let other = first.hears(Duration::from_millis(50)).await;
    assert_eq!(other, None, "the first is asked, too");
    assert_eq!(bench.edge.statistics().registered_trunks, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_is_told_to_the_server_that_has_the_registration() {
    let (bench, [mut first, mut second]) = with_two_servers().await;
    let request = first.expect("REGISTER ").await;
    answer(&mut first, &request, "503 Service Unavailable", "").await;
    let request = second.expect("REGISTER ").await;
    answer(&mut second, &request, "200 OK", "Expires: 600\r\n").await;
    eventually("it is registered", || {
        bench.edge.statistics().registered_trunks == 1
    })
    .await;
    let closing = tokio::spawn(bench.edge.close());
    let last = granted(&mut second).await;
    assert_eq!(header(&last, "Expires"), Some("0"));
    closing.await.unwrap();
    assert_eq!(first.hears(Duration::from_millis(50)).await, None);
}
