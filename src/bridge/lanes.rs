//! The order of a bridge's messages: those of one call one after the other, calls beside each other. A function is started in
//! its turn and then holds up nothing, neither in its call nor in its bridge's budget.

use std::collections::{HashMap, VecDeque};

use dikala_actors::{
    bridges::Bridges,
    call::{CallError, InvokeFunction},
    registry::{Calls, Payer},
};
use dikala_entities::BridgeId;
use futures_util::{StreamExt, future::LocalBoxFuture, stream::FuturesUnordered};
use serde_json::Value;
use std::sync::Arc;

use super::{
    budget::{RING_WITHIN, ROOM_WITHIN, Room, Share},
    protocol::{self, Answer, Body, Function, Lane, Refusal, Request},
};

/// A message as it was read: one that is refused is answered in its turn too.
pub type Message = Result<Request, Refusal>;

/// A message with its number, and the room that it takes.
type Numbered = (usize, Message, Room);

/// A message and what was answered.
#[derive(Debug)]
pub struct Finished {
    /// The number that the message was given.
    pub ticket: usize,
    pub reply: Value,
    /// Kept until the reply is written.
    pub room: Room,
}

/// Carries out the messages of one connection.
pub struct Lanes {
    calls: Calls,
    bridges: Arc<Bridges>,
    share: Share,
    bridge: BridgeId,
    waiting: HashMap<Lane, VecDeque<Numbered>>,
    running: FuturesUnordered<LocalBoxFuture<'static, (Option<Lane>, Finished)>>,
}

impl Lanes {
    /// Nothing is running.
    pub fn new(calls: Calls, bridges: Arc<Bridges>, share: Share, bridge: BridgeId) -> Self {
        Self {
            calls,
            bridges,
            share,
            bridge,
            waiting: HashMap::new(),
            running: FuturesUnordered::new(),
        }
    }

    /// Whether every message is answered.
    pub fn is_idle(&self) -> bool {
        // What waits in a lane waits for one that runs.
        self.running.is_empty()
    }

    /// Takes a message in, with its room.
    pub fn accept(&mut self, ticket: usize, message: Message, room: Room) {
        let Some(lane) = lane(&message) else {
            return self.run(None, (ticket, message, room));
        };
        match self.waiting.get_mut(&lane) {
            // An entry stands for a message of that call under way.
            Some(queue) => queue.push_back((ticket, message, room)),
            None => self.start(lane, (ticket, message, room)),
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

    fn start(&mut self, lane: Lane, numbered: Numbered) {
        if is_function(&numbered.1) {
            self.run(None, numbered);
        } else {
            self.waiting.entry(lane.clone()).or_default();
            self.run(Some(lane), numbered);
        }
    }

    /// A message of the lane is done: functions next in line are started, and one other message.
    fn go_on(&mut self, lane: Lane) {
        while let Some(numbered) = self.waiting.get_mut(&lane).and_then(VecDeque::pop_front) {
            if is_function(&numbered.1) {
                self.run(None, numbered);
            } else {
                return self.run(Some(lane), numbered);
            }
        }
        self.waiting.remove(&lane);
    }

    fn run(&self, lane: Option<Lane>, (ticket, message, room): Numbered) {
        let (calls, bridges, bridge) = (self.calls.clone(), Arc::clone(&self.bridges), self.bridge);
        let share = self.share.clone();
        self.running.push(Box::pin(async move {
            let (reply, room) = match message {
                Ok(Request { id, body }) => {
                    let done = carry_out(&calls, &bridges, &share, bridge, body, room).await;
                    let reply = match done.0 {
                        Ok(answer) => protocol::reply(&id, &answer),
                        Err(error) => Refusal::from((id, error)).to_json(),
                    };
                    (reply, done.1)
                }
                Err(refusal) => (refusal.to_json(), room),
            };
            let finished = Finished {
                ticket,
                reply,
                room,
            };
            (lane, finished)
        }));
    }
}

/// For whom a call that comes in is opened.
pub fn payer(calls: &Calls, request: &Request) -> Payer {
    match &request.body {
        Body::Incoming(incoming) => calls.payer_of_number(&incoming.did),
        _ => None,
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
        Ok(request) => request.lane(),
        Err(refusal) => refusal.lane.clone(),
    }
}

/// The answer, with the room for its reply.
async fn carry_out(
    calls: &Calls,
    bridges: &Bridges,
    share: &Share,
    bridge: BridgeId,
    body: Body,
    mut room: Room,
) -> (Result<Answer, CallError>, Room) {
    let answer = match body {
        Body::Incoming(incoming) => {
            let payer = calls.payer_of_number(&incoming.did);
            match share.ring_turn(payer, &mut room, RING_WITHIN).await {
                Ok(_turn) => calls.incoming(bridge, incoming).await.map(Answer::Call),
                Err(error) => Err(error),
            }
        }
        Body::Call { call, input } => {
            let _turn = share.turn(calls.payer_of_call(call)).await;
            let reply = calls.tell(Some(bridge), call, input).await;
            reply.map(Answer::Call)
        }
        Body::Function(function) => return invoke(calls, share, bridge, function, room).await,
        Body::Heartbeat { active, at } => {
            bridges.seen(bridge);
            let ended = match active {
                Some(active) => {
                    let _turn = share.list_turn().await;
                    calls.heartbeat(bridge, &active, at).await
                }
                None => Ok(Vec::new()),
            };
            ended.map(|ended| Answer::Heartbeat { ended })
        }
    };
    (answer, room)
}

/// Steps aside while the endpoint is asked. A result for which there is no room is stored: the bridge gets it when it asks again.
async fn invoke(
    calls: &Calls,
    share: &Share,
    bridge: BridgeId,
    function: Function,
    room: Room,
) -> (Result<Answer, CallError>, Room) {
    let aside = match share.step_aside(room) {
        Ok(aside) => aside,
        Err(room) => return (Err(CallError::Busy), room),
    };
    let message = InvokeFunction {
        bridge,
        invocation_id: function.invocation_id,
        name: function.name,
        parameters: function.parameters,
        at: function.at,
    };
    let outcome = calls.invoke(function.call, message).await;
    let room = share.room_for_result(ROOM_WITHIN).await;
    drop(aside);
    match room {
        Ok(room) => (outcome.map(Answer::Function), room),
        Err(room) => (Err(CallError::Busy), room),
    }
}
