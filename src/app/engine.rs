//! The actors, started in the order in which they need each other, and stopped again.

use std::sync::Arc;

use actix::{Arbiter, ArbiterHandle};
use dikala_actors::{
    bridges::Bridges,
    call::{CallParts, versions::Versions},
    clock::SharedClock,
    feed::Feed,
    functions::{self, FunctionsHandle},
    ledger::{self, LedgerHandle, LedgerParts},
    outbound::{Guard, Outbound},
    outbox::Audience,
    registry::{CallRegistry, Calls},
    webhooks::{self, WebhooksHandle},
};
use dikala_entities::{Store, Vault};

use super::StartError;
use crate::config::Settings;

/// Threads that run calls.
const CALL_THREADS: usize = 2;
/// Threads that wait for tenants' functions.
const FUNCTION_THREADS: usize = 2;

/// The actors and what they share.
pub(super) struct Engine {
    pub(super) store: Store,
    pub(super) calls: Calls,
    pub(super) bridges: Arc<Bridges>,
    pub(super) ledger: LedgerHandle,
    pub(super) webhooks: WebhooksHandle,
    pub(super) functions: FunctionsHandle,
    pub(super) registry: actix::Addr<CallRegistry>,
    pub(super) outbound: Outbound,
    pub(super) feed: Feed,
    pub(super) arbiters: Vec<Arbiter>,
}

impl Engine {
    pub(super) async fn start(
        settings: &Settings,
        store: Store,
        vault: Vault,
        clock: SharedClock,
        own_ports: [u16; 2],
    ) -> Result<Self, StartError> {
        let node: Arc<str> = Arc::from(settings.node.name.as_str());
        let core = Arbiter::new();
        let webhook_arbiter = Arbiter::new();
        let call_arbiters: Vec<Arbiter> = (0..CALL_THREADS).map(|_| Arbiter::new()).collect();
        let function_arbiters: Vec<Arbiter> =
            (0..FUNCTION_THREADS).map(|_| Arbiter::new()).collect();
        // Names are looked up on threads; webhooks, functions and registration have their own, so that names that take long
        // in one of them hold up none of the others.
        let outbound = || Outbound::new(guard(settings, own_ports), settings.extra_ca_file());
        let webhooks = webhooks::start(
            &webhook_arbiter.handle(),
            webhooks::Services {
                store: store.clone(),
                clock: Arc::clone(&clock),
                vault: vault.clone(),
                outbound: outbound()?,
                node: Arc::clone(&node),
            },
            settings.webhooks(),
        );
        let feed = Feed::default();
        let audience = Audience {
            deliver: Some(webhooks.recipient()),
            feed: feed.clone(),
        };
        let parts = LedgerParts {
            store: store.clone(),
            clock: Arc::clone(&clock),
            node: Arc::clone(&node),
            audience,
        };
        let ledger = ledger::start(&core.handle(), &parts);
        let functions = functions::start(
            &handles(&function_arbiters),
            &outbound()?,
            &settings.functions(),
            Arc::clone(&clock),
        );
        let bridges = Arc::new(Bridges::new(Arc::clone(&clock)));
        let parts = CallParts {
            store: store.clone(),
            vault,
            clock,
            node,
            rules: settings.rules(),
            ai_cost_idr_per_minute: settings.billing.ai_cost_idr_per_minute,
            concurrency: settings.concurrency(),
            transfers: settings.transfers(),
            versions: Versions::default(),
            ledger: ledger.clone(),
            functions: functions.clone(),
            bridges: Arc::clone(&bridges),
        };
        let calls = Calls::new(parts, handles(&call_arbiters));
        let (registry, recovered) = CallRegistry::start(&core.handle(), calls.clone()).await?;
        ledger.announce_credits_to(registry.clone().recipient());
        if recovered > 0 {
            tracing::info!(calls = recovered, "took up unfinished calls");
        }
        let arbiters = [
            vec![core, webhook_arbiter],
            call_arbiters,
            function_arbiters,
        ];
        Ok(Self {
            store,
            calls,
            bridges,
            ledger,
            webhooks,
            functions,
            registry,
            outbound: outbound()?,
            feed,
            arbiters: arbiters.into_iter().flatten().collect(),
        })
    }

    /// After the listeners and the deliveries under way: the rest is in the store.
    pub(super) async fn stop(self) {
        if let Err(error) = self.bridges.store_signs(&self.store).await {
            tracing::warn!(%error, "the bridges' signs of life were not written");
        }
        for arbiter in &self.arbiters {
            arbiter.stop();
        }
        self.store.close().await;
    }
}

fn handles(arbiters: &[Arbiter]) -> Vec<ArbiterHandle> {
    arbiters.iter().map(Arbiter::handle).collect()
}

fn guard(settings: &Settings, own_ports: [u16; 2]) -> Guard {
    Guard {
        allow_cidrs: settings.allowed_cidrs(),
        allow_hosts: settings.allowed_hosts(),
        allow_http: settings.url_policy().allow_http,
        own_ports: own_ports.to_vec(),
    }
}
