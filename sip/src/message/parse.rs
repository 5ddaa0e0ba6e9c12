//! Parses messages. The headers of a broken request are returned where possible, so that it can be answered.

use super::{
    Headers, Method, SipMessage, SipRequest, SipResponse, Uri,
    headers::{is_token, long_name, read_headers},
};

/// Limit of a whole message.
pub const MESSAGE_BYTES_MAX: usize = 65_536;
/// Limit of start line and headers.
pub const HEAD_BYTES_MAX: usize = 32_768;

/// A message that is malformed, or of another version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenMessage {
    /// 400, 416 or 505.
    pub status: u16,
    pub words: &'static str,
    /// Headers of a broken request; without them nothing is answered.
    pub request: Option<Headers>,
}

fn broken(words: &'static str) -> BrokenMessage {
    BrokenMessage {
        status: 400,
        words,
        request: None,
    }
}

/// The end of the head and the beginning of the body, once both line ends have come. The search begins at `from`. Lines may end
/// without a carriage return.
pub fn head_end(bytes: &[u8], from: usize) -> Option<(usize, usize)> {
    let (at, rest) = (from..bytes.len())
        .filter(|at| bytes[*at] == b'\n')
        .find_map(|at| match &bytes[at + 1..] {
            [b'\n', ..] => Some((at, at + 2)),
            [b'\r', b'\n', ..] => Some((at, at + 3)),
            _ => None,
        })?;
    Some((at - usize::from(bytes[..at].ends_with(b"\r")), rest))
}

fn lines(head: &str) -> impl Iterator<Item = &str> {
    head.split('\n')
        .map(|line| line.strip_suffix('\r').unwrap_or(line))
}

/// The length of the body by Content-Length; `None` without the header.
pub fn body_length(head: &[u8]) -> Result<Option<usize>, BrokenMessage> {
    let mut found: Option<usize> = None;
    for value in values(&unfolded(head), "Content-Length") {
        let length = value
            .parse()
            .map_err(|_| broken("Content-Length is not a length"))?;
        if found.is_some_and(|other| other != length) {
            return Err(broken("Content-Length is there twice"));
        }
        found = Some(length);
    }
    Ok(found)
}

/// True if a body is announced without a length: then it ends only with the datagram.
pub fn lacks_length(head: &[u8]) -> bool {
    let head = unfolded(head);
    let has = |name| values(&head, name).next().is_some();
    has("Content-Type") && !has("Content-Length")
}

fn unfolded(head: &[u8]) -> String {
    let text = String::from_utf8_lossy(head);
    text.replace("\r\n", "\n")
        .replace("\n ", " ")
        .replace("\n\t", " ")
}

/// The values of the headers of this name, in long or short form.
fn values<'a>(head: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    let named = lines(head).skip(1).filter_map(|line| line.split_once(':'));
    named
        .filter(move |(held, _)| long_name(held.trim()).eq_ignore_ascii_case(name))
        .map(|(_, value)| value.trim())
}

/// Parses one message.
///
/// Errors: the fault, with the headers of a request where they can be read.
pub fn parse(bytes: &[u8]) -> Result<SipMessage, BrokenMessage> {
    let start = bytes
        .iter()
        .position(|byte| !matches!(byte, b'\r' | b'\n'))
        .ok_or(broken("nothing but line ends"))?;
    let bytes = &bytes[start..];
    if bytes.len() > MESSAGE_BYTES_MAX {
        return Err(broken("the message is too long"));
    }
    let (end, rest) = head_end(bytes, 0).ok_or(broken("the headers do not end"))?;
    if end > HEAD_BYTES_MAX {
        return Err(broken("the headers are too long"));
    }
    let head = String::from_utf8_lossy(&bytes[..end]);
    let mut lines = lines(&head);
    let first = lines.next().unwrap_or_default();
    let (headers, fault) = read_headers(lines);
    let fault = fault.map(broken);
    let is_response = first.starts_with("SIP/");
    let of_request = |mut fault: BrokenMessage| {
        fault.request = (!is_response).then(|| headers.clone());
        fault
    };
    if let Some(fault) = fault {
        return Err(of_request(fault));
    }
    let body = &bytes[rest..];
    if body.is_empty() && lacks_length(&bytes[..end]) {
        return Err(of_request(broken("Content-Length is missing")));
    }
    let length = body_length(&bytes[..end])
        .map_err(of_request)?
        .unwrap_or(body.len());
    // Bytes of a datagram beyond its message are ignored.
    let body = body
        .get(..length)
        .ok_or_else(|| of_request(broken("the body is shorter than Content-Length")))?
        .to_vec();
    if is_response {
        let (status, reason) = read_status(first)?;
        return Ok(SipMessage::Response(SipResponse {
            status,
            reason,
            headers,
            body,
        }));
    }
    let (method, uri) = read_request(first).map_err(of_request)?;
    Ok(SipMessage::Request(SipRequest {
        method,
        uri,
        headers,
        body,
    }))
}

fn read_status(line: &str) -> Result<(u16, String), BrokenMessage> {
    let mut words = line.splitn(3, ' ');
    let version = words.next().unwrap_or_default();
    let status = words.next().unwrap_or_default();
    if !version.eq_ignore_ascii_case("SIP/2.0") {
        return Err(broken("the version is not SIP/2.0"));
    }
    let status = status
        .parse()
        .ok()
        .filter(|status| (100..700).contains(status))
        .ok_or(broken("the status is none"))?;
    Ok((status, words.next().unwrap_or_default().to_owned()))
}

fn read_request(line: &str) -> Result<(Method, Uri), BrokenMessage> {
    let mut words = line.split(' ');
    let (Some(method), Some(uri), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(broken("the request line has not three words"));
    };
    if !is_token(method) {
        return Err(broken("the method is none"));
    }
    if !version.eq_ignore_ascii_case("SIP/2.0") {
        let other = version
            .get(..4)
            .is_some_and(|start| start.eq_ignore_ascii_case("SIP/"));
        return Err(BrokenMessage {
            status: if other { 505 } else { 400 },
            ..broken("the version is not SIP/2.0")
        });
    }
    let uri: Uri = uri
        .parse()
        .map_err(|()| broken("the Request-URI is none"))?;
    if uri.headers.is_some() {
        return Err(broken("the Request-URI has headers"));
    }
    if !matches!(uri.scheme.as_str(), "sip" | "sips" | "tel") {
        return Err(BrokenMessage {
            status: 416,
            ..broken("the Request-URI's scheme is not served")
        });
    }
    Ok((Method::of(method), uri))
}
