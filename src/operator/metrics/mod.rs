//! `/metrics`: counters are kept where events happen, and only read here. Nothing reads the store, so it answers
//! while the database is down. docs/metrics.md lists the metrics.

mod exposition;
mod process;
mod telephony;

use std::sync::Arc;

use actix_web::{
    HttpRequest, HttpResponse,
    http::header,
    middleware::from_fn,
    web::{self, Data},
};
use dikala_actors::{
    runtime::{group_commit::BatchReading, lag::EventLoops, metrics::meters},
    traces::SpanStats,
    webhooks::{
        HANGS_AFTER,
        stats::{QueueState, StatsReading},
    },
};

use self::exposition::{MetricFamily, MetricFormat, MetricKind, MetricUnit, encode};
use crate::{
    http::{meter::HttpMeter, middleware::only_reads},
    mails::MailStats,
    node::Runtime,
    operator::health::HealthChecks,
};

const COUNTER: (MetricKind, MetricUnit) = (MetricKind::Counter, MetricUnit::Whole);
const GAUGE: (MetricKind, MetricUnit) = (MetricKind::Gauge, MetricUnit::Whole);
const SECONDS: (MetricKind, MetricUnit) = (MetricKind::Gauge, MetricUnit::Seconds);
const TIMES: (MetricKind, MetricUnit) = (MetricKind::Histogram, MetricUnit::Seconds);
const SHARES: (MetricKind, MetricUnit) = (MetricKind::Histogram, MetricUnit::Millionths);

/// The sources of the counters.
#[derive(Clone)]
pub struct MetricSources {
    pub runtime: Runtime,
    pub loops: EventLoops,
    pub http: HttpMeter,
    pub health: HealthChecks,
    /// None if no mails are sent.
    pub mails: Option<Arc<MailStats>>,
    /// None if no bridge runs in this process.
    pub telephony: Option<dikala_telephony::bridge::StatisticsReader>,
}

impl std::fmt::Debug for MetricSources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MetricSources")
            .field("runtime", &self.runtime)
            .finish_non_exhaustive()
    }
}

pub fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/metrics").wrap(from_fn(only_reads)).to(show));
}

async fn show(request: HttpRequest, parts: Data<MetricSources>) -> HttpResponse {
    let accept = request.headers().get(header::ACCEPT);
    let accept = accept.and_then(|accept| accept.to_str().ok());
    let format = MetricFormat::wanted(accept.unwrap_or_default());
    let mut metrics = all(&parts);
    metrics.push(checks(&parts).await);
    HttpResponse::Ok()
        .content_type(format.content_type())
        .body(encode(&metrics, format))
}

fn all(parts: &MetricSources) -> Vec<MetricFamily> {
    let webhooks = parts.runtime.webhooks.stats();
    let mut all = actors();
    all.push(loops(parts));
    all.extend(calls(parts));
    all.extend(bridges(parts));
    all.extend(batches(parts, &webhooks));
    all.push(differences(parts));
    all.extend(deliveries(parts, &webhooks));
    all.push(functions(parts));
    all.extend(requests(parts));
    all.extend(parts.mails.as_deref().map(mails));
    all.extend(parts.runtime.traces.stats().map(spans));
    if let Some(counted) = &parts.telephony {
        all.extend(telephony::metrics(&counted.read()));
    }
    all.extend([pools(parts), lease(parts), unsafe_settings(parts)]);
    all.extend(clocks(parts));
    all.push(build());
    all.extend(process::metrics());
    all
}

async fn checks(parts: &MetricSources) -> MetricFamily {
    let mut up = MetricFamily::new(
        GAUGE,
        "dikala_check_up",
        &["check"],
        "Checks of /health/ready: 1 for passed, 0 for failed; made every second while this is scraped",
    );
    for (check, is_well) in parts.health.lately().await {
        up.number(&[check], is_well.into());
    }
    up
}

fn actors() -> Vec<MetricFamily> {
    let mut instances = MetricFamily::new(
        GAUGE,
        "dikala_actor_instances",
        &["actor"],
        "Running actors",
    );
    let mut mailbox = MetricFamily::new(
        GAUGE,
        "dikala_actor_mailbox_messages",
        &["actor"],
        "Messages waiting in mailboxes",
    );
    let mut wait = MetricFamily::new(
        TIMES,
        "dikala_actor_wait_seconds",
        &["actor", "message"],
        "From sending a message until it leaves the mailbox",
    );
    let mut handle = MetricFamily::new(
        TIMES,
        "dikala_actor_handle_seconds",
        &["actor", "message"],
        "Time in a message's handler, without awaited futures",
    );
    let mut restarts = MetricFamily::new(
        COUNTER,
        "dikala_actor_restarts_total",
        &["actor"],
        "Actors restarted, or given up, after a panic",
    );
    let mut lost = MetricFamily::new(
        COUNTER,
        "dikala_actor_messages_lost_total",
        &["actor", "message"],
        "Unhandled messages: the actor was gone, or the sender had given up",
    );
    for meter in meters() {
        let (actor, readings) = (meter.name(), meter.readings());
        instances.number(&[actor], meter.running());
        restarts.number(&[actor], whole(meter.restarts()));
        mailbox.number(&[actor], readings.iter().map(|reading| reading.depth).sum());
        for reading in readings {
            let labels = [actor, reading.message];
            wait.distribution(&labels, reading.wait);
            handle.distribution(&labels, reading.handling);
            lost.number(&labels, whole(reading.lost));
        }
    }
    vec![instances, mailbox, wait, handle, restarts, lost]
}

