//! One process of the service, from its start until it is killed.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
};

use dikala_entities::{
    BridgeId, CallId, HangupInitiator, HangupReason, Millis, TenantId, TransactionType,
};
use dikala_protocol::{IncomingCall, VoiceReport};
use tokio::sync::mpsc::UnboundedReceiver;

use super::base::SharedBase;
use crate::{
    bridges::{BridgeSocket, Bridges},
    calls::{
        CallDeps, CallError, CallInput, CallMeter, CallReply,
        simulated::{NodeCallDeps, NodeCalls},
    },
    commit::{CommitHandle, simulated::SimulatedLedger},
    ledger::Credit,
    nodes::{Membership, simulated as node},
    runtime::{
        clock::Clock,
        simulated::{
            clock::{NodeClock, TrueTime},
            ids::Ids,
            tables::{Flaw, Tables},
            tasks::Tasks,
            wire::{NetworkRequest, NoAnswer, SimulatedNetwork},
        },
    },
    webhooks::simulated::{CourierServices, SimulatedCourier, SimulatedReceiver},
};

/// A message from outside to a node.
#[derive(Clone, Debug)]
pub(crate) enum NodeMessage {
    Incoming,
    Answered(CallId, Millis),
    Joined(CallId, Millis),
    HangUp(CallId, Millis, HangupReason, HangupInitiator),
    /// The calls that the bridge holds.
    Heartbeat(Vec<CallId>, Millis),
    /// A tenant's request to end the call.
    End(CallId),
    /// An operator's top-up of minutes, with a reference.
    TopUp(i64, String),
}

/// The sender of a message, and the message's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MessageSource {
    /// None: the API.
    pub(crate) bridge: Option<usize>,
    pub(crate) phone: usize,
    pub(crate) number: u64,
}

/// A node's answer.
#[derive(Clone, Debug)]
pub(crate) enum NodeAnswer {
    Said(CallReply),
    /// The calls of a heartbeat that are over.
    Over(Vec<CallId>),
    Booked,
    Not(CallError),
}

pub(crate) struct SimulatedProcess {
    pub(crate) number: u64,
    pub(crate) clock: Arc<NodeClock>,
    pub(crate) member: Membership,
    pub(crate) bridges: Arc<Bridges>,
    pub(crate) tasks: Tasks,
    pub(crate) asks: UnboundedReceiver<NetworkRequest<Tables>>,
    pub(crate) posts: UnboundedReceiver<NetworkRequest<SimulatedReceiver>>,
    pub(crate) is_ready: Rc<Cell<bool>>,
    pub(crate) answers: Rc<RefCell<Vec<(MessageSource, NodeAnswer)>>>,
    /// Each with its bridge's index.
    pub(crate) sockets: Vec<(usize, BridgeSocket)>,
    /// The process's node ids, the present one last.
    pub(crate) names: Rc<RefCell<Vec<String>>>,
    calls: Rc<NodeCalls>,
    ledger: CommitHandle,
    flaw: Option<Flaw>,
}

/// The settings of a new process.
pub(crate) struct ProcessSettings<'a> {
    pub(crate) base: &'a SharedBase,
    pub(crate) number: u64,
    pub(crate) time: TrueTime,
    pub(crate) ahead_ms: i64,
    pub(crate) quick_permille: i64,
    /// Nodes of the same machine that are known to be gone.
    pub(crate) gone: Vec<String>,
    pub(crate) flaw: Option<Flaw>,
}

