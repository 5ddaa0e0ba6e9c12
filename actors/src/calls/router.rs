//! Brings what concerns a call to the call's actor: the one that is here, or one that is started, for a new call or for one that
//! is read back from the store.

mod starting;

use std::{
    collections::{HashMap, HashSet},
    hash::RandomState,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use actix::{Addr, Handler, MailboxError, Message, Recipient};
use actix_rt::ArbiterHandle;
use dikala_entities::{BridgeId, CallId, Millis, PhoneNumber, TenantId, call};
use futures_util::{StreamExt, stream};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QuerySelect};
use tokio::sync::{Mutex, oneshot};

use super::{
    actor::{Beginning, CallActor},
    directory::{Directory, Payer},
    error::{CallError, unavailable},
    look_up::{LookUps, LookedUp, Ring},
    messages::{CallNow, Describe, Incoming, Input, InvokeFunction, Reply, Tell},
    meter::CallMeter,
    open::FIRST_EPOCH,
    parts::CallParts,
};
use crate::traces::arrival;

/// How long a caller waits for a call's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long somebody who only looks waits for a call's answer.
const DESCRIBE_TIMEOUT: Duration = Duration::from_millis(150);
/// Locks that keep two callers from starting the same call; one for many calls.
const STRIPES: usize = 256;
/// Calls of a heartbeat that are asked for by one statement.
const CHUNK: usize = 500;
/// How often a call is looked for that has just gone elsewhere.
const PLACES_MAX: usize = 3;
/// Calls told something at once by a heartbeat or a top-up.
const CONCURRENT: usize = 64;

/// The running calls of this process; cheap to clone.
#[derive(Clone)]
pub struct Calls(Arc<Shared>);

struct Shared {
    look_ups: LookUps,
    parts: Arc<CallParts>,
    arbiters: Vec<ArbiterHandle>,
    /// Actors started so far; spreads them over the arbiters, and tells them apart.
    started: AtomicUsize,
    directory: Directory,
    stripes: Vec<Mutex<()>>,
    hasher: RandomState,
    /// Who hears that an actor panicked.
    deaths: OnceLock<Recipient<Died>>,
    closed: AtomicBool,
    /// Whether calls may have been taken from nodes that are no more, and not been read since.
    unread: AtomicBool,
}

/// The actor of a call panicked.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(super) struct Died(pub(super) CallId);

impl std::fmt::Debug for Calls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Calls")
            .field("running", &self.0.directory.len())
            .finish()
    }
}

impl Calls {
    /// No call is running yet. The calls' actors are spread over `arbiters`.
    pub fn new(parts: CallParts, arbiters: Vec<ArbiterHandle>) -> Self {
        Self(Arc::new(Shared {
            look_ups: LookUps::new(parts.store.clone()),
            parts: Arc::new(parts),
            arbiters,
            started: AtomicUsize::new(0),
            directory: Directory::default(),
            stripes: (0..STRIPES).map(|_| Mutex::new(())).collect(),
            hasher: RandomState::new(),
            deaths: OnceLock::new(),
            closed: AtomicBool::new(false),
            unread: AtomicBool::new(false),
        }))
    }

    /// What every call works with.
    pub(super) fn parts(&self) -> &Arc<CallParts> {
        &self.0.parts
    }

    /// Which calls are in memory.
    pub(super) fn directory(&self) -> &Directory {
        &self.0.directory
    }

    /// What is counted of them.
    pub fn meter(&self) -> &CallMeter {
        &self.parts().meter
    }

    /// Calls in memory now, those included that were over a moment ago.
    pub fn in_memory(&self) -> usize {
        self.directory().len()
    }

    /// What calls that are in memory are about, of those that answer at once.
    pub async fn describe(&self, calls: &[CallId]) -> HashMap<CallId, CallNow> {
        let asked = calls.iter().filter_map(|call| {
            let actor = self.directory().find(*call)?;
            // Who is busy with a message is not waited for, and who has no room is not asked.
            Some(async move {
                let answer = actor.send(Describe).timeout(DESCRIBE_TIMEOUT).await;
                Some((*call, answer.ok()??))
            })
        });
        let answers = futures_util::future::join_all(asked).await;
        answers.into_iter().flatten().collect()
    }

