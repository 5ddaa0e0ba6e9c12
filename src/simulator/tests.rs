//! Tests of a simulated bridge against a model of the service: without a socket, and over a real one that is
//! repeatedly cut.

use std::{
    collections::{HashMap, HashSet},
    net::TcpListener,
    sync::{Arc, Mutex},
    time::Duration,
};

use actix_web::{App, HttpRequest, HttpResponse, HttpServer, web};
use dikala_entities::{Millis, Secret};
use futures_util::StreamExt;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{connection::ConnectError, engine::SimulatedCalls, *};

const BEGUN_AT: Millis = Millis::from_i64(1_768_447_800_000);

/// The service's side of the protocol, in memory. A repeated message gets the same answer.
#[derive(Debug, Default)]
struct Model {
    calls: HashMap<String, &'static str>,
    invocations: HashSet<String>,
    seen: HashSet<String>,
    repeats: u64,
}

impl Model {
    fn answer(&mut self, text: &str) -> Value {
        let message: Value = serde_json::from_str(text).expect("messages are JSON");
        let field = |name: &str| message[name].as_str().unwrap_or_default().to_owned();
        self.repeats += u64::from(!self.seen.insert(field("id")));
        let call = field("callId");
        let fields = match message["type"].as_str().expect("a type") {
            "call.incoming" => return self.incoming(&field("id"), &field("bridgeCallId")),
            "call.answered" => {
                self.calls.insert(call, "answered");
                json!({})
            }
            "call.function" => {
                assert_eq!(field("name"), "checkOrder");
                self.invocations.insert(field("invocationId"));
                json!({"outcome": {"status": "ok", "result": {}}})
            }
            "call.turn" | "call.transcript" => json!({}),
            "call.hangup" => {
                self.calls.insert(call, "over");
                json!({})
            }
            other => panic!("{other} was not expected"),
        };
        let mut reply = json!({"replyTo": field("id"), "ok": true});
        reply
            .as_object_mut()
            .expect("an object")
            .extend(fields.as_object().cloned().unwrap_or_default());
        reply
    }

    fn incoming(&mut self, id: &str, bridge_call_id: &str) -> Value {
        let digits = bridge_call_id.replace("sim-", "").replace('-', "0");
        let call_id = format!("call_{digits:0>26}");
        // Rejects some calls; a repeated message is rejected again.
        if bridge_call_id.ends_with('7') {
            return json!({"replyTo": id, "ok": true, "callId": call_id, "action": "reject", "reason": "concurrency_limit"});
        }
        self.calls.entry(call_id.clone()).or_insert("ringing");
        json!({"replyTo": id, "ok": true, "callId": call_id, "action": "answer", "agent": {
            "id": "agent_1", "name": "Ayu", "systemPrompt": "", "voiceId": "Kore", "greetingText": "Halo", "language": "id",
            "maxCallDurationMinutes": 10, "escalationNumber": null, "tools": [],
            "functions": [{"name": "checkOrder", "description": "Looks up an order.", "parameters": {"type": "object"}}],
        }})
    }

    fn all_over(&self) -> bool {
        self.calls.values().all(|status| *status == "over")
    }
}

fn scenario(calls: u64) -> CallScenario {
    CallScenario {
        dids: vec!["+622150001111".parse().expect("a number")],
        calls: Some(calls),
        concurrency: 10,
        interval: Duration::ZERO,
        ring_ms: (0, 5),
        talk_ms: (0, 10),
        functions_per_mille: 400,
        abandon_per_mille: 200,
        shows_first: false,
        forgets_earlier_calls: false,
    }
}

proptest! {
    #[test]
    fn who_watches_the_first_call_sees_it_answered_and_a_function_called(seed: u64) {
        let watched = CallScenario {
            shows_first: true,
            concurrency: 1,
            abandon_per_mille: 1_000,
            functions_per_mille: 0,
            ..scenario(2)
        };
        let mut engine = SimulatedCalls::new(watched, seed, BEGUN_AT);
        let mut model = Model::default();
        let mut now = Duration::ZERO;
        engine.connected();
        while !engine.is_done() {
            engine.advance(now);
            while let Some(text) = engine.next_message(now) {
                let reply = model.answer(&text).to_string();
                engine.on_text(&reply, now);
            }
            now = next_moment(&engine, now);
        }
        let totals = engine.totals();
        prop_assert_eq!((totals.answered, totals.functions_called, totals.abandoned), (1, 1, 1));
    }
}

