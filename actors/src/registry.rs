//! Which calls are running here. [`Calls`] finds a call's actor, or reads the call back from the store and starts one;
//! [`CallRegistry`] takes up unfinished calls at the start, replaces actors that died, and sweeps up what fell through.

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use actix::{
    Actor, ActorFutureExt, Addr, AsyncContext, Handler, MailboxError, Message, Supervised,
    WrapFuture,
};
use actix_rt::ArbiterHandle;
use dashmap::DashMap;
use dikala_entities::{
    BridgeId, CallId, CallStatus, HangupInitiator, Millis, PhoneNumber, TenantId, call, credit_hold,
};
use futures_util::{StreamExt, stream};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
    Statement, Value,
};
use tokio::sync::oneshot;

use crate::{
    call::{
        actor::{Beginning, CallActor},
        core::{CallCore, CallParts, unavailable},
        messages::{CallError, Incoming, Input, InvokeFunction, Reply, Tell},
        open::{Found, look_up},
        versions,
    },
    ledger::{self, TenantCredited},
    meter::{MeteredContext, OnPanic},
    metered,
};

/// Messages that wait for one call.
const MAILBOX: usize = 16;
/// How long a caller waits for a call's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Locks that keep two callers from starting the same call; one for many calls.
const STRIPES: usize = 256;
/// Calls read from the store at once.
const CHUNK: usize = 500;
/// Calls asked at once by a heartbeat or a sweep.
const CONCURRENT: usize = 64;
/// An actor that died more often than this in a minute is given up.
const DEATHS_MAX: usize = 3;
const MINUTE_MS: i64 = 60_000;
/// How often the bridges' signs of life are written down.
const SIGNS_EVERY_MS: i64 = 5_000;
/// How often sockets of bridges whose token was revoked are looked for.
const REVOKED_EVERY_MS: i64 = 500;
/// How often calls without an actor are looked for.
const SWEEP_EVERY_MS: i64 = 30_000;
/// A call younger than this may just be on its way to its actor.
const OPENING_MS: i64 = 120_000;

/// Numbers whose tenants are remembered; past that all are forgotten.
const NUMBERS_MAX: usize = 100_000;

/// Whose a message is, as far as that is known without asking the store: for the order in which messages are carried out, and
/// for nothing else. A number may have another tenant by now.
pub type Payer = Option<TenantId>;

/// The running calls of this process; cheap to clone.
#[derive(Clone)]
pub struct Calls(Arc<Directory>);

struct Directory {
    parts: Arc<CallParts>,
    arbiters: Vec<ArbiterHandle>,
    /// Actors started so far; spreads them over the arbiters, and tells them apart.
    started: AtomicUsize,
    by_id: DashMap<CallId, Running>,
    by_bridge_call: DashMap<(BridgeId, String), CallId>,
    /// Whose number it was at the last call.
    numbers: DashMap<PhoneNumber, TenantId>,
    stripes: Vec<tokio::sync::Mutex<()>>,
    hasher: RandomState,
    registry: OnceLock<Addr<CallRegistry>>,
    closed: AtomicBool,
}

#[derive(Clone)]
struct Running {
    addr: Addr<CallActor>,
    /// Which of all actors that were started.
    number: usize,
    /// None while the call is being opened.
    tenant: Option<TenantId>,
    bridge: BridgeId,
    bridge_call: String,
}

impl std::fmt::Debug for Calls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Calls")
            .field("running", &self.0.by_id.len())
            .finish()
    }
}

impl Calls {
    /// No call is running yet. The calls' actors are spread over `arbiters`.
    pub fn new(parts: CallParts, arbiters: Vec<ArbiterHandle>) -> Self {
        Self(Arc::new(Directory {
            parts: Arc::new(parts),
            arbiters,
            started: AtomicUsize::new(0),
            by_id: DashMap::new(),
            by_bridge_call: DashMap::new(),
            numbers: DashMap::new(),
            stripes: (0..STRIPES).map(|_| tokio::sync::Mutex::new(())).collect(),
            hasher: RandomState::new(),
            registry: OnceLock::new(),
            closed: AtomicBool::new(false),
        }))
    }

    /// What every call works with.
    pub fn parts(&self) -> Arc<CallParts> {
        Arc::clone(&self.0.parts)
    }

