//! A bridge that stops unregisters.

use std::sync::Arc;

use dikala_entities::{Millis, Secret};
use dikala_protocol::client::Address;
use dikala_sip::settings::{
    Codec, Credentials, ListenAddress, RegisterSettings, SipSettings, SipTransport, Srtp, Trunk,
};
use dikala_telephony::{
    bridge::TelephonyBridge,
    settings::{BridgeSettings, Voice},
};
use dikala_testkit::{PATIENCE, eventually, phone::registrar};
use tokio::net::UdpSocket;

#[tokio::test(flavor = "multi_thread")]
async fn a_bridge_that_stops_takes_itself_off_its_registrars() {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let register = RegisterSettings {
        registrar: format!("sip:{}", socket.local_addr().unwrap()),
        credentials: Credentials {
            username: "dikala".to_owned(),
            password: "rahasia".to_owned(),
        },
        expires_seconds: 120,
        ..RegisterSettings::default()
    };
    let registered = Trunk {
        name: "here".to_owned(),
        register: Some(register),
        ..Trunk::default()
    };
    let settings = BridgeSettings {
        sip: SipSettings {
            threads: 2,
            max_calls: 1,
            listen: vec![ListenAddress {
                transport: SipTransport::Udp,
                address: "127.0.0.1:0".parse().unwrap(),
            }],
            public_address: None,
            local_networks: Vec::new(),
            tls: None,
            rtp_ports: 21_000..=21_099,
            codecs: vec![Codec::Pcma],
            srtp: Srtp::Off,
            trunks: vec![registered],
            nameservers: Vec::new(),
        },
        voice: Voice::default(),
        extra_ca_file: None,
        shutdown_seconds: 20,
        engine_lost_after_seconds: 30,
    };
    let service = Address {
        url: "ws://127.0.0.1:1/bridge/v1/connect".to_owned(),
        token: Secret::new("dkb_nobody"),
    };
    let (asked, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let registrar = tokio::spawn(registrar(socket, asked));
    let clock = Arc::new(|| Millis::from_i64(0));
    let bridge = TelephonyBridge::start(&settings, service, clock)
        .await
        .unwrap();
    let counted = bridge.counted();
    eventually("it is registered", async || {
        (counted.read().sip.registered_trunks == 1).then_some(())
    })
    .await;
    tokio::time::timeout(PATIENCE, bridge.stop()).await.unwrap();
    for expected in ["120", "0"] {
        let expires = tokio::time::timeout(PATIENCE, heard.recv()).await;
        assert_eq!(expires.unwrap().as_deref(), Some(expected));
    }
    registrar.abort();
}
