//! The registry: takes up unfinished calls at start, replaces actors that died, sweeps for calls without an actor, and stores
//! signs of life.

use std::collections::HashMap;

use actix::{Actor, Addr, Handler, Supervised};
use actix_rt::ArbiterHandle;
use dikala_entities::{CallId, Millis};
use sea_orm::DbErr;
use tokio::sync::watch;

use super::{
    asked,
    claims::{forget_left, forget_over, give_up_abandoned},
    messages::CallInput,
    parts::CallDeps,
    recovery::{let_go, look_for_lost, recover, sweep},
    router::{Calls, Died},
};
use crate::{
    bridges::forget_commands,
    ledger::TenantCredited,
    metered,
    nodes::notices::Topic,
    runtime::context::{MeteredContext, OnPanic},
};

const MAILBOX: usize = 4_096;
/// An actor that dies more often than this per minute is given up.
const DEATHS_MAX: usize = 3;
const MINUTE_MS: i64 = 60_000;
/// Interval of storing signs of life.
const SIGNS_EVERY_MS: i64 = 5_000;
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
    calls: Calls,
    deaths: HashMap<CallId, Vec<Millis>>,
    /// Changes of this process's node id since before calls were taken up. `None` while they are followed.
    turns: Option<watch::Receiver<usize>>,
}

metered!(CallRegistry, "call_registry");

/// A periodic task.
#[derive(Clone, Copy, Debug)]
enum Task {
    StoreSigns,
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
        calls: Calls,
    ) -> Result<(Addr<Self>, usize), DbErr> {
        let turns = Some(calls.parts().node.turns());
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
            .unwrap_or_else(|| calls.parts().node.turns());
        let work = async move {
            while turns.changed().await.is_ok() {
                calls.let_go_of_all();
                calls.parts().bridges.publish_anew();
            }
        };
        ctx.task(work, |(), _, _| ());
    }

    fn every(&self, ms: i64, ctx: &mut MeteredContext<Self>, task: Task) {
        let calls = self.calls.clone();
        let work = async move {
            let clock = &calls.parts().clock;
            clock.sleep_until(clock.now().plus_ms(ms)).await;
            if let Task::ExchangeCommands = task {
                wait_for_commands(calls.parts()).await;
            }
            if let Err(error) = task.run(&calls).await {
                tracing::warn!(%error, ?task, "a regular task failed; it runs again later");
            }
        };
        ctx.task(work, move |(), this, ctx| this.every(ms, ctx, task));
    }
}

impl Task {
    async fn run(self, calls: &Calls) -> Result<(), DbErr> {
        let parts = calls.parts();
        match self {
            Self::StoreSigns => {
                calls.store_signs().await?;
                if parts.store.lease().is_none() {
                    // There are no other nodes, but command-line commands read where bridges are.
                    let (store, me) = (&parts.store, parts.node.id());
                    parts.bridges.publish(store, &me).await.map(drop)?;
                }
                forget_over(parts).await?;
                give_up_abandoned(parts).await?;
                forget_left(parts).await
            }
            Self::DismissRevoked => quietly(parts.bridges.dismiss_revoked(&parts.store).await),
            Self::HangUp => quietly(asked::hang_up(calls).await),
            Self::Sweep => {
                let before = parts.clock.now().plus_ms(-COMMANDS_KEPT_MS);
                forget_commands(&parts.store, before).await?;
                sweep(calls).await
            }
            Self::LookAtOthers => quietly(look_at_others(calls).await),
            Self::ExchangeCommands if parts.node.has_others() => {
                let began = parts.clock.now();
                let exchanged = exchange_commands(parts).await;
                let now = parts.clock.now();
                // A slow exchange runs less often, and a failed one is not repeated at once.
                let took = now.since(began);
                let rest = match exchanged {
                    Ok(()) => took,
                    Err(_) => took.max(COMMANDS_UNHEARD_EVERY_MS),
                };
                parts.clock.sleep_until(now.plus_ms(rest)).await;
                quietly(exchanged)
            }
            Self::ExchangeCommands => Ok(()),
        }
    }
}

