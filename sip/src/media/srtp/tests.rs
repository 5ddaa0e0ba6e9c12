//! Keys are read and written; packets open once and only with the right key.

use proptest::prelude::*;

use super::{Crypto, CryptoLine, MasterKey, SOURCES_MAX, SrtpSession, Suite};
use crate::media::{rtcp, rtp};

/// The example of RFC 4568, section 9.2 (its first line, without the lifetime's index).
const EXAMPLE: &str =
    "1 AES_CM_128_HMAC_SHA1_80 inline:WVNfX19zZW1jdGwgKCkgewkyMjA7fQp9CnVubGVz|2^20";

fn key(byte: u8) -> MasterKey {
    let mut bytes = [0; 30];
    bytes
        .iter_mut()
        .zip(byte..)
        .for_each(|(at, byte)| *at = byte);
    MasterKey::new(bytes)
}

fn pair(suite: Suite) -> (SrtpSession, SrtpSession) {
    let session = |ours, theirs| {
        let crypto = Crypto {
            suite,
            ours: key(ours),
            theirs: key(theirs),
            their_index_bytes: 0,
        };
        SrtpSession::new(crypto).expect("a session")
    };
    (session(1, 90), session(90, 1))
}

fn packet(ssrc: u32, sequence: u16) -> Vec<u8> {
    let mut packet = Vec::new();
    let header = rtp::Header {
        marker: false,
        payload_type: 8,
        sequence,
        timestamp: u32::from(sequence) * 160,
        ssrc,
    };
    rtp::begin(&header, &mut packet);
    packet.extend_from_slice(&[0xd5; 160]);
    packet
}

