//! One call, from the INVITE to the last BYE: a task that gets the messages of its dialog from the edge.

mod attempt;
mod dial;
mod early_media;
mod end;
mod established;
mod identity;
mod info;
mod invitation;
mod join;
pub mod media_sockets;
mod media_task;
mod no_leg;
mod outbound;
mod outgoing_leg;
mod refer;
mod refresh;
mod requests;
mod ring;
mod route;
mod session;
mod session_timer;
mod transfer;

use std::{net::IpAddr, sync::Arc};

use tokio::{
    sync::mpsc,
    time::{Duration, Instant},
};

use self::{
    identity::{call_id, identity},
    media_sockets::MediaSockets,
    media_task::{Control, MediaHandle},
    route::DialogRoute,
    session::SdpSession,
    session_timer::Timer,
    transfer::CallTransfer,
};
use crate::{
    dialog::{
        Dialog,
        open_dialogs::{CallIdentity, DialogMessage, DialogRegistration},
    },
    leg::{Leg, LegEvent, OfferedCall, OfferedChannel, Order, Speech},
    lines::LinePermit,
    media::{
        playout::MARKS_MAX,
        sdp::{MediaTerms, codec_name, named_address},
    },
    message::{Headers, SipRequest, SipResponse},
    quality::LegRole,
    settings::Trunk,
    shared::{ALLOW, RETRY_AFTER_SECONDS, SUPPORTED, Shared},
    statistics::count,
    transactions::Responder,
    transport::Flow,
    whatsapp,
};

const ORDERS: usize = 32;
/// Pieces of 20 to 100 ms, besides those in the playout queue.
const SPEECH: usize = 16;
const EVENTS: usize = 512;
// All marks may be played in one tick.
const _: () = assert!(MARKS_MAX + SPEECH + media_task::KEPT_FOR_EVENTS < EVENTS);
const INBOX: usize = 32;

/// Caller and called number, as the edge found them.
#[derive(Debug, Clone)]
pub struct CallParties {
    /// The id of the call; empty until it is offered.
    pub id: Arc<str>,
    pub trunk: Trunk,
    /// At least one. After the answer, the first is the one that counts.
    pub dids: Vec<String>,
    pub number: String,
    /// The peer is the trunk itself, identified by address or as our registrar. Otherwise it is a phone with a password.
    pub is_trunk_itself: bool,
    /// The configured address that our own INVITE went to, which may get the trunk's credentials.
    pub outbound: Option<IpAddr>,
}

impl CallParties {
    pub fn did(&self) -> &str {
        self.dids.first().map_or("", String::as_str)
    }

    /// The trunk, if it may name the route to itself.
    fn named_by_trunk(&self) -> Option<&Trunk> {
        self.is_trunk_itself.then_some(&self.trunk)
    }
}

/// The state of a call's task.
#[derive(Debug)]
struct Call {
    shared: Arc<Shared>,
    caller: CallParties,
    flow: Flow,
    dialog: Dialog,
    route: DialogRoute,
    session: SdpSession,
    /// `None` once the media is started.
    sockets: Option<MediaSockets>,
    terms: Option<MediaTerms>,
    taking: AnswerSdp,
    media: Option<MediaHandle>,
    timer: Option<Timer>,
    /// The capabilities in the peer's last request.
    peer: Peer,
    inbox: mpsc::Receiver<DialogMessage>,
    orders: mpsc::Receiver<Order>,
    speech: Option<mpsc::Receiver<Speech>>,
    events: mpsc::Sender<LegEvent>,
    transfer: Option<CallTransfer>,
    begun: Instant,
    registration: DialogRegistration,
    /// `None` for a call that we made over the caller's trunk, and after the reliable 180 or the answer stayed unacknowledged for
    /// too long.
    line: Option<LinePermit>,
    /// True for the caller's leg, false for a leg that we dialled.
    is_callers: bool,
}

