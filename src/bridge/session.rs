//! The WebSocket transport. A socket has two tasks: one reads and handles, one writes. Neither waits for the other while it
//! holds anything: messages under way go on while nothing is read or written. What comes in is bounded by not reading on while
//! there is no room in the connection's [`ConnectionBudget`].

use std::{future::pending, pin::pin, sync::Arc, time::Duration};

use actix_web::{
    Error, HttpRequest, HttpResponse,
    http::header,
    web::{self, Bytes},
};
use actix_ws::{CloseCode, CloseReason, Session};
use dikala_actors::{
    bridges::{Bridges, Command, Dismissal, Socket},
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

/// Messages up to here are read so that their id can be answered; larger ones close the socket.
const FRAME_BYTES_MAX: usize = 4 * MESSAGE_BYTES_MAX;
/// Pings and pongs that wait to be written; what there is no room for is not sent, as the peer reads nothing anyway.
const BEATS_MAX: usize = 4;
const PING_EVERY_MS: i64 = 15_000;
const SILENCE_MAX_MS: i64 = 45_000;
/// How long messages under way may take when the service stops.
const FINISH_WITHIN: Duration = Duration::from_secs(10);
/// How long a peer may take to read what is left to tell it, and that the socket is closed.
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
    // Who reads that this socket is open can open the next one, at another node: by then it is known that this one was before.
    let _ = is_announced.await;
    Ok(response)
}

fn no_upgrade() -> Denied {
    let message = "This address takes WebSocket upgrades with the subprotocol dikala.bridge.v1.";
    Denied::bad_request("invalid_upgrade", message)
}

/// Why a socket is over.
#[derive(Debug)]
enum Over {
    /// The peer closed it, or the connection broke.
    Gone,
    /// Nothing came, or nothing was taken, for too long.
    Silent,
    /// We close it.
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

/// What keeps a socket alive.
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
    // Who asked may be gone already.
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
        // What is not written is lost with the socket, but for commands: those are for the next one.
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
    // A peer that is gone, or does not read, cannot be told.
    let _ = tokio::time::timeout(CLOSE_WITHIN, session.close(Some(close))).await;
}

/// A message for which there is room.
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
    async fn serve(&mut self, socket: &Socket, writer: &mut JoinHandle<Over>) -> Over {
        let (clock, mut stopping) = (
            Arc::clone(&self.parts.node.clock),
            self.parts.stopping.clone(),
        );
        // Made once, and not anew for each message.
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
        socket: &Socket,
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

    /// Takes a message in as soon as there is room for it. One without an id that could be answered closes the socket.
    fn admit(&mut self, length: usize, message: Message, code: CloseCode) -> Result<(), Over> {
        if matches!(&message, Err(Refusal { id: None, .. })) {
            let reason = "frames are JSON objects with an id, of at most 256 KiB";
            return Err(Over::Close(code, reason));
        }
        let ticket = Ticket::new(0, &message);
        let payer_of = |request: &Request| payer(&self.parts.node.calls, request);
        let (message, weight) = self.share.weigh(length, message, payer_of);
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
            // There is room: each has its place. Where the writer is gone, so is the socket.
            Some(finished) => self.replies.try_send(finished).map_err(|_| Over::Gone),
            None => Ok(()),
        }
    }

    fn on_tick(&mut self) -> Result<(), Over> {
        let now = self.parts.node.clock.now();
        if self.admission.is_some() {
            // Nobody listened.
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
        // A peer that leaves so many of them unread misses nothing by one more.
        let _ = self.beats.try_send(beat);
    }

    /// The service stops: what is under way is answered, nothing new is read.
    async fn finish(&mut self) -> Over {
        // Otherwise it would queue for room that the bridge's other connections need, and nobody would poll it.
        self.admission = None;
        let answer_all = async {
            while let Some(finished) = self.lanes.next().await {
                if self.replies.send(finished).await.is_err() {
                    return;
                }
            }
            // Written when every reply is taken.
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

/// The refusal of a frame, to be answered if the frame has an id.
fn refusal_of(refusal: Refusal, frame: &[u8]) -> Refusal {
    match serde_json::from_slice(frame) {
        Ok(message) => refusal.of(&message),
        Err(_) => refusal,
    }
}

/// Writes what there is to write, until the socket takes no more.
async fn write(
    mut session: Session,
    node: Node,
    socket: Socket,
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
                // The reader is over, and everything is written.
                None => return Over::Gone,
            },
            command = bridges.next_command(&socket) => {
                let taken = Taken::new(bridges, &socket, command);
                match newest::is_newest(&node, &socket).await {
                    true => hand_over(&mut session, taken).await,
                    // It is put back, and goes to where that is.
                    false => Ok(()),
                }
            }
        };
        if let Err(over) = written {
            return over;
        }
    }
}

/// A command that was taken and is not written yet.
struct Taken<'a> {
    bridges: &'a Bridges,
    socket: &'a Socket,
    command: Option<Command>,
}

impl<'a> Taken<'a> {
    const fn new(bridges: &'a Bridges, socket: &'a Socket, command: Command) -> Self {
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

/// The command that a ping was sent after, as the answer to that repeats it.
fn command_in(payload: &[u8]) -> Option<CommandId> {
    std::str::from_utf8(payload).ok()?.parse().ok()
}

/// Writes a command, and after it a ping whose answer says that the bridge has it. One that could not be written, or is not
/// confirmed, is for the bridge's next socket.
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

/// A peer that does not read is as silent as one that does not write.
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
