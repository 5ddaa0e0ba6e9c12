//! The registry: takes up unfinished calls at start, replaces actors that died, sweeps for calls without an actor, and stores
//! signs of life.

use std::collections::HashMap;

use actix::{Actor, Addr, Handler, Supervised};
use actix_rt::ArbiterHandle;
use dikala_entities::{CallId, Millis};
use sea_orm::DbErr;
use tokio::sync::watch;

use super::{
    claims::{delete_released, delete_stale, mark_abandoned},
    deps::CallDeps,
    hangup_requests,
    messages::CallInput,
    recovery::{let_go, look_for_lost, recover, sweep},
    router::{ActorDied, CallRouter},
};
use crate::{
    bridges::forget_commands,
    commit::TenantCredited,
    metered,
    nodes::notices::Topic,
    runtime::context::{MeteredContext, OnPanic},
};

const MAILBOX: usize = 4_096;
/// An actor that dies more often than this per minute is given up.
const DEATHS_MAX: usize = 3;
const MINUTE_MS: i64 = 60_000;
/// Interval of storing signs of life, and of checking the right to keep bridges' sockets.
const SIGNS_EVERY_MS: i64 = 1_000;
/// Interval of deleting what ended invocations leave.
const CLAIMS_EVERY_MS: i64 = 5_000;
/// Interval of looking for sockets with revoked tokens.
const REVOKED_EVERY_MS: i64 = 500;
/// Interval of looking for calls without an actor.
const SWEEP_EVERY_MS: i64 = 30_000;
/// Interval of looking for hang-up requests.
const ASKED_EVERY_MS: i64 = 500;
/// Interval of checking other nodes and the commands for bridges without a socket at the node of their calls.
const OTHERS_EVERY_MS: i64 = 1_000;
/// Interval of exchanging commands with other nodes: with notices, and without.
const COMMANDS_EVERY_MS: i64 = 1_000;
const COMMANDS_UNHEARD_EVERY_MS: i64 = 250;
/// Minimum pause between two exchanges.
const EXCHANGES_APART_MS: i64 = 50;
/// Time for which commands are kept that their bridge does not fetch.
const COMMANDS_KEPT_MS: i64 = 10 * 60 * 1_000;

#[derive(Debug)]
pub struct CallRegistry {
    calls: CallRouter,
    deaths: HashMap<CallId, Vec<Millis>>,
    /// Changes of this process's node id since before calls were taken up. `None` while they are followed.
    turns: Option<watch::Receiver<usize>>,
}

metered!(CallRegistry, "call_registry");

/// A periodic task.
#[derive(Clone, Copy, Debug)]
enum Task {
    /// Waits for nothing, because the database may not answer.
    SendBridgesAway,
    StoreSigns,
    ClearClaims,
    DismissRevoked,
    HangUp,
    Sweep,
    /// Only if the store is or may be shared with other nodes.
    LookAtOthers,
    ExchangeCommands,
}

impl CallRegistry {
    /// Takes up the unfinished calls, then starts the actor. Returns the number of calls.
    pub async fn start(
        arbiter: &ArbiterHandle,
        calls: CallRouter,
    ) -> Result<(Addr<Self>, usize), DbErr> {
        let turns = Some(calls.deps().node.turns());
        let recovered = recover(&calls).await?;
        let kept = calls.clone();
        let addr = MeteredContext::start(arbiter, MAILBOX, OnPanic::Restart, move |_| Self {
            calls: kept,
            deaths: HashMap::new(),
            turns,
        });
        calls.report_deaths_to(addr.clone().recipient());
        Ok((addr, recovered))
    }

    /// Lets go of all calls whenever this process gets a new node id.
    fn follow_turns(&mut self, ctx: &mut MeteredContext<Self>) {
        let calls = self.calls.clone();
        let mut turns = self
            .turns
            .take()
            .unwrap_or_else(|| calls.deps().node.turns());
        let work = async move {
            while turns.changed().await.is_ok() {
                calls.let_go_of_all();
                calls.deps().bridges.republish();
            }
        };
        ctx.task(work, |(), _, _| ());
    }

    fn every(&self, ms: i64, ctx: &mut MeteredContext<Self>, task: Task) {
        let calls = self.calls.clone();
        let work = async move {
            let clock = &calls.deps().clock;
            clock.sleep_until(clock.now().plus_ms(ms)).await;
            if let Task::ExchangeCommands = task {
                wait_for_commands(calls.deps()).await;
            }
            if let Err(error) = task.run(&calls).await {
                tracing::warn!(%error, ?task, "a periodic task failed; it runs again later");
            }
        };
        ctx.task(work, move |(), this, ctx| this.every(ms, ctx, task));
    }
}

