//! The actors, started in the order in which they need each other, and stopped again.

use std::{sync::Arc, time::Duration};

use actix::{Arbiter, ArbiterHandle};
use dikala_actors::{
    bridges::Bridges,
    calls::{CallMeter, CallParts, CallRegistry, Calls, Invoking, versions::Versions},
    events::{elsewhere, followers::Followers, outbox::Audience},
    functions::{self, FunctionsHandle},
    ledger::{self, LedgerHandle, LedgerParts},
    nodes::{self, Load, Membership},
    outbound::{Guard, Outbound, OutboundError},
    runtime::{clock::SharedClock, lag::EventLoops},
    traces::Traces,
    webhooks::{self, WebhooksHandle},
};
use dikala_entities::{Store, Vault};

use super::StartError;
use crate::{config::Settings, node::Node};

/// Threads that run calls.
const CALL_THREADS: usize = 2;
/// Threads that wait for tenants' functions.
const FUNCTION_THREADS: usize = 2;

/// How often it is looked whether all bridges are gone, before their calls are given back in any case, and the pause between.
const GONE_LOOKS: usize = 20;
const GONE_LOOK_EVERY: Duration = Duration::from_millis(50);

/// The actors, and the threads that they run on.
pub struct Actors {
    pub node: Node,
    pub arbiters: Vec<Arbiter>,
    pub loops: EventLoops,
}

impl Actors {
    /// Starts them on a store. Each that makes requests asks `outbound` for what it makes them with.
    pub async fn start(
        settings: &Settings,
        store: Store,
        vault: Vault,
        clock: SharedClock,
        member: Membership,
        traces: Traces,
        outbound: impl Fn() -> Result<Outbound, OutboundError>,
    ) -> Result<Self, StartError> {
        let feed = Followers::among(member.notices().clone());
        let common = Common {
            settings,
            store,
            vault,
            clock,
            member,
            traces,
        };
        let threads = Threads::start();
        // Names are looked up on threads; webhooks, functions and registration have their own, so that names that take long
        // in one of them hold up none of the others.
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
            tracing::info!(calls = recovered, "took up unfinished calls");
        }
        let Common {
            store,
            vault,
            clock,
            member,
            traces,
            ..
        } = common;
        let node = Node {
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
            node,
            loops: threads.loops(),
            arbiters: threads.into_arbiters(),
        })
    }

    /// Once bridges are sent away: their calls are others' to take, while requests and deliveries under way still end.
    pub(super) async fn give_back(&self) {
        let Node { bridges, calls, .. } = &self.node;
        for _ in 0..GONE_LOOKS {
            if bridges.sockets() == 0 {
                break;
            }
            tokio::time::sleep(GONE_LOOK_EVERY).await;
        }
        if let Err(error) = calls.give_back().await {
            tracing::warn!(%error, "calls could not be given back; others take them when this node is gone");
        }
    }

    /// After the listeners and the deliveries under way: the rest is in the store.
    pub(super) async fn stop(self) {
        if let Err(error) = self.node.calls.store_signs().await {
            tracing::warn!(%error, "the bridges' signs of life were not written");
        }
        if let Err(error) = self.node.member.leave(&self.node.store).await {
            tracing::warn!(%error, "what this node has could not be given back; others take it when its lease is over");
        }
        for arbiter in &self.arbiters {
            arbiter.stop();
        }
        self.node.store.close().await;
    }
}

/// The threads that actors run on.
struct Threads {
    core: Arbiter,
    /// Nothing else is here: whatever keeps the others busy, the lease is renewed.
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

/// What every actor is given.
struct Common<'a> {
    settings: &'a Settings,
    store: Store,
    vault: Vault,
    clock: SharedClock,
    member: Membership,
    traces: Traces,
}

impl Common<'_> {
    /// From now on renews the lease of this node, tells other nodes where to look and hears of them, wakes who follows here when other
    /// nodes announce something, and sees to it that a process that became another node sends nothing of what the one before held.
    fn live_among_others(
        &self,
        threads: &Threads,
        calls: &Calls,
        bridges: &Arc<Bridges>,
        webhooks: &WebhooksHandle,
        feed: &Followers,
    ) {
        let attending = Arc::clone(bridges);
        threads.lease.spawn(async move { attending.attend().await });
        let (calls, bridges) = (calls.clone(), Arc::clone(bridges));
        let load = move || Load {
            calls: calls.in_memory(),
            bridges: bridges.connected_count(),
        };
        let keeping = nodes::keep(self.member.clone(), self.store.clone(), load);
        threads.lease.spawn(keeping);
        let following = elsewhere::watch(feed.clone(), self.store.clone(), self.member.clone());
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
        let services = webhooks::WebhookParts {
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
    ) -> LedgerHandle {
        let parts = LedgerParts {
            store: self.store.clone(),
            clock: Arc::clone(&self.clock),
            node: self.member.clone(),
            audience: Audience {
                deliver: Some(webhooks.recipient()),
                followers: feed.clone(),
            },
        };
        ledger::start(&thread.handle(), &parts)
    }

    fn calls(
        &self,
        threads: &[Arbiter],
        ledger: &LedgerHandle,
        functions: &FunctionsHandle,
        bridges: &Arc<Bridges>,
    ) -> Calls {
        let parts = CallParts {
            store: self.store.clone(),
            vault: self.vault.clone(),
            clock: Arc::clone(&self.clock),
            node: self.member.clone(),
            rules: self.settings.rules(),
            ai_cost_idr_per_minute: self.settings.billing.ai_cost_idr_per_minute,
            concurrency: self.settings.concurrency(),
            transfers: self.settings.transfers(),
            versions: Versions::default(),
            ledger: ledger.clone(),
            functions: functions.clone(),
            bridges: Arc::clone(bridges),
            meter: CallMeter::default(),
            invoking: Invoking::default(),
            traces: self.traces.clone(),
        };
        Calls::new(parts, handles(threads))
    }
}

fn handles(arbiters: &[Arbiter]) -> Vec<ArbiterHandle> {
    arbiters.iter().map(Arbiter::handle).collect()
}

/// Where tenants' servers may be, as the operator says.
pub(super) fn guard(settings: &Settings, own_ports: [u16; 2]) -> Guard {
    Guard {
        allow_cidrs: settings.allowed_cidrs(),
        allow_hosts: settings.allowed_hosts(),
        allow_http: settings.url_policy().allow_http,
        own_ports: own_ports.to_vec(),
    }
}
