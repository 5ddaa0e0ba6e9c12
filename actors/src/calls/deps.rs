//! The dependencies of all calls.

use std::sync::Arc;

use dashmap::{DashMap, DashSet};
use dikala_entities::{CallId, Millis, Plan, Store, TransferPrefixes, Vault};

use super::{machine::CallLimits, meter::CallMeter, versions::Versions};
use crate::{
    bridges::Bridges, commit::CommitHandle, functions::FunctionsHandle, nodes::Membership,
    runtime::clock::SharedClock, traces::Traces,
};

/// Concurrent calls that each plan allows; `None`: unlimited.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlanConcurrency {
    pub starter: Option<i64>,
    pub business: Option<i64>,
    pub enterprise: Option<i64>,
}

impl PlanConcurrency {
    pub fn of(&self, plan: Plan) -> Option<i64> {
        match plan {
            Plan::Starter => self.starter,
            Plan::Business => self.business,
            Plan::Enterprise => self.enterprise,
        }
    }
}

#[derive(Clone, Debug)]
pub struct CallDeps {
    pub store: Store,
    pub vault: Vault,
    pub clock: SharedClock,
    pub node: Membership,
    pub rules: CallLimits,
    pub ai_cost_idr_per_minute: i64,
    pub concurrency: PlanConcurrency,
    /// The number prefixes to which calls may be transferred.
    pub transfers: TransferPrefixes,
    /// The zone of agents without one, a name of the time zone database.
    pub default_time_zone: Arc<str>,
    pub versions: Versions,
    pub ledger: CommitHandle,
    pub functions: FunctionsHandle,
    pub bridges: Arc<Bridges>,
    pub meter: CallMeter,
    pub traces: Traces,
    pub invocations: Invocations,
}

/// A claim whose row must be changed or deleted.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClaimWrite {
    pub(super) claimed_at: Millis,
    /// The write is repeated until then.
    pub(super) until: Millis,
}

/// The invocations that this process works on, and the claims whose rows it must change.
#[derive(Clone, Debug, Default)]
pub struct Invocations {
    pub(super) running: Arc<DashSet<(CallId, String)>>,
    /// Claims that nothing needs any more; their rows may have to be deleted.
    pub(super) released: Arc<DashMap<(CallId, String), ClaimWrite>>,
    /// Invocations whose endpoint was called but whose outcome was lost.
    pub(super) abandoned: Arc<DashMap<(CallId, String), ClaimWrite>>,
}
