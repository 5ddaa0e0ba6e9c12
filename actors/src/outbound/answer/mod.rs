//! Reads the answer to one request from a connection and rewrites it as the plainest HTTP/1.1. So later readers can
//! neither see an interim answer nor read past the end. Pure.
//!
//! It accepts what RFC 9112 allows: interim answers, then a head whose body has a length, comes in chunks or ends
//! with the connection.

mod head;

use bytes::{Buf, BufMut, BytesMut};

use self::head::{HEADERS_MAX, understood};

/// Limit of interim answers (100, 102, 103 and others) before the final one.
const INTERIM_MAX: u32 = 32;
/// Limit of all heads of an answer, including interim ones, in bytes.
const HEADS_BYTES_MAX: usize = 64 * 1024;
/// Limit of chunk extensions and trailers, in bytes.
const EXTRAS_BYTES_MAX: usize = 16 * 1024;
/// Limit of a chunk size's hexadecimal digits: 64 bits.
const SIZE_DIGITS_MAX: usize = 16;
/// The beginning of every answer.
const BEGINNING: &[u8] = b"HTTP/1.";
/// The end of a chunked body.
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// The bytes are no HTTP/1.1 answer, or exceed a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InvalidAnswer;

/// The progress of reading an answer.
#[derive(Debug)]
pub(super) struct AnswerReader {
    state: State,
    interim: u32,
    heads_bytes: usize,
    /// Bytes of the present head already searched for its end.
    searched: usize,
    extras_bytes: usize,
    /// True if the server promised to accept another request on this connection.
    keeps: bool,
}

/// The part that comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    FinalHead,
    /// A body with this many bytes left.
    Sized(u64),
    /// A body that ends when the server closes the connection.
    UntilClosed,
    ChunkSize,
    ChunkData(u64),
    ChunkEnd,
    Trailers,
    Done,
}

impl AnswerReader {
    pub(super) const fn new() -> Self {
        Self {
            state: State::FinalHead,
            interim: 0,
            heads_bytes: 0,
            searched: 0,
            extras_bytes: 0,
            keeps: false,
        }
    }

    /// True once the whole answer was read.
    pub(super) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// True if the connection may carry another request, once this answer is done and nothing follows it.
    pub(super) const fn keeps(&self) -> bool {
        self.keeps
    }

    /// Moves complete parts of the answer from `came` to `plain`. Bytes after the end of the answer stay in `came`.
    pub(super) fn read(
        &mut self,
        came: &mut BytesMut,
        plain: &mut BytesMut,
    ) -> Result<(), InvalidAnswer> {
        while !came.is_empty() && !self.is_done() {
            let goes_on = match self.state {
                State::FinalHead => self.head(came, plain)?,
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

    /// Handles the end of the connection. Returns true if the answer is complete by that.
    pub(super) fn closed(&mut self, plain: &mut BytesMut) -> bool {
        if self.state == State::UntilClosed {
            plain.put_slice(LAST_CHUNK);
            self.state = State::Done;
        }
        self.is_done()
    }

    /// As its siblings below, returns false if more bytes are needed.
    fn head(&mut self, came: &mut BytesMut, plain: &mut BytesMut) -> Result<bool, InvalidAnswer> {
        let begun = came.len().min(BEGINNING.len());
        if came[..begun] != BEGINNING[..begun] {
            return Err(InvalidAnswer);
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
        let status = parsed.code.filter(|_| complete).ok_or(InvalidAnswer)?;
        match status {
            // A connection that switches protocols is of no use.
            101 | 0..=99 => return Err(InvalidAnswer),
            100..=199 => {
                self.interim += 1;
                if self.interim > INTERIM_MAX {
                    return Err(InvalidAnswer);
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

    /// The length of the head at the start of `came`, once its end has arrived.
    fn head_length(&mut self, came: &[u8]) -> Result<Option<usize>, InvalidAnswer> {
        // The end may begin in bytes searched before: `\n`, perhaps `\r`, `\n`.
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
            return Err(InvalidAnswer);
        }
        if end.is_some() {
            self.heads_bytes = bytes;
        }
        Ok(end)
    }

    fn chunk_size(&mut self, came: &mut BytesMut) -> Result<bool, InvalidAnswer> {
        let Some(line) = self.line(came, SIZE_DIGITS_MAX)? else {
            return Ok(false);
        };
        let digits = line
            .iter()
            .take_while(|byte| byte.is_ascii_hexdigit())
            .count();
        if digits == 0 || digits > SIZE_DIGITS_MAX {
            return Err(InvalidAnswer);
        }
        // Some servers put blanks before an extension.
        let extension = line[digits..].trim_ascii();
        if !extension.is_empty() && extension[0] != b';' {
            return Err(InvalidAnswer);
        }
        self.extra(line.len() - digits)?;
        let size = std::str::from_utf8(&line[..digits])
            .ok()
            .and_then(|digits| u64::from_str_radix(digits, 16).ok())
            .ok_or(InvalidAnswer)?;
        self.state = if size == 0 {
            State::Trailers
        } else {
            State::ChunkData(size)
        };
        Ok(true)
    }

    fn chunk_end(&mut self, came: &mut BytesMut) -> Result<bool, InvalidAnswer> {
        let Some(line) = self.line(came, 0)? else {
            return Ok(false);
        };
        if !line.is_empty() {
            return Err(InvalidAnswer);
        }
        self.state = State::ChunkSize;
        Ok(true)
    }

    /// Trailers are discarded.
    fn trailer(
        &mut self,
        came: &mut BytesMut,
        plain: &mut BytesMut,
    ) -> Result<bool, InvalidAnswer> {
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

    /// The next line without its line end, once complete. The first `free` bytes do not count as extras.
    fn line(&self, came: &mut BytesMut, free: usize) -> Result<Option<BytesMut>, InvalidAnswer> {
        let room = free + EXTRAS_BYTES_MAX - self.extras_bytes;
        // Including the line end, which does not count.
        let seen = &came[..came.len().min(room + 2)];
        let Some(end) = seen.iter().position(|byte| *byte == b'\n') else {
            return if came.len() > room + 1 {
                Err(InvalidAnswer)
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
            return Err(InvalidAnswer);
        }
        Ok(Some(line))
    }

    fn extra(&mut self, bytes: usize) -> Result<(), InvalidAnswer> {
        self.extras_bytes += bytes;
        if self.extras_bytes > EXTRAS_BYTES_MAX {
            return Err(InvalidAnswer);
        }
        Ok(())
    }
}

/// Moves up to `most` bytes and returns their number.
fn take(most: u64, came: &mut BytesMut, plain: &mut BytesMut) -> u64 {
    let count = came.len().min(usize::try_from(most).unwrap_or(usize::MAX));
    plain.put_slice(&came.split_to(count));
    count as u64
}

/// Moves up to `most` bytes as a chunk and returns their number.
fn chunk(most: u64, came: &mut BytesMut, plain: &mut BytesMut) -> u64 {
    let count = most.min(came.len() as u64);
    plain.put_slice(format!("{count:x}\r\n").as_bytes());
    take(count, came, plain);
    plain.put_slice(b"\r\n");
    count
}

#[cfg(test)]
mod tests;
