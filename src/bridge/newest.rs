//! Which of a bridge's sockets is the newest, where there are several nodes: they tell each other, and ask before a command is
//! written.

use std::time::Duration;

use dikala_actors::{bridges::Socket, nodes::notices::Topic};

use crate::node::Node;

/// How long a socket, or a command, waits for the database to say whether another node has a newer one.
const ANNOUNCE_WITHIN: Duration = Duration::from_secs(1);

/// Tells other nodes of a socket. What the database does not take now, it is told of later.
pub(super) async fn announce(node: &Node, socket: &Socket) {
    if !node.member.has_others() {
        return;
    }
    let (store, me) = (&node.store, node.member.id());
    let announcing = node.bridges.announce(store, &me, socket);
    match tokio::time::timeout(ANNOUNCE_WITHIN, announcing).await {
        Ok(Ok(())) => node.member.notices().tell(Topic::Bridges),
        Ok(Err(error)) => {
            tracing::warn!(bridge = %socket.bridge(), %error, "other nodes hear of a socket later");
        }
        Err(_) => tracing::warn!(bridge = %socket.bridge(), "other nodes hear of a socket later"),
    }
}

/// Whether the bridge has opened no newer socket at another node.
pub(super) async fn is_newest(node: &Node, socket: &Socket) -> bool {
    if !node.member.has_others() {
        return true;
    }
    let (store, me) = (&node.store, node.member.id());
    let asking = node.bridges.is_newest(store, &me, socket);
    // An older socket is better than none.
    let newest = tokio::time::timeout(ANNOUNCE_WITHIN, asking).await;
    newest.unwrap_or(true)
}
