//! Forwards an event to a developer's own server in the form of a webhook delivery.

use std::{
    str::FromStr,
    time::{Duration, Instant},
};

use actix_web::http::{Method, Uri};
use bytes::Bytes;
use dikala_actors::{
    outbound::{ErrorKind, Head, OutboundClient, exchange},
    webhooks::{
        Envelope, headers,
        signature::{Signer, SigningKeys},
    },
};
use dikala_entities::{DeliveryId, EventId, Millis, Secret};
use serde::Serialize;
use url::Url;

/// The timeout of a webhook delivery.
const LIMIT: Duration = Duration::from_secs(15);
const ANSWER_BYTES_MAX: usize = 16 * 1024;

/// The target of forwarded events: an `http://` or `https://` URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardTo(Uri);

impl FromStr for ForwardTo {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("{text:?} is no address; give one such as http://localhost:3000/hooks");
        let url = Url::parse(text).map_err(|_| wrong())?;
        let named = !url.username().is_empty() || url.password().is_some();
        if !matches!(url.scheme(), "http" | "https") || named {
            return Err(wrong());
        }
        url.as_str().parse().map(Self).map_err(|_| wrong())
    }
}

impl std::fmt::Display for ForwardTo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// An event to forward.
#[derive(Clone, Debug)]
pub struct ForwardedEvent<'a> {
    pub id: EventId,
    pub kind: &'a str,
    pub body: &'a str,
    pub is_test: bool,
}

/// Outcome of a forwarded event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ForwardOutcome {
    pub status: Option<u16>,
    /// The reason for a missing answer.
    pub error: Option<&'static str>,
    pub duration_ms: i64,
}

/// Signs and sends events.
#[derive(Debug)]
pub struct Forwarder {
    target: ForwardTo,
    keys: SigningKeys,
    client: OutboundClient,
}

impl Forwarder {
    /// Signs with the given secret, as a webhook with that secret is signed.
    pub fn new(target: ForwardTo, secret: &Secret, client: OutboundClient) -> Self {
        let keys = SigningKeys {
            current: Signer::new(secret),
            previous: None,
        };
        Self {
            target,
            keys,
            client,
        }
    }

    /// Tries once. The developer sees the outcome and can repeat with `--after`.
    pub async fn pass(&self, event: ForwardedEvent<'_>, now: Millis) -> ForwardOutcome {
        let began = Instant::now();
        let answer = self.send(event, now).await;
        let (status, error) = match answer {
            Ok(status) => (Some(status), None),
            Err(kind) => (None, Some(kind.as_str())),
        };
        ForwardOutcome {
            status,
            error,
            duration_ms: i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX),
        }
    }

    async fn send(&self, event: ForwardedEvent<'_>, now: Millis) -> Result<u16, ErrorKind> {
        let envelope = Envelope {
            event: event.id,
            kind: event.kind,
            delivery: DeliveryId::new(now),
            number: 1,
            body: event.body.as_bytes(),
            is_test: event.is_test,
            trace: None,
        };
        let head = Head {
            method: Method::POST,
            uri: self.target.0.clone(),
            headers: headers(envelope, &self.keys, now).map_err(|_| ErrorKind::InvalidResponse)?,
        };
        let body = Bytes::copy_from_slice(event.body.as_bytes());
        let answer = exchange(&self.client, head, body, ANSWER_BYTES_MAX, LIMIT).await;
        answer
            .map(|answer| answer.status)
            .map_err(|failure| failure.kind)
    }
}
