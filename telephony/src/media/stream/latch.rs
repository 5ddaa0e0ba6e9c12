//! Whose packets count, and where ours go: first the address of the SDP, then whoever really sends (symmetric RTP).
//!
//! Behind NAT, the SDP's address is not the sender's. A stranger who guesses the port must not take the call over: the sender stays
//! who he is unless his stream goes on from elsewhere, signed or with numbers that only he and we have seen, or the address of the SDP itself speaks.

use std::net::SocketAddr;

/// A step of the numbers that still is the same stream.
const NEAR: u16 = 8;

#[derive(Debug)]
pub struct Latch {
    told: SocketAddr,
    told_reports: SocketAddr,
    media: Option<SocketAddr>,
    reports: Option<SocketAddr>,
    /// Who would be the sender with one packet more, and the number it comes after.
    candidate: Option<(SocketAddr, u16)>,
}

impl Latch {
    pub fn new(told: SocketAddr, told_reports: SocketAddr) -> Self {
        Self {
            told,
            told_reports,
            media: None,
            reports: None,
            candidate: None,
        }
    }

    /// Where media goes.
    pub fn media(&self) -> SocketAddr {
        self.media.unwrap_or(self.told)
    }

    /// Where reports go.
    pub fn reports(&self) -> SocketAddr {
        self.reports.unwrap_or(self.told_reports)
    }

    /// Whether a packet of media is the other side's; `proven` says that it is signed, or goes on where the stream was.
    pub fn admits(&mut self, from: SocketAddr, sequence: u16, proven: bool) -> bool {
        if self.media == Some(from) {
            return true;
        }
        let follows = self.candidate.is_some_and(|(candidate, before)| {
            candidate == from && (1..=NEAR).contains(&sequence.wrapping_sub(before))
        });
        let may = self.media.is_none() || proven;
        if from == self.told || (may && follows) {
            self.media = Some(from);
            self.candidate = None;
            return true;
        }
        if may {
            self.candidate = Some((from, sequence));
        }
        false
    }

    /// Whether a report is the other side's.
    pub fn admits_report(&mut self, from: SocketAddr, signed: bool) -> bool {
        let known = signed || from == self.told_reports || from.ip() == self.media().ip();
        if known {
            self.reports = Some(from);
        }
        known
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::Latch;

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    fn latch() -> (Latch, SocketAddr, SocketAddr, SocketAddr) {
        let told = address("10.0.0.5:4000");
        (
            Latch::new(told, address("10.0.0.5:4001")),
            told,
            address("203.0.113.5:61000"),
            address("198.51.100.66:9"),
        )
    }

    #[test]
    fn the_sender_is_whoever_sends_twice_in_a_row() {
        let (mut latch, told, nat, stranger) = latch();
        assert_eq!(latch.media(), told);
        assert!(!latch.admits(nat, 65_535, false));
        assert_eq!(latch.media(), told);
        assert!(latch.admits(nat, 0, false));
        assert_eq!(latch.media(), nat);
        for sequence in 0..20 {
            assert!(!latch.admits(stranger, sequence, false));
        }
        assert_eq!(latch.media(), nat);
    }

    #[test]
    fn one_packet_or_scattered_ones_do_not_take_a_call() {
        let (mut latch, told, _, stranger) = latch();
        for sequence in [7, 7, 100, 50, 2_000] {
            assert!(!latch.admits(stranger, sequence, false));
        }
        assert_eq!(latch.media(), told);
    }

    #[test]
    fn the_address_of_the_sdp_is_believed_at_once_and_always() {
        let (mut latch, told, _, stranger) = latch();
        assert!(!latch.admits(stranger, 1, false));
        assert!(latch.admits(stranger, 2, false));
        assert!(latch.admits(told, 500, false));
        assert_eq!(latch.media(), told);
        assert!(!latch.admits(stranger, 3, false));
    }

    #[test]
    fn a_stream_may_go_on_from_elsewhere() {
        let (mut latch, _, nat, moved) = latch();
        latch.admits(nat, 1, false);
        assert!(latch.admits(nat, 2, false));
        assert!(!latch.admits(moved, 3, true));
        assert!(latch.admits(moved, 4, true));
        assert_eq!(latch.media(), moved);
    }

    #[test]
    fn reports_come_from_where_media_comes() {
        let (mut latch, _, nat, stranger) = latch();
        latch.admits(nat, 1, false);
        latch.admits(nat, 2, false);
        assert!(!latch.admits_report(stranger, false));
        assert_eq!(latch.reports(), address("10.0.0.5:4001"));
        let beside = address("203.0.113.5:61077");
        assert!(latch.admits_report(beside, false));
        assert_eq!(latch.reports(), beside);
    }
}
