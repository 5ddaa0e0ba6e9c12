//! What the bridge is told: the `telephony.*` keys, typed and checked by whoever starts it.

use std::{net::SocketAddr, ops::RangeInclusive, path::PathBuf};

use ipnet::IpNet;
use url::Url;

/// Everything the bridge needs to know, apart from the engine it serves.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Calls at once; one more is answered 503.
    pub max_calls: usize,
    pub sip: Sip,
    pub voice: Voice,
    /// Authorities that are trusted besides the public ones, in TLS that we begin.
    pub extra_ca_file: Option<PathBuf>,
    /// How long running calls may go on once the bridge is told to stop.
    pub shutdown_seconds: u64,
    /// How long the engine may be away before a call is ended.
    pub engine_lost_after_seconds: u64,
}

/// The SIP edge.
#[derive(Debug, Clone)]
pub struct Sip {
    pub listen: Vec<Listen>,
    /// What stands in Contact and SDP behind NAT: an address or a name.
    pub public_address: Option<String>,
    pub tls: Option<TlsFiles>,
    pub rtp_ports: RangeInclusive<u16>,
    /// In order of preference.
    pub codecs: Vec<Codec>,
    pub srtp: Srtp,
    pub trunks: Vec<Trunk>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen {
    pub transport: Transport,
    /// Port 0 picks one.
    pub address: SocketAddr,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    Udp,
    Tcp,
    Tls,
}

/// PEM files, read again on SIGHUP.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    Opus,
    Pcma,
    Pcmu,
}

/// Encrypted media by keys in the SDP (RFC 4568).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Srtp {
    Off,
    Optional,
    Required,
}

/// Who may call.
#[derive(Debug, Clone)]
pub struct Trunk {
    pub name: String,
    /// Allowed without digest.
    pub addresses: Vec<IpNet>,
    /// The digest that is demanded of others.
    pub credentials: Option<Credentials>,
    /// Where this bridge registers itself.
    pub register: Option<Register>,
    /// Put before national numbers: `+62` makes `+62812…` of `0812…`.
    pub prefix: Option<String>,
}

#[derive(Clone)]
pub struct Credentials {
    pub username: String,
    pub password: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials")
            .field("username", &self.username)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Clone)]
pub struct Register {
    /// `sip:host[:port][;transport=…]`
    pub registrar: String,
    pub credentials: Credentials,
    pub expires_seconds: u32,
}

/// Who speaks for agents.
#[derive(Debug, Clone)]
pub struct Voice {
    pub model: Model,
    /// Whether a caller may interrupt the agent.
    pub barge_in: bool,
}

#[derive(Debug, Clone)]
pub enum Model {
    Scripted,
    Gemini(Gemini),
}

/// Gemini Live.
#[derive(Clone)]
pub struct Gemini {
    /// `ws://` or `wss://`, without the key.
    pub url: String,
    pub api_key: String,
    pub model: String,
    pub prices: Prices,
}

impl Gemini {
    /// Nobody answers here without a key, and there is none.
    pub fn lacks_key(&self) -> bool {
        self.api_key.is_empty() && wants_key(&self.url)
    }
}

/// Whether a key is needed here: Google's own service asks for one, others need not.
pub fn wants_key(url: &str) -> bool {
    let host = Url::parse(url).ok();
    let host = host.as_ref().and_then(Url::host_str).unwrap_or_default();
    host == "googleapis.com" || host.ends_with(".googleapis.com")
}

impl std::fmt::Debug for Gemini {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gemini")
            .field("url", &self.url)
            .field("model", &self.model)
            .field("prices", &self.prices)
            .finish_non_exhaustive()
    }
}

/// Thousandths of a rupiah for a million tokens, by modality.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prices {
    pub text_in: u64,
    pub audio_in: u64,
    pub text_out: u64,
    pub audio_out: u64,
}

impl Prices {
    /// Nobody has said what tokens cost.
    pub fn are_none(&self) -> bool {
        [self.text_in, self.audio_in, self.text_out, self.audio_out] == [0; 4]
    }
}