/// The next time at which something is due, at most a millisecond later.
fn next_moment(engine: &SimulatedCalls, now: Duration) -> Duration {
    let latest = now + Duration::from_millis(1);
    let due = engine.wakes_at().unwrap_or(latest);
    due.clamp(now + Duration::from_micros(1), latest)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_call_ends_once_whatever_is_lost(seed: u64, fates in prop::collection::vec(0_u8..20, 1..200)) {
        let mut engine = SimulatedCalls::new(scenario(40), seed, BEGUN_AT);
        let mut model = Model::default();
        let mut fates = fates.into_iter().chain(std::iter::repeat(9));
        let mut now = Duration::ZERO;
        engine.connected();
        while !engine.is_done() {
            engine.advance(now);
            while let Some(text) = engine.next_message(now) {
                match fates.next() {
                    // The connection breaks before or after the message arrives.
                    Some(fate @ (0 | 1)) => {
                        if fate == 1 {
                            model.answer(&text);
                        }
                        engine.disconnected();
                        engine.connected();
                    }
                    Some(2) => {
                        let id: Value = serde_json::from_str(&text).expect("JSON");
                        let busy = json!({"replyTo": id["id"], "ok": false, "error": {"code": "busy", "message": "later"}});
                        engine.on_text(&busy.to_string(), now);
                    }
                    _ => {
                        let reply = model.answer(&text).to_string();
                        engine.on_text(&reply, now + Duration::from_micros(500));
                        // A duplicate reply has no effect.
                        engine.on_text(&reply, now + Duration::from_micros(500));
                    }
                }
            }
            now = next_moment(&engine, now);
            prop_assert!(now < Duration::from_secs(60), "it comes to an end");
        }
        let (totals, measured) = engine.finish();
        prop_assert_eq!((totals.calls, totals.ended, totals.unfinished, totals.failed), (40, 40, 0, 0));
        prop_assert_eq!(totals.refused, 4);
        prop_assert_eq!(totals.functions_called, model.invocations.len() as u64);
        prop_assert_eq!(totals.acknowledgements, totals.messages);
        prop_assert!(model.all_over() && measured.all.percentile_us(50.0) >= 500);
        let service = measured.service.percentile_us(50.0);
        prop_assert!((500..=measured.all.percentile_us(50.0)).contains(&service), "{service}");
    }
}

#[test]
fn starts_keep_their_rate_and_their_number_at_once() {
    let mut engine = SimulatedCalls::new(
        CallScenario {
            interval: Duration::from_millis(10),
            ..scenario(100)
        },
        1,
        BEGUN_AT,
    );
    engine.connected();
    for (now_us, placed) in [(0, 1), (9_999, 1), (10_000, 2), (45_000, 5), (500_000, 10)] {
        engine.advance(Duration::from_micros(now_us));
        assert_eq!(engine.totals().calls, placed, "at {now_us} µs");
    }
    engine.disconnected();
    engine.stop(Duration::from_millis(600));
    engine.advance(Duration::from_millis(700));
    assert_eq!(
        engine.totals().calls,
        10,
        "none is placed without a connection or after a stop"
    );
}

#[test]
fn errors_end_calls_and_are_counted_by_their_code() {
    let mut engine = SimulatedCalls::new(scenario(1), 1, BEGUN_AT);
    engine.connected();
    engine.advance(Duration::ZERO);
    let message: Value =
        serde_json::from_str(&engine.next_message(Duration::ZERO).expect("call.incoming"))
            .expect("JSON");
    let error = json!({"replyTo": message["id"], "ok": false, "error": {"code": "unknown_number", "message": "…"}});
    engine.on_text(&error.to_string(), Duration::ZERO);
    assert!(engine.is_done());
    let totals = engine.totals();
    assert_eq!((totals.failed, totals.ended, totals.errors), (1, 0, 1));
    assert_eq!(totals.reasons["unknown_number"], 1);
}

