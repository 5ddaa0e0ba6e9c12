//! `/functions`: all tenants' functions that were recently called in conversations.

use actix_web::web::Data;
use dikala_actors::functions::{CircuitState, FunctionReading};
use dikala_entities::{AgentId, Millis, Ranking, TenantId};
use serde::Serialize;
use utoipa::ToSchema;

use super::{actors::DurationPercentiles, context::OperatorContext};
use crate::{
    api::function_stats::FunctionCircuit,
    http::{
        answer::ApiAnswer,
        error::ApiError,
        extract::{FormFields, OperatorQuery, id, line, word},
    },
    operations::{PageRange, list::lists},
};

const NAME_CHARS_MAX: usize = 64;

/// A function that was called in conversations on this node since its start; tests do not count.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = CalledFunction, example = json!({
    "tenantId": "ten_01k9zv3m8rj2q4w6y8a0c2e4g6", "agentId": "agent_01k9zv3m8rj2q4w6y8a0c2e4g6", "name": "check_stock",
    "origin": "https://shop.example.com", "calls": 412, "failed": 3, "lastMinute": 12, "failedInLastMinute": 1,
    "lastAt": "2026-01-15T03:30:00.000Z", "lastFault": "timeout", "lastFaultAt": "2026-01-15T03:29:00.000Z",
    "timesUs": {"p50": 100_000, "p99": 5_000_000}, "circuit": {"state": "closed", "retryAt": null}
}))]
pub struct CalledFunction {
    pub tenant_id: TenantId,
    pub agent_id: Option<AgentId>,
    pub name: String,
    /// Where it was called last, without path and query.
    pub origin: String,
    pub calls: u64,
    /// Those of which the AI was told an error.
    pub failed: u64,
    pub last_minute: u64,
    pub failed_in_last_minute: u64,
    pub last_at: Millis,
    /// The error code that the AI got for the last failed call.
    pub last_fault: Option<&'static str>,
    pub last_fault_at: Option<Millis>,
    /// Of those that were sent.
    pub times_us: DurationPercentiles,
    pub circuit: FunctionCircuit,
}

lists! {
    /// A page of the functions that were called lately; 1,000 are kept in mind.
    CalledList { functions: CalledFunction, "functions" }
}

impl From<FunctionReading> for CalledFunction {
    fn from(reading: FunctionReading) -> Self {
        Self {
            tenant_id: reading.tenant,
            agent_id: reading.agent,
            name: reading.name,
            origin: reading.endpoint.to_url().origin().ascii_serialization(),
            calls: reading.calls,
            failed: reading.failed,
            last_minute: reading.last_minute.all,
            failed_in_last_minute: reading.last_minute.failed,
            last_at: reading.last_at,
            last_fault: reading.last_fault.map(|(code, _)| code.as_str()),
            last_fault_at: reading.last_fault.map(|(_, at)| at),
            times_us: DurationPercentiles::from(&reading.times),
            circuit: reading.circuit.into(),
        }
    }
}

/// The query's filter and order.
struct FunctionQuery {
    page: PageRange,
    tenant: Option<TenantId>,
    agent: Option<AgentId>,
    name: Option<String>,
    by: Ranking,
}

impl FunctionQuery {
    fn read(asked: &FormFields) -> Result<Self, ApiError> {
        asked.read(&[], |form| {
            Some(Self {
                page: PageRange::read(form),
                tenant: form.optional("tenantId", None, id("a tenant")),
                agent: form.optional("agentId", None, id("an agent")),
                name: form.optional("name", None, line(NAME_CHARS_MAX)),
                by: form.defaulted("sort", None, Ranking::Rate, word("a ranking")),
            })
        })
    }

    fn takes(&self, function: &FunctionReading) -> bool {
        self.tenant.is_none_or(|tenant| tenant == function.tenant)
            && self.agent.is_none_or(|_| self.agent == function.agent)
            && self.name.as_ref().is_none_or(|name| *name == function.name)
    }

    /// Functions with an open circuit come first in any order, because somebody has to act on them.
    fn rank(&self, function: &FunctionReading) -> (bool, u64, u64) {
        let (most, then) = match self.by {
            Ranking::Rate => (function.last_minute.all, function.calls),
            Ranking::Errors => (function.last_minute.failed, function.failed),
            Ranking::P99 => (
                function.times.percentile(99).unwrap_or(0),
                function.times.sum / function.times.count().max(1),
            ),
        };
        (function.circuit != CircuitState::Closed, most, then)
    }
}

/// `GET /functions`
pub async fn list(
    process: Data<OperatorContext>,
    filters: OperatorQuery,
) -> Result<ApiAnswer, ApiError> {
    Ok(ApiAnswer::ok(&page(&process, &filters.0)?))
}

/// The requested page of recently called functions.
pub fn page(process: &OperatorContext, asked: &FormFields) -> Result<CalledList, ApiError> {
    let wanted = FunctionQuery::read(asked)?;
    let mut found = process.node.functions.functions();
    found.retain(|function| wanted.takes(function));
    found.sort_unstable_by(|one, other| {
        let names = |of: &FunctionReading| (of.tenant, of.agent, of.name.clone());
        let ranks = wanted.rank(other).cmp(&wanted.rank(one));
        ranks.then_with(|| names(one).cmp(&names(other)))
    });
    let (rows, has_more) = wanted.page.cut(found);
    let functions = rows.into_iter().map(CalledFunction::from).collect();
    Ok(CalledList::new(wanted.page, functions, has_more))
}
