//! Our own INVITE to a person: its cancellation, and responses and requests before the answer.

use std::time::Duration;

use dikala_sip::leg::LegEvent;

use crate::{
    proofs::number,
    support::{CallBehaviour, PATIENCE, ScriptedPhone, TestEdge, eventually, header, offer},
};

/// A caller who is to be transferred, and the INVITE to the person, which comes to the same trunk.
async fn dialling() -> (TestEdge, ScriptedPhone, String) {
    let bench = TestEdge::new(CallBehaviour::Transfer("+62811111".to_owned())).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    phone.call("", &offer(40_000)).await;
    let invite = phone.expect("INVITE ").await;
    (bench, phone, invite)
}

async fn fails(bench: &TestEdge, why: &str) {
    let told = LegEvent::Transfer(Err(why.to_owned()));
    eventually("the task hears", || bench.saw(&told)).await;
}

/// A CANCEL that overtakes its INVITE cancels nothing (RFC 3261, 9.1).
#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_cancelled_once_it_is_known_to_have_arrived() {
    let (bench, mut phone, invite) = dialling().await;
    phone.ask("BYE", "", "").await;
    let mut repeats = 0;
    while repeats < 2 {
        let heard = phone.hears(PATIENCE).await.expect("the INVITE again");
        assert!(!heard.starts_with("CANCEL "), "{heard}");
        repeats += usize::from(heard.starts_with("INVITE "));
    }
    let ringing = phone.response(&invite, "180 Ringing", "person", "");
    phone.send(&ringing).await;
    let cancel = phone.expect("CANCEL ").await;
    phone.answer(&cancel, "481 Too Late").await;
    // The person was quicker.
    let accepted = phone.response(&invite, "200 OK", "person", &offer(40_002));
    phone.send(&accepted).await;
    phone.expect("ACK ").await;
    let bye = phone.expect("BYE ").await;
    assert_eq!(header(&bye, "Call-ID"), header(&invite, "Call-ID"));
    phone.answer(&bye, "200 OK").await;
    assert_eq!(bench.edge.statistics().persons.answered, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_before_the_answer_are_answered() {
    let (bench, mut phone, invite) = dialling().await;
    let ringing = phone.response(&invite, "183 Session Progress", "person", "");
    phone.send(&ringing).await;
    let ours = header(&invite, "From").unwrap().to_owned();
    let theirs = header(&ringing, "To").unwrap().to_owned();
    let call = header(&invite, "Call-ID").unwrap().to_owned();
    for (number, (method, body, status)) in [
        ("UPDATE", "", 200),
        ("OPTIONS", "", 200),
        ("INFO", "", 200),
        ("UPDATE", offer(40_002).as_str(), 491),
        ("PRACK", "", 481),
        ("BYE", "", 200),
    ]
    .into_iter()
    .enumerate()
    {
        let request = format!(
            "{method} sip:x SIP/2.0\r\nVia: SIP/2.0/UDP {};branch=z9hG4bKe{number};rport\r\nFrom: {theirs}\r\nTo: {ours}\r\n\
             Call-ID: {call}\r\nCSeq: {} {method}\r\nContent-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{body}",
            phone.local,
            number + 1,
            body.len()
        );
        phone.send(&request).await;
        let answer = phone.expect("SIP/2.0 ").await;
        assert!(
            answer.starts_with(&format!("SIP/2.0 {status} ")),
            "{method}: {answer}"
        );
    }
    let cancel = phone.expect("CANCEL ").await;
    phone.answer(&cancel, "200 OK").await;
    let terminated = phone.response(&invite, "487 Request Terminated", "person", "");
    phone.send(&terminated).await;
    fails(&bench, "the other side hung up").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_longer_session_timer_is_agreed_to_once() {
    let (bench, mut phone, invite) = dialling().await;
    let refused = |phone: &ScriptedPhone, invite: &str| {
        let refused = phone.response(invite, "422 Session Interval Too Small", "person", "");
        refused.replace("Contact:", "Min-SE: 3600\r\nContact:")
    };
    // The called side refreshes.
    assert_eq!(
        header(&invite, "Session-Expires"),
        Some("1800;refresher=uas")
    );
    let first = refused(&phone, &invite);
    phone.send(&first).await;
    phone.expect("ACK ").await;
    let again = phone.expect("INVITE ").await;
    assert_eq!((number(&invite), number(&again)), (1, 2));
    assert_eq!(header(&again, "Min-SE"), Some("3600"));
    assert_eq!(
        header(&again, "Session-Expires"),
        Some("3600;refresher=uas")
    );
    let second = refused(&phone, &again);
    phone.send(&second).await;
    fails(&bench, "the other side did not take the call (status 422)").await;
    phone.hang_up().await;
}

/// A redirection of `phone` to this user at `to`.
fn moved(phone: &ScriptedPhone, invite: &str, user: &str, to: &ScriptedPhone) -> String {
    let contact = format!("Contact: <sip:budi@{}>", phone.local);
    let moved = phone.response(invite, "302 Moved", "person", "");
    moved.replace(&contact, &format!("Contact: <sip:{user}@{}>", to.local))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trunk_redirects_once() {
    let (bench, mut phone, invite) = dialling().await;
    let mut other = ScriptedPhone::udp_from("127.0.0.4", bench.udp()).await;
    // The same number in another form, with parameters.
    let first = moved(&phone, &invite, "0811111;rn=99", &other);
    phone.send(&first).await;
    phone.expect("ACK ").await;
    let redirected = other.expect("INVITE ").await;
    let target = format!("INVITE sip:+62811111@{} ", other.local);
    assert!(redirected.starts_with(&target), "{redirected}");
    assert_eq!(number(&redirected), 2);
    assert_eq!(header(&redirected, "Call-ID"), header(&invite, "Call-ID"));
    let second = moved(&other, &redirected, "+62811111", &phone);
    other.send(&second).await;
    fails(&bench, "the other side did not take the call (status 302)").await;
    phone.hang_up().await;
}

/// A trunk could otherwise have us call a number that the tenant does not allow, at the tenant's cost.
#[tokio::test(flavor = "multi_thread")]
async fn a_redirection_to_another_number_is_a_refusal() {
    for user in ["+88213555", "+62811112", "person"] {
        let (bench, mut phone, invite) = dialling().await;
        let mut other = ScriptedPhone::udp_from("127.0.0.4", bench.udp()).await;
        let elsewhere = moved(&phone, &invite, user, &other);
        phone.send(&elsewhere).await;
        fails(&bench, "the other side did not take the call (status 302)").await;
        assert_eq!(
            other.hears(Duration::from_millis(100)).await,
            None,
            "{user}"
        );
        phone.hang_up().await;
    }
}

/// Peers of RFC 2543 name no Contact. Such a call must not be left standing at their side.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_without_contact_is_acknowledged_and_the_call_hung_up_later() {
    for named in ["", "Contact: *\r\n", "Contact: <nonsense\r\n"] {
        let (bench, mut phone, invite) = dialling().await;
        let contact = format!("Contact: <sip:budi@{}>\r\n", phone.local);
        let accepted = phone.response(&invite, "200 OK", "person", &offer(40_002));
        phone.send(&accepted.replace(&contact, named)).await;
        phone.expect("ACK sip:+62811111@").await;
        eventually("it stands", || bench.is_joined()).await;
        phone.ask("BYE", "", "").await;
        let bye = phone.expect("BYE sip:+62811111@").await;
        phone.answer(&bye, "200 OK").await;
        while phone.hears(Duration::from_millis(100)).await.is_some() {}
    }
}

/// SDP answers without which no media can start: none, an odd one, and one that takes another codec.
fn useless_answers() -> [String; 3] {
    let offered = offer(40_002);
    let other = offered.replace("RTP/AVP 0 8 101", "RTP/AVP 18");
    [String::new(), "v=0\r\nnonsense".to_owned(), other]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_without_media_is_hung_up() {
    for useless in useless_answers() {
        let (bench, mut phone, invite) = dialling().await;
        let accepted = phone.response(&invite, "200 OK", "person", &useless);
        phone.send(&accepted).await;
        phone.expect("ACK ").await;
        let bye = phone.expect("BYE ").await;
        assert_eq!(header(&bye, "Call-ID"), header(&invite, "Call-ID"));
        phone.answer(&bye, "200 OK").await;
        let failed = |event: &LegEvent| matches!(event, LegEvent::Transfer(Err(_)));
        eventually("the task hears", || bench.call().events.iter().any(failed)).await;
        phone.hang_up().await;
    }
}

/// The first description that a dialog brings is its answer (RFC 3261, 13.2.1).
#[tokio::test(flavor = "multi_thread")]
async fn a_200_without_a_body_confirms_the_answer_of_its_own_183() {
    for (of_200, stands) in [("person", true), ("another", false)] {
        let (bench, mut phone, invite) = dialling().await;
        let sdp = offer(40_002);
        let progress = phone.response(&invite, "183 Session Progress", "person", &sdp);
        phone.send(&progress).await;
        let ringing = phone.response(&invite, "180 Ringing", "person", "");
        phone.send(&ringing).await;
        let accepted = phone.response(&invite, "200 OK", of_200, "");
        phone.send(&accepted).await;
        phone.expect("ACK ").await;
        if stands {
            eventually("it stands", || bench.is_joined()).await;
            phone.ask("BYE", "", "").await;
        }
        let bye = phone.expect("BYE ").await;
        assert_eq!(header(&bye, "Call-ID"), header(&invite, "Call-ID"));
        phone.answer(&bye, "200 OK").await;
        assert_eq!(bench.is_joined(), stands, "{of_200}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_without_media_is_hung_up() {
    for useless in useless_answers() {
        let bench = TestEdge::new(CallBehaviour::Tone).await;
        let mut phone = ScriptedPhone::udp(bench.udp()).await;
        phone.ask("INVITE", "", "").await;
        phone.answered("SIP/2.0 200").await;
        phone.acknowledge(&useless).await;
        let bye = phone.expect("BYE ").await;
        phone.answer(&bye, "200 OK").await;
        eventually("the task hears", || bench.call().over).await;
        eventually("the line is free", || bench.edge.statistics().calls == 0).await;
    }
}
