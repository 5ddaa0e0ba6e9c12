//! Two streams talk to each other over lines that lose, repeat, reorder and forge packets.

mod alive;
mod barge_in;
mod counts;
mod ringing;
mod short_packets;

use std::net::SocketAddr;

use proptest::prelude::*;

use super::{Channel, LOST_MS, MediaStream, RtpSeed, StreamEvent};
use crate::{
    media::{
        g711::Law,
        rtp::{self, Header},
        sdp::{EventFormat, MediaDirection, MediaTerms, clock},
        srtp::{Crypto, MasterKey, Suite},
    },
    settings::Codec,
};

const HERE: &str = "192.0.2.9:20000";
const THERE: &str = "198.51.100.7:4000";

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn terms(codec: Codec, remote: &str) -> MediaTerms {
    let payload = match codec {
        Codec::Opus => 111,
        Codec::G722 => 9,
        Codec::Pcma => 8,
        Codec::Pcmu => 0,
    };
    let remote = address(remote);
    MediaTerms {
        codec,
        send_payload: payload,
        receive_payload: payload,
        events: Some(101),
        send_events: Some(EventFormat {
            payload: 101,
            clock: clock(codec),
        }),
        remote,
        remote_rtcp: SocketAddr::new(remote.ip(), remote.port() + 1),
        rtcp_mux: false,
        has_short_packets: false,
        direction: MediaDirection::SendRecv,
        crypto: None,
    }
}

fn stream(terms: MediaTerms, byte: u8) -> MediaStream {
    let signalling = terms.remote.ip();
    MediaStream::new(terms, signalling, RtpSeed::new([byte; 18]), 0).expect("a stream")
}

/// The phone's and this side's stream, on these terms.
fn pair(codec: Codec, crypto: bool) -> (MediaStream, MediaStream) {
    let (mut theirs, mut ours) = (terms(codec, HERE), terms(codec, THERE));
    if crypto {
        let keys = |ours, theirs| Crypto {
            suite: Suite::Sha1_80,
            ours: MasterKey::new([ours; 30]),
            theirs: MasterKey::new([theirs; 30]),
            their_index_bytes: 0,
        };
        theirs.crypto = Some(keys(1, 2));
        ours.crypto = Some(keys(2, 1));
    }
    (stream(theirs, 3), stream(ours, 5))
}

fn tick(stream: &mut MediaStream, now_ms: u64) -> (Vec<(Channel, Vec<u8>)>, Vec<StreamEvent>) {
    let (mut sent, mut heard) = (Vec::new(), Vec::new());
    stream.tick(now_ms, &mut heard, &mut |channel, _, packet| {
        sent.push((channel, packet.to_vec()))
    });
    (sent, heard)
}

fn give(stream: &mut MediaStream, packet: &[u8], now_ms: u64) -> Vec<StreamEvent> {
    let mut heard = Vec::new();
    stream.on_packet(packet, address(THERE), Channel::Rtp, now_ms, &mut heard);
    heard
}

/// A packet of G.711 A-law from the phone, of constant level.
fn packet(sequence: u16, payload_type: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    let header = Header {
        marker: false,
        payload_type,
        sequence,
        timestamp: u32::from(sequence) * 160,
        ssrc: 77,
    };
    rtp::begin(&header, &mut packet);
    packet.extend_from_slice(payload);
    packet
}

fn audio(heard: &[StreamEvent]) -> Vec<i16> {
    let frames = heard.iter().filter_map(|heard| match heard {
        StreamEvent::Audio(frame) => Some(frame),
        _ => None,
    });
    frames
        .flat_map(|frame| {
            assert_eq!(frame.len(), 320);
            frame.iter().copied()
        })
        .collect()
}

/// A buzz at 24 kHz.
fn buzz(ms: usize) -> Vec<i16> {
    (0..ms * 24)
        .map(|n| if n / 60 % 2 == 0 { 6_000 } else { -6_000 })
        .collect()
}

fn energy(samples: &[i16]) -> i64 {
    let sum: i64 = samples.iter().map(|sample| i64::from(*sample).pow(2)).sum();
    sum / samples.len().max(1) as i64
}

