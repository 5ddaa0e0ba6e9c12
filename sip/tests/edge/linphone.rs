//! Calls of linphone: talk, hold and keys; directly, encrypted, and through kamailio with rtpengine.

use std::{net::SocketAddr, time::Duration};

use dikala_sip::{
    leg::LegEvent,
    settings::{Codec, ListenAddress, SipTransport, Srtp},
};
use tokio::{net::UdpSocket, time::timeout};

use crate::{
    programs::kamailio_with,
    support::{
        CallBehaviour, Certificate, ChildProgram, Linphone, LinphoneSettings, PATIENCE, TestEdge,
        both_hear, eventually, need, port, urged,
    },
};

const CALLER: &str = "+6281234567890";

/// Each side hears the tone, from now on.
async fn both_hear_it(bench: &TestEdge, phone: &Linphone) {
    let rate = match bench.call().codec {
        Some("opus") => 48_000,
        _ => 8_000,
    };
    both_hear(bench, CALLER, &phone.heard, rate).await;
}

async fn begins(bench: &TestEdge, phone: &mut Linphone, to: SocketAddr, transport: &str) {
    phone.command(&format!(
        "call sip:+622150001000@{to};transport={transport}"
    ));
    eventually("the call is answered", || bench.saw(&LegEvent::Answered)).await;
}

/// The keys that came so far.
fn keys(bench: &TestEdge) -> Vec<char> {
    let events = bench.call().events.into_iter();
    let keys = events.filter_map(|event| match event {
        LegEvent::Key(key) => Some(key),
        _ => None,
    });
    keys.collect()
}

/// Presses these keys, one after the other. Each comes once, and no other one.
async fn presses(bench: &TestEdge, phone: &mut Linphone, pressed: &[char]) {
    let mut expected = keys(bench);
    for key in pressed {
        expected.push(*key);
        phone.command(&key.to_string());
        eventually("the key comes", || keys(bench).len() >= expected.len()).await;
        assert_eq!(keys(bench), expected);
    }
}

/// Talk, hold, resumption, keys, and the end.
async fn converses(bench: &TestEdge, phone: &mut Linphone, pressed: &[char]) {
    both_hear_it(bench, phone).await;
    phone.command("pause");
    eventually("the call is held", || bench.saw(&LegEvent::Held(true))).await;
    // It refuses to resume until its pause is confirmed.
    let resumed = || bench.saw(&LegEvent::Held(false));
    urged("the call is resumed", resumed, || phone.command("resume 1")).await;
    both_hear_it(bench, phone).await;
    // It loses a key if a late answer restarts its streams, so the first one is pressed until it comes.
    let before = keys(bench);
    let comes = || keys(bench).ends_with(&['5']);
    urged("a key comes", comes, || phone.command("5")).await;
    for key in pressed {
        phone.command(&key.to_string());
        eventually("the key comes", || keys(bench).ends_with(&[*key])).await;
    }
    phone.command("terminate");
    eventually("the call is over", || bench.call().over).await;
    let came = keys(bench);
    let (first, last) = came.split_at(came.len() - pressed.len());
    assert_eq!(last, pressed);
    let urged = &first[before.len()..];
    assert!(urged.iter().all(|key| *key == '5'), "{came:?}");
    assert!(bench.saw(&LegEvent::HungUp));
    assert_eq!(bench.call().caller, CALLER);
}

#[tokio::test(flavor = "multi_thread")]
async fn linphone_talks_holds_and_presses_keys() {
    if !need("linphonec") || !need("sox") {
        return;
    }
    let bench = TestEdge::with(CallBehaviour::Echo, 10, |sip| {
        sip.codecs = vec![Codec::Pcma];
    })
    .await;
    let mut phone = Linphone::new(CALLER, &LinphoneSettings::default());
    begins(&bench, &mut phone, bench.udp(), "udp").await;
    both_hear_it(&bench, &phone).await;
    presses(&bench, &mut phone, &['9']).await;
    converses(&bench, &mut phone, &['4', '2', '7']).await;
    let agent = bench.call().user_agent.unwrap_or_default();
    assert!(agent.starts_with("Linphone"), "{agent}");
}

