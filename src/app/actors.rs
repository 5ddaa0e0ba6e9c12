//! Starts the actors in the order of their dependencies, and stops them.

use std::{sync::Arc, time::Duration};

use actix::{Arbiter, ArbiterHandle};
use dikala_actors::{
    bridges::Bridges,
    calls::{CallDeps, CallMeter, CallRegistry, CallRouter, Invocations, versions::Versions},
    commit::{self, CommitDeps, CommitHandle},
    events::{followers::Followers, outbox::EventRecipients, remote_events},
    functions::{self, FunctionsHandle},
    nodes::{self, Membership, NodeLoad},
    outbound::{Guard, Outbound, OutboundError},
    runtime::{clock::SharedClock, lag::EventLoops},
    traces::Traces,
    webhooks::{self, WebhooksHandle},
};
use dikala_entities::{Store, Vault};

use super::ServiceStartError;
use crate::{config::Settings, node::Runtime};

/// Threads that run calls.
const CALL_THREADS: usize = 2;
/// Threads that wait for tenants' functions.
const FUNCTION_THREADS: usize = 2;

/// Checks that all bridges are gone before their calls are released, and the pause between checks. After the last
/// check the calls are released anyway.
const GONE_LOOKS: usize = 20;
const GONE_LOOK_EVERY: Duration = Duration::from_millis(50);

/// The actors and their threads.
pub struct ActorSystem {
    pub runtime: Runtime,
    pub arbiters: Vec<Arbiter>,
    pub loops: EventLoops,
}

impl ActorSystem {
    /// Starts the actors on a store. Each actor that sends requests gets a client of its own from `outbound`.
    pub async fn start(
        settings: &Settings,
        store: Store,
        vault: Vault,
        clock: SharedClock,
        member: Membership,
        traces: Traces,
        outbound: impl Fn() -> Result<Outbound, OutboundError>,
    ) -> Result<Self, ServiceStartError> {
        let feed = Followers::among(member.notices().clone());
        let common = ActorDependencies {
            settings,
            store,
            vault,
            clock,
            member,
            traces,
        };
        let threads = Threads::start();
        // Names are resolved on threads. Webhooks, functions and registration have separate ones, so that slow names
        // in one delay none of the others.
        let webhooks = common.webhooks(&threads.webhooks, outbound()?);
        let ledger = common.ledger(&threads.core, &webhooks, &feed);
        let functions = functions::start(
            &handles(&threads.functions),
            &outbound()?,
            &settings.functions(),
            Arc::clone(&common.clock),
        );
        let bridges = Arc::new(Bridges::new(Arc::clone(&common.clock)));
        let calls = common.calls(&threads.calls, &ledger, &functions, &bridges);
        // First, so that the lease is renewed however long the take-over takes.
        common.live_among_others(&threads, &calls, &bridges, &webhooks, &feed);
        let (registry, recovered) =
            CallRegistry::start(&threads.core.handle(), calls.clone()).await?;
        ledger.announce_credits_to(registry.clone().recipient());
        if recovered > 0 {
            tracing::info!(calls = recovered, "took over unfinished calls");
        }
        let ActorDependencies {
            store,
            vault,
            clock,
            member,
            traces,
            ..
        } = common;
        let runtime = Runtime {
            store,
            member,
            vault,
            clock,
            calls,
            registry,
            bridges,
            ledger,
            webhooks,
            functions,
            outbound: outbound()?,
            feed,
            traces,
        };
        Ok(Self {
            runtime,
            loops: threads.loops(),
            arbiters: threads.into_arbiters(),
        })
    }

    /// Releases the calls after the bridges were sent away, so that other nodes can take them, while requests and
    /// deliveries under way still end.
    pub(super) async fn give_back(&self) {
        let Runtime { bridges, calls, .. } = &self.runtime;
        for _ in 0..GONE_LOOKS {
            if bridges.sockets() == 0 {
                break;
            }
            tokio::time::sleep(GONE_LOOK_EVERY).await;
        }
        if let Err(error) = calls.give_back().await {
            tracing::warn!(%error, "could not release this node's calls; other nodes take them over when its lease expires");
        }
    }

    /// Stops after the listeners and the deliveries: gives up the lease, stops the threads and closes the store.
    pub(super) async fn stop(self) {
        if let Err(error) = self.runtime.calls.store_signs().await {
            tracing::warn!(%error, "could not store the bridges' signs of life");
        }
        if let Err(error) = self.runtime.member.leave(&self.runtime.store).await {
            tracing::warn!(%error, "could not release the lease; other nodes take over this node's work when it expires");
        }
        for arbiter in &self.arbiters {
            arbiter.stop();
        }
        self.runtime.store.close().await;
    }
}

struct Threads {
    core: Arbiter,
    /// Runs nothing else, so that the lease is renewed however busy the others are.
    lease: Arbiter,
    webhooks: Arbiter,
    calls: Vec<Arbiter>,
    functions: Vec<Arbiter>,
}