/// The phone sends a second of speech; `line` gives the arriving packets with their milliseconds.
fn talk(
    codec: Codec,
    crypto: bool,
    line: impl Fn(usize, Vec<u8>) -> Vec<(u64, Vec<u8>)>,
) -> (Vec<i16>, MediaStream) {
    let (mut theirs, mut ours) = pair(codec, crypto);
    theirs.say(&buzz(1_000));
    let mut arrivals = Vec::new();
    for n in 0..50 {
        let (sent, _) = tick(&mut theirs, n * 20);
        let media = sent
            .into_iter()
            .filter(|(channel, _)| *channel == Channel::Rtp);
        arrivals.extend(media.flat_map(|(_, packet)| line(n as usize, packet)));
    }
    arrivals.sort_by_key(|(at, _)| *at);
    let mut heard = Vec::new();
    for (at, packet) in arrivals {
        heard.extend(give(&mut ours, &packet, at));
        heard.extend(tick(&mut ours, at).1);
    }
    (audio(&heard), ours)
}

#[test]
fn what_is_said_is_heard() {
    for codec in [Codec::Opus, Codec::G722, Codec::Pcma, Codec::Pcmu] {
        for crypto in [false, true] {
            let (heard, ours) = talk(codec, crypto, |n, packet| vec![(n as u64 * 20, packet)]);
            assert_eq!(heard.len(), 16_000, "{codec:?}");
            assert!(
                energy(&heard[1_600..]) > 15_000_000,
                "{codec:?} {}",
                energy(&heard[1_600..])
            );
            let statistics = ours.statistics();
            assert_eq!(
                (statistics.received, statistics.lost, statistics.invalid),
                (50, 0, 0)
            );
            assert_eq!(statistics.jitter_ms, 0);
        }
    }
}

#[test]
fn losses_are_concealed_and_time_is_kept() {
    for codec in [Codec::Opus, Codec::G722, Codec::Pcma] {
        let (heard, ours) = talk(codec, false, |n, packet| {
            if n % 10 == 5 {
                vec![]
            } else {
                vec![(n as u64 * 20, packet)]
            }
        });
        assert_eq!(heard.len(), 16_000, "{codec:?}");
        let worst = heard[1_600..].chunks_exact(320).map(energy).min();
        assert!(worst > Some(2_000_000), "{codec:?}: {worst:?}");
        assert_eq!(ours.statistics().lost, 5);
    }
}

#[test]
fn repeated_and_shuffled_packets_are_heard_once_and_in_order() {
    let (straight, _) = talk(Codec::Pcma, true, |n, packet| vec![(n as u64 * 20, packet)]);
    let (shuffled, ours) = talk(Codec::Pcma, true, |n, packet| {
        let late = if n % 7 == 3 { 50 } else { 0 };
        vec![(n as u64 * 20 + late, packet.clone())]
    });
    assert!(straight == shuffled);
    assert_eq!(ours.statistics().lost, 0);
    let (repeated, ours) = talk(Codec::Pcma, false, |n, packet| {
        vec![(n as u64 * 20, packet.clone()), (n as u64 * 20 + 1, packet)]
    });
    assert!(straight == repeated);
    assert_eq!(ours.statistics().repeated, 50);
}

#[test]
fn any_length_of_packet_becomes_frames_of_20_ms() {
    for ms in [10_u32, 20, 30, 40, 60] {
        let mut ours = stream(terms(Codec::Pcma, THERE), 5);
        let mut heard = Vec::new();
        for n in 0..600 / ms {
            let mut bytes = packet(n as u16, 8, &vec![0x2a; 8 * ms as usize]);
            bytes[4..8].copy_from_slice(&(n * ms * 8).to_be_bytes());
            heard.extend(give(&mut ours, &bytes, u64::from(n * ms)));
        }
        assert_eq!(audio(&heard).len(), 9_600, "{ms} ms");
    }
}

