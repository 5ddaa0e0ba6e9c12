//! Digest authentication: which credentials are accepted and which are refused.

use dikala_sip::settings::SipTransport;
use md5::{Digest, Md5};

use std::time::Duration;

use crate::support::{CallBehaviour, ScriptedPhone, TestEdge, eventually, flood, header, offer};

/// Digest credentials, built by hand.
pub struct DigestCredentials {
    pub username: &'static str,
    pub password: &'static str,
    pub realm: &'static str,
    pub uri: String,
    pub algorithm: &'static str,
    /// Empty: as before RFC 2617.
    pub qop: &'static str,
    pub count: u32,
    pub nonce: String,
}

impl DigestCredentials {
    /// Correct credentials for these challenges.
    pub fn to(challenges: &str, uri: &str) -> Self {
        Self {
            username: "ayu",
            password: "rahasia",
            realm: "dikala",
            uri: uri.to_owned(),
            algorithm: "MD5",
            qop: "auth",
            count: 1,
            nonce: nonce(challenges),
        }
    }

    pub fn header(&self, name: &str) -> String {
        let Self {
            username,
            password,
            realm,
            uri,
            algorithm,
            qop,
            count,
            nonce,
        } = self;
        let hash = |text: String| match *algorithm {
            "MD5" => hex::encode(Md5::digest(text)),
            _ => hex::encode(sha2::Sha256::digest(text)),
        };
        let secret = hash(format!("{username}:{realm}:{password}"));
        let request = match *qop {
            "auth-int" => format!("INVITE:{uri}:{}", hash(String::new())),
            _ => format!("INVITE:{uri}"),
        };
        let request = hash(request);
        let (response, counted) = if qop.is_empty() {
            (hash(format!("{secret}:{nonce}:{request}")), String::new())
        } else {
            let response = hash(format!("{secret}:{nonce}:{count:08x}:abc:{qop}:{request}"));
            (
                response,
                format!(", qop={qop}, nc={count:08x}, cnonce=\"abc\""),
            )
        };
        format!(
            "{name}: Digest username=\"{username}\", realm=\"{realm}\", nonce=\"{nonce}\", uri=\"{uri}\", \
             response=\"{response}\", algorithm={algorithm}{counted}\r\n"
        )
    }
}

fn nonce(challenges: &str) -> String {
    let challenge = header(challenges, "Proxy-Authenticate").unwrap();
    let after = challenge.split("nonce=\"").nth(1).unwrap();
    after.split('"').next().unwrap().to_owned()
}

/// Calls like a phone with the right password; `change` edits each INVITE. Returns the 200, which is acknowledged.
pub async fn call_by_digest(
    phone: &mut ScriptedPhone,
    change: impl Fn(String) -> String,
    body: &str,
) -> String {
    let answer = unacknowledged_by_digest(phone, change, body).await;
    phone.acknowledge("").await;
    answer
}

/// The same without the ACK.
pub async fn unacknowledged_by_digest(
    phone: &mut ScriptedPhone,
    change: impl Fn(String) -> String,
    body: &str,
) -> String {
    let called = phone.to.clone();
    let invite = phone.request("INVITE", "", body);
    phone.send(&change(invite)).await;
    let challenges = phone.answered("SIP/2.0 407").await;
    let ack = phone.written("ACK", "", "");
    phone.send(&ack).await;
    (phone.to, phone.cseq) = (called, phone.cseq + 1);
    let uri = format!("sip:{}@{}", phone.did, phone.edge);
    let proof = DigestCredentials::to(&challenges, &uri).header("Proxy-Authorization");
    let invite = phone.request("INVITE", &proof, body);
    phone.send(&change(invite)).await;
    phone.answered("SIP/2.0 200").await
}

/// The final answer to an INVITE with these credentials; an accepted call is hung up.
async fn asked(bench: &TestEdge, proof: &str) -> (u16, String) {
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let invite = phone.request("INVITE", proof, &offer(40_000));
    phone.send(&invite).await;
    loop {
        let answer = phone.expect("SIP/2.0 ").await;
        let status = answer[8..11].parse().unwrap();
        if status == 200 {
            phone.acknowledge("").await;
            phone.hang_up().await;
        }
        if status >= 200 {
            return (status, answer);
        }
    }
}

/// An edge for users, its challenges, and the URI that phones call.
async fn demanding() -> (TestEdge, String, String) {
    let bench = TestEdge::with(CallBehaviour::Echo, 100, |sip| {
        sip.trunks = TestEdge::of_users()
    })
    .await;
    let (status, challenges) = asked(&bench, "").await;
    assert_eq!(status, 407);
    let uri = format!("sip:+622150001000@{}", bench.udp());
    (bench, challenges, uri)
}