/// RFC 3711, appendix B.3, gives master key, salt and the derived keys.
#[test]
fn the_session_keys_are_those_of_rfc_3711() {
    let master =
        hex::decode("e1f97a0d3e018be0d64fa32c06de41390ec675ad498afeebb6960b3aabe6").expect("hex");
    let key = MasterKey::new(master.try_into().expect("30 bytes"));
    let crypto = Crypto {
        suite: Suite::Sha1_80,
        ours: key.clone(),
        theirs: key,
        their_index_bytes: 0,
    };
    let mut session = SrtpSession::new(crypto).expect("a session");
    // SSRC 0 and sequence 0: the counter is the session salt 30cbbc08863d8c85d49db34a9ae1, the key
    // c61e7a93744f39ee10734afe3ff7a087.
    let mut sent = vec![0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    sent.extend_from_slice(&[0; 16]);
    session.protect(&mut sent).expect("protected");
    assert_eq!(hex::encode(&sent[12..28]), FIRST_BLOCK);
}

/// AES-128 of the counter under the key, by OpenSSL.
const FIRST_BLOCK: &str = "fa63bc4668685b65f8fa1ce3909cead5";

#[test]
fn a_line_is_read_and_written() {
    let line = CryptoLine::read(EXAMPLE).expect("a line");
    assert_eq!((line.tag, line.suite), (1, Suite::Sha1_80));
    assert_eq!(line.to_string(), EXAMPLE.trim_end_matches("|2^20"));
    assert_eq!(CryptoLine::read(&line.to_string()), Some(line.clone()));
    assert!(
        !format!("{line:?}").contains("WVN"),
        "keys are not for logs"
    );
}

#[test]
fn lines_that_ask_for_more_are_passed_over() {
    let key = "inline:WVNfX19zZW1jdGwgKCkgewkyMjA7fQp9CnVubGVz";
    let line = |value: String| CryptoLine::read(&value).is_some();
    assert!(line(format!("2 AES_CM_128_HMAC_SHA1_32 {key}")));
    assert!(line(format!("2 AES_CM_128_HMAC_SHA1_32 {key} WSH=128")));
    for index in ["1:0", "1:129", "1:x", "1:"] {
        assert!(!line(format!(
            "2 AES_CM_128_HMAC_SHA1_32 {key}|2^20|{index}"
        )));
    }
    assert!(
        !line(format!("2 AES_CM_128_HMAC_SHA1_32 {key};{key}")),
        "two keys"
    );
    assert!(!line(format!(
        "2 AES_CM_128_HMAC_SHA1_32 {key} UNENCRYPTED_SRTP"
    )));
    assert!(!line(format!("2 F8_128_HMAC_SHA1_80 {key}")));
    assert!(!line(format!("99999999999 AES_CM_128_HMAC_SHA1_80 {key}")));
    assert!(!line("1 AES_CM_128_HMAC_SHA1_80 inline:c2hvcnQ=".into()));
}

#[test]
fn what_says_which_key_it_is_is_taken_off_their_packets() {
    for mki in ["|2^20|1:4", "|1:4"] {
        let line = format!(
            "1 AES_CM_128_HMAC_SHA1_80 inline:WVNfX19zZW1jdGwgKCkgewkyMjA7fQp9CnVubGVz{mki}"
        );
        assert_eq!(
            CryptoLine::read(&line).map(|line| line.index_bytes),
            Some(4)
        );
    }
    for suite in [Suite::Sha1_80, Suite::Sha1_32] {
        let (mut phone, mut ours) = pair(suite);
        ours.crypto.their_index_bytes = 4;
        let with_index = |mut packet: Vec<u8>, tag: usize| {
            packet.splice(packet.len() - tag..packet.len() - tag, [0, 0, 0, 1]);
            packet
        };
        let (plain, mut report, mut out) = (packet(7, 1), Vec::new(), Vec::new());
        let mut sent = plain.clone();
        phone.protect(&mut sent).expect("protected");
        assert!(ours.open(&with_index(sent, suite.tag()), &mut out));
        assert_eq!(out, plain);
        rtcp::report(7, 1, None, None, &mut report);
        let plain = report.clone();
        phone.protect_report(&mut report).expect("protected");
        assert!(ours.open_report(&with_index(report, 10), &mut out));
        assert_eq!(out, plain);
        for length in 0..20 {
            assert!(!ours.open(&vec![0x80; length], &mut out));
            assert!(!ours.open_report(&vec![0x80; length], &mut out));
        }
    }
}

#[test]
fn packets_open_once_and_only_whole() {
    for suite in [Suite::Sha1_80, Suite::Sha1_32] {
        let (mut ours, mut theirs) = pair(suite);
        let mut out = Vec::new();
        // Across the wrap of the sequence numbers, which is part of the authenticated data.
        for sequence in (65_500..=65_535).chain(0..40) {
            let plain = packet(7, sequence);
            let mut sent = plain.clone();
            ours.protect(&mut sent).expect("protected");
            assert_eq!(sent.len(), plain.len() + suite.tag());
            assert_ne!(sent[12..172], plain[12..]);
            let mut changed = sent.clone();
            changed[20] ^= 1;
            assert!(!theirs.open(&changed, &mut out));
            assert!(theirs.open(&sent, &mut out));
            assert_eq!(out, plain);
            assert!(!theirs.open(&sent, &mut out), "a replay");
        }
    }
}

#[test]
fn reports_open_once_and_only_whole() {
    let (mut ours, mut theirs) = pair(Suite::Sha1_32);
    let (mut sent, mut out) = (Vec::new(), Vec::new());
    rtcp::report(7, 1, None, None, &mut sent);
    let plain = sent.clone();
    ours.protect_report(&mut sent).expect("protected");
    assert_eq!(sent.len(), plain.len() + 14);
    let mut changed = sent.clone();
    changed[9] ^= 1;
    assert!(!theirs.open_report(&changed, &mut out));
    assert!(theirs.open_report(&sent, &mut out));
    assert_eq!(out, plain);
    assert!(!theirs.open_report(&sent, &mut out), "a replay");
    let mut forged = plain;
    forged.extend_from_slice(&[0; 14]);
    assert!(
        !theirs.open_report(&forged, &mut out),
        "not encrypted, not signed"
    );
}

#[test]
fn strangers_take_no_room_and_spoil_nothing() {
    let (mut ours, mut theirs) = pair(Suite::Sha1_80);
    let mut out = Vec::new();
    for ssrc in 0..1_000 {
        let mut forged = packet(ssrc, 50_000);
        forged.extend_from_slice(&[0; 10]);
        assert!(!theirs.open(&forged, &mut out));
    }
    assert!(theirs.sources.is_empty());
    let mut sent = packet(7, 1);
    ours.protect(&mut sent).expect("protected");
    assert!(theirs.open(&sent, &mut out));
    assert_eq!(theirs.sources.len(), 1);
}

/// Servers for music on hold, and phones that are resumed, each begin with a source of their own.
#[test]
fn every_source_is_heard_and_the_one_silent_for_the_longest_is_forgotten() {
    let (ours, mut theirs) = pair(Suite::Sha1_80);
    let mut out = Vec::new();
    let mut talker = SrtpSession::new(ours.crypto.clone()).expect("a session");
    let mut sequence = 1_u16;
    for ssrc in 100..200 {
        let mut sent = packet(ssrc, 1);
        let mut session = SrtpSession::new(ours.crypto.clone()).expect("a session");
        session.protect(&mut sent).expect("protected");
        assert!(theirs.open(&sent, &mut out), "{ssrc}");
        assert!(!theirs.open(&sent, &mut out), "a replay of {ssrc}");
        // One goes on all the time, past the end of its sequence numbers.
        sequence = sequence.wrapping_add(1_000);
        let mut goes_on = packet(7, sequence);
        talker.protect(&mut goes_on).expect("protected");
        assert!(theirs.open(&goes_on, &mut out), "{ssrc}");
    }
    assert_eq!(theirs.sources.len(), SOURCES_MAX);
}

#[test]
fn a_forgotten_source_goes_on_and_its_recorded_packets_do_not_open() {
    let (mut ours, mut theirs) = pair(Suite::Sha1_80);
    let mut out = Vec::new();
    let mut sent = |ssrc, sequence| {
        let mut sent = packet(ssrc, sequence);
        ours.protect(&mut sent).expect("protected");
        sent
    };
    let recorded: Vec<_> = (1..20).map(|sequence| sent(7, sequence)).collect();
    for packet in &recorded {
        assert!(theirs.open(packet, &mut out));
    }
    // The sequence numbers of this one wrap.
    let wrapped: Vec<_> = [65_000, 65_500, 100].map(|at| sent(8, at)).into();
    for packet in &wrapped {
        assert!(theirs.open(packet, &mut out));
    }
    for ssrc in 100..100 + SOURCES_MAX as u32 {
        assert!(theirs.open(&sent(ssrc, 1), &mut out));
    }
    for packet in recorded.iter().chain(&wrapped) {
        assert!(!theirs.open(packet, &mut out), "recorded");
    }
    assert!(theirs.open(&sent(7, 20), &mut out), "it goes on");
    assert!(theirs.open(&sent(7, 22), &mut out));
    assert!(theirs.open(&sent(7, 21), &mut out), "late");
    for packet in recorded.iter().chain(&wrapped) {
        assert!(!theirs.open(packet, &mut out), "recorded");
    }
}

#[test]
fn recorded_reports_of_a_forgotten_source_do_not_open() {
    let (mut ours, mut theirs) = pair(Suite::Sha1_80);
    let mut out = Vec::new();
    let ours_crypto = ours.crypto.clone();
    let mut sent = |ssrc| {
        let mut sent = Vec::new();
        rtcp::report(ssrc, 1, None, None, &mut sent);
        ours.protect_report(&mut sent).expect("protected");
        sent
    };
    let recorded = sent(7);
    assert!(theirs.open_report(&recorded, &mut out));
    let mut wrapping = SrtpSession::new(ours_crypto).expect("a session");
    let wrapped = [100, 32_800, 65_500, 50].map(|sequence| {
        let mut sent = packet(7, sequence);
        wrapping.protect(&mut sent).expect("protected");
        assert!(theirs.open(&sent, &mut out));
        sent
    });
    for ssrc in 100..100 + SOURCES_MAX as u32 {
        assert!(theirs.open_report(&sent(ssrc), &mut out));
    }
    assert!(!theirs.open_report(&recorded, &mut out), "recorded");
    assert!(theirs.open_report(&sent(7), &mut out), "it goes on");
    assert!(!theirs.open_report(&recorded, &mut out), "recorded");
    // Nor do recorded packets, after this report.
    for packet in &wrapped {
        assert!(!theirs.open(packet, &mut out), "recorded");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..100), text in ".{0,120}") {
        let (_, mut theirs) = pair(Suite::Sha1_80);
        let mut out = Vec::new();
        prop_assert!(!theirs.open(&bytes, &mut out));
        prop_assert!(!theirs.open_report(&bytes, &mut out));
        CryptoLine::read(&text);
    }
}
