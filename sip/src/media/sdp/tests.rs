//! Offers of real phones are answered, others refused with a reason; no input breaks the parser.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::{Local, MediaDirection, MediaTerms, SdpRefusal, accept, answer, named_address, offer};
use crate::{
    media::srtp::{MasterKey, Suite},
    settings::{AnswerOrder, Codec, Srtp},
};

const CODECS: [Codec; 3] = [Codec::Opus, Codec::Pcma, Codec::Pcmu];
const KEY: &str = "inline:WVNfX19zZW1jdGwgKCkgewkyMjA7fQp9CnVubGVz";

fn local(srtp: Srtp) -> Local<'static> {
    Local {
        address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 9)),
        port: 20_000,
        codecs: &CODECS,
        answer_order: AnswerOrder::Ours,
        srtp,
        key: MasterKey::new([7; 30]),
        session: 42,
        version: 1,
        username: "test",
    }
}

/// A session with one address and these lines.
fn sdp(lines: &[&str]) -> String {
    let mut text =
        "v=0\r\no=- 1 1 IN IP4 198.51.100.7\r\ns=call\r\nc=IN IP4 198.51.100.7\r\nt=0 0\r\n"
            .to_owned();
    for line in lines {
        text += line;
        text += "\r\n";
    }
    text
}

fn answered(srtp: Srtp, lines: &[&str]) -> Result<(String, MediaTerms), SdpRefusal> {
    answer(sdp(lines).as_bytes(), &local(srtp))
}

#[test]
fn a_phone_gets_the_codec_that_is_preferred_here() {
    let (text, terms) = answered(
        Srtp::Optional,
        &[
            "m=audio 4000 RTP/AVP 8 0 96 97 101 102",
            "a=rtpmap:8 PCMA/8000",
            "a=rtpmap:96 opus/48000/2",
            "a=fmtp:96 useinbandfec=1",
            "a=rtpmap:97 speex/16000",
            "a=rtpmap:101 telephone-event/8000",
            "a=fmtp:101 0-16",
            "a=rtpmap:102 telephone-event/48000",
            "a=ptime:30",
            "a=rtcp:4010",
        ],
    )
    .expect("an answer");
    let expected = "v=0\r\no=test 42 1 IN IP4 192.0.2.9\r\ns=-\r\nc=IN IP4 192.0.2.9\r\nt=0 0\r\n\
        m=audio 20000 RTP/AVP 96 102\r\na=rtpmap:96 opus/48000/2\r\n\
        a=fmtp:96 maxplaybackrate=16000;sprop-maxcapturerate=24000;stereo=0;useinbandfec=1;usedtx=0\r\n\
        a=rtpmap:102 telephone-event/48000\r\na=fmtp:102 0-15\r\na=ptime:20\r\na=maxptime:60\r\na=sendrecv\r\n";
    assert_eq!(text, expected);
    assert_eq!(terms.codec, Codec::Opus);
    assert_eq!(
        (terms.send_payload, terms.receive_payload, terms.events),
        (96, 96, Some(102))
    );
    assert_eq!(terms.remote.to_string(), "198.51.100.7:4000");
    assert_eq!(terms.remote_rtcp.to_string(), "198.51.100.7:4010");
    assert!(!terms.held());
}

#[test]
fn fixed_types_need_no_map_and_mapped_ones_are_what_the_map_says() {
    let (_, terms) = answered(Srtp::Off, &["m=audio 4000 RTP/AVP 0 8"]).expect("an answer");
    assert_eq!((terms.codec, terms.events), (Codec::Pcma, None));
    let lines = [
        "m=audio 4000 RTP/AVP 98 101",
        "a=rtpmap:98 pcmu/8000",
        "a=rtpmap:101 telephone-event/8000",
    ];
    let (text, terms) = answered(Srtp::Off, &lines).expect("an answer");
    assert_eq!(
        (terms.codec, terms.receive_payload, terms.events),
        (Codec::Pcmu, 98, Some(101))
    );
    assert!(text.contains("a=rtpmap:98 PCMU/8000\r\n"));
}

