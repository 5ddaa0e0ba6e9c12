//! A request that came, and the webhook delivery that it is.

use std::{
    collections::{BTreeMap, HashMap},
    time::Instant,
};

use serde_json::Value;

use super::signature;

/// One request as it came.
#[derive(Clone, Debug)]
pub struct Received {
    pub method: String,
    pub path: String,
    pub query: Option<String>,
    /// By lowercase name.
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
    pub arrived: Instant,
    /// When its whole answer was handed to the kernel.
    pub answered: Option<Instant>,
}

/// A webhook delivery whose signatures hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub id: String,
    pub kind: String,
    pub timestamp: String,
    pub data: Value,
}

impl Received {
    /// Path and query.
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

    /// The delivery's id, where it is one.
    pub fn delivery(&self) -> Option<&str> {
        self.headers.get("x-service-delivery").map(String::as_str)
    }

    /// Checks the signature that every outgoing request carries.
    #[track_caller]
    pub fn assert_signed(&self, secret: &str) {
        assert_eq!(
            self.header("x-service-signature"),
            signature::service(secret, &self.body)
        );
        assert_eq!(self.header("content-type"), "application/json");
    }

    /// Reads a webhook delivery and checks all that is promised of one.
    #[track_caller]
    pub fn event(&self, secret: &str) -> Event {
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
        Event {
            id: id.to_owned(),
            kind: body["event"].as_str().unwrap().to_owned(),
            timestamp: body["timestamp"].as_str().unwrap().to_owned(),
            data: body["data"].clone(),
        }
    }
}

/// The events of deliveries, each once, however often it was sent: with the same bytes each time.
pub(super) fn distinct(received: &[Received], secret: &str) -> Vec<Event> {
    let mut first_attempts: Vec<Event> = Vec::new();
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
