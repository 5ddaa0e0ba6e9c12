//! The client against a WebSocket server that misbehaves as told.

use std::sync::atomic::AtomicI64;

use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};
use tokio_tungstenite::{
    WebSocketStream, accept_hdr_async,
    tungstenite::{
        handshake::server::{Callback, ErrorResponse, Request as Upgrade, Response},
        http::{HeaderValue, header},
    },
};

use super::*;
use crate::{
    SUBPROTOCOL,
    command::CommandKind,
    message::{FunctionInvocation, MessageType},
    reply::InvocationOutcome,
};

const CALL: &str = "call_01k9zv3m8rj2q4w6y8a0c2e4g6";
const COMMAND: &str = "cmd_01k9zv3m8rj2q4w6y8a0c2e4g6";
const WITHIN: Duration = Duration::from_secs(60);
/// The time that calls go on without the service, which may be silent for a third of it.
const LOST_AFTER: Duration = Duration::from_secs(15);

struct Service {
    listener: TcpListener,
}

struct Door;

impl Callback for Door {
    fn on_request(
        self,
        upgrade: &Upgrade,
        mut answer: Response,
    ) -> Result<Response, ErrorResponse> {
        let header = |name: &str| {
            upgrade
                .headers()
                .get(name)
                .and_then(|value| value.to_str().ok())
        };
        assert_eq!(header("authorization"), Some("Bearer dkb_secret"));
        assert_eq!(header("sec-websocket-protocol"), Some(SUBPROTOCOL));
        let subprotocol = HeaderValue::from_static(SUBPROTOCOL);
        answer
            .headers_mut()
            .insert(header::SEC_WEBSOCKET_PROTOCOL, subprotocol);
        Ok(answer)
    }
}

type Peer = WebSocketStream<TcpStream>;

impl Service {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        Self { listener }
    }

    fn client(&self) -> (ServiceClient, JoinHandle<()>) {
        let address = Address {
            url: format!(
                "ws://{}/bridge/v1/connect",
                self.listener.local_addr().expect("bound")
            ),
            token: Secret::new("dkb_secret"),
        };
        let time = AtomicI64::new(1_000);
        let clock: WallClock = Arc::new(move || Millis::from_i64(time.fetch_add(1, Relaxed)));
        ServiceClient::start(address, tls(), clock, LOST_AFTER)
    }

    async fn accept(&self) -> Peer {
        let accepted = async {
            let (stream, _) = self.listener.accept().await.expect("a connection");
            accept_hdr_async(stream, Door).await.expect("an upgrade")
        };
        timeout(WITHIN, accepted)
            .await
            .expect("the client connects")
    }
}

/// The next message of this type; others are skipped.
async fn next(peer: &mut Peer, kind: &str) -> Value {
    let found = async {
        loop {
            let frame = peer.next().await.expect("a frame").expect("no fault");
            if let Frame::Text(text) = frame {
                let message: Value = serde_json::from_str(&text).expect("JSON");
                if message["type"] == kind {
                    return message;
                }
            }
        }
    };
    timeout(WITHIN, found).await.expect("the message comes")
}

async fn reply(peer: &mut Peer, to: &Value, with: Value) {
    let mut frame = json!({"replyTo": to["id"], "ok": true});
    let fields = with.as_object().expect("an object").clone();
    frame.as_object_mut().expect("an object").extend(fields);
    peer.send(Frame::text(frame.to_string()))
        .await
        .expect("sent");
}

