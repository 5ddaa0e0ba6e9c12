//! Edge cases: messages that cross, get lost, come in pieces or from the wrong side.

use std::time::Duration;

use dikala_sip::{
    leg::{CallRefusal, LegEvent},
    settings::SipTransport,
};

use crate::support::{CallBehaviour, ScriptedPhone, TestEdge, eventually, header, offer};

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_may_hang_up_before_acknowledging_and_cancel_too_late() {
    let bench = TestEdge::new(CallBehaviour::Echo).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let invite = phone.request("INVITE", "", &offer(40_000));
    phone.send(&invite).await;
    phone.expect("SIP/2.0 200").await;
    let cancel = phone.written("CANCEL", "", "");
    phone.send(&cancel).await;
    let too_late = phone.expect("SIP/2.0 200").await;
    assert!(header(&too_late, "CSeq").unwrap().ends_with("CANCEL"));
    phone.ask("BYE", "", "").await;
    loop {
        let answer = phone.expect("SIP/2.0 200").await;
        if header(&answer, "CSeq").unwrap().ends_with("BYE") {
            break;
        }
    }
    eventually("the call is over", || bench.call().over).await;
    assert!(bench.saw(&LegEvent::HungUp));
    // Neither another 200 nor a BYE of ours comes after that.
    assert_eq!(phone.hears(Duration::from_millis(1_200)).await, None);
}

/// A trunk that retries a refused call, or reroutes it, keeps Call-ID and tag. To the service another CSeq number is another
/// call; the same number is not.
#[tokio::test(flavor = "multi_thread")]
async fn who_was_refused_may_ask_once_more_by_the_same_id() {
    let bench = TestEdge::new(CallBehaviour::Reject(CallRefusal {
        status: 503,
        words: "Not now.".to_owned(),
        retry_after_seconds: Some(1),
    }))
    .await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let called = phone.to.clone();
    let way = |invite: &str| invite.replace("branch=z9hG4bK-", "branch=z9hG4bK-another-");
    for number in 1..4 {
        phone.cseq = number;
        let invite = phone.request("INVITE", "", &offer(40_000));
        phone.send(&invite).await;
        let refused = phone.answered("SIP/2.0 503").await;
        assert_eq!(header(&refused, "Retry-After"), Some("1"));
        let hunted = way(&invite);
        if number == 1 {
            phone.send(&hunted).await;
            phone.answered("SIP/2.0 482").await;
            phone.to = header(&refused, "To").unwrap().to_owned();
        }
        let ack = phone.written("ACK", "", "");
        phone.send(&ack).await;
        phone.to.clone_from(&called);
        phone.send(&way(&hunted)).await;
        // The first refusal may be retransmitted.
        while !header(&phone.answered("SIP/2.0 503").await, "Via")
            .unwrap()
            .contains("another")
        {}
        let ack = way(&way(&phone.written("ACK", "", "")));
        phone.send(&ack).await;
        phone.to.clone_from(&called);
    }
    let first = format!("{};phone", phone.call_id);
    let told = ["", "", ";2", ";2", ";3", ";3"].map(|number| format!("{first}{number}"));
    let ids = bench.calls().into_iter().map(|call| call.id);
    assert_eq!(ids.collect::<Vec<_>>(), told);
    eventually("all are gone", || bench.edge.statistics().calls == 0).await;
}

