//! The media of one call: ports, end, destination.

use std::net::UdpSocket;

use super::*;
use crate::{
    media::sdp::MediaDirection,
    quality::LegRole,
    settings::{Codec, SipSettings, Srtp, UserAgent},
};

const PATIENCE: Duration = Duration::from_secs(20);

/// An edge without trunks.
fn shared() -> Arc<Shared> {
    let settings = SipSettings {
        threads: 2,
        max_calls: 1,
        listen: Vec::new(),
        public_address: None,
        local_networks: Vec::new(),
        tls: None,
        rtp_ports: 22_000..=22_999,
        codecs: vec![Codec::Pcma],
        srtp: Srtp::Off,
        trunks: Vec::new(),
        nameservers: Vec::new(),
    };
    let media = tokio::runtime::Handle::current();
    let tls = dikala_testkit::tls::client_config(&[]);
    let user_agent = UserAgent {
        name: "test",
        product: "Test/1",
    };
    Arc::new(Shared::new(settings, user_agent, tls, media, None))
}

fn reporter(shared: &Shared) -> QualityReporter {
    shared.qualities.reporter("id".into(), LegRole::Caller)
}

fn terms(remote: SocketAddr) -> MediaTerms {
    MediaTerms {
        codec: Codec::Pcma,
        send_payload: 8,
        receive_payload: 8,
        events: None,
        send_events: None,
        remote,
        remote_rtcp: remote,
        rtcp_mux: false,
        has_short_packets: false,
        direction: MediaDirection::SendRecv,
        crypto: None,
    }
}

