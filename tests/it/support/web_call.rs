//! A browser in a call: its WebSocket, with audio of 20 ms sent in real time.

use std::{cell::RefCell, collections::VecDeque, rc::Rc, time::Instant};

use actix_web::rt;
use awc::{
    error::WsClientError,
    http::StatusCode,
    ws::{CloseCode, Frame, Message},
};
use dikala_testkit::eventually;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::{
    sync::mpsc,
    time::{Duration, MissedTickBehavior, interval},
};

use super::rest::client;

const FRAME_BYTES: usize = 640;

#[derive(Default)]
struct Heard {
    messages: Vec<Value>,
    /// Bytes of speech with their times.
    speech: Vec<(Instant, usize)>,
    /// Audio that waits to be sent, at 16 kHz.
    to_say: VecDeque<u8>,
    /// Sends no audio any more.
    is_mute: bool,
    closed: Option<Option<CloseCode>>,
}

pub struct TestBrowser {
    outbox: mpsc::UnboundedSender<Message>,
    heard: Rc<RefCell<Heard>>,
}

impl TestBrowser {
    /// Opens the socket of a token, or returns the status of a refused upgrade.
    pub async fn open(url: &str) -> Result<Self, StatusCode> {
        let request = client(None).ws(url).protocols(["dikala.web.v1"]);
        let (response, framed) = match request.max_frame_size(8 << 20).connect().await {
            Err(WsClientError::InvalidResponseStatus(status)) => return Err(status),
            other => other.unwrap_or_else(|other| panic!("no socket: {other}")),
        };
        let protocol = response.headers().get("sec-websocket-protocol");
        assert_eq!(protocol.map(|p| p.to_str().unwrap()), Some("dikala.web.v1"));
        let (outbox, mut messages) = mpsc::unbounded_channel();
        let heard: Rc<RefCell<Heard>> = Rc::default();
        let inbox = Rc::clone(&heard);
        rt::spawn(async move {
            let (mut sink, mut stream) = framed.split();
            let mut ticks = interval(Duration::from_millis(20));
            ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
            loop {
                tokio::select! {
                    frame = stream.next() => match frame {
                        Some(Ok(Frame::Text(text))) => {
                            let message = serde_json::from_slice(&text).unwrap();
                            inbox.borrow_mut().messages.push(message);
                        }
                        Some(Ok(Frame::Binary(bytes))) => {
                            inbox.borrow_mut().speech.push((Instant::now(), bytes.len()));
                        }
                        Some(Ok(Frame::Close(reason))) => {
                            inbox.borrow_mut().closed = Some(reason.map(|reason| reason.code));
                        }
                        Some(Ok(_)) => {}
                        Some(Err(_)) | None => {
                            inbox.borrow_mut().closed.get_or_insert(None);
                            return;
                        }
                    },
                    message = messages.recv() => match message {
                        Some(message) => drop(sink.send(message).await),
                        None => return,
                    },
                    _ = ticks.tick() => {
                        let frame = next_frame(&mut inbox.borrow_mut());
                        if let Some(frame) = frame {
                            let _ = sink.send(Message::Binary(frame.into())).await;
                        }
                    }
                }
            }
        });
        Ok(Self { outbox, heard })
    }

    pub fn send(&self, message: &Value) {
        let _ = self.outbox.send(Message::Text(message.to_string().into()));
    }

    pub fn send_bytes(&self, bytes: Vec<u8>) {
        let _ = self.outbox.send(Message::Binary(bytes.into()));
    }

    pub fn press(&self, keys: &str) {
        for key in keys.chars() {
            self.send(&json!({"type": "key", "key": key.to_string()}));
        }
    }

    /// Says samples of 16 bits at 16 kHz, in real time.
    pub fn say(&self, samples: &[i16]) {
        let bytes = samples.iter().flat_map(|sample| sample.to_le_bytes());
        self.heard.borrow_mut().to_say.extend(bytes);
    }

    /// Sends no audio any more, not even silence.
    pub fn fall_mute(&self) {
        self.heard.borrow_mut().is_mute = true;
    }

    pub fn messages(&self) -> Vec<Value> {
        self.heard.borrow().messages.clone()
    }

    /// Waits for a message that is wanted.
    pub async fn hears(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        eventually(what, async || {
            let heard = self.heard.borrow();
            heard.messages.iter().find(|it| wanted(it)).cloned()
        })
        .await
    }

    /// Waits for the call's id.
    pub async fn ready(&self) -> String {
        let ready = self.hears("the answer", |it| it["type"] == "ready").await;
        ready["callId"].as_str().unwrap().to_owned()
    }

    /// Waits for the end, and returns its reason with the code of the close frame.
    pub async fn ended(&self) -> (Value, Option<CloseCode>) {
        let code = eventually("the socket to be closed", async || {
            self.heard.borrow().closed
        })
        .await;
        let heard = self.heard.borrow();
        let ended = heard.messages.iter().find(|it| it["type"] == "ended");
        (ended.map_or(Value::Null, |it| it["reason"].clone()), code)
    }

    /// Waits until this many messages of a type have come.
    pub async fn counts(&self, kind: &str, count: usize) {
        eventually(kind, async || {
            let messages = self.messages();
            let of_kind = messages.iter().filter(|it| it["type"] == kind);
            (of_kind.count() >= count).then_some(())
        })
        .await;
    }

    /// Waits until this much of the agent's speech has come.
    pub async fn hears_ms(&self, ms: usize) {
        eventually("speech", async || (self.speech_ms() >= ms).then_some(())).await;
    }

    /// The agent's speech so far, in milliseconds.
    pub fn speech_ms(&self) -> usize {
        let heard = self.heard.borrow();
        heard.speech.iter().map(|(_, bytes)| bytes / 48).sum()
    }
}

fn next_frame(heard: &mut Heard) -> Option<Vec<u8>> {
    if heard.is_mute {
        return None;
    }
    let said = FRAME_BYTES.min(heard.to_say.len());
    let mut frame: Vec<u8> = heard.to_say.drain(..said).collect();
    frame.resize(FRAME_BYTES, 0);
    Some(frame)
}
