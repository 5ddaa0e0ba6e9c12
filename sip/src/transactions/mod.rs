//! Transactions (RFC 3261, 17; RFC 6026): retransmitted requests get the same response again, and our own requests are
//! retransmitted until answered, for 64 × T1.
//!
//! Without a response, the end of the connection ends a request of ours, too.
//!
//! The 200 to an INVITE is retransmitted by the call, because only the call sees its ACK.

pub mod places;

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::{Notify, mpsc};

use self::places::{TransactionPlace, TransactionPlaces};
use crate::{
    message::{Headers, Method, SipRequest, SipResponse, Via},
    transport::Flow,
};

pub const T1: Duration = Duration::from_millis(500);
pub const T2: Duration = Duration::from_secs(4);
/// 64 × T1: when a silent peer is given up.
pub const GIVEN_UP: Duration = Duration::from_secs(32);
/// The longest ringing of an INVITE of ours.
const RINGING_MAX: Duration = Duration::from_secs(180);
/// Server transactions with the same Call-ID, so that one call's requests take no place from other calls. A BYE may take as many
/// again.
const SERVERS_OF_CALL_MAX: usize = 128;
const RESPONSES_QUEUE: usize = 16;

#[derive(Debug, Default)]
pub struct Transactions {
    servers: Mutex<Servers>,
    clients: Mutex<HashMap<String, mpsc::Sender<SipResponse>>>,
}

#[derive(Debug, Default)]
struct Servers {
    by_key: HashMap<String, Server>,
    /// Recognises the same request with another branch, which came by another route.
    by_origin: HashSet<String>,
    /// Numbers of transactions by Call-ID.
    by_call: HashMap<String, usize>,
    places: TransactionPlaces,
}

impl Servers {
    fn is_call_full(&self, request: &SipRequest) -> bool {
        let of_call = self.by_call.get(request.headers.call_id());
        let most = match request.method {
            Method::Bye => 2 * SERVERS_OF_CALL_MAX,
            _ => SERVERS_OF_CALL_MAX,
        };
        of_call.is_some_and(|count| *count >= most)
    }

    fn insert(&mut self, key: String, server: Server) {
        *self.by_call.entry(server.call.clone()).or_default() += 1;
        self.by_key.insert(key, server);
    }

