//! The kept form of a message: everything but secrets. Pure.
//!
//! Of credentials the parts that prove nothing are kept. Of bodies only SDP and the progress of a transfer are kept, without keys:
//! others may hold what a caller typed. `Identity` (RFC 8224) has the numbers in a form that cannot be masked.

use std::borrow::Cow;

use crate::message::{Headers, SipMessage, head_end, parse, take_sdp};

/// A longer message is cut.
const MESSAGE_BYTES_MAX: usize = 8_192;

/// Headers with digests of passwords.
const PROOFS: [&str; 4] = [
    "Authorization",
    "Proxy-Authorization",
    "Authentication-Info",
    "Proxy-Authentication-Info",
];
/// The parts of credentials that are kept.
const HARMLESS: [&str; 6] = ["username", "realm", "uri", "algorithm", "qop", "nc"];
/// Names of extension headers with secrets contain one of these.
const SECRETS: [&str; 5] = ["password", "secret", "token", "cookie", "api-key"];
/// The text before the user of a URI.
const BEFORE_USER: [&str; 3] = ["sip:", "sips:", "://"];
const SDP: &str = "application/sdp";
/// The text before a key, which ends the line.
const KEYS: [&str; 3] = ["inline:", "key-mgmt:", "ice-pwd:"];

/// The message as it is kept.
pub fn kept(bytes: &[u8]) -> String {
    // As the parser reads it: blank lines may come before, and lines may end without a carriage return.
    let blank = bytes.iter().take_while(|byte| b"\r\n".contains(byte));
    let bytes = &bytes[blank.count()..];
    let (end, _) = head_end(bytes, 0).unwrap_or((bytes.len(), bytes.len()));
    let head = String::from_utf8_lossy(&bytes[..end.min(MESSAGE_BYTES_MAX)]);
    let (headers, body) = match parse(bytes) {
        Ok(SipMessage::Request(request)) => (request.headers, request.body),
        Ok(SipMessage::Response(response)) => (response.headers, response.body),
        Err(_) => (Headers::default(), Vec::new()),
    };
    let (kind, body) = kept_body(
        headers,
        body,
        MESSAGE_BYTES_MAX - head.len().min(MESSAGE_BYTES_MAX),
    );
    let mut out = String::with_capacity(head.len() + body.len());
    for line in unfolded(&head) {
        match header(&line) {
            Some((name, value)) if PROOFS.iter().any(|proof| is(name, proof, "")) => {
                out.push_str(&format!("{name}: {}", without_proof(value)));
            }
            Some((name, _)) if is(name, "Identity", "y") || is_secret(name) => {
                out.push_str(&format!("{name}: *"));
            }
            Some((name, _)) if is(name, "Content-Length", "l") => {
                out.push_str(&format!("{name}: {}", body.len()));
            }
            Some((name, value)) if is(name, "Content-Type", "c") && is_multipart(value) => {
                out.push_str(&format!("{name}: {kind}"));
            }
            _ => out.push_str(&without_passwords(without_key(&line).as_ref())),
        }
        out.push_str("\r\n");
    }
    out.push_str("\r\n");
    out + &body
}

/// The type of the body, and what is kept of it. A body of several parts is reduced to its SDP.
fn kept_body(mut headers: Headers, mut body: Vec<u8>, most: usize) -> (String, String) {
    take_sdp(&mut headers, &mut body);
    body.truncate(most);
    let kind = headers.media_type();
    let body = String::from_utf8_lossy(&body);
    let body = match kind.as_str() {
        SDP => without_keys(&body),
        "message/sipfrag" => {
            without_passwords(&without_key(body.lines().next().unwrap_or_default()))
        }
        _ => String::new(),
    };
    (kind, body)
}

fn is_multipart(kind: &str) -> bool {
    let multipart = kind.get(.."multipart/".len());
    multipart.is_some_and(|kind| kind.eq_ignore_ascii_case("multipart/"))
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRETS.iter().any(|secret| name.contains(secret))
}

