//! State shared by all calls and registrations of an edge: sockets, transactions, open dialogs, counters.

mod routes;

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};

use super::{
    attempts::{CallAttempt, CallAttempts},
    dialog::{self, Dialog},
    lines::Lines,
    message::{Host, SipRequest, SipResponse, Uri},
    refusals::Refusals,
    transactions::{Responder, Transactions},
    transport::{Flow, Receive},
};
use crate::{
    settings::{Listen, Sip, SipTransport, Trunk},
    times::DurationHistogram,
    trust::Trust,
};

/// Methods that are served.
pub const ALLOW: &str = "INVITE, ACK, CANCEL, BYE, OPTIONS, UPDATE, PRACK, NOTIFY, INFO";
/// Accepted body types of an offer or answer.
pub const ACCEPT: &str = "application/sdp, multipart/mixed";
/// Retry-After of a 503.
pub const RETRY_AFTER_SECONDS: u32 = 10;
pub const SUPPORTED: &str = "timer, 100rel";
/// Extensions that a request may require.
pub const EXTENSIONS: [&str; 2] = ["timer", "100rel"];
pub const USER_AGENT: &str = concat!("Dikala/", env!("CARGO_PKG_VERSION"));

/// A message to a call's task.
#[derive(Debug)]
pub enum DialogMessage {
    Request(SipRequest, Responder),
    Ack(SipRequest),
}

#[derive(Debug, Default)]
pub struct OutcomeCounters {
    pub answered: AtomicU64,
    pub refused: AtomicU64,
    pub cancelled: AtomicU64,
    pub failed: AtomicU64,
}

/// Counters since the start.
#[derive(Debug, Default)]
pub struct EdgeCounters {
    pub invites: AtomicU64,
    pub callers: OutcomeCounters,
    /// Calls to persons, for transfers.
    pub persons: OutcomeCounters,
    pub packets: AtomicU64,
    pub packets_lost: AtomicU64,
    pub packets_late: AtomicU64,
    pub ticks: AtomicU64,
    pub ticks_late: AtomicU64,
    /// From INVITE to 200.
    pub answer: DurationHistogram,
    /// From the caller's voice to the agent's silence.
    pub barge_in: DurationHistogram,
}

pub fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

#[derive(Debug)]
pub struct Shared {
    pub settings: Sip,
    trust: Trust,
    pub transactions: Arc<Transactions>,
    /// The runtime of the media threads.
    pub media: tokio::runtime::Handle,
    pub counters: EdgeCounters,
    pub refusals: Refusals,
    /// The address for SDP, if `public_address` is set.
    pub public_ip: Option<IpAddr>,
    /// Set once the bridge stops: the time by which joined legs must be parted.
    pub parting: watch::Sender<Option<Instant>>,
    dialogs: Mutex<Dialogs>,
    pub lines: Arc<Lines>,
    sockets: OnceLock<BoundSockets>,
    /// Address of each trunk's registrar, by the trunk's name; two trunks may share a registrar.
    registrars: Mutex<HashMap<String, SocketAddr>>,
}

/// The bound sockets.
pub struct BoundSockets {
    pub addresses: Vec<Listen>,
    pub udp: Vec<Flow>,
    pub receiver: Weak<dyn Receive>,
}

impl std::fmt::Debug for BoundSockets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.addresses).finish()
    }
}

/// The open dialogs, and their number per peer address.
#[derive(Debug, Default)]
struct Dialogs {
    inboxes: HashMap<String, mpsc::Sender<DialogMessage>>,
    peers: HashMap<IpAddr, usize>,
    /// Attempts of incoming calls.
    attempts: CallAttempts,
}

/// Registers a dialog, so that its messages are found, until this is dropped.
#[derive(Debug)]
pub struct DialogRegistration {
    shared: Arc<Shared>,
    key: String,
    /// The attempt of an incoming call, until it is refused.
    attempt: Option<CallAttempt>,
    peer: IpAddr,
}

impl DialogRegistration {
    /// To be called before a refusal is sent: the caller may then call again with the same Call-ID and tag.
    pub fn free_caller(&mut self) {
        if let Some(attempt) = self.attempt.take() {
            self.shared.dialogs().attempts.end(&attempt);
        }
    }