    /// Calls in memory now, those included that were over a moment ago.
    pub fn in_memory(&self) -> usize {
        self.0.by_id.len()
    }

    /// From now on no new call is taken; running ones go on.
    pub fn close(&self) {
        self.0.closed.store(true, Relaxed);
    }

    /// A call came in at a bridge: a new one, or one that the bridge reported before.
    pub async fn incoming(&self, bridge: BridgeId, incoming: Incoming) -> Result<Reply, CallError> {
        let key = (bridge, incoming.bridge_call_id.clone());
        if let Some(call) = self.known(&key) {
            return self.reopen(bridge, call).await;
        }
        let stripe = self.stripe(&key).lock().await;
        if let Some(call) = self.known(&key) {
            drop(stripe);
            return self.reopen(bridge, call).await;
        }
        let callee = match look_up(&self.0.parts, bridge, &incoming).await? {
            Found::New(callee) => callee,
            Found::Known(call) => {
                drop(stripe);
                return self.reopen(bridge, call).await;
            }
        };
        if self.0.closed.load(Relaxed) {
            return Err(CallError::Unavailable);
        }
        let id = CallId::new(self.0.parts.clock.now());
        // The call opens by itself, with or without who waits here: a caller that is cancelled leaves a call that rings, and a
        // bridge that asks again.
        let (reply, opened) = oneshot::channel();
        let beginning = Beginning::Open(Box::new(incoming), callee, reply);
        let (addr, number) = self.start(id, bridge, beginning);
        self.register(
            id,
            Running {
                addr,
                number,
                tenant: None,
                bridge,
                bridge_call: key.1,
            },
        );
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
        let addr = self.find(call).await?;
        match ask(
            &addr,
            Tell {
                bridge,
                input: input.clone(),
            },
        )
        .await
        {
            Err(Gone) => {
                self.forget(call, &addr);
                let addr = self.find(call).await?;
                ask(&addr, Tell { bridge, input }).await?
            }
            Ok(answer) => answer,
        }
    }

    /// The AI invokes a function.
    pub async fn invoke(
        &self,
        call: CallId,
        message: InvokeFunction,
    ) -> Result<serde_json::Value, CallError> {
        let addr = self.find(call).await?;
        ask(&addr, message).await?
    }

    /// A tenant asks for something of its own call.
    pub async fn tell_as_tenant(
        &self,
        tenant: TenantId,
        call: CallId,
        input: Input,
    ) -> Result<Reply, CallError> {
        let owned = call::Entity::find_by_id(call)
            .filter(call::Column::TenantId.eq(tenant))
            .select_only()
            .column(call::Column::Status)
            .into_tuple::<CallStatus>()
            .one(self.0.parts.store.reader())
            .await
            .map_err(unavailable)?;
        match owned {
            None => Err(CallError::UnknownCall),
            Some(status) if status.is_final() => Err(CallError::NotActive),
            Some(_) => self.tell(None, call, input).await,
        }
    }

    /// A tenant ends its own call.
    pub async fn hang_up(&self, tenant: TenantId, call: CallId) -> Result<(), CallError> {
        let input = Input::RequestHangUp {
            by: HangupInitiator::Tenant,
        };
        self.tell_as_tenant(tenant, call, input).await.map(drop)
    }

