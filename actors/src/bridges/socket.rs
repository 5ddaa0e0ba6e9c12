//! A handle of a bridge's open socket, for its reading and writing tasks.

use std::sync::Arc;

use dikala_entities::{BridgeId, Millis};
use tokio::sync::{Notify, watch};

#[derive(Clone, Debug)]
pub struct BridgeSocket {
    pub(super) bridge: BridgeId,
    pub(super) number: u64,
    pub(super) opened_at: Millis,
    /// Notified when there may be a command to take.
    pub(super) wake: Arc<Notify>,
    dismissal: Arc<watch::Sender<Option<Dismissal>>>,
}

/// The reason for closing a socket from this side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dismissal {
    Revoked,
    /// The bridge opened more sockets than allowed.
    Replaced,
    /// This node lost its lease.
    Lost,
}

impl BridgeSocket {
    pub(super) fn new(bridge: BridgeId, number: u64, opened_at: Millis) -> Self {
        Self {
            bridge,
            number,
            opened_at,
            wake: Arc::new(Notify::new()),
            dismissal: Arc::new(watch::Sender::new(None)),
        }
    }

    pub fn bridge(&self) -> BridgeId {
        self.bridge
    }

    /// Completes when the socket must be closed.
    pub async fn dismissed(&self) -> Dismissal {
        let mut dismissal = self.dismissal.subscribe();
        let said = dismissal.wait_for(Option::is_some).await.map(|said| *said);
        match said {
            Ok(Some(dismissal)) => dismissal,
            // Unreachable: the sender lives in this socket.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    pub(super) fn dismiss(&self, dismissal: Dismissal) {
        self.dismissal.send_replace(Some(dismissal));
    }
}