    /// Whose calls come in at a number.
    pub fn payer_of_number(&self, number: &PhoneNumber) -> Payer {
        self.directory().payer_of_number(number)
    }

    /// Whose a call is.
    pub fn payer_of_call(&self, call: CallId) -> Payer {
        self.directory().payer_of_call(call)
    }

    /// From now on no new call is taken; running ones go on.
    pub fn close(&self) {
        self.0.closed.store(true, Relaxed);
    }

    /// Whether no new calls are taken any more.
    pub(super) fn is_closed(&self) -> bool {
        self.0.closed.load(Relaxed)
    }

    /// Calls that were taken may wait to be read, or do so no more.
    pub(super) fn set_unread(&self, unread: bool) {
        self.0.unread.store(unread, Relaxed);
    }

    /// Whether calls that were taken may wait to be read.
    pub(super) fn has_unread(&self) -> bool {
        self.0.unread.load(Relaxed)
    }

    /// Who hears of actors that panicked. Set once.
    pub(super) fn report_deaths_to(&self, recipient: Recipient<Died>) {
        let _ = self.0.deaths.set(recipient);
    }

    /// A call came in at a bridge: a new one, or one that the bridge reported before.
    pub async fn incoming(&self, bridge: BridgeId, incoming: Incoming) -> Result<Reply, CallError> {
        let key = (bridge, incoming.bridge_call_id.clone());
        if let Some(call) = self.directory().known(&key) {
            return self.reopen(bridge, call).await;
        }
        if !self.parts().node.acts_soon().await {
            return Err(CallError::Unavailable);
        }
        let stripe = self.stripe(&key).lock().await;
        if let Some(call) = self.directory().known(&key) {
            drop(stripe);
            return self.reopen(bridge, call).await;
        }
        let ring = Ring {
            bridge,
            bridge_call: incoming.bridge_call_id.clone(),
            did: incoming.did.clone(),
        };
        let callee = match self.0.look_ups.look_up(ring).await? {
            LookedUp::New(callee) => callee,
            LookedUp::UnknownNumber => return Err(CallError::UnknownNumber),
            LookedUp::Known(call) => {
                drop(stripe);
                return self.reopen(bridge, call).await;
            }
        };
        if self.0.closed.load(Relaxed) || !self.parts().node.acts() {
            return Err(CallError::Unavailable);
        }
        let id = CallId::new(self.0.parts.clock.now());
        // The call opens by itself, with or without who waits here: a caller that is cancelled leaves a call that rings, and a
        // bridge that asks again.
        let (reply, opened) = oneshot::channel();
        let beginning = Beginning::Open(Box::new(incoming), callee, arrival(), reply);
        self.start(id, FIRST_EPOCH, key, None, beginning);
        drop(stripe);
        match tokio::time::timeout(ANSWER_TIMEOUT, opened).await {
            Ok(Ok(opened)) => opened,
            _ => Err(CallError::Unavailable),
        }
    }

    /// A call that could not be opened a moment ago is worth another try.
    async fn reopen(&self, bridge: BridgeId, call: CallId) -> Result<Reply, CallError> {
        let reply = self.tell(Some(bridge), call, Input::Reopen).await;
        reply.map_err(|error| {
            if error == CallError::UnknownCall {
                CallError::Busy
            } else {
                error
            }
        })
    }

    /// Tells a call something, wherever it is: in memory or in the store.
    pub async fn tell(
        &self,
        bridge: Option<BridgeId>,
        call: CallId,
        input: Input,
    ) -> Result<Reply, CallError> {
        self.ask_wherever(
            call,
            Tell {
                bridge,
                input,
                arrival: arrival(),
            },
        )
        .await
    }

    /// Asks the call's actor; where that is gone, or another node's by now, the one that takes its place here.
    async fn ask_wherever<M, T>(&self, call: CallId, message: M) -> Result<T, CallError>
    where
        M: Message<Result = Result<T, CallError>> + Clone + Send + 'static,
        T: Send + 'static,
        CallActor: Handler<M>,
    {
        if !self.parts().node.acts_soon().await {
            return Err(CallError::Unavailable);
        }
        for _ in 0..PLACES_MAX {
            let addr = self.find(call).await?;
            match ask(&addr, message.clone()).await {
                Err(Gone) | Ok(Err(CallError::Moved)) => self.directory().forget(call, &addr),
                Ok(answer) => return answer,
            }
        }
        // It goes to and fro between nodes, or dies again and again.
        Err(CallError::Busy)
    }

