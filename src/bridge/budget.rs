//! Limits on the bridges' messages under way, and fairness between bridges and tenants.
//!
//! Limits of one bridge, over all its connections:
//! - the bytes of its messages,
//! - replies that are being made or written,
//! - one `activeCalls` list at a time.
//!
//! A bridge that exceeds a limit delays only itself. A `call.incoming` never waits for room. It is refused with
//! `busy` if its tenant's share is used up, or if the tenant's first call has waited too long. So the messages behind
//! it on the socket are still read. A message about a running call is never refused, only read later, because later
//! messages of its bridge depend on it.
//!
//! Limits of all bridges: messages under way share a byte budget, first come, first served. The number of concurrent
//! messages is limited, round-robin over the tenants of each bridge.
//!
//! A function that waits for its endpoint releases its room, so that slow endpoints delay no other message. Waiting
//! functions have a byte budget of their own, and the result takes new room when it arrives.

use std::{sync::Arc, time::Duration};

use dashmap::DashMap;
use dikala_actors::{
    calls::{CallError, TenantHint},
    runtime::{
        fair_semaphore::{FairPermit, FairSemaphore},
        shared_limit::{self, SharedLimit},
    },
};
use dikala_entities::BridgeId;
use dikala_protocol::{BridgeMessage, MessageContent};
use tokio::sync::{Mutex, MutexGuard, OwnedSemaphorePermit, Semaphore};

use super::protocol::MessageRefusal;

/// Messages of one connection that may be under way. A message whose reply waits to be written counts; a function
/// that waits for its endpoint does not.
pub const IN_FLIGHT_MAX: usize = 16_384;
/// Longest wait of a request, or of a function's result, for room in its bridge's budget.
pub const ROOM_WITHIN: Duration = Duration::from_secs(10);
/// Byte budget of one bridge's messages under way.
const BYTES_MAX: usize = 64 * 1024 * 1024;
/// Byte budget of the messages under way of all bridges. Functions that wait for their endpoints have another of this
/// size.
const BYTES_OF_ALL_MAX: usize = 4 * BYTES_MAX;
/// The part of a bridge's bytes that incoming calls may use, and the part of one tenant.
const RING_BYTES_MAX: usize = BYTES_MAX / 2;
const RING_BYTES_EACH: usize = RING_BYTES_MAX / 2;
/// Byte budget of one bridge's functions that wait for their endpoints.
const ASIDE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// A parsed message takes about this many times its length.
const READ_FACTOR: usize = 4;
/// Fixed overhead of a waiting message, in bytes.
const MESSAGE_BYTES: usize = 2 * 1024;
/// Largest size of a function's result in the reply.
const RESULT_BYTES: usize = 64 * 1024;
/// Overhead of a waiting function besides its message, in bytes.
const FUNCTION_BYTES: usize = 4 * 1024;
/// Concurrent call openings of one bridge, and of one tenant on it. An opening counts until its reply is written,
/// which holds an agent of up to 256 KiB.
const ANSWERS_MAX: usize = 1_024;
const ANSWERS_EACH: usize = ANSWERS_MAX / 2;
/// Concurrent messages of all bridges, and of one tenant on one bridge.
const TURNS_MAX: usize = 1_024;
const TURNS_EACH: usize = TURNS_MAX / 2;
/// A tenant's incoming calls are refused once the first of them has waited for this long.
const LATE: Duration = Duration::from_secs(2);
/// Longest wait of an incoming call.
pub const RING_WITHIN: Duration = Duration::from_secs(5);

/// A message's reservation in the budget. It is held until the reply is written, or cannot be written any more.
#[derive(Debug)]
pub struct MessageReservation {
    bytes: ByteReservation,
    #[expect(dead_code, reason = "it is held, and counts when it is dropped")]
    place: OwnedSemaphorePermit,
    #[expect(dead_code, reason = "it is held, and counts when it is dropped")]
    ring: Option<Box<shared_limit::SharedPermit<TenantHint>>>,
    /// Held while a call is being opened, until the reply with its agent is written.
    answer: Option<Box<FairPermit<TenantHint>>>,
}