impl SimulatedProcess {
    pub(crate) fn start(start: ProcessSettings<'_>) -> Self {
        let ProcessSettings { base, number, .. } = start;
        let clock = NodeClock::new(start.time, start.ahead_ms, start.quick_permille);
        let (wire, asks) = SimulatedNetwork::new();
        let (outside, posts) = SimulatedNetwork::new();
        let (tasks, ids) = (Tasks::default(), Ids::of(number));
        let member = node::member(&clock);
        let (ledger, handle) =
            SimulatedLedger::new(wire.clone(), Arc::clone(&clock), member.clone(), start.flaw);
        let bridges = Arc::new(Bridges::new(clock.clone()));
        let deps = CallDeps {
            clock: clock.clone(),
            node: member.clone(),
            ledger: handle.clone(),
            bridges: Arc::clone(&bridges),
            meter: CallMeter::default(),
            ..base.deps.clone()
        };
        let calls = NodeCalls::new(NodeCallDeps {
            deps: Arc::new(deps),
            wire: wire.clone(),
            clock: Arc::clone(&clock),
            ids,
            tasks: tasks.clone(),
            tenant: base.tenant,
            number: base.number,
            version: Arc::clone(&base.version),
            max_concurrent: Some(12),
        });
        let life = BackgroundTasks {
            calls: Rc::clone(&calls),
            office: CourierServices {
                member: member.clone(),
                wire,
                outside,
                clock: Arc::clone(&clock),
                tasks: tasks.clone(),
            },
            courier: Rc::default(),
            names: Rc::default(),
            number,
            is_ready: Rc::default(),
        };
        let (is_ready, names) = (Rc::clone(&life.is_ready), Rc::clone(&life.names));
        tasks.spawn(life.run(ledger, start.gone));
        Self {
            number,
            clock,
            member,
            bridges,
            tasks,
            asks,
            posts,
            is_ready,
            answers: Rc::default(),
            sockets: Vec::new(),
            names,
            calls,
            ledger: handle,
            flaw: start.flaw,
        }
    }

    /// True if a load balancer would choose this process.
    pub(crate) fn takes(&self) -> bool {
        self.is_ready.get() && self.member.acts()
    }

    /// Handles a message.
    pub(crate) fn receive(
        &self,
        base: &SharedBase,
        from: MessageSource,
        name: String,
        message: NodeMessage,
    ) {
        let bridge = from.bridge.map(|bridge| base.bridges[bridge]);
        // A message over a socket is a sign of life. Over HTTP, as for a duplicate, only a heartbeat is.
        let has_socket = self.sockets.iter().any(|(of, _)| Some(*of) == from.bridge);
        let is_sign = has_socket || matches!(message, NodeMessage::Heartbeat(..));
        if let Some(bridge) = bridge.filter(|_| is_sign && self.member.hears()) {
            self.bridges.seen(bridge);
        }
        let desk = MessageContext {
            calls: Rc::clone(&self.calls),
            ledger: self.ledger.clone(),
            bridge,
            tenant: base.tenant,
            name,
            now: self.clock.now(),
        };
        let answers = Rc::clone(&self.answers);
        let is_early = self.flaw == Some(Flaw::AnsweredEarly)
            && matches!(message, NodeMessage::Answered(..) | NodeMessage::HangUp(..));
        self.tasks.spawn(async move {
            if is_early {
                let done = NodeAnswer::Said(CallReply::Done);
                answers.borrow_mut().push((from, done));
            }
            let done = desk.carry_out(message).await;
            if !is_early {
                let answer = done.unwrap_or_else(NodeAnswer::Not);
                answers.borrow_mut().push((from, answer));
            }
        });
    }
}

/// The context of one message.
struct MessageContext {
    calls: Rc<NodeCalls>,
    ledger: CommitHandle,
    /// The sender of the message.
    bridge: Option<BridgeId>,
    tenant: TenantId,
    /// The bridge's name for the call.
    name: String,
    now: Millis,
}

impl MessageContext {
    async fn carry_out(&self, message: NodeMessage) -> Result<NodeAnswer, CallError> {
        let Self { calls, bridge, .. } = self;
        let input = match message {
            NodeMessage::Incoming => {
                let bridge = bridge.expect("a bridge reports calls");
                let incoming = incoming(self.name.clone(), self.now);
                return calls.incoming(bridge, incoming).await.map(NodeAnswer::Said);
            }
            NodeMessage::Heartbeat(held, at) => {
                let bridge = bridge.expect("a bridge lists calls");
                return calls
                    .heartbeat(bridge, held, at)
                    .await
                    .map(NodeAnswer::Over);
            }
            NodeMessage::TopUp(minutes, reference) => return self.book(minutes, reference).await,
            NodeMessage::Answered(call, at) => {
                let answered = CallInput::Answered {
                    at: Some(at),
                    message_id: format!("{} answered", self.name),
                };
                (call, answered)
            }
            NodeMessage::Joined(call, at) => {
                let joined = CallInput::Joined {
                    at: Some(at),
                    ai_cost_idr: None,
                };
                (call, joined)
            }
            NodeMessage::HangUp(call, at, reason, initiator) => {
                let hang_up = CallInput::HangUp {
                    at: Some(at),
                    reason,
                    initiator,
                    ai_cost_idr: None,
                    voice: VoiceReport::default(),
                };
                (call, hang_up)
            }
            NodeMessage::End(call) => {
                let wish = CallInput::RequestHangUp {
                    by: HangupInitiator::Tenant,
                    audit: None,
                };
                (call, wish)
            }
        };
        let (call, input) = input;
        calls.tell(*bridge, call, input).await.map(NodeAnswer::Said)
    }

