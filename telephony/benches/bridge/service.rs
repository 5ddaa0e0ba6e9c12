//! A call service that accepts every call at once, so that only the bridge is measured.

use std::net::Ipv4Addr;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::{
    accept_hdr_async,
    tungstenite::{
        Error, Message,
        handshake::server::{Callback, ErrorResponse, Request, Response},
        http::{HeaderValue, header},
    },
};

/// A call's number is part of its caller's phone number.
const CALLER: &str = "+6281100";

pub fn caller(number: usize) -> String {
    format!("{CALLER}{number:06}")
}

/// The number of the call in this message.
pub fn number(text: &str) -> usize {
    let (_, rest) = text.split_once(CALLER).unwrap();
    rest[..6].parse().unwrap()
}

/// Starts it and returns its address.
pub async fn start() -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("ws://{}/connect", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // The task ends when the bridge does.
            tokio::spawn(async move { drop(serve(stream).await) });
        }
    });
    url
}

struct Door;

impl Callback for Door {
    fn on_request(self, _: &Request, mut answer: Response) -> Result<Response, ErrorResponse> {
        let spoken = HeaderValue::from_static("dikala.bridge.v1");
        answer
            .headers_mut()
            .insert(header::SEC_WEBSOCKET_PROTOCOL, spoken);
        Ok(answer)
    }
}

async fn serve(stream: TcpStream) -> Result<(), Error> {
    stream.set_nodelay(true)?;
    let mut socket = accept_hdr_async(stream, Door).await?;
    while let Some(message) = socket.next().await {
        if let Message::Text(text) = message? {
            let message: Value = serde_json::from_str(&text).unwrap();
            let reply = reply(&message).to_string();
            socket.send(Message::text(reply)).await?;
        }
    }
    Ok(())
}

fn reply(message: &Value) -> Value {
    let mut reply = json!({"replyTo": message["id"], "ok": true});
    match message["type"].as_str() {
        Some("call.incoming") => {
            let caller = &message["callerNumber"];
            reply["callId"] = json!(format!("call_{:026}", number(&caller.to_string())));
            reply["action"] = json!("answer");
            reply["agent"] = json!({
                "id": "agent", "name": "Ayu", "systemPrompt": format!("You speak to {caller}."), "voiceId": "Kore",
                "greetingText": null, "language": "id", "maxCallDurationMinutes": 10, "escalationNumber": null,
                "tools": ["end_call"], "functions": [],
            });
        }
        Some("heartbeat") => reply["ended"] = json!([]),
        _ => {}
    }
    reply
}
