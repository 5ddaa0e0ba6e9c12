//! The WebSocket transport. Each socket has two tasks: one reads and handles messages, one writes. Neither blocks the
//! other, and messages under way continue while neither can proceed. While the connection's [`ConnectionBudget`] has
//! no room, the socket is not read.

use std::{future::pending, pin::pin, sync::Arc, time::Duration};

use actix_web::{Error, HttpRequest, HttpResponse, http::header, web};
use actix_ws::{CloseCode, CloseReason, Session};
use dikala_actors::{
    bridges::BridgeSocket,
    traces::{for_request, request_id},
};
use dikala_entities::{BridgeId, CommandId, Millis, foreign_json};
use dikala_protocol::{BridgeMessage, MESSAGE_BYTES_MAX, SUBPROTOCOL};
use futures_util::future::{FutureExt, LocalBoxFuture};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

use super::{
    BridgeContext,
    budget::{ConnectionBudget, IN_FLIGHT_MAX, MessageReservation},
    frames::{FrameReader, ReadFault, SocketFrame, upgrade},
    newest,
    ordering::{AnsweredMessage, OrderingQueues, ParsedMessage, payer},
    protocol::{self, MessageRefusal},
    ticket::Ticket,
    writer::{ControlFrame, EndReason, SILENCE_MAX_MS, write},
};
use crate::http::denied::HttpRefusal;

/// Larger frames close the socket. Frames between the message limit and this one are read, so that their id can be
/// answered.
const FRAME_BYTES_MAX: usize = 4 * MESSAGE_BYTES_MAX;
/// Pings and pongs that wait to be written. Any more are dropped: the peer is not reading anyway.
const BEATS_MAX: usize = 4;
/// Interval of pings; each pong is a sign of life.
const PING_EVERY_MS: i64 = 5_000;
/// The same right after a pause of this process, when a pong proves little.
const PING_SETTLING_EVERY_MS: i64 = 1_000;
/// Longest time for messages under way when the service stops.
const FINISH_WITHIN: Duration = Duration::from_secs(10);
/// Longest time for a peer to read the remaining replies and the close frame.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);

/// `GET /bridge/v1/connect`
pub async fn connect(
    request: HttpRequest,
    bridge: web::ReqData<BridgeId>,
    context: web::Data<BridgeContext>,
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
    let opened = upgrade(&request, body, SUBPROTOCOL, FRAME_BYTES_MAX).await;
    let (response, session, frames) = opened.map_err(|_| no_upgrade())?;
    let (announced, is_announced) = oneshot::channel();
    let context = context.get_ref().clone();
    let work = run(context, bridge, session, frames, announced);
    actix_web::rt::spawn(for_request(request_id(), work));
    // Wait for the announcement: a bridge that sees this socket open may open the next one at another node.
    let _ = is_announced.await;
    Ok(response)
}

fn no_upgrade() -> HttpRefusal {
    let message = "This address takes WebSocket upgrades with the subprotocol dikala.bridge.v1.";
    HttpRefusal::bad_request("invalid_upgrade", message)
}

