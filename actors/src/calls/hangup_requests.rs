//! Hang-up requests. A command-line command is no node and has no actors. It writes a row, which the call's node finds, carries
//! out and deletes.

use std::{future::ready, time::Duration};

use dikala_entities::{
    Actor, AuditAction, AuditId, CallId, CallStatus, HangupInitiator, Millis, TenantId, audit,
    hangup_request,
};
use futures_util::{StreamExt, stream};
use sea_orm::{ColumnTrait, DbErr, EntityTrait, FromQueryResult, QueryFilter, Statement, Value};

use super::{error::CallError, messages::CallInput, router::CallRouter};

/// Requests per run.
const BATCH: i64 = 100;
/// Calls that get a request concurrently.
const CONCURRENT: usize = 20;
/// Time for a call's reply. After that the request is tried again.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

#[derive(FromQueryResult)]
struct HangupRequest {
    call_id: CallId,
    actor: Actor,
    node: String,
    asked_at: Millis,
    /// `None` if the call is gone.
    tenant_id: Option<TenantId>,
    status: Option<CallStatus>,
}

/// Carries out the requests for this node's calls. Deletes those for calls that are over.
pub(super) async fn carry_out_all(calls: &CallRouter) -> Result<(), DbErr> {
    let deps = calls.deps();
    let request = Statement::from_sql_and_values(
        deps.store.backend(),
        "SELECT r.call_id, r.actor, r.node, r.asked_at, c.tenant_id, c.status \
         FROM hangup_requests r LEFT JOIN calls c ON c.id = r.call_id \
         WHERE c.owner = $1 OR c.id IS NULL OR c.ended_at IS NOT NULL ORDER BY r.call_id LIMIT $2",
        [Value::from(&*deps.node.id()), Value::from(BATCH)],
    );
    let request = HangupRequest::find_by_statement(request)
        .all(deps.store.reader())
        .await?;
    let done: Vec<CallId> = stream::iter(request)
        .map(|request| carry_out(calls, request))
        .buffer_unordered(CONCURRENT)
        .filter_map(ready)
        .collect()
        .await;
    if done.is_empty() {
        return Ok(());
    }
    hangup_request::Entity::delete_many()
        .filter(hangup_request::Column::CallId.is_in(done))
        .exec(deps.store.writer())
        .await
        .map(drop)
}

/// Returns the call if its request is done. After a crash before the row is deleted, the call gets it again, which is harmless.
async fn carry_out(calls: &CallRouter, request: HangupRequest) -> Option<CallId> {
    let id = request.call_id;
    if request.status.is_none_or(CallStatus::is_final) {
        return Some(id);
    }
    let wish = CallInput::RequestHangUp {
        by: HangupInitiator::Operator,
        audit: Some(Box::new(request.entry())),
    };
    match tokio::time::timeout(ANSWER_WITHIN, calls.tell(None, id, wish)).await {
        Ok(Ok(_) | Err(CallError::NotActive | CallError::UnknownCall)) => Some(id),
        Ok(Err(error)) => {
            tracing::warn!(call = %id, %error, "could not carry out a hang-up request; trying again");
            None
        }
        Err(_) => {
            tracing::warn!(call = %id, "a call did not answer a hang-up request in time; trying again");
            None
        }
    }
}

impl HangupRequest {
    fn entry(self) -> audit::Model {
        audit::Model {
            id: AuditId::new(self.asked_at),
            tenant_id: self.tenant_id,
            actor: self.actor,
            action: AuditAction::CallHangup,
            target: self.call_id.to_string(),
            detail: String::new(),
            at: self.asked_at,
            address: None,
            request_id: None,
            node: self.node,
        }
    }
}