impl Threads {
    fn start() -> Self {
        let several = |count| (0..count).map(|_| Arbiter::new()).collect();
        Self {
            core: Arbiter::new(),
            lease: Arbiter::new(),
            webhooks: Arbiter::new(),
            calls: several(CALL_THREADS),
            functions: several(FUNCTION_THREADS),
        }
    }

    fn loops(&self) -> EventLoops {
        let loops = EventLoops::default();
        loops.add("core", self.core.handle());
        loops.add("webhooks", self.webhooks.handle());
        for handle in handles(&self.calls) {
            loops.add("calls", handle);
        }
        for handle in handles(&self.functions) {
            loops.add("functions", handle);
        }
        loops
    }

    fn into_arbiters(self) -> Vec<Arbiter> {
        let several = [
            vec![self.core, self.webhooks, self.lease],
            self.calls,
            self.functions,
        ];
        several.into_iter().flatten().collect()
    }
}

/// The dependencies of every actor.
struct ActorDependencies<'a> {
    settings: &'a Settings,
    store: Store,
    vault: Vault,
    clock: SharedClock,
    member: Membership,
    traces: Traces,
}

impl ActorDependencies<'_> {
    /// Starts the tasks that connect this node with others:
    /// - renew its lease,
    /// - send and receive notices,
    /// - wake followers when other nodes announce events,
    /// - reset the deliveries when this process rejoins as a new node.
    fn live_among_others(
        &self,
        threads: &Threads,
        calls: &CallRouter,
        bridges: &Arc<Bridges>,
        webhooks: &WebhooksHandle,
        feed: &Followers,
    ) {
        let attending = Arc::clone(bridges);
        threads.lease.spawn(async move { attending.attend().await });
        let (calls, bridges) = (calls.clone(), Arc::clone(bridges));
        let load = move || NodeLoad {
            calls: calls.in_memory(),
            bridges: bridges.connected_count(),
        };
        let keeping = nodes::keep(self.member.clone(), self.store.clone(), load);
        threads.lease.spawn(keeping);
        let following = remote_events::watch(feed.clone(), self.store.clone(), self.member.clone());
        if self.store.lease().is_some() {
            let exchanging = nodes::exchange(self.member.clone(), self.store.clone());
            threads.core.spawn(exchanging);
            threads.core.spawn(following);
        }
        let (mut turns, webhooks) = (self.member.turns(), webhooks.clone());
        threads.core.spawn(async move {
            while turns.changed().await.is_ok() {
                webhooks.begin_anew().await;
            }
        });
    }

    fn webhooks(&self, thread: &Arbiter, outbound: Outbound) -> WebhooksHandle {
        let services = webhooks::WebhookDeps {
            store: self.store.clone(),
            clock: Arc::clone(&self.clock),
            vault: self.vault.clone(),
            outbound,
            node: self.member.clone(),
            traces: self.traces.clone(),
        };
        webhooks::start(&thread.handle(), services, self.settings.webhooks())
    }

    fn ledger(
        &self,
        thread: &Arbiter,
        webhooks: &WebhooksHandle,
        feed: &Followers,
    ) -> CommitHandle {
        let deps = CommitDeps {
            store: self.store.clone(),
            clock: Arc::clone(&self.clock),
            node: self.member.clone(),
            recipients: EventRecipients {
                deliver: Some(webhooks.recipient()),
                followers: feed.clone(),
            },
        };
        commit::start(&thread.handle(), &deps)
    }

    fn calls(
        &self,
        threads: &[Arbiter],
        ledger: &CommitHandle,
        functions: &FunctionsHandle,
        bridges: &Arc<Bridges>,
    ) -> CallRouter {
        let deps = CallDeps {
            store: self.store.clone(),
            vault: self.vault.clone(),
            clock: Arc::clone(&self.clock),
            node: self.member.clone(),
            rules: self.settings.rules(),
            ai_cost_idr_per_minute: self.settings.billing.ai_cost_idr_per_minute,
            concurrency: self.settings.concurrency(),
            transfers: self.settings.transfers(),
            default_time_zone: self.settings.calls.default_time_zone.as_str().into(),
            versions: Versions::default(),
            ledger: ledger.clone(),
            functions: functions.clone(),
            bridges: Arc::clone(bridges),
            meter: CallMeter::default(),
            invocations: Invocations::default(),
            traces: self.traces.clone(),
        };
        CallRouter::new(deps, handles(threads))
    }
}

fn handles(arbiters: &[Arbiter]) -> Vec<ArbiterHandle> {
    arbiters.iter().map(Arbiter::handle).collect()
}

/// The guard of outbound requests, from the configuration. Own ports are those of the public and the operators' listener.
pub(super) fn guard(settings: &Settings, [public, operator]: [u16; 2]) -> Guard {
    let own_ports = match settings.may_ask_itself {
        true => vec![operator],
        false => vec![public, operator],
    };
    Guard {
        allow_cidrs: settings.allowed_cidrs(),
        allow_hosts: settings.allowed_hosts(),
        allow_http: settings.url_policy().allow_http,
        own_ports,
    }
}