    async fn book(&self, minutes: i64, reference: String) -> Result<NodeAnswer, CallError> {
        let credit = Credit {
            tenant: self.tenant,
            minutes,
            kind: TransactionType::Purchase,
            reference: Some(reference),
            description: None,
        };
        let booked = self.ledger.credit(credit, None, |_| None).await;
        booked.map_err(|_| CallError::Unavailable)?;
        self.calls.credited().await;
        Ok(NodeAnswer::Booked)
    }
}

fn incoming(name: String, at: Millis) -> IncomingCall {
    IncomingCall {
        bridge_call_id: name,
        called: dikala_protocol::CalledParty::Number("+622150001000".parse().expect("a number")),
        caller_number: "+6281234567890".parse().expect("a caller"),
        channel: None,
        draft: None,
        metadata: None,
        at: Some(at),
        trace: None,
    }
}

/// The background tasks of a process.
#[derive(Clone)]
struct BackgroundTasks {
    calls: Rc<NodeCalls>,
    office: CourierServices,
    courier: Rc<RefCell<Option<Rc<SimulatedCourier>>>>,
    names: Rc<RefCell<Vec<String>>>,
    number: u64,
    is_ready: Rc<Cell<bool>>,
}

impl BackgroundTasks {
    async fn run(self, ledger: SimulatedLedger, gone: Vec<String>) {
        let CourierServices {
            member,
            wire,
            clock,
            tasks,
            ..
        } = &self.office;
        while let Err(NoAnswer) = node::enter(member, wire, clock, self.next_name()).await {
            clock.sleep_ms(250).await;
        }
        let this = self.clone();
        let next_name = move || this.next_name();
        let keep = node::keep(member.clone(), wire.clone(), Arc::clone(clock), next_name);
        tasks.spawn(keep);
        let courier = Rc::clone(&self.courier);
        tasks.spawn(ledger.run(move |dispatches| {
            if let Some(courier) = &*courier.borrow() {
                courier.deliver(dispatches);
            }
        }));
        while let Err(NoAnswer) = self.calls.recover(&gone).await {
            clock.sleep_ms(250).await;
        }
        self.courier
            .replace(Some(SimulatedCourier::start(self.office.clone())));
        self.every(1_000, async |calls| {
            calls.send_bridges_away();
            Ok(())
        });
        self.every(1_000, async |calls| calls.look_at_others().await);
        self.every(1_000, async |calls| calls.exchange().await);
        self.every(1_000, async |calls| calls.store_signs().await);
        self.every(30_000, async |calls| calls.sweep().await);
        self.is_ready.set(true);
        let mut turns = member.turns();
        while turns.changed().await.is_ok() {
            self.calls.let_go_of_all();
            let next = SimulatedCourier::start(self.office.clone());
            if let Some(before) = self.courier.replace(Some(next)) {
                before.abandon();
            }
        }
    }

    fn next_name(&self) -> String {
        let mut names = self.names.borrow_mut();
        let name = format!("node{}.{}", self.number, names.len());
        names.push(name.clone());
        name
    }

    /// A failure is made up for at the next interval.
    fn every(&self, ms: i64, done: impl AsyncFn(&Rc<NodeCalls>) -> Result<(), NoAnswer> + 'static) {
        let (calls, clock) = (Rc::clone(&self.calls), Arc::clone(&self.office.clock));
        self.office.tasks.spawn(async move {
            loop {
                clock.sleep_ms(ms).await;
                let _ = done(&calls).await;
            }
        });
    }
}
