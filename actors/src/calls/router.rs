//! Routes messages to a call's actor. Starts the actor if necessary, for a new call or one read from the store.

mod starting;

use std::{
    collections::{HashMap, HashSet},
    hash::RandomState,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use actix::{Addr, Handler, MailboxError, Message, Recipient};
use actix_rt::ArbiterHandle;
use dikala_entities::{BridgeId, CallId, Millis, TenantId, call};
use dikala_protocol::{CalledParty, ErrorCode, IncomingCall, MessageType};
use futures_util::{StreamExt, stream};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QuerySelect};
use tokio::sync::{Mutex, oneshot};

use super::{
    actor::{ActorStart, CallActor},
    deps::CallDeps,
    directory::{Directory, TenantHint},
    error::{CallError, unavailable},
    look_up::{LookUpResult, LookUps, RingingCall},
    messages::{CallInput, CallReply, CallSnapshot, Describe, InvokeFunction, Tell, TellTurn},
    meter::CallMeter,
    open::FIRST_EPOCH,
    recent_messages::{MessageRecord, RecentMessages},
};
use crate::traces::arrival;

/// Time that a caller waits for a call's reply.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Time that [`CallRouter::describe`] waits for a call's reply.
const DESCRIBE_TIMEOUT: Duration = Duration::from_millis(150);
/// Locks that keep concurrent callers from starting the same call twice; calls share them by hash.
const STRIPES: usize = 4_096;
/// Calls of a heartbeat per statement.
const CHUNK: usize = 500;
/// Tries to find a call that keeps moving to another node.
const PLACES_MAX: usize = 3;
/// Calls that a heartbeat or a top-up messages concurrently.
const CONCURRENT: usize = 64;

/// The running calls of this process; cheap to clone.
#[derive(Clone)]
pub struct CallRouter(Arc<Shared>);

struct Shared {
    look_ups: LookUps,
    deps: Arc<CallDeps>,
    arbiters: Vec<ArbiterHandle>,
    /// Number of actors started so far. Spreads them over the arbiters and identifies them.
    started: AtomicUsize,
    directory: Directory,
    stripes: Vec<Mutex<()>>,
    hasher: RandomState,
    /// Told of each actor that panicked.
    deaths: OnceLock<Recipient<ActorDied>>,
    closed: AtomicBool,
    /// Set while this node may own calls that it took over and has not read.
    unread: AtomicBool,
    recent: RecentMessages,
}

/// The actor of this call panicked.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(super) struct ActorDied(pub(super) CallId);

impl std::fmt::Debug for CallRouter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Calls")
            .field("running", &self.0.directory.len())
            .finish()
    }
}

impl CallRouter {
    /// Starts without calls. Spreads the calls' actors over `arbiters`.
    pub fn new(deps: CallDeps, arbiters: Vec<ArbiterHandle>) -> Self {
        Self(Arc::new(Shared {
            look_ups: LookUps::new(deps.store.clone()),
            deps: Arc::new(deps),
            arbiters,
            started: AtomicUsize::new(0),
            directory: Directory::default(),
            stripes: (0..STRIPES).map(|_| Mutex::new(())).collect(),
            hasher: RandomState::new(),
            deaths: OnceLock::new(),
            closed: AtomicBool::new(false),
            unread: AtomicBool::new(false),
            recent: RecentMessages::default(),
        }))
    }

    pub(super) fn deps(&self) -> &Arc<CallDeps> {
        &self.0.deps
    }

    pub(super) fn directory(&self) -> &Directory {
        &self.0.directory
    }

    pub fn meter(&self) -> &CallMeter {
        &self.deps().meter
    }

    /// Calls in memory, including those that ended a moment ago.
    pub fn in_memory(&self) -> usize {
        self.directory().len()
    }

    /// Keeps a bridge's message about a call for operators. It was read at `since`, and its reply is ready.
    pub fn record(
        &self,
        call: CallId,
        kind: MessageType,
        since: Instant,
        refusal: Option<ErrorCode>,
    ) {
        let took = since.elapsed();
        // Rounded up, so that it is not dated after what it caused.
        let ago = i64::try_from(took.as_millis()).unwrap_or(i64::MAX - 1) + 1;
        let at = self.deps().clock.now().plus_ms(-ago);
        let message = MessageRecord {
            at,
            kind,
            took,
            refusal,
        };
        self.0.recent.add(call, message);
    }

    /// The bridges' messages about a call, if it is one of the last calls of this process.
    pub fn messages_of(&self, call: CallId) -> Vec<MessageRecord> {
        self.0.recent.of(call)
    }

