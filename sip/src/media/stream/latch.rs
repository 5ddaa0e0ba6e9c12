//! Admits packets by their source address, and picks the address to send to: first that of the SDP, then the real sender's
//! (symmetric RTP).
//!
//! Behind NAT, the SDP's address is not the sender's. Strangers who spray all ports must not be mistaken for the caller:
//!
//! - the SDP's own address, and packets that are signed (SRTP), always count;
//! - in the first second, only the signalling's address counts besides; later it still wins the stream back from a stranger;
//! - after that any address counts once, unless the other side does not send by its SDP;
//! - a sender moves to another port of its address if its sequence numbers continue, when the call's direction has changed, or
//!   after 2 s without a packet; to another address only if the SDP names it.

use std::net::{IpAddr, SocketAddr};

/// The largest step of sequence numbers within one stream.
const NEAR: u16 = 8;
/// Time in which only the signalling's address may become the sender.
const FIRST_MS: u64 = 1_000;
/// A sender that was silent for this long may have lost its port, to a NAT or by a restart.
const QUIET_MS: u64 = 2_000;

/// Evidence, beside the source, that a packet is the other side's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketProof {
    None,
    /// It continues the stream's sequence numbers, or a report has its SSRC: only its sender and we have seen them.
    Follows,
    /// It is signed with the key of the SDP.
    Signed,
}

#[derive(Debug)]
pub struct Latch {
    sdp_media: SocketAddr,
    sdp_reports: SocketAddr,
    /// The source address of the call's signalling.
    signalling: IpAddr,
    /// The other side's direction has it send media.
    is_due: bool,
    media: Option<SocketAddr>,
    reports: Option<SocketAddr>,
    /// The sender that becomes the peer with its next packet, and the sequence number of its last one.
    candidate: Option<(SocketAddr, u16)>,
    /// When strangers may become the sender.
    open_ms: u64,
    /// When the sender's last packet came.
    last_ms: u64,
    /// Until when the sender may move to another port.
    moves_until_ms: u64,
}

impl Latch {
    pub fn new(
        sdp_media: SocketAddr,
        sdp_reports: SocketAddr,
        signalling: IpAddr,
        is_due: bool,
        now_ms: u64,
    ) -> Self {
        Self {
            sdp_media,
            sdp_reports,
            signalling: signalling.to_canonical(),
            is_due,
            media: None,
            reports: None,
            candidate: None,
            open_ms: now_ms + FIRST_MS,
            last_ms: now_ms,
            moves_until_ms: now_ms,
        }
    }

    /// The SDP names another address for media or reports. If only the port is another one, the sender's address stays, so that no
    /// stranger takes the stream while the phone is silent. Zeros hold the call and name no address (RFC 3264, 8.4).
    pub fn named(&mut self, sdp_media: SocketAddr, sdp_reports: SocketAddr, now_ms: u64) {
        if sdp_media.ip().is_unspecified() {
            return;
        }
        let Some(sender) = self.media.filter(|_| sdp_media.ip() == self.sdp_media.ip()) else {
            let (signalling, is_due) = (self.signalling, self.is_due);
            *self = Self::new(sdp_media, sdp_reports, signalling, is_due, now_ms);
            return;
        };
        if sender == self.sdp_media {
            self.media = Some(sdp_media);
        }
        (self.sdp_media, self.sdp_reports) = (sdp_media, sdp_reports);
        (self.reports, self.candidate) = (None, None);
        self.moves_until_ms = now_ms + QUIET_MS;
    }

    /// Destination of media.
    pub fn media(&self) -> SocketAddr {
        self.media.unwrap_or(self.sdp_media)
    }

    /// Destination of RTCP reports.
    pub fn reports(&self) -> SocketAddr {
        self.reports.unwrap_or(self.sdp_reports)
    }

    pub fn signalled_from(&mut self, signalling: IpAddr) {
        self.signalling = signalling.to_canonical();
    }

    /// The call was held or resumed, after which many phones continue from another port. `is_due`: the other side sends media.
    pub fn direction_changed(&mut self, is_due: bool, now_ms: u64) {
        self.moves_until_ms = now_ms + QUIET_MS;
        if is_due && !self.is_due {
            self.open_ms = now_ms + FIRST_MS;
        }
        self.is_due = is_due;
    }

    /// True if a media packet is the other side's.
    pub fn admits(
        &mut self,
        from: SocketAddr,
        sequence: u16,
        proof: PacketProof,
        now_ms: u64,
    ) -> bool {
        if self.media == Some(from) {
            self.last_ms = now_ms;
            return true;
        }
        let may = proof == PacketProof::Signed || self.may_move_to(from, proof, now_ms);
        let follows = self.candidate.is_some_and(|(candidate, before)| {
            candidate == from && (1..=NEAR).contains(&sequence.wrapping_sub(before))
        });
        if from == self.sdp_media || (may && follows) {
            self.latch(from, now_ms);
            return true;
        }
        if may {
            self.candidate = Some((from, sequence));
        }
        false
    }

    fn may_move_to(&self, from: SocketAddr, proof: PacketProof, now_ms: u64) -> bool {
        let (ip, named) = (from.ip().to_canonical(), self.sdp_media.ip().to_canonical());
        match self.media.map(|media| media.ip().to_canonical()) {
            None => {
                let is_open = now_ms >= self.open_ms;
                ip == self.signalling || is_open && (ip == named || self.is_due)
            }
            Some(sender) if sender == ip => {
                proof == PacketProof::Follows
                    || now_ms < self.moves_until_ms
                    || now_ms.saturating_sub(self.last_ms) >= QUIET_MS
            }
            Some(sender) => {
                let is_stranger = sender != self.signalling && sender != named;
                is_stranger && ip == self.signalling
            }
        }
    }

    fn latch(&mut self, from: SocketAddr, now_ms: u64) {
        if self.media.is_some_and(|media| media.ip() != from.ip()) {
            self.reports = None;
        }
        self.media = Some(from);
        self.candidate = None;
        self.last_ms = now_ms;
        self.moves_until_ms = now_ms;
    }

    /// True if a report is the other side's: from the named address or that of its media, or with the SSRC of its media. A forger
    /// of one datagram every few seconds must not keep a dead call alive.
    pub fn admits_report(&mut self, from: SocketAddr, proof: PacketProof) -> bool {
        let is_named = from == self.sdp_reports || self.media == Some(from);
        let known = match proof {
            PacketProof::Signed => true,
            PacketProof::Follows => is_named || from.ip() == self.media().ip(),
            // A phone behind NAT that has sent no media yet.
            PacketProof::None => {
                let is_behind_nat = self.sdp_media.ip().to_canonical() != self.signalling;
                let is_signalling = from.ip().to_canonical() == self.signalling;
                is_named || (self.media.is_none() && is_behind_nat && is_signalling)
            }
        };
        if known {
            self.reports = Some(from);
        }
        known
    }
}

#[cfg(test)]
mod tests;
