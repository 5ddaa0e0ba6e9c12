//! Media behind NAT: packets that are admitted if no packets come from the address in the SDP.

use crate::support::{
    CallBehaviour, PATIENCE, PhoneMedia, ScriptedPhone, TestEdge, eventually, offer, pitch,
};

/// An offer of G.711 A-law with an address of the caller's private network.
fn behind_nat() -> String {
    offer(9)
        .replace("c=IN IP4 127.0.0.1", "c=IN IP4 127.0.0.77")
        .replace("RTP/AVP 0 8 101", "RTP/AVP 8 101")
        .replace("a=rtpmap:0 PCMU/8000\r\n", "")
}

/// A caller whose speech is echoed, the edge's media address, and the caller's media.
async fn call() -> (TestEdge, ScriptedPhone, String, PhoneMedia) {
    call_of(CallBehaviour::Echo).await
}

async fn call_of(agent: CallBehaviour) -> (TestEdge, ScriptedPhone, String, PhoneMedia) {
    let bench = TestEdge::new(agent).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let answer = phone.call("", &behind_nat()).await;
    (bench, phone, answer, PhoneMedia::new().await)
}

/// Both send for a while, the stranger four times as often; it gets no media and is not heard.
async fn keeps_it(
    bench: &TestEdge,
    answer: &str,
    caller: &mut PhoneMedia,
    stranger: &mut PhoneMedia,
) {
    stranger.forgets();
    let heard = bench.call().audio.len();
    for _ in 0..50 {
        for _ in 0..4 {
            stranger.send(answer).await;
        }
        caller.echoes(answer).await;
    }
    assert_eq!(stranger.forgets(), 0, "nothing goes to the stranger");
    eventually("the caller's tone is heard", || {
        let audio = bench.call().audio;
        audio.len() >= heard + 16_000 && (380..420).contains(&pitch(&audio, 16_000))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_who_sprays_ports_before_the_caller_speaks_does_not_take_the_media() {
    let (bench, mut phone, answer, mut caller) = call().await;
    let mut stranger = PhoneMedia::at("127.0.0.66").await.higher();
    for _ in 0..40 {
        stranger.send(&answer).await;
    }
    caller.echoes(&answer).await;
    keeps_it(&bench, &answer, &mut caller, &mut stranger).await;
    phone.hang_up().await;
}

/// The caller sends nothing in the first second, behind a NAT that admits nothing before.
#[tokio::test(flavor = "multi_thread")]
async fn a_caller_wins_the_media_back_from_a_stranger_who_was_quicker() {
    let (bench, mut phone, answer, mut caller) = call().await;
    let mut stranger = PhoneMedia::at("127.0.0.66").await.higher();
    stranger.echoes(&answer).await;
    caller.echoes(&answer).await;
    keeps_it(&bench, &answer, &mut caller, &mut stranger).await;
    phone.hang_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_phone_that_comes_back_from_hold_on_another_port_is_heard() {
    // A tone that came back as it was sent would be an echo, which the agent does not hear.
    let (bench, mut phone, answer, mut before) = call_of(CallBehaviour::Tone).await;
    before.echoes(&answer).await;
    for direction in ["sendonly", "sendrecv"] {
        let again = behind_nat().replace("sendrecv", direction);
        phone.ask("INVITE", "", &again).await;
        phone.answered("SIP/2.0 200").await;
        phone.acknowledge("").await;
    }
    // The old port continues for a while, as that of a server for music on hold may.
    let mut after = PhoneMedia::new().await;
    let heard = tokio::time::timeout(PATIENCE, async {
        loop {
            before.send(&answer).await;
            after.send(&answer).await;
            if after.is_loud().await {
                return;
            }
        }
    });
    heard.await.expect("the new port is spoken to");
    assert!(!bench.call().over);
    phone.hang_up().await;
}