/// The line without passwords in its URIs: `sip:ayu:secret@b`, `http://ayu:secret@b/x`.
fn without_passwords(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    // Each piece after the first follows an @.
    let mut pieces = line.split('@').peekable();
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            out.push_str(piece);
            break;
        }
        let lower = piece.to_ascii_lowercase();
        let user = BEFORE_USER.iter().filter_map(|scheme| {
            let at = lower.rfind(scheme)?;
            Some(at + scheme.len())
        });
        let user = user.max().unwrap_or(piece.len());
        let user_end = piece[user..].find([':', ' ', '>', '"']);
        match user_end.map(|end| user + end) {
            Some(end) if piece[end..].starts_with(':') => {
                out.push_str(&piece[..=end]);
                out.push('*');
            }
            _ => out.push_str(piece),
        }
        out.push('@');
    }
    out
}

/// The lines of a head. A folded line is joined to the one that it continues.
fn unfolded(head: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in head.split('\n') {
        let line = line.strip_suffix('\r').unwrap_or(line);
        match lines.last_mut() {
            Some(last) if line.starts_with([' ', '\t']) => {
                last.push(' ');
                last.push_str(line.trim());
            }
            _ => lines.push(line.to_owned()),
        }
    }
    lines
}

fn header(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(':')?;
    Some((name.trim(), value.trim()))
}

fn is(name: &str, long: &str, short: &str) -> bool {
    name.eq_ignore_ascii_case(long) || name.eq_ignore_ascii_case(short)
}

/// Credentials without what proves a password.
fn without_proof(value: &str) -> String {
    let (scheme, parts) = match value.split_once(' ') {
        Some((scheme, parts)) if !scheme.contains('=') => (scheme, parts),
        _ => ("", value),
    };
    let is_digest = scheme.is_empty() || scheme.eq_ignore_ascii_case("Digest");
    let harmless = |part: &&str| {
        let name = part.split('=').next().unwrap_or_default().trim();
        HARMLESS.iter().any(|kept| name.eq_ignore_ascii_case(kept))
    };
    let parts = parts.split(',').map(str::trim);
    let kept: Vec<&str> = parts.filter(harmless).filter(|_| is_digest).collect();
    format!("{scheme} {}", kept.join(", ")).trim().to_owned()
}

/// An SDP without keys of media (RFC 4568, RFC 4567, RFC 8866, RFC 8839, RFC 5939). A line that is no field may hold anything.
fn without_keys(sdp: &str) -> String {
    let mut out = String::with_capacity(sdp.len());
    for line in sdp.split_inclusive('\n') {
        let (text, end) = line.split_at(line.trim_end_matches(['\r', '\n']).len());
        let is_field = text.get(1..).is_some_and(|rest| rest.starts_with('='));
        let shown = match text {
            _ if text.starts_with(['k', 'K']) && is_field => Cow::Owned(masked_after(text, 2)),
            _ if !is_field => Cow::Owned(masked_after(text, 0)),
            _ => without_key(text),
        };
        out.push_str(&without_passwords(&shown));
        out.push_str(end);
    }
    out
}

/// The line without a key of media, which ends it. Some gateways put keys into headers of their own.
fn without_key(line: &str) -> Cow<'_, str> {
    let lower = line.to_ascii_lowercase();
    let key = KEYS.iter().filter_map(|name| {
        let at = lower.find(name)?;
        Some(at + name.len())
    });
    match key.min() {
        Some(key) => Cow::Owned(masked_after(line, key)),
        None => Cow::Borrowed(line),
    }
}

