//! RTCP (RFC 3550, section 6): reports written and read, losses and jitter counted.
//!
//! The NTP timestamps of reports count from the beginning of the call: this side has no date, which the RFC allows.

use super::rtp::{Malformed, PACKET_BYTES_MAX};

const SENDER_REPORT: u8 = 200;
const RECEIVER_REPORT: u8 = 201;
const DESCRIPTION: u8 = 202;
const GOODBYE: u8 = 203;
const CNAME: u8 = 1;

const BLOCK_BYTES: usize = 24;
const LOST_MAX: i64 = 0x7f_ffff;

/// A report block: the quality of reception of one source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Block {
    pub about: u32,
    /// In 1/256, since the report before.
    pub fraction_lost: u8,
    /// Negative if packets came twice.
    pub lost: i32,
    pub highest: u32,
    /// In units of the media's clock.
    pub jitter: u32,
    /// The middle 32 bits of the last sender report's NTP timestamp; 0 if none came.
    pub last_report: u32,
    /// Since that report came, in 1/65536 s.
    pub delay: u32,
}

/// One statement of an RTCP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RtcpItem {
    /// A sender report, with the middle of its NTP timestamp.
    Sender {
        ssrc: u32,
        time: u32,
    },
    Block(Block),
    Bye(u32),
}

/// Milliseconds as an NTP timestamp of 64 bits.
pub fn ntp(ms: u64) -> u64 {
    (ms / 1_000) << 32 | (((ms % 1_000) << 32) / 1_000)
}

/// The middle of an NTP timestamp: 1/65536 s.
pub fn middle(ntp: u64) -> u32 {
    (ntp >> 16) as u32
}

/// Reception statistics of one source (appendix A.3 and A.8).
#[derive(Debug, Clone)]
pub struct Reception {
    pub ssrc: u32,
    base: u32,
    highest: u32,
    received: u64,
    /// Arrival minus timestamp of the previous packet, in units of the media's clock.
    transit: Option<u32>,
    /// Sixteen times the jitter.
    jitter: u32,
    expected_before: u64,
    received_before: u64,
    /// When the last sender report came, and the middle of its NTP timestamp.
    report: Option<(u64, u32)>,
}

impl Reception {
    pub fn new(ssrc: u32, sequence: u16) -> Self {
        Self {
            ssrc,
            base: u32::from(sequence),
            highest: u32::from(sequence),
            received: 0,
            transit: None,
            jitter: 0,
            expected_before: 0,
            received_before: 0,
            report: None,
        }
    }

    /// Counts a packet; `arrival` is in units of the media's clock.
    pub fn count(&mut self, sequence: u16, timestamp: u32, arrival: u32) {
        self.count_untimed(sequence);
        let transit = arrival.wrapping_sub(timestamp);
        if let Some(before) = self.transit.replace(transit) {
            let difference = (transit.wrapping_sub(before) as i32).unsigned_abs();
            // A step of more than half a minute is a new beginning, not jitter.
            if difference < 1 << 21 {
                self.jitter = self.jitter + difference - ((self.jitter + 8) >> 4);
            }
        }
    }

    /// Counts a packet of a key. All packets of one have the same timestamp (RFC 4733, 2.5.1.2), which says nothing of jitter.
    pub fn count_untimed(&mut self, sequence: u16) {
        let step = sequence.wrapping_sub(self.highest as u16);
        if step < 0x8000 {
            self.highest = self.highest.wrapping_add(u32::from(step));
        }
        self.received += 1;
    }

    /// The highest sequence number so far.
    pub fn last(&self) -> u16 {
        self.highest as u16
    }

    pub fn jitter(&self) -> u32 {
        self.jitter >> 4
    }

    fn expected(&self) -> u64 {
        u64::from(self.highest.wrapping_sub(self.base)) + 1
    }

    /// Missing packets minus those that came twice.
    pub fn lost(&self) -> i64 {
        self.expected() as i64 - self.received as i64
    }

    pub fn sender_reported(&mut self, time: u32, now_ms: u64) {
        self.report = Some((now_ms, time));
    }

    /// The report block; the next one's fraction counts from here.
    pub fn block(&mut self, now_ms: u64) -> Block {
        let expected = self.expected() - self.expected_before;
        let received = self.received - self.received_before;
        self.expected_before = self.expected();
        self.received_before = self.received;
        let lost = expected.saturating_sub(received);
        let fraction = (lost << 8).checked_div(expected).unwrap_or(0);
        let (last_report, delay) = self.report.map_or((0, 0), |(came, time)| {
            (time, middle(ntp(now_ms.saturating_sub(came))))
        });
        Block {
            about: self.ssrc,
            fraction_lost: fraction.min(255) as u8,
            lost: self.lost().clamp(-LOST_MAX, LOST_MAX) as i32,
            highest: self.highest,
            jitter: self.jitter(),
            last_report,
            delay,
        }
    }
}

