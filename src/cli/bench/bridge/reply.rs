//! Minimal parsing of replies: the client's cost must be small beside that of the measured server.

/// The parts of a reply that the benchmark needs.
#[derive(Debug, PartialEq, Eq)]
pub struct BenchReply<'a> {
    /// Id of the message that it answers.
    pub id: u64,
    pub ok: bool,
    /// The server did nothing and asks for a retry.
    pub is_busy: bool,
    pub call: Option<&'a [u8]>,
    pub text: &'a [u8],
}

impl<'a> BenchReply<'a> {
    /// Reads a reply whose message id is a number. Returns `None` for anything else, such as a command.
    pub fn read(text: &'a [u8]) -> Option<Self> {
        let id = after(text, b"\"replyTo\":\"")?;
        let digits = &id[..id.iter().position(|b| *b == b'"')?];
        let ok = after(text, b"\"ok\":true").is_some();
        let says = |code: &[u8]| after(text, code).is_some();
        Some(Self {
            id: std::str::from_utf8(digits).ok()?.parse().ok()?,
            ok,
            is_busy: !ok && (says(b"\"code\":\"busy\"") || says(b"\"code\":\"unavailable\"")),
            call: quoted(text, b"\"callId\":\""),
            text,
        })
    }

    /// True if the server answers the incoming call.
    pub fn is_taken(&self) -> bool {
        after(self.text, b"\"action\":\"answer\"").is_some()
    }
}

/// The text between `before` and the next quotation mark.
pub fn quoted<'a>(text: &'a [u8], before: &[u8]) -> Option<&'a [u8]> {
    let rest = after(text, before)?;
    Some(&rest[..rest.iter().position(|b| *b == b'"')?])
}

fn after<'a>(text: &'a [u8], what: &[u8]) -> Option<&'a [u8]> {
    let at = text.windows(what.len()).position(|found| found == what)?;
    Some(&text[at + what.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_say_whose_they_are_and_whether_it_worked() {
        let taken = br#"{"replyTo":"17","ok":true,"callId":"call_1","action":"answer","agent":{"name":"\"ok\":false"}}"#;
        let reply = BenchReply::read(taken).expect("a reply");
        assert_eq!((reply.id, reply.ok, reply.is_taken()), (17, true, true));
        assert_eq!(reply.call, Some(&b"call_1"[..]));

        let busy = br#"{"replyTo":"3","ok":false,"error":{"code":"busy","message":"try again"}}"#;
        let reply = BenchReply::read(busy).expect("a reply");
        assert_eq!((reply.ok, reply.is_busy, reply.call), (false, true, None));

        let refused =
            br#"{"replyTo":"4","ok":true,"callId":"call_2","action":"reject","reason":"no_agent"}"#;
        let reply = BenchReply::read(refused).expect("a reply");
        assert!(reply.ok && !reply.is_taken());
    }

    #[test]
    fn what_is_no_reply_of_ours_is_passed_over() {
        for text in [
            &br#"{"id":"cmd_1","command":"hangup","callId":"call_1"}"#[..],
            br#"{"replyTo":null,"ok":false}"#,
            br#"{"replyTo":"abc","ok":true}"#,
            br#"{"replyTo":"12"#,
            b"",
        ] {
            assert_eq!(BenchReply::read(text), None);
        }
    }
}
