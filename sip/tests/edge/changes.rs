//! Changes to an established call by either side.

use dikala_sip::{
    leg::{HangupNote, LegEvent, Order, SPEECH_RATE},
    settings::{Codec, TransferMethod},
};

use crate::{
    proofs::{challenge, number, proven, silent_registrar},
    support::{
        CallBehaviour, PATIENCE, PhoneMedia, ScriptedPhone, TestEdge, carries, eventually, header,
        offer,
    },
};

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_held_moved_and_taken_back() {
    let bench = TestEdge::new(CallBehaviour::Echo).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    phone
        .call("Allow: INVITE, UPDATE\r\n", &offer(40_000))
        .await;
    phone
        .ask("INVITE", "", &offer(40_000).replace("sendrecv", "sendonly"))
        .await;
    let held = phone.answered("SIP/2.0 200").await;
    assert!(
        held.contains("a=recvonly") || held.contains("a=inactive"),
        "{held}"
    );
    phone.acknowledge("").await;
    eventually("it is held", || bench.saw(&LegEvent::Held(true))).await;
    phone.ask("UPDATE", "", &offer(40_002)).await;
    let back = phone.answered("SIP/2.0 200").await;
    assert!(
        back.contains("a=sendrecv") || !back.contains("only"),
        "{back}"
    );
    eventually("it is taken back", || bench.saw(&LegEvent::Held(false))).await;
    phone.ask("INVITE", "", "").await;
    let offered = phone.answered("SIP/2.0 200").await;
    assert!(
        offered.contains("opus/48000"),
        "an INVITE without offer gets ours: {offered}"
    );
    phone.acknowledge(&offer(40_004)).await;
    phone.ask("OPTIONS", "", "").await;
    phone.answered("SIP/2.0 200").await;
    // A CSeq that is too low.
    phone.cseq = 1;
    phone.ask("UPDATE", "", &offer(40_002)).await;
    phone.answered("SIP/2.0 500").await;
    phone.cseq = 20;
    phone.hang_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_offer_without_a_common_codec_changes_nothing() {
    let bench = TestEdge::with(CallBehaviour::Echo, 10, |sip| {
        sip.codecs = vec![Codec::Pcma]
    })
    .await;
    let pcmu = offer(40_000)
        .replace("RTP/AVP 0 8 101", "RTP/AVP 0 101")
        .replace("a=rtpmap:8 PCMA/8000\r\n", "");
    let mut stranger = ScriptedPhone::udp(bench.udp()).await;
    let invite = stranger.request("INVITE", "", &pcmu);
    stranger.send(&invite).await;
    let refused = stranger.answered("SIP/2.0 488").await;
    let reason = header(&refused, "Reason").unwrap();
    assert!(reason.starts_with("SIP;cause=488;text=\""), "{reason}");
    assert!(header(&refused, "Warning").unwrap().starts_with("399 "));
    assert_eq!(bench.calls().len(), 0);

    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    phone.call("", &offer(40_000)).await;
    phone.ask("INVITE", "", &pcmu).await;
    phone.answered("SIP/2.0 488").await;
    let ack = phone.written("ACK", "", "");
    phone.send(&ack).await;
    phone.ask("INVITE", "", &offer(40_000)).await;
    phone.answered("SIP/2.0 200").await;
    phone.acknowledge("").await;
    phone.hang_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_refreshed_or_ended() {
    let bench = TestEdge::new(CallBehaviour::Echo).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let invite = phone.request(
        "INVITE",
        "Supported: timer\r\nSession-Expires: 60\r\n",
        &offer(40_000),
    );
    phone.send(&invite).await;
    let refused = phone.answered("SIP/2.0 422").await;
    assert_eq!(header(&refused, "Min-SE"), Some("90"));
    assert!(header(&refused, "Reason").unwrap().contains("90 s"));
    let ack = phone.written("ACK", "", "");
    phone.send(&ack).await;

    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let answer = phone
        .call(
            "Supported: timer\r\nSession-Expires: 90;refresher=uac\r\n",
            &offer(40_000),
        )
        .await;
    assert_eq!(header(&answer, "Session-Expires"), Some("90;refresher=uac"));
    assert_eq!(header(&answer, "Require"), Some("timer"));
    phone
        .ask(
            "UPDATE",
            "Supported: timer\r\nSession-Expires: 90;refresher=uas\r\n",
            "",
        )
        .await;
    let answer = phone.answered("SIP/2.0 200").await;
    assert_eq!(header(&answer, "Session-Expires"), Some("90;refresher=uas"));
    phone.hang_up().await;
}

/// The RFC's minimum for a session timer is a minute and a half.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes a minute"]
async fn whoever_does_not_refresh_is_hung_up_and_we_refresh_when_it_is_ours() {
    let trunk = silent_registrar().await;
    let bench = TestEdge::with(CallBehaviour::Echo, 10, |sip| sip.trunks = vec![trunk]).await;
    // Held, so that missing media does not end the call.
    let held = pcma(40_000).replace("sendrecv", "inactive");
    let mut phones = Vec::new();
    for (allow, refresher) in [
        ("", "uac"),
        ("Allow: UPDATE\r\n", "uas"),
        ("", "uas"),
        ("", "uas"),
        ("", "uas"),
    ] {
        let extra =
            format!("Supported: timer\r\n{allow}Session-Expires: 90;refresher={refresher}\r\n");
        let mut phone = ScriptedPhone::udp(bench.udp()).await;
        phone.call(&extra, &held).await;
        phones.push(phone);
    }
    let [theirs, updated, invited, crossing, challenging] = &mut phones[..] else {
        panic!("five phones");
    };
    let theirs = async {
        let bye = theirs.within(75, "BYE ").await;
        assert!(header(&bye, "Reason").unwrap().contains("not refreshed"));
    };
    let updated = async {
        let update = updated.within(60, "UPDATE ").await;
        assert_eq!(header(&update, "Session-Expires"), Some("90;refresher=uac"));
        updated.answer(&update, "481 Gone").await;
        updated.expect("BYE ").await;
    };
    let invited = async {
        let invite = invited.within(60, "INVITE ").await;
        assert!(invite.contains("m=audio "), "{invite}");
        assert_eq!(header(&invite, "Supported"), Some("timer"));
        let answer = invited.response(&invite, "200 OK", "", &held);
        invited.send(&answer).await;
        invited.expect("ACK ").await;
        invited.hang_up().await;
    };
    // Both sides begin at once: both are refused, and ours comes again.
    let crossing = async {
        let invite = crossing.within(60, "INVITE ").await;
        crossing.ask("INVITE", "", &held).await;
        crossing.expect("SIP/2.0 491").await;
        let ack = crossing.written("ACK", "", "");
        crossing.send(&ack).await;
        crossing.answer(&invite, "491 Request Pending").await;
        crossing.expect("ACK ").await;
        let again = crossing.expect("INVITE ").await;
        let answer = crossing.response(&again, "200 OK", "", &held);
        crossing.send(&answer).await;
        crossing.expect("ACK ").await;
        crossing.hang_up().await;
    };
    // The trunk challenges our refresh.
    let challenging = async {
        let invite = challenging.within(60, "INVITE ").await;
        challenge(challenging, &invite, "407 Proxy Authentication Required").await;
        let ack = challenging.expect("ACK ").await;
        assert_eq!(header(&ack, "Proxy-Authorization"), None);
        let again = challenging.expect("INVITE ").await;
        let proof = proven(&again, "Proxy-Authorization", number(&invite) + 1);
        let answer = challenging.response(&again, "200 OK", "", &held);
        challenging.send(&answer).await;
        let ack = challenging.expect("ACK ").await;
        assert_eq!(header(&ack, "Proxy-Authorization"), Some(proof.as_str()));
        assert_eq!(number(&ack), number(&again));
        challenging.hang_up().await;
    };
    tokio::join!(theirs, updated, invited, crossing, challenging);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_is_referred_and_hears_how_it_went() {
    for (status, outcome) in [
        ("200 OK", Ok(())),
        (
            "486 Busy",
            Err("the other side did not take the call (status 486)".to_owned()),
        ),
    ] {
        let transferring = CallBehaviour::Transfer("+62811111".to_owned());
        let bench = TestEdge::with(transferring, 10, |sip| {
            sip.trunks[0].transfer = TransferMethod::Refer;
        })
        .await;
        let mut phone = ScriptedPhone::udp(bench.udp()).await;
        phone
            .call("Allow: INVITE, REFER, NOTIFY\r\n", &offer(40_000))
            .await;
        let refer = phone.expect("REFER ").await;
        assert!(
            header(&refer, "Refer-To")
                .unwrap()
                .contains("sip:+62811111@"),
            "{refer}"
        );
        phone.answer(&refer, "202 Accepted").await;
        for told in ["100 Trying", status] {
            phone.cseq += 1;
            let event = "Event: refer\r\nSubscription-State: active\r\n";
            let notify = phone
                .request("NOTIFY", event, &format!("SIP/2.0 {told}\r\n"))
                .replace("application/sdp", "message/sipfrag");
            phone.send(&notify).await;
            phone.answered("SIP/2.0 200").await;
        }
        let expected = LegEvent::Transfer(outcome);
        eventually("the task hears", || bench.saw(&expected)).await;
        phone.hang_up().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_phone_that_hangs_up_once_it_has_taken_a_refer_has_handed_the_caller_over() {
    for (answer, told, is_over) in [
        ("202 Accepted", None, true),
        ("202 Accepted", Some("100 Trying"), true),
        ("202 Accepted", Some("486 Busy"), false),
        ("100 Trying", None, false),
    ] {
        let bench = TestEdge::new(CallBehaviour::Transfer("+62811111".to_owned())).await;
        let mut phone = ScriptedPhone::udp(bench.udp()).await;
        phone
            .call("Allow: INVITE, REFER, NOTIFY\r\n", &offer(40_000))
            .await;
        let refer = phone.expect("REFER ").await;
        phone.answer(&refer, answer).await;
        if let Some(told) = told {
            phone.cseq += 1;
            let event = "Event: refer\r\nSubscription-State: active\r\n";
            let notify = phone
                .request("NOTIFY", event, &format!("SIP/2.0 {told}\r\n"))
                .replace("application/sdp", "message/sipfrag");
            phone.send(&notify).await;
            phone.expect("SIP/2.0 200").await;
        }
        phone.hang_up().await;
        eventually("the task hears", || bench.saw(&LegEvent::HungUp)).await;
        let transferred = bench.saw(&LegEvent::Transfer(Ok(())));
        assert_eq!(transferred, is_over, "{answer} {told:?}");
    }
}

/// The second leg comes to the phone itself, which is the trunk.
pub async fn joined(
    bench: &TestEdge,
    phone: &mut ScriptedPhone,
) -> (PhoneMedia, String, PhoneMedia, String, String) {
    let (caller, person) = (PhoneMedia::new().await, PhoneMedia::new().await);
    let answer = phone.call("", &pcma(caller.port())).await;
    let invite = phone.expect("INVITE ").await;
    assert!(invite.starts_with("INVITE sip:+62811111@"), "{invite}");
    assert!(header(&invite, "From").unwrap().contains("+622150001000"));
    // With 100rel in Supported, the trunk could require a PRACK, which is never sent.
    assert_eq!(header(&invite, "Supported"), Some("timer"));
    phone.answer(&invite, "180 Ringing").await;
    let accepted = phone.response(&invite, "200 OK", "person", &pcma(person.port()));
    phone.send(&accepted).await;
    phone.expect("ACK ").await;
    eventually("it stands", || bench.is_joined()).await;
    // The ring tone is over.
    caller.falls_silent().await;
    (caller, answer, person, invite, accepted)
}

pub fn pcma(port: u16) -> String {
    offer(port)
        .replace("RTP/AVP 0 8 101", "RTP/AVP 8 101")
        .replace("a=rtpmap:0 PCMU/8000\r\n", "")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_is_joined_to_a_second_leg_and_both_end_together() {
    let bench = TestEdge::new(CallBehaviour::Transfer("+62811111".to_owned())).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let (mut caller, answer, mut person, invite, _) = joined(&bench, &mut phone).await;
    carries(&mut caller, &answer, &person).await;
    carries(&mut person, &invite, &caller).await;
    // Keys are passed on: persons may have menus, too.
    for key in [5, 11] {
        caller.press(&answer, key).await;
    }
    assert_eq!(person.keys().await, [5, 11]);
    person.press(&invite, 7).await;
    assert_eq!(caller.keys().await, [7]);
    phone.ask("BYE", "", "").await;
    let bye = phone.expect("BYE ").await;
    assert_eq!(
        header(&bye, "Call-ID"),
        header(&invite, "Call-ID"),
        "the other leg ends too"
    );
    phone.answer(&bye, "200 OK").await;

    let bench = TestEdge::new(CallBehaviour::Transfer("+62811111".to_owned())).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let (_caller, _, _person, invite, accepted) = joined(&bench, &mut phone).await;
    let mut bye = format!(
        "BYE sip:x SIP/2.0\r\nVia: SIP/2.0/UDP {};branch=z9hG4bKperson;rport\r\n",
        phone.local
    );
    for (name, of) in [("From", "To"), ("To", "From")] {
        bye += &format!("{name}: {}\r\n", header(&accepted, of).unwrap());
    }
    let call = header(&invite, "Call-ID").unwrap();
    bye += &format!("Call-ID: {call}\r\nCSeq: 1 BYE\r\nContent-Length: 0\r\n\r\n");
    phone.send(&bye).await;
    let bye = phone.expect("BYE ").await;
    assert_eq!(
        header(&bye, "Call-ID"),
        Some(phone.call_id.as_str()),
        "so does the caller's"
    );
    eventually("the task hears", || bench.saw(&LegEvent::Parted)).await;
    phone.answer(&bye, "200 OK").await;
    eventually("no call counts", || bench.edge.statistics().calls == 0).await;
}

/// Two seconds of a loud tone.
fn sentence() -> Vec<i16> {
    let wave = |at: u32| {
        if (at / 24).is_multiple_of(2) {
            8_000
        } else {
            -8_000
        }
    };
    (0..2 * SPEECH_RATE).map(wave).collect()
}

/// Waits until something is heard.
async fn is_told(sound: &PhoneMedia) {
    let until = tokio::time::Instant::now() + PATIENCE;
    while !sound.is_loud().await {
        assert!(tokio::time::Instant::now() < until, "nothing was heard");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn both_who_are_joined_hear_an_announcement_and_are_hung_up() {
    let bench = TestEdge::new(CallBehaviour::Transfer("+62811111".to_owned())).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let (mut caller, answer, mut person, invite, _) = joined(&bench, &mut phone).await;
    carries(&mut caller, &answer, &person).await;
    carries(&mut person, &invite, &caller).await;
    assert_eq!(bench.edge.statistics().joined, 1);
    // Earlier speech is over.
    caller.falls_silent().await;
    person.falls_silent().await;
    bench.order(Order::Announce(sentence())).await;
    is_told(&caller).await;
    is_told(&person).await;
    let words = "The service stops.".to_owned();
    bench.order(Order::Hangup(HangupNote { words })).await;
    let (mut calls, mut reasons) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let bye = phone.expect("BYE ").await;
        calls.push(header(&bye, "Call-ID").unwrap().to_owned());
        reasons.extend(header(&bye, "Reason").map(str::to_owned));
        phone.answer(&bye, "200 OK").await;
    }
    calls.sort();
    let mut expected = [
        phone.call_id.clone(),
        header(&invite, "Call-ID").unwrap().to_owned(),
    ];
    expected.sort();
    assert_eq!(calls, expected);
    let told = |reason: &String| reason.contains("The service stops.");
    assert!(reasons.iter().any(told), "{reasons:?}");
    eventually("no call counts", || {
        let counted = bench.edge.statistics();
        (counted.calls, counted.joined) == (0, 0)
    })
    .await;
    let persons = bench.edge.statistics().persons;
    assert_eq!((persons.answered, persons.failed), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_leg_that_is_refused_goes_back_as_words_and_one_that_rings_is_cancelled() {
    let bench = TestEdge::new(CallBehaviour::Transfer("+62811111".to_owned())).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    phone.call("", &offer(40_000)).await;
    let invite = phone.expect("INVITE ").await;
    let busy = phone.response(&invite, "486 Busy Here", "person", "");
    phone.send(&busy).await;
    phone.expect("ACK ").await;
    let words = "the other side did not take the call (status 486)".to_owned();
    eventually("the task hears", || {
        bench.saw(&LegEvent::Transfer(Err(words.clone())))
    })
    .await;
    assert_eq!(bench.edge.statistics().persons.refused, 1);
    phone.hang_up().await;

    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    phone.call("", &offer(40_000)).await;
    let invite = phone.expect("INVITE ").await;
    let ringing = phone.response(&invite, "180 Ringing", "person", "");
    phone.send(&ringing).await;
    phone.ask("BYE", "", "").await;
    let cancel = phone.expect("CANCEL ").await;
    assert_eq!(header(&cancel, "Via"), header(&invite, "Via"));
    phone.answer(&cancel, "200 OK").await;
    let terminated = phone.response(&invite, "487 Request Terminated", "person", "");
    phone.send(&terminated).await;
    eventually("it is counted", || {
        bench.edge.statistics().persons.cancelled == 1
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_is_called_no_more_and_the_call_goes_on() {
    let bench = TestEdge::new(CallBehaviour::Transfer("+62811111".to_owned())).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    phone.call("", &offer(40_000)).await;
    let invite = phone.expect("INVITE ").await;
    let ringing = phone.response(&invite, "180 Ringing", "person", "");
    phone.send(&ringing).await;
    phone.cseq += 1;
    let key = phone
        .request("INFO", "", "Signal=*\r\nDuration=160\r\n")
        .replace("application/sdp", "application/dtmf-relay");
    phone.send(&key).await;
    let cancel = phone.expect("CANCEL ").await;
    phone.answer(&cancel, "200 OK").await;
    let terminated = phone.response(&invite, "487 Request Terminated", "person", "");
    phone.send(&terminated).await;
    eventually("it is counted", || {
        bench.edge.statistics().persons.cancelled == 1
    })
    .await;
    phone.ask("OPTIONS", "", "").await;
    phone.answered("SIP/2.0 200").await;
    phone.hang_up().await;
    let told = |happening: &LegEvent| matches!(happening, LegEvent::Transfer(_));
    assert!(!bench.call().events.iter().any(told));
}
