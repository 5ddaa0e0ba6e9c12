//! The counts of a stream, and its grade.

use super::*;

/// 20 ms of a key: its timestamp is that of its beginning.
fn key_packet(sequence: u16, begun: u16, lasts: u16) -> Vec<u8> {
    let lasts = lasts.to_be_bytes();
    let mut packet = packet(sequence, 101, &[5, 10, lasts[0], lasts[1]]);
    packet[4..8].copy_from_slice(&(u32::from(begun) * 160).to_be_bytes());
    packet
}

#[test]
fn a_packet_that_comes_again_counts_once() {
    let mut ours = stream(terms(Codec::Pcma, THERE), 5);
    // The number 3 is lost, and comes twice when it is late.
    for (at, sequence) in [0, 1, 1, 2, 4, 4, 5, 6, 7, 8, 3, 3].into_iter().enumerate() {
        let now = 20 * u64::try_from(at).expect("small");
        give(&mut ours, &packet(sequence, 8, &[0x2a; 160]), now);
    }
    let received = ours.quality().received;
    assert_eq!(
        (received.packets, received.lost, received.late),
        (9, Some(1), Some(1))
    );
}

#[test]
fn keys_are_no_jitter() {
    let mut ours = stream(terms(Codec::Pcma, THERE), 5);
    let give_at = |ours: &mut MediaStream, packet: &[u8], sequence: u16| {
        give(ours, packet, 20 * u64::from(sequence));
    };
    for sequence in 0..50 {
        give_at(&mut ours, &packet(sequence, 8, &[0x2a; 160]), sequence);
    }
    for sequence in 50..100 {
        let key = key_packet(sequence, 50, 160 * (sequence - 49));
        give_at(&mut ours, &key, sequence);
    }
    for sequence in 100..150 {
        give_at(&mut ours, &packet(sequence, 8, &[0x2a; 160]), sequence);
    }
    assert_eq!(ours.quality().received.jitter_p95_ms, Some(0));
    assert_eq!(ours.statistics().jitter_ms, 0);
}

#[test]
fn a_side_that_is_never_heard_has_the_lowest_score_once_it_answered() {
    let score = |is_answered: bool, direction: MediaDirection, ticks: u64, heard: bool| {
        let mut ours = stream(
            MediaTerms {
                direction,
                ..terms(Codec::Pcma, THERE)
            },
            5,
        );
        if is_answered {
            ours.answered();
        }
        for number in 0..ticks {
            tick(&mut ours, 20 * number);
        }
        if heard {
            give(&mut ours, &packet(1, 8, &[0x2a; 160]), 20 * ticks);
        }
        ours.quality().received.mos
    };
    let both = MediaDirection::SendRecv;
    assert_eq!(score(true, both, 100, false), Some(100));
    assert_eq!(score(true, both, 10, false), None, "it may still come");
    assert_eq!(score(false, both, 100, false), None, "it rings");
    assert_eq!(score(true, MediaDirection::Inactive, 100, false), None);
    assert!(score(true, both, 100, true).is_some_and(|mos| mos > 400));
}
