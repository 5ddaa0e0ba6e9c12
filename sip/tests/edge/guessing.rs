//! Password guessing: what is blocked, by address and user, and what is not.

use crate::{
    digests::{DigestCredentials, is_stale},
    support::{CallBehaviour, ScriptedPhone, TestEdge, header, offer},
};

/// The answer to these credentials from that address.
async fn asked_from(host: &str, bench: &TestEdge, password: Option<&'static str>) -> (u16, String) {
    let uri = format!("sip:+622150001000@{}", bench.udp());
    let mut phone = ScriptedPhone::udp_from(host, bench.udp()).await;
    let called = phone.to.clone();
    let invite = phone.request("INVITE", "", &offer(40_000));
    phone.send(&invite).await;
    let mut answer = phone.expect("SIP/2.0 407").await;
    if let Some(password) = password {
        let proof = DigestCredentials {
            password,
            ..DigestCredentials::to(&answer, &uri)
        };
        phone.to = called;
        phone
            .ask("INVITE", &proof.header("Authorization"), &offer(40_000))
            .await;
        answer = loop {
            let answer = phone.answered("SIP/2.0 ").await;
            if !answer.starts_with("SIP/2.0 1") {
                break answer;
            }
        };
    }
    let status = answer[8..11].parse().unwrap();
    if status == 200 {
        phone.acknowledge("").await;
        phone.hang_up().await;
    }
    (status, answer)
}

fn refusals(bench: &TestEdge, reason: &str) -> Vec<(String, u64)> {
    let refused = bench.edge.statistics().refused;
    let of = refused
        .into_iter()
        .filter(|one| one.reason == reason && one.count > 0);
    of.map(|one| (one.trunk, one.count)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn guessing_passwords_is_slowed_and_counted() {
    let bench = TestEdge::with(CallBehaviour::Echo, 10, |sip| {
        sip.trunks = TestEdge::of_users()
    })
    .await;
    let right = Some("rahasia");
    for guess in 0..10 {
        let (status, answer) = asked_from("127.0.0.3", &bench, Some("salah")).await;
        assert_eq!(status, 407, "guess {guess}");
        assert!(!is_stale(&answer), "it is not to be tried again");
    }
    let (status, answer) = asked_from("127.0.0.3", &bench, right).await;
    assert_eq!(status, 403, "{answer}");
    assert_eq!(header(&answer, "Retry-After"), Some("60"));
    assert_eq!(refusals(&bench, "password"), [("users".to_owned(), 10)]);
    assert_eq!(refusals(&bench, "blocked"), [("users".to_owned(), 1)]);
    // Other addresses are not blocked.
    assert_eq!(asked_from("127.0.0.4", &bench, right).await.0, 200);
    assert_eq!(bench.calls().len(), 1);
}

/// A carrier that calls from an address that no trunk has gives up at the challenge.
#[tokio::test(flavor = "multi_thread")]
async fn a_caller_without_credentials_is_counted_unless_it_is_known() {
    let bench = TestEdge::with(CallBehaviour::Echo, 10, |sip| {
        sip.trunks = TestEdge::of_users();
    })
    .await;
    assert_eq!(asked_from("127.0.0.3", &bench, None).await.0, 407);
    assert_eq!(refusals(&bench, "credentials"), [(String::new(), 1)]);
    // The first INVITE of a phone has none either.
    let right = Some("rahasia");
    assert_eq!(asked_from("127.0.0.2", &bench, right).await.0, 200);
    for _ in 0..3 {
        assert_eq!(asked_from("127.0.0.2", &bench, None).await.0, 407);
    }
    assert_eq!(refusals(&bench, "credentials"), [(String::new(), 2)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_is_blocked_for_those_who_have_called_from_there_too() {
    let bench = TestEdge::with(CallBehaviour::Echo, 10, |sip| {
        sip.trunks = TestEdge::of_users();
    })
    .await;
    let right = Some("rahasia");
    assert_eq!(asked_from("127.0.0.2", &bench, right).await.0, 200);
    let uri = format!("sip:+622150001000@{}", bench.udp());
    for _ in 0..10 {
        let (_, challenges) = asked_from("127.0.0.2", &bench, None).await;
        let proof = DigestCredentials {
            username: "budi",
            ..DigestCredentials::to(&challenges, &uri)
        };
        let mut phone = ScriptedPhone::udp_from("127.0.0.2", bench.udp()).await;
        let proof = proof.header("Proxy-Authorization");
        let invite = phone.request("INVITE", &proof, &offer(40_000));
        phone.send(&invite).await;
        phone.expect("SIP/2.0 407").await;
    }
    assert_eq!(asked_from("127.0.0.2", &bench, right).await.0, 403);
    assert_eq!(refusals(&bench, "blocked"), [("users".to_owned(), 1)]);
}

/// The sender of a forged address never sees a valid nonce for it, so it cannot get another's address blocked.
#[tokio::test(flavor = "multi_thread")]
async fn a_nonce_is_good_only_where_it_was_sent() {
    let bench = TestEdge::with(CallBehaviour::Echo, 10, |sip| {
        sip.trunks = TestEdge::of_users()
    })
    .await;
    let uri = format!("sip:+622150001000@{}", bench.udp());
    let (_, elsewhere) = asked_from("127.0.0.2", &bench, None).await;
    let mut phone = ScriptedPhone::udp_from("127.0.0.3", bench.udp()).await;
    let proof = DigestCredentials::to(&elsewhere, &uri).header("Proxy-Authorization");
    let invite = phone.request("INVITE", &proof, &offer(40_000));
    phone.send(&invite).await;
    let answer = phone.expect("SIP/2.0 407").await;
    assert!(is_stale(&answer), "a phone that moved asks again by itself");
    assert!(refusals(&bench, "password").is_empty());
}
