//! An established call: requests, orders and timers until it ends.

use tokio::time::{Duration, Instant, sleep_until};

use super::{
    AnswerSdp, Call, Control, DialogMessage, MediaHandle, Peer, Repeat,
    end::Termination,
    note_change,
    refresh::{SessionRefresh, refreshed},
    refuse_offer, transfer,
};
use crate::{
    leg::{LegEvent, Order},
    lines::{ALL_TAKEN, PATIENCE, UnacknowledgedCall},
    message::{Method, SipRequest, SipResponse},
    transactions::Responder,
};

/// A deadline in place of none.
const FAR: Duration = Duration::from_secs(86_400);

/// State of an established call.
struct EstablishedCall {
    /// A 200 of ours that waits for its ACK, with the INVITE's number.
    unacknowledged: Option<(Repeat, u32)>,
    /// The 200 carried our offer: the ACK has the answer.
    offered: bool,
    /// `LegEvent::Answered` was sent.
    told: bool,
    /// When the line is released, unless the call is acknowledged by then.
    patience: Instant,
    /// Held in place of the line from then on.
    waiting: Option<UnacknowledgedCall>,
    refresh: SessionRefresh,
}

enum Event {
    Order(Option<Order>),
    Received(Box<DialogMessage>),
    Again,
    Due,
    Refreshed(Option<SipResponse>),
    Transfer(transfer::TransferStep),
    /// Media of the peer came before its ACK.
    Media,
    /// The time for the acknowledgement is over.
    Impatient,
    /// Too many calls of the trunk are unacknowledged, and this one has to end.
    Forgotten,
}

impl Call {
    /// Runs until the call ends. A caller's call waits for the ACK of our 200; a call that we made is established already.
    pub(super) async fn run_established(mut self, answered: Option<Repeat>) {
        let told = answered.is_none();
        let mut state = EstablishedCall {
            offered: matches!(self.taking, AnswerSdp::Offer),
            unacknowledged: answered.map(|answered| (answered, self.dialog.remote_seq)),
            told,
            patience: Instant::now() + PATIENCE,
            waiting: None,
            refresh: SessionRefresh::new(self.timer),
        };
        let over = loop {
            let event = self.next(&mut state).await;
            if let Some(over) = self.handle(event, &mut state).await {
                break over;
            }
        };
        let EstablishedCall {
            unacknowledged,
            waiting,
            ..
        } = state;
        drop(waiting);
        self.end(over, unacknowledged.map(|(repeat, _)| repeat))
            .await;
    }

    async fn next(&mut self, state: &mut EstablishedCall) -> Event {
        let far = Instant::now() + FAR;
        let again = state
            .unacknowledged
            .as_ref()
            .map_or(far, |(repeat, _)| repeat.next);
        let due = state.refresh.due.unwrap_or(far);
        let is_patient = !state.told && state.waiting.is_none();
        tokio::select! {
            order = self.orders.recv() => Event::Order(order),
            Some(received) = self.inbox.recv() => Event::Received(Box::new(received)),
            () = sleep_until(again) => Event::Again,
            () = sleep_until(due) => Event::Due,
            answer = refreshed(&mut state.refresh.pending) => Event::Refreshed(answer),
            step = transfer::next(&mut self.transfer) => Event::Transfer(step),
            () = first(&mut self.media), if !state.told => Event::Media,
            () = sleep_until(state.patience), if is_patient => Event::Impatient,
            () = UnacknowledgedCall::over(state.waiting.as_ref()) => Event::Forgotten,
        }
    }

