//! The second leg of a transfer: our INVITE and its outcome.

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::AtomicU64},
};

use futures_util::future::BoxFuture;
use tokio::{
    sync::{mpsc, oneshot},
    time::{Duration, Instant, timeout},
};

use super::{
    AnswerSdp, Call, CallParties, Control, DialogMessage, INBOX, MediaSockets, ORDERS, Peer,
    dressed,
    early_media::UnansweredMedia,
    invitation::Invitation,
    outbound,
    requests::{SUPPORTED_IN_REQUESTS, proven},
    session::SdpSession,
    session_timer,
};
use crate::{
    dialog::{self, Dialog},
    leg::Leg,
    message::{Host, Method, SipRequest, SipResponse, Uri},
    resolution::SipTarget,
    settings::{Credentials, SessionTimer},
    shared::{ALLOW, Shared, token},
    statistics::{OutcomeCounters, count},
    transactions::GIVEN_UP,
    transport::Flow,
};

/// The longest ringing of the person's phone.
const RINGS: Duration = Duration::from_secs(60);
/// The number of further phones that answer the same call and are hung up. No legitimate proxy forks to more phones.
const FORKS_MAX: usize = 16;
/// The peer refreshes, if it supports session timers.
const SESSION_EXPIRES: &str = "1800;refresher=uas";

/// The parameters of a second leg.
#[derive(Debug)]
pub struct OutgoingLeg {
    pub shared: Arc<Shared>,
    pub caller: CallParties,
    pub uri: Uri,
    pub flow: Flow,
    /// The host whose servers are tried, and those that are left.
    pub host: Host,
    pub targets: VecDeque<SipTarget>,
    /// The flow leads to the outbound proxy of the registration.
    pub is_proxied: bool,
    /// Credentials at the trunk.
    pub credentials: Option<Credentials>,
    /// The caller's media, which plays early media.
    pub hears_early: Option<mpsc::WeakSender<Control>>,
}

/// Why there is no leg, and the counter for it.
struct NoLeg {
    why: String,
    counted: fn(&OutcomeCounters) -> &AtomicU64,
}

impl<W: Into<String>> From<W> for NoLeg {
    fn from(why: W) -> Self {
        Self {
            why: why.into(),
            counted: |of| &of.failed,
        }
    }
}

impl NoLeg {
    fn refused(why: impl Into<String>) -> Self {
        Self {
            counted: |of| &of.refused,
            ..why.into().into()
        }
    }

    fn cancelled(why: &str) -> Self {
        Self {
            counted: |of| &of.cancelled,
            ..why.into()
        }
    }
}

/// An INVITE that waits for its response.
struct PendingInvite {
    invite: SipRequest,
    answers: mpsc::Receiver<SipResponse>,
    /// A provisional response has come.
    has_rung: bool,
}

/// The outcome of waiting for a response.
enum PersonStep {
    Response(SipResponse),
    Silence,
    /// We give the call up.
    GivenUp(NoLeg),
}

