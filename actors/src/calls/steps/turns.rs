//! Turns of a call that goes on.

use dikala_entities::{Millis, transcript};
use dikala_protocol::NumberedTurn;
use sea_orm::EntityTrait;

use super::transcript::accepts_words;
use crate::{
    calls::{
        error::{CallError, unavailable},
        events,
        owned::OwnedCall,
    },
    events::outbox::NewEvent,
};

/// Announces turns, unless the transcript has replaced them.
pub(in crate::calls) async fn announce(
    call: &mut OwnedCall,
    turns: Vec<NumberedTurn>,
    now: Millis,
) -> Result<(), CallError> {
    if call.row.is_erased() || has_transcript(call).await? {
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

/// A transcript with turns is stored. It is read once.
async fn has_transcript(call: &mut OwnedCall) -> Result<bool, CallError> {
    if call.row.transcript_summary.is_none() {
        return Ok(false);
    }
    if let Some(has_turns) = call.has_turns {
        return Ok(has_turns);
    }
    let known = transcript::Entity::find_by_id(call.row.id)
        .one(call.deps.store.critical_reader())
        .await
        .map_err(unavailable)?;
    let has_turns = known.is_some_and(|known| known.turns != "[]");
    call.has_turns = Some(has_turns);
    Ok(has_turns)
}
