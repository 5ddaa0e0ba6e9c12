//! What one bridge may have under way, over all its connections: bytes of messages and of their replies, and one list of calls
//! at a time. A bridge that asks for more waits for itself, not others for it.
//!
//! A function that waits for its endpoint stands aside: it takes nothing of that, so that endpoints that hang hold up no other
//! message. What it weighs meanwhile has a bound of its own, and its result takes room when it is there.

use std::{sync::Arc, time::Duration};

use dashmap::DashMap;
use dikala_entities::BridgeId;
use tokio::sync::{Mutex, MutexGuard, OwnedSemaphorePermit, Semaphore};

use super::protocol::{Body, Refusal, Request};

/// Messages of one connection that may be under way, those included whose reply waits to be written, and functions that wait
/// for their endpoint not.
pub const IN_FLIGHT_MAX: usize = 1_024;
/// How long a request, or the result of a function, may wait for what the same bridge has under way.
pub const ROOM_WITHIN: Duration = Duration::from_secs(10);
/// Bytes that a bridge's messages under way may weigh.
const BYTES_MAX: usize = 64 * 1024 * 1024;
/// Bytes that a bridge's functions that wait for their endpoints may weigh.
const ASIDE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Read, a message takes about this many times its length.
const READ_FACTOR: usize = 4;
/// What an agent's settings take in the reply to `call.incoming`, at most.
const AGENT_BYTES: usize = 256 * 1024;
/// What a function's result takes in the reply, at most.
const RESULT_BYTES: usize = 64 * 1024;
/// What a function that waits takes besides its message.
const FUNCTION_BYTES: usize = 4 * 1024;

/// The right to have a message under way; given back when its reply is written, or will not be.
#[derive(Debug)]
pub struct Room {
    bytes: OwnedSemaphorePermit,
    #[expect(dead_code, reason = "it is held, and counts when it is dropped")]
    place: OwnedSemaphorePermit,
}

/// The right of a function to wait for its endpoint.
#[derive(Debug)]
pub struct Aside(
    #[expect(dead_code, reason = "it is held, and counts when it is dropped")] OwnedSemaphorePermit,
);

/// What every bridge has left.
#[derive(Debug, Default)]
pub struct Budgets(DashMap<BridgeId, Arc<Budget>>);

impl Budgets {
    /// What a new connection of a bridge has: the budget is the same for all its connections.
    pub fn of(&self, bridge: BridgeId) -> Share {
        Share {
            budget: Arc::clone(&self.0.entry(bridge).or_default()),
            places: Arc::new(Semaphore::new(IN_FLIGHT_MAX)),
        }
    }
}

/// What one bridge has left.
#[derive(Debug)]
struct Budget {
    bytes: Arc<Semaphore>,
    aside: Arc<Semaphore>,
    lists: Mutex<()>,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            bytes: Arc::new(Semaphore::new(BYTES_MAX)),
            aside: Arc::new(Semaphore::new(ASIDE_BYTES_MAX)),
            lists: Mutex::new(()),
        }
    }
}

/// What one connection has left: its places, and its bridge's budget.
#[derive(Clone, Debug)]
pub struct Share {
    budget: Arc<Budget>,
    places: Arc<Semaphore>,
}

impl Share {
    /// Waits until there is room for a message of that weight, in the order of asking.
    pub async fn room(&self, bytes: usize) -> Room {
        let bytes = self.bytes(bytes).await;
        self.place(bytes).await
    }

    /// As [`Self::room`] for several messages: none has room before all have.
    pub async fn rooms(&self, weights: &[usize]) -> Vec<Room> {
        let mut all = self.bytes(weights.iter().sum()).await;
        let mut rooms = Vec::with_capacity(weights.len());
        for weight in weights {
            let bytes = all.split((*weight).min(all.num_permits()));
            let bytes = bytes.expect("no more is split off than is left");
            rooms.push(self.place(bytes).await);
        }
        rooms
    }

    /// Room for a function's result; else, after that time, for no more than the refusal of one.
    pub async fn room_for_result(&self, within: Duration) -> Result<Room, Room> {
        match tokio::time::timeout(within, self.bytes(RESULT_BYTES)).await {
            Ok(bytes) => Ok(self.place(bytes).await),
            Err(_) => {
                let nothing = Arc::clone(&self.budget.bytes).try_acquire_many_owned(0);
                Err(self.place(nothing.expect("there is always nothing")).await)
            }
        }
    }

