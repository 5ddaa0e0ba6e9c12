//! Assembles WebSocket frames into whole messages: bounded frames and fragments, checked UTF-8.

use std::{cell::Cell, rc::Rc, task::Poll};

use actix_web::{
    Error, FromRequest, HttpRequest, HttpResponse, dev,
    web::{Bytes, BytesMut, Payload},
};
use actix_ws::{CloseCode, Item, Message, MessageStream, ProtocolError, Session};
use futures_util::StreamExt;

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
#[derive(Clone, Debug, PartialEq, Eq)]
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
const NO_FRAME: ReadFault = ReadFault::Close(CloseCode::Protocol, "not a WebSocket frame");

/// Reads the messages of a socket.
pub struct FrameReader {
    stream: MessageStream,
    fragments: Fragments,
    /// Set if the stream ends because of a header.
    fault: Rc<Cell<Option<ReadFault>>>,
}

/// Opens a socket with this subprotocol. Its messages have up to `bytes_max` bytes, in one frame or several.
pub async fn upgrade(
    request: &HttpRequest,
    body: Payload,
    subprotocol: &str,
    bytes_max: usize,
) -> Result<(HttpResponse, Session, FrameReader), Error> {
    let fault = Rc::new(Cell::new(None));
    let found = Rc::clone(&fault);
    let mut headers = FrameHeaders::new(bytes_max);
    let mut bytes = body.into_inner();
    let mut is_over = false;
    let checked = futures_util::stream::poll_fn(move |cx| {
        if is_over {
            return Poll::Ready(None);
        }
        let next = bytes.poll_next_unpin(cx);
        next.map(|next| match next? {
            Ok(chunk) => match headers.check(&chunk) {
                Ok(()) => Some(Ok(chunk)),
                Err(fault) => {
                    is_over = true;
                    found.set(Some(fault));
                    None
                }
            },
            error @ Err(_) => Some(error),
        })
    });
    let mut checked: dev::Payload = dev::Payload::Stream {
        payload: Box::pin(checked),
    };
    let body = Payload::from_request(request, &mut checked).await?;
    let (response, session, stream) =
        actix_ws::handle_with_protocols(request, body, &[subprotocol])?;
    let frames = FrameReader {
        stream: stream.max_frame_size(bytes_max),
        fragments: Fragments {
            bytes_max,
            is_text: false,
            frames: 0,
            bytes: BytesMut::new(),
        },
        fault,
    };
    Ok((response, session, frames))
}

impl FrameReader {
    /// The next message; none if the peer is gone. Cancelling this loses no bytes.
    pub async fn next(&mut self) -> Option<Result<SocketFrame, ReadFault>> {
        loop {
            let Some(received) = self.stream.recv().await else {
                return self.fault.take().map(Err);
            };
            let frame = match received {
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
                Err(error) => {
                    let fault = self.fault.take().unwrap_or_else(|| fault(&error));
                    return Some(Err(fault));
                }
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
        _ => NO_FRAME,
    }
}

/// Checks the headers of frames as their bytes arrive (RFC 6455, section 5.2). The library compares the length of a frame with
/// its limit only when it has the whole frame.
struct FrameHeaders {
    bytes_max: usize,
    header: Vec<u8>,
    /// Bytes of the payload that are still to come.
    payload: u64,
}

impl FrameHeaders {
    const fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            header: Vec::new(),
            payload: 0,
        }
    }

    /// Reads the next bytes of the socket. Refuses a header with an extension's bits, and one of a frame that is too long.
    fn check(&mut self, mut bytes: &[u8]) -> Result<(), ReadFault> {
        loop {
            let of_payload = bytes
                .len()
                .min(usize::try_from(self.payload).unwrap_or(usize::MAX));
            bytes = bytes.get(of_payload..).unwrap_or_default();
            self.payload -= of_payload as u64;
            let Some((next, rest)) = bytes.split_first() else {
                return Ok(());
            };
            self.header.push(*next);
            bytes = rest;
            if let Some(length) = declared(&self.header)? {
                if length > self.bytes_max as u64 {
                    return Err(TOO_LARGE);
                }
                self.header.clear();
                self.payload = length;
            }
        }
    }
}

/// The length of the payload after this header; none if the header is not complete.
fn declared(header: &[u8]) -> Result<Option<u64>, ReadFault> {
    let (&[first, second], rest) = header
        .split_first_chunk::<2>()
        .map_or_else(|| (&[0, 0], None), |(start, rest)| (start, Some(rest)));
    let Some(rest) = rest else {
        return Ok(None);
    };
    if first & 0b0111_0000 != 0 {
        return Err(NO_FRAME);
    }
    let extended = match second & 0x7F {
        126 => 2,
        127 => 8,
        _ => 0,
    };
    let mask = if second & 0x80 == 0 { 0 } else { 4 };
    if rest.len() < extended + mask {
        return Ok(None);
    }
    let length = match extended {
        0 => u64::from(second & 0x7F),
        _ => rest[..extended]
            .iter()
            .fold(0, |length, byte| length << 8 | u64::from(*byte)),
    };
    Ok(Some(length))
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

    /// A header of a frame with this payload's length.
    fn header(first: u8, length: u64) -> Vec<u8> {
        let mut header = vec![first];
        match u16::try_from(length) {
            Ok(short @ ..=125) => header.push(0x80 | short as u8),
            Ok(long) => {
                header.push(0x80 | 126);
                header.extend(long.to_be_bytes());
            }
            Err(_) => {
                header.push(0x80 | 127);
                header.extend(length.to_be_bytes());
            }
        }
        header.extend([1, 2, 3, 4]);
        header
    }

    #[test]
    fn a_frame_that_declares_too_much_is_refused_at_its_header() {
        const MAX: usize = 100_000;
        for (length, is_good) in [
            (0, true),
            (125, true),
            (126, true),
            (65_535, true),
            (65_536, true),
            (100_000, true),
            (100_001, false),
            (1 << 40, false),
            (u64::MAX, false),
        ] {
            // In pieces of any size, and after another frame.
            for piece in [1, 3, 1_000] {
                let mut headers = FrameHeaders::new(MAX);
                let mut sent = [header(0x81, 300), vec![0x81; 300], header(0x81, length)].concat();
                let checked = sent
                    .chunks(piece)
                    .try_for_each(|bytes| headers.check(bytes));
                assert_eq!(checked.is_ok(), is_good, "{length} {piece}");
                if is_good {
                    sent = [vec![0xFF; length as usize], header(0x82, 1 << 40)].concat();
                    let mut pieces = sent.chunks(piece);
                    let refused = pieces.try_for_each(|bytes| headers.check(bytes));
                    assert_eq!(refused, Err(TOO_LARGE), "{length} {piece}");
                }
            }
        }
        let mut headers = FrameHeaders::new(MAX);
        assert_eq!(headers.check(&header(0xC1, 1)), Err(NO_FRAME));
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
