//! INVITEs of a trunk that nobody acknowledges, as with a forged source, beside the calls of another trunk.

use std::{
    net::{SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use dikala_testkit::phone;

use crate::{phones::DID, service};

/// The address of the forged trunk.
pub const FORGED: &str = "127.0.0.2";
/// INVITEs in a second.
pub const RATE: u32 = 400;
/// Numbers of forged callers begin here.
const FIRST: usize = 100_000;

/// Sends until it is dropped.
#[derive(Debug)]
pub struct Flood(Arc<AtomicBool>);

impl Flood {
    pub fn start(edge: SocketAddr) -> Self {
        let is_over = Arc::<AtomicBool>::default();
        let over = is_over.clone();
        thread::spawn(move || {
            let socket = UdpSocket::bind((FORGED, 0)).unwrap();
            let local = socket.local_addr().unwrap();
            let mut due = Instant::now();
            for number in FIRST.. {
                if over.load(Relaxed) {
                    return;
                }
                let invite = invite(local, edge, number);
                // A failure is a lost datagram.
                let _ = socket.send_to(invite.as_bytes(), edge);
                due += Duration::from_secs(1) / RATE;
                thread::sleep(due.saturating_duration_since(Instant::now()));
            }
        });
        Self(is_over)
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn invite(local: SocketAddr, edge: SocketAddr, number: usize) -> String {
    let (caller, sdp) = (service::caller(number), phone::offer(9, 8, "PCMA/8000"));
    format!(
        "INVITE sip:{DID}@{edge} SIP/2.0\r\nVia: SIP/2.0/UDP {local};branch=z9hG4bK{number};rport\r\nMax-Forwards: 70\r\n\
         From: <sip:{caller}@{local}>;tag={number}\r\nTo: <sip:{DID}@{edge}>\r\nCall-ID: {number}@forged\r\n\
         CSeq: 1 INVITE\r\nContact: <sip:forged@{local}>\r\nContent-Type: application/sdp\r\n\
         Content-Length: {}\r\n\r\n{sdp}",
        sdp.len()
    )
}
