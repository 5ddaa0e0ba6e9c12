//! Traces: spans of calls, bridges' messages, ledger commits, functions, deliveries and requests.
//!
//! They are not OpenTelemetry's, because a call's span may begin in one process and end in another, which knows only
//! the call's row. So a call's span id is derived from the call's id, and the row keeps only a `traceparent`. A
//! finished span goes into a bounded queue; if that is full, the span is counted and dropped. The [`Exporter`] sends
//! queued spans as OTLP over HTTP.
//!
//! Without a configured endpoint [`Traces`] is empty: it makes no spans and passes incoming `traceparent`s on.

mod exporter;
mod otlp;
mod request;
mod span;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use dikala_entities::{CallId, TraceParent};
use tokio::sync::mpsc;

use self::span::FinishedSpan;
pub use self::{
    exporter::{Exporter, ExporterConfig},
    request::{for_request, request_id},
    span::{Span, SpanKind},
};
use crate::runtime::clock::Clock;

/// Limit of queued spans: a few megabytes.
const QUEUE_MAX: usize = 8_192;

tokio::task_local! {
    static CURRENT: Option<Context>;
    static ARRIVED: Instant;
}

/// The recorder of spans, if tracing was started. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Traces(Option<Arc<Recorder>>);

/// The arrival of a message.
#[derive(Clone, Debug)]
pub struct MessageArrival {
    /// The time at which it was read.
    pub at: Instant,
    /// The id of the request that carried it.
    pub request: Option<Arc<str>>,
}

/// A span as a parent of others.
#[derive(Clone, Debug)]
pub struct Context {
    recorder: Arc<Recorder>,
    trace: u128,
    span: u64,
}

#[derive(Debug)]
struct Recorder {
    queue: mpsc::Sender<FinishedSpan>,
    stats: Arc<SpanStats>,
    /// One moment on the monotonic clock and on the wall clock, in nanoseconds since the Unix epoch. Durations come
    /// from the former.
    began: Instant,
    began_ns: u64,
}

/// Number of spans by outcome.
#[derive(Debug, Default)]
pub struct SpanStats {
    exported: AtomicU64,
    /// The queue was full.
    dropped: AtomicU64,
    /// The endpoint refused them.
    refused: AtomicU64,
    /// The endpoint was unreachable for too long.
    given_up: AtomicU64,
}

impl SpanStats {
    /// The counts by name.
    pub fn outcomes(&self) -> [(&'static str, u64); 4] {
        [
            ("exported", self.exported.load(Relaxed)),
            ("dropped", self.dropped.load(Relaxed)),
            ("refused", self.refused.load(Relaxed)),
            ("given_up", self.given_up.load(Relaxed)),
        ]
    }
}

impl Recorder {
    fn record(&self, span: FinishedSpan) {
        if self.queue.try_send(span).is_err() {
            self.stats.dropped.fetch_add(1, Relaxed);
        }
    }

    fn at(&self, then: Instant) -> u64 {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        match then.checked_duration_since(self.began) {
            Some(since) => self.began_ns.saturating_add(ns(since)),
            None => self.began_ns.saturating_sub(ns(self.began - then)),
        }
    }
}

impl Traces {
    /// Starts recording. The exporter must be run.
    pub fn start(config: ExporterConfig, clock: &dyn Clock) -> (Self, Exporter) {
        let (queue, waiting) = mpsc::channel(QUEUE_MAX);
        let stats = Arc::<SpanStats>::default();
        let recorder = Recorder {
            queue,
            stats: Arc::clone(&stats),
            began: Instant::now(),
            began_ns: span::ns(clock.on_the_wall(clock.now())),
        };
        let exporter = Exporter::new(config, waiting, stats);
        (Self(Some(Arc::new(recorder))), exporter)
    }

    /// The counts, if spans are recorded.
    pub fn stats(&self) -> Option<&SpanStats> {
        self.0.as_deref().map(|recorder| &*recorder.stats)
    }

    /// A new trace for a call whose bridge sent none. None if spans are not recorded.
    pub fn begin_call(&self, call: CallId) -> Option<TraceParent> {
        self.0.as_ref()?;
        Some(TraceParent::of(call.as_u128(), span_of(call)))
    }

    /// The context of a call's span in this trace.
    pub fn call(&self, call: CallId, trace: Option<&TraceParent>) -> Option<Context> {
        let recorder = self.recorder(trace?)?;
        Some(Context {
            recorder,
            trace: trace?.trace(),
            span: span_of(call),
        })
    }

    /// Begins a span below another program's, or the root of a new trace.
    pub fn span(
        &self,
        kind: SpanKind,
        name: &'static str,
        trace: Option<&TraceParent>,
    ) -> Option<Span> {
        match trace {
            Some(trace) => {
                let recorder = self.recorder(trace)?;
                let parent = Some(trace.parent());
                Some(Span::new(recorder, trace.trace(), parent, kind, name))
            }
            None => self.first(kind, name, rand::random()),
        }
    }

    /// Begins the root of the trace with this id.
    pub fn first(&self, kind: SpanKind, name: &'static str, trace: u128) -> Option<Span> {
        let recorder = Arc::clone(self.0.as_ref()?);
        Some(Span::new(recorder, trace.max(1), None, kind, name))
    }

    fn recorder(&self, trace: &TraceParent) -> Option<Arc<Recorder>> {
        let recorder = self.0.as_ref().filter(|_| trace.is_recorded())?;
        Some(Arc::clone(recorder))
    }
}

impl Context {
    /// Begins a span below this one.
    pub fn span(&self, kind: SpanKind, name: &'static str) -> Span {
        let recorder = Arc::clone(&self.recorder);
        Span::new(recorder, self.trace, Some(self.span), kind, name)
    }

    /// The span of this context itself, below the trace's origin, for a span that may have begun in another process.
    pub fn itself(&self, kind: SpanKind, name: &'static str, trace: &TraceParent) -> Span {
        let recorder = Arc::clone(&self.recorder);
        // If the trace began with this span, it has no parent.
        let parent = Some(trace.parent()).filter(|parent| *parent != self.span);
        let mut span = Span::new(recorder, self.trace, parent, kind, name);
        span.be(self.span);
        span
    }

    /// The header for requests made on behalf of this span.
    pub fn traceparent(&self) -> TraceParent {
        TraceParent::of(self.trace, self.span)
    }
}

/// The random half of a call's id.
fn span_of(call: CallId) -> u64 {
    u64::try_from(call.as_u128() & u128::from(u64::MAX))
        .unwrap_or(u64::MAX)
        .max(1)
}

/// The span of the current task.
pub fn current() -> Option<Context> {
    CURRENT.try_with(Clone::clone).unwrap_or_default()
}

/// Runs work within this span.
pub fn within<F: Future>(context: Option<Context>, work: F) -> impl Future<Output = F::Output> {
    CURRENT.scope(context, work)
}

/// Runs the work for a message that was read at `at`.
pub fn arrived<F: Future>(at: Instant, work: F) -> impl Future<Output = F::Output> {
    ARRIVED.scope(at, work)
}

/// The arrival of the current task's message, or now if there is none.
pub(crate) fn arrival() -> MessageArrival {
    MessageArrival {
        at: ARRIVED
            .try_with(|at| *at)
            .unwrap_or_else(|_| Instant::now()),
        request: request_id(),
    }
}

#[cfg(test)]
mod tests;
