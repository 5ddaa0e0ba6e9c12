//! Transfers: by REFER or by a call of ours, where the trunk has it, and under which numbers.

use std::time::Duration;

use dikala_sip::{
    leg::LegEvent,
    settings::{Credentials, OutboundIdentity, OutboundSettings, RegisterSettings, TransferMethod},
};
use tokio::{net::UdpSocket, time::timeout};

use crate::{
    changes::pcma,
    digests::call_by_digest,
    proofs::{challenge, proven},
    support::{CallBehaviour, PATIENCE, ScriptedPhone, TestEdge, eventually, header, offer},
};

const REFERS: &str = "Allow: INVITE, REFER, NOTIFY\r\n";

fn transferring() -> CallBehaviour {
    CallBehaviour::Transfer("+62811111".to_owned())
}

/// The next REFER or INVITE.
async fn ordered(phone: &mut ScriptedPhone) -> String {
    loop {
        let request = phone.hears(PATIENCE).await.expect("a request");
        if ["REFER ", "INVITE "]
            .iter()
            .any(|name| request.starts_with(name))
        {
            return request;
        }
    }
}

/// Reports how far a REFER is.
async fn notify(phone: &mut ScriptedPhone, told: &str) {
    report(phone, told, "active").await;
}

/// Ends the reports of a REFER before there is an outcome.
async fn notify_ended(phone: &mut ScriptedPhone) {
    report(phone, "180 Ringing", "terminated;reason=noresource").await;
}

async fn report(phone: &mut ScriptedPhone, told: &str, state: &str) {
    phone.cseq += 1;
    let event = format!("Event: refer\r\nSubscription-State: {state}\r\n");
    let notify = phone.request("NOTIFY", &event, &format!("SIP/2.0 {told}\r\n"));
    let notify = notify.replace("application/sdp", "message/sipfrag");
    phone.send(&notify).await;
}