/// Waits until there may be commands from or for other nodes, or the interval is over.
async fn wait_for_commands(parts: &CallDeps) {
    let notices = parts.node.notices();
    let every = match notices.listens() || !parts.node.has_others() {
        true => COMMANDS_EVERY_MS,
        false => COMMANDS_UNHEARD_EVERY_MS,
    };
    let due = parts.clock.now().plus_ms(every - EXCHANGES_APART_MS);
    tokio::select! {
        () = parts.clock.sleep_until(due) => {}
        () = notices.told(Topic::Bridges) => {}
        () = parts.bridges.leaving() => {}
    }
}

/// Tries each part even if an earlier one failed.
async fn exchange_commands(parts: &CallDeps) -> Result<(), DbErr> {
    let (store, me) = (&parts.store, parts.node.id());
    let published = publish(parts).await;
    let looked = parts.bridges.look_elsewhere(store, &me).await;
    let sent = parts.bridges.send_elsewhere(store).await;
    if let Ok(true) = sent {
        parts.node.notices().tell(Topic::Bridges);
    }
    let received = parts.bridges.receive(store).await;
    published.and(looked).and(sent.map(drop)).and(received)
}

/// Publishes which bridges have their newest socket here.
async fn publish(parts: &CallDeps) -> Result<(), DbErr> {
    if parts
        .bridges
        .publish(&parts.store, &parts.node.id())
        .await?
    {
        parts.node.notices().tell(Topic::Bridges);
    }
    Ok(())
}

/// For tasks that run several times a second: others report that the database is unavailable.
fn quietly(done: Result<(), DbErr>) -> Result<(), DbErr> {
    done.or_else(|error| {
        tracing::debug!(%error, "a regular task failed; it runs again soon");
        Ok(())
    })
}

/// Tries each part even if an earlier one failed.
pub(super) async fn look_at_others(calls: &Calls) -> Result<(), DbErr> {
    let parts = calls.parts();
    let (bridges, store) = (&parts.bridges, &parts.store);
    if !parts.node.acts() {
        if !parts.node.keeps_bridges(parts.rules.lost_after_ms) {
            bridges.send_away();
        }
        return Ok(());
    }
    let taken_up = look_for_lost(calls).await;
    let published = publish(parts).await;
    let rest = if parts.node.has_others() {
        // Other nodes bill and drop calls of these bridges too.
        let signs = calls.store_signs().await;
        let_go(calls).await.and(signs)
    } else {
        bridges.nobody_elsewhere();
        bridges.receive(store).await
    };
    taken_up.and(published).and(rest)
}

impl Actor for CallRegistry {
    type Context = MeteredContext<Self>;

    fn started(&mut self, ctx: &mut MeteredContext<Self>) {
        self.every(SIGNS_EVERY_MS, ctx, Task::StoreSigns);
        self.every(REVOKED_EVERY_MS, ctx, Task::DismissRevoked);
        self.every(ASKED_EVERY_MS, ctx, Task::HangUp);
        self.every(SWEEP_EVERY_MS, ctx, Task::Sweep);
        if self.calls.parts().store.lease().is_some() {
            self.every(OTHERS_EVERY_MS, ctx, Task::LookAtOthers);
            self.every(EXCHANGES_APART_MS, ctx, Task::ExchangeCommands);
            self.follow_turns(ctx);
        }
    }
}

impl Supervised for CallRegistry {}

impl Handler<Died> for CallRegistry {
    type Result = ();

    fn handle(&mut self, Died(call): Died, ctx: &mut MeteredContext<Self>) {
        let now = self.calls.parts().clock.now();
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
                tracing::warn!(%call, %error, "the call is left to the sweep");
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
