//! The sockets of one call's media: a pair of neighbouring ports.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket},
    ops::RangeInclusive,
};

/// Ports that are tried before the range counts as full.
const TRIES: u32 = 200;
/// Packets dropped at once: more than a socket's usual buffer holds, so that a flood ends, too.
const DROPPED_MAX: u32 = 1_000;
/// DSCP Expedited Forwarding (RFC 3246) as the TOS byte of an IP packet.
const EXPEDITED: u32 = 0xb8;

/// A pair of RTP and RTCP sockets on neighbouring ports.
#[derive(Debug)]
pub struct MediaSockets {
    pub rtp: UdpSocket,
    pub rtcp: UdpSocket,
    pub port: u16,
}

impl MediaSockets {
    /// Binds a free pair of the range, even port first.
    pub fn bind(ports: &RangeInclusive<u16>, like: IpAddr) -> io::Result<Self> {
        let any: IpAddr = match like {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let (start, end) = (u32::from(*ports.start()), u32::from(*ports.end()));
        let first = start.next_multiple_of(2);
        let pairs = (end + 1).saturating_sub(first) / 2;
        if pairs == 0 {
            return Err(io::Error::other("rtp_ports has no pair of ports"));
        }
        let begin = rand::random::<u32>() % pairs;
        for step in 0..pairs.min(TRIES) {
            let pair = (begin + step) % pairs;
            let Ok(port) = u16::try_from(first + 2 * pair) else {
                continue;
            };
            let Ok(rtp) = UdpSocket::bind((any, port)) else {
                continue;
            };
            let Ok(rtcp) = UdpSocket::bind((any, port + 1)) else {
                continue;
            };
            rtp.set_nonblocking(true)?;
            rtcp.set_nonblocking(true)?;
            // Networks with traffic classes prioritise speech. Without the permission to set the class, packets go unmarked.
            let socket = socket2::SockRef::from(&rtp);
            let _ = match any {
                IpAddr::V4(_) => socket.set_tos_v4(EXPEDITED),
                IpAddr::V6(_) => socket.set_tclass_v6(EXPEDITED),
            };
            return Ok(Self { rtp, rtcp, port });
        }
        Err(io::Error::other("all of rtp_ports is taken"))
    }

    /// Drops the packets that came so far, such as the ringing of a phone that was not answered yet.
    pub fn drop_received(&self) {
        for socket in [&self.rtp, &self.rtcp] {
            for _ in 0..DROPPED_MAX {
                if socket.recv(&mut [0]).is_err() {
                    break;
                }
            }
        }
    }

    /// Both sockets for reading, RTP first.
    pub fn readers(&self) -> io::Result<(tokio::net::UdpSocket, tokio::net::UdpSocket)> {
        let reader = |socket: &UdpSocket| tokio::net::UdpSocket::from_std(socket.try_clone()?);
        Ok((reader(&self.rtp)?, reader(&self.rtcp)?))
    }
}
