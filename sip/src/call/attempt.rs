//! One INVITE of a second leg at one server: built for the route there, answered, acknowledged or cancelled.

use std::{io, sync::Arc};

use futures_util::future::BoxFuture;
use tokio::{
    sync::mpsc,
    time::{Instant, timeout},
};

use super::{
    CallParties, DialogMessage, INBOX, MediaSockets, dressed,
    early_media::UnansweredMedia,
    invitation::{Invitation, InviteParts},
    no_leg::NoLeg,
    note_change,
    outgoing_leg::OutgoingLeg,
    requests::{Routed, once_routed},
    route::DialogRoute,
    session::SdpSession,
};
use crate::{
    dialog::{Dialog, open_dialogs::DialogRegistration},
    digest::answers::ChallengeAnswers,
    media::sdp::{MediaTerms, SdpRefusal},
    message::{Method, SipRequest, SipResponse},
    settings::Credentials,
    shared::{Shared, token},
    transactions::GIVEN_UP,
    transport::Flow,
};

/// The number of further phones that answer the same call and are hung up. No legitimate proxy forks to more phones.
const FORKS_MAX: usize = 16;

/// A call to a person at one server. Contact, addresses and media sockets are those for its route.
#[derive(Debug)]
pub struct Attempt {
    pub flow: Flow,
    pub session: SdpSession,
    pub early: UnansweredMedia,
    pub inbox: mpsc::Receiver<DialogMessage>,
    pub registration: DialogRegistration,
    pub contact: String,
    /// With Via.
    pub invite: SipRequest,
    pub answers: mpsc::Receiver<SipResponse>,
    /// When the INVITE was sent.
    pub sent_at: Instant,
    /// A provisional response has come.
    pub has_rung: bool,
    /// The SDP answers in provisional responses to the last INVITE.
    answered_early: EarlyAnswers,
}

/// The last usable SDP answer of each dialog that is not established yet, by the tag of its To.
#[derive(Debug, Default)]
struct EarlyAnswers(Vec<(Option<String>, MediaTerms)>);

impl EarlyAnswers {
    fn keep(&mut self, tag: Option<String>, terms: MediaTerms) {
        self.0.retain(|(other, _)| *other != tag);
        if self.0.len() <= FORKS_MAX {
            self.0.push((tag, terms));
        }
    }

    fn of(&self, tag: Option<&str>) -> Option<MediaTerms> {
        let mut all = self.0.iter();
        let found = all.find(|(other, _)| other.as_deref() == tag);
        found.map(|(_, terms)| terms.clone())
    }
}

/// An INVITE that is to be cancelled.
struct UnwantedInvite {
    flow: Flow,
    contact: String,
    invite: SipRequest,
    answers: mpsc::Receiver<SipResponse>,
    has_rung: bool,
}

impl Attempt {
    /// Closes the media sockets.
    fn into_unwanted(self) -> (UnwantedInvite, DialogRegistration) {
        let unwanted = UnwantedInvite {
            flow: self.flow,
            contact: self.contact,
            invite: self.invite,
            answers: self.answers,
            has_rung: self.has_rung,
        };
        (unwanted, self.registration)
    }

    /// The dialog of a response, if it names a way back.
    pub fn dialog(&self, response: &SipResponse) -> Option<Dialog> {
        Dialog::of_response(&self.invite, &response.headers, self.contact.clone())
    }

    /// Handles a provisional response.
    pub async fn rings(&mut self, shared: &Arc<Shared>, response: &SipResponse) {
        self.has_rung = true;
        if let Ok(terms) = self.session.accept(&response.body) {
            let tag = response.headers.tag("To");
            self.answered_early.keep(tag, terms.clone());
            let signalling = self.flow.remote.ip();
            self.early.begin(shared, terms, signalling).await;
        }
    }

    /// The media terms of an answered call. A 200 without a description confirms that of its dialog's provisional responses
    /// (RFC 3261, 13.2.1).
    pub fn terms(&self, response: &SipResponse) -> Result<MediaTerms, SdpRefusal> {
        let tag = response.headers.tag("To");
        let early = self.answered_early.of(tag.as_deref());
        match early.filter(|_| response.body.is_empty()) {
            Some(terms) => Ok(terms),
            None => self.session.accept(&response.body),
        }
    }

    /// Sends an INVITE again on this route.
    pub fn send(&mut self, shared: &Shared, invite: SipRequest) {
        (self.invite, self.answers) = sent(shared, invite, &self.flow);
        self.sent_at = Instant::now();
        self.has_rung = false;
        self.answered_early = EarlyAnswers::default();
    }
}

