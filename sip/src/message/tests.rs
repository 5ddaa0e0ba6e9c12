//! Messages that the parser must accept, and random input that must not break it.

use proptest::prelude::*;

use super::{Headers, NameAddr, SipMessage, Uri, Via, check, parse, split_list};

const INVITE: &str = "INVITE sip:+6221@127.0.0.1:5060;a=b SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:5070;branch=z9hG4bK1;rport, \
     SIP/2.0/TCP [::1]:9\r\nf: \"A, \\\"B\" <sip:a%20b@c>;tag=1\r\nt: sip:d@e;x=y\r\ni: 1@2\r\nCSeq: 1 INVITE\r\n\
     m: <sip:a@[::1]:7;transport=tcp>;q=1\r\nk: a, b\r\nl: 3\r\n\r\nabc";

#[test]
fn uris_come_apart_and_together() {
    for (text, user, host, port) in [
        ("sip:a@b", "a", "b", None),
        ("sip:b:5080", "", "b", Some(5080)),
        (
            "sips:a:secret@[2001:db8::1]:5061;transport=tls",
            "a",
            "[2001:db8::1]",
            Some(5061),
        ),
        (
            "sip:user;par=u%40example.net@example.com",
            "user;par=u@example.net",
            "example.com",
            None,
        ),
        (
            "sip:sip%3Aus%65r@example.com",
            "sip:user",
            "example.com",
            None,
        ),
        (
            "sip:1_unusual.URI~(to-be!sure)&isn't+it$/crazy?,/;;*@example.com",
            "1_unusual.URI~(to-be!sure)&isn't+it$/crazy?,/;;*",
            "example.com",
            None,
        ),
        ("SIP:a@B", "a", "B", None),
    ] {
        let uri: Uri = text.parse().unwrap();
        assert_eq!(
            (uri.user.as_str(), uri.host.to_string().as_str(), uri.port),
            (user, host, port),
            "{text}"
        );
        let again: Uri = uri.to_string().parse().unwrap();
        assert_eq!(again, uri);
    }
    for broken in [
        "",
        "a",
        "sip:",
        "sip:a@",
        "sip:a@b:99999",
        "sip:a@[::1",
        "sip: a@b",
        "sip:a%zz@b",
        "<sip:a@b>",
    ] {
        assert!(broken.parse::<Uri>().is_err(), "{broken}");
    }
}

#[test]
fn addresses_and_lists_keep_their_quotes() {
    let list = "\"A, <B>\" <sip:a@b;x=1>;tag=2, <sip:c@d,e>, sip:f@g;tag=3";
    let parts = split_list(list);
    assert_eq!(parts.len(), 3, "{parts:?}");
    let first: NameAddr = parts[0].parse().unwrap();
    assert_eq!(
        (
            first.name.as_str(),
            first.param("tag"),
            first.uri.param("x")
        ),
        ("A, <B>", Some("2"), Some("1"))
    );
    assert_eq!(first.to_string().parse(), Ok(first));
    let third: NameAddr = parts[2].parse().unwrap();
    assert_eq!((third.param("tag"), third.uri.params.len()), (Some("3"), 0));
}

#[test]
fn short_names_and_folded_lines_are_read() {
    let Ok(SipMessage::Request(request)) = parse(INVITE.as_bytes()) else {
        panic!("an INVITE");
    };
    let via: Via = check(&request).unwrap();
    assert_eq!(
        (via.branch(), via.sent_by().as_str()),
        (Some("z9hG4bK1"), "127.0.0.1:5070")
    );
    assert_eq!(request.headers.list("Supported"), ["a", "b"]);
    assert_eq!(request.headers.tag("From").as_deref(), Some("1"));
    assert_eq!(request.body, b"abc");
    assert_eq!(parse(&request.to_bytes()), Ok(SipMessage::Request(request)));
}

#[test]
fn lines_may_end_without_a_carriage_return() {
    let whole = parse(INVITE.as_bytes());
    assert!(whole.is_ok());
    let bare = INVITE.replace("\r\n", "\n");
    assert_eq!(parse(bare.as_bytes()), whole);
    let more = format!("{bare} and what follows in the datagram");
    assert_eq!(parse(more.as_bytes()), whole);
    let (head, body) = INVITE.split_once("\r\n\r\n").unwrap();
    let mixed = format!("{}\n\r\n{body}", head.replacen("\r\n", "\n", 3));
    assert_eq!(parse(mixed.as_bytes()), whole);
}

#[test]
fn the_topmost_via_is_replaced_and_the_others_stay_as_they_are() {
    let mut headers = Headers::default();
    for (name, value) in [
        ("From", "f"),
        ("Via", "one, two"),
        ("To", "t"),
        ("v", "three"),
    ] {
        headers.push(name, value);
    }
    assert_eq!(headers.first("Via"), Some("one"));
    headers.set_top_via("ours");
    let held: Vec<(&str, &str)> = headers.iter().collect();
    let expected = [
        ("Via", "ours"),
        ("Via", "two"),
        ("Via", "three"),
        ("From", "f"),
        ("To", "t"),
    ];
    assert_eq!(held, expected);
}

#[test]
fn what_nobody_can_store_is_refused() {
    let fault = |text: &str| match parse(text.as_bytes()) {
        Ok(SipMessage::Request(request)) => check(&request).err().map(|fault| fault.status),
        other => panic!("{other:?}"),
    };
    assert_eq!(fault(INVITE), None);
    for (is, bad) in [
        ("i: 1@2", "i: 1\0@2"),
        (";tag=1\r", ";tag=1\0\r"),
        ("k: a, b", "User-Agent: a\0b"),
    ] {
        assert_eq!(fault(&INVITE.replace(is, bad)), Some(400), "{bad:?}");
    }
}

proptest! {
    #[test]
    fn nothing_breaks_the_parser(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = parse(&bytes);
    }

    #[test]
    fn bent_messages_break_nothing(bends in prop::collection::vec((0..INVITE.len(), any::<char>()), 0..12)) {
        let mut letters: Vec<char> = INVITE.chars().collect();
        for (at, letter) in bends {
            if let Some(held) = letters.get_mut(at) {
                *held = letter;
            }
        }
        let text: String = letters.into_iter().collect();
        if let Ok(SipMessage::Request(request)) = parse(text.as_bytes()) {
            let _ = check(&request);
            for name in ["From", "To", "Contact", "Via", "Supported"] {
                let _ = (request.headers.list(name), request.headers.tag(name));
            }
            let _ = parse(&request.to_bytes());
        }
    }

    #[test]
    fn texts_break_no_reader(text in "\\PC{0,60}") {
        let _ = (text.parse::<Uri>(), text.parse::<NameAddr>(), text.parse::<Via>(), split_list(&text));
        let _ = format!("sip:{text}").parse::<Uri>();
        let _ = format!("SIP/2.0/UDP {text}").parse::<Via>();
        let _ = format!("Digest {text}").parse::<crate::digest::Authorization>();
        let _ = crate::numbers::e164(&text, Some("+62"));
    }
}
