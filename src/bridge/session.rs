//! The WebSocket transport. Each socket has two tasks: one reads and handles messages, one writes. Neither blocks the
//! other, and messages under way continue while neither can proceed. While the connection's [`ConnectionBudget`] has
//! no room, the socket is not read.

use std::{future::pending, pin::pin, sync::Arc, time::Duration};

use actix_web::{
    Error, HttpRequest, HttpResponse,
    http::header,
    web::{self, Bytes},
};
use actix_ws::{CloseCode, CloseReason, Session};
use dikala_actors::{
    bridges::{BridgeSocket, Bridges, Command, Dismissal},
    traces::{for_request, request_id},
};
use dikala_entities::{BridgeId, CommandId, Millis};
use futures_util::future::{FutureExt, LocalBoxFuture};
use serde_json::Value;
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

use super::{
    BridgeParts,
    budget::{ConnectionBudget, IN_FLIGHT_MAX, Room},
    frames::{Frame, Frames, ReadFault},
    lanes::{Finished, Lanes, Message, payer},
    newest,
    protocol::{self, MESSAGE_BYTES_MAX, Refusal, Request, SUBPROTOCOL},
    ticket::Ticket,
};
use crate::{http::denied::Denied, node::Node};

/// Larger frames close the socket. Frames between the message limit and this one are read, so that their id can be
/// answered.
const FRAME_BYTES_MAX: usize = 4 * MESSAGE_BYTES_MAX;
/// Pings and pongs that wait to be written. Any more are dropped: the peer is not reading anyway.
const BEATS_MAX: usize = 4;
const PING_EVERY_MS: i64 = 15_000;
const SILENCE_MAX_MS: i64 = 45_000;
/// Longest time for messages under way when the service stops.
const FINISH_WITHIN: Duration = Duration::from_secs(10);
/// Longest time for a peer to read the remaining replies and the close frame.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);

/// `GET /bridge/v1/connect`
pub async fn connect(
    request: HttpRequest,
    bridge: web::ReqData<BridgeId>,
    parts: web::Data<BridgeParts>,
    body: web::Payload,
) -> Result<HttpResponse, Error> {
    let bridge = bridge.into_inner();
    let offered = request.headers().get(header::SEC_WEBSOCKET_PROTOCOL);
    let speaks_ours = offered.is_none_or(|offered| {
        offered
            .to_str()
            .unwrap_or_default()
            .split(',')
            .any(|name| name.trim() == SUBPROTOCOL)
    });
    if !speaks_ours {
        return Err(no_upgrade().into());
    }
    let (response, session, stream) =
        actix_ws::handle_with_protocols(&request, body, &[SUBPROTOCOL])
            .map_err(|_| no_upgrade())?;
    let frames = Frames::new(stream, FRAME_BYTES_MAX);
    let (announced, is_announced) = oneshot::channel();
    let parts = parts.get_ref().clone();
    let work = run(parts, bridge, session, frames, announced);
    actix_web::rt::spawn(for_request(request_id(), work));
    // Wait for the announcement: a bridge that sees this socket open may open the next one at another node.
    let _ = is_announced.await;
    Ok(response)
}

fn no_upgrade() -> Denied {
    let message = "This address takes WebSocket upgrades with the subprotocol dikala.bridge.v1.";
    Denied::bad_request("invalid_upgrade", message)
}