    /// Gives a function's room back for the time in which it waits for its endpoint, or none of it where too many wait.
    pub fn step_aside(&self, room: Room) -> Result<Aside, Room> {
        let bytes = room.bytes.num_permits().saturating_add(FUNCTION_BYTES);
        let bytes = as_permits(bytes, ASIDE_BYTES_MAX);
        let aside = Arc::clone(&self.budget.aside).try_acquire_many_owned(bytes);
        aside.map(Aside).map_err(|_| room)
    }

    /// Waits for the turn to compare a list of calls: such a list reads the store at length.
    pub async fn turn(&self) -> MutexGuard<'_, ()> {
        self.budget.lists.lock().await
    }

    async fn bytes(&self, bytes: usize) -> OwnedSemaphorePermit {
        let bytes = as_permits(bytes, BYTES_MAX);
        let bytes = Arc::clone(&self.budget.bytes).acquire_many_owned(bytes);
        bytes.await.expect("nobody closes the semaphore")
    }

    async fn place(&self, bytes: OwnedSemaphorePermit) -> Room {
        let place = Arc::clone(&self.places).acquire_owned().await;
        let place = place.expect("nobody closes the semaphore");
        Room { bytes, place }
    }
}

fn as_permits(bytes: usize, most: usize) -> u32 {
    u32::try_from(bytes.min(most)).expect("the budgets are far below 4 GiB")
}

/// What a message of that length, and its reply, weigh while they are under way. A function's result is not there yet.
pub fn weight(length: usize, message: &Result<Request, Refusal>) -> usize {
    let reply = match message.as_ref().map(|request| &request.body) {
        Ok(Body::Incoming(_)) => AGENT_BYTES,
        Ok(Body::Function(_) | Body::Call { .. } | Body::Heartbeat { .. }) | Err(_) => 0,
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
    fn functions_that_wait_leave_room_for_everything_else() {
        let budgets = Budgets::default();
        let bridge = BridgeId::new(dikala_entities::Millis::MIN);
        let share = budgets.of(bridge);
        let room = |bytes| share.room(bytes).now_or_never();
        let mut aside = Vec::new();
        let most = ASIDE_BYTES_MAX / (FUNCTION_BYTES + 4_096);
        for _ in 0..most {
            let own = room(4_096).expect("there is room");
            aside.push(share.step_aside(own).expect("it may wait"));
        }
        // One more keeps the room in which it is refused.
        let own = room(4_096).expect("there is room");
        let kept = share.step_aside(own).expect_err("too many wait");
        assert!(room(BYTES_MAX).is_none());
        drop(kept);
        assert!(room(BYTES_MAX).is_some());
        aside.pop();
        let own = room(4_096).expect("there is room");
        assert!(share.step_aside(own).is_ok());
    }

    #[actix_web::test]
    async fn a_result_for_which_no_room_comes_is_refused_in_a_place_of_its_own() {
        let share = Budgets::default().of(BridgeId::new(dikala_entities::Millis::MIN));
        let all = share.room(BYTES_MAX).await;
        let soon = Duration::from_millis(1);
        let refused = share.room_for_result(soon).await;
        assert_eq!(share.places.available_permits(), IN_FLIGHT_MAX - 2);
        assert!(refused.is_err());
        drop((all, refused));
        assert!(share.room_for_result(soon).await.is_ok());
    }

    #[actix_web::test]
    async fn a_connection_has_its_places_and_a_batch_its_rooms() {
        let budgets = Budgets::default();
        let bridge = BridgeId::new(dikala_entities::Millis::MIN);
        let (one, other) = (budgets.of(bridge), budgets.of(bridge));
        let held = one.rooms(&[0; IN_FLIGHT_MAX]).await;
        assert!(one.room(1).now_or_never().is_none());
        assert!(other.room(1).now_or_never().is_some());
        drop(held);
        let rooms = one.rooms(&[1, BYTES_MAX, 7]).await;
        assert_eq!(rooms.len(), 3);
        assert!(other.room(1).now_or_never().is_none());
        drop(rooms);
        assert!(other.room(BYTES_MAX).now_or_never().is_some());
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
