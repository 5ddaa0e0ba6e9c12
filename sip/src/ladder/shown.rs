//! A kept message as operators read it: its parts, and the same with masked numbers. Pure.

use super::{LadderMessage, masking::without_numbers};

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
                let mut shown = format!("{kind} {address}:{port} {protocol}");
                for name in words.filter_map(|number| unnamed_codec(number, body)) {
                    shown.push(' ');
                    shown.push_str(name);
                }
                media.push(shown);
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

/// The codec of a number that needs no `rtpmap` (RFC 3551, 6), if it has none.
fn unnamed_codec(number: &str, body: &str) -> Option<&'static str> {
    let name = match number.trim() {
        "0" => "PCMU",
        "3" => "GSM",
        "8" => "PCMA",
        "9" => "G722",
        "18" => "G729",
        _ => return None,
    };
    let map = format!("a=rtpmap:{} ", number.trim());
    (!body.contains(&map)).then_some(name)
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
    fn a_masked_message_keeps_everything_but_numbers() {
        let mut invite = message(
            "INVITE sip:08123456789@b SIP/2.0\r\n\r\nv=0\r\nc=IN IP4 192.0.2.111\r\nm=audio 20000 RTP/AVP 8\r\n",
        );
        let sdp = invite.sdp();
        invite.mask_numbers();
        assert_eq!(invite.first_line(), "INVITE sip:08xxxxx6789@b SIP/2.0");
        assert_eq!(invite.sdp(), sdp);
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
        let old = message(
            "SIP/2.0 200 OK\r\n\r\nv=0\r\nc=IN IP4 192.0.2.1\r\nm=audio 20000 RTP/AVP 8 0\r\n",
        );
        let sdp = "audio 192.0.2.1:20000 RTP/AVP PCMA PCMU";
        assert_eq!(old.sdp().as_deref(), Some(sdp));
        let ok = message("SIP/2.0 200 OK\r\n\r\n");
        assert_eq!(
            (ok.method(), ok.status(), ok.sdp()),
            (None, Some(200), None)
        );
    }

    proptest! {
        #[test]
        fn any_text_can_be_summed_up(text in "[-+0-9 ().a@=vcm\r\n]{0,60}") {
            message(&text).sdp();
        }
    }
}
