//! The WebSocket transport: one task per socket. What comes in is bounded by not reading on; what goes out by not taking more in.

use std::{sync::Arc, time::Duration};

use actix_web::{Error, HttpRequest, HttpResponse, http::header, web};
use actix_ws::{
    AggregatedMessage, AggregatedMessageStream, CloseCode, CloseReason, ProtocolError, Session,
};
use dikala_actors::bridges::{Bridges, Command, Socket};
use dikala_entities::{BridgeId, Millis};
use futures_util::StreamExt;
use serde_json::Value;

use super::{
    BridgeParts, auth,
    lanes::{Finished, Lanes},
    protocol::{self, MESSAGE_BYTES_MAX, Refusal, SUBPROTOCOL},
};
use crate::refusal::Refusal as HttpRefusal;

/// Frames up to here are read so that their id can be answered; larger ones close the socket.
const FRAME_BYTES_MAX: usize = 4 * MESSAGE_BYTES_MAX;
/// Messages of one socket that may be under way.
const IN_FLIGHT_MAX: usize = 1_024;
const PING_EVERY_MS: i64 = 15_000;
const SILENCE_MAX_MS: i64 = 45_000;
/// How long messages under way may take when the service stops.
const FINISH_WITHIN: Duration = Duration::from_secs(10);

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
    let (response, session, frames) =
        actix_ws::handle_with_protocols(&request, body, &[SUBPROTOCOL])
            .map_err(|_| no_upgrade())?;
    let frames = frames
        .max_frame_size(FRAME_BYTES_MAX)
        .aggregate_continuations()
        .max_continuation_size(FRAME_BYTES_MAX);
    actix_web::rt::spawn(run(parts.get_ref().clone(), bridge, session, frames));
    Ok(response)
}

fn no_upgrade() -> HttpRefusal {
    let message = "This address takes WebSocket upgrades with the subprotocol dikala.bridge.v1.";
    HttpRefusal::bad_request("invalid_upgrade", message)
}

/// Why a socket is over.
enum Over {
    /// The peer closed it, or the connection broke.
    Gone,
    /// Nothing came for too long.
    Silent,
    /// We close it.
    Close(CloseCode, &'static str),
}

struct BridgeSession {
    parts: BridgeParts,
    bridge: BridgeId,
    session: Session,
    lanes: Lanes,
    last_frame_at: Millis,
    ping_at: Millis,
}

async fn run(
    parts: BridgeParts,
    bridge: BridgeId,
    session: Session,
    mut frames: AggregatedMessageStream,
) {
    let bridges = Arc::clone(&parts.bridges);
    let socket = bridges.connected(bridge);
    tracing::info!(%bridge, "a bridge connected");
    let now = parts.clock.now();
    let mut this = BridgeSession {
        lanes: Lanes::new(parts.calls.clone(), Arc::clone(&bridges), bridge),
        parts,
        bridge,
        session,
        last_frame_at: now,
        ping_at: now.plus_ms(PING_EVERY_MS),
    };
    let over = this.serve(&mut frames, &socket).await;
    bridges.disconnected(&socket, matches!(over, Over::Silent));
    let (code, reason) = match over {
        Over::Gone => (CloseCode::Normal, ""),
        Over::Silent => (CloseCode::Policy, "no sign of life for 45 s"),
        Over::Close(code, reason) => (code, reason),
    };
    tracing::info!(%bridge, reason, "a bridge disconnected");
    let close = CloseReason {
        code,
        description: Some(reason.to_owned()),
    };
    // A peer that is gone cannot be told.
    let _ = this.session.close(Some(close)).await;
}

impl BridgeSession {
    async fn serve(&mut self, frames: &mut AggregatedMessageStream, socket: &Socket) -> Over {
        let mut stopping = self.parts.stopping.clone();
        let bridges = Arc::clone(&self.parts.bridges);
        loop {
            let has_room = self.lanes.in_flight() < IN_FLIGHT_MAX;
            let has_work = self.lanes.in_flight() > 0;
            let wake = self.parts.clock.sleep_until(self.ping_at);
            let step = tokio::select! {
                frame = frames.next(), if has_room => self.on_frame(frame).await,
                finished = self.lanes.next(), if has_work => self.on_finished(finished).await,
                command = bridges.next_command(socket) => hand_over(&mut self.session, &bridges, socket, command).await,
                () = wake => self.on_tick().await,
                _ = stopping.wait_for(|stopping| *stopping) => Err(self.finish().await),
            };
            if let Err(over) = step {
                return over;
            }
        }
    }

