//! Credentials that we send: a trunk that challenges us inside a call gets them, other peers do not.

use std::time::Duration;

use dikala_sip::{
    leg::{HangupNote, LegEvent, Order},
    settings::{Credentials, RegisterSettings, TransferMethod, Trunk},
};
use md5::{Digest, Md5};
use tokio::net::UdpSocket;

use crate::{
    digests::call_by_digest,
    support::{CallBehaviour, ScriptedPhone, TestEdge, eventually, header, offer, trunk},
};

/// A trunk with a registrar that never answers.
pub async fn silent_registrar() -> Trunk {
    registering(&UdpSocket::bind("127.0.0.1:0").await.unwrap())
}

fn registering(socket: &UdpSocket) -> Trunk {
    Trunk {
        register: Some(RegisterSettings {
            registrar: format!("sip:{}", socket.local_addr().unwrap()),
            credentials: Credentials {
                username: "dikala".to_owned(),
                password: "rahasia".to_owned(),
            },
            expires_seconds: 120,
            ..RegisterSettings::default()
        }),
        ..trunk()
    }
}

/// Sends a challenge.
pub async fn challenge(phone: &mut ScriptedPhone, request: &str, status: &str) {
    let name = match status.starts_with("401") {
        true => "WWW-Authenticate",
        false => "Proxy-Authenticate",
    };
    let demand = format!("{name}: Digest realm=\"trunk\", nonce=\"n\", qop=\"auth\"\r\n");
    let challenge = phone
        .response(request, status, "", "")
        .replace("Contact:", &format!("{demand}Contact:"));
    phone.send(&challenge).await;
}

pub fn number(request: &str) -> u32 {
    let number = header(request, "CSeq").unwrap().split(' ').next();
    number.unwrap().parse().unwrap()
}

