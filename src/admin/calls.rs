//! Ending a call without being a node: what is asked for is a row, which the node that runs the call finds within half a second.

use dikala_entities::{AuditAction, CallId, Millis, call, hangup_request};
use sea_orm::{DbErr, EntityTrait, IntoActiveModel, sea_query::OnConflict};

use super::{AdminError, Work};
use crate::audit::{Change, Origin};

/// Has a call ended; twice is once. Without a node that runs it, the next start sees to it.
pub async fn ask_hang_up(
    work: impl Into<Work<'_>>,
    id: CallId,
    by: &Origin,
    now: Millis,
) -> Result<call::Model, AdminError> {
    let txn = work.into().begin().await?;
    let found = call::Entity::find_by_id(id).one(&*txn).await?;
    let call = found.ok_or_else(|| AdminError::not_found("call", id))?;
    if call.status.is_final() {
        return Err(AdminError::Refused(format!(
            "the call {id} is over; `dikala call list --status answered` shows those that are not"
        )));
    }
    let request = hangup_request::Model {
        call_id: id,
        asked_at: now,
    };
    let there = OnConflict::column(hangup_request::Column::CallId)
        .do_nothing()
        .to_owned();
    let inserted = hangup_request::Entity::insert(request.into_active_model())
        .on_conflict(there)
        .exec_without_returning(&*txn)
        .await;
    let is_new = match inserted {
        Ok(rows) => rows == 1,
        Err(DbErr::RecordNotInserted) => false,
        Err(error) => return Err(error.into()),
    };
    if is_new {
        let change = Change::new(AuditAction::CallHangup, id);
        by.write(&*txn, call.tenant_id, change, now).await?;
    }
    txn.commit().await?;
    Ok(call)
}
