//! A finished attempt, as it is written to the table.

use std::time::Duration;

use dikala_entities::{CallId, DeliveryId, EventId, EventKind, Millis, TenantId, WebhookId};

use crate::{
    events::outbox::Dispatch,
    outbound::{ErrorKind, Exchange, Failure},
    webhooks::retry::{AttemptVerdict, JITTER_PERMILLE_MAX, Schedule},
};

/// An attempt that exceeds its limit by more than this was delayed by a pause of this process, in milliseconds.
const LATE_MS: i64 = 5_000;

/// The result of one attempt.
#[derive(Debug)]
pub(in crate::webhooks) struct AttemptRecord {
    pub(in crate::webhooks) delivery: DeliveryId,
    pub(in crate::webhooks) webhook: WebhookId,
    pub(in crate::webhooks) tenant: TenantId,
    pub(in crate::webhooks) event: EventId,
    pub(in crate::webhooks) call: Option<CallId>,
    pub(in crate::webhooks) kind: EventKind,
    /// The webhook's `updated_at` when its endpoint was read.
    pub(in crate::webhooks) webhook_updated_at: Millis,
    /// 1 for the first attempt.
    pub(in crate::webhooks) number: i64,
    pub(in crate::webhooks) is_test: bool,
    /// Made by hand at a node that does not have the endpoint queue.
    pub(in crate::webhooks) is_beside_queue: bool,
    pub(in crate::webhooks) started_at: Millis,
    pub(in crate::webhooks) ended_at: Millis,
    /// Duration of the exchange alone, by the monotonic clock.
    pub(in crate::webhooks) duration_ms: i64,
    pub(in crate::webhooks) status_code: Option<u16>,
    /// None if a whole answer came, whatever its status.
    pub(in crate::webhooks) error_kind: Option<ErrorKind>,
    /// The beginning of the endpoint's answer.
    pub(in crate::webhooks) response: Vec<u8>,
    /// The consequence for the delivery.
    pub(in crate::webhooks) verdict: AttemptVerdict,
}

/// The times of an attempt.
#[derive(Clone, Copy, Debug)]
pub(in crate::webhooks) struct AttemptTimes {
    pub(in crate::webhooks) started_at: Millis,
    pub(in crate::webhooks) ended_at: Millis,
    pub(in crate::webhooks) duration_ms: i64,
}

/// The version of the webhook that an attempt was made with.
#[derive(Clone, Copy, Debug)]
pub(in crate::webhooks) struct EndpointVersion {
    /// The webhook's `updated_at`.
    pub(in crate::webhooks) updated_at: Millis,
    /// The webhook was not changed during the attempt.
    pub(in crate::webhooks) is_current: bool,
}

impl AttemptRecord {
    /// Records an attempt that ended with `result`. A test has only one attempt and never closes an endpoint.
    pub(in crate::webhooks) fn new(
        dispatch: &Dispatch,
        version: EndpointVersion,
        schedule: &Schedule,
        times: AttemptTimes,
        result: Result<Exchange, Failure>,
    ) -> Self {
        let number = dispatch.attempts.saturating_add(1);
        let jitter = rand::random_range(0..=JITTER_PERMILLE_MAX);
        let verdict = match schedule.verdict(number, &result, times.ended_at, jitter) {
            AttemptVerdict::Retry { .. } | AttemptVerdict::Gone if dispatch.is_test => {
                AttemptVerdict::GivenUp
            }
            // The webhook was changed meanwhile: it may have another address, which still wants the event.
            AttemptVerdict::Gone if !version.is_current => {
                schedule.again(number, 0, times.ended_at, jitter)
            }
            verdict => verdict,
        };
        let (status_code, error_kind, response) = match result {
            Ok(answer) => (Some(answer.status), None, answer.body),
            Err(failure) => (failure.status, Some(failure.kind), failure.body),
        };
        Self {
            delivery: dispatch.delivery,
            webhook: dispatch.webhook,
            tenant: dispatch.tenant,
            event: dispatch.event,
            call: dispatch.call,
            kind: dispatch.kind,
            webhook_updated_at: version.updated_at,
            number,
            is_test: dispatch.is_test,
            is_beside_queue: false,
            started_at: times.started_at,
            ended_at: times.ended_at,
            duration_ms: times.duration_ms,
            status_code,
            error_kind,
            response,
            verdict,
        }
    }

    /// True if the service is at fault: the attempt was not made, or a pause of this process kept it from reading the
    /// answer within `limit`.
    pub(in crate::webhooks) fn is_our_fault(&self, limit: Duration) -> bool {
        let limit_ms = i64::try_from(limit.as_millis()).unwrap_or(i64::MAX);
        // A sleeping machine stops one of the clocks but not the other.
        let took_ms = self.duration_ms.max(self.ended_at.since(self.started_at));
        let is_late = took_ms > limit_ms.saturating_add(LATE_MS);
        self.error_kind
            .is_some_and(|kind| is_late || kind.is_ours())
    }
}