/// The reason why a socket ended.
#[derive(Debug)]
enum Over {
    /// The peer closed it, or the connection broke.
    Gone,
    /// Nothing was received, or nothing could be written, for too long.
    Silent,
    /// The service closes it.
    Close(CloseCode, &'static str),
}

impl From<Dismissal> for Over {
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
enum Beat {
    Ping,
    Pong(Bytes),
}

async fn run(
    parts: BridgeParts,
    bridge: BridgeId,
    session: Session,
    frames: Frames,
    announced: oneshot::Sender<()>,
) {
    let socket = parts.node.bridges.connected(bridge);
    newest::announce(&parts.node, &socket).await;
    // The receiver may be gone already.
    let _ = announced.send(());
    tracing::info!(%bridge, request_id = request_id().as_deref(), "a bridge connected");
    let (replies, waiting_replies) = mpsc::channel(IN_FLIGHT_MAX);
    let (beats, waiting_beats) = mpsc::channel(BEATS_MAX);
    let mut writer = actix_web::rt::spawn(write(
        session.clone(),
        parts.node.clone(),
        socket.clone(),
        waiting_replies,
        waiting_beats,
    ));
    let now = parts.node.clock.now();
    let share = parts.budgets.of(bridge);
    let mut reader = Reader {
        lanes: Lanes::new(parts.node.calls.clone(), share.clone(), bridge),
        frames,
        share,
        admission: None,
        replies,
        beats,
        last_frame_at: now,
        ping_at: now.plus_ms(PING_EVERY_MS),
        parts,
        bridge,
    };
    let over = reader.serve(&socket, &mut writer).await;
    let (node, last_frame_at) = (reader.parts.node.clone(), reader.last_frame_at);
    drop(reader);
    if !writer.is_finished() {
        if matches!(over, Over::Close(..)) {
            let _ = tokio::time::timeout(CLOSE_WITHIN, &mut writer).await;
        }
        // Unwritten messages are lost with the socket, except commands: those go to the next socket.
        writer.abort();
    }
    let is_silent = matches!(over, Over::Silent);
    node.calls.socket_ended(&socket, is_silent, last_frame_at);
    let (code, reason) = match over {
        Over::Gone => (CloseCode::Normal, ""),
        Over::Silent => (CloseCode::Policy, "no sign of life for 45 s"),
        Over::Close(code, reason) => (code, reason),
    };
    tracing::info!(%bridge, request_id = request_id().as_deref(), reason, "a bridge disconnected");
    let close = CloseReason {
        code,
        description: Some(reason.to_owned()),
    };
    // A peer that is gone or does not read cannot receive the close frame.
    let _ = tokio::time::timeout(CLOSE_WITHIN, session.close(Some(close))).await;
}

/// A message with its room.
type Admitted = (Ticket, Message, Room);

/// Reads a socket and handles its messages.
struct Reader {
    parts: BridgeParts,
    bridge: BridgeId,
    frames: Frames,
    lanes: Lanes,
    share: ConnectionBudget,
    /// A message that was read and waits for room; nothing more is read meanwhile.
    admission: Option<LocalBoxFuture<'static, Admitted>>,
    replies: mpsc::Sender<Finished>,
    beats: mpsc::Sender<Beat>,
    last_frame_at: Millis,
    ping_at: Millis,
}

impl Reader {
    async fn serve(&mut self, socket: &BridgeSocket, writer: &mut JoinHandle<Over>) -> Over {
        let (clock, mut stopping) = (
            Arc::clone(&self.parts.node.clock),
            self.parts.stopping.clone(),
        );
        // Created once, not for each message.
        let mut stopped = pin!(stopping.wait_for(|stopping| *stopping));
        let mut dismissed = pin!(socket.dismissed());
        let mut wake = clock.sleep_until(self.ping_at);
        loop {
            let reads = self.admission.is_none();
            let has_work = !self.lanes.is_idle();
            let step = tokio::select! {
                frame = self.frames.next(), if reads => self.on_frame(socket, frame),
                (ticket, message, room) = admitted(&mut self.admission) => {
                    self.admission = None;
                    self.lanes.accept(ticket, message, room);
                    Ok(())
                }
                finished = self.lanes.next(), if has_work => self.on_finished(finished),
                () = &mut wake => {
                    let ticked = self.on_tick();
                    wake = clock.sleep_until(self.ping_at);
                    ticked
                }
                dismissal = &mut dismissed => Err(dismissal.into()),
                over = &mut *writer => return over.unwrap_or(Over::Gone),
                _ = &mut stopped => return self.finish().await,
            };
            if let Err(over) = step {
                return over;
            }
        }
    }

