//! Asks the nameservers of this machine for services.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UdpSocket},
    time::{Duration, timeout},
};

use super::records::{DnsFault, DnsRecords, RecordKind, answer, question};

/// Time limit of one nameserver, after which the next is asked.
const ANSWERED: Duration = Duration::from_secs(2);
/// As many as the system itself asks.
const SERVERS_MAX: usize = 3;
/// The longest answer over UDP without extensions is shorter.
const DATAGRAM_BYTES: usize = 1_232;
const SETTINGS: &str = "/etc/resolv.conf";

#[derive(Debug)]
pub struct Nameservers(Vec<SocketAddr>);

impl Nameservers {
    /// These, or those of the system if there are none.
    pub fn new(configured: &[SocketAddr]) -> Self {
        let servers = match configured {
            [] => listed(&std::fs::read_to_string(SETTINGS).unwrap_or_default()),
            configured => configured.to_vec(),
        };
        Self(servers.into_iter().take(SERVERS_MAX).collect())
    }

    /// The records of a name.
    ///
    /// Errors: no nameserver answers.
    pub async fn ask(&self, name: &str, kind: RecordKind) -> io::Result<DnsRecords> {
        let Some(question) = question(rand::random(), name, kind) else {
            return Ok(DnsRecords::default());
        };
        for server in &self.0 {
            if let Ok(Ok(records)) = timeout(ANSWERED, asked(*server, &question)).await {
                return Ok(records);
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }
}

/// The nameservers in the settings of the system.
fn listed(settings: &str) -> Vec<SocketAddr> {
    let words = settings.lines().map(|line| {
        let mut words = line.split_ascii_whitespace();
        (words.next(), words.next())
    });
    let servers = words.filter_map(|words| match words {
        (Some("nameserver"), Some(address)) => address.parse::<IpAddr>().ok(),
        _ => None,
    });
    servers.map(|ip| SocketAddr::new(ip, 53)).collect()
}

async fn asked(server: SocketAddr, question: &[u8]) -> io::Result<DnsRecords> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // Each question has a port of its own, which a forger would have to guess.
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(server).await?;
    socket.send(question).await?;
    let mut buffer = [0; DATAGRAM_BYTES];
    loop {
        let length = socket.recv(&mut buffer).await?;
        match answer(&buffer[..length], question) {
            Ok(records) => return Ok(records),
            // It may be forged; the right one may follow.
            Err(DnsFault::Unreadable) => {}
            Err(DnsFault::Truncated) => return whole(server, question).await,
            Err(DnsFault::Failed) => return Err(io::Error::other("the nameserver failed")),
        }
    }
}

/// Asks over TCP, for an answer that is too long for a datagram.
async fn whole(server: SocketAddr, question: &[u8]) -> io::Result<DnsRecords> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(question.len()).map_err(io::Error::other)?;
    stream.write_all(&length.to_be_bytes()).await?;
    stream.write_all(question).await?;
    let length = stream.read_u16().await?;
    let mut message = vec![0; usize::from(length)];
    stream.read_exact(&mut message).await?;
    answer(&message, question).map_err(|_| io::Error::other("the nameserver failed"))
}

#[cfg(test)]
mod tests {
    use super::listed;

    #[test]
    fn the_nameservers_of_the_system_are_found() {
        let settings = "# nameserver 192.0.2.9\nsearch example.com\nnameserver 192.0.2.1\n\
                        nameserver\t2001:db8::1\noptions edns0\nnameserver nonsense\nnameserver\n";
        let found = listed(settings);
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found, ["192.0.2.1:53", "[2001:db8::1]:53"]);
        assert!(listed("").is_empty());
    }
}