/// The SDP of the 200 to the INVITE.
#[derive(Debug)]
enum AnswerSdp {
    /// Our answer to the INVITE's offer.
    Answer(String),
    /// Our offer, because the INVITE had none; the ACK carries the answer.
    Offer,
    /// No SDP, because the terms were agreed before.
    Agreed,
}

/// Capabilities of the peer.
#[derive(Debug, Clone, Copy, Default)]
struct Peer {
    updates: bool,
    refers: bool,
    wants_reliable: bool,
}

impl Peer {
    fn of(headers: &Headers) -> Self {
        let allows = |method| headers.lists("Allow", method);
        Self {
            updates: allows("UPDATE"),
            refers: allows("REFER"),
            wants_reliable: headers.lists("Require", "100rel"),
        }
    }
}

/// Begins a call, or refuses it. `bytes`: the INVITE as it came.
pub fn begin(
    shared: &Arc<Shared>,
    line: LinePermit,
    caller: CallParties,
    (request, bytes): (&SipRequest, &[u8]),
    reply: Responder,
    incoming: &mpsc::Sender<OfferedCall>,
) {
    let Ok(room) = incoming.try_reserve() else {
        note(shared, &caller, (503, "busy"), &reply);
        return refuse_for_now(&reply, "the bridge does not keep up");
    };
    let channel = match caller.trunk.is_whatsapp() {
        true => OfferedChannel::WhatsApp(whatsapp::details(&request.headers)),
        false => OfferedChannel::Telephone,
    };
    let identity = identity(request, &channel);
    let prepared = prepare(shared, line, caller, (request, &identity), &reply);
    let Some((mut call, leg)) = prepared else {
        return;
    };
    let terms = call.terms.as_ref();
    let codec = terms.map(|terms| codec_name(terms.codec));
    let id = call_id(identity.text, call.registration.mark_offered());
    call.caller.id = id.as_str().into();
    let sip_call_id = request.headers.call_id();
    let socket = reply.flow.socket();
    shared.ladders.begin(&id, sip_call_id, bytes, socket);
    reply.send(&reply.response(100, "Trying"));
    room.send(OfferedCall {
        id,
        dids: call.caller.dids.clone(),
        caller: call.caller.number.clone(),
        sip_call_id: cut(sip_call_id),
        trunk: call.caller.trunk.name.clone(),
        user_agent: request.headers.get("User-Agent").map(cut),
        codec,
        channel,
        leg,
    });
    tokio::spawn(call.run(reply));
}

/// Prepares a call with this identity. If that fails, it refuses the INVITE itself.
fn prepare(
    shared: &Arc<Shared>,
    line: LinePermit,
    caller: CallParties,
    (request, identity): (&SipRequest, &CallIdentity),
    reply: &Responder,
) -> Option<(Call, Leg)> {
    let Ok(timer) = timer_of(request, &caller.trunk) else {
        note(shared, &caller, (422, "timer"), reply);
        return refuse_timer(reply);
    };
    let flow = reply.flow.towards(reply.flow.remote);
    let contact = contact(shared, request, &flow);
    let Some(dialog) = Dialog::of_invite(request, reply.tag(), contact) else {
        note(shared, &caller, (400, "contact"), reply);
        reply.refuse(400, "Contact Is Missing");
        return None;
    };
    let (inbox, received) = mpsc::channel(INBOX);
    let dialogs = &shared.dialogs;
    let Some(registration) = dialogs.list_caller(&dialog, identity, inbox, flow.remote.ip()) else {
        note(shared, &caller, (482, "repeated"), reply);
        refuse_again(reply);
        return None;
    };
    let address = shared.media_ip_for(&flow, named_address(&request.body));
    let sockets = bind(shared, &caller, address, reply)?;
    let mut session = SdpSession::new(shared, &caller.trunk, &flow, address, sockets.port);
    let answered = match session.offered(&request.body) {
        Ok(answered) => answered,
        Err(refused) => {
            note(shared, &caller, (refused.status, "media"), reply);
            refuse_offer(shared, reply, refused.status, &refused.words);
            return None;
        }
    };
    let (answer, terms) = answered.unzip();
    let (orders, ordered) = mpsc::channel(ORDERS);
    let (speech, spoken) = mpsc::channel(SPEECH);
    let (events, receiver) = mpsc::channel(EVENTS);
    let call = Call {
        registration,
        shared: shared.clone(),
        caller,
        flow,
        dialog,
        route: DialogRoute::default(),
        session,
        sockets: Some(sockets),
        terms,
        taking: answer.map_or(AnswerSdp::Offer, AnswerSdp::Answer),
        media: None,
        timer,
        peer: Peer::of(&request.headers),
        inbox: received,
        orders: ordered,
        speech: Some(spoken),
        events,
        transfer: None,
        begun: Instant::now(),
        line: Some(line),
        is_callers: true,
    };
    let leg = Leg {
        orders,
        speech,
        events: receiver,
    };
    Some((call, leg))
}

