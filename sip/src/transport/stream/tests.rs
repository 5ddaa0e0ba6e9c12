//! Framing of messages, and the idle timeouts of connections.

use super::*;
use crate::ladder::Ladders;

/// Admits peers that send `proof`.
#[derive(Default)]
struct Door {
    proven: std::sync::atomic::AtomicBool,
}

impl Receive for Door {
    fn received(&self, bytes: &[u8], _: &Flow) {
        let is_proof = bytes.ends_with(b"proof");
        self.proven
            .fetch_or(is_proof, std::sync::atomic::Ordering::Relaxed);
    }

    fn pause(&self, _: &Flow) -> Duration {
        Duration::ZERO
    }

    fn may_shake_hands(&self, _: std::net::IpAddr) -> bool {
        true
    }

    fn is_proven(&self, _: &Flow) -> bool {
        self.proven.load(std::sync::atomic::Ordering::Relaxed)
    }

    fn knows(&self, _: std::net::IpAddr, _: SipTransport) -> bool {
        false
    }

    fn ladders(&self) -> Arc<Ladders> {
        Arc::default()
    }
}

#[tokio::test]
async fn who_has_not_proven_himself_may_be_silent_for_seconds_only() {
    let (flow, _sent) = Flow::kept(SipTransport::Tcp, "127.0.0.1:5060", "127.0.0.2:5060");
    let limits = Arc::<SipConnectionLimits>::default();
    let permit = limits.take(flow.remote.ip(), false).expect("a permit");
    let mut peer = Peer {
        flow,
        permit: Some(&permit),
        receiver: Arc::new(Door::default()),
        is_proven: false,
        has_spoken: false,
    };
    assert_eq!(peer.idle(), STRANGER_IDLE);
    peer.said(b"nothing").await;
    assert_eq!(peer.idle(), STRANGER_IDLE);
    peer.said(b"proof").await;
    assert_eq!(peer.idle(), IDLE);
}

#[test]
fn messages_are_taken_apart_however_they_come() {
    let one = b"OPTIONS sip:a SIP/2.0\r\nl: 3\r\n\r\nabc";
    let mut stream = b"\r\n\r\n".to_vec();
    stream.extend_from_slice(one);
    stream.extend_from_slice(b"\r\n");
    stream.extend_from_slice(one);
    for step in [1, 7, stream.len()] {
        let (mut buffer, mut messages, mut pings) = (Buffer::default(), 0, 0);
        for piece in stream.chunks(step) {
            buffer.bytes.extend_from_slice(piece);
            loop {
                match buffer.take() {
                    Taken::Message(message) => {
                        assert_eq!(*message, *one);
                        messages += 1;
                    }
                    Taken::Pings(count) => pings += count,
                    Taken::Nothing => break,
                    Taken::Broken(_) => panic!("nothing is broken"),
                }
            }
        }
        assert_eq!(
            (messages, pings, buffer.bytes.len()),
            (2, 1, 0),
            "in steps of {step}"
        );
    }
}

#[test]
fn pings_are_counted_at_once_however_many() {
    let mut buffer = Buffer::default();
    buffer
        .bytes
        .extend_from_slice("\r\n\r\n".repeat(50_000).as_bytes());
    buffer.bytes.extend_from_slice(b"\r\n\r");
    assert!(matches!(buffer.take(), Taken::Pings(50_000)));
    assert!(matches!(buffer.take(), Taken::Nothing));
    assert!(!buffer.is_begun());
    buffer.bytes.extend_from_slice(b"\nA\n\n");
    assert!(matches!(buffer.take(), Taken::Pings(1)));
    assert!(matches!(buffer.take(), Taken::Message(message) if *message == *b"A\n\n"));
    assert!(buffer.bytes.is_empty());
}

#[test]
fn what_would_grow_without_bound_is_broken() {
    let take = |bytes: Vec<u8>| {
        let mut buffer = Buffer {
            bytes: bytes.as_slice().into(),
            ..Buffer::default()
        };
        buffer.take()
    };
    for head in [
        "INVITE sip:a SIP/2.0\r\nContent-Length: 4294967296\r\n\r\n",
        "INVITE sip:a SIP/2.0\r\nContent-Length: -1\r\n\r\n",
        "INVITE sip:a SIP/2.0\r\nContent-Length: 99999999999999999999999999\r\n\r\n",
    ] {
        assert!(
            matches!(take(head.as_bytes().to_vec()), Taken::Broken(_)),
            "{head}"
        );
    }
    assert!(matches!(
        take(vec![b'x'; HEAD_BYTES_MAX + 1]),
        Taken::Broken(_)
    ));
}