/// To the service two calls with one Call-ID and tag are one: only one of them would be paid for.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_open_is_not_begun_again() {
    for manner in [CallBehaviour::Ring, CallBehaviour::Echo] {
        let rings = matches!(manner, CallBehaviour::Ring);
        let bench = TestEdge::new(manner).await;
        let mut phone = ScriptedPhone::udp(bench.udp()).await;
        let mut other = ScriptedPhone::tcp(bench.address(SipTransport::Tcp)).await;
        let called = phone.to.clone();
        if rings {
            let invite = phone.request("INVITE", "", &offer(40_000));
            phone.send(&invite).await;
            phone.expect("SIP/2.0 180").await;
        } else {
            phone.call("", &offer(40_000)).await;
        }
        other.call_id.clone_from(&phone.call_id);
        for number in 2..4 {
            other.cseq = number;
            let again = other.request("INVITE", "", &offer(40_002));
            other.send(&again).await;
            let refused = other.answered("SIP/2.0 4").await;
            assert!(refused.starts_with("SIP/2.0 482"), "{refused}");
            assert!(header(&refused, "Reason").unwrap().contains("already"));
            let ack = other.written("ACK", "", "");
            other.send(&ack).await;
            other.to.clone_from(&called);
        }
        assert!(!bench.call().over);
        assert_eq!(bench.edge.statistics().calls, 1);
        if rings {
            let cancel = phone.written("CANCEL", "", "");
            phone.send(&cancel).await;
            phone.expect("SIP/2.0 487").await;
            let ack = phone.written("ACK", "", "");
            phone.send(&ack).await;
        } else {
            phone.hang_up().await;
            eventually("the call is gone", || bench.edge.statistics().calls == 0).await;
        }
        // A call that is over leaves nothing, and a refused one leaves nothing from the moment of the refusal.
        (phone.to, phone.cseq) = (called, 9);
        phone.ask("INVITE", "", &offer(40_000)).await;
        phone.answered("SIP/2.0 180").await;
        assert_eq!(bench.calls().len(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_peer_speaks_inside_a_call() {
    let bench = TestEdge::new(CallBehaviour::Echo).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    phone.call("", &offer(40_000)).await;
    eventually("the call stands", || bench.saw(&LegEvent::Answered)).await;
    for method in ["BYE", "INVITE", "UPDATE", "INFO"] {
        phone.cseq += 1;
        let strange = phone
            .request(method, "", "")
            .replace(";tag=phone", ";tag=other");
        phone.send(&strange).await;
        phone.expect("SIP/2.0 481").await;
        if method == "INVITE" {
            let ack = phone
                .written("ACK", "", "")
                .replace(";tag=phone", ";tag=other");
            phone.send(&ack).await;
        }
    }
    // Methods that are not served, inside and outside a call.
    phone.ask("MESSAGE", "", "").await;
    let refused = phone.expect("SIP/2.0 405").await;
    assert!(header(&refused, "Allow").unwrap().contains("INFO"));
    let mut other = ScriptedPhone::udp(bench.udp()).await;
    let refer = other.request("REFER", "Refer-To: <sip:a@b>\r\n", "");
    other.send(&refer).await;
    other.expect("SIP/2.0 405").await;
    assert!(!bench.call().over);
    phone.hang_up().await;
}

/// Our requests inside a call follow the recorded routes, in their order.
#[tokio::test(flavor = "multi_thread")]
async fn routes_are_followed_loose_and_strict() {
    for (parameter, uri_is_contact) in [(";lr", true), ("", false)] {
        let bench = TestEdge::new(CallBehaviour::HangUp).await;
        let mut phone = ScriptedPhone::udp(bench.udp()).await;
        let first = format!("<sip:{}{parameter}>", phone.local);
        let routes = format!("Record-Route: {first}, <sip:far.invalid;lr>\r\n");
        let answer = phone.call(&routes, &offer(40_000)).await;
        let recorded = header(&answer, "Record-Route").unwrap();
        assert_eq!(recorded, format!("{first}, <sip:far.invalid;lr>"));
        let bye = phone.expect("BYE ").await;
        let contact = format!("sip:budi@{}", phone.local);
        let route: Vec<&str> = bye
            .split("\r\n")
            .filter_map(|line| line.strip_prefix("Route: "))
            .collect();
        if uri_is_contact {
            assert!(bye.starts_with(&format!("BYE {contact} ")), "{bye}");
            assert_eq!(route, [first.as_str(), "<sip:far.invalid;lr>"]);
        } else {
            assert!(
                bye.starts_with(&format!("BYE sip:{} ", phone.local)),
                "{bye}"
            );
            assert_eq!(route, ["<sip:far.invalid;lr>", &format!("<{contact}>")]);
        }
        phone.answer(&bye, "200 OK").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn short_names_folded_lines_and_pieces_are_one_message() {
    let bench = TestEdge::new(CallBehaviour::Ring).await;
    let mut phone = ScriptedPhone::tcp(bench.address(SipTransport::Tcp)).await;
    let sdp = offer(40_000);
    let length = format!("Content-Length: {}\r\n", sdp.len());
    let invite = phone
        .request(
            "INVITE",
            "Supported: timer, replaces,\r\n  100rel\r\nReplaces: 1@2;to-tag=a;from-tag=b\r\n",
            &sdp,
        )
        .replace("Via:", "v:")
        .replace("From:", "f :")
        .replace("To:", "t:\r\n")
        .replace("Call-ID:", "I:")
        .replace("Contact:", "m:\t")
        .replace("Content-Type:", "c:")
        .replace(&length, &format!("l:\r\n\t {}\r\n", sdp.len()));
    // A keep-alive before, half a message, the rest in small pieces with the beginning of another message.
    phone.send("\r\n\r\n").await;
    assert_eq!(pong(&mut phone).await, "\r\n");
    let invite = invite + "OPTIONS";
    for piece in invite.as_bytes().chunks(97) {
        phone.send_bytes(piece).await;
        tokio::task::yield_now().await;
    }
    phone.expect("SIP/2.0 180").await;
    assert_eq!(bench.call().codec, Some("PCMU"));
    phone.call_id = "second@phone".to_owned();
    phone.to = "<sip:dikala@phone>".to_owned();
    let rest = phone.request("OPTIONS", "", "");
    phone.send(rest.strip_prefix("OPTIONS").unwrap()).await;
    phone.expect("SIP/2.0 200").await;
}

/// The two bytes that answer a keep-alive.
async fn pong(phone: &mut ScriptedPhone) -> String {
    let mut heard = String::new();
    while heard.len() < 2 {
        heard += &phone.reads(2 - heard.len()).await;
    }
    heard
}

#[tokio::test(flavor = "multi_thread")]
async fn lengths_that_lie_cost_a_refusal_or_the_connection() {
    let bench = TestEdge::new(CallBehaviour::Ring).await;
    let sdp = offer(40_000);
    let told = |length: usize, text: &str| {
        let right = format!("Content-Length: {}\r\n", sdp.len());
        text.replace(&right, &format!("Content-Length: {length}\r\n"))
    };
    // Longer than the datagram; shorter, so that the SDP is cut off.
    for (length, status) in [(sdp.len() + 1, 400), (20, 488)] {
        let mut phone = ScriptedPhone::udp(bench.udp()).await;
        let invite = told(length, &phone.request("INVITE", "", &sdp));
        phone.send(&invite).await;
        phone.expect(&format!("SIP/2.0 {status}")).await;
    }
    // In a stream the beginning of the next message is unknown then.
    let mut phone = ScriptedPhone::tcp(bench.address(SipTransport::Tcp)).await;
    let huge = told(70_000, &phone.request("INVITE", "", &sdp));
    phone.send(&huge).await;
    phone.expect("SIP/2.0 400").await;
    assert_eq!(phone.hears(Duration::from_secs(5)).await, None);
    let mut phone = ScriptedPhone::tcp(bench.address(SipTransport::Tcp)).await;
    let twice = phone.request("INVITE", "Content-Length: 3\r\n", &sdp);
    phone.send(&twice).await;
    phone.expect("SIP/2.0 400").await;
    let mut phone = ScriptedPhone::tcp(bench.address(SipTransport::Tcp)).await;
    let unsaid = phone.request("INVITE", "", &sdp);
    let length = format!("Content-Length: {}\r\n", sdp.len());
    phone.send(&unsaid.replace(&length, "")).await;
    let refused = phone.expect("SIP/2.0 400").await;
    assert!(header(&refused, "Reason").unwrap().contains("missing"));
    assert_eq!(phone.hears(Duration::from_secs(5)).await, None);
    assert_eq!(bench.calls().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_fork_that_answers_is_hung_up() {
    let bench = TestEdge::new(CallBehaviour::Transfer("+62811111".to_owned())).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    phone.call("", &offer(40_000)).await;
    let invite = phone.expect("INVITE ").await;
    for tag in ["first", "second"] {
        let accepted = phone.response(&invite, "200 OK", tag, &offer(40_002));
        phone.send(&accepted).await;
    }
    let (mut acknowledged, mut ended) = (Vec::new(), Vec::new());
    while ended.is_empty() || acknowledged.len() < 2 {
        let heard = phone.hears(Duration::from_secs(10)).await.unwrap();
        let Some(to) = header(&heard, "To").map(str::to_owned) else {
            continue;
        };
        if heard.starts_with("ACK ") {
            acknowledged.push(to.contains("tag=second"));
        } else if heard.starts_with("BYE ") {
            phone.answer(&heard, "200 OK").await;
            ended.push(to.contains("tag=second"));
        }
    }
    acknowledged.sort_unstable();
    assert_eq!((acknowledged, ended), (vec![false, true], vec![true]));
    eventually("the first stands", || bench.is_joined()).await;
    // The ACK was lost: the 200 comes again, and so does the ACK.
    let again = phone.response(&invite, "200 OK", "first", &offer(40_002));
    phone.send(&again).await;
    let ack = phone.expect("ACK ").await;
    assert!(header(&ack, "To").unwrap().contains("tag=first"), "{ack}");
    phone.hang_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_addresses_lead_back() {
    let bench = TestEdge::new(CallBehaviour::Echo).await;
    // A `sips:` request gets a `sips:` Contact.
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let invite =
        phone
            .request("INVITE", "", &offer(40_000))
            .replacen("INVITE sip:", "INVITE sips:", 1);
    phone.send(&invite).await;
    let answer = phone.expect("SIP/2.0 200").await;
    assert!(
        header(&answer, "Contact")
            .unwrap()
            .starts_with("<sips:dikala@")
    );
    phone.acknowledge("").await;
    phone.hang_up().await;
    // A Via of IPv6 behind a translator to IPv4: the answer comes back all the same.
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let options = phone.request("OPTIONS", "", "").replacen(
        &format!("UDP {}", phone.local),
        "UDP [2001:db8::9]:5060",
        1,
    );
    phone.send(&options).await;
    let answer = phone.expect("SIP/2.0 200").await;
    let via = header(&answer, "Via").unwrap();
    assert!(via.contains("[2001:db8::9]:5060"), "{via}");
    assert!(via.contains("received=127.0.0.1"), "{via}");
    assert!(
        via.contains(&format!("rport={}", phone.local.port())),
        "{via}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_phone_behind_nat_is_reached_though_it_does_not_know_of_rport() {
    for place in ["192.168.7.7:5060", "203.0.113.7:5060", "phone.example:5060"] {
        let bench = TestEdge::new(CallBehaviour::HangUp).await;
        let mut phone = ScriptedPhone::udp(bench.udp()).await;
        let local = phone.local.to_string();
        let elsewhere = |request: String| {
            let request = request.replace(&local, place);
            request.replace(";rport", "")
        };
        let invite = elsewhere(phone.request("INVITE", "", &offer(40_000)));
        phone.send(&invite).await;
        let answer = phone.expect("SIP/2.0 200").await;
        phone.to = header(&answer, "To").unwrap().to_owned();
        let ack = elsewhere(phone.request("ACK", "", ""));
        phone.send(&ack).await;
        let bye = phone.expect("BYE ").await;
        phone.answer(&bye, "200 OK").await;
    }
}

/// Old phones, and those of RFC 2543, acknowledge an answer with the branch of their INVITE.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_acknowledged_whatever_the_branch_of_the_ack() {
    for branch in ["z9hG4bK", ""] {
        let bench = TestEdge::new(CallBehaviour::Echo).await;
        let mut phone = ScriptedPhone::udp(bench.udp()).await;
        let invite = phone.request("INVITE", "", &offer(40_000));
        phone.send(&invite.replace("z9hG4bK", branch)).await;
        phone.answered("SIP/2.0 200").await;
        let ack = phone.written("ACK", "", "");
        phone.send(&ack.replace("z9hG4bK", branch)).await;
        eventually("it is acknowledged", || bench.saw(&LegEvent::Answered)).await;
        phone.hang_up().await;
    }
}

/// A description may not lose streams in a call (RFC 3264, 8).
#[tokio::test(flavor = "multi_thread")]
async fn a_later_offer_of_ours_keeps_the_streams_of_the_first() {
    let bench = TestEdge::new(CallBehaviour::Echo).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let video = "m=video 40002 RTP/AVP 96\r\na=rtpmap:96 VP8/90000\r\n";
    phone.call("", &(offer(40_000) + video)).await;
    phone.ask("INVITE", "", "").await;
    let answer = phone.answered("SIP/2.0 200").await;
    let streams: Vec<_> = answer.match_indices("\r\nm=").collect();
    assert_eq!(streams.len(), 2, "{answer}");
    assert!(answer.ends_with("\r\nm=video 0 RTP/AVP 96\r\n"), "{answer}");
    let refused = video.replace("40002", "0");
    phone.acknowledge(&(offer(40_000) + &refused)).await;
    phone.hang_up().await;
}
