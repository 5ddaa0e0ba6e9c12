//! Where the bridge is a user itself: a registrar of our own, and what comes from beside it.

use dikala_telephony::settings::{Credentials, Register};
use tokio::{net::UdpSocket, sync::mpsc};

use crate::{
    stopping::registrar,
    support::{Bench, Manner, PATIENCE, Phone, eventually, flood, header},
};

fn at(registrar: String, expires_seconds: u32) -> Register {
    Register {
        registrar,
        credentials: Credentials {
            username: "dikala".to_owned(),
            password: "rahasia".to_owned(),
        },
        expires_seconds,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_brief_registration_is_asked_for_as_it_is_told_and_renewed() {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let register = at(format!("sip:{}", socket.local_addr().unwrap()), 2);
    let (asked, mut heard) = mpsc::unbounded_channel();
    let registrar = tokio::spawn(registrar(socket, asked));
    let _bench = Bench::with(Manner::Echo, 10, |sip| {
        sip.trunks[0].register = Some(register);
    })
    .await;
    for _ in 0..3 {
        let expires = tokio::time::timeout(PATIENCE, heard.recv()).await;
        assert_eq!(expires.unwrap().as_deref(), Some("2"));
    }
    registrar.abort();
}

/// A registrar may answer from another port than it listens on, so only what it answers tells it from strangers.
#[tokio::test(flavor = "multi_thread")]
async fn a_registrar_is_heard_beside_a_flood() {
    let (socket, other) = (
        UdpSocket::bind("127.0.0.1:0").await.unwrap(),
        UdpSocket::bind("127.0.0.1:0").await.unwrap(),
    );
    let register = at(socket.local_addr().unwrap().to_string(), 1);
    let registrar = dikala_telephony::sip::registrar(&register.registrar).unwrap();
    let bench = Bench::with(Manner::Echo, 10, |sip| {
        sip.trunks = Bench::of_users();
        sip.trunks[0].register = Some(Register {
            registrar,
            ..register
        });
    })
    .await;
    let flood = flood(bench.udp()).await;
    eventually("it is too much", || {
        bench.edge.statistics().strangers_dropped > 2_000
    })
    .await;
    let mut buffer = vec![0; 65_536];
    // What was asked before the first answer was on its way is asked again in any case.
    let (mut numbers, mut repeated) = (Vec::new(), 0);
    while numbers.len() < 6 {
        let received = tokio::time::timeout(PATIENCE, socket.recv_from(&mut buffer));
        let (length, from) = received.await.unwrap().unwrap();
        let request = String::from_utf8_lossy(&buffer[..length]).into_owned();
        let Some(number) = header(&request, "CSeq").map(str::to_owned) else {
            continue;
        };
        if numbers.contains(&number) {
            repeated += usize::from(numbers.len() > 1);
        } else {
            numbers.push(number);
        }
        let answer = Phone::udp(bench.udp())
            .await
            .response(&request, "200 OK", "", "");
        other.send_to(answer.as_bytes(), from).await.unwrap();
    }
    flood.abort();
    assert!(repeated <= 1, "{repeated} were asked again");
}
