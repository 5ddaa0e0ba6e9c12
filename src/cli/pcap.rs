//! A capture file for Wireshark and tshark: classic libpcap with raw IP packets, written from SIP messages. Pure.
//!
//! The bridge keeps messages, not packets. So each message is one UDP datagram here, whatever carried it, with the addresses of
//! its socket. Format: draft-ietf-opsawg-pcap, "PCAP Capture File Format".

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Microseconds, little-endian.
const MAGIC: u32 = 0xa1b2_c3d4;
/// `LINKTYPE_RAW`: a packet begins with its IPv4 or IPv6 header.
const LINK_RAW: u32 = 101;
const PACKET_BYTES_MAX: u32 = 65_535;
const UDP: u8 = 17;
const UDP_HEADER: usize = 8;
const TTL: u8 = 64;
/// The longest payload that fits into an IPv4 packet.
const PAYLOAD_BYTES_MAX: usize = 65_535 - 20 - UDP_HEADER;

/// A message with its addresses.
#[derive(Clone, Copy, Debug)]
pub struct CapturedMessage<'a> {
    /// Since 1970.
    pub at_ms: i64,
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub text: &'a str,
}

/// The bytes of a capture file with these messages.
pub fn capture<'a>(messages: impl IntoIterator<Item = CapturedMessage<'a>>) -> Vec<u8> {
    let mut file = Vec::new();
    file.extend_from_slice(&MAGIC.to_le_bytes());
    for half in [2_u16, 4] {
        file.extend_from_slice(&half.to_le_bytes());
    }
    // No time zone, no accuracy.
    for word in [0, 0, PACKET_BYTES_MAX, LINK_RAW] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    for message in messages {
        let packet = packet(&message);
        let length = u32::try_from(packet.len()).unwrap_or(PACKET_BYTES_MAX);
        let seconds = u32::try_from(message.at_ms.div_euclid(1_000)).unwrap_or_default();
        let micros = u32::try_from(message.at_ms.rem_euclid(1_000)).unwrap_or_default() * 1_000;
        for word in [seconds, micros, length, length] {
            file.extend_from_slice(&word.to_le_bytes());
        }
        file.extend_from_slice(&packet);
    }
    file
}

fn packet(message: &CapturedMessage<'_>) -> Vec<u8> {
    let payload = message.text.as_bytes();
    let payload = &payload[..payload.len().min(PAYLOAD_BYTES_MAX)];
    let length = u16::try_from(UDP_HEADER + payload.len()).unwrap_or(u16::MAX);
    let (from, to) = (message.from, message.to);
    let mut udp = Vec::with_capacity(UDP_HEADER + payload.len());
    for half in [from.port(), to.port(), length, 0] {
        udp.extend_from_slice(&half.to_be_bytes());
    }
    udp.extend_from_slice(payload);
    let addresses = (from.ip().to_canonical(), to.ip().to_canonical());
    let (mut packet, pseudo) = match addresses {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let mut header = vec![0x45, 0];
            header.extend_from_slice(&(20 + length).to_be_bytes());
            // No identification; not to be fragmented.
            header.extend_from_slice(&[0, 0, 0x40, 0, TTL, UDP, 0, 0]);
            header.extend_from_slice(&from.octets());
            header.extend_from_slice(&to.octets());
            let sum = checksum(&header).to_be_bytes();
            header[10..12].copy_from_slice(&sum);
            let addresses = [from.octets(), to.octets()].concat();
            (header, addresses)
        }
        (from, to) => {
            let mut header = vec![0x60, 0, 0, 0];
            header.extend_from_slice(&length.to_be_bytes());
            header.extend_from_slice(&[UDP, TTL]);
            let addresses = [v6(from).octets(), v6(to).octets()].concat();
            header.extend_from_slice(&addresses);
            (header, addresses)
        }
    };
    let mut summed = pseudo;
    summed.extend_from_slice(&u32::from(length).to_be_bytes());
    summed.extend_from_slice(&[0, 0, 0, UDP]);
    summed.extend_from_slice(&udp);
    // Zero would mean that there is no checksum (RFC 768).
    let sum = match checksum(&summed) {
        0 => u16::MAX,
        sum => sum,
    };
    udp[6..8].copy_from_slice(&sum.to_be_bytes());
    packet.extend_from_slice(&udp);
    packet
}

fn v6(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    }
}

/// The checksum of IPv4 and UDP (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2);
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
    let mut sum: u32 = words.map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message<'a>(from: &str, to: &str, text: &'a str) -> CapturedMessage<'a> {
        CapturedMessage {
            at_ms: 1_768_447_800_250,
            from: from.parse().expect("an address"),
            to: to.parse().expect("an address"),
            text,
        }
    }

    #[test]
    fn the_file_has_a_header_and_a_record_for_each_message() {
        let file = capture([message("192.0.2.1:5060", "203.0.113.7:5062", "OPTIONS")]);
        let header = [
            0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 101, 0,
            0, 0,
        ];
        assert_eq!(file[..24], header);
        let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().expect("four"));
        assert_eq!((word(24), word(28)), (1_768_447_800, 250_000));
        assert_eq!((word(32), word(36)), (35, 35));
        assert_eq!(file.len(), 24 + 16 + 35);
        let packet = &file[40..];
        assert_eq!(
            (packet[0], packet[9], &packet[2..4]),
            (0x45, UDP, &[0, 35][..])
        );
        assert_eq!(packet[12..20], [192, 0, 2, 1, 203, 0, 113, 7]);
        assert_eq!(packet[20..26], [0x13, 0xc4, 0x13, 0xc6, 0, 15]);
        assert_eq!(&packet[28..], b"OPTIONS");
        // A header with its own checksum sums up to zero.
        assert_eq!(checksum(&packet[..20]), 0);
    }

    #[test]
    fn checksums_cover_addresses_and_text() {
        // The example of RFC 1071, section 3.
        assert_eq!(checksum(&[0, 1, 0xf2, 3, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
        for (from, to, addresses) in [
            ("192.0.2.1:5060", "192.0.2.2:5060", 12..20),
            ("[2001:db8::1]:5060", "[2001:db8::2]:5061", 8..40),
            // A socket of both families.
            ("[::ffff:192.0.2.1]:5060", "192.0.2.2:5060", 12..20),
            ("192.0.2.1:5060", "[2001:db8::2]:5061", 8..40),
        ] {
            let packet = packet(&message(from, to, "SIP/2.0 200 OK\r\n\r\n "));
            let udp = &packet[addresses.end..];
            let length = u32::try_from(udp.len()).expect("short");
            let mut summed = packet[addresses].to_vec();
            summed.extend_from_slice(&length.to_be_bytes());
            summed.extend_from_slice(&[0, 0, 0, UDP]);
            summed.extend_from_slice(udp);
            assert_eq!(checksum(&summed), 0, "{from}");
        }
    }

    #[test]
    fn a_message_that_is_too_long_is_cut() {
        let text = "x".repeat(100_000);
        let file = capture([message("192.0.2.1:5060", "192.0.2.2:5060", &text)]);
        assert_eq!(file.len(), 24 + 16 + 65_535);
        assert_eq!(capture([]).len(), 24);
    }
}