#[test]
fn silence_is_sent_and_late_ticks_catch_up() {
    let mut ours = stream(terms(Codec::Pcma, THERE), 5);
    let mut sent = Vec::new();
    for now in [0, 21, 38, 62, 140, 160] {
        sent.extend(tick(&mut ours, now).0);
    }
    let headers: Vec<Header> = sent
        .iter()
        .map(|(_, packet)| rtp::read(packet).expect("RTP").header)
        .collect();
    assert_eq!(headers.len(), 9);
    assert!(headers[0].marker && headers[1..].iter().all(|header| !header.marker));
    for pair in headers.windows(2) {
        assert_eq!(pair[1].sequence, pair[0].sequence.wrapping_add(1));
        assert_eq!(pair[1].timestamp, pair[0].timestamp.wrapping_add(160));
    }
    assert!(sent.iter().all(|(_, packet)| packet[12..] == [0xd5; 160]));
    let after = tick(&mut ours, 2_160).0;
    assert_eq!(after.len(), 6, "two seconds are not made up for");
    let header = rtp::read(&after[5].1).expect("RTP").header;
    assert_eq!(
        header.timestamp.wrapping_sub(headers[8].timestamp),
        100 * 160,
        "time went on"
    );
}

#[test]
fn silence_is_heard_where_a_phone_sends_none() {
    let mut ours = stream(terms(Codec::Pcma, THERE), 5);
    assert_eq!(
        audio(&tick(&mut ours, 500).1).len(),
        0,
        "not before it begins"
    );
    let mut heard = give(&mut ours, &packet(1, 8, &[0x2a; 160]), 1_000);
    heard.extend(give(&mut ours, &packet(2, 13, &[60]), 1_020));
    for now in (1_020..2_000).step_by(20) {
        heard.extend(tick(&mut ours, now).1);
    }
    let samples = audio(&heard);
    assert_eq!(samples.len(), 320 * 46);
    assert!(samples[400..].iter().all(|sample| *sample == 0));
    let more = give(&mut ours, &packet(3, 8, &[0x2a; 160]), 2_000);
    assert_eq!(
        audio(&more).len(),
        320,
        "what was silence is not concealed again"
    );
}

#[test]
fn keys_are_heard_once() {
    let mut ours = stream(terms(Codec::Pcma, THERE), 5);
    let mut heard = Vec::new();
    for (sequence, (code, timestamp)) in (0..).zip([
        (4, 9),
        (4, 9),
        (4, 9),
        (2, 99),
        (2, 99),
        (11, 199),
        (11, 199),
    ]) {
        let mut bytes = packet(sequence, 101, &[code, 0x8a, 3, 32]);
        bytes[4..8].copy_from_slice(&u32::to_be_bytes(timestamp));
        heard.extend(give(&mut ours, &bytes, u64::from(sequence) * 20));
    }
    assert_eq!(
        heard,
        [
            StreamEvent::Key('4'),
            StreamEvent::Key('2'),
            StreamEvent::Key('#')
        ]
    );
}

#[expect(clippy::float_arithmetic, reason = "the tones are sines")]
/// The keys in 400 ms of the tones of "5", without the lost packets. From `late` on they come 300 ms late. `jump`: the pause in
/// the timestamps in the middle.
fn keys_in_tones(lost: std::ops::Range<usize>, late: usize, jump: u32) -> String {
    let at = |n: usize| {
        let sine =
            |hertz: f64| 6_000.0 * (std::f64::consts::TAU * hertz * n as f64 / 8_000.0).sin();
        (sine(770.0) + sine(1_336.0)) as i16
    };
    let samples: Vec<i16> = (0..3_200).map(at).collect();
    let mut terms = terms(Codec::Pcma, THERE);
    terms.events = None;
    let mut ours = stream(terms, 5);
    let (mut heard, mut now) = (Vec::new(), 1_000);
    for (n, samples) in samples.chunks(160).enumerate() {
        if n == late {
            for _ in 0..15 {
                now += 20;
                heard.extend(tick(&mut ours, now).1);
            }
        }
        let mut payload = Vec::new();
        Law::A.encode(samples, &mut payload);
        let mut packet = packet(n as u16, 8, &payload);
        if n >= late {
            let timestamp = n as u32 * 160 + jump * 8;
            packet[4..8].copy_from_slice(&timestamp.to_be_bytes());
        }
        if !lost.contains(&n) {
            heard.extend(give(&mut ours, &packet, now));
        }
        now += 20;
        heard.extend(tick(&mut ours, now).1);
    }
    for _ in 0..20 {
        now += 20;
        heard.extend(tick(&mut ours, now).1);
    }
    let keys = heard.iter().filter_map(|heard| match heard {
        StreamEvent::Key(key) => Some(*key),
        _ => None,
    });
    keys.collect()
}

