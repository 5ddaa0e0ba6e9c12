//! Statistics of a function: number of calls, failures and latency of its endpoint.

use dikala_actors::functions::CircuitState;
use dikala_entities::{AgentId, Millis, function, invocation};
use sea_orm::{ColumnTrait, ConnectionTrait, DbErr, QueryFilter, QueryOrder, QuerySelect};
use serde::Serialize;
use utoipa::ToSchema;

use super::latency::LatencyMs;
use crate::{
    http::{
        error::ApiError,
        extract::{FunctionName, Id},
    },
    operations::{OperationContext, agents, functions},
};

/// The time range, in milliseconds.
const WINDOW_MS: i64 = 24 * 60 * 60 * 1_000;
/// At most this many calls are counted, the latest ones.
const CALLS_MAX: u64 = 1_000;

/// Statistics of a function's calls in the last 24 hours; of the latest 1000 of them if there were more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({
    "name": "check_stock", "from": "2026-01-14T03:30:00.000Z", "to": "2026-01-15T03:30:00.000Z", "calls": 412, "failures": 3,
    "latencyMs": {"p50": 84, "p95": 310, "p99": 1204, "max": 5000}, "circuit": {"state": "closed", "retryAt": null}
}))]
pub struct FunctionStats {
    name: String,
    /// 24 hours before `to`, or the first of the latest 1000 calls if there were more.
    pub from: Millis,
    /// Now.
    to: Millis,
    /// Calls that were made in conversations; tests do not count.
    pub calls: usize,
    /// Calls that gave the AI an error.
    pub failures: usize,
    pub latency_ms: LatencyMs,
    pub circuit: FunctionCircuit,
}

/// The circuit breaker of the function's endpoint. After five calls in a row that timed out or found no connection,
/// the endpoint is not called for a while, and the AI gets `circuit_open` at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = FunctionCircuit)]
pub struct FunctionCircuit {
    /// `closed`: it is called. `open`: it is not. `half_open`: one call decides.
    pub state: FunctionCircuitState,
    /// When one call will be let through; null unless `open`.
    pub retry_at: Option<Millis>,
}

/// The state of a circuit breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = FunctionCircuitState)]
pub enum FunctionCircuitState {
    Closed,
    Open,
    HalfOpen,
}

impl From<CircuitState> for FunctionCircuit {
    fn from(state: CircuitState) -> Self {
        let (state, retry_at) = match state {
            CircuitState::Closed => (FunctionCircuitState::Closed, None),
            CircuitState::Open { until } => (FunctionCircuitState::Open, Some(until)),
            CircuitState::HalfOpen => (FunctionCircuitState::HalfOpen, None),
        };
        Self { state, retry_at }
    }
}

/// One call of a function.
struct InvocationSample {
    at: Millis,
    duration_ms: i64,
    failed: bool,
}

impl FunctionStats {
    /// `calls` are ordered latest first.
    fn new(
        name: String,
        from: Millis,
        to: Millis,
        calls: &[InvocationSample],
        circuit: CircuitState,
    ) -> Self {
        let all = u64::try_from(calls.len()).is_ok_and(|calls| calls < CALLS_MAX);
        let first = calls.last().filter(|_| !all);
        Self {
            name,
            from: first.map_or(from, |first| first.at),
            to,
            calls: calls.len(),
            failures: calls.iter().filter(|call| call.failed).count(),
            latency_ms: LatencyMs::of(
                calls
                    .iter()
                    .filter(|call| call.duration_ms > 0 || !call.failed)
                    .map(|call| (call.duration_ms, 1)),
            ),
            circuit: circuit.into(),
        }
    }
}

/// The statistics of a function.
pub async fn show(
    context: OperationContext,
    id: Id<AgentId>,
    name: FunctionName,
) -> Result<FunctionStats, ApiError> {
    let db = context.store().api_reader();
    let agent = agents::find(db, context.tenant()?, id.0).await?;
    let function = functions::find(db, &agent, &name.0).await?;
    of(&context, &function).await
}

/// The statistics of one of the tenant's functions.
pub async fn of(
    context: &OperationContext,
    function: &function::Model,
) -> Result<FunctionStats, ApiError> {
    let to = context.now;
    let from = to.plus_ms(-WINDOW_MS);
    let calls = latest(context.store().api_reader(), function, from).await?;
    let functions = &context.serving()?.node.functions;
    let circuit = functions.circuit(function.tenant_id, &function.endpoint);
    let name = function.name.clone();
    Ok(FunctionStats::new(name, from, to, &calls, circuit))
}

/// Index-only, so the size of the outcomes does not matter.
async fn latest(
    db: &impl ConnectionTrait,
    function: &function::Model,
    from: Millis,
) -> Result<Vec<InvocationSample>, DbErr> {
    let rows: Vec<(Millis, i64, Option<String>)> = invocation::Entity::of_function(function)
        .select_only()
        .columns([
            invocation::Column::CreatedAt,
            invocation::Column::DurationMs,
            invocation::Column::Fault,
        ])
        .filter(invocation::Column::CreatedAt.gte(from))
        .order_by_desc(invocation::Column::CreatedAt)
        .limit(CALLS_MAX)
        .into_tuple()
        .all(db)
        .await?;
    let called = |(at, duration_ms, fault): (Millis, i64, Option<String>)| InvocationSample {
        at,
        duration_ms,
        failed: fault.is_some(),
    };
    Ok(rows.into_iter().map(called).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = Millis::from_i64(1_768_447_800_000);

    fn called(duration_ms: i64, failed: bool) -> InvocationSample {
        let at = NOW.plus_ms(-duration_ms);
        InvocationSample {
            at,
            duration_ms,
            failed,
        }
    }

    fn stats(calls: &[InvocationSample]) -> FunctionStats {
        let from = NOW.plus_ms(-WINDOW_MS);
        FunctionStats::new("f".to_owned(), from, NOW, calls, CircuitState::Closed)
    }

    #[test]
    fn what_was_never_sent_took_no_time() {
        let shown = stats(&[called(0, true), called(30, true), called(0, false)]);
        assert_eq!((shown.calls, shown.failures), (3, 2));
        let latency = shown.latency_ms;
        assert_eq!((latency.p50, latency.max), (Some(0), Some(30)));
        assert_eq!(shown.from, NOW.plus_ms(-WINDOW_MS));
    }

    #[test]
    fn with_more_calls_than_are_read_the_time_is_shorter() {
        let most = i64::try_from(CALLS_MAX).expect("a small number");
        let calls: Vec<InvocationSample> = (1..=most).map(|n| called(n, false)).collect();
        assert_eq!(stats(&calls).from, NOW.plus_ms(-most));
        assert_eq!(stats(&calls[1..]).from, NOW.plus_ms(-WINDOW_MS));
    }
}