fn sent(
    shared: &Shared,
    invite: SipRequest,
    flow: &Flow,
) -> (SipRequest, mpsc::Receiver<SipResponse>) {
    let invite = shared.with_via(invite, flow);
    let answers = shared.transactions.ask(invite.clone(), flow.clone());
    (invite, answers)
}

impl OutgoingLeg {
    /// Calls the person on this route.
    ///
    /// Errors: no port for media is free.
    pub(super) fn begin(&self, flow: Flow, invitation: &mut Invitation) -> Result<Attempt, NoLeg> {
        let shared = &self.shared;
        let sockets = MediaSockets::bind(&shared.settings.rtp_ports, flow.local().ip());
        let sockets = sockets.map_err(|error| error.to_string())?;
        let address = shared.media_ip(&flow);
        let trunk = &self.caller.trunk;
        let mut session = SdpSession::new(shared, trunk, &flow, address, sockets.port);
        let contact = shared.contact(&flow);
        let (inbox, received) = mpsc::channel(INBOX);
        let peer = flow.remote.ip();
        let registration = shared.dialogs.list(invitation.key(), inbox, peer);
        let parts = self.parts(&flow, &contact, &mut session);
        let id = &self.caller.id;
        shared.ladders.join(id, invitation.call_id());
        let (invite, answers) = sent(shared, invitation.next(&self.caller, parts), &flow);
        Ok(Attempt {
            session,
            early: UnansweredMedia::new(sockets, self.hears_early.clone(), id.clone()),
            inbox: received,
            registration,
            contact,
            invite,
            answers,
            sent_at: Instant::now(),
            has_rung: false,
            answered_early: EarlyAnswers::default(),
            flow,
        })
    }

    /// Calls the person once more on the same route, with what the invitation has learnt.
    pub(super) fn repeat(&self, attempt: &mut Attempt, invitation: &mut Invitation) {
        let Attempt {
            flow,
            contact,
            session,
            ..
        } = &mut *attempt;
        let parts = self.parts(flow, contact, session);
        attempt.send(&self.shared, invitation.next(&self.caller, parts));
    }

    fn parts(&self, flow: &Flow, contact: &str, session: &mut SdpSession) -> InviteParts {
        let register = self.caller.trunk.register.as_ref();
        let register = register.filter(|_| self.to.proxy.is_some());
        InviteParts {
            contact: contact.to_owned(),
            own: self.shared.reached_at(flow),
            route: register.and_then(|register| register.route()),
            offer: session.offer(),
        }
    }

    /// Answers a request that comes before the answer to our INVITE. True for a BYE.
    pub(super) fn hangs_up_early(&self, contact: &str, message: DialogMessage) -> bool {
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
        let response = reply.response(status, phrase);
        reply.send(&dressed(&self.shared, contact, response));
        note_change(&self.shared, &self.caller, &reply);
        request.method == Method::Bye
    }

    /// Acknowledges the answer once its route is found, and every retransmission of it. Other phones that answer are hung up. Returns
    /// the route. Nothing waits for it: the person is heard at once.
    pub(super) fn acknowledge(
        &self,
        route: &DialogRoute,
        dialog: &Dialog,
        flow: &Flow,
        (invite, answers): (SipRequest, mpsc::Receiver<SipResponse>),
    ) -> Routed<Flow> {
        let acknowledger = Acknowledger {
            shared: self.shared.clone(),
            caller: self.caller.clone(),
            route: route.clone(),
            dialog: dialog.clone(),
            flow: flow.clone(),
            invite,
            credentials: self.credentials.clone(),
        };
        once_routed(acknowledger.way(), move |way| {
            acknowledger.acknowledge(&acknowledger.dialog, &way);
            tokio::spawn(acknowledger.repeat(answers));
            Some(way)
        })
    }

    /// Cancels the INVITE, once it has been received for sure (RFC 3261, 9.1). A call that is answered anyway is hung up.
    pub(super) async fn give_up(&self, attempt: Attempt) {
        // Kept, so that a call with the same ids is not taken meanwhile.
        let (unwanted, _registration) = attempt.into_unwanted();
        self.cancel_once_received(unwanted).await;
    }

    /// The same while another server is called with the same ids.
    pub(super) fn leave(&self, attempt: Attempt) {
        let (unwanted, _) = attempt.into_unwanted();
        let leg = self.beside();
        tokio::spawn(async move { leg.cancel_once_received(unwanted).await });
    }

