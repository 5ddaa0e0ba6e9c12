//! INVITEs of a trunk that nobody acknowledges, as with a forged source.

use std::{
    collections::BTreeMap,
    net::{SocketAddr, UdpSocket},
};

use dikala_testkit::{
    gemini::FakeGemini,
    phone::{header, offer},
};

use super::faults::{BridgeThread, greeted};
use crate::support::prelude::*;

const FORGED: usize = 40;
/// Sessions that open before the answer.
const EARLY_MAX: usize = 10;

/// Reads what has come, and counts the answers by Call-ID.
fn answers(socket: &UdpSocket, seen: &mut BTreeMap<String, usize>) {
    let mut packet = [0; 4_096];
    while let Ok(length) = socket.recv(&mut packet) {
        let text = String::from_utf8_lossy(&packet[..length]);
        if text.starts_with("SIP/2.0 200") {
            *seen.entry(header(&text, "call-id")).or_default() += 1;
        }
    }
}

fn invite(number: usize, did: &str, edge: SocketAddr) -> String {
    let sdp = offer(9, 8, "PCMA/8000");
    format!(
        "INVITE sip:{did}@{edge} SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1;branch=z9hG4bK{number};rport\r\n\
         Max-Forwards: 70\r\nFrom: <sip:+6281100{number}@127.0.0.1>;tag={number}\r\nTo: <sip:{did}@{edge}>\r\n\
         Call-ID: forged-{number}\r\nCSeq: 1 INVITE\r\nContact: <sip:x@127.0.0.1>\r\nContent-Type: application/sdp\r\n\
         Content-Length: {}\r\n\r\n{sdp}",
        sdp.len()
    )
}

#[actix_web::test]
async fn forged_calls_ask_the_model_for_nothing() {
    let world = world!(Sqlite, WorldSetup::new().minutes(100));
    let model = FakeGemini::start();
    let bridge = BridgeThread::start(&world, &model, |settings| {
        settings.sip.max_calls = 2 * FORGED;
    });
    let edge = bridge.edge();
    let forger = UdpSocket::bind("127.0.0.1:0").unwrap();
    forger.set_nonblocking(true).unwrap();
    for number in 0..FORGED {
        let invite = invite(number, &world.tenant.did, edge);
        forger.send_to(invite.as_bytes(), edge).unwrap();
    }
    // An answer that is repeated is half a second old, so a greeting would have been asked for by now.
    let mut seen = BTreeMap::new();
    eventually("answers to be repeated", async || {
        answers(&forger, &mut seen);
        let repeated = seen.values().filter(|count| **count > 1).count();
        (repeated > EARLY_MAX).then_some(())
    })
    .await;
    let connections = model.connections();
    assert!(connections.len() <= EARLY_MAX, "{connections:?}");
    let asked: Vec<_> = connections.iter().flat_map(|one| &one.messages).collect();
    assert!(asked.is_empty(), "{asked:?}");
    drop(greeted(&world, edge).await);
}
