//! Offers, answers and keys over the life of a session.

use std::net::{IpAddr, Ipv4Addr};

use super::{SdpSession, new_key, shaped};
use crate::{
    media::{
        rtp,
        sdp::MediaTerms,
        srtp::{CryptoLine, SrtpSession},
    },
    settings::{AnswerOrder, Codec, SipTransport, Srtp},
};

const KEY: &str = "inline:WVNfX19zZW1jdGwgKCkgewkyMjA7fQp9CnVubGVz";

fn session() -> SdpSession {
    SdpSession {
        address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 9)),
        port: 20_000,
        codecs: vec![Codec::Pcma],
        answer_order: AnswerOrder::Peer,
        srtp: Srtp::Optional,
        transport: SipTransport::Udp,
        key: new_key(),
        in_use: None,
        id: 1,
        version: 1,
        username: "test",
        said: String::new(),
    }
}

/// An offer or answer over this protocol, with a key for these bits of a tag.
fn sdp(protocol: &str, tag: Option<u32>) -> String {
    let line = tag.map(|bits| format!("a=crypto:1 AES_CM_128_HMAC_SHA1_{bits} {KEY}\r\n"));
    format!(
        "v=0\r\no=- 1 1 IN IP4 198.51.100.7\r\ns=-\r\nc=IN IP4 198.51.100.7\r\nt=0 0\r\nm=audio 4000 {protocol} 8\r\n{}",
        line.unwrap_or_default()
    )
}

/// Answers an offer, and runs on its terms.
fn agree(session: &mut SdpSession, protocol: &str, tag: Option<u32>) -> MediaTerms {
    let (_, terms) = session
        .answer(sdp(protocol, tag).as_bytes())
        .expect("an answer");
    session.agreed(&terms);
    terms
}

fn keys(terms: MediaTerms) -> crate::media::srtp::Crypto {
    terms.crypto.expect("keys")
}

/// The key stream of a packet of zeros.
fn key_stream(srtp: &mut SrtpSession, sequence: u16) -> Vec<u8> {
    let mut packet = Vec::new();
    let header = rtp::Header {
        marker: false,
        payload_type: 8,
        sequence,
        timestamp: 0,
        ssrc: 7,
    };
    rtp::begin(&header, &mut packet);
    packet.extend_from_slice(&[0; 32]);
    srtp.protect(&mut packet).expect("protected");
    packet[rtp::HEADER_BYTES..][..32].to_vec()
}

#[test]
fn a_later_offer_keeps_refused_streams() {
    let offer = "v=0\r\nm=audio 4000 RTP/AVP 8 0\r\na=sendrecv\r\n";
    for (said, expected) in [
        ("", offer),
        ("v=0\r\nm=audio 4000 RTP/AVP 8\r\na=recvonly\r\n", offer),
        (
            "v=0\r\nm=video 0 RTP/AVP 96\r\nm=audio 4000 RTP/AVP 8\r\na=sendrecv\r\nm=audio 0 RTP/SAVP 0\r\n",
            "v=0\r\nm=video 0 RTP/AVP 96\r\nm=audio 4000 RTP/AVP 8 0\r\na=sendrecv\r\nm=audio 0 RTP/SAVP 0\r\n",
        ),
    ] {
        assert_eq!(shaped(offer, said), expected, "{said}");
    }
}

/// The sequence numbers have wrapped, so those of the first round come again.
#[test]
fn no_key_stream_is_used_twice_after_a_change_of_suite() {
    for answers in [true, false] {
        let mut session = session();
        session.carried_by(SipTransport::Tls);
        let terms = agree(&mut session, "RTP/SAVP", Some(32));
        let mut srtp = SrtpSession::new(keys(terms)).expect("a session");
        let first = key_stream(&mut srtp, 30_000);
        for sequence in [60_000, 10_000] {
            key_stream(&mut srtp, sequence);
        }
        let terms = match answers {
            true => agree(&mut session, "RTP/SAVP", Some(80)),
            false => {
                let offer = session.offer();
                assert!(offer.contains(" RTP/SAVP 8"), "{offer}");
                let answer = sdp("RTP/SAVP", Some(80));
                session.accept(answer.as_bytes()).expect("terms")
            }
        };
        srtp.change(&keys(terms)).expect("changed");
        assert_ne!(key_stream(&mut srtp, 30_000), first, "answers: {answers}");
    }
}

#[test]
fn our_key_stays_while_its_suite_does() {
    let mut session = session();
    let first = keys(agree(&mut session, "RTP/SAVP", Some(80))).ours;
    assert_eq!(keys(agree(&mut session, "RTP/AVP", Some(80))).ours, first);
    let offer = session.offer();
    let line = offer
        .lines()
        .find_map(|line| line.strip_prefix("a=crypto:"));
    let offered = line.and_then(CryptoLine::read).expect("a key");
    assert_eq!(offered.key, first);
    let second = keys(agree(&mut session, "RTP/SAVP", Some(32))).ours;
    assert_ne!(second, first);
    assert_eq!(keys(agree(&mut session, "RTP/SAVP", Some(32))).ours, second);
    assert_ne!(keys(agree(&mut session, "RTP/SAVP", Some(80))).ours, first);
}

#[test]
fn media_with_keys_over_tls_does_not_become_clear() {
    let mut session = session();
    // Until media is agreed on, and while it is in clear, both are taken.
    assert!(session.offer().contains(" RTP/AVP 8"));
    agree(&mut session, "RTP/AVP", None);
    assert!(session.offer().contains(" RTP/AVP 8"));
    session
        .accept(sdp("RTP/AVP", None).as_bytes())
        .expect("clear media");
    agree(&mut session, "RTP/SAVP", Some(80));
    let clear = sdp("RTP/AVP", None);
    session.answer(clear.as_bytes()).expect("without TLS");
    session.carried_by(SipTransport::Tls);
    let said = session.said.clone();
    let refused = session.answer(clear.as_bytes()).expect_err("refused");
    assert_eq!(refused.status, 488, "{refused}");
    assert_eq!(session.said, said, "nothing has changed");
    let offer = session.offer();
    assert!(
        offer.contains(" RTP/SAVP 8") && offer.contains("a=crypto:1 "),
        "{offer}"
    );
    session.accept(clear.as_bytes()).expect_err("refused");
    session
        .accept(sdp("RTP/SAVP", Some(80)).as_bytes())
        .expect("encrypted media");
}
