//! Sends spans to the operator's collector, as OTLP over HTTP. The queue is bounded and each exchange has a timeout.
//! A batch is dropped after a minute, so that later spans can be sent when the collector is back.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use awc::http::{
    Method, Uri,
    header::{CONTENT_TYPE, HeaderMap, HeaderValue},
};
use bytes::Bytes;
use tokio::{
    sync::{mpsc, watch},
    time::sleep,
};

use super::{
    SpanStats,
    otlp::{self, Resource},
    span::FinishedSpan,
};
use crate::{
    outbound::{Exchange, Failure, Head, Outbound, OutboundClient, exchange, retry_after_ms},
    runtime::clock::SharedClock,
};

/// Limits of sizes, times and retries.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExportLimits {
    /// Spans in one request.
    pub(super) batch: usize,
    /// Maximum time that a span waits for more.
    pub(super) gather: Duration,
    /// Timeout of one exchange.
    pub(super) exchange: Duration,
    /// Timeout of one exchange during the stop, which is tried once.
    pub(super) last: Duration,
    /// Backoff after the first failure. It doubles up to `again_max`, and is never shorter than the server asks.
    pub(super) again: Duration,
    pub(super) again_max: Duration,
    /// No try of a batch begins later than this after its first.
    pub(super) try_for: Duration,
}

impl Default for ExportLimits {
    fn default() -> Self {
        Self {
            batch: 512,
            gather: Duration::from_secs(1),
            exchange: Duration::from_secs(10),
            last: Duration::from_secs(2),
            again: Duration::from_secs(1),
            again_max: Duration::from_secs(15),
            try_for: Duration::from_secs(60),
        }
    }
}

/// Maximum number of bytes read of an answer.
const ANSWER_BYTES_MAX: usize = 16 * 1024;

#[derive(Debug)]
pub struct ExporterConfig {
    /// The address that accepts `ExportTraceServiceRequest`.
    pub uri: Uri,
    /// The node's name.
    pub node: Arc<str>,
    /// Dials the operator's address without the guard for tenants' addresses.
    pub outbound: Outbound,
    pub clock: SharedClock,
}

/// Sends queued spans, on one thread.
#[derive(Debug)]
pub struct Exporter {
    waiting: mpsc::Receiver<FinishedSpan>,
    stats: Arc<SpanStats>,
    client: OutboundClient,
    uri: Uri,
    resource: Resource,
    clock: SharedClock,
    pub(super) limits: ExportLimits,
    /// True if the last batch was accepted, so that an outage and its end are logged once.
    well: bool,
}

/// The result of one try.
#[derive(Debug, PartialEq, Eq)]
enum ExportResult {
    /// Accepted, except for this number of spans.
    Taken(u64),
    /// Refused with this status for good.
    Refused(u16),
    /// Failed for now: the earliest next try, and the reason.
    Later(Duration, String),
}

impl Exporter {
    pub(super) fn new(
        config: ExporterConfig,
        waiting: mpsc::Receiver<FinishedSpan>,
        stats: Arc<SpanStats>,
    ) -> Self {
        Self {
            waiting,
            stats,
            client: config.outbound.client(None, 1),
            uri: config.uri,
            resource: Resource {
                node: config.node.to_string(),
            },
            clock: config.clock,
            limits: ExportLimits::default(),
            well: true,
        }
    }

    /// Sends until it is told to finish, then sends the rest once.
    pub async fn run(mut self, mut finish: watch::Receiver<bool>) {
        let mut batch = Vec::new();
        loop {
            let over = self.gather(&mut batch, &mut finish).await;
            if !batch.is_empty() {
                self.send(&batch, &mut finish).await;
                batch.clear();
            } else if over {
                return;
            }
        }
    }

