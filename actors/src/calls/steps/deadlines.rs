//! Carries out deadlines.

use dikala_entities::{HangupReason, Millis};
use dikala_protocol::CommandKind;

use super::{
    commands, credit,
    end::{self, EndReport},
};
use crate::calls::{error::CallError, machine::DueAction, owned::OwnedCall};

pub(in crate::calls) async fn carry_out(
    call: &mut OwnedCall,
    due: DueAction,
    now: Millis,
) -> Result<(), CallError> {
    match due {
        DueAction::End(ending) => {
            let reason = ending.reason;
            end::end(call, ending, EndReport::default()).await?;
            if matches!(
                reason,
                HangupReason::AnswerTimeout | HangupReason::BridgeLost
            ) {
                call.command(CommandKind::Hangup { reason });
            }
        }
        // After an outage the ledger is asked again a second later; the call continues.
        DueAction::Extend { started, want, .. } => drop(credit::extend(call, started, want).await),
        DueAction::Warn {
            reason,
            seconds_left,
        } => {
            call.may_answer().await?;
            commands::warn(call, reason, seconds_left, now);
            call.state.warned = Some(reason);
        }
        DueAction::HangUp { reason, due_at } => {
            call.may_answer().await?;
            commands::cut(call, reason, due_at, now);
        }
    }
    Ok(())
}