#[test]
fn a_key_in_tones_counts_once_though_packets_are_lost_or_late() {
    assert_eq!(keys_in_tones(0..0, 99, 0), "5");
    for first in 3..15 {
        for count in 1..5 {
            let keys = keys_in_tones(first..first + count, 99, 0);
            assert_eq!(keys, "5", "{count} lost from {first}");
        }
        assert_eq!(keys_in_tones(0..0, first, 0), "5", "{first} is late");
        let twice = keys_in_tones(0..0, first, 300);
        assert_eq!(twice, "55", "silence was suppressed before {first}");
    }
}

#[test]
fn a_key_that_is_pressed_here_is_heard_there_while_speech_goes_on() {
    for codec in [Codec::Pcma, Codec::Opus] {
        for crypto in [false, true] {
            let (mut theirs, mut ours) = pair(codec, crypto);
            theirs.say(&buzz(1_000));
            for key in ['4', '4', '#'] {
                theirs.press(key);
            }
            let mut heard = Vec::new();
            for now_ms in (0..1_500).step_by(20) {
                for (channel, packet) in tick(&mut theirs, now_ms).0 {
                    if channel == Channel::Rtp {
                        heard.extend(give(&mut ours, &packet, now_ms));
                    }
                }
                heard.extend(tick(&mut ours, now_ms).1);
            }
            let keys: String = heard
                .iter()
                .filter_map(|heard| match heard {
                    StreamEvent::Key(key) => Some(*key),
                    _ => None,
                })
                .collect();
            assert_eq!(keys, "44#", "{codec:?}");
            assert!(energy(&audio(&heard)) > 1_000_000);
            assert_eq!(ours.statistics().lost, 0);
        }
    }
}

/// Even with Opus, a phone may count keys in the clock of G.711.
#[test]
fn keys_last_as_long_in_the_clock_that_was_agreed_on() {
    for clock in [8_000_u32, 48_000] {
        let mut agreed = terms(Codec::Opus, THERE);
        agreed.send_events = Some(EventFormat {
            payload: 101,
            clock,
        });
        let mut ours = stream(agreed, 5);
        ours.press('4');
        let sent = (0..200).step_by(20).flat_map(|at| tick(&mut ours, at).0);
        let keys: Vec<Vec<u8>> = sent
            .map(|(_, packet)| packet)
            .filter(|packet| packet[1] & 0x7f == 101)
            .collect();
        let last = keys.last().expect("a key is sent");
        let expected = u16::try_from(clock / 10).expect("100 ms");
        assert_eq!(last[14..16], expected.to_be_bytes(), "{clock}");
    }
}

#[test]
fn who_sends_back_what_it_gets_lives_is_sent_to_and_not_heard() {
    let behind = address("203.0.113.9:7000");
    let terms = terms(Codec::Pcma, THERE);
    let mut stream =
        MediaStream::new(terms, behind.ip(), RtpSeed::new([5; 18]), 0).expect("a stream");
    stream.say(&buzz(1_000));
    let (mut heard, mut goes_to) = (Vec::new(), address(THERE));
    for now_ms in (0..40_000).step_by(20) {
        let mut sent = Vec::new();
        stream.tick(now_ms, &mut heard, &mut |channel, to, packet| {
            if channel == Channel::Rtp {
                goes_to = to;
                sent.push(packet.to_vec());
            }
        });
        for packet in sent {
            stream.on_packet(&packet, behind, Channel::Rtp, now_ms, &mut heard);
        }
    }
    assert_eq!(heard, []);
    assert_eq!(goes_to, behind);
    assert!(stream.statistics().received > 1_990);
}

