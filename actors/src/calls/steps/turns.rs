//! Turns of a call that goes on.

use dikala_entities::Millis;
use dikala_protocol::NumberedTurn;

use super::transcript::accepts_words;
use crate::{
    calls::{error::CallError, events, owned::OwnedCall},
    events::outbox::NewEvent,
};

/// Announces turns, unless the transcript has replaced them.
pub(in crate::calls) async fn announce(
    call: &mut OwnedCall,
    turns: Vec<NumberedTurn>,
    now: Millis,
) -> Result<(), CallError> {
    if call.row.is_erased() || call.has_turns {
        return Ok(());
    }
    accepts_words(call, now)?;
    let event = |turn: NumberedTurn| -> NewEvent {
        let at = call.deps.clock.dated(turn.turn.at);
        let at = at.min(now).max(call.row.started_at);
        events::turn(&call.row, turn, at, now)
    };
    let events = turns.into_iter().map(event).collect();
    call.write(call.row.clone(), events).await
}
