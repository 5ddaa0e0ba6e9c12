//! A phone that takes packets of 10 ms only (`maxptime`).

use super::*;

#[test]
fn a_phone_that_takes_packets_of_10_ms_gets_two_every_20_ms() {
    for codec in [Codec::Opus, Codec::G722, Codec::Pcma] {
        let (mut theirs, mut ours) = pair(codec, false);
        theirs.terms.has_short_packets = true;
        theirs.say(&buzz(1_000));
        let (mut heard, mut headers) = (Vec::new(), Vec::new());
        for now in (0..1_000).step_by(20) {
            let (sent, _) = tick(&mut theirs, now);
            let media = sent.iter().filter(|(channel, _)| *channel == Channel::Rtp);
            for (_, packet) in media {
                headers.push(rtp::read(packet).expect("RTP").header);
                heard.extend(give(&mut ours, packet, now));
            }
        }
        assert_eq!(headers.len(), 100, "{codec:?}");
        assert!(headers[0].marker && headers[1..].iter().all(|header| !header.marker));
        for pair in headers.windows(2) {
            assert_eq!(pair[1].sequence, pair[0].sequence.wrapping_add(1));
            let ticks = pair[1].timestamp.wrapping_sub(pair[0].timestamp);
            assert_eq!(ticks, clock(codec) / 100, "{codec:?}");
        }
        let heard = audio(&heard);
        assert_eq!(heard.len(), 16_000, "{codec:?}");
        let energy = energy(&heard[1_600..]);
        assert!(energy > 15_000_000, "{codec:?}: {energy}");
        // Keys have no such limit.
        theirs.press('5');
        let (sent, _) = tick(&mut theirs, 1_000);
        assert!(sent.iter().any(|(_, packet)| packet[1] & 0x7f == 101));
    }
}
