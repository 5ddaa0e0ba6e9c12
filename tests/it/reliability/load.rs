//! Persistent load: bridges that repeat each message at any node until it is acknowledged, and tenants' programs
//! that write over REST. Acknowledgements are recorded in the journal.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::Instant,
};

use actix_web::rt;
use awc::{error::SendRequestError, http::Method};
use tokio::{
    sync::Mutex,
    time::{sleep, timeout},
};

use super::{
    fleet::{FUNCTION, Fleet, fresh},
    journal::{AcknowledgedCall, CreatedAgent, FinalAnswer, Journal},
};
use crate::support::{prelude::*, tenant::Tenant, tenant::text};

/// Silence after which a client tries another node.
pub const ANSWERED_WITHIN: Duration = Duration::from_secs(5);
/// Delay before a repetition.
const AGAIN_AFTER: Duration = Duration::from_millis(200);
/// One call in this many invokes a function.
const FUNCTIONS_OF: u32 = 4;
/// Maximum concurrent calls of a load; if the service is slow, no more are started.
const CALLS_AT_ONCE: usize = 3_000;
/// Maximum time for which a message is repeated. A dead node's write is taken over within its lease, and the next
/// node may die, too.
const GIVES_UP_AFTER: Duration = Duration::from_secs(400);
/// Maximum time for everything to end.
const OVER_WITHIN: Duration = Duration::from_secs(420);

/// A bridge's program. It has one socket, and goes to the next node when that fails.
pub struct LoadBridge {
    pub tenant: Rc<Tenant>,
    pub number: usize,
    addresses: Rc<[String]>,
    at: Cell<usize>,
    socket: RefCell<Option<Rc<TestBridge>>>,
    connecting: Mutex<()>,
    journal: Rc<Journal>,
    /// Disconnected from all nodes.
    cut: Cell<bool>,
}

impl LoadBridge {
    /// Its first socket is at the node with index `at`.
    pub fn new(fleet: &Fleet, tenant: usize, at: usize, journal: &Rc<Journal>) -> Rc<Self> {
        Rc::new(Self {
            tenant: fleet.tenants[tenant].clone(),
            number: tenant,
            addresses: fleet.addresses.clone(),
            at: Cell::new(at % fleet.addresses.len()),
            socket: RefCell::default(),
            connecting: Mutex::default(),
            journal: journal.clone(),
            cut: Cell::new(false),
        })
    }

    pub async fn socket(&self) -> Rc<TestBridge> {
        let _turn = self.connecting.lock().await;
        let open = self.socket.borrow().clone();
        if let Some(open) = open.filter(|socket| socket.is_open()) {
            return open;
        }
        let began = Instant::now();
        loop {
            let address = &self.addresses[self.at.get()];
            let reached = match self.cut.get() {
                true => None,
                false => TestBridge::reach(address, &self.tenant.token, ANSWERED_WITHIN).await,
            };
            if let Some(socket) = reached.map(Rc::new) {
                *self.socket.borrow_mut() = Some(socket.clone());
                return socket;
            }
            assert!(began.elapsed() < GIVES_UP_AFTER, "nobody takes a bridge");
            self.at.set((self.at.get() + 1) % self.addresses.len());
            sleep(AGAIN_AFTER).await;
        }
    }

    /// Drops a useless socket: the next message goes elsewhere.
    pub fn leave(&self, socket: &Rc<TestBridge>) {
        let mut present = self.socket.borrow_mut();
        if present
            .as_ref()
            .is_some_and(|present| Rc::ptr_eq(present, socket))
        {
            *present = None;
            self.at.set((self.at.get() + 1) % self.addresses.len());
        }
    }

    /// Disconnects the bridge, or reconnects it to a node.
    pub fn cut(&self, is_cut: bool, at: usize) {
        self.cut.set(is_cut);
        self.at.set(at % self.addresses.len());
        self.socket.borrow_mut().take();
    }

    pub fn message(&self, kind: &str, mut fields: Value) -> Value {
        fields["id"] = json!(format!("f{}", fresh()));
        fields["type"] = json!(kind);
        fields
    }

