//! What a trace tells: spans of calls, of bridges' messages, of the ledger's commits, of functions, of deliveries and of requests.
//!
//! Ours, and not OpenTelemetry's: a call's span begins in one process and may end in another, and what hangs below it is known
//! by the call's row alone. So the span of a call is named after the call, and nothing has to be kept of it but the row's
//! `traceparent`. A span that is over goes into a bounded queue; what does not fit is counted and forgotten, and nobody waits.
//! The [`Exporter`] sends what is queued, as OTLP over HTTP.
//!
//! Where no endpoint is configured, [`Traces`] is empty: no span is made, and a `traceparent` that came in is handed on.

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

use self::span::Finished;
pub use self::{
    exporter::{Exporter, ExporterConfig},
    request::{for_request, request_id},
    span::{Kind, Span},
};
use crate::runtime::clock::Clock;

/// Spans that wait to be sent: a few megabytes.
const QUEUE_MAX: usize = 8_192;

tokio::task_local! {
    static CURRENT: Option<Context>;
    static ARRIVED: Instant;
}

/// Where spans go; nowhere unless it was started. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Traces(Option<Arc<Recorder>>);

/// How a message came here.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// When it was read.
    pub at: Instant,
    /// The request that it came with.
    pub request: Option<Arc<str>>,
}

/// A span that others hang below.
#[derive(Clone, Debug)]
pub struct Context {
    recorder: Arc<Recorder>,
    trace: u128,
    span: u64,
}

#[derive(Debug)]
struct Recorder {
    queue: mpsc::Sender<Finished>,
    stats: Arc<SpanStats>,
    /// One moment on the monotonic clock and on the wall, in nanoseconds since the Unix epoch: what lies between is as it was.
    began: Instant,
    began_ns: u64,
}

/// Spans by what became of them.
#[derive(Debug, Default)]
pub struct SpanStats {
    exported: AtomicU64,
    /// The queue was full.
    dropped: AtomicU64,
    /// The endpoint did not want them.
    refused: AtomicU64,
    /// The endpoint could not be reached for too long.
    given_up: AtomicU64,
}

impl SpanStats {
    /// How often each came about.
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
    fn record(&self, span: Finished) {
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
    /// Begins to record, and what sends it away.
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

    /// What became of spans, where there are any.
    pub fn stats(&self) -> Option<&SpanStats> {
        self.0.as_deref().map(|recorder| &*recorder.stats)
    }

    /// The trace of a call whose bridge named none; none where nothing is recorded.
    pub fn begin_call(&self, call: CallId) -> Option<TraceParent> {
        self.0.as_ref()?;
        Some(TraceParent::of(call.as_u128(), span_of(call)))
    }

    /// The span of a call that is part of that trace.
    pub fn call(&self, call: CallId, trace: Option<&TraceParent>) -> Option<Context> {
        let recorder = self.recorder(trace?)?;
        Some(Context {
            recorder,
            trace: trace?.trace(),
            span: span_of(call),
        })
    }

    /// Begins a span below what somebody else does, or the first one of a trace that begins here.
    pub fn span(
        &self,
        kind: Kind,
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

    /// Begins the first span of a trace with that number.
    pub fn first(&self, kind: Kind, name: &'static str, trace: u128) -> Option<Span> {
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
    pub fn span(&self, kind: Kind, name: &'static str) -> Span {
        let recorder = Arc::clone(&self.recorder);
        Span::new(recorder, self.trace, Some(self.span), kind, name)
    }

    /// The span of this context itself, below what the trace was begun by. For spans that have no beginning in this process.
    pub fn itself(&self, kind: Kind, name: &'static str, trace: &TraceParent) -> Span {
        let recorder = Arc::clone(&self.recorder);
        // A trace that began with this span names it.
        let parent = Some(trace.parent()).filter(|parent| *parent != self.span);
        let mut span = Span::new(recorder, self.trace, parent, kind, name);
        span.be(self.span);
        span
    }

    /// What a request says that is made because of it.
    pub fn traceparent(&self) -> TraceParent {
        TraceParent::of(self.trace, self.span)
    }
}

/// The half of a call's number that is random.
fn span_of(call: CallId) -> u64 {
    u64::try_from(call.as_u128() & u128::from(u64::MAX))
        .unwrap_or(u64::MAX)
        .max(1)
}

/// The span that this task works for.
pub fn current() -> Option<Context> {
    CURRENT.try_with(Clone::clone).unwrap_or_default()
}

/// Works for that span.
pub fn within<F: Future>(context: Option<Context>, work: F) -> impl Future<Output = F::Output> {
    CURRENT.scope(context, work)
}

/// Does what a message that was read then asks for.
pub fn arrived<F: Future>(at: Instant, work: F) -> impl Future<Output = F::Output> {
    ARRIVED.scope(at, work)
}

/// How the message came that this task works for; now, where it works for none.
pub(crate) fn arrival() -> Arrival {
    Arrival {
        at: ARRIVED
            .try_with(|at| *at)
            .unwrap_or_else(|_| Instant::now()),
        request: request_id(),
    }
}

#[cfg(test)]
mod tests;
