//! Encrypted media with keys in the SDP: `a=crypto` (RFC 4568) and SRTP with AES-CM and HMAC-SHA1 (RFC 3711).
//!
//! The library keeps state for every source that it sees, and updates its replay window before it has authenticated a packet. So
//! here each source has its own context, kept only after its first authentic packet, and their number is limited.

use std::{borrow::Cow, collections::VecDeque, fmt};

use base64::{Engine, prelude::BASE64_STANDARD};
use webrtc_srtp::{context::Context, option, protection_profile::ProtectionProfile};

use super::{Error, rtp};

const KEY_BYTES: usize = 16;
const MASTER_BYTES: usize = 30;
/// The longest authentication tag, and the index of an SRTCP packet.
const TAG_MAX: usize = 10;
const INDEX_BYTES: usize = 4;
/// The bit before the index that says that the packet is encrypted.
const ENCRYPTED: u32 = 0x8000_0000;
/// The longest MKI (RFC 4568, 9.2).
const MKI_MAX: usize = 128;
/// Packets that may come late (RFC 3711 requires 64 or more).
const REPLAY_WINDOW: usize = 128;
/// Sources whose state is kept; one more replaces the one that was silent for the longest.
const SOURCES_MAX: usize = 64;
/// Replaced sources whose last numbers are kept, so that their recorded packets do not open again.
const FORGOTTEN_MAX: usize = 1_024;

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
    sources: Vec<Source>,
    /// Replaced sources with their last numbers, the last replaced last.
    forgotten: VecDeque<(u32, LastNumbers)>,
}

/// The state of one source.
struct Source {
    ssrc: u32,
    context: Context,
    last: LastNumbers,
    /// The last numbers when it was forgotten. No packet up to them opens.
    floor: LastNumbers,
}

/// The number of a packet.
#[derive(Debug, Clone, Copy)]
enum PacketNumber {
    Rtp(u16),
    Rtcp(u32),
}

/// The highest numbers of a source's authentic packets.
#[derive(Debug, Clone, Copy, Default)]
struct LastNumbers {
    /// With the roll-over counter in the upper half.
    rtp: Option<u32>,
    rtcp: Option<u32>,
}

impl LastNumbers {
    /// The whole number of a packet that comes after these (RFC 3711, appendix A).
    fn whole(self, number: PacketNumber) -> u32 {
        match (number, self.rtp) {
            (PacketNumber::Rtcp(index), _) => index,
            (PacketNumber::Rtp(sequence), None) => sequence.into(),
            (PacketNumber::Rtp(sequence), Some(last)) => {
                let step = sequence.wrapping_sub(last as u16) as i16;
                last.wrapping_add_signed(step.into())
            }
        }
    }

    fn of(&mut self, number: PacketNumber) -> &mut Option<u32> {
        match number {
            PacketNumber::Rtp(_) => &mut self.rtp,
            PacketNumber::Rtcp(_) => &mut self.rtcp,
        }
    }

    /// True for a packet behind the floor, below which recorded packets are. The library cannot be told a roll-over counter, so a
    /// source does not go on behind its floor once its sequence numbers have wrapped.
    fn is_after(self, mut floor: Self, number: PacketNumber) -> bool {
        let whole = self.whole(number);
        let is_rtp = matches!(number, PacketNumber::Rtp(_));
        let has_wrapped = is_rtp && self.rtp == floor.rtp && whole > u16::MAX.into();
        !has_wrapped && Some(whole) > *floor.of(number)
    }

    fn count(&mut self, number: PacketNumber) {
        let whole = self.whole(number);
        let last = self.of(number);
        *last = (*last).max(Some(whole));
    }
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
            forgotten: VecDeque::new(),
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
            self.forgotten.clear();
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
        let (true, Ok(header)) = (whole, rtp::header(packet)) else {
            return false;
        };
        let number = PacketNumber::Rtp(header.sequence);
        self.with_source(header.ssrc, number, out, |context| {
            context.decrypt_rtp(packet).ok()
        })
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
        let at = packet.len() - TAG_MAX - INDEX_BYTES;
        let index =
            u32::from_be_bytes([packet[at], packet[at + 1], packet[at + 2], packet[at + 3]]);
        if index & ENCRYPTED == 0 {
            return false;
        }
        let ssrc = u32::from_be_bytes([packet[4], packet[5], packet[6], packet[7]]);
        let number = PacketNumber::Rtcp(index & !ENCRYPTED);
        self.with_source(ssrc, number, out, |context| {
            context.decrypt_rtcp(packet).ok()
        })
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
        number: PacketNumber,
        out: &mut Vec<u8>,
        open: impl FnOnce(&mut Context) -> Option<B>,
    ) -> bool {
        let known = self.sources.iter().position(|source| source.ssrc == ssrc);
        let opened = match known {
            Some(at) => {
                let source = &mut self.sources[at];
                let is_after = source.last.is_after(source.floor, number);
                let opened = is_after.then(|| open(&mut source.context)).flatten();
                if opened.is_some() {
                    source.last.count(number);
                    self.sources[at..].rotate_left(1);
                }
                opened
            }
            None => self.open_new(ssrc, number, open),
        };
        let Some(bytes) = opened else {
            return false;
        };
        out.clear();
        out.extend_from_slice(bytes.as_ref());
        true
    }

    /// Opens the packet of a source without a context. A forgotten one goes on behind its last packet.
    fn open_new<B>(
        &mut self,
        ssrc: u32,
        number: PacketNumber,
        open: impl FnOnce(&mut Context) -> Option<B>,
    ) -> Option<B> {
        let forgotten = self.forgotten.iter().position(|(it, _)| *it == ssrc);
        let mut last = forgotten.map_or(LastNumbers::default(), |at| self.forgotten[at].1);
        let floor = last;
        if !last.is_after(floor, number) {
            return None;
        }
        let mut context = self.crypto.theirs.context(self.crypto.suite).ok()?;
        let opened = open(&mut context)?;
        last.count(number);
        forgotten.and_then(|at| self.forgotten.remove(at));
        if self.sources.len() == SOURCES_MAX {
            let oldest = self.sources.remove(0);
            if self.forgotten.len() == FORGOTTEN_MAX {
                self.forgotten.pop_front();
            }
            self.forgotten.push_back((oldest.ssrc, oldest.last));
        }
        self.sources.push(Source {
            ssrc,
            context,
            last,
            floor,
        });
        Some(opened)
    }
}

#[cfg(test)]
mod tests;
