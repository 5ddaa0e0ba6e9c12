//! Masks telephone numbers in a kept message. Pure.
//!
//! Numbers may stand anywhere: in users, display names, extension headers and texts of an SDP, with any separators. So every run of
//! digits is masked, except in places that are known to hold something else. Of a number the first and last digits stay; the others
//! are replaced in their places, so the message keeps its length.

use std::net::IpAddr;

use crate::message::long_name;

/// The least digits of a number; a shorter one is an extension.
const DIGITS_MIN: usize = 5;
/// The same in an id, which has digits of its own.
const ID_DIGITS_MIN: usize = 7;

/// Headers without numbers of people.
const TECHNICAL: [&str; 4] = ["Via", "Date", "User-Agent", "Server"];
/// Headers that begin with counts or times.
const COUNTS: [&str; 11] = [
    "CSeq",
    "RSeq",
    "RAck",
    "Content-Length",
    "Max-Forwards",
    "Expires",
    "Min-Expires",
    "Session-Expires",
    "Min-SE",
    "Retry-After",
    "Timestamp",
];
/// The name of a parameter with an id.
const TAG: &str = "tag=";
/// Text before a host or an address.
const BEFORE_HOST: [&str; 6] = ["@", "sip:", "sips:", "realm=\"", "received=", "maddr="];
/// Fields and attributes of an SDP that hold addresses, ports, times and formats (RFC 8866).
const MEDIA: [&str; 15] = [
    "v=",
    "c=",
    "b=",
    "t=",
    "r=",
    "z=",
    "m=",
    "a=rtpmap:",
    "a=fmtp:",
    "a=rtcp:",
    "a=rtcp-fb:",
    "a=extmap:",
    "a=candidate:",
    "a=fingerprint:",
    "a=crypto:",
];
/// The words after the username in an origin (`o=`): id, version, network and address.
const ORIGIN_WORDS: usize = 5;

/// The message with each number's digits replaced by `x`, except the first and the last ones. Addresses of machines stay.
pub fn without_numbers(message: &str) -> String {
    let (head, body) = match message.find("\r\n\r\n") {
        Some(at) => message.split_at(at),
        None => (message, ""),
    };
    let mut lines = head.split_inclusive('\n');
    let mut out = start_line(lines.next().unwrap_or_default());
    out.extend(lines.map(header));
    out.extend(body.split_inclusive('\n').map(|line| match line {
        status if status.starts_with("SIP/") => start_line(status),
        field => sdp_field(field),
    }));
    out
}

/// The version and status of a response stay.
fn start_line(line: &str) -> String {
    let status = line.starts_with("SIP/").then(|| line.match_indices(' '));
    let end = status.and_then(|mut spaces| Some(spaces.nth(1)?.0));
    after(line, end.unwrap_or_default())
}

fn header(line: &str) -> String {
    let Some((name, value)) = line.split_once(':') else {
        return masked(line, RunKind::Text);
    };
    let name = long_name(name.trim());
    let is_one_of = |names: &[&str]| names.iter().any(|one| one.eq_ignore_ascii_case(name));
    let begin = line.len() - value.len();
    if is_one_of(&TECHNICAL) {
        line.to_owned()
    } else if is_one_of(&COUNTS) {
        let count = value.find(|letter: char| !letter.is_ascii_digit() && letter != ' ');
        after(line, begin + count.unwrap_or(value.len()))
    } else if is_one_of(&["Call-ID", "In-Reply-To"]) {
        line[..begin].to_owned() + &identifier(value)
    } else {
        after(line, begin)
    }
}

/// A line of an SDP.
fn sdp_field(line: &str) -> String {
    if MEDIA.iter().any(|field| line.starts_with(field)) {
        return line.to_owned();
    }
    if line.starts_with("o=") {
        let end = line.trim_end().len();
        let mut words = line[..end].rmatch_indices(' ');
        if let Some((at, _)) = words.nth(ORIGIN_WORDS - 1) {
            return text(&line[..at]) + &line[at..];
        }
    }
    text(line)
}

/// The line with numbers masked after this many bytes.
fn after(line: &str, begin: usize) -> String {
    line[..begin].to_owned() + &text(&line[begin..])
}