pub fn is_stale(answer: &str) -> bool {
    header(answer, "Proxy-Authenticate")
        .unwrap()
        .contains("stale=true")
}

#[tokio::test(flavor = "multi_thread")]
async fn digests_are_checked_with_their_nonce_and_count() {
    let (bench, challenges, uri) = demanding().await;
    let proof = |count: u32, algorithm: &'static str| DigestCredentials {
        count,
        algorithm,
        ..DigestCredentials::to(&challenges, &uri)
    };
    // The tenth use is 0a.
    for count in 1..=17 {
        let algorithm = if count % 2 == 0 { "MD5" } else { "SHA-256" };
        let proof = proof(count, algorithm).header("Proxy-Authorization");
        assert_eq!(asked(&bench, &proof).await.0, 200, "use {count}");
    }
    // A replayed count, and an older one.
    for count in [17, 3] {
        let proof = proof(count, "MD5").header("Proxy-Authorization");
        let (status, answer) = asked(&bench, &proof).await;
        assert_eq!(status, 407, "use {count} again");
        assert!(is_stale(&answer));
        assert_ne!(nonce(&answer), nonce(&challenges));
    }
    let foreign = DigestCredentials {
        nonce: format!("f{}", nonce(&challenges)),
        ..proof(19, "MD5")
    };
    let (status, answer) = asked(&bench, &foreign.header("Proxy-Authorization")).await;
    assert_eq!(status, 407);
    assert!(
        is_stale(&answer),
        "a nonce from before a restart looks the same"
    );
    assert_eq!(bench.calls().len(), 17);
}

