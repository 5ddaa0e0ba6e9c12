//! Calls of PJSIP, the SIP library of Asterisk and of many phones: as a caller, and as the person to whom a call is transferred.

use std::sync::Arc;

use dikala_sip::{
    leg::{HangupNote, LegEvent, Order},
    settings::{ListenAddress, SipTransport, TransferMethod},
};
use tokio::task::JoinSet;

use crate::support::{
    CallBehaviour, Certificate, PJSIP_RATE, PjsipPhone, PjsipSettings, TestEdge, both_hear,
    eventually, hears_the_tone, need_pjsip, urged, wait_for_most_turns,
};

/// Calls the edge over the transport of the phone.
async fn calling(bench: &TestEdge, settings: &PjsipSettings) -> PjsipPhone {
    let mut phone = PjsipPhone::new(settings).await;
    let (to, transport) = match settings.transport {
        "TCP" => (bench.address(SipTransport::Tcp), "tcp"),
        "TLS" => (bench.address(SipTransport::Tls), "tls"),
        _ => (bench.udp(), "udp"),
    };
    phone.command(&format!(
        "call sip:+622150001000@{to};transport={transport}"
    ));
    phone
}

/// Talk, hold, resumption, a refresh, keys, and the end.
async fn converses(bench: &TestEdge, settings: &PjsipSettings) {
    let mut phone = calling(bench, settings).await;
    let call = || bench.of(&settings.caller);
    let saw = |event| call().is_some_and(|call| call.events.contains(&event));
    eventually("the call is answered", || saw(LegEvent::Answered)).await;
    assert_eq!(call().unwrap().codec, Some(settings.codec));
    both_hear(bench, &settings.caller, &phone.heard, PJSIP_RATE).await;
    let held = || saw(LegEvent::Held(true));
    urged("the call is held", held, || phone.command("hold")).await;
    let resumed = || saw(LegEvent::Held(false));
    urged("the call is resumed", resumed, || phone.command("resume")).await;
    let refreshed = || {
        let sent = bench.messages(&call().unwrap(), true, "SIP/2.0 200");
        let mut updated = sent.iter().filter(|text| text.contains(" UPDATE\r\n"));
        updated.any(|text| text.contains("\r\nSession-Expires: 90;refresher=uac\r\n"))
    };
    urged("it is refreshed", refreshed, || phone.command("update")).await;
    both_hear(bench, &settings.caller, &phone.heard, PJSIP_RATE).await;
    let first = if settings.events {
        "event 4"
    } else {
        "tones 4"
    };
    for (command, key) in [(first, '4'), ("info 7", '7')] {
        phone.command(command);
        eventually("the key comes", || saw(LegEvent::Key(key))).await;
    }
    phone.command("hangup");
    eventually("the call is over", || call().unwrap().over).await;
    assert!(saw(LegEvent::HungUp));
}

/// Its package has neither Opus nor IPv6. The first two prove keys as tones, because they offer no events.
#[tokio::test(flavor = "multi_thread")]
async fn pjsip_talks_holds_refreshes_and_presses_keys_over_every_transport() {
    if !need_pjsip() {
        return;
    }
    wait_for_most_turns();
    let certificate = Certificate::of_testkit();
    let bench = TestEdge::with(CallBehaviour::Echo, 10, |sip| {
        sip.tls = Some(certificate.files());
        sip.listen.push(ListenAddress {
            transport: SipTransport::Tls,
            address: "127.0.0.1:0".parse().unwrap(),
        });
    })
    .await;
    let bench = Arc::new(bench);
    let mut calls = JoinSet::new();
    for (transport, codec) in [
        ("UDP", "PCMA"),
        ("TLS", "PCMU"),
        ("TCP", "G722"),
        ("UDP", "PCMU"),
        ("UDP", "G722"),
        ("TCP", "PCMA"),
        ("TCP", "PCMU"),
        ("TLS", "PCMA"),
        ("TLS", "G722"),
    ] {
        let (bench, number) = (bench.clone(), calls.len());
        calls.spawn(async move {
            let settings = PjsipSettings {
                caller: format!("+6281100{number}"),
                transport,
                codec,
                srtp: transport == "TLS",
                events: number > 1,
                timer: true,
                ..PjsipSettings::default()
            };
            converses(&bench, &settings).await;
        });
    }
    while let Some(call) = calls.join_next().await {
        call.unwrap();
    }
    assert_eq!(bench.calls().len(), 9);
}