/// The first bytes of a line, and a mask in place of the rest.
fn masked_after(line: &str, bytes: usize) -> String {
    match line.get(bytes..) {
        Some("") | None => line.to_owned(),
        Some(_) => format!("{}*", &line[..bytes]),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::kept;

    #[test]
    fn secrets_are_removed_and_the_rest_stays() {
        let sdp = "v=0\r\nc=IN IP4 192.0.2.1\r\nm=audio 20000 RTP/SAVP 8\r\na=crypto:1 AES_CM_128_HMAC_SHA1_80 \
            inline:GEHEIM|2^31|1:1;inline:GEHEIM2 UNENCRYPTED_SRTP\r\nA=CRYPTO:2 X INLINE:GEHEIM\r\nk=clear:GEHEIM\r\n\
            a=key-mgmt:mikey GEHEIM\r\na=acap:1 key-mgmt:mikey GEHEIM\r\na=ice-pwd:GEHEIM\r\n k=clear:GEHEIM\r\na=sendrecv\r\n";
        let message = format!(
            "INVITE sip:+622150001000@192.0.2.1 SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.7;branch=z9hG4bK1\r\n\
             Proxy-Authorization: Digest username=\"ayu\", realm=\"dikala\",\r\n nonce=\"n\", response=\"GEHEIM\", cnonce=\"GEHEIM\"\r\n\
             authorization: Basic GEHEIM\r\nX-Auth-Token: GEHEIM\r\nContact: <sip:ayu:GEHEIM@192.0.2.7:5060>\r\nAuthentication-Info: rspauth=\"GEHEIM\", qop=auth\r\n\
             c: application/sdp\r\nl: {}\r\n\r\n{sdp}",
            sdp.len()
        );
        let kept = kept(message.as_bytes());
        let body = "v=0\r\nc=IN IP4 192.0.2.1\r\nm=audio 20000 RTP/SAVP 8\r\na=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:*\r\n\
            A=CRYPTO:2 X INLINE:*\r\nk=*\r\na=key-mgmt:*\r\n\
            a=acap:1 key-mgmt:*\r\na=ice-pwd:*\r\n*\r\na=sendrecv\r\n";
        let expected = format!(
            "INVITE sip:+622150001000@192.0.2.1 SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.7;branch=z9hG4bK1\r\n\
             Proxy-Authorization: Digest username=\"ayu\", realm=\"dikala\"\r\nauthorization: Basic\r\n\
             X-Auth-Token: *\r\nContact: <sip:ayu:*@192.0.2.7:5060>\r\n\
             Authentication-Info: qop=auth\r\nc: application/sdp\r\nl: {}\r\n\r\n{body}",
            body.len()
        );
        assert_eq!(kept, expected);
    }

    /// The parser accepts these line ends, too.
    #[test]
    fn secrets_are_removed_whatever_the_line_ends() {
        let message = "\r\nINVITE sip:a@b SIP/2.0\nAuthorization: Digest username=\"ayu\", response=\"GEHEIM\"\nIdentity: GEHEIM\n\
            Content-Type: application/sdp\n{end}v=0\na=crypto:1 X inline:GEHEIM\n";
        for end in ["\n", "\r\n"] {
            let kept = kept(message.replace("{end}", end).as_bytes());
            assert!(
                kept.starts_with("INVITE ") && kept.ends_with("inline:*\n"),
                "{kept}"
            );
            assert!(!kept.contains("GEHEIM"), "{kept}");
        }
        let typed = "INFO sip:a@b SIP/2.0\nContent-Type: application/dtmf-relay\n\nSignal=5";
        assert!(!kept(typed.as_bytes()).contains("Signal"));
    }

    #[test]
    fn a_body_that_may_hold_what_a_caller_typed_is_not_kept() {
        let message = "INFO sip:a@b SIP/2.0\r\nContent-Type: application/dtmf-relay\r\nContent-Length: 22\r\n\r\nSignal=5\r\nDuration=160";
        let kept = kept(message.as_bytes());
        assert!(
            !kept.contains("Signal") && kept.contains("Content-Length: 0\r\n"),
            "{kept}"
        );
        let message = "NOTIFY sip:a@b SIP/2.0\r\nContent-Type: message/sipfrag;version=2.0\r\n\r\nSIP/2.0 200 OK";
        assert!(super::kept(message.as_bytes()).ends_with("SIP/2.0 200 OK"));
    }

    #[test]
    fn of_a_body_of_several_parts_the_sdp_is_kept() {
        let sdp = "v=0\r\na=crypto:1 X inline:GEHEIM\r\n";
        let body = format!(
            "--b\r\nContent-Type: application/isup\r\n\r\nGEHEIM\r\n--b\r\nContent-Type: application/sdp\r\n\r\n{sdp}\r\n--b--\r\n"
        );
        for name in ["Content-Type", "c"] {
            let message = format!(
                "INVITE sip:a@b SIP/2.0\r\n{name}: Multipart/Mixed; boundary=b\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            let kept = kept(message.as_bytes());
            let body = "v=0\r\na=crypto:1 X inline:*\r\n";
            let expected = format!(
                "INVITE sip:a@b SIP/2.0\r\n{name}: application/sdp\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            assert_eq!(kept, expected);
        }
        // A compressed or encoded SDP may hold keys, too.
        let encoded = "INVITE sip:a@b SIP/2.0\r\nContent-Type: application/sdp\r\n\r\ndj0wDQphPWNyeXB0bzox\r\n";
        assert!(super::kept(encoded.as_bytes()).ends_with("\r\n\r\n*\r\n"));
    }

    #[test]
    fn passwords_of_addresses_are_removed() {
        for (line, shown) in [
            ("sip:ayu:x@b", "sip:ayu:*@b"),
            (
                "<SIPS:ayu:x:y@b:5061>, <sip:budi:z@c>",
                "<SIPS:ayu:*@b:5061>, <sip:budi:*@c>",
            ),
            ("sip:ayu@b:5060 SIP/2.0", "sip:ayu@b:5060 SIP/2.0"),
            (
                "\"a: b@c\" <sip:ayu@[::1]:5060>",
                "\"a: b@c\" <sip:ayu@[::1]:5060>",
            ),
            (
                "<sip:192.0.2.1:5060>, <sip:ayu@b>",
                "<sip:192.0.2.1:5060>, <sip:ayu@b>",
            ),
            (
                "Alert-Info: <http://ayu:x@b/ring>, <HTTPS://budi:y:z@c:8443/ring>",
                "Alert-Info: <http://ayu:*@b/ring>, <HTTPS://budi:*@c:8443/ring>",
            ),
            (
                "Call-Info: <http://b:8080/a>, <sip:ayu@c>, <ftp://:x@d>",
                "Call-Info: <http://b:8080/a>, <sip:ayu@c>, <ftp://:*@d>",
            ),
            (
                "Error-Info: <http://b:8080/a>",
                "Error-Info: <http://b:8080/a>",
            ),
        ] {
            assert_eq!(super::without_passwords(line), shown);
        }
    }

    #[test]
    fn keys_and_passwords_are_removed_wherever_they_stand() {
        let message = "NOTIFY sip:ayu:GEHEIM@b SIP/2.0\r\nX-Crypto: 1 AES_CM_128_HMAC_SHA1_80 INLINE:GEHEIM|2^31\r\n\
            X-Folded: 1 X\r\n inline:GEHEIM\r\nAlert-Info: <http://ayu:GEHEIM@b/x>\r\nSubject: inline\r\n";
        for (kind, body, shown) in [
            (
                "application/sdp",
                "v=0\r\nu=https://ayu:GEHEIM@b/\r\ns=inline:GEHEIM\r\n",
                "v=0\r\nu=https://ayu:*@b/\r\ns=inline:*\r\n",
            ),
            (
                "message/sipfrag",
                "SIP/2.0 302 <sip:ayu:GEHEIM@b>",
                "SIP/2.0 302 <sip:ayu:*@b>",
            ),
            (
                "message/sipfrag",
                "SIP/2.0 200 inline:GEHEIM",
                "SIP/2.0 200 inline:*",
            ),
        ] {
            let message = format!("{message}Content-Type: {kind}\r\n\r\n{body}");
            let expected = format!(
                "NOTIFY sip:ayu:*@b SIP/2.0\r\nX-Crypto: 1 AES_CM_128_HMAC_SHA1_80 INLINE:*\r\nX-Folded: 1 X inline:*\r\n\
                 Alert-Info: <http://ayu:*@b/x>\r\nSubject: inline\r\nContent-Type: {kind}\r\n\r\n{shown}"
            );
            assert_eq!(kept(message.as_bytes()), expected);
        }
    }

    #[test]
    fn a_long_message_is_cut() {
        let message = format!(
            "OPTIONS sip:a@b SIP/2.0\r\nX: {}\r\n\r\n",
            "x".repeat(100_000)
        );
        assert!(kept(message.as_bytes()).len() <= super::MESSAGE_BYTES_MAX + 4);
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_kept(bytes in proptest::collection::vec(any::<u8>(), 0..300), is_text: bool) {
            let bytes = match is_text {
                true => String::from_utf8_lossy(&bytes).replace('\u{fffd}', "\r\n").into_bytes(),
                false => bytes,
            };
            kept(&bytes);
        }
    }
}