    /// A tenant transfers its own call; without a number to the agent's escalation number.
    pub async fn transfer(
        &self,
        tenant: TenantId,
        call: CallId,
        to: Option<PhoneNumber>,
    ) -> Result<(), CallError> {
        self.tell_as_tenant(tenant, call, Input::RequestTransfer { to })
            .await
            .map(drop)
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
        let missing: Vec<CallId> = self
            .0
            .by_id
            .iter()
            .filter(|running| running.bridge == bridge && !listed.contains(running.key()))
            .map(|running| *running.key())
            .collect();
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
                .all(self.0.parts.store.core_reader())
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

    /// The actor of a call, started from the store if need be.
    pub(crate) async fn find(&self, call: CallId) -> Result<Addr<CallActor>, CallError> {
        if let Some(addr) = self.in_directory(call) {
            return Ok(addr);
        }
        let _stripe = self.stripe(&call).lock().await;
        if let Some(addr) = self.in_directory(call) {
            return Ok(addr);
        }
        let db = self.0.parts.store.core_reader();
        let row = call::Entity::find_by_id(call)
            .one(db)
            .await
            .map_err(unavailable)?;
        let row = row.ok_or(CallError::UnknownCall)?;
        let hold = credit_hold::Entity::find_by_id(call)
            .one(db)
            .await
            .map_err(unavailable)?;
        let minutes = versions::durations(db, std::slice::from_ref(&row))
            .await
            .map_err(unavailable)?;
        let minutes = minutes.get(&row.id).copied();
        Ok(self.start_loaded(row, hold.as_ref(), minutes))
    }

    fn start_loaded(
        &self,
        row: call::Model,
        hold: Option<&credit_hold::Model>,
        max_minutes: Option<i64>,
    ) -> Addr<CallActor> {
        let (id, bridge, tenant) = (row.id, row.bridge_id, row.tenant_id);
        let bridge_call = row.bridge_call_id.clone();
        let core = CallCore::load(self.parts(), row, hold, max_minutes);
        let (addr, number) = self.start(id, bridge, Beginning::Loaded(Box::new(core)));
        let running = Running {
            addr: addr.clone(),
            number,
            tenant: Some(tenant),
            bridge,
            bridge_call,
        };
        self.register(id, running);
        addr
    }

    fn start(
        &self,
        id: CallId,
        bridge: BridgeId,
        beginning: Beginning,
    ) -> (Addr<CallActor>, usize) {
        let number = self.0.started.fetch_add(1, Relaxed);
        let arbiter = &self.0.arbiters[number % self.0.arbiters.len()];
        let calls = self.clone();
        let died = {
            let calls = self.clone();
            OnPanic::GiveUp(Box::new(move || calls.died(id, number)))
        };
        let addr = MeteredContext::start(arbiter, MAILBOX, died, move |_| {
            CallActor::new(calls, id, bridge, beginning)
        });
        (addr, number)
    }

    fn register(&self, id: CallId, running: Running) {
        let key = (running.bridge, running.bridge_call.clone());
        self.0.by_id.insert(id, running);
        self.0.by_bridge_call.insert(key, id);
    }

    /// An actor is gone; whoever took its place stays.
    pub fn forget(&self, call: CallId, addr: &Addr<CallActor>) {
        self.forget_if(call, |running| running.addr == *addr);
    }

    fn forget_if(&self, call: CallId, is_it: impl FnOnce(&Running) -> bool) {
        let removed = self.0.by_id.remove_if(&call, |_, running| is_it(running));
        if let Some((_, running)) = removed {
            let key = (running.bridge, running.bridge_call);
            self.0
                .by_bridge_call
                .remove_if(&key, |_, known| *known == call);
        }
    }

    pub(crate) fn died(&self, call: CallId, number: usize) {
        self.forget_if(call, |running| running.number == number);
        if let Some(registry) = self.0.registry.get() {
            // If this is lost in a full mailbox, the sweep finds the call.
            let _ = registry.try_send(Died(call));
        }
    }

    fn in_directory(&self, call: CallId) -> Option<Addr<CallActor>> {
        let addr = self
            .0
            .by_id
            .get(&call)
            .map(|running| running.addr.clone())?;
        addr.connected().then_some(addr)
    }

    /// The call of a bridge's call whose actor is here.
    fn known(&self, key: &(BridgeId, String)) -> Option<CallId> {
        let call = self.0.by_bridge_call.get(key).map(|call| *call)?;
        if self.in_directory(call).is_some() {
            return Some(call);
        }
        self.0
            .by_bridge_call
            .remove_if(key, |_, known| *known == call);
        None
    }

    fn stripe(&self, key: &impl std::hash::Hash) -> &tokio::sync::Mutex<()> {
        let hash = usize::try_from(self.0.hasher.hash_one(key) % (STRIPES as u64)).unwrap_or(0);
        &self.0.stripes[hash]
    }

    /// A call was opened: whose it is.
    pub(crate) fn opened(&self, row: &call::Model) {
        if let Some(mut running) = self.0.by_id.get_mut(&row.id) {
            running.tenant = Some(row.tenant_id);
        }
        let numbers = &self.0.numbers;
        if self.payer_of_number(&row.callee_number) != Some(row.tenant_id) {
            if numbers.len() >= NUMBERS_MAX {
                numbers.clear();
            }
            numbers.insert(row.callee_number.clone(), row.tenant_id);
        }
    }

    /// Whose calls come in at a number.
    pub fn payer_of_number(&self, number: &PhoneNumber) -> Payer {
        self.0.numbers.get(number).map(|tenant| *tenant)
    }

    /// Whose a call is.
    pub fn payer_of_call(&self, call: CallId) -> Payer {
        self.0.by_id.get(&call).and_then(|running| running.tenant)
    }

    /// Calls of a tenant that are running here, or are just being opened.
    pub(crate) fn of_tenant(&self, tenant: TenantId) -> Vec<CallId> {
        let running = self.0.by_id.iter();
        running
            .filter(|call| call.tenant.is_none_or(|t| t == tenant))
            .map(|call| *call.key())
            .collect()
    }

    /// Takes up every unfinished call of the store, with a new epoch, so that whoever had it before writes no more.
    async fn recover(&self) -> Result<usize, DbErr> {
        let parts = &self.0.parts;
        parts.bridges.recover(&parts.store).await?;
        let txn = parts.store.begin_core().await?;
        // The order is the partial index's own: without it SQLite takes a larger one that holds every column it needs.
        let ids: Vec<CallId> = call::Entity::find()
            .filter(call::unfinished())
            .order_by_asc(call::Column::Owner)
            .order_by_asc(call::Column::Id)
            .select_only()
            .column(call::Column::Id)
            .into_tuple()
            .all(&txn)
            .await?;
        // The order of everybody's locks: accounts and holds before calls.
        ledger::take_over(&txn, &ids, &parts.node).await?;
        let take = Statement::from_sql_and_values(
            parts.store.backend(),
            "UPDATE calls SET owner = $1, epoch = epoch + 1 WHERE status IN ('ringing', 'answered')",
            [Value::from(parts.node.as_ref())],
        );
        txn.execute_raw(take).await?;
        txn.commit().await?;
        self.load(&ids).await?;
        Ok(ids.len())
    }

    /// For the start, before anybody else looks for a call.
    async fn load(&self, ids: &[CallId]) -> Result<(), DbErr> {
        let db = self.0.parts.store.reader();
        for chunk in ids.chunks(CHUNK) {
            let rows = call::Entity::find()
                .filter(call::Column::Id.is_in(chunk.iter().copied()))
                .all(db)
                .await?;
            let holds = credit_hold::Entity::find()
                .filter(credit_hold::Column::CallId.is_in(chunk.iter().copied()))
                .all(db)
                .await?;
            let holds: HashMap<CallId, credit_hold::Model> =
                holds.into_iter().map(|hold| (hold.call_id, hold)).collect();
            let minutes = versions::durations(db, &rows).await?;
            for row in rows {
                let (hold, minutes) = (holds.get(&row.id), minutes.get(&row.id).copied());
                self.start_loaded(row, hold, minutes);
            }
        }
        Ok(())
    }

    /// Running calls without an actor get one.
    async fn sweep(&self) -> Result<(), DbErr> {
        let parts = &self.0.parts;
        let older_than = parts.clock.now().plus_ms(-OPENING_MS);
        let running: Vec<CallId> = call::Entity::find()
            .filter(call::unfinished())
            .filter(call::Column::Owner.eq(parts.node.as_ref()))
            .filter(call::Column::StartedAt.lt(older_than))
            .select_only()
            .column(call::Column::Id)
            .into_tuple()
            .all(parts.store.reader())
            .await?;
        let lost: Vec<CallId> = running
            .into_iter()
            .filter(|call| self.in_directory(*call).is_none())
            .collect();
        self.take_up(&lost).await;
        Ok(())
    }

    /// Starts what is not in memory, one call after the other: a message may be doing the same at this moment.
    pub(crate) async fn take_up(&self, calls: &[CallId]) {
        for call in calls {
            if let Err(error) = self.find(*call).await {
                tracing::warn!(%call, %error, "the call is left to the next sweep");
            }
        }
    }
}

/// The actor is gone: its call has to be read again.
struct Gone;

impl From<Gone> for CallError {
    fn from(_: Gone) -> Self {
        Self::Unavailable
    }
}

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

/// Looks after the calls' actors.
#[derive(Debug)]
pub struct CallRegistry {
    calls: Calls,
    deaths: HashMap<CallId, Vec<Millis>>,
}

metered!(CallRegistry, "call_registry");

impl CallRegistry {
    /// Takes up the unfinished calls, then starts the actor. Returns how many there were.
    pub async fn start(
        arbiter: &ArbiterHandle,
        calls: Calls,
    ) -> Result<(Addr<Self>, usize), DbErr> {
        let recovered = calls.recover().await?;
        let directory = calls.clone();
        let addr = MeteredContext::start(arbiter, 4_096, OnPanic::Restart, move |_| Self {
            calls: directory,
            deaths: HashMap::new(),
        });
        let _ = calls.0.registry.set(addr.clone());
        Ok((addr, recovered))
    }

