//! The time before the answer: 180, sent reliably if required (RFC 3262), and everything that ends the call early.

use std::sync::Arc;

use tokio::{
    sync::Notify,
    time::{Duration, Instant, sleep_until},
};

use super::{
    AnswerSdp, Call, DialogMessage, Repeat, note, note_change, reason, refuse_for_now, refuse_offer,
};
use crate::{
    leg::{CallRefusal, LegEvent, Order},
    lines::{ALL_TAKEN, PATIENCE, UnacknowledgedCall},
    message::{Method, SipRequest, SipResponse},
    shared::RETRY_AFTER_SECONDS,
    statistics::count,
    transactions::{GIVEN_UP, Responder, T1, T2},
    transport::Flow,
};

/// Time limit for the decision about the call.
const DECIDED: Duration = Duration::from_secs(180);

/// A reliable 180, retransmitted until its PRACK.
struct Reliable {
    response: SipResponse,
    number: u32,
    /// When the line is released, unless the PRACK has come by then.
    patience: Instant,
    /// Held in place of the line from then on.
    waiting: Option<UnacknowledgedCall>,
    next: Instant,
    wait: Duration,
    until: Instant,
}

struct Ringing {
    reply: Responder,
    cancelled: Arc<Notify>,
    reliable: Option<Reliable>,
    /// The call is to be answered once the 180 is acknowledged.
    wanted: bool,
    rung: bool,
}

impl Call {
    /// Runs until the call is answered. Returns the 200, which waits for its ACK; `None` if the call is over.
    pub(super) async fn ring(&mut self, reply: Responder) -> Option<Repeat> {
        let mut ringing = Ringing {
            cancelled: reply.cancelled(),
            reply,
            reliable: None,
            wanted: false,
            rung: false,
        };
        let decided = Instant::now() + DECIDED;
        loop {
            let again = ringing
                .reliable
                .as_ref()
                .map_or(decided, |one| one.due().min(decided));
            let waiting = ringing.reliable.as_ref();
            let waiting = waiting.and_then(|one| one.waiting.as_ref());
            tokio::select! {
                () = ringing.cancelled.notified() => {
                    count(&self.shared.counters.callers.cancelled, 1);
                    self.registration.free_caller();
                    ringing.reply.send(&self.dressed(ringing.reply.response(487, "Request Terminated")));
                    self.notify(LegEvent::Cancelled);
                    return None;
                }
                order = self.orders.recv() => match order {
                    Some(Order::Answer { did }) => {
                        self.caller.dids = vec![did];
                        ringing.wanted = true;
                        if ringing.reliable.is_none() {
                            return self.take(&ringing.reply).await;
                        }
                    }
                    Some(order) => if self.order_while_ringing(order, &mut ringing) {
                        return None;
                    },
                    None => {
                        self.registration.free_failed_caller();
                        note(&self.shared, &self.caller, (503, "undecided"), &ringing.reply);
                        refuse_for_now(&ringing.reply, "nobody decides about the call");
                        return None;
                    }
                },
                received = self.inbox.recv() => {
                    if let Some(DialogMessage::Request(request, reply)) = received
                        && self.request_while_ringing(&request, &reply, &mut ringing)
                    {
                        return None;
                    }
                    if ringing.wanted && ringing.reliable.is_none() {
                        return self.take(&ringing.reply).await;
                    }
                }
                () = UnacknowledgedCall::over(waiting) => {
                    self.give_up_ringing(&ringing);
                    return None;
                }
                () = sleep_until(again) => {
                    if self.late(&mut ringing, decided) {
                        return None;
                    }
                }
            }
        }
    }

    /// Carries out an order before the answer; true when the call is over.
    fn order_while_ringing(&mut self, order: Order, ringing: &mut Ringing) -> bool {
        match order {
            Order::Ring => self.sound(ringing),
            Order::Reject(refusal) => {
                count(&self.shared.counters.callers.refused, 1);
                self.reject(&ringing.reply, &refusal);
                return true;
            }
            Order::Hangup(ending) => {
                count(&self.shared.counters.callers.refused, 1);
                let refusal = CallRefusal {
                    status: 480,
                    words: ending.words,
                    retry_after_seconds: None,
                };
                self.reject(&ringing.reply, &refusal);
                return true;
            }
            Order::Flush => self.notify(LegEvent::Flushed { total_played_ms: 0 }),
            Order::Transfer { .. } => {
                let why = "the call is not answered yet".to_owned();
                self.notify(LegEvent::Transfer(Err(why)));
            }
            Order::Answer { .. }
            | Order::Pause
            | Order::Continue
            | Order::Announce(_)
            | Order::CancelTransfer => {}
        }
        false
    }

