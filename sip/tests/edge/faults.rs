//! Faulty messages.

use std::time::Duration;

use dikala_sip::leg::CallRefusal;

use crate::support::{CallBehaviour, PATIENCE, ScriptedPhone, TestEdge, header, offer};

/// Builds a phone's request.
type Request = Box<dyn Fn(&mut ScriptedPhone) -> String>;

/// A caller's wish to its provider (RFC 3323).
#[tokio::test(flavor = "multi_thread")]
async fn what_proxies_are_to_know_need_not_be_known_here() {
    let bench = TestEdge::new(CallBehaviour::Ring).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let invite = phone.request("INVITE", "Proxy-Require: privacy\r\n", &offer(40_000));
    phone.send(&invite).await;
    phone.expect("SIP/2.0 180").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_served_is_told_why() {
    let bench = TestEdge::new(CallBehaviour::Ring).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let invite =
        |phone: &mut ScriptedPhone, extra: &str| phone.request("INVITE", extra, &offer(40_000));
    let table: [(&str, u16, Request); 16] = [
        (
            "an extension",
            420,
            Box::new(move |p| invite(p, "Require: precondition\r\n")),
        ),
        (
            "a body of another kind",
            415,
            Box::new(move |p| invite(p, "").replace("application/sdp", "text/plain")),
        ),
        (
            "a packed body",
            415,
            Box::new(move |p| invite(p, "Content-Encoding: gzip\r\n")),
        ),
        (
            "no wish for SDP",
            406,
            Box::new(move |p| invite(p, "Accept: text/nobodyKnowsThis\r\n")),
        ),
        (
            "no SDP",
            400,
            Box::new(|p| p.request("INVITE", "", "hello")),
        ),
        (
            "another version",
            505,
            Box::new(move |p| invite(p, "").replacen("SIP/2.0\r\n", "SIP/7.0\r\n", 1)),
        ),
        (
            "another scheme",
            416,
            Box::new(move |p| {
                invite(p, "").replacen("INVITE sip:", "INVITE nobodyKnowsThisScheme:", 1)
            }),
        ),
        (
            "spaces in the URI",
            400,
            Box::new(move |p| invite(p, "").replacen("INVITE sip:", "INVITE sip: ", 1)),
        ),
        (
            "another method in CSeq",
            400,
            Box::new(move |p| invite(p, "").replace(" INVITE\r\n", " BYE\r\n")),
        ),
        (
            "two From",
            400,
            Box::new(move |p| invite(p, "From: <sip:b@c>;tag=2\r\n")),
        ),
        (
            "an open quote",
            400,
            Box::new(move |p| invite(p, "").replace("\"Budi\"", "\"Budi")),
        ),
        (
            "a body shorter than told",
            400,
            Box::new(|p| {
                p.request("INVITE", "", "")
                    .replace("Length: 0", "Length: 9999")
            }),
        ),
        (
            "a negative length",
            400,
            Box::new(|p| {
                p.request("INVITE", "", "")
                    .replace("Length: 0", "Length: -999")
            }),
        ),
        (
            "a number too large",
            400,
            Box::new(move |p| invite(p, "").replace("CSeq: ", "CSeq: 36893488147419103232")),
        ),
        (
            "a method nobody knows",
            501,
            Box::new(|p| p.request("NEWMETHOD", "", "")),
        ),
        (
            "a method that is not served",
            405,
            Box::new(|p| p.request("SUBSCRIBE", "", "")),
        ),
    ];
    for (what, status, make) in table {
        phone.call_id = format!("{:x}@phone", rand::random::<u64>());
        let request = make(&mut phone);
        phone.send(&request).await;
        let answer = loop {
            match phone.hears(PATIENCE).await {
                // The answer may be a retransmission of an earlier one.
                Some(answer)
                    if answer.starts_with("SIP/2.0 1")
                        || header(&answer, "Call-ID").is_some_and(|id| id != phone.call_id) => {}
                Some(answer) => break answer,
                None => panic!("{what} is not answered"),
            }
        };
        assert!(
            answer.starts_with(&format!("SIP/2.0 {status}")),
            "{what}: {answer}"
        );
        let reason = header(&answer, "Reason").unwrap_or_default();
        let said = format!("SIP;cause={status};text=\"");
        assert!(
            reason.starts_with(&said) && reason.len() > said.len() + 2,
            "{what}: {answer}"
        );
        match status {
            420 => assert!(header(&answer, "Unsupported").is_some()),
            415 => assert!(
                header(&answer, "Accept")
                    .unwrap()
                    .contains("application/sdp")
            ),
            405 => assert!(header(&answer, "Allow").unwrap().contains("INVITE")),
            _ => {}
        }
        let ack = phone.written("ACK", "", "");
        phone.send(&ack).await;
    }
    for method in ["BYE", "UPDATE", "INFO", "PRACK"] {
        let mut phone = ScriptedPhone::udp(bench.udp()).await;
        let request = phone.request(method, "", "");
        phone.send(&request).await;
        phone.expect("SIP/2.0 481").await;
    }
    assert_eq!(bench.calls().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invite_that_came_by_two_ways_is_one_call() {
    let bench = TestEdge::new(CallBehaviour::Ring).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let first = phone.request("INVITE", "", &offer(40_000));
    phone.send(&first).await;
    phone.expect("SIP/2.0 180").await;
    let second = first.replace("branch=z9hG4bK-", "branch=z9hG4bK-another-");
    phone.send(&second).await;
    let merged = phone.expect("SIP/2.0 482").await;
    assert!(header(&merged, "Reason").unwrap().contains("another way"));
    assert_eq!(bench.calls().len(), 1);
}

/// The tests of RFC 4475 whose wording matters to the parser, folded as there.
#[tokio::test(flavor = "multi_thread")]
async fn messages_that_are_odd_but_right_are_understood() {
    let bench = TestEdge::new(CallBehaviour::Ring).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let sdp = offer(40_000);
    let odd = format!(
        "INVITE sip:+622150001000@{edge};unknownparam SIP/2.0\r\nTO :\r\n sip:+622150001000@{edge} ;   tag    = 1918181833n\r\n\
         from   : \"J Rosenberg \\\\\\\"\"       <sip:jdrosen@example.com>\r\n  ;\r\n  tag = 98asjd8\r\nMaX-fOrWaRdS: 0068\r\n\
         Call-ID: wsinv.ndaksdj@192.0.2.1\r\nContent-Length   : {length}\r\ncseq: 0009\r\n  INVITE\r\n\
         Via  : SIP  /   2.0\r\n /UDP\r\n    {local};branch=390skdjuw;rport\r\ns :\r\nNewFangledHeader:   newfangled value\r\n \
         continued newfangled value\r\nUnknownHeaderWithUnusualValue: ;;,,;;,;\r\nContent-Type: application/sdp\r\n\
         v:  SIP  / 2.0  / TCP     spindle.example.com   ;\r\n  branch  =   z9hG4bK9ikj8  ,\r\n SIP  /    2.0   / UDP  192.168.255.111   ; branch=\r\n \
         z9hG4bK30239\r\nm:\"Quoted string \\\"\\\"\" <sip:jdrosen@{local}> ; newparam =\r\n      newvalue ;\r\n  secondparam ; q = 0.33\r\n\r\n{sdp}",
        edge = phone.edge,
        local = phone.local,
        length = sdp.len(),
    )
    // The original names a dialog, which does not exist here.
    .replace(" ;   tag    = 1918181833n", "");
    phone.send(&odd).await;
    let ringing = phone.expect("SIP/2.0 180").await;
    assert_eq!(ringing.matches("Via:").count(), 3, "{ringing}");
    assert_eq!(bench.call().id, "wsinv.ndaksdj@192.0.2.1;98asjd8");

    // Trailing bytes, an escaped user, an old peer without a branch.
    for (number, bend) in [
        (
            "1",
            Box::new(|text: String| text + "OPTIONS sip:x SIP/2.0\r\n\r\n")
                as Box<dyn Fn(String) -> String>,
        ),
        (
            "2",
            Box::new(|text| text.replace("sip:+622150001000@", "sip:%2B622150001000@")),
        ),
        ("3", Box::new(|text| text.replace("z9hG4bK", ""))),
        (
            "4",
            Box::new(|text| text.replace("Contact:", "m:").replace("Call-ID:", "i :")),
        ),
    ] {
        let mut phone = ScriptedPhone::udp(bench.udp()).await;
        phone.call_id = format!("odd-{number}@phone");
        let invite = bend(phone.request("INVITE", "", &sdp));
        phone.send(&invite).await;
        phone.expect("SIP/2.0 180").await;
        assert_eq!(bench.calls().last().unwrap().did, "+622150001000");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rubbish_is_survived() {
    let bench = TestEdge::new(CallBehaviour::Reject(CallRefusal {
        status: 480,
        words: "nobody is here".to_owned(),
        retry_after_seconds: None,
    }))
    .await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let invite = phone.request("INVITE", "", &offer(40_000)).into_bytes();
    let mut state = 88_172_645_463_325_252_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % u64::try_from(below).unwrap()).unwrap()
    };
    for _ in 0..3_000 {
        let mut bytes = invite.clone();
        for _ in 0..1 + random(8) {
            let at = random(bytes.len().max(1));
            if bytes.is_empty() {
                break;
            }
            match random(3) {
                0 => bytes[at] = u8::try_from(random(256)).unwrap(),
                1 => drop(bytes.remove(at)),
                _ => bytes.truncate(at.max(1)),
            }
        }
        phone.send_bytes(&bytes).await;
    }
    for bytes in [
        &b"\0\0\0\0"[..],
        b"\r\n\r\n",
        b"SIP/2.0 999999 x\r\n\r\n",
        b"\xff\xfe",
        &[b'A'; 60_000],
    ] {
        phone.send_bytes(bytes).await;
    }
    let mut other = ScriptedPhone::udp(bench.udp()).await;
    let invite = other.request("INVITE", "", &offer(40_000));
    other.send(&invite).await;
    other.expect("SIP/2.0 480").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_of_strangers_are_bounded_and_end_when_they_say_nothing_sensible() {
    let bench = TestEdge::with(CallBehaviour::Echo, 10, |sip| {
        sip.trunks = TestEdge::of_users()
    })
    .await;
    let edge = bench.address(dikala_sip::settings::SipTransport::Tcp);
    let mut phone = ScriptedPhone::tcp(edge).await;
    phone.send("INVITE sip:a@b SIP/2.0\r\nVia: SIP/2.0/TCP a;branch=z9hG4bKx\r\nContent-Length: 4294967295\r\n\r\n").await;
    let answer = phone.expect("SIP/2.0 400").await;
    assert!(answer.contains("Via:"));
    assert_eq!(phone.hears(PATIENCE).await, None, "it is closed");

    let mut idle = Vec::new();
    let mut closed = 0;
    for _ in 0..64 {
        let mut phone = ScriptedPhone::tcp(edge).await;
        let _ = phone.hears(Duration::from_millis(1)).await;
        idle.push(phone);
    }
    for phone in &mut idle {
        let options = phone.request("OPTIONS", "", "");
        phone.try_send(options.as_bytes()).await;
        // The edge closes excess connections at once.
        if phone.hears(PATIENCE).await.is_none() {
            closed += 1;
        }
    }
    assert_eq!(closed, 32);
}

/// Line ends keep a connection open; each double CRLF gets one answer.
#[tokio::test(flavor = "multi_thread")]
async fn pings_of_strangers_are_answered() {
    let bench = TestEdge::with(CallBehaviour::Echo, 10, |sip| {
        sip.trunks = TestEdge::of_users()
    })
    .await;
    let edge = bench.address(dikala_sip::settings::SipTransport::Tcp);
    let mut phone = ScriptedPhone::tcp(edge).await;
    for count in [3, 10_000] {
        phone.send(&"\r\n\r\n".repeat(count)).await;
        let mut heard = String::new();
        while heard.len() < 2 * count {
            let more = phone.reads(2 * count - heard.len()).await;
            assert!(!more.is_empty(), "it is closed after {}", heard.len());
            heard += &more;
        }
        assert_eq!(heard, "\r\n".repeat(count));
    }
    assert_eq!(bench.edge.statistics().strangers_dropped, 0);
}

/// Thousands of INVITEs of a stranger, while a call of a trunk goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_strangers_costs_calls_nothing() {
    let bench = TestEdge::with(CallBehaviour::Echo, 10, |sip| {
        sip.trunks[0].addresses = vec!["127.0.0.1/32".parse().unwrap()];
    })
    .await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    phone.call("", &offer(40_000)).await;
    let mut stranger = ScriptedPhone::udp_from("127.0.0.2", bench.udp()).await;
    let until = tokio::time::Instant::now() + PATIENCE;
    while bench.edge.statistics().strangers_dropped <= 5_000 {
        assert!(tokio::time::Instant::now() < until, "all of it is read");
        for _ in 0..500 {
            let invite = stranger.request("INVITE", "", &offer(40_000));
            stranger.send(&invite).await;
        }
    }
    // Datagrams may be lost in the flood, so the request is repeated until it is answered.
    let options = loop {
        phone.ask("OPTIONS", "", "").await;
        if let Some(answer) = phone.hears(Duration::from_millis(300)).await {
            break answer;
        }
    };
    assert!(options.starts_with("SIP/2.0 200"), "{options}");
    let statistics = bench.edge.statistics();
    assert_eq!((statistics.invites, bench.calls().len()), (1, 1));
    phone.hang_up().await;
}