    /// The reply, or `None` if the socket closed or brought nothing for [`ANSWERED_WITHIN`]. A node that replies to
    /// other messages is alive: the reply is late.
    async fn reply(&self, socket: &TestBridge, message: &Value) -> Option<Value> {
        let mut reply = socket.begin(message);
        let began = Instant::now();
        while began.elapsed() < GIVES_UP_AFTER {
            let before = socket.replies(|_| true);
            if let Ok(reply) = timeout(ANSWERED_WITHIN, reply.arrives()).await {
                return reply;
            }
            if socket.replies(|_| true) == before {
                break;
            }
        }
        None
    }

    /// Repeats a message until it gets a final answer.
    pub async fn say(&self, message: &Value) -> Value {
        let began = Instant::now();
        let mut last = Value::Null;
        loop {
            assert!(
                began.elapsed() < GIVES_UP_AFTER,
                "never taken: {message}, at last {last}"
            );
            let socket = self.socket().await;
            let Some(reply) = self.reply(&socket, message).await else {
                Journal::count(&self.journal.broken);
                self.leave(&socket);
                continue;
            };
            let code = reply["error"]["code"].as_str().unwrap_or_default();
            if matches!(code, "busy" | "unavailable") {
                Journal::count(&self.journal.refused);
                last = reply;
                sleep(AGAIN_AFTER).await;
                continue;
            }
            self.journal.acknowledged(began);
            return reply;
        }
    }

    /// Rings and is accepted; returns the call's id.
    pub async fn ring(&self, started: Moment, talk_seconds: i64) -> String {
        let bridge_call = format!("sip-{}", fresh());
        let reply = self
            .say(&self.message(
                "call.incoming",
                json!({
                    "bridgeCallId": bridge_call, "did": self.tenant.did, "callerNumber": "+6281234567890",
                    "at": started.text(),
                }),
            ))
            .await;
        assert_eq!(reply["action"], "answer", "{reply}");
        let call = text(&reply, "callId");
        let entry = AcknowledgedCall {
            tenant: self.number,
            bridge_call,
            talk_seconds,
            answered: FinalAnswer::None,
            called: FinalAnswer::None,
            told: FinalAnswer::None,
            ended: FinalAnswer::None,
        };
        let before = self.journal.calls.borrow_mut().insert(call.clone(), entry);
        assert!(before.is_none(), "{call} is given twice");
        call
    }

    /// Sends a message about a call; returns its final answer.
    pub async fn about(&self, kind: &str, call: &str, mut fields: Value) -> FinalAnswer {
        fields["callId"] = json!(call);
        read(&self.say(&self.message(kind, fields)).await)
    }

    /// A whole call: `talk_seconds` by the bridge's times, and `lives` in real time.
    pub async fn call(&self, talk_seconds: i64, lives: Duration) {
        let call = self.open(talk_seconds).await;
        if rand::random_range(0..FUNCTIONS_OF) == 0 {
            self.call_function(&call.id).await;
        }
        sleep(lives / 2).await;
        let summary = json!({"summary": "The caller asked for the way."});
        let reply = self.about("call.transcript", &call.id, summary).await;
        self.journal.note(&call.id, |entry| entry.told = reply);
        sleep(lives / 2).await;
        self.close(&call).await;
    }

    /// The AI invokes the tenant's function; a repetition must get the same outcome.
    async fn call_function(&self, call: &str) {
        let ask = async || {
            let fields = json!({
                "callId": call, "invocationId": "first", "name": FUNCTION, "parameters": {"orderId": call},
            });
            self.say(&self.message("call.function", fields)).await
        };
        let told = ask().await;
        let reply = read(&told);
        self.journal.note(call, |entry| entry.called = reply);
        if reply == FinalAnswer::Ok {
            let outcome = told["outcome"].clone();
            let noted = (call.to_owned(), outcome.clone());
            self.journal.outcomes.borrow_mut().extend([noted]);
            let again = ask().await;
            if read(&again) == FinalAnswer::Ok {
                assert_eq!(again["outcome"], outcome, "{call} called one function");
            }
        }
    }

    /// A call that was answered `talk_seconds` ago, so that it may end now.
    pub async fn open(&self, talk_seconds: i64) -> OpenCall {
        let started = Moment::ago(talk_seconds + 10);
        let answered = started.plus(2);
        let id = self.ring(started, talk_seconds).await;
        let at = json!({"at": answered.text()});
        let reply = self.about("call.answered", &id, at).await;
        self.journal.note(&id, |entry| entry.answered = reply);
        let ends = answered.plus(talk_seconds);
        OpenCall { id, ends }
    }