/// A REFER would send such a phone to itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_phone_that_calls_directly_is_not_referred() {
    let bench = TestEdge::with(transferring(), 10, |sip| {
        sip.trunks = TestEdge::of_users();
    })
    .await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let allow = |invite: String| invite.replacen("User-Agent:", &format!("{REFERS}User-Agent:"), 1);
    call_by_digest(&mut phone, allow, &offer(40_000)).await;
    let request = ordered(&mut phone).await;
    assert!(request.starts_with("INVITE sip:+62811111@"), "{request}");
    phone.hang_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trunk_is_referred_or_called_as_its_option_says() {
    for (method, allow, request) in [
        (TransferMethod::Auto, REFERS, "REFER "),
        (TransferMethod::Auto, "", "INVITE "),
        (TransferMethod::Refer, "", "REFER "),
        (TransferMethod::Bridge, REFERS, "INVITE "),
    ] {
        let bench = TestEdge::with(transferring(), 10, |sip| {
            sip.trunks[0].transfer = method;
        })
        .await;
        let mut phone = ScriptedPhone::udp(bench.udp()).await;
        phone.call(allow, &offer(40_000)).await;
        let ordered = ordered(&mut phone).await;
        assert!(ordered.starts_with(request), "{method:?}: {ordered}");
        phone.hang_up().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_is_called_after_a_refer_that_fails() {
    for (answer, told) in [
        ("405 Method Not Allowed", None),
        // The peer refuses to refer, not the person.
        ("486 Busy Here", None),
        ("603 Decline", None),
        ("202 Accepted", Some("404 Not Found")),
        ("202 Accepted", Some("503 Service Unavailable")),
    ] {
        let bench = TestEdge::new(transferring()).await;
        let mut phone = refuses_refer(&bench, answer, told).await;
        phone.expect("INVITE sip:+62811111@").await;
        let told = |event: &LegEvent| matches!(event, LegEvent::Transfer(_));
        assert!(!bench.call().events.iter().any(told));
        phone.hang_up().await;
    }
}

/// No answer, not even a first report, or the last one without an outcome: a caller would wait for good. Meanwhile the caller hears
/// ringing.
#[tokio::test(flavor = "multi_thread")]
async fn a_person_is_called_if_the_peer_does_not_say_what_came_of_a_refer() {
    for (answers, ends) in [(false, false), (true, false), (true, true)] {
        let bench = TestEdge::new(transferring()).await;
        let media = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let mut phone = ScriptedPhone::udp(bench.udp()).await;
        phone
            .call(REFERS, &pcma(media.local_addr().unwrap().port()))
            .await;
        let refer = phone.expect("REFER ").await;
        if answers {
            phone.answer(&refer, "202 Accepted").await;
        }
        let mut packet = [0; 2_048];
        loop {
            let heard = timeout(PATIENCE, media.recv_from(&mut packet));
            let (length, _) = heard.await.expect("ringing is heard").unwrap();
            // Louder than silence in A-law.
            if packet[12..length]
                .iter()
                .any(|byte| (byte ^ 0x55) & 0x7f > 0x30)
            {
                break;
            }
        }
        // Nobody is called yet.
        while let Some(heard) = phone.hears(Duration::from_millis(20)).await {
            assert!(!heard.starts_with("INVITE "), "{heard}");
        }
        if ends {
            notify(&mut phone, "100 Trying").await;
            phone.answered("SIP/2.0 200").await;
            notify_ended(&mut phone).await;
        }
        phone.expect("INVITE sip:+62811111@").await;
        // The person may answer the other side's call meanwhile.
        notify(&mut phone, "200 OK").await;
        let is_done = || bench.saw(&LegEvent::Transfer(Ok(())));
        eventually("the caller is with the person", is_done).await;
        phone.hang_up().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trunk_that_is_to_transfer_alone_may_end_its_reports() {
    let bench = TestEdge::with(transferring(), 10, |sip| {
        sip.trunks[0].transfer = TransferMethod::Refer;
    })
    .await;
    let mut phone = refuses_refer(&bench, "202 Accepted", None).await;
    notify_ended(&mut phone).await;
    hears_no_invite(&mut phone).await;
    let is_told = |event: &LegEvent| matches!(event, LegEvent::Transfer(_));
    assert!(!bench.call().events.iter().any(is_told));
    notify(&mut phone, "200 OK").await;
    let is_done = || bench.saw(&LegEvent::Transfer(Ok(())));
    eventually("the caller is with the person", is_done).await;
    phone.hang_up().await;
}

/// A second call would ring at a person who has just declined.
#[tokio::test(flavor = "multi_thread")]
async fn a_person_who_declines_is_not_called_again() {
    for (answer, told, status) in [
        ("202 Accepted", Some("486 Busy Here"), 486),
        ("202 Accepted", Some("600 Busy Everywhere"), 600),
        ("202 Accepted", Some("603 Decline"), 603),
    ] {
        let bench = TestEdge::new(transferring()).await;
        let mut phone = refuses_refer(&bench, answer, told).await;
        let why = format!("the other side did not take the call (status {status})");
        let failed = LegEvent::Transfer(Err(why));
        eventually("the task hears", || bench.saw(&failed)).await;
        hears_no_invite(&mut phone).await;
        phone.hang_up().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_called_after_a_cancelled_refer() {
    let bench = TestEdge::new(transferring()).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    phone.call(REFERS, &offer(40_000)).await;
    let refer = phone.expect("REFER ").await;
    phone.answer(&refer, "202 Accepted").await;
    notify(&mut phone, "100 Trying").await;
    phone.answered("SIP/2.0 200").await;
    phone.cseq += 1;
    // The task cancels at this key.
    let key = phone.request("INFO", "", "Signal=*\r\nDuration=160\r\n");
    let key = key.replace("application/sdp", "application/dtmf-relay");
    phone.send(&key).await;
    let is_flushed = |event: &LegEvent| matches!(event, LegEvent::Flushed { .. });
    let cancelled = || bench.call().events.iter().any(is_flushed);
    eventually("the transfer is cancelled", cancelled).await;
    notify(&mut phone, "503 Service Unavailable").await;
    hears_no_invite(&mut phone).await;
    let is_told = |event: &LegEvent| matches!(event, LegEvent::Transfer(_));
    assert!(!bench.call().events.iter().any(is_told));
    phone.hang_up().await;
}

/// A phone that has answered a REFER with this status, and then reported that one.
async fn refuses_refer(bench: &TestEdge, answer: &str, told: Option<&str>) -> ScriptedPhone {
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    phone.call(REFERS, &offer(40_000)).await;
    let refer = phone.expect("REFER ").await;
    phone.answer(&refer, answer).await;
    if let Some(told) = told {
        notify(&mut phone, told).await;
    }
    phone
}

async fn hears_no_invite(phone: &mut ScriptedPhone) {
    while let Some(heard) = phone.hears(Duration::from_millis(300)).await {
        assert!(!heard.starts_with("INVITE "), "{heard}");
    }
}

/// Many carriers take calls at another address than the one they call from, under an account, and show numbers of their own only.
#[tokio::test(flavor = "multi_thread")]
async fn a_person_is_called_where_and_as_the_trunk_has_it() {
    let carrier = UdpSocket::bind("127.0.0.3:0").await.unwrap();
    let address = carrier.local_addr().unwrap();
    let bench = TestEdge::with(transferring(), 10, |sip| {
        sip.trunks[0].addresses = vec!["127.0.0.1/32".parse().unwrap()];
        sip.trunks[0].outbound = OutboundSettings {
            uri: Some(format!("sip:{address}")),
            credentials: Some(Credentials {
                username: "dikala".to_owned(),
                password: "rahasia".to_owned(),
            }),
            from: OutboundIdentity::Caller,
        };
    })
    .await;
    let mut carrier = ScriptedPhone::at(carrier, bench.udp()).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    phone.call("", &offer(40_000)).await;
    let invite = carrier.expect("INVITE ").await;
    assert!(
        invite.starts_with(&format!("INVITE sip:+62811111@{address} ")),
        "{invite}"
    );
    assert!(
        header(&invite, "From")
            .unwrap()
            .contains("sip:+628123456789@"),
        "{invite}"
    );
    for name in ["P-Preferred-Identity", "Diversion"] {
        assert!(
            header(&invite, name)
                .unwrap()
                .starts_with("<sip:+622150001000@"),
            "{invite}"
        );
    }
    challenge(&mut carrier, &invite, "407 Proxy Authentication Required").await;
    carrier.expect("ACK ").await;
    let again = carrier.expect("INVITE ").await;
    proven(&again, "Proxy-Authorization", 2);
    let accepted = carrier.response(&again, "200 OK", "person", &offer(40_002));
    carrier.send(&accepted).await;
    carrier.expect("ACK ").await;
    eventually("it stands", || bench.is_joined()).await;
    phone.hang_up().await;
    let bye = carrier.expect("BYE ").await;
    challenge(&mut carrier, &bye, "407 Proxy Authentication Required").await;
    let again = carrier.expect("BYE ").await;
    proven(&again, "Proxy-Authorization", 4);
}

/// The person is reached over the trunk, not at the caller's Contact. Some carriers connect calls to their customer's domain only.
#[tokio::test(flavor = "multi_thread")]
async fn a_refer_names_the_address_for_calls_to_persons() {
    for (outbound, registrar, expected) in [
        (Some("sip:acme.pstn.example"), None, "acme.pstn.example"),
        (
            None,
            Some("sip:127.0.0.1:9;transport=tcp"),
            "127.0.0.1:9;transport=tcp",
        ),
        (None, None, "the caller's source"),
    ] {
        let bench = TestEdge::with(transferring(), 10, |sip| {
            let trunk = &mut sip.trunks[0];
            trunk.outbound.uri = outbound.map(str::to_owned);
            trunk.register = registrar.map(|registrar| RegisterSettings {
                registrar: registrar.to_owned(),
                ..RegisterSettings::default()
            });
        })
        .await;
        let mut phone = ScriptedPhone::udp(bench.udp()).await;
        let source = phone.local.to_string();
        phone.contact = ([10, 9, 9, 9], 5070).into();
        phone.call(REFERS, &offer(40_000)).await;
        let refer = phone.expect("REFER ").await;
        let at = match (outbound, registrar) {
            (None, None) => &source,
            _ => expected,
        };
        let person = format!("<sip:+62811111@{at}>");
        assert_eq!(header(&refer, "Refer-To"), Some(&*person));
        phone.answer(&refer, "202 Accepted").await;
        notify(&mut phone, "200 OK").await;
        eventually("it is over", || bench.saw(&LegEvent::Transfer(Ok(())))).await;
        phone.hang_up().await;
    }
}

/// A call that comes back to us is refused; a peer that has our private address, in another network, is not.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_ours_that_comes_back_is_refused() {
    let bench = TestEdge::with(transferring(), 10, |sip| {
        sip.trunks[0].transfer = TransferMethod::Bridge;
    })
    .await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    phone.call(REFERS, &offer(40_000)).await;
    let ours = phone.expect("INVITE sip:+62811111@").await;
    let passed = format!("Via: {}\r\n", header(&ours, "Via").unwrap());
    let mut proxy = ScriptedPhone::udp(bench.udp()).await;
    let back = proxy.request("INVITE", &passed, &offer(40_002));
    proxy.send(&back).await;
    proxy.expect("SIP/2.0 482").await;
    let mut namesake = ScriptedPhone::udp(bench.udp()).await;
    let same = format!("Via: SIP/2.0/UDP {};branch=z9hG4bKtheirs\r\n", bench.udp());
    namesake.call(&same, &offer(40_004)).await;
    phone.hang_up().await;
}
