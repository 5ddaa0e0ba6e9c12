//! Parses server-sent events from a stream of pieces, as the HTML standard defines them
//! (<https://html.spec.whatwg.org/multipage/server-sent-events.html>). Pure.
//!
//! Existing parsers (`eventsource-stream` and its users) buffer unfinished events without a bound. They also drop
//! unknown fields, such as `test`, and frames without data, which carry the service's position.

/// Bound of an unfinished event, in bytes.
const UNREAD_BYTES_MAX: usize = 8 * 1024 * 1024;

/// A frame: the fields between two empty lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerEvent {
    pub id: Option<String>,
    pub event: Option<String>,
    /// The data lines, joined by line breaks.
    pub data: Option<String>,
    /// A field of this service: the event is a sample.
    pub is_test: bool,
    /// It has a reconnection time, as the first frame of the service has.
    pub is_opening: bool,
}

/// The received bytes that are not parsed yet.
#[derive(Debug, Default)]
pub struct ServerEvents {
    received: Vec<u8>,
    /// Start of the frame that is not parsed yet.
    start: usize,
    /// Bytes that were searched for its end.
    searched: usize,
}

/// An event exceeded the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event does not end within {UNREAD_BYTES_MAX} bytes")]
pub struct Endless;

impl ServerEvents {
    /// Appends the next piece.
    pub fn push(&mut self, piece: &[u8]) -> Result<(), Endless> {
        // Once per piece, and not per frame: a piece may hold thousands of empty frames.
        self.received.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        if self.received.len() + piece.len() > UNREAD_BYTES_MAX {
            return Err(Endless);
        }
        // Some proxies end lines with CR LF.
        self.received
            .extend(piece.iter().filter(|byte| **byte != b'\r'));
        Ok(())
    }

    /// The next complete frame.
    pub fn next(&mut self) -> Option<ServerEvent> {
        let found = self.received[self.searched..]
            .windows(2)
            .position(|pair| pair == b"\n\n");
        let Some(found) = found else {
            // The last byte may be the first of an end.
            self.searched = self.received.len().saturating_sub(1).max(self.start);
            return None;
        };
        let end = self.searched + found;
        let text = String::from_utf8_lossy(&self.received[self.start..end]);
        let frame = ServerEvent::read(&text);
        self.start = end + 2;
        self.searched = self.start;
        Some(frame)
    }
}

impl ServerEvent {
    fn read(text: &str) -> Self {
        let mut frame = Self::default();
        for line in text.lines() {
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match name {
                "id" => frame.id = Some(value.to_owned()),
                "event" => frame.event = Some(value.to_owned()),
                "retry" => frame.is_opening = true,
                "test" => frame.is_test = value == "true",
                "data" => match &mut frame.data {
                    Some(data) => {
                        data.push('\n');
                        data.push_str(value);
                    }
                    None => frame.data = Some(value.to_owned()),
                },
                // A comment or an unknown field.
                _ => {}
            }
        }
        frame
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STREAM: &str = "retry: 2000\nid: e0\n\n: nothing new\n\nid: e1\nevent: call.ended\ntest: true\ndata: {\"a\":1}\n\n\
                          id:e2\r\nevent:x\r\ndata: {\r\ndata: }\r\n\r\nid: e3\ndata: not yet";

    fn frame(id: &str, event: &str, data: &str, is_test: bool) -> ServerEvent {
        ServerEvent {
            id: Some(id.to_owned()),
            event: Some(event.to_owned()),
            data: Some(data.to_owned()),
            is_test,
            is_opening: false,
        }
    }

    proptest! {
        #[test]
        fn frames_are_the_same_however_they_come(sizes in prop::collection::vec(1_usize..20, 1..200)) {
            let (mut frames, mut read) = (ServerEvents::default(), Vec::new());
            let mut rest = STREAM.as_bytes();
            for size in sizes.iter().cycle() {
                let (piece, after) = rest.split_at((*size).min(rest.len()));
                frames.push(piece).expect("it is short");
                read.extend(std::iter::from_fn(|| frames.next()));
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }
            let place = ServerEvent {
                id: Some("e0".to_owned()),
                is_opening: true,
                ..ServerEvent::default()
            };
            let expected = [
                place,
                ServerEvent::default(),
                frame("e1", "call.ended", r#"{"a":1}"#, true),
                frame("e2", "x", "{\n}", false),
            ];
            prop_assert_eq!(read, expected);
        }
    }

    #[test]
    fn what_never_ends_is_given_up() {
        let mut frames = ServerEvents::default();
        let piece = vec![b'x'; 1024 * 1024];
        let taken = (0..100).take_while(|_| frames.push(&piece).is_ok()).count();
        assert_eq!(taken, UNREAD_BYTES_MAX / piece.len());
    }
}