/// The media sent by this side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentTotals {
    /// The media's clock at the time of the report.
    pub timestamp: u32,
    pub packets: u32,
    pub octets: u32,
}

/// Writes a sender report, or a receiver report if `sent` is `None`, with the source description.
pub fn report(
    ssrc: u32,
    cname: u64,
    sent: Option<(u64, SentTotals)>,
    block: Option<Block>,
    out: &mut Vec<u8>,
) {
    out.clear();
    let blocks = u8::from(block.is_some());
    let words = if sent.is_some() { 6 } else { 1 } + 6 * u16::from(blocks);
    let kind = if sent.is_some() {
        SENDER_REPORT
    } else {
        RECEIVER_REPORT
    };
    head(blocks, kind, words, ssrc, out);
    if let Some((now_ms, sent)) = sent {
        out.extend_from_slice(&ntp(now_ms).to_be_bytes());
        for word in [sent.timestamp, sent.packets, sent.octets] {
            out.extend_from_slice(&word.to_be_bytes());
        }
    }
    if let Some(block) = block {
        out.extend_from_slice(&block.about.to_be_bytes());
        out.push(block.fraction_lost);
        out.extend_from_slice(&block.lost.to_be_bytes()[1..]);
        for word in [block.highest, block.jitter, block.last_report, block.delay] {
            out.extend_from_slice(&word.to_be_bytes());
        }
    }
    describe(ssrc, cname, out);
}

/// Appends a BYE.
pub fn goodbye(ssrc: u32, out: &mut Vec<u8>) {
    head(1, GOODBYE, 1, ssrc, out);
}

/// The source's CNAME: sixteen digits; the item's end needs no further padding.
fn describe(ssrc: u32, cname: u64, out: &mut Vec<u8>) {
    let name = hex::encode(cname.to_be_bytes());
    head(1, DESCRIPTION, 6, ssrc, out);
    out.push(CNAME);
    out.push(name.len() as u8);
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(&[0, 0]);
}

fn head(count: u8, kind: u8, words: u16, ssrc: u32, out: &mut Vec<u8>) {
    out.push(0x80 | count);
    out.push(kind);
    out.extend_from_slice(&words.to_be_bytes());
    out.extend_from_slice(&ssrc.to_be_bytes());
}

/// The SSRC of the sender of a packet: each packet begins with a report.
pub fn sender(bytes: &[u8]) -> Option<u32> {
    (bytes.len() >= 8).then(|| word(bytes, 4))
}

