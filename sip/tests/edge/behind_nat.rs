//! A phone behind the NAT of a provider (100.64.0.0/10), alone or behind a home's NAT, in network namespaces with routers that
//! translate.

use dikala_sip::{
    leg::{HangupNote, LegEvent, Order},
    settings::{ListenAddress, SipTransport, Trunk},
};
use rstest::rstest;
use tokio::net::UdpSocket;

use crate::support::{
    CallBehaviour, EDGE, NatBehaviour, NatLab, PATIENCE, PJSIP_RATE, PhoneMedia, PjsipPhone,
    PjsipSettings, ROUTER, STRANGER, ScriptedPhone, TestEdge, both_hear, eventually, header,
    need_pjsip, offer, pitch, urged,
};

use NatBehaviour::{EndpointIndependent, Symmetric, Twice};

/// An edge whose callers are echoed, and a phone with its private address in Contact and SDP.
struct NatCall<'a> {
    lab: &'a NatLab,
    bench: TestEdge,
    phone: ScriptedPhone,
    media: PhoneMedia,
    answer: String,
}

/// Runs the test in the network of the edge; not where no networks can be made.
fn in_lab(nat: NatBehaviour, test: impl AsyncFnOnce(&NatLab, TestEdge) + Send) {
    let Some(lab) = NatLab::new(nat) else { return };
    lab.inside("E", || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async { test(&lab, edge().await).await });
    });
}

