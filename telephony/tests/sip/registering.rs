//! Where the bridge is a user itself: a registrar of our own, and what comes from beside it.

use dikala_telephony::settings::{Credentials, Register};
use tokio::{net::UdpSocket, sync::mpsc};

use crate::{
    stopping::registrar,
    support::{Bench, Manner, PATIENCE},
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
