//! Faults during a call with an agent over a real phone: the audio continues where possible, the caller is told
//! otherwise, and the ledger stays exact.

use std::{
    net::{SocketAddr, TcpStream, UdpSocket},
    sync::Arc,
    thread,
};

use dikala_actors::runtime::clock::{Clock, SystemClock};
use dikala_telephony::{settings::BridgeSettings, threads::BridgeThreads};
use dikala_testkit::gemini::{Act, Begin, FakeGemini};
use serde_json::Map;

use super::{conversation, phone::TestPhone};
use crate::support::{
    prelude::*,
    tenant::{text, top_up},
};

/// A bridge on its own threads, as `serve` runs it.
pub struct BridgeThread(Option<BridgeThreads>);

impl BridgeThread {
    pub fn start(
        world: &TestWorld,
        model: &FakeGemini,
        change: impl FnOnce(&mut BridgeSettings),
    ) -> Self {
        Self::start_behind(world, model, change, 0)
    }

    /// With a clock that is this many milliseconds behind: its calls are that much older for the service.
    fn start_behind(
        world: &TestWorld,
        model: &FakeGemini,
        change: impl FnOnce(&mut BridgeSettings),
        behind_ms: i64,
    ) -> Self {
        let mut settings = conversation::settings(model);
        change(&mut settings);
        let service = super::service(world);
        let clock = Arc::new(move || SystemClock.now().plus_ms(-behind_ms));
        let started = thread::spawn(move || BridgeThreads::start(&settings, service, clock));
        Self(Some(started.join().unwrap().unwrap()))
    }

    pub fn edge(&self) -> SocketAddr {
        self.0.as_ref().unwrap().addresses()[0].address
    }

    fn strangers_dropped(&self) -> u64 {
        let counted = self.0.as_ref().unwrap().counted();
        counted.read().sip.strangers_dropped
    }

    /// Stops the bridge; it has stopped when the thread ends.
    pub fn stop(mut self) -> thread::JoinHandle<()> {
        let running = self.0.take().unwrap();
        thread::spawn(move || running.stop())
    }
}

/// A caller who has been greeted.
pub async fn greeted(world: &TestWorld, edge: SocketAddr) -> TestPhone {
    let phone = TestPhone::call(edge, &world.tenant.did).await;
    phone.audio.hears(1, |it| it.is_over).await;
    phone
}

/// The only call, once it has ended.
async fn over(world: &TestWorld) -> Value {
    let id = text(&world.tenant.calls().await[0], "id");
    let call = world.tenant.call_over(&id).await;
    assert_eq!(world.tenant.calls().await.len(), 1);
    call
}

/// Asserts the end of the call, its billing, and that the ledger balances.
async fn assert_ended(world: &TestWorld, status: &str, reason: &str) {
    let call = over(world).await;
    let seen = ["status", "hangupReason"].map(|field| call[field].clone());
    assert_eq!(json!(seen), json!([status, reason]), "{call}");
    let id = text(&call, "id");
    assert_eq!(world.tenant.billed(&id).await, Some(1));
    assert_eq!(world.tenant.credits().await, (9, 10, 1));
    world.assert_ledger_is_exact();
}

#[actix_web::test]
async fn the_service_dies_for_two_seconds_and_the_caller_hears_nothing_of_it() {
    let mut world = world!(Sqlite, WorldSetup::new().minutes(10));
    super::with_a_function(&world).await;
    let model = FakeGemini::start();
    let bridge = BridgeThread::start(&world, &model, |_| ());
    let phone = greeted(&world, bridge.edge()).await;
    model.act(conversation::unheeding(10_000));
    phone.audio.hears(2, |it| it.packets >= 5).await;
    let from = phone.audio.packets();
    world.server.kill9();
    model.act(Act::Call {
        id: Some("in-flight".to_owned()),
        name: "check_order".to_owned(),
        arguments: json!({"orderId": "427"}),
    });
    phone.audio.hears_packets(from, 100).await;
    assert_eq!(world.receiver.received("/order").len(), 0);
    world.server.restart();
    let answers = model
        .wait("what came of the function", |all| {
            Some(all[0].function_responses()).filter(|answers| !answers.is_empty())
        })
        .await;
    assert_eq!(answers[0]["id"], "in-flight", "{answers:?}");
    let (tones, _) = phone.audio.tones(from);
    assert!(tones >= 95, "{tones} packets of the agent's voice");
    phone.audio.assert_unbroken(from);
    phone.hang_up().await;
    assert_eq!(world.receiver.received("/order").len(), 1);
    assert_ended(&world, "ended", "normal").await;
    assert_eq!(model.broken_rules(), Vec::<String>::new());
}

