//! Trunks of WhatsApp, with calls as Meta's gateway sends them.

use std::time::Duration;

use dikala_sip::{
    leg::{CallRefusal, LegEvent, OfferedChannel, WhatsAppDetails},
    settings::{
        AnswerOrder, Codec, Credentials, ListenAddress, OutboundSettings, SipSettings,
        SipTransport, Srtp, Trunk, TrunkPreset,
    },
};
use dikala_testkit::meta::{MetaCall, MetaCaller};
use tokio::net::UdpSocket;

use crate::{
    keys::{encrypted, phone},
    secured::TlsServer,
    support::{
        CallBehaviour, Certificate, ScriptedPhone, TestEdge, eventually, flood, header, offer,
        pitch, privately, trunk,
    },
};

const DID: &str = "+622150001000";

/// Settings that suit Meta nowhere but in the trunk.
fn whatsapp(sip: &mut SipSettings, certificate: &Certificate) {
    sip.tls = Some(certificate.files());
    sip.listen.push(ListenAddress {
        transport: SipTransport::Tls,
        address: "127.0.0.1:0".parse().unwrap(),
    });
    sip.srtp = Srtp::Off;
    sip.codecs = vec![Codec::Pcma];
    sip.trunks = vec![Trunk {
        name: "whatsapp".to_owned(),
        prefix: None,
        number: Some(DID.to_owned()),
        preset: Some(TrunkPreset::WhatsApp),
        answer_order: AnswerOrder::Peer,
        ..trunk()
    }];
}

async fn edge(manner: CallBehaviour, change: impl FnOnce(&mut SipSettings)) -> TestEdge {
    // The files are read once, at the start.
    let certificate = Certificate::of_testkit();
    TestEdge::trusting(privately(), manner, 200, |sip| {
        whatsapp(sip, &certificate);
        change(sip);
    })
    .await
}

fn caller(bench: &TestEdge, id: &str) -> MetaCaller {
    MetaCaller::new(bench.address(SipTransport::Tls), DID, id)
}