#[test]
fn a_phone_that_takes_no_packets_of_20_ms_gets_shorter_ones() {
    for (line, is_short) in [
        ("a=maxptime:10", true),
        ("a=maxptime:19", true),
        ("a=maxptime:20", false),
        ("a=maxptime:150", false),
        ("a=maxptime:0", false),
        ("a=maxptime:ten", false),
        // A wish, not a limit.
        ("a=ptime:10", false),
    ] {
        let lines = ["m=audio 4000 RTP/AVP 8", line];
        let (text, terms) = answered(Srtp::Off, &lines).expect("an answer");
        assert_eq!(terms.has_short_packets, is_short, "{line}");
        assert!(text.contains("a=ptime:20\r\n"), "of what we receive");
        let answer = sdp(&lines);
        let offered = offer(&local(Srtp::Off));
        let terms = accept(answer.as_bytes(), &offered, &local(Srtp::Off)).expect("terms");
        assert_eq!(terms.has_short_packets, is_short, "{line}");
    }
}

#[test]
fn pictures_and_second_streams_get_port_0_where_they_stand() {
    let (text, terms) = answered(
        Srtp::Off,
        &[
            "m=video 5000 RTP/AVP 34",
            "m=audio 0 RTP/AVP 0",
            "m=audio 4000 RTP/AVP 18",
            "m=audio 4002 RTP/AVP 8",
            "c=IN IP4 198.51.100.8",
            "m=audio 4004 RTP/AVP 8",
        ],
    )
    .expect("an answer");
    let streams: Vec<&str> = text.lines().filter(|line| line.starts_with("m=")).collect();
    let expected = [
        "m=video 0 RTP/AVP 34",
        "m=audio 0 RTP/AVP 0",
        "m=audio 0 RTP/AVP 18",
        "m=audio 20000 RTP/AVP 8",
        "m=audio 0 RTP/AVP 8",
    ];
    assert_eq!(streams, expected);
    assert_eq!(terms.remote.to_string(), "198.51.100.8:4002");
}

#[test]
fn a_call_is_held_and_taken_back() {
    let with = |lines: &[&str]| {
        let mut all = vec!["m=audio 4000 RTP/AVP 8"];
        all.extend(lines);
        let (text, terms) = answered(Srtp::Off, &all).expect("an answer");
        let last = text
            .trim_end()
            .rsplit("a=")
            .next()
            .expect("a direction")
            .to_owned();
        assert_eq!(last, terms.direction.name());
        (terms.direction, terms.held())
    };
    assert_eq!(with(&["a=sendonly"]), (MediaDirection::RecvOnly, true));
    assert_eq!(with(&["a=inactive"]), (MediaDirection::Inactive, true));
    assert_eq!(
        with(&["c=IN IP4 0.0.0.0"]),
        (MediaDirection::RecvOnly, true)
    );
    assert_eq!(with(&["a=recvonly"]), (MediaDirection::SendOnly, false));
    assert_eq!(with(&[]), (MediaDirection::SendRecv, false));
    let whole = "v=0\r\nc=IN IP4 198.51.100.7\r\na=sendonly\r\nm=audio 4000 RTP/AVP 8\r\n";
    let (_, terms) = answer(whole.as_bytes(), &local(Srtp::Off)).expect("an answer");
    assert!(terms.held(), "said of all streams");
}