/// Masks a text. Hosts and ids in it are found by what is before them.
fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut from, mut at) = (0, 0);
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let is_before = |mark: &str| {
            let begins = rest.get(..mark.len());
            begins.is_some_and(|begins| begins.eq_ignore_ascii_case(mark))
        };
        let mark = BEFORE_HOST.iter().find(|mark| is_before(mark));
        let host = mark.and_then(|mark| {
            let (length, shown) = host(&rest[mark.len()..])?;
            Some((mark.len(), length, shown))
        });
        let id = is_before(TAG).then(|| {
            let value = &rest[TAG.len()..];
            let length = value.find([';', ',', '>', '?', '&', ' ', '"', '\r', '\n']);
            let length = length.unwrap_or(value.len());
            (TAG.len(), length, identifier(&value[..length]))
        });
        match host.or(id) {
            Some((mark, length, shown)) => {
                out.push_str(&masked(&text[from..at + mark], RunKind::Text));
                out.push_str(&shown);
                at += mark + length;
                from = at;
            }
            None => at += rest.chars().next().map_or(1, char::len_utf8),
        }
    }
    out + &masked(&text[from..], RunKind::Text)
}

/// The bytes of a host with its port, and the host as it is shown; `None` if the text begins with something else, such as a user.
fn host(text: &str) -> Option<(usize, String)> {
    let end = match text.starts_with('[') {
        true => text.find(']')? + 1,
        false => {
            let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || "-.".contains(letter);
            text.find(|letter| !is_of_name(letter))
                .unwrap_or(text.len())
        }
    };
    let (name, rest) = text.split_at(end);
    let port = rest.strip_prefix(':').map_or(0, |port| {
        let digits = port.find(|letter: char| !letter.is_ascii_digit());
        1 + digits.unwrap_or(port.len())
    });
    let (port, rest) = rest.split_at(port);
    let is_whole =
        rest.is_empty() || rest.starts_with([' ', ';', '?', '>', ',', '"', '\r', '\n', ')']);
    if !is_whole || port.len() > "65535:".len() {
        return None;
    }
    let bare = name.trim_matches(['[', ']']);
    if bare.parse::<IpAddr>().is_ok() {
        return Some((end + port.len(), format!("{name}{port}")));
    }
    let is_name = name.contains(char::is_alphabetic);
    is_name.then(|| (end + port.len(), masked(name, RunKind::Text) + port))
}

fn identifier(id: &str) -> String {
    match id.rfind('@') {
        Some(at) => masked(&id[..at], RunKind::Id) + &text(&id[at..]),
        None => masked(id, RunKind::Id),
    }
}

/// Which runs of digits are numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RunKind {
    Text,
    /// Not next to a letter of a hexadecimal word, which is random.
    Id,
}

fn is_hex_letter(letter: char) -> bool {
    matches!(letter, 'a'..='f' | 'A'..='F')
}

/// A character or an escaped one (RFC 3986, 2.1).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Letter {
    Digit,
    /// Stands between the digits of one number.
    Separator,
    Other,
}

/// The first letter of a text, and its bytes.
fn letter(text: &str) -> (Letter, usize) {
    let escaped = text.strip_prefix('%').and_then(|rest| rest.get(..2));
    if let Some(byte) = escaped.and_then(|code| u8::from_str_radix(code, 16).ok()) {
        let letter = match byte {
            b'0'..=b'9' => Letter::Digit,
            b'A'..=b'Z' | b'a'..=b'z' => Letter::Other,
            _ => Letter::Separator,
        };
        return (letter, 3);
    }
    let first = text.chars().next().unwrap_or_default();
    let letter = match first {
        _ if first.is_numeric() => Letter::Digit,
        _ if first.is_ascii() && "-.()/ +_*~\\\t".contains(first) => Letter::Separator,
        _ if first.is_ascii() || first.is_alphanumeric() => Letter::Other,
        _ => Letter::Separator,
    };
    (letter, first.len_utf8())
}

/// Masks the runs of digits of a text.
fn masked(text: &str, kind: RunKind) -> String {
    let mut out = String::with_capacity(text.len());
    // The letters of a run, whether they are digits, and the last one before it.
    let mut run: Vec<(&str, bool)> = Vec::new();
    let mut before = None;
    let mut rest = text;
    while !rest.is_empty() {
        let (letter, length) = letter(rest);
        let (this, left) = rest.split_at(length);
        rest = left;
        if letter == Letter::Digit || letter == Letter::Separator && !run.is_empty() {
            run.push((this, letter == Letter::Digit));
            continue;
        }
        push_run(&mut out, &mut run, kind, before, Some(this));
        before = Some(this);
        out.push_str(this);
    }
    push_run(&mut out, &mut run, kind, before, None);
    out
}

