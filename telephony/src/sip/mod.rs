//! The SIP edge: listeners, trunks, dialogs, and the media sockets of each call.
//!
//! Messages, transports and transactions are implemented here. The available SIP stacks log whole messages with numbers and
//! digests, queue without bound, and do not answer messages that they cannot parse. They would also leave session timers,
//! reliable provisional responses and delayed offers to us.

mod access;
mod address_holder;
mod attempts;
mod audio;
mod call;
mod dialog;
mod digest;
mod edge;
mod guesses;
mod known_peers;
mod line_counts;
mod lines;
mod message;
mod nonces;
mod numbers;
mod rate_limit;
mod reach;
mod refusals;
mod registration;
mod requirements;
mod session_timer;
mod shared;
mod stateless;
#[cfg(test)]
mod torture;
mod transaction_places;
mod transactions;
mod transport;
mod trunks;

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
};

use self::{
    edge::EdgeEntry,
    registration::Registration,
    shared::{BoundSockets, Shared},
    transport::{
        Acceptor, Flow, Receive, SipConnectionLimits, accept, bind_udp, listen_tcp, listen_udp,
    },
};
use crate::{
    leg::OfferedCall,
    settings::{Listen, Register, Sip, SipTransport, Srtp},
    times,
    trust::{Trust, TrustError},
};

pub use self::{
    refusals::RefusalCount,
    registration::{RegistrationError, registrar},
};

/// Time limit for registrars to answer the unregistration.
const UNREGISTER: Duration = Duration::from_secs(1);

/// Time limit for peers to answer our BYE.
const GOODBYE: Duration = Duration::from_secs(2);

/// Why the edge cannot start.
#[derive(Debug, thiserror::Error)]
pub enum SipError {
    #[error("{transport:?} {address} cannot be listened on: {error}; is another program on it?")]
    Listen {
        transport: SipTransport,
        address: std::net::SocketAddr,
        error: io::Error,
    },
    #[error("tls:// needs telephony.sip.tls_certificate_file and telephony.sip.tls_key_file")]
    NoCertificate,
    #[error("{0}")]
    Tls(#[from] transport::TlsError),
    #[error("{0}")]
    Trust(#[from] TrustError),
    #[error("telephony.sip.public_address `{0}` has no address in the DNS")]
    PublicAddress(String),
    #[error("trunk {trunk}: {error}")]
    Registration {
        trunk: String,
        error: RegistrationError,
    },
    #[error("the threads for media cannot be started: {0}")]
    Media(io::Error),
}

/// Outcomes of calls since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallOutcomes {
    pub answered: u64,
    pub refused: u64,
    pub cancelled: u64,
    pub failed: u64,
}

/// Counts since the start, and gauges.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EdgeStatistics {
    pub calls: usize,
    /// Calls whose caller is joined to a person.
    pub joined: usize,
    pub invites: u64,
    pub callers: CallOutcomes,
    /// Calls to persons, for transfers.
    pub persons: CallOutcomes,
    /// From INVITE to 200.
    pub answer: times::DurationCounts,
    /// From the caller's voice to the agent's silence.
    pub barge_in: times::DurationCounts,
    pub registered_trunks: usize,
    /// Over calls that have ended.
    pub packets: u64,
    pub packets_lost: u64,
    pub packets_late: u64,
    /// Ticks of 20 ms, and those that came more than 20 ms late.
    pub ticks: u64,
    pub ticks_late: u64,
    /// Strangers' messages dropped by the rate limit.
    pub strangers_dropped: u64,
    pub refused: Vec<RefusalCount>,
}

/// The edge. It runs until it is closed or dropped.
#[derive(Debug)]
pub struct Edge {
    shared: Arc<Shared>,
    entry: Arc<EdgeEntry>,
    acceptor: Option<Arc<Acceptor>>,
    tasks: Vec<JoinHandle<()>>,
    registrations: Vec<JoinHandle<()>>,
    closing: watch::Sender<bool>,
    media: Option<tokio::runtime::Runtime>,
}

