//! `/overview`: current figures and problems.

use actix_web::web::Data;
use dikala_entities::{Millis, TenantId};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::context::OperatorContext;
use crate::{
    http::{
        answer::ApiAnswer,
        error::ApiError,
        extract::{OperatorQuery, ParseResult, not_allowed, string},
    },
    overview::{OngoingProblem, figures::Figure, history::OverviewPeriod, judge::Severity},
    pages::lang::Lang,
};

/// Something that is wrong.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Problem)]
pub struct ProblemAnswer {
    severity: Severity,
    /// A word for it that stays the same.
    code: &'static str,
    /// The problem in one sentence.
    summary: String,
    /// The advice on what to do.
    action: String,
    /// The affected tenant, if it is one.
    tenant_id: Option<TenantId>,
    /// The object of the problem: an id, or the name of an actor or a thread.
    target: Option<String>,
    /// How much is concerned, in words.
    amount: Option<String>,
    /// The time since when it lasts; if the service does not know it, the time at which this node noticed it.
    since: Millis,
    /// The time until which operators do not want to be told. Null if it is not snoozed.
    snoozed_until: Option<Millis>,
}

impl From<&OngoingProblem> for ProblemAnswer {
    fn from(of: &OngoingProblem) -> Self {
        let problem = &of.problem;
        Self {
            severity: problem.severity,
            code: problem.code,
            summary: problem.summary(Lang::En),
            action: problem.action(Lang::En),
            tenant_id: problem.tenant_id,
            target: problem.target.clone(),
            amount: problem.amount(Lang::En),
            since: of.since,
            snoozed_until: of.snoozed_until,
        }
    }
}

/// The state of this node and its problems.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({
    "node": "main", "version": "0.1.0", "at": "2026-01-15T03:30:00.000Z", "startedAt": "2026-01-15T03:00:00.000Z",
    "status": "warning",
    "problems": [{"severity": "warning", "code": "webhook_failing",
        "summary": "The webhook wh_01k9zv3m8rj2q4w6y8a0c2e4g6 of Kopi Senja keeps failing.",
        "action": "The tenant misses events: see the last answer, and tell the tenant. Recover resends failed deliveries.",
        "tenantId": "ten_01k9zv3m8rj2q4w6y8a0c2e4g6", "target": "wh_01k9zv3m8rj2q4w6y8a0c2e4g6",
        "amount": "192 deliveries wait, last answer 500", "since": "2026-01-15T03:29:00.000Z", "snoozedUntil": null}],
    "figures": [{"name": "calls_now", "label": "Calls now", "unit": "calls", "value": 12, "limit": null, "min": 3, "max": 12,
        "history": [null, 3, 12]}],
    "historyStepSeconds": 10
}))]
pub struct Overview {
    node: String,
    version: &'static str,
    at: Millis,
    started_at: Millis,
    /// How bad the worst problem is that is not snoozed: `ok`, `warning` or `critical`.
    status: &'static str,
    /// Worst first, those that are snoozed too; none where nothing is wrong.
    problems: Vec<ProblemAnswer>,
    /// Always all of them, in the same order.
    figures: Vec<Figure>,
    /// The time between two numbers of a history.
    history_step_seconds: i64,
}

fn period(value: &Value) -> ParseResult<OverviewPeriod> {
    let given = string(value)?;
    let allowed = OverviewPeriod::WORDS.iter().copied();
    OverviewPeriod::named(given).ok_or_else(|| not_allowed(given, "a period", allowed).into())
}

/// Values of a history, by period.
const STEPS: usize = 60;
const STEPS_OF_A_DAY: usize = 24 * 60;

/// `GET /overview`
pub async fn show(
    process: Data<OperatorContext>,
    query: OperatorQuery,
) -> Result<ApiAnswer, ApiError> {
    let period = query.0.read(&[], |form| {
        Some(form.defaulted("period", None, OverviewPeriod::default(), period))
    })?;
    let look = process.overview.look().await;
    let steps = match period {
        OverviewPeriod::TenMinutes => STEPS,
        OverviewPeriod::Day => STEPS_OF_A_DAY,
    };
    let step_ms = period.ms() / i64::try_from(steps).unwrap_or(1);
    Ok(ApiAnswer::ok(&Overview {
        node: process.node.member.name().to_string(),
        version: env!("CARGO_PKG_VERSION"),
        at: look.at,
        started_at: process.started_at,
        status: match look.severity() {
            None => "ok",
            Some(Severity::Warning) => "warning",
            Some(Severity::Critical) => "critical",
        },
        problems: look.problems.iter().map(ProblemAnswer::from).collect(),
        figures: process.overview.figures(period, steps),
        history_step_seconds: step_ms / 1_000,
    }))
}