/// Both sides could send, and neither would hear anything.
#[test]
fn an_address_of_the_other_family_is_refused() {
    let stream = "m=audio 4000 RTP/AVP 8";
    let v6 = sdp(&[stream]).replace("c=IN IP4 198.51.100.7", "c=IN IP6 2001:db8::7");
    let refused = answer(v6.as_bytes(), &local(Srtp::Off)).expect_err("it is refused");
    assert_eq!(refused.status, 488);
    assert!(refused.words.contains("runs over IPv4"), "{refused}");
    let there = Local {
        address: IpAddr::V6(Ipv6Addr::LOCALHOST),
        ..local(Srtp::Off)
    };
    let refused = answer(sdp(&[stream]).as_bytes(), &there).expect_err("it is refused");
    assert!(refused.words.contains("runs over IPv6"), "{refused}");
    let (text, _) = answer(v6.as_bytes(), &there).expect("an answer");
    assert!(text.contains("c=IN IP6 ::1"), "{text}");
    let named = |offer: &str| named_address(offer.as_bytes()).map(|it| it.to_string());
    assert_eq!(named(&v6).as_deref(), Some("2001:db8::7"));
    for none in [v6.replace("4000", "0"), v6.replace("v=0", "v=1")] {
        assert_eq!(named(&none), None, "{none}");
    }
    // A call that begins on hold names the family that it will use.
    let held = v6.replace("2001:db8::7", "::");
    assert_eq!(named(&held).as_deref(), Some("::"));
    let refused = answer(held.as_bytes(), &local(Srtp::Off)).expect_err("it is refused");
    assert_eq!(refused.status, 488);
    let (text, terms) = answer(held.as_bytes(), &there).expect("an answer");
    assert!(text.contains("c=IN IP6 ::1") && terms.held(), "{text}");
    // The reports go to the address of the media then.
    let reports = sdp(&[stream, "a=rtcp:4005 IN IP6 2001:db8::7"]);
    let (_, terms) = answer(reports.as_bytes(), &local(Srtp::Off)).expect("an answer");
    assert_eq!(terms.remote_rtcp.to_string(), "198.51.100.7:4005");
}

#[test]
fn the_trunk_says_whose_order_of_codecs_decides() {
    for (formats, order, codec) in [
        ("0 8 96", AnswerOrder::Peer, Codec::Pcmu),
        ("18 96 8", AnswerOrder::Peer, Codec::Opus),
        ("8 0 96", AnswerOrder::Peer, Codec::Pcma),
        ("0 8 96", AnswerOrder::Ours, Codec::Opus),
        ("0 8", AnswerOrder::Ours, Codec::Pcma),
    ] {
        let offer = sdp(&[
            &format!("m=audio 4000 RTP/AVP {formats}"),
            "a=rtpmap:96 opus/48000/2",
        ]);
        let ours = Local {
            answer_order: order,
            ..local(Srtp::Off)
        };
        let (_, terms) = answer(offer.as_bytes(), &ours).expect("an answer");
        assert_eq!(terms.codec, codec, "{formats} {order:?}");
    }
}

#[test]
fn keys_are_taken_as_configured() {
    let crypto = format!("a=crypto:3 AES_CM_128_HMAC_SHA1_32 {KEY}");
    let (secret, open) = ("m=audio 4000 RTP/SAVP 8", "m=audio 4000 RTP/AVP 8");
    let foreign = "a=crypto:1 AEAD_AES_256_GCM inline:AAAA";
    for srtp in [Srtp::Optional, Srtp::Required] {
        for stream in [secret, open] {
            let (text, terms) = answered(srtp, &[stream, foreign, &crypto]).expect("an answer");
            let agreed = terms.crypto.expect("keys");
            assert_eq!(
                (agreed.suite, &agreed.ours),
                (Suite::Sha1_32, &MasterKey::new([7; 30]))
            );
            assert!(
                text.contains("a=crypto:3 AES_CM_128_HMAC_SHA1_32 inline:BwcHBwcH"),
                "{text}"
            );
            assert!(!text.contains("WVN"), "their key is not sent back: {text}");
        }
        assert_eq!(
            answered(srtp, &[secret, foreign])
                .expect_err("no key")
                .status,
            488
        );
    }
    assert_eq!(
        answered(Srtp::Off, &[secret, &crypto])
            .expect_err("off")
            .status,
        488
    );
    let (text, terms) = answered(Srtp::Off, &[open, &crypto]).expect("an answer");
    assert!(terms.crypto.is_none() && !text.contains("crypto"));
    let refused = answered(Srtp::Required, &[open]).expect_err("open");
    assert!(refused.words.contains("encrypted"), "{refused}");
    assert_eq!(
        answered(
            Srtp::Optional,
            &["m=audio 4000 UDP/TLS/RTP/SAVPF 8", &crypto]
        )
        .expect_err("DTLS")
        .status,
        488
    );
}