/// Passes each statement of a packet to `told`; parts of other types are skipped.
pub fn read(bytes: &[u8], mut told: impl FnMut(RtcpItem)) -> Result<(), Malformed> {
    if bytes.len() > PACKET_BYTES_MAX {
        return Err(Malformed::Long);
    }
    check(bytes)?;
    let mut rest = bytes;
    while let Some((part, behind)) = split(rest) {
        rest = behind;
        let count = usize::from(part[0] & 0x1f);
        let body = &part[4..];
        match part[1] {
            SENDER_REPORT if body.len() >= 24 => {
                let time = word(body, 4) << 16 | word(body, 8) >> 16;
                told(RtcpItem::Sender {
                    ssrc: word(body, 0),
                    time,
                });
                blocks(&body[24..], count, &mut told);
            }
            RECEIVER_REPORT if body.len() >= 4 => blocks(&body[4..], count, &mut told),
            GOODBYE => {
                for source in body.chunks_exact(4).take(count) {
                    told(RtcpItem::Bye(word(source, 0)));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// The packet consists of whole parts of version 2.
fn check(bytes: &[u8]) -> Result<(), Malformed> {
    let mut rest = bytes;
    while !rest.is_empty() {
        if rest[0] >> 6 != 2 {
            return Err(Malformed::Version);
        }
        rest = split(rest).ok_or(Malformed::Short)?.1;
    }
    if bytes.is_empty() {
        Err(Malformed::Short)
    } else {
        Ok(())
    }
}

fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let words = u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]);
    bytes.split_at_checked(4 + 4 * usize::from(words))
}

fn blocks(bytes: &[u8], count: usize, told: &mut impl FnMut(RtcpItem)) {
    for block in bytes.chunks_exact(BLOCK_BYTES).take(count) {
        let losses = word(block, 4);
        told(RtcpItem::Block(Block {
            about: word(block, 0),
            fraction_lost: (losses >> 24) as u8,
            // A signed number of 24 bits.
            lost: (losses << 8) as i32 >> 8,
            highest: word(block, 8),
            jitter: word(block, 12),
            last_report: word(block, 16),
            delay: word(block, 20),
        }));
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_be_bytes(word)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Block, Reception, RtcpItem, SentTotals, goodbye, middle, ntp, read, report};

    fn all(bytes: &[u8]) -> Vec<RtcpItem> {
        let mut all = Vec::new();
        read(bytes, |told| all.push(told)).expect("RTCP");
        all
    }

    #[test]
    fn the_example_of_rfc_3550_gives_its_round_trip() {
        // Section 6.4.1, figure 2: 0xb44d:b705.2000:0000 sent, back at 0xb710:8000 after 5.25 s at the other side: 6.125 s.
        let sent = middle(0xb44d_b705_2000_0000);
        assert_eq!(sent, 0xb705_2000);
        let back = 0xb710_8000_u32 - 0x0005_4000 - sent;
        assert_eq!(back, 0x0006_2000);
        assert_eq!(middle(ntp(6_125)), 0x0006_2000);
    }

    #[test]
    fn losses_are_counted_across_the_wrap_and_by_report() {
        let mut reception = Reception::new(7, 65_530);
        for n in 0..20_u16 {
            if n % 5 != 3 {
                reception.count(
                    65_530_u16.wrapping_add(n),
                    u32::from(n) * 160,
                    u32::from(n) * 160,
                );
            }
        }
        assert_eq!(reception.lost(), 4);
        let block = reception.block(0);
        assert_eq!((block.lost, block.fraction_lost), (4, (4 * 256 / 20) as u8));
        assert_eq!(block.highest, 0x1_000d);
        reception.count(14, 0, 0);
        assert_eq!(reception.block(0).fraction_lost, 0, "none since");
        reception.count(14, 0, 0);
        assert_eq!(reception.lost(), 3, "one came twice");
    }

    #[test]
    fn jitter_is_a_sixteenth_of_each_difference() {
        let mut reception = Reception::new(7, 0);
        reception.count(0, 0, 1_000);
        reception.count(1, 160, 1_160);
        assert_eq!(reception.jitter(), 0, "as even as it was sent");
        reception.count(2, 320, 1_320 + 800);
        assert_eq!(reception.jitter(), 50);
        for n in 3..300_u32 {
            let wobble = if n % 2 == 0 { 80 } else { 0 };
            reception.count(n as u16, n * 160, n * 160 + wobble);
        }
        assert!(
            (78..=81).contains(&reception.jitter()),
            "{}",
            reception.jitter()
        );
    }

    #[test]
    fn reports_say_when_the_other_sides_came() {
        let mut reception = Reception::new(7, 0);
        reception.sender_reported(0x1234_5678, 1_000);
        let block = reception.block(1_500);
        assert_eq!((block.last_report, block.delay), (0x1234_5678, 0x8000));
    }

    #[test]
    fn a_goodbye_is_read() {
        let mut bytes = Vec::new();
        report(5, 1, None, None, &mut bytes);
        goodbye(5, &mut bytes);
        assert_eq!(bytes.len(), 8 + 28 + 8);
        assert_eq!(all(&bytes), [RtcpItem::Bye(5)]);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            ssrc: u32, cname: u64, now_ms in 0_u64..1 << 40, timestamp: u32, packets: u32, octets: u32,
            about: u32, fraction_lost: u8, lost in -0x7f_ffff_i32..0x7f_ffff, jitter: u32,
        ) {
            let block = Block { about, fraction_lost, lost, highest: jitter ^ 1, jitter, last_report: packets, delay: octets };
            let mut bytes = Vec::new();
            report(ssrc, cname, Some((now_ms, SentTotals { timestamp, packets, octets })), Some(block), &mut bytes);
            let sender = RtcpItem::Sender { ssrc, time: middle(ntp(now_ms)) };
            prop_assert_eq!(all(&bytes), [sender, RtcpItem::Block(block)]);
            report(ssrc, cname, None, Some(block), &mut bytes);
            prop_assert_eq!(all(&bytes), [RtcpItem::Block(block)]);
            prop_assert_eq!(bytes.len() % 4, 0);
        }

        #[test]
        fn any_bytes_are_reports_or_an_error(mut bytes in proptest::collection::vec(any::<u8>(), 0..300), plausible: bool) {
            if plausible && bytes.len() > 4 {
                bytes[0] = bytes[0] & 0x3f | 0x80;
                bytes[1] = 200 + bytes[1] % 4;
                let words = u16::try_from(bytes.len() / 4 - 1).expect("small");
                bytes[2..4].copy_from_slice(&words.to_be_bytes());
                bytes.truncate(4 * (usize::from(words) + 1));
            }
            let mut told = 0;
            let _ = read(&bytes, |_| told += 1);
            prop_assert!(told <= bytes.len() / 4);
        }
    }
}
