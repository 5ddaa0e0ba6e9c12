//! An established call: requests, orders and timers until it ends.

use tokio::time::{Duration, Instant, sleep_until};

use super::{
    Call, Control, Media, Peer, Repeat, Taking, ToCall,
    asking::{Asked, SUPPORTED_IN_REQUESTS},
    over::Over,
    refuse_offer, transfer,
};
use crate::{
    leg::{Happening, Order},
    sip::{
        lines::Waiting,
        message::{Method, Request, Response},
        session_timer::{self, Refresher},
        transactions::Reply,
    },
};

/// Time after which an unacknowledged call loses its line. The sender of a forged INVITE never acknowledges.
const PATIENCE: Duration = Duration::from_secs(2);
/// A deadline in place of none.
const FAR: Duration = Duration::from_secs(86_400);

/// State of an established call.
struct Standing {
    /// A 200 of ours that waits for its ACK, with the INVITE's number.
    unacknowledged: Option<(Repeat, u32)>,
    /// The 200 carried our offer: the ACK has the answer.
    offered: bool,
    /// The call's task knows that the call is established.
    told: bool,
    /// When the line is released, unless the call is acknowledged by then.
    patience: Instant,
    /// Held in place of the line from then on.
    waiting: Option<Waiting>,
    /// A session refresh of ours that waits for its response.
    refresh: Option<Asked>,
    /// When the session timer is due.
    due: Option<Instant>,
}

enum Event {
    Order(Option<Order>),
    Received(Box<ToCall>),
    Again,
    Due,
    Refreshed(Option<Response>),
    Transfer(transfer::Step),
    /// Media of the peer came before its ACK.
    Media,
    /// The time for the acknowledgement is over.
    Impatient,
    /// Too many calls of the trunk are unacknowledged, and this one has to end.
    Forgotten,
}

impl Call {
    /// Runs until the call ends. A caller's call waits for the ACK of our 200; a call that we made is established already.
    pub(super) async fn stand(mut self, answered: Option<Repeat>) {
        let told = answered.is_none();
        let mut standing = Standing {
            offered: matches!(self.taking, Taking::Offer),
            unacknowledged: answered.map(|answered| (answered, self.dialog.remote_seq)),
            told,
            patience: Instant::now() + PATIENCE,
            waiting: None,
            refresh: None,
            due: self.due(),
        };
        let over = loop {
            let event = self.next(&mut standing).await;
            if let Some(over) = self.handle(event, &mut standing).await {
                break over;
            }
        };
        let Standing {
            unacknowledged,
            waiting,
            ..
        } = standing;
        drop(waiting);
        self.end(over, unacknowledged.map(|(repeat, _)| repeat))
            .await;
    }

    async fn next(&mut self, standing: &mut Standing) -> Event {
        let far = Instant::now() + FAR;
        let again = standing
            .unacknowledged
            .as_ref()
            .map_or(far, |(repeat, _)| repeat.next);
        let due = standing.due.unwrap_or(far);
        let is_patient = !standing.told && standing.waiting.is_none();
        // Once the caller is joined to a person, no more orders come.
        let ordered = !self
            .transfer
            .as_ref()
            .is_some_and(transfer::Transfer::is_joined);
        tokio::select! {
            order = self.orders.recv(), if ordered => Event::Order(order),
            Some(received) = self.inbox.recv() => Event::Received(Box::new(received)),
            () = sleep_until(again) => Event::Again,
            () = sleep_until(due) => Event::Due,
            answer = refreshed(&mut standing.refresh) => Event::Refreshed(answer),
            step = transfer::next(&mut self.transfer) => Event::Transfer(step),
            () = first(&mut self.media), if !standing.told => Event::Media,
            () = sleep_until(standing.patience), if is_patient => Event::Impatient,
            () = over(&standing.waiting) => Event::Forgotten,
        }
    }

    async fn handle(&mut self, event: Event, standing: &mut Standing) -> Option<Over> {
        match event {
            Event::Order(order) => self.order(order).await,
            Event::Received(received) => match *received {
                ToCall::Ack(ack) => self.acknowledged(&ack, standing).await,
                ToCall::Request(request, reply) => self.request(&request, &reply, standing).await,
            },
            Event::Again => self.again(standing),
            Event::Due => self.timer_came(standing).await,
            Event::Refreshed(answer) => self.refreshed(answer, standing).await,
            Event::Transfer(step) => self
                .transferred(step)
                .await
                .map(|words| Over::Ours(200, words)),
            Event::Media => self.begins(standing).await,
            Event::Impatient => {
                self.place = None;
                let waiting = self.shared.lines.wait_without(&self.caller.trunk.name);
                standing.waiting = Some(waiting);
                None
            }
            Event::Forgotten => Some(Over::Forgotten),
        }
    }

