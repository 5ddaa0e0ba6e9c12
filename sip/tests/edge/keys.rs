//! Keys of encrypted media in the SDP: with `srtp = "required"` they are exchanged over TLS only.

use std::time::Duration;

use dikala_sip::{
    leg::LegEvent,
    settings::{ListenAddress, SipSettings, SipTransport, Srtp},
};
use rstest::rstest;
use tokio::net::{TcpStream, UdpSocket};
use tokio_rustls::TlsConnector;

use crate::{
    secured::TlsServer,
    support::{
        CallBehaviour, Certificate, ScriptedPhone, TestEdge, eventually, header, offer, privately,
    },
};

const KEY: &str =
    "a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:WVNfX19zZW1jdGwgKCkgewkyMjA7fQp9CnVubGVz\r\n";

/// An edge that listens over TLS, too. Keys are worked with as `srtp` says.
async fn edge(
    srtp: Srtp,
    manner: CallBehaviour,
    change: impl FnOnce(&mut SipSettings),
) -> TestEdge {
    let certificate = Certificate::of_testkit();
    TestEdge::trusting(privately(), manner, 10, |sip| {
        sip.srtp = srtp;
        sip.tls = Some(certificate.files());
        sip.listen.push(ListenAddress {
            transport: SipTransport::Tls,
            address: "127.0.0.1:0".parse().unwrap(),
        });
        change(sip);
    })
    .await
}

/// A phone over this transport.
pub async fn phone(bench: &TestEdge, transport: SipTransport) -> ScriptedPhone {
    let edge = bench.address(transport);
    match transport {
        SipTransport::Udp => ScriptedPhone::udp(edge).await,
        SipTransport::Tcp => ScriptedPhone::tcp(edge).await,
        SipTransport::Tls => {
            let stream = TcpStream::connect(edge).await.unwrap();
            let local = stream.local_addr().unwrap();
            let connector = TlsConnector::from(privately());
            let name = "localhost".try_into().unwrap();
            let secured = connector.connect(name, stream).await.unwrap();
            ScriptedPhone::over("TLS", Box::new(secured), local, edge)
        }
    }
}

/// An offer with a key.
pub fn encrypted() -> String {
    offer(40_000).replace("RTP/AVP", "RTP/SAVP") + KEY
}

#[rstest]
#[case(Srtp::Optional, SipTransport::Udp, true)]
#[case(Srtp::Optional, SipTransport::Tcp, true)]
#[case(Srtp::Optional, SipTransport::Tls, true)]
#[case(Srtp::Required, SipTransport::Udp, false)]
#[case(Srtp::Required, SipTransport::Tcp, false)]
#[case(Srtp::Required, SipTransport::Tls, true)]
#[tokio::test(flavor = "multi_thread")]
async fn required_keys_come_over_tls_only(
    #[case] srtp: Srtp,
    #[case] transport: SipTransport,
    #[case] is_taken: bool,
) {
    let bench = edge(srtp, CallBehaviour::Echo, |_| ()).await;
    // The second INVITE has no offer: ours would bear a key.
    for body in [encrypted(), String::new()] {
        let mut phone = phone(&bench, transport).await;
        let invite = phone.request("INVITE", "", &body);
        phone.send(&invite).await;
        if is_taken {
            let answer = phone.answered("SIP/2.0 200").await;
            assert!(answer.contains("a=crypto:1 AES_CM"), "{answer}");
            continue;
        }
        let refused = phone.answered("SIP/2.0 488").await;
        for name in ["Warning", "Reason"] {
            let words = header(&refused, name).unwrap();
            assert!(words.contains("over TLS"), "{words}");
        }
        assert!(!refused.contains("a=crypto"), "{refused}");
    }
    assert_eq!(bench.calls().is_empty(), !is_taken);
}

