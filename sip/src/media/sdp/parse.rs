//! Parses the parts of SDP that a call needs. Texts longer than any phone sends are refused, unknown lines are skipped.

use std::net::IpAddr;

use super::{MediaDirection, SdpRefusal, unreadable};

const BYTES_MAX: usize = 16 * 1_024;
const MEDIA_MAX: usize = 16;
const FORMATS_MAX: usize = 64;
const CRYPTO_MAX: usize = 8;

#[derive(Debug, Default)]
pub struct Description<'a> {
    /// Address of the media; `Some(None)` if it is a name, or invalid.
    pub address: Option<Option<IpAddr>>,
    pub direction: Option<MediaDirection>,
    pub media: Vec<MediaDescription<'a>>,
}

/// An `m=` line with the lines below it.
#[derive(Debug)]
pub struct MediaDescription<'a> {
    pub kind: &'a str,
    /// 0 refuses the stream.
    pub port: u16,
    pub protocol: &'a str,
    pub secured: Secured,
    /// The first format as written; a refusal has to name one.
    pub first_format: &'a str,
    pub formats: Vec<PayloadFormat<'a>>,
    pub address: Option<Option<IpAddr>>,
    pub direction: Option<MediaDirection>,
    pub rtcp: Option<(u16, Option<IpAddr>)>,
    pub rtcp_mux: bool,
    /// The longest packets that it takes, in milliseconds.
    pub max_ms: Option<u32>,
    pub crypto: Vec<&'a str>,
}

/// A payload type and its codec.
#[derive(Debug)]
pub struct PayloadFormat<'a> {
    pub payload: u8,
    pub name: &'a str,
    pub clock: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secured {
    No,
    /// With keys in the SDP.
    Yes,
    /// Secured by another method, such as DTLS.
    Otherwise,
}

impl<'a> Description<'a> {
    pub fn read(text: &'a str) -> Result<Self, SdpRefusal> {
        if text.len() > BYTES_MAX {
            return Err(unreadable("the SDP is longer than 16 KiB"));
        }
        let mut lines = text
            .lines()
            .map(str::trim_end)
            .filter(|line| !line.is_empty());
        if lines.next() != Some("v=0") {
            return Err(unreadable("the SDP does not begin with v=0"));
        }
        let mut description = Self::default();
        for line in lines {
            let (key, value) = line
                .split_once('=')
                .filter(|(key, _)| key.len() == 1)
                .ok_or_else(|| unreadable("the SDP has a line that is not of the form x=…"))?;
            match key {
                "m" if description.media.len() == MEDIA_MAX => {
                    return Err(unreadable("the SDP has more than 16 streams"));
                }
                "m" => description.media.push(MediaDescription::read(value)?),
                "c" => *description.place() = Some(address(value)),
                "a" => description.attribute(value),
                _ => {}
            }
        }
        Ok(description)
    }

    /// The field for the next address: that of the current stream, or of the session.
    fn place(&mut self) -> &mut Option<Option<IpAddr>> {
        match self.media.last_mut() {
            Some(media) => &mut media.address,
            None => &mut self.address,
        }
    }

    fn attribute(&mut self, value: &'a str) {
        let direction = MediaDirection::ALL
            .into_iter()
            .find(|direction| direction.name() == value);
        match (self.media.last_mut(), direction) {
            (Some(media), Some(_)) => media.direction = direction,
            (None, Some(_)) => self.direction = direction,
            (Some(media), None) => media.attribute(value),
            (None, None) => {}
        }
    }
}

impl<'a> MediaDescription<'a> {
    fn read(value: &'a str) -> Result<Self, SdpRefusal> {
        let wrong = || unreadable("the SDP has an m= line that cannot be read");
        let mut words = value.split_ascii_whitespace();
        let (Some(kind), Some(port), Some(protocol), Some(first_format)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(wrong());
        };
        // `49170/2` is a range of ports; the first is used.
        let port = port
            .split('/')
            .next()
            .and_then(|port| port.parse().ok())
            .ok_or_else(wrong)?;
        let formats = std::iter::once(first_format).chain(words).take(FORMATS_MAX);
        Ok(Self {
            kind,
            port,
            protocol,
            secured: secured(protocol),
            first_format,
            formats: formats.filter_map(PayloadFormat::of_number).collect(),
            address: None,
            direction: None,
            rtcp: None,
            rtcp_mux: false,
            max_ms: None,
            crypto: Vec::new(),
        })
    }

    fn attribute(&mut self, attribute: &'a str) {
        let (name, value) = attribute.split_once(':').unwrap_or((attribute, ""));
        match name {
            "rtpmap" => {
                self.map(value);
            }
            "rtcp" => self.rtcp = rtcp(value),
            "rtcp-mux" => self.rtcp_mux = true,
            "maxptime" => self.max_ms = value.trim().parse().ok(),
            "crypto" if self.crypto.len() < CRYPTO_MAX => self.crypto.push(value),
            _ => {}
        }
    }

    /// `111 opus/48000/2`
    fn map(&mut self, value: &'a str) -> Option<()> {
        let (payload, encoding) = value.split_once(' ')?;
        let payload: u8 = payload.parse().ok()?;
        let format = self
            .formats
            .iter_mut()
            .find(|format| format.payload == payload)?;
        let mut parts = encoding.trim().split('/');
        format.name = parts.next()?;
        format.clock = parts.next()?.parse().ok()?;
        Some(())
    }
}

impl<'a> PayloadFormat<'a> {
    /// Static payload types that need no `rtpmap` (RFC 3551), and dynamic ones that wait for theirs.
    fn of_number(number: &'a str) -> Option<Self> {
        let payload = number.parse().ok().filter(|payload| *payload < 128)?;
        let (name, clock) = match payload {
            0 => ("PCMU", 8_000),
            8 => ("PCMA", 8_000),
            9 => ("G722", 8_000),
            _ => ("", 0),
        };
        Some(Self {
            payload,
            name,
            clock,
        })
    }
}

fn secured(protocol: &str) -> Secured {
    match protocol {
        "RTP/AVP" | "RTP/AVPF" => Secured::No,
        "RTP/SAVP" | "RTP/SAVPF" => Secured::Yes,
        _ => Secured::Otherwise,
    }
}

/// `IN IP4 192.0.2.1/127`; `None` for a name, which would need a DNS query.
fn address(value: &str) -> Option<IpAddr> {
    let mut words = value.split_ascii_whitespace();
    let ("IN", kind, address) = (words.next()?, words.next()?, words.next()?) else {
        return None;
    };
    let address: IpAddr = address.split('/').next()?.parse().ok()?;
    let right = match kind {
        "IP4" => address.is_ipv4(),
        "IP6" => address.is_ipv6(),
        _ => false,
    };
    (right && !address.to_canonical().is_multicast()).then_some(address)
}

/// `53020 IN IP4 192.0.2.1`; the address is optional.
fn rtcp(value: &str) -> Option<(u16, Option<IpAddr>)> {
    let (port, behind) = value.split_once(' ').unwrap_or((value, ""));
    let port = port.parse().ok().filter(|port| *port != 0)?;
    Some((port, address(behind)))
}