    fn every(&self, ms: i64, ctx: &mut MeteredContext<Self>, task: Task) {
        let clock = Arc::clone(&self.calls.0.parts.clock);
        let calls = self.calls.clone();
        let work = async move {
            clock.sleep_until(clock.now().plus_ms(ms)).await;
            let done = match task {
                Task::StoreSigns => {
                    calls
                        .0
                        .parts
                        .bridges
                        .store_signs(&calls.0.parts.store)
                        .await
                }
                Task::DismissRevoked => {
                    let parts = &calls.0.parts;
                    let looked = parts.bridges.dismiss_revoked(&parts.store).await;
                    // Twice a second: that the database is away is said by the others.
                    looked.or_else(|error| {
                        tracing::debug!(%error, "revoked bridges were not looked for");
                        Ok(())
                    })
                }
                Task::Sweep => calls.sweep().await,
            };
            if let Err(error) = done {
                tracing::warn!(%error, ?task, "a regular task failed; it runs again later");
            }
        };
        ctx.spawn(
            work.into_actor(self)
                .map(move |(), this, ctx| this.every(ms, ctx, task)),
        );
    }
}

#[derive(Clone, Copy, Debug)]
enum Task {
    StoreSigns,
    DismissRevoked,
    Sweep,
}

impl Actor for CallRegistry {
    type Context = MeteredContext<Self>;