    async fn cancel_once_received(&self, unwanted: UnwantedInvite) {
        let UnwantedInvite {
            flow,
            contact,
            invite,
            mut answers,
            has_rung,
        } = unwanted;
        let cancel = || self.cancel(&invite, &flow);
        let mut cancelled = has_rung.then(cancel);
        let answered = timeout(2 * GIVEN_UP, async {
            loop {
                let response = answers.recv().await?;
                if response.status >= 200 {
                    return Some(response);
                }
                cancelled.get_or_insert_with(cancel);
            }
        });
        let Ok(Some(response)) = answered.await else {
            return;
        };
        if response.status < 300
            && let Some(dialog) = Dialog::of_response(&invite, &response.headers, contact)
        {
            let route = DialogRoute::default();
            let way = self.acknowledge(&route, &dialog, &flow, (invite, answers));
            self.let_go(dialog, way);
        }
    }

    fn cancel(&self, invite: &SipRequest, flow: &Flow) -> mpsc::Receiver<SipResponse> {
        let mut cancel = SipRequest::new(Method::Cancel, invite.uri.clone());
        for name in ["Via", "Route", "Max-Forwards", "From", "To", "Call-ID"] {
            for value in invite.headers.all(name) {
                cancel.headers.push(name, value);
            }
        }
        let number = invite.headers.cseq().map_or(1, |(number, _)| number);
        cancel.headers.push("CSeq", &format!("{number} CANCEL"));
        self.shared.transactions.ask(cancel, flow.clone())
    }

    /// Hangs up an answered leg, after its ACK.
    pub(super) fn let_go(&self, dialog: Dialog, way: Routed<Flow>) {
        let (shared, tried) = (self.shared.clone(), self.tried);
        let credentials = self.credentials.clone();
        tokio::spawn(async move {
            let way = match way {
                Ok(way) => way,
                Err(routed) => routed.await.ok().flatten(),
            };
            if let Some(way) = way {
                let credentials = credentials.filter(|_| tried == Some(way.remote.ip()));
                let_go(shared, dialog, way, credentials).await;
            }
        });
    }
}

/// Acknowledges answers to one INVITE of ours.
struct Acknowledger {
    shared: Arc<Shared>,
    caller: CallParties,
    route: DialogRoute,
    dialog: Dialog,
    /// The flow of the INVITE.
    flow: Flow,
    invite: SipRequest,
    credentials: Option<Credentials>,
}

impl Acknowledger {
    /// The route of the next ACK: a name that was not found in time may be known by then.
    fn way(&self) -> BoxFuture<'static, io::Result<Flow>> {
        self.route
            .find(&self.shared, &self.caller, &self.dialog, &self.flow)
    }

    /// True if this is where the trunk is. The answerer may name any address, and only the trunk gets credentials.
    fn is_to_the_trunk(&self, way: &Flow) -> bool {
        way.remote.ip() == self.flow.remote.ip()
    }

    fn acknowledge(&self, dialog: &Dialog, way: &Flow) {
        let ack = dialog.ack(&self.invite, self.is_to_the_trunk(way));
        way.send(&self.shared.with_via(ack, way).to_bytes());
    }

    /// Acknowledges retransmissions of the answer, and hangs up other phones that answer.
    async fn repeat(self, mut answers: mpsc::Receiver<SipResponse>) {
        let mut others = Vec::new();
        while let Some(response) = answers.recv().await {
            let headers = &response.headers;
            if !(200..300).contains(&response.status) {
                continue;
            }
            let Ok(way) = self.way().await else {
                continue;
            };
            if self.dialog.is_answered_by(headers) {
                self.acknowledge(&self.dialog, &way);
                continue;
            }
            // A proxy forked the call, and a second phone has answered, too (RFC 3261, 13.2.2.4).
            let tag = headers.tag("To").unwrap_or_default();
            let is_new = !others.contains(&tag);
            if is_new && others.len() == FORKS_MAX {
                continue;
            }
            let contact = self.dialog.contact.clone();
            if let Some(other) = Dialog::of_response(&self.invite, headers, contact) {
                self.acknowledge(&other, &way);
                if is_new {
                    others.push(tag);
                    let credentials = self.credentials.clone();
                    let credentials = credentials.filter(|_| self.is_to_the_trunk(&way));
                    tokio::spawn(let_go(self.shared.clone(), other, way, credentials));
                }
            }
        }
    }
}

/// Hangs up an unwanted leg, with credentials for everybody who challenges.
async fn let_go(
    shared: Arc<Shared>,
    mut dialog: Dialog,
    flow: Flow,
    credentials: Option<Credentials>,
) {
    let bye = dialog.request(Method::Bye);
    let (mut number, mut proofs) = (dialog.local_seq, ChallengeAnswers::default());
    let mut answers = shared.ask(bye.clone(), &flow);
    while let Some(response) = answers.recv().await {
        let next = (number + 1, &*token());
        if let Some(credentials) = &credentials
            && let Some(again) = proofs.repeat(&bye, &response, credentials, next)
        {
            number += 1;
            answers = shared.ask(again, &flow);
        }
    }
}
