//! `/http`: the requests to both listeners of this node, by route.

use actix_web::web::Data;
use dikala_entities::Ranking;
use serde::Serialize;
use utoipa::ToSchema;

use super::{actors::DurationPercentiles, context::OperatorContext};
use crate::{
    http::{
        answer::ApiAnswer,
        error::ApiError,
        extract::{FormFields, OperatorQuery, word},
        meter::OperationStats,
    },
    operations::{PageRange, list::lists},
};

/// The requests to one route since the start of this process.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RouteRequests, example = json!({
    "method": "GET", "route": "/api/v1/calls", "requests": 812, "clientErrors": 4, "serverErrors": 0, "lastMinute": 31,
    "failedInLastMinute": 0, "timesUs": {"p50": 2_500, "p99": 10_000}
}))]
pub struct RouteRequests {
    pub method: &'static str,
    /// The pattern of its path; `none` for what is nowhere.
    pub route: String,
    pub requests: u64,
    /// Answers with a 4xx.
    pub client_errors: u64,
    /// Answers with a 5xx.
    pub server_errors: u64,
    pub last_minute: u64,
    /// Answers with a 5xx in the last minute.
    pub failed_in_last_minute: u64,
    /// Until the head of the answer.
    pub times_us: DurationPercentiles,
}

lists! {
    /// A page of the routes that were asked for since the start of this process.
    RouteList { routes: RouteRequests, "routes" }
}

impl From<OperationStats> for RouteRequests {
    fn from(of: OperationStats) -> Self {
        let with = |class: u16| {
            let such = of
                .statuses
                .iter()
                .filter(|(status, _)| status / 100 == class);
            such.map(|(_, count)| count).sum()
        };
        Self {
            requests: of.statuses.iter().map(|(_, count)| count).sum(),
            client_errors: with(4),
            server_errors: with(5),
            last_minute: of.last_minute.all,
            failed_in_last_minute: of.last_minute.failed,
            times_us: DurationPercentiles::from(&of.times),
            method: of.method,
            route: of.route,
        }
    }
}

fn rank(of: &OperationStats, by: Ranking) -> (u64, u64) {
    let answered = of.times.count();
    match by {
        Ranking::Rate => (of.last_minute.all, answered),
        Ranking::Errors => {
            let failed = of.statuses.iter().filter(|(status, _)| *status >= 500);
            let since_the_start = failed.map(|(_, count)| count).sum();
            (of.last_minute.failed, since_the_start)
        }
        Ranking::P99 => (
            of.times.percentile(99).unwrap_or(0),
            of.times.sum / answered.max(1),
        ),
    }
}

/// `GET /http`
pub async fn list(
    process: Data<OperatorContext>,
    filters: OperatorQuery,
) -> Result<ApiAnswer, ApiError> {
    Ok(ApiAnswer::ok(&page(&process, &filters.0)?))
}

pub fn page(process: &OperatorContext, asked: &FormFields) -> Result<RouteList, ApiError> {
    let (page, by) = asked.read(&[], |form| {
        let page = PageRange::read(form);
        let by = form.defaulted("sort", None, Ranking::Rate, word("a ranking"));
        Some((page, by))
    })?;
    let mut found = process.requests.reading();
    // Some routes are in the metrics before their first request.
    found.retain(|of| of.times.count() > 0);
    // The sort is stable: routes of equal rank stay ordered by name.
    found.sort_by_key(|of| std::cmp::Reverse(rank(of, by)));
    let (rows, has_more) = page.cut(found);
    let routes = rows.into_iter().map(RouteRequests::from).collect();
    Ok(RouteList::new(page, routes, has_more))
}
