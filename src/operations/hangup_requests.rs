//! Ends a call from any process: writes a request row, which the node that runs the call finds within half a second.

use dikala_entities::{CallId, call, hangup_request};
use sea_orm::{DbErr, EntityTrait, IntoActiveModel, sea_query::OnConflict};

use super::OperationContext;
use crate::http::{
    answer::ApiAnswer,
    error::{ApiError, Missing},
    extract::Id,
};

/// Requests a hang-up; a repeat changes nothing. If no node runs the call, the next start carries it out. The audit entry names
/// the operator and is written by the node that carries it out.
pub async fn create(context: OperationContext, id: Id<CallId>) -> Result<call::Model, ApiError> {
    let write = context.begin().await?;
    let found = context.one_of::<call::Entity>(id.0).one(&*write).await?;
    let call = found.ok_or(ApiError::NotFound(Missing::Call))?;
    if call.status.is_final() {
        return Err(ApiError::CallNotActive);
    }
    let request = hangup_request::Model {
        call_id: call.id,
        actor: context.principal.actor(),
        node: context.origin.node.to_string(),
        asked_at: context.now,
    };
    let exists = OnConflict::column(hangup_request::Column::CallId)
        .do_nothing()
        .to_owned();
    let inserted = hangup_request::Entity::insert(request.into_active_model())
        .on_conflict(exists)
        .exec_without_returning(&*write)
        .await;
    match inserted {
        Ok(_) | Err(DbErr::RecordNotInserted) => {}
        Err(error) => return Err(error.into()),
    }
    write.commit(ApiAnswer::no_content()).await?;
    Ok(call)
}