/// The repeated INVITE with credentials has the same Call-ID and tag and the next CSeq number: it is the same call.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_asked_for_again_with_proof_and_begins_once() {
    let bench = TestEdge::with(CallBehaviour::Echo, 10, |sip| {
        sip.trunks = TestEdge::of_users()
    })
    .await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let called = phone.to.clone();
    let invite = phone.request("INVITE", "", &offer(40_000));
    phone.send(&invite).await;
    let challenges = phone.expect("SIP/2.0 407").await;
    let uri = format!("sip:+622150001000@{}", bench.udp());
    for (count, status) in [(1, "SIP/2.0 200"), (2, "SIP/2.0 482")] {
        let ack = phone.written("ACK", "", "");
        phone.send(&ack).await;
        phone.to.clone_from(&called);
        let proof = DigestCredentials {
            count,
            ..DigestCredentials::to(&challenges, &uri)
        };
        let proof = proof.header("Proxy-Authorization");
        phone.ask("INVITE", &proof, &offer(40_000)).await;
        phone.answered(status).await;
    }
    assert_eq!(bench.calls().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_proof_is_none() {
    let (bench, challenges, uri) = demanding().await;
    let right = || DigestCredentials::to(&challenges, &uri);
    let own = "Proxy-Authorization";
    for (what, proof, status) in [
        (
            "a wrong password",
            DigestCredentials {
                password: "salah",
                ..right()
            }
            .header(own),
            407,
        ),
        (
            "nobody's name",
            DigestCredentials {
                username: "budi",
                ..right()
            }
            .header(own),
            407,
        ),
        (
            "another realm",
            DigestCredentials {
                realm: "elsewhere",
                ..right()
            }
            .header(own),
            407,
        ),
        (
            "a wrong password without a count",
            DigestCredentials {
                password: "salah",
                qop: "",
                ..right()
            }
            .header(own),
            407,
        ),
        (
            "a quality that was not offered",
            DigestCredentials {
                qop: "auth-int",
                ..right()
            }
            .header(own),
            407,
        ),
        (
            "an algorithm that was not offered",
            right()
                .header(own)
                .replace("algorithm=MD5", "algorithm=MD5-sess"),
            407,
        ),
        (
            "for another number",
            DigestCredentials {
                uri: format!("sip:+622150009999@{}", bench.udp()),
                ..right()
            }
            .header(own),
            400,
        ),
        (
            "for another host",
            DigestCredentials {
                uri: "sip:+622150001000@192.0.2.1".to_owned(),
                ..right()
            }
            .header(own),
            400,
        ),
        (
            "for what is no address",
            DigestCredentials {
                uri: "x".to_owned(),
                ..right()
            }
            .header(own),
            400,
        ),
        (
            "no count",
            right().header(own).replace("nc=00000001, ", ""),
            407,
        ),
        (
            "another scheme",
            format!("{own}: Basic YXl1OnJhaGFzaWE=\r\n"),
            407,
        ),
        (
            "half of one",
            format!("{own}: Digest username=\"ayu\r\n"),
            407,
        ),
    ] {
        let (is, answer) = asked(&bench, &proof).await;
        assert_eq!(is, status, "{what}: {answer}");
        // The phone may try again with another nonce.
        assert!(is != 407 || nonce(&answer) != nonce(&challenges));
    }
    assert_eq!(bench.calls().len(), 0, "nothing is kept of them");
    // Credentials for another realm beside the right ones, and those for a server in place of a proxy.
    let elsewhere = DigestCredentials {
        realm: "elsewhere",
        ..right()
    };
    let both = elsewhere.header(own) + &right().header(own);
    assert_eq!(asked(&bench, &both).await.0, 200);
    let second = DigestCredentials {
        count: 2,
        ..right()
    };
    assert_eq!(asked(&bench, &second.header("Authorization")).await.0, 200);
}

/// Phones of RFC 2069 know no `qop`, and so cannot count.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_count_a_nonce_is_good_once() {
    let (bench, challenges, uri) = demanding().await;
    let proof = DigestCredentials {
        qop: "",
        ..DigestCredentials::to(&challenges, &uri)
    };
    let proof = proof.header("Proxy-Authorization");
    assert_eq!(asked(&bench, &proof).await.0, 200);
    let (status, answer) = asked(&bench, &proof).await;
    assert_eq!((status, is_stale(&answer)), (407, true));
    assert_eq!(bench.calls().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_address_may_be_written_in_many_ways() {
    let (bench, challenges, uri) = demanding().await;
    let edge = bench.udp();
    for (count, uri) in [
        (1, uri),
        (2, format!("sip:%2B622150001000@{edge};transport=udp")),
        // The URI that sipp sends.
        (3, format!("sip:{edge}")),
    ] {
        let proof = DigestCredentials {
            count,
            ..DigestCredentials::to(&challenges, &uri)
        };
        let (status, answer) = asked(&bench, &proof.header("Proxy-Authorization")).await;
        assert_eq!(status, 200, "{uri}: {answer}");
    }
}

/// Sends ten requests inside the call that both phones share, and counts those answered within `patience`.
async fn answered(phone: &mut ScriptedPhone, patience: Duration) -> usize {
    let mut answered = 0;
    for _ in 0..10 {
        phone.ask("OPTIONS", "", "").await;
        let heard = phone.hears(patience).await;
        answered += usize::from(heard.is_some_and(|heard| heard.starts_with("SIP/2.0 200")));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    answered
}

/// True if almost all are answered. On a busy machine more may be lost now and then, so it tries again.
async fn is_heard(phone: &mut ScriptedPhone) -> bool {
    for _ in 0..3 {
        // A flood may cost a datagram. Without priority nine in ten would be lost.
        if answered(phone, Duration::from_secs(2)).await >= 8 {
            return true;
        }
    }
    false
}

/// Another peer at the caller's address exceeds the strangers' rate limit by far.
#[tokio::test(flavor = "multi_thread")]
async fn who_proved_himself_is_heard_beside_a_flood() {
    let (bench, challenges, uri) = demanding().await;
    let edge = bench.udp();
    let mut phone = ScriptedPhone::udp(edge).await;
    let proof = DigestCredentials::to(&challenges, &uri).header("Proxy-Authorization");
    phone.call(&proof, &offer(40_000)).await;

    // An authenticated peer may open more connections than a stranger.
    let mut connections = Vec::new();
    for _ in 0..50 {
        let mut other = ScriptedPhone::tcp(bench.address(SipTransport::Tcp)).await;
        let options = other.request("OPTIONS", "", "");
        other.send(&options).await;
        other.expect("SIP/2.0 200").await;
        connections.push(other);
    }

    let flood = flood("127.0.0.1", edge).await;
    eventually("it is too much", || {
        bench.edge.statistics().strangers_dropped > 2_000
    })
    .await;
    let calls = bench.calls().len();
    assert!(is_heard(&mut phone).await);
    let mut moved = ScriptedPhone::udp(edge).await;
    moved.call_id = phone.call_id.clone();
    moved.to = phone.to.clone();
    moved.cseq = phone.cseq;
    assert!(is_heard(&mut moved).await, "from another port");
    flood.abort();
    assert_eq!(bench.calls().len(), calls);
}
