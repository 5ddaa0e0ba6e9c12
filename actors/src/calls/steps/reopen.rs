//! A repeated `call.incoming`: the bridge gets the same reply.

use std::sync::Arc;

use dikala_entities::{call, phone_number, tenant};
use dikala_protocol::CalleeNames;
use sea_orm::{ConnectionTrait, DbErr, EntityTrait};

use crate::calls::{
    error::{CallError, unavailable},
    look_up,
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
        (Some(settings), _) => {
            let zone = &call.deps.default_time_zone;
            Ok(CallReply::Admitted {
                call: row.id,
                agent: Arc::new(settings.for_bridge(&call.deps.transfers, zone)),
                callee: names(db, &row).await.map_err(unavailable)?,
            })
        }
        (None, Some(reason)) => Ok(CallReply::Refused {
            call: row.id,
            reason,
        }),
        (None, None) => Err(CallError::Unavailable),
    }
}

/// The present names of the call's tenant and number.
async fn names(db: &impl ConnectionTrait, row: &call::Model) -> Result<CalleeNames, DbErr> {
    let tenant = tenant::Entity::find_by_id(row.tenant_id).one(db).await?;
    let number = match row.phone_number_id {
        Some(id) => phone_number::Entity::find_by_id(id).one(db).await?,
        None => None,
    };
    Ok(look_up::names(
        tenant.map(|tenant| tenant.name),
        number.map(|number| number.label),
    ))
}