    fn sound(&mut self, ringing: &mut Ringing) {
        if std::mem::replace(&mut ringing.rung, true) {
            return;
        }
        let response = self.dressed(ringing.reply.response(180, "Ringing"));
        if !self.peer.wants_reliable {
            ringing.reply.send(&response);
            return;
        }
        let number = 1 + rand::random::<u32>() % (1 << 30);
        let mut response = response
            .with("Require", "100rel")
            .with("RSeq", &number.to_string());
        // If the INVITE has no offer, ours goes with the first reliable response (RFC 3261, 13.2.1); the PRACK carries the
        // answer.
        if matches!(self.taking, AnswerSdp::Offer) {
            response.headers.push("Content-Type", "application/sdp");
            response.body = self.session.offer().into_bytes();
        }
        ringing.reply.send(&response);
        let now = Instant::now();
        ringing.reliable = Some(Reliable {
            response,
            number,
            patience: now + PATIENCE,
            waiting: None,
            next: now + T1,
            wait: T1,
            until: now + GIVEN_UP,
        });
    }

    fn reject(&mut self, reply: &Responder, refusal: &CallRefusal) {
        let status = refusal.status.clamp(400, 699);
        match status {
            500..600 => self.registration.free_failed_caller(),
            _ => self.registration.free_caller(),
        }
        let (trunk, ip) = (&self.caller.trunk.name, self.flow.remote.ip());
        let why = (status, "service");
        let refusals = &self.shared.refusals;
        refusals.note(trunk, why, ip, &reply.request, None);
        let response = reply.response(status, phrase(status));
        let response = self
            .dressed(response)
            .with("Reason", &reason(status, &refusal.words));
        let usual = (status == 503).then_some(RETRY_AFTER_SECONDS);
        let response = match refusal.retry_after_seconds.or(usual) {
            Some(seconds) => response.with("Retry-After", &seconds.to_string()),
            None => response,
        };
        reply.send(&response);
    }

    /// Answers requests inside the early dialog; true when the call is over.
    fn request_while_ringing(
        &mut self,
        request: &SipRequest,
        reply: &Responder,
        ringing: &mut Ringing,
    ) -> bool {
        if !self.dialog.is_peers(&request.headers) {
            reply.refuse(481, "Call/Transaction Does Not Exist");
            return false;
        }
        match request.method {
            Method::Prack => return self.rung(request, reply, ringing),
            Method::Bye => {
                count(&self.shared.counters.callers.cancelled, 1);
                self.registration.free_caller();
                reply.send(&reply.response(200, "OK"));
                ringing.reply.refuse(487, "Request Terminated");
                self.notify(LegEvent::Cancelled);
                return true;
            }
            Method::Update if request.body.is_empty() => {
                self.dialog.retarget(&request.headers);
                reply.send(&self.dressed(reply.response(200, "OK")));
            }
            // A key before the answer is ignored, as an RFC 4733 event would be.
            Method::Options | Method::Info => {
                reply.send(&self.dressed(reply.response(200, "OK")));
            }
            Method::Update | Method::Invite => {
                reply.send(
                    &reply
                        .response(500, "Not Answered Yet")
                        .with("Retry-After", "3"),
                );
                note_change(&self.shared, &self.caller, reply);
            }
            _ => reply.send(&self.dressed(reply.response(405, "Method Not Allowed"))),
        }
        false
    }

    /// Handles the PRACK of our 180; true when the call is over, because its SDP answer is unusable. Without an SDP answer in it,
    /// the ACK carries one.
    fn rung(&mut self, request: &SipRequest, reply: &Responder, ringing: &mut Ringing) -> bool {
        let acknowledged = request.headers.get("RAck").and_then(rack);
        let invite = ringing.reply.request.cseq().map(|(number, _)| number);
        let waits = ringing.reliable.as_ref().map(|one| one.number);
        if acknowledged.is_none() || acknowledged != waits.zip(invite) {
            reply.refuse(481, "Call/Transaction Does Not Exist");
            return false;
        }
        let waited = ringing.reliable.take().and_then(|one| one.waiting);
        if matches!(self.taking, AnswerSdp::Offer) && !request.body.is_empty() {
            match self.session.accept(&request.body) {
                Ok(terms) => {
                    self.terms = Some(terms);
                    self.taking = AnswerSdp::Agreed;
                }
                Err(refused) => {
                    note(&self.shared, &self.caller, (488, "media"), &ringing.reply);
                    self.registration.free_caller();
                    refuse_offer(&self.shared, reply, refused.status, &refused.words);
                    refuse_offer(&self.shared, &ringing.reply, 488, &refused.words);
                    let words = "the peer's answer cannot be used".to_owned();
                    self.notify(LegEvent::Failed(words));
                    return true;
                }
            }
        }
        reply.send(&self.dressed(reply.response(200, "OK")));
        // After a late PRACK the call needs a line again.
        if waited.is_some() {
            self.line = self.shared.lines.take(&self.caller.trunk);
            if self.line.is_none() {
                note(&self.shared, &self.caller, (503, "lines"), &ringing.reply);
                self.registration.free_failed_caller();
                refuse_for_now(&ringing.reply, ALL_TAKEN);
                self.notify(LegEvent::Failed(ALL_TAKEN.to_owned()));
                return true;
            }
        }
        false
    }