/// A trunk tries again with the same Call-ID and tag: that is a new call, not the refused one.
#[actix_web::test]
async fn who_was_refused_for_want_of_credit_is_taken_after_a_top_up() {
    let world = world!(Sqlite, WorldSetup::new().minutes(0));
    let model = FakeGemini::start();
    let bridge = BridgeThread::start(&world, &model, |_| ());
    let mut phone = TestPhone::new(bridge.edge(), &world.tenant.did).await;
    for _ in 0..2 {
        let refusal = phone.refused().await;
        assert!(refusal.starts_with("SIP/2.0 402"), "{refusal}");
    }
    top_up(&world.server, &world.tenant.id, 10, "after the refusal");
    phone.answered().await;
    phone.audio.hears(1, |it| it.is_over).await;
    phone.hang_up().await;
    let calls = world.tenant.calls().await;
    let refused = |call: &&Value| call["hangupReason"] == "insufficient_credits";
    assert_eq!((calls.len(), calls.iter().filter(refused).count()), (3, 2));
    let taken = calls.iter().find(|call| !refused(call)).unwrap();
    let taken = world.tenant.call_over(&text(taken, "id")).await;
    assert_eq!(taken["hangupReason"], "normal", "{taken}");
    assert_eq!(world.tenant.billed(&text(&taken, "id")).await, Some(1));

    // A repeated INVITE of an accepted call is not a new call.
    let refusal = phone.refused().await;
    assert!(refusal.starts_with("SIP/2.0 482"), "{refusal}");
    assert_eq!(world.tenant.calls().await.len(), 3);
    assert_eq!(world.tenant.credits().await, (9, 10, 1));
    world.assert_ledger_is_exact();
}

#[actix_web::test]
async fn a_service_that_stays_away_is_told_of_and_the_caller_hung_up() {
    let mut world = world!(Sqlite, WorldSetup::new().minutes(10));
    let model = FakeGemini::start();
    let bridge = BridgeThread::start(&world, &model, |settings| {
        settings.engine_lost_after_seconds = 3;
    });
    let phone = greeted(&world, bridge.edge()).await;
    model.act(conversation::unheeding(20_000));
    phone.audio.hears(2, |it| it.packets >= 5).await;
    let from = phone.audio.packets();
    world.server.kill9();
    let bye = phone.hung_up().await;
    assert!(bye.contains("The service cannot be reached."), "{bye}");
    assert_eq!(phone.audio.sentences(from).len(), 1);
    let (tones, _) = phone.audio.tones(from);
    assert!(tones >= 100, "the talk went on for {tones} packets");
    phone.audio.assert_unbroken(from);
    world.server.restart();
    assert_ended(&world, "dropped", "bridge_error").await;
}

#[actix_web::test]
async fn a_model_that_is_gone_is_waited_for_and_then_told_of() {
    let world = world!(Sqlite, WorldSetup::new().minutes(10));
    let model = FakeGemini::start();
    let bridge = BridgeThread::start(&world, &model, |_| ());
    let phone = greeted(&world, bridge.edge()).await;
    let from = phone.audio.packets();
    model.begin(vec![Begin::Silence; 3]);
    let gone = std::time::Instant::now();
    model.act(Act::Cut);
    let bye = phone.hung_up().await;
    assert!(bye.contains("voice is not available"), "{bye}");
    let said = phone.audio.sentences(from);
    let after: Vec<_> = said.iter().map(|at| (*at - gone).as_secs()).collect();
    let [filler, sorry] = after[..] else {
        panic!("a request to wait and a sentence: {after:?}");
    };
    assert!((1..8).contains(&filler) && sorry >= 8, "{after:?}");
    phone.audio.assert_unbroken(from);
    assert_ended(&world, "dropped", "ai_error").await;
}

