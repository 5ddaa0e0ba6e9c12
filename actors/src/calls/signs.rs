//! Signs of life that this node may record. A node without a lease may have been paused, so what it reads may be old. Other
//! nodes have its calls then, and bill them by the table.

use dikala_entities::{BridgeId, Millis};
use sea_orm::DbErr;

use super::router::CallRouter;
use crate::bridges::{BridgeSocket, SocketEnd};

impl CallRouter {
    /// Records a frame or an HTTP heartbeat. Returns false if it may be old and other nodes would rely on it.
    pub fn seen(&self, bridge: BridgeId) -> bool {
        let deps = self.deps();
        let may_have_waited = deps.node.has_others() && deps.bridges.is_settling();
        let hears = deps.node.hears() && !may_have_waited;
        if hears {
            self.deps().bridges.seen(bridge);
        }
        hears
    }

    /// Removes a socket. `last_frame_at` is when its last frame was read.
    pub fn socket_ended(&self, socket: &BridgeSocket, is_silent: bool, last_frame_at: Millis) {
        let end = match is_silent {
            _ if !self.deps().node.has_heard_since(last_frame_at) => SocketEnd::Unnoticed,
            true => SocketEnd::Silent,
            false => SocketEnd::Closed,
        };
        self.deps().bridges.disconnected(socket, end);
    }

    /// Stores the signs of life that changed.
    pub async fn store_signs(&self) -> Result<(), DbErr> {
        let deps = self.deps();
        if !deps.node.acts() {
            return Ok(());
        }
        deps.bridges.store_last_seen(&deps.store).await
    }
}
