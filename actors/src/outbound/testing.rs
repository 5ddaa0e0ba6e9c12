//! Outbound requests to this machine, for tests.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use dikala_entities::{OutboundUrl, UrlPolicy};
use dikala_testkit::{PATIENCE, TenantServer};
use tokio::net::TcpSocket;

use super::{Guard, Outbound};

fn local_guard() -> Guard {
    Guard {
        allow_cidrs: vec!["127.0.0.0/8".parse().expect("a range")],
        allow_http: true,
        ..Guard::default()
    }
}

/// Outbound requests that may reach the loopback.
pub(crate) fn local_outbound() -> Outbound {
    Outbound::new(local_guard(), None).expect("outbound")
}

/// A port of this machine without a listener, reserved until this is dropped.
pub(crate) struct ClosedPort {
    pub(crate) address: SocketAddr,
    _bound: TcpSocket,
}

impl ClosedPort {
    pub(crate) fn port() -> Self {
        let bound = TcpSocket::new_v4().expect("a socket");
        bound.bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a port");
        Self {
            address: bound.local_addr().expect("an address"),
            _bound: bound,
        }
    }
}

/// A resolver that maps every name to this machine. Until this is dropped, it never answers for names that begin with
/// `hang`.
pub(crate) struct SlowNames {
    pub(crate) outbound: Outbound,
    /// The number of lookups without an answer.
    pub(crate) hanging: Arc<AtomicUsize>,
    _release: std::sync::mpsc::Sender<()>,
}

impl SlowNames {
    pub(crate) fn start() -> Self {
        let (release, released) = std::sync::mpsc::channel::<()>();
        let released = Mutex::new(released);
        let hanging = Arc::new(AtomicUsize::new(0));
        let asked = Arc::clone(&hanging);
        let outbound = Outbound::with_names(local_guard(), move |name| {
            if name.starts_with("hang") {
                asked.fetch_add(1, Ordering::SeqCst);
                // One waits for the channel to close, the others for the lock.
                let _ = released.lock().map(|released| released.recv());
            }
            Ok(vec![std::net::IpAddr::from([127, 0, 0, 1])])
        });
        Self {
            outbound: outbound.expect("outbound"),
            hanging,
            _release: release,
        }
    }

    /// The address of a receiver under this name.
    pub(crate) fn url(receiver: &TenantServer, name: &str) -> OutboundUrl {
        let url = format!("http://{name}.example.com:{}/", receiver.address.port());
        OutboundUrl::parse(&url, UrlPolicy { allow_http: true }).expect("an address")
    }

    /// Waits until this many lookups hang.
    pub(crate) async fn wait_for(&self, count: usize) {
        let reached = async {
            while self.hanging.load(Ordering::SeqCst) < count {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(PATIENCE, reached)
            .await
            .expect("the names are asked for");
    }
}
