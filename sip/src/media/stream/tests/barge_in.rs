//! The time from a caller's voice until our side is silent.

use std::collections::VecDeque;

use super::{
    Channel, Codec, MediaDirection, StreamEvent, THERE, address, audio, buzz, energy, give, packet,
    rtp, stream, terms, tick,
};
use crate::media::{fir::Resampler, g711::Law};

/// 1.6 s of speech, 8 kHz, A-law.
const SPEECH: &[u8] = include_bytes!("../../activity/speech.al");

/// The agent speaks alone for this long before the caller does.
const ALONE_MS: u64 = 1_200;

/// The caller speaks after [`ALONE_MS`], and `obeys` runs `after_ms` after that was noticed. Returns the reported delays, and when
/// the voice was noticed; times count from the caller's first word.
fn silence(
    says: &[i16],
    obeys: impl Fn(&mut super::MediaStream),
    after_ms: u64,
) -> (Vec<u64>, u64) {
    let mut ours = stream(terms(Codec::Pcma, THERE), 5);
    ours.say(says);
    let (mut told, mut noticed) = (Vec::new(), None);
    let quiet = std::iter::repeat_n(&[0xd5; 160][..], ALONE_MS as usize / 20);
    for (n, words) in (0_u16..).zip(quiet.chain(SPEECH.chunks_exact(160))) {
        let now_ms = u64::from(n + 1) * 20;
        let mut heard = give(&mut ours, &packet(n, 8, words), now_ms);
        if heard.contains(&StreamEvent::VoiceStarted) {
            noticed = noticed.or(Some(now_ms - ALONE_MS));
        }
        if noticed.is_some_and(|noticed| now_ms == ALONE_MS + noticed + after_ms) {
            obeys(&mut ours);
        }
        heard.extend(tick(&mut ours, now_ms).1);
        told.extend(heard.iter().filter_map(|heard| match heard {
            StreamEvent::FellSilent { after_ms } => Some(*after_ms),
            _ => None,
        }));
    }
    (told, noticed.expect("voice is noticed"))
}

#[test]
fn the_time_from_voice_to_silence_is_told() {
    let long = buzz(5_000);
    let (told, noticed) = silence(&long, super::MediaStream::pause, 0);
    assert_eq!(told, [96]);
    assert!((96..=250).contains(&noticed), "noticed after {noticed} ms");
    assert_eq!(silence(&long, super::MediaStream::pause, 60).0, [156]);
    let flush = |ours: &mut super::MediaStream| ours.flush(&mut Vec::new());
    assert_eq!(silence(&long, flush, 20).0, [116]);
}

#[test]
fn who_falls_silent_by_himself_or_not_at_all_was_not_interrupted() {
    assert_eq!(silence(&[], super::MediaStream::pause, 0).0, [0; 0]);
    let (_, noticed) = silence(&[], super::MediaStream::pause, 0);
    let ends = usize::try_from(ALONE_MS + noticed).expect("a second");
    let ends = buzz(ends + 10);
    assert_eq!(silence(&ends, super::MediaStream::pause, 60).0, [0; 0]);
    assert_eq!(silence(&buzz(5_000), |_| (), 0).0, [0; 0]);
}

/// When voice begins, and the loudness that is passed on in each packet, with a phone that returns the agent's speech after 60 ms and at a third (−10 dB). Every 400 ms the network
/// holds up its packets for 200 ms. From `caller_ms` on the caller speaks, as loud as the agent.
fn voice_over_a_return(caller_ms: u64) -> (Vec<u64>, Vec<i64>) {
    let (mut words, mut speech) = (Vec::new(), Vec::new());
    Law::A.decode(SPEECH, &mut words);
    Resampler::from_8_to_24().run(&words, &mut speech);
    let mut ours = stream(terms(Codec::Pcma, THERE), 5);
    for _ in 0..4 {
        ours.say(&speech);
    }
    let (mut returned, mut held_up, mut begins) = (VecDeque::new(), Vec::new(), Vec::new());
    let mut passed = Vec::new();
    for n in 0..300_u16 {
        let now_ms = u64::from(n) * 20;
        let (sent, mut heard) = tick(&mut ours, now_ms);
        let media = sent.iter().find(|(channel, _)| *channel == Channel::Rtp);
        returned.push_back(media.expect("a packet").1[rtp::HEADER_BYTES..].to_vec());
        if returned.len() > 3 {
            let mut samples = Vec::new();
            Law::A.decode(&returned.pop_front().expect("four"), &mut samples);
            for sample in &mut samples {
                *sample /= 3;
            }
            if let Some(since) = now_ms.checked_sub(caller_ms) {
                let spoken = words.iter().skip(1_500 + since as usize * 8);
                for (sample, word) in samples.iter_mut().zip(spoken) {
                    *sample = sample.saturating_add(*word);
                }
            }
            let mut payload = Vec::new();
            Law::A.encode(&samples, &mut payload);
            held_up.push(packet(n, 8, &payload));
        }
        if n % 20 < 10 {
            for packet in held_up.drain(..) {
                heard.extend(give(&mut ours, &packet, now_ms));
            }
        }
        let began = heard.contains(&StreamEvent::VoiceStarted);
        begins.extend(began.then_some(now_ms));
        passed.push(energy(&audio(&heard)));
    }
    (begins, passed)
}

#[test]
fn speech_that_the_phone_returns_is_no_voice() {
    let (begins, passed) = voice_over_a_return(u64::MAX);
    assert_eq!(begins, [0; 0]);
    // Softer than −50 dB, once there is enough to compare.
    let loud = passed[75..].iter().filter(|energy| **energy > 10_000);
    assert_eq!(loud.count(), 0, "a model would hear the agent");
    let (begins, passed) = voice_over_a_return(4_400);
    assert!((4_496..4_900).contains(&begins[0]), "{begins:?}");
    let from = usize::try_from(begins[0] / 20).expect("a packet");
    assert!(passed[from..from + 20].iter().max() > Some(&100_000));
}

#[test]
fn a_voice_that_a_hold_cut_off_begins_anew_after_it() {
    let mut ours = stream(terms(Codec::Pcma, THERE), 5);
    let mut begun = Vec::new();
    for (n, words) in (0_u16..).zip(SPEECH.chunks_exact(160)) {
        let now_ms = u64::from(n + 1) * 20;
        // In the middle of a word, and only for a moment.
        if n == 40 {
            let mut held = terms(Codec::Pcma, THERE);
            held.direction = MediaDirection::RecvOnly;
            for terms in [held, terms(Codec::Pcma, THERE)] {
                let from = address(THERE).ip();
                ours.change(terms, from, now_ms).expect("changed");
            }
        }
        let heard = give(&mut ours, &packet(n, 8, words), now_ms);
        begun.extend(heard.contains(&StreamEvent::VoiceStarted).then_some(n));
    }
    assert!(begun.len() == 2 && begun[1] > 40, "{begun:?}");
}
