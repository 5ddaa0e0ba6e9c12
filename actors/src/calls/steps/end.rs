//! The end of a call: one commit settles its credit and writes the end.

use std::sync::Arc;

use dikala_entities::{CallStatus, HangupInitiator, HangupReason, Millis, call};
use dikala_protocol::{CommandKind, VoiceReport};

use super::credit;
use crate::{
    calls::{
        ending::CallEnding,
        error::CallError,
        events,
        machine::Step,
        owned::{OwnedCall, update},
        spans,
    },
    commit::{CallCounts, CallWrite, CommitEntry},
    ledger::{Settle, Settlement},
    traces::request_id,
};

/// The facts that are reported about a call at its end, or at its joining.
#[derive(Clone, Debug, Default)]
pub(in crate::calls) struct EndReport {
    /// The bridge's figure; `None`: it is that of the joining, or follows from the minutes.
    pub(in crate::calls) ai_cost_idr: Option<i64>,
    pub(in crate::calls) voice: VoiceReport,
    /// For operators.
    pub(in crate::calls) detail: Option<String>,
}

/// Settles the credit and writes the end in one commit, after asking for minutes that are not granted yet.
pub(in crate::calls) async fn end(
    call: &mut OwnedCall,
    ending: CallEnding,
    report: EndReport,
) -> Result<(), CallError> {
    credit::cover(call, &ending).await?;
    let ending = call.state.covered(ending);
    let settle = Settle {
        call: call.row.id,
        tenant: call.row.tenant_id,
        owner: Arc::from(call.row.owner.as_str()),
        epoch: call.row.epoch,
        minutes: call.state.minutes(&ending),
    };
    let ai_cost_idr = report.ai_cost_idr.or(call.row.ai_cost_idr);
    let rate = call.deps.ai_cost_idr_per_minute;
    let with_agent = call.state.minutes_with_agent(&ending);
    let unsettled = Arc::new(UnsettledEnding {
        row: call::Model {
            failure_detail: report.detail,
            voice_provider: report.voice.voice_provider,
            stalls: report.voice.stalls.map(i64::from),
            interruptions: report.voice.interruptions.map(i64::from),
            last_sign_at: call.state.seen_at,
            ..call.row.clone()
        },
        ending: ending.clone(),
        ai_cost: move |settled: Settlement| {
            ai_cost_idr.unwrap_or_else(|| settled.minutes.min(with_agent).saturating_mul(rate))
        },
    });
    let (then, was) = (Arc::clone(&unsettled), call.row.status);
    let clock = Arc::clone(&call.deps.clock);
    let settled = call
        .deps
        .ledger
        .settle(settle, move |settled| then.entry(settled, was, clock.now()))
        .await;
    let settled = match settled {
        Ok(settled) => settled,
        Err(error) => return call.refused(error).await,
    };
    call.row = unsettled.row(settled);
    call.state = call.state.over(&ending);
    call.active.set_status(Some(ending.status));
    call.deps.meter.ended(ending.status, ending.reason);
    spans::end_call(&call.deps, &call.row);
    tracing::info!(
        call = %call.row.id, tenant = %call.row.tenant_id, status = %ending.status, reason = %ending.reason,
        talk_seconds = ending.talk_seconds, minutes = settled.minutes, trace_id = call.row.trace_id(),
        request_id = request_id().as_deref(), "call over"
    );
    Ok(())
}

/// Ends a call whose actor keeps failing, as a last resort.
pub(in crate::calls) async fn give_up(call: &mut OwnedCall, now: Millis) -> Result<(), CallError> {
    let reason = HangupReason::BridgeError;
    let Step::End(ending) = call.state.fail(now, now, reason) else {
        return Ok(());
    };
    let ending = CallEnding {
        initiator: HangupInitiator::System,
        ..ending
    };
    call.command(CommandKind::Hangup { reason });
    let report = EndReport {
        detail: Some("the service gave the call up".to_owned()),
        ..EndReport::default()
    };
    end(call, ending, report).await
}

/// The end of a call, except for its minutes.
struct UnsettledEnding<C> {
    row: call::Model,
    ending: CallEnding,
    ai_cost: C,
}

impl<C: Fn(Settlement) -> i64> UnsettledEnding<C> {
    fn row(&self, settled: Settlement) -> call::Model {
        call::Model {
            status: self.ending.status,
            ended_at: Some(self.ending.at),
            duration_seconds: Some(self.ending.duration_seconds),
            talk_time_seconds: Some(self.ending.talk_seconds),
            hangup_reason: Some(self.ending.reason),
            hangup_initiator: Some(self.ending.initiator),
            ai_cost_idr: Some((self.ai_cost)(settled)),
            pending: None,
            ..self.row.clone()
        }
    }

    fn entry(&self, settled: Settlement, was: CallStatus, now: Millis) -> CommitEntry {
        let row = self.row(settled);
        let announced = events::ended(&row, &self.ending, (self.ai_cost)(settled), now);
        let update = update(&row, was, self.row.last_sign_at);
        CommitEntry {
            call: Some(CallWrite::Update(Box::new(update))),
            events: vec![announced],
            counted: Some(CallCounts::of_end(&row, settled.minutes)),
            ..CommitEntry::of(row.tenant_id)
        }
    }
}
