//! State shared by all calls and registrations of an edge: sockets, transactions, open dialogs, counters.

mod certificate_faults;
mod own_addresses;
mod public_address;
mod routes;

use std::sync::{Arc, OnceLock, Weak};

use tokio::sync::mpsc;

use crate::{
    dialog::open_dialogs::OpenDialogs,
    ladder::Ladders,
    lines::Lines,
    message::{SipRequest, SipResponse},
    quality::Qualities,
    refusals::Refusals,
    registrars::Registrars,
    resolution::Nameservers,
    settings::{ListenAddress, SipSettings, UserAgent},
    statistics::EdgeCounters,
    transactions::Transactions,
    transport::{Flow, Receive},
};

pub use self::{
    certificate_faults::is_certificate_fault,
    public_address::PublicAddress,
    routes::{keep_secured, server_of},
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

#[derive(Debug)]
pub struct Shared {
    pub settings: SipSettings,
    pub user_agent: UserAgent,
    /// TLS to peers that we connect to.
    tls: Arc<rustls::ClientConfig>,
    pub transactions: Arc<Transactions>,
    /// The runtime of the media threads.
    pub media: tokio::runtime::Handle,
    pub counters: EdgeCounters,
    pub refusals: Refusals,
    pub ladders: Arc<Ladders>,
    pub qualities: Arc<Qualities>,
    public: Option<PublicAddress>,
    /// Each joined call holds a clone.
    pub joined: Arc<()>,
    pub dialogs: Arc<OpenDialogs>,
    pub lines: Arc<Lines>,
    sockets: OnceLock<BoundSockets>,
    /// The branches of our requests begin with it. A received request with one has been here before. Its addresses do not show that:
    /// a peer in another network may have our private address.
    pub branch: String,
    nameservers: Nameservers,
    pub registrars: Registrars,
}

/// The bound sockets.
pub struct BoundSockets {
    pub addresses: Vec<ListenAddress>,
    pub udp: Vec<Flow>,
    pub receiver: Weak<dyn Receive>,
}

impl std::fmt::Debug for BoundSockets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.addresses).finish()
    }
}

impl Shared {
    pub fn new(
        settings: SipSettings,
        user_agent: UserAgent,
        tls: Arc<rustls::ClientConfig>,
        media: tokio::runtime::Handle,
        public: Option<PublicAddress>,
    ) -> Self {
        Self {
            lines: Arc::new(Lines::new(settings.max_calls, &settings.trunks)),
            nameservers: Nameservers::new(&settings.nameservers),
            settings,
            user_agent,
            tls,
            transactions: Arc::default(),
            media,
            counters: EdgeCounters::default(),
            refusals: Refusals::default(),
            ladders: Arc::default(),
            qualities: Arc::default(),
            public,
            joined: Arc::default(),
            dialogs: Arc::default(),
            sockets: OnceLock::new(),
            branch: format!("z9hG4bK{}", token()),
            registrars: Registrars::default(),
        }
    }

    pub fn bound(&self, sockets: BoundSockets) {
        // Called once, before anything is read.
        let _ = self.sockets.set(sockets);
    }

    pub fn addresses(&self) -> &[ListenAddress] {
        self.sockets.get().map_or(&[], |sockets| &sockets.addresses)
    }

    /// Adds Via and sends the request until it is answered.
    pub fn ask(&self, request: SipRequest, flow: &Flow) -> mpsc::Receiver<SipResponse> {
        let request = self.with_via(request, flow);
        self.transactions.ask(request, flow.clone())
    }
}

/// Random letters for tags, branches and ids.
pub fn token() -> String {
    hex::encode(rand::random::<[u8; 10]>())
}
