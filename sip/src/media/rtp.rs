//! RTP packets (RFC 3550, section 5.1), read and written.

/// The fixed part of the header.
pub const HEADER_BYTES: usize = 12;
/// Longer packets are dropped.
pub const PACKET_BYTES_MAX: usize = 2_048;

const VERSION: u8 = 2;

/// A parsed packet; its payload is without padding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    pub header: Header,
    pub payload: &'a [u8],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub marker: bool,
    /// Seven bits.
    pub payload_type: u8,
    pub sequence: u16,
    pub timestamp: u32,
    pub ssrc: u32,
}

/// The fault of a packet that should be RTP or RTCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("shorter than it says")]
    Short,
    #[error("longer than any packet of a call")]
    Long,
    #[error("not version 2")]
    Version,
    #[error("more padding than packet")]
    Padding,
}

/// Distinguishes RTCP from RTP on a shared port (RFC 5761, section 4).
pub fn is_rtcp(bytes: &[u8]) -> bool {
    bytes.get(1).is_some_and(|kind| (192..=223).contains(kind))
}

/// Offset of the payload, behind contributing sources and header extension.
pub fn payload_at(bytes: &[u8]) -> Result<usize, Malformed> {
    let fixed = bytes
        .first_chunk::<HEADER_BYTES>()
        .ok_or(Malformed::Short)?;
    if bytes.len() > PACKET_BYTES_MAX {
        return Err(Malformed::Long);
    }
    if fixed[0] >> 6 != VERSION {
        return Err(Malformed::Version);
    }
    let behind_sources = HEADER_BYTES + 4 * usize::from(fixed[0] & 0x0f);
    let mut at = behind_sources;
    if fixed[0] & 0x10 != 0 {
        let extension = bytes.get(at..at + 4).ok_or(Malformed::Short)?;
        at += 4 + 4 * usize::from(u16::from_be_bytes([extension[2], extension[3]]));
    }
    if at > bytes.len() {
        return Err(Malformed::Short);
    }
    Ok(at)
}

pub fn header(bytes: &[u8]) -> Result<Header, Malformed> {
    let fixed = bytes
        .first_chunk::<HEADER_BYTES>()
        .ok_or(Malformed::Short)?;
    let [_, kind, s0, s1, t0, t1, t2, t3, r0, r1, r2, r3] = *fixed;
    Ok(Header {
        marker: kind & 0x80 != 0,
        payload_type: kind & 0x7f,
        sequence: u16::from_be_bytes([s0, s1]),
        timestamp: u32::from_be_bytes([t0, t1, t2, t3]),
        ssrc: u32::from_be_bytes([r0, r1, r2, r3]),
    })
}

pub fn read(bytes: &[u8]) -> Result<Packet<'_>, Malformed> {
    let at = payload_at(bytes)?;
    let mut payload = &bytes[at..];
    if bytes[0] & 0x20 != 0 {
        let padding = usize::from(*payload.last().ok_or(Malformed::Padding)?);
        if padding == 0 || padding > payload.len() {
            return Err(Malformed::Padding);
        }
        payload = &payload[..payload.len() - padding];
    }
    Ok(Packet {
        header: header(bytes)?,
        payload,
    })
}

/// Begins a packet in `out`; the payload is appended behind it.
pub fn begin(header: &Header, out: &mut Vec<u8>) {
    out.clear();
    out.push(VERSION << 6);
    out.push(u8::from(header.marker) << 7 | header.payload_type & 0x7f);
    out.extend_from_slice(&header.sequence.to_be_bytes());
    out.extend_from_slice(&header.timestamp.to_be_bytes());
    out.extend_from_slice(&header.ssrc.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Header, Malformed, PACKET_BYTES_MAX, begin, read};

    /// Marker, payload type 96, two sources, an extension of one word, three bytes of padding.
    const FULL: &[u8] = &[
        0b1011_0010,
        0x80 | 96,
        0x12,
        0x34,
        0xde,
        0xca,
        0xfb,
        0xad,
        0xca,
        0xfe,
        0xba,
        0xbe, // header
        0,
        0,
        0,
        1,
        0,
        0,
        0,
        2, // sources
        0xbe,
        0xde,
        0,
        1,
        0x10,
        0xaa,
        0,
        0, // extension
        1,
        2,
        3,
        4, // payload
        0,
        0,
        3, // padding
    ];

    #[test]
    fn sources_extension_and_padding_are_stepped_over() {
        let packet = read(FULL).expect("a packet");
        assert_eq!(packet.payload, [1, 2, 3, 4]);
        let header = Header {
            marker: true,
            payload_type: 96,
            sequence: 0x1234,
            timestamp: 0xdeca_fbad,
            ssrc: 0xcafe_babe,
        };
        assert_eq!(packet.header, header);
    }

    #[test]
    fn what_lies_about_its_length_is_refused() {
        let changed = |at: usize, value: u8| {
            let mut bytes = FULL.to_vec();
            bytes[at] = value;
            read(&bytes).map(|_| ())
        };
        assert_eq!(changed(0, 0b0111_0010), Err(Malformed::Version));
        assert_eq!(changed(0, 0b1011_1111), Err(Malformed::Short), "sources");
        assert_eq!(changed(23, 0xff), Err(Malformed::Short), "extension");
        assert_eq!(changed(FULL.len() - 1, 0), Err(Malformed::Padding));
        assert_eq!(changed(FULL.len() - 1, 8), Err(Malformed::Padding));
        assert_eq!(read(&FULL[..11]), Err(Malformed::Short));
        assert_eq!(read(&[0x80; PACKET_BYTES_MAX + 1]), Err(Malformed::Long));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_packet_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(packet) = read(&bytes) {
                prop_assert!(packet.payload.len() + super::HEADER_BYTES <= bytes.len());
            }
        }

        #[test]
        fn what_is_written_is_read(
            marker: bool, payload_type in 0_u8..128, sequence: u16, timestamp: u32, ssrc: u32,
            payload in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let header = Header { marker, payload_type, sequence, timestamp, ssrc };
            let mut bytes = vec![9; 5];
            begin(&header, &mut bytes);
            bytes.extend_from_slice(&payload);
            let packet = read(&bytes).expect("a packet");
            prop_assert_eq!(packet.header, header);
            prop_assert_eq!(packet.payload, payload.as_slice());
        }
    }
}
