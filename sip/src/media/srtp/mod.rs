//! Encrypted media with keys in the SDP: `a=crypto` (RFC 4568) and SRTP with AES-CM and HMAC-SHA1 (RFC 3711).
//!
//! The library keeps state for every source that it sees, and updates its replay window before it has authenticated a packet. So
//! here each source has its own context, kept only after its first authentic packet, and their number is limited.

use std::{borrow::Cow, fmt};

use base64::{Engine, prelude::BASE64_STANDARD};
use webrtc_srtp::{context::Context, option, protection_profile::ProtectionProfile};

use super::{Error, rtp};

const KEY_BYTES: usize = 16;
const MASTER_BYTES: usize = 30;
/// The longest authentication tag, and the index of an SRTCP packet.
const TAG_MAX: usize = 10;
const INDEX_BYTES: usize = 4;
/// The longest MKI (RFC 4568, 9.2).
const MKI_MAX: usize = 128;
/// Packets that may come late (RFC 3711 requires 64 or more).
const REPLAY_WINDOW: usize = 128;
/// Sources whose state is kept; one more replaces the one that was silent for the longest.
const SOURCES_MAX: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suite {
    /// `AES_CM_128_HMAC_SHA1_80`
    Sha1_80,
    /// `AES_CM_128_HMAC_SHA1_32`
    Sha1_32,
}

impl Suite {
    const ALL: [Self; 2] = [Self::Sha1_80, Self::Sha1_32];

    fn name(self) -> &'static str {
        match self {
            Self::Sha1_80 => "AES_CM_128_HMAC_SHA1_80",
            Self::Sha1_32 => "AES_CM_128_HMAC_SHA1_32",
        }
    }

    fn profile(self) -> ProtectionProfile {
        match self {
            Self::Sha1_80 => ProtectionProfile::Aes128CmHmacSha1_80,
            Self::Sha1_32 => ProtectionProfile::Aes128CmHmacSha1_32,
        }
    }

    fn tag(self) -> usize {
        match self {
            Self::Sha1_80 => 10,
            Self::Sha1_32 => 4,
        }
    }
}

/// A master key with its salt.
#[derive(Clone, PartialEq, Eq)]
pub struct MasterKey([u8; MASTER_BYTES]);

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

impl MasterKey {
    /// From random bytes.
    pub fn new(random: [u8; MASTER_BYTES]) -> Self {
        Self(random)
    }

    fn context(&self, suite: Suite) -> Result<Context, Error> {
        let (key, salt) = self.0.split_at(KEY_BYTES);
        Context::new(
            key,
            salt,
            suite.profile(),
            Some(option::srtp_replay_protection(REPLAY_WINDOW)),
            Some(option::srtcp_replay_protection(REPLAY_WINDOW)),
        )
        .map_err(|_| Error::Keys)
    }
}

/// One line of `a=crypto`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CryptoLine {
    pub tag: u32,
    pub suite: Suite,
    pub key: MasterKey,
    /// Length of the master key identifier (MKI) before the tag of every packet. There is only one key, so only the length
    /// matters.
    pub index_bytes: usize,
}

impl CryptoLine {
    /// Parses the text after `crypto:`; `None` if it requires something unsupported.
    pub fn read(value: &str) -> Option<Self> {
        let mut words = value.split_ascii_whitespace();
        let tag = words.next().filter(|tag| tag.len() <= 9)?.parse().ok()?;
        let name = words.next()?;
        let suite = Suite::ALL
            .into_iter()
            .find(|suite| suite.name().eq_ignore_ascii_case(name))?;
        let parameters = words.next()?;
        // Only one session parameter may be ignored: the window size hint (WSH).
        if !words.all(|word| word.starts_with("WSH=")) {
            return None;
        }
        let (method, inline) = parameters.split_once(':')?;
        let mut parts = inline.split('|');
        let key = parts.next()?;
        if !method.eq_ignore_ascii_case("inline") || inline.contains(';') {
            return None;
        }
        // A lifetime outlasts any call, so it is ignored.
        let index_bytes = match parts.find_map(|part| part.split_once(':')) {
            Some((_, length)) => length
                .parse()
                .ok()
                .filter(|it| (1..=MKI_MAX).contains(it))?,
            None => 0,
        };
        let bytes = BASE64_STANDARD.decode(key).ok()?;
        Some(Self {
            tag,
            suite,
            key: MasterKey(bytes.try_into().ok()?),
            index_bytes,
        })
    }
}

impl fmt::Display for CryptoLine {
    /// The text after `crypto:`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = BASE64_STANDARD.encode(self.key.0);
        write!(f, "{} {} inline:{key}", self.tag, self.suite.name())
    }
}

/// The negotiated keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crypto {
    pub suite: Suite,
    pub ours: MasterKey,
    pub theirs: MasterKey,
    /// As in [`CryptoLine::index_bytes`], for received packets; sent ones have no MKI.
    pub their_index_bytes: usize,
}

/// SRTP of one call, in both directions.
pub struct SrtpSession {
    crypto: Crypto,
    outgoing: Context,
    /// Authenticated sources, the last heard last.
    sources: Vec<(u32, Context)>,
}

