//! A received request, and the webhook delivery in it.

use std::{
    collections::{BTreeMap, HashMap},
    time::Instant,
};

use serde_json::Value;

use super::signature;

/// A received request.
#[derive(Clone, Debug)]
pub struct ReceivedRequest {
    pub method: String,
    pub path: String,
    pub query: Option<String>,
    /// Lowercase names.
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
    pub arrived: Instant,
    /// Time at which the kernel had taken the whole answer.
    pub answered: Option<Instant>,
}

/// A webhook delivery with valid signatures.
#[derive(Clone, Debug, PartialEq)]
pub struct ReceivedEvent {
    pub id: String,
    pub kind: String,
    pub timestamp: String,
    pub data: Value,
}

impl ReceivedRequest {
    pub fn target(&self) -> String {
        match &self.query {
            Some(query) => format!("{}?{query}", self.path),
            None => self.path.clone(),
        }
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    #[track_caller]
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .unwrap_or_else(|| panic!("no header {name} in {:?}", self.headers))
    }

    /// The delivery's id, if the request is a delivery.
    pub fn delivery(&self) -> Option<&str> {
        self.headers.get("x-service-delivery").map(String::as_str)
    }

    /// Checks the signature that every request of the service carries.
    #[track_caller]
    pub fn assert_signed(&self, secret: &str) {
        assert_eq!(
            self.header("x-service-signature"),
            signature::service(secret, &self.body)
        );
        assert_eq!(self.header("content-type"), "application/json");
    }

    /// Parses a webhook delivery and checks everything that is guaranteed about it.
    #[track_caller]
    pub fn event(&self, secret: &str) -> ReceivedEvent {
        self.assert_signed(secret);
        assert_eq!(self.method, "POST");
        let (id, sent) = (self.header("webhook-id"), self.header("webhook-timestamp"));
        assert!(id.starts_with("evt_"), "{id}");
        assert!(self.header("x-service-delivery").starts_with("dlv_"));
        assert!(self.header("x-service-attempt").parse::<u32>().unwrap() >= 1);
        let expected = signature::standard(secret, id, sent, &self.body);
        let given = self.header("webhook-signature");
        assert!(
            given.split(' ').any(|one| one == expected),
            "{given} has no {expected}"
        );
        let body = self.json();
        let keys: Vec<_> = body
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        assert_eq!(keys.len(), 3, "{keys:?}");
        assert_eq!(body["event"], self.header("x-service-event"));
        ReceivedEvent {
            id: id.to_owned(),
            kind: body["event"].as_str().unwrap().to_owned(),
            timestamp: body["timestamp"].as_str().unwrap().to_owned(),
            data: body["data"].clone(),
        }
    }
}

/// The distinct events of deliveries. Repeated attempts must have identical bodies.
pub(super) fn distinct(received: &[ReceivedRequest], secret: &str) -> Vec<ReceivedEvent> {
    let mut first_attempts: Vec<ReceivedEvent> = Vec::new();
    let mut seen = HashMap::new();
    for request in received {
        let event = request.event(secret);
        let earlier = seen.entry(event.id.clone()).or_insert_with(|| {
            first_attempts.push(event.clone());
            request.body.clone()
        });
        assert_eq!(*earlier, request.body, "every attempt has the same bytes");
    }
    first_attempts
}