#[test]
fn what_cannot_be_is_refused_in_words() {
    let refused = |lines: &[&str]| answered(Srtp::Off, lines).expect_err("refused");
    let codec = refused(&["m=audio 4000 RTP/AVP 18 3"]);
    assert_eq!(
        (codec.status, codec.words.as_str()),
        (488, "no common codec: opus, PCMA, PCMU can be had here")
    );
    assert_eq!(refused(&["m=video 4000 RTP/AVP 34"]).status, 488);
    assert_eq!(refused(&[]).words, "no audio is offered");
    let named = refused(&["m=audio 4000 RTP/AVP 8", "c=IN IP4 phone.example.com"]);
    assert!(named.status == 488 && named.words.contains("c="), "{named}");
    for many in ["IP4 224.0.0.1/127", "IP6 ff02::1", "IP6 ::ffff:224.0.0.1"] {
        let refused = refused(&["m=audio 4000 RTP/AVP 8", &format!("c=IN {many}")]);
        assert!(refused.words.contains("c="), "{many}: {refused}");
    }
}

#[test]
fn version_six_and_a_shared_port() {
    let mut local = local(Srtp::Off);
    local.address = IpAddr::V6(Ipv6Addr::LOCALHOST);
    let offer = "v=0\no=- 1 1 IN IP6 2001:db8::7\ns=-\nc=IN IP6 2001:db8::7\nt=0 0\nm=audio 4000 RTP/AVP 8\na=rtcp-mux\n";
    let (text, terms) = answer(offer.as_bytes(), &local).expect("an answer");
    assert!(text.contains("c=IN IP6 ::1\r\n") && text.contains("a=rtcp-mux\r\n"));
    assert_eq!(terms.remote.to_string(), "[2001:db8::7]:4000");
    assert_eq!(terms.remote_rtcp, terms.remote);
}

#[test]
fn our_offer_is_answered_by_ourselves() {
    for srtp in [Srtp::Off, Srtp::Optional, Srtp::Required] {
        let ours = local(srtp);
        let mut theirs = local(Srtp::Optional);
        theirs.key = MasterKey::new([8; 30]);
        theirs.codecs = &CODECS[1..];
        let (text, at_theirs) = answer(offer(&ours).as_bytes(), &theirs).expect("an answer");
        let at_ours = accept(text.as_bytes(), &offer(&ours), &ours).expect("terms");
        assert_eq!(at_ours.codec, Codec::Pcma);
        assert_eq!(
            (
                at_ours.send_payload,
                at_ours.receive_payload,
                at_ours.events
            ),
            (8, 8, Some(101))
        );
        assert_eq!(at_ours.crypto.is_some(), srtp != Srtp::Off);
        let keys = |terms: &MediaTerms| {
            terms
                .crypto
                .clone()
                .map(|crypto| (crypto.ours, crypto.theirs))
        };
        assert_eq!(
            keys(&at_ours),
            keys(&at_theirs).map(|(ours, theirs)| (theirs, ours))
        );
    }
}

#[test]
fn an_answer_may_number_as_it_likes_and_must_not_take_what_was_not_offered() {
    let ours = local(Srtp::Optional);
    let lines = [
        "m=audio 4000 RTP/AVP 120 121",
        "a=rtpmap:120 opus/48000/2",
        "a=rtpmap:121 telephone-event/48000",
    ];
    let accept = |lines: &[&str]| accept(sdp(lines).as_bytes(), &offer(&ours), &ours);
    let terms = accept(&lines).expect("terms");
    assert_eq!(
        (terms.send_payload, terms.receive_payload, terms.events),
        (120, 111, Some(110))
    );
    let wrong = format!("a=crypto:1 AES_CM_128_HMAC_SHA1_32 {KEY}");
    assert!(accept(&["m=audio 4000 RTP/AVP 8", &wrong]).is_err());
    assert!(accept(&["m=audio 0 RTP/AVP 8"]).is_err());
}