/// The credentials in a request, which must be for its method and Request-URI.
pub fn proven(request: &str, name: &str, number: u32) -> String {
    assert_eq!(self::number(request), number);
    let proof = header(request, name).unwrap();
    let value = |of: &str| {
        let behind = proof.split(&format!("{of}=\"")).nth(1).unwrap();
        behind.split('"').next().unwrap().to_owned()
    };
    let hash = |text: String| hex::encode(Md5::digest(text));
    let mut words = request.split(' ');
    let (method, uri) = (words.next().unwrap(), words.next().unwrap());
    assert_eq!(
        (value("username").as_str(), value("uri").as_str()),
        ("dikala", uri)
    );
    let (secret, what) = (
        hash("dikala:trunk:rahasia".to_owned()),
        hash(format!("{method}:{uri}")),
    );
    let expected = hash(format!(
        "{secret}:n:00000001:{}:auth:{what}",
        value("cnonce")
    ));
    assert_eq!(value("response"), expected);
    proof.to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trunk_that_wants_our_bye_proven_gets_it_so_once() {
    let trunk = silent_registrar().await;
    let bench = TestEdge::with(CallBehaviour::HangUp, 10, |sip| sip.trunks = vec![trunk]).await;
    for (status, name) in [
        ("401 Unauthorized", "Authorization"),
        ("407 Proxy Authentication Required", "Proxy-Authorization"),
    ] {
        let mut phone = ScriptedPhone::udp(bench.udp()).await;
        phone.call("", &offer(40_000)).await;
        let bye = phone.expect("BYE ").await;
        assert_eq!(header(&bye, name), None);
        challenge(&mut phone, &bye, status).await;
        let again = phone.expect("BYE ").await;
        proven(&again, name, number(&bye) + 1);
        assert_eq!(header(&again, "Call-ID"), header(&bye, "Call-ID"));
        assert_eq!(header(&again, "Reason"), header(&bye, "Reason"));
        assert_ne!(header(&again, "Via"), header(&bye, "Via"));
        // Credentials that are refused are not sent again.
        challenge(&mut phone, &again, status).await;
        while let Some(more) = phone.hears(Duration::from_millis(100)).await {
            assert_eq!(number(&more), number(&again), "a repeat: {more}");
        }
    }
}

/// Some carriers challenge every request, whatever was proven before.
#[tokio::test(flavor = "multi_thread")]
async fn every_request_of_a_call_is_proven_to_a_trunk_that_wants_it() {
    const WANTS: &str = "407 Proxy Authentication Required";
    let trunk = Trunk {
        transfer: TransferMethod::Refer,
        ..silent_registrar().await
    };
    let transferring = CallBehaviour::Transfer("+62811111".to_owned());
    let bench = TestEdge::with(transferring, 10, |sip| sip.trunks = vec![trunk]).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    phone.call("", &offer(40_000)).await;
    for (method, answer) in [("REFER ", "603 Decline"), ("BYE ", "200 OK")] {
        let request = phone.expect(method).await;
        assert_eq!(header(&request, "Proxy-Authorization"), None);
        challenge(&mut phone, &request, WANTS).await;
        let again = phone.expect(method).await;
        proven(&again, "Proxy-Authorization", number(&request) + 1);
        phone.answer(&again, answer).await;
        if method == "REFER " {
            let told = |event: &LegEvent| matches!(event, LegEvent::Transfer(Err(_)));
            eventually("it failed", || bench.call().events.iter().any(told)).await;
            let words = "It is over.".to_owned();
            bench.order(Order::Hangup(HangupNote { words })).await;
        }
    }
}

/// Calls come from one carrier and go out over another one, with different passwords.
#[tokio::test(flavor = "multi_thread")]
async fn the_credentials_for_calls_to_persons_are_not_given_to_the_carrier_of_the_caller() {
    let mut trunk = silent_registrar().await;
    trunk.outbound.uri = Some("sip:127.0.0.3:5099".to_owned());
    trunk.outbound.credentials = Some(Credentials {
        username: "outbound".to_owned(),
        password: "lain".to_owned(),
    });
    let bench = TestEdge::with(CallBehaviour::HangUp, 10, |sip| sip.trunks = vec![trunk]).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    phone.call("", &offer(40_000)).await;
    let bye = phone.expect("BYE ").await;
    challenge(&mut phone, &bye, "407 Proxy Authentication Required").await;
    let again = phone.expect("BYE ").await;
    proven(&again, "Proxy-Authorization", number(&bye) + 1);
    phone.answer(&again, "200 OK").await;
}

/// An authenticated phone could otherwise use our answers to guess the password of the trunk's registration.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_but_the_trunk_is_given_a_proof() {
    let mut trunk = silent_registrar().await;
    trunk.addresses = Vec::new();
    trunk.credentials = TestEdge::of_users().remove(0).credentials;
    let bench = TestEdge::with(CallBehaviour::HangUp, 10, |sip| sip.trunks = vec![trunk]).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    call_by_digest(&mut phone, |invite| invite, &offer(40_000)).await;
    let bye = phone.expect("BYE ").await;
    challenge(&mut phone, &bye, "407 Proxy Authentication Required").await;
    while let Some(more) = phone.hears(Duration::from_millis(100)).await {
        assert_eq!(number(&more), number(&bye), "a repeat: {more}");
    }
}

/// A caller who is transferred to a person behind a trunk that challenges.
struct SecondLeg {
    bench: TestEdge,
    trunk: ScriptedPhone,
    phone: ScriptedPhone,
    /// The INVITE that carries the credentials.
    invite: String,
}

