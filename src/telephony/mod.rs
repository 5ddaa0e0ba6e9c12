//! The built-in bridge inside this process: on threads of its own, connected to our own listener by a socket, like
//! any other bridge.

mod checks;
mod identity;

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use actix_web::rt::{
    spawn,
    task::{JoinHandle, spawn_blocking},
};
use dikala_actors::runtime::{clock::SharedClock, histogram::Distribution};
use dikala_entities::{BridgeId, Millis, Secret};
use dikala_protocol::client::{Address, WallClock};
use dikala_sip::{
    settings::{ListenAddress, SipTransport},
    statistics::ValueCounts,
};
use dikala_telephony::{
    bridge::{BridgeStartError, StatisticsReader, WebCall},
    settings::BridgeSettings,
    threads::BridgeThreads,
};
use rustls::pki_types::UnixTime;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

use crate::{config::WhatsAppTrunk, node::Runtime};

pub use self::{checks::checks, identity::IdentityError};

/// The bridges' path on the public listener.
const CONNECT_PATH: &str = "/bridge/v1/connect";

/// The warning that the scripted voice answers as a stand-in.
const STAND_IN: &str = "a test voice answers, which understands nobody: set telephony.gemini.api_key (GEMINI_API_KEY) to have Gemini \
                        answer, or telephony.voice.provider to scripted if this is meant";

/// Logs that warning.
pub fn warn_of_stand_in() {
    tracing::warn!("{STAND_IN}");
}

/// Logs which trunks are out of service, and why.
pub fn warn_of_trunks(trunks: &[WhatsAppTrunk]) {
    for trunk in trunks.iter().filter(|trunk| trunk.is_out_of_service()) {
        let (name, fault) = (&trunk.name, trunk.fault.as_deref().unwrap_or_default());
        tracing::error!(
            trunk = name,
            "the trunk is out of service: its account_file {fault}; `dikala check` names the file and the remedy"
        );
    }
}

/// The reason why the bridge does not run.
#[derive(Debug, thiserror::Error)]
pub enum TelephonyError {
    #[error(transparent)]
    Start(#[from] BridgeStartError),
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error("the thread that starts the bridge was ended")]
    Thread,
}

/// A bridge that runs in this process.
#[derive(Debug)]
pub struct BuiltInBridge {
    running: BridgeThreads,
    /// Reloads the certificate at SIGHUP.
    reloading: JoinHandle<()>,
}

impl BuiltInBridge {
    /// Starts a bridge that serves the call service at this address.
    ///
    /// Errors: addresses that cannot be listened on, files that cannot be read.
    pub async fn start(
        settings: BridgeSettings,
        service: Address,
        clock: SharedClock,
    ) -> Result<Self, TelephonyError> {
        let now: WallClock = Arc::new(move || clock.now());
        let started = spawn_blocking(move || BridgeThreads::start(&settings, service, now)).await;
        let running = started.map_err(|_| TelephonyError::Thread)??;
        let reload = running.reloader();
        let reloading = spawn(async move {
            let Ok(mut hangups) = signal(SignalKind::hangup()) else {
                return;
            };
            while hangups.recv().await.is_some() {
                reload();
            }
        });
        Ok(Self { running, reloading })
    }

    /// Starts the bridge of this node, which serves the call service behind our own public listener. Returns it with its id.
    ///
    /// Errors: addresses that cannot be listened on, files that cannot be read, database failures.
    pub async fn inside(
        settings: BridgeSettings,
        runtime: &Runtime,
        public: SocketAddr,
    ) -> Result<(Self, BridgeId), TelephonyError> {
        let (id, token) = identity::take(runtime).await?;
        let service = Address {
            url: format!("ws://{}{CONNECT_PATH}", reachable(public)),
            token: Secret::new(token.expose()),
        };
        let bridge = Self::start(settings, service, Arc::clone(&runtime.clock)).await?;
        Ok((bridge, id))
    }

    /// The listening addresses: `udp://127.0.0.1:5060 tcp://…`.
    pub fn addresses(&self) -> Vec<String> {
        self.running.addresses().into_iter().map(written).collect()
    }

    /// The channel for calls from browsers; `None` once the bridge has stopped.
    pub fn web(&self) -> Option<mpsc::Sender<WebCall>> {
        self.running.web()
    }

    /// The source of the bridge's counters.
    pub fn counted(&self) -> StatisticsReader {
        self.running.counted()
    }

    /// Takes no new calls, lets running ones finish, and hangs up the rest when the time is over.
    pub async fn stop(self) {
        self.reloading.abort();
        let running = self.running;
        if spawn_blocking(move || running.stop()).await.is_err() {
            tracing::error!("the telephony bridge did not stop cleanly");
        }
    }
}

/// A histogram of the bridge in the service's type.
pub fn distribution(of: &ValueCounts) -> Distribution {
    Distribution {
        bounds: of.bounds,
        counts: of.counts.clone(),
        sum: of.sum,
    }
}

/// A time of a certificate.
pub fn time_shown(at: UnixTime) -> String {
    let seconds = i64::try_from(at.as_secs()).unwrap_or(i64::MAX);
    Millis::from_i64(seconds.saturating_mul(1_000)).to_string()
}

fn written(listen: ListenAddress) -> String {
    written_as(listen.transport, listen.address)
}

fn written_as(transport: SipTransport, address: SocketAddr) -> String {
    let transport = match transport {
        SipTransport::Udp => "udp",
        SipTransport::Tcp => "tcp",
        SipTransport::Tls => "tls",
    };
    format!("{transport}://{address}")
}

/// Replaces the unspecified address by the loopback address.
fn reachable(listener: SocketAddr) -> SocketAddr {
    let ip = match listener.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, listener.port())
}
