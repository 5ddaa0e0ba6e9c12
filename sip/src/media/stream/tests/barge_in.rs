//! The time from a caller's voice until our side is silent.

use super::{Codec, StreamEvent, THERE, buzz, give, packet, stream, terms, tick};

/// 1.6 s of speech, 8 kHz, A-law.
const SPEECH: &[u8] = include_bytes!("../../activity/speech.al");

/// The caller speaks from the first millisecond on, and `obeys` runs `after_ms` after that was noticed. Returns the reported
/// delays, and when the voice was noticed.
fn silence(
    says: &[i16],
    obeys: impl Fn(&mut super::MediaStream),
    after_ms: u64,
) -> (Vec<u64>, u64) {
    let mut ours = stream(terms(Codec::Pcma, THERE), 5);
    ours.say(says);
    let (mut told, mut noticed) = (Vec::new(), None);
    for (n, words) in (0_u16..).zip(SPEECH.chunks_exact(160)) {
        let now_ms = u64::from(n + 1) * 20;
        let mut heard = give(&mut ours, &packet(n, 8, words), now_ms);
        if heard.contains(&StreamEvent::VoiceStarted) {
            noticed = noticed.or(Some(now_ms));
        }
        if noticed.is_some_and(|noticed| now_ms == noticed + after_ms) {
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
    let ends = buzz(usize::try_from(noticed).expect("a few milliseconds") + 10);
    assert_eq!(silence(&ends, super::MediaStream::pause, 60).0, [0; 0]);
    assert_eq!(silence(&buzz(5_000), |_| (), 0).0, [0; 0]);
}