/// Sockets for the media of a call; or `None` after refusing the INVITE.
fn bind(
    shared: &Shared,
    caller: &CallParties,
    address: IpAddr,
    reply: &Responder,
) -> Option<MediaSockets> {
    let bound = MediaSockets::bind(&shared.settings.rtp_ports, address);
    let told = |error: &std::io::Error| tracing::warn!(%error, "a call has no port for its media");
    if let Ok(sockets) = bound.inspect_err(told) {
        return Some(sockets);
    }
    note(shared, caller, (503, "ports"), reply);
    refuse_for_now(reply, "no port for media is free");
    None
}

/// Counts and logs a refused call.
fn note(shared: &Shared, caller: &CallParties, why: (u16, &'static str), reply: &Responder) {
    count(&shared.counters.callers.refused, 1);
    let ip = reply.flow.remote.ip();
    let refusals = &shared.refusals;
    refusals.note(&caller.trunk.name, why, ip, &reply.request, None);
}

/// Counts and logs a change of an open call, if it was refused.
fn note_change(shared: &Shared, caller: &CallParties, reply: &Responder) {
    if let Some(status @ 300..) = reply.invite_status() {
        let (trunk, ip) = (&caller.trunk.name, reply.flow.remote.ip());
        shared
            .refusals
            .note_change(trunk, status, ip, &reply.request);
    }
}

/// Our Contact. A `sips:` request gets a `sips:` Contact, so that requests to us are secured, too.
fn contact(shared: &Shared, request: &SipRequest, flow: &Flow) -> String {
    let contact = shared.contact(flow);
    match request.uri.scheme.as_str() {
        "sips" => contact.replacen("<sip:", "<sips:", 1),
        _ => contact,
    }
}

/// A response with the headers of all our responses inside a call.
fn dressed(shared: &Shared, contact: &str, response: SipResponse) -> SipResponse {
    response
        .with("Contact", contact)
        .with("Allow", ALLOW)
        .with("Supported", SUPPORTED)
        .with("Server", shared.user_agent.product)
}

/// The session timer that an INVITE or UPDATE asks for, if the trunk has one.
fn timer_of(request: &SipRequest, trunk: &Trunk) -> Result<Option<Timer>, session_timer::TooSmall> {
    match trunk.has_session_timer() {
        true => session_timer::answer(&request.headers),
        false => Ok(None),
    }
}

/// Refuses a session timer that is too short. Returns `None`.
fn refuse_timer<T>(reply: &Responder) -> Option<T> {
    let min = session_timer::MIN_SECONDS.to_string();
    let response = reply.response(422, "Session Interval Too Small");
    let words = format!("a session timer must be {min} s at least");
    let response = response.with("Min-SE", &min);
    reply.send(&response.with("Reason", &reason(422, &words)));
    None
}

/// Refuses another INVITE of a call like a merged request (RFC 3261, 8.2.2.2).
fn refuse_again(reply: &Responder) {
    let response = reply.response(482, "Loop Detected");
    let words = reason(482, "this call has come already");
    reply.send(&response.with("Reason", &words));
}

fn refuse_for_now(reply: &Responder, words: &str) {
    let response = reply
        .response(503, "Service Unavailable")
        .with("Retry-After", &RETRY_AFTER_SECONDS.to_string())
        .with("Reason", &reason(503, words));
    reply.send(&response);
}

fn refuse_offer(shared: &Shared, reply: &Responder, status: u16, words: &str) {
    let phrase = if status == 488 {
        "Not Acceptable Here"
    } else {
        "Bad Request"
    };
    let warning = format!("399 {} \"{}\"", shared.user_agent.name, plain(words));
    let response = reply
        .response(status, phrase)
        .with("Warning", &warning)
        .with("Reason", &reason(status, words));
    reply.send(&response);
}

/// A Reason header (RFC 3326).
pub fn reason(cause: u16, words: &str) -> String {
    format!("SIP;cause={cause};text=\"{}\"", plain(words))
}

fn plain(words: &str) -> String {
    words.replace(['"', '\\', '\r', '\n'], " ")
}

/// Text of a peer, shortened.
fn cut(text: &str) -> String {
    text.chars().take(256).collect()
}

impl Call {
    async fn run(mut self, reply: Responder) {
        count(&self.shared.counters.invites, 1);
        if let Some(acknowledged) = self.ring(reply).await {
            self.run_established(Some(acknowledged)).await;
        }
    }

    /// Adds the headers of all our responses inside the call.
    fn dressed(&self, response: SipResponse) -> SipResponse {
        dressed(&self.shared, &self.dialog.contact, response)
    }

    /// Adds the session timer to a 2xx of ours.
    fn timed(&self, response: SipResponse) -> SipResponse {
        let Some(timer) = self.timer else {
            return response;
        };
        let response = response.with("Session-Expires", &timer.header(true));
        match timer.refresher {
            session_timer::Refresher::Peer if timer.peer_knows => response.with("Require", "timer"),
            _ => response,
        }
    }

    /// Starts or changes the media according to the terms. False if that fails.
    async fn agreed(&mut self, terms: MediaTerms) -> bool {
        let held = terms.held();
        let was_held = self.terms.as_ref().is_some_and(MediaTerms::held);
        self.terms = Some(terms.clone());
        self.session.agreed(&terms);
        let signalling = self.flow.remote.ip();
        match (&self.media, self.sockets.take(), self.speech.take()) {
            (Some(media), ..) => {
                let change = Control::Change(Box::new(terms), signalling);
                // Media that failed reads no commands.
                if media.control.send(change).await.is_err() {
                    return false;
                }
            }
            (None, Some(sockets), Some(speech)) => {
                let (shared, events) = (&self.shared, self.events.clone());
                let role = match self.is_callers {
                    true => LegRole::Caller,
                    false => LegRole::Person,
                };
                let reporter = shared.qualities.reporter(self.caller.id.clone(), role);
                let started =
                    media_task::start(shared, sockets, terms, signalling, speech, events, reporter);
                match started {
                    Ok(media) => self.media = Some(media),
                    Err(error) => {
                        tracing::warn!(%error, "the media of a call cannot be started");
                        return false;
                    }
                }
            }
            (None, ..) => return false,
        }
        if held != was_held {
            self.notify(LegEvent::Held(held));
        }
        true
    }

    /// Sends a command to the call's media, if there is any.
    async fn direct(&self, control: Control) {
        if let Some(media) = &self.media {
            let _ = media.control.send(control).await;
        }
    }

    /// Reports an event without waiting: a reader with a full channel counts as gone.
    fn notify(&self, event: LegEvent) {
        let _ = self.events.try_send(event);
    }
}

/// A response to an INVITE that is retransmitted until it is acknowledged.
#[derive(Debug)]
struct Repeat {
    response: SipResponse,
    next: Instant,
    wait: Duration,
    until: Instant,
}