#[test]
fn speech_waits_while_the_call_is_held() {
    let mut ours = stream(terms(Codec::Pcma, THERE), 5);
    ours.say(&buzz(200));
    ours.mark(9);
    let mut held = terms(Codec::Pcma, THERE);
    held.direction = MediaDirection::RecvOnly;
    ours.change(held, address(THERE).ip(), 0).expect("changed");
    for now in (0..1_000).step_by(20) {
        let (sent, heard) = tick(&mut ours, now);
        assert!(sent.is_empty() && heard.is_empty(), "nothing goes out");
        assert!(
            give(&mut ours, &packet((now / 20) as u16, 8, &[0x2a; 160]), now).is_empty(),
            "music is not for us"
        );
    }
    ours.change(terms(Codec::Pcma, THERE), address(THERE).ip(), 1_000)
        .expect("changed");
    let mut heard = Vec::new();
    let mut first = None;
    for now in (1_000..1_240).step_by(20) {
        let (sent, told) = tick(&mut ours, now);
        first = first.or(sent.first().map(|(_, packet)| packet.clone()));
        heard.extend(told);
    }
    assert!(
        rtp::read(&first.expect("a packet"))
            .expect("RTP")
            .header
            .marker
    );
    assert!(heard.contains(&StreamEvent::Played(9)));
}

#[test]
fn a_call_changes_its_codec_in_the_middle_of_a_word() {
    let mut ours = stream(terms(Codec::Opus, THERE), 5);
    ours.say(&buzz(400));
    ours.mark(1);
    let mut heard = Vec::new();
    for now in (0..200).step_by(20) {
        heard.extend(tick(&mut ours, now).1);
    }
    ours.change(terms(Codec::Pcma, THERE), address(THERE).ip(), 200)
        .expect("changed");
    for now in (200..400).step_by(20) {
        let (sent, told) = tick(&mut ours, now);
        assert_eq!(sent[0].1.len(), 172);
        assert_eq!(sent[0].1[1] & 0x7f, 8);
        heard.extend(told);
    }
    assert_eq!(heard, [StreamEvent::Played(1)]);
    // It may be an echo of the word.
    match &give(&mut ours, &packet(1, 8, &[0x2a; 160]), 400)[..] {
        [StreamEvent::Hidden(samples)] => assert_eq!(samples.len(), 320),
        other => panic!("{other:?}"),
    }
}

#[test]
fn flush_tells_marks_and_milliseconds() {
    let mut ours = stream(terms(Codec::Pcma, THERE), 5);
    ours.say(&buzz(1_000));
    ours.mark(3);
    for now in (0..200).step_by(20) {
        tick(&mut ours, now);
    }
    ours.pause();
    tick(&mut ours, 200);
    let mut heard = Vec::new();
    ours.flush(&mut heard);
    assert_eq!(
        heard,
        [
            StreamEvent::Played(3),
            StreamEvent::Flushed {
                total_played_ms: 200
            }
        ]
    );
}

#[test]
fn another_source_is_heard_once_the_first_is_silent() {
    let mut ours = stream(terms(Codec::Pcma, THERE), 5);
    let other = |sequence: u16| {
        let mut bytes = packet(sequence, 8, &[0x2a; 160]);
        bytes[8..12].copy_from_slice(&[1, 2, 3, 4]);
        bytes
    };
    for n in 0..10_u16 {
        assert_eq!(
            audio(&give(
                &mut ours,
                &packet(n, 8, &[0x2a; 160]),
                u64::from(n) * 20
            ))
            .len(),
            320
        );
        assert!(
            give(&mut ours, &other(n + 500), u64::from(n) * 20 + 1).is_empty(),
            "both at once"
        );
    }
    let mut heard = Vec::new();
    for n in 10..20_u16 {
        heard.extend(give(&mut ours, &other(n + 500), u64::from(n) * 20));
    }
    assert!(audio(&heard).len() >= 320 * 7, "{}", audio(&heard).len());
}

