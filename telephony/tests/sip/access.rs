//! Who may call, and whom they reach.

use std::{net::SocketAddr, process::Command, time::Duration};

use dikala_telephony::settings::Transport;

use crate::support::{Bench, Manner, Phone, Running, eventually, flood, header, need, offer};

#[tokio::test(flavor = "multi_thread")]
async fn strangers_are_refused_and_nothing_is_kept_of_them() {
    let bench = Bench::with(Manner::Echo, 10, |sip| {
        sip.trunks[0].addresses = vec!["192.0.2.0/24".parse().unwrap()];
    })
    .await;
    let mut phone = Phone::udp(bench.udp()).await;
    let invite = phone.request("INVITE", "", &offer(40_000));
    phone.send(&invite).await;
    let first = phone.expect("SIP/2.0 403").await;
    // Nothing was kept, so nothing is repeated, and the same request gets the same answer.
    assert_eq!(phone.hears(Duration::from_millis(900)).await, None);
    phone.send(&invite).await;
    assert_eq!(phone.expect("SIP/2.0 403").await, first);
    assert_eq!(bench.calls().len(), 0);
    assert_eq!(bench.edge.statistics().invites, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn sipp_proves_itself_with_md5() {
    if !need("sipp") {
        return;
    }
    let bench = Bench::with(Manner::Echo, 10, |sip| sip.trunks = Bench::of_users()).await;
    let folder = tempfile::tempdir().unwrap();
    let scenario = folder.path().join("auth.xml");
    std::fs::write(&scenario, AUTHENTICATED).unwrap();
    for (password, content) in [("rahasia", true), ("salah", false)] {
        let mut sipp = Command::new("sipp");
        sipp.current_dir(folder.path())
            .args(["-sf", scenario.to_str().unwrap(), "-m", "12", "-r", "20"])
            .args(["-au", "ayu", "-ap", password, "-s", "+622150001000"])
            .args([
                "-i",
                "127.0.0.1",
                "-timeout",
                "15",
                "-timeout_error",
                "-nostdin",
            ])
            .arg(bench.udp().to_string());
        assert_eq!(
            Running::start(&mut sipp).end(Duration::from_secs(30)).await,
            content
        );
    }
    assert_eq!(bench.calls().len(), 12);
    let call = bench.calls().swap_remove(0);
    assert_eq!(call.metadata["sip"]["trunk"], "users");
    assert_eq!(
        call.caller, "1001",
        "users are not trusted to assert who calls"
    );
}

const AUTHENTICATED: &str = r#"<?xml version="1.0" encoding="ISO-8859-1" ?>
<scenario name="digest">
  <send retrans="500"><![CDATA[
      INVITE sip:[service]@[remote_ip]:[remote_port] SIP/2.0
      Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
      From: <sip:1001@[local_ip]:[local_port]>;tag=[pid]s[call_number]
      To: <sip:[service]@[remote_ip]:[remote_port]>
      Call-ID: [call_id]
      CSeq: 1 INVITE
      Contact: <sip:1001@[local_ip]:[local_port]>
      Max-Forwards: 70
      Content-Length: 0

  ]]></send>
  <recv response="407" auth="true"></recv>
  <send><![CDATA[
      ACK sip:[service]@[remote_ip]:[remote_port] SIP/2.0
      [last_Via:]
      [last_From:]
      [last_To:]
      [last_Call-ID:]
      CSeq: 1 ACK
      Content-Length: 0

  ]]></send>
  <send retrans="500"><![CDATA[
      INVITE sip:[service]@[remote_ip]:[remote_port] SIP/2.0
      Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
      From: <sip:1001@[local_ip]:[local_port]>;tag=[pid]s[call_number]
      To: <sip:[service]@[remote_ip]:[remote_port]>
      Call-ID: [call_id]
      CSeq: 2 INVITE
      Contact: <sip:1001@[local_ip]:[local_port]>
      [authentication]
      P-Asserted-Identity: <sip:+62811999999@trunk>
      Max-Forwards: 70
      Content-Type: application/sdp
      Content-Length: [len]

      v=0
      o=- 1 1 IN IP4 [local_ip]
      s=-
      c=IN IP4 [media_ip]
      t=0 0
      m=audio [media_port] RTP/AVP 0
      a=rtpmap:0 PCMU/8000

  ]]></send>
  <recv response="100" optional="true"></recv>
  <recv response="180" optional="true"></recv>
  <recv response="200"></recv>
  <send><![CDATA[
      ACK sip:[service]@[remote_ip]:[remote_port] SIP/2.0
      Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
      [last_From:]
      [last_To:]
      [last_Call-ID:]
      CSeq: 2 ACK
      Content-Length: 0

  ]]></send>
  <pause milliseconds="100"/>
  <send retrans="500"><![CDATA[
      BYE sip:[service]@[remote_ip]:[remote_port] SIP/2.0
      Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
      [last_From:]
      [last_To:]
      [last_Call-ID:]
      CSeq: 3 BYE
      Content-Length: 0

  ]]></send>
  <recv response="200"></recv>
</scenario>
"#;

/// What a digest is made for.
struct Proof {
    algorithm: &'static str,
    password: &'static str,
    uri: String,
    /// None is the old way, without `qop`.
    count: Option<u32>,
}

impl Proof {
    fn new(algorithm: &'static str, password: &'static str, count: u32) -> Self {
        Self {
            algorithm,
            password,
            uri: String::new(),
            count: Some(count),
        }
    }

    /// The header, made by hand; for the request's own URI where no other is wanted.
    fn header(&self, challenges: &str, edge: SocketAddr) -> String {
        use md5::{Digest, Md5};
        let Self {
            algorithm,
            password,
            ..
        } = self;
        let uri = match self.uri.as_str() {
            "" => format!("sip:+622150001000@{edge}"),
            other => other.to_owned(),
        };
        let challenge = challenges
            .split("\r\n")
            .find(|line| {
                line.starts_with("Proxy-Authenticate")
                    && line.contains(&format!("algorithm={algorithm}"))
            })
            .unwrap();
        let nonce = challenge.split("nonce=\"").nth(1).unwrap();
        let nonce = nonce.split('"').next().unwrap();
        let hash = |text: String| match *algorithm {
            "MD5" => hex::encode(Md5::digest(text)),
            _ => hex::encode(sha2::Sha256::digest(text)),
        };
        let secret = hash(format!("ayu:dikala:{password}"));
        let request = hash(format!("INVITE:{uri}"));
        let (counted, said) = match self.count {
            Some(count) => (
                format!("{count:08x}:abc:auth:"),
                format!(", qop=auth, nc={count:08x}, cnonce=\"abc\""),
            ),
            None => Default::default(),
        };
        let response = hash(format!("{secret}:{nonce}:{counted}{request}"));
        format!(
            "Proxy-Authorization: Digest username=\"ayu\", realm=\"dikala\", nonce=\"{nonce}\", uri=\"{uri}\", \
             response=\"{response}\", algorithm={algorithm}{said}\r\n"
        )
    }
}

/// The challenges that a call without a proof gets.
async fn challenges(edge: SocketAddr) -> String {
    let mut phone = Phone::udp(edge).await;
    let invite = phone.request("INVITE", "", &offer(40_000));
    phone.send(&invite).await;
    phone.expect("SIP/2.0 407").await
}

/// What becomes of a call with this proof; one that is taken is hung up at once.
async fn tried(edge: SocketAddr, challenges: &str, proof: &Proof) -> (u16, String) {
    let mut phone = Phone::udp(edge).await;
    let invite = phone.request("INVITE", &proof.header(challenges, edge), &offer(40_000));
    phone.send(&invite).await;
    loop {
        let answer = phone.expect("SIP/2.0 ").await;
        if answer.starts_with("SIP/2.0 200") {
            phone.acknowledge("").await;
            phone.hang_up().await;
            return (200, answer);
        }
        if !answer.starts_with("SIP/2.0 1") {
            return (answer[8..11].parse().unwrap(), answer);
        }
    }
}

fn stale(answer: &str) -> bool {
    let challenge = header(answer, "Proxy-Authenticate").unwrap();
    challenge.contains("stale=true")
}

#[tokio::test(flavor = "multi_thread")]
async fn digests_are_checked_with_their_nonce_and_count() {
    let bench = Bench::with(Manner::Echo, 100, |sip| sip.trunks = Bench::of_users()).await;
    let edge = bench.udp();
    let challenges = challenges(edge).await;
    // The tenth use is 0a.
    for count in 1..=17 {
        let algorithm = if count % 2 == 0 { "MD5" } else { "SHA-256" };
        let (status, _) = tried(edge, &challenges, &Proof::new(algorithm, "rahasia", count)).await;
        assert_eq!(status, 200, "use {count}");
    }
    let (status, answer) = tried(edge, &challenges, &Proof::new("MD5", "rahasia", 17)).await;
    assert_eq!((status, stale(&answer)), (407, true));
    let (status, _) = tried(edge, &challenges, &Proof::new("SHA-256", "salah", 18)).await;
    assert_eq!(status, 403);
    let foreign = challenges.replace("nonce=\"", "nonce=\"f");
    let (status, answer) = tried(edge, &foreign, &Proof::new("MD5", "rahasia", 19)).await;
    assert_eq!((status, stale(&answer)), (407, false));
    assert_eq!(bench.calls().len(), 17);
}

/// Phones of RFC 2069 know no `qop`, and so cannot count.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_count_a_nonce_is_good_once() {
    let bench = Bench::with(Manner::Echo, 100, |sip| sip.trunks = Bench::of_users()).await;
    let edge = bench.udp();
    for algorithm in ["MD5", "SHA-256"] {
        let challenges = challenges(edge).await;
        let proof = |password| Proof {
            count: None,
            ..Proof::new(algorithm, password, 0)
        };
        let (status, _) = tried(edge, &challenges, &proof("salah")).await;
        assert_eq!(status, 403);
        let (status, _) = tried(edge, &challenges, &proof("rahasia")).await;
        assert_eq!(status, 200);
        let (status, answer) = tried(edge, &challenges, &proof("rahasia")).await;
        assert_eq!((status, stale(&answer)), (407, true));
    }
    assert_eq!(bench.calls().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proof_for_another_address_is_none() {
    let bench = Bench::with(Manner::Echo, 100, |sip| sip.trunks = Bench::of_users()).await;
    let edge = bench.udp();
    let challenges = challenges(edge).await;
    for (count, uri, expected) in [
        (1, format!("sip:+622150001001@{edge}"), 400),
        (2, "sip:+622150001000@192.0.2.1".to_owned(), 400),
        (3, "+622150001000".to_owned(), 400),
        (4, format!("sip:%2B622150001000@{edge};transport=udp"), 200),
        (5, format!("sip:{edge}"), 200),
    ] {
        let proof = Proof {
            uri: uri.clone(),
            ..Proof::new("SHA-256", "rahasia", count)
        };
        let (status, _) = tried(edge, &challenges, &proof).await;
        assert_eq!(status, expected, "{uri}");
    }
    assert_eq!(bench.calls().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_are_made_e164_and_only_trusted_trunks_assert_who_calls() {
    let bench = Bench::new(Manner::Ring).await;
    let asserted =
        "P-Asserted-Identity: \"Shop, \\\"A\\\"\" <sip:02150009999@trunk>, <tel:+622150009999>\r\n";
    for (did, from, extra, expected) in [
        (
            "021-5000-1000",
            "08123456789",
            "",
            ("+622150001000", "+628123456789"),
        ),
        (
            "622150001000",
            "anonymous",
            "",
            ("+622150001000", "anonymous"),
        ),
        (
            "+622150001000",
            "anonymous",
            asserted,
            ("+622150001000", "+622150009999"),
        ),
    ] {
        let mut phone = Phone::udp(bench.udp()).await;
        phone.did = did.to_owned();
        let invite = phone
            .request("INVITE", extra, &offer(40_000))
            .replace("08123456789", from);
        phone.send(&invite).await;
        phone.expect("SIP/2.0 180").await;
        let calls = bench.calls();
        let call = calls.last().unwrap();
        assert_eq!((call.did.as_str(), call.caller.as_str()), expected);
    }
    for (did, to, status) in [
        ("12", "12", 484),
        ("ayu", "ayu", 404),
        ("ayu", "021 5000 1001", 180),
    ] {
        let mut phone = Phone::udp(bench.udp()).await;
        phone.to = format!("<sip:{}@{}>", to.replace(' ', "-"), phone.edge);
        phone.did = did.to_owned();
        let invite = phone.request("INVITE", "", &offer(40_000));
        phone.send(&invite).await;
        phone.expect(&format!("SIP/2.0 {status}")).await;
    }
    assert_eq!(bench.calls().last().unwrap().did, "+622150001001");
}

/// Asks ten times inside the call that both phones share, and counts the answers.
async fn answered(phone: &mut Phone) -> usize {
    let mut answered = 0;
    for _ in 0..10 {
        phone.ask("OPTIONS", "", "").await;
        let heard = phone.hears(Duration::from_millis(500)).await;
        answered += usize::from(heard.is_some_and(|heard| heard.starts_with("SIP/2.0 200")));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    answered
}

/// Somebody at the caller's own address asks far more than is read of strangers.
#[tokio::test(flavor = "multi_thread")]
async fn who_proved_himself_is_heard_beside_a_flood() {
    let bench = Bench::with(Manner::Echo, 10, |sip| sip.trunks = Bench::of_users()).await;
    let edge = bench.udp();
    let challenges = challenges(edge).await;
    let mut phone = Phone::udp(edge).await;
    let proof = Proof::new("SHA-256", "rahasia", 1).header(&challenges, edge);
    phone.call(&proof, &offer(40_000)).await;

    // He may open more connections than strangers.
    let mut connections = Vec::new();
    for _ in 0..50 {
        let mut other = Phone::tcp(bench.address(Transport::Tcp)).await;
        let options = other.request("OPTIONS", "", "");
        other.send(&options).await;
        other.expect("SIP/2.0 200").await;
        connections.push(other);
    }

    let flood = flood(edge).await;
    eventually("it is too much", || {
        bench.edge.statistics().strangers_dropped > 2_000
    })
    .await;
    let calls = bench.calls().len();
    // A datagram may be lost in the crowd; of those that are thrown away nine in ten would be.
    assert!(answered(&mut phone).await >= 8);
    let mut moved = Phone::udp(edge).await;
    moved.call_id = phone.call_id.clone();
    moved.to = phone.to.clone();
    moved.cseq = phone.cseq;
    assert!(answered(&mut moved).await >= 8, "from another port");
    let mut stranger = Phone::udp(edge).await;
    assert!(answered(&mut stranger).await < 8, "in no call");
    flood.abort();
    assert_eq!(bench.calls().len(), calls);
}
