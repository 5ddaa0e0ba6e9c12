//! A call from a browser: carries audio and messages between its socket and the call.

use std::time::Duration;

use actix_web::web::Bytes;
use actix_ws::{CloseCode, CloseReason, Session};
use dikala_entities::{CallId, HangupReason};
use dikala_sip::{
    WebFault, WebMedia,
    leg::{Leg, LegEvent, Order, Speech},
};
use dikala_telephony::call::CallNote;
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval},
};

use super::{
    messages::{BrowserMessage, ServiceMessage},
    outgoing::{Outgoing, OutgoingFrame},
};
use crate::bridge::frames::{FrameReader, ReadFault, SocketFrame};

/// The longest frame of a browser: two seconds of audio.
pub(super) const FRAME_BYTES_MAX: usize = 64 * 1024;
/// Frames of a browser, beyond which it is disconnected: in each second, and all that a connection that stood still brings at once.
/// Audio comes in 50 a second, played counts and keys in a few.
const FRAMES_A_SECOND: u64 = 100;
const FRAMES_AT_ONCE: u64 = 1_200;
/// The channels of the leg.
const ORDERS: usize = 64;
const SPEECH: usize = 64;
const EVENTS: usize = 512;
const NOTES: usize = 1_024;
/// Part of the events' channel that is reserved for events other than audio.
const KEPT_FOR_EVENTS: usize = 64;
const TICK: Duration = Duration::from_millis(20);
/// Longest time for the call to end after its socket is of no more use.
const END_WITHIN: Duration = Duration::from_secs(5);
const NO_TRANSFER: &str = "a call from a browser cannot be transferred to a telephone";

/// The socket's side of a call.
pub(super) struct BrowserCall {
    frames: FrameReader,
    outgoing: Outgoing,
    media: WebMedia,
    begun: Instant,
    orders: mpsc::Receiver<Order>,
    speech: mpsc::Receiver<Speech>,
    events: mpsc::Sender<LegEvent>,
    notes: mpsc::Receiver<CallNote>,
    /// Functions are shown whole.
    is_detailed: bool,
    is_answered: bool,
    call: Option<CallId>,
    reason: Option<HangupReason>,
    /// Frames so far.
    received: u64,
}