fn mails(stats: &MailStats) -> MetricFamily {
    let mut tries = MetricFamily::new(
        COUNTER,
        "dikala_mails_total",
        &["outcome"],
        "Attempts to send a mail",
    );
    for (outcome, count) in stats.outcomes() {
        tries.number(&[outcome], whole(count));
    }
    tries
}

fn spans(stats: &SpanStats) -> MetricFamily {
    let mut spans = MetricFamily::new(
        COUNTER,
        "dikala_spans_total",
        &["outcome"],
        "Spans for telemetry.otlp_endpoint, by outcome",
    );
    for (outcome, count) in stats.outcomes() {
        spans.number(&[outcome], whole(count));
    }
    spans
}

fn loops(parts: &MetricSources) -> MetricFamily {
    let mut lag = MetricFamily::new(
        SECONDS,
        "dikala_arbiter_lag_seconds",
        &["arbiter"],
        "Lag of a thread's event loop: the longest of the last seconds, or the present one; measured while this is scraped",
    );
    for (arbiter, late) in parts.loops.lags() {
        lag.number(
            &[&arbiter],
            i64::try_from(late.as_micros()).unwrap_or(i64::MAX),
        );
    }
    lag
}

fn calls(parts: &MetricSources) -> [MetricFamily; 2] {
    let meter = parts.runtime.calls.meter();
    let mut active = MetricFamily::new(
        GAUGE,
        "dikala_calls_active",
        &["status"],
        "Unfinished calls of this node",
    );
    for (status, count) in meter.active() {
        active.number(&[status.as_str()], count);
    }
    let mut over = MetricFamily::new(
        COUNTER,
        "dikala_calls_total",
        &["status", "reason"],
        "Finished calls, by their end",
    );
    for (status, reason, count) in meter.over() {
        over.number(&[status.as_str(), reason.as_str()], whole(count));
    }
    [active, over]
}

fn bridges(parts: &MetricSources) -> [MetricFamily; 2] {
    let mut acknowledged = MetricFamily::new(
        TIMES,
        "dikala_bridge_ack_seconds",
        &["type"],
        "From reading a bridge's message until its reply is written",
    );
    for (kind, times) in parts.runtime.bridges.acknowledgements() {
        acknowledged.distribution(&[kind], times);
    }
    let mut sessions = MetricFamily::new(
        GAUGE,
        "dikala_bridge_sessions",
        &[],
        "Open sockets of bridges",
    );
    sessions.number(
        &[],
        i64::try_from(parts.runtime.bridges.sockets()).unwrap_or(i64::MAX),
    );
    [acknowledged, sessions]
}

fn batches(parts: &MetricSources, webhooks: &StatsReading) -> [MetricFamily; 2] {
    let mut items = MetricFamily::new(
        (MetricKind::Histogram, MetricUnit::Whole),
        "dikala_batch_items",
        &["writer"],
        "Items in one transaction of a group commit",
    );
    let mut commit = MetricFamily::new(
        TIMES,
        "dikala_batch_commit_seconds",
        &["writer"],
        "From the start of a batch until its commit",
    );
    let ledger = parts.runtime.ledger.stats();
    let writers = [
        ("credit_ledger", ledger),
        ("webhook_recorder", webhooks.batches.clone()),
    ];
    for (
        writer,
        BatchReading {
            items: sizes,
            commit: times,
        },
    ) in writers
    {
        items.distribution(&[writer], sizes);
        commit.distribution(&[writer], times);
    }
    [items, commit]
}

fn differences(parts: &MetricSources) -> MetricFamily {
    let mut differences = MetricFamily::new(
        GAUGE,
        "dikala_ledger_differences",
        &[],
        "Accounts and open holds that did not add up at the last check, a minute ago at most",
    );
    let found = parts.runtime.ledger.differences();
    differences.number(&[], i64::try_from(found).unwrap_or(i64::MAX));
    differences
}

