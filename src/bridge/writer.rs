//! Writes a socket: replies, commands and control frames.

use std::{future::Future, time::Duration};

use actix_web::web::Bytes;
use actix_ws::{CloseCode, Session};
use dikala_actors::bridges::{BridgeSocket, Bridges, Dismissal};
use dikala_protocol::Command;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{newest, ordering::AnsweredMessage};
use crate::node::Runtime;

/// Longest time without a sign of life from the peer, in milliseconds.
pub(super) const SILENCE_MAX_MS: i64 = 45_000;

/// The reason why a socket ended.
#[derive(Debug)]
pub(super) enum EndReason {
    /// The peer closed it, or the connection broke.
    Gone,
    /// Nothing was received, or nothing could be written, for too long.
    Silent,
    /// The service closes it.
    Close(CloseCode, &'static str),
}

impl From<Dismissal> for EndReason {
    fn from(dismissal: Dismissal) -> Self {
        match dismissal {
            Dismissal::Revoked => Self::Close(CloseCode::Policy, "the bridge token was revoked"),
            Dismissal::Replaced => Self::Close(
                CloseCode::Policy,
                "too many sockets of this bridge; the newest stay",
            ),
            Dismissal::Lost => Self::Close(
                CloseCode::Away,
                "this node cannot work at the moment; connect again, to another",
            ),
        }
    }
}

/// A ping or a pong.
pub(super) enum ControlFrame {
    Ping,
    Pong(Bytes),
}

/// Writes replies, commands and control frames until the socket fails.
pub(super) async fn write(
    mut session: Session,
    runtime: Runtime,
    socket: BridgeSocket,
    mut replies: mpsc::Receiver<AnsweredMessage>,
    mut beats: mpsc::Receiver<ControlFrame>,
) -> EndReason {
    let bridges = &runtime.bridges;
    loop {
        let written = tokio::select! {
            Some(beat) = beats.recv() => {
                let beat = async {
                    match beat {
                        ControlFrame::Ping => session.ping(b"").await,
                        ControlFrame::Pong(payload) => session.pong(&payload).await,
                    }
                };
                in_time(beat).await
            }
            finished = replies.recv() => match finished {
                Some(AnsweredMessage {
                    ticket, reply, room, ..
                }) => {
                    let sent = send(&mut session, &reply).await;
                    drop(room);
                    ticket.answered(bridges);
                    sent
                }
                // The reader has ended, and everything is written.
                None => return EndReason::Gone,
            },
            command = bridges.next_command(&socket) => {
                let taken = UnwrittenCommand::new(bridges, &socket, command);
                match newest::is_newest(&runtime, &socket).await {
                    true => hand_over(&mut session, taken).await,
                    // The command is put back and goes to the newer socket.
                    false => Ok(()),
                }
            }
        };
        if let Err(over) = written {
            return over;
        }
    }
}

/// A command that was taken from the queue and is not written yet. It goes back when this is dropped.
struct UnwrittenCommand<'a> {
    bridges: &'a Bridges,
    socket: &'a BridgeSocket,
    command: Option<Command>,
}

impl<'a> UnwrittenCommand<'a> {
    const fn new(bridges: &'a Bridges, socket: &'a BridgeSocket, command: Command) -> Self {
        Self {
            bridges,
            socket,
            command: Some(command),
        }
    }
}

impl Drop for UnwrittenCommand<'_> {
    fn drop(&mut self) {
        if let Some(command) = self.command.take() {
            self.bridges.put_back(self.socket, command);
        }
    }
}

/// Writes a command, then a ping whose pong confirms it. An unwritten or unconfirmed command goes to the bridge's
/// next socket.
async fn hand_over(
    session: &mut Session,
    mut taken: UnwrittenCommand<'_>,
) -> Result<(), EndReason> {
    let Some(command) = &taken.command else {
        return Ok(());
    };
    let (message, id) = (json!(command), command.id);
    send(session, &message).await?;
    if let Some(command) = taken.command.take() {
        taken.bridges.written(taken.socket, command);
    }
    in_time(session.ping(id.to_string().as_bytes())).await
}

async fn send(session: &mut Session, message: &Value) -> Result<(), EndReason> {
    in_time(session.text(message.to_string())).await
}

/// Fails if the peer does not read in time; it then counts as silent.
async fn in_time<E>(writing: impl Future<Output = Result<(), E>>) -> Result<(), EndReason> {
    let limit = Duration::from_millis(SILENCE_MAX_MS.unsigned_abs());
    match tokio::time::timeout(limit, writing).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(EndReason::Gone),
        Err(_) => Err(EndReason::Silent),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use actix_web::{FromRequest, test::TestRequest, web};
    use dikala_actors::runtime::clock::{Clock, SystemClock};
    use dikala_entities::{BridgeId, CallId, HangupReason};
    use dikala_protocol::CommandKind;
    use futures_util::FutureExt;

    use super::*;

    #[actix_web::test]
    async fn a_command_that_a_dead_socket_did_not_take_waits_for_the_next() {
        let (request, mut payload) = TestRequest::get()
            .insert_header(("upgrade", "websocket"))
            .insert_header(("connection", "upgrade"))
            .insert_header(("sec-websocket-version", "13"))
            .insert_header(("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="))
            .to_http_parts();
        let body = web::Payload::from_request(&request, &mut payload).await;
        let (response, mut session, _frames) =
            actix_ws::handle(&request, body.expect("a body")).expect("an upgrade");
        drop(response);
        let bridges = Bridges::new(Arc::new(SystemClock));
        let now = SystemClock.now();
        let (bridge, call) = (BridgeId::new(now), CallId::new(now));
        let dead = bridges.connected(bridge);
        let reason = HangupReason::Requested;
        bridges.command(bridge, call, CommandKind::Hangup { reason });
        let command = bridges.next_command(&dead).await;
        let taken = UnwrittenCommand::new(&bridges, &dead, command.clone());
        let over = hand_over(&mut session, taken).await;
        assert!(matches!(over, Err(EndReason::Gone)));
        bridges.disconnected(&dead);
        let next = bridges.connected(bridge);
        assert_eq!(bridges.next_command(&next).now_or_never(), Some(command));
    }
}
