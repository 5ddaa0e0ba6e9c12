//! The actor that looks after the calls' actors: takes up unfinished calls at the start, replaces actors that died, sweeps up
//! what fell through, and writes down regularly when bridges were last seen.

use std::{collections::HashMap, sync::Arc};

use actix::{Actor, ActorFutureExt, Addr, AsyncContext, Handler, Supervised, WrapFuture};
use actix_rt::ArbiterHandle;
use dikala_entities::{CallId, Millis};
use sea_orm::DbErr;

use super::{
    asked,
    messages::Input,
    recovery::{recover, sweep},
    router::{Calls, Died},
};
use crate::{
    ledger::TenantCredited,
    metered,
    runtime::context::{MeteredContext, OnPanic},
};

const MAILBOX: usize = 4_096;
/// An actor that died more often than this in a minute is given up.
const DEATHS_MAX: usize = 3;
const MINUTE_MS: i64 = 60_000;
/// How often the bridges' signs of life are written down.
const SIGNS_EVERY_MS: i64 = 5_000;
/// How often sockets of bridges whose token was revoked are looked for.
const REVOKED_EVERY_MS: i64 = 500;
/// How often calls without an actor are looked for.
const SWEEP_EVERY_MS: i64 = 30_000;
/// How often hang-ups that commands ask for are looked for.
const ASKED_EVERY_MS: i64 = 500;

/// Looks after the calls' actors.
#[derive(Debug)]
pub struct CallRegistry {
    calls: Calls,
    deaths: HashMap<CallId, Vec<Millis>>,
}

metered!(CallRegistry, "call_registry");

/// What is done again and again.
#[derive(Clone, Copy, Debug)]
enum Task {
    StoreSigns,
    DismissRevoked,
    HangUp,
    Sweep,
}

impl CallRegistry {
    /// Takes up the unfinished calls, then starts the actor. Returns how many there were.
    pub async fn start(
        arbiter: &ArbiterHandle,
        calls: Calls,
    ) -> Result<(Addr<Self>, usize), DbErr> {
        let recovered = recover(&calls).await?;
        let kept = calls.clone();
        let addr = MeteredContext::start(arbiter, MAILBOX, OnPanic::Restart, move |_| Self {
            calls: kept,
            deaths: HashMap::new(),
        });
        calls.report_deaths_to(addr.clone().recipient());
        Ok((addr, recovered))
    }

    fn every(&self, ms: i64, ctx: &mut MeteredContext<Self>, task: Task) {
        let clock = Arc::clone(&self.calls.parts().clock);
        let calls = self.calls.clone();
        let work = async move {
            clock.sleep_until(clock.now().plus_ms(ms)).await;
            if let Err(error) = task.run(&calls).await {
                tracing::warn!(%error, ?task, "a regular task failed; it runs again later");
            }
        };
        ctx.spawn(
            work.into_actor(self)
                .map(move |(), this, ctx| this.every(ms, ctx, task)),
        );
    }
}

impl Task {
    async fn run(self, calls: &Calls) -> Result<(), DbErr> {
        let parts = calls.parts();
        match self {
            Self::StoreSigns => parts.bridges.store_last_seen(&parts.store).await,
            Self::DismissRevoked => {
                let looked = parts.bridges.dismiss_revoked(&parts.store).await;
                quietly(looked, "revoked bridges were not looked for")
            }
            Self::HangUp => quietly(asked::hang_up(calls).await, "hang-ups were not looked for"),
            Self::Sweep => sweep(calls).await,
        }
    }
}

/// Twice a second: that the database is away is said by the others.
fn quietly(looked: Result<(), DbErr>, what: &str) -> Result<(), DbErr> {
    looked.or_else(|error| {
        tracing::debug!(%error, "{what}");
        Ok(())
    })
}

impl Actor for CallRegistry {
    type Context = MeteredContext<Self>;

    fn started(&mut self, ctx: &mut MeteredContext<Self>) {
        self.every(SIGNS_EVERY_MS, ctx, Task::StoreSigns);
        self.every(REVOKED_EVERY_MS, ctx, Task::DismissRevoked);
        self.every(ASKED_EVERY_MS, ctx, Task::HangUp);
        self.every(SWEEP_EVERY_MS, ctx, Task::Sweep);
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
        let work = async move { calls.credited(credited.tenant).await };
        ctx.spawn(work.into_actor(self));
    }
}
