//! The state shared by all simulations of a test, since it is slow to create and never changes: the parts of calls
//! that no simulation uses, and the agent version of all calls.

use std::sync::Arc;

use actix_rt::Arbiter;
use dikala_entities::{
    AgentId, BridgeId, PhoneNumberId, TenantId, TransferPrefixes, Vault, WebhookId,
};
use dikala_testkit::StoreGuard;

use crate::{
    bridges::Bridges,
    calls::{
        CallDeps, CallLimits, CallMeter, Invocations, PlanConcurrency,
        simulated::version_lasting,
        versions::{Version, Versions},
    },
    commit::{self, CommitDeps},
    events::outbox::EventRecipients,
    functions::{self, FunctionsConfig},
    nodes::Membership,
    outbound::{Guard, Outbound},
    runtime::{
        clock::SharedClock,
        simulated::{
            clock::{BEGAN, NodeClock, TrueTime},
            ids::Ids,
        },
    },
    traces::Traces,
};

/// The longest call, in minutes.
pub(crate) const LONGEST_MINUTES: i64 = 4;
pub(crate) const RULES: CallLimits = CallLimits {
    ring_timeout_ms: 45_000,
    warn_before_ms: 20_000,
    hangup_grace_ms: 10_000,
    lost_after_ms: 30_000,
};

pub(crate) struct SharedBase {
    _keep: StoreGuard,
    pub(crate) deps: CallDeps,
    pub(crate) version: Arc<Version>,
    pub(crate) tenant: TenantId,
    pub(crate) number: PhoneNumberId,
    pub(crate) bridges: Vec<BridgeId>,
    pub(crate) webhooks: Vec<WebhookId>,
}

impl SharedBase {
    pub(crate) async fn new() -> Self {
        // The outbound client's TLS needs it; another test may have set it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (keep, store) = dikala_testkit::sqlite().await;
        let clock: SharedClock = NodeClock::new(TrueTime::default(), 0, 0);
        let node = Membership::outside("base");
        let here = Arbiter::current();
        let outbound = Outbound::new(Guard::default(), None).expect("the defaults");
        let books = CommitDeps {
            store: store.clone(),
            clock: clock.clone(),
            node: node.clone(),
            recipients: EventRecipients::default(),
        };
        let deps = CallDeps {
            store,
            vault: Vault::from_base64(&Vault::generate_key()).expect("a key"),
            clock: clock.clone(),
            node,
            rules: RULES,
            ai_cost_idr_per_minute: 100,
            concurrency: PlanConcurrency::default(),
            transfers: TransferPrefixes::default(),
            default_time_zone: "Asia/Jakarta".into(),
            versions: Versions::default(),
            ledger: commit::start(&here, &books),
            functions: functions::start(
                std::slice::from_ref(&here),
                &outbound,
                &FunctionsConfig::default(),
                clock.clone(),
            ),
            bridges: Arc::new(Bridges::new(clock)),
            meter: CallMeter::default(),
            traces: Traces::default(),
            invocations: Invocations::default(),
        };
        let ids = Ids::of(0);
        let agent: AgentId = ids.next("agent", BEGAN);
        Self {
            _keep: keep,
            deps,
            version: version_lasting(agent, LONGEST_MINUTES),
            tenant: ids.next("ten", BEGAN),
            number: ids.next("pn", BEGAN),
            bridges: (0..2).map(|_| ids.next("br", BEGAN)).collect(),
            webhooks: (0..2).map(|_| ids.next("wh", BEGAN)).collect(),
        }
    }
}
