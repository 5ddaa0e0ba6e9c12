//! What every call works with.

use std::sync::Arc;

use dashmap::{DashMap, DashSet};
use dikala_entities::{CallId, Millis, Plan, Store, TransferPrefixes, Vault};

use super::{machine::Rules, meter::CallMeter, versions::Versions};
use crate::{
    bridges::Bridges, functions::FunctionsHandle, ledger::LedgerHandle, nodes::Membership,
    runtime::clock::SharedClock, traces::Traces,
};

/// Calls at the same time that a plan allows; none: any number.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlanConcurrency {
    pub starter: Option<i64>,
    pub business: Option<i64>,
    pub enterprise: Option<i64>,
}

impl PlanConcurrency {
    /// The limit of a plan.
    pub fn of(&self, plan: Plan) -> Option<i64> {
        match plan {
            Plan::Starter => self.starter,
            Plan::Business => self.business,
            Plan::Enterprise => self.enterprise,
        }
    }
}

/// What every call works with.
#[derive(Clone, Debug)]
pub struct CallParts {
    pub store: Store,
    pub vault: Vault,
    pub clock: SharedClock,
    pub node: Membership,
    pub rules: Rules,
    pub ai_cost_idr_per_minute: i64,
    pub concurrency: PlanConcurrency,
    /// Where calls may be transferred to.
    pub transfers: TransferPrefixes,
    pub versions: Versions,
    pub ledger: LedgerHandle,
    pub functions: FunctionsHandle,
    pub bridges: Arc<Bridges>,
    pub meter: CallMeter,
    pub traces: Traces,
    pub invoking: Invoking,
}

/// A claim of which something is to be said in the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noted {
    pub(super) claimed_at: Millis,
    /// It is said again and again until then.
    pub(super) until: Millis,
}

/// Invocations that this process works on, by their calls and the bridges' names for them; and of which claims it has to say
/// something in the table.
#[derive(Clone, Debug, Default)]
pub struct Invoking {
    pub(super) now: Arc<DashSet<(CallId, String)>>,
    /// Whose claims may be in the table, and nobody here needs them any more.
    pub(super) over: Arc<DashMap<(CallId, String), Noted>>,
    /// Whose endpoints were called, and of which nobody here knows any more what came of it.
    pub(super) abandoned: Arc<DashMap<(CallId, String), Noted>>,
}
