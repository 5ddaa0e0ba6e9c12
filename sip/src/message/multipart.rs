//! Multipart bodies (RFC 5621), one part of which is the SDP.

use super::{Headers, headers::read_headers};

const SDP: &str = "application/sdp";
/// Limits of parts over all nested bodies, and of nesting. So each byte is read a few times at most.
const PARTS_MAX: usize = 16;
const DEPTH_MAX: usize = 3;
/// The longest boundary (RFC 2046).
const BOUNDARY_BYTES_MAX: usize = 70;

/// Replaces a multipart body by its SDP. Every other body is left unchanged.
pub fn take_sdp(headers: &mut Headers, body: &mut Vec<u8>) {
    let mut left = PARTS_MAX;
    if let Some(sdp) = sdp(headers, body, DEPTH_MAX, &mut left).map(<[u8]>::to_vec) {
        *body = sdp;
        headers.set("Content-Type", SDP);
    }
}

/// The boundary parameter of a multipart body.
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

/// The first SDP part of a multipart body, or of a multipart body nested in it.
fn sdp<'a>(headers: &Headers, body: &'a [u8], depth: usize, left: &mut usize) -> Option<&'a [u8]> {
    if depth == 0 || !headers.media_type().starts_with("multipart/") {
        return None;
    }
    let delimiter = format!("--{}", boundary(headers)?);
    let first = match body.starts_with(delimiter.as_bytes()) {
        true => 0,
        false => line_with(body, &delimiter)?,
    };
    let mut rest = &body[first + delimiter.len()..];
    while *left > 0 && !rest.starts_with(b"--") {
        *left -= 1;
        let end = line_with(rest, &delimiter)?;
        let part = rest[..end].strip_suffix(b"\r\n").unwrap_or(&rest[..end]);
        if let Some(content) = described(part, depth, left) {
            return Some(content);
        }
        rest = &rest[end + delimiter.len()..];
    }
    None
}

/// The content of a part if it is an SDP without transfer encoding, or the SDP among its own parts.
fn described<'a>(part: &'a [u8], depth: usize, left: &mut usize) -> Option<&'a [u8]> {
    let end = part.windows(4).position(|there| there == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&part[..end]);
    let (headers, _) = read_headers(head.split("\r\n").skip(1));
    let content = &part[end + 4..];
    let is_plain = headers
        .get("Content-Transfer-Encoding")
        .is_none_or(|way| !way.eq_ignore_ascii_case("base64"));
    match is_plain && headers.media_type() == SDP {
        true => Some(content),
        false => sdp(&headers, content, depth - 1, left),
    }
}

/// Start of the first later line with this beginning.
fn line_with(bytes: &[u8], begins: &str) -> Option<usize> {
    let mut at = 0;
    loop {
        at += 1 + bytes[at..].iter().position(|byte| *byte == b'\n')?;
        if bytes[at..].starts_with(begins.as_bytes()) {
            return Some(at);
        }
    }
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

    /// Bodies nested `depth` deep, with an SDP in the innermost.
    fn nested(depth: usize) -> String {
        (1..depth).fold(
            "--i\r\nc: application/sdp\r\n\r\nv=0\r\n--i--".to_owned(),
            |inner, level| {
                let kind = match level {
                    1 => "i".to_owned(),
                    _ => format!("o{}", level - 1),
                };
                format!(
                    "--o{level}\r\nc: application/ISUP\r\n\r\n\x01\r\n--o{level}\r\n\
                     c: multipart/related;boundary={kind}\r\n\r\n{inner}\r\n--o{level}--"
                )
            },
        )
    }

    #[test]
    fn the_sdp_is_found_in_parts_of_parts() {
        for depth in [2, 3] {
            let kind = format!("multipart/mixed;boundary=o{}", depth - 1);
            assert_eq!(taken(&kind, &nested(depth)).1, "v=0", "{depth}");
        }
        for depth in [4, 500] {
            let kind = format!("multipart/mixed;boundary=o{}", depth - 1);
            assert_eq!(taken(&kind, &nested(depth)).1, nested(depth), "{depth}");
        }
        // A boundary counts only at the beginning of a line.
        let sdp = "v=0\r\ns=--x\r\na=--x--";
        let body = format!("see --x\r\n--x\r\nc: application/sdp\r\n\r\n{sdp}\r\n--x--");
        assert_eq!(taken("multipart/mixed;boundary=x", &body).1, sdp);
        // As many parts as are read in all.
        let inner = "--i\r\n\r\n\r\n".repeat(20) + "--i--";
        let body = format!(
            "--x\r\nc: multipart/mixed;boundary=i\r\n\r\n{inner}\r\n--x\r\nc: application/sdp\r\n\r\nv=0\r\n--x--"
        );
        assert_eq!(taken("multipart/mixed;boundary=x", &body).1, body);
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
