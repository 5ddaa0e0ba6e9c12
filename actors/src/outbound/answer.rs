//! The one answer to one request, read off a connection byte by byte and written anew in the plainest form of HTTP/1.1, so
//! that whoever reads it afterwards can neither see an interim answer nor read past the end. Pure.
//!
//! What a server may say is RFC 9112: interim answers first, then a head whose body has a length, comes in chunks, or ends
//! with the connection.

use bytes::{Buf, BufMut, BytesMut};

/// Interim answers (100, 102, 103 and their like) that are skipped before the one that counts.
const INTERIM_MAX: u32 = 32;
/// The heads of an answer, interim ones included, in bytes.
const HEADS_BYTES_MAX: usize = 64 * 1024;
/// Header lines of one head.
const HEADERS_MAX: usize = 128;
/// What the chunks of an answer may carry besides its body, in bytes: extensions and trailers.
const EXTRAS_BYTES_MAX: usize = 16 * 1024;
/// A chunk's size in hexadecimal digits: a number of 64 bits.
const SIZE_DIGITS_MAX: usize = 16;
/// How every answer begins.
const BEGINNING: &[u8] = b"HTTP/1.";
/// The end of a body in chunks.
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// What came is no answer that HTTP/1.1 knows, or one beyond the bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Invalid;

/// How far an answer has come.
#[derive(Debug)]
pub(super) struct Answer {
    state: State,
    interim: u32,
    heads_bytes: usize,
    /// Bytes of the present head that were searched for its end.
    searched: usize,
    extras_bytes: usize,
    /// Whether the server promised to take another request on this connection.
    keeps: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Head,
    /// So many bytes are still to come.
    Sized(u64),
    /// All that comes until the server closes.
    UntilClosed,
    ChunkSize,
    ChunkData(u64),
    ChunkEnd,
    Trailers,
    Done,
}

/// What a final head says.
struct Head<'a> {
    status: u16,
    retry_after: Option<&'a [u8]>,
    framing: State,
    keeps: bool,
}

impl Answer {
    pub(super) const fn new() -> Self {
        Self {
            state: State::Head,
            interim: 0,
            heads_bytes: 0,
            searched: 0,
            extras_bytes: 0,
            keeps: false,
        }
    }

    /// Whether the head that counts was read.
    pub(super) fn has_head(&self) -> bool {
        self.state != State::Head
    }

    /// Whether all of the answer was read.
    pub(super) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Whether the connection may carry another request, once this answer is done and nothing follows it.
    pub(super) const fn keeps(&self) -> bool {
        self.keeps
    }

    /// Takes from `came` what belongs to the answer, as far as it can be understood, and adds it to `plain`. What follows
    /// the end of the answer is left in `came`.
    pub(super) fn read(
        &mut self,
        came: &mut BytesMut,
        plain: &mut BytesMut,
    ) -> Result<(), Invalid> {
        while !came.is_empty() && !self.is_done() {
            let goes_on = match self.state {
                State::Head => self.head(came, plain)?,
                State::Sized(left) => {
                    let left = left - take(left, came, plain);
                    self.state = if left == 0 {
                        State::Done
                    } else {
                        State::Sized(left)
                    };
                    true
                }
                State::UntilClosed => {
                    chunk(came.len() as u64, came, plain);
                    true
                }
                State::ChunkSize => self.chunk_size(came)?,
                State::ChunkData(left) => {
                    let left = left - chunk(left, came, plain);
                    self.state = if left == 0 {
                        State::ChunkEnd
                    } else {
                        State::ChunkData(left)
                    };
                    true
                }
                State::ChunkEnd => self.chunk_end(came)?,
                State::Trailers => self.trailer(came, plain)?,
                State::Done => false,
            };
            if !goes_on {
                break;
            }
        }
        Ok(())
    }