/// Why the socket ends.
enum SocketEnd {
    /// The call is over, or was not taken.
    CallOver,
    /// The browser has left.
    Left,
    /// The connection broke, or nothing comes from the browser any more.
    Lost(&'static str),
    /// The browser does what it may not.
    Refused(CloseCode, &'static str),
}

impl BrowserCall {
    /// Returns it with the leg of the call, and the receiver of its notes.
    pub(super) fn new(
        session: Session,
        frames: FrameReader,
        is_detailed: bool,
    ) -> (Self, Leg, mpsc::Sender<CallNote>) {
        let (orders, from_call) = mpsc::channel(ORDERS);
        let (speech, spoken) = mpsc::channel(SPEECH);
        let (events, to_call) = mpsc::channel(EVENTS);
        let (notes, noted) = mpsc::channel(NOTES);
        let call = Self {
            frames,
            outgoing: Outgoing::new(session),
            media: WebMedia::new(0),
            begun: Instant::now(),
            orders: from_call,
            speech: spoken,
            events,
            notes: noted,
            is_detailed,
            is_answered: false,
            call: None,
            reason: None,
            received: 0,
        };
        let leg = Leg {
            orders,
            speech,
            events: to_call,
        };
        (call, leg, notes)
    }

    /// Carries the call until either side ends it. Returns true if the service refused it.
    pub(super) async fn run(mut self) -> bool {
        let end = self.carry().await;
        let is_refused = matches!(end, SocketEnd::CallOver) && !self.is_answered;
        let told = match end {
            SocketEnd::CallOver => None,
            SocketEnd::Left => Some(LegEvent::HungUp),
            SocketEnd::Lost(words) => {
                tracing::info!(call = ?self.call, words, "a call from a browser was lost");
                Some(LegEvent::MediaLost)
            }
            SocketEnd::Refused(_, words) => {
                tracing::info!(call = ?self.call, words, "a call from a browser was closed");
                Some(LegEvent::Failed(words.to_owned()))
            }
        };
        if let Some(event) = told {
            let _ = self.events.try_send(event);
        }
        let _ = tokio::time::timeout(END_WITHIN, self.ended()).await;
        let reason = self.reason.unwrap_or(HangupReason::BridgeError);
        let ended = ServiceMessage::Ended { reason };
        self.outgoing.send(OutgoingFrame::Text(ended.to_text()));
        let (code, words) = match end {
            SocketEnd::Refused(code, words) => (code, words),
            _ => (CloseCode::Normal, ""),
        };
        let description = Some(words.to_owned());
        self.outgoing.close(CloseReason { code, description }).await;
        is_refused
    }

    /// Waits for the end of the call, which says why.
    async fn ended(&mut self) {
        while let Some(note) = self.notes.recv().await {
            self.note(note);
        }
    }

    async fn carry(&mut self) -> SocketEnd {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            let step = tokio::select! {
                frame = self.frames.next() => self.framed(frame),
                order = self.orders.recv() => match order {
                    Some(order) => self.order(order),
                    None => Err(SocketEnd::CallOver),
                },
                Some(note) = self.notes.recv() => {
                    self.note(note);
                    Ok(())
                }
                Some(speech) = self.speech.recv(), if self.media.wants_speech() => {
                    self.media.say(&speech);
                    Ok(())
                }
                _ = ticks.tick() => self.tick(),
            };
            if let Err(end) = step {
                return end;
            }
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn framed(&mut self, frame: Option<Result<SocketFrame, ReadFault>>) -> Result<(), SocketEnd> {
        let frame = match frame {
            Some(Ok(frame)) => frame,
            Some(Err(ReadFault::Close(CloseCode::Size, _))) => {
                let words = "a frame has at most 64 KiB";
                return Err(SocketEnd::Refused(CloseCode::Size, words));
            }
            Some(Err(ReadFault::Close(code, words))) => {
                return Err(SocketEnd::Refused(code, words));
            }
            Some(Err(ReadFault::Broken)) | None => {
                return Err(SocketEnd::Lost("the connection broke"));
            }
        };
        self.received += 1;
        if self.received > self.now() * FRAMES_A_SECOND / 1_000 + FRAMES_AT_ONCE {
            let words = "too many frames";
            return Err(SocketEnd::Refused(CloseCode::Policy, words));
        }
        match frame {
            SocketFrame::Binary(bytes) => self.heard(&bytes),
            SocketFrame::Text(text) => self.said(&text),
            SocketFrame::Ping(payload) => self.send(OutgoingFrame::Pong(payload)),
            SocketFrame::Pong(_) => Ok(()),
            SocketFrame::Close => Err(SocketEnd::Left),
        }
    }

    fn heard(&mut self, bytes: &Bytes) -> Result<(), SocketEnd> {
        let (now, mut events) = (self.now(), Vec::new());
        let heard = self.media.hear(bytes, now, &mut events);
        if self.is_answered {
            self.tell(events)?;
        }
        heard.map_err(refusal)
    }

    fn said(&mut self, text: &Bytes) -> Result<(), SocketEnd> {
        match BrowserMessage::read(text) {
            Some(BrowserMessage::Key(key)) if self.is_answered => {
                self.tell(vec![LegEvent::Key(key)])
            }
            Some(BrowserMessage::Played(ms)) => {
                let now = self.now();
                self.media.played(ms, now);
                Ok(())
            }
            Some(BrowserMessage::HangUp) => Err(SocketEnd::Left),
            Some(BrowserMessage::Key(_)) | None => Ok(()),
        }
    }

    /// Tells the call. Audio that it does not read in time is lost: a gap is better than a queue.
    fn tell(&self, events: Vec<LegEvent>) -> Result<(), SocketEnd> {
        for event in events {
            let is_audio = matches!(event, LegEvent::Audio(_));
            if is_audio && self.events.capacity() <= KEPT_FOR_EVENTS {
                continue;
            }
            if let Err(mpsc::error::TrySendError::Full(_)) = self.events.try_send(event) {
                return Err(SocketEnd::Lost("the call does not read its events"));
            }
        }
        Ok(())
    }

    fn order(&mut self, order: Order) -> Result<(), SocketEnd> {
        let (now, mut events) = (self.now(), Vec::new());
        match order {
            Order::Ring | Order::Announce(_) | Order::CancelTransfer => {}
            Order::Answer { .. } => {
                self.is_answered = true;
                events.push(LegEvent::Answered);
                self.ready()?;
            }
            Order::Pause => {
                self.media.pause(now, &mut events);
                self.send(text(&ServiceMessage::Clear))?;
            }
            Order::Continue => self.media.go_on(),
            Order::Flush => {
                while let Ok(speech) = self.speech.try_recv() {
                    if matches!(speech, Speech::Mark(_)) {
                        self.media.say(&speech);
                    }
                }
                self.media.flush(now, &mut events);
                self.send(text(&ServiceMessage::Clear))?;
            }
            Order::Transfer { .. } => events.push(LegEvent::Transfer(Err(NO_TRANSFER.to_owned()))),
            Order::Reject(_) | Order::Hangup(_) => return Err(SocketEnd::CallOver),
        }
        self.tell(events)
    }

    fn note(&mut self, note: CallNote) {
        match &note {
            CallNote::Taken(call) => {
                self.call = Some(*call);
                let _ = self.ready();
            }
            CallNote::Ended(reason) => self.reason = Some(*reason),
            _ => {}
        }
        if let Some(message) = ServiceMessage::of(note, self.is_detailed) {
            self.outgoing.send(text(&message));
        }
    }

    /// Tells the browser once the call is answered, and its id is known.
    fn ready(&self) -> Result<(), SocketEnd> {
        match self.call {
            Some(call_id) if self.is_answered => {
                self.send(text(&ServiceMessage::Ready { call_id }))
            }
            _ => Ok(()),
        }
    }

    fn tick(&mut self) -> Result<(), SocketEnd> {
        let (now, mut events) = (self.now(), Vec::new());
        let (mut is_read, outgoing) = (true, &self.outgoing);
        let ticked = self.media.tick(now, &mut events, |frame| {
            is_read &= outgoing.send(OutgoingFrame::Audio(frame));
        });
        self.tell(events)?;
        if !is_read {
            return Err(SocketEnd::Lost("the browser does not read"));
        }
        ticked.map_err(refusal)
    }

    fn send(&self, frame: OutgoingFrame) -> Result<(), SocketEnd> {
        match self.outgoing.send(frame) {
            true => Ok(()),
            false => Err(SocketEnd::Lost("the browser does not read")),
        }
    }
}

fn text(message: &ServiceMessage) -> OutgoingFrame {
    OutgoingFrame::Text(message.to_text())
}

fn refusal(fault: WebFault) -> SocketEnd {
    match fault {
        WebFault::Silent => SocketEnd::Lost("no audio came for 15 s"),
        WebFault::TooFast => {
            SocketEnd::Refused(CloseCode::Policy, "audio came faster than it can be spoken")
        }
        WebFault::Odd => {
            SocketEnd::Refused(CloseCode::Unsupported, "audio is 16-bit samples at 16 kHz")
        }
    }
}