#[test]
fn a_bridge_that_forgets_says_so_first() {
    let mut engine = SimulatedCalls::new(
        CallScenario {
            forgets_earlier_calls: true,
            ..scenario(1)
        },
        1,
        BEGUN_AT,
    );
    engine.connected();
    engine.advance(Duration::ZERO);
    let first: Value =
        serde_json::from_str(&engine.next_message(Duration::ZERO).expect("a heartbeat"))
            .expect("JSON");
    assert_eq!(
        (&first["type"], &first["activeCalls"]),
        (&json!("heartbeat"), &json!([]))
    );
}

/// A server that closes each connection after some messages, leaving the last one unanswered.
async fn cutting_engine(
    request: HttpRequest,
    body: web::Payload,
    model: web::Data<Mutex<Model>>,
) -> Result<HttpResponse, actix_web::Error> {
    let given = request
        .headers()
        .get("authorization")
        .and_then(|value| value.to_str().ok());
    if given != Some("Bearer dkb_right") {
        return Ok(HttpResponse::Unauthorized().finish());
    }
    let (response, mut session, mut frames) =
        actix_ws::handle_with_protocols(&request, body, &["dikala.bridge.v1"])?;
    actix_web::rt::spawn(async move {
        for count in 0..24 {
            let Some(Ok(actix_ws::Message::Text(text))) = frames.next().await else {
                break;
            };
            let reply = model.lock().expect("not poisoned").answer(&text);
            if count < 20 && session.text(reply.to_string()).await.is_err() {
                break;
            }
        }
        // The peer may be gone.
        let _ = session.close(None).await;
    });
    Ok(response)
}

fn connection(url: &str, token: &str) -> Peer {
    Peer {
        url: url.parse().expect("an address"),
        token: Secret::new(token),
        ca_file: None,
        reconnect_within: Duration::from_secs(20),
    }
}

#[actix_web::test]
async fn a_connection_that_is_cut_loses_nothing() {
    let model = web::Data::from(Arc::new(Mutex::new(Model::default())));
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", socket.local_addr().expect("bound"));
    let shared = model.clone();
    let server = HttpServer::new(move || {
        App::new()
            .app_data(shared.clone())
            .route("/bridge/v1/connect", web::get().to(cutting_engine))
    });
    let server = server
        .workers(1)
        .disable_signals()
        .listen(socket)
        .expect("listens")
        .run();
    let handle = server.handle();
    actix_web::rt::spawn(server);

    let refused = SimulatedBridge::new(connection(&url, "dkb_wrong"), scenario(1), 1)
        .run(std::future::pending(), |_| {})
        .await;
    assert!(
        matches!(refused, Err(ConnectError::Token(_))),
        "{refused:?}"
    );

    let mut shown = 0;
    let bridge = SimulatedBridge::new(connection(&url, "dkb_right"), scenario(40), 1);
    let summary = bridge
        .run(std::future::pending(), |totals| shown = totals.ended)
        .await
        .expect("connects");
    let totals = &summary.totals;
    assert!(summary.is_clean(), "{summary:?}");
    assert_eq!(
        (totals.calls, totals.ended, totals.refused, shown),
        (40, 40, 4, 40)
    );
    assert!(totals.reconnects > 0 && totals.resent > 0, "{totals:?}");
    assert!(model.lock().expect("not poisoned").all_over());

    // Endless calls are ended by a stop.
    let endless = CallScenario {
        calls: None,
        talk_ms: (60_000, 90_000),
        ..scenario(0)
    };
    let bridge = SimulatedBridge::new(connection(&url, "dkb_right"), endless, 2);
    let summary = bridge.run(async {}, |_| {}).await.expect("connects");
    assert!(summary.is_clean(), "{summary:?}");
    assert!(model.lock().expect("not poisoned").all_over());
    handle.stop(false).await;

    let gone = SimulatedBridge::new(connection(&url, "dkb_right"), scenario(1), 1)
        .run(std::future::pending(), |_| {})
        .await;
    assert!(
        matches!(gone, Err(ConnectError::Unreachable { .. })),
        "{gone:?}"
    );
}
