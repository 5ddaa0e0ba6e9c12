//! Signs of life that this node may record. A node without a lease may have been paused, so what it reads may be old. Other
//! nodes have its calls then, and bill them by the table.

use dikala_entities::BridgeId;
use sea_orm::DbErr;

use super::router::CallRouter;

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

    /// Stores the signs of life that changed.
    pub async fn store_signs(&self) -> Result<(), DbErr> {
        let deps = self.deps();
        if !deps.node.acts() {
            return Ok(());
        }
        deps.bridges.store_last_seen(&deps.store).await
    }
}