#[actix_web::test]
async fn a_phone_that_sends_no_media_for_fifteen_seconds_is_hung_up() {
    let world = world!(Sqlite, WorldSetup::new().minutes(10));
    let model = FakeGemini::start();
    let bridge = BridgeThread::start(&world, &model, |_| ());
    let phone = greeted(&world, bridge.edge()).await;
    let from = phone.audio.packets();
    phone.audio.fall_away();
    let bye = phone.hung_up().await;
    assert!(bye.contains("No media came for 15 seconds."), "{bye}");
    let heard = phone.audio.packets() - from;
    assert!(heard >= 600, "{heard} packets are not 15 s");
    phone.audio.assert_unbroken(from);
    assert_ended(&world, "dropped", "media_lost").await;
}

#[actix_web::test]
async fn a_flood_of_strangers_costs_a_call_no_audio() {
    let world = world!(Sqlite, WorldSetup::new().minutes(10));
    let model = FakeGemini::start();
    let bridge = BridgeThread::start(&world, &model, |settings| {
        settings.sip.trunks[0].addresses = vec!["127.0.0.1/32".parse().unwrap()];
    });
    let edge = bridge.edge();
    let phone = greeted(&world, edge).await;
    model.act(conversation::unheeding(40_000));
    phone.audio.hears(2, |it| it.packets >= 5).await;
    let from = phone.audio.packets();
    let stranger = UdpSocket::bind("127.0.0.2:0").unwrap();
    eventually("the strangers to be turned away", async || {
        for number in 0..500 {
            let invite = format!(
                "INVITE sip:{did}@{edge} SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.2;branch=z9hG4bK{from}{number}{random:x}\r\n\
                 From: <sip:x@y>;tag=x\r\nTo: <sip:{did}@{edge}>\r\nCall-ID: {random:x}\r\nCSeq: 1 INVITE\r\n\
                 Contact: <sip:x@127.0.0.2>\r\nContent-Length: 0\r\n\r\n",
                did = world.tenant.did,
                random = rand::random::<u64>()
            );
            let _ = stranger.send_to(invite.as_bytes(), edge);
        }
        let done = bridge.strangers_dropped() > 5_000 && phone.audio.packets() > from + 50;
        done.then_some(())
    })
    .await;
    let all = phone.audio.packets() - from;
    let (tones, _) = phone.audio.tones(from);
    assert!(tones * 100 >= all * 95, "{tones} of {all} packets");
    phone.audio.assert_unbroken(from);
    phone.hang_up().await;
    assert_ended(&world, "ended", "normal").await;
}

/// Random bytes, and some that are almost valid.
fn rubbish() -> Vec<Vec<u8>> {
    let mut seed = 1_u64;
    let mut byte = move || {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        seed.to_be_bytes()[0]
    };
    let mut all: Vec<Vec<u8>> = (0..200_usize)
        .map(|length| (0..length * 7).map(|_| byte()).collect())
        .collect();
    // None has RTP's version, so none counts as a caller's voice.
    for first in all.iter_mut().filter_map(|bytes| bytes.first_mut()) {
        *first &= 0x3f;
    }
    for begin in [
        &b"\x80\x08"[..],
        b"\x80\x65\0\0",
        b"\xff\xff\xff\xff",
        b"\x81\xc8\xff\xff",
        b"\x9f\x08\0\0\0\0\0\0\0\0\0\0",
        b"INVITE sip:x SIP/2.0\r\n\r\n",
        b"SIP/2.0 200 OK\r\n\r\n",
        b"BYE sip:x SIP/2.0\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"\r\n\r\n\r\n",
    ] {
        all.extend([begin.to_vec(), [begin, &[0xaa; 1_200]].concat()]);
    }
    all
}