    /// The peer has proven that it exists: media starts, and the call's task is told. After a late ACK the call needs a line
    /// again.
    async fn begins(&mut self, standing: &mut Standing) -> Option<Over> {
        if std::mem::replace(&mut standing.told, true) {
            return None;
        }
        if standing.waiting.take().is_some() {
            self.place = self.shared.lines.take(&self.caller.trunk.name);
            if self.place.is_none() {
                return Some(Over::Broken(503, "all lines are taken"));
            }
        }
        self.direct(Control::Begin).await;
        self.happened(Happening::Answered);
        None
    }

    async fn order(&mut self, order: Option<Order>) -> Option<Over> {
        let control = match order {
            None => return Some(Over::Ours(200, "the call is over".to_owned())),
            Some(Order::Hangup(ending)) => return Some(Over::Ours(200, ending.words)),
            Some(Order::Transfer { to, language }) => {
                self.begin_transfer(to, language).await;
                return None;
            }
            Some(Order::CancelTransfer) => {
                self.cancel_transfer();
                return None;
            }
            Some(Order::Pause) => Control::Pause,
            Some(Order::Continue) => Control::Continue,
            Some(Order::Flush) => Control::Flush,
            Some(Order::Ring | Order::Answer | Order::Reject(_)) => return None,
        };
        // A delayed offer is not answered yet, so nothing was played.
        if self.media.is_none() && matches!(control, Control::Flush) {
            self.happened(Happening::Flushed { played_ms: 0 });
        }
        self.direct(control).await;
        None
    }

    async fn acknowledged(&mut self, ack: &Request, standing: &mut Standing) -> Option<Over> {
        if !self.dialog.is_peers(&ack.headers) {
            return None;
        }
        let number = ack.headers.cseq()?.0;
        standing
            .unacknowledged
            .take_if(|(_, invited)| *invited == number)?;
        if std::mem::take(&mut standing.offered) {
            match self.session.accept(&ack.body) {
                Ok(terms) => {
                    if !self.agreed(terms).await {
                        return Some(Over::Broken(500, "the media cannot be started"));
                    }
                }
                Err(refused) => {
                    tracing::debug!(words = %refused.words, "the answer in an ACK cannot be used");
                    return Some(Over::Broken(488, "the peer's answer cannot be used"));
                }
            }
        }
        self.begins(standing).await
    }

    async fn request(
        &mut self,
        request: &Request,
        reply: &Reply,
        standing: &mut Standing,
    ) -> Option<Over> {
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
        match request.method {
            Method::Bye => {
                reply.send(&reply.response(200, "OK"));
                self.left().await;
                return Some(Over::Theirs);
            }
            Method::Invite => self.invited(request, reply, standing).await,
            Method::Update => self.updated(request, reply, standing).await,
            Method::Options => reply.send(&self.dressed(reply.response(200, "OK"))),
            Method::Notify => self.notified(request, reply),
            Method::Info => self.informed(request, reply).await,
            Method::Prack => reply.refuse(481, "Call/Transaction Does Not Exist"),
            _ => reply.send(&self.dressed(reply.response(405, "Method Not Allowed"))),
        }
        None
    }

    /// A re-INVITE: hold, another address or codec, or a session refresh.
    async fn invited(&mut self, request: &Request, reply: &Reply, standing: &mut Standing) {
        if standing.unacknowledged.is_some() {
            reply.send(
                &reply
                    .response(500, "An INVITE Is Not Acknowledged Yet")
                    .with("Retry-After", "2"),
            );
            return;
        }
        let Some((sdp, offered)) = self.changed(request, reply, standing).await else {
            return;
        };
        let mut response = self.timed(self.dressed(reply.response(200, "OK")));
        response.headers.push("Content-Type", "application/sdp");
        response.body = sdp.unwrap_or_else(|| self.session.offer()).into_bytes();
        reply.send(&response);
        standing.offered = offered;
        standing.unacknowledged = Some((Repeat::new(response), self.dialog.remote_seq));
    }

