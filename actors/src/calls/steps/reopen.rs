//! A repeated `call.incoming`: the bridge gets the same reply.

use std::sync::Arc;

use dikala_entities::call;
use sea_orm::EntityTrait;

use crate::calls::{
    error::{CallError, unavailable},
    messages::CallReply,
    owned::OwnedCall,
    versions,
};

/// The reply to the first `call.incoming`, from the store.
pub(in crate::calls) async fn reopen(call: &OwnedCall) -> Result<CallReply, CallError> {
    let db = call.deps.store.critical_reader();
    let row = call::Entity::find_by_id(call.row.id)
        .one(db)
        .await
        .map_err(unavailable)?
        .ok_or(CallError::UnknownCall)?;
    let settings = versions::of_call(db, &row).await.map_err(unavailable)?;
    match (settings, row.hangup_reason) {
        (Some(settings), _) => Ok(CallReply::Admitted {
            call: row.id,
            agent: Arc::new(settings.for_bridge(&call.deps.transfers)),
        }),
        (None, Some(reason)) => Ok(CallReply::Refused {
            call: row.id,
            reason,
        }),
        (None, None) => Err(CallError::Unavailable),
    }
}