/// The first offer decides about encryption, and later ones do not take it away if its keys came over TLS.
#[tokio::test(flavor = "multi_thread")]
async fn an_encrypted_call_does_not_become_clear() {
    let bench = edge(Srtp::Optional, CallBehaviour::Echo, |_| ()).await;
    let mut phone = phone(&bench, SipTransport::Tls).await;
    phone.call("", &encrypted()).await;
    for method in ["INVITE", "UPDATE"] {
        phone.ask(method, "", &offer(40_000)).await;
        let refused = phone.answered("SIP/2.0 488").await;
        assert!(header(&refused, "Warning").unwrap().contains("RTP/SAVP"));
        let ack = phone.written("ACK", "", "");
        if method == "INVITE" {
            phone.send(&ack).await;
        }
    }
    for answer in [encrypted(), offer(40_000)] {
        phone.ask("INVITE", "", "").await;
        let offered = phone.answered("SIP/2.0 200").await;
        assert!(offered.contains(" RTP/SAVP "), "{offered}");
        assert!(offered.contains("a=crypto:1 AES_CM"), "{offered}");
        phone.acknowledge(&answer).await;
    }
    let bye = phone.expect("BYE ").await;
    let reason = header(&bye, "Reason").unwrap();
    assert!(reason.contains("answer cannot be used"), "{reason}");
    phone.answer(&bye, "200 OK").await;
    let is_fault = |event: &LegEvent| matches!(event, LegEvent::Failed(_));
    eventually("the task hears", || {
        bench.call().events.iter().any(is_fault)
    })
    .await;
}

/// A clear offer over TLS is refused as before.
#[tokio::test(flavor = "multi_thread")]
async fn tls_alone_does_not_encrypt_the_media() {
    let bench = edge(Srtp::Required, CallBehaviour::Echo, |_| ()).await;
    let mut phone = phone(&bench, SipTransport::Tls).await;
    let invite = phone.request("INVITE", "", &offer(40_000));
    phone.send(&invite).await;
    let refused = phone.answered("SIP/2.0 488").await;
    assert!(header(&refused, "Warning").unwrap().contains("RTP/SAVP"));
}

/// A call that began over TLS, and goes on over UDP.
#[tokio::test(flavor = "multi_thread")]
async fn keys_do_not_follow_a_call_that_leaves_tls() {
    let bench = edge(Srtp::Required, CallBehaviour::Echo, |_| ()).await;
    let mut secured = phone(&bench, SipTransport::Tls).await;
    secured.call("", &encrypted()).await;
    let mut other = ScriptedPhone::udp(bench.udp()).await;
    other.call_id.clone_from(&secured.call_id);
    (other.to, other.cseq) = (secured.to.clone(), secured.cseq);
    for body in [encrypted(), String::new()] {
        other.ask("INVITE", "", &body).await;
        let refused = other.answered("SIP/2.0 488").await;
        assert!(!refused.contains("a=crypto"), "{refused}");
        let ack = other.written("ACK", "", "");
        other.send(&ack).await;
    }
    secured.cseq = other.cseq;
    secured.ask("INVITE", "", &encrypted()).await;
    secured.answered("SIP/2.0 200").await;
    secured.acknowledge("").await;
    secured.hang_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_is_sent_keys_over_tls_only() {
    let transferring = || CallBehaviour::Transfer("+62811111".to_owned());
    let clear = UdpSocket::bind("127.0.0.3:0").await.unwrap();
    let address = clear.local_addr().unwrap();
    for transport in ["udp", "tcp"] {
        let bench = edge(Srtp::Required, transferring(), |sip| {
            let uri = format!("sip:{address};transport={transport}");
            sip.trunks[0].outbound.uri = Some(uri);
        })
        .await;
        let mut phone = phone(&bench, SipTransport::Tls).await;
        phone.call("", &encrypted()).await;
        let is_refused = |event: &LegEvent| matches!(event, LegEvent::Transfer(Err(why)) if why.contains("transport=tls"));
        eventually("the task hears", || {
            bench.call().events.iter().any(is_refused)
        })
        .await;
        let pause = Duration::from_millis(100);
        let sent = tokio::time::timeout(pause, clear.recv(&mut [0; 2_048])).await;
        assert!(sent.is_err(), "{transport}");
        phone.hang_up().await;
    }
    let server = TlsServer::at("127.0.0.1").await;
    let bench = edge(Srtp::Required, transferring(), |sip| {
        let uri = format!("sip:localhost:{};transport=tls", server.port());
        sip.trunks[0].outbound.uri = Some(uri);
    })
    .await;
    let mut phone = phone(&bench, SipTransport::Tls).await;
    phone.call("", &encrypted()).await;
    let invite = server.accept().await.expect("INVITE ").await;
    assert!(invite.contains(" RTP/SAVP "), "{invite}");
    assert!(invite.contains("a=crypto:1 AES_CM"), "{invite}");
    phone.hang_up().await;
}