impl fmt::Debug for SrtpSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SrtpSession")
            .field("suite", &self.crypto.suite)
            .field("sources", &self.sources.len())
            .finish_non_exhaustive()
    }
}

impl SrtpSession {
    pub fn new(crypto: Crypto) -> Result<Self, Error> {
        let outgoing = crypto.ours.context(crypto.suite)?;
        // An unusable key of the other side is reported now, not with the first packet.
        crypto.theirs.context(crypto.suite)?;
        Ok(Self {
            crypto,
            outgoing,
            sources: Vec::new(),
        })
    }

    /// Changes the keys. An unchanged key of ours keeps its packet count, because no counter may be used twice.
    pub fn change(&mut self, crypto: &Crypto) -> Result<(), Error> {
        let same = |a: &MasterKey, b: &MasterKey| self.crypto.suite == crypto.suite && a == b;
        let (ours, theirs) = (
            same(&self.crypto.ours, &crypto.ours),
            same(&self.crypto.theirs, &crypto.theirs),
        );
        if !ours {
            self.outgoing = crypto.ours.context(crypto.suite)?;
        }
        if !theirs {
            self.sources.clear();
        }
        self.crypto = crypto.clone();
        Ok(())
    }

    /// Encrypts RTP in place.
    pub fn protect(&mut self, packet: &mut Vec<u8>) -> Result<(), Error> {
        let protected = self.outgoing.encrypt_rtp(packet).map_err(|_| Error::Keys)?;
        packet.clear();
        packet.extend_from_slice(&protected);
        Ok(())
    }

    /// Encrypts RTCP in place.
    pub fn protect_report(&mut self, packet: &mut Vec<u8>) -> Result<(), Error> {
        let protected = self
            .outgoing
            .encrypt_rtcp(packet)
            .map_err(|_| Error::Keys)?;
        packet.clear();
        packet.extend_from_slice(&protected);
        Ok(())
    }

    /// Decrypts RTP into `out`; false if it is not authentic, or a replay.
    pub fn open(&mut self, packet: &[u8], out: &mut Vec<u8>) -> bool {
        let Some(packet) = self.without_index(packet, self.crypto.suite.tag()) else {
            return false;
        };
        let packet = packet.as_ref();
        let whole =
            rtp::payload_at(packet).is_ok_and(|at| at + self.crypto.suite.tag() <= packet.len());
        let ssrc = rtp::header(packet).map(|header| header.ssrc);
        let (true, Ok(ssrc)) = (whole, ssrc) else {
            return false;
        };
        self.with_source(ssrc, out, |context| context.decrypt_rtp(packet).ok())
    }

    /// Decrypts RTCP into `out`; false if it is not authentic, or a replay.
    pub fn open_report(&mut self, packet: &[u8], out: &mut Vec<u8>) -> bool {
        let Some(packet) = self.without_index(packet, TAG_MAX) else {
            return false;
        };
        let packet = packet.as_ref();
        if packet.len() < 8 + INDEX_BYTES + TAG_MAX || packet.len() > rtp::PACKET_BYTES_MAX {
            return false;
        }
        // The library does not check the tag if this bit says that nothing is encrypted, which is never negotiated.
        if packet[packet.len() - TAG_MAX - INDEX_BYTES] & 0x80 == 0 {
            return false;
        }
        let ssrc = u32::from_be_bytes([packet[4], packet[5], packet[6], packet[7]]);
        self.with_source(ssrc, out, |context| context.decrypt_rtcp(packet).ok())
    }

    /// Removes the MKI, which the library does not know and which is not authenticated (RFC 3711, 3.1).
    fn without_index<'a>(&self, packet: &'a [u8], tag: usize) -> Option<Cow<'a, [u8]>> {
        let bytes = self.crypto.their_index_bytes;
        if bytes == 0 {
            return Some(Cow::Borrowed(packet));
        }
        let (rest, tag) = packet.split_at_checked(packet.len().checked_sub(tag)?)?;
        let signed = rest.get(..rest.len().checked_sub(bytes)?)?;
        Some(Cow::Owned([signed, tag].concat()))
    }

    fn with_source<B: AsRef<[u8]>>(
        &mut self,
        ssrc: u32,
        out: &mut Vec<u8>,
        open: impl FnOnce(&mut Context) -> Option<B>,
    ) -> bool {
        let known = self.sources.iter().position(|(source, _)| *source == ssrc);
        let opened = match known {
            Some(at) => {
                let opened = open(&mut self.sources[at].1);
                if opened.is_some() {
                    self.sources[at..].rotate_left(1);
                }
                opened
            }
            None => {
                let context = self.crypto.theirs.context(self.crypto.suite);
                context.ok().and_then(|mut context| {
                    let opened = open(&mut context)?;
                    if self.sources.len() == SOURCES_MAX {
                        self.sources.remove(0);
                    }
                    self.sources.push((ssrc, context));
                    Some(opened)
                })
            }
        };
        let Some(bytes) = opened else {
            return false;
        };
        out.clear();
        out.extend_from_slice(bytes.as_ref());
        true
    }
}

#[cfg(test)]
mod tests;