async fn hang_up(mut call: MetaCall) {
    call.hang_up().await;
    assert_eq!(call.forbidden(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn media_is_opus_and_encrypted_whatever_the_edge_prefers() {
    let bench = edge(CallBehaviour::Echo, |_| ()).await;
    let plan = MetaCaller {
        prefers_g711: true,
        ..caller(&bench, "opus-1")
    };
    let call = plan.call().await.unwrap();
    call.media.speak(true);
    eventually("both hear the tone", || {
        let there = pitch(&bench.call().audio, 16_000);
        let back = pitch(&call.media.heard(), 16_000);
        (380..420).contains(&there) && (380..420).contains(&back)
    })
    .await;
    assert_eq!(bench.call().codec, Some("opus"));
    assert_eq!(call.media.packets().1, 0, "no packet is in clear");
    hang_up(call).await;

    let clear = MetaCaller {
        is_encrypted: false,
        ..caller(&bench, "opus-2")
    };
    let refused = clear.call().await.unwrap_err();
    assert!(refused.starts_with("SIP/2.0 488"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn its_calls_come_over_tls_only() {
    let bench = edge(CallBehaviour::Echo, |_| ()).await;
    for mut phone in [
        ScriptedPhone::udp(bench.udp()).await,
        ScriptedPhone::tcp(bench.address(SipTransport::Tcp)).await,
    ] {
        let invite = phone.request("INVITE", "x-wa-meta-wacid: wacid.1\r\n", &offer(40_000));
        phone.send(&invite).await;
        let refused = phone.answered("SIP/2.0 403").await;
        let reason = header(&refused, "Reason").unwrap();
        assert!(reason.contains("TLS only"), "{refused}");
    }
    assert_eq!(bench.calls().len(), 0);
    // In clear the address can be forged, so the limits for strangers hold.
    let flood = flood("127.0.0.1", bench.udp()).await;
    eventually("some are dropped", || {
        bench.edge.statistics().strangers_dropped > 0
    })
    .await;
    flood.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn metas_headers_come_with_the_call_and_only_from_its_addresses() {
    let bench = edge(CallBehaviour::Echo, |sip| {
        sip.trunks.push(Trunk {
            name: "carrier".to_owned(),
            ..trunk()
        });
    })
    .await;
    let plan = MetaCaller {
        caller: "ID.13491208655302741918".to_owned(),
        headers: "X-WA-Meta-WACID: wacid.HBgM+/==\r\nx-wa-meta-cta-payload: order 427\r\n\
                  x-wa-meta-deeplink-payload: from-the-shop\r\n"
            .to_owned(),
        ..caller(&bench, "headers-1")
    };
    let call = plan.call().await.unwrap();
    let seen = bench.call();
    assert_eq!(seen.id, "wacid.HBgM+/==");
    assert_eq!(seen.caller, "ID.13491208655302741918");
    assert_eq!((seen.did.as_str(), seen.trunk.as_str()), (DID, "whatsapp"));
    let details = WhatsAppDetails {
        call_id: Some("wacid.HBgM+/==".to_owned()),
        cta_payload: Some("order 427".to_owned()),
        deeplink_payload: Some("from-the-shop".to_owned()),
    };
    assert_eq!(seen.channel, OfferedChannel::WhatsApp(details));
    hang_up(call).await;

    // The same headers over another trunk say nothing.
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    phone.call(&plan.headers, &offer(40_000)).await;
    let seen = bench.of("+628123456789").unwrap();
    assert_eq!(seen.channel, OfferedChannel::Telephone);
    assert!(seen.id.starts_with(&phone.call_id), "{}", seen.id);
    phone.hang_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_doubled_invite_is_the_same_call() {
    let bench = edge(CallBehaviour::Echo, |_| ()).await;
    let plan = caller(&bench, "twice-1");
    let call = plan.call().await.unwrap();
    let again = MetaCaller {
        id: "twice-2".to_owned(),
        ..plan.clone()
    };
    let refused = again.call().await.unwrap_err();
    assert!(refused.starts_with("SIP/2.0 482"), "{refused}");
    assert_eq!(bench.call().id, "wacid.twice-1");
    call.hears(Duration::from_millis(200)).await;
    hang_up(call).await;
    eventually("the call is over", || bench.call().over).await;
    let late = MetaCaller {
        id: "twice-3".to_owned(),
        ..plan
    };
    let refused = late.call().await.unwrap_err();
    assert!(refused.starts_with("SIP/2.0 482"), "{refused}");
    assert_eq!(bench.calls().len(), 1);
}

/// An INVITE with WhatsApp's id of a call, in a dialog of its own.
async fn invites(bench: &TestEdge, transport: SipTransport, number: u32) -> ScriptedPhone {
    let mut phone = phone(bench, transport).await;
    phone.cseq = number;
    let invite = phone.request("INVITE", "x-wa-meta-wacid: wacid.one\r\n", &encrypted());
    phone.send(&invite).await;
    phone
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_rings_no_second_time_whatever_its_cseq_and_whatever_became_of_the_first() {
    let tls = SipTransport::Tls;
    // The address is challenged where the trunk does not call over this transport.
    let bench = edge(CallBehaviour::Ring, |sip| {
        sip.trunks.append(&mut TestEdge::of_users());
    })
    .await;
    let mut challenged = invites(&bench, SipTransport::Udp, 1).await;
    challenged.expect("SIP/2.0 407").await;
    let mut first = invites(&bench, tls, 5).await;
    first.expect("SIP/2.0 180").await;
    for number in [3, 5, 6] {
        let mut repeat = invites(&bench, tls, number).await;
        repeat.expect("SIP/2.0 482").await;
    }
    let cancel = first.written("CANCEL", "", "");
    first.send(&cancel).await;
    first.expect("SIP/2.0 487").await;
    eventually("it is cancelled", || bench.call().over).await;
    for number in [4, 7] {
        let mut repeat = invites(&bench, tls, number).await;
        repeat.expect("SIP/2.0 482").await;
    }
    assert_eq!(bench.call().id, "wacid.one");

    let another = ["wacid.one", "wacid.one;2"].map(str::to_owned);
    for (status, later, ids) in [
        (486, "SIP/2.0 482", &another[..1]),
        (500, "SIP/2.0 500", &another),
        (503, "SIP/2.0 503", &another),
    ] {
        let refusal = CallRefusal {
            status,
            words: "Not now.".to_owned(),
            retry_after_seconds: None,
        };
        let bench = edge(CallBehaviour::Reject(refusal), |_| ()).await;
        let mut first = invites(&bench, tls, 1).await;
        first.expect(&format!("SIP/2.0 {status}")).await;
        let mut repeat = invites(&bench, tls, 2).await;
        repeat.expect(later).await;
        let offered = bench.calls().into_iter().map(|call| call.id);
        assert_eq!(offered.collect::<Vec<_>>(), ids);
    }
}

/// Meta's gateway serves no request that changes a call, so none may ever be due.
#[tokio::test(flavor = "multi_thread")]
async fn no_session_timer_is_agreed_on() {
    let bench = edge(CallBehaviour::Echo, |_| ()).await;
    let plan = caller(&bench, "timer-1");
    let plan = MetaCaller {
        headers: format!(
            "{}Supported: timer\r\nSession-Expires: 90;refresher=uas\r\n",
            plan.headers
        ),
        ..plan
    };
    let call = plan.call().await.unwrap();
    assert_eq!(header(call.answer(), "Session-Expires"), None);
    hang_up(call).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn packets_under_another_key_are_not_heard() {
    let bench = edge(CallBehaviour::Echo, |_| ()).await;
    let plan = MetaCaller {
        has_wrong_key: true,
        ..caller(&bench, "key-1")
    };
    let call = plan.call().await.unwrap();
    call.media.speak(true);
    call.hears(Duration::from_secs(2)).await;
    let (seen, back) = (bench.call(), pitch(&call.media.heard(), 16_000));
    assert_eq!((seen.loudest, back), (0, 0));
    hang_up(call).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn both_may_hang_up_at_once() {
    let bench = edge(CallBehaviour::HangUp, |_| ()).await;
    let plan = MetaCaller {
        hangs_up_too: true,
        ..caller(&bench, "bye-1")
    };
    let mut call = plan.call().await.unwrap();
    call.hung_up().await;
    assert_eq!(call.forbidden(), Vec::<String>::new());
    eventually("the call is over", || bench.call().over).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bye_after_the_end_is_answered_and_ends_nothing_else() {
    for (manner, is_ours) in [(CallBehaviour::HangUp, true), (CallBehaviour::Echo, false)] {
        let bench = edge(manner, |_| ()).await;
        let plan = MetaCaller {
            terminates_late: true,
            ..caller(&bench, "late-1")
        };
        let mut call = plan.call().await.unwrap();
        match is_ours {
            true => drop(call.hung_up().await),
            false => call.hang_up().await,
        }
        eventually("the call is over", || bench.call().over).await;
        let ends = |event: &&LegEvent| matches!(event, LegEvent::HungUp | LegEvent::Failed(_));
        let count = bench.call().events.iter().filter(ends).count();
        assert_eq!(count, usize::from(!is_ours), "{:?}", bench.call().events);
        assert_eq!(bench.edge.statistics().calls, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_is_refused_in_words_without_a_trunk_for_it() {
    let manner = CallBehaviour::Transfer("+62811111".to_owned());
    let bench = edge(manner, |sip| {
        // The address for calls to people on WhatsApp is not for that.
        sip.trunks[0].outbound.uri = Some("sip:127.0.0.1:9;transport=tls".to_owned());
    })
    .await;
    let call = caller(&bench, "transfer-1").call().await.unwrap();
    let is_refusal = |event: &LegEvent| match event {
        LegEvent::Transfer(Err(why)) => why.contains("WhatsApp") && why.contains("call back"),
        _ => false,
    };
    eventually("the task hears why", || {
        bench.call().events.iter().any(is_refusal)
    })
    .await;
    hang_up(call).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn persons_are_called_over_the_trunk_that_is_named_with_its_settings() {
    let carrier = UdpSocket::bind("127.0.0.3:0").await.unwrap();
    let address = carrier.local_addr().unwrap();
    let manner = CallBehaviour::Transfer("+62811111".to_owned());
    let bench = edge(manner, |sip| {
        sip.trunks[0].transfer_trunk = Some("carrier".to_owned());
        sip.trunks.push(Trunk {
            name: "carrier".to_owned(),
            addresses: vec!["127.0.0.3/32".parse().unwrap()],
            outbound: OutboundSettings {
                uri: Some(format!("sip:{address}")),
                ..OutboundSettings::default()
            },
            ..Trunk::default()
        });
    })
    .await;
    let mut carrier = ScriptedPhone::at(carrier, bench.udp()).await;
    let call = caller(&bench, "transfer-2").call().await.unwrap();
    let invite = carrier.expect("INVITE ").await;
    assert!(
        invite.starts_with(&format!("INVITE sip:+62811111@{address} ")),
        "{invite}"
    );
    // The carrier's leg has the edge's own codecs, in clear, and a session timer.
    assert!(invite.contains("RTP/AVP 8 "), "{invite}");
    assert!(!invite.contains("a=crypto"), "{invite}");
    assert!(header(&invite, "Session-Expires").is_some(), "{invite}");
    let accepted = carrier.response(&invite, "200 OK", "person", &offer(40_002));
    carrier.send(&accepted).await;
    carrier.expect("ACK ").await;
    eventually("it stands", || bench.is_joined()).await;
    hang_up(call).await;
    carrier.expect("BYE ").await;
}

/// A caller of a carrier is connected to a person on WhatsApp.
#[tokio::test(flavor = "multi_thread")]
async fn calls_to_people_on_whatsapp_prove_the_number_and_its_password() {
    let meta = TlsServer::at("127.0.0.1").await;
    let uri = format!("sip:localhost:{};transport=tls", meta.port());
    let manner = CallBehaviour::Transfer("+62811111".to_owned());
    let bench = edge(manner, |sip| {
        sip.trunks[0].outbound = OutboundSettings {
            uri: Some(uri.clone()),
            credentials: Some(Credentials {
                username: "622150001000".to_owned(),
                password: "sip-password-of-meta".to_owned(),
            }),
            ..OutboundSettings::default()
        };
        sip.trunks.push(Trunk {
            name: "carrier".to_owned(),
            transfer_trunk: Some("whatsapp".to_owned()),
            number: Some("+622150007777".to_owned()),
            ..trunk()
        });
    })
    .await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    phone.call("Allow: INVITE, REFER\r\n", &offer(40_000)).await;
    let mut person = meta.accept().await;
    let invite = person.expect("INVITE ").await;
    assert!(
        invite.starts_with("INVITE sip:+62811111@localhost:"),
        "{invite}"
    );
    let from = header(&invite, "From").unwrap();
    assert!(from.starts_with("<sip:+622150001000@"), "{from}");
    assert_eq!(header(&invite, "Session-Expires"), None);
    assert!(invite.contains("RTP/SAVP 111 "), "{invite}");
    let demand = "Proxy-Authenticate: Digest realm=\"wa.meta.vc\", nonce=\"n\", qop=\"auth\"\r\n";
    let challenge = person
        .response(&invite, "407 Proxy Authentication Required", "m", "")
        .replace("Contact:", &format!("{demand}Contact:"));
    person.send(&challenge).await;
    person.expect("ACK ").await;
    let again = person.expect("INVITE ").await;
    let proof = header(&again, "Proxy-Authorization").unwrap();
    assert!(proof.contains("username=\"622150001000\""), "{proof}");
    let busy = person.response(&again, "486 Busy Here", "m", "");
    person.send(&busy).await;
    person.expect("ACK ").await;
    phone.hang_up().await;
}
