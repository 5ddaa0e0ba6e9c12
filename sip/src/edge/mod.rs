//! The edge: its listeners, registrations and media threads, from start to close.

mod access;
mod checks;
mod configured_address;
mod entry;
mod registration;
mod requirements;
mod stateless;
#[cfg(test)]
mod torture;

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
};

use self::{entry::EdgeEntry, registration::Registration};
use crate::{
    ladder::Ladder,
    leg::OfferedCall,
    message::Host,
    quality::CallQuality,
    resolution,
    settings::{ListenAddress, SipSettings, SipTransport, UserAgent},
    shared::{BoundSockets, PublicAddress, Shared},
    statistics::EdgeStatistics,
    transport::{
        Acceptor, Flow, Receive, SipConnectionLimits, TlsError, accept, listen_tcp, listen_udp,
        local,
    },
};

pub use self::{
    checks::{find_targets, try_listen, try_registrar, try_rtp_ports},
    configured_address::{AddressFault, outbound_proxy, registrar},
    registration::RegistrationError,
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
        address: SocketAddr,
        error: io::Error,
    },
    #[error("listeners for TLS need a certificate and its key")]
    NoCertificate,
    #[error("{0}")]
    Tls(#[from] TlsError),
    #[error("the public address `{0}` has no address in the DNS")]
    PublicAddress(String),
    #[error("trunk {trunk}: {error}")]
    Registration {
        trunk: String,
        error: RegistrationError,
    },
    #[error("the threads for media cannot be started: {0}")]
    Media(io::Error),
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

/// Errors: the DNS has no address of the name.
async fn public_address(settings: &SipSettings) -> Result<Option<PublicAddress>, SipError> {
    let Some(public) = &settings.public_address else {
        return Ok(None);
    };
    let host = public
        .parse()
        .unwrap_or_else(|()| Host::Name(public.clone()));
    let found = resolution::addresses(&host, 0).await.unwrap_or_default();
    if found.is_empty() {
        return Err(SipError::PublicAddress(public.clone()));
    }
    let ips = found.iter().map(SocketAddr::ip).collect();
    let networks = &settings.local_networks;
    Ok(Some(PublicAddress::new(host, ips, networks)))
}

async fn sweep(shared: Arc<Shared>) {
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    loop {
        tick.tick().await;
        shared.transactions.sweep(Instant::now());
    }
}

impl Edge {
    /// Begins to take calls; each is sent to `incoming`, with a leg. `tls` is for connections to peers.
    ///
    /// Errors: an address cannot be bound, or a file cannot be read.
    pub async fn start(
        settings: SipSettings,
        user_agent: UserAgent,
        tls: Arc<rustls::ClientConfig>,
        incoming: mpsc::Sender<OfferedCall>,
    ) -> Result<Self, SipError> {
        let public = public_address(&settings).await?;
        let media = tokio::runtime::Builder::new_multi_thread()
            .thread_name("media")
            .worker_threads(settings.threads.max(1))
            .enable_all()
            .build()
            .map_err(SipError::Media)?;
        let shared = Shared::new(settings, user_agent, tls, media.handle().clone(), public);
        let shared = Arc::new(shared);
        let entry = Arc::new(EdgeEntry::new(shared.clone(), incoming));
        let mut edge = Self {
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

    fn bind(&mut self) -> Result<(), SipError> {
        let settings = self.shared.settings.clone();
        if let Some(files) = &settings.tls {
            self.acceptor = Some(Arc::new(Acceptor::open(files)?));
        }
        let receiver: Arc<dyn Receive> = self.entry.clone();
        let limits = Arc::<SipConnectionLimits>::default();
        let (mut addresses, mut udp): (Vec<ListenAddress>, Vec<Flow>) = Default::default();
        let mut listeners = Vec::new();
        for listen in &settings.listen {
            let ListenAddress { transport, address } = *listen;
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
            addresses.push(ListenAddress {
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
    pub fn addresses(&self) -> Vec<ListenAddress> {
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

    /// The SIP messages of the call with this id of ours; `None` if it was never offered, or is forgotten.
    pub fn ladder(&self, id: &str) -> Option<Ladder> {
        let mut ladder = self.shared.ladders.read(id)?;
        for message in &mut ladder.messages {
            message.local = local(message.local, message.remote);
        }
        Some(ladder)
    }

    /// Forgets the SIP messages of a call.
    pub fn forget_ladder(&self, id: &str) {
        self.shared.ladders.forget(id);
    }

    /// The quality of the call with this id of ours; `None` if it had no media, or is forgotten.
    pub fn quality(&self, id: &str) -> Option<CallQuality> {
        self.shared.qualities.read(id)
    }

    pub fn statistics(&self) -> EdgeStatistics {
        EdgeStatistics {
            calls: self.shared.lines.taken(),
            joined: Arc::strong_count(&self.shared.joined) - 1,
            registered_trunks: self.shared.registrars.count(),
            strangers_dropped: self.entry.dropped(),
            refused: self.shared.refusals.read(),
            ..self.shared.counters.read()
        }
    }

    /// Stops the edge once open dialogs have ended, or after a while. Calls that still exist then are cut off.
    pub async fn close(mut self) {
        let until = Instant::now() + GOODBYE;
        while !self.shared.dialogs.is_empty() && Instant::now() < until {
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
