//! Diagnosis: the SIP ladder of a call, the quality of its media, and the reasons of refusals.

use std::time::Duration;

use dikala_sip::{
    LadderMessage,
    leg::{CallRefusal, LegEvent},
    quality::LegQuality,
    settings::{RegisterSettings, TransferMethod},
    statistics::ValueCounts,
};
use tokio::net::UdpSocket;

use crate::{
    changes::{joined, pcma},
    support::{CallBehaviour, PhoneMedia, ScriptedPhone, TestEdge, carries, eventually, offer},
};

/// Direction and method or status of each message.
fn steps(messages: &[LadderMessage]) -> Vec<String> {
    let step = |message: &LadderMessage| {
        let way = if message.is_sent { ">" } else { "<" };
        let status = message.status().map(|status| status.to_string());
        let what = message.method().map(str::to_owned).or(status);
        format!("{way}{}", what.unwrap())
    };
    messages.iter().map(step).collect()
}

fn ladder(bench: &TestEdge, id: &str) -> Vec<LadderMessage> {
    bench.edge.ladder(id).unwrap().messages
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ladder_has_all_messages_of_both_legs_in_order() {
    let bench = TestEdge::new(CallBehaviour::Transfer("+62811111".to_owned())).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    joined(&bench, &mut phone).await;
    let id = bench.call().id;
    phone.hang_up().await;
    let bye = phone.expect("BYE ").await;
    phone.answer(&bye, "200 OK").await;
    let expected = [
        "<INVITE", ">100", ">180", ">200", "<ACK", ">INVITE", "<180", "<200", ">ACK", "<BYE",
        ">200", ">BYE", "<200",
    ];
    // The last messages of both legs may cross.
    let sorted = |mut steps: Vec<String>| {
        if let Some(last) = steps.get_mut(9..) {
            last.sort();
        }
        steps
    };
    let expected = sorted(expected.map(str::to_owned).to_vec());
    eventually("the whole ladder", || {
        sorted(steps(&ladder(&bench, &id))) == expected
    })
    .await;
    let messages = ladder(&bench, &id);
    let first = &messages[0];
    assert_eq!((first.remote, first.local), (phone.local, bench.udp()));
    assert!(
        first.text.contains("To: <sip:+622150001000@"),
        "{}",
        first.text
    );
    assert!(messages.is_sorted_by_key(|message| message.at));
    let sdp = messages[3].sdp().unwrap();
    assert!(
        sdp.starts_with("audio 127.0.0.1:") && sdp.contains("PCMA"),
        "{sdp}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_the_service_refused_has_a_ladder_and_one_that_it_never_saw_has_none() {
    let bench = TestEdge::new(CallBehaviour::Reject(CallRefusal {
        status: 480,
        words: "nobody is there".to_owned(),
        retry_after_seconds: None,
    }))
    .await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let called = phone.to.clone();
    let unusable = phone.request("INVITE", "", &offer(40_000).replace("AVP 0 8 101", "AVP 3"));
    phone.send(&unusable).await;
    phone.expect("SIP/2.0 488").await;
    let ack = phone.written("ACK", "", "");
    phone.send(&ack).await;
    assert_eq!(bench.edge.ladder(&format!("{};phone", phone.call_id)), None);
    phone.to = called;
    phone.ask("INVITE", "", &offer(40_000)).await;
    phone.answered("SIP/2.0 480").await;
    let ack = phone.written("ACK", "", "");
    phone.send(&ack).await;
    let id = bench.call().id;
    let expected = ["<INVITE", ">100", ">480", "<ACK"];
    eventually("its ladder", || steps(&ladder(&bench, &id)) == expected).await;
    bench.edge.forget_ladder(&id);
    assert_eq!(bench.edge.ladder(&id), None);
}

/// A stranger who knows a Call-ID cannot push the call's own messages out of its ladder.
#[tokio::test(flavor = "multi_thread")]
async fn messages_of_strangers_are_in_no_ladder() {
    let bench = TestEdge::with(CallBehaviour::Echo, 10, |sip| {
        sip.trunks[0].addresses = vec!["127.0.0.1/32".parse().unwrap()];
    })
    .await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    phone.call("", &offer(40_000)).await;
    eventually("it stands", || bench.saw(&LegEvent::Answered)).await;
    let id = bench.call().id;
    let before = ladder(&bench, &id);
    let mut stranger = ScriptedPhone::udp_from("127.0.0.9", bench.udp()).await;
    stranger.call_id.clone_from(&phone.call_id);
    for method in ["OPTIONS", "INVITE", "BYE"] {
        let request = stranger.request(method, "", "");
        stranger.send(&request).await;
        stranger.hears(Duration::from_secs(20)).await.unwrap();
    }
    assert_eq!(ladder(&bench, &id), before);
    phone.hang_up().await;
}

/// Sends 20 ms of silence as PCMA.
async fn speak(media: &UdpSocket, to: &str, sequence: u16) {
    let mut packet = vec![0x80, 8];
    packet.extend_from_slice(&sequence.to_be_bytes());
    packet.extend_from_slice(&(u32::from(sequence) * 160).to_be_bytes());
    packet.extend_from_slice(&[0, 0, 0, 7]);
    packet.extend_from_slice(&[0xd5; 160]);
    media.send_to(&packet, to).await.unwrap();
}

fn caller(bench: &TestEdge, id: &str) -> Option<LegQuality> {
    bench.edge.quality(id)?.caller
}

#[tokio::test(flavor = "multi_thread")]
async fn the_quality_of_both_directions_is_reported_while_the_call_runs_and_counted_at_its_end() {
    let bench = TestEdge::new(CallBehaviour::Tone).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let media = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let reports = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let rtcp = format!("a=rtcp:{}\r\n", reports.local_addr().unwrap().port());
    let offered = pcma(media.local_addr().unwrap().port()) + &rtcp;
    let answer = phone.call("", &offered).await;
    let port = answer
        .split("m=audio ")
        .nth(1)
        .unwrap()
        .split(' ')
        .next()
        .unwrap();
    let port: u16 = port.parse().unwrap();
    let id = bench.call().id;
    // The numbers 20 to 24 are lost, and 24 comes too late.
    let to = format!("127.0.0.1:{port}");
    let mut packet = [0; 2_048];
    for sequence in (0..20).chain(25..60).chain([24]) {
        speak(&media, &to, sequence).await;
        media.recv(&mut packet).await.unwrap();
    }
    // The phone's report: of our stream it misses 3 packets, with a jitter of 80 (10 ms), and no sender report to answer.
    let ssrc = packet[8..12].to_vec();
    let mut report = vec![0x81, 201, 0, 7, 0, 0, 0, 7];
    report.extend_from_slice(&ssrc);
    report.extend_from_slice(&[0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0]);
    reports
        .send_to(&report, ("127.0.0.1", port + 1))
        .await
        .unwrap();
    let is_known = |leg: LegQuality| leg.sent.lost == Some(3) && leg.received.late == Some(1);
    eventually("the quality of a running call", || {
        caller(&bench, &id).is_some_and(is_known)
    })
    .await;
    phone.hang_up().await;
    let counted = |of: &ValueCounts| of.counts.iter().sum::<u64>();
    eventually("its histograms", || {
        counted(&bench.edge.statistics().quality.received.mos) == 1
    })
    .await;
    let leg = caller(&bench, &id).unwrap();
    assert_eq!((leg.codec, leg.round_trip_ms), ("PCMA", None));
    let received = leg.received;
    assert_eq!((received.packets, received.lost), (56, Some(5)), "{leg:?}");
    assert_eq!(received.concealed_ms, Some(60), "at most 60 ms of a loss");
    assert!(
        received.mos.is_some_and(|mos| (100..420).contains(&mos)),
        "{leg:?}"
    );
    assert!(
        leg.sent.packets >= 56 && leg.sent.jitter_p95_ms == Some(10),
        "{leg:?}"
    );
    assert!(
        leg.sent.mos.is_some_and(|mos| (100..441).contains(&mos)),
        "{leg:?}"
    );
    let all = bench.edge.statistics().quality;
    assert_eq!(
        [&all.sent.mos, &all.received.loss, &all.concealed].map(counted),
        [1; 3]
    );
    assert_eq!(counted(&all.round_trip), 0, "nothing is known of it");
    assert_eq!(bench.edge.quality(&id).unwrap().person, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_leg_of_a_person_has_a_quality_of_its_own() {
    let bench = TestEdge::new(CallBehaviour::Transfer("+62811111".to_owned())).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let (mut from_caller, answer, mut from_person, invite, _) = joined(&bench, &mut phone).await;
    carries(&mut from_caller, &answer, &from_person).await;
    carries(&mut from_person, &invite, &from_caller).await;
    let id = bench.call().id;
    let both = || {
        let quality = bench.edge.quality(&id)?;
        Some(
            quality
                .caller?
                .received
                .packets
                .min(quality.person?.received.packets),
        )
    };
    eventually("both legs", || both().is_some_and(|packets| packets > 0)).await;
    phone.hang_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_refused_invite_is_counted_with_its_reason() {
    let bench = TestEdge::new(CallBehaviour::Ring).await;
    let count = |trunk: &str, reason: &str| {
        let refused = bench.edge.statistics().refused;
        let of = refused
            .iter()
            .find(|of| (of.trunk.as_str(), of.reason) == (trunk, reason));
        of.map_or(0, |of| of.count)
    };
    let timer = "Supported: timer\r\nSession-Expires: 60\r\n";
    let no_number = "Max-Forwards: none\r\n";
    for (extra, cut, status, trunk, reason) in [
        (timer, "", "422", "here", "timer"),
        ("", "Contact: ", "400", "here", "contact"),
        (no_number, "Max-Forwards: 70\r\n", "400", "", "malformed"),
    ] {
        let mut phone = ScriptedPhone::udp(bench.udp()).await;
        let mut invite = phone.request("INVITE", extra, &offer(40_000));
        if !cut.is_empty() {
            invite = invite.replacen(cut, if cut.ends_with("\r\n") { "" } else { "X: " }, 1);
        }
        phone.send(&invite).await;
        phone.expect(&format!("SIP/2.0 {status}")).await;
        assert_eq!(count(trunk, reason), 1, "{reason}");
    }
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let called = phone.to.clone();
    let invite = phone.request("INVITE", "", &offer(40_000));
    phone.send(&invite).await;
    phone.expect("SIP/2.0 180").await;
    phone.to = called;
    phone.ask("INVITE", "", &offer(40_000)).await;
    phone.expect("SIP/2.0 482").await;
    assert_eq!(count("here", "repeated"), 1);
}

fn refused(bench: &TestEdge, trunk: &str, reason: &str) -> u64 {
    let refused = bench.edge.statistics().refused;
    let of = refused
        .iter()
        .find(|of| (of.trunk.as_str(), of.reason) == (trunk, reason));
    of.map_or(0, |of| of.count)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_change_of_a_call_is_counted() {
    let bench = TestEdge::new(CallBehaviour::Echo).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    phone.call("", &offer(40_000)).await;
    phone.ask("INVITE", "", &offer(40_000)).await;
    phone.answered("SIP/2.0 200").await;
    phone.acknowledge("").await;
    assert_eq!(refused(&bench, "here", "change"), 0);
    let unusable = offer(40_000).replace("AVP 0 8 101", "AVP 3");
    phone.ask("INVITE", "", &unusable).await;
    phone.answered("SIP/2.0 488").await;
    let ack = phone.written("ACK", "", "");
    phone.send(&ack).await;
    eventually("it is counted", || refused(&bench, "here", "change") == 1).await;
    phone
        .ask("INVITE", "Require: unknown\r\n", &offer(40_000))
        .await;
    phone.answered("SIP/2.0 420").await;
    assert_eq!(refused(&bench, "", "change"), 1);
    phone.hang_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refer_that_fails_is_counted() {
    let bench = TestEdge::with(CallBehaviour::Transfer("+62811111".to_owned()), 10, |sip| {
        sip.trunks[0].transfer = TransferMethod::Refer;
    })
    .await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    phone.call("", &offer(40_000)).await;
    let refer = phone.expect("REFER ").await;
    phone.answer(&refer, "405 Method Not Allowed").await;
    eventually("it is counted", || refused(&bench, "here", "refer") == 1).await;
    assert_eq!(refused(&bench, "here", "second_leg"), 0);
    phone.hang_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registration_that_fails_is_counted() {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let registrar = format!("sip:{}", socket.local_addr().unwrap());
    let bench = TestEdge::with(CallBehaviour::Ring, 10, |sip| {
        sip.trunks[0].register = Some(RegisterSettings {
            registrar,
            expires_seconds: 600,
            ..RegisterSettings::default()
        });
    })
    .await;
    let mut registrar = ScriptedPhone::at(socket, bench.udp()).await;
    let register = registrar.expect("REGISTER ").await;
    let forbidden = registrar.response(&register, "403 Forbidden", "r", "");
    registrar.send(&forbidden).await;
    eventually("it is counted", || {
        refused(&bench, "here", "registration") == 1
    })
    .await;
}

/// A person whose phone plays a tone, and is then not reached.
#[tokio::test(flavor = "multi_thread")]
async fn early_media_of_a_leg_that_nobody_answers_is_in_no_histogram() {
    let bench = TestEdge::with(CallBehaviour::Transfer("+62811111".to_owned()), 10, |sip| {
        sip.trunks[0].transfer = TransferMethod::Bridge;
    })
    .await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let mut from_caller = PhoneMedia::new().await;
    let answer = phone.call("", &pcma(from_caller.port())).await;
    let invite = phone.expect("INVITE ").await;
    let mut person = PhoneMedia::new().await;
    let ringing = phone.response(&invite, "183 Session Progress", "r", &pcma(person.port()));
    phone.send(&ringing).await;
    let id = bench.call().id;
    let rings = || {
        let quality = bench.edge.quality(&id)?.person?;
        Some(quality.received.packets.min(quality.sent.packets) > 0)
    };
    while rings() != Some(true) {
        person.send(&invite).await;
        from_caller.is_loud().await;
    }
    let busy = phone.response(&invite, "486 Busy Here", "r", "");
    phone.send(&busy).await;
    phone.expect("ACK ").await;
    let legs = || {
        let all = bench.edge.statistics().quality;
        all.received.mos.counts.iter().sum::<u64>()
    };
    eventually("its media ends", || bench.edge.statistics().packets > 0).await;
    assert_eq!(legs(), 0);
    from_caller.send(&answer).await;
    phone.hang_up().await;
    eventually("the caller's leg is counted", || legs() == 1).await;
}

/// Nothing of a person's number is known if the trunk cannot be reached, but the failure is counted.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_leg_that_fails_is_counted() {
    let bench = TestEdge::with(CallBehaviour::Transfer("+62811111".to_owned()), 10, |sip| {
        sip.trunks[0].outbound.uri = Some("sip:nowhere.invalid".to_owned());
    })
    .await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let media = PhoneMedia::new().await;
    phone.call("", &pcma(media.port())).await;
    let failed = || {
        let refused = bench.edge.statistics().refused;
        refused
            .iter()
            .any(|of| of.reason == "second_leg" && of.count == 1)
    };
    eventually("the failure", failed).await;
    phone.hang_up().await;
}