#[tokio::test(flavor = "multi_thread")]
async fn linphone_talks_over_tls_with_srtp() {
    if !need("linphonec") || !need("sox") {
        return;
    }
    let certificate = Certificate::of_testkit();
    let bench = TestEdge::with(CallBehaviour::Echo, 10, |sip| {
        sip.codecs = vec![Codec::Opus];
        sip.srtp = Srtp::Required;
        sip.tls = Some(certificate.files());
        sip.listen.push(ListenAddress {
            transport: SipTransport::Tls,
            address: "127.0.0.1:0".parse().unwrap(),
        });
    })
    .await;
    let settings = LinphoneSettings {
        srtp: true,
        ..LinphoneSettings::default()
    };
    let mut phone = Linphone::new(CALLER, &settings);
    let to = bench.address(SipTransport::Tls);
    begins(&bench, &mut phone, to, "tls").await;
    converses(&bench, &mut phone, &['4', '2', '7']).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn linphone_talks_over_tcp_and_ipv6_with_keys_in_requests() {
    if !need("linphonec") || !need("sox") {
        return;
    }
    let bench = TestEdge::with(CallBehaviour::Echo, 10, |sip| {
        sip.codecs = vec![Codec::Pcmu];
        sip.listen = vec![ListenAddress {
            transport: SipTransport::Tcp,
            address: "[::1]:0".parse().unwrap(),
        }];
    })
    .await;
    let settings = LinphoneSettings {
        info: true,
        ipv6: true,
        ..LinphoneSettings::default()
    };
    let mut phone = Linphone::new(CALLER, &settings);
    let to = bench.address(SipTransport::Tcp);
    begins(&bench, &mut phone, to, "tcp").await;
    converses(&bench, &mut phone, &['4', '2', '7']).await;
    let requests = bench.messages(&bench.call(), false, "INFO ");
    assert_eq!(requests.len(), keys(&bench).len());
}

/// A timer of the shortest interval is refreshed at its half.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes a minute"]
async fn linphone_is_refreshed_by_us_in_time() {
    if !need("linphonec") || !need("sox") {
        return;
    }
    let bench = TestEdge::with(CallBehaviour::Echo, 10, |sip| {
        sip.codecs = vec![Codec::Pcma];
    })
    .await;
    let settings = LinphoneSettings {
        timer: true,
        ..LinphoneSettings::default()
    };
    let mut phone = Linphone::new(CALLER, &settings);
    begins(&bench, &mut phone, bench.udp(), "udp").await;
    let refreshed = || !bench.messages(&bench.call(), true, "UPDATE ").is_empty();
    eventually("we refresh", refreshed).await;
    converses(&bench, &mut phone, &['4', '2', '7']).await;
}

/// The answer of the rtpengine with this control port, which may not listen yet.
async fn rtpengine_says(control: u16, request: &str) -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(("127.0.0.1", control)).await.unwrap();
    let mut answer = vec![0; 65_536];
    let asked = timeout(Duration::from_millis(500), async {
        // Each request has a cookie of its own.
        let cookie: u32 = rand::random();
        let request = format!("{cookie} d7:command{request}e");
        socket.send(request.as_bytes()).await?;
        socket.recv(&mut answer).await
    });
    let length = asked.await.map_or(0, |received| received.unwrap_or(0));
    String::from_utf8_lossy(&answer[..length]).into_owned()
}

/// The streams of a call through which half a second of audio came, in rtpengine's answer about it.
fn relayed_streams(told: &str) -> usize {
    let streams = told.split("6:totals").next().unwrap_or_default();
    // Its ports may receive what other tests send to anybody. That is no RTP.
    let of_media = streams.split("10:local port").skip(1);
    let packets = of_media
        .filter(|stream| stream.contains("5:flagsl3:RTP"))
        .filter_map(|stream| {
            let (_, rest) = stream.split_once("7:packetsi")?;
            rest.split('e').next()?.parse::<u32>().ok()
        });
    packets.filter(|packets| *packets > 25).count()
}

/// The routing of the recipe in `docs/trunks.md`.
fn recipe() -> &'static str {
    let recipes = include_str!("../../../docs/trunks.md");
    let begin = recipes.find("modparam(\"rtpengine\"").unwrap();
    let recipe = &recipes[begin..];
    &recipe[..recipe.find("```").unwrap()]
}

#[tokio::test(flavor = "multi_thread")]
async fn linphone_talks_through_kamailio_and_rtpengine_as_in_the_recipe() {
    if !["linphonec", "sox", "kamailio", "rtpengine"]
        .into_iter()
        .all(need)
    {
        return;
    }
    let bench = TestEdge::with(CallBehaviour::Echo, 10, |sip| {
        sip.codecs = vec![Codec::Pcma];
    })
    .await;
    let (proxy, control) = (port(), port());
    let mut rtpengine = std::process::Command::new("rtpengine");
    rtpengine
        .args([
            "--foreground",
            "--log-stderr",
            "--table=-1",
            "--interface=127.0.0.1",
        ])
        .args(["--port-min=40000", "--port-max=49999"])
        .arg(format!("--listen-ng=127.0.0.1:{control}"));
    let _rtpengine = ChildProgram::start(&mut rtpengine);
    let listens = timeout(PATIENCE, async {
        while !rtpengine_says(control, "4:ping").await.contains("pong") {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    listens.await.expect("rtpengine listens");
    let folder = tempfile::tempdir().unwrap();
    let routing = recipe()
        .replace("127.0.0.1:2223", &format!("127.0.0.1:{control}"))
        .replace("192.0.2.7:5060", &bench.udp().to_string());
    let _kamailio = kamailio_with(
        folder.path(),
        proxy,
        &format!("loadmodule \"rtpengine.so\"\n{routing}"),
    );
    let mut phone = Linphone::new(CALLER, &LinphoneSettings::default());
    let to = SocketAddr::from(([127, 0, 0, 1], proxy));
    begins(&bench, &mut phone, to, "udp").await;
    both_hear_it(&bench, &phone).await;
    let id = bench.call().sip_call_id;
    let told = rtpengine_says(control, &format!("5:query7:call-id{}:{id}", id.len())).await;
    assert_eq!(relayed_streams(&told), 2, "{told}");
    // Behind rtpengine it loses a key that follows closely.
    converses(&bench, &mut phone, &[]).await;
}