fn tls() -> TlsConnector {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config
        .with_safe_default_protocol_versions()
        .expect("the provider has them")
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

fn incoming() -> crate::IncomingCall {
    crate::IncomingCall {
        bridge_call_id: "b".to_owned(),
        called: crate::CalledParty::Number("+622150001000".parse().expect("a number")),
        caller_number: "anonymous".parse().expect("a caller"),
        channel: None,
        draft: None,
        metadata: None,
        at: None,
        trace: None,
    }
}

fn taken() -> Value {
    json!({"callId": CALL, "action": "answer", "agent": {"id": "agent_1", "name": "Ayu", "systemPrompt": "", "voiceId": "Kore",
        "greetingText": "", "language": "id", "maxCallDurationMinutes": 10, "escalationNumber": null, "tools": [], "functions": []}})
}

async fn told(line: &mut CallChannel) -> ServiceEvent {
    let told = timeout(WITHIN, line.events.recv()).await;
    told.expect("the call is told").expect("the client runs")
}

#[tokio::test]
async fn a_call_outlives_the_loss_of_its_socket() {
    let service = Service::start().await;
    let (client, _) = service.client();
    let mut peer = service.accept().await;
    assert_eq!(next(&mut peer, "heartbeat").await["activeCalls"], json!([]));
    let mut line = client.open_call(incoming()).await.expect("a line");
    let asked = next(&mut peer, "call.incoming").await;
    reply(&mut peer, &asked, taken()).await;
    assert!(matches!(
        told(&mut line).await,
        ServiceEvent::Reply(ServiceReply::Taken { .. }, _)
    ));
    line.post(CallReport::Answered, line.now()).await;
    let answered = next(&mut peer, "call.answered").await;
    drop(peer);
    // The same message again, with the same id and time, after a heartbeat that lists the call.
    let mut peer = service.accept().await;
    let beat = next(&mut peer, "heartbeat").await;
    assert_eq!(beat["activeCalls"], json!([CALL]));
    let again = next(&mut peer, "call.answered").await;
    assert_eq!(again, answered);
    reply(&mut peer, &again, json!({})).await;
    assert!(matches!(
        told(&mut line).await,
        ServiceEvent::Reply(ServiceReply::Done(MessageType::Answered), _)
    ));
    // Commands and outcomes find their call.
    let function = CallReport::Function(FunctionInvocation {
        invocation_id: "f".to_owned(),
        name: "check".to_owned(),
        parameters: serde_json::Map::new(),
        trace: None,
    });
    line.post(function, line.now()).await;
    let asked = next(&mut peer, "call.function").await;
    reply(
        &mut peer,
        &asked,
        json!({"outcome": {"status": "error", "code": "timeout", "message": "late"}}),
    )
    .await;
    let heard = told(&mut line).await;
    assert!(
        matches!(heard, ServiceEvent::Reply(ServiceReply::Outcome { outcome: InvocationOutcome::Error { ref code, .. }, .. }, _) if code == "timeout")
    );
    let command =
        json!({"id": COMMAND, "command": "transfer", "callId": CALL, "to": "+628123456789"});
    peer.send(Frame::text(command.to_string()))
        .await
        .expect("sent");
    assert!(matches!(
        told(&mut line).await,
        ServiceEvent::Command(CommandKind::Transfer { .. })
    ));
    peer.send(Frame::Ping(b"are you there"[..].into()))
        .await
        .expect("sent");
    let pong = async {
        loop {
            if let Some(Ok(Frame::Pong(payload))) = peer.next().await {
                return payload;
            }
        }
    };
    assert_eq!(
        timeout(WITHIN, pong).await.expect("a pong").as_ref(),
        b"are you there"
    );
}

#[tokio::test]
async fn a_service_that_falls_silent_is_dialled_again() {
    let service = Service::start().await;
    let (client, _) = service.client();
    let mut peer = service.accept().await;
    let mut line = client.open_call(incoming()).await.expect("a line");
    let asked = next(&mut peer, "call.incoming").await;
    reply(&mut peer, &asked, taken()).await;
    told(&mut line).await;
    line.post(CallReport::Answered, line.now()).await;
    let answered = next(&mut peer, "call.answered").await;
    let pinged = async {
        loop {
            match peer.next().await {
                Some(Ok(Frame::Ping(_))) => return,
                Some(Ok(_)) => {}
                over => panic!("{over:?} instead of a ping"),
            }
        }
    };
    timeout(WITHIN, pinged).await.expect("a ping");
    peer.flush().await.expect("answered");
    assert_eq!(*line.away_since.borrow_and_update(), None);
    // The socket stays open, and nothing is read or written.
    let changed = timeout(WITHIN, line.away_since.changed()).await;
    changed.expect("it is noticed").expect("the client runs");
    let since = line.away_since.borrow().expect("the service is away");
    assert!(
        since.elapsed() >= LOST_AFTER / 3,
        "it counts from the last sign of life"
    );
    let mut again = service.accept().await;
    assert_eq!(next(&mut again, "call.answered").await, answered);
}

#[tokio::test]
async fn what_is_left_to_say_is_said_before_the_client_ends() {
    let service = Service::start().await;
    let (client, running) = service.client();
    let mut peer = service.accept().await;
    let mut line = client.open_call(incoming()).await.expect("a line");
    let asked = next(&mut peer, "call.incoming").await;
    reply(&mut peer, &asked, taken()).await;
    told(&mut line).await;
    // Its task is gone without reporting the end.
    drop(line);
    drop(client);
    let failed = next(&mut peer, "call.failed").await;
    assert_eq!(failed["reason"], "bridge_error");
    assert!(!running.is_finished());
    reply(&mut peer, &failed, json!({})).await;
    timeout(WITHIN, running)
        .await
        .expect("it ends")
        .expect("well");
}

#[tokio::test]
async fn a_refusal_reaches_the_call() {
    let service = Service::start().await;
    let (client, _) = service.client();
    let mut peer = service.accept().await;
    let mut line = client.open_call(incoming()).await.expect("a line");
    let asked = next(&mut peer, "call.incoming").await;
    let error = json!({"ok": false, "error": {"code": "unknown_number", "message": "Nobody."}});
    reply(&mut peer, &asked, error).await;
    let heard = told(&mut line).await;
    assert!(
        matches!(heard, ServiceEvent::Reply(ServiceReply::Declined { ref message, ref code, .. }, _) if message.kind == MessageType::Incoming && code == "unknown_number")
    );
}

#[test]
fn a_token_that_is_refused_is_tried_rarely() {
    assert_eq!(wait_ms(&SocketError::Status(401), 0), REDIAL_MS_REFUSED);
    let waits: Vec<u64> = (0..8)
        .map(|failures| wait_ms(&SocketError::Slow, failures))
        .collect();
    assert_eq!(waits, [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
}
