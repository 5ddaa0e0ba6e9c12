//! Turns of a call as they are heard. They wait in memory for their commit: a call makes at most one a second.

use dikala_entities::Millis;
use dikala_protocol::NumberedTurn;
use tokio::sync::oneshot;

use super::{error::CallError, messages::CallReply};

/// Minimum time between two commits of a call's turns.
const COMMITS_APART_MS: i64 = 1_000;
/// Turns that may wait. Nobody speaks faster.
const WAITING_MAX: usize = 32;

type Reply = oneshot::Sender<Result<CallReply, CallError>>;

/// The turns of a call that are not committed yet, with those who wait for that.
#[derive(Debug, Default)]
pub(super) struct WaitingTurns {
    turns: Vec<(NumberedTurn, Reply)>,
    committed_at: Option<Millis>,
}

impl WaitingTurns {
    /// Adds a turn. Returns the time of its commit if none is planned, or its reply's sender if too many wait.
    pub(super) fn add(
        &mut self,
        turn: NumberedTurn,
        reply: Reply,
        now: Millis,
    ) -> Result<Option<Millis>, Reply> {
        if self.turns.len() >= WAITING_MAX {
            return Err(reply);
        }
        self.turns.push((turn, reply));
        let is_first = self.turns.len() == 1;
        let due = self.committed_at.map(|at| at.plus_ms(COMMITS_APART_MS));
        Ok(is_first.then(|| due.map_or(now, |due| due.clamp(now, now.plus_ms(COMMITS_APART_MS)))))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Takes all turns for a commit at `now`. Of those with the same number the last one counts.
    pub(super) fn take(&mut self, now: Millis) -> (Vec<NumberedTurn>, Vec<Reply>) {
        self.committed_at = Some(now);
        let waiting = std::mem::take(&mut self.turns);
        let (mut turns, mut replies) = (Vec::new(), Vec::new());
        for (turn, reply) in waiting {
            turns.retain(|other: &NumberedTurn| other.n != turn.n);
            turns.push(turn);
            replies.push(reply);
        }
        (turns, replies)
    }
}