/// Bytes of a bridge's budget, and the same number of the shared budget.
#[derive(Debug)]
struct ByteReservation {
    own: OwnedSemaphorePermit,
    shared: OwnedSemaphorePermit,
}

impl ByteReservation {
    fn split(&mut self, bytes: usize) -> Self {
        let split = |of: &mut OwnedSemaphorePermit| {
            let most = of.num_permits();
            of.split(bytes.min(most))
                .expect("no more is split off than is left")
        };
        Self {
            own: split(&mut self.own),
            shared: split(&mut self.shared),
        }
    }
}

/// The reservation of a function that waits for its endpoint.
#[derive(Debug)]
pub struct FunctionReservation(
    #[expect(dead_code, reason = "it is held, and counts when it is dropped")] ByteReservation,
);

/// The budgets that all bridges share.
#[derive(Clone, Debug)]
struct SharedBudget {
    bytes: Arc<Semaphore>,
    aside: Arc<Semaphore>,
    turns: FairSemaphore<(BridgeId, TenantHint)>,
}

/// The budgets of all bridges.
#[derive(Debug)]
pub struct BridgeBudgets {
    bridges: DashMap<BridgeId, Arc<BridgeBudget>>,
    shared: SharedBudget,
}

impl Default for BridgeBudgets {
    fn default() -> Self {
        Self {
            bridges: DashMap::new(),
            shared: SharedBudget {
                bytes: Arc::new(Semaphore::new(BYTES_OF_ALL_MAX)),
                aside: Arc::new(Semaphore::new(BYTES_OF_ALL_MAX)),
                turns: FairSemaphore::new(TURNS_MAX, TURNS_EACH),
            },
        }
    }
}

impl BridgeBudgets {
    /// The budget of a new connection. All connections of a bridge share the bridge's budget.
    pub fn of(&self, bridge: BridgeId) -> ConnectionBudget {
        ConnectionBudget {
            bridge,
            budget: Arc::clone(&self.bridges.entry(bridge).or_default()),
            shared: self.shared.clone(),
            places: Arc::new(Semaphore::new(IN_FLIGHT_MAX)),
        }
    }
}

/// The budget of one bridge.
#[derive(Debug)]
struct BridgeBudget {
    bytes: Arc<Semaphore>,
    rings: SharedLimit<TenantHint>,
    answers: FairSemaphore<TenantHint>,
    aside: Arc<Semaphore>,
    lists: Mutex<()>,
}

impl Default for BridgeBudget {
    fn default() -> Self {
        Self {
            bytes: Arc::new(Semaphore::new(BYTES_MAX)),
            rings: SharedLimit::new(RING_BYTES_MAX, RING_BYTES_EACH),
            answers: FairSemaphore::new(ANSWERS_MAX, ANSWERS_EACH),
            aside: Arc::new(Semaphore::new(ASIDE_BYTES_MAX)),
            lists: Mutex::new(()),
        }
    }
}

/// The budget of one connection: its own message limit, and its bridge's budget.
#[derive(Clone, Debug)]
pub struct ConnectionBudget {
    bridge: BridgeId,
    budget: Arc<BridgeBudget>,
    shared: SharedBudget,
    places: Arc<Semaphore>,
}

/// The size of a message in its bridge's budget.
#[derive(Debug)]
pub struct MessageWeight {
    bytes: usize,
    ring: Option<Box<shared_limit::SharedPermit<TenantHint>>>,
}

