//! Signs of life of bridges, as far as this node may speak of them. One without a lease may have stood still: what it reads then was
//! said some time before, and others have its calls, which are billed to what the table says.

use dikala_entities::{BridgeId, Millis};
use sea_orm::DbErr;

use super::router::Calls;
use crate::bridges::{Socket, SocketEnd};

impl Calls {
    /// A frame came over a socket, or a heartbeat over HTTP. False where nobody can say when it was sent, and others would go by what is
    /// said of it here.
    pub fn seen(&self, bridge: BridgeId) -> bool {
        let parts = self.parts();
        let may_have_waited = parts.node.has_others() && parts.bridges.is_settling();
        let hears = parts.node.hears() && !may_have_waited;
        if hears {
            self.parts().bridges.seen(bridge);
        }
        hears
    }

    /// A socket is gone, over which something last came at that time.
    pub fn socket_ended(&self, socket: &Socket, is_silent: bool, last_frame_at: Millis) {
        let end = match is_silent {
            _ if !self.parts().node.has_heard_since(last_frame_at) => SocketEnd::Unnoticed,
            true => SocketEnd::Silent,
            false => SocketEnd::Closed,
        };
        self.parts().bridges.disconnected(socket, end);
    }

    /// Writes down what changed since the last time.
    pub async fn store_signs(&self) -> Result<(), DbErr> {
        let parts = self.parts();
        if !parts.node.acts() {
            return Ok(());
        }
        parts.bridges.store_last_seen(&parts.store).await
    }
}
