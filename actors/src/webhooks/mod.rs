//! Delivery of events. Committed events are sent at once and written as deliveries after the attempt. Failed ones are
//! retried from their rows. No endpoint slows another.
//!
//! [`dispatcher`] is the actor. The pure [`scheduler`] decides; the [`courier`] carries that out, with an [`attempt`]
//! for each delivery and the [`recorder`] for results. The [`poller`] reads due deliveries from the table, the [`search`] finds events that no node
//! delivers.
//! [`recovery`] sends again what failed in a given period, `resend` a single delivery. [`test_delivery`] and
//! [`drain`] complete it. [`store`] is the SQL.

mod attempt;
mod courier;
mod dispatcher;
mod drain;
mod poller;
mod recorder;
pub mod recovery;
mod resend;
pub mod retry;
mod scheduler;
mod search;
#[cfg(test)]
pub(crate) mod simulated;
pub mod stats;
mod store;
mod test_delivery;
pub mod webhook_status;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use actix::{Addr, Recipient};
use actix_rt::ArbiterHandle;
use dikala_entities::{DeliveryId, Store, TenantId, TraceParent, Vault, WebhookId, webhook};

pub use self::{
    attempt::{Envelope, headers, signature},
    dispatcher::WebhookDispatcher,
    resend::ResendOutcome,
    store::{
        cursors::{delete_free_cursor, give_back, new_cursor},
        log::{ExistingRows, UnwrittenDelivery, insert_rows},
        results::lock_deliveries,
    },
};
use self::{
    dispatcher::{Again, BeginAnew, Drain, Look, Refresh, Test, Wake},
    stats::{Stats, StatsReading},
    webhook_status::WebhookStatus,
};
use crate::{
    events::outbox::Deliver,
    nodes::Membership,
    outbound::Outbound,
    runtime::{
        clock::SharedClock,
        context::{MeteredContext, OnPanic, Ping},
    },
    traces::Traces,
};

/// Mailbox of the dispatcher. A message without room is made up for within seconds: the next event shows that its number is missing, or the [`search`] finds it.
const MAILBOX: usize = 4_096;
/// Timeout for reading the status.
const LOOK_WITHIN: Duration = Duration::from_secs(1);

/// An attempt that has waited this long for its endpoint counts as hanging.
pub const HANGS_AFTER: Duration = Duration::from_secs(2);

/// Settings of deliveries.
#[derive(Clone, Debug)]
pub struct WebhooksConfig {
    /// The waits before the second, third … attempt, in seconds. A delivery fails after the last.
    pub retry_schedule_seconds: Vec<i64>,
    /// Timeout of one whole exchange, including the body.
    pub timeout: Duration,
    /// Concurrent attempts at one endpoint.
    pub endpoint_concurrency: usize,
    /// Concurrent attempts at all endpoints. A tenant gets a quarter at most.
    pub max_in_flight: usize,
}

impl Default for WebhooksConfig {
    fn default() -> Self {
        Self {
            retry_schedule_seconds: retry::DEFAULT_SCHEDULE_SECONDS.to_vec(),
            timeout: Duration::from_secs(15),
            endpoint_concurrency: 8,
            max_in_flight: 256,
        }
    }
}

/// The services that the dispatcher uses.
#[derive(Clone, Debug)]
pub struct WebhookDeps {
    pub store: Store,
    pub clock: SharedClock,
    pub vault: Vault,
    pub outbound: Outbound,
    /// This node, as named in leases.
    pub node: Membership,
    pub traces: Traces,
}