    fn give_up_ringing(&mut self, ringing: &Ringing) {
        self.registration.free_failed_caller();
        note(
            &self.shared,
            &self.caller,
            (504, "unacknowledged"),
            &ringing.reply,
        );
        ringing.reply.refuse(504, "Server Time-out");
        let words = "the ringing was not acknowledged".to_owned();
        self.notify(LegEvent::Failed(words));
    }

    /// Handles expired timers: sends the 180 again, releases the line, or gives up.
    fn late(&mut self, ringing: &mut Ringing, decided: Instant) -> bool {
        let now = Instant::now();
        if now >= decided {
            self.registration.free_failed_caller();
            note(
                &self.shared,
                &self.caller,
                (480, "undecided"),
                &ringing.reply,
            );
            ringing.reply.refuse(480, "Temporarily Unavailable");
            self.notify(LegEvent::Failed("nobody decided about the call".to_owned()));
            return true;
        }
        let Some(reliable) = &mut ringing.reliable else {
            return false;
        };
        if now >= reliable.until {
            self.give_up_ringing(ringing);
            return true;
        }
        if reliable.waiting.is_none() && now >= reliable.patience {
            self.line = None;
            let trunk = &self.caller.trunk.name;
            reliable.waiting = Some(self.shared.lines.wait_without(trunk));
        }
        if now < reliable.next {
            return false;
        }
        ringing.reply.flow.send(&reliable.response.to_bytes());
        reliable.wait *= 2;
        reliable.next = (now + reliable.wait).min(reliable.until);
        false
    }

    /// Answers the call. The 200 is retransmitted until it is acknowledged.
    async fn take(&mut self, reply: &Responder) -> Option<Repeat> {
        if let Some(terms) = self.terms.take()
            && !self.agreed(terms).await
        {
            self.registration.free_failed_caller();
            note(&self.shared, &self.caller, (500, "media"), reply);
            reply.refuse(500, "Server Internal Error");
            self.notify(LegEvent::Failed("the media cannot be started".to_owned()));
            return None;
        }
        let sdp = match &self.taking {
            AnswerSdp::Answer(answer) => Some(answer.clone()),
            AnswerSdp::Offer => Some(self.session.offer()),
            AnswerSdp::Agreed => None,
        };
        let mut response = self.timed(self.dressed(reply.response(200, "OK")));
        if let Some(sdp) = sdp {
            response.headers.push("Content-Type", "application/sdp");
            response.body = sdp.into_bytes();
        }
        self.registration.answered();
        reply.send(&response);
        count(&self.shared.counters.callers.answered, 1);
        self.shared.counters.answer.took(self.begun.elapsed());
        Some(Repeat::new(response))
    }
}

impl Reliable {
    /// When it is sent again, or the line is released.
    fn due(&self) -> Instant {
        match self.waiting {
            Some(_) => self.next,
            None => self.next.min(self.patience),
        }
    }
}

impl Repeat {
    pub(super) fn new(response: SipResponse) -> Self {
        let now = Instant::now();
        Self {
            response,
            next: now + T1,
            wait: T1,
            until: now + GIVEN_UP,
        }
    }

    /// Retransmits the response; false after the last retransmission.
    pub(super) fn again(&mut self, flow: &Flow) -> bool {
        let now = Instant::now();
        if now >= self.until {
            return false;
        }
        flow.send(&self.response.to_bytes());
        self.wait = (self.wait * 2).min(T2);
        self.next = now + self.wait;
        true
    }
}

/// Parses `RAck`: the numbers of the reliable response and of its INVITE.
fn rack(value: &str) -> Option<(u32, u32)> {
    let mut words = value.split_whitespace();
    let pair = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    (words.next() == Some("INVITE")).then_some(pair)
}

fn phrase(status: u16) -> &'static str {
    match status {
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        480 => "Temporarily Unavailable",
        482 => "Loop Detected",
        484 => "Address Incomplete",
        486 => "Busy Here",
        500 => "Server Internal Error",
        503 => "Service Unavailable",
        600 => "Busy Everywhere",
        603 => "Decline",
        604 => "Does Not Exist Anywhere",
        _ => "Refused",
    }
}
