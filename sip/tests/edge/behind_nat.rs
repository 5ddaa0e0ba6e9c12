//! A phone behind the NAT of a provider (100.64.0.0/10), in network namespaces with a router that masquerades.

use dikala_sip::{
    leg::{HangupNote, LegEvent, Order},
    settings::{ListenAddress, SipTransport, Trunk},
};

use crate::support::{
    CallBehaviour, EDGE, NatLab, PATIENCE, PHONE, PhoneMedia, ROUTER, STRANGER, ScriptedPhone,
    TestEdge, eventually, header, offer, pitch,
};

/// An edge whose callers are echoed, and a phone with its private address in Contact and SDP.
struct NatCall<'a> {
    lab: &'a NatLab,
    bench: TestEdge,
    phone: ScriptedPhone,
    media: PhoneMedia,
    answer: String,
}

/// Runs the test in the network of the edge; not where no networks can be made.
fn in_lab(test: impl AsyncFnOnce(NatCall<'_>) + Send) {
    let Some(lab) = NatLab::new() else { return };
    lab.inside("E", || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async { test(NatCall::new(&lab).await).await });
    });
}

impl<'a> NatCall<'a> {
    async fn new(lab: &'a NatLab) -> Self {
        let bench = TestEdge::with(CallBehaviour::Echo, 10, |sip| {
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
        .await;
        let mut phone = ScriptedPhone::at(lab.socket(PHONE), bench.udp()).await;
        let media = PhoneMedia::of(lab.socket(PHONE));
        let answer = phone.call("", &offer_at(&media)).await;
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
fn offer_at(media: &PhoneMedia) -> String {
    offer(media.port())
        .replace("127.0.0.1", PHONE)
        .replace("RTP/AVP 0 8 101", "RTP/AVP 8 101")
        .replace("a=rtpmap:0 PCMU/8000\r\n", "")
}

#[test]
fn a_phone_behind_a_providers_nat_talks_and_gets_the_bye() {
    in_lab(async |mut call| {
        let contact = header(&call.answer, "Contact").unwrap();
        assert!(contact.contains(EDGE), "{contact}");
        assert!(call.answer.contains(&format!("received={ROUTER}")));
        call.talks().await;
        call.hang_up().await;
    });
}

#[test]
fn a_mapping_that_changed_during_hold_is_followed() {
    in_lab(async |mut call| {
        call.talks().await;
        // The phone does not know its new port, so the SDP stays. Many phones begin a new stream.
        let sdp = offer_at(&call.media);
        call.media = PhoneMedia::of(call.lab.socket(PHONE));
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

#[test]
fn a_port_that_changes_in_mid_call_is_followed() {
    in_lab(async |mut call| {
        call.talks().await;
        for is_same_stream in [true, false] {
            let socket = call.lab.socket(PHONE);
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

#[test]
fn a_stranger_who_sprays_first_hears_nothing_and_locks_nobody_out() {
    in_lab(async |mut call| {
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
