//! The media of a call after offer and answer: codec, address family, and keys without events.

use std::net::IpAddr;

use dikala_sip::{
    leg::LegEvent,
    settings::{AnswerOrder, ListenAddress, SipTransport},
};

use crate::support::{
    CallBehaviour, PATIENCE, PhoneMedia, ScriptedPhone, TestEdge, eventually, header, offer,
};

/// The offer prefers the law that the edge has last.
#[tokio::test(flavor = "multi_thread")]
async fn the_trunk_says_whose_order_of_codecs_decides() {
    for (order, codec) in [(AnswerOrder::Peer, "PCMU"), (AnswerOrder::Ours, "PCMA")] {
        let bench = TestEdge::with(CallBehaviour::Echo, 10, |sip| {
            sip.trunks[0].answer_order = order;
        })
        .await;
        let mut phone = ScriptedPhone::udp(bench.udp()).await;
        let answer = phone.call("", &offer(40_000)).await;
        assert!(answer.contains(&format!(" {codec}/8000")), "{answer}");
        assert_eq!(bench.call().codec, Some(codec));
        phone.hang_up().await;
    }
}

/// Phones with both families name either for their media, whichever carries their signalling.
#[tokio::test(flavor = "multi_thread")]
async fn media_runs_over_the_address_family_of_the_offer() {
    let bench = TestEdge::new(CallBehaviour::Echo).await;
    let mut sound = PhoneMedia::at("::1").await;
    let version_6 = offer(sound.port())
        .replace("IN IP4 127.0.0.1", "IN IP6 ::1")
        .replace("RTP/AVP 0 8 101", "RTP/AVP 8 101");
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let answer = phone.call("", &version_6).await;
    assert!(answer.contains("c=IN IP6 ::1\r\n"), "{answer}");
    sound.echoes(&answer).await;

    // A change to the other family is refused with a warning, and the call goes on as it was.
    phone.ask("INVITE", "", &offer(40_000)).await;
    let refusal = phone.answered("SIP/2.0 488").await;
    let warning = header(&refusal, "Warning").unwrap();
    assert!(warning.contains("IPv6"), "{warning}");
    let ack = phone.written("ACK", "", "");
    phone.send(&ack).await;
    sound.forgets();
    sound.echoes(&answer).await;
    phone.hang_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_public_address_is_named_to_peers_of_its_family_only() {
    let bench = TestEdge::with(CallBehaviour::Echo, 10, |sip| {
        sip.public_address = Some("203.0.113.7".to_owned());
        sip.listen[1] = ListenAddress {
            transport: SipTransport::Udp,
            address: "[::1]:0".parse().unwrap(),
        };
    })
    .await;
    for listen in bench.edge.addresses() {
        let host = listen.address.ip();
        let mut phone = ScriptedPhone::udp_from(&host.to_string(), listen.address).await;
        let (sdp, ours, reached) = match host {
            IpAddr::V4(_) => (offer(40_000), "c=IN IP4 203.0.113.7\r\n", "203.0.113.7"),
            IpAddr::V6(_) => (
                offer(40_000).replace("IN IP4 127.0.0.1", "IN IP6 ::1"),
                "c=IN IP6 ::1\r\n",
                "[::1]",
            ),
        };
        let answer = phone.call("", &sdp).await;
        assert!(answer.contains(ours), "{answer}");
        let contact = format!("<sip:dikala@{reached}:{}>", listen.address.port());
        assert_eq!(header(&answer, "Contact"), Some(contact.as_str()));
        phone.hang_up().await;
    }
}

/// Phones of this network may not reach the public address from inside.
#[tokio::test(flavor = "multi_thread")]
async fn peers_in_local_networks_are_told_the_local_address() {
    let bench = TestEdge::with(CallBehaviour::HangUp, 10, |sip| {
        sip.public_address = Some("203.0.113.7".to_owned());
        sip.local_networks = vec!["127.0.0.2/31".parse().unwrap()];
    })
    .await;
    for (host, ours) in [
        ("127.0.0.1", "203.0.113.7"),
        ("127.0.0.2", "127.0.0.1"),
        ("127.0.0.3", "127.0.0.1"),
        ("127.0.0.4", "203.0.113.7"),
    ] {
        let mut phone = ScriptedPhone::udp_from(host, bench.udp()).await;
        let answer = phone.call("", &offer(40_000)).await;
        assert!(answer.contains(&format!("c=IN IP4 {ours}\r\n")), "{answer}");
        let port = bench.udp().port();
        let contact = format!("<sip:dikala@{ours}:{port}>");
        assert_eq!(header(&answer, "Contact"), Some(contact.as_str()));
        let bye = phone.expect("BYE ").await;
        let via = format!("SIP/2.0/UDP {ours}:{port};");
        assert!(header(&bye, "Via").unwrap().starts_with(&via), "{bye}");
        phone.answer(&bye, "200 OK").await;
    }
}

/// Adapters of analogue phones press keys as tones.
#[tokio::test(flavor = "multi_thread")]
async fn tones_are_keys_where_no_events_were_negotiated() {
    for events in [false, true] {
        let bench = TestEdge::new(CallBehaviour::Echo).await;
        let mut phone = ScriptedPhone::udp(bench.udp()).await;
        let mut sound = PhoneMedia::new().await;
        let formats = if events { "8 101" } else { "8" };
        let sdp = offer(sound.port()).replace("0 8 101", formats);
        let answer = phone.call("", &sdp).await;
        for hertz in [[770.0, 1_209.0], [697.0, 1_336.0], [941.0, 1_477.0]] {
            for _ in 0..3 {
                sound.send_tones(&answer, &hertz).await;
            }
            for _ in 0..5 {
                sound.send_tones(&answer, &[]).await;
            }
        }
        let frames = || bench.calls().first().map_or(0, |call| call.frames);
        eventually("all is heard", || frames() >= 24).await;
        let keys = || {
            let events = bench.call().events;
            let keys = events.into_iter().filter_map(|event| match event {
                LegEvent::Key(key) => Some(key),
                _ => None,
            });
            keys.collect::<String>()
        };
        let expected = if events { "" } else { "42#" };
        eventually("the keys are told", || keys() == expected).await;
        phone.hang_up().await;
        tokio::time::timeout(PATIENCE, bench.edge.close())
            .await
            .unwrap();
    }
}
