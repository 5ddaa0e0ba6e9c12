//! Minimal WebSocket framing and reply parsing: the client's cost must be small beside that of the measured server.

use std::ops::Range;

pub const TEXT: u8 = 1;
pub const CLOSE: u8 = 8;
pub const PING: u8 = 9;
pub const PONG: u8 = 10;

const FINAL: u8 = 0x80;
const MASKED: u8 = 0x80;
/// A zero mask leaves the payload unchanged; the server unmasks it like any other.
const MASK: [u8; 4] = [0; 4];

/// Appends a client's (masked) frame.
pub fn write_masked(out: &mut Vec<u8>, opcode: u8, payload: &[u8]) {
    write_head(out, opcode, payload.len(), MASKED);
    out.extend_from_slice(&MASK);
    out.extend_from_slice(payload);
}

/// Appends a server's (unmasked) frame.
pub fn write_plain(out: &mut Vec<u8>, opcode: u8, payload: &[u8]) {
    write_head(out, opcode, payload.len(), 0);
    out.extend_from_slice(payload);
}

fn write_head(out: &mut Vec<u8>, opcode: u8, length: usize, masked: u8) {
    out.push(FINAL | opcode);
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(length @ 0..126), _) => out.push(masked | length),
        (_, Ok(length)) => {
            out.push(masked | 126);
            out.extend_from_slice(&length.to_be_bytes());
        }
        _ => {
            out.push(masked | 127);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
}

/// A frame's position in a buffer. A masked frame is assumed to use the zero mask of [`write_masked`].
#[derive(Debug, PartialEq, Eq)]
pub struct WireFrame {
    pub opcode: u8,
    pub payload: Range<usize>,
}

/// The frame that begins at `from`, or `None` while it is incomplete.
pub fn frame_at(buffer: &[u8], from: usize) -> Option<WireFrame> {
    let bytes = buffer.get(from..)?;
    let (&first, &second) = (bytes.first()?, bytes.get(1)?);
    let (length, head) = match second & !MASKED {
        126 => {
            let length = bytes.get(2..4)?.try_into().ok()?;
            (usize::from(u16::from_be_bytes(length)), 4)
        }
        127 => {
            let length = bytes.get(2..10)?.try_into().ok()?;
            (usize::try_from(u64::from_be_bytes(length)).ok()?, 10)
        }
        length => (usize::from(length), 2),
    };
    let mask = if second & MASKED == 0 { 0 } else { MASK.len() };
    let start = from + head + mask;
    let end = start.checked_add(length)?;
    (buffer.len() >= end).then_some(WireFrame {
        opcode: first & 0x0f,
        payload: start..end,
    })
}

/// The parts of a reply that the benchmark needs.
#[derive(Debug, PartialEq, Eq)]
pub struct BenchReply<'a> {
    /// Id of the message that it answers.
    pub id: u64,
    pub ok: bool,
    /// The server did nothing and asks for a retry.
    pub is_busy: bool,
    pub call: Option<&'a [u8]>,
    pub text: &'a [u8],
}

impl<'a> BenchReply<'a> {
    /// Reads a reply whose message id is a number. Returns `None` for anything else, such as a command.
    pub fn read(text: &'a [u8]) -> Option<Self> {
        let id = after(text, b"\"replyTo\":\"")?;
        let digits = &id[..id.iter().position(|b| *b == b'"')?];
        let ok = after(text, b"\"ok\":true").is_some();
        let says = |code: &[u8]| after(text, code).is_some();
        Some(Self {
            id: std::str::from_utf8(digits).ok()?.parse().ok()?,
            ok,
            is_busy: !ok && (says(b"\"code\":\"busy\"") || says(b"\"code\":\"unavailable\"")),
            call: quoted(text, b"\"callId\":\""),
            text,
        })
    }

    /// True if the server answers the incoming call.
    pub fn is_taken(&self) -> bool {
        after(self.text, b"\"action\":\"answer\"").is_some()
    }
}

/// The text between `before` and the next quotation mark.
pub fn quoted<'a>(text: &'a [u8], before: &[u8]) -> Option<&'a [u8]> {
    let rest = after(text, before)?;
    Some(&rest[..rest.iter().position(|b| *b == b'"')?])
}

fn after<'a>(text: &'a [u8], what: &[u8]) -> Option<&'a [u8]> {
    let at = text.windows(what.len()).position(|found| found == what)?;
    Some(&text[at + what.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_every_size_are_read_as_they_were_written() {
        for length in [0, 1, 125, 126, 127, 65_535, 65_536, 100_000] {
            let payload = vec![b'x'; length];
            let mut buffer = Vec::new();
            write_masked(&mut buffer, TEXT, &payload);
            let second = buffer.len();
            write_plain(&mut buffer, PING, &payload);
            for (from, opcode) in [(0, TEXT), (second, PING)] {
                let frame = frame_at(&buffer, from).expect("all of it is there");
                assert_eq!(frame.opcode, opcode);
                assert_eq!(&buffer[frame.payload], payload);
            }
        }
    }

    #[test]
    fn a_frame_that_is_not_all_there_is_none() {
        let mut buffer = Vec::new();
        write_plain(&mut buffer, TEXT, &[b'x'; 300]);
        for length in 0..buffer.len() {
            assert_eq!(frame_at(&buffer[..length], 0), None, "{length}");
        }
        assert_eq!(frame_at(&buffer, buffer.len()), None);
        let huge = [0x81, 127, 255, 255, 255, 255, 255, 255, 255, 255, 0];
        assert_eq!(frame_at(&huge, 0), None, "a length beyond all memory");
    }

    #[test]
    fn replies_say_whose_they_are_and_whether_it_worked() {
        let taken = br#"{"replyTo":"17","ok":true,"callId":"call_1","action":"answer","agent":{"name":"\"ok\":false"}}"#;
        let reply = BenchReply::read(taken).expect("a reply");
        assert_eq!((reply.id, reply.ok, reply.is_taken()), (17, true, true));
        assert_eq!(reply.call, Some(&b"call_1"[..]));

        let busy = br#"{"replyTo":"3","ok":false,"error":{"code":"busy","message":"try again"}}"#;
        let reply = BenchReply::read(busy).expect("a reply");
        assert_eq!((reply.ok, reply.is_busy, reply.call), (false, true, None));

        let refused =
            br#"{"replyTo":"4","ok":true,"callId":"call_2","action":"reject","reason":"no_agent"}"#;
        let reply = BenchReply::read(refused).expect("a reply");
        assert!(reply.ok && !reply.is_taken());
    }

    #[test]
    fn what_is_no_reply_of_ours_is_passed_over() {
        for text in [
            &br#"{"id":"cmd_1","command":"hangup","callId":"call_1"}"#[..],
            br#"{"replyTo":null,"ok":false}"#,
            br#"{"replyTo":"abc","ok":true}"#,
            br#"{"replyTo":"12"#,
            b"",
        ] {
            assert_eq!(BenchReply::read(text), None);
        }
    }
}