#[test]
fn reports_tell_each_side_what_the_other_hears() {
    for crypto in [false, true] {
        let (mut theirs, mut ours) = pair(Codec::Pcma, crypto);
        let mut ignored = Vec::new();
        for n in 0..1_200_u64 {
            let now = n * 20;
            let (sent, _) = tick(&mut theirs, now);
            for (channel, packet) in sent {
                if channel == Channel::Rtcp || n % 20 != 7 {
                    ours.on_packet(&packet, address(THERE), channel, now + 30, &mut ignored);
                }
            }
            for (channel, packet) in tick(&mut ours, now + 30).0 {
                theirs.on_packet(&packet, address(HERE), channel, now + 60, &mut ignored);
            }
        }
        let (here, there) = (ours.statistics(), theirs.statistics());
        assert_eq!((here.invalid, there.invalid), (0, 0));
        assert!((45..=60).contains(&there.peer_lost), "{there:?}");
        assert_eq!(here.peer_lost, 0);
        let trip = there.round_trip_ms.expect("a round trip");
        assert!((50..=70).contains(&trip), "{there:?}");
    }
}

#[test]
fn ends_with_a_goodbye() {
    let (mut theirs, mut ours) = pair(Codec::Pcma, true);
    let mut sent = Vec::new();
    theirs.bye(&mut |channel, _, packet| sent.push((channel, packet.to_vec())));
    assert_eq!(sent.len(), 1);
    ours.on_packet(&sent[0].1, address(THERE), sent[0].0, 0, &mut Vec::new());
    assert_eq!(ours.statistics().invalid, 0);
}

#[test]
fn packets_without_the_key_or_of_strangers_are_not_heard() {
    let (_, mut ours) = pair(Codec::Pcma, true);
    for n in 0..50 {
        assert!(give(&mut ours, &packet(n, 8, &[0x2a; 160]), 0).is_empty());
    }
    assert_eq!(ours.statistics().invalid, 50);
    let mut ours = stream(terms(Codec::Pcma, THERE), 5);
    for n in 0..50 {
        give(&mut ours, &packet(n, 8, &[0x2a; 160]), u64::from(n) * 20);
        let mut heard = Vec::new();
        let mut strange = packet(n, 8, &[0xaa; 160]);
        strange[8..12].copy_from_slice(&[9; 4]);
        ours.on_packet(
            &strange,
            address("203.0.113.66:66"),
            Channel::Rtp,
            u64::from(n) * 20,
            &mut heard,
        );
        assert!(heard.is_empty());
    }
    assert_eq!(ours.statistics().invalid, 50);
}

proptest! {
    #[test]
    fn any_packets_are_heard_or_dropped_and_nothing_grows(
        packets in proptest::collection::vec((
            prop_oneof![Just(8_u8), Just(0), Just(101), Just(13), any::<u8>()],
            prop_oneof![0_u16..40, any::<u16>()], any::<u32>(), 0_u32..3, proptest::collection::vec(any::<u8>(), 0..200),
            0_u64..200, any::<bool>(),
        ), 0..80),
    ) {
        let mut ours = stream(terms(Codec::Pcma, THERE), 5);
        let (mut now, mut frames) = (0, 0);
        for (kind, sequence, timestamp, ssrc, payload, wait, report) in packets {
            now += wait;
            let mut bytes = packet(sequence, kind, &payload);
            bytes[1] = kind;
            bytes[4..8].copy_from_slice(&timestamp.to_be_bytes());
            bytes[8..12].copy_from_slice(&ssrc.to_be_bytes());
            let channel = if report { Channel::Rtcp } else { Channel::Rtp };
            let mut heard = Vec::new();
            ours.on_packet(&bytes, address(THERE), channel, now, &mut heard);
            heard.extend(tick(&mut ours, now).1);
            frames += audio(&heard).len() / 320;
        }
        // At most five packets at once of 200 ms, with concealment, and silence in between.
        prop_assert!(frames <= 80 * 10 + 80 * 5 + now as usize / 20);
    }
}
