//! What one bridge may have under way, over all its connections: bytes of messages and of their replies, and one list of calls
//! at a time. A bridge that asks for more waits for itself, not others for it.

use std::sync::Arc;

use dashmap::DashMap;
use dikala_entities::BridgeId;
use tokio::sync::{Mutex, MutexGuard, OwnedSemaphorePermit, Semaphore};

use super::protocol::{Body, Refusal, Request};

/// Bytes that a bridge's messages under way may weigh.
const BYTES_MAX: usize = 64 * 1024 * 1024;
/// Read, a message takes about this many times its length.
const READ_FACTOR: usize = 4;
/// What an agent's settings take in the reply to `call.incoming`, at most.
const AGENT_BYTES: usize = 256 * 1024;
/// What a function's result takes in the reply, at most.
const RESULT_BYTES: usize = 64 * 1024;

/// The right to have a message under way; given back when its reply is written, or will not be.
#[derive(Debug)]
pub struct Room(
    #[expect(dead_code, reason = "it is held, and counts when it is dropped")] OwnedSemaphorePermit,
);

/// What every bridge has left.
#[derive(Debug, Default)]
pub struct Budgets(DashMap<BridgeId, Arc<Budget>>);

impl Budgets {
    /// The budget of a bridge, the same for all its connections.
    pub fn of(&self, bridge: BridgeId) -> Arc<Budget> {
        Arc::clone(&self.0.entry(bridge).or_default())
    }
}

/// What one bridge has left.
#[derive(Debug)]
pub struct Budget {
    bytes: Arc<Semaphore>,
    lists: Mutex<()>,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            bytes: Arc::new(Semaphore::new(BYTES_MAX)),
            lists: Mutex::new(()),
        }
    }
}

impl Budget {
    /// Waits until there is room for so many bytes, in the order of asking.
    pub async fn room(&self, bytes: usize) -> Room {
        let bytes = u32::try_from(bytes.min(BYTES_MAX)).expect("the budget is far below 4 GiB");
        let room = Arc::clone(&self.bytes).acquire_many_owned(bytes).await;
        Room(room.expect("nobody closes the semaphore"))
    }

    /// Waits for the turn to compare a list of calls: such a list reads the store at length.
    pub async fn turn(&self) -> MutexGuard<'_, ()> {
        self.lists.lock().await
    }
}

/// What a message of that length, and its reply, weigh while they are under way.
pub fn weight(length: usize, message: &Result<Request, Refusal>) -> usize {
    let reply = match message.as_ref().map(|request| &request.body) {
        Ok(Body::Incoming(_)) => AGENT_BYTES,
        Ok(Body::Function(_)) => RESULT_BYTES,
        Ok(Body::Call { .. } | Body::Heartbeat { .. }) | Err(_) => 0,
    };
    length * READ_FACTOR + reply
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::bridge::protocol::parse;

    #[test]
    fn a_bridge_that_has_too_much_under_way_waits_for_itself_alone() {
        let (budgets, now) = (Budgets::default(), dikala_entities::Millis::MIN);
        let (one, other) = (BridgeId::new(now), BridgeId::new(now));
        let all = budgets.of(one).room(usize::MAX).now_or_never();
        assert!(all.is_some());
        assert!(budgets.of(one).room(1).now_or_never().is_none());
        assert!(budgets.of(other).room(1).now_or_never().is_some());
        drop(all);
        assert!(budgets.of(one).room(1).now_or_never().is_some());
    }

    #[test]
    fn a_message_weighs_what_its_answer_does() {
        let of = |message| weight(100, &parse(&message));
        let call = "call_01m7y9esr1knjqj2g1g88t46y5";
        let incoming = serde_json::json!({"id": "1", "type": "call.incoming", "bridgeCallId": "b",
            "did": "+622150001000", "callerNumber": "x"});
        let hangup = serde_json::json!({"id": "1", "type": "call.hangup", "callId": call});
        assert_eq!(of(incoming), 400 + AGENT_BYTES);
        assert_eq!(of(hangup), 400);
        assert_eq!(of(serde_json::json!({"id": "1"})), 400);
    }
}
