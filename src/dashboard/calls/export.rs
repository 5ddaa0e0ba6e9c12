//! The list of calls as a CSV file, with the same filters.

use actix_web::{HttpRequest, HttpResponse};
use dikala_entities::{CallId, Millis};
use futures_util::stream;

use super::{
    super::{
        csv::{self, CsvLine},
        layout,
        view::SignedIn,
    },
    filter::{self, CallQuery},
    rows::CallNames,
};
use crate::{
    http::error::ApiError,
    operations::calls::{self, CallView},
};

/// Calls per read.
const BATCH: u64 = 100;
/// The columns, by the API's names.
const COLUMNS: &[&str] = &[
    "id",
    "startedAt",
    "answeredAt",
    "endedAt",
    "status",
    "callerNumber",
    "calleeNumber",
    "phoneNumberId",
    "phoneNumberLabel",
    "agentId",
    "agentName",
    "durationSeconds",
    "talkTimeSeconds",
    "hangupReason",
    "hangupInitiator",
    "outcome",
    "aiCostIdr",
    "transcriptSummary",
    "channel",
    "joinedAt",
    "voiceProvider",
    "turnLatencyMsP50",
    "turnLatencyMsP95",
    "stalls",
    "interruptions",
];

/// `GET /dashboard/calls.csv`: all matching calls, newest first. It is no snapshot: each call appears as it is when
/// it is read.
pub async fn calls_csv(visit: SignedIn, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    match CallQuery::read(request.query_string(), visit.zone())? {
        Ok(asked) => {
            let reading = CallExport {
                visit: visit.clone(),
                asked,
                after: None,
                is_over: false,
            };
            let pieces = stream::try_unfold(reading, CallExport::piece);
            let today = visit.now().to_string();
            let name = format!("calls-{}", today.split('T').next().unwrap_or_default());
            csv::answer(&visit, &name, COLUMNS, pieces)
        }
        Err(filled) => {
            let form = filter::form(&visit, &filled).await?;
            Ok(layout::refused(&visit, &visit.t("calls-title"), form))
        }
    }
}

/// The position of the export.
struct CallExport {
    visit: SignedIn,
    asked: CallQuery,
    after: Option<(Millis, CallId)>,
    is_over: bool,
}

impl CallExport {
    /// The lines of the next batch of calls.
    async fn piece(mut self) -> Result<Option<(String, Self)>, ApiError> {
        if self.is_over {
            return Ok(None);
        }
        let (db, tenant) = (self.visit.store().api_reader(), self.visit.tenant());
        let (found, since): (Vec<CallView>, _) =
            calls::newest(db, tenant, &self.asked.filter, self.after, BATCH).await?;
        let names = CallNames::for_rows(&self.visit, &found).await?;
        let line = |call| line(&self.visit, call, &names);
        let lines: String = found.iter().map(line).collect();
        let is_full = u64::try_from(found.len()).is_ok_and(|count| count >= BATCH);
        let last = found.last().map(|call| (call.started_at, call.id));
        // Without a full batch, a search goes on where it stopped.
        self.after = if is_full { last } else { since };
        self.is_over = self.after.is_none();
        Ok(Some((lines, self)))
    }
}

fn line(visit: &SignedIn, call: &CallView, names: &CallNames) -> String {
    CsvLine::new()
        .maybe(Some(call.id))
        .maybe(Some(call.started_at))
        .maybe(call.answered_at)
        .maybe(call.ended_at)
        .maybe(Some(call.status))
        .text(call.caller_number.as_str())
        .text(call.callee_number.as_str())
        .maybe(call.phone_number_id)
        .maybe(names.number(call))
        .maybe(call.agent_id)
        .maybe(names.agent(call))
        .figure(call.duration_seconds)
        .figure(call.talk_time_seconds)
        .maybe(call.hangup_reason)
        .maybe(call.hangup_initiator)
        .maybe(names.outcome(visit, call))
        .figure(call.ai_cost_idr)
        .maybe(call.transcript_summary.as_deref())
        .maybe(Some(call.channel))
        .maybe(call.joined_at)
        .maybe(call.voice_provider)
        .figure(call.turn_latency_ms.map(|ms| ms.p50))
        .figure(call.turn_latency_ms.map(|ms| ms.p95))
        .figure(call.stalls)
        .figure(call.interruptions)
        .end()
}