impl ConnectionBudget {
    /// Weighs a message of that length. An incoming call that may not wait becomes a refusal, and that refusal weighs
    /// nothing.
    pub fn weigh(
        &self,
        length: usize,
        message: Result<BridgeMessage, MessageRefusal>,
        tenant_of: impl FnOnce(&BridgeMessage) -> TenantHint,
    ) -> (Result<BridgeMessage, MessageRefusal>, MessageWeight) {
        let bytes = length * READ_FACTOR + MESSAGE_BYTES;
        let (message, bytes, ring) = match message {
            Ok(request) if matches!(request.content, MessageContent::Incoming(_)) => {
                match self.take_in(tenant_of(&request), bytes) {
                    Some(ring) => (Ok(request), bytes, Some(Box::new(ring))),
                    None => (Err(MessageRefusal::busy(&request)), 0, None),
                }
            }
            Ok(request) => (Ok(request), bytes, None),
            Err(refusal) => (Err(refusal), bytes, None),
        };
        (message, MessageWeight { bytes, ring })
    }

    fn take_in(
        &self,
        payer: TenantHint,
        bytes: usize,
    ) -> Option<shared_limit::SharedPermit<TenantHint>> {
        let waited = [
            self.budget.answers.waited(&payer),
            self.shared.turns.waited(&(self.bridge, payer)),
        ];
        if waited.into_iter().flatten().any(|waited| waited >= LATE) {
            return None;
        }
        self.budget.rings.take_some(payer, bytes)
    }

    /// Reserves room for a message without waiting.
    pub fn room_now(&self, weight: MessageWeight) -> Result<MessageReservation, MessageWeight> {
        let bytes = as_permits(weight.bytes, BYTES_MAX);
        let Some(bytes) = at_once(&self.budget.bytes, &self.shared.bytes, bytes) else {
            return Err(weight);
        };
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            return Err(weight);
        };
        Ok(MessageReservation {
            bytes,
            place,
            ring: weight.ring,
            answer: None,
        })
    }

    /// Waits for room for a message, first come, first served.
    pub async fn room(&self, weight: MessageWeight) -> MessageReservation {
        let bytes = self.bytes(weight.bytes).await;
        self.place(bytes, weight.ring).await
    }

    /// Like [`Self::room`] for several messages at once: all get room together.
    pub async fn rooms(&self, weights: Vec<MessageWeight>) -> Vec<MessageReservation> {
        let mut all = self
            .bytes(weights.iter().map(|weight| weight.bytes).sum())
            .await;
        let mut rooms = Vec::with_capacity(weights.len());
        for weight in weights {
            let bytes = all.split(weight.bytes);
            rooms.push(self.place(bytes, weight.ring).await);
        }
        rooms
    }

    /// Waits for a permit to open an incoming call, and reserves the place of its reply in `room`.
    pub async fn ring_turn(
        &self,
        payer: TenantHint,
        room: &mut MessageReservation,
        within: Duration,
    ) -> Result<FairPermit<(BridgeId, TenantHint)>, CallError> {
        let both = async {
            // The reply permit comes first: replies that the bridge does not read must hold no permit of the shared
            // limit.
            room.answer = Some(Box::new(self.budget.answers.take(payer).await));
            self.turn(payer).await
        };
        let turn = tokio::time::timeout(within, both).await;
        turn.map_err(|_| CallError::Busy)
    }

    /// Waits for a permit to carry out a message about a call.
    pub async fn turn(&self, payer: TenantHint) -> FairPermit<(BridgeId, TenantHint)> {
        self.shared.turns.take((self.bridge, payer)).await
    }

    /// Room for a function's result. After `within`, the error holds room of no bytes, enough for a refusal.
    pub async fn room_for_result(
        &self,
        within: Duration,
    ) -> Result<MessageReservation, MessageReservation> {
        match tokio::time::timeout(within, self.bytes(RESULT_BYTES)).await {
            Ok(bytes) => Ok(self.place(bytes, None).await),
            Err(_) => {
                let nothing = at_once(&self.budget.bytes, &self.shared.bytes, 0);
                Err(self
                    .place(nothing.expect("there is always nothing"), None)
                    .await)
            }
        }
    }

    /// Exchanges a function's room for a reservation while it waits for its endpoint. Gives the room back if too many
    /// wait.
    pub fn step_aside(
        &self,
        room: MessageReservation,
    ) -> Result<FunctionReservation, MessageReservation> {
        let bytes = room.bytes.own.num_permits().saturating_add(FUNCTION_BYTES);
        let bytes = as_permits(bytes, ASIDE_BYTES_MAX);
        let aside = at_once(&self.budget.aside, &self.shared.aside, bytes);
        aside.map(FunctionReservation).ok_or(room)
    }

    /// Waits for the permit to compare a list of calls, which takes long reads of the store. One per bridge.
    pub async fn list_turn(&self) -> MutexGuard<'_, ()> {
        self.budget.lists.lock().await
    }

    async fn bytes(&self, bytes: usize) -> ByteReservation {
        let bytes = as_permits(bytes, BYTES_MAX);
        let of = async |budget: &Arc<Semaphore>| {
            let bytes = Arc::clone(budget).acquire_many_owned(bytes);
            bytes.await.expect("nobody closes the semaphore")
        };
        // The bridge's own budget first: while it waits for that, it must hold none of the shared budget.
        let own = of(&self.budget.bytes).await;
        let shared = of(&self.shared.bytes).await;
        ByteReservation { own, shared }
    }

    async fn place(
        &self,
        bytes: ByteReservation,
        ring: Option<Box<shared_limit::SharedPermit<TenantHint>>>,
    ) -> MessageReservation {
        let place = Arc::clone(&self.places).acquire_owned().await;
        let place = place.expect("nobody closes the semaphore");
        MessageReservation {
            bytes,
            place,
            ring,
            answer: None,
        }
    }
}

