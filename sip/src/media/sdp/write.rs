//! Writes this side's offers and answers.

use std::fmt::Write;

use super::{
    Codec, CryptoLine, Description, Local, MediaDirection, MediaTerms, Srtp, clock, codec_name,
};
use crate::media::srtp::Suite;

/// The tag of the offered key.
const CRYPTO_TAG: u32 = 1;
/// The suite of the offered key, which every peer knows (RFC 4568, 6.2).
pub const OFFERED_SUITE: Suite = Suite::Sha1_80;
/// The voice's own sample rates: more would gain nothing. No discontinuous transmission.
const OPUS_PARAMETERS: &str =
    "maxplaybackrate=16000;sprop-maxcapturerate=24000;stereo=0;useinbandfec=1;usedtx=0";

/// The payload type of a codec in an offer.
fn payload(codec: Codec) -> u8 {
    match codec {
        Codec::Opus => 111,
        Codec::G722 => 9,
        Codec::Pcma => 8,
        Codec::Pcmu => 0,
    }
}

/// The payload type of keys in an offer: one per clock.
fn events_payload(clock: u32) -> u8 {
    match clock {
        48_000 => 110,
        _ => 101,
    }
}

pub fn answer(
    offer: &Description<'_>,
    taken: usize,
    terms: &MediaTerms,
    line: Option<&CryptoLine>,
    local: &Local<'_>,
) -> String {
    let mut text = head(local);
    for (at, media) in offer.media.iter().enumerate() {
        if at == taken {
            let ours = line.map(|line| CryptoLine {
                tag: line.tag,
                suite: line.suite,
                key: local.key.clone(),
                index_bytes: 0,
            });
            let stream = OfferedStream {
                protocol: media.protocol,
                codecs: &[(terms.codec, terms.receive_payload)],
                events: &events(terms, media),
                rtcp_mux: terms.rtcp_mux,
                direction: terms.direction,
                line: ours,
            };
            stream.write(&mut text, local.port);
        } else {
            put(
                &mut text,
                format_args!(
                    "m={} 0 {} {}",
                    media.kind, media.protocol, media.first_format
                ),
            );
        }
    }
    text
}

/// The key events with their offered clock.
fn events(terms: &MediaTerms, media: &super::MediaDescription<'_>) -> Vec<(u8, u32)> {
    let offered = media
        .formats
        .iter()
        .filter(|format| Some(format.payload) == terms.events);
    offered
        .map(|format| (format.payload, format.clock))
        .collect()
}

pub fn offer(local: &Local<'_>) -> String {
    let codecs: Vec<(Codec, u8)> = local
        .codecs
        .iter()
        .map(|codec| (*codec, payload(*codec)))
        .collect();
    let mut events: Vec<(u8, u32)> = local
        .codecs
        .iter()
        .map(|codec| clock(*codec))
        .map(|clock| (events_payload(clock), clock))
        .collect();
    events.sort_unstable();
    events.dedup();
    let line = CryptoLine {
        tag: CRYPTO_TAG,
        suite: OFFERED_SUITE,
        key: local.key.clone(),
        index_bytes: 0,
    };
    let stream = OfferedStream {
        // If encryption is optional, the key is offered with a plain stream (RFC 8643).
        protocol: if local.srtp == Srtp::Required {
            "RTP/SAVP"
        } else {
            "RTP/AVP"
        },
        codecs: &codecs,
        events: &events,
        rtcp_mux: false,
        direction: MediaDirection::SendRecv,
        line: (local.srtp != Srtp::Off).then_some(line),
    };
    let mut text = head(local);
    stream.write(&mut text, local.port);
    text
}

struct OfferedStream<'a> {
    protocol: &'a str,
    codecs: &'a [(Codec, u8)],
    /// Payload types with their clocks.
    events: &'a [(u8, u32)],
    rtcp_mux: bool,
    direction: MediaDirection,
    line: Option<CryptoLine>,
}

impl OfferedStream<'_> {
    fn write(&self, text: &mut String, port: u16) {
        let payloads = self.codecs.iter().map(|(_, payload)| payload);
        let numbers: Vec<String> = payloads
            .chain(self.events.iter().map(|(payload, _)| payload))
            .map(u8::to_string)
            .collect();
        put(
            text,
            format_args!("m=audio {port} {} {}", self.protocol, numbers.join(" ")),
        );
        for (codec, payload) in self.codecs {
            let channels = if *codec == Codec::Opus { "/2" } else { "" };
            put(
                text,
                format_args!(
                    "a=rtpmap:{payload} {}/{}{channels}",
                    codec_name(*codec),
                    clock(*codec)
                ),
            );
            if *codec == Codec::Opus {
                put(text, format_args!("a=fmtp:{payload} {OPUS_PARAMETERS}"));
            }
        }
        for (payload, clock) in self.events {
            put(
                text,
                format_args!("a=rtpmap:{payload} telephone-event/{clock}"),
            );
            put(text, format_args!("a=fmtp:{payload} 0-15"));
        }
        put(text, format_args!("a=ptime:20"));
        put(text, format_args!("a=maxptime:60"));
        if self.rtcp_mux {
            put(text, format_args!("a=rtcp-mux"));
        }
        if let Some(line) = &self.line {
            put(text, format_args!("a=crypto:{line}"));
        }
        put(text, format_args!("a={}", self.direction.name()));
    }
}

fn head(local: &Local<'_>) -> String {
    let address = local.address;
    let kind = if address.is_ipv4() { "IP4" } else { "IP6" };
    let (username, session, version) = (local.username, local.session, local.version);
    let mut text = String::with_capacity(512);
    put(&mut text, format_args!("v=0"));
    put(
        &mut text,
        format_args!("o={username} {session} {version} IN {kind} {address}"),
    );
    put(&mut text, format_args!("s=-"));
    put(&mut text, format_args!("c=IN {kind} {address}"));
    put(&mut text, format_args!("t=0 0"));
    text
}

fn put(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = text.write_fmt(line);
    text.push_str("\r\n");
}
