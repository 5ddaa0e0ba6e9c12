//! Phones that return the agent's speech.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use audio_codec_algorithms::{decode_alaw, encode_alaw};
use dikala_sip::leg::LegEvent;
use tokio::{net::UdpSocket, time::timeout};

use crate::{
    changes::pcma,
    support::{CallBehaviour, PATIENCE, ScriptedPhone, TestEdge, eventually},
};

/// 1.6 s of speech, 8 kHz, A-law.
const SPEECH: &[u8] = include_bytes!("../../src/media/activity/speech.al");
/// Packets that the return takes, about 60 ms.
const RETURN_PACKETS: usize = 3;

fn words() -> Vec<i16> {
    SPEECH.iter().map(|byte| decode_alaw(*byte)).collect()
}

/// 20 s of speech at 24 kHz.
fn agents_speech() -> Vec<i16> {
    let words = words();
    let all = words.iter().cycle().take(20 * 8_000);
    all.flat_map(|sample| [*sample; 3]).collect()
}

/// Returns each packet of the agent, this many times softer. Once told so, a caller speaks over it, faster than the agent and half
/// as loud.
async fn returns(socket: UdpSocket, softer: i16, speaks: Arc<AtomicBool>) {
    let words = words();
    let mut caller = (1_200..words.len() * 4 / 5).map(|at| words[at * 5 / 4] / 2);
    let (mut packet, mut waiting) = ([0; 2_048], VecDeque::new());
    for sequence in 1_u16.. {
        let (length, edge) = socket.recv_from(&mut packet).await.unwrap();
        let timestamp = packet[4..8].to_vec();
        waiting.push_back(packet[12..length].to_vec());
        if waiting.len() <= RETURN_PACKETS {
            continue;
        }
        let says = speaks.load(Ordering::Relaxed);
        let payload = waiting.pop_front().unwrap().into_iter().map(|byte| {
            let word = if says { caller.next().unwrap_or(0) } else { 0 };
            encode_alaw((decode_alaw(byte) / softer).saturating_add(word))
        });
        let mut returned = vec![0x80, 8];
        returned.extend_from_slice(&sequence.to_be_bytes());
        returned.extend_from_slice(&timestamp);
        returned.extend_from_slice(&u32::from(softer.unsigned_abs()).to_be_bytes());
        returned.extend(payload);
        socket.send_to(&returned, edge).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a busy machine tears the returned speech apart"]
async fn a_phone_that_returns_the_agents_speech_does_not_interrupt_and_its_caller_does() {
    let bench = TestEdge::new(CallBehaviour::Say(agents_speech())).await;
    // −10 and −20 dB; the third has a caller.
    let mut phones = Vec::new();
    let speaks = Arc::new(AtomicBool::new(false));
    for (softer, has_caller) in [(3, false), (10, false), (10, true)] {
        let media = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let port = media.local_addr().unwrap().port();
        let mut phone = ScriptedPhone::udp(bench.udp()).await;
        phone.call("", &pcma(port)).await;
        let speaks = if has_caller {
            speaks.clone()
        } else {
            Arc::default()
        };
        phones.push((phone, tokio::spawn(returns(media, softer, speaks))));
    }
    eventually("5 s are heard", || {
        let calls = bench.calls();
        calls.len() == 3 && calls.iter().all(|call| call.frames > 250)
    })
    .await;
    let begun = |n: usize| bench.calls()[n].events.contains(&LegEvent::VoiceStarted);
    assert!(!begun(2), "the third caller has not spoken yet");
    speaks.store(true, Ordering::Relaxed);
    eventually("the caller is noticed", || begun(2)).await;
    assert!(
        !bench.calls()[2].events.contains(&LegEvent::Played(1)),
        "the agent still speaks"
    );
    eventually("the agent finishes", || {
        let finished = |n: usize| bench.calls()[n].events.contains(&LegEvent::Played(1));
        finished(0) && finished(1)
    })
    .await;
    assert!(!begun(0) && !begun(1));
    for (mut phone, returns) in phones {
        phone.hang_up().await;
        returns.abort();
        assert!(timeout(PATIENCE, returns).await.unwrap().is_err());
    }
}