fn at_once(own: &Arc<Semaphore>, shared: &Arc<Semaphore>, bytes: u32) -> Option<ByteReservation> {
    Some(ByteReservation {
        own: Arc::clone(own).try_acquire_many_owned(bytes).ok()?,
        shared: Arc::clone(shared).try_acquire_many_owned(bytes).ok()?,
    })
}

fn as_permits(bytes: usize, most: usize) -> u32 {
    u32::try_from(bytes.min(most)).expect("the budgets are far below 4 GiB")
}

#[cfg(test)]
mod tests {
    use dikala_entities::{Millis, TenantId};
    use futures_util::FutureExt;
    use serde_json::json;

    use super::*;
    use crate::bridge::protocol::parse_text;

    fn bridge() -> BridgeId {
        BridgeId::new(Millis::MIN)
    }

    fn plain(bytes: usize) -> MessageWeight {
        MessageWeight { bytes, ring: None }
    }

    fn room(share: &ConnectionBudget, bytes: usize) -> Option<MessageReservation> {
        share.room(plain(bytes)).now_or_never()
    }

    /// Reserves room for an incoming call, if it is admitted.
    fn ring(share: &ConnectionBudget, payer: TenantHint) -> Option<MessageReservation> {
        let incoming = json!({"id": "1", "type": "call.incoming", "bridgeCallId": "b",
            "did": "+622150001000", "callerNumber": "x"});
        let (message, weight) =
            share.weigh(200, parse_text(incoming.to_string().as_bytes()), |_| payer);
        let room = share.room_now(weight).expect("there is room");
        message.is_ok().then_some(room)
    }

    fn tenant() -> TenantHint {
        Some(TenantId::new(Millis::MIN))
    }

    #[test]
    fn a_bridge_that_has_too_much_under_way_waits_for_itself_alone() {
        let budgets = BridgeBudgets::default();
        let (one, other) = (bridge(), bridge());
        let all = room(&budgets.of(one), usize::MAX);
        assert!(all.is_some());
        assert!(room(&budgets.of(one), 1).is_none());
        assert!(budgets.of(one).room_now(plain(1)).is_err());
        assert!(room(&budgets.of(other), 1).is_some());
        drop(all);
        assert!(room(&budgets.of(one), 1).is_some());
    }

    #[test]
    fn what_all_bridges_have_under_way_has_a_bound() {
        let budgets = BridgeBudgets::default();
        let many = BYTES_OF_ALL_MAX / BYTES_MAX;
        let all: Option<Vec<MessageReservation>> = (0..many)
            .map(|_| room(&budgets.of(bridge()), BYTES_MAX))
            .collect();
        let mut all = all.expect("each has its own");
        let one_more = budgets.of(bridge());
        assert!(room(&one_more, 1).is_none() && one_more.room_now(plain(1)).is_err());
        all.pop();
        assert!(room(&one_more, BYTES_MAX).is_some());
    }

