//! A kept message as operators read it: its parts, and the same with masked numbers. Pure.

use super::LadderMessage;

/// A digit run of this length and more may be a telephone number.
const DIGITS_MIN: usize = 7;

impl LadderMessage {
    /// Masks the digits of telephone numbers. Every character stays in its place, so the message keeps its length.
    pub fn mask_numbers(&mut self) {
        self.text = without_numbers(&self.text).into();
    }

    /// The first line.
    pub fn first_line(&self) -> &str {
        self.text.lines().next().unwrap_or_default()
    }

    /// The method of a request.
    pub fn method(&self) -> Option<&str> {
        let method = self.first_line().split(' ').next()?;
        (!method.starts_with("SIP/")).then_some(method)
    }

    /// The status of a response.
    pub fn status(&self) -> Option<u16> {
        let mut words = self.first_line().split(' ');
        words.next().filter(|version| version.starts_with("SIP/"))?;
        words.next()?.parse().ok()
    }

    /// Address, codecs and direction of the SDP, if there is one: `audio 192.0.2.1:20000 RTP/AVP PCMA telephone-event sendrecv`.
    pub fn sdp(&self) -> Option<String> {
        let (_, body) = self.text.split_once("\r\n\r\n")?;
        if !body.starts_with("v=") {
            return None;
        }
        let mut media: Vec<String> = Vec::new();
        let mut address = "";
        for line in body.lines() {
            if let Some(connection) = line.strip_prefix("c=") {
                address = connection.split(' ').nth(2).unwrap_or_default();
                // Of a stream of its own.
                if let Some(last) = media.last_mut() {
                    last.push_str(&format!(" at {address}"));
                }
            } else if let Some(stream) = line.strip_prefix("m=") {
                let mut words = stream.split(' ');
                let mut word = || words.next().unwrap_or_default();
                let (kind, port, protocol) = (word(), word(), word());
                media.push(format!("{kind} {address}:{port} {protocol}"));
            } else if let Some(last) = media.last_mut()
                && let Some(about) = about(line)
            {
                last.push(' ');
                last.push_str(about);
            }
        }
        Some(media.join("; "))
    }
}

/// The part of an attribute that is shown: a codec, a direction, or that the media is encrypted.
fn about(line: &str) -> Option<&str> {
    let attribute = line.strip_prefix("a=")?;
    if let Some(map) = attribute.strip_prefix("rtpmap:") {
        return map.split(' ').nth(1)?.split('/').next();
    }
    ["sendrecv", "sendonly", "recvonly", "inactive"]
        .into_iter()
        .find(|direction| *direction == attribute)
}

/// The text with each number's digits replaced by `x`, except the first and the last ones. An IP address stays.
fn without_numbers(text: &str) -> String {
    let (head, body) = match text.find("\r\n\r\n") {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    // In the head people's numbers may have separators. In an SDP the numbers of formats are separated.
    masked(head, "-() ") + &masked(body, "")
}

fn masked(text: &str, separators: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(|letter: char| letter == '+' || letter.is_ascii_digit()) {
        let (before, from) = rest.split_at(at);
        let is_international = from.starts_with('+');
        let is_of_number = |letter: char| {
            letter.is_ascii_digit()
                || separators.contains(letter)
                || is_international && "+.".contains(letter)
        };
        let end = from.find(|letter| !is_of_number(letter));
        let (number, after) = from.split_at(end.unwrap_or(from.len()));
        shown.push_str(before);
        shown.push_str(&without_middle(number));
        rest = after;
    }
    shown + rest
}

fn without_middle(number: &str) -> String {
    let digits = number.chars().filter(char::is_ascii_digit).count();
    if digits < DIGITS_MIN {
        return number.to_owned();
    }
    let (head, tail) = if digits < 10 { (0, 2) } else { (2, 4) };
    let mut seen = 0;
    let shown = number.chars().map(|letter| {
        if !letter.is_ascii_digit() {
            return letter;
        }
        seen += 1;
        let is_shown = seen <= head || seen > digits - tail;
        if is_shown { letter } else { 'x' }
    });
    shown.collect()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use proptest::prelude::*;

    use super::*;
    use crate::settings::SipTransport;

    fn message(text: &str) -> LadderMessage {
        let any = "0.0.0.0:5060".parse().expect("an address");
        LadderMessage {
            at: Instant::now(),
            is_sent: false,
            transport: SipTransport::Udp,
            local: any,
            remote: any,
            text: text.into(),
        }
    }

    #[test]
    fn numbers_are_masked_and_addresses_stay() {
        for (text, masked) in [
            (
                "<sip:+6281234567890@203.0.113.250:5060>",
                "<sip:+62xxxxxxx7890@203.0.113.250:5060>",
            ),
            (
                "\"0812-3456-7890\" <sip:1001@b>",
                "\"08xx-xxxx-7890\" <sip:1001@b>",
            ),
            ("tel:+62.812.345.6789", "tel:+62.xxx.xxx.6789"),
            ("\"(021) 5000 100\"", "\"(02x) xxx0 100\""),
            (
                "a\r\n\r\nm=audio 20000 RTP/AVP 8 101 0 9 18 96\r\n",
                "a\r\n\r\nm=audio 20000 RTP/AVP 8 101 0 9 18 96\r\n",
            ),
            (
                "a\r\n\r\no=628123456789 1 2 IN IP4 192.0.2.1",
                "a\r\n\r\no=62xxxxxx6789 1 2 IN IP4 192.0.2.1",
            ),
        ] {
            let mut shown = message(text);
            shown.mask_numbers();
            assert_eq!(&*shown.text, masked);
        }
    }

    #[test]
    fn a_message_is_summed_up() {
        let invite = message(
            "INVITE sip:a@b SIP/2.0\r\nCSeq: 1 INVITE\r\n\r\nv=0\r\nc=IN IP4 192.0.2.1\r\nm=audio 20000 RTP/AVP 8 101\r\n\
             a=rtpmap:8 PCMA/8000\r\na=rtpmap:101 telephone-event/8000\r\na=ptime:20\r\na=sendonly\r\nm=video 0 RTP/AVP 96\r\n",
        );
        assert_eq!((invite.method(), invite.status()), (Some("INVITE"), None));
        assert_eq!(invite.first_line(), "INVITE sip:a@b SIP/2.0");
        let sdp = "audio 192.0.2.1:20000 RTP/AVP PCMA telephone-event sendonly; video 192.0.2.1:0 RTP/AVP";
        assert_eq!(invite.sdp().as_deref(), Some(sdp));
        let ok = message("SIP/2.0 200 OK\r\n\r\n");
        assert_eq!(
            (ok.method(), ok.status(), ok.sdp()),
            (None, Some(200), None)
        );
    }

    proptest! {
        #[test]
        fn a_masked_message_keeps_its_length(text in "[-+0-9 ().a@\r\n]{0,60}") {
            let shown = without_numbers(&text);
            prop_assert_eq!(shown.len(), text.len());
            message(&text).sdp();
        }
    }
}