    async fn handle(&mut self, event: Event, state: &mut EstablishedCall) -> Option<Termination> {
        match event {
            Event::Order(order) => self.order(order).await,
            Event::Received(received) => match *received {
                DialogMessage::Ack(ack) => self.acknowledged(&ack, state).await,
                DialogMessage::Request(request, reply) => {
                    let over = self.request(&request, &reply, state).await;
                    note_change(&self.shared, &self.caller, &reply);
                    over
                }
            },
            Event::Again => self.again(state),
            Event::Due => self.timer_came(&mut state.refresh, state.unacknowledged.is_some()),
            Event::Refreshed(answer) => self.refreshed(answer, &mut state.refresh).await,
            Event::Transfer(step) => self
                .transferred(step)
                .await
                .map(|words| Termination::Ours(200, words)),
            Event::Media => self.begins(state).await,
            Event::Impatient => {
                self.line = None;
                let waiting = self.shared.lines.wait_without(&self.caller.trunk.name);
                state.waiting = Some(waiting);
                None
            }
            Event::Forgotten => Some(Termination::Forgotten),
        }
    }

    /// The peer has proven that it exists: media starts, and the event is sent. After a late ACK the call needs a line
    /// again.
    async fn begins(&mut self, state: &mut EstablishedCall) -> Option<Termination> {
        if std::mem::replace(&mut state.told, true) {
            return None;
        }
        if state.waiting.take().is_some() {
            self.line = self.shared.lines.take(&self.caller.trunk);
            if self.line.is_none() {
                return Some(Termination::Broken(503, ALL_TAKEN));
            }
        }
        self.direct(Control::Begin).await;
        self.notify(LegEvent::Answered);
        None
    }

    async fn order(&mut self, order: Option<Order>) -> Option<Termination> {
        let control = match order {
            None => return Some(Termination::Ours(200, "the call is over".to_owned())),
            Some(Order::Hangup(ending)) => return Some(Termination::Ours(200, ending.words)),
            Some(Order::Transfer { to }) => {
                self.begin_transfer(to).await;
                return None;
            }
            Some(Order::Announce(samples)) => {
                self.announce(samples);
                return None;
            }
            Some(Order::CancelTransfer) => {
                self.cancel_transfer().await;
                return None;
            }
            // The agent's playback. A joined call has none.
            Some(Order::Pause | Order::Continue | Order::Flush) if self.is_joined() => return None,
            Some(Order::Pause) => Control::Pause,
            Some(Order::Continue) => Control::Continue,
            Some(Order::Flush) => Control::Flush,
            Some(Order::Ring | Order::Answer { .. } | Order::Reject(_)) => return None,
        };
        // A delayed offer is not answered yet, so nothing was played.
        if self.media.is_none() && matches!(control, Control::Flush) {
            self.notify(LegEvent::Flushed { total_played_ms: 0 });
        }
        self.direct(control).await;
        None
    }

    async fn acknowledged(
        &mut self,
        ack: &SipRequest,
        state: &mut EstablishedCall,
    ) -> Option<Termination> {
        if !self.dialog.is_peers(&ack.headers) {
            return None;
        }
        let number = ack.headers.cseq()?.0;
        state
            .unacknowledged
            .take_if(|(_, invited)| *invited == number)?;
        if std::mem::take(&mut state.offered) {
            match self.session.accept(&ack.body) {
                Ok(terms) => {
                    if !self.agreed(terms).await {
                        return Some(Termination::Broken(500, "the media cannot be started"));
                    }
                }
                Err(refused) => {
                    tracing::debug!(words = %refused.words, "the answer in an ACK cannot be used");
                    return Some(Termination::Broken(488, "the peer's answer cannot be used"));
                }
            }
        }
        self.begins(state).await
    }

    async fn request(
        &mut self,
        request: &SipRequest,
        reply: &Responder,
        state: &mut EstablishedCall,
    ) -> Option<Termination> {
        if !self.dialog.is_peers(&request.headers) {
            reply.refuse(481, "Call/Transaction Does Not Exist");
            return None;
        }
        let number = request.headers.cseq()?.0;
        if number <= self.dialog.remote_seq {
            reply.refuse(500, "CSeq Is Too Low");
            return None;
        }
        self.dialog.remote_seq = number;
        // The peer may be behind NAT, or on another network by now, so our requests follow it.
        self.flow = reply.flow.clone();
        self.session.carried_by(self.flow.transport);
        match request.method {
            Method::Bye => {
                reply.send(&reply.response(200, "OK"));
                self.left().await;
                return Some(Termination::Theirs);
            }
            Method::Invite => self.invited(request, reply, state).await,
            Method::Update => self.updated(request, reply, state).await,
            Method::Options => reply.send(&self.dressed(reply.response(200, "OK"))),
            Method::Notify => self.notified(request, reply).await,
            Method::Info => self.informed(request, reply).await,
            Method::Prack => reply.refuse(481, "Call/Transaction Does Not Exist"),
            _ => reply.send(&self.dressed(reply.response(405, "Method Not Allowed"))),
        }
        None
    }

