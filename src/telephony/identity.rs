//! The identity of a node's built-in bridge: a bridge row `telephony@NODE`. Its token is new at every start and is
//! stored as a hash only.

use dikala_actors::nodes;
use dikala_entities::{BRIDGE_TOKEN_SCHEME, BridgeId, Credential, bridge, store::Transaction};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DbErr, EntityTrait, IntoActiveModel,
    QueryFilter, QueryOrder, QuerySelect,
};

use crate::{audit::ChangeOrigin, node::Runtime, operations::bridges};

/// The reason why the bridge has no identity.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    #[error("the identity of the bridge cannot be stored: {words}", words = dikala_entities::store::in_words(.0))]
    Database(#[from] DbErr),
}

/// Reuses an unused bridge row with this node's name, or creates one, and returns its id and new token.
///
/// Several nodes may have the same name, but never the same bridge row: they would receive each other's commands.
pub(super) async fn take(runtime: &Runtime) -> Result<(BridgeId, Credential), IdentityError> {
    let name = format!("telephony@{}", runtime.member.name());
    let txn = runtime.store.begin().await?;
    let token = BRIDGE_TOKEN_SCHEME.generate();
    let bridge = match unused(&txn, &name).await? {
        Some(bridge) => bridge,
        None => {
            let by = ChangeOrigin::cli(runtime.member.name());
            bridges::insert(&txn, name, true, &token, &by, runtime.clock.now()).await?
        }
    };
    let id = bridge.id;
    let mut bridge = bridge.into_active_model();
    bridge.hash = Set(token.hash());
    bridge.is_web = Set(true);
    // Marks it as used, so that another node that starts now takes another.
    bridge.node = Set(Some(runtime.member.id().to_string()));
    bridge.update(&txn).await?;
    txn.commit().await?;
    Ok((id, token))
}

/// A bridge row with this name that no living node uses.
async fn unused(txn: &Transaction, name: &str) -> Result<Option<bridge::Model>, DbErr> {
    let nodes = nodes::all(txn).await?;
    let is_used = |bridge: &bridge::Model| {
        let user = bridge.node.as_deref();
        let found = nodes.iter().find(|other| Some(other.id.as_str()) == user);
        found.is_some_and(|other| !other.is_gone())
    };
    let made = bridge::Entity::find()
        .filter(bridge::Column::Name.eq(name))
        .filter(bridge::Column::RevokedAt.is_null())
        .order_by_asc(bridge::Column::Id)
        .lock_exclusive()
        .all(txn)
        .await?;
    Ok(made.into_iter().find(|bridge| !is_used(bridge)))
}