/// An edge that transfers every caller to a phone of PJSIP, and that phone.
async fn transferring(method: TransferMethod, person: &PjsipSettings) -> (TestEdge, PjsipPhone) {
    let person = PjsipPhone::new(person).await;
    let at = person.says("at ").unwrap();
    let bench = TestEdge::with(CallBehaviour::Transfer("+62811111".to_owned()), 10, |sip| {
        sip.trunks[0].transfer = method;
        sip.trunks[0].outbound.uri = Some(format!("sip:{at}"));
    })
    .await;
    (bench, person)
}

#[tokio::test(flavor = "multi_thread")]
async fn pjsip_carries_out_our_refer() {
    if !need_pjsip() {
        return;
    }
    let settings = PjsipSettings::default();
    let (bench, mut person) = transferring(TransferMethod::Refer, &settings).await;
    let mut phone = calling(&bench, &settings).await;
    eventually("the person's phone rings", || {
        person.says("rings").is_some()
    })
    .await;
    assert!(phone.says("referred sip:+62811111@").is_some());
    person.command("answer");
    eventually("we are told", || bench.saw(&LegEvent::Transfer(Ok(())))).await;
    let words = "the person has answered".to_owned();
    bench.order(Order::Hangup(HangupNote { words })).await;
    eventually("our call is over", || bench.call().over).await;
    hears_the_tone(&phone.heard, PJSIP_RATE).await;
    hears_the_tone(&person.heard, PJSIP_RATE).await;
    phone.command("hangup");
    eventually("both hang up", || person.says("over ").is_some()).await;
}

/// The caller wants to be transferred by its own phone, too: that is refused, and the call goes on.
#[tokio::test(flavor = "multi_thread")]
async fn pjsip_is_called_joined_and_holds() {
    if !need_pjsip() {
        return;
    }
    let settings = PjsipSettings {
        codec: "G722",
        timer: true,
        ..PjsipSettings::default()
    };
    let (bench, mut person) = transferring(TransferMethod::Bridge, &settings).await;
    let mut phone = calling(&bench, &PjsipSettings::default()).await;
    eventually("the person's phone rings", || {
        person.says("rings").is_some()
    })
    .await;
    person.command("answer");
    eventually("they are joined", || bench.is_joined()).await;
    hears_the_tone(&phone.heard, PJSIP_RATE).await;
    hears_the_tone(&person.heard, PJSIP_RATE).await;
    for (command, method) in [
        ("hold", "INVITE "),
        ("resume", "INVITE "),
        ("update", "UPDATE "),
    ] {
        let before = bench.messages(&bench.call(), false, method).len();
        let asked = || bench.messages(&bench.call(), false, method).len() > before;
        urged("it is asked", asked, || person.command(command)).await;
    }
    phone.command("transfer sip:+62822222@127.0.0.1:9");
    eventually("it is refused", || phone.says("transfer 405").is_some()).await;
    hears_the_tone(&phone.heard, PJSIP_RATE).await;
    hears_the_tone(&person.heard, PJSIP_RATE).await;
    person.command("hangup");
    eventually("both hang up", || phone.says("over ").is_some()).await;
}

/// A timer of the shortest interval is refreshed at its half.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes a minute"]
async fn pjsip_refreshes_by_update_in_time() {
    if !need_pjsip() {
        return;
    }
    let bench = TestEdge::new(CallBehaviour::Echo).await;
    let settings = PjsipSettings {
        timer: true,
        ..PjsipSettings::default()
    };
    let mut phone = calling(&bench, &settings).await;
    eventually("the call is answered", || bench.saw(&LegEvent::Answered)).await;
    let refreshed = || !bench.messages(&bench.call(), false, "UPDATE ").is_empty();
    eventually("it is refreshed", refreshed).await;
    both_hear(&bench, &settings.caller, &phone.heard, PJSIP_RATE).await;
    phone.command("hangup");
    eventually("the call is over", || bench.call().over).await;
}
