//! What every call works with.

use std::sync::Arc;

use dikala_entities::{Plan, Store, TransferPrefixes, Vault};

use super::{machine::Rules, meter::CallMeter, versions::Versions};
use crate::{
    bridges::Bridges, functions::FunctionsHandle, ledger::LedgerHandle,
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
    pub node: Arc<str>,
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
}
