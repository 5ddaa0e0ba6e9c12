//! Strangers and single trunks that exceed their limits: other peers are served all the same.

use std::{net::SocketAddr, time::Duration};

use dikala_sip::{
    leg::LegEvent,
    settings::{SipTransport, Trunk},
};
use rstest::rstest;
use tokio::{
    net::{TcpSocket, UdpSocket},
    task::JoinHandle,
};

use crate::support::{
    CallBehaviour, PATIENCE, PhoneMedia, ScriptedPhone, TestEdge, eventually, header, offer, trunk,
};

async fn of_users() -> TestEdge {
    TestEdge::with(CallBehaviour::Echo, 10, |sip| {
        sip.trunks = TestEdge::of_users()
    })
    .await
}

/// Sends this from these addresses, about ten thousand times a second in all, until aborted.
async fn spray(
    edge: SocketAddr,
    hosts: std::ops::Range<u8>,
    datagram: impl Fn(SocketAddr, u32) -> Vec<u8> + Send + 'static,
) -> JoinHandle<()> {
    let mut sockets = Vec::new();
    for last in hosts {
        let socket = UdpSocket::bind((format!("127.0.0.{last}"), 0))
            .await
            .unwrap();
        sockets.push(socket);
    }
    tokio::spawn(async move {
        for number in 0.. {
            for (at, socket) in (0..).zip(sockets.iter().cycle().take(40)) {
                let bytes = datagram(socket.local_addr().unwrap(), number * 40 + at);
                let _ = socket.send_to(&bytes, edge).await;
            }
            tokio::time::sleep(Duration::from_micros(2_500)).await;
        }
    })
}

fn options(local: SocketAddr, number: u32) -> Vec<u8> {
    format!(
        "OPTIONS sip:a@b SIP/2.0\r\nVia: SIP/2.0/UDP {local};branch=z9hG4bK{number};rport\r\nMax-Forwards: 70\r\n\
         From: <sip:x@y>;tag=1\r\nTo: <sip:a@b>\r\nCall-ID: {number}@{local}\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n"
    )
    .into_bytes()
}

async fn tcp_from(host: &str, edge: SocketAddr) -> ScriptedPhone {
    let socket = TcpSocket::new_v4().unwrap();
    socket
        .bind(SocketAddr::new(host.parse().unwrap(), 0))
        .unwrap();
    let stream = socket.connect(edge).await.unwrap();
    let local = stream.local_addr().unwrap();
    ScriptedPhone::over("TCP", Box::new(stream), local, edge)
}

/// True if a stranger's INVITE is answered. The stranger retransmits it as in RFC 3261.
async fn is_challenged(bench: &TestEdge) -> bool {
    let mut phone = ScriptedPhone::udp_from("127.0.0.99", bench.udp()).await;
    let invite = phone.request("INVITE", "", &offer(40_000));
    for wait in [500, 1_000, 2_000] {
        phone.send(&invite).await;
        if let Some(heard) = phone.hears(Duration::from_millis(wait)).await {
            return heard.starts_with("SIP/2.0 407");
        }
    }
    false
}

#[tokio::test(flavor = "multi_thread")]
async fn datagrams_of_one_byte_do_not_make_the_edge_deaf() {
    let bench = of_users().await;
    let spray = spray(bench.udp(), 2..10, |_, _| b"x".to_vec()).await;
    for _ in 0..10 {
        assert!(is_challenged(&bench).await);
    }
    spray.abort();
    assert_eq!(
        bench.edge.statistics().strangers_dropped,
        0,
        "rubbish counts for nothing"
    );
}

/// Datagrams can carry a forged address, connections cannot.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_datagrams_takes_nothing_from_connections() {
    let bench = of_users().await;
    let spray = spray(bench.udp(), 99..100, options).await;
    eventually("it is too much", || {
        bench.edge.statistics().strangers_dropped > 500
    })
    .await;
    for _ in 0..5 {
        let mut phone = tcp_from("127.0.0.99", bench.address(SipTransport::Tcp)).await;
        let invite = phone.request("INVITE", "", &offer(40_000));
        phone.send(&invite).await;
        phone.expect("SIP/2.0 407").await;
    }
    spray.abort();
}

