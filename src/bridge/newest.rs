//! Finds a bridge's newest socket among several nodes. Nodes announce new sockets, and check for a newer one before
//! they write a command.

use std::time::Duration;

use dikala_actors::{bridges::BridgeSocket, nodes::notices::Topic};

use crate::node::Runtime;

/// Longest wait for the database, for an announcement and for a check.
const ANNOUNCE_WITHIN: Duration = Duration::from_secs(1);

/// Announces a socket to other nodes. If the database is not available now, the announcement is made later.
pub(super) async fn announce(runtime: &Runtime, socket: &BridgeSocket) {
    if !runtime.member.has_others() {
        return;
    }
    let (store, me) = (&runtime.store, runtime.member.id());
    let announcing = runtime.bridges.announce(store, &me, socket);
    match tokio::time::timeout(ANNOUNCE_WITHIN, announcing).await {
        Ok(Ok(())) => runtime.member.notices().tell(Topic::Bridges),
        Ok(Err(error)) => {
            tracing::warn!(bridge = %socket.bridge(), %error, "could not announce a bridge's new socket to other nodes; it is announced later");
        }
        Err(_) => {
            tracing::warn!(bridge = %socket.bridge(), "could not announce a bridge's new socket to other nodes; it is announced later")
        }
    }
}

/// True if the bridge has opened no newer socket at another node.
pub(super) async fn is_newest(runtime: &Runtime, socket: &BridgeSocket) -> bool {
    if !runtime.member.has_others() {
        return true;
    }
    let (store, me) = (&runtime.store, runtime.member.id());
    let asking = runtime.bridges.is_newest(store, &me, socket);
    // If the database does not answer, the command goes out: an older socket is better than none.
    let newest = tokio::time::timeout(ANNOUNCE_WITHIN, asking).await;
    newest.unwrap_or(true)
}