    fn on_frame(
        &mut self,
        socket: &BridgeSocket,
        frame: Option<Result<Frame, ReadFault>>,
    ) -> Result<(), Over> {
        let frame = match frame {
            Some(Ok(frame)) => frame,
            Some(Err(ReadFault::Close(code, reason))) => return Err(Over::Close(code, reason)),
            Some(Err(ReadFault::Broken)) | None => return Err(Over::Gone),
        };
        self.last_frame_at = self.parts.node.clock.now();
        self.parts.node.calls.seen(self.bridge);
        match frame {
            Frame::Text(text) => self.on_text(&text),
            Frame::Binary(bytes) => {
                let refusal = refusal_of(Refusal::binary(), &bytes);
                self.admit(bytes.len(), Err(refusal), CloseCode::Policy)
            }
            Frame::Ping(payload) => {
                self.beat(Beat::Pong(payload));
                Ok(())
            }
            Frame::Pong(payload) => {
                if let Some(command) = command_in(&payload) {
                    self.parts.node.bridges.confirmed(socket, command);
                }
                Ok(())
            }
            Frame::Close => Err(Over::Gone),
        }
    }

    fn on_text(&mut self, text: &[u8]) -> Result<(), Over> {
        if text.len() > MESSAGE_BYTES_MAX {
            let refusal = refusal_of(Refusal::too_large(), text);
            return self.admit(text.len(), Err(refusal), CloseCode::Size);
        }
        self.admit(text.len(), protocol::parse_text(text), CloseCode::Policy)
    }

    /// Admits a message once there is room for it. A message without a readable id closes the socket, because it
    /// cannot be answered.
    fn admit(&mut self, length: usize, message: Message, code: CloseCode) -> Result<(), Over> {
        if matches!(&message, Err(Refusal { id: None, .. })) {
            let reason = "frames are JSON objects with an id, of at most 256 KiB";
            return Err(Over::Close(code, reason));
        }
        let ticket = Ticket::new(0, &message);
        let tenant_of = |request: &Request| payer(&self.parts.node.calls, request);
        let (message, weight) = self.share.weigh(length, message, tenant_of);
        match self.share.room_now(weight) {
            Ok(room) => self.lanes.accept(ticket, message, room),
            Err(weight) => {
                let share = self.share.clone();
                let admission = async move { (ticket, message, share.room(weight).await) };
                self.admission = Some(admission.boxed_local());
            }
        }
        Ok(())
    }

    fn on_finished(&mut self, finished: Option<Finished>) -> Result<(), Over> {
        match finished {
            // The channel cannot be full, because each reply has its place. An error means that the writer and the
            // socket are gone.
            Some(finished) => self.replies.try_send(finished).map_err(|_| Over::Gone),
            None => Ok(()),
        }
    }

    fn on_tick(&mut self) -> Result<(), Over> {
        let now = self.parts.node.clock.now();
        if self.admission.is_some() {
            // The socket was not being read, so silence proves nothing.
            self.last_frame_at = now;
        }
        let unheard_ms = self.parts.node.bridges.unheard_ms_since(self.last_frame_at);
        if now.since(self.last_frame_at) - unheard_ms >= SILENCE_MAX_MS {
            return Err(Over::Silent);
        }
        self.ping_at = now.plus_ms(PING_EVERY_MS);
        self.beat(Beat::Ping);
        Ok(())
    }

    fn beat(&self, beat: Beat) {
        // A peer that leaves this many unread needs no more of them.
        let _ = self.beats.try_send(beat);
    }