/// Many phones offer keys in the clock of G.711 too, beside Opus.
#[test]
fn keys_are_expected_in_the_clock_that_the_answer_takes() {
    let ours = local(Srtp::Off);
    for (clock, theirs, expected) in [(48_000, 96, 110), (8_000, 97, 101), (8_000, 101, 101)] {
        let lines = [
            format!("m=audio 4000 RTP/AVP 111 {theirs}"),
            "a=rtpmap:111 opus/48000/2".to_owned(),
            format!("a=rtpmap:{theirs} telephone-event/{clock}"),
        ];
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let terms = accept(sdp(&lines).as_bytes(), &offer(&ours), &ours).expect("terms");
        assert_eq!((terms.codec, terms.events), (Codec::Opus, Some(expected)));
        let send = terms.send_events.expect("keys are taken");
        assert_eq!((send.payload, send.clock), (theirs, clock));
    }
    let silent = ["m=audio 4000 RTP/AVP 111", "a=rtpmap:111 opus/48000/2"];
    let terms = accept(sdp(&silent).as_bytes(), &offer(&ours), &ours).expect("terms");
    assert_eq!((terms.events, terms.send_events), (None, None));
}

/// A session refresh repeats the description, with the numbers that the phone has chosen.
#[test]
fn an_answer_of_ours_may_be_offered_again() {
    let lines = [
        "m=video 5000 RTP/AVP 34",
        "m=audio 4000 RTP/AVP 96 102",
        "a=rtpmap:96 opus/48000/2",
        "a=rtpmap:102 telephone-event/48000",
    ];
    let key = format!("a=crypto:7 AES_CM_128_HMAC_SHA1_32 {KEY}");
    for srtp in [Srtp::Off, Srtp::Optional] {
        let theirs = sdp(&[&lines[..], &[&key]].concat());
        let (said, terms) = answer(theirs.as_bytes(), &local(srtp)).expect("an answer");
        let again = accept(theirs.as_bytes(), &said, &local(srtp)).expect("terms");
        assert_eq!(again, terms);
    }
    let (said, _) = answered(Srtp::Off, &lines).expect("an answer");
    let other = sdp(&["m=video 0 RTP/AVP 34", "m=audio 4000 RTP/AVP 8"]);
    let refused = accept(other.as_bytes(), &said, &local(Srtp::Off)).expect_err("refused");
    assert!(refused.words.contains("codec"), "{refused}");
}

#[test]
fn what_is_no_sdp_is_a_bad_request() {
    let status = |text: &str| {
        answer(text.as_bytes(), &local(Srtp::Off))
            .expect_err("refused")
            .status
    };
    for text in [
        "",
        "hello",
        "v=1\r\n",
        "v=0\r\nnonsense\r\n",
        "v=0\r\nm=audio\r\n",
        "v=0\r\nm=audio 70000 RTP/AVP 0\r\n",
    ] {
        assert_eq!(status(text), 400, "{text:?}");
    }
    assert_eq!(status(&sdp(&["m=audio 4000 RTP/AVP 8"; 17])), 400);
    assert_eq!(
        status(&sdp(&["a=x:".to_owned().as_str(), &"y=".repeat(9_000)])),
        400
    );
}

proptest! {
    #[test]
    fn any_bytes_are_answered_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = answer(&bytes, &local(Srtp::Optional));
    }

    #[test]
    fn any_lines_are_answered_or_refused(lines in proptest::collection::vec(
        prop_oneof![
            "[vmcao]=.{0,40}",
            "m=(audio|video) [0-9]{1,5} RTP/S?AVP( [0-9]{1,3}){0,4}",
            "a=(rtpmap|crypto|rtcp|fmtp):[ -~]{0,60}",
            "c=IN IP[46] [0-9a-f.:]{0,20}",
        ], 0..20,
    )) {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        if let Ok((text, terms)) = answered(Srtp::Optional, &lines) {
            let streams = |text: &str| text.lines().filter(|line| line.starts_with("m=")).count();
            prop_assert_eq!(streams(&text), streams(&sdp(&lines)));
            prop_assert!(terms.receive_payload < 128);
        }
    }
}