fn deliveries(parts: &MetricSources, stats: &StatsReading) -> Vec<MetricFamily> {
    let mut oldest = MetricFamily::new(
        SECONDS,
        "dikala_webhook_oldest_due_seconds",
        &[],
        "For how long the oldest due delivery has been due, without endpoints whose circuit is open; 0 if none is due",
    );
    let now = parts.runtime.clock.now();
    let due_ms = stats.due_since.map_or(0, |since| now.since(since).max(0));
    oldest.number(&[], due_ms.saturating_mul(1_000));
    let mut attempts = MetricFamily::new(
        COUNTER,
        "dikala_webhook_attempts_total",
        &["outcome"],
        "Attempts of deliveries, by the delivery's outcome",
    );
    for (outcome, count) in [
        ("succeeded", stats.succeeded),
        ("retried", stats.retried),
        ("failed", stats.failed),
        ("own_fault", stats.own_faults),
    ] {
        attempts.number(&[outcome], whole(count));
    }
    let mut times = MetricFamily::new(
        TIMES,
        "dikala_webhook_attempt_seconds",
        &[],
        "One exchange with an endpoint",
    );
    times.distribution(&[], stats.attempts.clone());
    let mut end_to_end = MetricFamily::new(
        TIMES,
        "dikala_webhook_end_to_end_seconds",
        &[],
        "From an event's commit until its delivery",
    );
    end_to_end.distribution(&[], stats.end_to_end.clone());
    let mut lanes = MetricFamily::new(
        GAUGE,
        "dikala_webhook_lanes",
        &["state"],
        "Endpoint queues in memory, by state; those of `open` endpoints keep failing and are only probed",
    );
    for (state, count) in QueueState::ALL.iter().zip(stats.queues) {
        lanes.number(&[state.as_str()], count);
    }
    let mut hanging = MetricFamily::new(
        GAUGE,
        "dikala_webhook_hanging_endpoints",
        &[],
        "Endpoints that leave an attempt unanswered for 2 s or longer",
    );
    let hang = parts.runtime.webhooks.slow_attempts(HANGS_AFTER).len();
    hanging.number(&[], i64::try_from(hang).unwrap_or(i64::MAX));
    vec![oldest, attempts, times, end_to_end, lanes, hanging]
}

fn functions(parts: &MetricSources) -> MetricFamily {
    let mut times = MetricFamily::new(
        TIMES,
        "dikala_function_seconds",
        &["outcome"],
        "Invocations of tenants' functions",
    );
    for (outcome, distribution) in parts.runtime.functions.times() {
        times.distribution(&[outcome], distribution);
    }
    times
}

fn requests(parts: &MetricSources) -> [MetricFamily; 2] {
    let mut count = MetricFamily::new(
        COUNTER,
        "dikala_http_requests_total",
        &["method", "route", "status"],
        "Answered requests",
    );
    let mut times = MetricFamily::new(
        TIMES,
        "dikala_http_request_seconds",
        &["method", "route"],
        "From a request's head until the head of its answer",
    );
    for operation in parts.http.reading() {
        for (status, requests) in operation.statuses {
            let labels = [operation.method, &operation.route, &status.to_string()];
            count.number(&labels, whole(requests));
        }
        times.distribution(&[operation.method, &operation.route], operation.times);
    }
    [count, times]
}

fn pools(parts: &MetricSources) -> MetricFamily {
    let mut connections = MetricFamily::new(
        GAUGE,
        "dikala_database_pool_connections",
        &["pool", "state"],
        "Connections to the database; `unopened` are those that may still be opened",
    );
    for (pool, reading) in parts.runtime.store.pools() {
        for (state, count) in [
            ("in_use", reading.in_use),
            ("idle", reading.idle),
            ("unopened", reading.unopened),
        ] {
            connections.number(&[pool, state], i64::try_from(count).unwrap_or(i64::MAX));
        }
    }
    connections
}

fn lease(parts: &MetricSources) -> MetricFamily {
    let mut left = MetricFamily::new(
        SECONDS,
        "dikala_node_lease_seconds",
        &[],
        "Remaining time of this node's lease; at 3 the node stops acting, at 0 others may take over its work",
    );
    let ms = parts.runtime.member.lease_left_ms();
    left.number(&[], ms.saturating_mul(1_000));
    left
}

fn unsafe_settings(parts: &MetricSources) -> MetricFamily {
    let mut unsafe_settings = MetricFamily::new(
        GAUGE,
        "dikala_database_unsafe_settings",
        &[],
        "Settings of the database with which a crash loses acknowledged commits, as of the last renewal of the lease",
    );
    let found = parts.runtime.member.terms().unsafe_settings();
    let settings = found.split(", ").filter(|setting| !setting.is_empty());
    unsafe_settings.number(&[], i64::try_from(settings.count()).unwrap_or(i64::MAX));
    unsafe_settings
}

fn clocks(parts: &MetricSources) -> [MetricFamily; 2] {
    let mut step = MetricFamily::new(
        SECONDS,
        "dikala_clock_step_seconds",
        &[],
        "How far the machine's clock is ahead of the service's: set since the start, or different from the database's",
    );
    step.number(&[], parts.runtime.clock.stepped_ms().saturating_mul(1_000));
    let mut database = MetricFamily::new(
        SECONDS,
        "dikala_clock_database_seconds",
        &[],
        "How far the database's clock is ahead of the service's",
    );
    let ahead_ms = parts.runtime.member.ahead_ms();
    database.number(&[], ahead_ms.saturating_mul(-1_000));
    [step, database]
}

fn build() -> MetricFamily {
    let mut build = MetricFamily::new(
        (MetricKind::Info, MetricUnit::Whole),
        "dikala_build_info",
        &["version", "commit"],
        "The running program",
    );
    build.number(&[env!("CARGO_PKG_VERSION"), env!("DIKALA_COMMIT")], 1);
    build
}

fn whole(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