impl Task {
    async fn run(self, calls: &CallRouter) -> Result<(), DbErr> {
        let deps = calls.deps();
        match self {
            Self::SendBridgesAway => {
                let keeps = deps.node.keeps_bridges(deps.rules.lost_after_ms);
                if !deps.node.acts() && !keeps {
                    deps.bridges.close_all();
                }
                Ok(())
            }
            Self::StoreSigns => {
                let stored = calls.store_signs().await;
                let published = match deps.store.lease() {
                    // There are no other nodes, but command-line commands read where bridges are.
                    None => publish(deps).await,
                    Some(_) => Ok(()),
                };
                quietly(stored.and(published))
            }
            Self::ClearClaims => {
                delete_released(deps).await?;
                mark_abandoned(deps).await?;
                delete_stale(deps).await
            }
            Self::DismissRevoked => quietly(deps.bridges.dismiss_revoked(&deps.store).await),
            Self::HangUp => quietly(hangup_requests::carry_out_all(calls).await),
            Self::Sweep => {
                let before = deps.clock.now().plus_ms(-COMMANDS_KEPT_MS);
                forget_commands(&deps.store, before).await?;
                sweep(calls).await
            }
            Self::LookAtOthers => quietly(look_at_others(calls).await),
            Self::ExchangeCommands if deps.node.has_others() => {
                let began = deps.clock.now();
                let exchanged = exchange_commands(deps).await;
                let now = deps.clock.now();
                // A slow exchange runs less often, and a failed one is not repeated at once.
                let took = now.since(began);
                let rest = match exchanged {
                    Ok(()) => took,
                    Err(_) => took.max(COMMANDS_UNHEARD_EVERY_MS),
                };
                deps.clock.sleep_until(now.plus_ms(rest)).await;
                quietly(exchanged)
            }
            Self::ExchangeCommands => Ok(()),
        }
    }
}

/// Waits until there may be commands from or for other nodes, or the interval is over.
async fn wait_for_commands(deps: &CallDeps) {
    let notices = deps.node.notices();
    let every = match notices.listens() || !deps.node.has_others() {
        true => COMMANDS_EVERY_MS,
        false => COMMANDS_UNHEARD_EVERY_MS,
    };
    let due = deps.clock.now().plus_ms(every - EXCHANGES_APART_MS);
    tokio::select! {
        () = deps.clock.sleep_until(due) => {}
        () = notices.told(Topic::Bridges) => {}
        () = deps.bridges.leaving() => {}
    }
}

/// Tries each part even if an earlier one failed.
async fn exchange_commands(deps: &CallDeps) -> Result<(), DbErr> {
    let (store, me) = (&deps.store, deps.node.id());
    let published = publish(deps).await;
    let looked = deps.bridges.read_remote_bridges(store, &me).await;
    let sent = deps.bridges.send_to_remote_nodes(store).await;
    if let Ok(true) = sent {
        deps.node.notices().tell(Topic::Bridges);
    }
    let received = deps.bridges.receive(store).await;
    published.and(looked).and(sent.map(drop)).and(received)
}

/// Publishes which bridges have their newest socket here.
async fn publish(deps: &CallDeps) -> Result<(), DbErr> {
    if deps.bridges.publish(&deps.store, &deps.node.id()).await? {
        deps.node.notices().tell(Topic::Bridges);
    }
    Ok(())
}

/// For tasks that run several times a second: others report that the database is unavailable.
fn quietly(done: Result<(), DbErr>) -> Result<(), DbErr> {
    done.or_else(|error| {
        tracing::debug!(%error, "a periodic task failed; it runs again soon");
        Ok(())
    })
}

/// Tries each part even if an earlier one failed.
pub(super) async fn look_at_others(calls: &CallRouter) -> Result<(), DbErr> {
    let deps = calls.deps();
    let (bridges, store) = (&deps.bridges, &deps.store);
    if !deps.node.acts() {
        return Ok(());
    }
    let taken_up = look_for_lost(calls).await;
    let published = publish(deps).await;
    let rest = if deps.node.has_others() {
        let_go(calls).await
    } else {
        bridges.forget_remote_nodes();
        bridges.receive(store).await
    };
    taken_up.and(published).and(rest)
}

impl Actor for CallRegistry {
    type Context = MeteredContext<Self>;

    fn started(&mut self, ctx: &mut MeteredContext<Self>) {
        self.every(SIGNS_EVERY_MS, ctx, Task::SendBridgesAway);
        self.every(SIGNS_EVERY_MS, ctx, Task::StoreSigns);
        self.every(CLAIMS_EVERY_MS, ctx, Task::ClearClaims);
        self.every(REVOKED_EVERY_MS, ctx, Task::DismissRevoked);
        self.every(ASKED_EVERY_MS, ctx, Task::HangUp);
        self.every(SWEEP_EVERY_MS, ctx, Task::Sweep);
        if self.calls.deps().store.lease().is_some() {
            self.every(OTHERS_EVERY_MS, ctx, Task::LookAtOthers);
            self.every(EXCHANGES_APART_MS, ctx, Task::ExchangeCommands);
            self.follow_turns(ctx);
        }
    }
}

impl Supervised for CallRegistry {}

impl Handler<ActorDied> for CallRegistry {
    type Result = ();

    fn handle(&mut self, ActorDied(call): ActorDied, ctx: &mut MeteredContext<Self>) {
        let now = self.calls.deps().clock.now();
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
                calls.tell(None, call, CallInput::Abort).await.map(drop)
            } else {
                calls.find(call).await.map(drop)
            };
            if let Err(error) = found {
                tracing::warn!(%call, %error, "could not restart a call's actor; the next sweep tries again");
            }
        };
        ctx.task(work, |(), _, _| ());
    }
}

impl Handler<TenantCredited> for CallRegistry {
    type Result = ();

    fn handle(&mut self, credited: TenantCredited, ctx: &mut MeteredContext<Self>) {
        let calls = self.calls.clone();
        let work = async move { calls.credited(credited.tenant).await };
        ctx.task(work, |(), _, _| ());
    }
}