/// A model would take the echo for the caller's voice. A person hears what the other side sends.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_hears_no_echo_and_a_person_hears_all() {
    let shared = shared();
    let here = SocketAddr::from(([127, 0, 0, 1], 9));
    let stream = MediaStream::new(terms(here), here.ip(), RtpSeed::new([1; 18]), 0);
    let (_speech, speech) = mpsc::channel(1);
    let (events, mut happened) = mpsc::channel(512);
    let mut task = MediaTask {
        is_with_agent: true,
        stream: stream.expect("a stream"),
        way: MediaOutput {
            sockets: MediaSockets::bind(&shared.settings.rtp_ports, here.ip()).expect("a pair"),
            signalling: here.ip(),
            shared: shared.clone(),
        },
        key_dedup: KeyDeduplicator::default(),
        begun: None,
        is_answered: true,
        first: None,
        speech,
        events,
        reporter: reporter(&shared),
        report_ms: REPORT_MS,
        shared: shared.clone(),
    };
    let mut hears = |task: &mut MediaTask| {
        let frames = [
            StreamEvent::Hidden(vec![9; 320]),
            StreamEvent::Audio(vec![7; 320]),
        ];
        assert!(task.report_events(&mut frames.into()));
        [(); 2].map(|()| match happened.try_recv() {
            Ok(LegEvent::Audio(samples)) => samples[0],
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(hears(&mut task), [0, 7]);
    let (_speech, speech) = mpsc::channel(1);
    let same = task.events.clone();
    let joined = task.control(Control::Join(speech, same), &mut Vec::new());
    joined.expect("joined");
    assert_eq!(hears(&mut task), [9, 7]);
}

/// The task of a joined call may end before its media gets the new channels.
#[tokio::test(flavor = "multi_thread")]
async fn who_listens_may_come_later() {
    let phone = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let here = phone.local_addr().expect("bound");
    phone.set_read_timeout(Some(PATIENCE)).expect("set");
    let shared = shared();
    let sockets = MediaSockets::bind(&shared.settings.rtp_ports, here.ip()).expect("a pair");
    let to = SocketAddr::new(here.ip(), sockets.port);
    let (_speech, spoken) = mpsc::channel(1);
    let (events, gone) = mpsc::channel(512);
    drop(gone);
    let media = start(
        &shared,
        sockets,
        terms(here),
        here.ip(),
        spoken,
        events,
        reporter(&shared),
    );
    let MediaHandle { control, .. } = media.expect("media");
    control.send(Control::Begin).await.expect("begins");
    control.send(Control::Key('1')).await.expect("is pressed");
    let mut sequence = 0_u16;
    let mut speak = || {
        let mut packet = vec![0x80, 8];
        packet.extend_from_slice(&sequence.to_be_bytes());
        packet.extend_from_slice(&(u32::from(sequence) * 160).to_be_bytes());
        packet.extend_from_slice(&[0, 0, 0, 7]);
        packet.extend_from_slice(&[0x2a; 160]);
        sequence += 1;
        phone.send_to(&packet, to).expect("sent");
    };
    // Packets come back meanwhile, so those sent before have been received.
    for _ in 0..25 {
        speak();
        phone.recv(&mut [0; 2_048]).expect("silence is sent");
    }
    let (_speech, spoken) = mpsc::channel(1);
    let (events, mut happened) = mpsc::channel(512);
    let join = Control::Join(spoken, events);
    control.send(join).await.expect("the media goes on");
    let heard = async {
        loop {
            speak();
            if let Ok(Some(LegEvent::Audio(_))) = tokio::time::timeout(TICK, happened.recv()).await
            {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, heard)
        .await
        .expect("the caller is heard");
}

/// More events than the leg's channel holds end the media, and the call is told as soon as it reads.
#[tokio::test(flavor = "multi_thread")]
async fn who_reads_too_late_is_told_that_the_media_is_lost() {
    let phone = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let here = phone.local_addr().expect("bound");
    let shared = shared();
    let sockets = MediaSockets::bind(&shared.settings.rtp_ports, here.ip()).expect("a pair");
    let (speech, spoken) = mpsc::channel(8);
    let (events, mut happened) = mpsc::channel(2);
    let media = start(
        &shared,
        sockets,
        terms(here),
        here.ip(),
        spoken,
        events,
        reporter(&shared),
    );
    let MediaHandle { control, .. } = media.expect("media");
    control.send(Control::Begin).await.expect("begins");
    // The task stops reading when it ends.
    let speaks = async {
        for mark in 0.. {
            if speech.send(Speech::Mark(mark)).await.is_err() {
                return;
            }
        }
    };
    let speaks = tokio::time::timeout(PATIENCE, speaks).await;
    speaks.expect("the media ends");
    let reads = async {
        while let Some(event) = happened.recv().await {
            if event == LegEvent::MediaLost {
                return true;
            }
        }
        false
    };
    let told = tokio::time::timeout(PATIENCE, reads).await;
    assert_eq!(told, Ok(true));
}

#[tokio::test]
async fn a_codec_that_panics_ends_its_call() {
    let broken = async { Err(io::Error::other("no socket")) };
    let panicking = async { panic!("a codec choked") };
    let (told, mut happened) = mpsc::channel(1);
    guarded(broken, told.clone()).await;
    assert_eq!(happened.recv().await, Some(LegEvent::MediaLost));
    guarded(panicking, told.clone()).await;
    assert_eq!(happened.recv().await, Some(LegEvent::MediaLost));
    guarded(async { Ok(()) }, told).await;
    assert_eq!(happened.recv().await, None, "nothing is wrong");
}

/// A call from elsewhere whose SDP names this machine gets no media there.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sent_to_this_machine_for_a_call_from_elsewhere() {
    let phone = tokio::net::UdpSocket::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let here = phone.local_addr().expect("bound");
    let shared = shared();
    for (signalling, hears) in [("203.0.113.5", false), ("127.0.0.1", true)] {
        let sockets = MediaSockets::bind(&shared.settings.rtp_ports, here.ip()).expect("a pair");
        let (_speech, spoken) = mpsc::channel(1);
        let (events, _happened) = mpsc::channel(512);
        let signalling = signalling.parse().expect("an address");
        let control = start(
            &shared,
            sockets,
            terms(here),
            signalling,
            spoken,
            events,
            reporter(&shared),
        )
        .expect("media");
        control.control.send(Control::Begin).await.expect("begins");
        // A packet is due every 20 ms.
        let wait = if hears { PATIENCE } else { 10 * TICK };
        let heard = tokio::time::timeout(wait, phone.recv(&mut [0; 2_048])).await;
        assert_eq!(heard.is_ok(), hears, "signalling from {signalling}");
        drop(control);
    }
}

/// Media that never came is what an operator looks for.
#[tokio::test(flavor = "multi_thread")]
async fn a_leg_without_a_packet_is_reported_and_not_counted() {
    let here = SocketAddr::from(([127, 0, 0, 1], 9));
    let shared = shared();
    let sockets = MediaSockets::bind(&shared.settings.rtp_ports, here.ip()).expect("a pair");
    let (_speech, spoken) = mpsc::channel(1);
    let (events, _happened) = mpsc::channel(1);
    let reporter = reporter(&shared);
    let media = start(
        &shared,
        sockets,
        terms(here),
        here.ip(),
        spoken,
        events,
        reporter,
    );
    drop(media.expect("media"));
    let reported = async {
        loop {
            let call = shared.qualities.read("id").expect("a call");
            match call.caller {
                Some(caller) => return caller,
                None => tokio::time::sleep(TICK).await,
            }
        }
    };
    let caller = tokio::time::timeout(PATIENCE, reported).await;
    let caller = caller.expect("a report");
    assert_eq!((caller.received.packets, caller.received.mos), (0, None));
    let all = shared.counters.read().quality;
    assert!(all.concealed.counts.iter().all(|count| *count == 0));
}

#[test]
fn a_tick_that_is_late_stands_for_those_that_were_due_meanwhile() {
    for (late, more) in [(0, 0), (19, 0), (20, 1), (65, 3)] {
        assert_eq!(due_meanwhile(Duration::from_millis(late)), more, "{late}");
    }
}

#[test]
fn pairs_are_given_until_the_range_is_taken() {
    let here = IpAddr::from([127, 0, 0, 1]);
    // Other programs may hold some of the first ports.
    let (range, held) = (0..100)
        .find_map(|_| {
            let first = 18_001 + 2 * (rand::random::<u16>() % 400);
            let range = first..=first + 3;
            Some((range.clone(), MediaSockets::bind(&range, here).ok()?))
        })
        .expect("a free pair");
    assert_eq!(
        held.port,
        range.start() + 1,
        "the even one, and the odd one above it"
    );
    assert!(
        MediaSockets::bind(&range, here).is_err(),
        "there is no other"
    );
    for none in [65_535..=65_535, 7_001..=7_001, 0..=0] {
        assert!(MediaSockets::bind(&none, here).is_err(), "{none:?}");
    }
}
