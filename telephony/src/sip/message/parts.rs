//! Bodies of several parts (RFC 5621): the session's description among them.

use super::{Headers, headers::read_headers};

const SDP: &str = "application/sdp";
/// Parts that are looked at.
const PARTS_MAX: usize = 16;
/// The longest that RFC 2046 lets a boundary be.
const BOUNDARY_BYTES_MAX: usize = 70;

/// Puts the SDP of a body of several parts in its place. Every other body stays as it is.
pub fn take_sdp(headers: &mut Headers, body: &mut Vec<u8>) {
    if !headers.media_type().starts_with("multipart/") {
        return;
    }
    let found = boundary(headers).and_then(|boundary| sdp(body, &boundary).map(<[u8]>::to_vec));
    if let Some(sdp) = found {
        *body = sdp;
        headers.set("Content-Type", SDP);
    }
}

/// The parameter that says what stands between parts.
fn boundary(headers: &Headers) -> Option<String> {
    let kind = headers.get("Content-Type")?;
    let boundary = kind.split(';').skip(1).find_map(|param| {
        let (name, value) = param.split_once('=')?;
        name.trim()
            .eq_ignore_ascii_case("boundary")
            .then(|| value.trim().trim_matches('"').to_owned())
    })?;
    (1..=BOUNDARY_BYTES_MAX)
        .contains(&boundary.len())
        .then_some(boundary)
}

/// The first part that is an SDP as it stands.
fn sdp<'a>(body: &'a [u8], boundary: &str) -> Option<&'a [u8]> {
    let delimiter = format!("--{boundary}");
    let mut rest = after(body, delimiter.as_bytes())?;
    for _ in 0..PARTS_MAX {
        if rest.starts_with(b"--") {
            return None;
        }
        let end = find(rest, delimiter.as_bytes())?;
        let part = rest[..end].strip_suffix(b"\r\n").unwrap_or(&rest[..end]);
        if let Some(content) = described(part) {
            return Some(content);
        }
        rest = &rest[end + delimiter.len()..];
    }
    None
}

/// What a part holds, if it is an SDP that nobody has packed.
fn described(part: &[u8]) -> Option<&[u8]> {
    let end = find(part, b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&part[..end]);
    let (headers, _) = read_headers(head.split("\r\n").skip(1));
    let is_plain = headers
        .get("Content-Transfer-Encoding")
        .is_none_or(|way| !way.eq_ignore_ascii_case("base64"));
    (headers.media_type() == SDP && is_plain).then(|| &part[end + 4..])
}

fn after<'a>(bytes: &'a [u8], what: &[u8]) -> Option<&'a [u8]> {
    find(bytes, what).map(|at| &bytes[at + what.len()..])
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|there| there == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(kind: &str, body: &str) -> (String, String) {
        let mut headers = Headers::default();
        headers.push("Content-Type", kind);
        let mut body = body.as_bytes().to_vec();
        take_sdp(&mut headers, &mut body);
        let body = String::from_utf8(body).expect("text");
        (headers.media_type(), body)
    }

    #[test]
    fn the_sdp_is_found_among_the_parts() {
        let parts = "preamble\r\n--b 1\r\nContent-Type: application/ISUP;version=x\r\n\r\n\x01\x02\r\n--b 1\r\n\
             content-type:\r\n APPLICATION/SDP\r\nContent-Disposition: session\r\n\r\nv=0\r\ns=-\r\n\r\n--b 1--\r\n";
        let sdp = ("application/sdp".to_owned(), "v=0\r\ns=-\r\n".to_owned());
        for kind in [
            "multipart/mixed;boundary=\"b 1\"",
            "Multipart/Mixed; charset=x; Boundary = \"b 1\"",
            "multipart/alternative;boundary=b 1",
        ] {
            assert_eq!(taken(kind, parts), sdp, "{kind}");
        }
        // Parts without headers begin with an empty line.
        let bare = "--x\r\n\r\nhello\r\n--x\r\nc: application/sdp\r\n\r\nv=0\r\n--x--";
        assert_eq!(taken("multipart/mixed;boundary=x", bare).1, "v=0");
    }

    #[test]
    fn what_holds_none_stays_as_it_is() {
        for (kind, body) in [
            (
                "multipart/mixed",
                "--x\r\nContent-Type: application/sdp\r\n\r\nv=0\r\n--x--",
            ),
            ("multipart/mixed;boundary=", "----"),
            ("multipart/mixed;boundary=x", ""),
            ("multipart/mixed;boundary=x", "--x"),
            (
                "multipart/mixed;boundary=x",
                "--x--\r\n--x\r\nc: application/sdp\r\n\r\nv=0\r\n--x--",
            ),
            (
                "multipart/mixed;boundary=x",
                "--x\r\nc: application/sdp\r\n\r\nv=0",
            ),
            (
                "multipart/mixed;boundary=x",
                "--x\r\nc: application/sdp\r\nContent-Transfer-Encoding: base64\r\n\r\ndj0w\r\n--x--",
            ),
            (
                "multipart/mixed;boundary=x",
                "--x\r\nc: text/plain\r\n\r\nhello\r\n--x--",
            ),
        ] {
            let (_, left) = taken(kind, body);
            assert_eq!(left, body, "{kind}");
        }
        let many =
            "--x\r\n\r\n\r\n".repeat(1_000) + "--x\r\nc: application/sdp\r\n\r\nv=0\r\n--x--";
        assert_eq!(taken("multipart/mixed;boundary=x", &many).1, many);
    }
}
