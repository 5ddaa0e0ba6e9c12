//! The kept form of a message: everything but secrets. Pure.
//!
//! Of credentials the parts that prove nothing are kept. Of bodies only SDP and the progress of a transfer are kept, without keys:
//! others may hold what a caller typed. `Identity` (RFC 8224) has the numbers in a form that cannot be masked.

use crate::message::head_end;

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
/// Types of bodies that are kept.
const BODIES: [&str; 2] = ["application/sdp", "message/sipfrag"];

/// The message as it is kept.
pub fn kept(bytes: &[u8]) -> String {
    let bytes = &bytes[..bytes.len().min(MESSAGE_BYTES_MAX)];
    // As the parser reads it: blank lines may come before, and lines may end without a carriage return.
    let blank = bytes.iter().take_while(|byte| b"\r\n".contains(byte));
    let bytes = &bytes[blank.count()..];
    let (end, begin) = head_end(bytes, 0).unwrap_or((bytes.len(), bytes.len()));
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let (head, body) = (text(&bytes[..end]), text(&bytes[begin..]));
    let lines = unfolded(&head);
    let mut kinds = lines
        .iter()
        .filter_map(|line| header(line))
        .filter(|(name, _)| is(name, "Content-Type", "c"));
    let kind = kinds.next().map_or("", |(_, value)| value);
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let is_kept = BODIES.iter().any(|body| kind.eq_ignore_ascii_case(body));
    let body = if is_kept {
        without_keys(&body)
    } else {
        String::new()
    };
    let mut out = String::with_capacity(bytes.len());
    for line in &lines {
        match header(line) {
            Some((name, value)) if PROOFS.iter().any(|proof| is(name, proof, "")) => {
                out.push_str(&format!("{name}: {}", without_proof(value)));
            }
            Some((name, _)) if is(name, "Identity", "y") => out.push_str(&format!("{name}: *")),
            Some((name, _)) if is(name, "Content-Length", "l") => {
                out.push_str(&format!("{name}: {}", body.len()));
            }
            _ => out.push_str(line),
        }
        out.push_str("\r\n");
    }
    out.push_str("\r\n");
    out + &body
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

/// A body without keys of media (RFC 4568, RFC 4567, RFC 8866, RFC 8839).
fn without_keys(body: &str) -> String {
    let mut out = String::with_capacity(body.len());
    for line in body.split_inclusive('\n') {
        let (text, end) = line.split_at(line.trim_end_matches(['\r', '\n']).len());
        let lower = text.trim_start().to_ascii_lowercase();
        let name = ["k=", "a=key-mgmt:", "a=ice-pwd:"];
        if let Some(name) = name.iter().find(|name| lower.starts_with(**name)) {
            out.push_str(name);
            out.push('*');
        } else if let Some(at) = lower.find("inline:") {
            let from = text.len() - text.trim_start().len() + at;
            out.push_str(text.get(..from).unwrap_or_default());
            out.push_str("inline:*");
        } else {
            out.push_str(text);
        }
        out.push_str(end);
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::kept;

    #[test]
    fn secrets_are_removed_and_the_rest_stays() {
        let sdp = "v=0\r\nc=IN IP4 192.0.2.1\r\nm=audio 20000 RTP/SAVP 8\r\na=crypto:1 AES_CM_128_HMAC_SHA1_80 \
            inline:GEHEIM|2^31|1:1;inline:GEHEIM2 UNENCRYPTED_SRTP\r\nA=CRYPTO:2 X INLINE:GEHEIM\r\nk=clear:GEHEIM\r\n\
            a=key-mgmt:mikey GEHEIM\r\na=sendrecv\r\n";
        let message = format!(
            "INVITE sip:+622150001000@192.0.2.1 SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.7;branch=z9hG4bK1\r\n\
             Proxy-Authorization: Digest username=\"ayu\", realm=\"dikala\",\r\n nonce=\"n\", response=\"GEHEIM\", cnonce=\"GEHEIM\"\r\n\
             authorization: Basic GEHEIM\r\nAuthentication-Info: rspauth=\"GEHEIM\", qop=auth\r\n\
             c: application/sdp\r\nl: {}\r\n\r\n{sdp}",
            sdp.len()
        );
        let kept = kept(message.as_bytes());
        let body = "v=0\r\nc=IN IP4 192.0.2.1\r\nm=audio 20000 RTP/SAVP 8\r\na=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:*\r\n\
            A=CRYPTO:2 X inline:*\r\nk=*\r\na=key-mgmt:*\r\na=sendrecv\r\n";
        let expected = format!(
            "INVITE sip:+622150001000@192.0.2.1 SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.7;branch=z9hG4bK1\r\n\
             Proxy-Authorization: Digest username=\"ayu\", realm=\"dikala\"\r\nauthorization: Basic\r\n\
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
