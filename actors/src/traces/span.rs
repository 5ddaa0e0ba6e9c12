//! One span: an operation, its time, its subject and its result.

use std::{borrow::Cow, fmt, sync::Arc, time::Instant};

use dikala_entities::{Millis, TraceParent};

use super::{Context, Recorder};

/// The role of a span in an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    Internal = 1,
    Server = 2,
    Client = 3,
}

/// An attribute's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Attribute {
    Text(String),
    Number(i64),
}

/// An ended span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FinishedSpan {
    pub(super) trace: u128,
    pub(super) span: u64,
    pub(super) parent: Option<u64>,
    pub(super) kind: SpanKind,
    pub(super) name: Cow<'static, str>,
    /// Nanoseconds since the Unix epoch.
    pub(super) began_ns: u64,
    pub(super) ended_ns: u64,
    pub(super) attributes: Vec<(&'static str, Attribute)>,
    /// The reason of a failure.
    pub(super) error: Option<Cow<'static, str>>,
}

/// A span in progress. A span that is dropped without an end is not recorded.
pub struct Span {
    recorder: Arc<Recorder>,
    trace: u128,
    span: u64,
    parent: Option<u64>,
    kind: SpanKind,
    name: Cow<'static, str>,
    began: Instant,
    attributes: Vec<(&'static str, Attribute)>,
    error: Option<Cow<'static, str>>,
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Span")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Span {
    pub(super) fn new(
        recorder: Arc<Recorder>,
        trace: u128,
        parent: Option<u64>,
        kind: SpanKind,
        name: &'static str,
    ) -> Self {
        Self {
            recorder,
            trace,
            span: rand::random::<u64>().max(1),
            parent,
            kind,
            name: Cow::Borrowed(name),
            began: Instant::now(),
            attributes: Vec::new(),
            error: None,
        }
    }

    /// Takes an id that other programs know as well.
    pub(super) fn be(&mut self, span: u64) {
        self.span = span;
    }

    /// Sets an earlier beginning.
    #[must_use]
    pub fn since(mut self, then: Instant) -> Self {
        self.began = then;
        self
    }

    pub fn rename(&mut self, name: impl Into<Cow<'static, str>>) {
        self.name = name.into();
    }

    /// Adds an attribute: an id or a word of ours. Never add a person's words, an unmasked number or a secret.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl fmt::Display) -> Self {
        self.set(name, value);
        self
    }

    /// As [`Self::with`].
    pub fn set(&mut self, name: &'static str, value: impl fmt::Display) {
        let value = Attribute::Text(value.to_string());
        self.attributes.push((name, value));
    }

    pub fn count(&mut self, name: &'static str, value: i64) {
        self.attributes.push((name, Attribute::Number(value)));
    }

    /// Marks the span as failed, with the reason.
    pub fn failed(&mut self, why: impl Into<Cow<'static, str>>) {
        self.error = Some(why.into());
    }

    /// This span as a parent.
    pub fn context(&self) -> Context {
        Context {
            recorder: Arc::clone(&self.recorder),
            trace: self.trace,
            span: self.span,
        }
    }

    /// The header for requests made on behalf of this span.
    pub fn traceparent(&self) -> TraceParent {
        TraceParent::of(self.trace, self.span)
    }

    pub fn end(self) {
        let ended = Instant::now();
        let (began_ns, ended_ns) = (self.recorder.at(self.began), self.recorder.at(ended));
        self.record(began_ns, ended_ns);
    }

    /// Ends the span with the times of its row, by the wall clock.
    pub fn end_as(self, began: Millis, ended: Millis) {
        self.record(ns(began), ns(ended));
    }

    fn record(self, began_ns: u64, ended_ns: u64) {
        let recorder = self.recorder;
        recorder.record(FinishedSpan {
            trace: self.trace,
            span: self.span,
            parent: self.parent,
            kind: self.kind,
            name: self.name,
            began_ns,
            ended_ns: ended_ns.max(began_ns),
            attributes: self.attributes,
            error: self.error,
        });
    }
}

/// Nanoseconds since the Unix epoch.
pub(super) fn ns(at: Millis) -> u64 {
    at.as_u64().saturating_mul(1_000_000)
}