    /// Stops: answers the messages under way and reads nothing new.
    async fn finish(&mut self) -> Over {
        // A pending admission would queue for room that the bridge's other connections need, and nobody would poll
        // it.
        self.admission = None;
        let answer_all = async {
            while let Some(finished) = self.lanes.next().await {
                if self.replies.send(finished).await.is_err() {
                    return;
                }
            }
            // All places are free once every reply has been taken for writing.
            let _ = self.replies.reserve_many(IN_FLIGHT_MAX).await;
        };
        if tokio::time::timeout(FINISH_WITHIN, answer_all)
            .await
            .is_err()
        {
            tracing::warn!(bridge = %self.bridge, "messages were left unanswered at the stop; the bridge sends them again");
        }
        Over::Close(CloseCode::Away, "the service stops; connect again")
    }
}

async fn admitted(admission: &mut Option<LocalBoxFuture<'static, Admitted>>) -> Admitted {
    match admission {
        Some(admission) => admission.await,
        None => pending().await,
    }
}

/// Adds the frame's message id to a refusal, if it has one.
fn refusal_of(refusal: Refusal, frame: &[u8]) -> Refusal {
    match serde_json::from_slice(frame) {
        Ok(message) => refusal.of(&message),
        Err(_) => refusal,
    }
}

/// Writes replies, commands and control frames until the socket fails.
async fn write(
    mut session: Session,
    node: Node,
    socket: BridgeSocket,
    mut replies: mpsc::Receiver<Finished>,
    mut beats: mpsc::Receiver<Beat>,
) -> Over {
    let bridges = &node.bridges;
    loop {
        let written = tokio::select! {
            Some(beat) = beats.recv() => {
                let beat = async {
                    match beat {
                        Beat::Ping => session.ping(b"").await,
                        Beat::Pong(payload) => session.pong(&payload).await,
                    }
                };
                in_time(beat).await
            }
            finished = replies.recv() => match finished {
                Some(Finished { ticket, reply, room }) => {
                    let sent = send(&mut session, &reply).await;
                    drop(room);
                    ticket.answered(bridges);
                    sent
                }
                // The reader has ended, and everything is written.
                None => return Over::Gone,
            },
            command = bridges.next_command(&socket) => {
                let taken = Taken::new(bridges, &socket, command);
                match newest::is_newest(&node, &socket).await {
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
struct Taken<'a> {
    bridges: &'a Bridges,
    socket: &'a BridgeSocket,
    command: Option<Command>,
}

impl<'a> Taken<'a> {
    const fn new(bridges: &'a Bridges, socket: &'a BridgeSocket, command: Command) -> Self {
        Self {
            bridges,
            socket,
            command: Some(command),
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if let Some(command) = self.command.take() {
            self.bridges.put_back(self.socket, command);
        }
    }
}

/// The command id in a pong, which repeats the payload of the ping sent after that command.
fn command_in(payload: &[u8]) -> Option<CommandId> {
    std::str::from_utf8(payload).ok()?.parse().ok()
}

/// Writes a command, then a ping whose pong confirms it. An unwritten or unconfirmed command goes to the bridge's
/// next socket.
async fn hand_over(session: &mut Session, mut taken: Taken<'_>) -> Result<(), Over> {
    let Some(command) = &taken.command else {
        return Ok(());
    };
    let (message, id) = (protocol::command(command), command.id);
    send(session, &message).await?;
    if let Some(command) = taken.command.take() {
        taken.bridges.written(taken.socket, command);
    }
    in_time(session.ping(id.to_string().as_bytes())).await
}

async fn send(session: &mut Session, message: &Value) -> Result<(), Over> {
    in_time(session.text(message.to_string())).await
}

/// Fails if the peer does not read in time; it then counts as silent.
async fn in_time<E>(writing: impl Future<Output = Result<(), E>>) -> Result<(), Over> {
    let limit = Duration::from_millis(SILENCE_MAX_MS.unsigned_abs());
    match tokio::time::timeout(limit, writing).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(Over::Gone),
        Err(_) => Err(Over::Silent),
    }
}

#[cfg(test)]
mod tests {
    use actix_web::{FromRequest, test::TestRequest};
    use dikala_actors::{
        bridges::{CommandKind, SocketEnd},
        runtime::clock::{Clock, SystemClock},
    };
    use dikala_entities::{CallId, HangupReason};
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
        let taken = Taken::new(&bridges, &dead, command.clone());
        let over = hand_over(&mut session, taken).await;
        assert!(matches!(over, Err(Over::Gone)));
        bridges.disconnected(&dead, SocketEnd::Closed);
        let next = bridges.connected(bridge);
        assert_eq!(bridges.next_command(&next).now_or_never(), Some(command));
    }
}
