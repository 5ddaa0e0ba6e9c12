//! A person joins the caller.

use dikala_entities::call;

use crate::{
    calls::{error::CallError, machine::MachineState, owned::OwnedCall, pending::PendingCommands},
    commit::CommitEntry,
};

/// Writes the joining that `next` contains, and that the transfer is no longer pending. `ai_cost_idr`: the AI's cost so far. It
/// counts if the bridge is lost before the end.
pub(in crate::calls) async fn join(
    call: &mut OwnedCall,
    next: MachineState,
    ai_cost_idr: Option<i64>,
) -> Result<(), CallError> {
    let row = call::Model {
        joined_at: next.joined_at,
        ai_cost_idr,
        ..call.row.clone()
    };
    let row = match row.pending {
        Some(_) => call::Model {
            pending: Some(PendingCommands::of(&next).to_json()?),
            ..row
        },
        None => row,
    };
    let entry = CommitEntry::of(row.tenant_id);
    call.write_with(row, entry).await?;
    call.state = next;
    tracing::info!(call = %call.row.id, tenant = %call.row.tenant_id, trace_id = call.row.trace_id(), "call joined to a person");
    Ok(())
}
