//! Floods from a trunk's own address: hundreds of INVITEs a second that nobody acknowledges, as with a forged source.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use dikala_sip::leg::LegEvent;
use tokio::{net::UdpSocket, task::JoinHandle, time::interval};

use crate::{
    strangers::{at, invited},
    support::{CallBehaviour, TestEdge, eventually, offer},
};

const FORGED: &str = "127.0.0.2";
/// Enough that every line of the trunk is taken over and over.
const MAX_CALLS: usize = 40;
/// Calls of others during the flood.
const OTHERS: usize = 30;
/// Calls of a trunk that wait for an ACK after their line is released.
const LATE: usize = 10;
/// INVITEs before the flood may end, about four seconds of it.
const FORGED_INVITES: u32 = 1_500;

/// The `n`th INVITE: every fourth repeats the Call-ID of the one before, every fourth its Call-ID and tag under another CSeq, and
/// every fourth all of them over another path.
fn forged(local: SocketAddr, edge: SocketAddr, n: u32, sdp: &str) -> String {
    let (call, tag, number) = match n % 4 {
        0 => (n, n, 1),
        1 => (n - 1, n, 1),
        2 => (n - 2, n - 2, 2),
        _ => (n - 3, n - 3, 1),
    };
    let did = "+622150001000";
    format!(
        "INVITE sip:{did}@{edge} SIP/2.0\r\nVia: SIP/2.0/UDP {local};branch=z9hG4bK{n};rport\r\nMax-Forwards: 70\r\n\
         From: <sip:08123456789@{local}>;tag={tag}\r\nTo: <sip:{did}@{edge}>\r\nCall-ID: {call}@forged\r\nCSeq: {number} INVITE\r\n\
         Contact: <sip:forged@{local}>\r\nContent-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{sdp}",
        sdp.len()
    )
}

/// Calls 400 times a second until aborted, and counts that. The SDP names the socket of somebody else.
async fn flood(edge: SocketAddr, victim: &UdpSocket) -> (JoinHandle<()>, Arc<AtomicU32>) {
    let socket = UdpSocket::bind((FORGED, 0)).await.unwrap();
    let victim = victim.local_addr().unwrap();
    let sdp = offer(victim.port()).replace("127.0.0.1", &victim.ip().to_string());
    let sent = Arc::new(AtomicU32::new(0));
    let counted = sent.clone();
    let flooding = tokio::spawn(async move {
        let local = socket.local_addr().unwrap();
        let mut steps = interval(Duration::from_millis(10));
        for step in 0.. {
            steps.tick().await;
            for n in 4 * step..4 * step + 4 {
                let invite = forged(local, edge, n, &sdp);
                let _ = socket.send_to(invite.as_bytes(), edge).await;
                counted.fetch_add(1, Relaxed);
            }
        }
    });
    (flooding, sent)
}

async fn edge(own_limit: Option<u32>) -> TestEdge {
    TestEdge::with(CallBehaviour::Tone, MAX_CALLS, |sip| {
        sip.trunks = vec![at("forged", "127.0.0.2/32"), at("other", "127.0.0.3/32")];
        sip.trunks[0].calls_per_second = own_limit;
    })
    .await
}

/// Others call one after the other while the flood lasts, and all of them are answered.
async fn others_call_during_the_flood(bench: &TestEdge, victim: &UdpSocket) {
    let (flooding, sent) = flood(bench.udp(), victim).await;
    let mut others = 0;
    while others < OTHERS || sent.load(Relaxed) < FORGED_INVITES {
        let (status, mut phone) = invited("127.0.0.3", bench).await;
        assert_eq!(status, 200, "after {others} calls");
        phone.acknowledge("").await;
        phone.hang_up().await;
        others += 1;
        assert!(bench.edge.statistics().calls <= MAX_CALLS);
    }
    flooding.abort();
}

/// The calls of the flood were begun and not answered, and nobody was sent media for them.
fn costs_nothing(bench: &TestEdge, victim: &UdpSocket) {
    let mut calls = bench.calls();
    calls.retain(|call| call.trunk == "forged");
    assert!(calls.len() > LATE, "they are offered");
    let begins = calls
        .iter()
        .any(|call| call.events.contains(&LegEvent::Answered));
    assert!(!begins, "a voice would speak");
    assert!(victim.try_recv(&mut [0; 2_048]).is_err(), "there is media");
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_calls_of_a_trunk_hold_no_line_and_cost_others_nothing() {
    let bench = edge(None).await;
    let victim = UdpSocket::bind("127.0.0.66:0").await.unwrap();
    others_call_during_the_flood(&bench, &victim).await;
    let refused = bench.edge.statistics().refused;
    let of = |reason| {
        let mut found = refused.iter().filter(|one| one.trunk == "forged");
        let found = found.find(|one| one.reason == reason);
        found.map_or(0, |one| one.count)
    };
    assert!(of("lines") > 0 && of("repeated") > 0, "{refused:?}");
    // The next forged call that finds a line gives it back before its 200 is repeated for the third time, after 3.5 s.
    let mut last = loop {
        let (status, phone) = invited(FORGED, &bench).await;
        if status == 200 {
            break phone;
        }
    };
    let mut repeated = 0;
    while bench.edge.statistics().calls > 0 {
        last.expect("SIP/2.0 200").await;
        repeated += 1;
    }
    assert!(repeated <= 3, "{repeated} repetitions");
    let open = || {
        let calls = bench.calls().into_iter();
        calls.filter(|call| !call.over).count()
    };
    eventually("the others have ended", || open() <= LATE).await;
    costs_nothing(&bench, &victim);
}

/// A trunk with a limit of its own takes no more calls than that.
#[tokio::test(flavor = "multi_thread")]
async fn a_trunks_own_limit_holds_in_a_flood() {
    let bench = edge(Some(5)).await;
    let victim = UdpSocket::bind("127.0.0.66:0").await.unwrap();
    let begun = tokio::time::Instant::now();
    others_call_during_the_flood(&bench, &victim).await;
    let seconds = usize::try_from(begun.elapsed().as_secs()).unwrap() + 1;
    let calls = bench.calls();
    let forged = calls.iter().filter(|call| call.trunk == "forged").count();
    let allowed = 1..=5 * (seconds + 1);
    assert!(allowed.contains(&forged), "{forged} in {seconds} s");
}