async fn second_leg() -> SecondLeg {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let trunk = registering(&socket);
    let manner = CallBehaviour::Transfer("+62811111".to_owned());
    let bench = TestEdge::with(manner, 10, |sip| sip.trunks = vec![trunk]).await;
    let mut trunk = ScriptedPhone::at(socket, bench.udp()).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    phone.call("", &offer(40_000)).await;
    let invite = trunk.expect("INVITE ").await;
    challenge(&mut trunk, &invite, "407 Proxy Authentication Required").await;
    trunk.expect("ACK ").await;
    let invite = trunk.expect("INVITE ").await;
    SecondLeg {
        bench,
        trunk,
        phone,
        invite,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_leg_is_proven_to_its_end() {
    let mut leg = second_leg().await;
    let (trunk, again) = (&mut leg.trunk, &leg.invite);
    let proof = proven(again, "Proxy-Authorization", 2);
    // The SDP answer is unusable.
    let answer = offer(40_002).replace("m=audio 40002", "m=audio 0");
    let answer = trunk.response(again, "200 OK", "person", &answer);
    trunk.send(&answer).await;
    let ack = trunk.expect("ACK ").await;
    assert_eq!(header(&ack, "Proxy-Authorization"), Some(proof.as_str()));
    let bye = trunk.expect("BYE ").await;
    challenge(trunk, &bye, "407 Proxy Authentication Required").await;
    let again = trunk.expect("BYE ").await;
    proven(&again, "Proxy-Authorization", 4);
    trunk.answer(&again, "200 OK").await;
    leg.phone.hang_up().await;
}

/// A proxy and the server behind it have challenges of their own; each request carries credentials for both.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_leg_is_proven_to_a_proxy_and_to_the_server_behind_it() {
    const SERVER: &str = "401 Unauthorized";
    let mut leg = second_leg().await;
    let trunk = &mut leg.trunk;
    proven(&leg.invite, "Proxy-Authorization", 2);
    challenge(trunk, &leg.invite, SERVER).await;
    trunk.expect("ACK ").await;
    let again = trunk.expect("INVITE ").await;
    proven(&again, "Authorization", 3);
    let second_use = header(&again, "Proxy-Authorization").unwrap();
    assert!(second_use.contains("nc=00000002"), "{second_use}");
    let answer = trunk.response(&again, "200 OK", "person", &offer(40_002));
    trunk.send(&answer).await;
    let ack = trunk.expect("ACK ").await;
    for name in ["Authorization", "Proxy-Authorization"] {
        assert_eq!(header(&ack, name), header(&again, name));
    }
    eventually("it stands", || leg.bench.is_joined()).await;
    leg.phone.ask("BYE", "", "").await;
    let bye = trunk.expect("BYE ").await;
    challenge(trunk, &bye, "407 Proxy Authentication Required").await;
    let again = trunk.expect("BYE ").await;
    let first = number(&again);
    proven(&again, "Proxy-Authorization", first);
    challenge(trunk, &again, SERVER).await;
    let again = trunk.expect("BYE ").await;
    proven(&again, "Authorization", first + 1);
    assert!(header(&again, "Proxy-Authorization").is_some());
    // Credentials that are refused are not sent again.
    challenge(trunk, &again, SERVER).await;
    while let Some(more) = trunk.hears(Duration::from_millis(100)).await {
        assert_eq!(number(&more), first + 1, "a repeat: {more}");
    }
}

/// The answerer of a call may name any address; a second one is hung up there.
#[tokio::test(flavor = "multi_thread")]
async fn who_took_a_second_leg_elsewhere_is_given_no_proof() {
    let mut leg = second_leg().await;
    let (trunk, again) = (&mut leg.trunk, &leg.invite);
    let mut stranger = ScriptedPhone::udp_from("127.0.0.2", leg.bench.udp()).await;
    proven(again, "Proxy-Authorization", 2);
    for person in ["one", "another"] {
        let answer = trunk.response(again, "200 OK", person, &offer(40_002));
        let answer = answer.replace(
            "Contact:",
            &format!("Record-Route: <sip:{};lr>\r\nContact:", stranger.local),
        );
        trunk.send(&answer).await;
        let ack = stranger.expect("ACK ").await;
        assert_eq!(header(&ack, "Proxy-Authorization"), None);
    }
    let bye = stranger.expect("BYE ").await;
    assert!(header(&bye, "To").unwrap().contains("another"), "{bye}");
    challenge(&mut stranger, &bye, "407 Proxy Authentication Required").await;
    while let Some(more) = stranger.hears(Duration::from_millis(100)).await {
        assert_eq!(header(&more, "Proxy-Authorization"), None, "{more}");
    }
    leg.phone.hang_up().await;
}
