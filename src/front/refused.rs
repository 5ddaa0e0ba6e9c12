//! Answers without a request. The HTTP library answers unreadable heads itself, with a status only, and surplus
//! connections never reach it.

use actix_web::http::StatusCode;
use dikala_actors::runtime::clock::{Clock, SystemClock};
use dikala_entities::RequestId;
use serde_json::json;

use super::{guards::GUARDS, places::LimitReached};

/// The library's own answers are shorter.
const OWN_ANSWER_BYTES_MAX: usize = 256;
const HEAD_END: &[u8] = b"\r\n\r\n";
const EMPTY: &str = "\r\ncontent-length: 0";

/// An answer without a body that the library made, at the end of the written bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OwnAnswer<'a> {
    /// The position where it begins.
    pub at: usize,
    pub status: StatusCode,
    head: &'a str,
}

impl<'a> OwnAnswer<'a> {
    /// Finds it: every answer to a real request has a request id.
    pub(super) fn find(written: &'a [u8]) -> Option<Self> {
        let head = written.strip_suffix(HEAD_END)?;
        let from = head.len().saturating_sub(OWN_ANSWER_BYTES_MAX);
        let tail = &head[from..];
        let begin = tail
            .windows(b"HTTP/1.".len())
            .rposition(|bytes| bytes == b"HTTP/1.")?;
        let head = str::from_utf8(&tail[begin..]).ok()?;
        let status = head.split(' ').nth(1)?.parse::<u16>().ok()?;
        let status = StatusCode::from_u16(status).ok()?;
        let lower = head.to_ascii_lowercase();
        let is_own = (status.is_client_error() || status.is_server_error())
            && lower.contains(EMPTY)
            && !lower.contains("\r\nx-request-id:");
        is_own.then_some(Self {
            at: from + begin,
            status,
            head,
        })
    }

    /// The same answer with our error body.
    pub(super) fn with_body(&self, id: RequestId) -> Vec<u8> {
        let (code, message) = match self.status {
            StatusCode::REQUEST_TIMEOUT => (
                "request_timeout",
                "The head of the request did not arrive in time.",
            ),
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => (
                "body_too_large",
                "The head of the request is too large; send fewer or shorter headers.",
            ),
            status if status.is_client_error() => (
                "invalid_json",
                "The request is malformed: its first line or its headers are not those of HTTP/1.1, or its address has more than 65,534 bytes.",
            ),
            _ => ("internal_error", "The request could not be read."),
        };
        let first_line = self.head.split("\r\n").next().unwrap_or_default();
        answer(id, first_line, "", code, message)
    }
}

/// The answer to a surplus connection.
pub(super) fn too_many(full: LimitReached) -> Vec<u8> {
    let id = new_id();
    match full {
        LimitReached::Address => answer(
            id,
            "HTTP/1.1 429 Too Many Requests",
            "retry-after: 1\r\n",
            "rate_limited",
            "There are too many open connections from your address; close some of them.",
        ),
        LimitReached::Listener => answer(
            id,
            "HTTP/1.1 503 Service Unavailable",
            "retry-after: 2\r\n",
            "unavailable",
            "The service has as many connections open as it can have; try again in a moment.",
        ),
    }
}

/// An id for an answer without a request.
pub(super) fn new_id() -> RequestId {
    RequestId::new(SystemClock.now())
}

fn answer(id: RequestId, first_line: &str, more: &str, code: &str, message: &str) -> Vec<u8> {
    let id = id.to_string();
    let body = json!({"error": {"code": code, "message": message, "requestId": id}}).to_string();
    let mut answer = format!(
        "{first_line}\r\ncontent-length: {}\r\ncontent-type: application/json\r\ncache-control: no-store\r\n",
        body.len()
    )
    .into_bytes();
    for (name, value) in GUARDS {
        answer.extend_from_slice(name.as_str().as_bytes());
        answer.extend_from_slice(b": ");
        answer.extend_from_slice(value.as_bytes());
        answer.extend_from_slice(b"\r\n");
    }
    let end = format!("x-request-id: {id}\r\n{more}connection: close\r\n\r\n{body}");
    answer.extend_from_slice(end.as_bytes());
    answer
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OWN: &str = "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\ndate: Sat, 21 Nov 2026 20:00:00 GMT\r\n\r\n";

    #[test]
    fn the_librarys_own_answers_are_told_from_those_to_requests() {
        let before = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx-request-id: a\r\n\r\n{}";
        let both = format!("{before}{OWN}");
        let found = OwnAnswer::find(both.as_bytes()).expect("an own answer");
        assert_eq!((found.at, found.status.as_u16()), (before.len(), 400));
        for other in [
            before.to_owned(),
            OWN.replace("content-length: 0", "content-length: 7"),
            OWN.replace("date:", "x-request-id: a\r\ndate:"),
            OWN.replace("400 Bad Request", "204 No Content"),
            format!("{OWN}more"),
            "0\r\n\r\n".to_owned(),
            "\r\n\r\n".to_owned(),
            String::new(),
        ] {
            assert_eq!(OwnAnswer::find(other.as_bytes()), None, "{other:?}");
        }
    }

    #[test]
    fn each_gets_the_error_body() {
        for (status, code) in [
            ("400 Bad Request", "invalid_json"),
            ("408 Request Timeout", "request_timeout"),
            ("431 Request Header Fields Too Large", "body_too_large"),
            ("500 Internal Server Error", "internal_error"),
        ] {
            let own = OWN.replace("400 Bad Request", status);
            let answer = OwnAnswer::find(own.as_bytes()).expect("an own answer");
            let text = String::from_utf8(answer.with_body(new_id())).expect("text");
            let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
            assert!(
                head.starts_with(&format!("HTTP/1.1 {status}\r\n")),
                "{head}"
            );
            assert!(head.contains(&format!("content-length: {}", body.len())));
            let body: serde_json::Value = serde_json::from_str(body).expect("JSON");
            assert_eq!(body["error"]["code"], code);
            assert!(head.contains(body["error"]["requestId"].as_str().expect("an id")));
        }
    }

    #[test]
    fn browsers_are_told_the_same_as_by_every_other_answer() {
        let own = OwnAnswer::find(OWN.as_bytes()).expect("an own answer");
        for answer in [
            own.with_body(new_id()),
            too_many(LimitReached::Address),
            too_many(LimitReached::Listener),
        ] {
            let text = String::from_utf8(answer).expect("text");
            for header in [
                "content-security-policy: default-src 'none'; frame-ancestors 'none'",
                "x-content-type-options: nosniff",
                "x-frame-options: DENY",
                "referrer-policy: no-referrer",
            ] {
                let line = format!("\r\n{header}\r\n");
                assert_eq!(text.matches(&line).count(), 1, "{header} in {text}");
            }
        }
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut written = bytes;
            written.extend_from_slice(HEAD_END);
            let _ = OwnAnswer::find(&written);
        }
    }
}
