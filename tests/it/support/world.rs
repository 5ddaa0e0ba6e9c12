//! The usual setting of a test: a server, a tenant, and a receiver of all events.

use dikala_testkit::{ReceivedEvent, StoreKind, TenantServer};
use serde_json::json;

use super::{
    server::{Installation, Server},
    shared::{ServerUse, Settings, WorldServer},
    statements,
    tenant::{Tenant, TenantPlan},
};

/// The secret of the tests' webhooks.
pub const SECRET: &str = "correct-horse-battery-staple";
/// Path of the usual webhook.
pub const HOOK: &str = "/hook";
pub const ALL_EVENTS: [&str; 6] = [
    "call.started",
    "call.answered",
    "call.ended",
    "call.transcript",
    "credits.low",
    "function.called",
];

/// Settings that differ from the usual world.
#[derive(Clone, Debug)]
pub struct WorldSetup {
    settings: Settings,
    plan: TenantPlan,
    files: Option<(u32, u32)>,
}

pub struct TestWorld {
    pub tenant: Tenant,
    pub receiver: TenantServer,
    pub server: WorldServer,
}

impl WorldSetup {
    pub fn new() -> Self {
        let plan = TenantPlan {
            minutes: 1_000,
            low_threshold: None,
            concurrent_calls: None,
        };
        Self {
            settings: Vec::new(),
            plan,
            files: None,
        }
    }

    pub fn set(mut self, key: &'static str, value: impl ToString) -> Self {
        self.settings.push((key, value.to_string()));
        self
    }

    /// Sets the server's soft and hard limit of open files.
    pub fn files(mut self, soft: u32, hard: u32) -> Self {
        self.files = Some((soft, hard));
        self
    }

    pub fn minutes(mut self, minutes: u32) -> Self {
        self.plan.minutes = minutes;
        self
    }

    pub fn low_threshold(mut self, minutes: u32) -> Self {
        self.plan.low_threshold = Some(minutes);
        self
    }

    pub fn concurrent_calls(mut self, calls: u32) -> Self {
        self.plan.concurrent_calls = Some(calls);
        self
    }
}

impl TestWorld {
    /// `None` if the store is not available; tests use [`world!`].
    pub async fn start(kind: StoreKind, setup: WorldSetup) -> Option<Self> {
        Some(Self::on(Installation::migrated(kind)?, setup).await)
    }

    /// Starts on the given installation.
    pub async fn on(mut installation: Installation, setup: WorldSetup) -> Self {
        installation.files = setup.files;
        installation.set("log.level", statements::LOG_LEVEL);
        for (key, value) in &setup.settings {
            installation.set(key, value);
        }
        let server = WorldServer::Own(Box::new(Server::start(installation)));
        Self::at(server, &setup.plan).await
    }

    /// `None` if the store is not available; tests use [`shared_world!`].
    pub async fn share(kind: StoreKind, setup: WorldSetup) -> Option<Self> {
        assert_eq!(setup.files, None, "shared servers have the usual limit");
        let server = WorldServer::Shared(ServerUse::begin(kind, &setup.settings)?);
        Some(Self::at(server, &setup.plan).await)
    }

    async fn at(server: WorldServer, plan: &TenantPlan) -> Self {
        let tenant = Tenant::create(&server, plan).await;
        let receiver = TenantServer::start();
        tenant
            .subscribe(&receiver.url(HOOK), &ALL_EVENTS, SECRET)
            .await;
        Self {
            tenant,
            receiver,
            server,
        }
    }

    /// Waits for an event at the usual webhook; `call` may be empty.
    pub async fn event(&self, kind: &str, call: &str) -> ReceivedEvent {
        self.receiver.wait_for_event(HOOK, SECRET, kind, call).await
    }

    /// The kinds of a call's events in the order of their first attempts, once `last` is among them.
    pub async fn kinds(&self, call: &str, last: &str) -> Vec<String> {
        self.event(last, call).await;
        let events = self.receiver.events(HOOK, SECRET);
        events
            .into_iter()
            .filter(|e| e.data["callId"] == call)
            .map(|e| e.kind)
            .collect()
    }

    /// Asserts that the ledger balances.
    #[track_caller]
    pub fn assert_ledger_is_exact(&self) {
        let verdict = self.server.cli(&["ledger", "verify"]);
        assert_eq!(verdict["differences"], json!([]), "{verdict}");
    }

    /// Another tenant on the same server.
    pub async fn another_tenant(&self, minutes: u32) -> Tenant {
        Tenant::create(
            &self.server,
            &TenantPlan {
                minutes,
                low_threshold: None,
                concurrent_calls: None,
            },
        )
        .await
    }
}

/// Starts a world on a store, or skips the test if the store is not available.
macro_rules! world {
    ($store:expr) => {
        world!($store, WorldSetup::new())
    };
    ($store:expr, $setup:expr) => {
        match TestWorld::start($store, $setup).await {
            Some(world) => world,
            None => return,
        }
    };
}
pub(crate) use world;

/// As [`world!`], on a server that other tests with the same settings use at the same time. For tests that look at
/// nothing but their own tenant, and neither stop nor disturb the server.
macro_rules! shared_world {
    ($store:expr) => {
        shared_world!($store, WorldSetup::new())
    };
    ($store:expr, $setup:expr) => {
        match TestWorld::share($store, $setup).await {
            Some(world) => world,
            None => return,
        }
    };
}
pub(crate) use shared_world;
