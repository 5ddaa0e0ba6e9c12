//! What becomes of a message that came in: who may call, what is refused at once, and which call the rest is for.

use std::{
    net::IpAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use tokio::sync::mpsc;

use super::{
    call::{self, Caller},
    digest::{self, Algorithm, Authorization, Challenge},
    flood::Flood,
    message::{Broken, Headers, Message, Method, NameAddr, Request, Response, Via, check, parse},
    nonces::{Nonces, Use},
    numbers::{self, Number},
    shared::{ALLOW, EXTENSIONS, SUPPORTED, Shared, ToCall, USER_AGENT, count, token},
    transactions::{self, Arrival, Reply},
    transport::{Flow, Receive},
    trunks,
};
use crate::{leg::Incoming, settings::Trunk};

const REALM: &str = "dikala";

#[derive(Debug)]
pub struct Desk {
    shared: Arc<Shared>,
    incoming: mpsc::Sender<Incoming>,
    max_calls: usize,
    draining: AtomicBool,
    nonces: Nonces,
    flood: Mutex<Flood>,
    begun: Instant,
}

/// A refusal that nothing is kept of.
struct Refused {
    status: u16,
    phrase: &'static str,
    headers: Vec<(&'static str, String)>,
}

fn refused(status: u16, phrase: &'static str) -> Refused {
    Refused {
        status,
        phrase,
        headers: Vec::new(),
    }
}

impl Receive for Desk {
    fn received(&self, bytes: &[u8], flow: &Flow) {
        if bytes
            .iter()
            .all(|byte| matches!(byte, b'\r' | b'\n' | b' ' | 0))
        {
            return;
        }
        if !self.knows(flow.remote.ip()) && !self.admits(flow.remote.ip()) {
            return;
        }
        match parse(bytes) {
            Ok(Message::Request(request)) => self.request(request, flow),
            Ok(Message::Response(response)) => self.shared.transactions.answered(response),
            Err(broken) => answer_broken(&broken, flow),
        }
    }

    fn knows(&self, ip: IpAddr) -> bool {
        trunks::by_address(&self.shared.settings.trunks, ip).is_some()
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
            begun: now,
        }
    }

    pub fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    pub fn dropped(&self) -> u64 {
        self.flood
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .dropped
    }

    fn admits(&self, ip: IpAddr) -> bool {
        let second = self.begun.elapsed().as_secs();
        let mut flood = self.flood.lock().unwrap_or_else(PoisonError::into_inner);
        flood.admits(ip.to_canonical(), second)
    }

    fn request(&self, mut request: Request, flow: &Flow) {
        let mut via = match check(&request) {
            Ok(via) => via,
            Err(fault) => {
                if request.method != Method::Ack {
                    let words = fault.words;
                    stateless(
                        &request.headers,
                        flow,
                        &refused_for(fault.status, "Bad Request", words),
                    );
                }
                return;
            }
        };
        via.came_from(flow.remote);
        request.headers.set_top_via(&via.to_string());
        let back = flow.towards(via.back(flow.remote));
        let key = transactions::key(&request, &via);
        match request.method {
            Method::Ack => self.acknowledged(request, &key),
            Method::Cancel => {
                let answer = if self.shared.transactions.cancel(&key) {
                    refused(200, "OK")
                } else {
                    refused(481, "Call/Transaction Does Not Exist")
                };
                stateless(&request.headers, &back, &answer);
            }
            _ if self.shared.transactions.repeats(&key) => {}
            _ => {
                let done = match request.headers.tag("To") {
                    Some(tag) => self.inside(&request, tag, key, &back),
                    None => self.outside(&request, key, &back, flow),
                };
                if let Err(why) = done {
                    stateless(&request.headers, &back, &why);
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
    ) -> Result<(), Refused> {
        let inbox = self.shared.find(request.headers.call_id(), &tag);
        let inbox = inbox.ok_or(refused(481, "Call/Transaction Does Not Exist"))?;
        understood(request)?;
        match self.arrived(request, key, back, tag)? {
            Some(reply) => {
                let sent = inbox.try_send(ToCall::Request(request.clone(), reply));
                sent.map_err(|_| refused(481, "Call Is Over"))
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
    ) -> Result<(), Refused> {
        match &request.method {
            Method::Invite => {}
            Method::Options => return Err(self.options(request)),
            Method::Bye
            | Method::Update
            | Method::Prack
            | Method::Info
            | Method::Notify
            | Method::Refer => {
                return Err(refused(481, "Call/Transaction Does Not Exist"));
            }
            method => {
                let (status, phrase) = if method.is_known() {
                    (405, "Method Not Allowed")
                } else {
                    (501, "Not Implemented")
                };
                let headers = vec![("Allow", ALLOW.to_owned())];
                return Err(Refused {
                    status,
                    phrase,
                    headers,
                });
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
            call::refuse_for_now(&reply, "the bridge is being stopped");
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
    ) -> Result<Option<Reply>, Refused> {
        let now = Instant::now();
        match self
            .shared
            .transactions
            .arrived(request, key, back.clone(), tag, now)
        {
            Arrival::New(reply) => Ok(Some(reply)),
            Arrival::Repeated => Ok(None),
            Arrival::Merged => Err(refused(482, "Loop Detected")),
            Arrival::Full => Err(Refused {
                headers: vec![("Retry-After", "10".to_owned())],
                ..refused(503, "Service Unavailable")
            }),
        }
    }

    /// What has been with us before was sent on in a circle: a call that we made came back as a new one.
    fn has_not_looped(&self, request: &Request, back: &Flow) -> Result<(), Refused> {
        let (host, port) = self.shared.reached_at(back);
        let is_ours = |via: &String| {
            let via = via.parse::<Via>();
            via.is_ok_and(|via| via.host == host && via.port.unwrap_or(5060) == port)
        };
        if request.headers.list("Via").iter().any(is_ours) {
            return Err(refused(482, "Loop Detected"));
        }
        Ok(())
    }

    fn options(&self, request: &Request) -> Refused {
        if let Err(why) = understood(request) {
            return why;
        }
        let mut answer = if self.draining.load(Ordering::Acquire) {
            refused(503, "Service Unavailable")
        } else {
            refused(200, "OK")
        };
        answer.headers = vec![
            ("Allow", ALLOW.to_owned()),
            ("Accept", "application/sdp".to_owned()),
            ("Supported", SUPPORTED.to_owned()),
        ];
        answer
    }

    /// The trunk that may call, and whether it is trusted to say who calls.
    fn caller(&self, request: &Request, flow: &Flow) -> Result<(&Trunk, bool), Refused> {
        let all = &self.shared.settings.trunks;
        if let Some(trunk) = trunks::by_address(all, flow.remote.ip()) {
            return Ok((trunk, true));
        }
        let registrar = self.shared.registrar(flow);
        if let Some(trunk) = registrar.and_then(|name| all.iter().find(|trunk| trunk.name == name))
        {
            return Ok((trunk, true));
        }
        if !trunks::any_digest(all) {
            return Err(refused_for(
                403,
                "Forbidden",
                "no trunk allows this address",
            ));
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
        let Some((count, _)) = proof.count.as_ref().filter(|_| age != Use::NotOurs) else {
            return Err(self.challenge(request, false));
        };
        let known = trunks::by_username(all, &proof.username);
        let right = known.filter(|(_, password)| proof.proves(password, request.method.name()));
        let Some((trunk, _)) = right else {
            return Err(refused_for(403, "Forbidden", "the credentials are wrong"));
        };
        if age == Use::Stale || self.nonces.count(&proof.nonce, *count, now) == Use::Stale {
            return Err(self.challenge(request, true));
        }
        Ok((trunk, false))
    }

    fn challenge(&self, request: &Request, stale: bool) -> Refused {
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
            ("Proxy-Authenticate", challenge.to_string())
        };
        let agent = request.headers.get("User-Agent").unwrap_or_default();
        let mut headers = vec![demand(Algorithm::Md5)];
        if digest::takes_a_choice(agent) {
            headers.push(demand(Algorithm::Sha256));
        }
        Refused {
            headers,
            ..refused(407, "Proxy Authentication Required")
        }
    }
}

fn refused_for(status: u16, phrase: &'static str, words: &str) -> Refused {
    Refused {
        headers: vec![("Reason", call::reason(status, words))],
        ..refused(status, phrase)
    }
}

/// Whether we understand what a request requires, and what it carries.
fn understood(request: &Request) -> Result<(), Refused> {
    let required = ["Require", "Proxy-Require"];
    let strange: Vec<String> = required
        .iter()
        .flat_map(|name| request.headers.list(name))
        .filter(|extension| {
            !EXTENSIONS
                .iter()
                .any(|known| known.eq_ignore_ascii_case(extension))
        })
        .collect();
    if !strange.is_empty() {
        return Err(Refused {
            headers: vec![("Unsupported", strange.join(", "))],
            ..refused(420, "Bad Extension")
        });
    }
    let wanted = request.headers.list("Accept");
    let takes_sdp = |kind: &String| {
        let kind = kind.split(';').next().unwrap_or_default().trim();
        ["application/sdp", "application/*", "*/*"]
            .iter()
            .any(|known| known.eq_ignore_ascii_case(kind))
    };
    if request.method == Method::Invite && !wanted.is_empty() && !wanted.iter().any(takes_sdp) {
        return Err(refused(406, "Not Acceptable"));
    }
    if request.body.is_empty() || !matches!(request.method, Method::Invite | Method::Update) {
        return Ok(());
    }
    let kind = request.headers.get("Content-Type").unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let encoded = request
        .headers
        .get("Content-Encoding")
        .is_some_and(|encoding| !encoding.eq_ignore_ascii_case("identity"));
    if encoded || !kind.eq_ignore_ascii_case("application/sdp") {
        return Err(Refused {
            headers: vec![
                ("Accept", "application/sdp".to_owned()),
                ("Accept-Encoding", "identity".to_owned()),
            ],
            ..refused(415, "Unsupported Media Type")
        });
    }
    Ok(())
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

/// Answers without keeping anything: the tag is made of what the request says, so that a repetition is answered the same.
fn stateless(request: &Headers, flow: &Flow, answer: &Refused) {
    let tag = format!("s{:x}", fnv(request.call_id()));
    let mut response = Response::to(request, answer.status, answer.phrase, &tag);
    for (name, value) in &answer.headers {
        response.headers.push(name, value);
    }
    response.headers.push("Server", USER_AGENT);
    flow.send(&response.to_bytes());
}

/// FNV-1a: the tag has to be the same again, not a secret.
fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn answer_broken(broken: &Broken, flow: &Flow) {
    let Some(headers) = &broken.request else {
        return;
    };
    // An ACK is never answered, and what names no way back has none.
    let is_ack = headers
        .get("CSeq")
        .is_some_and(|cseq| cseq.trim_end().ends_with("ACK"));
    let Some(top) = headers.list("Via").into_iter().next().filter(|_| !is_ack) else {
        return;
    };
    let mut headers = headers.clone();
    let mut back = flow.clone();
    if let Ok(mut via) = top.parse::<Via>() {
        via.came_from(flow.remote);
        headers.set_top_via(&via.to_string());
        back = flow.towards(via.back(flow.remote));
    }
    let phrase = match broken.status {
        416 => "Unsupported URI Scheme",
        505 => "Version Not Supported",
        _ => "Bad Request",
    };
    stateless(
        &headers,
        &back,
        &refused_for(broken.status, phrase, broken.words),
    );
}
