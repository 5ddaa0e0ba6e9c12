//! Negotiation of a call's media: SDP (RFC 8866) by offer and answer (RFC 3264).
//!
//! One audio stream is accepted; every other stream is refused with port 0. [`parse`] reads, this module decides, [`mod@write`]
//! writes.

mod parse;
mod write;

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

use self::parse::{Description, MediaDescription, PayloadFormat, Secured};
pub use self::write::OFFERED_SUITE;
use super::srtp::{Crypto, CryptoLine, MasterKey};
use crate::settings::{AnswerOrder, Codec, Srtp};

/// This side's parameters, the same for the whole call.
#[derive(Debug, Clone)]
pub struct Local<'a> {
    pub address: IpAddr,
    /// Port of RTP; RTCP uses the next one, unless both share it.
    pub port: u16,
    /// In order of preference.
    pub codecs: &'a [Codec],
    pub answer_order: AnswerOrder,
    pub srtp: Srtp,
    pub key: MasterKey,
    /// The session id, below 2⁶² and unique.
    pub session: u64,
    /// Incremented with every change of the text.
    pub version: u64,
    /// The username of the origin, a token.
    pub username: &'a str,
}

/// The negotiated terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaTerms {
    pub codec: Codec,
    /// Payload type that the other side expects; the next field is the one that it sends.
    pub send_payload: u8,
    pub receive_payload: u8,
    /// Payload type of the keys that the other side sends, and the format in which it accepts keys.
    pub events: Option<u8>,
    pub send_events: Option<EventFormat>,
    pub remote: SocketAddr,
    pub remote_rtcp: SocketAddr,
    /// RTCP shares the port of RTP.
    pub rtcp_mux: bool,
    /// The other side takes no packets of 20 ms (`maxptime`): ours have 10.
    pub has_short_packets: bool,
    /// This side's direction.
    pub direction: MediaDirection,
    pub crypto: Option<Crypto>,
}

/// A format of telephone events (keys).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventFormat {
    pub payload: u8,
    /// Ticks per second of durations.
    pub clock: u32,
}

impl MediaTerms {
    /// The other side holds the call.
    pub fn held(&self) -> bool {
        !self.direction.sends()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MediaDirection {
    SendRecv,
    SendOnly,
    RecvOnly,
    Inactive,
}

impl MediaDirection {
    const ALL: [Self; 4] = [
        Self::SendRecv,
        Self::SendOnly,
        Self::RecvOnly,
        Self::Inactive,
    ];

    pub fn sends(self) -> bool {
        matches!(self, Self::SendRecv | Self::SendOnly)
    }

    pub fn receives(self) -> bool {
        matches!(self, Self::SendRecv | Self::RecvOnly)
    }

    fn name(self) -> &'static str {
        match self {
            Self::SendRecv => "sendrecv",
            Self::SendOnly => "sendonly",
            Self::RecvOnly => "recvonly",
            Self::Inactive => "inactive",
        }
    }

    fn of(sends: bool, receives: bool) -> Self {
        match (sends, receives) {
            (true, true) => Self::SendRecv,
            (true, false) => Self::SendOnly,
            (false, true) => Self::RecvOnly,
            (false, false) => Self::Inactive,
        }
    }
}

/// Why an offer or answer was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SdpRefusal {
    /// 400 if it cannot be parsed, 488 if it cannot be fulfilled.
    pub status: u16,
    pub words: String,
}

impl fmt::Display for SdpRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl std::error::Error for SdpRefusal {}

fn unreadable(words: impl Into<String>) -> SdpRefusal {
    SdpRefusal {
        status: 400,
        words: words.into(),
    }
}

fn impossible(words: impl Into<String>) -> SdpRefusal {
    SdpRefusal {
        status: 488,
        words: words.into(),
    }
}

/// The SDP name of a codec.
pub fn codec_name(codec: Codec) -> &'static str {
    match codec {
        Codec::Opus => "opus",
        Codec::G722 => "G722",
        Codec::Pcma => "PCMA",
        Codec::Pcmu => "PCMU",
    }
}

/// Ticks per second of a codec's RTP timestamps.
pub fn clock(codec: Codec) -> u32 {
    match codec {
        Codec::Opus => 48_000,
        // For G.722, too, which has 16,000 samples a second (RFC 3551, 4.5.2).
        Codec::G722 | Codec::Pcma | Codec::Pcmu => 8_000,
    }
}