    pub async fn close(&self, call: &OpenCall) {
        let at = json!({"at": call.ends.text()});
        let reply = self.about("call.hangup", &call.id, at).await;
        self.journal.note(&call.id, |entry| entry.ended = reply);
    }
}

/// An active call.
#[derive(Clone, Debug)]
pub struct OpenCall {
    pub id: String,
    ends: Moment,
}

/// Interprets an answer about a call.
pub fn read(reply: &Value) -> FinalAnswer {
    match reply["error"]["code"].as_str() {
        None if reply["ok"] == true => FinalAnswer::Ok,
        Some("invalid_transition") => FinalAnswer::Refused,
        Some("unknown_call") => FinalAnswer::Lost,
        _ => panic!("{reply}"),
    }
}

/// A tenant's program that repeats each write until it is acknowledged.
pub struct TenantWriter {
    number: usize,
    nodes: Vec<Rest>,
    at: Cell<usize>,
    answered_within: Duration,
    journal: Rc<Journal>,
}

impl TenantWriter {
    fn new(
        fleet: &Fleet,
        tenant: usize,
        answered_within: Duration,
        journal: &Rc<Journal>,
    ) -> Rc<Self> {
        let key = &fleet.tenants[tenant].key;
        let node =
            |address: &String| Rest::new(&format!("{address}/api/v1")).with("x-api-key", key);
        Rc::new(Self {
            number: tenant,
            nodes: fleet.addresses.iter().map(node).collect(),
            at: Cell::new(tenant),
            answered_within,
            journal: journal.clone(),
        })
    }

    /// Repeats a request until it is accepted. Refusals in between must be 503 with `Retry-After`.
    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
        key: &str,
    ) -> (u16, Value) {
        let began = Instant::now();
        loop {
            assert!(
                began.elapsed() < GIVES_UP_AFTER,
                "{method} {path} is never taken"
            );
            let at = self.at.get() % self.nodes.len();
            let node = self.nodes[at].clone().with("idempotency-key", key);
            let asked = node.try_send(method.clone(), path, body.clone());
            let answer = timeout(self.answered_within, asked).await;
            let Ok(Ok(answer)) = answer else {
                match answer {
                    Err(_) => Journal::count(&self.journal.slow_requests),
                    // Without a connection nothing was requested.
                    Ok(Err(SendRequestError::Connect(_))) => {
                        Journal::count(&self.journal.nobody_there)
                    }
                    Ok(broken) => {
                        let how = format!("{method} {path}: {:?}", broken.err());
                        self.journal.broken_requests.borrow_mut().push(how);
                    }
                }
                self.at.set(at + 1);
                sleep(AGAIN_AFTER).await;
                continue;
            };
            if answer.status == 408 {
                // From a paused node that had not read the request in time.
                let how = format!("{method} {path}: {}", answer.text);
                self.journal.broken_requests.borrow_mut().push(how);
                sleep(AGAIN_AFTER).await;
                continue;
            }
            let in_progress = answer.body["error"]["code"] == "idempotency_in_progress";
            if matches!(answer.status, 503 | 429) || in_progress {
                let says_when = answer.header("retry-after").is_some();
                assert!(says_when || in_progress, "no Retry-After: {answer:?}");
                Journal::count(&self.journal.refused);
                self.at.set(at + 1);
                sleep(AGAIN_AFTER).await;
                continue;
            }
            self.journal.acknowledged(began);
            return (answer.status, answer.body);
        }
    }

    /// Creates an agent. Of sixteen, one is changed, one stays, and the others are deleted.
    pub async fn write(&self) {
        let number = fresh();
        let mut name = format!("agent {number}");
        let agent = json!({"name": name, "systemPrompt": "Answer kindly."});
        let key = format!("make-{number}");
        let (status, agent) = self.ask(Method::POST, "/agents", Some(agent), &key).await;
        assert_eq!(status, 201, "{agent}");
        let id = text(&agent, "id");
        let path = format!("/agents/{id}");
        let note = |name: &str, deleted| {
            let made = CreatedAgent {
                tenant: self.number,
                name: name.to_owned(),
                deleted,
            };
            self.journal.agents.borrow_mut().insert(id.clone(), made);
        };
        note(&name, false);
        match number % 16 {
            0 => {
                name = format!("renamed {number}");
                let body = Some(json!({"name": name}));
                let (status, agent) = self.ask(Method::PATCH, &path, body, "-").await;
                if status == 200 {
                    note(&name, false);
                } else {
                    assert_eq!(status, 404, "{agent}");
                }
            }
            1 => {}
            _ => {
                let (status, agent) = self.ask(Method::DELETE, &path, None, "-").await;
                // A repetition of a delete whose answer was lost.
                assert!(matches!(status, 204 | 404), "{status} {agent}");
                note(&name, true);
            }
        }
    }
}

