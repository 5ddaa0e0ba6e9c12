//! Delivering events: committed deliveries go out at once, failed ones are tried again from the table, and nobody's
//! endpoint slows anybody else's.
//!
//! [`dispatcher`] is the actor. What is done when is decided by the pure [`scheduler`]; the [`courier`] carries that out, with an
//! [`attempt`] for each delivery and the [`recorder`] for what came of it. Beside it the [`poller`] looks at the table for what
//! is due, [`recovery`] sends again what failed in a given time, and `resend` one delivery at once; [`test_delivery`] and
//! [`drain`] complete it. [`store`] is the SQL.

mod attempt;
mod courier;
mod dispatcher;
mod drain;
pub mod lanes;
mod poller;
mod recorder;
pub mod recovery;
mod resend;
pub mod retry;
mod scheduler;
#[cfg(test)]
pub(crate) mod simulated;
pub mod stats;
mod store;
mod test_delivery;

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
    resend::Resent,
    store::{lanes::give_back, results::lock_deliveries},
};
use self::{
    dispatcher::{Again, BeginAnew, Drain, Look, Refresh, Test, Wake},
    lanes::Standing,
    stats::{Stats, StatsReading},
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

/// Messages that may wait for the dispatcher. What does not fit is found in the table a second later.
const MAILBOX: usize = 4_096;
/// How long somebody waits who only looks.
const LOOK_WITHIN: Duration = Duration::from_secs(1);

/// An attempt that has waited for its endpoint for so long is one that hangs.
pub const HANGS_AFTER: Duration = Duration::from_secs(2);

/// How deliveries are made.
#[derive(Clone, Debug)]
pub struct WebhooksConfig {
    /// The waits before the second, third … attempt, in seconds. After the last a delivery has failed.
    pub retry_schedule_seconds: Vec<i64>,
    /// For one whole exchange, body included.
    pub timeout: Duration,
    /// Attempts at the same time to one endpoint.
    pub endpoint_concurrency: usize,
    /// Attempts at the same time to all endpoints. No tenant gets more than a quarter.
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

/// What the dispatcher works with.
#[derive(Clone, Debug)]
pub struct WebhookParts {
    pub store: Store,
    pub clock: SharedClock,
    pub vault: Vault,
    pub outbound: Outbound,
    /// Which node this is, as it stands in leases.
    pub node: Membership,
    pub traces: Traces,
}

/// A test delivery was not made.
#[derive(Debug, thiserror::Error)]
pub enum TestError {
    /// Too many tests at the same time, or the dispatcher is stopping.
    #[error("too many test deliveries are running; try again in a moment")]
    Busy,
    /// The webhook's secret does not open with the configured key.
    #[error(transparent)]
    Vault(#[from] dikala_entities::vault::VaultError),
    #[error(transparent)]
    Store(#[from] sea_orm::DbErr),
}

/// What the rest of the program knows of the dispatcher.
#[derive(Clone, Debug)]
pub struct WebhooksHandle {
    dispatcher: Addr<WebhookDispatcher>,
    stats: Arc<Stats>,
}

/// Starts the dispatcher on `arbiter`, which should be its own: the HTTP clients live there.
pub fn start(
    arbiter: &ArbiterHandle,
    parts: WebhookParts,
    config: WebhooksConfig,
) -> WebhooksHandle {
    let stats = Arc::new(Stats::default());
    let shared = Arc::clone(&stats);
    let dispatcher = MeteredContext::start(arbiter, MAILBOX, OnPanic::Restart, move |_| {
        WebhookDispatcher::new(parts, config, shared)
    });
    WebhooksHandle { dispatcher, stats }
}

impl WebhooksHandle {
    /// Where committed deliveries go, by `try_send`: what is refused is found in the table.
    pub fn recipient(&self) -> Recipient<Deliver> {
        self.dispatcher.clone().recipient()
    }

    /// Says that deliveries may have become due in the table, or a recovery was asked for: a resend, a webhook enabled again.
    pub fn wake(&self) {
        // Lost where the mailbox is full; the dispatcher looks every second anyway.
        let _ = self.dispatcher.try_send(Wake);
    }

    /// Says that a webhook was changed or deleted. Without it the dispatcher notices within about a second.
    pub fn refresh(&self, webhook: WebhookId) {
        let _ = self.dispatcher.try_send(Refresh { webhook });
    }

    /// Sends a signed sample of one subscribed kind, waits for its only attempt to be recorded, and names the delivery.
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

    /// Makes one attempt of a due delivery, past the circuit, and waits until it is recorded. Makes none if there are more than
    /// `made` attempts already.
    pub async fn resend(
        &self,
        webhook: WebhookId,
        delivery: DeliveryId,
        made: i64,
        trace: Option<TraceParent>,
    ) -> Result<Resent, TestError> {
        let again = Again {
            webhook,
            delivery,
            made,
            trace,
        };
        self.dispatcher
            .send(again)
            .await
            .unwrap_or(Err(TestError::Busy))
    }

    /// Takes no more work, waits for what is in flight, `limit` at most, records it, and gives back what was not begun.
    pub async fn drain(&self, limit: Duration) {
        if self.dispatcher.send(Drain { limit }).await.is_err() {
            tracing::warn!("the webhook dispatcher was gone before it was drained");
        }
    }

    /// How webhooks stand; none where the dispatcher does not answer in time.
    pub async fn standings(
        &self,
        webhooks: Vec<WebhookId>,
    ) -> Option<HashMap<WebhookId, Standing>> {
        let asked = self.dispatcher.send(Look { webhooks });
        tokio::time::timeout(LOOK_WITHIN, asked).await.ok()?.ok()
    }

    /// This process has become another node: what it held is others' to send, and nothing of it is sent here any more.
    pub async fn begin_anew(&self) {
        let _ = self.dispatcher.send(BeginAnew).await;
    }

    /// Whether the dispatcher answers.
    pub async fn is_alive(&self) -> bool {
        self.dispatcher.send(Ping).await.is_ok()
    }

    /// Webhooks, and whose they are, whose endpoint has left an attempt without an answer for so long.
    pub fn slow_attempts(&self, for_so_long: Duration) -> BTreeMap<WebhookId, TenantId> {
        self.stats.slow_attempts(for_so_long)
    }

    /// Counts and times for the metrics.
    pub fn stats(&self) -> StatsReading {
        self.stats.reading()
    }
}