/// The same with a call of a phone of our own.
fn in_call(nat: NatBehaviour, test: impl AsyncFnOnce(NatCall<'_>) + Send) {
    in_lab(nat, async |lab, bench| {
        test(NatCall::new(lab, bench).await).await;
    });
}

async fn edge() -> TestEdge {
    TestEdge::with(CallBehaviour::Echo, 10, |sip| {
        sip.listen = vec![ListenAddress {
            transport: SipTransport::Udp,
            address: format!("{EDGE}:0").parse().unwrap(),
        }];
        sip.trunks = vec![Trunk {
            name: "phones".to_owned(),
            addresses: vec![format!("{ROUTER}/32").parse().unwrap()],
            prefix: Some("+62".to_owned()),
            ..Trunk::default()
        }];
    })
    .await
}

impl<'a> NatCall<'a> {
    async fn new(lab: &'a NatLab, bench: TestEdge) -> Self {
        let mut phone = ScriptedPhone::at(lab.socket(lab.phone), bench.udp()).await;
        let media = PhoneMedia::of(lab.socket(lab.phone));
        let answer = phone.call("", &offer_at(lab.phone, &media)).await;
        Self {
            lab,
            bench,
            phone,
            media,
            answer,
        }
    }

    /// Phone and agent hear each other.
    async fn talks(&mut self) {
        let heard = self.bench.call().audio.len();
        self.media.echoes(&self.answer).await;
        let until = tokio::time::Instant::now() + PATIENCE;
        let hears = || {
            let audio = self.bench.call().audio;
            audio.len() >= heard + 16_000 && (380..420).contains(&pitch(&audio, 16_000))
        };
        while !hears() {
            assert!(
                tokio::time::Instant::now() < until,
                "the agent hears nothing"
            );
            self.media.echoes(&self.answer).await;
        }
    }

    /// The agent hangs up, and the phone gets the BYE.
    async fn hang_up(mut self) {
        let words = "enough said".to_owned();
        self.bench.order(Order::Hangup(HangupNote { words })).await;
        let bye = self.phone.expect("BYE ").await;
        self.phone.answer(&bye, "200 OK").await;
        eventually("the call is over", || self.bench.call().over).await;
        assert!(!self.bench.saw(&LegEvent::MediaLost));
    }
}

/// An offer of G.711 A-law at the private address.
fn offer_at(address: &str, media: &PhoneMedia) -> String {
    offer(media.port())
        .replace("127.0.0.1", address)
        .replace("RTP/AVP 0 8 101", "RTP/AVP 8 101")
        .replace("a=rtpmap:0 PCMU/8000\r\n", "")
}

#[rstest]
fn a_phone_behind_a_providers_nat_talks_and_gets_the_bye(
    #[values(Symmetric, EndpointIndependent, Twice)] nat: NatBehaviour,
) {
    in_call(nat, async |mut call| {
        let contact = header(&call.answer, "Contact").unwrap();
        assert!(contact.contains(EDGE), "{contact}");
        assert!(call.answer.contains(&format!("received={ROUTER}")));
        call.talks().await;
        call.hang_up().await;
    });
}

#[rstest]
fn a_mapping_that_changed_during_hold_is_followed(#[values(Symmetric, Twice)] nat: NatBehaviour) {
    in_call(nat, async |mut call| {
        call.talks().await;
        // The phone does not know its new port, so the SDP stays. Many phones begin a new stream.
        let sdp = offer_at(call.lab.phone, &call.media);
        call.media = PhoneMedia::of(call.lab.socket(call.lab.phone));
        for direction in ["sendonly", "sendrecv"] {
            let again = sdp.replace("sendrecv", direction);
            call.phone.ask("INVITE", "", &again).await;
            call.phone.answered("SIP/2.0 200").await;
            call.phone.acknowledge("").await;
        }
        call.talks().await;
        call.hang_up().await;
    });
}

#[rstest]
fn a_port_that_changes_in_mid_call_is_followed(#[values(Symmetric, Twice)] nat: NatBehaviour) {
    in_call(nat, async |mut call| {
        call.talks().await;
        for is_same_stream in [true, false] {
            let socket = call.lab.socket(call.lab.phone);
            if is_same_stream {
                call.media.moves_to(socket);
            } else {
                call.media = PhoneMedia::of(socket);
            }
            call.talks().await;
        }
        call.hang_up().await;
    });
}

#[rstest]
fn a_stranger_who_sprays_first_hears_nothing_and_locks_nobody_out(
    #[values(Symmetric, EndpointIndependent, Twice)] nat: NatBehaviour,
) {
    in_call(nat, async |mut call| {
        let mut stranger = PhoneMedia::of(call.lab.socket(STRANGER)).higher();
        for _ in 0..40 {
            stranger.send(&call.answer).await;
        }
        call.media.echoes(&call.answer).await;
        for _ in 0..50 {
            for _ in 0..4 {
                stranger.send(&call.answer).await;
            }
            call.media.echoes(&call.answer).await;
        }
        assert_eq!(stranger.forgets(), 0, "nothing goes to the stranger");
        call.talks().await;
        call.hang_up().await;
    });
}

/// The routers are of the kinds that the tests name.
#[rstest]
#[case(Symmetric, false)]
#[case(EndpointIndependent, true)]
fn a_full_cone_has_one_port_for_everybody(#[case] nat: NatBehaviour, #[case] is_open: bool) {
    in_lab(nat, async |lab, _| {
        let phone = lab.socket(lab.phone);
        let [first, second] = [
            UdpSocket::bind((EDGE, 0)).await,
            UdpSocket::bind((EDGE, 0)).await,
        ];
        let (first, second) = (first.unwrap(), second.unwrap());
        let (mut seen, mut bytes) = (Vec::new(), [0; 16]);
        for socket in [&first, &second] {
            let to = socket.local_addr().unwrap();
            phone.send_to(b"phone", to).await.unwrap();
            seen.push(socket.recv_from(&mut bytes).await.unwrap().1);
        }
        assert_eq!(seen[0] == seen[1], is_open, "{seen:?}");
        // That of the second is refused, or comes first.
        second.send_to(b"second", seen[0]).await.unwrap();
        first.send_to(b"first", seen[0]).await.unwrap();
        let length = phone.recv(&mut bytes).await.unwrap();
        assert_eq!(&bytes[..length] == b"second", is_open);
    });
}

#[rstest]
fn pjsip_behind_a_providers_nat_talks_holds_and_gets_the_bye(
    #[values(Symmetric, EndpointIndependent, Twice)] nat: NatBehaviour,
) {
    if !need_pjsip() {
        return;
    }
    in_lab(nat, async |lab, bench| {
        let settings = PjsipSettings {
            host: lab.phone,
            ..PjsipSettings::default()
        };
        let mut phone = lab.inside("P", || PjsipPhone::start(&settings));
        phone.command(&format!("call sip:+622150001000@{}", bench.udp()));
        eventually("the call is answered", || bench.saw(&LegEvent::Answered)).await;
        both_hear(&bench, &settings.caller, &phone.heard, PJSIP_RATE).await;
        let held = || bench.saw(&LegEvent::Held(true));
        urged("the call is held", held, || phone.command("hold")).await;
        let resumed = || bench.saw(&LegEvent::Held(false));
        urged("the call is resumed", resumed, || phone.command("resume")).await;
        both_hear(&bench, &settings.caller, &phone.heard, PJSIP_RATE).await;
        let words = "enough said".to_owned();
        bench.order(Order::Hangup(HangupNote { words })).await;
        eventually("it gets the BYE", || phone.says("over ").is_some()).await;
        eventually("the call is over", || bench.call().over).await;
        assert!(!bench.saw(&LegEvent::MediaLost));
    });
}
