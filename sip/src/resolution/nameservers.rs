//! Asks the configured nameservers, or those of this machine, for services and addresses. `hickory-resolver` sends the questions and
//! reads the answers.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use hickory_resolver::{
    NameServerPool, PoolContext, TlsConfig,
    config::{ConnectionConfig, NameServerConfig, ResolverOpts},
    net::{
        DnsError, NetError,
        runtime::TokioRuntimeProvider,
        xfer::{DnsHandle, FirstAnswer},
    },
    proto::{
        op::{DnsRequestOptions, Query},
        rr::{Name, RData, RecordType},
    },
    system_conf::read_system_conf,
};
use tokio::time::{Duration, timeout};

use super::records::{PointerRecord, ServiceRecord};

/// Time limit of one nameserver, after which the next is asked.
const ANSWERED: Duration = Duration::from_secs(2);
/// Time limit for a name's IPv6 addresses, once those of IPv4 are known: some nameservers drop such questions.
const SECOND_FAMILY: Duration = Duration::from_millis(500);
/// As many as the system itself asks.
const SERVERS_MAX: usize = 3;
/// Records of an answer that are read.
const RECORDS_MAX: usize = 64;
const PORT: u16 = 53;

#[derive(Debug)]
pub struct Nameservers {
    all: Vec<SocketAddr>,
    /// They are not those of the system.
    is_configured: bool,
    /// Index of the one that is asked first: the last that answered, or the one after the last that did not.
    first: AtomicUsize,
}

impl Nameservers {
    /// These, or those of the system if there are none.
    pub fn new(configured: &[SocketAddr]) -> Self {
        let servers = match configured {
            [] => of_system(),
            configured => configured.to_vec(),
        };
        Self {
            all: servers.into_iter().take(SERVERS_MAX).collect(),
            is_configured: !configured.is_empty(),
            first: AtomicUsize::new(0),
        }
    }

    /// The SRV records of a name.
    ///
    /// Errors: no nameserver answers.
    pub async fn services(&self, name: &str) -> io::Result<Vec<ServiceRecord>> {
        let found = self.ask(name, RecordType::SRV).await?;
        Ok(found.iter().filter_map(ServiceRecord::read).collect())
    }

    /// The NAPTR records of a name.
    ///
    /// Errors: no nameserver answers.
    pub async fn pointers(&self, name: &str) -> io::Result<Vec<PointerRecord>> {
        let found = self.ask(name, RecordType::NAPTR).await?;
        Ok(found.iter().filter_map(PointerRecord::read).collect())
    }

    /// The addresses of a name; none if the system's resolver is to be asked, which also knows `/etc/hosts`.
    ///
    /// Errors: no nameserver answers.
    pub async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        if !self.is_configured || !name.contains('.') {
            return Ok(Vec::new());
        }
        let v4 = self.ask(name, RecordType::A).await;
        let v6 = timeout(SECOND_FAMILY, self.ask(name, RecordType::AAAA)).await;
        let v6 = v6.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let (v4, v6) = match (v4, v6) {
            (Err(error), Err(_)) => return Err(error),
            (v4, v6) => (v4.unwrap_or_default(), v6.unwrap_or_default()),
        };
        let address = |data: &RData| match data {
            RData::A(address) => Some(IpAddr::V4(address.0)),
            RData::AAAA(address) => Some(IpAddr::V6(address.0)),
            _ => None,
        };
        Ok(v4.iter().chain(&v6).filter_map(address).collect())
    }

    async fn ask(&self, name: &str, kind: RecordType) -> io::Result<Vec<RData>> {
        let Ok(mut name) = Name::from_ascii(name) else {
            return Ok(Vec::new());
        };
        name.set_fqdn(true);
        let query = Query::query(name, kind);
        let count = self.all.len();
        let first = self.first.load(Ordering::Relaxed);
        for at in (first..first + count).map(|at| at % count) {
            let asked = ask_one(self.all[at], query.clone());
            if let Ok(Ok(records)) = timeout(ANSWERED, asked).await {
                self.first.store(at, Ordering::Relaxed);
                return Ok(records);
            }
            self.first.store((at + 1) % count, Ordering::Relaxed);
        }
        Err(io::ErrorKind::TimedOut.into())
    }
}