    fn started(&mut self, ctx: &mut MeteredContext<Self>) {
        self.every(SIGNS_EVERY_MS, ctx, Task::StoreSigns);
        self.every(REVOKED_EVERY_MS, ctx, Task::DismissRevoked);
        self.every(SWEEP_EVERY_MS, ctx, Task::Sweep);
    }
}

impl Supervised for CallRegistry {}

/// The actor of a call panicked.
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct Died(CallId);

impl Handler<Died> for CallRegistry {
    type Result = ();

    fn handle(&mut self, Died(call): Died, ctx: &mut MeteredContext<Self>) {
        let now = self.calls.0.parts.clock.now();
        self.deaths.retain(|_, deaths| {
            deaths.retain(|at| now.since(*at) < MINUTE_MS);
            !deaths.is_empty()
        });
        let deaths = self.deaths.entry(call).or_default();
        deaths.push(now);
        let give_up = deaths.len() > DEATHS_MAX;
        tracing::error!(%call, deaths = deaths.len(), give_up, "a call's actor died; reading the call again");
        let calls = self.calls.clone();
        let work = async move {
            let found = if give_up {
                calls.tell(None, call, Input::Abort).await.map(drop)
            } else {
                calls.find(call).await.map(drop)
            };
            if let Err(error) = found {
                tracing::warn!(%call, %error, "the call is left to the sweep");
            }
        };
        ctx.spawn(work.into_actor(self));
    }
}

impl Handler<TenantCredited> for CallRegistry {
    type Result = ();

    fn handle(&mut self, credited: TenantCredited, ctx: &mut MeteredContext<Self>) {
        let calls = self.calls.clone();
        let work = async move {
            let running = calls.of_tenant(credited.tenant);
            // A call that does not hear of it asks again by itself a few seconds later.
            let _ = calls.tell_all(None, running, Input::Credited).await;
        };
        ctx.spawn(work.into_actor(self));
    }
}

/// Readiness asks whether the actor still takes messages.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Ping;

impl Handler<Ping> for CallRegistry {
    type Result = ();

    fn handle(&mut self, _: Ping, _: &mut MeteredContext<Self>) {}
}