    /// A re-INVITE: hold, another address or codec, or a session refresh.
    async fn invited(
        &mut self,
        request: &SipRequest,
        reply: &Responder,
        state: &mut EstablishedCall,
    ) {
        if state.unacknowledged.is_some() {
            reply.send(
                &reply
                    .response(500, "An INVITE Is Not Acknowledged Yet")
                    .with("Retry-After", "2"),
            );
            return;
        }
        let Some((sdp, offered)) = self.changed(request, reply, state).await else {
            return;
        };
        let mut response = self.timed(self.dressed(reply.response(200, "OK")));
        response.headers.push("Content-Type", "application/sdp");
        response.body = sdp.unwrap_or_else(|| self.session.offer()).into_bytes();
        reply.send(&response);
        state.offered = offered;
        state.unacknowledged = Some((Repeat::new(response), self.dialog.remote_seq));
    }

    async fn updated(
        &mut self,
        request: &SipRequest,
        reply: &Responder,
        state: &mut EstablishedCall,
    ) {
        if !request.body.is_empty() && state.unacknowledged.is_some() && state.offered {
            reply.refuse(491, "Request Pending");
            return;
        }
        let Some((sdp, _)) = self.changed(request, reply, state).await else {
            return;
        };
        let mut response = self.timed(self.dressed(reply.response(200, "OK")));
        if let Some(sdp) = sdp {
            response.headers.push("Content-Type", "application/sdp");
            response.body = sdp.into_bytes();
        }
        reply.send(&response);
    }

    /// The common part of INVITE and UPDATE. Returns our SDP answer, if there was an offer, and whether we have to make an offer.
    /// `None` after a refusal, which changes nothing.
    async fn changed(
        &mut self,
        request: &SipRequest,
        reply: &Responder,
        state: &mut EstablishedCall,
    ) -> Option<(Option<String>, bool)> {
        let refresh = state.refresh.pending.as_ref();
        let ours_is_open = refresh.is_some_and(|refresh| !refresh.request.body.is_empty());
        if ours_is_open {
            reply.refuse(491, "Request Pending");
            return None;
        }
        let Ok(timer) = super::timer_of(request, &self.caller.trunk) else {
            return super::refuse_timer(reply);
        };
        let mut answer = None;
        match self.session.offered(&request.body) {
            Ok(None) => {}
            Ok(Some((text, terms))) => {
                if !self.agreed(terms).await {
                    reply.refuse(500, "Server Internal Error");
                    return None;
                }
                answer = Some(text);
            }
            Err(refused) => {
                refuse_offer(&self.shared, reply, refused.status, &refused.words);
                return None;
            }
        }
        self.dialog.retarget(&request.headers);
        let peer = Peer::of(&request.headers);
        if request.headers.get("Allow").is_some() {
            self.peer = peer;
        }
        self.timer = timer.or(self.timer);
        state.refresh.renew(self.timer);
        let offers = answer.is_none();
        Some((answer, offers))
    }

    fn again(&mut self, state: &mut EstablishedCall) -> Option<Termination> {
        let (repeat, _) = state.unacknowledged.as_mut()?;
        if !repeat.again(&self.flow) {
            state.unacknowledged = None;
            return Some(Termination::Broken(
                408,
                "the answer was never acknowledged",
            ));
        }
        None
    }
}

/// Waits until the peer's first packet starts the call's media.
async fn first(media: &mut Option<MediaHandle>) {
    if let Some(media) = media
        && let Some(first) = &mut media.first
        && first.await.is_ok()
    {
        media.first = None;
        return;
    }
    std::future::pending().await
}