/// The nameservers in the settings of the system.
fn of_system() -> Vec<SocketAddr> {
    match read_system_conf() {
        Ok((settings, _)) => {
            let servers = settings.name_servers.iter();
            servers
                .map(|server| SocketAddr::new(server.ip, PORT))
                .collect()
        }
        Err(error) => {
            tracing::warn!(%error, "could not read the system's nameservers; set telephony.sip.nameservers");
            Vec::new()
        }
    }
}

/// Asks over UDP, and over TCP if the answer is too long for a datagram. A name without such records has none.
async fn ask_one(server: SocketAddr, query: Query) -> Result<Vec<RData>, NetError> {
    let [udp, tcp] = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
    match answers(server, vec![udp, tcp.clone()], query.clone()).await {
        // The library cannot read an answer that is cut inside a record, although it is marked as truncated.
        Err(NetError::Proto(_)) => answers(server, vec![tcp], query).await,
        answered => answered,
    }
}

/// Each nameserver has a pool of its own: a pool of several spends its whole time limit on the first that is silent. The pool is
/// used rather than the resolver, which does not find SRV records behind a CNAME and caches what is missing.
async fn answers(
    server: SocketAddr,
    mut connections: Vec<ConnectionConfig>,
    query: Query,
) -> Result<Vec<RData>, NetError> {
    for connection in &mut connections {
        connection.port = server.port();
    }
    let server = NameServerConfig::new(server.ip(), true, connections);
    let mut limits = ResolverOpts::default();
    limits.timeout = ANSWERED;
    let context = Arc::new(PoolContext::new(limits, TlsConfig::new()?));
    let pool = NameServerPool::from_config([server], context, TokioRuntimeProvider::new());
    let mut options = DnsRequestOptions::default();
    options.use_edns = false;
    match pool.lookup(query, options).first_answer().await {
        Ok(response) => {
            let answers = response.into_message().answers.into_iter();
            Ok(answers
                .map(|record| record.data)
                .take(RECORDS_MAX)
                .collect())
        }
        Err(NetError::Dns(DnsError::NoRecordsFound(_))) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use futures_util::future::join_all;
    use hickory_resolver::proto::{
        op::{Message, MessageType, ResponseCode},
        rr::{
            Record,
            rdata::{A, AAAA, CNAME, NAPTR, SRV},
        },
    };
    use tokio::{net::UdpSocket, sync::mpsc, time::Instant};

    use super::*;

    const ALIAS: &str = "_sip._udp.trunk.example";

    fn name(text: &str) -> Name {
        Name::from_ascii(text).unwrap()
    }

    /// The answer to a question: an SRV record behind an alias, or a NAPTR record.
    fn answer(question: &[u8]) -> Message {
        let mut message = Message::from_vec(question).unwrap();
        message.metadata.message_type = MessageType::Response;
        let asked = message.queries[0].clone();
        let mut add = |owner: Name, data| {
            message.add_answer(Record::from_rdata(owner, 60, data));
        };
        if asked.query_type() == RecordType::A {
            let address = Ipv4Addr::new(192, 0, 2, 7);
            add(asked.name().clone(), RData::A(A(address)));
        } else if asked.query_type() == RecordType::AAAA {
            add(asked.name().clone(), RData::AAAA(AAAA(Ipv6Addr::LOCALHOST)));
        } else if asked.query_type() == RecordType::SRV {
            let provider = name("_sip._udp.provider.example.");
            add(asked.name().clone(), RData::CNAME(CNAME(provider.clone())));
            let target = name("sbc1.provider.example.");
            add(provider, RData::SRV(SRV::new(10, 5, 5060, target)));
        } else {
            let [flags, service, regexp] = ["s", "SIP+D2U", ""].map(|text| text.as_bytes().into());
            let replacement = name("_sip._udp.trunk.example.");
            let pointer = NAPTR::new(1, 2, flags, service, regexp, replacement);
            add(asked.name().clone(), RData::NAPTR(pointer));
        }
        message
    }

    /// A nameserver whose answers are changed by this function. Returns its address.
    async fn nameserver(
        mut change: impl FnMut(Message) -> Option<Vec<u8>> + Send + 'static,
    ) -> SocketAddr {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        tokio::spawn(async move {
            let mut buffer = [0; 512];
            loop {
                let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
                if let Some(bytes) = change(answer(&buffer[..length])) {
                    socket.send_to(&bytes, from).await.unwrap();
                }
            }
        });
        address
    }

    fn whole(message: Message) -> Option<Vec<u8>> {
        Some(message.to_vec().unwrap())
    }

    fn coded(code: ResponseCode) -> impl FnMut(Message) -> Option<Vec<u8>> {
        move |mut message| {
            message.metadata.response_code = code;
            message.answers.clear();
            whole(message)
        }
    }

    #[tokio::test]
    async fn records_are_read_also_behind_an_alias() {
        let servers = Nameservers::new(&[nameserver(whole).await]);
        let service = ServiceRecord {
            priority: 10,
            weight: 5,
            port: 5060,
            target: "sbc1.provider.example".to_owned(),
        };
        assert_eq!(servers.services(ALIAS).await.unwrap(), [service]);
        let pointer = PointerRecord {
            order: 1,
            preference: 2,
            flags: "s".to_owned(),
            service: "SIP+D2U".to_owned(),
            replacement: ALIAS.to_owned(),
        };
        assert_eq!(servers.pointers("trunk.example").await.unwrap(), [pointer]);
        for name in ["a..b", &"a".repeat(64), &"a.".repeat(128)] {
            assert_eq!(servers.services(name).await.unwrap(), [], "{name}");
        }
    }

    #[tokio::test]
    async fn configured_nameservers_are_asked_for_addresses() {
        let servers = Nameservers::new(&[nameserver(whole).await]);
        let found = servers.addresses("sbc1.provider.example").await.unwrap();
        let expected: [IpAddr; 2] = [[192, 0, 2, 7].into(), Ipv6Addr::LOCALHOST.into()];
        assert_eq!(found, expected);
        assert!(servers.addresses("localhost").await.unwrap().is_empty());
        let of_system = Nameservers::new(&[]).addresses("a.example").await;
        assert!(of_system.unwrap().is_empty());
    }

    #[tokio::test]
    async fn the_next_nameserver_is_asked_after_a_failure_or_silence() {
        let good = nameserver(whole).await;
        let none = nameserver(coded(ResponseCode::NXDomain)).await;
        let failing = nameserver(coded(ResponseCode::ServFail)).await;
        let ask = async |servers: &[SocketAddr]| Nameservers::new(servers).services(ALIAS).await;
        assert_eq!(ask(&[none, good]).await.unwrap(), []);
        assert_eq!(ask(&[failing, good]).await.unwrap().len(), 1);
        assert!(ask(&[failing]).await.is_err());
        let (asks, mut asked) = mpsc::unbounded_channel();
        let silent = nameserver(move |_| {
            let _ = asks.send(());
            None
        });
        let servers = Nameservers::new(&[silent.await, good]);
        let started = Instant::now();
        assert_eq!(servers.services(ALIAS).await.unwrap().len(), 1);
        assert!(started.elapsed() < ANSWERED + ANSWERED / 2);
        while asked.try_recv().is_ok() {}
        // Then the one that answered is asked first.
        assert_eq!(servers.services(ALIAS).await.unwrap().len(), 1);
        assert!(asked.try_recv().is_err());
    }

    #[tokio::test]
    async fn any_bytes_are_read_or_refused() {
        // Behind the id and the question, which a forger would have to guess.
        let behind = 12 + ALIAS.len() + 2 + 4;
        let mut places = (2..12).chain(behind..behind + 100).cycle();
        let damaged = nameserver(move |message| {
            let mut bytes = message.to_vec().unwrap();
            let at = places.next().unwrap() % bytes.len();
            bytes[at] = !bytes[at];
            Some(bytes)
        });
        let servers = Nameservers::new(&[damaged.await]);
        join_all((0..220).map(|_| servers.services(ALIAS))).await;
    }
}