    async fn updated(&mut self, request: &Request, reply: &Reply, standing: &mut Standing) {
        if !request.body.is_empty() && standing.unacknowledged.is_some() && standing.offered {
            reply.refuse(491, "Request Pending");
            return;
        }
        let Some((sdp, _)) = self.changed(request, reply, standing).await else {
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
        request: &Request,
        reply: &Reply,
        standing: &mut Standing,
    ) -> Option<(Option<String>, bool)> {
        let ours_is_open = standing
            .refresh
            .as_ref()
            .is_some_and(|refresh| !refresh.request.body.is_empty());
        if ours_is_open {
            reply.refuse(491, "Request Pending");
            return None;
        }
        let timer = super::timer_of(request, reply)?;
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
                refuse_offer(reply, refused.status, &refused.words);
                return None;
            }
        }
        self.dialog.retarget(&request.headers);
        let peer = Peer::of(&request.headers);
        if request.headers.get("Allow").is_some() {
            self.peer = peer;
        }
        self.timer = timer.or(self.timer);
        standing.due = self.due();
        let offers = answer.is_none();
        Some((answer, offers))
    }

    fn again(&mut self, standing: &mut Standing) -> Option<Over> {
        let (repeat, _) = standing.unacknowledged.as_mut()?;
        if !repeat.again(&self.flow) {
            standing.unacknowledged = None;
            return Some(Over::Broken(408, "the answer was never acknowledged"));
        }
        None
    }

    async fn timer_came(&mut self, standing: &mut Standing) -> Option<Over> {
        let timer = self.timer?;
        if timer.refresher == Refresher::Peer {
            return Some(Over::Broken(408, "the session was not refreshed"));
        }
        standing.due = self.due();
        if standing.refresh.is_some() || standing.unacknowledged.is_some() {
            return None;
        }
        let method = if self.peer.updates {
            Method::Update
        } else {
            Method::Invite
        };
        let mut request = self.dialog.request(method);
        request.headers.push("Supported", SUPPORTED_IN_REQUESTS);
        request
            .headers
            .push("Session-Expires", &timer.header(false));
        if request.method == Method::Invite {
            request.headers.push("Content-Type", "application/sdp");
            request.body = self.session.unchanged().into_bytes();
        }
        match self.ask(request).await {
            Some(asked) => standing.refresh = Some(asked),
            None => return Some(Over::Broken(408, "the peer cannot be reached any more")),
        }
        None
    }

    async fn refreshed(
        &mut self,
        answer: Option<Response>,
        standing: &mut Standing,
    ) -> Option<Over> {
        let Some(response) = answer else {
            return Some(Over::Broken(408, "the peer does not answer any more"));
        };
        if response.status < 200 {
            return None;
        }
        let refresh = standing.refresh.take()?;
        match response.status {
            200..300 => {
                self.dialog.retarget(&response.headers);
                self.timer = session_timer::accepted(&response.headers).or(self.timer);
                standing.due = self.due();
                if refresh.request.method == Method::Invite {
                    self.acknowledge(refresh).await;
                    if let Ok(terms) = self.session.accept(&response.body) {
                        self.agreed(terms).await;
                    }
                }
            }
            401 | 407 => standing.refresh = self.prove(&refresh, &response).await,
            408 | 481 => {
                return Some(Over::Broken(
                    response.status,
                    "the peer knows nothing of the call",
                ));
            }
            405 | 501 if self.peer.updates => {
                self.peer.updates = false;
                standing.due = Some(Instant::now());
            }
            422 => {
                let min = response
                    .headers
                    .get("Min-SE")
                    .and_then(|min| min.parse().ok());
                if let (Some(timer), Some(min)) = (&mut self.timer, min) {
                    timer.seconds = timer.seconds.max(min).min(86_400);
                }
                standing.due = Some(Instant::now() + Duration::from_secs(1));
            }
            // Both sides began at once: try again after 0 to 2 s, like a side that does not own the Call-ID (RFC 3261, 14.1).
            491 => {
                let wait = u64::from(rand::random::<u16>() % 2_000);
                standing.due = Some(Instant::now() + Duration::from_millis(wait));
            }
            _ => {}
        }
        None
    }
}

/// Waits until the peer's first packet starts the call's media.
async fn first(media: &mut Option<Media>) {
    if let Some(media) = media
        && let Some(first) = &mut media.first
        && first.await.is_ok()
    {
        media.first = None;
        return;
    }
    std::future::pending().await
}

async fn over(waiting: &Option<Waiting>) {
    match waiting {
        Some(waiting) => waiting.over().await,
        None => std::future::pending().await,
    }
}

async fn refreshed(refresh: &mut Option<Asked>) -> Option<Response> {
    match refresh {
        Some(refresh) => refresh.answers.recv().await,
        None => std::future::pending().await,
    }
}