    /// Describes the given calls, as far as they are in memory and reply at once.
    pub async fn describe(&self, calls: &[CallId]) -> HashMap<CallId, CallSnapshot> {
        let requests = calls.iter().filter_map(|call| {
            let actor = self.directory().find(*call)?;
            // Busy actors are not waited for.
            Some(async move {
                let answer = actor.send(Describe).timeout(DESCRIBE_TIMEOUT).await;
                Some((*call, answer.ok()??))
            })
        });
        let answers = futures_util::future::join_all(requests).await;
        answers.into_iter().flatten().collect()
    }

    /// The tenant of the last call to a number, if known.
    pub fn tenant_of_called(&self, called: &CalledParty) -> TenantHint {
        self.directory().tenant_of_number(called.number()?.as_str())
    }

    /// The tenant of a call in memory.
    pub fn tenant_of_call(&self, call: CallId) -> TenantHint {
        self.directory().tenant_of_call(call)
    }

    /// Refuses new calls from now on; running ones continue.
    pub fn close(&self) {
        self.0.closed.store(true, Relaxed);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.0.closed.load(Relaxed)
    }

    /// Set while calls that were taken over may not have been read.
    pub(super) fn set_unread(&self, unread: bool) {
        self.0.unread.store(unread, Relaxed);
    }

    pub(super) fn has_unread(&self) -> bool {
        self.0.unread.load(Relaxed)
    }

    /// Sets the recipient of [`ActorDied`]. Set once.
    pub(super) fn report_deaths_to(&self, recipient: Recipient<ActorDied>) {
        let _ = self.0.deaths.set(recipient);
    }

    /// A call came in at a bridge: a new one, or a repeat. `draft` are settings as JSON, in place of the agent's.
    pub async fn incoming(
        &self,
        bridge: BridgeId,
        incoming: IncomingCall,
        draft: Option<String>,
    ) -> Result<CallReply, CallError> {
        let key = (bridge, incoming.bridge_call_id.clone());
        if let Some(call) = self.directory().known(&key) {
            return self.reopen(bridge, call).await;
        }
        if !self.deps().node.acts_soon().await {
            return Err(CallError::Unavailable);
        }
        let stripe = self.stripe(&key).lock().await;
        if let Some(call) = self.directory().known(&key) {
            drop(stripe);
            return self.reopen(bridge, call).await;
        }
        let ring = RingingCall {
            bridge,
            bridge_call: incoming.bridge_call_id.clone(),
            called: incoming.called.clone(),
        };
        let mut callee = match self.0.look_ups.look_up(ring).await? {
            LookUpResult::New(callee) => callee,
            LookUpResult::NotWeb => return Err(CallError::NotWeb),
            LookUpResult::Unknown => {
                return Err(match incoming.called {
                    CalledParty::Number(_) => CallError::UnknownNumber,
                    CalledParty::Agent(_) => CallError::UnknownAgent,
                });
            }
            LookUpResult::Known(call) => {
                drop(stripe);
                return self.reopen(bridge, call).await;
            }
        };
        if self.0.closed.load(Relaxed) || !self.deps().node.acts() {
            return Err(CallError::Unavailable);
        }
        callee.draft = draft.or(callee.draft);
        let id = CallId::new(self.0.deps.clock.now());
        // The actor opens the call even if this caller is cancelled. Then the call rings, and the bridge repeats its message.
        let (reply, opened) = oneshot::channel();
        let beginning = ActorStart::Open(Box::new(incoming), callee, arrival(), reply);
        self.start(id, FIRST_EPOCH, key, None, beginning);
        drop(stripe);
        match tokio::time::timeout(ANSWER_TIMEOUT, opened).await {
            Ok(Ok(opened)) => opened,
            _ => Err(CallError::Unavailable),
        }
    }

    /// Maps an unknown call to [`CallError::Busy`]: it could not be opened a moment ago, and the bridge shall try again.
    async fn reopen(&self, bridge: BridgeId, call: CallId) -> Result<CallReply, CallError> {
        let reply = self.tell(Some(bridge), call, CallInput::Reopen).await;
        reply.map_err(|error| {
            if error == CallError::UnknownCall {
                CallError::Busy
            } else {
                error
            }
        })
    }