    fn remove(&mut self, key: &str) {
        let Some(server) = self.by_key.remove(key) else {
            return;
        };
        if let Some(origin) = &server.origin {
            self.by_origin.remove(origin);
        }
        self.places.give_back(&server.place);
        if let Entry::Occupied(mut count) = self.by_call.entry(server.call) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

#[derive(Debug)]
struct Server {
    /// The Call-ID.
    call: String,
    place: TransactionPlace,
    is_invite: bool,
    flow: Flow,
    last: Option<Vec<u8>>,
    until: Instant,
    origin: Option<String>,
    acknowledged: Arc<Notify>,
    cancelled: Arc<Notify>,
    /// The status of the final response, after which a CANCEL comes too late.
    ended: Option<u16>,
}

impl Server {
    fn is_refused(&self) -> bool {
        self.ended.is_some_and(|status| status >= 300)
    }
}

/// The decision about a received request.
#[derive(Debug)]
pub enum RequestArrival {
    New(Responder),
    /// A retransmission; the last response was sent again, if there was one.
    Repeated,
    /// The same request over two routes: 482.
    Merged,
    Full,
}

/// Sends responses to a request.
#[derive(Debug)]
pub struct Responder {
    transactions: Arc<Transactions>,
    key: String,
    pub request: Headers,
    pub flow: Flow,
    is_invite: bool,
    tag: String,
    cancelled: Arc<Notify>,
    acknowledged: Arc<Notify>,
}

/// Key of a transaction. ACK and CANCEL have that of their INVITE.
pub fn key(request: &SipRequest, via: &Via) -> String {
    let method = match &request.method {
        Method::Ack | Method::Cancel => "INVITE",
        method => method.name(),
    };
    match via.branch() {
        Some(branch) if branch.len() > 7 && branch.starts_with("z9hG4bK") => {
            format!("{branch}|{}|{method}", via.sent_by())
        }
        // The branch of a peer of RFC 2543 is not unique.
        _ => format!("{}|{via}|{method}", origin(&request.headers)),
    }
}

/// The identity of a request over all routes.
fn origin(headers: &Headers) -> String {
    let from = headers.tag("From").unwrap_or_default();
    let number = headers.cseq().map_or(0, |(number, _)| number);
    format!("{}|{from}|{number}", headers.call_id())
}

impl Transactions {
    fn servers(&self) -> MutexGuard<'_, Servers> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn clients(&self) -> MutexGuard<'_, HashMap<String, mpsc::Sender<SipResponse>>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the last response again if this request is a retransmission.
    pub fn repeats(&self, key: &str) -> bool {
        let servers = self.servers();
        let Some(server) = servers.by_key.get(key) else {
            return false;
        };
        if let Some(last) = &server.last {
            server.flow.send(last);
        }
        true
    }

    /// Remembers a request. `tag` is ours for the dialog it may begin.
    pub fn arrived(
        self: &Arc<Self>,
        request: &SipRequest,
        key: String,
        flow: Flow,
        tag: String,
        place: TransactionPlace,
    ) -> RequestArrival {
        if self.repeats(&key) {
            return RequestArrival::Repeated;
        }
        let is_invite = request.method == Method::Invite;
        let begins = request.headers.tag("To").is_none();
        let origin = (is_invite && begins).then(|| origin(&request.headers));
        let (cancelled, acknowledged) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let mut servers = self.servers();
        if let Some(origin) = &origin
            && servers.by_origin.contains(origin)
        {
            return RequestArrival::Merged;
        }
        if servers.is_call_full(request) || !servers.places.take(&place) {
            return RequestArrival::Full;
        }
        servers.by_origin.extend(origin.clone());
        let server = Server {
            call: request.headers.call_id().to_owned(),
            place,
            is_invite,
            flow: flow.clone(),
            last: None,
            // Replaced when the final response is sent.
            until: Instant::now()
                + if is_invite {
                    RINGING_MAX + GIVEN_UP
                } else {
                    GIVEN_UP * 2
                },
            origin,
            acknowledged: acknowledged.clone(),
            cancelled: cancelled.clone(),
            ended: None,
        };
        servers.insert(key.clone(), server);
        RequestArrival::New(Responder {
            transactions: self.clone(),
            key,
            request: request.headers.clone(),
            flow,
            is_invite,
            tag,
            cancelled,
            acknowledged,
        })
    }

    /// Handles the ACK of a refusal. The same request over another route is a retry after that, not a merged request. False for
    /// the ACK of a 2xx, which belongs to its call, whatever branch it has (RFC 6026, 7.1).
    pub fn acknowledged(&self, key: &str) -> bool {
        let mut servers = self.servers();
        let Servers {
            by_key, by_origin, ..
        } = &mut *servers;
        let Some(server) = by_key.get_mut(key).filter(|server| server.is_refused()) else {
            return false;
        };
        server.acknowledged.notify_one();
        if let Some(origin) = server.origin.take() {
            by_origin.remove(&origin);
        }
        true
    }

    /// Notifies the call of a CANCEL. False if there is no such transaction.
    pub fn cancel(&self, key: &str) -> bool {
        let servers = self.servers();
        let found = servers.by_key.get(key);
        if let Some(server) = found.filter(|server| server.ended.is_none()) {
            server.cancelled.notify_one();
        }
        found.is_some()
    }

    /// Removes expired server transactions.
    pub fn sweep(&self, now: Instant) {
        let mut servers = self.servers();
        let expired = servers.by_key.iter();
        let expired = expired.filter(|(_, server)| server.until <= now);
        let expired: Vec<String> = expired.map(|(key, _)| key.clone()).collect();
        for key in expired {
            servers.remove(&key);
        }
    }

    /// Remembers a response for retransmissions. Over TCP and TLS nothing is retransmitted, so a request other than INVITE is
    /// forgotten with its final response (RFC 3261, 17.2.2, timer J).
    fn sent(&self, key: &str, bytes: &[u8], status: u16) {
        let is_final = status >= 200;
        let mut servers = self.servers();
        let Some(server) = servers.by_key.get_mut(key) else {
            return;
        };
        if is_final && !server.is_invite && server.flow.is_reliable() {
            servers.remove(key);
            return;
        }
        server.last = Some(bytes.to_vec());
        if is_final {
            server.ended = Some(status);
            server.until = Instant::now() + GIVEN_UP;
        }
    }

    /// True if a request of ours is unanswered.
    pub fn asks(&self) -> bool {
        !self.clients().is_empty()
    }

    /// True if this is the response to a request of ours.
    pub fn awaits(&self, response: &SipResponse) -> bool {
        self.asker(response).is_some()
    }

    /// Passes a response to its client transaction.
    pub fn answered(&self, response: SipResponse) {
        if let Some(asked) = self.asker(&response) {
            let _ = asked.try_send(response);
        }
    }

    fn asker(&self, response: &SipResponse) -> Option<mpsc::Sender<SipResponse>> {
        let via: Via = response.headers.first("Via")?.parse().ok()?;
        let (_, method) = response.headers.cseq()?;
        self.clients()
            .get(&client_key(via.branch()?, method))
            .cloned()
    }

    /// Sends a request, with Via as its first header, until it is answered. Responses come through the channel. It closes after
    /// the final response (of an INVITE: a while after), or if none came.
    pub fn ask(self: &Arc<Self>, request: SipRequest, flow: Flow) -> mpsc::Receiver<SipResponse> {
        let (answers, receiver) = mpsc::channel(RESPONSES_QUEUE);
        let (inbox, responses) = mpsc::channel(RESPONSES_QUEUE);
        let branch = request
            .headers
            .get("Via")
            .and_then(|via| via.parse::<Via>().ok())
            .and_then(|via| via.branch().map(str::to_owned))
            .unwrap_or_default();
        let key = client_key(&branch, request.method.name());
        self.clients().insert(key.clone(), inbox);
        let transactions = self.clone();
        tokio::spawn(async move {
            if request.method == Method::Invite {
                ask_invite(&request, &flow, responses, answers).await;
            } else {
                ask_other(&request, &flow, responses, answers).await;
            }
            transactions.clients().remove(&key);
        });
        receiver
    }
}

fn client_key(branch: &str, method: &str) -> String {
    format!("{branch}|{method}")
}

async fn ask_other(
    request: &SipRequest,
    flow: &Flow,
    mut responses: mpsc::Receiver<SipResponse>,
    answers: mpsc::Sender<SipResponse>,
) {
    let bytes = request.to_bytes();
    let until = tokio::time::Instant::now() + GIVEN_UP;
    let mut wait = T1;
    if !flow.send(&bytes) {
        return;
    }
    loop {
        let next = (tokio::time::Instant::now() + wait).min(until);
        tokio::select! {
            response = responses.recv() => match response {
                Some(response) if response.status < 200 => wait = T2,
                Some(response) => {
                    let _ = answers.try_send(response);
                    return;
                }
                None => return,
            },
            // Its sender has given it up, and may call the person another way.
            () = answers.closed(), if request.method == Method::Refer => return,
            () = tokio::time::sleep_until(next) => {
                if next >= until || !flow.is_open() {
                    return;
                }
                if !flow.is_reliable() {
                    flow.send(&bytes);
                }
                wait = (wait * 2).min(T2);
            }
        }
    }
}

async fn ask_invite(
    request: &SipRequest,
    flow: &Flow,
    mut responses: mpsc::Receiver<SipResponse>,
    answers: mpsc::Sender<SipResponse>,
) {
    let bytes = request.to_bytes();
    let mut until = tokio::time::Instant::now() + GIVEN_UP;
    let (mut wait, mut is_unanswered) = (T1, true);
    if !flow.send(&bytes) {
        return;
    }
    loop {
        let next = if is_unanswered {
            (tokio::time::Instant::now() + wait).min(until)
        } else {
            until
        };
        tokio::select! {
            response = responses.recv() => {
                let Some(response) = response else { return };
                is_unanswered = false;
                let now = tokio::time::Instant::now();
                match response.status {
                    ..200 => until = now + RINGING_MAX,
                    200..300 => until = now + GIVEN_UP,
                    300.. => {
                        until = now + GIVEN_UP;
                        flow.send(&refusal_ack(request, &response).to_bytes());
                    }
                }
                let _ = answers.try_send(response);
            }
            () = tokio::time::sleep_until(next) => {
                if next >= until || !flow.is_open() {
                    return;
                }
                if !flow.is_reliable() {
                    flow.send(&bytes);
                }
                wait *= 2;
            }
        }
    }
}

/// The ACK of a response other than 2xx belongs to its INVITE's transaction.
fn refusal_ack(invite: &SipRequest, response: &SipResponse) -> SipRequest {
    let mut ack = SipRequest::new(Method::Ack, invite.uri.clone());
    for name in ["Via", "From", "Call-ID", "Route", "Max-Forwards"] {
        for value in invite.headers.all(name) {
            ack.headers.push(name, value);
        }
    }
    ack.headers
        .push("To", response.headers.get("To").unwrap_or_default());
    let number = invite.headers.cseq().map_or(1, |(number, _)| number);
    ack.headers.push("CSeq", &format!("{number} ACK"));
    ack
}

impl Responder {
    /// A response to fill in. It has our tag from 101 up.
    pub fn response(&self, status: u16, reason: &str) -> SipResponse {
        SipResponse::to(&self.request, status, reason, &self.tag)
    }

    pub fn send(&self, response: &SipResponse) {
        let bytes = response.to_bytes();
        let is_final = response.status >= 200;
        self.transactions.sent(&self.key, &bytes, response.status);
        self.flow.send(&bytes);
        if is_final && response.status >= 300 && self.is_invite && !self.flow.is_reliable() {
            tokio::spawn(repeat_refusal(
                bytes,
                self.flow.clone(),
                self.acknowledged.clone(),
            ));
        }
    }

    pub fn refuse(&self, status: u16, reason: &str) {
        self.send(&self.response(status, reason));
    }

    /// The status of the final response to an INVITE, once it is sent.
    pub fn invite_status(&self) -> Option<u16> {
        let servers = self.transactions.servers();
        servers
            .by_key
            .get(&self.key)?
            .ended
            .filter(|_| self.is_invite)
    }

    /// Notified when the caller cancels.
    pub fn cancelled(&self) -> Arc<Notify> {
        self.cancelled.clone()
    }

    pub fn tag(&self) -> &str {
        &self.tag
    }
}

async fn repeat_refusal(bytes: Vec<u8>, flow: Flow, acknowledged: Arc<Notify>) {
    let until = tokio::time::Instant::now() + GIVEN_UP;
    let mut wait = T1;
    while tokio::time::Instant::now() < until {
        tokio::select! {
            () = acknowledged.notified() => return,
            () = tokio::time::sleep(wait) => {
                flow.send(&bytes);
            }
        }
        wait = (wait * 2).min(T2);
    }
}