/// Begins to take calls; each is sent to `incoming`, with a leg.
///
/// Errors: an address cannot be bound, or a file cannot be read.
pub async fn listen(
    settings: &Sip,
    trust: Trust,
    max_calls: usize,
    incoming: mpsc::Sender<OfferedCall>,
) -> Result<Edge, SipError> {
    let public_ip = public_ip(settings).await?;
    let media = tokio::runtime::Builder::new_multi_thread()
        .thread_name("media")
        .worker_threads(media_threads())
        .enable_all()
        .build()
        .map_err(SipError::Media)?;
    let shared = Arc::new(Shared::new(
        settings.clone(),
        trust,
        media.handle().clone(),
        public_ip,
        max_calls,
    ));
    let entry = Arc::new(EdgeEntry::new(shared.clone(), incoming));
    let mut edge = Edge {
        shared,
        entry,
        acceptor: None,
        tasks: Vec::new(),
        registrations: Vec::new(),
        closing: watch::Sender::new(false),
        media: Some(media),
    };
    edge.bind()?;
    edge.register()?;
    edge.tasks.push(tokio::spawn(sweep(edge.shared.clone())));
    Ok(edge)
}

/// Tests a trunk's registrar and credentials, without registering.
///
/// Errors: the registrar refuses, or cannot be reached.
pub async fn try_registrar(trunk: &str, register: &Register, trust: Trust) -> Result<(), SipError> {
    let any = if register.registrar.contains('[') {
        IpAddr::from(Ipv6Addr::UNSPECIFIED)
    } else {
        IpAddr::from(Ipv4Addr::UNSPECIFIED)
    };
    let settings = Sip {
        listen: vec![Listen {
            transport: SipTransport::Udp,
            address: (any, 0).into(),
        }],
        public_address: None,
        tls: None,
        rtp_ports: 0..=0,
        codecs: Vec::new(),
        srtp: Srtp::Off,
        trunks: Vec::new(),
    };
    let (incoming, _) = mpsc::channel(1);
    let edge = listen(&settings, trust, 0, incoming).await?;
    let told = |error| SipError::Registration {
        trunk: trunk.to_owned(),
        error,
    };
    let mut registration = Registration::new(edge.shared.clone(), register).map_err(told)?;
    registration.once(None).await.map_err(told)?;
    Ok(())
}

/// Binds all addresses at the same time, as [`listen`] does, and releases them. Needs a tokio runtime.
///
/// Errors: the first that cannot be bound, and why.
pub fn try_listen(all: &[Listen]) -> Result<(), (Listen, io::Error)> {
    let (mut datagrams, mut connections) = (Vec::new(), Vec::new());
    for one in all {
        let bound = match one.transport {
            SipTransport::Udp => bind_udp(one.address).map(|socket| datagrams.push(socket)),
            SipTransport::Tcp | SipTransport::Tls => {
                listen_tcp(one.address).map(|listener| connections.push(listener))
            }
        };
        bound.map_err(|error| (*one, error))?;
    }
    Ok(())
}

/// Binds the ports of one call's media for every listening address, and releases them.
///
/// Errors: no pair of the ports is free.
pub fn try_rtp_ports(settings: &Sip) -> io::Result<()> {
    for listen in &settings.listen {
        audio::bind(&settings.rtp_ports, listen.address.ip())?;
    }
    Ok(())
}

/// Ticks are short; with two threads, one that the system delays does not delay all calls.
fn media_threads() -> usize {
    std::thread::available_parallelism().map_or(2, |cores| cores.get().clamp(2, 8))
}

async fn public_ip(settings: &Sip) -> Result<Option<IpAddr>, SipError> {
    let Some(public) = &settings.public_address else {
        return Ok(None);
    };
    if let Ok(ip) = public.parse() {
        return Ok(Some(ip));
    }
    let found = tokio::net::lookup_host((public.as_str(), 0)).await;
    let first = found.ok().and_then(|mut found| found.next());
    first
        .map(|address| Some(address.ip()))
        .ok_or_else(|| SipError::PublicAddress(public.clone()))
}

async fn sweep(shared: Arc<Shared>) {
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    loop {
        tick.tick().await;
        shared.transactions.sweep(Instant::now());
    }
}

