//! An open socket of a bridge, as those see it who read and write it.

use std::sync::Arc;

use dikala_entities::{BridgeId, Millis};
use tokio::sync::{Notify, watch};

/// An open socket of a bridge.
#[derive(Clone, Debug)]
pub struct Socket {
    pub(super) bridge: BridgeId,
    pub(super) number: u64,
    pub(super) opened_at: Millis,
    /// There may be a command to take.
    pub(super) wake: Arc<Notify>,
    dismissal: Arc<watch::Sender<Option<Dismissal>>>,
}

/// Why a socket is closed from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dismissal {
    /// The bridge's token is not in force any more.
    Revoked,
    /// The bridge opened more sockets than it may have.
    Replaced,
    /// This node lost its lease.
    Lost,
}

/// What the end of a socket says of when its bridge was last there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketEnd {
    /// Until this moment, at which somebody closed it.
    Closed,
    /// Until something was last heard: nobody closed it.
    Silent,
    /// Nothing: the node may have stood still since it last said that the bridge was there.
    Unnoticed,
}

impl Socket {
    pub(super) fn new(bridge: BridgeId, number: u64, opened_at: Millis) -> Self {
        Self {
            bridge,
            number,
            opened_at,
            wake: Arc::new(Notify::new()),
            dismissal: Arc::new(watch::Sender::new(None)),
        }
    }

    /// Whose it is.
    pub fn bridge(&self) -> BridgeId {
        self.bridge
    }

    /// Completes when the socket is to be closed.
    pub async fn dismissed(&self) -> Dismissal {
        let mut dismissal = self.dismissal.subscribe();
        let said = dismissal.wait_for(Option::is_some).await.map(|said| *said);
        match said {
            Ok(Some(dismissal)) => dismissal,
            // The sender lives in this socket.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    pub(super) fn dismiss(&self, dismissal: Dismissal) {
        self.dismissal.send_replace(Some(dismissal));
    }
}