    async fn on_frame(
        &mut self,
        frame: Option<Result<AggregatedMessage, ProtocolError>>,
    ) -> Result<(), Over> {
        let frame = match frame {
            Some(Ok(frame)) => frame,
            Some(Err(ProtocolError::Overflow)) => {
                return Err(Over::Close(CloseCode::Size, "a frame has at most 256 KiB"));
            }
            Some(Err(_)) => return Err(Over::Close(CloseCode::Protocol, "not a WebSocket frame")),
            None => return Err(Over::Gone),
        };
        self.last_frame_at = self.parts.clock.now();
        self.parts.bridges.seen(self.bridge);
        match frame {
            AggregatedMessage::Text(text) => self.on_text(text.as_bytes()),
            AggregatedMessage::Binary(bytes) => {
                self.refuse(refusal_of(Refusal::binary(), &bytes), CloseCode::Policy)
            }
            AggregatedMessage::Ping(payload) => {
                self.session.pong(&payload).await.map_err(|_| Over::Gone)
            }
            AggregatedMessage::Pong(_) => Ok(()),
            AggregatedMessage::Close(_) => Err(Over::Gone),
        }
    }

    fn on_text(&mut self, text: &[u8]) -> Result<(), Over> {
        if text.len() > MESSAGE_BYTES_MAX {
            return self.refuse(refusal_of(Refusal::too_large(), text), CloseCode::Size);
        }
        match protocol::parse_text(text) {
            Err(refusal) => self.refuse(refusal, CloseCode::Policy),
            request => {
                self.lanes.accept(0, request);
                Ok(())
            }
        }
    }

    /// Answers in its turn where there is an id to answer to, and else closes the socket.
    fn refuse(&mut self, refusal: Refusal, code: CloseCode) -> Result<(), Over> {
        if refusal.id.is_none() {
            return Err(Over::Close(
                code,
                "frames are JSON objects with an id, of at most 256 KiB",
            ));
        }
        self.lanes.accept(0, Err(refusal));
        Ok(())
    }

    async fn on_finished(&mut self, finished: Option<Finished>) -> Result<(), Over> {
        match finished {
            Some(finished) => self.write(&finished.reply).await,
            None => Ok(()),
        }
    }

    async fn on_tick(&mut self) -> Result<(), Over> {
        let now = self.parts.clock.now();
        if now.since(self.last_frame_at) >= SILENCE_MAX_MS {
            return Err(Over::Silent);
        }
        // A database that does not answer is no reason to hang up on a bridge.
        if let Ok(false) = auth::is_still_valid(self.bridge, &self.parts.store).await {
            return Err(Over::Close(
                CloseCode::Policy,
                "the bridge token was revoked",
            ));
        }
        self.ping_at = now.plus_ms(PING_EVERY_MS);
        self.session.ping(b"").await.map_err(|_| Over::Gone)
    }

    /// The service stops: what is under way is answered, nothing new is read.
    async fn finish(&mut self) -> Over {
        let answer_all = async {
            while let Some(finished) = self.lanes.next().await {
                if self.session.text(finished.reply.to_string()).await.is_err() {
                    break;
                }
            }
        };
        if tokio::time::timeout(FINISH_WITHIN, answer_all)
            .await
            .is_err()
        {
            tracing::warn!(bridge = %self.bridge, "messages were left unanswered at the stop; the bridge sends them again");
        }
        Over::Close(CloseCode::Away, "the service stops; connect again")
    }

    async fn write(&mut self, message: &Value) -> Result<(), Over> {
        write(&mut self.session, message).await
    }
}

/// The refusal of a frame, to be answered if the frame has an id.
fn refusal_of(refusal: Refusal, frame: &[u8]) -> Refusal {
    match serde_json::from_slice(frame) {
        Ok(message) => refusal.of(&message),
        Err(_) => refusal,
    }
}

/// Writes a command. One that cannot be written is for the bridge's next socket.
async fn hand_over(
    session: &mut Session,
    bridges: &Bridges,
    socket: &Socket,
    command: Command,
) -> Result<(), Over> {
    let written = write(session, &protocol::command(&command)).await;
    if written.is_err() {
        bridges.put_back(socket, command);
    }
    written
}

/// A peer that does not read is as silent as one that does not write.
async fn write(session: &mut Session, message: &Value) -> Result<(), Over> {
    let limit = Duration::from_millis(SILENCE_MAX_MS.unsigned_abs());
    match tokio::time::timeout(limit, session.text(message.to_string())).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(Over::Gone),
        Err(_) => Err(Over::Silent),
    }
}

#[cfg(test)]
mod tests {
    use actix_web::{FromRequest, test::TestRequest};
    use dikala_actors::{
        bridges::CommandKind,
        clock::{Clock, SystemClock},
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
        let over = hand_over(&mut session, &bridges, &dead, command.clone()).await;
        assert!(matches!(over, Err(Over::Gone)));
        bridges.disconnected(&dead, false);
        let next = bridges.connected(bridge);
        assert_eq!(bridges.next_command(&next).now_or_never(), Some(command));
    }
}
