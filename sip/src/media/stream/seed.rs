//! The start of a stream's own numbers.

/// Random start values of this side's RTP numbers and names.
#[derive(Debug, Clone, Copy)]
pub struct RtpSeed {
    pub ssrc: u32,
    pub sequence: u16,
    pub timestamp: u32,
    pub cname: u64,
}

impl RtpSeed {
    pub fn new(random: [u8; 18]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, name @ ..] = random;
        Self {
            ssrc: u32::from_be_bytes([a, b, c, d]),
            // Below the middle, so that no packet lost at the start makes SRTP miss a wrap (RFC 3711, section 3.3.1).
            sequence: u16::from_be_bytes([e, f]) & 0x7fff,
            timestamp: u32::from_be_bytes([g, h, i, j]),
            cname: u64::from_be_bytes(name),
        }
    }
}