    /// The server closed the connection. Says whether the answer is complete by that.
    pub(super) fn closed(&mut self, plain: &mut BytesMut) -> bool {
        if self.state == State::UntilClosed {
            plain.put_slice(LAST_CHUNK);
            self.state = State::Done;
        }
        self.is_done()
    }

    /// Each of these returns whether there was enough to go on.
    fn head(&mut self, came: &mut BytesMut, plain: &mut BytesMut) -> Result<bool, Invalid> {
        let begun = came.len().min(BEGINNING.len());
        if came[..begun] != BEGINNING[..begun] {
            return Err(Invalid);
        }
        let Some(length) = self.head_length(came)? else {
            return Ok(false);
        };
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut parsed = httparse::Response::new(&mut headers);
        let complete = httparse::ParserConfig::default()
            .allow_spaces_after_header_name_in_responses(true)
            .parse_response(&mut parsed, &came[..length])
            .is_ok_and(|status| status.is_complete());
        let status = parsed.code.filter(|_| complete).ok_or(Invalid)?;
        match status {
            // A connection that speaks something else from now on is of no use.
            101 | 0..=99 => return Err(Invalid),
            100..=199 => {
                self.interim += 1;
                if self.interim > INTERIM_MAX {
                    return Err(Invalid);
                }
            }
            _ => {
                let head = understood(status, &parsed)?;
                head.write(plain);
                self.keeps = head.keeps;
                self.state = head.framing;
            }
        }
        came.advance(length);
        self.searched = 0;
        Ok(true)
    }

    /// The length of the head that `came` begins with, once its end is there.
    fn head_length(&mut self, came: &[u8]) -> Result<Option<usize>, Invalid> {
        // The end may begin in what was searched already: `\n`, perhaps `\r`, `\n`.
        let from = self.searched.saturating_sub(2);
        let end = came[from..].iter().enumerate().find_map(|(at, byte)| {
            let rest = &came[from + at + 1..];
            match (byte, rest) {
                (b'\n', [b'\n', ..]) => Some(from + at + 2),
                (b'\n', [b'\r', b'\n', ..]) => Some(from + at + 3),
                _ => None,
            }
        });
        self.searched = came.len();
        let bytes = self.heads_bytes + end.unwrap_or(came.len());
        if bytes > HEADS_BYTES_MAX {
            return Err(Invalid);
        }
        if end.is_some() {
            self.heads_bytes = bytes;
        }
        Ok(end)
    }

    fn chunk_size(&mut self, came: &mut BytesMut) -> Result<bool, Invalid> {
        let Some(line) = self.line(came, SIZE_DIGITS_MAX)? else {
            return Ok(false);
        };
        let digits = line
            .iter()
            .take_while(|byte| byte.is_ascii_hexdigit())
            .count();
        if digits == 0 || digits > SIZE_DIGITS_MAX {
            return Err(Invalid);
        }
        // Blanks before an extension are bad style, and seen.
        let extension = line[digits..].trim_ascii();
        if !extension.is_empty() && extension[0] != b';' {
            return Err(Invalid);
        }
        self.extra(line.len() - digits)?;
        let size = std::str::from_utf8(&line[..digits])
            .ok()
            .and_then(|digits| u64::from_str_radix(digits, 16).ok())
            .ok_or(Invalid)?;
        self.state = if size == 0 {
            State::Trailers
        } else {
            State::ChunkData(size)
        };
        Ok(true)
    }

    fn chunk_end(&mut self, came: &mut BytesMut) -> Result<bool, Invalid> {
        let Some(line) = self.line(came, 0)? else {
            return Ok(false);
        };
        if !line.is_empty() {
            return Err(Invalid);
        }
        self.state = State::ChunkSize;
        Ok(true)
    }