    /// Gathers a batch. True if nothing more will come than the queue holds.
    async fn gather(
        &mut self,
        batch: &mut Vec<FinishedSpan>,
        finish: &mut watch::Receiver<bool>,
    ) -> bool {
        let (most, patience) = (self.limits.batch, self.limits.gather);
        let gathered = async {
            let waiting = &mut self.waiting;
            if waiting.recv_many(batch, most).await == 0 {
                return true;
            }
            let more = async {
                while batch.len() < most {
                    if waiting.recv_many(batch, most - batch.len()).await == 0 {
                        return;
                    }
                }
            };
            let _ = tokio::time::timeout(patience, more).await;
            false
        };
        tokio::select! {
            over = gathered => over,
            () = finish_requested(finish) => {
                while batch.len() < most && let Ok(span) = self.waiting.try_recv() {
                    batch.push(span);
                }
                true
            }
        }
    }

    async fn send(&mut self, batch: &[FinishedSpan], finish: &mut watch::Receiver<bool>) {
        let body = Bytes::from(otlp::request(&self.resource, batch));
        let count = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        let (first, mut again) = (Instant::now(), self.limits.again);
        loop {
            // If the sender is gone, the program is ending too: do not wait.
            let last = *finish.borrow() || finish.has_changed().is_err();
            let limit = match last {
                true => self.limits.last,
                false => self.limits.exchange,
            };
            let (wait, why) = match self.try_once(body.clone(), limit).await {
                ExportResult::Taken(refused) => return self.taken(count, refused),
                ExportResult::Refused(status) => {
                    self.fails(&format!("it answered {status}"));
                    return add(&self.stats.refused, count);
                }
                ExportResult::Later(wait, why) => (wait.max(again), why),
            };
            self.fails(&why);
            if last || first.elapsed() + wait > self.limits.try_for {
                return add(&self.stats.given_up, count);
            }
            tokio::select! {
                () = sleep(wait) => {}
                () = finish_requested(finish) => {}
            }
            again = (again * 2).min(self.limits.again_max);
        }
    }

    async fn try_once(&self, body: Bytes, limit: Duration) -> ExportResult {
        let protobuf = HeaderValue::from_static("application/x-protobuf");
        let head = Head {
            method: Method::POST,
            uri: self.uri.clone(),
            headers: HeaderMap::from_iter([(CONTENT_TYPE, protobuf)]),
        };
        let answer = exchange(&self.client, head, body, ANSWER_BYTES_MAX, limit).await;
        self.judge(answer)
    }

    /// OTLP's rules for answers: which are final, and which call for a retry.
    fn judge(&self, answer: Result<Exchange, Failure>) -> ExportResult {
        match answer {
            Ok(Exchange {
                status: 200..=299,
                body,
                ..
            }) => ExportResult::Taken(otlp::rejected(&body)),
            Ok(Exchange {
                status: status @ (429 | 502..=504),
                retry_after,
                ..
            }) => {
                let now = self.clock.on_the_wall(self.clock.now());
                let retry_after = retry_after.and_then(|header| retry_after_ms(&header, now));
                let retry_after = retry_after
                    .and_then(|ms| u64::try_from(ms).ok())
                    .unwrap_or(0);
                ExportResult::Later(
                    Duration::from_millis(retry_after),
                    format!("it answered {status}"),
                )
            }
            Ok(Exchange { status, .. }) => ExportResult::Refused(status),
            Err(failure) => ExportResult::Later(Duration::ZERO, failure.kind.as_str().to_owned()),
        }
    }

    fn taken(&mut self, count: u64, refused: u64) {
        let refused = refused.min(count);
        add(&self.stats.exported, count - refused);
        add(&self.stats.refused, refused);
        if !self.well {
            self.well = true;
            tracing::info!("telemetry.otlp_endpoint accepts spans again");
        }
    }

    fn fails(&mut self, why: &str) {
        if self.well {
            self.well = false;
            tracing::warn!(
                why,
                "telemetry.otlp_endpoint does not accept spans; they are retried for a minute, then dropped"
            );
        }
    }
}

async fn finish_requested(finish: &mut watch::Receiver<bool>) {
    // If the sender is gone, the request to finish will never come.
    let _ = finish.wait_for(|finish| *finish).await;
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Relaxed);
}
