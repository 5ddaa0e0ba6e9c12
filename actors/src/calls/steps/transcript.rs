//! The transcript of a call.

use dikala_entities::{Millis, TurnLatencyMs, call, transcript};
use dikala_protocol::SpokenTurn;
use sea_orm::EntityTrait;
use sha2::{Digest, Sha256};

use crate::{
    calls::{
        error::{CallError, unavailable},
        events,
        owned::{OpenTranscript, OwnedCall},
    },
    commit::{CallCounts, CommitEntry},
};

/// Time after its end in which a call accepts turns and a transcript.
const OPEN_MS: i64 = 24 * 60 * 60 * 1_000;

/// Stores the transcript, unless the same one is stored already.
pub(in crate::calls) async fn store(
    call: &mut OwnedCall,
    at: Millis,
    now: Millis,
    summary: String,
    turns: Vec<SpokenTurn>,
) -> Result<(), CallError> {
    // The tenant erased the call, and the bridge need not try again.
    if call.row.is_erased() {
        return Ok(());
    }
    accepts_words(call, now)?;
    let has_turns = !turns.is_empty();
    let latencies = turns.iter().filter_map(|turn| turn.latency_ms);
    let latencies: Vec<i64> = latencies.map(i64::from).collect();
    let turns = serde_json::to_string(&turns).map_err(|_| CallError::Unavailable)?;
    if is_stored(call, &summary, &turns).await? {
        call.open_transcript = None;
        return Ok(());
    }
    let at = at.min(now).max(call.row.started_at);
    let mut event = events::transcript(&call.row, &summary, at, now);
    // If the commit of the same transcript was not answered, this is the same event: the store has it once.
    let hash: [u8; 32] = Sha256::digest(&turns).into();
    // A later transcript replaces the first one, but the statistics count the turns of a call once.
    let mut is_first = call.row.turn_latency_ms.is_none() && !latencies.is_empty();
    if let Some(open) = call.open_transcript
        && call.row.transcript_summary.as_ref() == Some(&summary)
        && open.turns == hash
    {
        (event.id, is_first) = (open.event, open.is_first);
    }
    let open = OpenTranscript {
        turns: hash,
        event: event.id,
        is_first,
    };
    let transcript = transcript::Model {
        call_id: call.row.id,
        tenant_id: call.row.tenant_id,
        summary: summary.clone(),
        turns,
        created_at: now,
    };
    let row = call::Model {
        transcript_summary: Some(summary.clone()),
        turn_latency_ms: TurnLatencyMs::of(latencies.clone()).or(call.row.turn_latency_ms),
        ..call.row.clone()
    };
    let latency = row.turn_latency_ms;
    let entry = CommitEntry {
        transcript: Some(transcript),
        counted: is_first.then(|| CallCounts::of_turns(&row, &latencies)),
        events: vec![event],
        ..CommitEntry::of(row.tenant_id)
    };
    let written = call.write_with(row, entry).await;
    if has_turns && written.is_ok() {
        call.has_turns = Some(true);
    }
    call.open_transcript = None;
    if written == Err(CallError::Unavailable) {
        // A later step must not write that there is none.
        call.row.transcript_summary = Some(summary);
        call.row.turn_latency_ms = latency;
        call.open_transcript = Some(open);
    }
    written
}

/// Fails if the call ended too long ago.
pub(in crate::calls) fn accepts_words(call: &OwnedCall, now: Millis) -> Result<(), CallError> {
    let is_closed = |ended: Millis| now.since(ended) > OPEN_MS;
    match call.row.ended_at.is_some_and(is_closed) {
        true => Err(CallError::InvalidTransition {
            status: call.state.status(),
        }),
        false => Ok(()),
    }
}

/// The store has this transcript already.
async fn is_stored(call: &OwnedCall, summary: &String, turns: &str) -> Result<bool, CallError> {
    if call.row.transcript_summary.as_ref() != Some(summary) {
        return Ok(false);
    }
    let known = transcript::Entity::find_by_id(call.row.id)
        .one(call.deps.store.critical_reader())
        .await
        .map_err(unavailable)?;
    Ok(known.is_some_and(|known| known.turns == turns))
}
