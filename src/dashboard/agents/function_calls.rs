//! The calls in which a function ran last.

use std::collections::{BTreeSet, HashMap};

use dikala_entities::{CallId, CallerNumber, Millis, OfTenant, call, function, invocation};
use maud::{Markup, html};
use sea_orm::{ColumnTrait, QueryFilter, QueryOrder, QuerySelect};

use super::super::{
    calls,
    components::{Tone, badge, table},
    view::SignedIn,
};
use crate::{http::error::ApiError, operations::calls::ERASED};

/// The calls that are shown.
const SHOWN: u64 = 10;

/// One run of a function in a call.
struct FunctionRun {
    call: CallId,
    at: Millis,
    duration_ms: i64,
    fault: Option<String>,
}

/// The runs of a function, newest first. The index of functions is in this order.
async fn runs(visit: &SignedIn, function: &function::Model) -> Result<Vec<FunctionRun>, ApiError> {
    use invocation::Column;

    let rows: Vec<(CallId, Millis, i64, Option<String>)> =
        invocation::Entity::of_function(function)
            .select_only()
            .columns([
                Column::CallId,
                Column::CreatedAt,
                Column::DurationMs,
                Column::Fault,
            ])
            .order_by_desc(Column::CreatedAt)
            .limit(SHOWN)
            .into_tuple()
            .all(visit.store().api_reader())
            .await?;
    let run = |(call, at, duration_ms, fault)| FunctionRun {
        call,
        at,
        duration_ms,
        fault,
    };
    Ok(rows.into_iter().map(run).collect())
}

async fn callers(
    visit: &SignedIn,
    runs: &[FunctionRun],
) -> Result<HashMap<CallId, CallerNumber>, ApiError> {
    let ids: BTreeSet<CallId> = runs.iter().map(|run| run.call).collect();
    let rows: Vec<(CallId, CallerNumber)> = call::Entity::of(visit.tenant())
        .select_only()
        .columns([call::Column::Id, call::Column::CallerNumber])
        .filter(call::Column::Id.is_in(ids))
        .into_tuple()
        .all(visit.store().api_reader())
        .await?;
    Ok(rows.into_iter().collect())
}

/// The last calls of a function as a table; nothing if there were none.
pub async fn last(visit: &SignedIn, function: &function::Model) -> Result<Markup, ApiError> {
    let runs = runs(visit, function).await?;
    if runs.is_empty() {
        return Ok(html! {});
    }
    let callers = callers(visit, &runs).await?;
    let columns = [
        "functions-run-when",
        "calls-caller",
        "functions-run-outcome",
        "functions-run-length",
    ];
    let columns = columns.map(|id| visit.t(id));
    let rows = runs.iter().map(|run| {
        let caller = callers.get(&run.call);
        vec![
            html! { a href=(calls::path_of(run.call)) { (visit.time(run.at)) } },
            html! {
                @if let Some(caller) = caller { (calls::words::caller(visit, caller, caller.as_str() == ERASED)) }
            },
            outcome(visit, run),
            html! { (visit.tn("functions-ms", &[("ms", run.duration_ms.into())])) },
        ]
    });
    let title = visit.t("functions-last-calls");
    Ok(html! {
        section aria-labelledby="last-calls" {
            h2 #last-calls { (title) }
            (table(visit, &title, &columns, rows.collect()))
        }
    })
}

fn outcome(visit: &SignedIn, run: &FunctionRun) -> Markup {
    match &run.fault {
        None => badge(Tone::Good, &visit.t("calls-function-ok")),
        Some(code) => badge(Tone::Bad, code),
    }
}
