//! The entry of the SIP edge: admits callers, refuses what is wrong at once, and passes the rest to its call.

use std::{
    net::IpAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::mpsc;

use super::{
    access::AccessControl,
    requirements::check_requirements,
    stateless::{StatelessResponse, answer, answer_broken, no_transaction, refused},
};
use crate::{
    call::{self, CallParties},
    dialog::open_dialogs::DialogMessage,
    identities::{self, NoCalledNumber},
    ladder::Ladders,
    leg::OfferedCall,
    limits::rate_limit::{RateLimit, RateLimiter},
    message::{
        BrokenMessage, Headers, Method, SipMessage, SipRequest, SipResponse, Via, check, parse,
        take_sdp,
    },
    settings::{SipTransport, Trunk},
    shared::{ACCEPT, ALLOW, SUPPORTED, Shared, token},
    statistics::count,
    transactions::{self, RequestArrival, Responder, places::TransactionPlace},
    transport::{Flow, Receive},
};

const STOPPING: &str = "the bridge is being stopped";
/// Rate limits for requests of strangers: of one address and of all.
const REQUESTS: (RateLimit, RateLimit) = (RateLimit::a_second(400), RateLimit::a_second(2_000));
/// Rate limits for TLS handshakes, which cost a signature each: of one address and of all.
const HANDSHAKES: (RateLimit, RateLimit) = (RateLimit::a_second(20), RateLimit::a_second(500));

#[derive(Debug)]
pub struct EdgeEntry {
    shared: Arc<Shared>,
    incoming: mpsc::Sender<OfferedCall>,
    draining: AtomicBool,
    access: AccessControl,
    limits: StrangerLimits,
    /// Dropped messages of strangers.
    dropped: AtomicU64,
    begun: Instant,
}

/// The strangers' rate limits. Datagrams can be forged, so connections have a limit apart.
#[derive(Debug)]
struct StrangerLimits {
    datagrams: Mutex<RateLimiter>,
    connections: Mutex<RateLimiter>,
    handshakes: Mutex<RateLimiter>,
}

fn flood((of_one, of_all): (RateLimit, RateLimit)) -> Mutex<RateLimiter> {
    Mutex::new(RateLimiter::new(of_one, of_all))
}

impl Receive for EdgeEntry {
    fn received(&self, bytes: &[u8], flow: &Flow) {
        if bytes
            .iter()
            .all(|byte| matches!(byte, b'\r' | b'\n' | b' ' | 0))
        {
            return;
        }
        let is_bounded = !flow.is_reliable() && !self.access.is_proven(flow);
        if is_bounded && !self.is_worth_reading(bytes, flow) {
            count(&self.dropped, 1);
            return;
        }
        let parsed = parse(bytes);
        if is_bounded && !self.is_worth_taking(&parsed, flow) {
            return;
        }
        match parsed {
            Ok(message) => {
                self.keep(&message, bytes, flow);
                self.take(message, bytes, flow);
            }
            Err(broken) => {
                if let Some(headers) = &broken.request
                    && headers.cseq().is_some_and(|(_, method)| method == "INVITE")
                {
                    self.note_malformed(broken.status, headers, flow);
                }
                answer_broken(&broken, flow, self.shared.user_agent.without_version());
            }
        }
    }

    fn pause(&self, flow: &Flow) -> Duration {
        if self.access.is_proven(flow) {
            return Duration::ZERO;
        }
        let now = self.now();
        locked(&self.limits.connections).queue(flow.remote.ip(), now)
    }

    fn may_shake_hands(&self, ip: IpAddr) -> bool {
        let now = self.now();
        self.access.is_address_of_trunk(ip, SipTransport::Tls)
            || locked(&self.limits.handshakes).admits(ip, now)
    }

    fn is_proven(&self, flow: &Flow) -> bool {
        self.access.is_proven(flow)
    }

    fn knows(&self, ip: IpAddr, transport: SipTransport) -> bool {
        self.access.knows_host(ip, transport)
            || self.shared.dialogs.are_with(ip)
            || self.shared.registrars.have(ip)
    }

    fn ladders(&self) -> Arc<Ladders> {
        self.shared.ladders.clone()
    }
}

fn locked<T>(limit: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    limit.lock().unwrap_or_else(PoisonError::into_inner)
}

impl EdgeEntry {
    pub fn new(shared: Arc<Shared>, incoming: mpsc::Sender<OfferedCall>) -> Self {
        Self {
            access: AccessControl::new(shared.clone()),
            shared,
            incoming,
            draining: AtomicBool::new(false),
            limits: StrangerLimits {
                datagrams: flood(REQUESTS),
                connections: flood(REQUESTS),
                handshakes: flood(HANDSHAKES),
            },
            dropped: AtomicU64::new(0),
            begun: Instant::now(),
        }
    }

    pub fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// In microseconds.
    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// True if a stranger's datagram is parsed. Over the limit, it still may belong to a call or answer our request.
    fn is_worth_reading(&self, bytes: &[u8], flow: &Flow) -> bool {
        let (ip, now) = (flow.remote.ip(), self.now());
        if locked(&self.limits.datagrams).has_room(ip, now) {
            return true;
        }
        if bytes.starts_with(b"SIP/") {
            return self.shared.transactions.asks();
        }
        self.shared.dialogs.are_with(ip)
    }

    /// True if a stranger's datagram is accepted. Only requests that would be answered count. Malformed datagrams, ACKs, answers
    /// to us and messages of open calls do not.
    fn is_worth_taking(&self, parsed: &Result<SipMessage, BrokenMessage>, flow: &Flow) -> bool {
        match parsed {
            Ok(SipMessage::Response(response)) => return self.awaits(response),
            Ok(SipMessage::Request(request)) if self.belongs(request) => return true,
            Ok(SipMessage::Request(request)) if request.method == Method::Ack => return true,
            Err(broken) if broken.request.is_none() => return false,
            Ok(SipMessage::Request(_)) | Err(_) => {}
        }
        let now = self.now();
        let admits = locked(&self.limits.datagrams).admits(flow.remote.ip(), now);
        if !admits {
            count(&self.dropped, 1);
        }
        admits
    }

    /// True if it belongs to an existing call.
    fn belongs(&self, request: &SipRequest) -> bool {
        request.headers.tag("To").is_some_and(|tag| {
            let call = self.shared.dialogs.find(request.headers.call_id(), &tag);
            call.is_some()
        })
    }

    /// True if it answers our request.
    fn awaits(&self, response: &SipResponse) -> bool {
        self.shared.transactions.awaits(response)
    }

    /// Keeps a message of a call in its ladder. Of strangers only what belongs to a call is kept.
    fn keep(&self, message: &SipMessage, bytes: &[u8], flow: &Flow) {
        let headers = match message {
            SipMessage::Request(request) => &request.headers,
            SipMessage::Response(response) => &response.headers,
        };
        let (ladders, call_id) = (&self.shared.ladders, headers.call_id());
        let is_kept = ladders.has(call_id)
            && (self.access.is_proven(flow)
                || match message {
                    SipMessage::Request(request) => self.belongs(request),
                    SipMessage::Response(response) => self.awaits(response),
                });
        if is_kept {
            ladders.add(call_id, bytes, flow.socket(), false);
        }
    }

    /// Counts and logs an INVITE that is refused before its trunk is looked up.
    fn note_malformed(&self, status: u16, headers: &Headers, flow: &Flow) {
        let (refusals, ip) = (&self.shared.refusals, flow.remote.ip());
        refusals.note("", (status, "malformed"), ip, headers, None);
    }

    /// Counts and logs an INVITE inside a call that is refused before the call gets it.
    fn note_change(&self, status: u16, request: &SipRequest, flow: &Flow) {
        if request.method == Method::Invite {
            let (refusals, ip) = (&self.shared.refusals, flow.remote.ip());
            refusals.note_change("", status, ip, &request.headers);
        }
    }

    fn take(&self, message: SipMessage, bytes: &[u8], flow: &Flow) {
        match message {
            SipMessage::Request(request) => self.request(request, bytes, flow),
            SipMessage::Response(mut response) => {
                take_sdp(&mut response.headers, &mut response.body);
                self.shared.transactions.answered(response);
            }
        }
    }

    fn request(&self, mut request: SipRequest, bytes: &[u8], flow: &Flow) {
        let server = self.shared.user_agent.without_version();
        let mut via = match check(&request) {
            Ok(via) => via,
            Err(fault) => {
                if request.method == Method::Invite {
                    self.note_malformed(fault.status, &request.headers, flow);
                }
                if request.method != Method::Ack {
                    refused(fault.status, "Bad Request", fault.words).send(
                        &request.headers,
                        flow,
                        server,
                    );
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
                answer.send(&request.headers, &back, server);
            }
            _ if self.shared.transactions.repeats(&key) => {}
            _ => {
                let done = match request.headers.tag("To") {
                    Some(tag) => {
                        let done = self.inside(&request, tag, key, &back);
                        done.inspect_err(|why| self.note_change(why.status(), &request, flow))
                    }
                    None => self.outside((&request, bytes), key, &back, flow),
                };
                if let Err(why) = done {
                    why.send(&request.headers, &back, server);
                }
            }
        }
    }

    fn acknowledged(&self, ack: SipRequest, key: &str) {
        if self.shared.transactions.acknowledged(key) {
            return;
        }
        let tag = ack.headers.tag("To").unwrap_or_default();
        if let Some(inbox) = self.shared.dialogs.find(ack.headers.call_id(), &tag) {
            let _ = inbox.try_send(DialogMessage::Ack(ack));
        }
    }

    /// Handles a request of an existing call.
    fn inside(
        &self,
        request: &SipRequest,
        tag: String,
        key: String,
        back: &Flow,
    ) -> Result<(), StatelessResponse> {
        let inbox = self.shared.dialogs.find(request.headers.call_id(), &tag);
        let inbox = inbox.ok_or_else(no_transaction)?;
        // Only the peer of the call knows our tag, and it may have reconnected.
        if back.is_reliable() {
            self.access.remember(back, request.headers.call_id());
        }
        check_requirements(request)?;
        let place = TransactionPlace::Inside {
            address: back.remote.ip(),
            ends: request.method == Method::Bye,
        };
        match self.arrived(request, key, back, tag, place)? {
            Some(reply) => {
                let sent = inbox.try_send(DialogMessage::Request(request.clone(), reply));
                sent.map_err(|_| refused(481, "Call Is Over", "the call is over"))
            }
            None => Ok(()),
        }
    }

    /// Handles a request that belongs to no call.
    fn outside(
        &self,
        (request, bytes): (&SipRequest, &[u8]),
        key: String,
        back: &Flow,
        flow: &Flow,
    ) -> Result<(), StatelessResponse> {
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
        let (trunk, trusted) = self.access.caller(request, flow)?;
        let (refusals, ip) = (&self.shared.refusals, flow.remote.ip());
        let refuse = |why| refusals.note(&trunk.name, why, ip, &request.headers, None);
        check_requirements(request).inspect_err(|why| refuse((why.status(), "extension")))?;
        self.has_not_looped(request)
            .inspect_err(|_| refuse((482, "loop")))?;
        // A request that begins no call takes no place in the table of transactions.
        if self.draining.load(Ordering::Acquire) {
            refuse((503, "stopping"));
            return Err(refused(503, "Service Unavailable", STOPPING));
        }
        let dids = called(request, trunk).inspect_err(|why| {
            count(&self.shared.counters.callers.refused, 1);
            refuse((why.status(), "number"));
        })?;
        let line = self.shared.lines.begin(trunk);
        let line = line.map_err(|(reason, words)| {
            count(&self.shared.counters.callers.refused, 1);
            refuse((503, reason));
            refused(503, "Service Unavailable", words)
        })?;
        let place = TransactionPlace::Begins {
            trunk: trunk.name.clone(),
            phone: (!trusted).then_some(ip),
        };
        let arrived = self.arrived(request, key, back, token(), place);
        let arrived = arrived.inspect_err(|why| refuse((why.status(), "transactions")))?;
        let Some(reply) = arrived else {
            return Ok(());
        };
        let caller = CallParties {
            id: Arc::default(),
            trunk: trunk.clone(),
            dids,
            number: identities::caller_number(request, trunk, trusted),
            is_trunk_itself: trusted,
            outbound: None,
        };
        let invite = (request, bytes);
        call::begin(&self.shared, line, caller, invite, reply, &self.incoming);
        Ok(())
    }

    fn arrived(
        &self,
        request: &SipRequest,
        key: String,
        back: &Flow,
        tag: String,
        place: TransactionPlace,
    ) -> Result<Option<Responder>, StatelessResponse> {
        let transactions = &self.shared.transactions;
        match transactions.arrived(request, key, back.clone(), tag, place) {
            RequestArrival::New(reply) => Ok(Some(reply)),
            RequestArrival::Repeated => Ok(None),
            RequestArrival::Merged => Err(refused(
                482,
                "Loop Detected",
                "the same call came by another way",
            )),
            RequestArrival::Full => Err(refused(
                503,
                "Service Unavailable",
                "too many requests are under way",
            )),
        }
    }

    /// Refuses a request that has passed this edge before: a call of ours was routed back as a new one.
    fn has_not_looped(&self, request: &SipRequest) -> Result<(), StatelessResponse> {
        let is_ours = |via: &String| {
            let via = via.parse::<Via>();
            via.is_ok_and(|via| {
                let branch = via.branch();
                branch.is_some_and(|branch| branch.starts_with(&self.shared.branch))
            })
        };
        if request.headers.list("Via").iter().any(is_ours) {
            return Err(refused(482, "Loop Detected", "it has been here before"));
        }
        Ok(())
    }

    fn options(&self, request: &SipRequest) -> StatelessResponse {
        if let Err(why) = check_requirements(request) {
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
}

/// The called numbers; or a refusal, if there is none.
fn called(request: &SipRequest, trunk: &Trunk) -> Result<Vec<String>, StatelessResponse> {
    identities::called_numbers(request, trunk).map_err(|missing| {
        let (status, phrase) = match missing {
            NoCalledNumber::Incomplete => (484, "Address Incomplete"),
            NoCalledNumber::None => (404, "Not Found"),
        };
        let words = "no header has a called number; set `number` or `extensions` of the trunk";
        refused(status, phrase, words)
    })
}
