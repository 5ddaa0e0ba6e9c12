//! Admits packets by their source address, and picks the address to send to: first that of the SDP, then the real sender's
//! (symmetric RTP).
//!
//! Behind NAT, the SDP's address is not the sender's. Strangers who spray all ports must not be mistaken for the caller:
//!
//! - the SDP's own address, and packets that are signed (SRTP), always count;
//! - in the first second, only the signalling's address counts besides; later it still wins the stream back from a stranger;
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
        now_ms: u64,
    ) -> Self {
        Self {
            sdp_media,
            sdp_reports,
            signalling: signalling.to_canonical(),
            media: None,
            reports: None,
            candidate: None,
            open_ms: now_ms + FIRST_MS,
            last_ms: now_ms,
            moves_until_ms: now_ms,
        }
    }

    /// The SDP names another address for media or reports. If only the port is another one, the sender's address stays, so that no
    /// stranger takes the stream while the phone is silent.
    pub fn named(&mut self, sdp_media: SocketAddr, sdp_reports: SocketAddr, now_ms: u64) {
        let Some(sender) = self.media.filter(|_| sdp_media.ip() == self.sdp_media.ip()) else {
            *self = Self::new(sdp_media, sdp_reports, self.signalling, now_ms);
            return;
        };
        if sender == self.sdp_media {
            self.media = Some(sdp_media);
        }
        (self.sdp_media, self.sdp_reports) = (sdp_media, sdp_reports);
        (self.reports, self.candidate) = (None, None);
        self.direction_changed(now_ms);
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

    /// The call was held or resumed, after which many phones continue from another port.
    pub fn direction_changed(&mut self, now_ms: u64) {
        self.moves_until_ms = now_ms + QUIET_MS;
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
        let (ip, named) = (from.ip().to_canonical(), self.sdp_media.ip());
        match self.media.map(|media| media.ip().to_canonical()) {
            None => ip == self.signalling || now_ms >= self.open_ms,
            Some(sender) if sender == ip => {
                proof == PacketProof::Follows
                    || now_ms < self.moves_until_ms
                    || now_ms.saturating_sub(self.last_ms) >= QUIET_MS
            }
            Some(sender) => {
                let is_stranger = sender != self.signalling && sender != named.to_canonical();
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
mod tests {
    use std::net::SocketAddr;

    use super::{
        Latch,
        PacketProof::{Follows, None, Signed},
    };

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    /// A call whose SDP names an address behind NAT, its sender's real address, and a stranger's.
    fn latch() -> (Latch, SocketAddr, SocketAddr, SocketAddr) {
        let sdp_media = address("10.0.0.5:4000");
        let nat = address("203.0.113.5:61000");
        (
            Latch::new(sdp_media, address("10.0.0.5:4001"), nat.ip(), 0),
            sdp_media,
            nat,
            address("198.51.100.66:9"),
        )
    }

    /// Two packets in a row.
    fn twice(latch: &mut Latch, from: SocketAddr, now_ms: u64) -> bool {
        latch.admits(from, 1, None, now_ms);
        latch.admits(from, 2, None, now_ms)
    }

    #[test]
    fn the_sender_is_whoever_sends_twice_in_a_row() {
        let (mut latch, sdp_media, nat, stranger) = latch();
        assert_eq!(latch.media(), sdp_media);
        assert!(!latch.admits(nat, 65_535, None, 0));
        assert_eq!(latch.media(), sdp_media);
        assert!(latch.admits(nat, 0, None, 0));
        assert_eq!(latch.media(), nat);
        for sequence in 0..20 {
            assert!(!latch.admits(stranger, sequence, None, 60_000));
        }
        assert_eq!(latch.media(), nat);
    }

    /// The phone is silent after a re-INVITE that names another port.
    #[test]
    fn another_port_in_the_sdp_lets_no_stranger_in() {
        let (mut latch, sdp_media, nat, stranger) = latch();
        let (next, reports) = (address("10.0.0.5:5000"), address("10.0.0.5:5001"));
        assert!(twice(&mut latch, nat, 0));
        latch.named(next, reports, 10_000);
        assert!(!twice(&mut latch, stranger, 20_000));
        assert!(twice(&mut latch, address("203.0.113.5:62000"), 20_000));
        // Without NAT the media goes to the new port at once.
        latch.named(sdp_media, reports, 30_000);
        assert!(latch.admits(sdp_media, 1, None, 30_000));
        latch.named(next, reports, 40_000);
        assert_eq!(latch.media(), next);
        assert!(!twice(&mut latch, stranger, 50_000));
        // Another address is another phone.
        latch.named(address("10.0.0.6:5000"), reports, 60_000);
        assert!(twice(&mut latch, stranger, 61_000));
    }

    #[test]
    fn strangers_have_no_chance_in_the_first_second() {
        let (mut latch, sdp_media, nat, stranger) = latch();
        for sequence in 0..50 {
            assert!(!latch.admits(stranger, sequence, None, 999));
        }
        assert_eq!(latch.media(), sdp_media);
        assert!(twice(&mut latch, nat, 999), "the caller is not kept out");
    }

    /// Some carriers send media from another address than their SDP and their signalling.
    #[test]
    fn after_the_first_second_any_address_may_be_the_sender() {
        let (mut latch, _, _, elsewhere) = latch();
        assert!(twice(&mut latch, elsewhere, 1_000));
        assert_eq!(latch.media(), elsewhere);
    }

    #[test]
    fn the_signallings_address_wins_the_stream_back_from_a_stranger() {
        let (mut latch, _, nat, stranger) = latch();
        assert!(twice(&mut latch, stranger, 1_000));
        let his_reports = address("198.51.100.66:10");
        assert!(latch.admits_report(his_reports, Follows));
        for sequence in 3..40 {
            latch.admits(stranger, sequence, None, 1_500);
            latch.admits(nat, sequence, None, 1_500);
        }
        assert_eq!(latch.media(), nat);
        assert_ne!(latch.reports(), his_reports);
        assert!(!twice(&mut latch, stranger, 9_000), "and keeps it");
    }

    #[test]
    fn one_packet_or_scattered_ones_do_not_take_a_call() {
        let (mut latch, sdp_media, _, stranger) = latch();
        for sequence in [7, 7, 100, 50, 2_000] {
            assert!(!latch.admits(stranger, sequence, None, 5_000));
        }
        assert_eq!(latch.media(), sdp_media);
    }

    #[test]
    fn the_address_of_the_sdp_is_believed_at_once_and_always() {
        let (mut latch, sdp_media, nat, stranger) = latch();
        assert!(twice(&mut latch, stranger, 1_000));
        assert!(latch.admits(sdp_media, 500, None, 1_000));
        assert_eq!(latch.media(), sdp_media);
        assert!(!twice(&mut latch, stranger, 9_000));
        assert!(!twice(&mut latch, nat, 9_000), "it was named");
    }

    #[test]
    fn a_stream_goes_on_from_another_port_and_only_signed_from_another_address() {
        let (mut latch, _, nat, elsewhere) = latch();
        assert!(twice(&mut latch, nat, 0));
        let moved = address("203.0.113.5:7");
        assert!(!latch.admits(moved, 3, Follows, 20));
        assert!(latch.admits(moved, 4, Follows, 40));
        assert_eq!(latch.media(), moved);
        for sequence in 5..20 {
            assert!(!latch.admits(elsewhere, sequence, Follows, 9_000));
        }
        assert!(!latch.admits(elsewhere, 20, Signed, 9_000));
        assert!(latch.admits(elsewhere, 21, Signed, 9_000));
    }

    #[test]
    fn a_sender_takes_a_new_port_when_the_direction_changes_or_after_two_seconds() {
        let (mut latch, _, nat, stranger) = latch();
        assert!(twice(&mut latch, nat, 0));
        let [resumed, restarted] = ["203.0.113.5:7", "203.0.113.5:8"].map(address);
        assert!(!twice(&mut latch, resumed, 1_999), "a neighbour's, maybe");
        latch.direction_changed(1_999);
        assert!(!twice(&mut latch, stranger, 1_999));
        assert!(twice(&mut latch, resumed, 1_999));
        assert!(!twice(&mut latch, nat, 1_999), "once for each change");
        assert!(!twice(&mut latch, restarted, 3_998));
        assert!(!twice(&mut latch, stranger, 3_999));
        assert!(twice(&mut latch, restarted, 3_999));
        assert_eq!(latch.media(), restarted);
    }

    #[test]
    fn reports_come_from_where_media_comes() {
        let (mut latch, _, nat, stranger) = latch();
        // A listener behind NAT sends no media, only reports.
        assert!(!latch.admits_report(stranger, None));
        assert!(latch.admits_report(nat, None));
        assert_eq!(latch.reports(), nat);
        latch.reports = Option::None;
        assert!(twice(&mut latch, nat, 0));
        let beside = address("203.0.113.5:61077");
        for (from, proof) in [(stranger, None), (stranger, Follows), (beside, None)] {
            assert!(!latch.admits_report(from, proof), "{from}, {proof:?}");
            assert_eq!(latch.reports(), address("10.0.0.5:4001"));
        }
        let named = address("10.0.0.5:4001");
        for (from, proof) in [
            (named, None),
            (nat, None),
            (beside, Follows),
            (stranger, Signed),
        ] {
            assert!(latch.admits_report(from, proof), "{from}, {proof:?}");
            assert_eq!(latch.reports(), from);
        }
    }
}