    /// Trailers are read and forgotten.
    fn trailer(&mut self, came: &mut BytesMut, plain: &mut BytesMut) -> Result<bool, Invalid> {
        let Some(line) = self.line(came, 0)? else {
            return Ok(false);
        };
        if line.is_empty() {
            plain.put_slice(LAST_CHUNK);
            self.state = State::Done;
        } else {
            self.extra(line.len())?;
        }
        Ok(true)
    }

    /// The next line without its end, once all of it is there. So much of it counts as no extra.
    fn line(&self, came: &mut BytesMut, free: usize) -> Result<Option<BytesMut>, Invalid> {
        let room = free + EXTRAS_BYTES_MAX - self.extras_bytes;
        // With the end of the line, which counts for nothing.
        let seen = &came[..came.len().min(room + 2)];
        let Some(end) = seen.iter().position(|byte| *byte == b'\n') else {
            return if came.len() > room + 1 {
                Err(Invalid)
            } else {
                Ok(None)
            };
        };
        let mut line = came.split_to(end + 1);
        line.truncate(end);
        if line.last() == Some(&b'\r') {
            line.truncate(end - 1);
        }
        if line.contains(&b'\r') {
            return Err(Invalid);
        }
        Ok(Some(line))
    }

    fn extra(&mut self, bytes: usize) -> Result<(), Invalid> {
        self.extras_bytes += bytes;
        if self.extras_bytes > EXTRAS_BYTES_MAX {
            return Err(Invalid);
        }
        Ok(())
    }
}

/// Moves up to `most` bytes; says how many.
fn take(most: u64, came: &mut BytesMut, plain: &mut BytesMut) -> u64 {
    let count = came.len().min(usize::try_from(most).unwrap_or(usize::MAX));
    plain.put_slice(&came.split_to(count));
    count as u64
}

/// Moves up to `most` bytes as a chunk; says how many.
fn chunk(most: u64, came: &mut BytesMut, plain: &mut BytesMut) -> u64 {
    let count = most.min(came.len() as u64);
    plain.put_slice(format!("{count:x}\r\n").as_bytes());
    take(count, came, plain);
    plain.put_slice(b"\r\n");
    count
}

/// What the head of a final answer means.
fn understood<'a>(status: u16, parsed: &httparse::Response<'_, 'a>) -> Result<Head<'a>, Invalid> {
    let (mut length, mut coding, mut close, mut retry_after) = (None, None, false, None);
    for header in parsed.headers.iter() {
        let value = header.value.trim_ascii();
        if header.name.eq_ignore_ascii_case("content-length") {
            let before = length.replace(whole(value)?);
            if before.is_some_and(|before| Some(before) != length) {
                return Err(Invalid);
            }
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            if coding.replace(value).is_some() {
                return Err(Invalid);
            }
        } else if header.name.eq_ignore_ascii_case("connection") {
            let mut words = value.split(|byte| *byte == b',');
            close |= words.any(|word| word.trim_ascii().eq_ignore_ascii_case(b"close"));
        } else if header.name.eq_ignore_ascii_case("retry-after") && retry_after.is_none() {
            retry_after = Some(value);
        }
    }
    let modern = parsed.version == Some(1);
    let framing = match (coding, length) {
        _ if status == 204 || status == 304 => State::Done,
        (Some(coding), _) if modern && coding.eq_ignore_ascii_case(b"chunked") => State::ChunkSize,
        (Some(_), _) => return Err(Invalid),
        (None, Some(0)) => State::Done,
        (None, Some(length)) => State::Sized(length),
        (None, None) => State::UntilClosed,
    };
    // Two lengths, or a length where there can be no body: what follows may be anything.
    let clear = match framing {
        State::Done => coding.is_none() && length.unwrap_or(0) == 0,
        State::ChunkSize => length.is_none(),
        State::Sized(_) => true,
        _ => false,
    };
    Ok(Head {
        status,
        retry_after,
        framing,
        keeps: modern && clear && !close,
    })
}