impl OutgoingLeg {
    /// Calls the person. Returns the established leg, or why there is none. The call is given up when `alive` is closed. Boxed,
    /// because the second leg may be transferred in turn.
    pub fn dial(self, alive: oneshot::Receiver<()>) -> BoxFuture<'static, Result<Leg, String>> {
        Box::pin(async move {
            let shared = self.shared.clone();
            let trunk = self.caller.trunk.name.clone();
            let persons = &shared.counters.persons;
            match self.run(alive).await {
                Ok(leg) => {
                    count(&persons.answered, 1);
                    Ok(leg)
                }
                Err(NoLeg { why, counted }) => {
                    count(counted(persons), 1);
                    shared.refusals.count(&trunk, "second_leg");
                    tracing::info!(trunk, why, "a call to a person failed");
                    Err(why)
                }
            }
        })
    }

    async fn run(mut self, alive: oneshot::Receiver<()>) -> Result<Leg, NoLeg> {
        let address = self.shared.media_ip(&self.flow);
        let sockets = MediaSockets::bind(&self.shared.settings.rtp_ports, self.flow.local().ip());
        let sockets = sockets.map_err(|error| error.to_string())?;
        let mut session = SdpSession::new(&self.shared, &self.caller.trunk, address, sockets.port);
        let contact = self.shared.contact(&self.flow);
        let invite = self.invite(&contact, session.offer());
        let tag = invite.headers.tag("From").unwrap_or_default();
        let (inbox, mut received) = mpsc::channel(INBOX);
        let key = dialog::key(invite.headers.call_id(), &tag);
        let registration = self.shared.dialogs.list(key, inbox, self.flow.remote.ip());
        let mut early = UnansweredMedia::new(sockets, self.hears_early.clone());
        let asked = self.answered(invite, &mut received, alive, &session, &mut early);
        let (asked, response) = asked.await?;
        let dialog = Dialog::of_response(&asked.invite, &response.headers, contact)
            .ok_or("the other side's answer names no way to it")?;
        self.acknowledge(&dialog, asked).await;
        let terms = match session.accept(&response.body) {
            Ok(terms) => terms,
            Err(refused) => {
                self.let_go(dialog);
                return Err(refused.words.into());
            }
        };
        let timer = match self.caller.trunk.session_timer {
            SessionTimer::Auto => session_timer::accepted(&response.headers),
            SessionTimer::Off => None,
        };
        early.drop_received();
        let (orders, ordered) = mpsc::channel(ORDERS);
        let mut call = Call {
            shared: self.shared,
            caller: self.caller,
            flow: self.flow,
            dialog,
            session,
            sockets: early.sockets,
            terms: None,
            taking: AnswerSdp::Agreed,
            media: early.media,
            timer,
            peer: Peer::of(&response.headers),
            inbox: received,
            orders: ordered,
            speech: early.spoken,
            events: early.events,
            transfer: None,
            begun: Instant::now(),
            registration,
            line: None,
            is_callers: false,
        };
        if !call.agreed(terms).await {
            let (shared, flow) = (call.shared.clone(), call.flow.clone());
            tokio::spawn(let_go(shared, call.dialog.clone(), flow, self.credentials));
            return Err("the media cannot be started".into());
        }
        call.direct(Control::Begin).await;
        tokio::spawn(call.run_established(None));
        Ok(Leg {
            orders,
            speech: early.speech,
            events: early.received,
        })
    }

    /// Sends the INVITE, again if the response allows another try, until a phone answers.
    async fn answered(
        &mut self,
        invite: SipRequest,
        inbox: &mut mpsc::Receiver<DialogMessage>,
        mut alive: oneshot::Receiver<()>,
        session: &SdpSession,
        early: &mut UnansweredMedia,
    ) -> Result<(PendingInvite, SipResponse), NoLeg> {
        let mut asked = self.ask(&invite);
        let mut invitation = Invitation::new(invite);
        let until = Instant::now() + RINGS;
        loop {
            let next = self.next(&mut asked, inbox, &mut alive, early, until);
            let response = match next.await {
                PersonStep::Response(response) => response,
                PersonStep::Silence => {
                    let again = self.elsewhere(&mut invitation).await;
                    asked = self.ask(&again.ok_or("the trunk does not answer")?);
                    continue;
                }
                PersonStep::GivenUp(why) => {
                    early.end();
                    self.give_up(asked).await;
                    return Err(why);
                }
            };
            match response.status {
                ..200 => {
                    asked.has_rung = true;
                    if let Ok(terms) = session.accept(&response.body) {
                        early
                            .begin(&self.shared, terms, self.flow.remote.ip())
                            .await;
                    }
                }
                200..300 => return Ok((asked, response)),
                300.. => {
                    let again = self.again(&mut invitation, &response).await?;
                    asked = self.ask(&again);
                }
            }
        }
    }

    async fn next(
        &self,
        asked: &mut PendingInvite,
        inbox: &mut mpsc::Receiver<DialogMessage>,
        alive: &mut oneshot::Receiver<()>,
        early: &mut UnansweredMedia,
        until: Instant,
    ) -> PersonStep {
        loop {
            let why = tokio::select! {
                response = asked.answers.recv() => {
                    return response.map_or(PersonStep::Silence, PersonStep::Response);
                }
                Some(message) = inbox.recv() => match self.hangs_up_early(message) {
                    true => NoLeg::refused("the other side hung up"),
                    false => continue,
                },
                () = early.pass() => continue,
                _ = &mut *alive => NoLeg::cancelled("the caller is gone"),
                () = tokio::time::sleep_until(until) => {
                    NoLeg::cancelled("nobody answered in time")
                }
            };
            return PersonStep::GivenUp(why);
        }
    }

    /// Answers a request that comes before the answer to our INVITE. True for a BYE.
    fn hangs_up_early(&self, message: DialogMessage) -> bool {
        let DialogMessage::Request(request, reply) = message else {
            return false;
        };
        let (status, phrase) = match request.method {
            Method::Bye | Method::Options | Method::Info => (200, "OK"),
            Method::Update if request.body.is_empty() => (200, "OK"),
            // Our own offer is not answered yet.
            Method::Update | Method::Invite => (491, "Request Pending"),
            Method::Prack | Method::Notify => (481, "Call/Transaction Does Not Exist"),
            _ => (405, "Method Not Allowed"),
        };
        let contact = self.shared.contact(&self.flow);
        let response = reply.response(status, phrase);
        reply.send(&dressed(&self.shared, &contact, response));
        request.method == Method::Bye
    }

    /// The INVITE for another try after a refusal.
    async fn again(
        &mut self,
        invitation: &mut Invitation,
        refusal: &SipResponse,
    ) -> Result<SipRequest, NoLeg> {
        let again = match refusal.status {
            401 | 407 => {
                let ours = self.credentials.as_ref();
                let again = ours.and_then(|ours| invitation.prove(refusal, ours));
                let why = || NoLeg::refused("the trunk asks for other credentials");
                return again.ok_or_else(why);
            }
            422 => invitation.lengthen(refusal),
            503 => self.elsewhere(invitation).await,
            300..=399 => self.redirected(invitation, refusal).await,
            _ => None,
        };
        again.ok_or_else(|| NoLeg::refused(not_taken(refusal.status)))
    }

    /// The INVITE for the next server of the trunk (RFC 3263, 4.3).
    async fn elsewhere(&mut self, invitation: &mut Invitation) -> Option<SipRequest> {
        let flow = self
            .shared
            .flow_among(&mut self.targets, &self.host, Some(&self.flow));
        self.flow = flow.await.ok()?;
        let configured = self.caller.outbound;
        self.caller.outbound = configured.map(|_| self.flow.remote.ip());
        Some(invitation.next())
    }

    /// Follows a redirection to another address of the same number. Only a trunk is followed, to public addresses and its own, and
    /// other addresses get no credentials.
    async fn redirected(
        &mut self,
        invitation: &mut Invitation,
        refusal: &SipResponse,
    ) -> Option<SipRequest> {
        let trunk = self.caller.named_by_trunk()?;
        let to = invitation.redirection(refusal, trunk.prefix.as_deref())?;
        if !self.is_proxied {
            let flow = self.shared.flow_named(trunk, &to, &self.flow).await.ok()?;
            if flow.remote.ip() != self.flow.remote.ip() {
                self.credentials = None;
            }
            self.flow = flow;
            self.targets.clear();
        }
        Some(invitation.redirect(to))
    }

    fn invite(&self, contact: &str, offer: String) -> SipRequest {
        let CallParties { trunk, number, .. } = &self.caller;
        let did = self.caller.did();
        let from = outbound::from(trunk, did, number, self.shared.reached_at(&self.flow));
        let mut invite = SipRequest::new(Method::Invite, self.uri.clone());
        let register = trunk.register.as_ref().filter(|_| self.is_proxied);
        if let Some(route) = register.and_then(|register| register.route()) {
            invite.headers.push("Route", &route);
        }
        for (name, value) in [
            ("Max-Forwards", "70".to_owned()),
            ("From", format!("<{from}>;tag={}", token())),
            ("To", format!("<{}>", self.uri)),
            (
                "Call-ID",
                format!("{}@{}", token(), self.shared.user_agent.name),
            ),
            ("CSeq", "1 INVITE".to_owned()),
            ("Contact", contact.to_owned()),
            ("Allow", ALLOW.to_owned()),
            ("Content-Type", "application/sdp".to_owned()),
        ] {
            invite.headers.push(name, &value);
        }
        if trunk.session_timer == SessionTimer::Auto {
            invite.headers.push("Supported", SUPPORTED_IN_REQUESTS);
            invite.headers.push("Session-Expires", SESSION_EXPIRES);
        }
        outbound::identify(&mut invite, &from, did);
        invite.body = offer.into_bytes();
        invite
    }

    fn ask(&self, invite: &SipRequest) -> PendingInvite {
        let invite = self.shared.with_via(invite.clone(), &self.flow);
        let answers = self
            .shared
            .transactions
            .ask(invite.clone(), self.flow.clone());
        PendingInvite {
            invite,
            answers,
            has_rung: false,
        }
    }

    async fn acknowledge(&self, dialog: &Dialog, mut asked: PendingInvite) {
        let flow = self
            .shared
            .flow_within(self.caller.named_by_trunk(), dialog, &self.flow)
            .await;
        let flow = flow.unwrap_or_else(|_| self.flow.clone());
        // The answerer may name any address, and only the trunk gets credentials.
        let is_to_the_trunk = flow.remote.ip() == self.flow.remote.ip();
        let ack = dialog.ack(&asked.invite, is_to_the_trunk);
        let ack = self.shared.with_via(ack, &flow);
        let ack = ack.to_bytes();
        flow.send(&ack);
        let (shared, dialog) = (self.shared.clone(), dialog.clone());
        let credentials = self.credentials.clone().filter(|_| is_to_the_trunk);
        tokio::spawn(async move {
            let mut others = Vec::new();
            while let Some(response) = asked.answers.recv().await {
                let headers = &response.headers;
                if !(200..300).contains(&response.status) {
                    continue;
                }
                if dialog.is_answered_by(headers) {
                    flow.send(&ack);
                    continue;
                }
                // A proxy forked the call, and a second phone has answered, too (RFC 3261, 13.2.2.4).
                let tag = headers.tag("To").unwrap_or_default();
                let is_new = !others.contains(&tag);
                if is_new && others.len() == FORKS_MAX {
                    continue;
                }
                let contact = dialog.contact.clone();
                if let Some(other) = Dialog::of_response(&asked.invite, headers, contact) {
                    let ack = other.ack(&asked.invite, is_to_the_trunk);
                    let ack = shared.with_via(ack, &flow);
                    flow.send(&ack.to_bytes());
                    if is_new {
                        others.push(tag);
                        let (shared, flow) = (shared.clone(), flow.clone());
                        tokio::spawn(let_go(shared, other, flow, credentials.clone()));
                    }
                }
            }
        });
    }

    /// Cancels the INVITE, once it has been received for sure (RFC 3261, 9.1). A call that is answered anyway is hung up.
    async fn give_up(&self, mut asked: PendingInvite) {
        let mut cancelled = asked.has_rung.then(|| self.cancel(&asked.invite));
        let answered = timeout(2 * GIVEN_UP, async {
            loop {
                let response = asked.answers.recv().await?;
                if response.status >= 200 {
                    return Some(response);
                }
                cancelled.get_or_insert_with(|| self.cancel(&asked.invite));
            }
        });
        let Ok(Some(response)) = answered.await else {
            return;
        };
        let contact = self.shared.contact(&self.flow);
        if response.status < 300
            && let Some(dialog) = Dialog::of_response(&asked.invite, &response.headers, contact)
        {
            self.acknowledge(&dialog, asked).await;
            self.let_go(dialog);
        }
    }

    fn cancel(&self, invite: &SipRequest) -> mpsc::Receiver<SipResponse> {
        let mut cancel = SipRequest::new(Method::Cancel, invite.uri.clone());
        for name in ["Via", "Route", "Max-Forwards", "From", "To", "Call-ID"] {
            for value in invite.headers.all(name) {
                cancel.headers.push(name, value);
            }
        }
        let number = invite.headers.cseq().map_or(1, |(number, _)| number);
        cancel.headers.push("CSeq", &format!("{number} CANCEL"));
        self.shared.transactions.ask(cancel, self.flow.clone())
    }

    fn let_go(&self, dialog: Dialog) {
        let (flow, credentials) = (self.flow.clone(), self.credentials.clone());
        tokio::spawn(let_go(self.shared.clone(), dialog, flow, credentials));
    }
}

/// The reason why a person is not reached, in words.
pub fn not_taken(status: u16) -> String {
    format!("the other side did not take the call (status {status})")
}

/// Hangs up an unwanted leg, with credentials if challenged.
async fn let_go(
    shared: Arc<Shared>,
    mut dialog: Dialog,
    flow: Flow,
    credentials: Option<Credentials>,
) {
    let bye = dialog.request(Method::Bye);
    let mut answers = shared.ask(bye.clone(), &flow);
    while let Some(response) = answers.recv().await {
        if let Some(credentials) = &credentials
            && let Some(again) = proven(&bye, &response, credentials, dialog.local_seq + 1)
        {
            let _ = shared.ask(again, &flow);
            return;
        }
    }
}