    /// The AI invokes a function.
    pub async fn invoke(
        &self,
        call: CallId,
        message: InvokeFunction,
    ) -> Result<serde_json::Value, CallError> {
        self.ask_wherever(call, message).await
    }

    /// A bridge lists what it holds. Calls that it lost are dropped; the answer names those that are over here.
    pub async fn heartbeat(
        &self,
        bridge: BridgeId,
        held: &[CallId],
        at: Option<Millis>,
    ) -> Result<Vec<CallId>, CallError> {
        let listed_at = self.0.parts.clock.dated(at);
        let listed: HashSet<CallId> = held.iter().copied().collect();
        let here = self.directory().of_bridge_without(bridge, &listed);
        let mut missing: HashSet<CallId> = here.into_iter().collect();
        if self.parts().node.has_others() {
            missing.extend(self.running(bridge, listed_at).await?);
        }
        let missing = missing.difference(&listed).copied().collect();
        self.tell_all(Some(bridge), missing, Input::Missing { listed_at })
            .await?;
        self.0.parts.bridges.listed(bridge);
        let mut over = HashSet::new();
        for chunk in held.chunks(CHUNK) {
            let ids: Vec<CallId> = call::Entity::find()
                .filter(call::Column::BridgeId.eq(bridge))
                .filter(call::Column::Id.is_in(chunk.iter().copied()))
                .filter(call::Column::EndedAt.is_not_null())
                .select_only()
                .column(call::Column::Id)
                .into_tuple()
                .all(self.0.parts.store.critical_reader())
                .await
                .map_err(unavailable)?;
            over.extend(ids);
        }
        Ok(held
            .iter()
            .copied()
            .filter(|call| over.contains(call))
            .collect())
    }

    /// Running calls of a bridge that began before a list was made, whoever has them: this node may have taken one over that it
    /// could not read then.
    async fn running(&self, bridge: BridgeId, listed_at: Millis) -> Result<Vec<CallId>, CallError> {
        let parts = self.parts();
        call::Entity::find()
            .filter(call::unfinished())
            .filter(call::Column::BridgeId.eq(bridge))
            .filter(call::Column::StartedAt.lte(listed_at))
            .select_only()
            .column(call::Column::Id)
            .into_tuple()
            .all(parts.store.critical_reader())
            .await
            .map_err(unavailable)
    }

    /// A tenant's balance went up.
    pub(super) async fn credited(&self, tenant: TenantId) {
        let running = self.directory().of_tenant(tenant);
        // A call that does not hear of it asks again by itself a few seconds later.
        let _ = self.tell_all(None, running, Input::Credited).await;
    }

    async fn tell_all(
        &self,
        bridge: Option<BridgeId>,
        calls: Vec<CallId>,
        input: Input,
    ) -> Result<(), CallError> {
        let mut answers = stream::iter(calls)
            .map(|call| self.tell(bridge, call, input.clone()))
            .buffer_unordered(CONCURRENT);
        while let Some(answer) = answers.next().await {
            // A call that could not be opened is nobody's.
            if let Err(error) = answer
                && error != CallError::UnknownCall
            {
                return Err(error);
            }
        }
        Ok(())
    }
}

/// The actor is gone: its call has to be read again.
struct Gone;

/// An actor that is only slow keeps its place: two actors of one call would be worse than a late answer.
async fn ask<M, T>(addr: &Addr<CallActor>, message: M) -> Result<Result<T, CallError>, Gone>
where
    M: Message<Result = Result<T, CallError>> + Send + 'static,
    T: Send + 'static,
    CallActor: Handler<M>,
{
    match addr.send(message).timeout(ANSWER_TIMEOUT).await {
        Ok(answer) => Ok(answer),
        Err(MailboxError::Timeout) => Ok(Err(CallError::Unavailable)),
        Err(MailboxError::Closed) => Err(Gone),
    }
}
