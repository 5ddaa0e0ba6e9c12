//! Settings of the edge, as plain types. The program that starts it reads and checks them.

use std::{collections::BTreeMap, net::SocketAddr, ops::RangeInclusive, path::PathBuf};

use ipnet::IpNet;

/// All settings of an edge.
#[derive(Debug, Clone)]
pub struct SipSettings {
    /// Threads for media. The program has as many for signalling.
    pub threads: usize,
    /// Concurrent calls; one more is answered 503.
    pub max_calls: usize,
    pub listen: Vec<ListenAddress>,
    /// Address or name for Contact and SDP behind NAT.
    pub public_address: Option<String>,
    /// Networks whose peers are told our own address in place of it; empty: the private ones of this machine's interfaces.
    pub local_networks: Vec<IpNet>,
    pub tls: Option<TlsFiles>,
    pub rtp_ports: RangeInclusive<u16>,
    /// In order of preference.
    pub codecs: Vec<Codec>,
    pub srtp: Srtp,
    pub trunks: Vec<Trunk>,
    /// Nameservers that are asked for the services of trunks; empty: those of the system.
    pub nameservers: Vec<SocketAddr>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenAddress {
    pub transport: SipTransport,
    /// Port 0 picks one.
    pub address: SocketAddr,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SipTransport {
    Udp,
    Tcp,
    Tls,
}

/// PEM files, read again by [`crate::Edge::reload_tls`].
#[derive(Debug, Clone)]
pub struct TlsFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    Opus,
    G722,
    Pcma,
    Pcmu,
}

/// Encrypted media with keys in the SDP (RFC 4568).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Srtp {
    Off,
    Optional,
    /// Keys are exchanged over TLS only.
    Required,
}

impl Srtp {
    /// True if offers and answers may be exchanged over this transport.
    pub(crate) fn admits(self, transport: SipTransport) -> bool {
        self != Self::Required || transport == SipTransport::Tls
    }
}

/// A carrier, PBX or phone that may call.
#[derive(Debug, Clone, Default)]
pub struct Trunk {
    pub name: String,
    /// Source addresses that need no digest.
    pub addresses: Vec<IpNet>,
    /// The digest demanded of other addresses.
    pub credentials: Option<Credentials>,
    /// The registrar at which this edge registers itself.
    pub register: Option<RegisterSettings>,
    /// Put before national numbers, without their leading zero: `+62` turns `0812…` and `812…` into `+62812…`.
    pub prefix: Option<String>,
    /// The called number of every call, in E.164.
    pub number: Option<String>,
    /// Extensions, and the called number in E.164 that each stands for.
    pub extensions: BTreeMap<String, String>,
    pub outbound: OutboundSettings,
    pub transfer: TransferMethod,
    /// The name of the trunk over which persons are called, in place of this one.
    pub transfer_trunk: Option<String>,
    pub preset: Option<TrunkPreset>,
    pub session_timer: SessionTimer,
    /// Concurrent calls of the trunk, and new ones a second; more are answered 503.
    pub max_calls: Option<u32>,
    pub calls_per_second: Option<u32>,
    /// The choice of the codec in our answers.
    pub answer_order: AnswerOrder,
    /// It takes and makes no calls, because its settings cannot be used: 503.
    pub is_out_of_service: bool,
}

impl Trunk {
    pub(crate) fn is_whatsapp(&self) -> bool {
        self.preset == Some(TrunkPreset::WhatsApp)
    }

    /// True if a session timer may be agreed on.
    pub(crate) fn has_session_timer(&self) -> bool {
        self.session_timer == SessionTimer::Auto && !self.is_whatsapp()
    }
}

/// A service with rules of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrunkPreset {
    /// Meta's WhatsApp Business Calling over SIP: TLS, SRTP and Opus, and no request of ours that changes a call.
    WhatsApp,
}

/// Which side's order of preference decides about the codec.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AnswerOrder {
    /// The order of the offer.
    #[default]
    Peer,
    /// [`SipSettings::codecs`].
    Ours,
}

/// Session timers (RFC 4028).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SessionTimer {
    #[default]
    Auto,
    /// None is agreed on, and no refresh is sent.
    Off,
}

/// The way in which a caller is connected to a person.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TransferMethod {
    /// By REFER, if the peer is the trunk itself and allows it. A phone that calls directly would be referred to itself. Otherwise,
    /// or if REFER fails, by a second leg.
    #[default]
    Auto,
    Refer,
    /// By a second leg.
    Bridge,
}

/// Calls to persons.
#[derive(Debug, Clone, Default)]
pub struct OutboundSettings {
    /// `sip:host[:port][;transport=…]`. By default the registrar, else where the caller came from.
    pub uri: Option<String>,
    /// By default those of the registration. Only the trunk's own addresses get them.
    pub credentials: Option<Credentials>,
    pub from: OutboundIdentity,
}

/// The number that a person sees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OutboundIdentity {
    /// The called number.
    #[default]
    Did,
    Account,
    /// The caller's number, if there is one.
    Caller,
}

#[derive(Clone, Default)]
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

#[derive(Debug, Clone, Default)]
pub struct RegisterSettings {
    /// `sip:host[:port][;transport=…]`
    pub registrar: String,
    /// The outbound proxy: requests go there in place of the registrar. In the same form.
    pub proxy: Option<String>,
    /// Host of the address of record and of From; by default that of the registrar.
    pub domain: Option<String>,
    /// User of the address of record, where it is not the username of the digest.
    pub account: Option<String>,
    pub credentials: Credentials,
    /// Asked for in REGISTER; the time that the registrar grants counts. The program checks the range.
    pub expires_seconds: u32,
}

/// The name of the program, as peers see it.
#[derive(Debug, Clone, Copy)]
pub struct UserAgent {
    /// A token: the digest realm, the user of our Contact, the host of our Call-IDs, the origin in SDP, and the agent in
    /// warnings.
    pub name: &'static str,
    /// The value of `User-Agent` and `Server`, such as `Example/1.0`.
    pub product: &'static str,
}

impl UserAgent {
    /// The product for strangers, who could look up the faults of a version.
    pub(crate) fn without_version(self) -> &'static str {
        self.product.split('/').next().unwrap_or(self.name)
    }
}