/// Adds a run between two letters.
fn push_run(
    out: &mut String,
    run: &mut Vec<(&str, bool)>,
    kind: RunKind,
    before: Option<&str>,
    next: Option<&str>,
) {
    let digits = run.iter().filter(|(_, is_digit)| *is_digit).count();
    let is_letter = |of: Option<&str>| of.is_some_and(|of| of.starts_with(is_hex_letter));
    let ends = run.last().is_some_and(|(_, is_digit)| *is_digit);
    let is_number = match kind {
        RunKind::Text => digits >= DIGITS_MIN,
        RunKind::Id => digits >= ID_DIGITS_MIN && !is_letter(before) && !(ends && is_letter(next)),
    };
    let (head, tail) = if digits < 10 { (0, 2) } else { (2, 4) };
    let mut seen = 0;
    for (letter, is_digit) in run.drain(..) {
        seen += usize::from(is_digit);
        match is_number && is_digit && seen > head && seen <= digits - tail {
            true => out.push_str(&"x".repeat(letter.len())),
            false => out.push_str(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::without_numbers;

    fn in_head(line: &str) -> String {
        let message = format!("INFO sip:a@b SIP/2.0\r\n{line}\r\n\r\n");
        let masked = without_numbers(&message);
        masked.lines().nth(1).unwrap_or_default().to_owned()
    }

    fn in_sdp(line: &str) -> String {
        let message = format!("INFO sip:a@b SIP/2.0\r\n\r\n{line}\r\n");
        let masked = without_numbers(&message);
        masked.lines().nth(2).unwrap_or_default().to_owned()
    }

    #[test]
    fn numbers_are_masked_wherever_they_stand_in_the_head() {
        for (line, masked) in [
            (
                "From: \"0812.345.6789\" <sip:0812.345.6789@203.0.113.250:50600>;tag=1",
                "From: \"08xx.xxx.6789\" <sip:08xx.xxx.6789@203.0.113.250:50600>;tag=1",
            ),
            (
                "f: \"(021) 5000 100\" <sip:(021)5000-100@b;user=phone>",
                "f: \"(02x) xxx0 100\" <sip:(02x)xxx0-100@b;user=phone>",
            ),
            (
                "To: Budi 0812/345/6789 <tel:+62-812-345-6789;phone-context=+6221500>",
                "To: Budi 08xx/xxx/6789 <tel:+62-xxx-xxx-6789;phone-context=+xxxxx00>",
            ),
            (
                "Diversion: <sip:%30%38123456789@10.0.0.1>;reason=no-answer",
                "Diversion: <sip:%30%38xxxxx6789@10.0.0.1>;reason=no-answer",
            ),
            (
                "Remote-Party-ID: <sip:62%20812%2D3456%2D789@b>",
                "Remote-Party-ID: <sip:62%20xxx%2Dxxx6%2D789@b>",
            ),
            ("X-Caller: 08123456789", "X-Caller: 08xxxxx6789"),
            ("X-Caller: 62.81.234.56", "X-Caller: xx.xx.xxx.56"),
            (
                "Subject: call 0812\u{2011}345\u{a0}67",
                "Subject: call xxxx\u{2011}xxx\u{a0}67",
            ),
            (
                "Subject: \u{660}\u{661}\u{662}\u{663}\u{664}",
                "Subject: xxxxxx\u{663}\u{664}",
            ),
            (
                "Reason: SIP;cause=486;text=\"0812345678 is busy\"",
                "Reason: SIP;cause=486;text=\"08xxxx5678 is busy\"",
            ),
            (
                "Contact: <sip:62.81.234.56@b>",
                "Contact: <sip:xx.xx.xxx.56@b>",
            ),
            ("Contact: <sip:08123456789>", "Contact: <sip:08xxxxx6789>"),
            (
                "Refer-To: <sip:a@b?Subject=0812345>",
                "Refer-To: <sip:a@b?Subject=xxxxx45>",
            ),
            (
                "Call-ID: 08123456789@10.0.0.1",
                "Call-ID: 08xxxxx6789@10.0.0.1",
            ),
            ("i: call-0812-345-6789-1", "i: call-08xx-xxx-x789-1"),
            (
                "Call-ID: leg08123456789@10.0.0.1",
                "Call-ID: leg08xxxxx6789@10.0.0.1",
            ),
            (
                "To: <sip:a@b>;tag=08123456789",
                "To: <sip:a@b>;tag=08xxxxx6789",
            ),
            (
                "Retry-After: 86400 (call 0812345678)",
                "Retry-After: 86400 (call 08xxxx5678)",
            ),
            (
                "a broken line of 08123456789",
                "a broken line of 08xxxxx6789",
            ),
        ] {
            assert_eq!(in_head(line), masked);
        }
        for (line, masked) in [
            (
                "INVITE sip:08123456789@b:50600 SIP/2.0",
                "INVITE sip:08xxxxx6789@b:50600 SIP/2.0",
            ),
            (
                "SIP/2.0 486 0812345678 is busy",
                "SIP/2.0 486 08xxxx5678 is busy",
            ),
            ("SIP/2.0 200 OK", "SIP/2.0 200 OK"),
        ] {
            assert_eq!(without_numbers(line), masked);
        }
    }

    #[test]
    fn addresses_counts_and_ids_stay() {
        for line in [
            "Via: SIP/2.0/UDP 203.0.113.250:50600;branch=z9hG4bK1234567;rport=50600;received=10.0.0.10",
            "Record-Route: <sip:203.0.113.250:50600;lr>, <sips:a@[2001:db8:1234:5678::1000]:50601;lr>",
            "Contact: <sip:1001@203.0.113.250:50600;maddr=203.0.113.251>",
            "Call-ID: 3c26700857a87f84@203.0.113.250",
            "Call-ID: 550e8400-e29b-41d4-a716-446655440000",
            "From: <sip:ayu@dikala.example>;tag=a12345678b",
            "CSeq: 314159 INVITE",
            "RAck: 776656 314159 INVITE",
            "Session-Expires: 86400;refresher=uac",
            "Date: Fri, 27 Nov 2026 20:20:07 GMT",
            "User-Agent: Asterisk PBX 16.28.0",
            "WWW-Authenticate: Digest realm=\"203.0.113.250\"",
        ] {
            assert_eq!(in_head(line), line);
        }
    }

    #[test]
    fn numbers_in_an_sdp_are_masked_and_its_media_stays() {
        for (line, masked) in [
            (
                "o=0812-345-6789 20518 0 IN IP4 203.0.113.7",
                "o=08xx-xxx-6789 20518 0 IN IP4 203.0.113.7",
            ),
            (
                "o=+62 812 3456789 20518 0 IN IP4 a",
                "o=+62 xxx xxx6789 20518 0 IN IP4 a",
            ),
            ("o=08123456789", "o=08xxxxx6789"),
            ("s=Call of 0812 345 6789", "s=Call of 08xx xxx 6789"),
            ("i=tel:+62-812-345-6789", "i=tel:+62-xxx-xxx-6789"),
            ("u=tel:+628123456789", "u=tel:+62xxxxxx6789"),
            ("e=ayu@b (08123456789)", "e=ayu@b (08xxxxx6789)"),
            ("p=+62 812.345.6789", "p=+62 xxx.xxx.6789"),
            ("a=X-caller:08123456789", "a=X-caller:08xxxxx6789"),
            ("SIP/2.0 486 of 08123456789", "SIP/2.0 486 of 08xxxxx6789"),
        ] {
            assert_eq!(in_sdp(line), masked);
        }
        for line in [
            "c=IN IP4 203.0.113.250",
            "t=3034423619 3042462419",
            "m=audio 20000 RTP/AVP 8 101 0 9 18 96",
            "a=rtpmap:96 opus/48000/2",
            "a=candidate:1 1 UDP 2130706431 203.0.113.250 20000 typ host",
            "a=rtcp:20001 IN IP4 203.0.113.250",
        ] {
            assert_eq!(in_sdp(line), line);
        }
    }

    proptest! {
        #[test]
        fn a_masked_message_keeps_its_length(text in "[-+0-9 ().a@:;=%\"<>x\\[\\]\u{661}\u{2011}\r\n]{0,80}") {
            prop_assert_eq!(without_numbers(&text).len(), text.len());
        }

        #[test]
        fn a_number_with_any_separators_is_masked(digits in proptest::collection::vec(0_u8..10, 8..15), separator in "[-./ ()]{0,2}") {
            let number: Vec<String> = digits.iter().map(u8::to_string).collect();
            let number = number.join(&separator);
            for line in [format!("From: \"{number}\" <sip:{number}@b>"), format!("X-Caller: {number}")] {
                prop_assert!(!in_head(&line).contains(&number));
            }
            for line in [format!("o={number} 1 1 IN IP4 b"), format!("s={number}")] {
                prop_assert!(!in_sdp(&line).contains(&number));
            }
        }
    }
}
