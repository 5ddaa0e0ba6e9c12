//! The order of a bridge's messages: those of one call one after the other, calls beside each other. A function is started in
//! its turn and then holds up nothing.

use std::collections::{HashMap, VecDeque};

use dikala_actors::{
    bridges::Bridges,
    call::{CallError, InvokeFunction},
    registry::Calls,
};
use dikala_entities::{BridgeId, CallId};
use futures_util::{StreamExt, future::LocalBoxFuture, stream::FuturesUnordered};
use serde_json::Value;
use std::sync::Arc;

use super::protocol::{self, Answer, Body, Function, Refusal, Request};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Lane {
    Opening(String),
    Call(CallId),
}

/// A message and what was answered.
#[derive(Debug)]
pub struct Finished {
    /// The number that the message was given.
    pub ticket: usize,
    pub reply: Value,
}

/// Carries out the messages of one connection.
pub struct Lanes {
    calls: Calls,
    bridges: Arc<Bridges>,
    bridge: BridgeId,
    waiting: HashMap<Lane, VecDeque<(usize, Request)>>,
    running: FuturesUnordered<LocalBoxFuture<'static, (Option<Lane>, Finished)>>,
}

impl Lanes {
    /// Nothing is running.
    pub fn new(calls: Calls, bridges: Arc<Bridges>, bridge: BridgeId) -> Self {
        Self {
            calls,
            bridges,
            bridge,
            waiting: HashMap::new(),
            running: FuturesUnordered::new(),
        }
    }

    /// Messages that are not answered yet.
    pub fn in_flight(&self) -> usize {
        self.running.len() + self.waiting.values().map(VecDeque::len).sum::<usize>()
    }

    /// Takes a message in.
    pub fn accept(&mut self, ticket: usize, request: Request) {
        let lane = match &request.body {
            Body::Incoming(incoming) => Lane::Opening(incoming.bridge_call_id.clone()),
            Body::Call { call, .. } => Lane::Call(*call),
            Body::Function(function) => Lane::Call(function.call),
            Body::Heartbeat { .. } => return self.run(None, ticket, request),
        };
        match self.waiting.get_mut(&lane) {
            // An entry stands for a message of that call under way.
            Some(queue) => queue.push_back((ticket, request)),
            None => self.start(lane, ticket, request),
        }
    }

    /// The next answer, in the order of their coming.
    pub async fn next(&mut self) -> Option<Finished> {
        let (lane, finished) = self.running.next().await?;
        if let Some(lane) = lane {
            self.go_on(lane);
        }
        Some(finished)
    }

    fn start(&mut self, lane: Lane, ticket: usize, request: Request) {
        if matches!(request.body, Body::Function(_)) {
            self.run(None, ticket, request);
        } else {
            self.waiting.entry(lane.clone()).or_default();
            self.run(Some(lane), ticket, request);
        }
    }

    /// A message of the lane is done: functions next in line are started, and one other message.
    fn go_on(&mut self, lane: Lane) {
        while let Some((ticket, request)) =
            self.waiting.get_mut(&lane).and_then(VecDeque::pop_front)
        {
            if matches!(request.body, Body::Function(_)) {
                self.run(None, ticket, request);
            } else {
                return self.run(Some(lane), ticket, request);
            }
        }
        self.waiting.remove(&lane);
    }

    fn run(&self, lane: Option<Lane>, ticket: usize, request: Request) {
        let (calls, bridges, bridge) = (self.calls.clone(), Arc::clone(&self.bridges), self.bridge);
        self.running.push(Box::pin(async move {
            let Request { id, body } = request;
            let reply = match carry_out(&calls, &bridges, bridge, body).await {
                Ok(answer) => protocol::reply(&id, &answer),
                Err(error) => Refusal::from((id, error)).to_json(),
            };
            (lane, Finished { ticket, reply })
        }));
    }
}

async fn carry_out(
    calls: &Calls,
    bridges: &Bridges,
    bridge: BridgeId,
    body: Body,
) -> Result<Answer, CallError> {
    match body {
        Body::Incoming(incoming) => calls.incoming(bridge, incoming).await.map(Answer::Call),
        Body::Call { call, input } => calls
            .tell(Some(bridge), call, input)
            .await
            .map(Answer::Call),
        Body::Function(Function {
            call,
            invocation_id,
            name,
            parameters,
            at,
        }) => {
            let message = InvokeFunction {
                bridge,
                invocation_id,
                name,
                parameters,
                at,
            };
            calls.invoke(call, message).await.map(Answer::Function)
        }
        Body::Heartbeat { active, at } => {
            bridges.seen(bridge);
            let ended = match active {
                Some(active) => calls.heartbeat(bridge, &active, at).await?,
                None => Vec::new(),
            };
            Ok(Answer::Heartbeat { ended })
        }
    }
}
