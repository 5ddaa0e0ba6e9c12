//! The answer of a call.

use dikala_entities::CallStatus;

use crate::{
    calls::{error::CallError, events, machine::MachineState, owned::OwnedCall},
    traces::request_id,
};

/// Writes the answer that `next` contains.
pub(in crate::calls) async fn answer(
    call: &mut OwnedCall,
    next: MachineState,
) -> Result<(), CallError> {
    let now = call.deps.clock.now();
    let at = next.last_change_at;
    let mut row = call.row.clone();
    row.status = CallStatus::Answered;
    row.answered_at = Some(at);
    row.answer_message_id = next.answer_message.clone();
    let events = vec![events::answered(&row, at, now)];
    call.write(row, events).await?;
    call.state = next;
    call.active.set_status(Some(CallStatus::Answered));
    tracing::info!(
        call = %call.row.id, tenant = %call.row.tenant_id, trace_id = call.row.trace_id(),
        request_id = request_id().as_deref(), "call answered"
    );
    Ok(())
}
