//! What becomes of a message that came in: who may call, what is refused at once, and which call the rest is for.

use std::{
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use tokio::sync::mpsc;

use super::{
    call::{self, Caller},
    digest::{self, Algorithm, Authorization, Challenge},
    flood::Flood,
    known::Known,
    message::{Message, Method, NameAddr, Request, Via, check, parse, take_sdp},
    nonces::{Nonces, Use},
    numbers::{self, Number},
    refusal::{Answer, answer, answer_broken, no_transaction, refused},
    shared::{ACCEPT, ALLOW, SUPPORTED, Shared, ToCall, count, token},
    transactions::{self, Arrival, Reply},
    transport::{Flow, Receive},
    trunks,
    understood::understood,
};
use crate::{leg::Incoming, settings::Trunk};

const REALM: &str = "dikala";
const CHALLENGE: &str = "Proxy-Authenticate";
const STOPPING: &str = "the bridge is being stopped";

#[derive(Debug)]
pub struct Desk {
    shared: Arc<Shared>,
    incoming: mpsc::Sender<Incoming>,
    max_calls: usize,
    draining: AtomicBool,
    nonces: Nonces,
    flood: Mutex<Flood>,
    known: Mutex<Known>,
    /// Messages of strangers that were thrown away unread.
    dropped: AtomicU64,
    begun: Instant,
}

impl Receive for Desk {
    fn received(&self, bytes: &[u8], flow: &Flow) {
        if bytes
            .iter()
            .all(|byte| matches!(byte, b'\r' | b'\n' | b' ' | 0))
        {
            return;
        }
        if !self.may_speak(flow) {
            let parsed = self.may_belong(bytes, flow).then(|| parse(bytes));
            match parsed {
                Some(Ok(message)) if self.belongs(&message) => self.take(message, flow),
                _ => count(&self.dropped, 1),
            }
            return;
        }
        match parse(bytes) {
            Ok(message) => self.take(message, flow),
            Err(broken) => answer_broken(&broken, flow),
        }
    }

    fn pinged(&self, flow: &Flow) -> bool {
        let may_speak = self.may_speak(flow);
        if !may_speak {
            count(&self.dropped, 1);
        }
        may_speak
    }

    fn knows(&self, ip: IpAddr) -> bool {
        self.is_trunk(ip)
            || self.known().has_host(ip, self.second())
            || self.shared.talks_to(ip)
            || self.shared.is_registered_with(ip)
    }
}

impl Desk {
    pub fn new(shared: Arc<Shared>, incoming: mpsc::Sender<Incoming>, max_calls: usize) -> Self {
        let now = Instant::now();
        Self {
            shared,
            incoming,
            max_calls,
            draining: AtomicBool::new(false),
            nonces: Nonces::new(rand::random(), now),
            flood: Mutex::default(),
            known: Mutex::default(),
            dropped: AtomicU64::new(0),
            begun: now,
        }
    }

    pub fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    fn second(&self) -> u64 {
        self.begun.elapsed().as_secs()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, flow: &Flow) {
        self.known().remember(flow.remote, self.second());
    }

    fn is_trunk(&self, ip: IpAddr) -> bool {
        trunks::by_address(&self.shared.settings.trunks, ip).is_some()
    }

    /// Whether it is read whatever it says: somebody let in, or a stranger who does not say too much.
    fn may_speak(&self, flow: &Flow) -> bool {
        let ip = flow.remote.ip();
        self.is_trunk(ip)
            || self.known().has(flow.remote, self.second())
            || self.admits(ip)
            || self.shared.is_from_registrar(flow)
    }

    /// Whether it is worth reading what comes beyond that: those in a call share addresses with others.
    fn may_belong(&self, bytes: &[u8], flow: &Flow) -> bool {
        if bytes.starts_with(b"SIP/") {
            return self.shared.transactions.asks();
        }
        self.shared.talks_to(flow.remote.ip())
    }

    /// Whether it is for a call that is there, or answers what we asked.
    fn belongs(&self, message: &Message) -> bool {
        match message {
            Message::Request(request) => request.headers.tag("To").is_some_and(|tag| {
                let call = self.shared.find(request.headers.call_id(), &tag);
                call.is_some()
            }),
            Message::Response(response) => self.shared.transactions.awaits(response),
        }
    }

    fn admits(&self, ip: IpAddr) -> bool {
        let mut flood = self.flood.lock().unwrap_or_else(PoisonError::into_inner);
        flood.admits(ip.to_canonical(), self.second())
    }

    fn take(&self, message: Message, flow: &Flow) {
        match message {
            Message::Request(request) => self.request(request, flow),
            Message::Response(mut response) => {
                take_sdp(&mut response.headers, &mut response.body);
                self.shared.transactions.answered(response);
            }
        }
    }

    fn request(&self, mut request: Request, flow: &Flow) {
        let mut via = match check(&request) {
            Ok(via) => via,
            Err(fault) => {
                if request.method != Method::Ack {
                    refused(fault.status, "Bad Request", fault.words).send(&request.headers, flow);
                }
                return;
            }
        };
        via.came_from(flow.remote);
        request.headers.set_top_via(&via.to_string());
        take_sdp(&mut request.headers, &mut request.body);
        let back = flow.towards(via.back(flow.remote));
        let key = transactions::key(&request, &via);
        match request.method {
            Method::Ack => self.acknowledged(request, &key),
            Method::Cancel => {
                let answer = if self.shared.transactions.cancel(&key) {
                    answer(200, "OK")
                } else {
                    no_transaction()
                };
                answer.send(&request.headers, &back);
            }
            _ if self.shared.transactions.repeats(&key) => {}
            _ => {
                let done = match request.headers.tag("To") {
                    Some(tag) => self.inside(&request, tag, key, &back),
                    None => self.outside(&request, key, &back, flow),
                };
                if let Err(why) = done {
                    why.send(&request.headers, &back);
                }
            }
        }
    }

    fn acknowledged(&self, ack: Request, key: &str) {
        if self.shared.transactions.acknowledged(key) {
            return;
        }
        let tag = ack.headers.tag("To").unwrap_or_default();
        if let Some(inbox) = self.shared.find(ack.headers.call_id(), &tag) {
            let _ = inbox.try_send(ToCall::Ack(ack));
        }
    }

    /// A request of a call that is there.
    fn inside(
        &self,
        request: &Request,
        tag: String,
        key: String,
        back: &Flow,
    ) -> Result<(), Answer> {
        let inbox = self.shared.find(request.headers.call_id(), &tag);
        let inbox = inbox.ok_or_else(no_transaction)?;
        understood(request)?;
        match self.arrived(request, key, back, tag)? {
            Some(reply) => {
                let sent = inbox.try_send(ToCall::Request(request.clone(), reply));
                sent.map_err(|_| refused(481, "Call Is Over", "the call is over"))
            }
            None => Ok(()),
        }
    }

    /// A request that belongs to no call.
    fn outside(
        &self,
        request: &Request,
        key: String,
        back: &Flow,
        flow: &Flow,
    ) -> Result<(), Answer> {
        match &request.method {
            Method::Invite => {}
            Method::Options => return Err(self.options(request)),
            Method::Bye | Method::Update | Method::Prack | Method::Info | Method::Notify => {
                return Err(no_transaction());
            }
            method => {
                let (status, phrase) = if method.is_known() {
                    (405, "Method Not Allowed")
                } else {
                    (501, "Not Implemented")
                };
                let words = "this method is not served here";
                return Err(refused(status, phrase, words).with("Allow", ALLOW.to_owned()));
            }
        }
        let (trunk, trusted) = self.caller(request, flow)?;
        understood(request)?;
        self.has_not_looped(request, back)?;
        let Some(reply) = self.arrived(request, key, back, token())? else {
            return Ok(());
        };
        reply.send(&reply.response(100, "Trying"));
        if self.draining.load(Ordering::Acquire) {
            call::refuse_for_now(&reply, STOPPING);
            return Ok(());
        }
        let Some(place) = self.shared.place(self.max_calls) else {
            count(&self.shared.counters.callers.refused, 1);
            call::refuse_for_now(&reply, "all lines are taken");
            return Ok(());
        };
        let did = match called(request, trunk) {
            Number::E164(did) => did,
            none => {
                let (status, phrase) = match none {
                    Number::Incomplete => (484, "Address Incomplete"),
                    _ => (404, "Not Found"),
                };
                count(&self.shared.counters.callers.refused, 1);
                let words = call::reason(status, "the called number is no whole number");
                reply.send(&reply.response(status, phrase).with("Reason", &words));
                return Ok(());
            }
        };
        let caller = Caller {
            trunk: trunk.clone(),
            did,
            number: call::caller_number(request, trunk, trusted),
            is_trunk: trusted,
        };
        call::begin(&self.shared, place, caller, request, reply, &self.incoming);
        Ok(())
    }

    fn arrived(
        &self,
        request: &Request,
        key: String,
        back: &Flow,
        tag: String,
    ) -> Result<Option<Reply>, Answer> {
        let now = Instant::now();
        match self
            .shared
            .transactions
            .arrived(request, key, back.clone(), tag, now)
        {
            Arrival::New(reply) => Ok(Some(reply)),
            Arrival::Repeated => Ok(None),
            Arrival::Merged => Err(refused(
                482,
                "Loop Detected",
                "the same call came by another way",
            )),
            Arrival::Full => Err(refused(
                503,
                "Service Unavailable",
                "too many requests are under way",
            )),
        }
    }

    /// What has been with us before was sent on in a circle: a call that we made came back as a new one.
    fn has_not_looped(&self, request: &Request, back: &Flow) -> Result<(), Answer> {
        let (host, port) = self.shared.reached_at(back);
        let is_ours = |via: &String| {
            let via = via.parse::<Via>();
            via.is_ok_and(|via| via.host == host && via.port.unwrap_or(5060) == port)
        };
        if request.headers.list("Via").iter().any(is_ours) {
            return Err(refused(482, "Loop Detected", "it has been here before"));
        }
        Ok(())
    }

    fn options(&self, request: &Request) -> Answer {
        if let Err(why) = understood(request) {
            return why;
        }
        let able = if self.draining.load(Ordering::Acquire) {
            refused(503, "Service Unavailable", STOPPING)
        } else {
            answer(200, "OK")
        };
        able.with("Allow", ALLOW.to_owned())
            .with("Accept", ACCEPT.to_owned())
            .with("Supported", SUPPORTED.to_owned())
    }

    /// The trunk that may call, and whether it is trusted to say who calls.
    fn caller(&self, request: &Request, flow: &Flow) -> Result<(&Trunk, bool), Answer> {
        let all = &self.shared.settings.trunks;
        if let Some(trunk) = trunks::by_address(all, flow.remote.ip()) {
            return Ok((trunk, true));
        }
        if let Some(trunk) = self.shared.registered_trunk(flow, &request.uri.user) {
            return Ok((trunk, true));
        }
        if !trunks::any_digest(all) {
            return Err(refused(403, "Forbidden", "no trunk allows this address"));
        }
        let proof = ["Proxy-Authorization", "Authorization"]
            .iter()
            .flat_map(|name| request.headers.all(name))
            .find_map(|value| {
                value
                    .parse::<Authorization>()
                    .ok()
                    .filter(|proof| proof.realm == REALM)
            });
        let Some(proof) = proof else {
            return Err(self.challenge(request, false));
        };
        let now = Instant::now();
        let age = self.nonces.look(&proof.nonce, now);
        if age == Use::NotOurs {
            return Err(self.challenge(request, false));
        }
        let known = trunks::by_username(all, &proof.username);
        let right = known.filter(|(_, password)| proof.proves(password, request.method.name()));
        let Some((trunk, _)) = right else {
            return Err(refused(403, "Forbidden", "the credentials are wrong"));
        };
        if !proof.is_for(&request.uri) {
            let words = "the credentials are for another Request-URI";
            return Err(refused(400, "Bad Request", words));
        }
        // Who does not count (RFC 2069) has used up the nonce.
        let count = proof.count.as_ref().map_or(u32::MAX, |(count, _)| *count);
        if age == Use::Stale || self.nonces.count(&proof.nonce, count, now) == Use::Stale {
            return Err(self.challenge(request, true));
        }
        self.remember(flow);
        Ok((trunk, false))
    }

    fn challenge(&self, request: &Request, stale: bool) -> Answer {
        let nonce = self.nonces.make(Instant::now());
        let demand = |algorithm| {
            let challenge = Challenge {
                realm: REALM.to_owned(),
                nonce: nonce.clone(),
                opaque: None,
                algorithm,
                counted: true,
                stale,
            };
            challenge.to_string()
        };
        let agent = request.headers.get("User-Agent").unwrap_or_default();
        let demanded =
            answer(407, "Proxy Authentication Required").with(CHALLENGE, demand(Algorithm::Md5));
        if digest::takes_a_choice(agent) {
            return demanded.with(CHALLENGE, demand(Algorithm::Sha256));
        }
        demanded
    }
}

/// The number that is called: the Request-URI's, or To's where that is none.
fn called(request: &Request, trunk: &Trunk) -> Number {
    let prefix = trunk.prefix.as_deref();
    let number = numbers::e164(&request.uri.user, prefix);
    if number != Number::None {
        return number;
    }
    let to = request.headers.get("To").and_then(|to| to.parse().ok());
    to.map_or(Number::None, |to: NameAddr| {
        numbers::e164(&to.uri.user, prefix)
    })
}
