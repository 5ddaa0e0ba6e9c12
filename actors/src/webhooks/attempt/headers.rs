//! The headers of a delivery. Pure.

use awc::http::header::{HeaderMap, HeaderName, HeaderValue, InvalidHeaderValue};
use dikala_entities::{DeliveryId, EventId, Millis};

use super::signature::SigningKeys;

/// The data of one attempt for its headers.
#[derive(Clone, Copy, Debug)]
pub struct Envelope<'a> {
    pub event: EventId,
    /// The event's kind as text.
    pub kind: &'a str,
    /// The same for every attempt.
    pub delivery: DeliveryId,
    /// 1 for the first attempt.
    pub number: i64,
    /// The exact body.
    pub body: &'a [u8],
    /// The event is a sample.
    pub is_test: bool,
    /// The attempt's own `traceparent`.
    pub trace: Option<&'a str>,
}

/// The headers of an attempt made at `at`, with both signatures.
pub fn headers(
    envelope: Envelope<'_>,
    keys: &SigningKeys,
    at: Millis,
) -> Result<HeaderMap, InvalidHeaderValue> {
    let service = keys.current.service_signature(envelope.body);
    let standard = keys.standard_signatures(envelope.event, at, envelope.body);
    let mut headers = HeaderMap::with_capacity(10);
    let mut set = |name: &'static str, value: HeaderValue| {
        headers.insert(HeaderName::from_static(name), value);
    };
    set("content-type", HeaderValue::from_static("application/json"));
    set("x-service-signature", HeaderValue::try_from(service)?);
    set("x-service-event", HeaderValue::try_from(envelope.kind)?);
    set(
        "x-service-delivery",
        HeaderValue::try_from(envelope.delivery.to_string())?,
    );
    set("x-service-attempt", HeaderValue::from(envelope.number));
    set(
        "webhook-id",
        HeaderValue::try_from(envelope.event.to_string())?,
    );
    set("webhook-timestamp", HeaderValue::from(at.as_i64() / 1_000));
    set("webhook-signature", HeaderValue::try_from(standard)?);
    if envelope.is_test {
        set("x-service-test", HeaderValue::from_static("true"));
    }
    if let Some(trace) = envelope.trace {
        headers.insert(
            HeaderName::from_static("traceparent"),
            HeaderValue::try_from(trace)?,
        );
    }
    Ok(headers)
}
