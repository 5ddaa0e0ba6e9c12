//! The final head of an answer: what it says of body and connection, and the same in its plainest form.

use bytes::{BufMut, BytesMut};

use super::{InvalidAnswer, State};

/// Maximum number of header lines in one head.
pub(super) const HEADERS_MAX: usize = 128;

/// The fields of a final head.
pub(super) struct FinalHead<'a> {
    status: u16,
    retry_after: Option<&'a [u8]>,
    pub(super) framing: State,
    pub(super) keeps: bool,
}

/// Interprets the head of a final answer.
pub(super) fn understood<'a>(
    status: u16,
    parsed: &httparse::Response<'_, 'a>,
) -> Result<FinalHead<'a>, InvalidAnswer> {
    let (mut length, mut coding, mut close, mut retry_after) = (None, None, false, None);
    for header in parsed.headers.iter() {
        let value = header.value.trim_ascii();
        if header.name.eq_ignore_ascii_case("content-length") {
            let before = length.replace(whole(value)?);
            if before.is_some_and(|before| Some(before) != length) {
                return Err(InvalidAnswer);
            }
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            if coding.replace(value).is_some() {
                return Err(InvalidAnswer);
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
        (Some(_), _) => return Err(InvalidAnswer),
        (None, Some(0)) => State::Done,
        (None, Some(length)) => State::Sized(length),
        (None, None) => State::UntilClosed,
    };
    // Two lengths, or a length without a body, are ambiguous: what follows may be anything.
    let clear = match framing {
        State::Done => coding.is_none() && length.unwrap_or(0) == 0,
        State::ChunkSize => length.is_none(),
        State::Sized(_) => true,
        _ => false,
    };
    Ok(FinalHead {
        status,
        retry_after,
        framing,
        keeps: modern && clear && !close,
    })
}

fn whole(digits: &[u8]) -> Result<u64, InvalidAnswer> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(InvalidAnswer);
    }
    let digits = std::str::from_utf8(digits).map_err(|_| InvalidAnswer)?;
    digits.parse().map_err(|_| InvalidAnswer)
}

impl FinalHead<'_> {
    pub(super) fn write(&self, plain: &mut BytesMut) {
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
