//! The 49 torture messages of RFC 4475, as they come off the wire, and the answer to each.
//!
//! `messages.txt` contains them under their names in the RFC, with the status of our answer (`-` for none). Bytes that are not
//! text are hexadecimal between `⟨` and `⟩`, and `@sdp` is the description that most of them carry. The binary part of `mpart01`
//! is shortened. The numbers in `invut` and `sdp01` are changed, so that nothing is wrong with them but the tested fault.

use std::{sync::Arc, time::Duration};

use tokio::{sync::mpsc, time::timeout};

use super::entry::EdgeEntry;
use crate::{
    leg::{OfferedCall, Order},
    settings::{Codec, ListenAddress, SipSettings, SipTransport, Srtp, Trunk, UserAgent},
    shared::{BoundSockets, Shared},
    transport::{Flow, Receive},
};

const MESSAGES: &str = include_str!("messages.txt");
const SDP: &str = "v=0\no=mhandley 29739 7272939 IN IP4 192.0.2.1\ns=-\nc=IN IP4 192.0.2.1\nt=0 0\n\
                   m=audio 49217 RTP/AVP 0 12\nm=video 3227 RTP/AVP 31\na=rtpmap:31 LPC\n";

struct Case {
    name: &'static str,
    /// `None` if the message is not answered.
    status: Option<u16>,
    bytes: Vec<u8>,
}

fn cases() -> Vec<Case> {
    let case = |text: &'static str| {
        let (head, message) = text.split_once('\n').expect("a message");
        let (name, status) = head.split_once(' ').expect("a status");
        Case {
            name,
            status: status.parse().ok(),
            bytes: bytes(message),
        }
    };
    MESSAGES.split("=== ").skip(1).map(case).collect()
}

fn bytes(text: &str) -> Vec<u8> {
    let text = text.replace("@sdp\n", SDP).replace('\n', "\r\n");
    let mut bytes = Vec::new();
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once('⟨') {
        let (inside, after) = after.split_once('⟩').expect("an end");
        bytes.extend_from_slice(before.as_bytes());
        bytes.extend(hex::decode(inside).expect("hexadecimal"));
        rest = after;
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

const USER_AGENT: UserAgent = UserAgent {
    name: "test",
    product: "Test/1",
};

/// An edge that admits every peer on this machine and lets every admitted call ring.
fn entry() -> Arc<EdgeEntry> {
    let here: ListenAddress = ListenAddress {
        transport: SipTransport::Udp,
        address: "127.0.0.1:5060".parse().expect("an address"),
    };
    let trunk = Trunk {
        name: "here".to_owned(),
        addresses: vec!["127.0.0.0/8".parse().expect("a range")],
        ..Trunk::default()
    };
    let settings = SipSettings {
        threads: 2,
        max_calls: 10,
        listen: vec![here],
        public_address: None,
        local_networks: Vec::new(),
        tls: None,
        rtp_ports: 20_000..=31_999,
        codecs: vec![Codec::Pcmu],
        srtp: Srtp::Off,
        trunks: vec![trunk],
        nameservers: Vec::new(),
    };
    let tls = dikala_testkit::tls::client_config(&[]);
    let media = tokio::runtime::Handle::current();
    let shared = Arc::new(Shared::new(settings, USER_AGENT, tls, media, None));
    let (incoming, mut calls) = mpsc::channel::<OfferedCall>(1);
    let entry = Arc::new(EdgeEntry::new(Arc::clone(&shared), incoming));
    let receiver: std::sync::Weak<EdgeEntry> = Arc::downgrade(&entry);
    shared.bound(BoundSockets {
        addresses: vec![here],
        udp: Vec::new(),
        receiver,
    });
    tokio::spawn(async move {
        while let Some(mut call) = calls.recv().await {
            let _ = call.leg.orders.send(Order::Ring).await;
            tokio::spawn(async move { while call.leg.events.recv().await.is_some() {} });
        }
    });
    entry
}

/// The answers, without a 100.
async fn answered(entry: &EdgeEntry, bytes: &[u8]) -> Vec<String> {
    let (flow, mut sent) = Flow::kept(SipTransport::Udp, "127.0.0.1:5060", "127.0.0.9:40000");
    entry.received(bytes, &flow);
    drop(flow);
    let mut answers: Vec<String> = Vec::new();
    // A second answer would come at once.
    let wait = |answers: &[String]| {
        let first = answers.is_empty();
        Duration::from_millis(if first { 10_000 } else { 50 })
    };
    while let Ok(Some(answer)) = timeout(wait(&answers), sent.recv()).await {
        let answer = String::from_utf8_lossy(&answer).into_owned();
        if answer.starts_with("SIP/2.0 100") {
            continue;
        }
        let rings = answer.starts_with("SIP/2.0 180");
        answers.push(answer);
        if rings {
            break;
        }
    }
    answers
}

#[tokio::test]
async fn every_torture_of_the_rfc_is_borne() {
    let cases = cases();
    assert_eq!(cases.len(), 49);
    let entry = entry();
    for case in cases {
        let answers = answered(&entry, &case.bytes).await;
        let statuses: Vec<Option<u16>> = answers
            .iter()
            .map(|answer| answer.get(8..11)?.parse().ok())
            .collect();
        let expected: Vec<Option<u16>> = case.status.iter().map(|status| Some(*status)).collect();
        assert_eq!(statuses, expected, "{}: {answers:?}", case.name);
        if let (Some(400..), Some(answer)) = (case.status, answers.first()) {
            assert!(answer.contains("\r\nReason: SIP;cause="), "{answer}");
        }
    }
}

/// Messages beside those of the RFC: short to write and expensive to parse.
#[tokio::test]
async fn what_names_too_much_is_refused() {
    let entry = entry();
    let vias = |count: usize| format!("v: {}\r\n", vec!["a"; count].join(","));
    let params = |count: usize| ";a".repeat(count);
    for (what, more_vias, more_params, status) in [
        ("as many as hops", vias(70), String::new(), "200"),
        ("one hop more", vias(71), String::new(), "400"),
        ("a datagram of hops", vias(15_500), String::new(), "400"),
        ("a few parameters", String::new(), params(500), "200"),
        ("a datagram of them", String::new(), params(15_500), "400"),
    ] {
        let message = format!(
            "OPTIONS sip:a@127.0.0.1 SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.9:40000;branch=z9hG4bK{:x}\r\n{more_vias}\
             From: <sip:a@b>;tag=1{more_params}\r\nTo: <sip:a@b>\r\nCall-ID: long\r\nCSeq: 1 OPTIONS\r\n\r\n",
            rand::random::<u64>()
        );
        let answers = answered(&entry, message.as_bytes()).await;
        assert_eq!(answers.len(), 1, "{what}");
        assert_eq!(answers[0].get(8..11), Some(status), "{what}");
    }
}