    /// To be called before an incoming call is reported to the service. Returns the number that distinguishes it from the
    /// caller's first call, if any.
    pub fn mark_reported(&mut self) -> Option<u32> {
        self.attempt.as_mut().and_then(CallAttempt::mark_reported)
    }

    /// To be called before the answer is sent.
    pub fn answered(&mut self) {
        if let Some(attempt) = &mut self.attempt {
            attempt.answered();
        }
    }
}

impl Drop for DialogRegistration {
    fn drop(&mut self) {
        self.free_caller();
        let mut dialogs = self.shared.dialogs();
        dialogs.inboxes.remove(&self.key);
        if let Some(count) = dialogs.peers.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                dialogs.peers.remove(&self.peer);
            }
        }
    }
}

impl Shared {
    pub fn new(
        settings: Sip,
        trust: Trust,
        media: tokio::runtime::Handle,
        public_ip: Option<IpAddr>,
        max_calls: usize,
    ) -> Self {
        Self {
            lines: Arc::new(Lines::new(max_calls, settings.trunks.len())),
            settings,
            trust,
            transactions: Arc::default(),
            media,
            counters: EdgeCounters::default(),
            refusals: Refusals::default(),
            public_ip,
            parting: watch::Sender::new(None),
            dialogs: Mutex::default(),
            sockets: OnceLock::new(),
            registrars: Mutex::default(),
        }
    }

    pub fn bound(&self, sockets: BoundSockets) {
        // Called once, before anything is read.
        let _ = self.sockets.set(sockets);
    }

    pub fn addresses(&self) -> &[Listen] {
        self.sockets.get().map_or(&[], |sockets| &sockets.addresses)
    }

    fn dialogs(&self) -> MutexGuard<'_, Dialogs> {
        self.dialogs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a dialog with a peer at this address; its messages go to the inbox.
    pub fn list(
        self: &Arc<Self>,
        key: String,
        inbox: mpsc::Sender<DialogMessage>,
        peer: IpAddr,
    ) -> DialogRegistration {
        self.listed(&mut self.dialogs(), key, None, inbox, peer)
    }

    /// Registers the dialog of an incoming call; `None` if one with its Call-ID and the caller's tag is open.
    pub fn list_caller(
        self: &Arc<Self>,
        dialog: &Dialog,
        inbox: mpsc::Sender<DialogMessage>,
        peer: IpAddr,
    ) -> Option<DialogRegistration> {
        let mut dialogs = self.dialogs();
        let attempt = dialogs
            .attempts
            .begin(&dialog.callers_key(), dialog.remote_seq)?;
        Some(self.listed(&mut dialogs, dialog.key(), Some(attempt), inbox, peer))
    }

    fn listed(
        self: &Arc<Self>,
        dialogs: &mut Dialogs,
        key: String,
        attempt: Option<CallAttempt>,
        inbox: mpsc::Sender<DialogMessage>,
        peer: IpAddr,
    ) -> DialogRegistration {
        let peer = peer.to_canonical();
        dialogs.inboxes.insert(key.clone(), inbox);
        *dialogs.peers.entry(peer).or_default() += 1;
        DialogRegistration {
            shared: self.clone(),
            key,
            attempt,
            peer,
        }
    }

    /// True if a dialog with a peer at this address is open.
    pub fn talks_to(&self, ip: IpAddr) -> bool {
        self.dialogs().peers.contains_key(&ip.to_canonical())
    }

    pub fn find(&self, call_id: &str, local_tag: &str) -> Option<mpsc::Sender<DialogMessage>> {
        self.dialogs()
            .inboxes
            .get(&dialog::key(call_id, local_tag))
            .cloned()
    }

    pub fn has_dialogs(&self) -> bool {
        !self.dialogs().inboxes.is_empty()
    }

    fn registrars(&self) -> MutexGuard<'_, HashMap<String, SocketAddr>> {
        self.registrars
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub fn registered(&self, trunk: &str, address: SocketAddr) {
        self.registrars().insert(trunk.to_owned(), address);
    }

    /// Removes a registration; false if there was none.
    pub fn unregistered(&self, trunk: &str) -> bool {
        self.registrars().remove(trunk).is_some()
    }