    #[test]
    fn calls_of_one_tenant_that_wait_leave_room_for_those_of_others_and_for_all_that_run() {
        let share = BridgeBudgets::default().of(bridge());
        let (greedy, other) = (tenant(), tenant());
        let taken: Vec<MessageReservation> = std::iter::from_fn(|| ring(&share, greedy)).collect();
        assert!(taken.len() > 5_000, "{}", taken.len());
        assert!(ring(&share, other).is_some());
        assert!(room(&share, BYTES_MAX / 2).is_some());
        drop(taken);
        assert!(ring(&share, greedy).is_some());
    }

    #[actix_web::test]
    async fn a_call_for_which_no_turn_comes_is_refused_and_those_of_others_are_opened() {
        let soon = Duration::from_millis(1);
        let share = BridgeBudgets::default().of(bridge());
        let (greedy, other) = (tenant(), tenant());
        let mut opening = Vec::new();
        for _ in 0..ANSWERS_EACH {
            let mut room = ring(&share, greedy).expect("is taken in");
            let turn = share.ring_turn(greedy, &mut room, RING_WITHIN).await;
            opening.push((room, turn.expect("there is a turn")));
        }
        let mut late = ring(&share, greedy).expect("is taken in");
        let refused = share.ring_turn(greedy, &mut late, soon).await;
        assert_eq!(refused.err(), Some(CallError::Busy));
        let mut next = ring(&share, other).expect("is taken in");
        assert!(share.ring_turn(other, &mut next, RING_WITHIN).await.is_ok());
    }

    #[test]
    fn functions_that_wait_leave_room_for_everything_else() {
        let share = BridgeBudgets::default().of(bridge());
        let mut aside = Vec::new();
        let most = ASIDE_BYTES_MAX / (FUNCTION_BYTES + 4_096);
        for _ in 0..most {
            let own = room(&share, 4_096).expect("there is room");
            aside.push(share.step_aside(own).expect("it may wait"));
        }
        // One function too many keeps its room for the refusal.
        let own = room(&share, 4_096).expect("there is room");
        let kept = share.step_aside(own).expect_err("too many wait");
        assert!(room(&share, BYTES_MAX).is_none());
        drop(kept);
        assert!(room(&share, BYTES_MAX).is_some());
        aside.pop();
        let own = room(&share, 4_096).expect("there is room");
        assert!(share.step_aside(own).is_ok());
    }

    #[actix_web::test]
    async fn a_result_for_which_no_room_comes_is_refused_in_a_place_of_its_own() {
        let share = BridgeBudgets::default().of(bridge());
        let all = share.room(plain(BYTES_MAX)).await;
        let soon = Duration::from_millis(1);
        let refused = share.room_for_result(soon).await;
        assert_eq!(share.places.available_permits(), IN_FLIGHT_MAX - 2);
        assert!(refused.is_err());
        drop((all, refused));
        assert!(share.room_for_result(soon).await.is_ok());
    }

    #[actix_web::test]
    async fn a_connection_has_its_places_and_a_batch_its_rooms() {
        let budgets = BridgeBudgets::default();
        let bridge = bridge();
        let (one, other) = (budgets.of(bridge), budgets.of(bridge));
        let all = (0..IN_FLIGHT_MAX).map(|_| plain(0)).collect();
        let held = one.rooms(all).await;
        assert!(room(&one, 1).is_none() && one.room_now(plain(1)).is_err());
        assert!(room(&other, 1).is_some());
        drop(held);
        let rooms = one.rooms(vec![plain(1), plain(BYTES_MAX), plain(7)]).await;
        assert_eq!(rooms.len(), 3);
        assert!(room(&other, 1).is_none());
        drop(rooms);
        assert!(room(&other, BYTES_MAX).is_some());
    }
}
