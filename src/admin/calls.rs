//! Ends a call from any process: writes a request row, which the node that runs the call finds within half a second.

use dikala_entities::{CallId, Millis, call, hangup_request};
use sea_orm::{DbErr, EntityTrait, IntoActiveModel, sea_query::OnConflict};

use super::{AdminError, TransactionScope};
use crate::audit::ChangeOrigin;

/// Requests a hang-up; idempotent. If no node runs the call, the next start carries it out. The audit entry names the
/// operator and is written by the node that carries it out.
pub async fn ask_hang_up(
    work: impl Into<TransactionScope<'_>>,
    id: CallId,
    by: &ChangeOrigin,
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
        actor: by.actor,
        node: by.node.to_string(),
        asked_at: now,
    };
    let there = OnConflict::column(hangup_request::Column::CallId)
        .do_nothing()
        .to_owned();
    let inserted = hangup_request::Entity::insert(request.into_active_model())
        .on_conflict(there)
        .exec_without_returning(&*txn)
        .await;
    match inserted {
        Ok(_) | Err(DbErr::RecordNotInserted) => {}
        Err(error) => return Err(error.into()),
    }
    txn.commit().await?;
    Ok(call)
}
