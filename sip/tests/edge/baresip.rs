//! Every transport with every codec, plain and encrypted, with baresip.

use std::sync::Arc;

use dikala_sip::settings::{ListenAddress, SipTransport};
use tokio::{sync::Semaphore, task::JoinSet};

use crate::support::{CallBehaviour, Certificate, TestEdge, need, talks, wait_for_most_turns};

/// Concurrent calls: unoptimised Opus is slow.
const AT_ONCE: usize = 6;

#[tokio::test(flavor = "multi_thread")]
async fn baresip_talks_in_every_codec_over_every_transport_clear_and_encrypted() {
    if !need("baresip") || !need("sox") {
        return;
    }
    wait_for_most_turns();
    let certificate = Certificate::of_testkit();
    let bench = TestEdge::with(CallBehaviour::Echo, 24, |sip| {
        sip.tls = Some(certificate.files());
        sip.listen.push(ListenAddress {
            transport: SipTransport::Tls,
            address: "127.0.0.1:0".parse().unwrap(),
        });
    })
    .await;
    let (bench, turns) = (Arc::new(bench), Arc::new(Semaphore::new(AT_ONCE)));
    let mut cells = JoinSet::new();
    for transport in [SipTransport::Udp, SipTransport::Tcp, SipTransport::Tls] {
        for codec in ["PCMA", "PCMU", "G722", "opus"] {
            for encryption in ["", ";mediaenc=srtp-mand"] {
                let (bench, turns) = (Arc::clone(&bench), Arc::clone(&turns));
                cells.spawn(async move {
                    let _turn = turns.acquire().await.unwrap();
                    let kind = if encryption.is_empty() {
                        "clear"
                    } else {
                        "sdes"
                    };
                    let caller = format!("{transport:?}-{codec}-{kind}").to_lowercase();
                    let named = match codec {
                        "opus" => "opus/48000/2",
                        "G722" => "G722/16000/1",
                        other => other,
                    };
                    let account = format!(
                        "<sip:{caller}@127.0.0.1>;regint=0;audio_codecs={named}{encryption}"
                    );
                    talks(&bench, &caller, &account, transport, codec).await;
                });
            }
        }
    }
    let mut talked = 0;
    while let Some(cell) = cells.join_next().await {
        cell.unwrap();
        talked += 1;
    }
    assert_eq!(talked, 24);
}