/// The address in an offer of audio. It may be unspecified, for a call that begins on hold.
pub fn named_address(offer: &[u8]) -> Option<IpAddr> {
    let text = String::from_utf8_lossy(offer);
    let offer = Description::read(&text).ok()?;
    let mut streams = offer.media.iter();
    let audio = streams.find(|media| media.kind == "audio" && media.port != 0)?;
    audio.address.or(offer.address).flatten()
}

/// Answers an offer.
pub fn answer(offer: &[u8], local: &Local<'_>) -> Result<(String, MediaTerms), SdpRefusal> {
    let text = String::from_utf8_lossy(offer);
    let offer = Description::read(&text)?;
    let mut refused = None;
    for (at, media) in offer.media.iter().enumerate() {
        match take(&offer, media, local) {
            Ok((terms, line)) => {
                let text = write::answer(&offer, at, &terms, line.as_ref(), local);
                return Ok((text, terms));
            }
            // The reason of the first audio stream is reported, not that another stream is video.
            Err(why) if media.kind == "audio" => {
                refused.get_or_insert(why);
            }
            Err(_) => {}
        }
    }
    Err(refused.unwrap_or_else(|| impossible("no audio is offered")))
}

/// The offer for a peer that sent none.
pub fn offer(local: &Local<'_>) -> String {
    write::offer(local)
}

/// Reads the answer to this side's offer, which came from [`offer`] or from an earlier answer.
pub fn accept(answer: &[u8], offered: &str, local: &Local<'_>) -> Result<MediaTerms, SdpRefusal> {
    let text = String::from_utf8_lossy(answer);
    let answer = Description::read(&text)?;
    let offered = Description::read(offered)?;
    let stands = |media: &MediaDescription<'_>| media.kind == "audio" && media.port != 0;
    let (ours, theirs) = offered
        .media
        .iter()
        .zip(&answer.media)
        .find(|(ours, theirs)| stands(ours) && stands(theirs))
        .ok_or_else(|| impossible("the answer refuses the audio"))?;
    let (mut terms, line) = take(&answer, theirs, local)?;
    let mut lines = ours.crypto.iter().filter_map(|line| CryptoLine::read(line));
    let mut is_offered = |line: CryptoLine| {
        lines.any(|offered| (offered.tag, offered.suite) == (line.tag, line.suite))
    };
    if line.is_some_and(|line| !is_offered(line)) {
        return Err(impossible(
            "the answer takes a crypto line that was not offered",
        ));
    }
    // The other side sends the codec under the number of the offer.
    let mut formats = ours.formats.iter();
    terms.receive_payload = formats
        .find(|format| is(format, terms.codec))
        .ok_or_else(|| impossible("the answer takes a codec that was not offered"))?
        .payload;
    let taken = terms.send_events.map(|events| events.clock);
    terms.events = taken
        .and_then(|clock| events_of(ours, clock))
        .map(|events| events.payload);
    Ok(terms)
}

/// The terms on which a stream is acceptable, and its crypto line that is used.
fn take(
    whole: &Description<'_>,
    media: &MediaDescription<'_>,
    local: &Local<'_>,
) -> Result<(MediaTerms, Option<CryptoLine>), SdpRefusal> {
    if media.kind != "audio" || media.port == 0 {
        return Err(impossible("no audio is offered"));
    }
    let line = crypto(media, local.srtp)?;
    let address =
        media.address.or(whole.address).flatten().ok_or_else(|| {
            impossible("no address that can be sent to (c=) stands with the audio")
        })?;
    if address.is_ipv4() != local.address.is_ipv4() {
        return Err(other_family(local.address));
    }
    let (codec, format) = codec(media, local).ok_or_else(|| no_codec(local))?;
    let offered = media
        .direction
        .or(whole.direction)
        .unwrap_or(MediaDirection::SendRecv);
    // An address of zeros is the old way to hold a call (RFC 2543).
    let wants = offered.receives() && !address.is_unspecified();
    let rtcp = media.rtcp.unwrap_or((media.port.saturating_add(1), None));
    let remote = SocketAddr::new(address, media.port);
    let reports = rtcp.1.filter(|it| it.is_ipv4() == address.is_ipv4());
    let separate = SocketAddr::new(reports.unwrap_or(address), rtcp.0);
    let events = events(media, codec);
    let terms = MediaTerms {
        codec,
        send_payload: format.payload,
        receive_payload: format.payload,
        events: events.map(|events| events.payload),
        send_events: events,
        remote,
        remote_rtcp: if media.rtcp_mux { remote } else { separate },
        rtcp_mux: media.rtcp_mux,
        has_short_packets: media.max_ms.is_some_and(|ms| (1..20).contains(&ms)),
        direction: MediaDirection::of(wants, offered.sends()),
        crypto: line.clone().map(|line| Crypto {
            suite: line.suite,
            ours: local.key.clone(),
            theirs: line.key,
            their_index_bytes: line.index_bytes,
        }),
    };
    Ok((terms, line))
}