impl Edge {
    fn bind(&mut self) -> Result<(), SipError> {
        let settings = self.shared.settings.clone();
        if let Some(files) = &settings.tls {
            self.acceptor = Some(Arc::new(Acceptor::open(files)?));
        }
        let receiver: Arc<dyn Receive> = self.entry.clone();
        let limits = Arc::<SipConnectionLimits>::default();
        let (mut addresses, mut udp): (Vec<Listen>, Vec<Flow>) = Default::default();
        let mut listeners = Vec::new();
        for listen in &settings.listen {
            let Listen { transport, address } = *listen;
            let failed = |error| SipError::Listen {
                transport,
                address,
                error,
            };
            let bound = if transport == SipTransport::Udp {
                let (flow, task) = listen_udp(address, receiver.clone()).map_err(failed)?;
                self.tasks.push(task);
                let bound = flow.bound;
                udp.push(flow);
                bound
            } else {
                let tls = match transport {
                    SipTransport::Tls => {
                        Some(self.acceptor.clone().ok_or(SipError::NoCertificate)?)
                    }
                    SipTransport::Udp | SipTransport::Tcp => None,
                };
                let listener = listen_tcp(address).map_err(failed)?;
                let bound = listener.local_addr().map_err(failed)?;
                listeners.push((listener, tls));
                bound
            };
            addresses.push(Listen {
                transport,
                address: bound,
            });
        }
        let entry: Weak<EdgeEntry> = Arc::downgrade(&self.entry);
        self.shared.bound(BoundSockets {
            addresses,
            udp,
            receiver: entry,
        });
        for (listener, tls) in listeners {
            let serving = accept(listener, tls, limits.clone(), receiver.clone());
            self.tasks.push(tokio::spawn(serving));
        }
        Ok(())
    }

    /// Starts the configured registrations.
    fn register(&mut self) -> Result<(), SipError> {
        for trunk in &self.shared.settings.trunks {
            let Some(register) = &trunk.register else {
                continue;
            };
            let registration = Registration::new(self.shared.clone(), register);
            let registration = registration.map_err(|error| SipError::Registration {
                trunk: trunk.name.clone(),
                error,
            })?;
            let kept = registration.keep(trunk.name.clone(), self.closing.subscribe());
            self.registrations.push(tokio::spawn(kept));
        }
        Ok(())
    }

    /// The addresses listened on; a port of 0 is replaced by the one that was picked.
    pub fn addresses(&self) -> Vec<Listen> {
        self.shared.addresses().to_vec()
    }

    /// Takes no new calls; open calls continue.
    pub fn drain(&self) {
        self.entry.drain();
    }

    /// Reads the certificate again.
    ///
    /// Errors: the certificate is unusable; the old one stays.
    pub fn reload_tls(&self) -> Result<(), SipError> {
        match &self.acceptor {
            Some(acceptor) => Ok(acceptor.reload()?),
            None => Ok(()),
        }
    }

    /// Waits until no caller is joined to a person.
    pub async fn parted(&self) {
        self.shared.parting.closed().await;
    }

    /// Tells joined callers and persons that the bridge stops, and hangs them up by this time at the latest.
    pub fn part(&self, by: tokio::time::Instant) {
        self.shared.parting.send_replace(Some(by));
    }

    pub fn statistics(&self) -> EdgeStatistics {
        let counters = &self.shared.counters;
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let outcomes = |counted: &shared::OutcomeCounters| CallOutcomes {
            answered: of(&counted.answered),
            refused: of(&counted.refused),
            cancelled: of(&counted.cancelled),
            failed: of(&counted.failed),
        };
        EdgeStatistics {
            calls: self.shared.lines.taken(),
            joined: self.shared.parting.receiver_count(),
            invites: of(&counters.invites),
            callers: outcomes(&counters.callers),
            persons: outcomes(&counters.persons),
            answer: counters.answer.reading(),
            barge_in: counters.barge_in.reading(),
            registered_trunks: self.shared.registrations(),
            packets: of(&counters.packets),
            packets_lost: of(&counters.packets_lost),
            packets_late: of(&counters.packets_late),
            ticks: of(&counters.ticks),
            ticks_late: of(&counters.ticks_late),
            strangers_dropped: self.entry.dropped(),
            refused: self.shared.refusals.read(),
        }
    }

    /// Stops the edge once open dialogs have ended, or after a while. Calls that still exist then are cut off.
    pub async fn close(mut self) {
        let until = Instant::now() + GOODBYE;
        while self.shared.has_dialogs() && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let _ = self.closing.send(true);
        let until = tokio::time::Instant::now() + UNREGISTER;
        for registration in &mut self.registrations {
            let _ = tokio::time::timeout_at(until, registration).await;
        }
        self.stop();
    }

    fn stop(&mut self) {
        for task in self.tasks.drain(..).chain(self.registrations.drain(..)) {
            task.abort();
        }
        if let Some(media) = self.media.take() {
            media.shutdown_background();
        }
    }
}

impl Drop for Edge {
    fn drop(&mut self) {
        self.stop();
    }
}
