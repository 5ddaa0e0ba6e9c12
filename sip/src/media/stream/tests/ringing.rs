//! The ring tone while a person is called.

use super::*;
use crate::media::g711::Law;

/// The sent audio of this many milliseconds, in frames of 20 ms.
fn sent(stream: &mut MediaStream, ms: std::ops::Range<u64>) -> Vec<Vec<i16>> {
    let sent = ms.step_by(20).flat_map(|now| tick(stream, now).0);
    let media = sent.filter(|(channel, _)| *channel == Channel::Rtp);
    let decoded = media.map(|(_, packet)| {
        let mut samples = Vec::new();
        Law::A.decode(&packet[rtp::HEADER_BYTES..], &mut samples);
        samples
    });
    decoded.collect()
}

fn is_silent(frame: &[i16]) -> bool {
    frame.iter().all(|sample| sample.unsigned_abs() < 100)
}

#[test]
fn the_ring_tone_waits_for_the_end_of_a_sentence_and_ends_when_told() {
    let mut ours = stream(terms(Codec::Pcma, THERE), 5);
    ours.say(&buzz(400));
    ours.ring(true);
    let heard = sent(&mut ours, 0..5_400);
    let loudest = |frame: &Vec<i16>| frame.iter().map(|sample| sample.unsigned_abs()).max();
    assert!(
        heard[1..20]
            .iter()
            .all(|frame| loudest(frame) > Some(5_000))
    );
    // The filter of the playout ends the sentence a little later.
    let tone = &heard[22..70];
    assert!(
        tone.iter()
            .all(|frame| (3_500..4_500).contains(&loudest(frame).unwrap_or(0)))
    );
    assert!(heard[72..].iter().all(|frame| is_silent(frame)));
    // Speech goes first, and no tone follows once it has ended.
    ours.say(&buzz(40));
    assert!(
        sent(&mut ours, 5_400..5_440)
            .iter()
            .any(|frame| loudest(frame) > Some(5_000))
    );
    ours.ring(false);
    let after = sent(&mut ours, 5_480..16_000);
    assert!(after.iter().all(|frame| is_silent(frame)));
}

#[test]
fn the_ring_tone_stays_out_of_the_gaps_of_early_media() {
    let mut ours = stream(terms(Codec::Pcma, THERE), 5);
    ours.ring(true);
    let tones = |frames: Vec<Vec<i16>>| frames.iter().filter(|frame| !is_silent(frame)).count();
    assert!(tones(sent(&mut ours, 0..100)) > 3);
    // Silence, so that only the tone is loud. The network loses half of it.
    for n in 0..20 {
        ours.say_early(&[0; 480]);
        assert_eq!(tones(sent(&mut ours, 100 + n * 40..140 + n * 40)), 0, "{n}");
    }
    assert_eq!(tones(sent(&mut ours, 900..1_800)), 0);
    assert!(tones(sent(&mut ours, 1_800..7_000)) > 40);
}