    /// Sends an input to a call, in memory or in the store.
    pub async fn tell(
        &self,
        bridge: Option<BridgeId>,
        call: CallId,
        input: CallInput,
    ) -> Result<CallReply, CallError> {
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

    /// Asks the call's actor. If that is gone or lost the call, asks the one that replaces it here.
    async fn ask_wherever<M, T>(&self, call: CallId, message: M) -> Result<T, CallError>
    where
        M: Message<Result = Result<T, CallError>> + Clone + Send + 'static,
        T: Send + 'static,
        CallActor: Handler<M>,
    {
        if !self.deps().node.acts_soon().await {
            return Err(CallError::Unavailable);
        }
        for _ in 0..PLACES_MAX {
            let addr = self.find(call).await?;
            match ask(&addr, message.clone()).await {
                Err(ActorGone) | Ok(Err(CallError::Moved)) => self.directory().forget(call, &addr),
                Ok(answer) => return answer,
            }
        }
        // The call keeps moving between nodes, or its actor keeps dying.
        Err(CallError::Busy)
    }

    /// Answers when the turn is committed, up to a second later.
    pub async fn tell_turn(&self, call: CallId, message: TellTurn) -> Result<CallReply, CallError> {
        self.ask_wherever(call, message).await
    }

    pub async fn invoke(
        &self,
        call: CallId,
        message: InvokeFunction,
    ) -> Result<serde_json::Value, CallError> {
        self.ask_wherever(call, message).await
    }

    /// Handles a bridge's list of its calls. Drops the calls that it lost. Returns the listed calls that are over.
    pub async fn heartbeat(
        &self,
        bridge: BridgeId,
        held: &[CallId],
        at: Option<Millis>,
    ) -> Result<Vec<CallId>, CallError> {
        let listed_at = self.0.deps.clock.dated(at);
        let listed: HashSet<CallId> = held.iter().copied().collect();
        let here = self.directory().of_bridge_without(bridge, &listed);
        let mut missing: HashSet<CallId> = here.into_iter().collect();
        if self.deps().node.has_others() {
            missing.extend(self.running(bridge, listed_at).await?);
        }
        let missing = missing.difference(&listed).copied().collect();
        self.tell_all(Some(bridge), missing, CallInput::Missing { listed_at })
            .await?;
        self.0.deps.bridges.listed(bridge);
        let mut over = HashSet::new();
        let read_at = Instant::now();
        for chunk in held.chunks(CHUNK) {
            let ids: Vec<CallId> = call::Entity::find()
                .filter(call::Column::BridgeId.eq(bridge))
                .filter(call::Column::Id.is_in(chunk.iter().copied()))
                .filter(call::Column::EndedAt.is_not_null())
                .select_only()
                .column(call::Column::Id)
                .into_tuple()
                .all(self.0.deps.store.critical_reader())
                .await
                .map_err(unavailable)?;
            over.extend(ids);
        }
        if !over.is_empty() {
            // The bridge forgets these calls, so a standby must have their ends too.
            let confirmed = self.0.deps.store.confirm(read_at).await;
            confirmed.map_err(unavailable)?;
        }
        Ok(held
            .iter()
            .copied()
            .filter(|call| over.contains(call))
            .collect())
    }

    /// Running calls of a bridge that began before the list was made, with any owner. This node may have taken one over without
    /// reading it.
    async fn running(&self, bridge: BridgeId, listed_at: Millis) -> Result<Vec<CallId>, CallError> {
        let deps = self.deps();
        call::Entity::find()
            .filter(call::unfinished())
            .filter(call::Column::BridgeId.eq(bridge))
            .filter(call::Column::StartedAt.lte(listed_at))
            .select_only()
            .column(call::Column::Id)
            .into_tuple()
            .all(deps.store.critical_reader())
            .await
            .map_err(unavailable)
    }

    /// Tells the tenant's calls that more credit is available.
    pub(super) async fn credited(&self, tenant: TenantId) {
        let running = self.directory().of_tenant(tenant);
        // A call that misses this asks again by itself a few seconds later.
        let _ = self.tell_all(None, running, CallInput::Credited).await;
    }

    async fn tell_all(
        &self,
        bridge: Option<BridgeId>,
        calls: Vec<CallId>,
        input: CallInput,
    ) -> Result<(), CallError> {
        let mut answers = stream::iter(calls)
            .map(|call| self.tell(bridge, call, input.clone()))
            .buffer_unordered(CONCURRENT);
        while let Some(answer) = answers.next().await {
            // Such a call could not be opened.
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
struct ActorGone;

/// A slow actor is not replaced: two actors of one call would be worse than a late reply.
async fn ask<M, T>(addr: &Addr<CallActor>, message: M) -> Result<Result<T, CallError>, ActorGone>
where
    M: Message<Result = Result<T, CallError>> + Send + 'static,
    T: Send + 'static,
    CallActor: Handler<M>,
{
    match addr.send(message).timeout(ANSWER_TIMEOUT).await {
        Ok(answer) => Ok(answer),
        Err(MailboxError::Timeout) => Ok(Err(CallError::Unavailable)),
        Err(MailboxError::Closed) => Err(ActorGone),
    }
}