async fn run(
    context: BridgeContext,
    bridge: BridgeId,
    session: Session,
    frames: FrameReader,
    announced: oneshot::Sender<()>,
) {
    let socket = context.runtime.bridges.connected(bridge);
    newest::announce(&context.runtime, &socket).await;
    // The receiver may be gone already.
    let _ = announced.send(());
    tracing::info!(%bridge, request_id = request_id().as_deref(), "a bridge connected");
    let (replies, waiting_replies) = mpsc::channel(IN_FLIGHT_MAX);
    let (beats, waiting_beats) = mpsc::channel(BEATS_MAX);
    let mut writer = actix_web::rt::spawn(write(
        session.clone(),
        context.runtime.clone(),
        socket.clone(),
        waiting_replies,
        waiting_beats,
    ));
    let now = context.runtime.clock.now();
    let share = context.budgets.of(bridge);
    let mut reader = SocketReader {
        queues: OrderingQueues::new(&context, share.clone(), bridge),
        frames,
        share,
        admission: None,
        replies,
        beats,
        last_frame_at: now,
        ping_at: now.plus_ms(PING_EVERY_MS),
        context,
        bridge,
    };
    let over = reader.serve(&socket, &mut writer).await;
    let runtime = reader.context.runtime.clone();
    drop(reader);
    if !writer.is_finished() {
        if matches!(over, EndReason::Close(..)) {
            let _ = tokio::time::timeout(CLOSE_WITHIN, &mut writer).await;
        }
        // Unwritten messages are lost with the socket, except commands: those go to the next socket.
        writer.abort();
    }
    runtime.bridges.disconnected(&socket);
    let (code, reason) = match over {
        EndReason::Gone => (CloseCode::Normal, ""),
        EndReason::Silent => (CloseCode::Policy, "no sign of life for 45 s"),
        EndReason::Close(code, reason) => (code, reason),
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
type AdmittedMessage = (Ticket, ParsedMessage, MessageReservation);

/// Reads a socket and handles its messages.
struct SocketReader {
    context: BridgeContext,
    bridge: BridgeId,
    frames: FrameReader,
    queues: OrderingQueues,
    share: ConnectionBudget,
    /// A message that was read and waits for room; nothing more is read meanwhile.
    admission: Option<LocalBoxFuture<'static, AdmittedMessage>>,
    replies: mpsc::Sender<AnsweredMessage>,
    beats: mpsc::Sender<ControlFrame>,
    last_frame_at: Millis,
    ping_at: Millis,
}

impl SocketReader {
    async fn serve(
        &mut self,
        socket: &BridgeSocket,
        writer: &mut JoinHandle<EndReason>,
    ) -> EndReason {
        let (clock, mut stopping) = (
            Arc::clone(&self.context.runtime.clock),
            self.context.stopping.clone(),
        );
        // Created once, not for each message.
        let mut stopped = pin!(stopping.wait_for(|stopping| *stopping));
        let mut dismissed = pin!(socket.dismissed());
        let mut wake = clock.sleep_until(self.ping_at);
        loop {
            let reads = self.admission.is_none();
            let has_work = !self.queues.is_idle();
            let step = tokio::select! {
                frame = self.frames.next(), if reads => self.on_frame(socket, frame),
                (ticket, message, room) = admitted(&mut self.admission) => {
                    self.admission = None;
                    self.queues.accept(ticket, message, room);
                    Ok(())
                }
                finished = self.queues.next(), if has_work => self.on_finished(finished),
                () = &mut wake => {
                    let ticked = self.on_tick();
                    wake = clock.sleep_until(self.ping_at);
                    ticked
                }
                dismissal = &mut dismissed => Err(dismissal.into()),
                over = &mut *writer => return over.unwrap_or(EndReason::Gone),
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
        frame: Option<Result<SocketFrame, ReadFault>>,
    ) -> Result<(), EndReason> {
        let frame = match frame {
            Some(Ok(frame)) => frame,
            Some(Err(ReadFault::Close(code, reason))) => {
                return Err(EndReason::Close(code, reason));
            }
            Some(Err(ReadFault::Broken)) | None => return Err(EndReason::Gone),
        };
        self.last_frame_at = self.context.runtime.clock.now();
        self.context.runtime.calls.seen(self.bridge);
        match frame {
            SocketFrame::Text(text) => self.on_text(&text),
            SocketFrame::Binary(bytes) => {
                let refusal = refusal_of(MessageRefusal::binary(), &bytes);
                self.admit(bytes.len(), Err(refusal), CloseCode::Policy)
            }
            SocketFrame::Ping(payload) => {
                self.beat(ControlFrame::Pong(payload));
                Ok(())
            }
            SocketFrame::Pong(payload) => {
                if let Some(command) = command_in(&payload) {
                    self.context.runtime.bridges.confirmed(socket, command);
                }
                Ok(())
            }
            SocketFrame::Close => Err(EndReason::Gone),
        }
    }

    fn on_text(&mut self, text: &[u8]) -> Result<(), EndReason> {
        if text.len() > MESSAGE_BYTES_MAX {
            let refusal = refusal_of(MessageRefusal::too_large(), text);
            return self.admit(text.len(), Err(refusal), CloseCode::Size);
        }
        self.admit(text.len(), protocol::parse_text(text), CloseCode::Policy)
    }

    /// Admits a message once there is room for it. A message without a readable id closes the socket, because it
    /// cannot be answered.
    fn admit(
        &mut self,
        length: usize,
        message: ParsedMessage,
        code: CloseCode,
    ) -> Result<(), EndReason> {
        if matches!(&message, Err(MessageRefusal { id: None, .. })) {
            let reason = "frames are JSON objects with an id, of at most 256 KiB";
            return Err(EndReason::Close(code, reason));
        }
        let ticket = Ticket::new(0, &message);
        let tenant_of = |request: &BridgeMessage| payer(&self.context.runtime.calls, request);
        let (message, weight) = self.share.weigh(length, message, tenant_of);
        match self.share.room_now(weight) {
            Ok(room) => self.queues.accept(ticket, message, room),
            Err(weight) => {
                let share = self.share.clone();
                let admission = async move { (ticket, message, share.room(weight).await) };
                self.admission = Some(admission.boxed_local());
            }
        }
        Ok(())
    }

    fn on_finished(&mut self, finished: Option<AnsweredMessage>) -> Result<(), EndReason> {
        match finished {
            // The channel cannot be full, because each reply has its place. An error means that the writer and the
            // socket are gone.
            Some(finished) => self.replies.try_send(finished).map_err(|_| EndReason::Gone),
            None => Ok(()),
        }
    }

    fn on_tick(&mut self) -> Result<(), EndReason> {
        let bridges = &self.context.runtime.bridges;
        let now = self.context.runtime.clock.now();
        if self.admission.is_some() {
            // The socket was not being read, so silence proves nothing.
            self.last_frame_at = now;
            bridges.not_read(self.bridge);
        }
        let unheard_ms = bridges.unheard_ms_since(self.last_frame_at);
        if now.since(self.last_frame_at) - unheard_ms >= SILENCE_MAX_MS {
            return Err(EndReason::Silent);
        }
        self.ping_at = now.plus_ms(match bridges.is_settling() {
            true => PING_SETTLING_EVERY_MS,
            false => PING_EVERY_MS,
        });
        self.beat(ControlFrame::Ping);
        Ok(())
    }

    fn beat(&self, beat: ControlFrame) {
        // A peer that leaves this many unread needs no more of them.
        let _ = self.beats.try_send(beat);
    }

    /// Stops: answers the messages under way and reads nothing new.
    async fn finish(&mut self) -> EndReason {
        // A pending admission would queue for room that the bridge's other connections need, and nobody would poll
        // it.
        self.admission = None;
        let answer_all = async {
            while let Some(finished) = self.queues.next().await {
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
            tracing::warn!(bridge = %self.bridge, "stopped before all messages of a bridge were answered; the bridge sends them again");
        }
        EndReason::Close(CloseCode::Away, "the service stops; connect again")
    }
}

async fn admitted(
    admission: &mut Option<LocalBoxFuture<'static, AdmittedMessage>>,
) -> AdmittedMessage {
    match admission {
        Some(admission) => admission.await,
        None => pending().await,
    }
}

/// Adds the frame's message id to a refusal, if it has one.
fn refusal_of(refusal: MessageRefusal, frame: &[u8]) -> MessageRefusal {
    match foreign_json::value(frame) {
        Ok(message) => refusal.of(&message),
        Err(_) => refusal.of(&protocol::id_alone(frame)),
    }
}

/// The command id in a pong, which repeats the payload of the ping sent after that command.
fn command_in(payload: &[u8]) -> Option<CommandId> {
    std::str::from_utf8(payload).ok()?.parse().ok()
}
