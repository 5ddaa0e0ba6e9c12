//! The order of a bridge's messages: those of one call one after the other, calls beside each other. A function is started in
//! its turn and then holds up nothing.

use std::collections::{HashMap, VecDeque};

use dikala_actors::{
    bridges::Bridges,
    call::{CallError, InvokeFunction},
    registry::Calls,
};
use dikala_entities::BridgeId;
use futures_util::{StreamExt, future::LocalBoxFuture, stream::FuturesUnordered};
use serde_json::Value;
use std::sync::Arc;

use super::protocol::{self, Answer, Body, Function, Lane, Refusal, Request};

/// A message as it was read: one that is refused is answered in its turn too.
type Message = Result<Request, Refusal>;

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
    waiting: HashMap<Lane, VecDeque<(usize, Message)>>,
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
    pub fn accept(&mut self, ticket: usize, message: Message) {
        let Some(lane) = lane(&message) else {
            return self.run(None, ticket, message);
        };
        match self.waiting.get_mut(&lane) {
            // An entry stands for a message of that call under way.
            Some(queue) => queue.push_back((ticket, message)),
            None => self.start(lane, ticket, message),
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

    fn start(&mut self, lane: Lane, ticket: usize, message: Message) {
        if is_function(&message) {
            self.run(None, ticket, message);
        } else {
            self.waiting.entry(lane.clone()).or_default();
            self.run(Some(lane), ticket, message);
        }
    }

    /// A message of the lane is done: functions next in line are started, and one other message.
    fn go_on(&mut self, lane: Lane) {
        while let Some((ticket, message)) =
            self.waiting.get_mut(&lane).and_then(VecDeque::pop_front)
        {
            if is_function(&message) {
                self.run(None, ticket, message);
            } else {
                return self.run(Some(lane), ticket, message);
            }
        }
        self.waiting.remove(&lane);
    }

    fn run(&self, lane: Option<Lane>, ticket: usize, message: Message) {
        let (calls, bridges, bridge) = (self.calls.clone(), Arc::clone(&self.bridges), self.bridge);
        self.running.push(Box::pin(async move {
            let reply = match message {
                Ok(Request { id, body }) => match carry_out(&calls, &bridges, bridge, body).await {
                    Ok(answer) => protocol::reply(&id, &answer),
                    Err(error) => Refusal::from((id, error)).to_json(),
                },
                Err(refusal) => refusal.to_json(),
            };
            (lane, Finished { ticket, reply })
        }));
    }
}

fn is_function(message: &Message) -> bool {
    matches!(
        message,
        Ok(Request {
            body: Body::Function(_),
            ..
        })
    )
}

fn lane(message: &Message) -> Option<Lane> {
    match message {
        Ok(request) => match &request.body {
            Body::Incoming(incoming) => Some(Lane::Opening(incoming.bridge_call_id.clone())),
            Body::Call { call, .. } => Some(Lane::Call(*call)),
            Body::Function(function) => Some(Lane::Call(function.call)),
            Body::Heartbeat { .. } => None,
        },
        Err(refusal) => refusal.lane.clone(),
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
