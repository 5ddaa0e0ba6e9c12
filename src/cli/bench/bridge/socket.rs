//! One WebSocket of the measuring bridge, and the loop that plays a script on it.

use std::{net::SocketAddr, pin::pin, time::Duration};

use dikala_actors::outbound::client_config;
use dikala_entities::Secret;
use dikala_protocol::{
    CONNECT_PATH,
    client::socket::{ClientSocket, dial_service, write},
};
use futures_util::{
    FutureExt, StreamExt,
    stream::{SplitSink, SplitStream},
};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};
use tokio_rustls::TlsConnector;
use tokio_tungstenite::tungstenite::{Error, Message as Frame};

use super::reply::BenchReply;
use crate::cli::bench::{Result, failed};

/// If the server is silent for this long, unacknowledged messages count as lost.
const SILENCE_MAX: Duration = Duration::from_secs(40);
/// Bound of the outgoing queue; more than any script leaves unacknowledged.
const OUTGOING_MAX: usize = 16_384;

/// The messages of one socket and the reaction to replies.
pub trait SocketScript {
    /// Writes the messages that are due now. Returns the time of the next one, if it does not depend on a reply.
    fn due(&mut self, now: Instant, out: &mut Vec<Frame>) -> Option<Instant>;

    /// Handles a reply and writes the messages that follow from it.
    fn reply(&mut self, reply: &BenchReply<'_>, now: Instant, out: &mut Vec<Frame>);

    /// Number of unacknowledged messages.
    fn waiting(&self) -> usize;

    /// True once the script has nothing more to send.
    fn is_over(&self) -> bool;

    /// Counts all unacknowledged messages as lost.
    fn give_up(&mut self);
}

#[derive(Debug)]
pub struct BenchSocket {
    sink: SplitSink<ClientSocket, Frame>,
    stream: SplitStream<ClientSocket>,
}

impl BenchSocket {
    pub async fn dial(address: SocketAddr, token: &Secret) -> Result<Self> {
        let url = format!("ws://{address}{CONNECT_PATH}");
        let tls = TlsConnector::from(client_config(None).map_err(failed)?);
        let socket = dial_service(&url, token, &tls).await.map_err(failed)?;
        let (sink, stream) = socket.split();
        Ok(Self { sink, stream })
    }

    /// Plays a script to its end. Gives up messages that stay unacknowledged for [`SILENCE_MAX`].
    pub async fn play<S: SocketScript>(&mut self, script: &mut S) -> Result<()> {
        // Reading and writing are separate, because two peers that only write would deadlock.
        let (outgoing, to_write) = mpsc::channel(OUTGOING_MAX);
        let mut writing = pin!(write(&mut self.sink, to_write));
        let mut out = Vec::new();
        let mut heard = Instant::now();
        loop {
            let wake = script.due(Instant::now(), &mut out);
            for frame in out.drain(..) {
                outgoing.try_send(frame).map_err(failed)?;
            }
            if script.is_over() {
                drop(outgoing);
                return writing.await.map_err(failed);
            }
            let patience = heard + SILENCE_MAX;
            tokio::select! {
                frame = self.stream.next() => {
                    heard = Instant::now();
                    let mut arrived = Some(frame);
                    while let Some(frame) = arrived {
                        read(frame, script, heard, &mut out)?;
                        arrived = self.stream.next().now_or_never();
                    }
                }
                Err(error) = &mut writing => return Err(failed(error)),
                () = sleep_until(wake.map_or(patience, |wake| wake.min(patience))) => {
                    if script.waiting() == 0 {
                        heard = Instant::now();
                    } else if Instant::now() >= patience {
                        script.give_up();
                        return Ok(());
                    }
                }
            }
        }
    }
}

/// Passes a reply to the script.
fn read<S: SocketScript>(
    frame: Option<std::result::Result<Frame, Error>>,
    script: &mut S,
    now: Instant,
    out: &mut Vec<Frame>,
) -> Result<()> {
    match frame.unwrap_or(Err(Error::ConnectionClosed)) {
        Ok(Frame::Text(text)) => {
            if let Some(reply) = BenchReply::read(text.as_bytes()) {
                script.reply(&reply, now, out);
            }
            Ok(())
        }
        Ok(Frame::Close(reason)) => Err(failed(format!("the socket is closed: {reason:?}"))),
        Ok(_) => Ok(()),
        Err(error) => Err(failed(error)),
    }
}