    /// Number of trunks that we are registered with.
    pub fn registrations(&self) -> usize {
        self.registrars().len()
    }

    /// True if we are registered with a registrar at this address.
    pub fn is_registered_with(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        let registrars = self.registrars();
        let mut hosts = registrars
            .values()
            .map(|address| address.ip().to_canonical());
        hosts.any(|host| host == ip)
    }

    /// True if a registrar that we are registered with sent this.
    pub fn is_from_registrar(&self, flow: &Flow) -> bool {
        self.registrars()
            .values()
            .any(|address| is_at(*address, flow))
    }

    /// True if the registrar of this trunk sent this.
    pub fn is_registrar(&self, trunk: &str, flow: &Flow) -> bool {
        let registrars = self.registrars();
        let address = registrars.get(trunk);
        address.is_some_and(|address| is_at(*address, flow))
    }

    /// The trunk whose registrar sent this. If several trunks share the registrar, it is the one whose username, our Contact's
    /// user, is called; else the first in the configuration.
    pub fn registered_trunk(&self, flow: &Flow, called: &str) -> Option<&Trunk> {
        let is_here = |trunk: &&Trunk| self.is_registrar(&trunk.name, flow);
        let is_called = |trunk: &&Trunk| {
            let register = trunk.register.as_ref();
            register.is_some_and(|register| register.credentials.username == called)
        };
        let here = || self.settings.trunks.iter().filter(is_here);
        here().find(is_called).or_else(|| here().next())
    }

    /// Host and port at which a peer reaches us, for the transport and address family of this flow.
    pub fn reached_at(&self, flow: &Flow) -> (Host, u16) {
        let local = flow.local();
        let same = |listen: &&Listen| {
            listen.transport == flow.transport && listen.address.is_ipv4() == local.is_ipv4()
        };
        let listened = self.addresses().iter().find(|listen| {
            listen.transport == flow.transport && listen.address.port() == local.port()
        });
        let port = listened
            .or_else(|| self.addresses().iter().find(same))
            .map_or(local.port(), |listen| listen.address.port());
        let host = match &self.settings.public_address {
            Some(public) => public
                .parse()
                .unwrap_or_else(|()| Host::Name(public.clone())),
            None => Host::Ip(local.ip().to_canonical()),
        };
        (host, port)
    }

    pub fn contact(&self, user: &str, flow: &Flow) -> String {
        let (host, port) = self.reached_at(flow);
        let uri = Uri::sip(user, host, Some(port));
        let uri = match flow.transport {
            SipTransport::Udp => uri,
            SipTransport::Tcp => uri.with("transport", Some("tcp")),
            SipTransport::Tls => uri.with("transport", Some("tls")),
        };
        format!("<{uri}>")
    }

    /// Our media address for the peer of this flow.
    pub fn media_ip(&self, flow: &Flow) -> IpAddr {
        self.public_ip
            .unwrap_or_else(|| flow.local().ip().to_canonical())
    }

    /// Adds Via and sends the request until it is answered.
    pub fn ask(&self, request: SipRequest, flow: &Flow) -> mpsc::Receiver<SipResponse> {
        let request = self.with_via(request, flow);
        self.transactions.ask(request, flow.clone())
    }

    pub fn with_via(&self, mut request: SipRequest, flow: &Flow) -> SipRequest {
        let (host, port) = self.reached_at(flow);
        let transport = match flow.transport {
            SipTransport::Udp => "UDP",
            SipTransport::Tcp => "TCP",
            SipTransport::Tls => "TLS",
        };
        let via = format!(
            "SIP/2.0/{transport} {host}:{port};branch=z9hG4bK{};rport",
            token()
        );
        request.headers.push_front("Via", &via);
        request.headers.push("User-Agent", USER_AGENT);
        request
    }
}

/// True if the flow's peer is this registrar. A connection that a registrar opened has another source port.
fn is_at(registrar: SocketAddr, flow: &Flow) -> bool {
    registrar == flow.remote || flow.is_reliable() && registrar.ip() == flow.remote.ip()
}

/// Random letters for tags, branches and ids.
pub fn token() -> String {
    hex::encode(rand::random::<[u8; 10]>())
}
