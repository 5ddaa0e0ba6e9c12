//! A model that speaks the Gemini Live protocol over TLS and understands nothing but the call for a greeting. It checks nothing,
//! because other tests do.

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use dikala_testkit::tls;
use futures_util::{SinkExt, StreamExt};
use tokio::{
    net::{TcpListener, TcpStream},
    time::{Instant, interval_at},
};
use tokio_rustls::server::TlsStream;
use tokio_tungstenite::{
    accept_async,
    tungstenite::{Bytes, Message},
};

use crate::{
    service,
    sound::{self, is_loud},
    stage::{MarkDirection, TrafficMode, TrafficState},
};

/// Seconds of speech sent at once, as often as they last; real models generate speech much faster than it is spoken, too.
const TURN_SECONDS: u64 = 5;

/// A part of the message that asks for a greeting.
const GREET: &str = "The call has just been answered";

/// Starts it and returns its address.
pub async fn start(stage: Arc<TrafficState>) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("wss://{}/live", listener.local_addr().unwrap());
    let acceptor = tls::acceptor();
    let (voice, mark) = (sound::model_voice().into(), sound::model_mark().into());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (stage, words) = (stage.clone(), (Bytes::clone(&voice), Bytes::clone(&mark)));
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                stream.set_nodelay(true).unwrap();
                if let Ok(secured) = acceptor.accept(stream).await {
                    // A connection may end without a close.
                    let _ = converse(secured, &stage, words).await;
                }
            });
        }
    });
    url
}

async fn converse(
    stream: TlsStream<TcpStream>,
    stage: &TrafficState,
    (voice, mark): (Bytes, Bytes),
) -> Result<(), tokio_tungstenite::tungstenite::Error> {
    let mut socket = accept_async(stream).await?;
    let Some(setup) = socket.next().await else {
        return Ok(());
    };
    let call = service::number(setup?.to_text()?);
    let complete = Bytes::from_static(b"{\"setupComplete\": {}}");
    socket.send(Message::Binary(complete)).await?;
    // Spreads the calls over a second.
    let second = Duration::from_secs(1);
    let from = Instant::now()
        + second * u32::try_from(call).unwrap() / u32::try_from(stage.calls()).unwrap();
    let mut seconds = interval_at(from, second);
    let mut passed = call as u64;
    loop {
        tokio::select! {
            _ = seconds.tick() => {
                passed += 1;
                if stage.is(TrafficMode::Talk) && passed.is_multiple_of(TURN_SECONDS) {
                    for _ in 0..TURN_SECONDS * 10 {
                        socket.feed(Message::Binary(voice.clone())).await?;
                    }
                    socket.flush().await?;
                } else if stage.is(TrafficMode::Marks) {
                    stage.mark(call, MarkDirection::ToPhone);
                    socket.send(Message::Binary(mark.clone())).await?;
                }
            }
            message = socket.next() => {
                let Some(message) = message else { return Ok(()) };
                let Message::Text(text) = message? else { continue };
                if text.contains(GREET) {
                    socket.send(Message::Binary(mark.clone())).await?;
                } else if stage.is(TrafficMode::Marks) && is_loud(&text) {
                    stage.found(call, MarkDirection::ToModel);
                }
            }
        }
    }
}