#[actix_web::test]
async fn rubbish_on_every_socket_changes_nothing() {
    let world = world!(Sqlite, WorldSetup::new().minutes(10));
    let model = FakeGemini::start();
    let bridge = BridgeThread::start(&world, &model, |settings| {
        let tcp = dikala_sip::settings::ListenAddress {
            transport: dikala_sip::settings::SipTransport::Tcp,
            ..settings.sip.listen[0]
        };
        settings.sip.listen.push(tcp);
    });
    let tcp = bridge.0.as_ref().unwrap().addresses()[1].address;
    let edge = bridge.edge();
    let phone = greeted(&world, edge).await;
    let from = phone.audio.packets();
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    let rtp = phone.audio.to.unwrap();
    let rtcp = SocketAddr::new(rtp.ip(), rtp.port() + 1);
    for bytes in rubbish() {
        for to in [edge, rtp, rtcp] {
            let _ = stranger.send_to(&bytes, to);
        }
        phone.audio.send(&bytes);
    }
    for bytes in rubbish().iter().rev().take(30) {
        use std::io::Write;
        let mut connection = TcpStream::connect(tcp).unwrap();
        let _ = connection.write_all(bytes);
    }
    for fault in [
        Act::Text("{".to_owned()),
        Act::Text("[[[[[[".repeat(1_000)),
        Act::Binary(vec![0xff, 0, 1]),
        Act::Message(
            json!({"serverContent": {"modelTurn": {"parts": [{}, {"inlineData": null}]}}}),
        ),
        Act::Message(Value::Object(Map::new())),
    ] {
        model.act(fault);
    }
    model.act(Act::Say {
        text: "Masih di sini.".to_owned(),
        milliseconds: 800,
    });
    phone
        .audio
        .hears(2, |it| it.is_over && it.packets >= 37)
        .await;
    phone.audio.assert_unbroken(from);
    phone.hang_up().await;
    assert_ended(&world, "ended", "normal").await;
}

#[actix_web::test]
async fn a_service_that_is_stopped_gives_calls_their_time_and_then_says_so() {
    let model = FakeGemini::start();
    // 5 s of these are the service's own, and 5 s are for a sentence and the calls' last messages.
    let setup = WorldSetup::new()
        .minutes(10)
        .set("http.shutdown_seconds", 20);
    let Some((mut world, edge)) = conversation::world(&model, setup).await else {
        return;
    };
    let phone = greeted(&world, edge).await;
    model.act(conversation::unheeding(20_000));
    phone.audio.hears(2, |it| it.packets >= 5).await;
    let from = phone.audio.packets();
    world.server.send_sigterm();
    eventually("new calls to be refused", async || {
        let answer = TestPhone::options(edge).await;
        answer.starts_with("SIP/2.0 503").then_some(())
    })
    .await;
    let (_, answer) = TestPhone::try_call(edge, &world.tenant.did).await;
    assert!(answer.starts_with("SIP/2.0 503"), "{answer}");
    let bye = phone.hung_up().await;
    assert!(bye.contains("The service stops."), "{bye}");
    let (tones, _) = phone.audio.tones(from);
    assert!(tones >= 100, "the talk went on for {tones} packets");
    assert_eq!(phone.audio.sentences(from).len(), 1);
    phone.audio.assert_unbroken(from);
    assert_eq!(world.server.exited().await.code(), Some(0));
    world.server.restart();
    let call = text(&world.tenant.calls().await[0], "id");
    let call = world.tenant.call_over(&call).await;
    let seen = ["status", "hangupReason", "hangupInitiator"].map(|field| call[field].clone());
    assert_eq!(json!(seen), json!(["ended", "normal", "bridge"]));
    assert_ended(&world, "ended", "normal").await;
}

/// A caller in a transfer, with the model and bridge, and the call's id. Of the bridge's time to stop, 5 s are for
/// a sentence and its transmission.
async fn transferred(world: &TestWorld) -> (FakeGemini, BridgeThread, TestPhone, String) {
    transferred_behind(world, 0).await
}

/// The same with a bridge whose clock is this many milliseconds behind.
async fn transferred_behind(
    world: &TestWorld,
    behind_ms: i64,
) -> (FakeGemini, BridgeThread, TestPhone, String) {
    let model = FakeGemini::start();
    let change = |settings: &mut BridgeSettings| settings.shutdown_seconds = 15;
    let bridge = BridgeThread::start_behind(world, &model, change, behind_ms);
    let phone = greeted(world, bridge.edge()).await;
    let id = text(&world.tenant.calls().await[0], "id");
    let to = json!({"to": "+6281100000"});
    let path = format!("/calls/{id}/transfer");
    assert_eq!(world.tenant.api.post(&path, to).await.status, 202);
    (model, bridge, phone, id)
}