/// The reason why a test delivery was not made.
#[derive(Debug, thiserror::Error)]
pub enum TestError {
    /// Too many concurrent tests, or the dispatcher is stopping.
    #[error("too many test deliveries are running; try again in a moment")]
    Busy,
    /// The webhook's secret cannot be decrypted with the configured key.
    #[error(transparent)]
    Vault(#[from] dikala_entities::vault::VaultError),
    #[error(transparent)]
    Store(#[from] sea_orm::DbErr),
}

/// The handle of the dispatcher for the rest of the program.
#[derive(Clone, Debug)]
pub struct WebhooksHandle {
    dispatcher: Addr<WebhookDispatcher>,
    stats: Arc<Stats>,
}

/// Starts the dispatcher on `arbiter`. Give it an arbiter of its own: the HTTP clients live there.
pub fn start(arbiter: &ArbiterHandle, deps: WebhookDeps, config: WebhooksConfig) -> WebhooksHandle {
    let stats = Arc::new(Stats::default());
    let shared = Arc::clone(&stats);
    let dispatcher = MeteredContext::start(arbiter, MAILBOX, OnPanic::Restart, move |_| {
        WebhookDispatcher::new(deps, config, shared)
    });
    WebhooksHandle { dispatcher, stats }
}

impl WebhooksHandle {
    /// The recipient of committed deliveries. Use `try_send`: a refused message is made up for from the log of events.
    pub fn recipient(&self) -> Recipient<Deliver> {
        self.dispatcher.clone().recipient()
    }

    /// Wakes the poller: deliveries may have become due in the table, after a recovery, a resend or the enabling of a
    /// webhook.
    pub fn wake(&self) {
        // Lost if the mailbox is full; the table is polled every second anyway.
        let _ = self.dispatcher.try_send(Wake);
    }

    /// Reports that a webhook was changed or deleted. Otherwise the dispatcher notices within about a second.
    pub fn refresh(&self, webhook: WebhookId) {
        let _ = self.dispatcher.try_send(Refresh { webhook });
    }

    /// Sends a signed sample of a subscribed kind and waits until its only attempt is recorded. Returns the
    /// delivery's id.
    pub async fn test(
        &self,
        webhook: webhook::Model,
        trace: Option<TraceParent>,
    ) -> Result<DeliveryId, TestError> {
        let test = Test {
            webhook: Box::new(webhook),
            trace,
        };
        self.dispatcher
            .send(test)
            .await
            .unwrap_or(Err(TestError::Busy))
    }

    /// Makes one attempt of a due delivery, bypassing the circuit, and waits until it is recorded. Makes none if
    /// there are more than `attempts` of it already.
    pub async fn resend(
        &self,
        webhook: WebhookId,
        delivery: DeliveryId,
        attempts: i64,
        trace: Option<TraceParent>,
    ) -> Result<ResendOutcome, TestError> {
        let again = Again {
            webhook,
            delivery,
            attempts,
            trace,
        };
        self.dispatcher
            .send(again)
            .await
            .unwrap_or(Err(TestError::Busy))
    }

    /// Accepts no more work, waits at most `limit` for attempts in progress, and gives back the rest.
    pub async fn drain(&self, limit: Duration) {
        if self.dispatcher.send(Drain { limit }).await.is_err() {
            tracing::warn!("the webhook dispatcher stopped before it was drained");
        }
    }

    /// The status of webhooks. None if the dispatcher does not answer in time.
    pub async fn statuses(
        &self,
        webhooks: Vec<WebhookId>,
    ) -> Option<HashMap<WebhookId, WebhookStatus>> {
        let looking = self.dispatcher.send(Look { webhooks });
        tokio::time::timeout(LOOK_WITHIN, looking).await.ok()?.ok()
    }

    /// Call this after the process became another node: other nodes own its old deliveries, and none of them is sent
    /// here.
    pub async fn begin_anew(&self) {
        let _ = self.dispatcher.send(BeginAnew).await;
    }

    /// True if the dispatcher answers.
    pub async fn is_alive(&self) -> bool {
        self.dispatcher.send(Ping).await.is_ok()
    }

    /// Webhooks, with their tenants, whose endpoint has not answered an attempt for this long.
    pub fn slow_attempts(&self, for_so_long: Duration) -> BTreeMap<WebhookId, TenantId> {
        self.stats.slow_attempts(for_so_long)
    }

    /// Counts and times for the metrics.
    pub fn stats(&self) -> StatsReading {
        self.stats.reading()
    }
}