/// Nothing is retransmitted over a connection.
#[tokio::test(flavor = "multi_thread")]
async fn what_comes_too_fast_over_a_connection_is_answered_later() {
    let bench = of_users().await;
    let mut phone = tcp_from("127.0.0.98", bench.address(SipTransport::Tcp)).await;
    let mut all = String::new();
    for _ in 0..600 {
        all += &phone.request("OPTIONS", "", "");
    }
    phone.send(&all).await;
    for answered in 0..600 {
        let heard = phone.hears(PATIENCE).await;
        assert!(
            heard.is_some_and(|heard| heard.starts_with("SIP/2.0 200")),
            "{answered} were answered"
        );
    }
    assert_eq!(bench.edge.statistics().strangers_dropped, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn sixteen_addresses_do_not_keep_others_from_connecting() {
    let bench = of_users().await;
    let edge = bench.address(SipTransport::Tcp);
    let mut idle = Vec::new();
    for last in 100..116 {
        for _ in 0..32 {
            let mut phone = tcp_from(&format!("127.0.0.{last}"), edge).await;
            let options = phone.request("OPTIONS", "", "");
            phone.send(&options).await;
            phone.expect("SIP/2.0 200").await;
            idle.push(phone);
        }
    }
    let mut newcomers = Vec::new();
    for last in 2..6 {
        let mut phone = tcp_from(&format!("127.0.0.{last}"), edge).await;
        let invite = phone.request("INVITE", "", &offer(40_000));
        phone.try_send(invite.as_bytes()).await;
        let heard = phone.hears(PATIENCE).await;
        assert!(heard.is_some_and(|heard| heard.starts_with("SIP/2.0 407")));
        newcomers.push(phone);
    }
    // Each replaced the longest silent connection of an address with the most.
    let mut closed = 0;
    for phone in &mut idle {
        let options = phone.request("OPTIONS", "", "");
        phone.try_send(options.as_bytes()).await;
        closed += usize::from(phone.hears(PATIENCE).await.is_none());
    }
    assert!(closed >= newcomers.len(), "{closed} were closed");
}

pub fn at(name: &str, address: &str) -> Trunk {
    Trunk {
        name: name.to_owned(),
        addresses: vec![address.parse().unwrap()],
        ..trunk()
    }
}

/// The status of the final answer to an INVITE that is not acknowledged, with the phone that sent it.
pub async fn invited(host: &str, bench: &TestEdge) -> (u16, ScriptedPhone) {
    let mut phone = ScriptedPhone::udp_from(host, bench.udp()).await;
    let invite = phone.request("INVITE", "", &offer(40_000));
    phone.send(&invite).await;
    loop {
        let status = phone.expect("SIP/2.0 ").await[8..11].parse().unwrap();
        if status >= 200 {
            return (status, phone);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_trunk_leaves_lines_to_the_others() {
    let bench = TestEdge::with(CallBehaviour::Echo, 8, |sip| {
        sip.trunks = vec![at("greedy", "127.0.0.2/32"), at("other", "127.0.0.3/32")];
    })
    .await;
    let mut held = Vec::new();
    let mut refused = 0;
    for _ in 0..12 {
        let (status, mut phone) = invited("127.0.0.2", &bench).await;
        match status {
            200 => phone.acknowledge("").await,
            _ => refused += 1,
        }
        held.push(phone);
    }
    assert!(refused > 4, "it took {} lines", 12 - refused);
    assert_eq!(invited("127.0.0.3", &bench).await.0, 200);
}

/// `required`: a header of the forged INVITEs; `unacknowledged`: the response that they leave unacknowledged.
#[rstest]
#[case::the_answer("", "SIP/2.0 200")]
#[case::the_ringing("Require: 100rel\r\n", "SIP/2.0 180")]
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_nobody_acknowledges_gives_its_line_back(
    #[case] required: &str,
    #[case] unacknowledged: &str,
) {
    let bench = TestEdge::with(CallBehaviour::Echo, 3, |_| ()).await;
    let mut forged = Vec::new();
    for _ in 0..3 {
        let mut phone = ScriptedPhone::udp_from("127.0.0.2", bench.udp()).await;
        let invite = phone.request("INVITE", required, &offer(40_000));
        phone.send(&invite).await;
        phone.answered(unacknowledged).await;
        forged.push(phone);
    }
    assert_eq!(invited("127.0.0.3", &bench).await.0, 503);
    eventually("the lines are free", || bench.edge.statistics().calls == 0).await;
    let (status, mut phone) = invited("127.0.0.3", &bench).await;
    assert_eq!(status, 200);
    phone.acknowledge("").await;
    // The response is still retransmitted, and a call that is acknowledged late has a line again.
    let mut late = forged.swap_remove(0);
    let repeated = late.expect(unacknowledged).await;
    acknowledge(&mut late, &repeated).await;
    eventually("both have lines", || bench.edge.statistics().calls == 2).await;
    late.hang_up().await;
    phone.hang_up().await;
}

/// Acknowledges a 200, or a reliable 180 and then the 200.
async fn acknowledge(phone: &mut ScriptedPhone, response: &str) {
    if let Some(number) = header(response, "RSeq") {
        let rack = format!("RAck: {number} 1 INVITE\r\n");
        phone.ask("PRACK", &rack, "").await;
        while !phone.expect("SIP/2.0 200").await.contains("CSeq: 1 INVITE") {}
        phone.cseq = 1;
        phone.acknowledge("").await;
        phone.cseq = 2;
        return;
    }
    phone.acknowledge("").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ringing_that_is_acknowledged_late_needs_a_free_line() {
    let bench = TestEdge::with(CallBehaviour::Echo, 1, |_| ()).await;
    let mut late = ScriptedPhone::udp_from("127.0.0.2", bench.udp()).await;
    let invite = late.request("INVITE", "Require: 100rel\r\n", &offer(40_000));
    late.send(&invite).await;
    let ringing = late.answered("SIP/2.0 180").await;
    eventually("its line is free", || bench.edge.statistics().calls == 0).await;
    let (status, mut phone) = invited("127.0.0.3", &bench).await;
    assert_eq!(status, 200);
    phone.acknowledge("").await;
    let rack = format!("RAck: {} 1 INVITE\r\n", header(&ringing, "RSeq").unwrap());
    late.ask("PRACK", &rack, "").await;
    late.expect("SIP/2.0 200").await;
    late.expect("SIP/2.0 503").await;
    phone.hang_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_acknowledged_late_needs_a_free_line() {
    let bench = TestEdge::with(CallBehaviour::Echo, 1, |_| ()).await;
    let (_, mut late) = invited("127.0.0.2", &bench).await;
    eventually("its line is free", || bench.edge.statistics().calls == 0).await;
    let (status, mut phone) = invited("127.0.0.3", &bench).await;
    assert_eq!(status, 200);
    phone.acknowledge("").await;
    late.acknowledge("").await;
    let bye = late.expect("BYE ").await;
    let reason = header(&bye, "Reason").unwrap();
    assert!(reason.contains("all lines are taken"), "{reason}");
    late.answer(&bye, "200 OK").await;
    phone.hang_up().await;
}

/// One more ends the oldest, of whose peer nothing was heard since.
#[tokio::test(flavor = "multi_thread")]
async fn ten_calls_of_a_trunk_wait_for_an_acknowledgement() {
    let bench = TestEdge::with(CallBehaviour::Echo, 20, |_| ()).await;
    let mut forged = Vec::new();
    for _ in 0..10 {
        forged.push(invited("127.0.0.2", &bench).await.1);
    }
    eventually("the lines are free", || bench.edge.statistics().calls == 0).await;
    let over = || bench.calls().iter().filter(|call| call.over).count();
    assert_eq!(over(), 0);
    let (_, _phone) = invited("127.0.0.3", &bench).await;
    eventually("one has ended", || over() == 1).await;
    let mut ended = 0;
    for phone in &mut forged {
        while let Some(heard) = phone.hears(Duration::from_millis(50)).await {
            ended += usize::from(heard.starts_with("BYE "));
        }
    }
    assert_eq!((ended, over()), (1, 1));
}

/// Some phones acknowledge late, but speak at once. Media from elsewhere proves nothing, even if the SDP names its source: a forged
/// INVITE may name an address of the forger.
#[tokio::test(flavor = "multi_thread")]
async fn media_from_the_signallings_address_begins_a_call_before_its_ack() {
    let bench = TestEdge::new(CallBehaviour::Tone).await;
    let mut sound = PhoneMedia::new().await;
    let mut named = PhoneMedia::at("127.0.0.66").await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let sdp = offer(named.port())
        .replace("c=IN IP4 127.0.0.1", "c=IN IP4 127.0.0.66")
        .replace("RTP/AVP 0 8 101", "RTP/AVP 8 101");
    let invite = phone.request("INVITE", "", &sdp);
    phone.send(&invite).await;
    let answer = phone.answered("SIP/2.0 200").await;
    for _ in 0..10 {
        named.send(&answer).await;
    }
    // The answer was retransmitted, so the packets have been read by now.
    phone.answered("SIP/2.0 200").await;
    assert!(!bench.saw(&LegEvent::Answered), "a stranger began it");
    sound.echoes(&answer).await;
    eventually("it has begun", || bench.saw(&LegEvent::Answered)).await;
    phone.acknowledge("").await;
    phone.hang_up().await;
}

/// A forged INVITE may name any address.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_gets_media_before_the_answer_is_acknowledged() {
    let bench = TestEdge::new(CallBehaviour::Tone).await;
    let media = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let invite = phone.request("INVITE", "", &offer(media.local_addr().unwrap().port()));
    phone.send(&invite).await;
    phone.answered("SIP/2.0 200").await;
    // The answer was retransmitted, so media would have been sent by now.
    phone.expect("SIP/2.0 200").await;
    let mut packet = [0; 2_048];
    assert!(media.try_recv(&mut packet).is_err(), "there is media");
    phone.acknowledge("").await;
    let heard = tokio::time::timeout(PATIENCE, media.recv(&mut packet)).await;
    assert!(heard.is_ok());
    phone.hang_up().await;
}

/// One call must not fill the table of transactions, in which the requests of all others stand. It can still be ended. Over TCP
/// nothing is retransmitted, so nothing is remembered there.
#[tokio::test(flavor = "multi_thread")]
async fn the_requests_of_one_call_leave_room_for_others() {
    let bench = TestEdge::new(CallBehaviour::Echo).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    phone.call("", &offer(40_000)).await;
    let mut refused = 0;
    for _ in 0..200 {
        phone.ask("OPTIONS", "", "").await;
        let answer = phone.answered("SIP/2.0 ").await;
        refused += u32::from(answer.starts_with("SIP/2.0 503"));
    }
    assert!(refused > 0, "one call's requests have no limit");
    phone.hang_up().await;
    let mut other = ScriptedPhone::tcp(bench.address(SipTransport::Tcp)).await;
    other.call("", &offer(40_002)).await;
    for _ in 0..200 {
        other.ask("OPTIONS", "", "").await;
        other.answered("SIP/2.0 200").await;
    }
    other.hang_up().await;
}

/// INVITEs to no number are refused at once. Those with unusable SDP reach the call, and are remembered.
#[rstest]
#[case::without_a_number("x", "SIP/2.0 404")]
#[case::without_usable_media("+622150001000", "SIP/2.0 488")]
#[tokio::test(flavor = "multi_thread")]
async fn what_one_source_sends_leaves_room_to_hang_up(#[case] did: &str, #[case] refused: &str) {
    let bench = TestEdge::with(CallBehaviour::Echo, 200, |sip| {
        sip.trunks = vec![at("greedy", "127.0.0.2/32"), at("other", "127.0.0.3/32")];
    })
    .await;
    let mut standing = Vec::new();
    for host in ["127.0.0.2", "127.0.0.3"] {
        let mut phone = ScriptedPhone::udp_from(host, bench.udp()).await;
        phone.call("", &offer(40_000)).await;
        standing.push(phone);
    }
    let mut greedy = tcp_from("127.0.0.2", bench.address(SipTransport::Tcp)).await;
    greedy.did = did.to_owned();
    greedy.to = format!("<sip:{did}@{}>", bench.udp());
    let unusable = offer(40_000).replace("RTP/AVP 0 8 101", "RTP/AVP 99");
    // The answers to a batch fit into the connection's queue.
    for batch in 0..1_050 {
        let mut invites = String::new();
        for number in 0..20 {
            greedy.call_id = format!("{batch}-{number}@greedy");
            invites += &greedy.request("INVITE", "", &unusable);
        }
        greedy.send(&invites).await;
        let mut answers = 0;
        while answers < 20 {
            let heard = greedy.hears(PATIENCE).await;
            let heard = heard.unwrap_or_else(|| panic!("answer {answers} of batch {batch}"));
            if !heard.starts_with("SIP/2.0 100") {
                assert!(batch > 0 || heard.starts_with(refused), "{heard}");
                answers += 1;
            }
        }
    }
    for mut phone in standing {
        phone.hang_up().await;
    }
    let (status, mut phone) = invited("127.0.0.3", &bench).await;
    assert_eq!(status, 200);
    phone.acknowledge("").await;
    phone.hang_up().await;
}
