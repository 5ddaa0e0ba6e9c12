//! Assembles WebSocket frames into whole messages: bounded fragments, checked UTF-8.

use actix_web::web::{Bytes, BytesMut};
use actix_ws::{CloseCode, Item, Message, MessageStream, ProtocolError};

/// A whole message, or a control frame.
#[derive(Debug, PartialEq, Eq)]
pub enum SocketFrame {
    Text(Bytes),
    Binary(Bytes),
    Ping(Bytes),
    Pong(Bytes),
    Close,
}

/// The reason why no more can be read.
#[derive(Debug, PartialEq, Eq)]
pub enum ReadFault {
    /// The connection broke.
    Broken,
    /// The peer violated the protocol. The socket is closed with this code and reason.
    Close(CloseCode, &'static str),
}

const TOO_LARGE: ReadFault = ReadFault::Close(CloseCode::Size, "a message has at most 256 KiB");
const TOO_MANY_FRAMES: ReadFault =
    ReadFault::Close(CloseCode::Policy, "a message has at most 4096 frames");
const FRAMES_MAX: usize = 4_096;
const NOT_UTF8: ReadFault = ReadFault::Close(CloseCode::Invalid, "text is UTF-8");

/// Reads the messages of a socket.
pub struct FrameReader {
    stream: MessageStream,
    fragments: Fragments,
}

impl FrameReader {
    /// Reads messages of up to `bytes_max` bytes, in one frame or several.
    pub fn new(stream: MessageStream, bytes_max: usize) -> Self {
        Self {
            stream: stream.max_frame_size(bytes_max),
            fragments: Fragments {
                bytes_max,
                is_text: false,
                frames: 0,
                bytes: BytesMut::new(),
            },
        }
    }

    /// The next message; none if the peer is gone. Cancelling this loses no bytes.
    pub async fn next(&mut self) -> Option<Result<SocketFrame, ReadFault>> {
        loop {
            let frame = match self.stream.recv().await? {
                Ok(Message::Text(text)) => SocketFrame::Text(text.into_bytes()),
                Ok(Message::Binary(bytes)) => SocketFrame::Binary(bytes),
                Ok(Message::Ping(payload)) => SocketFrame::Ping(payload),
                Ok(Message::Pong(payload)) => SocketFrame::Pong(payload),
                Ok(Message::Close(_)) => SocketFrame::Close,
                Ok(Message::Nop) => continue,
                Ok(Message::Continuation(item)) => match self.fragments.add(item).transpose() {
                    Some(whole) => return Some(whole),
                    None => continue,
                },
                Err(error) => return Some(Err(fault(&error))),
            };
            return Some(Ok(frame));
        }
    }
}

fn fault(error: &ProtocolError) -> ReadFault {
    match error {
        ProtocolError::Overflow => TOO_LARGE,
        ProtocolError::Io(error) if error.kind() == std::io::ErrorKind::InvalidData => NOT_UTF8,
        ProtocolError::Io(_) => ReadFault::Broken,
        _ => ReadFault::Close(CloseCode::Protocol, "not a WebSocket frame"),
    }
}

/// A message that is not complete yet.
struct Fragments {
    bytes_max: usize,
    is_text: bool,
    frames: usize,
    bytes: BytesMut,
}

impl Fragments {
    /// Adds a fragment. Returns the message if that was its last fragment.
    fn add(&mut self, item: Item) -> Result<Option<SocketFrame>, ReadFault> {
        let (bytes, is_last) = match item {
            Item::FirstText(bytes) => {
                self.is_text = true;
                (bytes, false)
            }
            Item::FirstBinary(bytes) => {
                self.is_text = false;
                (bytes, false)
            }
            Item::Continue(bytes) => (bytes, false),
            Item::Last(bytes) => (bytes, true),
        };
        if self.bytes.len() + bytes.len() > self.bytes_max {
            return Err(TOO_LARGE);
        }
        self.frames = if is_last { 0 } else { self.frames + 1 };
        if self.frames >= FRAMES_MAX {
            return Err(TOO_MANY_FRAMES);
        }
        self.bytes.extend_from_slice(&bytes);
        if !is_last {
            return Ok(None);
        }
        let whole = self.bytes.split().freeze();
        if !self.is_text {
            return Ok(Some(SocketFrame::Binary(whole)));
        }
        match std::str::from_utf8(&whole) {
            Ok(_) => Ok(Some(SocketFrame::Text(whole))),
            Err(_) => Err(NOT_UTF8),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fragments() -> Fragments {
        Fragments {
            bytes_max: 8,
            is_text: false,
            frames: 0,
            bytes: BytesMut::new(),
        }
    }

    fn bytes(bytes: &'static [u8]) -> Bytes {
        Bytes::from_static(bytes)
    }

    #[test]
    fn fragments_become_one_message_within_the_bound() {
        let mut message = fragments();
        for part in [
            Item::FirstText(bytes(b"{\"\xc3")),
            Item::Continue(bytes(b"")),
        ] {
            assert_eq!(message.add(part), Ok(None));
        }
        let whole = message.add(Item::Last(bytes(b"\xa9\"")));
        assert_eq!(
            whole,
            Ok(Some(SocketFrame::Text(bytes("{\"é\"".as_bytes()))))
        );
        assert_eq!(message.add(Item::FirstBinary(bytes(b"12345678"))), Ok(None));
        assert_eq!(message.add(Item::Last(bytes(b"9"))), Err(TOO_LARGE));
    }

    #[test]
    fn empty_fragments_are_limited() {
        let mut message = fragments();
        for _ in 0..2 {
            assert_eq!(message.add(Item::FirstText(bytes(b""))), Ok(None));
            for _ in 2..FRAMES_MAX {
                assert_eq!(message.add(Item::Continue(bytes(b""))), Ok(None));
            }
            let whole = message.add(Item::Last(bytes(b"")));
            assert_eq!(whole, Ok(Some(SocketFrame::Text(bytes(b"")))));
        }
        assert_eq!(message.add(Item::FirstText(bytes(b""))), Ok(None));
        let last = (1..FRAMES_MAX).map(|_| message.add(Item::Continue(bytes(b""))));
        assert_eq!(last.last(), Some(Err(TOO_MANY_FRAMES)));
    }

    #[test]
    fn text_in_fragments_is_utf8_as_well() {
        let mut message = fragments();
        assert_eq!(message.add(Item::FirstText(bytes(b"\xff"))), Ok(None));
        assert_eq!(message.add(Item::Last(bytes(b""))), Err(NOT_UTF8));
    }
}