#[actix_web::test]
async fn who_is_joined_to_a_person_is_told_that_the_service_stops() {
    let world = world!(Sqlite, WorldSetup::new().minutes(10));
    let (_model, bridge, phone, id) = transferred(&world).await;
    let (person, second) = phone.takes_a_call().await;
    assert_joined(&world, &id).await;
    let from = [phone.audio.packets(), person.packets()];
    let stopping = bridge.stop();
    let (one, other) = (phone.hung_up().await, phone.hung_up().await);
    let ids = [&one, &other].map(|bye| dikala_testkit::phone::header(bye, "call-id"));
    assert!(ids.contains(&second) && ids[0] != ids[1], "{ids:?}");
    let told = format!("{one}{other}");
    assert!(told.contains("The service stops."), "{told}");
    for (audio, from) in [&phone.audio, &person].into_iter().zip(from) {
        assert_eq!(audio.sentences(from).len(), 1);
        // The time that calls have, and the sentence.
        let heard = audio.packets() - from;
        assert!(heard >= 250, "cut after {heard} packets");
        audio.assert_unbroken(from);
    }
    eventually("the bridge to stop", async || {
        stopping.is_finished().then_some(())
    })
    .await;
    assert_ended(&world, "ended", "transferred").await;
    world.assert_ledger_is_exact();
}

async fn assert_joined(world: &TestWorld, id: &str) {
    eventually("the person to be joined", async || {
        let call = world.tenant.call(id).await;
        assert_eq!(call["status"], "answered", "{call}");
        (call["joinedAt"] != Value::Null).then_some(())
    })
    .await;
}

/// The cause of a joined call's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JoinedEnd {
    Tenant,
    Operator,
    Credit,
}

#[rstest]
#[actix_web::test]
async fn a_joined_call_ends_from_outside_for_both(
    #[values(JoinedEnd::Tenant, JoinedEnd::Operator, JoinedEnd::Credit)] end: JoinedEnd,
) {
    let world = world!(Sqlite, WorldSetup::new().minutes(1));
    // The minute is over soon: a call of which 40 s are gone already.
    let behind_ms = if end == JoinedEnd::Credit { 40_000 } else { 0 };
    let (_model, _bridge, phone, id) = transferred_behind(&world, behind_ms).await;
    let (person, second) = phone.takes_a_call().await;
    assert_joined(&world, &id).await;
    let path = format!("/calls/{id}/hangup");
    let ended = match end {
        JoinedEnd::Tenant => {
            world.tenant.api.post(&path, json!({})).await.expect(202);
            ["requested", "tenant"]
        }
        JoinedEnd::Operator => {
            let operator = world.server.operator_api();
            operator.post(&path, json!({})).await.expect(202);
            ["operator", "operator"]
        }
        JoinedEnd::Credit => ["credits_exhausted", "system"],
    };
    let (one, other) = (phone.hung_up().await, phone.hung_up().await);
    let ids = [&one, &other].map(|bye| dikala_testkit::phone::header(bye, "call-id"));
    assert!(ids.contains(&second) && ids[0] != ids[1], "{ids:?}");
    let call = world.tenant.call_over(&id).await;
    let seen = ["status", "hangupReason", "hangupInitiator"].map(|field| &call[field]);
    assert_eq!(json!(seen), json!(["ended", ended[0], ended[1]]));
    assert_eq!(world.tenant.billed(&id).await, Some(1));
    assert!(person.packets() > 0, "the person heard the caller");
    // The model's summary came while both talked.
    world.event("call.transcript", &id).await;
    world.assert_ledger_is_exact();
}

#[actix_web::test]
async fn who_waits_for_a_person_is_told_that_the_service_stops() {
    let world = world!(Sqlite, WorldSetup::new().minutes(10));
    // The person does not answer. The transfer begins long before callers are told of the stop.
    let (_model, bridge, phone, id) = transferred(&world).await;
    let from = phone.audio.packets();
    let stopping = bridge.stop();
    let bye = phone.hung_up().await;
    assert!(bye.contains("The service stops."), "{bye}");
    assert_eq!(phone.audio.sentences(from).len(), 1);
    assert_ended(&world, "ended", "normal").await;
    world.event("call.transcript", &id).await;
    eventually("the bridge to stop", async || {
        stopping.is_finished().then_some(())
    })
    .await;
}