fn whole(digits: &[u8]) -> Result<u64, Invalid> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Invalid);
    }
    let digits = std::str::from_utf8(digits).map_err(|_| Invalid)?;
    digits.parse().map_err(|_| Invalid)
}

impl Head<'_> {
    fn write(&self, plain: &mut BytesMut) {
        plain.put_slice(format!("HTTP/1.1 {} \r\n", self.status).as_bytes());
        if let Some(value) = self.retry_after {
            plain.put_slice(b"retry-after: ");
            plain.put_slice(value);
            plain.put_slice(b"\r\n");
        }
        if !self.keeps {
            plain.put_slice(b"connection: close\r\n");
        }
        let framing = match self.framing {
            State::Sized(length) => format!("content-length: {length}\r\n\r\n"),
            State::ChunkSize | State::UntilClosed => {
                "transfer-encoding: chunked\r\n\r\n".to_owned()
            }
            _ => "content-length: 0\r\n\r\n".to_owned(),
        };
        plain.put_slice(framing.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What became of an answer that came in these pieces.
    #[derive(Debug, PartialEq, Eq)]
    struct Read {
        plain: Vec<u8>,
        done: bool,
        keeps: bool,
        left: Vec<u8>,
    }

    fn in_pieces<'a>(
        pieces: impl IntoIterator<Item = &'a [u8]>,
        closed: bool,
    ) -> Result<Read, Invalid> {
        let (mut answer, mut came, mut plain) = (Answer::new(), BytesMut::new(), BytesMut::new());
        for piece in pieces {
            came.extend_from_slice(piece);
            answer.read(&mut came, &mut plain)?;
        }
        if closed {
            answer.closed(&mut plain);
        }
        Ok(Read {
            plain: body(&plain),
            done: answer.is_done(),
            keeps: answer.keeps(),
            left: came.to_vec(),
        })
    }

    fn read(bytes: &[u8]) -> Result<Read, Invalid> {
        in_pieces([bytes], true)
    }

    /// The rewritten answer with the pieces of a chunked body joined: where they are cut is chance.
    fn body(plain: &[u8]) -> Vec<u8> {
        let Some(end) = plain.windows(4).position(|w| w == b"\r\n\r\n") else {
            return plain.to_vec();
        };
        let (head, mut rest) = plain.split_at(end + 4);
        let mut whole = head.to_vec();
        if !head.ends_with(b"chunked\r\n\r\n") {
            whole.extend_from_slice(rest);
            return whole;
        }
        while let Some(line) = rest.iter().position(|byte| *byte == b'\n') {
            let size = std::str::from_utf8(&rest[..line - 1]).expect("digits");
            let size = usize::from_str_radix(size, 16).expect("digits");
            whole.extend_from_slice(&rest[line + 1..line + 1 + size]);
            rest = &rest[line + 1 + size + 2..];
        }
        assert!(rest.is_empty(), "half a chunk was written");
        whole
    }

    fn text(read: Result<Read, Invalid>) -> (String, bool, bool) {
        let read = read.expect("an answer");
        assert!(read.left.is_empty(), "{read:?}");
        let plain = String::from_utf8(read.plain).expect("text");
        (plain.replace("\r\n", "|"), read.done, read.keeps)
    }

    #[test]
    fn an_answer_is_written_anew_in_the_plainest_form() {
        for (came, plain, keeps) in [
            (&b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nServer: x\r\n\r\nok"[..], "HTTP/1.1 200 |content-length: 2||ok", true),
            (b"HTTP/1.1 200 OK\nContent-Length : 2\n\nok", "HTTP/1.1 200 |content-length: 2||ok", true),
            (b"HTTP/1.1 200\r\ncontent-length: 2\r\ncontent-length: 2\r\n\r\nok", "HTTP/1.1 200 |content-length: 2||ok", true),
            (b"HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 204 |content-length: 0||", true),
            (b"HTTP/1.1 304 X\r\ncontent-length: 7\r\n\r\n", "HTTP/1.1 304 |connection: close|content-length: 0||", false),
            (
                b"HTTP/1.1 503 X\r\nRetry-After: 7\r\nRetry-After: 9\r\ncontent-length: 0\r\n\r\n",
                "HTTP/1.1 503 |retry-after: 7|content-length: 0||",
                true,
            ),
            (
                b"HTTP/1.1 200 OK\r\nconnection: x, Close\r\ncontent-length: 2\r\n\r\nok",
                "HTTP/1.1 200 |connection: close|content-length: 2||ok",
                false,
            ),
            (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n1 ;a=b\r\no\r\n01\r\nk\r\n0\r\nx-sum: 1\r\n\r\n",
                "HTTP/1.1 200 |transfer-encoding: chunked||ok",
                true,
            ),
            (
                b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 9\r\n\r\n2\r\nok\r\n0\r\n\r\n",
                "HTTP/1.1 200 |connection: close|transfer-encoding: chunked||ok",
                false,
            ),
            (b"HTTP/1.1 200 OK\r\n\r\nok", "HTTP/1.1 200 |connection: close|transfer-encoding: chunked||ok", false),
            (b"HTTP/1.0 200 OK\r\n\r\n", "HTTP/1.1 200 |connection: close|transfer-encoding: chunked||", false),
            (
                b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok",
                "HTTP/1.1 200 |connection: close|content-length: 2||ok",
                false,
            ),
        ] {
            let shown = String::from_utf8_lossy(came).into_owned();
            assert_eq!(text(read(came)), (plain.to_owned(), true, keeps), "{shown}");
        }
    }

    #[test]
    fn interim_answers_are_skipped_up_to_a_bound() {
        let last = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
        for interim in [
            &b"HTTP/1.1 100 Continue\r\n\r\n"[..],
            b"HTTP/1.1 102 Processing\r\n\r\n",
            b"HTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\ncontent-length: 5\r\n\r\n",
        ] {
            let most = [interim.repeat(32), last.to_vec()].concat();
            let plain = "HTTP/1.1 200 |content-length: 2||ok".to_owned();
            assert_eq!(text(read(&most)), (plain, true, true));
            let more = [interim.repeat(33), last.to_vec()].concat();
            assert_eq!(read(&more), Err(Invalid));
        }
        let large = [
            b"HTTP/1.1 103 X\r\nx: ".to_vec(),
            vec![b'y'; 40_000],
            b"\r\n\r\n".to_vec(),
        ]
        .concat();
        assert!(read(&[large.as_slice(), last].concat()).is_ok());
        assert_eq!(
            read(&[large.as_slice(), &large, last].concat()),
            Err(Invalid)
        );
    }

    #[test]
    fn what_is_no_answer_is_refused_as_soon_as_it_shows() {
        for came in [
            &b"SSH"[..],
            b"\r\n",
            b"HTTP/2",
            b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n",
            b"HTTP/1.1 099 X\r\n\r\n",
            b"HTTP/1.1 9999 X\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nbad header\r\n\r\n",
            b"HTTP/1.1 200 OK\r\n folded: x\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: +1\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: 1, 1\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n",
            b"HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nx\r\n",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n-1\r\n",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1 1\r\n",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n11111111111111111\r\n",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nab\r\n",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;a\rb\r\n",
        ] {
            let shown = String::from_utf8_lossy(came).into_owned();
            assert_eq!(in_pieces([came], false), Err(Invalid), "{shown}");
        }
    }

    #[test]
    fn heads_extensions_and_trailers_are_bounded() {
        let head = b"HTTP/1.1 200 OK\r\nx: ".to_vec();
        let endless = [head.as_slice(), &vec![b'y'; HEADS_BYTES_MAX]].concat();
        assert_eq!(in_pieces([endless.as_slice()], false), Err(Invalid));
        let many = [
            &b"HTTP/1.1 200 OK\r\n"[..],
            &b"x: y\r\n".repeat(HEADERS_MAX + 1),
            b"\r\n",
        ]
        .concat();
        assert_eq!(in_pieces([many.as_slice()], false), Err(Invalid));

        let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let extras = |extensions: usize, trailers: usize| {
            let extension = [
                b"1;".to_vec(),
                vec![b'e'; extensions],
                b"\r\nx\r\n".to_vec(),
            ]
            .concat();
            let trailer = [vec![b't'; trailers], b"\r\n\r\n".to_vec()].concat();
            [&chunked[..], &extension, b"0\r\n", &trailer].concat()
        };
        assert!(read(&extras(8_000, 8_383)).is_ok_and(|read| read.done));
        for (extensions, trailers) in [(8_000, 8_384), (EXTRAS_BYTES_MAX, 0), (0, EXTRAS_BYTES_MAX)]
        {
            assert_eq!(read(&extras(extensions, trailers)), Err(Invalid));
        }
        let dripped = [&chunked[..], &b"1;eeeeeeee\r\nx\r\n".repeat(2_000)].concat();
        assert_eq!(in_pieces([dripped.as_slice()], false), Err(Invalid));
        // Without an end: refused before more than the bound is kept.
        let line = [
            &chunked[..],
            b"1;",
            &vec![b'e'; EXTRAS_BYTES_MAX + SIZE_DIGITS_MAX + 2],
        ]
        .concat();
        assert_eq!(in_pieces([line.as_slice()], false), Err(Invalid));
    }

    #[test]
    fn what_breaks_off_is_not_done_and_what_follows_is_left() {
        for half in [
            &b""[..],
            b"HTTP/1.1 200 OK\r\n",
            b"HTTP/1.1 100 Continue\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n",
        ] {
            let read = read(half).expect("nothing wrong so far");
            assert!(!read.done, "{read:?}");
        }
        let twice = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok".repeat(2);
        let left = read(&twice).expect("an answer").left;
        assert_eq!(left, twice[twice.len() / 2..]);
    }

    proptest! {
        #[test]
        fn where_packets_are_cut_makes_no_difference(
            interims in 0..3_usize,
            body in proptest::collection::vec(any::<u8>(), 0..40),
            kind in 0..3,
            after in proptest::collection::vec(any::<u8>(), 0..4),
            cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..12),
        ) {
            let mut came = b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n".repeat(interims);
            match kind {
                0 => came.extend(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len()).bytes()),
                1 => came.extend(b"HTTP/1.1 200 OK\r\n\r\n"),
                _ => {
                    came.extend(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
                    for piece in body.chunks(7) {
                        came.extend(format!("{:X};e=1\r\n", piece.len()).bytes());
                        came.extend(piece);
                        came.extend(b"\r\n");
                    }
                    came.extend(b"0\r\nx-t: 1\r\n\r\n");
                }
            }
            if kind != 2 {
                came.extend(&body);
            }
            came.extend(&after);
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(came.len())).collect();
            at.extend([0, came.len()]);
            at.sort_unstable();
            let pieces = at.windows(2).map(|w| &came[w[0]..w[1]]);
            let read = in_pieces(pieces, true).expect("an answer");
            prop_assert!(read.done);
            prop_assert_eq!(&read, &in_pieces([came.as_slice()], true).expect("an answer"));
            let expected = if kind == 1 { [body.as_slice(), &after].concat() } else { body };
            prop_assert!(read.plain.ends_with(&expected));
            if kind != 1 {
                prop_assert_eq!(read.left, after);
            }
        }

        #[test]
        fn nothing_that_comes_is_too_much(
            begins in any::<bool>(),
            pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 0..20),
        ) {
            let begin: &[u8] = if begins { b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" } else { b"" };
            let _ = in_pieces(std::iter::once(begin).chain(pieces.iter().map(Vec::as_slice)), true);
        }
    }
}
