//! The status of webhooks: their endpoint queues, and their endpoints' last answers.

use std::collections::HashMap;

use dikala_entities::{Millis, WebhookId};

use super::{attempt::AttemptRecord, stats::QueueState};
use crate::outbound::ErrorKind;

/// Limit of kept last answers; the oldest are removed.
const HEARD_MAX: usize = 10_000;

/// A reading of an endpoint's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueReading {
    pub state: QueueState,
    /// Deliveries in memory whose next attempt has not begun.
    pub waiting: usize,
    /// Attempts in progress.
    pub in_flight: usize,
    /// The time of the circuit's next probe. None while the circuit is closed or a probe is in progress.
    pub probe_at: Option<Millis>,
}

/// The result of the last attempt at an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastAnswer {
    pub at: Millis,
    pub status: Option<u16>,
    pub error: Option<ErrorKind>,
    pub duration_ms: i64,
}

/// The status of one webhook.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WebhookStatus {
    /// None if the queue had nothing to do for a minute.
    pub queue: Option<QueueReading>,
    /// None if nothing was delivered since this process started.
    pub last_answer: Option<LastAnswer>,
}

/// The last answers of all endpoints.
#[derive(Debug, Default)]
pub(super) struct LastAnswers(HashMap<WebhookId, LastAnswer>);

impl LastAnswers {
    /// Keeps the result of an attempt.
    pub(super) fn note(&mut self, record: &AttemptRecord) {
        if self.0.len() >= HEARD_MAX && !self.0.contains_key(&record.webhook) {
            self.forget_half();
        }
        let answer = LastAnswer {
            at: record.ended_at,
            status: record.status_code,
            error: record.error_kind,
            duration_ms: record.duration_ms,
        };
        self.0.insert(record.webhook, answer);
    }

    pub(super) fn of(&self, webhook: WebhookId) -> Option<LastAnswer> {
        self.0.get(&webhook).copied()
    }

    /// Removes half at once, so that not every new entry has to search all others.
    fn forget_half(&mut self) {
        let mut times: Vec<Millis> = self.0.values().map(|answer| answer.at).collect();
        times.sort_unstable();
        let middle = times.get(times.len() / 2).copied();
        self.0
            .retain(|_, answer| middle.is_none_or(|middle| answer.at > middle));
    }
}

#[cfg(test)]
mod tests {
    use dikala_entities::{DeliveryId, EventId, EventKind, TenantId};

    use super::*;
    use crate::webhooks::retry::AttemptVerdict;

    const NOW: Millis = Millis::from_i64(1_768_447_800_000);

    #[test]
    fn the_last_answers_are_kept_of_those_that_answered_last() {
        let mut heard = LastAnswers::default();
        let record = |webhook, n: i64| AttemptRecord {
            delivery: DeliveryId::new(NOW),
            webhook,
            tenant: TenantId::new(NOW),
            event: EventId::new(NOW),
            call: None,
            kind: EventKind::CallStarted,
            webhook_updated_at: NOW,
            number: 1,
            is_test: false,
            is_beside_queue: false,
            started_at: NOW.plus_ms(n),
            ended_at: NOW.plus_ms(n + 1),
            duration_ms: 1,
            status_code: Some(204),
            error_kind: None,
            response: Vec::new(),
            verdict: AttemptVerdict::Delivered,
        };
        let most = i64::try_from(HEARD_MAX).expect("a small number");
        let webhooks: Vec<WebhookId> = (0..=most).map(|_| WebhookId::new(NOW)).collect();
        for (n, webhook) in (0..).zip(&webhooks) {
            heard.note(&record(*webhook, n));
        }
        let [first, last] = [webhooks[0], webhooks[HEARD_MAX]];
        assert_eq!(heard.of(first), None);
        assert_eq!(
            heard.of(last).map(|answer| (answer.at, answer.status)),
            Some((NOW.plus_ms(most + 1), Some(204)))
        );
        assert!(heard.0.len() <= HEARD_MAX / 2 + 1);
    }
}