/// The amount of load.
#[derive(Clone, Copy, Debug)]
pub struct LoadRate {
    pub calls_per_second: u64,
    pub writes_per_second: u64,
    /// Maximum duration of a call in real time.
    pub lives: Duration,
    /// Timeout after which a writer tries another node.
    pub answered_within: Duration,
}

/// Calls and writes of all tenants until the load is ended.
pub struct FaultLoad {
    pub journal: Rc<Journal>,
    pub lines: Vec<Rc<LoadBridge>>,
    goes_on: Rc<Cell<bool>>,
    running: Rc<Cell<usize>>,
    failed: Rc<Cell<usize>>,
}

impl FaultLoad {
    pub fn begin(fleet: &Fleet, rate: LoadRate) -> Self {
        Self::beside(fleet, rate, &Journal::new())
    }

    /// A load that shares its journal with others.
    pub fn beside(fleet: &Fleet, rate: LoadRate, journal: &Rc<Journal>) -> Self {
        let tenants = 0..fleet.tenants.len();
        let lines = tenants
            .clone()
            .map(|n| LoadBridge::new(fleet, n, n, journal));
        let load = Self {
            lines: lines.collect(),
            journal: journal.clone(),
            goes_on: Rc::new(Cell::new(true)),
            running: Rc::default(),
            failed: Rc::default(),
        };
        let writers: Vec<_> = tenants
            .map(|n| TenantWriter::new(fleet, n, rate.answered_within, journal))
            .collect();
        let lines = load.lines.clone();
        load.every(rate.calls_per_second, move |number| {
            let line = lines[number % lines.len()].clone();
            let talk = i64::from(rand::random_range(1..=200));
            let lives = rate.lives.mul_f32(rand::random());
            async move { line.call(talk, lives).await }
        });
        load.every(rate.writes_per_second, move |number| {
            let writer = writers[number % writers.len()].clone();
            async move { writer.write().await }
        });
        load
    }

    fn every<F: Future<Output = ()> + 'static>(
        &self,
        per_second: u64,
        mut next: impl FnMut(usize) -> F + 'static,
    ) {
        if per_second == 0 {
            return;
        }
        let (goes_on, running) = (self.goes_on.clone(), self.running.clone());
        let failed = self.failed.clone();
        rt::spawn(async move {
            let mut ticks =
                tokio::time::interval(Duration::from_secs(1) / u32::try_from(per_second).unwrap());
            for number in 0.. {
                ticks.tick().await;
                if !goes_on.get() {
                    return;
                }
                if running.get() < CALLS_AT_ONCE {
                    running.set(running.get() + 1);
                    let (work, running, failed) = (next(number), running.clone(), failed.clone());
                    rt::spawn(async move {
                        let work = rt::spawn(work).await;
                        failed.set(failed.get() + usize::from(work.is_err()));
                        running.set(running.get() - 1);
                    });
                }
            }
        });
    }

    /// Waits for this many further acknowledgements.
    pub async fn goes_on_for(&self, acknowledgements: usize) {
        let wanted = self.journal.acknowledgements() + acknowledgements;
        dikala_testkit::within(OVER_WITHIN, "acknowledgements", async || {
            (self.journal.acknowledgements() >= wanted).then_some(())
        })
        .await;
    }

    /// Starts no new calls and waits until the active ones have ended.
    pub async fn end(self) -> Rc<Journal> {
        self.goes_on.set(false);
        dikala_testkit::within(OVER_WITHIN, "all that was begun to end", async || {
            (self.running.get() == 0).then_some(())
        })
        .await;
        assert_eq!(self.failed.get(), 0, "what panicked says above why");
        self.journal
    }
}
