//! Bodies other than a plain SDP: multipart bodies, and keys by INFO.

use std::time::Duration;

use dikala_sip::leg::LegEvent;

use crate::support::{
    CallBehaviour, PhoneMedia, ScriptedPhone, TestEdge, eventually, header, offer,
};

fn keys(bench: &TestEdge) -> String {
    let happened = bench.call().events;
    let keys = happened.iter().filter_map(|happening| match happening {
        LegEvent::Key(key) => Some(*key),
        _ => None,
    });
    keys.collect()
}

/// A trunk's body: signalling of the telephone network (ISUP), and the SDP.
fn parts(sdp: &str) -> String {
    format!(
        "--unique\r\nContent-Type: application/ISUP;version=itu-t92+\r\nContent-Disposition: signal;handling=optional\r\n\r\n\
         \u{1}\u{0}I\u{0}\r\n--unique\r\nContent-Type: application/sdp\r\n\r\n{sdp}\r\n--unique--\r\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sdp_is_taken_out_of_several_parts() {
    let bench = TestEdge::new(CallBehaviour::Echo).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let several = "multipart/mixed;boundary=unique";
    let invite = phone.request("INVITE", "", &parts(&offer(40_000))).replace(
        "application/sdp\r\nContent-Length",
        &format!("{several}\r\nContent-Length"),
    );
    phone.send(&invite).await;
    let answer = phone.expect("SIP/2.0 200").await;
    assert_eq!(header(&answer, "Content-Type"), Some("application/sdp"));
    phone.acknowledge("").await;
    assert_eq!(bench.call().codec, Some("PCMU"));
    phone.hang_up().await;

    // An SDP answer in the ACK of a delayed offer is found, too.
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let invite = phone.request("INVITE", "", "");
    phone.send(&invite).await;
    phone.expect("SIP/2.0 200").await;
    let ack = phone.request("ACK", "", &parts(&offer(40_000))).replace(
        "application/sdp\r\nContent-Length",
        &format!("{several}\r\nContent-Length"),
    );
    phone.send(&ack).await;
    eventually("the call stands", || {
        let calls = bench.calls();
        calls[1].events.contains(&LegEvent::Answered)
    })
    .await;
    phone.hang_up().await;

    for (kind, body) in [
        (several, parts("").replace("application/sdp", "text/plain")),
        ("multipart/mixed", parts(&offer(40_000))),
    ] {
        let mut phone = ScriptedPhone::udp(bench.udp()).await;
        let invite = phone.request("INVITE", "", &body);
        let (head, body) = invite.split_once("\r\n\r\n").unwrap();
        let invite = format!("{}\r\n\r\n{body}", head.replace("application/sdp", kind));
        phone.send(&invite).await;
        let refused = phone.expect("SIP/2.0 415").await;
        let accepted = header(&refused, "Accept").unwrap();
        assert!(accepted.starts_with("application/sdp"), "{accepted}");
    }
    assert_eq!(bench.calls().len(), 2);
}

async fn inform(phone: &mut ScriptedPhone, kind: &str, body: &str) -> String {
    phone.cseq += 1;
    let info = phone
        .request("INFO", "", body)
        .replace("application/sdp", kind);
    phone.send(&info).await;
    phone.expect("SIP/2.0 ").await
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_told_by_info_too_and_those_told_twice_count_once() {
    let bench = TestEdge::new(CallBehaviour::Echo).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let mut sound = PhoneMedia::new().await;
    let answer = phone.call("", &offer(sound.port())).await;
    assert!(header(&answer, "Allow").unwrap().contains("INFO"));
    let mut relayed = async |key: &str| {
        let body = format!("Signal={key}\r\nDuration=160\r\n");
        let told = inform(&mut phone, "application/dtmf-relay", &body).await;
        assert!(told.starts_with("SIP/2.0 200"), "{told}");
    };
    // Keys by INFO alone.
    relayed("7").await;
    relayed("*").await;
    eventually("two keys", || keys(&bench).len() == 2).await;
    // Both ways, the event before and after, and the same key twice.
    sound.send(&answer).await;
    sound.press(&answer, 4).await;
    eventually("the event", || keys(&bench) == "7*4").await;
    relayed("4").await;
    relayed("4").await;
    eventually("the second 4", || keys(&bench) == "7*44").await;
    sound.press(&answer, 4).await;
    sound.press(&answer, 2).await;
    relayed("2").await;
    sound.press(&answer, 11).await;
    eventually("the last key", || keys(&bench) == "7*442#").await;

    for (kind, body, status) in [
        ("application/dtmf", "5", "200"),
        ("application/dtmf-relay", "Signal=flash", "400"),
        ("application/media_control+xml", "<x/>", "415"),
        ("application/sdp", "", "200"),
    ] {
        let told = inform(&mut phone, kind, body).await;
        assert!(told.starts_with(&format!("SIP/2.0 {status}")), "{told}");
        if status == "415" {
            assert!(
                header(&told, "Accept")
                    .unwrap()
                    .contains("application/dtmf")
            );
            assert!(header(&told, "Reason").is_some());
        }
    }
    eventually("the key alone", || keys(&bench) == "7*442#5").await;
    phone.ask("INFO", "Info-Package: g.3gpp.ussd\r\n", "").await;
    let told = phone.expect("SIP/2.0 469").await;
    assert_eq!(header(&told, "Recv-Info"), Some(""));
    phone.hang_up().await;
    assert_eq!(phone.hears(Duration::from_millis(50)).await, None);
}
