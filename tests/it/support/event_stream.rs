//! A stream of a tenant's events, read like a client of server-sent events.

use std::time::Duration;

use futures_util::StreamExt;
use serde_json::Value;

use super::rest::client;

pub struct EventStream {
    response: awc::ClientResponse,
    read: String,
}

impl EventStream {
    pub async fn open(http: &str, key: &str, last: Option<&str>) -> Self {
        let url = format!("{http}/api/v1/events/stream");
        let mut request = client(None).get(url).insert_header(("x-api-key", key));
        if let Some(last) = last {
            request = request.insert_header(("last-event-id", last));
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        let read = String::new();
        Self { response, read }
    }

    /// The next event: its id and body.
    pub async fn next(&mut self) -> (String, Value) {
        loop {
            if let Some((frame, rest)) = self.read.split_once("\n\n") {
                let field = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name));
                // A frame without data only tells the position at which the stream begins.
                let event = field("data: ").zip(field("id: "));
                let event = event.map(|(data, id)| (id.to_owned(), serde_json::from_str(data)));
                self.read = rest.to_owned();
                match event {
                    Some((id, data)) => return (id, data.unwrap()),
                    None => continue,
                }
            }
            let chunk = tokio::time::timeout(Duration::from_secs(10), self.response.next());
            let chunk = chunk.await.expect("something comes in time");
            let chunk = chunk.unwrap().unwrap();
            self.read.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// The next ids.
    pub async fn ids(&mut self, count: usize) -> Vec<String> {
        let mut ids = Vec::new();
        while ids.len() < count {
            ids.push(self.next().await.0);
        }
        ids
    }
}
