//! A bridge that stops unregisters.

use std::{sync::Arc, time::Duration};

use dikala_entities::{Millis, Secret};
use dikala_protocol::client::Address;
use dikala_telephony::{
    bridge::TelephonyBridge,
    settings::{
        BridgeSettings, Codec, Credentials, Listen, Register, Sip, SipTransport, Srtp, Voice,
        VoiceModel,
    },
};
use tokio::net::UdpSocket;

use super::support::{PATIENCE, eventually, header, trunk};

/// Accepts every REGISTER, and reports the seconds that it asked for.
pub async fn registrar(socket: UdpSocket, asked: tokio::sync::mpsc::UnboundedSender<String>) {
    let mut bytes = [0; 4_096];
    while let Ok((length, from)) = socket.recv_from(&mut bytes).await {
        let request = String::from_utf8_lossy(&bytes[..length]).into_owned();
        let Some(expires) = header(&request, "Expires") else {
            continue;
        };
        let same = ["Via", "From", "To", "Call-ID", "CSeq", "Contact", "Expires"]
            .map(|name| format!("{name}: {}\r\n", header(&request, name).unwrap()));
        let answer = format!(
            "SIP/2.0 200 OK\r\n{}Content-Length: 0\r\n\r\n",
            same.concat()
        );
        socket.send_to(answer.as_bytes(), from).await.unwrap();
        let _ = asked.send(expires.to_owned());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bridge_that_stops_takes_itself_off_its_registrars() {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let mut registered = trunk();
    registered.register = Some(Register {
        registrar: format!("sip:{}", socket.local_addr().unwrap()),
        credentials: Credentials {
            username: "dikala".to_owned(),
            password: "rahasia".to_owned(),
        },
        expires_seconds: 120,
    });
    let settings = BridgeSettings {
        max_calls: 1,
        sip: Sip {
            listen: vec![Listen {
                transport: SipTransport::Udp,
                address: "127.0.0.1:0".parse().unwrap(),
            }],
            public_address: None,
            tls: None,
            rtp_ports: 21_000..=21_099,
            codecs: vec![Codec::Pcma],
            srtp: Srtp::Off,
            trunks: vec![registered],
        },
        voice: Voice {
            model: VoiceModel::Scripted,
            barge_in: true,
        },
        extra_ca_file: None,
        shutdown_seconds: 20,
        engine_lost_after_seconds: 30,
    };
    let engine = Address {
        url: "ws://127.0.0.1:1/bridge/v1/connect".to_owned(),
        token: Secret::new("dkb_nobody"),
    };
    let (asked, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let registrar = tokio::spawn(registrar(socket, asked));
    let clock = Arc::new(|| Millis::from_i64(0));
    let bridge = TelephonyBridge::start(&settings, engine, clock)
        .await
        .unwrap();
    let counted = bridge.counted();
    eventually("it is registered", || {
        counted.read().sip.registered_trunks == 1
    })
    .await;
    tokio::time::timeout(PATIENCE + Duration::from_secs(10), bridge.stop())
        .await
        .unwrap();
    for expected in ["120", "0"] {
        let expires = tokio::time::timeout(PATIENCE, heard.recv()).await;
        assert_eq!(expires.unwrap().as_deref(), Some(expected));
    }
    registrar.abort();
}
