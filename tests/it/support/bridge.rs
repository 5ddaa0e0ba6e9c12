//! A telephony bridge, over a WebSocket or over HTTP.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::Rc,
    time::Duration,
};

use actix_web::rt;
use awc::{
    error::WsClientError,
    http::{Method, StatusCode},
    ws::{CloseCode, Frame, Message},
};
use dikala_testkit::{PATIENCE, eventually};
use futures_util::{Sink, SinkExt, Stream, StreamExt};
use serde_json::{Map, Value, json};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::timeout,
};

use super::{
    moment::Moment,
    rest::{Rest, RestResponse, client},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BridgeTransport {
    Socket,
    Http,
}

/// A bridge with one connection.
pub struct TestBridge {
    link: Link,
    inbox: Rc<Inbox>,
    /// Prefix of message ids, unique among all connections of a test.
    name: String,
    sent: Cell<u32>,
}

enum Link {
    Socket(mpsc::UnboundedSender<Message>),
    Http(Rest),
}

#[derive(Default)]
struct Inbox {
    waiting: RefCell<HashMap<String, oneshot::Sender<Value>>>,
    replies: RefCell<Vec<Value>>,
    commands: RefCell<Vec<Value>>,
    closed: Cell<Option<BridgeSocketEnd>>,
    pings: Cell<u32>,
    mute: Cell<bool>,
    changed: watch::Sender<u32>,
}

/// The end of a socket: the code of its close frame, if there was one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BridgeSocketEnd(pub Option<CloseCode>);

/// A message in flight.
pub struct PendingReply(oneshot::Receiver<Value>);

impl TestBridge {
    pub async fn open(base: &str, token: &str, transport: BridgeTransport) -> Self {
        match transport {
            BridgeTransport::Socket => Self::socket(base, Some(token))
                .await
                .unwrap_or_else(|status| panic!("no socket: {status}")),
            BridgeTransport::Http => Self::with(Link::Http(
                Rest::new(base).with("authorization", &format!("Bearer {token}")),
            )),
        }
    }

    /// Opens a WebSocket, or returns the status of a refused upgrade.
    pub async fn socket(base: &str, token: Option<&str>) -> Result<Self, StatusCode> {
        match Self::connect(base, token).await {
            Err(WsClientError::InvalidResponseStatus(status)) => Err(status),
            other => Ok(other.unwrap_or_else(|other| panic!("no socket: {other}"))),
        }
    }

    /// Opens a WebSocket; `None` if that fails or takes too long.
    pub async fn reach(base: &str, token: &str, patience: Duration) -> Option<Self> {
        let connected = timeout(patience, Self::connect(base, Some(token))).await;
        connected.ok()?.ok()
    }

    async fn connect(base: &str, token: Option<&str>) -> Result<Self, WsClientError> {
        let mut request = client(None)
            .ws(format!("{base}/bridge/v1/connect"))
            .protocols(["dikala.bridge.v1"])
            .max_frame_size(8 << 20);
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let (response, framed) = request.connect().await?;
        let protocol = response.headers().get("sec-websocket-protocol");
        assert_eq!(
            protocol.map(|p| p.to_str().unwrap()),
            Some("dikala.bridge.v1")
        );
        let (outbox, messages) = mpsc::unbounded_channel();
        let bridge = Self::with(Link::Socket(outbox));
        rt::spawn(pump(framed, messages, bridge.inbox.clone()));
        Ok(bridge)
    }

    fn with(link: Link) -> Self {
        thread_local!(static OPENED: Cell<u32> = const { Cell::new(0) });
        let number = OPENED.replace(OPENED.get() + 1);
        Self {
            link,
            inbox: Rc::default(),
            name: format!("m{number}"),
            sent: Cell::new(0),
        }
    }

    fn next_id(&self) -> String {
        self.sent.set(self.sent.get() + 1);
        format!("{}-{}", self.name, self.sent.get())
    }

    /// A message of this type with a new id.
    pub fn message(&self, kind: &str, fields: Value) -> Value {
        let mut message = Map::from_iter([
            ("id".to_owned(), json!(self.next_id())),
            ("type".to_owned(), json!(kind)),
        ]);
        let Value::Object(fields) = fields else {
            panic!("fields are an object")
        };
        message.extend(fields);
        Value::Object(message)
    }

    /// Sends without waiting for the reply.
    pub fn begin(&self, message: &Value) -> PendingReply {
        let (reply, pending) = oneshot::channel();
        let id = message["id"]
            .as_str()
            .expect("a message that is replied to has an id")
            .to_owned();
        match &self.link {
            Link::Socket(outbox) => {
                self.inbox.waiting.borrow_mut().insert(id, reply);
                let _ = outbox.send(Message::Text(message.to_string().into()));
            }
            Link::Http(rest) => {
                let (rest, inbox, message) = (rest.clone(), self.inbox.clone(), message.clone());
                rt::spawn(async move {
                    let mut answer = post(&rest, &inbox, &[message]).await;
                    let _ = reply.send(answer["replies"][0].take());
                });
            }
        }
        PendingReply(pending)
    }

    /// Sends and waits for the reply.
    pub async fn send(&self, message: &Value) -> Value {
        self.begin(message).reply().await
    }

    /// Sends a message of this type and waits for the reply.
    pub async fn ask(&self, kind: &str, fields: Value) -> Value {
        self.send(&self.message(kind, fields)).await
    }

    /// As [`Self::ask`]; the reply must be `ok:true`.
    pub async fn ok(&self, kind: &str, fields: Value) -> Value {
        let reply = self.ask(kind, fields.clone()).await;
        assert_eq!(reply["ok"], true, "{kind} {fields}: {reply}");
        reply
    }

    /// As [`Self::ask`]; the reply must be an error, which is returned.
    pub async fn refused(&self, kind: &str, fields: Value) -> Value {
        let mut reply = self.ask(kind, fields.clone()).await;
        assert_eq!(reply["ok"], false, "{kind} {fields}: {reply}");
        assert!(reply["error"]["message"].is_string(), "{reply}");
        reply["error"].take()
    }

    /// Reports an incoming call; returns the reply.
    pub async fn incoming(&self, did: &str, at: Option<Moment>) -> Value {
        let mut fields = json!({
            "bridgeCallId": format!("sip-{}", self.next_id()), "did": did, "callerNumber": "+6281234567890",
        });
        if let Some(at) = at {
            fields["at"] = json!(at.text());
        }
        self.ok("call.incoming", fields).await
    }

    /// An incoming call that is accepted; returns its id.
    pub async fn ring(&self, did: &str) -> String {
        self.ring_at(did, None).await
    }

    pub async fn ring_at(&self, did: &str, at: Option<Moment>) -> String {
        let reply = self.incoming(did, at).await;
        assert_eq!(reply["action"], "answer", "{reply}");
        reply["callId"].as_str().unwrap().to_owned()
    }

    /// A call that is answered now; returns its id.
    pub async fn talk(&self, did: &str) -> String {
        let call = self.ring(did).await;
        self.ok("call.answered", json!({"callId": call})).await;
        call
    }

    /// A call that rang and was answered at a past time; returns its id.
    pub async fn talk_since(&self, did: &str, at: Moment) -> String {
        let call = self.ring_at(did, Some(at)).await;
        self.ok("call.answered", json!({"callId": call, "at": at.text()}))
            .await;
        call
    }

    pub async fn hang_up(&self, call: &str) {
        self.ok("call.hangup", json!({"callId": call})).await;
    }

    pub async fn hang_up_at(&self, call: &str, at: Moment) {
        self.ok("call.hangup", json!({"callId": call, "at": at.text()}))
            .await;
    }

    /// All commands received so far.
    pub fn commands(&self) -> Vec<Value> {
        self.inbox.commands.borrow().clone()
    }

    /// Waits for a command about a call. Over HTTP commands come with answers, so heartbeats are sent meanwhile.
    pub async fn command(&self, command: &str, call: &str) -> Value {
        eventually(&format!("{command} {call}"), async || {
            if let Link::Http(_) = self.link {
                self.ok("heartbeat", json!({})).await;
            }
            let commands = self.commands();
            commands
                .into_iter()
                .find(|c| c["command"] == command && c["callId"] == call)
        })
        .await
    }

    /// Sends a frame unchanged.
    pub fn frame(&self, message: Message) {
        let Link::Socket(outbox) = &self.link else {
            panic!("only sockets have frames")
        };
        let _ = outbox.send(message);
    }

    /// Waits for a reply that does not belong to a message of [`Self::begin`].
    pub async fn stray_reply(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        eventually("a reply", async || {
            self.inbox
                .replies
                .borrow()
                .iter()
                .find(|r| wanted(r))
                .cloned()
        })
        .await
    }

    /// The message ids of all replies, in order of arrival.
    pub fn reply_order(&self) -> Vec<String> {
        let replies = self.inbox.replies.borrow();
        replies
            .iter()
            .filter_map(|reply| Some(reply["replyTo"].as_str()?.to_owned()))
            .collect()
    }

    /// The number of received replies with this property.
    pub fn replies(&self, such: impl Fn(&Value) -> bool) -> usize {
        let replies = self.inbox.replies.borrow();
        replies.iter().filter(|reply| such(reply)).count()
    }

    /// Answers no pings from now on.
    pub fn fall_silent(&self) {
        self.inbox.mute.set(true);
    }

    /// The number of received pings.
    pub fn pings(&self) -> u32 {
        self.inbox.pings.get()
    }

    /// True until the peer has closed the socket.
    pub fn is_open(&self) -> bool {
        self.inbox.closed.get().is_none()
    }

    /// Waits until the peer has closed the socket.
    pub async fn closed(&self) -> BridgeSocketEnd {
        let mut changed = self.inbox.changed.subscribe();
        let waiting = async {
            loop {
                if let Some(closed) = self.inbox.closed.get() {
                    return closed;
                }
                changed.changed().await.unwrap();
            }
        };
        timeout(PATIENCE, waiting)
            .await
            .expect("the service closes the socket")
    }

    /// Posts several messages at once; returns the whole answer.
    pub async fn post(&self, messages: &[Value]) -> Value {
        let Link::Http(rest) = &self.link else {
            panic!("only HTTP has batches")
        };
        post(rest, &self.inbox, messages).await
    }

    /// Drops the socket without a close frame, like a cut cable.
    pub fn cut(self) {}
}

impl PendingReply {
    pub async fn reply(self) -> Value {
        timeout(PATIENCE, self.0)
            .await
            .expect("a reply in time")
            .expect("the connection holds")
    }

    /// The reply, or `None` if the connection ended.
    pub async fn reply_if_any(self) -> Option<Value> {
        timeout(PATIENCE, self.0)
            .await
            .expect("a reply in time")
            .ok()
    }

    /// As [`Self::reply_if_any`], but `None` after `patience`.
    pub async fn reply_within(mut self, patience: Duration) -> Option<Value> {
        timeout(patience, self.arrives()).await.ok()?
    }

    /// As [`Self::reply_if_any`], but without a limit. A caller that drops the future can call again.
    pub async fn arrives(&mut self) -> Option<Value> {
        (&mut self.0).await.ok()
    }
}

async fn post(rest: &Rest, inbox: &Inbox, messages: &[Value]) -> Value {
    let body = json!({"messages": messages});
    let answer = eventually("a request that comes in time", async || {
        let path = "/bridge/v1/messages";
        let answer = rest.send(Method::POST, path, Some(body.clone())).await;
        // On a busy machine a request may come too slowly, or the database may answer too late; the messages are repeated.
        (![408, 503].contains(&answer.status)).then_some(answer)
    });
    let answer = answer.await.expect(200);
    inbox
        .commands
        .borrow_mut()
        .extend(answer["commands"].as_array().unwrap().iter().cloned());
    inbox
        .replies
        .borrow_mut()
        .extend(answer["replies"].as_array().unwrap().iter().cloned());
    answer
}

/// A request over the HTTP transport that may be refused.
pub async fn post_raw(base: &str, authorization: Option<&str>, body: Value) -> RestResponse {
    let rest = Rest::new(base);
    let rest = authorization
        .iter()
        .fold(rest, |rest, value| rest.with("authorization", value));
    rest.post("/bridge/v1/messages", body).await
}

async fn pump<E>(
    mut framed: impl Stream<Item = Result<Frame, E>> + Sink<Message> + Unpin,
    mut messages: mpsc::UnboundedReceiver<Message>,
    inbox: Rc<Inbox>,
) {
    let closed = loop {
        tokio::select! {
            message = messages.recv() => match message {
                Some(message) => if framed.send(message).await.is_err() { break BridgeSocketEnd(None) },
                // The test dropped the bridge: the socket is dropped without a close frame.
                None => return,
            },
            frame = framed.next() => match frame {
                Some(Ok(Frame::Text(text))) => inbox.take(serde_json::from_slice(&text).unwrap()),
                Some(Ok(Frame::Ping(bytes))) => {
                    inbox.pings.set(inbox.pings.get() + 1);
                    if !inbox.mute.get() {
                        let _ = framed.send(Message::Pong(bytes)).await;
                    }
                }
                Some(Ok(Frame::Close(reason))) => break BridgeSocketEnd(reason.map(|reason| reason.code)),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => break BridgeSocketEnd(None),
            },
        }
    };
    inbox.closed.set(Some(closed));
    inbox.waiting.borrow_mut().clear();
    inbox.changed.send_modify(|count| *count += 1);
}

impl Inbox {
    fn take(&self, frame: Value) {
        if frame.get("command").is_some() {
            self.commands.borrow_mut().push(frame);
            return;
        }
        let waiting = frame["replyTo"]
            .as_str()
            .and_then(|id| self.waiting.borrow_mut().remove(id));
        self.replies.borrow_mut().push(frame.clone());
        if let Some(reply) = waiting {
            let _ = reply.send(frame);
        }
    }
}