/// The preferred common codec, and its format in the offer.
fn codec<'a>(
    media: &'a MediaDescription<'a>,
    local: &Local<'_>,
) -> Option<(Codec, &'a PayloadFormat<'a>)> {
    let formats = || media.formats.iter();
    let mut codecs = local.codecs.iter().copied();
    match local.answer_order {
        AnswerOrder::Ours => {
            codecs.find_map(|codec| Some((codec, formats().find(|format| is(format, codec))?)))
        }
        AnswerOrder::Peer => formats().find_map(|format| {
            let codec = codecs.clone().find(|codec| is(format, *codec))?;
            Some((codec, format))
        }),
    }
}

fn other_family(ours: IpAddr) -> SdpRefusal {
    let family = if ours.is_ipv4() { "IPv4" } else { "IPv6" };
    impossible(format!(
        "the media of this call runs over {family}, and the SDP names an address of the other family"
    ))
}

/// The refusal of keys that anybody on the way could read.
pub fn needs_tls() -> SdpRefusal {
    impossible(
        "only encrypted media with keys over TLS is taken here: call over TLS (transport=tls)",
    )
}

fn no_codec(local: &Local<'_>) -> SdpRefusal {
    let names: Vec<&str> = local
        .codecs
        .iter()
        .map(|codec| codec_name(*codec))
        .collect();
    impossible(format!(
        "no common codec: {} can be had here",
        names.join(", ")
    ))
}

/// The crypto line to use, if the stream is to be encrypted.
fn crypto(media: &MediaDescription<'_>, srtp: Srtp) -> Result<Option<CryptoLine>, SdpRefusal> {
    let line = media
        .crypto
        .iter()
        .find_map(|value| CryptoLine::read(value));
    match (media.secured, srtp) {
        (Secured::Otherwise, _) => Err(impossible("media runs over RTP/AVP or RTP/SAVP here")),
        (Secured::Yes, Srtp::Off) => Err(impossible(
            "encrypted media (RTP/SAVP) is switched off here",
        )),
        (Secured::No, Srtp::Off) => Ok(None),
        (Secured::Yes, _) if line.is_none() => Err(impossible(
            "no a=crypto line with AES_CM_128_HMAC_SHA1_80 or _32 stands with the encrypted audio",
        )),
        (Secured::No, Srtp::Required) if line.is_none() => Err(impossible(
            "only encrypted media is taken here (RTP/SAVP with a=crypto)",
        )),
        _ => Ok(line),
    }
}

fn is(format: &PayloadFormat<'_>, codec: Codec) -> bool {
    format.name.eq_ignore_ascii_case(codec_name(codec)) && format.clock == clock(codec)
}

/// Keys usually use the codec's clock; some phones use that of G.711 with every codec.
fn events(media: &MediaDescription<'_>, codec: Codec) -> Option<EventFormat> {
    events_of(media, clock(codec)).or_else(|| events_of(media, 8_000))
}

fn events_of(media: &MediaDescription<'_>, clock: u32) -> Option<EventFormat> {
    let mut formats = media.formats.iter();
    let format = formats.find(|format| {
        format.name.eq_ignore_ascii_case("telephone-event") && format.clock == clock
    })?;
    Some(EventFormat {
        payload: format.payload,
        clock,
    })
}

#[cfg(test)]
mod tests;
