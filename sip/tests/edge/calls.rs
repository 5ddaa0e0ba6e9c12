//! Calls from the first INVITE to the last BYE.

use std::time::Duration;

use dikala_sip::{
    leg::{CallRefusal, LegEvent},
    settings::SipTransport,
};

use crate::support::{
    CallBehaviour, PhoneMedia, ScriptedPhone, TestEdge, eventually, header, offer,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_is_answered_and_hangs_up() {
    let bench = TestEdge::new(CallBehaviour::Echo).await;
    for transport in [SipTransport::Udp, SipTransport::Tcp] {
        let edge = bench.address(transport);
        let mut phone = match transport {
            SipTransport::Udp => ScriptedPhone::udp(edge).await,
            _ => ScriptedPhone::tcp(edge).await,
        };
        let invite = phone.request("INVITE", "", &offer(40_000));
        phone.send(&invite).await;
        phone.expect("SIP/2.0 100").await;
        phone.expect("SIP/2.0 180").await;
        let answer = phone.expect("SIP/2.0 200").await;
        assert!(answer.contains("m=audio "), "{answer}");
        assert!(header(&answer, "Allow").unwrap().contains("UPDATE"));
        assert!(
            header(&answer, "Contact")
                .unwrap()
                .contains(&edge.to_string())
        );
        assert!(
            !bench
                .calls()
                .last()
                .unwrap()
                .events
                .contains(&LegEvent::Answered)
        );
        phone.acknowledge("").await;
        eventually("the call stands", || {
            bench
                .calls()
                .last()
                .unwrap()
                .events
                .contains(&LegEvent::Answered)
        })
        .await;
        phone.hang_up().await;
        eventually("the call is over", || bench.calls().last().unwrap().over).await;
        let call = bench.calls().pop().unwrap();
        assert!(call.events.contains(&LegEvent::HungUp), "{call:?}");
        assert_eq!(call.id, format!("{};phone", phone.call_id));
        assert_eq!(
            (call.did.as_str(), call.caller.as_str()),
            ("+622150001000", "+628123456789")
        );
        assert_eq!(call.sip_call_id, phone.call_id);
        assert_eq!(
            (call.trunk.as_str(), call.user_agent.as_deref()),
            ("here", Some("phone/1"))
        );
        assert_eq!(
            call.codec,
            Some("PCMU"),
            "the first of the caller's that we have"
        );
    }
    eventually("no call counts", || bench.edge.statistics().calls == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn we_hang_up_with_a_reason() {
    let bench = TestEdge::new(CallBehaviour::HangUp).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    phone.call("", &offer(40_000)).await;
    let bye = phone.expect("BYE ").await;
    assert!(
        header(&bye, "Reason").unwrap().contains("enough said"),
        "{bye}"
    );
    assert!(
        bye.starts_with(&format!("BYE sip:budi@{} ", phone.local)),
        "{bye}"
    );
    phone.answer(&bye, "200 OK").await;
    // An answered BYE is not retransmitted.
    phone.falls_silent().await;

    // A closing edge waits for the answers to its BYEs.
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    phone.call("", &offer(40_000)).await;
    let closed = tokio::spawn(bench.edge.close());
    let bye = phone.expect("BYE ").await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!closed.is_finished());
    phone.answer(&bye, "200 OK").await;
    closed.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_bears_its_status_and_words_and_is_repeated_until_acknowledged() {
    let bench = TestEdge::new(CallBehaviour::Reject(CallRefusal {
        status: 486,
        words: "all agents \"speak\"".to_owned(),
        retry_after_seconds: Some(30),
    }))
    .await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let invite = phone.request("INVITE", "", &offer(40_000));
    phone.send(&invite).await;
    let refusal = phone.expect("SIP/2.0 486").await;
    assert_eq!(
        header(&refusal, "Reason"),
        Some("SIP;cause=486;text=\"all agents  speak \"")
    );
    assert_eq!(header(&refusal, "Retry-After"), Some("30"));
    phone.expect("SIP/2.0 486").await;
    let ack = phone.written("ACK", "", "");
    phone.send(&ack).await;
    phone.falls_silent().await;
    // The same INVITE again is the same call.
    phone.send(&invite).await;
    phone.expect("SIP/2.0 486").await;
    assert_eq!(bench.calls().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_200_is_repeated_until_acknowledged_and_so_is_the_100_and_180() {
    let bench = TestEdge::new(CallBehaviour::Echo).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let invite = phone.request("INVITE", "", &offer(40_000));
    phone.send(&invite).await;
    let first = phone.expect("SIP/2.0 200").await;
    let second = phone.expect("SIP/2.0 200").await;
    assert_eq!(first, second);
    phone.send(&invite).await;
    assert_eq!(phone.expect("SIP/2.0 200").await, first);
    phone.acknowledge("").await;
    eventually("the call stands", || bench.saw(&LegEvent::Answered)).await;
    phone.falls_silent().await;
    assert_eq!(bench.calls().len(), 1);
    // A repeated ACK does no harm.
    phone.acknowledge("").await;
    phone.hang_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_may_give_up_at_any_moment() {
    let ringing = TestEdge::new(CallBehaviour::Ring).await;
    let mut phone = ScriptedPhone::udp(ringing.udp()).await;
    let invite = phone.request("INVITE", "", &offer(40_000));
    phone.send(&invite).await;
    phone.expect("SIP/2.0 180").await;
    let cancel = phone.written("CANCEL", "", "");
    phone.send(&cancel).await;
    let mut heard = [
        phone.expect("SIP/2.0 ").await,
        phone.expect("SIP/2.0 ").await,
    ];
    heard.sort();
    assert!(
        heard[0].starts_with("SIP/2.0 200")
            && header(&heard[0], "CSeq").unwrap().ends_with("CANCEL")
    );
    assert!(heard[1].starts_with("SIP/2.0 487"), "{heard:?}");
    eventually("the task hears", || ringing.saw(&LegEvent::Cancelled)).await;

    // Before the INVITE there is nothing to cancel.
    let mut early = ScriptedPhone::udp(ringing.udp()).await;
    let cancel = early.request("CANCEL", "", "");
    early.send(&cancel).await;
    early.expect("SIP/2.0 481").await;

    // At once, whatever was sent back so far; and too late, after the 200.
    let answering = TestEdge::new(CallBehaviour::Echo).await;
    for _ in 0..30 {
        let mut phone = ScriptedPhone::udp(answering.udp()).await;
        let invite = phone.request("INVITE", "", &offer(40_000));
        phone.send(&invite).await;
        let cancel = phone.written("CANCEL", "", "");
        phone.send(&cancel).await;
        loop {
            let heard = phone.expect("SIP/2.0 ").await;
            if heard.starts_with("SIP/2.0 487") {
                break;
            }
            if heard.starts_with("SIP/2.0 200")
                && header(&heard, "CSeq").unwrap().ends_with("INVITE")
            {
                phone.acknowledge("").await;
                phone.hang_up().await;
                break;
            }
        }
    }
    eventually("all are over", || answering.edge.statistics().calls == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_offer_is_ours_and_the_ack_answers_it() {
    let bench = TestEdge::new(CallBehaviour::Echo).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let invite = phone.request("INVITE", "", "");
    phone.send(&invite).await;
    let answer = phone.expect("SIP/2.0 200").await;
    for codec in ["opus/48000", "PCMA/8000", "PCMU/8000"] {
        assert!(answer.contains(codec), "{answer}");
    }
    let sdp = offer(40_000).replace("RTP/AVP 0 8 101", "RTP/AVP 0 101");
    phone
        .acknowledge(&sdp.replace("a=rtpmap:8 PCMA/8000\r\n", ""))
        .await;
    eventually("the call stands", || bench.saw(&LegEvent::Answered)).await;
    phone.hang_up().await;

    // An answer without a common codec ends the call.
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let invite = phone.request("INVITE", "", "");
    phone.send(&invite).await;
    phone.expect("SIP/2.0 200").await;
    phone.acknowledge("v=0\r\n").await;
    let bye = phone.expect("BYE ").await;
    assert!(header(&bye, "Reason").unwrap().contains("488"), "{bye}");
    phone.answer(&bye, "200 OK").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ringing_is_reliable_where_the_caller_demands_it() {
    let bench = TestEdge::new(CallBehaviour::Echo).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let invite = phone.request("INVITE", "Require: 100rel\r\n", &offer(40_000));
    phone.send(&invite).await;
    let ringing = phone.expect("SIP/2.0 180").await;
    let number = header(&ringing, "RSeq").unwrap().to_owned();
    assert_eq!(header(&ringing, "Require"), Some("100rel"));
    let again = phone.expect("SIP/2.0 ").await;
    assert_eq!(
        again, ringing,
        "not acknowledged, it is sent again, and the 200 waits"
    );
    phone.ask("PRACK", "RAck: 1 1 INVITE\r\n", "").await;
    phone.expect("SIP/2.0 481").await;
    phone
        .ask("PRACK", &format!("RAck: {number} 1 INVITE\r\n"), "")
        .await;
    let mut heard = [
        phone.expect("SIP/2.0 200").await,
        phone.expect("SIP/2.0 200").await,
    ];
    heard.sort_by_key(|heard| header(heard, "CSeq").unwrap().ends_with("INVITE"));
    assert!(header(&heard[0], "CSeq").unwrap().ends_with("PRACK"));
    assert!(header(&heard[1], "CSeq").unwrap().ends_with("INVITE"));
    phone.cseq = 1;
    phone.acknowledge("").await;
    phone.cseq = 3;
    eventually("the call stands", || bench.saw(&LegEvent::Answered)).await;
    phone.hang_up().await;
}

/// Rings without an offer of the phone. Returns the phone, the 180 and the head of its PRACK.
async fn ringing_with_our_offer(bench: &TestEdge) -> (ScriptedPhone, String, String) {
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let invite = phone.request("INVITE", "Require: 100rel\r\n", "");
    phone.send(&invite).await;
    let ringing = phone.expect("SIP/2.0 180").await;
    let rack = format!("RAck: {} 1 INVITE\r\n", header(&ringing, "RSeq").unwrap());
    (phone, ringing, rack)
}

/// The answers to PRACK and INVITE, in either order.
async fn both(phone: &mut ScriptedPhone, status: &str) -> (String, String) {
    let mut heard = [phone.expect(status).await, phone.expect(status).await];
    heard.sort_by_key(|heard| header(heard, "CSeq").unwrap().ends_with("INVITE"));
    let [prack, invite] = heard;
    assert!(header(&prack, "CSeq").unwrap().ends_with("PRACK"));
    assert!(header(&invite, "CSeq").unwrap().ends_with("INVITE"));
    (prack, invite)
}

#[tokio::test(flavor = "multi_thread")]
async fn who_wants_our_offer_and_reliable_ringing_gets_it_with_the_ringing() {
    let bench = TestEdge::new(CallBehaviour::Echo).await;
    let (mut phone, ringing, rack) = ringing_with_our_offer(&bench).await;
    assert!(ringing.contains("opus/48000"), "{ringing}");
    let mut sound = PhoneMedia::new().await;
    let answer = offer(sound.port()).replace("RTP/AVP 0 8 101", "RTP/AVP 8 101");
    phone.ask("PRACK", &rack, &answer).await;
    let (_, taken) = both(&mut phone, "SIP/2.0 200").await;
    assert!(!taken.contains("m=audio"), "all is agreed on: {taken}");
    phone.cseq = 1;
    phone.acknowledge("").await;
    phone.cseq = 2;
    eventually("the call stands", || bench.saw(&LegEvent::Answered)).await;
    let mut quiet = 0;
    while !sound.is_loud().await {
        sound.send(&ringing).await;
        quiet += 1;
        assert!(quiet < 500, "nothing was heard");
    }
    phone.hang_up().await;

    // A PRACK without an answer is accepted; the ACK carries one.
    let (mut phone, _, rack) = ringing_with_our_offer(&bench).await;
    phone.ask("PRACK", &rack, "").await;
    let (_, taken) = both(&mut phone, "SIP/2.0 200").await;
    assert!(taken.contains("opus/48000"), "{taken}");
    phone.cseq = 1;
    phone.acknowledge(&answer).await;
    phone.cseq = 2;
    eventually("it stands, too", || {
        let calls = bench.calls();
        calls.last().unwrap().events.contains(&LegEvent::Answered)
    })
    .await;
    phone.hang_up().await;

    // An unusable answer ends the call.
    let (mut phone, _, rack) = ringing_with_our_offer(&bench).await;
    let none = answer
        .replace("RTP/AVP 8 101", "RTP/AVP 18")
        .replace("PCMA", "G729");
    phone.ask("PRACK", &rack, &none).await;
    both(&mut phone, "SIP/2.0 488").await;
    eventually("no call counts", || bench.edge.statistics().calls == 0).await;
}

/// RFC 3262, 3: after 64 × T1.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes half a minute"]
async fn ringing_that_is_never_acknowledged_is_given_up() {
    let bench = TestEdge::new(CallBehaviour::Ring).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let invite = phone.request("INVITE", "Require: 100rel\r\n", &offer(40_000));
    phone.send(&invite).await;
    phone.within(40, "SIP/2.0 504").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_call_too_many_and_calls_while_draining_are_told_when_to_come_back() {
    let bench = TestEdge::with(CallBehaviour::Echo, 1, |_| ()).await;
    let mut first = ScriptedPhone::udp(bench.udp()).await;
    first.call("", &offer(40_000)).await;
    let mut second = ScriptedPhone::udp(bench.udp()).await;
    let invite = second.request("INVITE", "", &offer(40_000));
    second.send(&invite).await;
    let refusal = second.expect("SIP/2.0 503").await;
    assert!(header(&refusal, "Retry-After").is_some());
    first.ask("OPTIONS", "", "").await;
    first.answered("SIP/2.0 200").await;

    bench.edge.drain();
    let mut probe = ScriptedPhone::udp(bench.udp()).await;
    let options = probe.request("OPTIONS", "", "");
    probe.send(&options).await;
    let answer = probe.expect("SIP/2.0 503").await;
    assert!(header(&answer, "Allow").is_some());
    assert_eq!(header(&answer, "Retry-After"), Some("10"));
    assert!(header(&answer, "Reason").unwrap().contains("stopped"));
    first.hang_up().await;
    let mut third = ScriptedPhone::udp(bench.udp()).await;
    let invite = third.request("INVITE", "", &offer(40_000));
    third.send(&invite).await;
    let refusal = third.expect("SIP/2.0 503").await;
    assert!(header(&refusal, "Retry-After").is_some());
    assert_eq!(bench.calls().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_public_address_stands_where_peers_look_for_us() {
    let bench = TestEdge::with(CallBehaviour::Echo, 10, |sip| {
        sip.public_address = Some("203.0.113.7".to_owned());
    })
    .await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let answer = phone.call("", &offer(40_000)).await;
    let contact = format!("<sip:dikala@203.0.113.7:{}>", bench.udp().port());
    assert_eq!(header(&answer, "Contact"), Some(contact.as_str()));
    assert!(answer.contains("c=IN IP4 203.0.113.7"), "{answer}");
    phone.hang_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_come_over_ipv6() {
    if std::net::UdpSocket::bind("[::1]:0").is_err() {
        eprintln!("skipped: this machine has no IPv6");
        return;
    }
    let bench = TestEdge::with(CallBehaviour::Echo, 10, |sip| {
        for listen in &mut sip.listen {
            listen.address = "[::1]:0".parse().unwrap();
        }
    })
    .await;
    let mut phone = ScriptedPhone::udp_from("::1", bench.udp()).await;
    let sdp = offer(40_000).replace("IP4 127.0.0.1", "IP6 ::1");
    let answer = phone.call("", &sdp).await;
    assert!(answer.contains("c=IN IP6 ::1"), "{answer}");
    phone.hang_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_reach_the_task_each_once() {
    let bench = TestEdge::new(CallBehaviour::Echo).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let mut sound = PhoneMedia::new().await;
    let answer = phone.call("", &offer(sound.port())).await;
    for event in [4, 2, 2, 11] {
        for _ in 0..5 {
            sound.send(&answer).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        sound.press(&answer, event).await;
    }
    let keys = || -> String {
        let happened = bench.call().events;
        let key = |happening: &LegEvent| match happening {
            LegEvent::Key(key) => Some(*key),
            _ => None,
        };
        happened.iter().filter_map(key).collect()
    };
    eventually("four keys", || keys().len() >= 4).await;
    assert_eq!(keys(), "422#");
    phone.hang_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_media_stops_is_told_and_ended() {
    let bench = TestEdge::new(CallBehaviour::Echo).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let mut sound = PhoneMedia::new().await;
    let answer = phone.call("", &offer(sound.port())).await;
    while !sound.is_loud().await {
        sound.send(&answer).await;
    }
    let bye = loop {
        match phone.hears(Duration::from_secs(30)).await {
            Some(heard) if heard.starts_with("BYE ") => break heard,
            Some(_) => {}
            None => panic!("it was not ended"),
        }
    };
    phone.answer(&bye, "200 OK").await;
    assert!(bench.saw(&LegEvent::MediaLost));
}
